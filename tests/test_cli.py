"""The command: its verbs on good input, and one line with the documented exit code for every kind of bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab import cli, scenario
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace.model import Analysis
from tests.conftest import Said

Run = Callable[..., Said]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# --- the verbs, used as a person uses them --------------------------------------------------------------------------


def test_profile_captures_and_shows_and_read_shows_the_same(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    said = stepprof("profile", scenario_file, workload, "--device", "cpu", "--out", "shot")
    assert said.code == 0, said.err
    assert files_in(tmp_path / "shot") == ["trace.json.gz", "trace.record.json"]
    assert "Is compute waiting for data?" in said.out
    read = stepprof("read", "shot/trace.json.gz", "--json")
    analysis = json.loads(read.out)
    assert list(analysis) == list(Analysis.__struct_fields__)
    assert analysis["question"] == "Is compute waiting for data?"
    assert analysis["origin"] == "recorded"
    assert {"read_batch", "transfer", "train"} <= set(analysis["labels"])
    assert analysis["gpu"]["observed"] is False


def test_json_is_one_object_on_stdout_and_nothing_else(stepprof: Run, scenario_file: Path, workload: Path) -> None:
    said = stepprof("profile", scenario_file, workload, "--out", "shot", "--json")
    taken = json.loads(said.out)
    assert Path(taken["trace"]).exists()
    assert taken["record"]["valid"]


def test_read_writes_a_page_and_a_picture(stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path) -> None:
    stepprof("profile", scenario_file, workload, "--out", "shot")
    said = stepprof("read", "shot/trace.json.gz", "--html", "a.html", "--svg", "a.svg")
    assert said.code == 0
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")


def test_validate_says_what_two_equal_arms_are_not(stepprof: Run, scenario_file: Path, workload: Path) -> None:
    said = stepprof(
        "validate", scenario_file, workload, f"{workload}:build_same", "--replicates", "4", "--margin", "99%", "--json"
    )
    assert said.code == 0, said.err
    result = json.loads(said.out)
    assert result["verdict"] in {"equivalent", "no difference shown"}
    assert result["outputs"]["agreement"] == "bitwise"
    kept = json.loads(Path(said.err.split("raw values: ")[1].splitlines()[0]).read_text(encoding="utf-8"))
    assert kept["blocks"] == result["blocks"]


def test_new_writes_what_flags_and_a_workload_say(stepprof: Run, workload: Path, tmp_path: Path) -> None:
    flags = ["--read", "--transfer", "--forward", "--backward", "--update", "--no-model-load"]
    said = stepprof(
        *("new", "mine.toml", "--question", "Which?", "--kind", "training", *flags, "--unit", "ms/step"),
        *("--workload", workload),
    )
    assert said.code == 0, said.err
    written = scenario.load(tmp_path / "mine.toml")
    assert written.conditions.batch == 16
    assert "batch" in written.conditions.observed


def test_new_prints_what_it_wrote_as_json_and_refuses_a_wish(stepprof: Run, tmp_path: Path) -> None:
    flags = ["--kind", "inference", "--read", "--no-transfer", "--forward", "--no-model-load", "--unit", "ms/request"]
    said = stepprof("new", "mine.toml", "--question", "Is compute waiting for data?", *flags, "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["boundary"]["read"] is True
    said = stepprof("new", "other.toml", "--question", "Make it faster", *flags)
    assert said.code == 2
    assert "is a wish" in said.err
    assert not (tmp_path / "other.toml").exists()


def test_new_sees_how_many_workers_the_loader_has(stepprof: Run, tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(
        "import torch\n"
        "from stepprof_lab import Step\n"
        "def build(device):\n"
        "    batches = iter(torch.utils.data.DataLoader(list(range(64)), batch_size=8))\n"
        "    return Step(lambda: next(batches).sum(), samples=8)\n"
    )
    flags = ["--kind", "inference", "--read", "--no-transfer", "--forward", "--no-model-load", "--unit", "ms/request"]
    said = stepprof("new", "mine.toml", "--question", "Which?", *flags, "--workload", "loop.py")
    assert said.code == 0, said.err
    conditions = scenario.load(tmp_path / "mine.toml").conditions
    assert conditions.loader_workers == 0
    assert "loader_workers" in conditions.observed


def test_new_asks_at_a_terminal_and_tells_why_it_asks_again(
    stepprof: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: Iterator[str] = iter(["", "Is compute waiting for data?", "tarining", "training"])
    asked: list[str] = []

    def prompt(text: str, *, default: str = "", **_: Any) -> str:
        asked.append(text)
        return next(replies, default)

    monkeypatch.setattr("click.prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said = stepprof("new", "mine.toml")
    assert said.code == 0, said.err
    assert asked[0] == asked[1]
    assert "tarining" in said.err
    written = scenario.load(tmp_path / "mine.toml")
    assert written.question == "Is compute waiting for data?"
    assert written.unit == "ms/step"


def test_doctor_speaks_of_no_gpu_where_none_is(stepprof: Run) -> None:
    found = json.loads(stepprof("doctor", "--no-probe", "--json").out)
    if found["gpu_present"]:
        pytest.skip("this machine has a GPU: tests/hardware looks at it")
    said = stepprof("doctor", "--no-probe", "--plain")
    assert said.code == 0
    assert "no GPU was observed" in said.out
    assert stepprof("doctor", "--require", "gpu").code == 3


@pytest.mark.parametrize("verb", [[], ["read"], ["profile"], ["validate"], ["new"], ["doctor"], ["share"], ["demo"]])
def test_help_imports_neither_torch_nor_numpy(verb: list[str]) -> None:
    code = (
        f"import sys; from stepprof_lab.cli import main; code = main([*{verb!r}, '--help']); "
        "print(code, sorted({'torch', 'numpy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_reading_a_trace_imports_no_torch(stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path) -> None:
    stepprof("profile", scenario_file, workload, "--out", "shot")
    code = (
        "import sys; from stepprof_lab.cli import main; code = main(['read', 'shot/trace.json.gz', '--html', 'a']);"
        "print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 False"


# --- bad input: one line, the documented code, nothing lost ---------------------------------------------------------


def test_a_trace_name_that_is_taken_is_refused_before_any_step(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    (tmp_path / "shot").mkdir()
    (tmp_path / "shot" / "trace.json.gz").write_bytes(b"precious")
    said = stepprof("profile", scenario_file, workload, "--out", "shot")
    assert said.code == 2
    assert "exists already" in said.error
    assert (tmp_path / "shot" / "trace.json.gz").read_bytes() == b"precious"
    assert files_in(tmp_path / "shot") == ["trace.json.gz"]


def test_a_missing_output_directory_is_made(stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path) -> None:
    assert stepprof("profile", scenario_file, workload, "--out", "a/b/c").code == 0
    assert files_in(tmp_path / "a" / "b" / "c") == ["trace.json.gz", "trace.record.json"]


def test_an_output_directory_that_cannot_be_made_is_a_clear_no(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    said = stepprof("profile", scenario_file, workload, "--out", "file/below")
    assert said.code == 2
    assert "cannot be made" in said.error


@pytest.mark.parametrize("device", ["cuda", "gpu", "rocm"])
def test_a_device_that_is_not_there_exits_3(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path, device: str
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: tests/hardware looks at it")
    said = stepprof("profile", scenario_file, workload, "--device", device, "--out", "shot")
    assert said.code == 3
    assert device in said.error
    assert not (tmp_path / "shot").exists()


def test_a_workload_without_build_names_what_it_has(
    stepprof: Run, scenario_file: Path, write_workload: Callable[[str], Path], tmp_path: Path
) -> None:
    path = write_workload("def make(device): pass")
    said = stepprof("profile", scenario_file, path, "--out", "shot")
    assert said.code == 2
    assert "build" in said.error
    assert "make" in said.error
    assert not (tmp_path / "shot").exists()


IN_A_STEP = """
from stepprof_lab import Step
def build(device):
    def step():
        raise ValueError("the user's own mistake")
    return Step(step)
