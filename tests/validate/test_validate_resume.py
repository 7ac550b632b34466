"""A run that is interrupted goes on where it stopped: in a world with its own clock, and as a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import compare, resume, verdict_from
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.resume import Partial
from tests.conftest import Said

Ask = Callable[..., Scenario]
Compare = Callable[..., Validation]
Run = Callable[..., Said]


class Bomb:
    """An arm that raises some steps after it was lit: once, and never again."""

    def __init__(self, build: Callable[[str], Step]) -> None:
        self.inner = build
        self.steps: int | None = None
        self.error: BaseException = KeyboardInterrupt()

    def light(self, steps: int) -> Callable[[str, int, int], None]:
        """Progress that lights it where the third replicate begins."""

        def progress(what: str, done: int, _total: int) -> None:
            if what == "timing" and done == 2:
                self.steps = steps

        return progress

    def build(self, device: str) -> Step:
        step = self.inner(device)

        def run() -> Any:
            if self.steps is not None:
                self.steps -= 1
                if self.steps < 0:
                    self.steps = None
                    raise self.error
            return step.run()

        return Step(run, state=step.state, samples=step.samples)


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Ask) -> Compare:
    def run(before: Any, after: Any, scenario: Scenario | None = None, **more: Any) -> Validation:
        options = {"device": cpu, "clock": world.clock, "meter": meter, "replicates": 4} | more
        return compare(before, after, scenario or ask(), **options)

    return run


@pytest.fixture
def cut(
    world: Any, judge: Compare, ask: Ask, tmp_path: Path
) -> Callable[..., tuple[Callable[[str], Step], Bomb, Path]]:
    """Two arms of a run that was cut in its third replicate, and the file that it left."""

    def run(error: BaseException | None = None, **more: Any) -> tuple[Callable[[str], Step], Bomb, Path]:
        before, bomb = world.arm(2.0), Bomb(world.arm(1.0))
        bomb.error = error or KeyboardInterrupt()
        partial = tmp_path / "a.partial.json"
        steps = 20 if more.get("scenario", ask()).boundary.read else 100
        with pytest.raises(BaseException):  # noqa: B017 - the caller says which
            judge(before, bomb.build, partial=partial, progress=bomb.light(steps), **more)
        return before, bomb, partial

    return run


def read(path: Path) -> Partial:
    return msgspec.json.decode(path.read_bytes(), type=Partial)


@pytest.mark.parametrize("reads", [False, True])
def test_a_run_that_was_cut_goes_on_with_the_same_plan(
    world: Any, judge: Compare, ask: Ask, cut: Any, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", world.clock)  # two sessions are put in order by the date
    before, bomb, partial = cut(scenario=ask(read=reads))
    left = read(partial)
    assert left.replicates_done == 2
    assert left.stopped == "interrupted"
    finished = [block for block in left.blocks if block.replicate < 2]
    whole = judge(world.arm(2.0), Bomb(world.arm(1.0)).build, ask(read=reads))
    found = judge(before, bomb.build, ask(read=reads), resumed=partial)
    assert found.blocks[: len(finished)] == finished
    assert [(one.replicate, one.pair, one.arm, one.steps, one.order) for one in found.blocks] == [
        (one.replicate, one.pair, one.arm, one.steps, one.order) for one in whole.blocks
    ]
    assert found.verdict == whole.verdict == "faster"
    assert len(found.replicate_ratios) == 4
    assert verdict_from(found.blocks, found.design, found.margin).ratio == found.ratio
    assert [(one.replicate, one.arm) for one in found.warm_up] == [(one.replicate, one.arm) for one in whole.warm_up]
    assert found.outputs["after_timed_steps"]["agreement"] == "bitwise"
    started = [block.started_s for block in found.blocks]
    assert started == sorted(started)  # type: ignore[type-var]


def test_the_result_says_that_it_was_resumed_and_keeps_what_was_cut(judge: Compare, cut: Any) -> None:
    before, bomb, partial = cut()
    cut_blocks = [block for block in read(partial).blocks if block.replicate == 2]
    assert cut_blocks
    found = judge(before, bomb.build, resumed=partial)
    first, second = found.sessions
    assert (first.ended, first.from_replicate, first.cut_blocks) == ("interrupted", 0, cut_blocks)
    assert (second.ended, second.from_replicate, second.cut_blocks) == (None, 2, [])
    assert first.began_at.endswith("+00:00")
    assert not {block.started_s for block in cut_blocks} & {block.started_s for block in found.blocks}


@pytest.mark.slow
def test_a_run_can_be_cut_twice(judge: Compare, cut: Any) -> None:
    before, bomb, partial = cut()
    bomb.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        judge(before, bomb.build, resumed=partial, progress=bomb.light(120))
    found = judge(before, bomb.build, resumed=partial)
    assert [one.ended for one in found.sessions] == ["interrupted", "interrupted", None]
    assert len(found.replicate_ratios) == 4


def test_an_arm_that_raises_leaves_its_raw_values(cut: Any) -> None:
    *_, partial = cut(ValueError("the disk is gone"))
    left = read(partial)
    assert left.stopped is not None
    assert "raised ValueError: the disk is gone in replicate 2" in left.stopped
    assert left.replicates_done == 2
    assert [block.order for block in left.blocks] == list(range(len(left.blocks)))


def test_a_loader_that_ends_leaves_its_raw_values(cut: Any) -> None:
    *_, partial = cut(StopIteration())
    assert "then its loader ended" in (read(partial).stopped or "")


def test_a_device_that_disappears_is_not_available_and_leaves_its_raw_values(
    world: Any, meter: Any, ask: Ask, tmp_path: Path
) -> None:
    device = world.queue_device()
    waits = 0
    real = device.synchronize

    def synchronize() -> None:
        nonlocal waits
        waits += 1
        if lost:
            raise RuntimeError("CUDA error: unspecified launch failure. Compile with TORCH_USE_CUDA_DSA.")
        real()

    lost: list[int] = []
    device.synchronize = synchronize
    partial = tmp_path / "a.partial.json"

    def progress(what: str, done: int, _total: int) -> None:
        if what == "timing" and done == 2:
            lost.append(1)

    with pytest.raises(NotAvailable, match="failed while it was timed") as told:
        compare(
            world.arm(2.0),
            world.arm(1.0),
            ask(),
            device=device,
            clock=world.clock,
            meter=meter,
            replicates=4,
            partial=partial,
            progress=progress,
        )
    assert told.value.exit_code == 3
    assert read(partial).replicates_done == 2
    assert waits


def test_what_fails_while_tidying_up_does_not_hide_why_it_stopped() -> None:
    from stepprof_lab.validate.lost import first_failure_told

    with pytest.raises(StepprofError, match="the first"), first_failure_told():
        try:
            raise StepprofError("the first", "none", "look")
        finally:
            raise RuntimeError("a lost device has no random state")
    with pytest.raises(RuntimeError, match="alone"), first_failure_told():
        raise RuntimeError("alone")


@pytest.mark.slow
def test_a_calibration_that_was_cut_goes_on_too(
    world: Any, judge: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepprof_lab.validate.calibrate.MOST_TRIALS", 5)
    before, after, partial = world.arm(2.0), world.arm(1.0), tmp_path / "a.partial.json"
    asked = {"calibrate_s": 1000.0}

    def stop(what: str, done: int, _total: int) -> None:
        if what.startswith("calibration") and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(before, after, partial=partial, progress=stop, **asked)
    left = read(partial)
    assert (left.replicates_done, len(left.trials)) == (4, 3)
    found = judge(before, after, resumed=partial, **asked)
    assert found.calibration is not None
    assert found.calibration.planned == left.trials_planned == len(found.calibration.trials)
    assert found.calibration.trials[:3] == left.trials


# What may not differ -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"replicates": 5}, "options are not the same (replicates: 4 and 5)"),
        ({"margin": 0.05}, "options are not the same (margin: 0.01 and 0.05)"),
    ],
)
def test_other_options_are_refused(judge: Compare, cut: Any, more: Any, told: str) -> None:
    before, bomb, partial = cut()
    with pytest.raises(StepprofError) as error:
        judge(before, bomb.build, resumed=partial, **more)
    assert told in str(error.value)
    assert read(partial).replicates_done == 2


def test_another_scenario_is_refused(judge: Compare, ask: Ask, cut: Any) -> None:
    before, bomb, partial = cut()
    with pytest.raises(StepprofError, match=r"scenario is not the same \(seed: 3 and 4\)"):
        judge(before, bomb.build, ask(seed=4), resumed=partial)


def edited(partial: Path, *keys: str, value: Any) -> None:
    """Change one value of a partial file."""
    whole = json.loads(partial.read_bytes())
    place = whole
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    partial.write_text(json.dumps(whole), encoding="utf-8")


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("asked", "environment", "torch"), "1.0", "machine is not the same (torch: 1.0 and"),
        (("asked", "environment", "cpu"), "a 486", "machine is not the same (cpu: a 486 and"),
        (("asked", "environment", "device"), "a GPU", "machine is not the same (device: a GPU and"),
        (("asked", "arms", "after", "sha256"), "0" * 64, "arms are not the same (after.sha256: 0000"),
    ],
)
def test_another_machine_torch_device_or_arm_is_refused(
    judge: Compare, cut: Any, keys: tuple[str, ...], value: str, told: str
) -> None:
    before, bomb, partial = cut()
    edited(partial, *keys, value=value)
    with pytest.raises(StepprofError) as error:
        judge(before, bomb.build, resumed=partial)
    assert told in str(error.value)
    assert error.value.exit_code == 2


def test_arms_that_answer_otherwise_now_are_refused(world: Any, judge: Compare, tmp_path: Path) -> None:
    answers = [1.0]
    before = world.arm(2.0, answer=lambda _n, loss: loss * answers[0])
    bomb, partial = Bomb(world.arm(1.0, answer=lambda _n, loss: loss * answers[0])), tmp_path / "a.partial.json"
    with pytest.raises(KeyboardInterrupt):
        judge(before, bomb.build, partial=partial, progress=bomb.light(100))
    answers[0] = 2.0
    with pytest.raises(StepprofError, match="answered otherwise when it began: the value that step 1 returned"):
        judge(before, bomb.build, resumed=partial)


@pytest.mark.parametrize("text", ["", "{", '{"partial": false}', "[]", '{"partial": true}'])
def test_a_file_that_is_no_partial_one_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.partial.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StepprofError, match="no run to go on with"):
        resume.load(path)
    with pytest.raises(StepprofError, match="cannot be read"):
        resume.load(tmp_path / "none.partial.json")


# Writing -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_file_is_written_seldom_enough(
    world: Any, judge: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk on which a write takes as long as a hundred replicates is written to once after the first."""
    now, written = [0.0], []

    def slow(path: Path, data: bytes, _what: str) -> None:
        written.append(len(data))
        now[0] += 10.0
        path.write_bytes(data)

    def tick(what: str, _done: int, _total: int) -> None:
        now[0] += 10.0 if what == "timing" else 0.0

    monkeypatch.setattr(resume, "write_anew", slow)
    monkeypatch.setattr("stepprof_lab.validate.resume.time.perf_counter", lambda: now[0])
    judge(world.arm(2.0), world.arm(1.0), replicates=20, partial=tmp_path / "a.partial.json", progress=tick)
    assert len(written) == 1


