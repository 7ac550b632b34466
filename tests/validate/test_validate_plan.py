"""What is fixed before the timing: it fits the budget, is drawn from the seed, and keeps out of the system's tick."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.plan import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    OVERSHOOT,
    PLANNED_SHARE,
    SHORT_S,
    USUAL_PAIRS,
    Cost,
    PairsPlan,
    Terms,
    WholePlan,
    block_lengths,
    drained_steps,
    drawn_again,
    plan_pairs,
    plan_whole_arms,
    window_of,
)


def terms(*, seed: int = 1, replicates: int = 8, left_s: float = 60.0, budget_s: float = 60.0) -> Terms:
    return Terms(seed=seed, replicates=replicates, left_s=left_s, budget_s=budget_s)


def costs(before_ms: float, after_ms: float, fresh_s: float = 0.0) -> dict[ArmName, Cost]:
    return {"before": Cost(fresh_s=fresh_s, step_ms=before_ms), "after": Cost(fresh_s=fresh_s, step_ms=after_ms)}


@given(st.floats(1e-4, 200))
def test_blocks_are_long_enough_and_have_several_lengths(step_ms: float) -> None:
    lengths = block_lengths(step_ms, 1.0)
    assert min(lengths) * step_ms >= 1.0
    assert all(steps >= 4 for steps in lengths) or step_ms > 5
    assert max(lengths) < 2 * max(min(lengths), 2) + 2


@given(st.floats(1e-4, 5))
def test_no_block_goes_into_the_tick_a_whole_number_of_times_where_another_length_will_do(step_ms: float) -> None:
    lengths = block_lengths(step_ms, 1.0)
    fitting = [n for n in lengths if any(abs(n * step_ms * k - 4.0) < 0.04 * n * step_ms for k in (1, 2, 3, 4))]
    assert not fitting or len(fitting) == len(lengths)


def test_a_step_of_240_us_avoids_the_blocks_that_fell_into_step_with_the_machine() -> None:
    assert 4 not in block_lengths(0.25, 1.0)  # 4 x 0.25 ms, four times in a tick
    assert 5 in block_lengths(0.25, 1.0)
    assert block_lengths(300.0, 1.0) == [1, 2]


@pytest.mark.parametrize(("step_ms", "window"), [(0.01, 20), (1.0, 20), (5.0, 20), (10.0, 10), (40.0, 2), (500.0, 2)])
def test_the_warm_up_window_shrinks_with_long_steps(step_ms: float, window: int) -> None:
    assert window_of(step_ms) == window


def test_short_steps_get_all_pairs_and_long_steps_the_fewest() -> None:
    assert len(plan_pairs(costs(0.2, 0.2), terms(), min_block_ms=1.0).pairs[0]) == MOST_PAIRS
    assert len(plan_pairs(costs(10, 10), terms(), min_block_ms=1.0).pairs[0]) == USUAL_PAIRS
    assert len(plan_pairs(costs(300, 300), terms(), min_block_ms=1.0).pairs[0]) == FEWEST_PAIRS


@given(st.floats(0.05, 200), st.floats(0.05, 200), st.integers(2, 12))
def test_a_plan_of_pairs_fits_the_budget_or_is_refused(before_ms: float, after_ms: float, replicates: int) -> None:
    lengths = block_lengths(min(before_ms, after_ms), 1.0)
    window = window_of((before_ms + after_ms) / 2)

    def seconds(pairs: int) -> float:
        steps = 2 * window + pairs * sum(lengths) / len(lengths) + 1
        return replicates * steps * (before_ms + after_ms) / 1e3

    asked = terms(replicates=replicates, left_s=20)
    if seconds(FEWEST_PAIRS) > 20 * OVERSHOOT:
        with pytest.raises(StepprofError, match="allow"):
            plan_pairs(costs(before_ms, after_ms), asked, min_block_ms=1.0)
        return
    plan = plan_pairs(costs(before_ms, after_ms), asked, min_block_ms=1.0)
    pairs = len(plan.pairs[0])
    assert [len(one) for one in plan.pairs] == [pairs] * replicates
    assert pairs == FEWEST_PAIRS or seconds(pairs) <= 20
    timed_s = seconds(pairs + 1) - seconds(0)
    assert (
        pairs == MOST_PAIRS or seconds(pairs + 1) > 20 * PLANNED_SHARE or (pairs >= USUAL_PAIRS and timed_s > SHORT_S)
    )
    assert all(pair.steps in lengths for one in plan.pairs for pair in one)


def test_the_same_seed_draws_the_same_plan_and_another_seed_another() -> None:
    first = plan_pairs(costs(1, 1), terms(seed=5), min_block_ms=1.0)
    assert first == plan_pairs(costs(1, 1), terms(seed=5), min_block_ms=1.0)
    assert first.pairs != plan_pairs(costs(1, 1), terms(seed=6), min_block_ms=1.0).pairs


def test_the_order_within_pairs_is_random_and_fair() -> None:
    orders = [
        pair.first
        for seed in range(40)
        for one in plan_pairs(costs(1, 1), terms(seed=seed), min_block_ms=1.0).pairs
        for pair in one
    ]
    assert 0.46 < orders.count("before") / len(orders) < 0.54
    same_as_before = sum(a == b for a, b in itertools.pairwise(orders)) / (len(orders) - 1)
    assert 0.46 < same_as_before < 0.54  # neither alternating nor in runs


def test_what_does_not_fit_is_refused_with_what_it_would_take() -> None:
    with pytest.raises(StepprofError) as caught:
        plan_pairs(costs(1000, 1000), terms(left_s=50, budget_s=60), min_block_ms=1.0)
    # two windows of 2 steps, 4 pairs of 1.5 steps on average, one step at the end: 11 steps x 2 s x 8 + 10 s spent
    assert "about 186 s at the least with 8 replicates; expected at most 60 s; allow 186 s" in str(caught.value)
    assert plan_pairs(costs(1000, 1000), terms(left_s=186, budget_s=186), min_block_ms=1.0)


def test_a_small_overshoot_is_allowed() -> None:
    # 11 steps x 2 s x 8 = 176 s
    assert plan_pairs(costs(1000, 1000), terms(left_s=176 / 1.24), min_block_ms=1.0)
    with pytest.raises(StepprofError):
        plan_pairs(costs(1000, 1000), terms(left_s=176 / 1.26), min_block_ms=1.0)


def test_the_time_to_build_counts() -> None:
    with pytest.raises(StepprofError, match="allow"):
        plan_pairs(costs(1, 1, fresh_s=10), terms(), min_block_ms=1.0)


@pytest.mark.parametrize(("workers", "prefetch", "steps"), [(0, 2, 5), (1, 2, 5), (4, 2, 16), (8, 4, 64)])
def test_the_queue_is_emptied_before_the_timing(workers: int, prefetch: int, steps: int) -> None:
    assert drained_steps(workers, prefetch) == steps


@given(st.floats(0.5, 100), st.integers(1, 24), st.integers(2, 10))
def test_whole_arms_are_timed_over_whole_periods(step_ms: float, period: int, replicates: int) -> None:
    try:
        plan = plan_whole_arms(costs(step_ms, step_ms), terms(replicates=replicates), drained=10, period=period)
    except StepprofError:
        return
    assert plan.steps % period == 0
    assert plan.steps >= max(8, 2 * period)
    assert math.isclose(plan.estimated_s, replicates * (10 + plan.steps + 1) * 2 * step_ms / 1e3)
    assert plan.estimated_s <= 60 * OVERSHOOT
    assert abs(plan.first.count("before") - plan.first.count("after")) <= 1


def test_each_arm_goes_first_in_half_of_the_pairs_of_every_replicate() -> None:
    """The second block of a pair is some percent faster than the first: a coin would often favour one arm."""
    plan = plan_pairs(costs(1, 1), terms(seed=3), min_block_ms=1.0)
    again = drawn_again(plan, 4)
    assert isinstance(again, PairsPlan)
    for pairs in [*plan.pairs, *again.pairs]:
        first = [pair.first for pair in pairs]
        assert abs(first.count("before") - first.count("after")) <= len(first) % 2
        assert first != sorted(first)


def test_each_arm_goes_first_in_half_of_the_replicates_in_an_order_of_the_seed() -> None:
    orders = {tuple(plan_whole_arms(costs(1, 1), terms(seed=seed), drained=5, period=1).first) for seed in range(20)}
    assert len(orders) > 10
    assert all(order.count("before") == 4 for order in orders)


def test_whole_arms_that_do_not_fit_are_refused() -> None:
    plan: WholePlan = plan_whole_arms(costs(50, 10), terms(left_s=30), drained=16, period=4)
    assert 8 <= plan.steps < 40
    with pytest.raises(StepprofError, match="expected at most 60 s; allow"):
        plan_whole_arms(costs(500, 10), terms(), drained=16, period=4)


def test_a_plan_is_refused_by_the_least_that_was_seen_and_made_by_the_most() -> None:
    def seen(most: float, least: float | None) -> dict[ArmName, Cost]:
        one = Cost(fresh_s=most, least_fresh_s=least, step_ms=1.0)
        return {"before": one, "after": one}

    for make in (
        lambda costs: plan_pairs(costs, terms(left_s=8, budget_s=8), min_block_ms=1.0),
        lambda costs: plan_whole_arms(costs, terms(left_s=8, budget_s=8), drained=5, period=1),
    ):
        with pytest.raises(StepprofError, match="at the least"):
            make(seen(1.0, None))
        assert make(seen(1.0, 0.01)).estimated_s > 16  # 8 replicates, two arms, 1 s each
        assert make(seen(0.01, 0.01)).estimated_s < 8
