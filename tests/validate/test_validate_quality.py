"""Quality metrics that the user names: a change that costs quality is not comparable, with the numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepprof_lab import scenario
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.report.html import page
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation

Judge = Callable[..., Validation]


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Judge:
    def run(before: Any, after: Any, *, replicates: int = 2, **allowed: Any) -> Validation:
        asked = ask(**({"reason": "digits of a score"} | allowed if allowed else {}))
        return compare(before, after, asked, device=cpu, clock=world.clock, meter=meter, replicates=replicates)

    return run


def learner(world: Any, ms: float, score: Callable[[int], float] | None, *, name: str = "accuracy") -> Any:
    """An arm that learns the same whatever its score ``score(step number)`` says."""

    def build(_device: str) -> Step:
        weights, numbers, at = np.ones(4), itertools.count(1), [0]

        def step() -> float:
            at[0] = next(numbers)
            world.now += ms / 1e3
            weights[:] = weights * 0.999
            return float(weights[0])

        metrics = {} if score is None else {name: lambda: score(at[0])}
        return Step(step, state={"weights": weights}, samples=1, metrics=metrics)

    return build


def test_equal_quality_is_told_after_both_looks(world: Any, judge: Judge) -> None:
    found = judge(learner(world, 2.0, lambda _n: 0.9), learner(world, 1.0, lambda _n: 0.9))
    assert found.verdict == "faster"
    seen = {"before": 0.9, "after": 0.9, "tolerance": 0.0, "steps": 5, "agrees": True}
    assert found.outputs["metrics"] == {"accuracy": seen}
    assert found.outputs["metrics_after_timed_steps"]["accuracy"]["steps"] > 100
    shown = page(validation=found)
    assert "Quality metrics of the step" in shown


def test_a_change_that_costs_quality_is_not_comparable(world: Any, judge: Judge) -> None:
    found = judge(
        learner(world, 2.0, lambda _n: 0.91), learner(world, 1.0, lambda _n: 0.87), metrics={"accuracy": 0.005}
    )
    assert found.verdict == "not comparable"
    assert found.ratio is None
    assert found.reasons[0] == (
        "the arms do not give the same quality: accuracy is 0.91 before and 0.87 after, 0.04 apart after 5 steps; "
        "allowed is 0.005"
    )
    assert found.outputs["metrics"]["accuracy"]["after"] == 0.87


def test_a_tolerance_with_its_reason_lets_it_pass(world: Any, judge: Judge) -> None:
    arms = learner(world, 2.0, lambda _n: 0.91), learner(world, 1.0, lambda _n: 0.908)
    assert judge(*arms, metrics={"accuracy": 0.005}).verdict == "faster"
    assert judge(*arms).verdict == "not comparable"


def test_quality_that_is_lost_during_the_timing_is_found(world: Any, judge: Judge) -> None:
    found = judge(
        learner(world, 2.0, lambda _n: 0.9),
        learner(world, 1.0, lambda n: 0.9 - (0.2 if n > 40 else 0.0)),
        metrics={"accuracy": 0.01},
    )
    assert found.verdict == "not comparable"
    assert "accuracy is 0.9 before and 0.7 after, 0.2 apart after" in found.reasons[0]
    assert found.outputs["metrics_after_timed_steps"]["accuracy"]["agrees"] is False
    assert found.blocks


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_no_number_proves_nothing(world: Any, judge: Judge, value: float) -> None:
    found = judge(learner(world, 2.0, lambda _n: value), learner(world, 1.0, lambda _n: value))
    assert "accuracy is no number before and no number after" in found.reasons[0]


def test_a_metric_of_one_arm_alone_is_no_comparison(world: Any, judge: Judge) -> None:
    found = judge(learner(world, 2.0, lambda _n: 0.9), learner(world, 1.0, None))
    assert "accuracy is 0.9 before and no number after" in found.reasons[0]


def test_a_tolerance_for_an_unknown_metric_is_refused(world: Any, judge: Judge) -> None:
    arms = [learner(world, 2.0, lambda _n: 0.9)] * 2
    with pytest.raises(StepprofError, match=r"\[outputs.metrics\] with 'acuracy', which no arm gives.*'accuracy'"):
        judge(*arms, metrics={"acuracy": 0.1})


def test_a_metric_that_raises_is_named(world: Any, judge: Judge) -> None:
    def broken(_number: int) -> float:
        raise ValueError("no images")

    with pytest.raises(StepprofError, match="metric 'accuracy' of arm before raised ValueError: no images"):
        judge(learner(world, 2.0, broken), learner(world, 2.0, broken))


def test_the_scenario_keeps_tolerances_of_metrics_and_asks_for_a_reason() -> None:
    base = scenario.inline("is it faster?", boundary="forward backward update", unit="ms/step")
    text = scenario.dumps(base) + '\n[outputs]\nreason = "the third digit"\n[outputs.metrics]\naccuracy = 0.005\n'
    read = scenario.loads(text)
    assert read.outputs.metrics == {"accuracy": 0.005}
    assert scenario.loads(scenario.dumps(read)) == read
    with pytest.raises(StepprofError, match="tolerance that has no reason"):
        scenario.loads(text.replace('reason = "the third digit"\n', ""))
    for wrong in ('"much"', "-0.1", "nan"):
        with pytest.raises(StepprofError, match=r"outputs\.metrics"):
            scenario.loads(text.replace("0.005", wrong))