def test_names_of_the_two_files() -> None:
    assert resume.beside(Path("runs/validation.json")) == Path("runs/validation.partial.json")
    assert resume.result_of(Path("runs/validation.partial.json")) == Path("runs/validation.json")
    assert resume.result_of(resume.beside(Path("a.b"))) == Path("a.b.json")


# The command ---------------------------------------------------------------------------------------------------

KILLED = """
import os, pathlib, signal, time
import numpy as np
from stepprof_lab import Step

built = 0

def make(ms):
    global built
    built += 1
    mine, done, weight = built, 0, np.zeros(3)
    def step():
        nonlocal done
        done += 1
        flag = pathlib.Path(__file__).with_name("signal.txt")
        if mine == 8 and done == 60 and flag.exists():
            number = int(flag.read_text())
            flag.unlink()
            os.kill(os.getpid(), number)
        end = time.perf_counter() + ms / 1e3
        while time.perf_counter() < end:
            pass
        weight[:] += 1
        return float(weight[0])
    return Step(step, state={"weight": weight}, samples=1)

def build(device):
    return make(2.0)

def build_fast(device):
    return make(1.0)
"""


def shell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepprof_lab", "validate", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_process_that_is_stopped_goes_on(
    scenario_file: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    (tmp_path / "arms.py").write_text(KILLED, encoding="utf-8")
    (tmp_path / "signal.txt").write_text(str(int(number)), encoding="utf-8")
    arms = [scenario_file.name, "arms.py", "arms.py:build_fast"]
    first = shell(tmp_path, *arms, "--replicates", "4", "--out", "a.json", "--device", "cpu")
    assert first.returncode == code, first.stderr
    partial = tmp_path / "a.partial.json"
    left = read(partial)
    assert left.replicates_done >= 1
    assert not (tmp_path / "a.json").exists()
    assert "Traceback" not in first.stderr
    if number != signal.SIGKILL:
        assert "measured so far: a.partial.json" in first.stderr
        named = next(line for line in first.stderr.splitlines() if line.startswith("go on with: "))
        assert named.endswith("arms.py:build_fast --device cpu --resume a.partial.json")
    second = shell(tmp_path, *arms, "--device", "cpu", "--resume", "a.partial.json", "--json")
    assert second.returncode == 0, second.stderr
    found = json.loads(second.stdout)
    assert found["verdict"] == "faster"
    assert len(found["replicate_ratios"]) == 4
    assert [one["ended"] for one in found["sessions"]] == [
        "it was killed" if number == signal.SIGKILL else "interrupted",
        None,
    ]
    assert not partial.exists()
    assert (tmp_path / "a.json").exists()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


