"""Clocks put together and who waits for whom, against a slow reference on made-up arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepprof_lab.trace import arrivals
from stepprof_lab.trace.arrivals import Matched

US = 1000


def matched(starts: list[list[int]], ends: list[list[int]], there: list[list[bool]] | None = None) -> Matched:
    start, end = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    present = np.ones_like(start, dtype=np.bool_) if there is None else np.array(there, dtype=np.bool_)
    step = np.zeros(len(start), dtype=np.int64)
    return Matched(start, end, present, step, ["all_reduce"] * len(start))


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int]]:
    """True beginnings of each rank in each collective, the true end of each, and each rank's clock."""
    count = draw(st.integers(2, 5))
    collectives = draw(st.integers(3, 8))
    starts = [
        [n * 10_000_000 + late for late in draw(st.lists(st.integers(0, 4_000_000), min_size=count, max_size=count))]
        for n in range(collectives)
    ]
    ends = [max(row) + draw(st.integers(1000, 1_000_000)) for row in starts]
    clock = st.integers(-(10**12), 10**12)
    return starts, ends, [0, *draw(st.lists(clock, min_size=count - 1, max_size=count - 1))]


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_clocks_come_back_and_waits_are_those_of_the_reference(
    job: tuple[list[list[int]], list[int], list[int]],
) -> None:
    starts, ends, clock = job
    found = matched(
        [[at + shift for at, shift in zip(row, clock, strict=True)] for row in starts],
        [[end + shift for shift in clock] for end in ends],
    )
    clocks = arrivals.align(found, None)
    assert clocks.how == "ends"
    assert clocks.offset.tolist() == [-shift for shift in clock]
    for rank, shift in enumerate(clock):
        begin, until = arrivals.waits(found, clocks, rank, 0)
        assert int((until - begin).sum()) == sum(max(row) - row[rank] for row in starts)
        assert all(at - shift in {row[rank] for row in starts} for at in begin.tolist())
    late = arrivals.lateness(found, clocks)
    assert late.tolist() == [[at - min(row) for at in row] for row in starts]
    for row, last in zip(starts, arrivals.last_ranks(found, clocks).tolist(), strict=True):
        ordered = sorted(row)
        assert last == (row.index(ordered[-1]) if ordered[-1] > ordered[-2] else -1)


def test_ranks_that_share_no_collective_are_put_together_through_others() -> None:
    # Ranks 0 and 2 never meet; rank 1 is in both groups.
    there = [[True, True, False]] * 3 + [[False, True, True]] * 3
    ends = [[n * 1000, n * 1000 + 5, 0] for n in range(3)] + [[0, n * 1000 + 5, n * 1000 + 70] for n in range(3, 6)]
    starts = [[end - 10 for end in row] for row in ends]
    clocks = arrivals.align(matched(starts, ends, there), None)
    assert clocks.how == "ends"
    assert clocks.offset.tolist() == [0, -5, -70]


def test_ranks_that_nothing_connects_are_not_put_together() -> None:
    there = [[True, True, False, False]] * 3 + [[False, False, True, True]] * 3
    times = [[n * 1000] * 4 for n in range(6)]
    clocks = arrivals.align(matched(times, [[t + 10 for t in row] for row in times], there), None)
    assert clocks.how is None
    assert "do not connect all ranks" in clocks.why


@pytest.mark.parametrize(("spread_us", "how"), [(99, "ends"), (101, None)])
def test_ends_have_to_agree(spread_us: int, how: str | None) -> None:
    ends = [[n * 10_000_000, n * 10_000_000 + (-1) ** n * spread_us * US] for n in range(40)]
    starts = [[at - 1_000_000 for at in row] for row in ends]
    assert arrivals.align(matched(starts, ends), None).how == how


def test_beginnings_closer_than_the_precision_are_not_told_apart() -> None:
    # The ends lie up to 5 us apart to either side, so that beginnings are known to 10 us.
    ends = [[n * 10_000_000, n * 10_000_000 + (5 if n % 2 else -5) * US] for n in range(10)]
    starts = [[row[0] - 1_000_000, row[0] - 1_000_000 + (8 if n < 5 else 12) * US] for n, row in enumerate(ends)]
    found = matched(starts, ends)
    clocks = arrivals.align(found, None)
    assert clocks.precision == 10 * US
    assert arrivals.last_ranks(found, clocks).tolist() == [-1] * 5 + [1] * 5


def test_one_machine_has_a_precision_of_its_own() -> None:
    starts = [[0, 30 * US], [10_000 * US, 10_090 * US]]
    ends = [[500 * US, 900 * US], [11_000 * US, 10_700 * US]]
    found = matched(starts, ends)
    clocks = arrivals.align(found, np.array([0, 0], dtype=np.int64))
    assert clocks.how == "one machine"
    assert arrivals.last_ranks(found, clocks).tolist() == [-1, 1]
