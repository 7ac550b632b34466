"""Several ranks of one job: their traces read in parallel processes, their steps beside each other.

An all-reduce makes the elapsed times of all ranks equal: whoever is early waits inside it. So ranks are compared by
their **own** time (`stepprof_lab.trace.rank`), and by who begins a collective last (`stepprof_lab.trace.arrivals`).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import arrivals, intervals, parallel, ranks_picture, same_run, slowest
from stepprof_lab.trace.ranks_model import Arrivals, RankCollectives, Ranks, RanksInterpretation, RankTimes, RankTrace
from stepprof_lab.trace.same_run import listed, ranks_named
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepprof_lab.trace.arrivals import Clocks, Matched
    from stepprof_lab.trace.model import Context
    from stepprof_lab.trace.rank import Rank
    from stepprof_lab.trace.ranks_model import Clock, MatchedBy, RankFrom

RANK_IN_NAME = (re.compile(r"rank[-_. ]?(\d{1,7})", re.IGNORECASE), re.compile(r"worker[-_.]?(\d{1,7})", re.IGNORECASE))
"""How the names of files tell a rank: ours (``trace.rank3.json.gz``), then those of other tools."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A trace of one rank, and what its record says."""

    path: Path
    context: Context
    rank: int | None = None
    """From the record."""
    world_size: int | None = None
    """From the record."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A measured trace with its rank, and which of its windows are compared."""

    source: Source
    seen: Rank
    rank: int
    rank_from: RankFrom
    compared: tuple[int, ...] = ()
    """Places of its windows, in the common order."""

    @property
    def windows(self) -> list[Any]:
        """The compared windows."""
        return [self.seen.windows[i] for i in self.compared]


def read(sources: Sequence[Source], *, picture: bool = True, processes: int | None = None) -> RanksInterpretation:
    """Read the traces of several ranks and put them beside each other.

    Args:
        sources: two or more, one a rank, in any order.
        picture: whether the common timeline is wanted.
        processes: traces that are read at the same time; as many as there are processors by default.

    Raises:
        StepprofError: a file cannot be read as a trace, its rank is not known, or two files are of one rank.
    """
    if len(sources) < 2:
        raise StepprofError("one trace", "the traces of two ranks or more", "name the others too, or read it alone")
    seen = parallel.measure([(source.path, source.context) for source in sources], picture, processes)
    placed = sorted(
        (_place(source, rank) for source, rank in zip(sources, seen, strict=True)), key=lambda one: one.rank
    )
    _refuse_doubles(placed)
    placed, matched_by, notes = _beside(placed)
    matched, unmatched = arrivals.match([one.seen.collectives for one in placed], [_compared(one) for one in placed])
    clocks = arrivals.align(matched, _one_clock(placed))
    against = same_run.contradictions(placed, clocks)
    if against:
        clocks = dataclasses.replace(clocks, how=None, why=f"the traces are not of one run: {'; '.join(against)}")
    ranks = _ranks(placed, matched_by, matched, clocks, against, [*notes, *unmatched])
    timeline = ranks_picture.build(placed, clocks, ranks) if picture else None
    return RanksInterpretation(ranks, timeline)


# ---- which rank each file is of ----


def _place(source: Source, seen: Rank) -> Placed:
    if seen.identity.rank is not None:
        return Placed(source, seen, seen.identity.rank, "trace")
    if source.rank is not None:
        return Placed(source, seen, source.rank, "record")
    for pattern in RANK_IN_NAME:
        if found := pattern.search(source.path.name):
            return Placed(source, seen, int(found[1]), "file name")
    raise StepprofError(
        f"trace {str(source.path)!r} does not say which rank it is of",
        "a rank in its metadata (distributedInfo), in the record beside it, or in its name",
        "name the file after its rank, such as trace.rank0.json.gz",
    )


def _refuse_doubles(placed: Sequence[Placed]) -> None:
    for one, other in itertools.pairwise(placed):
        if one.rank == other.rank:
            raise StepprofError(
                f"traces {str(one.source.path)!r} and {str(other.source.path)!r} are both of rank {one.rank}",
                "one trace of each rank",
                "leave one of them out; to see what changed between two captures, read one with --compare the other",
            )


def _one_clock(placed: Sequence[Placed]) -> Any:
    """What puts the ranks' times on the clock of their one machine; None where they do not name one."""
    hosts = {one.seen.identity.host for one in placed}
    bases = [one.seen.identity.base for one in placed]
    if len(hosts) != 1 or "" in hosts or None in bases:
        return None
    begin = [base + one.seen.origin for base, one in zip(bases, placed, strict=True) if base is not None]
    return np.array([at - begin[0] for at in begin], dtype=np.int64)


