"""What is fixed before the timing begins: how many replicates, pairs and steps, and who goes first.

A plan is made once, from the duration of the steps that were compared, and is then carried out to its end: a run that
stops when the result looks clear finds differences where there are none.
"""

from __future__ import annotations

import math
import random
from typing import Literal

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.start import derived_seed

MIN_BLOCK_MS = 1.0
"""Shorter blocks measure what the block before left in the caches."""

MIN_GPU_BLOCK_MS = 20.0
"""A GPU block begins with an empty queue and ends with a wait; both must be small in it."""

TICK_MS = 4.0
"""The timer tick of a usual Linux kernel. Blocks that fit into it a whole number of times fell into step with it:
22 % false alarms in a fixed order."""

MOST_PAIRS, USUAL_PAIRS, FEWEST_PAIRS = 32, 12, 4

SHORT_S = 5.0
"""More than the usual pairs are taken only while all timed blocks together take less than this: precision that costs
nothing is taken, and nobody waits for more than was needed."""

MOST_WHOLE_STEPS, FEWEST_WHOLE_STEPS = 40, 8

OVERSHOOT = 1.25
"""How far the estimate may go beyond what was asked for: it is no better than that."""

PLANNED_SHARE = 0.8
"""Share of the time left that a plan fills: steps may turn out slower than those that it was made from."""

_ARMS: tuple[ArmName, ArmName] = ("before", "after")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one arm was seen to cost."""

    fresh_s: float
    """To build an instance, look at it before and after its steps, and drop it, in seconds; the most that was seen."""
    least_fresh_s: float | None = None
    """The least that was seen: what cannot be done even so is refused."""
    step_ms: float
    """Mean step, in ms."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan has to keep to."""

    seed: int
    """Of the scenario; every order is drawn from it."""
    replicates: int
    """Fresh pairs of arms."""
    left_s: float
    """Seconds left of the budget."""
    budget_s: float
    """The whole budget."""
    runs: int = 1
    """How often the plan is carried out; what is left is for one of them."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two blocks, one of each arm, with the same number of steps."""

    first: ArmName
    steps: int


class PairsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Short blocks of two living arms, in random order within each pair."""

    design: Literal["blocks in random pairs"] = "blocks in random pairs"
    window: int
    """Steps of the rolling median by which the warm-up is judged."""
    most_windows: int
    """Warm-up ends after this many windows, steady or not."""
    built_first: list[ArmName]
    """For each replicate."""
    pairs: list[list[Pair]]
    """For each replicate."""
    estimated_s: float


class WholePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at a time, in random order within each replicate."""

    design: Literal["whole arms in random order"] = "whole arms in random order"
    period: int
    """Steps after which the loaders' workers come round again."""
    drained: int
    """Steps before the timing, until the queue that was filled at the start is empty."""
    steps: int
    """Timed steps of each arm in each replicate, whole periods."""
    first: list[ArmName]
    """For each replicate."""
    estimated_s: float


def window_of(step_ms: float) -> int:
    """How many steps the rolling median of the warm-up spans: 20 short ones, down to 2 long ones."""
    return max(2, min(20, round(100 / step_ms))) if step_ms > 0 else 20


def block_lengths(step_ms: float, min_block_ms: float) -> list[int]:
    """The numbers of steps that a block may have: several, long enough, and out of step with the system's tick.

    Args:
        step_ms: step of the faster arm.
        min_block_ms: shortest block.
    """
    several = 4 if step_ms <= 5 else 2 if step_ms <= 50 else 1
    fewest = max(several, math.ceil(min_block_ms / step_ms)) if step_ms > 0 else 1000
    lengths = list(range(fewest, 2 * fewest)) if fewest > 1 else [1, 2]
    return [steps for steps in lengths if not _fits_tick(steps * step_ms)] or lengths


def _fits_tick(block_ms: float) -> bool:
    """Whether a block, or a pair of them, goes into the tick a whole number of times, within 5 %."""
    times = TICK_MS / block_ms if block_ms > 0 else 0
    return times > 0.9 and abs(times - round(times)) < 0.05 * times


