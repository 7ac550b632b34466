"""The results as tables of raw cells: one source for the terminal, for ``name: value`` lines and for the page.

A cell is a text, a count, a time in microseconds, or None for what was not observed. How it looks is decided when it
is drawn: see `shown`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET

from stepprof_lab.report import quantity, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from stepprof_lab.record import Record
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.model import Analysis, Approach, Finding, Span, Timeline
    from stepprof_lab.validate.model import Validation

ROWS = 1000
"""Rows of steps, of labels and of operators that are drawn; a table of any size would take for ever to lay out."""

Cell = str | int | float | None
Kind = Literal["text", "count", "time", "ratio", "rate"]


@dataclasses.dataclass(frozen=True)
class Column:
    """One column.

    Args:
        key: its stable name in ``name: value`` lines.
        head: its heading.
        kind: ``time`` cells are microseconds and share one unit over the whole table; ``rate`` cells are samples a
            second.
    """

    key: str
    head: str
    kind: Kind = "text"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of raw cells, with a stable name and what a reader has to know about them."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str | None = None

    @property
    def is_pairs(self) -> bool:
        """Whether the rows are names and values."""
        return [column.key for column in self.columns] == ["name", "value"]


def shown(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headings and cells as text; the headings of time columns name the unit that the table shares."""
    timed = [n for n, column in enumerate(table.columns) if column.kind == "time"]
    unit = words.unit_for(float(row[n] or 0) for row in table.rows for n in timed)
    units = {"time": f" ({unit.name})", "rate": " (samples/s)"}
    heads = [c.head + units.get(c.kind, "") for c in table.columns]
    rows = [[cell_text(cell, c.kind, unit) for cell, c in zip(row, table.columns, strict=True)] for row in table.rows]
    return heads, rows


def cell_text(cell: Cell, kind: Kind, unit: words.TimeUnit | None = None) -> str:
    """One cell as text; a time without a shared unit carries its own."""
    if cell is None:
        return words.NOT_OBSERVED
    if isinstance(cell, str):
        return words.visible(cell)
    if kind == "time":
        return unit.number(cell) if unit else words.duration(cell)
    if kind == "rate":
        return words.rate_number(cell) if unit else words.rate(cell)
    return words.ratio(cell) if kind == "ratio" else str(cell)


def pairs(key: str, title: str, rows: Iterable[tuple[str, str]], note: str | None = None) -> Table:
    """A table of names and values."""
    return Table(key, title, (Column("name", "name"), Column("value", "value")), list(rows), note)


def numbered(key: str, title: str, sentences: Iterable[str]) -> Table:
    """Sentences with their numbers."""
    return pairs(key, title, [(str(n), words.prose(text)) for n, text in enumerate(sentences, 1)])


def flat(key: str, title: str, mapping: Mapping[str, Any], missing: str = words.NOT_OBSERVED) -> Table:
    """A free-form part of a result (environment, noise, start-up) as names and values; None reads as ``missing``."""
    return pairs(key, title, words.flat(mapping, missing=missing))


# What a trace says


def steps(analysis: Analysis) -> Table:
    """One row a step; GPU columns only where the GPU was observed."""
    columns = [Column("name", "step"), Column("elapsed", "elapsed, host clock", "time")]
    if analysis.gpu.observed:
        columns += [
            Column("gpu_events_launched", "GPU events launched", "count"),
            Column("gpu_launched", "GPU busy by its launches", "time"),
            Column("gpu_busy_in_window", "GPU busy within it", "time"),
            Column("gpu_foreign_in_window", "of it, foreign", "time"),
            Column("gpu_tail", "GPU tail", "time"),
        ]
    rows = [_known([s.name, s.cpu_us, *_gpu_of_step(s)])[: len(columns)] for s in analysis.steps[:ROWS]]
    note = (
        "Host time and GPU time overlap: they are never added. Foreign: launched by another step or by none. "
        "Tail: how far the work that the step launched ends after its host part."
    )
    said = [note] if analysis.gpu.observed else []
    return Table("step", "Steps", columns, rows, " ".join(said + _further(len(analysis.steps), "step")) or None)


