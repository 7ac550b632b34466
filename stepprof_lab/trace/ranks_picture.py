"""One timeline for several ranks: each rank's steps, labels and streams as lanes of its own, on one axis."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepprof_lab.trace.model import Lane, Span, Timeline
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.trace.arrivals import Clocks
    from stepprof_lab.trace.detail import Detail
    from stepprof_lab.trace.rank import Rank
    from stepprof_lab.trace.ranks import Placed
    from stepprof_lab.trace.ranks_model import Ranks

LANES = 24
"""Lanes of all ranks together: what one picture can show."""
FEWEST_LANES = 3
"""Of one rank: its steps, its labels, and where it communicates."""
COLLECTIVE = "collective"
"""Kind of the spans that are collectives."""
NOT_ALIGNED = (
    "The ranks' clocks could not be put together ({}): each rank's first compared step begins at the left edge. "
    "Do not compare times between the lanes of different ranks."
)
ALIGNED = "One clock for all ranks: {}."


def build(placed: Sequence[Placed], clocks: Clocks, ranks: Ranks) -> Timeline:
    """Put the ranks' timelines together.

    Args:
        placed: the ranks, in order.
        clocks: how their clocks were put together.
        ranks: what was concluded; decides which ranks are shown where there are too many.
    """
    shown = _shown(placed, ranks)
    shift = [_shift(placed[r], int(clocks.offset[r]), aligned=clocks.how is not None) for r in shown]
    low = min(shift)
    budget = max(FEWEST_LANES, LANES // len(shown))
    lanes: list[Lane] = []
    details: list[tuple[Detail, list[int], int, int]] = []
    longest = 0.0
    for r, at in zip(shown, shift, strict=True):
        picture = placed[r].seen.picture
        if picture is None:
            continue
        chosen = _lanes(picture, placed[r].seen, budget)
        if picture.detail is not None:
            details.append((_with_collectives(picture.detail, placed[r].seen), chosen, at - low, len(lanes)))
        lanes += [_lane(picture.lanes[n], placed[r], us(at - low)) for n in chosen]
        longest = max(longest, picture.duration_us + us(at - low))
    return Timeline(
        duration_us=longest,
        lanes=lanes,
        arrows=[],
        note=_note(placed, shown, clocks),
        detail=_joined(details) if len(details) == len(shown) else None,
    )


def _shown(placed: Sequence[Placed], ranks: Ranks) -> list[int]:
    """All ranks, or the slowest, the last, and those with the most own time, in the order of the ranks."""
    most = LANES // FEWEST_LANES
    if len(placed) <= most:
        return list(range(len(placed)))
    wanted = {one.rank for one in ranks.slowest} | {ranks.arrivals.last_rank}
    order = sorted(range(len(placed)), key=lambda r: (placed[r].rank not in wanted, -ranks.ranks[r].mean.cpu_own_us, r))
    return sorted(order[:most])


def _shift(one: Placed, offset: int, *, aligned: bool) -> int:
    """Where the rank's picture begins on the common axis; ns."""
    first = 0 if aligned else one.windows[0].start
    return one.seen.picture_start - first + (offset if aligned else 0)


def _lanes(picture: Timeline, seen: Rank, budget: int) -> list[int]:
    """Which lanes of a rank are shown: steps, labels, then those with collectives, then the fullest."""

    def order(n: int) -> tuple[bool, bool, bool, int]:
        lane = picture.lanes[n]
        communicates = any(span.name in seen.communication_names for span in lane.spans)
        return (
            lane.kind != "steps",
            not (communicates and lane.kind in {"device", "labels"}),
            lane.kind == "cpu",
            -sum(span.count for span in lane.spans),
        )

    return sorted(sorted(range(len(picture.lanes)), key=order)[:budget])


def _lane(lane: Lane, one: Placed, shift_us: float) -> Lane:
    spans = [
        msgspec.structs.replace(
            span,
            start_us=round(span.start_us + shift_us, 3),
            kind=_kind(span, one.seen),
            evidence=(),
        )
        for span in lane.spans
    ]
    return msgspec.structs.replace(lane, title=f"rank {one.rank}: {lane.title}", spans=spans)


def _kind(span: Span, seen: Rank) -> str:
    return COLLECTIVE if span.name in seen.communication_names else span.kind


def _note(placed: Sequence[Placed], shown: Sequence[int], clocks: Clocks) -> str:
    said = ALIGNED.format(clocks.why) if clocks.how is not None else NOT_ALIGNED.format(clocks.why)
    if len(shown) < len(placed):
        said += f" {len(placed) - len(shown)} ranks with less own time are left out."
    return said


# ---- the same with every span ----


def _with_collectives(detail: Detail, seen: Rank) -> Detail:
    names = np.array([name in seen.communication_names for name in detail.names], dtype=np.bool_)
    kinds = [*detail.kinds, COLLECTIVE]
    kind = np.where(names[detail.name_id], len(detail.kinds), detail.kind_id)
    return dataclasses.replace(detail, kind_id=kind, kinds=kinds, evidence=np.zeros_like(detail.evidence), found=[])


def _joined(parts: Sequence[tuple[Detail, list[int], int, int]]) -> Detail | None:
    """The columns of all ranks after each other; each with its lanes, its shift and the place of its first lane."""
    names: list[str] = []
    columns: dict[str, list[Any]] = {field: [] for field in _COLUMNS}
    kinds: list[str] = []
    so_far = 0
    for detail, lanes, shift, first_lane in parts:
        kinds = detail.kinds
        place = np.full(int(detail.lane.max(initial=0)) + 1, -1, dtype=np.int64)
        for n, lane in enumerate(lanes):
            if lane < len(place):
                place[lane] = first_lane + n
        kept = place[detail.lane] >= 0
        moved = np.append(np.where(kept, np.cumsum(kept) - 1 + so_far, -1), -1)
        mine = {field: getattr(detail, field)[kept] for field in _COLUMNS}
        mine["lane"] = place[mine["lane"]]
        mine["start"], mine["end"] = mine["start"] + shift, mine["end"] + shift
        mine["name_id"] = mine["name_id"] + len(names)
        mine["launch"] = moved[mine["launch"]]
        for field, values in mine.items():
            columns[field].append(values)
        names += detail.names
        so_far += int(kept.sum())
    if not parts:
        return None
    joined: dict[str, Any] = {field: np.concatenate(values) for field, values in columns.items()}
    return dataclasses.replace(parts[0][0], names=names, kinds=kinds, **joined)


_COLUMNS = ("lane", "depth", "start", "end", "name_id", "kind_id", "count", "own", "launch", "evidence")