"""


@pytest.mark.parametrize(
    "text",
    [
        "raise ValueError('the user\\'s own mistake')",
        "def build(device):\n    raise ValueError('the user\\'s own mistake')",
        IN_A_STEP,
    ],
    ids=["on import", "in build", "in a step"],
)
def test_a_workload_that_raises_shows_its_own_traceback_under_one_line(
    stepprof: Run, scenario_file: Path, write_workload: Callable[[str], Path], tmp_path: Path, text: str
) -> None:
    said = stepprof("profile", scenario_file, write_workload(text), "--out", "shot")
    assert said.code == 2
    assert "other.py" in said.error
    assert "ValueError: the user's own mistake" in said.err.split(said.error)[1]
    assert "stepprof_lab/capture" not in said.err
    assert not (tmp_path / "shot").exists()


def test_a_loader_that_ends_early_says_how_many_steps_it_gave(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    said = stepprof("profile", scenario_file, f"{workload}:build_short", "--out", "shot")
    assert said.code == 2
    assert "9" in said.error
    assert "24" in said.error
    assert files_in(tmp_path / "shot") == []


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_in_a_step_that_never_finishes_leaves_no_half_trace(
    scenario_file: Path, write_workload: Callable[[str], Path], tmp_path: Path
) -> None:
    path = write_workload(
        """
        import pathlib, time
        from stepprof_lab import Step
        def build(device):
            def step():
                pathlib.Path("started").touch()
                time.sleep(600)
            return Step(step)
        """
    )
    command = [sys.executable, "-m", "stepprof_lab", "profile", scenario_file, path, "--out", "shot"]
    child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == cli.INTERRUPTED
    assert "interrupted" in err
    assert "Traceback" not in err
    assert files_in(tmp_path / "shot") == []


@pytest.mark.parametrize("question", ["", "   ", "?"])
def test_a_scenario_without_a_question_is_refused(
    stepprof: Run, scenario_file: Path, workload: Path, question: str
) -> None:
    text = scenario_file.read_text(encoding="utf-8")
    scenario_file.write_text(text.replace("Is compute waiting for data?", question), encoding="utf-8")
    said = stepprof("profile", scenario_file, workload)
    assert said.code == 2
    assert "question" in said.error


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"{}", b"[1, 2]", b"<html></html>", b"\x1f\x8b broken", gzip.compress(b"not json"), b"\x00" * 64],
    ids=["empty", "words", "no events", "numbers", "a page", "broken gzip", "gzip of words", "zeros"],
)
def test_a_trace_that_is_no_trace_is_one_line(stepprof: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.json").write_bytes(content)
    said = stepprof("read", "t.json")
    assert said.code == 2
    assert "t.json" in said.error
    assert "Traceback" not in said.err


def test_a_trace_that_is_not_there_is_one_line(stepprof: Run) -> None:
    said = stepprof("read", "no/such/trace.json")
    assert said.code == 2
    assert "no/such/trace.json" in said.error


def test_a_full_disk_is_one_line_and_leaves_nothing(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.link", full)
    monkeypatch.setattr("pathlib.Path.replace", full)
    said = stepprof("profile", scenario_file, workload, "--out", "shot")
    assert said.code == 2
    assert "No space left" in said.error
    monkeypatch.undo()
    assert [name for name in files_in(tmp_path / "shot") if name.endswith((".gz", ".part"))] == []


def test_two_arms_whose_outputs_differ_are_not_comparable_and_exit_4(
    stepprof: Run, scenario_file: Path, workload: Path
) -> None:
    said = stepprof("validate", scenario_file, workload, f"{workload}:build_other", "--json")
    assert said.code == 4
    assert json.loads(said.out)["verdict"] == "not comparable"
    assert "not comparable" in said.error


def test_a_page_whose_name_is_taken_is_refused_before_the_work(
    stepprof: Run, scenario_file: Path, workload: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.html").write_text("precious")
    for arguments in (
        ["profile", scenario_file, workload, "--html", "a.html"],
        ["validate", scenario_file, workload, workload, "--html", "a.html"],
    ):
        said = stepprof(*arguments)
        assert said.code == 2
        assert "exists already" in said.error
    assert (tmp_path / "a.html").read_text() == "precious"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["raed"], "read"),
        (["read"], "TRACE"),
        (["read", "a", "b"], "'a' does not exist"),
        (["validate", "s.toml", "a.py", "b.py", "--margin", "much"], "margin"),
        (["validate", "s.toml", "a.py", "b.py", "--budget", "-3s"], "budget"),
        (["validate", "s.toml", "a.py", "b.py", "--replicates", "1"], "replicates"),
        (["profile", "s.toml", "a.py", "--ranks", "first"], "ranks"),
        (["profile", "no-such.toml", "a.py"], "no-such.toml"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line(stepprof: Run, arguments: list[str], named: str) -> None:
    said = stepprof(*arguments)
    assert said.code == 2
    assert named in said.error
    assert said.out == ""


def test_a_mistake_of_our_own_is_one_line_and_no_documented_code(
    stepprof: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("our mistake")

    monkeypatch.setattr("stepprof_lab.record.read", broken)
    said = stepprof("read", "x.json")
    assert said.code == cli.BUG
    assert "our mistake" in said.error
    assert "Traceback" not in said.err
    assert "Traceback" in stepprof("read", "x.json", "--debug").err


def test_an_error_is_one_line_whatever_was_given() -> None:
    assert "\n" not in str(StepprofError("a\nb", "c\r\nd", "e"))
