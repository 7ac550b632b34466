"""What several ranks of one job say together: doubts first, then the conclusion, then the numbers rank by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from stepprof_lab.report import tables, words
from stepprof_lab.report.tables import Column, Table

if TYPE_CHECKING:
    from typing import Any

    from stepprof_lab.report.tables import Cell
    from stepprof_lab.trace.ranks_model import Differs, Ranks, RankTimes, RankTrace, Slowest

CLOCK_WORDS = {"cpu": "host", "gpu": "GPU"}
MATCHED_WORDS = {
    "number": "matched by their number",
    "position": "matched by their position",
    "whole record": "none is marked: the whole records are compared",
}
MORE = "--html FILE draws all ranks on one axis, --json has every value"


def of_ranks(ranks: Ranks) -> list[Table]:
    """The parts in order."""
    parts = [tables.pairs("", "", facts(ranks))]
    if ranks.doubts:
        parts.insert(0, doubts(ranks))
    parts.append(tables.pairs("conclusion", "Conclusion", conclusion(ranks)))
    parts += numbers(ranks)
    if ranks.notes:
        parts.append(tables.numbered("note", "Notes", ranks.notes))
    parts.append(tables.pairs("more", "", [("More", MORE)]))
    return parts


def doubts(ranks: Ranks) -> Table:
    """What speaks against these traces being of one run."""
    return tables.numbered("doubt", "First of all: these traces may not be of one run", ranks.doubts)


def facts(ranks: Ranks) -> list[tuple[str, str]]:
    """What was read."""
    given = ", ".join(str(one.rank) for one in ranks.ranks)
    of = "of a job whose size is not known" if ranks.world_size is None else f"of {ranks.world_size}"
    origins = dict.fromkeys(words.ORIGIN_WORDS[one.origin] for one in ranks.ranks)
    steps = MATCHED_WORDS[ranks.matched_by]
    if ranks.steps_compared:
        steps = f"{ranks.steps_compared} compared, {steps}"
    return [
        ("Question", words.prose(ranks.question) if ranks.question else "none was recorded with these traces"),
        ("Ranks", f"{len(ranks.ranks)} {of}: {words.shorten(given, 200)}"),
        ("Steps", steps),
        ("Origin", "; ".join(origins)),
        ("Clocks", words.prose(ranks.arrivals.why)),
        *not_observed(ranks),
    ]


def not_observed(ranks: Ranks) -> list[tuple[str, str]]:
    """Why no GPU was observed, each reason once with the ranks that it holds for."""
    reasons: dict[str, list[str]] = {}
    for one in ranks.ranks:
        if one.device_not_observed is not None:
            reasons.setdefault(one.device_not_observed, []).append(str(one.rank))
    everywhere = len(reasons) == 1 and len(next(iter(reasons.values()))) == len(ranks.ranks)
    return [
        ("GPU" if everywhere else f"GPU of rank {words.shorten(', '.join(who), 60)}", _not_observed(reason))
        for reason, who in reasons.items()
    ]


def _not_observed(reason: str) -> str:
    return f"{words.NOT_OBSERVED}: {words.prose(reason)}"


def conclusion(ranks: Ranks) -> list[tuple[str, str]]:
    """Observation, hypothesis and next check."""
    said = ranks.conclusion
    return [
        ("Observation", words.prose(said.observation)),
        ("Hypothesis", words.prose(said.hypothesis)),
        ("Next check", words.prose(said.next_check)),
    ]


def numbers(ranks: Ranks) -> list[Table]:
    """The tables; the same in the terminal and in the page."""
    compared = [differences(ranks)] if ranks.slowest else []
    return [means(ranks), *compared, steps(ranks), collectives(ranks), traces(ranks)]


TIMES = (
    ("cpu_us", "elapsed", "elapsed, host clock"),
    ("cpu_own_us", "own_host", "own, host"),
    ("gpu_own_us", "own_gpu", "own, GPU"),
    ("communication_us", "communication", "in collectives"),
    ("exposed_communication_us", "exposed", "of it, exposed"),
    ("peers_wait_us", "peers_wait", "waiting for peers"),
    ("peers_wait_exposed_us", "peers_wait_exposed", "of that, exposed"),
)
NOTE = (
    "Collectives bring the elapsed times together; the own times tell the ranks apart. Own, host: without waiting for "
    "the device and without collectives on the host. Own, GPU: busy without collectives. Host and GPU overlap: never "
    "added."
)


def _seen(ranks: Ranks, step: bool = False) -> list[tuple[str, str, str]]:
    """The columns of which at least one rank has a value."""
    times = [t for one in ranks.ranks for t in (one.steps if step else [one.mean])]
    return [column for column in TIMES if any(getattr(t, column[0]) is not UNSET for t in times)]


def _cells(times: RankTimes, columns: list[tuple[str, str, str]]) -> list[Cell]:
    return [_known(getattr(times, field)) for field, _, _ in columns]


def _known(value: Any) -> Cell:
    cell: Cell = None if value is UNSET else value
    return cell


def means(ranks: Ranks) -> Table:
    """One row a rank, means over the compared steps."""
    seen = _seen(ranks)
    columns = [Column("rank", "rank"), *(Column(key, head, "time") for _, key, head in seen)]
    rows: list[list[Cell]] = [[str(one.rank), *_cells(one.mean, seen)] for one in ranks.ranks]
    if ranks.arrivals.told:
        columns.append(Column("arrives_after_first", "begins after the first, mean", "time"))
        columns.append(Column("arrives_last", "is clearly last", "count"))
        columns.append(Column("arrives_last_sum", "by, sum", "time"))
        for row, one in zip(rows, ranks.ranks, strict=True):
            row += [_known(one.arrives_after_first_us), _known(one.arrives_last), _known(one.arrives_last_sum_us)]
    each = f"mean of {words.counted(ranks.steps_compared, 'step')}" if ranks.steps_compared else "whole records"
    return Table("rank", f"Ranks, {each}", columns, rows, NOTE)


def differences(ranks: Ranks) -> Table:
    """In what the slowest rank differs from the others, on each clock."""
    columns = (
        Column("clock", "own time"),
        Column("what", "what"),
        Column("rank", "rank"),
        Column("own", "there", "time"),
        Column("others", "others, median", "time"),
        Column("more", "more", "time"),
        Column("stands_out", "does it stand out"),
    )
    rows = [row for one in ranks.slowest for row in _difference(one)]
    note = "A label is named where it lies innermost. An operator's is a sum, never elapsed."
    return Table("slowest", "The rank with the most own time, and in what it differs", columns, rows, note)


def _difference(one: Slowest) -> list[list[Cell]]:
    clock, rank = CLOCK_WORDS[one.by], str(one.rank)
    out = "yes" if one.stands_out else "no" if one.in_every_step else "no: not in every step"
    rows: list[list[Cell]] = [[clock, "all of it", rank, one.own_us, one.others_median_us, one.more_us, out]]
    for kind, part in (("label", one.label), ("operator", one.operator)):
        if part is not None:
            rows.append([clock, f"{kind} {words.shorten(part.name, 80)}", rank, *_of_part(part), ""])
    return rows


def _of_part(part: Differs) -> list[Cell]:
    return [part.own_us, part.others_median_us, part.more_us]


def steps(ranks: Ranks) -> Table:
    """Every compared step of every rank."""
    seen = _seen(ranks, step=True)
    columns = [Column("step", "step"), Column("rank", "rank"), *(Column(key, head, "time") for _, key, head in seen)]
    count = len(ranks.ranks[0].steps)
    rows: list[list[Cell]] = [
        [one.steps[n].name, str(one.rank), *_cells(one.steps[n], seen)] for n in range(count) for one in ranks.ranks
    ]
    return Table("step", "Step by step", columns, rows)


def collectives(ranks: Ranks) -> Table:
    """How many collectives were seen, and how they are known."""
    columns = (
        Column("rank", "rank"),
        Column("count", "collectives", "count"),
        Column("by_arguments", "known by arguments", "count"),
        Column("by_name", "known by name", "count"),
        Column("unclassified", "unclassified", "count"),
        Column("in_steps", "in compared steps", "count"),
        Column("matched", "matched", "count"),
        Column("ran_on", "ran on"),
    )
    rows = [_collectives_of(one) for one in ranks.ranks]
    note = "Matched: seen on other ranks too, and waiting for all of them. A send or a broadcast does not."
    return Table("collective", "Collectives", columns, rows, note)


def _collectives_of(one: RankTrace) -> list[Cell]:
    held = one.collectives
    where = " and ".join(CLOCK_WORDS[clock] for clock in held.ran_on) or "none was observed"
    counts = (held.count, held.by_arguments, held.by_name, held.unclassified, held.in_compared_steps, held.matched)
    return [str(one.rank), *counts, where]


def traces(ranks: Ranks) -> Table:
    """Which file is which rank, and what it says by itself."""
    columns = (
        Column("rank", "rank"),
        Column("trace", "trace"),
        Column("known_from", "rank known from"),
        Column("regime", "regime"),
        Column("findings", "findings"),
        Column("gpu", "GPU"),
    )
    rows: list[list[Cell]] = [
        [
            str(one.rank),
            words.visible(one.trace),
            one.rank_from,
            words.REGIME_WORDS[one.regime],
            words.value(one.findings),
            words.value(one.devices),
        ]
        for one in ranks.ranks
    ]
    return Table("trace", "Traces", columns, rows)
