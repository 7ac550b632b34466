"""An arm against itself: rates with their intervals, decided before, on a budget of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import compare
from stepprof_lab.validate.calibrate import below_spread, summed_up, wilson
from stepprof_lab.validate.model import Trial, Validation
from stepprof_lab.validate.plan import Pair, PairsPlan, WholePlan, drawn_again

Compare = Callable[..., Validation]


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Callable[..., Scenario]) -> Compare:
    def run(before: Any, after: Any, scenario: Scenario | None = None, **more: Any) -> Validation:
        options = {"device": cpu, "clock": world.clock, "meter": meter, "replicates": 3} | more
        return compare(before, after, scenario or ask(), **options)

    return run


TRIALS = 8


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepprof_lab.validate.calibrate.MOST_TRIALS", TRIALS)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 20, 0.0, 0.1611),
        (1, 20, 0.0089, 0.2361),
        (10, 100, 0.0552, 0.1744),
        (20, 20, 0.8389, 1.0),
        (0, 400, 0.0, 0.0095),
    ],
)
def test_wilson_gives_the_known_intervals(count: int, total: int, low: float, high: float) -> None:
    """Newcombe, Statistics in Medicine 17 (1998), and R's prop.test(correct = FALSE) for the same counts."""
    assert list(wilson(count, total)) == pytest.approx([low, high], abs=1e-4)


def trial(ratio: float, half: float) -> Trial:
    return Trial(ratio=ratio, interval=(ratio - half, ratio + half), replicate_ratios=[ratio] * 3)


def test_false_alarms_are_counted_at_both_margins() -> None:
    trials = [trial(1.0, 0.01)] * 17 + [trial(1.008, 0.002), trial(0.98, 0.005), trial(1.05, 0.01)]
    found = summed_up(trials, 0.01, planned=20, budget_s=60, took_s=1)
    zero, used = found.false_alarms
    assert (zero.margin, zero.count, zero.rate) == (0.0, 3, 0.15)
    assert (used.margin, used.count, used.rate) == (0.01, 2, 0.1)
    assert used.interval == wilson(2, 20)
    assert found.spread == pytest.approx(np.quantile([abs(one.ratio - 1) for one in trials], 0.95))
    assert "in 3 of 20 trials: 15 %" in found.reasons[0]
    assert "up to 2.15 % away from 1" in found.reasons[2]
    assert [one.margin for one in summed_up(trials, 0.0, planned=20, budget_s=60, took_s=1).false_alarms] == [0.0]


def test_a_difference_below_the_spread_is_told() -> None:
    found = summed_up([trial(1.03, 0.01)] * 20, 0.01, planned=20, budget_s=60, took_s=1)
    assert "below what this machine can tell" in below_spread(1.02, found)[0]
    assert below_spread(0.9, found) == []
    assert below_spread(0.999, summed_up([], 0.01, planned=0, budget_s=1, took_s=0)) == []


def test_without_trials_there_is_no_rate() -> None:
    found = summed_up([], 0.01, planned=0, budget_s=1, took_s=0)
    assert (found.false_alarms, found.spread, found.reasons) == ([], None, [])


@pytest.mark.slow
@pytest.mark.parametrize("read", [False, True])
def test_arm_before_is_run_against_itself(world: Any, judge: Compare, ask: Callable[..., Scenario], read: bool) -> None:
    built = len(world.built)
    found = judge(
        world.arm(2.0, name="before"), world.arm(1.0, name="after"), ask(read=read), replicates=2, calibrate_s=1e6
    )
    calibrated = found.calibration
    assert calibrated is not None
    assert found.verdict == "faster"
    assert calibrated.planned == len(calibrated.trials) == TRIALS
    assert [one.count for one in calibrated.false_alarms] == [0, 0]
    assert calibrated.spread == pytest.approx(0, abs=1e-6)
    assert all(len(one.replicate_ratios) == 2 for one in calibrated.trials)
    of = world.built[built:]
    assert of.count("before") - of.count("after") == 2 * 2 * TRIALS
    assert {block.arm for block in found.blocks} == {"before", "after"}
    assert found.plan["took_s"] < calibrated.took_s  # which is not in the time of the comparison


