"""Arithmetic on time intervals; it knows nothing of traces.

An interval is half open, ``[start, end)``, in integer nanoseconds. A set of intervals is a pair of int64 arrays of
the same length. Where a function asks for a *union* it wants what `union` returns: sorted, disjoint, not touching,
none of them empty.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]
    Bool = npt.NDArray[np.bool_]
    Intervals = tuple[Int64, Int64]
    Integer = TypeVar("Integer", bound=np.integer[Any])


def union(start: Int64, end: Int64) -> Intervals:
    """Sorted disjoint intervals that cover the same points; empty ones vanish, touching ones become one."""
    kept = end > start
    start, end = start[kept], end[kept]
    if len(start) < 2:
        return start, end
    order = np.argsort(start, kind="stable")
    start = start[order]
    reached = np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], reached[last]


def union_by(group: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The union within each group, for many groups of which each has a few intervals; groups in order.

    Args:
        group: number of each interval's group, from 0 on.
        start: of each interval.
        end: of each interval.

    Returns:
        Group, start and end of the intervals of all unions.
    """
    kept = end > start
    group, start, end = group[kept], start[kept], end[kept]
    if len(start) < 2:
        return group, start, end
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    # The largest end so far within each group: ends as ranks, so that a group's number fits before each.
    ranked = np.argsort(end, kind="stable")
    rank = np.empty_like(ranked)
    rank[ranked] = np.arange(len(end))
    reached = end[ranked[np.maximum.accumulate(group * len(end) + rank) - group * len(end)]]
    first = np.concatenate(([True], (start[1:] > reached[:-1]) | (group[1:] != group[:-1])))
    last = np.concatenate((first[1:], [True]))
    return group[first], start[first], reached[last]


