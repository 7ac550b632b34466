"""Who waits for whom: the same collectives on several ranks, their clocks put together, and who arrives last.

A collective that waits for all (`stepprof_lab.trace.communication.WAITS_FOR_ALL`) cannot end on any rank before it has
begun on every rank. So what passes between a rank's own beginning and the last one's is **waiting for peers**, and only
the rest of it is the exchange itself.

Comparing beginnings wants one clock. There are two ways to it, and where neither holds nothing is said:

- **Ends**: on devices the ranks leave a collective within microseconds of each other. The clocks are shifted so that
  the ends of the matched collectives agree; how far they still lie apart is the precision.
- **One machine**: ranks that name the same host have one clock.

In both, no rank may end before another one has begun.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.communication import WAITS_FOR_ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.trace.communication import Collectives
    from stepprof_lab.trace.intervals import Bool, Int64, Intervals

FEWEST_MATCHED = 3
"""Collectives below which their ends cannot confirm each other: with one of them any clock fits."""
ENDS_AGREE_NS = 100_000
"""How far apart the ends of one collective may lie on the shifted clocks: on two real GPUs of one machine they lie 3 us
apart, over a network some tens."""
ONE_MACHINE_NS = 50_000
"""What two beginnings on one machine's clock have to differ by to be told apart: the profiler's own conversion of
device times is a few microseconds off, scheduling of host threads tens."""

How = Literal["ends", "one machine"]


@dataclasses.dataclass(frozen=True)
class Matched:
    """The same collectives on several ranks; arrays of shape (collectives, ranks), ns on each rank's own clock."""

    start: Int64
    end: Int64
    there: Bool
    """Whether the rank takes part in it."""
    step: Int64
    """Of each collective: the compared step, by position."""
    operation: list[str]

    def __len__(self) -> int:
        """Number of collectives."""
        return len(self.step)


@dataclasses.dataclass(frozen=True)
class Clocks:
    """How the ranks' clocks were put together."""

    offset: Int64
    """What is added to each rank's times; ns."""
    how: How | None
    """None: they could not be."""
    precision: int
    """Differences of beginnings below it are not told apart; ns."""
    why: str
    """In words: what the alignment rests on, or why there is none."""


def match(ranks: Sequence[Collectives], step_of: Sequence[Int64]) -> tuple[Matched, list[str]]:
    """Put the collectives of the ranks beside each other.

    Those of one group have the same order on every rank of it. They are matched step by step, and only where the ranks
    issued the same operations with the same payload.

    Args:
        ranks: the collectives of each rank.
        step_of: for each rank the compared step of each of its collectives; -1 where it belongs to none.

    Returns:
        The collectives that at least two ranks share and that wait for all, in order of step; and notes.
    """
    notes: list[str] = []
    matched: list[tuple[int, str, list[int]]] = []
    by_place = [_by_step_and_group(ranks[r], step_of[r]) for r in range(len(ranks))]
    for step, group in sorted({place for places in by_place for place in places}):
        rows = [places.get((step, group), []) for places in by_place]
        members = [r for r, mine in enumerate(rows) if mine]
        if len(members) < 2:
            continue
        kinds = [[(ranks[r].operation[i], ranks[r].payload[i]) for i in rows[r]] for r in members]
        if any(kind != kinds[0] for kind in kinds):
            counts = " and ".join(str(len(kind)) for kind in kinds)
            of_group = f", group {group}" if group else ""
            notes.append(
                f"compared step {step + 1}{of_group}: the ranks issued {counts} collectives that are not the same ones "
                "in the same order, so they were not matched"
            )
            continue
        for place, (operation, _) in enumerate(kinds[0]):
            if operation in WAITS_FOR_ALL:
                matched.append((step, operation, [mine[place] if mine else -1 for mine in rows]))
    return _columns(ranks, matched), notes


def _by_step_and_group(found: Collectives, step_of: Int64) -> dict[tuple[int, str], list[int]]:
    places: dict[tuple[int, str], list[int]] = {}
    for i in np.flatnonzero((step_of >= 0) & found.linked).tolist():
        places.setdefault((int(step_of[i]), found.group[i]), []).append(i)
    return places


def _columns(ranks: Sequence[Collectives], matched: Sequence[tuple[int, str, list[int]]]) -> Matched:
    index = np.array([rows for _, _, rows in matched], dtype=np.int64).reshape(len(matched), len(ranks))
    there = index >= 0
    start, end = np.zeros_like(index), np.zeros_like(index)
    for r, found in enumerate(ranks):
        mine = there[:, r]
        start[mine, r], end[mine, r] = found.start[index[mine, r]], found.end[index[mine, r]]
    step = np.array([step for step, _, _ in matched], dtype=np.int64)
    return Matched(start, end, there, step, [operation for _, operation, _ in matched])


# ---- one clock ----


