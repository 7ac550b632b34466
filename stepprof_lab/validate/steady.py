"""Where is a series of step times steady? Pure functions over a series: no clock is read and no value is deleted.

A start-up may last one step or hundreds (caches, lazy loading, compilation), and a process may change its level in the
middle for good. So the steady part is found from the series itself, and a level that shifts is told with its step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.statistics import drifts, spearman

STEADY_SHARE = 0.03
"""Medians that differ by less than this share are one level."""

CHANCE = 0.001
"""With this probability a series without a shift may show one: on top of it the levels must differ by `STEADY_SHARE`,
for steps in a row are not quite independent (a correlation of 0.15 was measured)."""

SLOW = 3.0
"""A step is called slow from this many times the level of its part."""

FEW, MUCH_SLOWER = 0.25, 1.5
"""A slower part before the others is start-up where it is shorter than this share of them, or slower by this factor and
just shorter than they are. Else it is a level of its own."""

OFTEN = 0.8
"""Slow steps come at a distance where so many of the steps that are due are slow."""

MOST_WINDOW = 20
"""Steps of the rolling median; fewer in a short series."""


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """A change of level for many steps."""

    step: int
    """First step of the new level, counted from 1."""
    from_ms: float
    to_ms: float


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a series of step times."""

    after: int | None
    """Steps of start-up before the steady part; None where there is no steady part, or too few steps to see it."""
    level_ms: float | None
    """Median of the steady part up to its first shift."""
    shifts: list[Shift]
    """Changes of level after the start-up, in order."""
    slow_steps: list[int]
    """Steps after the start-up, counted from 1, that took `SLOW` times the level of their part or more."""
    every: int | None
    """The distance of slow steps that come again and again; None where none do."""
    reason: str
    """All of this in a sentence."""


