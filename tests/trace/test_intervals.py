"""Interval arithmetic against sets of points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepprof_lab.trace import intervals

LIMIT = 30
pairs = st.lists(st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)), max_size=12).map(
    lambda found: [(min(p), max(p)) for p in found]
)


def arrays(found):
    start = np.array([a for a, _ in found], dtype=np.int64)
    end = np.array([b for _, b in found], dtype=np.int64)
    return start, end


def points(start, end):
    return {p for a, b in zip(start.tolist(), end.tolist(), strict=True) for p in range(a, b)}


def nested_or_apart(one, other):
    (a, b), (c, d) = one, other
    return b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


def is_union(start, end):
    return bool((end > start).all() and (start[1:] > end[:-1]).all())


@given(pairs)
def test_union_covers_the_same_points_and_is_disjoint(found):
    merged = intervals.union(*arrays(found))
    assert points(*merged) == points(*arrays(found))
    assert is_union(*merged)
    assert intervals.covered(*arrays(found)) == len(points(*arrays(found)))


@given(pairs)
def test_total_adds_lengths_with_overlaps(found):
    assert intervals.total(*arrays(found)) == sum(b - a for a, b in found)


@given(pairs, st.integers(0, LIMIT), st.integers(0, LIMIT))
def test_clip_and_gaps_share_the_window(found, one, other):
    low, high = min(one, other), max(one, other)
    window = set(range(low, high))
    merged = intervals.union(*arrays(found))
    clipped = intervals.clip(*merged, low, high)
    free = intervals.gaps(merged, low, high)
    assert points(*clipped) == points(*merged) & window
    assert [side.tolist() for side in intervals.part(merged, low, high)] == [side.tolist() for side in clipped]
    assert points(*free) == window - points(*merged)
    assert is_union(*free)


@given(pairs, pairs)
def test_intersect_subtract_and_overlap(one, other):
    a, b = intervals.union(*arrays(one)), intervals.union(*arrays(other))
    assert points(*intervals.intersect(a, b)) == points(*a) & points(*b)
    assert points(*intervals.subtract(a, b)) == points(*a) - points(*b)
    assert intervals.overlap(a, b) == len(points(*a) & points(*b))
    assert is_union(*intervals.intersect(a, b))
    assert is_union(*intervals.subtract(a, b))


@given(pairs)
def test_contains_is_half_open(found):
    merged = intervals.union(*arrays(found))
    every = np.arange(-1, LIMIT + 2, dtype=np.int64)
    inside = intervals.contains(merged, every)
    assert {p for p, yes in zip(every.tolist(), inside.tolist(), strict=True) if yes} == points(*merged)


@given(pairs)
def test_nesting_gives_the_innermost_span_that_is_open(found):
    parent, depth = intervals.nesting(*arrays(found))
    for i, p in enumerate(parent.tolist()):
        if p >= 0:
            assert found[p][0] <= found[i][0] < found[p][1]
            assert depth[i] >= 1
        else:
            assert depth[i] == 0
    if all(nested_or_apart(one, other) for one in found for other in found):
        for i, p in enumerate(parent.tolist()):
            around = [j for j in range(len(found)) if j != i and found[j][0] <= found[i][0] < found[j][1]]
            around = [j for j in around if (found[j][0], -found[j][1], j) < (found[i][0], -found[i][1], i)]
            assert depth[i] == len(around)
            innermost = max(around, key=lambda j: (found[j][0], -found[j][1], j), default=-1)
            assert p == innermost


@given(pairs)
def test_children_of_one_span_do_not_overlap(found):
    start, end = arrays(found)
    parent, _ = intervals.nesting(start, end)
    for p in set(parent.tolist()) - {-1}:
        children = np.flatnonzero(parent == p)
        ends = np.minimum(end[children], end[p])
        assert intervals.covered(start[children], ends) == intervals.total(start[children], ends)


def test_nothing_is_handled_everywhere():
    nothing = intervals.union(*arrays([]))
    assert intervals.covered(*nothing) == 0
    assert intervals.overlap(nothing, nothing) == 0
    assert points(*intervals.gaps(nothing, 3, 7)) == {3, 4, 5, 6}
    assert not intervals.contains(nothing, np.array([1], dtype=np.int64)).any()
    assert intervals.nesting(*nothing)[0].shape == (0,)


def test_nanoseconds_of_this_century_stay_exact():
    base = 1_682_725_899_305_073_123
    start, end = arrays([(base, base + 1), (base + 1, base + 3), (base + 5, base + 6)])
    assert intervals.covered(start, end) == 4
    assert intervals.union(start, end)[0].tolist() == [base, base + 5]


groups = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, LIMIT), st.integers(0, LIMIT)).map(lambda g: (g[0], *sorted(g[1:]))),
    max_size=20,
)


@given(groups)
def test_unions_by_group_are_those_of_each_group(found):
    group = np.array([g for g, _, _ in found], dtype=np.int64)
    start, end = arrays([(a, b) for _, a, b in found])
    of, low, high = intervals.union_by(group, start, end)
    sums = intervals.total_by(of, high - low, 5)
    assert (np.diff(of) >= 0).all()
    for number in range(5):
        merged = intervals.union(start[group == number], end[group == number])
        assert [low[of == number].tolist(), high[of == number].tolist()] == [side.tolist() for side in merged]
        assert sums[number] == intervals.total(*merged)


def test_unions_by_group_stay_exact_however_many_groups_and_late_times_there_are():
    base = 1_682_725_899_305_073_123
    group = np.arange(100_000, dtype=np.int64)
    of, low, high = intervals.union_by(group, base + group, base + group + 3)
    assert (of == group).all()
    assert (high - low == 3).all()


@given(pairs)
def test_ranges_are_the_numbers_from_first_to_last(found):
    of, number = intervals.ranges(*arrays(found))
    assert list(zip(of.tolist(), number.tolist(), strict=True)) == [
        (i, n) for i, (a, b) in enumerate(found) for n in range(a, b)
    ]


@given(pairs, pairs)
def test_what_a_union_covers_of_many_windows(found, windows):
    merged = intervals.union(*arrays(found))
    inside = intervals.covered_in(merged, *arrays(windows))
    assert inside.tolist() == [len(points(*merged) & set(range(a, b))) for a, b in windows]