def _further(count: int, what: str) -> list[str]:
    """What is said of the rows beyond `ROWS`."""
    return [f"{words.counted(count - ROWS, f'further {what}')} in the JSON only."] if count > ROWS else []


def _gpu_of_step(step: Any) -> list[Any]:
    return [
        step.gpu_events_launched,
        step.gpu_launched_us,
        step.gpu_busy_in_window_us,
        step.gpu_foreign_in_window_us,
        step.gpu_tail_us,
    ]


def _known(cells: Iterable[Any]) -> list[Cell]:
    return [None if cell is UNSET else cell for cell in cells]


def labels(analysis: Analysis) -> Table:
    """One row a label, over the whole record."""
    columns = [Column("name", "label"), Column("calls", "calls", "count"), Column("elapsed", "elapsed", "time")]
    if analysis.gpu.observed:
        columns.append(Column("gpu_launched", "GPU busy by its launches", "time"))
    rows = [
        _known([name, times.calls, times.cpu_us, times.gpu_launched_us])[: len(columns)]
        for name, times in itertools.islice(analysis.labels.items(), ROWS)
    ]
    note = "Over the whole record, not the steps alone. Labels may lie inside each other: their times are not added."
    return Table("label", "Labels", columns, rows, " ".join([note, *_further(len(analysis.labels), "label")]))


GPU_SUM = "GPU, sum: all that was launched inside the calls, so what calls others includes theirs; never added."


def operators(analysis: Analysis, limit: int | None = None) -> Table:
    """Operators by self time; the column that is a sum says so."""
    columns = [
        Column("name", "operator"),
        Column("calls", "calls", "count"),
        Column("self", "self", "time"),
        Column("sum_with_children", "sum with children: not elapsed", "time"),
    ]
    if analysis.gpu.observed:
        columns.append(Column("gpu_sum", "GPU, sum: not elapsed", "time"))
    with_shapes = any(o.shapes is not UNSET for o in analysis.operators)
    rows = []
    for operator in analysis.operators[: ROWS if limit is None else limit]:
        row = _known([operator.name, operator.calls, operator.cpu_self_us, operator.cpu_sum_us])
        if analysis.gpu.observed:
            row += _known([operator.gpu_sum_us])
        if with_shapes:
            row.append(None if operator.shapes is UNSET else "; ".join(operator.shapes) or "none")
        rows.append(row)
    if with_shapes:
        columns.append(Column("shapes", "input shapes"))
    left_out = len(analysis.operators) - len(rows)
    note = "Sums over calls on all threads of the host: work in parallel counts several times."
    if analysis.gpu.observed:
        note += f" {GPU_SUM}"
    if left_out:
        note += f" {words.counted(left_out, 'further operator')} not shown."
    return Table("operator", "Operators, by self time", columns, rows, note)


def timeline_lanes(timeline: Timeline) -> Table:
    """One row a lane of the picture."""
    columns = [
        Column("lane", "lane"),
        Column("note", "what it is"),
        Column("spans", "spans", "count"),
        Column("first", "first begins at", "time"),
        Column("last", "last ends at", "time"),
        Column("longest", "longest span", "time"),
        Column("longest_name", "its name"),
    ]
    rows: list[list[Cell]] = []
    for lane in timeline.lanes:
        what = lane.note or LANE_WORDS[lane.kind]
        if not lane.spans:
            rows.append([lane.title, what, lane.omitted, None, None, None, None])
            continue
        longest = max(lane.spans, key=longest_us)
        first = min(span.start_us for span in lane.spans)
        last = max(span.start_us + span.duration_us for span in lane.spans)
        count = sum(span.count for span in lane.spans) + lane.omitted
        rows.append([lane.title, what, count, first, last, longest_us(longest), words.shorten(longest.name, 80)])
    left_out = sum(lane.omitted for lane in timeline.lanes)
    note = "Times from the beginning of the picture."
    if left_out:
        note += f" {words.counted(left_out, 'span')} too short to draw: counted here, not drawn."
    return Table("lane", "The picture's lanes", columns, rows, note)