def total_by(group: Int64, length: Int64, groups: int) -> Int64:
    """Sum of some lengths for each of so many groups, exact."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, length)
    return sums


def ranges(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """The numbers from each first up to each last: 3, 4, 5 and 9, 10 for 3 to 6 and 9 to 11.

    Returns:
        For each number which range it is of, and the number.
    """
    counts = np.maximum(last - first, 0)
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + first[of]


def total(start: Int64, end: Int64) -> int:
    """Sum of the lengths; the elapsed time that is covered where the intervals are a union."""
    return int((end - start).sum())


def covered(start: Int64, end: Int64) -> int:
    """Length of the union."""
    return total(*union(start, end))


def clip(start: Int64, end: Int64, low: int, high: int) -> Intervals:
    """The parts inside ``[low, high)``; what lies outside becomes empty and is left out."""
    start, end = np.maximum(start, low), np.minimum(end, high)
    kept = end > start
    return start[kept], end[kept]


def part(merged: Intervals, low: int, high: int) -> Intervals:
    """What of a union lies inside ``[low, high)``; looks at no more than that, for many windows of a long union."""
    first, last = np.searchsorted(merged[1], low, side="right"), np.searchsorted(merged[0], high)
    return clip(merged[0][first:last], merged[1][first:last], low, high)


def gaps(merged: Intervals, low: int, high: int) -> Intervals:
    """What of ``[low, high)`` a union leaves free."""
    start, end = part(merged, low, high)
    free_start = np.concatenate((np.array([low], dtype=np.int64), end))
    free_end = np.concatenate((start, np.array([high], dtype=np.int64)))
    kept = free_end > free_start
    return free_start[kept], free_end[kept]


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """The points that are in both unions."""
    if not len(one[0]) or not len(other[0]):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    low, high = max(one[0][0], other[0][0]), min(one[1][-1], other[1][-1])
    one, other = _near(one, low, high), _near(other, low, high)
    if not len(one[0]) or not len(other[0]):
        return one[0][:0], one[0][:0]
    # Both begin and end at marks; between two neighbouring marks nothing changes.
    marks = np.sort(np.concatenate((*one, *other)), kind="stable")  # four sorted runs: it merges them
    marks = marks[np.concatenate(([True], marks[1:] != marks[:-1]))]
    inside = contains(one, marks[:-1]) & contains(other, marks[:-1])
    return union(marks[:-1][inside], marks[1:][inside])


def _near(merged: Intervals, low: int, high: int) -> Intervals:
    """The intervals of a union that may overlap a span: a short one against a long union must not look at all of it."""
    first, last = np.searchsorted(merged[1], low, side="right"), np.searchsorted(merged[0], high)
    return merged[0][first:last], merged[1][first:last]


def subtract(one: Intervals, other: Intervals) -> Intervals:
    """The points of one union that are not in the other."""
    if not len(one[0]):
        return one
    return intersect(one, gaps(other, int(one[0][0]), int(one[1][-1])))


def overlap(one: Intervals, other: Intervals) -> int:
    """Length of what two unions have in common."""
    return total(*intersect(one, other))


def covered_in(merged: Intervals, low: Int64, high: Int64) -> Int64:
    """For each ``[low, high)`` how much of it a union covers."""
    upto = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(merged[1] - merged[0])))

    def before(at: Int64) -> Int64:
        place = np.searchsorted(merged[0], at, side="right")
        inside = np.maximum(merged[1][np.maximum(place - 1, 0)] - at, 0) if len(merged[0]) else 0
        done: Int64 = upto[place] - np.where(place > 0, inside, 0)
        return done

    inside: Int64 = np.maximum(before(high) - before(low), 0)
    return inside


def contains(merged: Intervals, points: Int64) -> Bool:
    """For each point whether it lies in a union."""
    start, end = merged
    if not len(start):
        return np.zeros(len(points), dtype=np.bool_)
    before = np.searchsorted(start, points, side="right") - 1
    inside: Bool = (before >= 0) & (points < end[np.maximum(before, 0)])
    return inside


def distinct(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """The distinct values, in order. `numpy.unique` would load all of masked arrays first (20 ms)."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def nesting(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Parent and depth of each interval on one thread.

    Intervals are taken in order of start, longer ones first, then in the given order. The parent is the innermost
    interval that is still open when one starts; an interval is open up to its end, not at it.

    Returns:
        For each interval, in the given order: the index of its parent (-1 where it has none), and how many
        intervals are open around it.
    """
    order = np.lexsort((start - end, start))
    found = _without_crossings(start[order], end[order]) if len(order) > FEW else None
    parents, depths = found if found is not None else _one_by_one(start[order], end[order])
    parent, depth = np.empty_like(parents), np.empty_like(depths)
    parent[order] = np.where(parents >= 0, order[np.maximum(parents, 0)], -1)
    depth[order] = depths
    return parent, depth


FEW = 32
"""Intervals up to which going through them one by one is faster: a file may have a hundred thousand threads."""
DEEPEST = 1000
"""Levels up to which going level by level is fast; real threads have up to some hundred."""


def _without_crossings(start: Int64, end: Int64) -> tuple[Int64, Int64] | None:
    """Parent and depth of intervals in order, level by level; None where some cross, or nest very deeply.

    Where none cross, the depth of an interval is the number of those before it that have not ended, and its parent is
    the last one before it that is one level up. The first one that does cross ends after this parent.
    """
    count = np.arange(len(start))
    empty = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(start == end)))
    # Empty ones that begin at the same time and come later have ended too, but are not before it.
    later = empty[np.searchsorted(start, start, side="right")] - empty[:-1]
    depth = count - (np.searchsorted(np.sort(end), start, side="right") - later)
    if not len(depth) or int(depth.max()) > DEEPEST:
        return None
    levels = np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1])
    parent = np.full(len(start), -1, dtype=np.int64)
    for above, level in itertools.pairwise(levels):
        parent[level] = above[np.searchsorted(above, level) - 1]
    child = np.flatnonzero(parent >= 0)
    return None if (end[child] > end[parent[child]]).any() else (parent, depth)


def _one_by_one(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The same whatever the intervals are."""
    starts, ends = start.tolist(), end.tolist()
    parents: list[int] = []
    depths: list[int] = []
    open_: list[int] = []
    for index, now in enumerate(starts):
        while open_ and ends[open_[-1]] <= now:
            open_.pop()
        parents.append(open_[-1] if open_ else -1)
        depths.append(len(open_))
        open_.append(index)
    return np.array(parents, dtype=np.int64), np.array(depths, dtype=np.int64)
