"""One label by itself: the right time by each clock, apart from the whole step, and what it means for the whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stepprof_lab import labels
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step, label
from stepprof_lab.report.html import page
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.spans import Spans, listening

Parts = Sequence[tuple[str | None, float]]
"""What a step does in turn: the label (None: none) and its time in ms."""

Judge = Callable[..., Validation]


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Judge:
    def run(before: Any, after: Any, region: str | None = "forward", **more: Any) -> Validation:
        options = {"device": cpu, "clock": world.clock, "meter": meter, "replicates": 3} | more
        return compare(before, after, options.pop("scenario", ask()), region=region, **options)

    return run


def arm(world: Any, parts: Parts | Callable[[int], Parts], watch: Callable[[], None] = lambda: None) -> Any:
    """An arm whose step takes these parts; each is a label of its own."""

    def build(device: str) -> Step:
        inner = world.arm(0.0)(device)
        ran = 0

        def step() -> Any:
            nonlocal ran
            ran += 1
            watch()
            for name, ms in parts(ran) if callable(parts) else parts:
                if name is None:
                    world.now += ms / 1e3
                else:
                    with label(name):
                        world.now += ms / 1e3
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    return build


def test_a_gain_in_the_label_is_found_beside_the_whole(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 1.0), ("backward", 3.0)]), arm(world, [("forward", 0.8), ("backward", 3.0)]))
    region = found.region
    assert region is not None
    assert (found.verdict, region.verdict) == ("faster", "faster")
    assert (found.ratio, region.ratio) == (pytest.approx(0.95), pytest.approx(0.8))
    assert region.share_of_step == {"before": pytest.approx(0.25), "after": pytest.approx(0.8 / 3.8)}
    assert region.calls_per_step == {"before": 1.0, "after": 1.0}
    assert region.reasons[0] in found.reasons
    assert "in `forward`, 25 % of a step of before, after takes 20 % less time (ratio 0.8" in region.reasons[0]


def test_a_gain_that_vanishes_in_the_whole_is_said_in_words(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 0.1), (None, 20.0)]), arm(world, [("forward", 0.08), (None, 20.0)]))
    assert (found.verdict, found.region and found.region.verdict) == ("equivalent", "faster")
    told = found.region.reasons[0] if found.region else ""
    assert "in `forward`, 0.498 % of a step of before, after takes 20 % less time" in told
    assert "in the whole step equivalent (ratio 0.999" in told
    assert "in all of it this is about 0.1 %" in told


def test_what_is_gained_in_the_label_and_lost_elsewhere_is_said(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 2.0), (None, 2.0)]), arm(world, [("forward", 1.0), (None, 4.0)]))
    assert (found.verdict, found.region and found.region.verdict) == ("slower", "faster")
    assert "and yet the whole step is slower" in (found.region.reasons[0] if found.region else "")


def test_a_change_that_acts_elsewhere_is_said(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 2.0), (None, 2.0)]), arm(world, [("forward", 2.0), (None, 1.0)]))
    assert (found.verdict, found.region and found.region.verdict) == ("faster", "equivalent")
    assert "so the change acts elsewhere" in (found.region.reasons[0] if found.region else "")


def test_no_label_is_heard_while_the_whole_step_is_timed(world: Any, judge: Judge) -> None:
    heard: list[tuple[int, object, str | None]] = []

    def watch() -> None:
        heard.append((len(world.built), labels._recorder, labels._only))

    step: Parts = [("forward", 1.0), ("backward", 1.0)]
    assert judge(arm(world, step, watch), arm(world, step, watch), region=None).verdict == "equivalent"
    assert [one for one in heard if one[1] is not None] == []

    heard.clear()
    world.built.clear()
    judge(arm(world, step, watch), arm(world, step, watch))
    # Rehearsal, outputs, three replicates of the whole step, three of the label: two instances each.
    in_whole = [recorder for built, recorder, _ in heard if 4 < built <= 10]
    assert in_whole
    assert set(in_whole) == {None}
    only = {only for built, recorder, only in heard if built > 10 and recorder is not None}
    assert only == {"forward"}
    assert labels._recorder is None
    assert labels._only is None


def test_numbers_of_the_whole_step_do_not_come_from_the_run_with_the_label(world: Any, judge: Judge) -> None:
    def costly_when_heard(name: str) -> Any:
        def parts(_number: int) -> Parts:
            return [(name, 1.0), (None, 50.0 if labels._recorder is not None else 1.0)]

        return arm(world, parts)

    found = judge(costly_when_heard("forward"), costly_when_heard("forward"))
    assert {value for block in found.blocks for value in block.steps_ms} == {2.0}
    assert all(block.label is None for block in found.blocks)
    assert found.region is not None
    assert {value for block in found.region.blocks for value in block.steps_ms} == {1.0}
    assert {block.label.name for block in found.region.blocks if block.label} == {"forward"}


def test_both_runs_have_the_same_plan(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 1.0)]), arm(world, [("forward", 1.0)]))
    assert found.region is not None
    orders = [
        [(one.replicate, one.pair, one.arm, one.steps) for one in run] for run in (found.blocks, found.region.blocks)
    ]
    assert orders[0] == orders[1]


@pytest.mark.slow
def test_both_runs_fit_the_budget_together(world: Any, judge: Judge) -> None:
    began = world.now
    step: Parts = [("forward", 20.0), (None, 20.0)]
    judge(arm(world, step), arm(world, step), replicates=8, budget_s=100)
    assert world.now - began < 100
    with pytest.raises(StepprofError, match=r"expected at most 5 s; allow ([6-9]|1\d) s"):
        judge(arm(world, step), arm(world, step), replicates=8, budget_s=5)


def test_a_label_that_no_step_has_is_refused_with_those_that_there_are(world: Any, judge: Judge) -> None:
    step: Parts = [("forward", 1.0), ("update", 1.0)]
    with pytest.raises(StepprofError, match=r"one of 'forward', 'update'.*did you mean 'forward'\?"):
        judge(arm(world, step), arm(world, step), region="forwrad")
    with pytest.raises(StepprofError, match="a label in both arms"):
        judge(world.arm(2.0), world.arm(2.0))


def test_a_label_of_one_arm_alone_leaves_the_whole_its_verdict(world: Any, judge: Judge) -> None:
    found = judge(arm(world, [("forward", 2.0)]), arm(world, [(None, 1.0)]))
    assert (found.verdict, found.region and found.region.verdict) == ("faster", "not comparable")
    assert "label 'forward' does not occur in a step of arm after" in found.reasons


@pytest.mark.slow
def test_a_label_that_occurs_several_times_is_summed_up_in_each_step(world: Any, judge: Judge) -> None:
    twice: Parts = [("forward", 1.0), (None, 1.0), ("forward", 1.0)]
    found = judge(arm(world, twice), arm(world, [("forward", 1.0), (None, 1.0)])).region
    assert found is not None
    assert (found.ratio, found.calls_per_step) == (pytest.approx(0.5), {"before": 2.0, "after": 1.0})
    assert "the label occurs 2 times a step in arm before and 1 times a step in arm after" in " ".join(found.reasons)


@pytest.mark.slow
def test_a_label_that_some_steps_do_not_have_is_judged_by_its_mean(world: Any, judge: Judge) -> None:
    def every_second(ms: float) -> Any:
        return arm(world, lambda number: [("forward", ms)] * (number % 2) + [(None, 1.0)])

    found = judge(every_second(2.0), every_second(1.0)).region
    assert found is not None
    assert found.verdict == "faster"
    assert found.ratio == pytest.approx(0.5, rel=0.1)
    assert [one.name for one in found.statistics] == ["mean"]
    assert any("the verdict is on its mean time over all steps" in one for one in found.reasons)


@pytest.mark.slow
def test_a_label_that_stops_to_occur_cannot_be_compared(world: Any, judge: Judge) -> None:
    at_first = arm(world, lambda number: [("forward" if number <= 8 else None, 1.0)])
    found = judge(at_first, arm(world, [("forward", 1.0)]))
    assert (found.verdict, found.region and found.region.verdict) == ("equivalent", "not comparable")
    assert "label 'forward' did not occur in replicate 0 of arm before" in found.reasons


@pytest.mark.slow
def test_a_label_inside_itself_counts_once(world: Any, judge: Judge) -> None:
    def build(device: str) -> Step:
        inner = world.arm(1.0)(device)

        def step() -> Any:
            with label("forward"):
                world.now += 1e-3
                with label("forward"):
                    return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    found = judge(build, arm(world, [("forward", 2.0)])).region
    assert found is not None
    assert (found.verdict, found.calls_per_step["before"]) == ("equivalent", 1.0)
    assert any("it also occurs inside itself" in one for one in found.reasons)


def test_regions_of_several_threads_at_one_time_count_once() -> None:
    ticks = iter([0.0, 1.0, 3.0, 4.0])
    spans = Spans(lambda: next(ticks))
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        token = spans.enter("forward", None)
        entered.set()
        leave.wait()
        spans.exit(token)

    own = spans.enter("forward", None)
    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    spans.exit(own)
    leave.set()
    thread.join()
    assert spans.of_steps([0.0, 10.0]) == [4000.0]
    assert (spans.calls, spans.nested) == (2, 0)


def test_only_one_label_is_heard(world: Any) -> None:
    spans = Spans(world.clock)
    with listening(spans, "forward"):
        for name in ("forward", "backward", "forward"):
            with label(name):
                world.now += 1
        with label("backward"), label("forward"):
            world.now += 1
    with label("forward"):
        world.now += 1
    assert spans.calls == 3
    assert labels._only is None


@pytest.mark.slow
@pytest.mark.parametrize("read", [False, True])
def test_on_a_queue_the_device_is_waited_for_once_a_block(world: Any, meter: Any, ask: Any, read: bool) -> None:
    device = world.queue_device()

    def queued(forward_ms: float) -> Any:
        def build(name: str) -> Step:
            inner = world.arm(0.01)(name)

            def step() -> Any:
                with label("read_batch"):
                    world.now += 1e-3
                with label("forward"):
                    device.launch(forward_ms)
                device.launch(4.0)
                return inner.run()

            return Step(step, state=inner.state, samples=inner.samples)

        return build

    options = {"device": device, "clock": world.clock, "meter": meter, "replicates": 2}
    found = compare(queued(2.0), queued(1.0), ask(read=read), region="forward", **options).region
    assert found is not None
    assert found.ratio == pytest.approx(0.5)
    assert {block.per_step for block in found.blocks} == {False}
    assert found.share_of_step["before"] == pytest.approx(2 / 6, rel=0.1)
    # A region that reads has no part on the device: the host's clock tells it.
    reading = compare(queued(2.0), queued(2.0), ask(read=read), region="read_batch", **options).region
    assert reading is not None
    assert {value for block in reading.blocks for value in block.steps_ms} == {1.0}


WORKLOAD = """
import numpy as np
from stepprof_lab import Step, label

