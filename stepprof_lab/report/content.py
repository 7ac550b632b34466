"""What a result says, in order: the tables that the terminal and ``name: value`` lines share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from stepprof_lab.report import tables, validation_parts, words
from stepprof_lab.report import validation as own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepprof_lab.record import Record
    from stepprof_lab.report.tables import Table
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.model import Analysis, Finding, GpuNotObserved, GpuObserved
    from stepprof_lab.validate.model import Validation

OPERATORS_SHOWN = 8
"""Operators on a screen; the page and the JSON have them all."""

NOT_WORTH = "Not worth touching"

MORE = "--html FILE draws it, --json has every value with its evidence"


@dataclasses.dataclass(frozen=True)
class Series:
    """Values that may be drawn as one line of bars; nothing is lost where they are not."""

    title: str
    values_us: Sequence[float]


def gpu_facts(gpu: GpuObserved | GpuNotObserved) -> list[tuple[str, str]]:
    """What is known about the device; one line with the reason where nothing was seen."""
    if not gpu.observed:
        return [("GPU", f"{words.NOT_OBSERVED}: {words.prose(gpu.reason)}")]
    facts = [
        ("GPU", f"observed ({gpu.vendor}): {words.value(gpu.devices)}"),
        ("GPU busy", f"{words.duration(gpu.busy_us)} of the {words.duration(gpu.span_us)} that its events span"),
        ("GPU sum of events", f"{words.duration(gpu.sum_us)}: a sum, not elapsed"),
        ("GPU events", str(gpu.events)),
    ]
    if gpu.events_unlinked:
        facts.append(("GPU events without a launch", str(gpu.events_unlinked)))
    return facts


def of_analysis(analysis: Analysis, record: Record | None = None) -> list[Table | Series]:
    """Regime and question first, then where the time goes, the findings, the operators and the notes."""
    question = analysis.question or (record.scenario.question if record else None)
    head = [
        ("Regime", words.regime(analysis.regime, analysis.doubts)),
        ("Question", words.prose(question) if question else "none was recorded with this trace"),
        *([("Because", words.prose(analysis.regime_reason))] if analysis.regime_reason else []),
        ("Trace", words.visible(analysis.trace)),
        ("Origin", words.ORIGIN_WORDS[analysis.origin]),
    ]
    parts: list[Table | Series] = [tables.pairs("", "", head + gpu_facts(analysis.gpu))]
    if record is not None:
        parts += of_approach(record)
    parts += [tables.steps(analysis), tables.labels(analysis)]
    parts += findings(analysis.findings)
    if analysis.not_worth:
        parts.append(tables.numbered("leave", NOT_WORTH, analysis.not_worth))
    parts.append(tables.operators(analysis, OPERATORS_SHOWN))
    if analysis.notes:
        parts.append(tables.numbered("note", "Notes", analysis.notes))
    parts.append(tables.pairs("more", "", [("More", MORE)]))
    return parts


def of_approach(record: Record) -> list[Table | Series]:
    """The unprofiled steps before the window, in short."""
    if not record.approach.steps_ms:
        return [tables.pairs("approach", "Approach", [("steps", "none: no step ran before the window")])]
    return [
        tables.approach_summary(record.approach),
        Series("Each step of the approach", [1e3 * ms for ms in record.approach.steps_ms]),
    ]


def findings(found: Sequence[Finding]) -> list[Table]:
    """One table a finding, or words where there is none."""
    if not found:
        return [tables.pairs("finding", "Findings", [("none", words.NOTHING_FOUND)])]
    return [finding(n, one) for n, one in enumerate(found, 1)]


def finding(number: int, one: Finding) -> Table:
    """Observation, hypothesis, next check and how much it could explain."""
    return tables.pairs(f"finding.{number}", f"Finding {number}", finding_rows(one))


def finding_rows(one: Finding) -> list[tuple[str, str]]:
    """The parts of a finding; the page and the JSON have its evidence too."""
    return [
        ("Id", words.visible(one.id)),
        ("Observation", words.prose(one.observation)),
        ("Hypothesis", words.prose(one.hypothesis)),
        ("Next check", words.prose(one.next_check)),
        ("Share", words.explains(one.share_of_step, one.share_seen)),
    ]


def verdict_facts(validation: Validation) -> list[tuple[str, str]]:
    """The verdict with its ratio, interval and margin."""
    facts = [("Verdict", f"{validation.verdict}: {words.VERDICT_WORDS[validation.verdict]}")]
    if validation.ratio is not None:
        facts.append(("Ratio", f"{words.ratio(validation.ratio)} after / before (below 1 is faster)"))
    else:
        facts.append(("Ratio", f"{words.NOT_OBSERVED}: nothing was timed"))
    if validation.interval is not None:
        low, high = validation.interval
        facts.append(("Interval", f"{words.ratio(low)} to {words.ratio(high)} (95 %, over replicates)"))
    if validation.ratio is not None and validation.unit == "samples/s":
        facts.append(("Throughput", _throughput(validation.ratio, validation.interval)))
    facts.append(("Margin", f"{words.percent(validation.margin)}; what is smaller is not called a difference"))
    if validation.smallest_effect_seen is not None:
        seen = words.percent(validation.smallest_effect_seen)
        facts.append(("Smallest effect seen", f"{seen}; this run would probably have missed a smaller one"))
    return facts


def _throughput(ratio: float, interval: tuple[float, float] | None) -> str:
    """The same ratio the other way round: samples in a given time."""
    told = f"{words.ratio(1 / ratio)} of before's (above 1 is faster)"
    return told if interval is None else f"{told}, {words.ratio(1 / interval[1])} to {words.ratio(1 / interval[0])}"


def design_facts(validation: Validation) -> list[tuple[str, str]]:
    """How it was measured."""
    blocks = validation.blocks
    timed = sum(len(block.steps_ms) for block in blocks)
    counts = f"{words.counted(len(blocks), 'block')}, {words.counted(timed, 'step time')}"
    return [
        ("Change", words.prose(validation.change) if validation.change else "not stated"),
        ("Design", words.prose(validation.design)),
        ("Unit", words.prose(validation.unit)),
        ("Device", words.prose(validation.device)),
        ("Seed", str(validation.seed)),
        ("Raw values", f"{counts}, nothing deleted" if blocks else "none: nothing was timed"),
    ]


def of_validation(validation: Validation, scenario: Scenario | None = None) -> list[Table | Series]:
    """The verdict first, then why, what was measured, and what it was measured with."""
    question = validation.question or (scenario.question if scenario else None)
    head = [("Question", words.prose(question) if question else "none was stated")]
    parts: list[Table | Series] = [tables.pairs("", "", head + verdict_facts(validation) + design_facts(validation))]
    parts.append(tables.numbered("reason", "Why this verdict", validation.reasons))
    parts += [table for table in (tables.arms(validation), tables.statistics_beside(validation)) if table.rows]
    if validation.replicate_ratios:
        ratios = " ".join(words.ratio(r) for r in validation.replicate_ratios)
        parts.append(tables.pairs("replicates", "Replicates", [("after / before in each", ratios)]))
    parts.append(tables.pairs("beside", "Beside the verdict", beside(validation)))
    parts += validation_parts.all_of(validation)
    parts += [*own.calibration(validation), *own.resumed(validation), *own.machines(validation)]
    parts.append(tables.pairs("more", "", [("More", MORE)]))
    return parts


def beside(validation: Validation) -> list[tuple[str, str]]:
    """Outputs, start-up and what disturbed the run, one line each."""
    return [
        ("Outputs", outputs_in_words(validation.outputs)),
        ("First step", first_steps_in_words(validation.startup)),
        ("Load", load_in_words(validation.noise)),
    ]


def outputs_in_words(outputs: Mapping[str, Any]) -> str:
    """How the outputs of the two arms agree."""
    agreement = outputs.get("agreement")
    if agreement is None:
        return f"{words.NOT_OBSERVED}: they were not compared to the end"
    over = f"over {words.counted(int(outputs.get('steps', 0)), 'step')} ({words.value(outputs.get('compared', []))})"
    if agreement == "bitwise":
        return f"equal bit by bit {over}"
    largest = outputs.get("largest_absolute_difference")
    by = words.NOT_OBSERVED if largest is None else words.value(largest)
    return f"{words.prose(str(agreement))} {over}; largest absolute difference {by}"


def first_steps_in_words(startup: Mapping[str, Any]) -> str:
    """The first step of each arm, which is in none of the times."""
    firsts = [(arm, (startup.get(arm) or {}).get("first_step_ms")) for arm in ("before", "after")]
    seen = [f"{words.duration(1e3 * ms)} {arm}" for arm, ms in firsts if ms is not None]
    return f"{', '.join(seen)}; in none of the times above" if seen else words.NOT_OBSERVED


def load_in_words(noise: Mapping[str, Any]) -> str:
    """How loaded the machine was, where that could be read."""
    parts = []
    if noise.get("cpu_pressure_share") is not None:
        parts.append(f"some task waited for a processor {words.percent(noise['cpu_pressure_share'])} of the time")
    if noise.get("load_at_start"):
        parts.append(f"load {noise['load_at_start'][0]:.2f} at the start on {noise.get('processors')} processors")
    return "; ".join(parts) or words.NOT_OBSERVED


def of_capture(record: Record, trace: str | None = None) -> list[Table | Series]:
    """What was captured, whether it holds, and what to do with it."""
    trace = trace or record.trace
    head = [
        ("Question", words.prose(record.scenario.question)),
        ("Captured", "a valid trace" if record.valid else "NOT VALID: a check was not passed; do not read it"),
        ("Trace", words.visible(trace)),
        ("Device", words.prose(record.device)),
    ]
    costly = [name for name, on in record.options.items() if on]
    if costly:
        head.append(("Options that cost time", words.value(costly)))
    parts: list[Table | Series] = [tables.pairs("", "", head), *of_approach(record)]
    parts += [table for table in (tables.window(record), tables.checks(record)) if table.rows]
    if record.contradictions:
        parts.append(tables.numbered("contradiction", "Stated and seen differ", record.contradictions))
    if record.valid:
        name = words.visible(trace)
        parts.append(
            tables.pairs(
                "next", "Next", [("read it", f'stepprof read "{name}"' if " " in name else f"stepprof read {name}")]
            )
        )
    return parts


def of_diagnosis(diagnosis: Any, facts: Sequence[tuple[str, str]]) -> list[Table | Series]:
    """The facts of a diagnosis, then what stands in the way and what to do about it."""
    parts: list[Table | Series] = [tables.pairs("", "", [(words.prose(n), words.prose(v)) for n, v in facts])]
    blockers = [
        (f"{n} {name}", words.prose(text))
        for n, blocker in enumerate(diagnosis.blockers, 1)
        for name, text in (("what", blocker.what), ("to do", blocker.todo))
    ]
    if blockers:
        parts.append(tables.pairs("blocker", "What stands in the way", blockers))
    if diagnosis.notes:
        parts.append(tables.numbered("note", "Notes", diagnosis.notes))
    return parts


def not_observed(
    *,
    record: Record | None = None,
    analysis: Analysis | None = None,
    validation: Validation | None = None,
    environment: Mapping[str, Any] | None = None,
) -> list[tuple[str, str]]:
    """What these results do not say, with the reason: never a zero."""
    rows: list[tuple[str, str]] = []
    if analysis is None:
        rows.append(("the trace", "none was interpreted for this report"))
    else:
        rows += _not_observed_in_trace(analysis)
    if record is None:
        known = validation is not None and validation.environment is not None
        unknown = "approach and checks are" if known else "approach, checks and environment are"
        rows.append(("the capture", f"no record of it was given: {unknown} not known"))
    else:
        rows += _not_observed_in_record(record)
    if validation is None:
        rows.append(("the effect of a change", "nothing was validated outside the profiler"))
    elif validation.ratio is None:
        rows.append(("the ratio of the two arms", "nothing was timed"))
    for part in (environment, validation.noise if validation else None):
        reasons = (part or {}).get("not_observed")
        rows += words.flat(reasons) if isinstance(reasons, dict) else []
    return rows


def _not_observed_in_trace(analysis: Analysis) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if not analysis.gpu.observed:
        rows.append(("GPU", words.prose(analysis.gpu.reason)))
    elif analysis.gpu.events_unlinked:
        seen = words.counted(analysis.gpu.events_unlinked, "GPU event")
        rows.append(("who launched some GPU work", f"{seen} without a launch in the trace"))
    if not analysis.steps:
        rows.append(("steps", "the trace has no step spans"))
    if analysis.operators and all(o.shapes is UNSET for o in analysis.operators):
        rows.append(("input shapes of operators", "the trace was recorded without shapes"))
    if analysis.regime == "undecided":
        rows.append(("the regime", words.REGIME_WORDS["undecided"]))
    return rows


def _not_observed_in_record(record: Record) -> list[tuple[str, str]]:
    rows = [
        (f"condition: {row[0]}", tables.NOT_KNOWN)
        for row in tables.conditions(record.scenario, record.observed).rows
        if row[2] == tables.NOT_KNOWN
    ]
    if record.approach.cut:
        rows.append(("the whole approach", words.prose(record.approach.cut_reason or "it was cut")))
    if record.approach.loader_workers is None:
        rows.append(("loader workers", "neither stated nor seen"))
    return rows


def as_mapping(anything: Any) -> dict[str, Any] | None:
    """A struct or a mapping as plain dictionaries; None stays None."""
    if anything is None:
        return None
    plain = msgspec.to_builtins(anything)
    if not isinstance(plain, dict):
        raise TypeError(f"{type(anything).__name__} is no mapping")
    return plain