@pytest.mark.slow
def test_how_many_fit_is_decided_before_and_fewer_than_twenty_are_told(world: Any, judge: Compare) -> None:
    whole = judge(world.arm(2.0), world.arm(2.0))
    took_s = whole.plan["took_s"] - whole.plan["before_plan_s"]
    found = judge(world.arm(2.0), world.arm(2.0), calibrate_s=5.5 * took_s).calibration
    assert found is not None
    assert found.planned == len(found.trials) == 5
    assert found.took_s < found.budget_s
    assert "5 trials fit in the" in found.reasons[-1]
    assert "20, with which a rate says something, take about" in found.reasons[-1]
    none = judge(world.arm(2.0), world.arm(2.0), calibrate_s=0.5 * took_s).calibration
    assert none is not None
    assert (none.trials, none.spread, none.false_alarms) == ([], None, [])
    assert none.reasons[0].startswith("0 trials fit in")


def test_it_is_null_where_it_was_not_asked_for(world: Any, judge: Compare) -> None:
    found = judge(world.arm(2.0), world.arm(2.0))
    assert found.calibration is None
    assert b'"calibration":null' in msgspec.json.encode(found)


@pytest.mark.slow
def test_noise_that_is_larger_than_the_change_is_told(world: Any, judge: Compare) -> None:
    """Instances of a noisy arm differ by more than the change that was shown by luck."""
    noisy = world.noisy(2.0, 0.01, 1, instance=0.2)
    found = judge(world.arm(noisy), world.arm(world.noisy(1.99, 0.01, 2, instance=0.2)), calibrate_s=1e6)
    assert found.calibration is not None
    assert found.calibration.spread is not None
    assert found.ratio is not None
    told = any("below what this machine can tell" in reason for reason in found.reasons)
    assert told == (abs(found.ratio - 1) < found.calibration.spread)


def test_an_arm_that_cannot_be_compared_with_itself_is_told(world: Any, judge: Compare) -> None:
    """It gives other answers after so many instances: the comparison stands, and the calibration says why it ends."""
    built = 0

    def build(device: str) -> Any:
        nonlocal built
        built += 1
        return world.arm(2.0, first=None if built < 12 else float(built))(device)

    found = judge(build, world.arm(1.0), calibrate_s=1e6)
    assert found.verdict == "faster"
    assert found.calibration is not None
    assert len(found.calibration.trials) < found.calibration.planned
    assert any("could not be compared with itself" in reason for reason in found.calibration.reasons)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf")])
def test_a_budget_that_is_none_is_refused(world: Any, judge: Compare, seconds: float) -> None:
    with pytest.raises(StepprofError, match="calibrate_s"):
        judge(world.arm(2.0), world.arm(2.0), calibrate_s=seconds)


def test_the_same_plan_in_another_order() -> None:
    pairs = [[Pair(first="before", steps=4 + n % 3) for n in range(6)] for _ in range(8)]
    plan = PairsPlan(window=20, most_windows=4, built_first=["before"] * 8, pairs=pairs, estimated_s=1.0)
    drawn = drawn_again(plan, 1)
    assert isinstance(drawn, PairsPlan)
    lengths = sorted(pair.steps for one in pairs for pair in one)
    assert sorted(pair.steps for one in drawn.pairs for pair in one) == lengths
    assert [len(one) for one in drawn.pairs] == [6] * 8
    assert drawn.built_first.count("before") == 4
    assert drawn == drawn_again(plan, 1) != drawn_again(plan, 2)
    whole = WholePlan(period=4, drained=16, steps=40, first=["before"] * 8, estimated_s=1.0)
    again = drawn_again(whole, 1)
    assert isinstance(again, WholePlan)
    assert (again.steps, again.first.count("before")) == (40, 4)
