"""Outputs of the timed steps: an arm that answers rightly only where somebody looks is no faster arm."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepprof_lab.labels import Step
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation

TOLERANCE = {"relative_tolerance": 1e-3, "absolute_tolerance": 1e-6, "reason": "sums in another order"}

TIMED = range(50, 60)
"""Steps that are timed: after any warm-up of these arms, and before their last ones."""


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Callable[..., Validation]:
    def run(before: Any, after: Any, *, tolerant: bool = False, read: bool = False, **more: Any) -> Validation:
        asked = ask(read=read, **(TOLERANCE if tolerant else {}))
        options = {"device": cpu, "clock": world.clock, "meter": meter, "replicates": 3} | more
        return compare(before, after, asked, **options)

    return run


def server(world: Any, ms: float, answer: Callable[[int, Any], Any] = lambda _number, right: right) -> Any:
    """An arm that learns nothing: the answer of step ``n`` is a function of ``n`` and its weights."""

    def build(_device: str) -> Step:
        weights, numbers = np.linspace(1.0, 2.0, 4), itertools.count(1)

        def step() -> Any:
            number = next(numbers)
            world.now += ms / 1e3
            return answer(number, weights * float(number))

        return Step(step, state={"weights": weights}, samples=1)

    return build


def test_the_last_step_of_each_block_is_compared(world: Any, judge: Any) -> None:
    found = judge(server(world, 2.0), server(world, 1.0))
    assert found.verdict == "faster"
    pairs = len(found.blocks) // 2
    assert found.outputs["timed_steps"] == {"compared": pairs, "agreement": "bitwise"}


@pytest.mark.parametrize("tolerant", [False, True])
def test_another_answer_in_a_timed_step_is_not_comparable(world: Any, judge: Any, tolerant: bool) -> None:
    wrong = server(world, 1.0, lambda number, right: right * (1.5 if number in TIMED else 1.0))
    found = judge(server(world, 2.0), wrong, tolerant=tolerant)
    assert found.verdict == "not comparable"
    assert found.ratio is None
    assert found.blocks
    assert "in a timed step, number 5" in found.reasons[0]
    assert "the arms do not return the same: the values differ; largest difference" in found.reasons[0]


def test_with_workers_too(world: Any, judge: Any) -> None:
    # Whole arms: 5 steps before the timing and 40 in it, so that the last timed one is step 45.
    wrong = server(world, 1.0, lambda number, right: right * (1.5 if number == 45 else 1.0))
    assert "in a timed step, number 45" in judge(server(world, 2.0), wrong, read=True).reasons[0]


def test_a_stale_answer_is_found(world: Any, judge: Any) -> None:
    held: dict[int, Any] = {}

    def stale(number: int, right: Any) -> Any:
        held.setdefault(number // 10, right)
        return held[number // 10].copy() if number in TIMED else right

    found = judge(server(world, 2.0), server(world, 1.0, stale))
    assert "in a timed step" in found.reasons[0]


def test_nan_in_a_timed_step_is_found_where_rounding_is_allowed_to_grow(world: Any, judge: Any) -> None:
    def learner(ms: float, broken: bool) -> Any:
        def build(_device: str) -> Step:
            weights, numbers = np.ones(4), itertools.count(1)

            def step() -> float:
                number = next(numbers)
                world.now += ms / 1e3
                weights[:] = weights * (0.999 + (1e-8 if broken else 0.0))
                return float("nan") if broken and number in TIMED else float(weights[0])

            return Step(step, state=weights_of(weights), samples=1)

        return build

    found = judge(learner(2.0, False), learner(1.0, True), tolerant=True)
    assert "in a timed step" in found.reasons[0]
    assert "only arm after gives NaN" in found.reasons[0]


def weights_of(weights: Any) -> dict[str, Any]:
    return {"weights": weights}


class Late:
    """A result that is computed when it is read."""

    def __init__(self, world: Any, value: Any, ms: float) -> None:
        self.world, self.value, self.ms = world, value, ms

    def state_dict(self) -> dict[str, Any]:
        self.world.now += self.ms / 1e3
        return {"value": self.value}


def test_a_result_that_is_computed_when_it_is_read_is_found(world: Any, judge: Any) -> None:
    before = server(world, 2.0, lambda _number, right: Late(world, right, 0.01))
    after = server(world, 1.0, lambda _number, right: Late(world, right, 1.0))
    found = judge(before, after)
    assert found.verdict == "not comparable"
    assert (
        "reading what a step of arm after returned takes 1 ms beside 1 ms for the step, and 0.01 ms" in found.reasons[0]
    )
    other = judge(after, before)
    assert "reading what a step of arm before returned takes 1 ms" in other.reasons[0]


def test_reading_that_takes_long_in_both_is_no_difference(world: Any, judge: Any) -> None:
    both = [server(world, ms, lambda _number, right: Late(world, right, 5.0)) for ms in (2.0, 1.0)]
    assert judge(*both).verdict == "faster"


class LateState:
    """A state that is brought up to date when it is looked at: the steps only note that there is something to do."""

    def __init__(self, world: Any, ms: float) -> None:
        self.world, self.ms = world, ms
        self.weights = np.ones(4)
        self.due = 0

    def state_dict(self) -> dict[str, Any]:
        while self.due:
            self.due -= 1
            self.world.now += self.ms / 1e3
            self.weights = self.weights * 0.999
        return {"weights": self.weights}


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_work_that_is_left_until_the_state_is_looked_at_is_found(
    world: Any, judge: Any, read: bool, tolerant: bool
) -> None:
    def build(late: bool) -> Any:
        def made(_device: str) -> Step:
            state = LateState(world, 1.0)

            def step() -> None:
                world.now += 1e-3
                state.due += 1
                if not late:
                    state.state_dict()

            return Step(step, state={"model": state}, samples=1)

        return made

    found = judge(build(late=False), build(late=True), read=read, tolerant=tolerant)
    assert found.verdict == "not comparable"
    assert "looking at the state of arm after" in found.reasons[0]
    assert "part of its work is left until somebody looks" in found.reasons[0]