# ---- which steps stand beside each other ----


def _beside(placed: Sequence[Placed]) -> tuple[list[Placed], MatchedBy, list[str]]:
    """Choose the windows that all ranks have: by the steps' numbers, else by their position."""
    unmarked = [one.rank for one in placed if not one.seen.marked]
    if unmarked:
        if len(unmarked) < len(placed):
            which = ranks_named(unmarked)
            raise StepprofError(
                f"no step is marked in the trace of {which}, but some are in the others",
                "steps in all of them, or in none",
                "leave these traces out",
            )
        note = "no step is marked (no ProfilerStep span): the whole records are compared, and no number is a step's"
        return [dataclasses.replace(one, compared=(0,)) for one in placed], "whole record", [note]
    numbers = [[window.number for window in one.seen.windows] for one in placed]
    if all(None not in mine and len(set(mine)) == len(mine) for mine in numbers):
        common = [n for n in numbers[0] if all(n in mine for mine in numbers)]
        if common:
            chosen = [tuple(mine.index(n) for n in common) for mine in numbers]
            return _chosen(placed, chosen), "number", _left_out(placed, chosen)
    count = min(map(len, numbers))
    chosen = [tuple(range(count)) for _ in placed]
    note = "the steps of the ranks have no number in common, so they are matched by position: the same turn is assumed"
    return _chosen(placed, chosen), "position", [note, *_left_out(placed, chosen)]


def _chosen(placed: Sequence[Placed], chosen: Sequence[tuple[int, ...]]) -> list[Placed]:
    return [dataclasses.replace(one, compared=mine) for one, mine in zip(placed, chosen, strict=True)]


def _left_out(placed: Sequence[Placed], chosen: Sequence[tuple[int, ...]]) -> list[str]:
    notes = []
    for one, mine in zip(placed, chosen, strict=True):
        names = [window.name for i, window in enumerate(one.seen.windows) if i not in mine]
        if names:
            notes.append(f"rank {one.rank}: {', '.join(names)} without a partner on every other rank, left out")
    return notes


def _compared(one: Placed) -> Any:
    """For each collective of a rank the compared step, by position; -1 where it is in none."""
    place = np.full(len(one.seen.windows) + 1, -1, dtype=np.int64)
    place[list(one.compared)] = np.arange(len(one.compared))
    return place[one.seen.window_of]


# ---- the numbers ----


def _ranks(
    placed: Sequence[Placed],
    matched_by: MatchedBy,
    matched: Matched,
    clocks: Clocks,
    against: list[str],
    notes: list[str],
) -> Ranks:
    sizes = same_run.world_sizes(placed)
    size = next(iter(sizes)) if len(sizes) == 1 else None
    given = {one.rank for one in placed}
    missing = [] if size is None else [n for n in range(min(size, 1 << 20)) if n not in given]
    questions = list(dict.fromkeys(one.seen.analysis.question for one in placed if one.seen.analysis.question))
    traces = [_trace(placed, r, matched, clocks) for r in range(len(placed))]
    doubts = same_run.doubts(placed, questions)
    found = [] if against else slowest.find(placed)
    arrived = _arrivals(placed, matched, clocks)
    return Ranks(
        question=questions[0] if questions else None,
        world_size=size,
        missing=missing,
        doubts=doubts,
        conclusion=(
            slowest.not_compared(against)
            if against
            else slowest.conclude(traces, found, arrived, missing, doubted=bool(doubts))
        ),
        slowest=found,
        arrivals=arrived,
        matched_by=matched_by,
        steps_compared=0 if matched_by == "whole record" else len(placed[0].compared),
        ranks=traces,
        notes=[*_notes(placed, missing), *notes],
    )


def _trace(placed: Sequence[Placed], r: int, matched: Matched, clocks: Clocks) -> RankTrace:
    one = placed[r]
    analysis, gpu = one.seen.analysis, one.seen.analysis.gpu
    steps = [_times(one, window, _waits(matched, clocks, r, n)) for n, window in enumerate(one.windows)]
    told = clocks.how is not None and bool(matched.there[:, r].any())
    late = arrivals.lateness(matched, clocks)[:, r] if told else None
    last = arrivals.last_ranks(matched, clocks) == r if told else None
    return RankTrace(
        rank=one.rank,
        rank_from=one.rank_from,
        trace=one.seen.trace,
        origin=analysis.origin,
        regime=analysis.regime,
        findings=[finding.id for finding in analysis.findings],
        devices=gpu.devices if gpu.observed else None,
        device_not_observed=None if gpu.observed else gpu.reason,
        mean=_mean(steps),
        steps=steps,
        collectives=_collectives(one, int(matched.there[:, r].sum())),
        arrives_after_first_us=UNSET if late is None else round(float(late[matched.there[:, r]].mean()) / 1000, 3),
        arrives_last=UNSET if last is None else int(last.sum()),
        arrives_last_sum_us=UNSET if late is None or last is None else us(int(late[last].sum())),
        arrives_last_longest_us=UNSET if late is None or last is None else us(int(late[last].max(initial=0))),
    )


