"""What the README shows is what happens: its code runs, its commands exist, its demo output is the command's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.cli import stepprof

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]


def a_loop() -> dict[str, Any]:
    """What the README's snippets take for granted."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(8, 4)
    return {
        "loader": DataLoader(TensorDataset(torch.randn(4000, 8), torch.randint(4, (4000,))), batch_size=16),
        "device": "cpu",
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss_fn": torch.nn.CrossEntropyLoss(),
    }


def test_the_loop_that_exists_is_captured_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[0], "README.md", "exec"), a_loop())
    assert (tmp_path / "runs" / "first.json.gz").exists()
    assert (tmp_path / "runs" / "first.record.json").exists()


def test_a_trainer_that_owns_the_loop_is_captured_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = a_loop()

    class Trainer:
        def fit(self, on_step_end: Any) -> None:
            from stepprof_lab import label

            for x, y in names["loader"]:
                with label("train"):
                    names["loss_fn"](names["model"](x), y).backward()
                on_step_end()

    exec(compile("from stepprof_lab import capture\n" + PYTHON[1], "README.md", "exec"), {"trainer": Trainer()})
    assert (tmp_path / "runs" / "first.json.gz").exists()


def test_the_workload_file_as_shown_is_python() -> None:
    compile(PYTHON[2], "README.md", "exec")


def test_every_command_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"`?stepprof (\w+)", README)) - {"is"}
    assert named
    assert named <= set(stepprof.commands)


def test_every_file_that_the_readme_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def lines_of(text: str) -> list[str]:
    """The heads and the names of the facts, without values (they differ from run to run) and remarks on the load."""
    said = [line for line in text.splitlines() if re.match(r" {0,2}\S", line)]
    names = [re.split(r" {2,}", line.strip())[0] for line in said]
    return [name for name in names if name != "But"]


def without_more_findings(said: list[str]) -> list[str]:
    """The first finding alone: on a loaded machine the two active steps may also be called unsteady."""
    first = said.index("Finding")
    more = [n for n, name in enumerate(said) if name == "Finding" and n > first]
    return said[: more[0]] + said[more[-1] + 5 :] if more else said


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = README.split("<!-- demo:")[1].split("```\n")[1]
    done = subprocess.run(
        [sys.executable, "-m", "stepprof_lab", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert without_more_findings(lines_of(done.stdout)) == lines_of(shown)
    assert "equal bit by bit" in done.stdout
    (page,) = (tmp_path / "runs").glob("*/report.html")
    assert "input-wait" in page.read_text(encoding="utf-8")
