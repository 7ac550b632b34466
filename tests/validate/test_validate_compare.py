"""Two arms in, a verdict out: in a world whose clock only the steps move, so that every number is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from stepprof_lab import labels
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import compare, verdict_from
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.statistics import PAIRS, WHOLE_ARMS

Ask = Callable[..., Scenario]
Judge = Callable[..., Validation]


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Ask) -> Judge:
    """Compare two arms of the world."""

    def run(before: Any, after: Any, scenario: Scenario | None = None, **more: Any) -> Validation:
        options = {"device": cpu, "clock": world.clock, "meter": meter, "replicates": 3} | more
        return compare(before, after, scenario or ask(), **options)

    return run


# Verdicts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [False, True])
def test_equal_arms_are_equivalent_with_a_ratio_of_exactly_one(world: Any, judge: Judge, ask: Ask, read: bool) -> None:
    found = judge(world.arm(2.0), world.arm(2.0), ask(read=read))
    assert found.verdict == "equivalent"
    assert found.ratio == pytest.approx(1, abs=1e-6)
    assert found.design == (WHOLE_ARMS if read else PAIRS)
    assert found.outputs["agreement"] == "bitwise"
    assert found.outputs["after_timed_steps"]["agreement"] == "bitwise"
    assert [arm.median_ms for arm in found.arms] == pytest.approx([2, 2], abs=1e-5)
    assert found.arms[0].samples_per_s == pytest.approx(4000, rel=1e-5)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(("ms", "verdict"), [(1.8, "faster"), (2.2, "slower")])
def test_a_change_is_found_in_its_direction(
    world: Any, judge: Judge, ask: Ask, read: bool, ms: float, verdict: str
) -> None:
    found = judge(world.arm(world.noisy(2.0, 0.05, 1)), world.arm(world.noisy(ms, 0.05, 2)), ask(read=read))
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(ms / 2, rel=0.01)
    assert found.interval is not None
    assert found.interval[0] < ms / 2 < found.interval[1]
    assert found.smallest_effect_seen is not None
    assert 0 < found.smallest_effect_seen < 0.1


def test_a_small_change_in_much_noise_is_not_called_one(world: Any, judge: Judge) -> None:
    found = judge(world.arm(world.noisy(2.0, 0.5, 1, instance=0.3)), world.arm(world.noisy(2.02, 0.5, 2, instance=0.3)))
    assert found.verdict == "no difference shown"
    assert "not a proof" in found.reasons[1]
    assert (found.smallest_effect_seen or 0) > 0.01


def test_the_verdict_follows_from_the_json_alone(world: Any, judge: Judge) -> None:
    found = judge(world.arm(world.noisy(2.0, 0.1, 1)), world.arm(world.noisy(1.7, 0.1, 2)))
    again = msgspec.json.decode(msgspec.json.encode(found), type=Validation)
    assert again == found
    conclusion = verdict_from(again.blocks, again.design, again.margin)
    assert (conclusion.verdict, conclusion.ratio, conclusion.interval) == (found.verdict, found.ratio, found.interval)
    assert conclusion.reasons == found.reasons[: len(conclusion.reasons)]


def test_raw_values_are_kept_in_the_order_in_which_they_were_measured(world: Any, judge: Judge) -> None:
    found = judge(world.arm(2.0), world.arm(1.0), replicates=4)
    assert [block.order for block in found.blocks] == list(range(len(found.blocks)))
    started = [block.started_s for block in found.blocks]
    assert started == sorted(started)  # type: ignore[type-var]
    for replicate in range(4):
        for pair in {block.pair for block in found.blocks}:
            two = [block for block in found.blocks if (block.replicate, block.pair) == (replicate, pair)]
            assert {block.arm for block in two} == {"before", "after"}
            assert two[0].order + 1 == two[1].order
            assert two[0].steps == two[1].steps == len(two[0].steps_ms)
    firsts = {block.arm for block in found.blocks if block.order % 2 == 0}
    assert firsts == {"before", "after"}
    assert found.plan["replicates"] == 4
    assert sum(block.wall_ms or 0 for block in found.blocks) == pytest.approx(
        sum(sum(block.steps_ms) for block in found.blocks)
    )


@pytest.mark.slow
def test_the_order_is_drawn_from_the_scenarios_seed(world: Any, judge: Judge, ask: Ask) -> None:
    def order(seed: int) -> list[str]:
        return [block.arm for block in judge(world.arm(2.0), world.arm(2.0), ask(seed=seed)).blocks]

    assert order(1) == order(1) != order(2)


def test_the_start_up_is_kept_apart(world: Any, judge: Judge) -> None:
    slow_start = world.arm(lambda n: 1000.0 if n == 1 else 4.0 if n <= 10 else 2.0, build_ms=500)
    found = judge(world.arm(2.0), slow_start, budget_s=120)
    assert found.verdict == "equivalent"
    assert max(max(block.steps_ms) for block in found.blocks) < 3
    start = found.startup["after"]
    assert (start["build_ms"], start["first_step_ms"]) == (pytest.approx(500), pytest.approx(1000))
    assert start["steady_after_steps"] == 10
    assert found.startup["before"]["first_step_ms"] == pytest.approx(2)
    assert found.startup["first_in_process"]["after"]["first_step_ms"] == pytest.approx(1000)
    assert [one.steps_ms[0] for one in found.warm_up if one.arm == "after"] == pytest.approx([1000] * 3)


def test_an_arm_that_never_settles_is_told(world: Any, judge: Judge) -> None:
    found = judge(world.arm(2.0), world.arm(lambda n: 2.0 * 1.01**n))
    assert any("arm after was not steady after its warm-up in 3 of 3 replicates" in one for one in found.reasons)
    assert not any("arm before was not steady" in one for one in found.reasons)


def test_everything_is_done_within_the_budget(world: Any, judge: Judge) -> None:
    began = world.now
    found = judge(world.arm(40.0), world.arm(30.0), replicates=8, budget_s=60)
    assert world.now - began < 60
    assert found.plan["took_s"] == pytest.approx(world.now - began, abs=0.1)
    with pytest.raises(StepprofError, match=r"expected at most 5 s; allow \d+ s"):
        judge(world.arm(40.0), world.arm(30.0), replicates=8, budget_s=5)


def test_a_budget_that_was_exceeded_is_told(world: Any, judge: Judge) -> None:
    """Building takes much longer once the plan is made."""
    built = 0

    def build(device: str) -> Step:
        nonlocal built
        built += 1
        return world.arm(2.0, build_ms=10 if built <= 2 else 4000)(device)  # type: ignore[no-any-return]

    found = judge(world.arm(2.0), build, budget_s=10)
    assert found.plan["took_s"] > 10
    told = next(one for one in found.reasons if one.startswith("it took"))
    assert f"it took {found.plan['took_s']:.3g} s, and 10 s were allowed" in told
    assert f"what was estimated at {found.plan['estimated_s']:.3g} s" in told
    assert not any(one.startswith("it took") for one in judge(world.arm(2.0), world.arm(2.0), budget_s=10).reasons)


def test_one_slow_build_does_not_refuse_a_budget(world: Any, judge: Judge) -> None:
    """The comparison of outputs happens to be built slowly; the rehearsal has shown that it need not be."""
    built = 0

    def build(device: str) -> Step:
        nonlocal built
        built += 1
        return world.arm(0.5, build_ms=1500 if built == 2 else 1)(device)  # type: ignore[no-any-return]

    found = judge(world.arm(0.5), build, replicates=8, budget_s=8)
    assert found.verdict == "equivalent"
    assert found.plan["took_s"] < 8
    with pytest.raises(StepprofError, match="at the least with 8 replicates"):
        judge(world.arm(0.5), world.arm(0.5, build_ms=1500), replicates=8, budget_s=8)


def test_steps_that_are_far_too_long_are_refused_early(world: Any, judge: Judge) -> None:
    began = world.now
    with pytest.raises(StepprofError, match="allow"):
        judge(world.arm(60_000.0), world.arm(60_000.0), replicates=8, budget_s=60)
    assert world.now - began < 300  # two steps of the rehearsal and two of the first arm


def test_progress_is_told_to_its_end(world: Any, judge: Judge) -> None:
    told: list[tuple[str, int, int]] = []
    judge(world.arm(2.0), world.arm(2.0), progress=lambda *one: told.append(one))
    last = {what: (done, total) for what, done, total in told}
    assert last == {"rehearsal": (2, 2), "outputs of before": (5, 5), "outputs of after": (5, 5), "timing": (3, 3)}


# Fresh arms and random numbers ---------------------------------------------------------------------------------


def test_each_replicate_is_a_fresh_pair(world: Any, judge: Judge, ask: Ask) -> None:
    judge(world.arm(2.0, name="b"), world.arm(2.0, name="a"), replicates=6)
    assert world.built.count("a") == world.built.count("b") == 6 + 2
    timed = world.built[4:]
    assert {tuple(timed[i : i + 2]) for i in range(0, 12, 2)} == {("a", "b"), ("b", "a")}


def test_the_arms_never_live_together_where_reading_belongs_to_the_step(world: Any, judge: Judge, ask: Ask) -> None:
    living = {"now": 0, "most": 0}

    class Loader:
        def __init__(self) -> None:
            living["now"] += 1
            living["most"] = max(living["most"], living["now"])

        def __del__(self) -> None:
            living["now"] -= 1

    def build(_device: str) -> Step:
        loader = Loader()

        def step() -> bool:
            world.now += 0.002
            return loader is not None

        return Step(step)

    judge(build, build, ask(read=True))
    assert living == {"now": 0, "most": 1}


def test_replicates_start_from_different_seeds_and_both_arms_from_the_same(world: Any, judge: Judge) -> None:
    starts: dict[str, list[float]] = {"b": [], "a": []}

    def build(name: str) -> Callable[[str], Step]:
        def make(_device: str) -> Step:
            starts[name].append(random.random())

            def step() -> float:
                world.now += 0.002
                return random.random() + float(np.random.rand())

            return Step(step)

        return make

    state = random.getstate()
    found = judge(build("b"), build("a"))
    assert random.getstate() == state
    assert sorted(starts["b"]) == sorted(starts["a"])
    assert len(set(starts["b"])) == 2 + 3
    assert found.outputs["after_timed_steps"]["agreement"] == "bitwise"
    assert "returned values alone" in found.outputs["note"]


# Not comparable ------------------------------------------------------------------------------------------------


def refused(found: Validation) -> str:
    assert found.verdict == "not comparable"
    assert (found.ratio, found.interval, found.arms) == (None, None, [])
    assert len(found.reasons) == 1
    return found.reasons[0]


def test_arms_that_start_differently_are_not_comparable(world: Any, judge: Judge) -> None:
    told = refused(judge(world.arm(2.0, first=1.0), world.arm(2.0, first=2.0)))
    assert told.startswith(
        "the arms do not start from the same state: model.weight; both are built from the same random"
    )


def test_arms_that_process_another_number_of_samples_are_not_comparable(world: Any, judge: Judge) -> None:
    told = refused(judge(world.arm(2.0, samples=64), world.arm(2.0, samples=32)))
    assert "a step of before processes 64 samples, a step of after 32 samples" in told
    assert "samples that it does not state" in refused(judge(world.arm(2.0, samples=None), world.arm(2.0)))


@pytest.mark.parametrize("read", [False, True])
def test_arms_that_share_their_state_are_not_comparable(world: Any, judge: Judge, ask: Ask, read: bool) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.zeros(3)

    def build(_device: str) -> Step:
        def step() -> float:
            world.now += 0.002
            return 1.0

        return Step(step, state={"weight": weight})

    assert "the arms share their state (weight)" in refused(judge(build, build, ask(read=read)))


def test_an_answer_that_differs_is_named_with_its_step_and_size(world: Any, judge: Judge) -> None:
    wrong = world.arm(2.0, answer=lambda n, loss: {"loss": loss * (1.01 if n == 3 else 1.0)})
    found = judge(world.arm(2.0, answer=lambda _n, loss: {"loss": loss}), wrong)
    told = refused(found)
    assert "in step 3 the returned value (loss): the values differ; largest difference" in told
    assert "0.01 of before's value" in told
    assert found.outputs["largest_relative_difference"] == pytest.approx(0.01)
    assert found.outputs["where"] == "in step 3 the returned value (loss)"
    assert found.blocks == []


def test_a_tolerance_with_its_reason_lets_reordered_arithmetic_pass(world: Any, judge: Judge, ask: Ask) -> None:
    near = world.arm(2.0, answer=lambda _n, loss: loss * (1 + 1e-7))
    assert refused(judge(world.arm(2.0), near, ask()))
    found = judge(world.arm(2.0), near, ask(relative_tolerance=1e-6, reason="sums in another order"))
    assert found.verdict == "equivalent"
    assert found.outputs["agreement"] == "within tolerance"
    assert found.outputs["tolerance_reason"] == "sums in another order"
    end = found.outputs["after_timed_steps"]
    assert (end["agreement"], end["judged"]) == ("within tolerance", True)
    assert end["largest_relative_difference"] == pytest.approx(1e-7, rel=0.01)


def test_nan_in_both_proves_nothing(world: Any, judge: Judge) -> None:
    told = refused(judge(*(world.arm(2.0, answer=lambda n, _l: math.nan if n == 2 else 1.0) for _ in range(2))))
    assert told == "in step 2 the returned value is NaN in both arms: equal NaN prove nothing"


def test_a_state_that_differs_after_the_steps_is_found_where_nothing_is_returned(world: Any, judge: Judge) -> None:
    def build(rate: float) -> Callable[[str], Step]:
        def make(_device: str) -> Step:
            state = {"weight": np.zeros(2)}

            def step() -> None:
                world.now += 0.002
                state["weight"] += rate

            return Step(step, state=state)

        return make

    told = refused(judge(build(0.1), build(0.2)))
    assert "after 5 steps the state (weight): the values differ; largest difference 0.5" in told
    assert "states alone were compared" in judge(build(0.1), build(0.1)).outputs["note"]


def test_nothing_to_compare_is_not_comparable(world: Any, judge: Judge) -> None:
    nothing = [world.arm(2.0, answer=lambda *_: None, state=False) for _ in range(2)]
    assert refused(judge(*nothing)).startswith("there is nothing to compare")


def test_work_that_is_dropped_after_the_first_steps_is_found(world: Any, judge: Judge) -> None:
    """An arm that answers rightly while it is checked and repeats itself later."""

    def lazy(_device: str) -> Step:
        honest = world.arm(2.0)("cpu")
        ran, last = 0, 0.0

        def step() -> float:
            nonlocal ran, last
            ran += 1
            if ran > 20:
                world.now += 0.001
                return last
            last = honest.run()
            return last

        return Step(step, state=honest.state, samples=honest.samples)

    found = judge(world.arm(2.0), lazy)
    assert "the arms agree bitwise at the beginning and differ after" in refused(found)
    assert found.blocks  # what was measured until then is kept


# Refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"replicates": 1}, "replicates = 1; expected at least 2"),
        ({"budget_s": 0}, "budget_s = 0; expected"),
        ({"budget_s": math.nan}, "budget_s = nan; expected"),
        ({"margin": 1.0}, r"margin = 1\.0; expected a share"),
        ({"margin": -0.1}, r"margin = -0\.1; expected a share"),
        ({"output_steps": 1}, "output_steps = 1; expected at least 2"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_arguments_that_cannot_be_used_are_named(world: Any, judge: Judge, more: dict[str, Any], told: str) -> None:
    with pytest.raises(StepprofError, match=told):
        judge(world.arm(2.0), world.arm(2.0), **more)


def test_several_processes_are_refused(world: Any, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(StepprofError, match="one of 4 processes"):
        judge(world.arm(2.0), world.arm(2.0))
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert judge(world.arm(2.0), world.arm(2.0)).verdict == "equivalent"


class Listening:
    def enter(self, name: str, role: Any) -> object:
        return name

    def exit(self, token: object) -> None:
        return None


def test_a_recorder_of_labels_is_refused(world: Any, judge: Judge) -> None:
    before = labels.set_recorder(Listening())
    try:
        with pytest.raises(StepprofError, match="labels are recorded"):
            judge(world.arm(2.0), world.arm(2.0))
    finally:
        labels.set_recorder(before)


def test_an_active_profiler_is_refused_before_and_in_between(world: Any, judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(StepprofError, match=r"a profiler is active \(before the comparison\)"),
    ):
        judge(world.arm(2.0), world.arm(2.0))
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def build(device: str) -> Step:
        profiler.start()
        return world.arm(2.0)(device)  # type: ignore[no-any-return]

    try:
        with pytest.raises(StepprofError, match=r"a profiler is active \(arm after was built\)"):
            judge(world.arm(2.0), build)
    finally:
        profiler.stop()


@pytest.mark.parametrize("kind", ["profile", "autograd"])
@pytest.mark.parametrize(
    ("number", "place"), [(1, "the rehearsal"), (4, "the comparison of outputs"), (90, "replicate")]
)
def test_a_profiler_that_a_step_opens_and_closes_is_refused(
    world: Any, judge: Judge, number: int, place: str, kind: str
) -> None:
    torch = pytest.importorskip("torch")
    of_torch = torch.profiler.profile if kind == "profile" else torch.autograd.profiler.profile

    def build(device: str) -> Step:
        inner = world.arm(2.0)(device)
        ran = 0

        def step() -> Any:
            nonlocal ran
            ran += 1
            if ran != number:
                return inner.run()
            with of_torch():
                return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    with pytest.raises(StepprofError, match=r"a profiler was opened and closed \(a step of arm after, in " + place):
        judge(world.arm(2.0), build)
    assert judge(world.arm(2.0), world.arm(2.0)).verdict == "equivalent"  # nothing is left behind


def test_an_arm_that_raises_while_timed_is_named_with_replicate_and_step(world: Any, judge: Judge) -> None:
    def fragile(device: str) -> Step:
        inner = world.arm(2.0)(device)
        ran = 0

        def step() -> Any:
            nonlocal ran
            ran += 1
            if ran == 41:  # one more than the warm-up
                raise ZeroDivisionError("no batch")
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    with pytest.raises(StepprofError, match="arm after, step 41 raised ZeroDivisionError: no batch in") as caught:
        judge(world.arm(2.0), fragile)
    assert "fragile" in (caught.value.detail or "") or "step" in (caught.value.detail or "")


def test_a_loader_that_ends_is_one_line(world: Any, judge: Judge) -> None:
    def short(device: str) -> Step:
        inner, batches = world.arm(2.0)(device), iter(range(3))

        def step() -> Any:
            next(batches)
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    with pytest.raises(
        StepprofError, match="arm before gave 3 steps in the comparison of outputs and then its loader ended"
    ):
        judge(short, short)


def test_ctrl_c_ends_it(world: Any, judge: Judge) -> None:
    def interrupted(device: str) -> Step:
        inner = world.arm(2.0)(device)

        def step() -> Any:
            if world.now > 1000.5:
                raise KeyboardInterrupt
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    state = random.getstate()
    with pytest.raises(KeyboardInterrupt):
        judge(interrupted, interrupted)
    assert random.getstate() == state
