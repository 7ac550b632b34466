"""Constructed series of step times: a start-up, a level with noise, and what may happen to it later."""

from __future__ import annotations

import itertools
import random
from typing import Any, Literal

Series = dict[str, Any]
"""``times_ms``, and what is true of it: ``start_up`` (steps before the steady part), ``level_ms``, ``slow`` (steps of
the steady part with a new shape, counted from 0)."""

StartUp = Literal["falling", "plateau", "none"]

NOISE = 0.008
"""Standard deviation of a step, as a share; no step is further off than 2.5 of it."""
FIRST = 12.0
"""The first step takes so many times the level."""
FALLS_FROM, FALLS_TO, PLATEAU = 1.5, 1.13, 1.24
"""The other steps of a start-up, as times the level. They end well above what noise does."""
SLOW = (5.0, 7.0)
"""A step with a new shape, as times the level."""
APART = 12
"""So many steps at least lie between the start-up and a new shape, and between two of them."""


def make(
    chance: random.Random,
    *,
    count: int = 150,
    start_up: StartUp = "falling",
    longest: tuple[int, int] = (12, 24),
    slow: int = 0,
    shift: float = 0.0,
    drift: float = 0.0,
) -> Series:
    """A series of step times.

    Args:
        chance: where its numbers come from.
        count: how many steps.
        start_up: how it begins: a slow first step and a slow fall, a slow first step and a plateau, or at its level.
        longest: from how many to how many steps a start-up has.
        slow: how many steps of the steady part have a new shape.
        shift: share by which the level changes for good, some way behind the middle.
        drift: share by which the level has changed at the end, step by step.
    """
    steps = 0 if start_up == "none" else chance.randint(*longest)
    level = round(chance.uniform(8.0, 40.0), 1)
    factors = [*_start_up(steps, start_up), *[1.0] * (count - steps)]
    at = _places(chance, steps, count, slow)
    for place in at:
        factors[place] *= chance.uniform(*SLOW)
    changes = chance.randint(int(0.5 * count), int(0.7 * count))
    times = []
    for number, factor in enumerate(factors):
        noise = 1 + NOISE * min(2.5, max(-2.5, chance.gauss(0, 1)))
        moved = 1 + (shift if number >= changes else 0.0) + drift * number / count
        times.append(round(level * factor * noise * moved, 3))
    return {"times_ms": times, "start_up": steps, "level_ms": level, "slow": at}


def _start_up(steps: int, kind: StartUp) -> list[float]:
    if not steps:
        return []
    rest = steps - 1
    if kind == "plateau":
        return [FIRST, FALLS_FROM, *[PLATEAU] * (rest - 1)]
    fall = (FALLS_FROM - FALLS_TO) / (rest - 1)
    return [FIRST, *(FALLS_FROM - fall * number for number in range(rest))]


def _places(chance: random.Random, steps: int, count: int, slow: int) -> list[int]:
    """Where new shapes come: apart from the start-up, from each other and from the end."""
    while True:
        found = sorted(chance.sample(range(steps + APART, count - APART), slow))
        if all(later - earlier >= APART for earlier, later in itertools.pairwise(found)):
            return found
