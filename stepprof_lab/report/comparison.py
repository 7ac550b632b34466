"""What two traces of the same thing say side by side: what speaks against comparing them comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from stepprof_lab.report import tables, words
from stepprof_lab.report.content import OPERATORS_SHOWN
from stepprof_lab.report.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepprof_lab.report.tables import Cell
    from stepprof_lab.trace.difference import Difference, LabelPair, OperatorPair, Pair, Side, Which

COUNT_WORDS = {
    "operator_calls": ("host", "operator calls"),
    "runtime_calls": ("host", "calls of the device's runtime"),
    "launch_calls": ("host", "of them, queue device work"),
    "wait_calls": ("host", "of them, wait for the device"),
    "gpu_kernels_launched": ("GPU", "kernels launched"),
    "gpu_copies_launched": ("GPU", "copies launched"),
    "gpu_memsets_launched": ("GPU", "fills launched"),
}

GAP_WORDS = {
    "host_outside_operators_us": ("host", "in no operator or runtime call"),
    "gpu_gaps": ("GPU", "gaps"),
    "gpu_idle_us": ("GPU", "idle"),
    "gpu_longest_gap_us": ("GPU", "longest gap of all"),
}


def of_difference(difference: Difference) -> list[Table]:
    """The parts in order: doubts, the two traces, that it is no verdict, then the numbers, then what to do next."""
    parts = []
    if difference.unlike:
        parts.append(tables.numbered("unlike", "First of all: these two may not be the same thing", difference.unlike))
    parts += [side("first", "First", difference.first), side("second", "Second", difference.second)]
    parts.append(tables.pairs("verdict", "", [("Verdict", words.prose(difference.no_verdict))]))
    if difference.steps:
        parts.append(steps(difference))
    parts += [counts(difference), gaps(difference), labels(difference), operators(difference, OPERATORS_SHOWN)]
    parts.append(tables.pairs("findings", "Findings", findings(difference)))
    if difference.notes:
        parts.append(tables.numbered("note", "Notes", difference.notes))
    parts.append(next_check(difference))
    return parts


def side(key: str, title: str, one: Side) -> Table:
    """Which trace it is."""
    reason = one.device_not_observed
    gpu = f"{words.NOT_OBSERVED}: {reason}" if reason is not None else f"observed: {words.value(one.devices)}"
    rows = [
        ("Trace", words.visible(one.trace)),
        ("Origin", words.ORIGIN_WORDS[one.origin]),
        ("Question", words.prose(one.question) if one.question else "none was recorded with this trace"),
        ("Regime", words.REGIME_WORDS[one.regime]),
        ("Steps", str(one.steps) if one.steps else "none is marked"),
        ("GPU", words.prose(gpu)),
    ]
    return tables.pairs(key, title, rows)


def next_check(difference: Difference) -> Table:
    """The command that would give a verdict."""
    rows = [
        ("for a verdict", difference.validate),
        ("SCENARIO", "the question with its boundary, as stepprof new writes it"),
        ("BEFORE, AFTER", "the workloads, FILE or FILE:NAME, that these two were captured from"),
    ]
    return tables.pairs("next", "Next", rows)


COLUMNS = (
    Column("name", "name"),
    Column("what", "what"),
    Column("first", "first", "count"),
    Column("second", "second", "count"),
    Column("change", "change", "count"),
)
"""The change is the second minus the first. Each row has one unit, which stands behind what it is: a number alone is
one word, which no narrow terminal breaks."""


ABSENT = "absent"
"""What stands where a trace has no label or operator of a name."""


def _row(
    name: str, what: str, pair: Pair | UnsetType, *, time: bool = True, only_in: Which | None = None
) -> list[list[Cell]]:
    """One row, or none where neither side has a number to show."""
    if pair is UNSET or (pair.first is UNSET and pair.second is UNSET):
        return []
    numbers = [None if value is UNSET else value for value in (pair.first, pair.second, pair.change)]
    unit = words.unit_for(number for number in numbers if number is not None)
    missing = None if only_in is None else ABSENT
    texts = [missing if n is None else unit.number(n) if time else f"{n:.6g}" for n in numbers]
    texts[2] = "" if only_in is not None else texts[2]
    return [[name, f"{what} ({unit.name})" if time else what, *texts]]


def _table(key: str, title: str, rows: Sequence[Sequence[Cell]], note: str | None = None) -> Table:
    return Table(key, title, COLUMNS, rows, note)


def _each(difference: Difference) -> str:
    count = difference.steps_compared
    return f"mean of {words.counted(count, 'step')}" if count else "over the whole record"


def steps(difference: Difference) -> Table:
    """The matched steps; the device's time beside the host's, where it was observed in both."""
    rows: list[list[Cell]] = []
    for pair in difference.steps:
        name = f"{pair.position}: {' / '.join(dict.fromkeys(pair.names))}"
        rows += _row(name, "elapsed", pair.cpu_us)
        rows += _row(name, "GPU busy", pair.gpu_busy_in_window_us)
        rows += _row(name, "GPU tail", pair.gpu_tail_us) if _any(pair.gpu_tail_us) else []
    note = "Change: second minus first. Elapsed is host time under the profiler."
    if any(pair.gpu_busy_in_window_us is not UNSET for pair in difference.steps):
        note += " GPU busy: within that time; they overlap and are never added."
    return _table("step", "Steps, matched by position", rows, note)


def _any(pair: Pair | UnsetType) -> bool:
    return pair is not UNSET and bool(pair.first or pair.second)


def counts(difference: Difference) -> Table:
    """How many."""
    rows = [
        row
        for key, (name, what) in COUNT_WORDS.items()
        for row in _row(name, what, getattr(difference.counts, key), time=False)
    ]
    return _table("count", f"Counts, {_each(difference)}", rows)


def gaps(difference: Difference) -> Table:
    """Where nothing was recorded."""
    rows = []
    for key, (name, what) in GAP_WORDS.items():
        rows += _row(name, what, getattr(difference.gaps, key), time=key.endswith("_us"))
    return _table("gap", f"Gaps, {_each(difference)}", rows)


def labels(difference: Difference) -> Table:
    """The labels that changed; those that did not change at all are only counted."""
    changed = [pair for pair in difference.labels if pair.only_in is not None or _changed(pair)]
    rows: list[list[Cell]] = []
    for pair in changed:
        rows += _row(pair.name, "calls", pair.calls, time=False, only_in=pair.only_in)
        rows += _row(pair.name, "elapsed", pair.cpu_us, only_in=pair.only_in)
        rows += _row(pair.name, "GPU launched", pair.gpu_launched_us, only_in=pair.only_in)
        rows += _row(pair.name, "GPU idle", pair.gpu_idle_us, only_in=pair.only_in)
    said = ["Elapsed is host time; labels may lie inside each other and are never added."]
    if any(pair.gpu_idle_us is not UNSET for pair in changed):
        said.append("GPU launched: busy with what the label launched. GPU idle: no device work ran during the label.")
    said += _absent(changed, "label") + _without_change(len(difference.labels) - len(changed), "label")
    return _table("label", f"Labels, {_each(difference)}", rows or _none_changed(difference.labels), " ".join(said))


def _changed(label: LabelPair) -> bool:
    pairs = (label.calls, label.cpu_us, label.gpu_launched_us, label.gpu_idle_us)
    return any(pair is not UNSET and pair.change not in {UNSET, 0.0} for pair in pairs)


def _absent(pairs: Iterable[LabelPair | OperatorPair], thing: str) -> list[str]:
    return [f"Absent: no {thing} of this name is in it."] if any(pair.only_in is not None for pair in pairs) else []


def _without_change(count: int, thing: str) -> list[str]:
    return [f"{words.counted(count, thing)} without any change."] if count else []


def _none_changed(pairs: Sequence[LabelPair | OperatorPair]) -> list[list[Cell]]:
    """A row that says so, where there are some and none of them changed: the table is not empty for want of any."""
    return [["all of them", "without any change", "", "", ""]] if pairs else []


def operators(difference: Difference, limit: int | None = None) -> Table:
    """The operators that changed most; those that did not change at all are only counted."""
    from stepprof_lab.trace.difference import largest_change

    changed = [
        pair
        for pair in difference.operators
        if pair.only_in is not None or largest_change(pair) or pair.calls.change != 0
    ]
    rows: list[list[Cell]] = []
    for pair in changed[:limit]:
        rows += _row(pair.name, "calls", pair.calls, time=False, only_in=pair.only_in)
        rows += _row(pair.name, "self, sum", pair.cpu_self_us, only_in=pair.only_in)
        rows += _row(pair.name, "GPU, sum", pair.gpu_sum_us, only_in=pair.only_in) if _any(pair.gpu_sum_us) else []
    said = ["Sums over calls: not elapsed."]
    if any(pair.gpu_sum_us is not UNSET for pair in changed[:limit]):
        said.append(tables.GPU_SUM)
    said += _absent(changed[:limit], "operator")
    if limit is not None and len(changed) > limit:
        said.append(f"{words.counted(len(changed) - limit, 'further operator')} with smaller changes not shown.")
    said += _without_change(len(difference.operators) - len(changed), "operator")
    title = f"Operators, by the largest change, {_each(difference)}"
    return _table("operator", title, rows or _none_changed(difference.operators), " ".join(said))


def findings(difference: Difference) -> list[tuple[str, str]]:
    """Which findings each trace gives; the details are in its own report."""
    one, other = difference.first.findings, difference.second.findings
    groups = [
        ("in both", [name for name in one if name in other]),
        ("in the first only", [name for name in one if name not in other]),
        ("in the second only", [name for name in other if name not in one]),
    ]
    return [(name, words.value(found)) for name, found in groups]