def _waits(matched: Matched, clocks: Clocks, r: int, step: int) -> Any:
    """Waiting for peers in one step; None where it cannot be told."""
    if clocks.how is None or not (matched.there[:, r] & (matched.step == step)).any():
        return None
    return arrivals.waits(matched, clocks, r, step)


def _times(one: Placed, window: Any, waits: Any) -> RankTimes:
    observed = len(one.seen.collectives) > 0
    return RankTimes(
        name=window.name,
        cpu_us=us(window.elapsed),
        cpu_own_us=us(window.host_own),
        gpu_own_us=UNSET if window.device_own is None else us(window.device_own),
        communication_us=us(intervals.total(*window.communication)) if observed else UNSET,
        exposed_communication_us=us(intervals.total(*window.exposed)) if observed else UNSET,
        peers_wait_us=UNSET if waits is None else us(intervals.total(*waits)),
        peers_wait_exposed_us=UNSET if waits is None else us(intervals.overlap(waits, window.exposed)),
    )


def _mean(steps: Sequence[RankTimes]) -> RankTimes:
    """The mean of what was observed in every one of the steps."""
    means: dict[str, Any] = {}
    for field in RankTimes.__struct_fields__[1:]:
        values = [getattr(step, field) for step in steps]
        means[field] = UNSET if UNSET in values else round(sum(values) / len(values), 3)
    return RankTimes(name="mean", **means)


def _collectives(one: Placed, matched: int) -> RankCollectives:
    found = one.seen.collectives
    known = found.known_by
    ran_on: list[Clock] = []
    if found.on_device.any():
        ran_on.append("gpu")
    if not found.on_device.all():
        ran_on.append("cpu")
    return RankCollectives(
        count=len(found),
        by_arguments=known.count("arguments"),
        by_name=known.count("name"),
        unclassified=known.count("unclassified"),
        in_compared_steps=int((_compared(one) >= 0).sum()),
        matched=matched,
        ran_on=ran_on,
    )


def _arrivals(placed: Sequence[Placed], matched: Matched, clocks: Clocks) -> Arrivals:
    if clocks.how is None or not len(matched):
        why = clocks.why if clocks.how is None else "no collective that waits for all ranks could be matched"
        return Arrivals(told=False, why=why, collectives=len(matched))
    late = arrivals.lateness(matched, clocks)
    spread = late.max(axis=1)
    last = arrivals.last_ranks(matched, clocks)
    caused = np.array([int(spread[last == r].sum()) for r in range(len(placed))], dtype=np.int64)
    return Arrivals(
        told=True,
        why=clocks.why,
        collectives=len(matched),
        precision_us=us(clocks.precision),
        spread_us=round(float(np.median(spread)) / 1000, 3),
        largest_spread_us=us(int(spread.max())),
        last_rank=placed[int(caused.argmax())].rank if caused.any() else None,
    )


# ---- what has to be said ----


def _notes(placed: Sequence[Placed], missing: Sequence[int]) -> list[str]:
    notes = []
    named = [one.rank for one in placed if one.rank_from == "file name"]
    if named:
        notes.append(f"the rank of {listed(named)} was taken from the name of the file: nothing inside says it")
    if missing:
        notes.append(
            f"no trace was given of {len(missing)} of the job's ranks ({listed(missing)}): what they did is not known"
        )
    unseen = [one.rank for one in placed if not one.seen.analysis.gpu.observed]
    if unseen and len(unseen) < len(placed):
        notes.append(f"no device work was observed on rank {listed(unseen)}: it is left out where devices are compared")
    issued = [one.rank for one in placed if one.seen.issued_unseen]
    if issued:
        notes.append(f"rank {listed(issued)}: collectives were given to a device, but none was observed there")
    said: dict[str, list[int]] = {}
    for one in placed:
        for note in one.seen.analysis.notes:
            said.setdefault(note, []).append(one.rank)
    return [*notes, *(f"{ranks_named(who)}: {note}" for note, who in said.items())]