def align(matched: Matched, one_clock: Int64 | None) -> Clocks:
    """Put the clocks together, or say why that is not possible.

    Args:
        matched: the collectives that the ranks share.
        one_clock: what has to be added to each rank's times where all ranks name one machine, whose clock is known.
    """
    nothing = np.zeros(matched.start.shape[1], dtype=np.int64)
    apart = None
    if len(matched) >= FEWEST_MATCHED:
        offset = _by_ends(matched)
        if offset is not None:
            apart = _ends_apart(matched, offset)
            if apart <= ENDS_AGREE_NS and _possible(matched, offset, 2 * apart):
                why = (
                    f"the ends of {len(matched)} matched collectives agree within {_words(apart)} once the ranks' "
                    "clocks are shifted"
                )
                return Clocks(offset, "ends", 2 * apart, why)
    if one_clock is not None and _possible(matched, one_clock, ONE_MACHINE_NS):
        why = "all ranks name the same machine, so they have one clock"
        return Clocks(one_clock, "one machine", ONE_MACHINE_NS, why)
    return Clocks(nothing, None, 0, _why_not(matched, apart, one_clock=one_clock is not None))


def _words(ns: float) -> str:
    return f"{ns / 1000:.3f} us"


def _why_not(matched: Matched, apart: int | None, *, one_clock: bool) -> str:
    if not len(matched):
        return "no collective that waits for all ranks could be matched between them"
    if one_clock:
        return (
            "all ranks name the same machine, but on its clock some rank ends a collective before another one begins it"
        )
    if len(matched) < FEWEST_MATCHED:
        few = f"only {len(matched)} matched collective{'s' * (len(matched) != 1)}"
        return f"{few}: too few to put the clocks of different machines together"
    if apart is None:
        return "the matched collectives do not connect all ranks, so their clocks cannot be put together"
    return f"the ends of the matched collectives lie {_words(apart)} apart however the clocks are shifted"


def _by_ends(matched: Matched) -> Int64 | None:
    """Shifts that bring the ends together, from rank to rank; None where the collectives do not connect all ranks."""
    ranks = matched.end.shape[1]
    offset = np.zeros(ranks, dtype=np.int64)
    known = np.zeros(ranks, dtype=np.bool_)
    known[0] = True
    for _ in range(ranks):
        for r in np.flatnonzero(~known).tolist():
            shared = matched.there[:, r] & (matched.there & known).any(axis=1)
            if shared.any():
                common = _middle(matched.end[shared] + offset, matched.there[shared] & known)
                offset[r] = int(np.median(common - matched.end[shared, r]))
                known[r] = True
    return offset if known.all() else None


def _middle(values: Int64, there: Bool) -> Int64:
    """The median of each row over those that are there."""
    return np.array(
        [int(np.median(row[mine])) for row, mine in zip(values, there, strict=True)], dtype=np.int64
    ).reshape(-1)


def _ends_apart(matched: Matched, offset: Int64) -> int:
    """How far the ends of a collective lie apart, in nine of ten collectives."""
    first, last = _bounds(matched.end + offset, matched.there)
    return int(np.quantile(last - first, 0.9, method="higher"))


def _bounds(values: Int64, there: Bool) -> tuple[Int64, Int64]:
    """Smallest and largest of each row, over those that are there."""
    large = np.iinfo(np.int64).max
    return np.where(there, values, large).min(axis=1), np.where(there, values, -large).max(axis=1)


def _possible(matched: Matched, offset: Int64, tolerance: int) -> bool:
    """Whether no rank ends before another one has begun, in nine of ten collectives at least."""
    if not len(matched):
        return True
    _, last_begins = _bounds(matched.start + offset, matched.there)
    first_ends, _ = _bounds(matched.end + offset, matched.there)
    return bool(np.mean(last_begins <= first_ends + tolerance) >= 0.9)


# ---- who waits ----


def waits(matched: Matched, clocks: Clocks, rank: int, step: int) -> Intervals:
    """When a rank was in a collective of a step and waited for a peer to begin; ns on its own clock, one union."""
    mine = matched.there[:, rank] & (matched.step == step)
    _, last = _bounds(matched.start + clocks.offset, matched.there)
    start = matched.start[mine, rank]
    until = np.minimum(last[mine] - clocks.offset[rank], matched.end[mine, rank])
    return intervals.union(start, until)


def lateness(matched: Matched, clocks: Clocks) -> Int64:
    """How long after the first rank each one began each collective; ns, 0 where it does not take part."""
    first, _ = _bounds(matched.start + clocks.offset, matched.there)
    return np.where(matched.there, matched.start + clocks.offset - first[:, None], 0)


def last_ranks(matched: Matched, clocks: Clocks) -> Int64:
    """The rank (by place) that begins each collective last; -1 where the two last ones cannot be told apart."""
    late = np.where(matched.there, lateness(matched, clocks), -1)
    order = np.argsort(late, axis=1, kind="stable")
    rows = np.arange(len(matched))
    last, second = order[:, -1], order[:, -2]
    clear = late[rows, last] - late[rows, second] > clocks.precision
    return np.where(clear, last, -1)
