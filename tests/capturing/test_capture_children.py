"""What can crash or has to be killed, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="a capture needs torch")

PREAMBLE = """
import sys, threading, time
from pathlib import Path
import torch
from stepprof_lab.capturing import capture, profile_workload
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step, label
from stepprof_lab.scenario import inline

OUT = Path("out")
question = inline("q?", boundary="read transfer forward backward update", unit="ms/step")
made = capture(question, OUT / "t.json.gz", device="cpu", begin=1)

def body():
    with label("train"):
        torch.ones(8, 8) @ torch.ones(8, 8)
"""


def start(tmp_path: Path, text: str) -> subprocess.Popen[str]:
    (tmp_path / "child.py").write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, "child.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    return child.returncode, out, err


def left(tmp_path: Path) -> list[str]:
    return sorted(entry.name for entry in (tmp_path / "out").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["loop", "workload"])
@pytest.mark.parametrize("turn", [0, 3, 4])
def test_ctrl_c_in_a_step_leaves_nothing(form: str, turn: int, tmp_path: Path) -> None:
    if os.name == "nt":
        pytest.skip("an interrupt is sent in another way on Windows")
    run = {
        "loop": """
        for step in made:
            wait(step)
        """,
        "workload": """
        steps = iter(range(1000))
        Path("w.py").write_text("import __main__\\ndef build(device): return __main__.Step(__main__.turn)\\n")
        def turn():
            wait(next(steps))
        profile_workload(question, "w.py", device="cpu", out=OUT, approach_limit_s=0.0)
        """,
    }[form]
    child = start(
        tmp_path,
        f"""
OUT.mkdir()
def wait(step):
    body()
    if step == {turn}:
        print("here", flush=True)
        while True:
            time.sleep(0.01)
"""
        + textwrap.dedent(run),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    code, _, err = finish(child)
    assert "KeyboardInterrupt" in err
    assert code in (-signal.SIGINT, 130, 1)
    assert left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [
        # Ends our session from outside torch's Python: nothing that Python can forbid.
        "torch.autograd._disable_profiler()",
        # Another one in another thread; torch crashes when the first one is stopped.
        "thread = threading.Thread(target=other); thread.start(); thread.join(); raise SystemExit(said[0])",
        "other(); raise SystemExit(said[0])",
    ],
    ids=["ended by other code", "in another thread", "in the same thread"],
)
def test_a_second_profiler_is_one_line_and_never_a_crash(ending: str, tmp_path: Path) -> None:
    child = start(
        tmp_path,
        f"""
said = []
def other():
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            body()
    except StepprofError as error:
        said.append(str(error))

try:
    for step in made:
        body()
        if step == 3:
            {ending}
except StepprofError as error:
    sys.exit(str(error))
""",
    )
    code, _, err = finish(child)
    assert code == 1, err
    assert "no other profiler" in err
    assert left(tmp_path) == []


@pytest.mark.slow
def test_a_capture_that_nobody_ends_does_no_harm_at_exit(tmp_path: Path) -> None:
    child = start(
        tmp_path,
        """
made.start()
for _ in range(4):
    body()
    made.step()
print("end")
""",
    )
    code, out, err = finish(child)
    assert (code, out) == (0, "end\n")
    assert "no capture: the loop ended after 4 of 5 steps" in err
    assert left(tmp_path) == ["t.rejected.json.gz", "t.rejected.record.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "ending"),
    [
        ("held", "raise KeyboardInterrupt"),
        ("held", "sys.exit(7)"),
        ("by hand", "raise KeyboardInterrupt"),
        ("by hand", "raise ValueError"),
    ],
)
def test_an_error_that_ends_the_program_leaves_nothing_at_exit(form: str, ending: str, tmp_path: Path) -> None:
    run = {
        "held": "loop = iter(made)\nfor step in loop:\n    body()\n    if step == 3:\n        " + ending,
        "by hand": "made.start()\nfor step in range(9):\n    body()\n    if step == 4:\n        "
        + ending
        + "\n    made.step()",
    }[form]
    code, _, _ = finish(start(tmp_path, run))
    assert code != 0
    assert left(tmp_path) == []


def test_reading_a_record_and_naming_a_capture_import_no_torch() -> None:
    text = (
        "import sys, stepprof_lab.record, stepprof_lab.capturing, stepprof_lab.workload; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