def longest_us(span: Span) -> float:
    """How long a span is, or the longest one of a bundle."""
    return span.duration_us if span.count == 1 else span.longest_us


LANE_WORDS = {
    "steps": "steps",
    "labels": "labels",
    "cpu": "calls of a thread",
    "device": "device work",
    "practice": "simulated work",
}


def timeline_evidence(timeline: Timeline, findings: Sequence[Finding]) -> Table:
    """Where the evidence of each finding lies in the picture, one row a finding and lane."""
    from stepprof_lab.report.svg import findings_of, named_by

    columns = [
        Column("finding", "finding"),
        Column("lane", "lane"),
        Column("spans", "bars with evidence", "count"),
        Column("first", "first begins at", "time"),
        Column("last", "last ends at", "time"),
    ]
    named = named_by(findings)
    rows: list[list[Cell]] = []
    for ident in dict.fromkeys(finding.id for finding in findings):
        for lane in timeline.lanes:
            held = [span for span in lane.spans if ident in findings_of(span, named)]
            if held:
                last = max(span.start_us + span.duration_us for span in held)
                rows.append([ident, lane.title, len(held), min(span.start_us for span in held), last])
    return Table("evidence", "Where the evidence of the findings lies", columns, rows)


def timeline_longest(timeline: Timeline, limit: int = 40) -> Table:
    """The longest calls and device work of the picture."""
    columns = [
        Column("lane", "lane"),
        Column("kind", "kind"),
        Column("name", "name"),
        Column("start", "begins at", "time"),
        Column("elapsed", "elapsed", "time"),
    ]
    spans = [
        (span, lane)
        for lane in timeline.lanes
        if lane.kind in {"cpu", "device", "practice"}
        for span in lane.spans
        if span.count == 1
    ]
    spans.sort(key=lambda pair: (-pair[0].duration_us, pair[0].start_us))
    rows: list[list[Cell]] = [
        [lane.title, span.kind, words.shorten(span.name, 120), span.start_us, span.duration_us]
        for span, lane in spans[:limit]
    ]
    title = f"The {len(rows)} longest calls and device events"
    return Table("longest", title, columns, rows, "Elapsed, with what is nested inside: never added.")


def timeline_regions(timeline: Timeline, limit: int = 200) -> Table:
    """The steps and labels of the picture, in order of time."""
    columns = [
        Column("kind", "kind"),
        Column("name", "name"),
        Column("start", "begins at", "time"),
        Column("elapsed", "elapsed", "time"),
    ]
    spans = [span for lane in timeline.lanes if lane.kind in {"steps", "labels"} for span in lane.spans]
    spans.sort(key=lambda span: (span.start_us, -span.duration_us))
    rows: list[list[Cell]] = [[s.kind, words.shorten(s.name, 120), s.start_us, s.duration_us] for s in spans[:limit]]
    left_out = len(spans) - len(rows)
    note = f"{words.counted(left_out, 'further region')} not listed." if left_out else None
    return Table("region", "Steps and labels in order of time", columns, rows, note)


# What a capture's record says


def boundary(scenario: Scenario) -> Table:
    """What a step includes and excludes."""
    parts = msgspec.to_builtins(scenario.boundary)
    rows = [[name.replace("_", " "), "in" if inside else "out"] for name, inside in parts.items()]
    return Table("boundary", "Boundary of a step", (Column("part", "part"), Column("inside", "in or out")), rows)


NOT_KNOWN = "neither stated nor observed"