def find(times_ms: Sequence[float], window: int | None = None) -> Steady:
    """Find the steady part of a series.

    Levels are told apart by ranks, so that single long steps decide nothing: a series is cut where the largest
    Mann-Whitney statistic over all cuts is too large for chance (Bonferroni over the cuts), and a cut describes the
    series better than a line does; then each part again (binary segmentation). Neighbours whose medians differ by less
    than `STEADY_SHARE` are one level.
    A short slower part before the others is start-up (`FEW`). It ends with the first window of steps whose median is at
    the level, less the steps at its beginning that are not.

    Args:
        times_ms: the time of each step from the first on, in ms or any other unit.
        window: steps of the rolling median, and the shortest part; by default a quarter of the series, 2 to 20.

    Raises:
        StepprofError: an empty series, or a time that is negative or no number.
    """
    times = _checked(times_ms)
    count = len(times)
    window = window or max(2, min(MOST_WINDOW, count // 4))
    if count < 2 * window:
        return _unknown(f"{count} steps are too few to tell: two windows of {window} steps are compared")
    parts = _joined(times, _parts(times, 0, count, window))
    start_up = _start_up(times, parts)
    begin, end = parts[start_up]
    middle = (begin + end) // 2
    if changed := _drift(times[middle:end]):
        return _unknown(
            f"never steady: the times change from {changed[0]:.4g} to {changed[1]:.4g} ms over steps {middle + 1} to "
            f"{end} without coming to a level"
        )
    searched = parts[max(0, start_up - 1)][0]  # the cut between two levels is no sharp end of a start-up
    after = _settled_from(times[searched:end], end - begin, window)
    if after is None:
        return _unknown(f"never steady: the medians of the last two windows of {window} steps still differ")
    return _described(times, [(searched + after, end), *parts[start_up + 1 :]])


def is_settled(times_ms: Sequence[float], window: int) -> bool:
    """Whether the medians of the last two windows of step times are one level; asked while a warm-up goes on.

    On a busy machine the medians of equal steps differ by more than `STEADY_SHARE`; by how much follows from the spread
    inside the windows.
    """
    if len(times_ms) < 2 * window:
        return False
    windows = np.asarray(times_ms[-2 * window :]).reshape(2, window)
    earlier, last = (float(one) for one in np.median(windows, axis=1))
    return abs(earlier - last) <= max(STEADY_SHARE * last, math.sqrt(2) * _noise(windows[1], last, window))


def _checked(times_ms: Sequence[float]) -> Any:
    times = np.asarray(times_ms, dtype=float)
    if times.ndim != 1 or not times.size or not np.isfinite(times).all() or (times < 0).any():
        raise StepprofError(
            f"a series of {times.size} times that is empty or holds a negative or missing one",
            "the time of each step, 0 or more",
            "give all steps from the first on",
        )
    return times


def _unknown(reason: str) -> Steady:
    return Steady(after=None, level_ms=None, shifts=[], slow_steps=[], every=None, reason=reason)


# Levels --------------------------------------------------------------------------------------------------------------


def _parts(times: Any, begin: int, end: int, window: int) -> list[tuple[int, int]]:
    """Cut a series into parts of one distribution each, given by their first step and the one after their last."""
    at = _cut(times[begin:end], window)
    if at is None:
        return [(begin, end)]
    return [*_parts(times, begin, begin + at, window), *_parts(times, begin + at, end, window)]


def _joined(times: Any, parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same with neighbours of one level as one part: what came and went again may have needed them apart."""
    joined: list[tuple[int, int]] = []
    for begin, end in parts:
        if joined and _one_level(float(np.median(times[slice(*joined[-1])])), float(np.median(times[begin:end]))):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


def _cut(times: Any, window: int) -> int | None:
    """Where a series changes; None where it does not."""
    count = len(times)
    if count < 2 * window or np.ptp(times) == 0:
        return None
    cuts = np.arange(window, count - window + 1)
    # Mann-Whitney's U of the steps before each cut, less its expectation, by its standard deviation.
    surplus = np.cumsum(_ranks(times))[cuts - 1] - cuts * (count + 1) / 2
    scores = np.abs(surplus) / np.sqrt(cuts * (count - cuts) * (count + 1) / 12)
    best = int(np.argmax(scores))
    if len(cuts) * math.erfc(float(scores[best]) / math.sqrt(2)) > CHANCE:
        return None
    at = int(cuts[best])
    return None if _line_fits_better(times, at) else at


def _ranks(times: Any) -> Any:
    """Ranks from 1, ties by their mean."""
    _, inverse, counts = np.unique(times, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[inverse]


def _one_level(one: float, other: float) -> bool:
    return abs(one - other) <= STEADY_SHARE * max(one, other)


def _line_fits_better(times: Any, at: int) -> bool:
    """Whether a straight line leaves less unexplained than two levels, over medians of short pieces."""
    middles, medians = _medians(times)
    if len(medians) < 6:
        return False
    first = medians[middles < at]
    rest = medians[middles >= at]
    if not first.size or not rest.size:
        return False
    levels = float(((first - first.mean()) ** 2).sum() + ((rest - rest.mean()) ** 2).sum())
    line = float(((medians - np.polyval(np.polyfit(middles, medians, 1), middles)) ** 2).sum())
    return line < levels


def _medians(times: Any) -> tuple[Any, Any]:
    """The middle of each of about twelve pieces, and its median."""
    length = max(1, len(times) // 12)
    pieces = len(times) // length
    return (np.arange(pieces) + 0.5) * length, np.median(times[: pieces * length].reshape(pieces, length), axis=1)


def _start_up(times: Any, parts: list[tuple[int, int]]) -> int:
    """How many of the first parts are start-up."""
    for number, ((begin, end), following) in enumerate(itertools.pairwise(parts)):
        slower = float(np.median(times[begin:end])) / max(float(np.median(times[slice(*following)])), 1e-300)
        share = (end - begin) / (len(times) - end)
        if slower <= 1 or not (share <= FEW or (share < 1 and slower >= MUCH_SLOWER)):
            return number
    return len(parts) - 1


def _drift(times: Any) -> tuple[float, float] | None:
    """From which to which time a part moves all along; None where it stays."""
    if not drifts(spearman(times), len(times), CHANCE):
        return None
    middles, medians = _medians(times)
    if len(medians) < 3:
        return None
    slope, start = np.polyfit(middles, medians, 1)
    ends = float(start), float(start + slope * len(times))
    return None if _one_level(*ends) else ends


def _settled_from(times: Any, certain: int, window: int) -> int | None:
    """First step of the steady part; None where the end is not settled.

    Args:
        times: the part, with what comes before it.
        certain: so many of the last steps are of the part itself; the second half of them gives the level.
        window: steps of the rolling median.
    """
    last = times[len(times) - max(1, certain // 2) :]
    level = float(np.median(last))
    near = max(STEADY_SHARE * level, _noise(last, level, window))
    window = max(1, min(window, certain // 2))
    rolling = np.median(np.lib.stride_tricks.sliding_window_view(times, window), axis=1)
    if abs(float(rolling[-1]) - level) > near or abs(float(rolling[-1] - rolling[-1 - window])) > math.sqrt(2) * near:
        return None
    at = int(np.flatnonzero(np.abs(rolling - level) <= near)[0])
    of_the_level = times[at : at + window] <= level + max(near, _noise(last, level, 1))
    return at + int(np.flatnonzero(of_the_level)[0])


def _noise(times: Any, level: float, window: int) -> float:
    """How far the median of so many equal steps may be from their level by chance.

    Three times 1.25 sd / sqrt(n), the standard error of a median; the sd from the median absolute deviation, which a
    few long steps do not move.
    """
    deviation = 1.4826 * float(np.median(np.abs(times - level)))
    return 3 * 1.2533 * deviation / math.sqrt(window)


# In words ------------------------------------------------------------------------------------------------------------


def _described(times: Any, parts: list[tuple[int, int]]) -> Steady:
    levels = [float(np.median(times[begin:end])) for begin, end in parts]
    shifts = [
        Shift(step=begin + 1, from_ms=levels[number], to_ms=levels[number + 1])
        for number, (begin, _) in enumerate(parts[1:])
    ]
    slow = [
        begin + int(at) + 1
        for (begin, end), level in zip(parts, levels, strict=True)
        for at in np.flatnonzero(times[begin:end] >= SLOW * level)
        if level > 0
    ]
    after = parts[0][0]
    every = _distance(slow, after + 1, len(times))
    told = [f"steady after {after} of {len(times)} steps, at {levels[0]:.4g} ms"]
    told += [
        f"from step {one.step} on at another level, {one.to_ms:.4g} instead of {one.from_ms:.4g} ms" for one in shifts
    ]
    if every is not None:
        told.append(f"every {every} steps one takes at least {SLOW:g} times as long (first slow step: {slow[0]})")
    return Steady(after=after, level_ms=levels[0], shifts=shifts, slow_steps=slow, every=every, reason="; ".join(told))


def _distance(slow: Sequence[int], first: int, last: int) -> int | None:
    """The distance at which slow steps come again and again, other slow steps aside; None where there is none."""
    share, pairs = len(slow) / (last - first + 1), len(slow) * (len(slow) - 1) / 2
    for apart in sorted({int(one) for one in np.diff(slow)} - {1}):
        for begin in slow:
            due = range(first + (begin - first) % apart, last + 1, apart)
            hits = len(set(slow).intersection(due))
            # Any two slow steps have a distance; the others must come at it too, and not by chance.
            if hits >= OFTEN * len(due) and pairs * share ** (hits - 2) < CHANCE:
                return apart
    return None