def plan_pairs(costs: dict[ArmName, Cost], terms: Terms, *, min_block_ms: float) -> PairsPlan:
    """Plan blocks in random pairs.

    Args:
        costs: what the two arms cost.
        terms: what the plan has to keep to.
        min_block_ms: shortest block.

    Raises:
        StepprofError: even the smallest plan does not fit.
    """
    fast_ms = min(cost.step_ms for cost in costs.values())
    both_ms = max(1e-6, sum(cost.step_ms for cost in costs.values()))  # a coarse clock may show nothing
    lengths = block_lengths(fast_ms, min_block_ms)
    window = window_of(both_ms / 2)
    fresh_s, least_s = _fresh(costs)

    def seconds(pairs: int, windows: float, fresh_s: float = fresh_s) -> float:
        steps = windows * window + pairs * sum(lengths) / len(lengths) + 1
        return terms.replicates * (fresh_s + steps * both_ms / 1e3)

    smallest = seconds(FEWEST_PAIRS, 2, least_s)
    if smallest > terms.left_s * OVERSHOOT:
        raise too_long(smallest, terms)
    room_s = PLANNED_SHARE * terms.left_s
    most = max(USUAL_PAIRS, min(MOST_PAIRS, int(SHORT_S / (seconds(1, 0) - seconds(0, 0)))))
    pairs = max((n for n in range(FEWEST_PAIRS, most + 1) if seconds(n, 2) <= room_s), default=FEWEST_PAIRS)
    windows = (room_s - seconds(pairs, 0)) / (seconds(0, 1) - seconds(0, 0))
    chance = random.Random(derived_seed(terms.seed, "plan"))  # noqa: S311 - no secret
    return PairsPlan(
        window=window,
        most_windows=max(2, min(20, int(windows))),
        built_first=_half_and_half(terms.replicates, chance),
        pairs=[
            [Pair(first=first, steps=chance.choice(lengths)) for first in _half_and_half(pairs, chance)]
            for _ in range(terms.replicates)
        ],
        estimated_s=seconds(pairs, 3),
    )


def drained_steps(workers: int, prefetch: int) -> int:
    """Steps until the batches that the workers had prepared in advance are used up; at least a short warm-up."""
    return max(2 * workers * prefetch, 5)


def plan_whole_arms(costs: dict[ArmName, Cost], terms: Terms, *, drained: int, period: int) -> WholePlan:
    """Plan whole arms in random order.

    Args:
        costs: what the two arms cost.
        terms: what the plan has to keep to.
        drained: steps before the timing.
        period: steps of a whole turn of the workers of both arms.

    Raises:
        StepprofError: even the smallest plan does not fit.
    """
    both_ms = sum(cost.step_ms for cost in costs.values())
    fresh_s, least_s = _fresh(costs)

    def seconds(steps: int, fresh_s: float = fresh_s) -> float:
        return terms.replicates * (fresh_s + (drained + steps + 1) * both_ms / 1e3)

    fewest = period * max(2, math.ceil(FEWEST_WHOLE_STEPS / period))
    most = period * max(5, math.ceil(MOST_WHOLE_STEPS / period))
    if (smallest := seconds(fewest, least_s)) > terms.left_s * OVERSHOOT:
        raise too_long(smallest, terms)
    room_s = PLANNED_SHARE * terms.left_s
    steps = max((n for n in range(fewest, most + 1, period) if seconds(n) <= room_s), default=fewest)
    chance = random.Random(derived_seed(terms.seed, "plan"))  # noqa: S311 - no secret
    return WholePlan(
        period=period,
        drained=drained,
        steps=steps,
        first=_half_and_half(terms.replicates, chance),
        estimated_s=seconds(steps),
    )


def drawn_again(plan: PairsPlan | WholePlan, seed: int) -> PairsPlan | WholePlan:
    """The same plan with every order drawn anew: as many replicates, and the same blocks in another order."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    if isinstance(plan, WholePlan):
        return msgspec.structs.replace(plan, first=_half_and_half(len(plan.first), chance))
    lengths = [pair.steps for pairs in plan.pairs for pair in pairs]
    chance.shuffle(lengths)
    rest = iter(lengths)
    return msgspec.structs.replace(
        plan,
        built_first=_half_and_half(len(plan.built_first), chance),
        pairs=[
            [Pair(first=first, steps=next(rest)) for first in _half_and_half(len(pairs), chance)]
            for pairs in plan.pairs
        ],
    )


def _fresh(costs: dict[ArmName, Cost]) -> tuple[float, float]:
    """What a fresh pair costs in seconds: the most and the least that was seen."""
    most = [cost.fresh_s for cost in costs.values()]
    least = [cost.fresh_s if cost.least_fresh_s is None else cost.least_fresh_s for cost in costs.values()]
    return sum(most), sum(least)


class TooLong(StepprofError):
    """The smallest plan does not fit into the budget.

    Args:
        whole_s: the budget that it would fit into, in seconds.
    """

    def __init__(self, whole_s: int, given: str, expected: str, todo: str) -> None:
        super().__init__(given, expected, todo)
        self.whole_s = whole_s


def too_long(needed_s: float, terms: Terms) -> TooLong:
    """The error for arms whose smallest plan does not fit."""
    whole = math.ceil(terms.budget_s + terms.runs * (needed_s - terms.left_s))
    return TooLong(
        whole,
        f"arms whose comparison takes about {whole} s at the least with {terms.replicates} replicates",
        f"at most {terms.budget_s:.6g} s",
        f"allow {whole} s, or take fewer replicates or a smaller step",
    )


def _half_and_half(count: int, chance: random.Random) -> list[ArmName]:
    """Each arm first in half of them, in random order: with so few, a coin would often favour one arm."""
    names: list[ArmName] = [*_ARMS] * (count // 2) + [chance.choice(_ARMS)] * (count % 2)
    chance.shuffle(names)
    return names