def conditions(scenario: Scenario, observed: Mapping[str, Any] | None = None) -> Table:
    """Each condition with its value and how it is known."""
    seen = dict(observed or {})
    rows: list[list[Cell]] = []
    for name in scenario.conditions.__struct_fields__:
        if name == "observed":
            continue
        stated = getattr(scenario.conditions, name)
        how = "observed" if name in scenario.conditions.observed else "stated"
        if stated in (None, []):
            stated, how = (seen.pop(name), "observed") if name in seen else (None, NOT_KNOWN)
        elif name in seen:
            was = seen.pop(name)
            agreed = how if how == "observed" else "stated, and observed"
            how = agreed if was == stated else f"{how}; during the capture: {words.value(was)}"
        rows.append([name.replace("_", " "), words.value(stated) if stated is not None else "not known", how])
    rows += [[name.replace("_", " "), text, "observed"] for name, text in words.flat(seen)]
    columns = (Column("condition", "condition"), Column("value", "value"), Column("known", "how it is known"))
    return Table("condition", "Conditions", columns, rows)


def checks(record: Record) -> Table:
    """What was checked of the capture."""
    columns = (Column("check", "check"), Column("result", "result"), Column("detail", "what was seen"))
    rows = [[c.name, "passed" if c.passed else "NOT PASSED", words.prose(c.detail)] for c in record.checks]
    return Table("check", "Checks of the capture", columns, rows)


WINDOW_TURNS = ("wait", "warm-up", "active", "active")


def window(record: Record) -> Table:
    """The four turns of the window by the host clock."""
    columns = (Column("turn", "turn"), Column("what", "what it was"), Column("elapsed", "elapsed, host clock", "time"))
    rows: list[list[Cell]] = [
        [str(n), WINDOW_TURNS[n - 1] if n <= len(WINDOW_TURNS) else "after the window", 1e3 * ms]
        for n, ms in enumerate(record.window_steps_ms, 1)
    ]
    return Table("turn", "The window, turn by turn", columns, rows)


def approach(steps_before: Approach) -> Table:
    """Each unprofiled step with its labels, by the host clock."""
    names = list(steps_before.labels_ms)
    columns = [Column("step", "step"), Column("elapsed", "elapsed", "time")]
    columns += [Column(f"label_{n}", name, "time") for n, name in enumerate(names, 1)]
    rows: list[list[Cell]] = []
    for n, ms in enumerate(steps_before.steps_ms):
        inside = [steps_before.labels_ms[name] for name in names]
        rows.append([str(n + 1), 1e3 * ms, *(1e3 * series[n] if n < len(series) else None for series in inside)])
    note = "Host clock. A label's time lies inside its step's time; labels may lie inside each other."
    return Table("approach", "The approach, step by step", columns, rows, note)


def approach_summary(steps_before: Approach) -> Table:
    """The first step apart, then shortest, median, mean and longest of the steady steps, and of each label in them."""
    columns = [Column("name", "host clock"), Column("first", "first step", "time")]
    columns += [Column(key, key, "time") for key in ("shortest", "median", "mean", "longest")]
    start = steady_start(steps_before)
    series = {"step": steps_before.steps_ms, **steps_before.labels_ms}
    rows: list[list[Cell]] = []
    for name, values in series.items():
        steady = values[start:]
        if steady:
            import statistics  # here, because it loads a good deal

            spread = (min(steady), statistics.median(steady), statistics.fmean(steady), max(steady))
            rows.append([name, *(1e3 * ms for ms in (values[0], *spread))])
    note = f"Shortest to longest: {steady_words(steps_before)}. A label's time lies inside the step's time."
    return Table("approach", f"Approach: {approach_words(steps_before)}", columns, rows, note)


def steady_start(steps_before: Approach) -> int:
    """The first steady step, as the findings count it; 0 where there are too few steps to leave some out."""
    # Loads numpy, which only those who have a record need.
    from stepprof_lab.trace.ahead import steady

    start = steady(steps_before, steps_before.loader_workers).start
    return start if start < len(steps_before.steps_ms) else 0