def build(device, size=20000):
    state = np.ones(4)
    def step():
        with label("forward"):
            np.sort(np.arange(size)[::-1])
        with label("update"):
            state[:] = state * 0.9
        return float(state[0])
    return Step(step, state={"state": state}, samples=1)

def smaller(device):
    return build(device, 2000)
"""

SCENARIO = """
question = "Is the forward pass faster?"
kind = "training"
unit = "ms/step"
[boundary]
read = false
transfer = false
forward = true
backward = false
update = true
model_load = false
"""


@pytest.mark.slow
def test_the_command_shows_the_label_in_json_text_and_page(tmp_path: Path) -> None:
    from stepprof_lab.cli import stepprof

    (tmp_path / "loop.py").write_text(WORKLOAD)
    (tmp_path / "s.toml").write_text(SCENARIO)
    given = ["validate", str(tmp_path / "s.toml"), f"{tmp_path / 'loop.py'}", f"{tmp_path / 'loop.py'}:smaller"]
    more = ["--replicates", "3", "--budget", "20s", "--device", "cpu", "--region", "forward"]
    out = tmp_path / "v.json"
    ran = CliRunner().invoke(stepprof, [*given, *more, "--json", "--out", str(out), "--html", str(tmp_path / "v.html")])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)["region"]
    assert (told["label"], told["verdict"]) == ("forward", "faster")
    assert told["share_of_step"]["before"] > told["share_of_step"]["after"]
    shown = (tmp_path / "v.html").read_text()
    assert "The label forward by itself" in shown
    assert "no number of the whole step comes from it" in shown
    again = CliRunner().invoke(stepprof, ["validate", "--from", str(out), "--plain"])
    assert "region.verdict_in_the_label: faster" in again.stdout
    wrong = CliRunner().invoke(stepprof, [*given, *more[:-1], "foward", "--out", str(tmp_path / "w.json")])
    assert isinstance(wrong.exception, StepprofError)
    assert (wrong.exception.exit_code, wrong.exception.todo) == (2, "did you mean 'forward'?")


def test_without_a_label_nothing_is_said_of_one(world: Any, judge: Judge) -> None:
    found = judge(world.arm(2.0), world.arm(2.0), region=None)
    assert found.region is None
    assert "by itself" not in page(validation=found)
