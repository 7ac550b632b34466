"""Arithmetic on time intervals; it knows nothing of traces.

An interval is half open, ``[start, end)``, in integer nanoseconds. A set of intervals is a pair of int64 arrays of
the same length. Where a function asks for a *union* it wants what `union` returns: sorted, disjoint, not touching,
none of them empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]
    Bool = npt.NDArray[np.bool_]
    Intervals = tuple[Int64, Int64]


def union(start: Int64, end: Int64) -> Intervals:
    """Sorted disjoint intervals that cover the same points; empty ones vanish, touching ones become one."""
    kept = end > start
    start, end = start[kept], end[kept]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start = start[order]
    reached = np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], reached[last]


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


def gaps(merged: Intervals, low: int, high: int) -> Intervals:
    """What of ``[low, high)`` a union leaves free."""
    start, end = clip(*merged, low, high)
    free_start = np.concatenate((np.array([low], dtype=np.int64), end))
    free_end = np.concatenate((start, np.array([high], dtype=np.int64)))
    kept = free_end > free_start
    return free_start[kept], free_end[kept]


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """The points that are in both unions."""
    if not len(one[0]) or not len(other[0]):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    # Both begin and end at marks; between two neighbouring marks nothing changes.
    marks = np.unique(np.concatenate((*one, *other)))
    inside = contains(one, marks[:-1]) & contains(other, marks[:-1])
    return union(marks[:-1][inside], marks[1:][inside])


def subtract(one: Intervals, other: Intervals) -> Intervals:
    """The points of one union that are not in the other."""
    if not len(one[0]):
        return one
    return intersect(one, gaps(other, int(one[0][0]), int(one[1][-1])))


def overlap(one: Intervals, other: Intervals) -> int:
    """Length of what two unions have in common."""
    return total(*intersect(one, other))


def contains(merged: Intervals, points: Int64) -> Bool:
    """For each point whether it lies in a union."""
    start, end = merged
    if not len(start):
        return np.zeros(len(points), dtype=np.bool_)
    before = np.searchsorted(start, points, side="right") - 1
    inside: Bool = (before >= 0) & (points < end[np.maximum(before, 0)])
    return inside


def nesting(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Parent and depth of each interval on one thread.

    Intervals are taken in order of start, longer ones first, then in the given order. The parent is the innermost
    interval that is still open when one starts; an interval is open up to its end, not at it.

    Returns:
        For each interval, in the given order: the index of its parent (-1 where it has none), and how many
        intervals are open around it.
    """
    order = np.lexsort((start - end, start))
    parent = np.full(len(start), -1, dtype=np.int64)
    depth = np.zeros(len(start), dtype=np.int64)
    starts, ends = start.tolist(), end.tolist()
    parents: list[int] = []
    depths: list[int] = []
    open_: list[int] = []
    for index in order.tolist():
        now = starts[index]
        while open_ and ends[open_[-1]] <= now:
            open_.pop()
        parents.append(open_[-1] if open_ else -1)
        depths.append(len(open_))
        open_.append(index)
    parent[order] = parents
    depth[order] = depths
    return parent, depth
