"""Stdout holds results alone, whatever a user's code prints; the directory it changes is changed back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Said

Run = Callable[..., Said]

NOISY = """
import os
print("on import")
from stepprof_lab import Step
import torch
def build(device):
    print("in build")
    os.write(1, b"from the descriptor\\n")
    model = torch.nn.Linear(2, 2)
    def step():
        print("in a step")
        return model(torch.ones(1, 2)).sum()
    return Step(step, state={"model": model})
"""


@pytest.mark.parametrize("verb", ["profile", "validate"])
def test_what_a_workload_prints_goes_to_stderr(
    stepprof: Run, scenario_file: Path, write_workload: Callable[[str], Path], verb: str
) -> None:
    path = write_workload(NOISY)
    more = ["--out", "shot"] if verb == "profile" else [path, "--replicates", "3", "--budget", "20s"]
    said = stepprof(verb, scenario_file, path, *more, "--json")
    assert said.code == 0, said.err
    json.loads(said.out)
    assert said.out.count("\n") == 1
    for text in ("on import", "in build", "from the descriptor", "in a step"):
        assert text in said.err


@pytest.mark.parametrize("where", ["build", "step"])
def test_a_workload_that_changes_the_directory_does_not_take_the_results_with_it(
    stepprof: Run, scenario_file: Path, write_workload: Callable[[str], Path], tmp_path: Path, where: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    in_build, in_step = (f"os.chdir({str(elsewhere)!r})" if where == part else "None" for part in ("build", "step"))
    path = write_workload(
        f"""
        import os
        from stepprof_lab import Step, label
        def build(device):
            {in_build}
            def step():
                with label("train"):
                    {in_step}
            return Step(step)
        """
    )
    said = stepprof("profile", scenario_file, path, "--out", "shot", "--html", "a.html")
    assert said.code == 0, said.err
    assert (tmp_path / "shot" / "trace.json.gz").exists()
    assert (tmp_path / "a.html").exists()
    assert list(elsewhere.iterdir()) == []
    assert Path.cwd() == tmp_path


def test_an_arm_that_ends_the_program_is_an_error_with_its_step(
    stepprof: Run, scenario_file: Path, workload: Path, write_workload: Callable[[str], Path]
) -> None:
    path = write_workload(
        """
        import sys
        from stepprof_lab import Step
        def build(device):
            return Step(lambda: sys.exit(0))
        """
    )
    said = stepprof("validate", scenario_file, workload, path)
    assert said.code == 2
    assert "SystemExit" in said.error


def test_a_validation_is_shown_also_where_it_cannot_be_kept(
    stepprof: Run, scenario_file: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    said = stepprof("validate", scenario_file, workload, f"{workload}:build_other", "--json")
    assert said.code == 2
    assert "No space left" in said.error
    assert json.loads(said.out)["verdict"] == "not comparable"


def test_names_that_cannot_be_used_are_refused_before_the_work(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (
        ["validate", scenario_file, workload, workload, "--out", "file/v.json"],
        ["validate", scenario_file, workload, workload, "--html", "x" * 300],
        ["read", "x" * 300],
        ["read", "."],
        ["new", "y" * 300],
        ["profile", "z" * 300, workload],
        ["profile", scenario_file, f"{workload}:{'f' * 300}"],
        ["read", "a.json", "--html", "same", "--svg", "same"],
    ):
        said = stepprof(*arguments)
        assert said.code == 2, arguments
        assert said.error
        assert said.out == ""


def test_a_name_as_long_as_names_may_be_is_written(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    stepprof("profile", scenario_file, workload, "--out", "shot")
    name = "n" * 250 + ".svg"
    assert stepprof("read", "shot/trace.json.gz", "--svg", name).code == 0
    assert (tmp_path / name).exists()


def test_ranks_that_do_not_run_are_refused(stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path) -> None:
    for ranks in ("3", "-1"):
        said = stepprof("profile", scenario_file, workload, f"--ranks={ranks}", "--out", "shot")
        assert said.code == 2
        assert ranks in said.error
    assert not (tmp_path / "shot").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to stand for a full disk")
@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--no-probe"]])
def test_a_full_stdout_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stepprof_lab", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "No space left" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes as a POSIX shell makes them")
def test_a_reader_that_goes_away_is_no_error(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    stepprof("profile", scenario_file, workload, "--out", "shot")
    command = f"set -o pipefail; {sys.executable} -m stepprof_lab read shot/trace.json.gz | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
@pytest.mark.parametrize("after", [0.3, 0.6, 1.0])
def test_ctrl_c_while_torch_is_imported_ends_the_program(
    scenario_file: Path, workload: Path, tmp_path: Path, after: float
) -> None:
    command = [sys.executable, "-m", "stepprof_lab", "profile", scenario_file, workload, "--out", "shot"]
    child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    # On a slow machine the interpreter itself may still be starting, on a fast one the work may be done.
    assert child.returncode in {130, 0, -signal.SIGINT, 1}
    assert "mistake of stepprof" not in err
    assert "more than once per process" not in err


def test_ctrl_c_while_the_command_itself_is_imported_is_one_line(tmp_path: Path) -> None:
    code = (
        "import sys; from stepprof_lab.__main__ import run\n"
        "class Cut:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Cut())\n"
        "sys.exit(run())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.strip().splitlines() == ["stepprof: interrupted; nothing half-written was left"]
