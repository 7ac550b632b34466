"""Arms that misbehave, through the command: one line that says why, the documented exit code, raw values kept."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab import devices

Run = Callable[..., Any]

ARMS = """
import math, random
import numpy as np
from stepprof_lab import Step

def learner(wrong=lambda number, weight, loss: loss, state=True):
    weight, ran = np.array([random.random(), 1.0]), 0
    def step():
        nonlocal ran
        ran += 1
        weight[:] = weight * 0.9999
        return wrong(ran, weight, float(weight[0]))
    return Step(step, state={"weight": weight} if state else {}, samples=8)

def good(device):
    return learner()

"""

LATE = 450
"""More steps than any warm-up or comparison of outputs does."""


@pytest.fixture
def judge(stepprof: Run, scenario_file: Path, tmp_path: Path) -> Run:
    """Compare ``before`` and ``after`` of a file that has the arms above and what a test adds."""

    def run(text: str, *more: str, before: str = "good", after: str = "bad") -> Any:
        file = tmp_path / "arms.py"
        file.write_text(ARMS + textwrap.dedent(text), encoding="utf-8")
        options = ["--replicates", "3", "--budget", "60s", "--device", "cpu", "--json"]
        return stepprof("validate", scenario_file, f"{file}:{before}", f"{file}:{after}", *options, *more)

    return run


def result(said: Any) -> dict[str, Any]:
    """What was printed, which is also what was kept."""
    printed: dict[str, Any] = json.loads(said.out)
    kept = json.loads(Path(said.err.split("raw values: ")[1].splitlines()[0]).read_text(encoding="utf-8"))
    assert kept["blocks"] == printed["blocks"]
    assert kept["reasons"] == printed["reasons"]
    return printed


# Not comparable: exit 4 -----------------------------------------------------------------------------------------

SHARES = """
    weight = np.ones(2)
    def bad(device):
        def step():
            weight[:] = weight * 0.9999
            return float(weight[0])
        return Step(step, state={"weight": weight}, samples=8)
    """
SEEDS = """
    def draws(wrong=lambda number: None):
        weight, ran = np.array([random.random()]), 0
        def step():
            nonlocal ran
            ran += 1
            wrong(ran)
            weight[:] = weight * 0.99 + random.random()
            return float(weight[0])
        return Step(step, state={"weight": weight}, samples=8)
    def honest(device):
        return draws()
    def bad(device):
        return draws(lambda number: random.seed(5))
    """
DROPOUT = """
    import torch
    def classifier(share):
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(share))
        x = torch.randn(16, 8)
        def step():
            return model(x).sum().detach()
        return Step(step, state={"model": model}, samples=16)
    def honest(device):
        return classifier(0.0)
    def bad(device):
        return classifier(0.5)
    """
NOT_COMPARABLE = {
    "share their state": (SHARES, "bad", "the arms share their state (weight): a step of one changes the other"),
    "change the global random state": (
        SEEDS,
        "honest",
        r"in step 1 the returned value: .*the arms do not draw the same random numbers \(Python\): look for dropout",
    ),
    "differ only in dropout": (
        DROPOUT,
        "honest",
        r"in step 1 the returned value: .*the arms do not draw the same random numbers \(torch\): look for dropout",
    ),
    "return nothing": (
        """
        def bad(device):
            return learner(lambda *_: None, state=False)
        """,
        "bad",
        "there is nothing to compare: the steps return nothing and have no state",
    ),
    "one returns nothing": (
        """
        def bad(device):
            return learner(lambda *_: None)
        """,
        "good",
        "in step 1 the returned value",
    ),
    "NaN in both": (
        """
        def bad(device):
            return learner(lambda number, weight, loss: math.nan if number > 2 else loss)
        """,
        "bad",
        "in step 3 the returned value is NaN in both arms: equal NaN prove nothing",
    ),
}


@pytest.mark.parametrize(("text", "before", "told"), NOT_COMPARABLE.values(), ids=NOT_COMPARABLE.keys())
def test_arms_that_cannot_be_compared_are_exit_4_with_the_reason(judge: Run, text: str, before: str, told: str) -> None:
    said = judge(text, before=before)
    assert said.code == 4
    found = result(said)
    assert found["verdict"] == "not comparable"
    assert (found["ratio"], found["interval"]) == (None, None)
    assert re.search(told if ".*" in told else re.escape(told), found["reasons"][0])
    assert found["reasons"][0][:60] in said.error


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("math.nan if number > LATE else loss", "holds NaN in arm after alone"),
        ("0.5 if number > LATE else loss", "differ after"),
    ],
    ids=["NaN", "stale"],
)
def test_an_arm_that_goes_wrong_while_timed_keeps_what_was_timed(judge: Run, wrong: str, told: str) -> None:
    said = judge(
        f"""
        LATE = {LATE}
        def bad(device):
            return learner(lambda number, weight, loss: {wrong})
        """
    )
    assert said.code == 4
    found = result(said)
    assert told in found["reasons"][0]
    assert found["ratio"] is None
    assert {block["arm"] for block in found["blocks"]} == {"before", "after"}
    assert all(block["replicate"] == 0 for block in found["blocks"])


def test_a_seed_inside_a_step_does_not_reach_the_other_arm(judge: Run) -> None:
    """Each arm has its own random numbers in its turns: what one seeds, the other does not draw."""
    said = judge(SEEDS, before="bad", after="bad")
    assert said.code == 0, said.err
    found = result(said)
    assert found["outputs"]["agreement"] == "bitwise"
    assert found["outputs"]["after_timed_steps"]["agreement"] == "bitwise"


def test_arms_that_agree_and_draw_differently_are_told(judge: Run) -> None:
    said = judge(
        """
        def bad(device):
            return learner(lambda number, weight, loss: (random.random(), loss)[1])
        """
    )
    assert said.code == 0, said.err
    assert any("the arms do not draw the same random numbers (Python)" in one for one in result(said)["reasons"])


# Cannot be used: exit 2 -----------------------------------------------------------------------------------------

UNUSABLE = {
    "raise in step 37": (
        """
        def stumble(number):
            if number == 37:
                raise ZeroDivisionError("no batch\\nleft")
        def bad(device):
            return learner(lambda number, weight, loss: (stumble(number), loss)[1])
        """,
        "arm after, step 37 raised ZeroDivisionError: no batch in ",
    ),
    "loader ends": (
        """
        def bad(device):
            batches = iter(range(30))
            return learner(lambda number, weight, loss: (next(batches), loss)[1])
        """,
        "arm after gave 30 steps in the comparison of outputs and then its loader ended",
    ),
    "ends the program": (
        """
        def bad(device):
            return learner(lambda number, weight, loss: exit(3) if number == 2 else loss)
        """,
        "arm after, step 2 raised SystemExit: 3",
    ),
    "build raises": (
        """
        def bad(device):
            raise OSError("no such data")
        """,
        "OSError: no such data",
    ),
    "build returns no step": ("def bad(device):\n    return learner\n", "expected a Step"),
}


@pytest.mark.parametrize(("text", "told"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_arms_that_cannot_be_used_are_exit_2_with_the_step(judge: Run, text: str, told: str) -> None:
    said = judge(text)
    assert said.code == 2
    assert told in said.error
    assert said.out == ""


def test_a_budget_too_small_says_what_it_would_take(judge: Run) -> None:
    text = "def bad(device):\n    return learner()\n"
    said = judge(text, "--budget", "0.01s")
    assert said.code == 2
    assert re.search(
        r"arms whose comparison takes about \d+ s at the least with 3 replicates; .*allow \d+ s", said.error
    )


def test_several_ranks_are_refused_in_one_line(judge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = judge("def bad(device):\n    return learner()\n")
    assert said.code == 2
    assert "one of 2 processes (WORLD_SIZE=2)" in said.error
    assert "start it without torchrun" in said.error


# What was measured until then -----------------------------------------------------------------------------------

RAISES_LATE = f"""
    def bad(device, built=[0]):
        built[0] += 1
        instance = built[0]
        def wrong(number, weight, loss):
            if instance == 5 and number == {LATE}:  # after the rehearsal, the outputs and two replicates
                raise ConnectionError("the storage is gone")
            return loss
        return learner(wrong)
    """


def kept_so_far(directory: Path) -> dict[str, Any]:
    """The one file of a run that did not come to its end."""
    (file,) = directory.rglob("*.partial.json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_an_arm_that_raises_in_the_third_replicate_leaves_the_first_two(judge: Run, tmp_path: Path) -> None:
    said = judge(RAISES_LATE)
    assert said.code == 2
    assert f"arm after, step {LATE} raised ConnectionError: the storage is gone in replicate 2" in said.error
    kept = kept_so_far(tmp_path)
    assert {0, 1} <= {block["replicate"] for block in kept["blocks"]}
    assert all(value > 0 for block in kept["blocks"] for value in block["steps_ms"])


def test_a_device_that_disappears_is_exit_3_and_leaves_what_was_measured(
    judge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in: the processor, whose waiting fails from some moment on as a lost GPU's does."""
    waits = 0

    def lost(_device: devices.Device) -> None:
        nonlocal waits
        waits += 1
        if any('"replicates_done":1' in file.read_text() for file in tmp_path.rglob("*.partial.json")):
            raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr(devices.Device, "synchronize", lost)
    said = judge("def bad(device):\n    return learner()\n")
    assert said.code == 3
    assert "CUDA error: unspecified launch failure" in said.error
    assert waits > 1
    assert {block["replicate"] for block in kept_so_far(tmp_path)["blocks"]} == {0}
