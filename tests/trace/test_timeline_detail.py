"""Bundles against a slow reference: nothing is lost, nothing long is hidden, and the budget holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stepprof_lab.trace import reader, timeline
from stepprof_lab.trace import steps as stepping
from stepprof_lab.trace.detail import apart, bundle

SPANS = some.lists(
    some.tuples(some.integers(0, 3), some.integers(0, 2000), some.integers(0, 300)), min_size=1, max_size=60
)


def columns(spans):
    row, start, length = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
    return start, start + length, row


@given(SPANS, some.integers(1, 70))
def test_bundles_hold_every_span_once_and_say_what_they_hold(spans, budget):
    start, end, row = columns(spans)
    groups = bundle(start, end, row, budget)
    assert len(groups) <= max(budget, len(set(row.tolist())))
    of = groups.group_of_span()
    assert groups.count.tolist() == np.bincount(of, minlength=len(groups)).tolist()
    begins, ends = groups.start(start), groups.end(end)
    covered, longest = groups.covered(start, end, row), groups.longest(start, end)
    for number in range(len(groups)):
        mine = np.flatnonzero(of == number)
        assert len(set(row[mine].tolist())) == 1
        assert begins[number] == start[mine].min()
        assert ends[number] == end[mine].max()
        assert longest[number] in mine
        assert (end - start)[longest[number]] == (end - start)[mine].max()
    for number in set(row.tolist()):
        # What all groups of a row cover together is the union of the row: no point counts twice.
        mine = np.flatnonzero(row == number)
        union = len({t for i in mine for t in range(start[i], end[i])})
        assert covered[np.unique(of[mine])].sum() == union


@given(SPANS)
def test_with_room_for_all_every_span_stays_alone(spans):
    start, end, row = columns(spans)
    groups = bundle(start, end, row, len(spans))
    assert groups.count.tolist() == [1] * len(spans)


@given(SPANS, some.integers(1, 70))
def test_what_stays_alone_by_its_length_is_longer_than_all_that_is_bundled(spans, budget):
    start, end, row = columns(spans)
    groups = bundle(start, end, row, budget)
    length = end - start
    bundled = np.flatnonzero((groups.count > 1)[groups.group_of_span()])
    # Twice: the limit is a power of two.
    shortest = 1 << int(length[bundled].max()).bit_length() if len(bundled) else 0
    long = np.flatnonzero(length >= shortest)
    assert (groups.count[groups.group_of_span()[long]] == 1).all()


def test_a_coarser_detail_counts_all_spans_and_keeps_launches(build, tmp_path):
    built = build().step(1, 0, 10_000)
    for n in range(200):
        built.operator(f"op{n % 7}", n * 40, 30).launch(n + 1, n * 40 + 5, 10 + n % 3).kernel(n + 1, n * 40 + 50, 20)
    trace = reader.read(built.write(tmp_path / "trace.json"))
    full = timeline.build(trace, stepping.find_steps(trace), stepping.find_device_work(trace)).detail
    for budget in (300, 60, 8):
        coarse = full.coarser(budget)
        assert len(coarse) <= budget
        assert coarse.count.sum() == full.count.sum() == 601
        works = np.flatnonzero(coarse.lane == coarse.lane.max())
        launched = coarse.launch[works]
        assert (launched >= 0).all()
        assert {coarse.kinds[kind] for kind in coarse.kind_id[launched].tolist()} == {"runtime"}
        assert (coarse.start[launched] <= coarse.start[works]).all()
        assert (coarse.own[coarse.count > 1] <= (coarse.end - coarse.start)[coarse.count > 1]).all()
    twice = full.coarser(60).coarser(8)
    assert twice.count.sum() == 601


@pytest.mark.parametrize("deep", [300, 3000])
def test_deep_nesting_ends_in_the_last_row(build, tmp_path, deep):
    built = build().step(1, 0, 10_000)
    for n in range(deep):
        built.operator("op", n, 2 * (deep - n))
    trace = reader.read(built.write(tmp_path / "trace.json"))
    shown = timeline.build(trace, stepping.find_steps(trace), stepping.find_device_work(trace))
    assert max(span.depth for span in shown.lanes[1].spans) == timeline.DEEPEST
    assert int(shown.detail.count.sum()) == deep + 1


@given(SPANS, some.integers(1, 5))
def test_rows_hold_what_does_not_overlap_while_there_are_rows(spans, most):
    start, end, _ = columns(spans)
    row = apart(start, end, most)
    assert row.min() >= 0
    assert row.max() < most
    for n in range(most - 1):  # the last one takes what finds no room
        mine = np.flatnonzero(row == n)
        mine = mine[np.lexsort((start[mine] - end[mine], start[mine]))]
        assert (start[mine][1:] >= end[mine][:-1]).all()
    at_once = max(int(((start <= begin) & (begin < np.maximum(end, start + 1))).sum()) for begin in start.tolist())
    assert apart(start, end, len(spans) + 1).max() < at_once


def test_what_does_not_overlap_stays_in_one_row():
    start = np.arange(1000) * 10
    assert not apart(start, start + 10, 8).any()