def steady_words(steps_before: Approach) -> str:
    """Which steps the summary is of, and why."""
    count, start = len(steps_before.steps_ms), steady_start(steps_before)
    if not start:
        return f"all {words.counted(count, 'step')}, too few to leave the first ones out"
    why = "whole periods of the loader's workers" if steps_before.loader_workers else "without the first ones"
    return f"steps {start + 1} to {count}, {why}"


def approach_words(steps_before: Approach) -> str:
    """How many unprofiled steps there were, what was wanted, and the loader's workers."""
    count = words.counted(len(steps_before.steps_ms), "unprofiled step")
    if steps_before.cut:
        count += f" of {steps_before.wanted_steps} wanted ({words.prose(steps_before.cut_reason or 'cut')})"
    workers = steps_before.loader_workers
    if workers is None:
        return f"{count}; loader workers: {words.NOT_OBSERVED}"
    return f"{count}; {words.counted(workers, 'loader worker') if workers else 'loader without workers'}"


# What a validation says


def arms(validation: Validation) -> Table:
    """What was measured of each arm."""
    told = quantity.of(validation)
    columns = [
        Column("name", "arm"),
        Column("steps", f"{told.one}s timed", "count"),
        Column("median", "median", told.kind),
        Column("mean", "mean", told.kind),
        Column("quartile", "lower quartile of the times", told.kind),
        Column("iqr", "between quartiles", told.kind),
    ]
    with_samples = not told.is_rate and any(arm.samples_per_s is not None for arm in validation.arms)
    rows: list[list[Cell]] = []
    for arm in validation.arms:
        apart = abs(told.cell(arm.q25_ms) - told.cell(arm.q25_ms + arm.iqr_ms))
        row: list[Cell] = [arm.name, arm.steps, *map(told.cell, (arm.median_ms, arm.mean_ms, arm.q25_ms)), apart]
        if with_samples:
            row.append(arm.samples_per_s if arm.samples_per_s is not None else "not stated")
        rows.append(row)
    if with_samples:
        columns.append(Column("samples_per_s", "from the mean", "rate"))
    note = None
    if validation.unit == "samples/s" and not told.is_rate:
        note = "The scenario asks for samples/s, and the steps state no samples: Step(..., samples=...)."
    return Table("arm", "The two arms, outside the profiler", columns, rows, note)


def statistics_beside(validation: Validation) -> Table:
    """The ratio by other statistics."""
    columns = (
        Column("name", "statistic"),
        Column("ratio", "after / before", "ratio"),
        Column("low", "95 % from", "ratio"),
        Column("high", "95 % to", "ratio"),
    )
    rows: list[list[Cell]] = [[s.name, s.ratio, s.interval[0], s.interval[1]] for s in validation.statistics]
    return Table("statistic", "The ratio by other statistics", columns, rows)


def replicates(validation: Validation) -> Table:
    """The ratio of each replicate."""
    columns = (Column("replicate", "replicate"), Column("ratio", "after / before", "ratio"))
    rows: list[list[Cell]] = [[str(n), r] for n, r in enumerate(validation.replicate_ratios, 1)]
    return Table("replicate", "The ratio in each replicate", columns, rows)


def blocks(validation: Validation) -> Table:
    """Every block with its raw step times, in the order in which it was measured."""
    told = quantity.of(validation)
    unit = "samples/s by each of its steps" if told.is_rate else "times of its steps (ms)"
    decimals = 1 if told.is_rate else 4
    columns = (
        Column("order", "order"),
        Column("replicate", "replicate"),
        Column("pair", "pair"),
        Column("arm", "arm"),
        Column("steps", f"{unit}, nothing deleted"),
    )
    rows: list[list[Cell]] = [
        [
            str(b.order),
            str(b.replicate),
            str(b.pair),
            b.arm,
            " ".join(words.fixed(told.number(ms), decimals) for ms in b.steps_ms),
        ]
        for b in sorted(validation.blocks, key=lambda block: block.order)
    ]
    return Table("block", "Raw values, in the order of measuring", columns, rows)