STEP_37 = """
from stepprof_lab import Step
import numpy as np

def build(device):
    weight = np.zeros(3)
    def step():
        weight[:] += 1
        return float(weight[0])
    return Step(step, state={"weight": weight}, samples=1)

built = 0

def build_late(device):
    global built
    built += 1
    mine, inner, done = built, build(device), 0
    def step():
        nonlocal done
        done += 1
        if mine > 2 and done == 37:
            raise ValueError("late")
        return inner.run()
    return Step(step, state=inner.state, samples=1)
"""


def test_an_arm_that_raises_late_names_what_was_kept(
    stepprof: Run, scenario_file: Path, write_workload: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_workload(STEP_37, "late.py")
    said = stepprof("validate", scenario_file, path, f"{path}:build_late", "--replicates", "2", "--out", "a.json")
    assert said.code == 2
    assert "step 37 raised ValueError: late" in said.error
    assert "measured so far: a.partial.json" in said.err
    assert read(tmp_path / "a.partial.json").stopped is not None
    again = stepprof("validate", scenario_file, path, f"{path}:build_late", "--out", "a.json")
    assert again.code == 2
    assert "go on with it (--resume" in again.error
    path.write_text(path.read_text(encoding="utf-8") + "\n# mended\n", encoding="utf-8")
    other = stepprof("validate", scenario_file, path, f"{path}:build_late", "--resume", "a.partial.json")
    assert other.code == 2
    assert "arms are not the same (before.sha256" in other.error
    with_margin = stepprof("validate", scenario_file, path, path, "--resume", "a.partial.json", "--margin", "2%")
    assert with_margin.code == 2
    assert "--margin with --resume" in with_margin.error
    shown = stepprof("validate", "--from", "a.partial.json")
    assert shown.code == 2
    assert "not finished" in shown.error
