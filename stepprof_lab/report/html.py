"""The report as one HTML file that opens from disk: no network, readable printed, in the dark and without scripts.

The page follows the way of working: the question, where it ran, the approach, the window, the findings, the
validation, and at last what was not observed. Sections without values are left out and named at the end.
"""

from __future__ import annotations

import statistics
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from stepprof_lab import __version__
from stepprof_lab.report import charts, comparison, content, markup, tables, timeline_view, validation_page, words
from stepprof_lab.report.drawing import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepprof_lab.record import Record
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.difference import Difference
    from stepprof_lab.trace.model import Analysis, Finding, Interpretation
    from stepprof_lab.validate.model import Validation

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

LARGEST = 5_000_000
"""Bytes of a page, at the most: the timeline's data take what the rest leaves."""
FRAME = 150_000
"""Bytes of a page around its sections: styles, the program of the view, cards."""
OPERATORS_IN_VIEW = 20
BARS = 40
"""Labels that are drawn as bars: of more, the longest. The table has them all."""

WHERE_IN_VIEW = ("cpu", "cpus_allowed", "torch", "driver", "python", "system", "load_average", "threads_intra")


class _Section(NamedTuple):
    ident: str
    heading: str
    markup: str


def page(
    *,
    title: str | None = None,
    scenario: Scenario | None = None,
    record: Record | None = None,
    interpretation: Interpretation | None = None,
    difference: Difference | None = None,
    validation: Validation | None = None,
    environment: Any = None,
    generated_at: str | None = None,
) -> str:
    """Draw everything that is known as one page.

    Args:
        title: title of the page; by default the trace's name.
        scenario: the question; by default the record's, else the validation's.
        record: of the capture: approach, window, checks, environment.
        interpretation: of the trace: timeline, times, findings, operators.
        difference: from this trace to another one of the same thing.
        validation: of a change, outside the profiler.
        environment: where it ran, a struct or a mapping; by default the record's, else the validation's.
        generated_at: when the page was made, as text; left out where it is not given.
    """
    source = record or validation  # both say what was asked, and where it ran
    scenario = scenario or (source.scenario if source else None)
    where = content.as_mapping(environment or (source.environment if source else None))
    analysis = interpretation.analysis if interpretation else None
    title = title or (f"stepprof: {analysis.trace}" if analysis else "stepprof report")
    before = [_question(scenario, record), _where(where, record), _approach(record), _window(record)]
    after = [
        _times(analysis),
        _findings(analysis),
        _operators(analysis),
        _difference(difference),
        _validation(validation),
        _missing(record, analysis, validation, where),
    ]
    timeline = _timeline(interpretation, room_beside([*before, *after]))
    sections = [section for section in (*before, timeline, *after) if section is not None]
    question = _question_text(scenario, analysis, validation)
    body = [
        '<a class="skip" href="#content">Skip to the content</a>',
        _header(title, question, analysis, record, generated_at),
        '<main id="content">',
        _cards(analysis, record, validation),
        _contents(sections),
        *(section.markup for section in sections),
        "</main>",
        f"<footer>{markup.paragraph(f'stepprof_lab {__version__}. {FOOTER}')}</footer>",
    ]
    return f"{_head(title, scripted=interpretation is not None)}<body>{''.join(body)}</body></html>\n"


FOOTER = (
    "Times are elapsed times on the host's clock unless a column says that it is a sum. "
    "What was not observed is said to be so and is no zero. A finding is an observation, not a proven cause."
)


def _head(title: str, *, scripted: bool) -> str:
    style = files("stepprof_lab.report").joinpath("page.css").read_text(encoding="utf-8")
    policy = POLICY
    if scripted:
        style += timeline_view.style()
        policy += f"; script-src {timeline_view.script_source()}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{safe(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{safe(title)}</title><style>{style}</style></head>'
    )


def _question_text(scenario: Scenario | None, analysis: Analysis | None, validation: Validation | None) -> str | None:
    if scenario is not None:
        return scenario.question
    return (analysis.question if analysis else None) or (validation.question if validation else None)


def _header(
    title: str, question: str | None, analysis: Analysis | None, record: Record | None, generated_at: str | None
) -> str:
    known = []
    if analysis is not None:
        known.append(f"trace {analysis.trace}")
        known.append(f"origin {analysis.origin}")
    if record is not None:
        known.append(f"captured {record.captured_at} on {record.device}")
    if generated_at:
        known.append(f"report made {generated_at}")
    heading = words.prose(question) if question else "No question was recorded with this trace"
    line = markup.paragraph(" · ".join(known), "soft") if known else ""
    return f"<header>{markup.paragraph(title, 'kicker')}<h1>{safe(heading)}</h1>{line}</header>"


def _contents(sections: list[_Section]) -> str:
    links = "".join(f'<li><a href="#{section.ident}">{safe(section.heading)}</a></li>' for section in sections)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _cards(analysis: Analysis | None, record: Record | None, validation: Validation | None) -> str:
    """The answers and the few numbers that a reader looks for first."""
    cards = []
    if analysis is not None:
        found = analysis.findings[0] if analysis.findings else None
        small = (
            f"{found.id}: {words.explains(found.share_of_step, found.share_seen)}" if found else "no finding applies"
        )
        cards.append(markup.card("the trace says", words.regime(analysis.regime, analysis.doubts), small, "is-answer"))
    if validation is not None:
        cards.append(_verdict_card(validation))
    if record is not None and record.approach.steps_ms:
        steps = record.approach
        mean = words.duration(1e3 * statistics.fmean(steps.steps_ms[tables.steady_start(steps) :]))
        small = f"unprofiled, host clock; mean of {tables.steady_words(steps)}"
        cards.append(markup.card("a step, before the window", mean, small))
    elif analysis is not None and analysis.steps:
        mean = words.duration(statistics.fmean(step.cpu_us for step in analysis.steps))
        small = f"mean of {words.counted(len(analysis.steps), 'profiled step')}, host clock"
        cards.append(markup.card("a step, under the profiler", mean, small))
    if analysis is not None:
        cards.append(_gpu_card(analysis))
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _gpu_card(analysis: Analysis) -> str:
    gpu = analysis.gpu
    if not gpu.observed:
        return markup.card("GPU", words.NOT_OBSERVED, words.prose(gpu.reason))
    small = f"busy, of the {words.duration(gpu.span_us)} that its events span; {words.value(gpu.devices)}"
    return markup.card("GPU", words.duration(gpu.busy_us), small)


def _verdict_card(validation: Validation) -> str:
    known = {"faster": "is-faster", "slower": "is-slower", "equivalent": "is-equivalent"}
    small = words.VERDICT_WORDS[validation.verdict]
    if validation.ratio is not None:
        small = f"after / before {words.ratio(validation.ratio)}"
        if validation.interval is not None:
            small += f", 95 % interval {words.ratio(validation.interval[0])} to {words.ratio(validation.interval[1])}"
    big = f"{words.VERDICT_MARKS[validation.verdict]} {validation.verdict}"
    return markup.card("outside the profiler", big, small, known.get(validation.verdict, "is-no"))


def _question(scenario: Scenario | None, record: Record | None) -> _Section | None:
    if scenario is None:
        return None
    facts = [
        ("Question", words.prose(scenario.question)),
        ("Workload", scenario.kind),
        ("Unit of the answer", scenario.unit),
        ("Seed", str(scenario.seed)),
        ("The one change", words.prose(scenario.change) if scenario.change else "not stated yet"),
    ]
    parts = [
        markup.definitions(facts),
        '<div class="two"><div>',
        markup.table(tables.boundary(scenario)),
        "</div><div>",
        markup.table(tables.conditions(scenario, record.observed if record else None)),
        "</div></div>",
    ]
    if record is not None and record.contradictions:
        contradictions = markup.listed(words.prose(text) for text in record.contradictions)
        parts.append(f'<div class="warn" role="note"><strong>Stated and seen differ</strong>{contradictions}</div>')
    return _section("question", "The question", parts)


def _section(ident: str, heading: str, parts: list[str]) -> _Section:
    return _Section(ident, heading, markup.section(ident, heading, parts))


def _where(environment: Mapping[str, Any] | None, record: Record | None) -> _Section | None:
    if not environment:
        return None
    seen = {name: value for name, value in environment.items() if name != "not_observed"}
    device = [("device used", words.prose(record.device))] if record else []
    first = [(name, words.value(seen[name])) for name in WHERE_IN_VIEW if name in seen]
    whole = markup.folded("Everything about where it ran", [markup.definitions(tables.flat("", "", seen).rows)])
    return _section("where", "Where it ran", [markup.definitions([*device, *first]), whole])


def _approach(record: Record | None) -> _Section | None:
    if record is None:
        return None
    steps = record.approach
    if not steps.steps_ms:
        return _section("approach", "The approach", [markup.paragraph("No step ran before the window.")])
    why = (
        "Unprofiled steps before the window, timed by the host clock. They show what two active steps cannot: "
        "loaders with workers deliver in bursts, and a full queue hides a wait."
    )
    parts = [
        markup.paragraph(f"{tables.approach_words(steps)}. {why}"),
        markup.figure(charts.approach_svg(record), "Each step before the window, with the reading inside it"),
        markup.table(tables.approach_summary(steps)),
        markup.folded("Every step as a table", [markup.table(tables.approach(steps))]),
    ]
    return _section("approach", "The approach", parts)


def _window(record: Record | None) -> _Section | None:
    if record is None:
        return None
    valid = "The capture is valid." if record.valid else "The capture is NOT VALID: a check was not passed."
    schedule = ", ".join(f"{name} {turns}" for name, turns in record.schedule.items())
    costly = [name for name, on in record.options.items() if on]
    facts = [
        ("schedule", schedule),
        ("GPU collection", "asked for" if record.gpu_requested else "not asked for"),
        ("options that cost time", words.value(costly) if costly else "none was on"),
        ("trace", f"{words.visible(record.trace)}, SHA-256 {record.trace_sha256}"),
    ]
    parts = [markup.paragraph(valid, "" if record.valid else "warn"), markup.definitions(facts)]
    parts += [markup.table(table) for table in (tables.checks(record), tables.window(record)) if table.rows]
    return _section("window", "The window", parts)


def room_beside(sections: Iterable[_Section | None]) -> int:
    """Bytes that a page has left for its timeline."""
    return LARGEST - FRAME - sum(len(section.markup.encode()) for section in sections if section is not None)


def _timeline(interpretation: Interpretation | None, room: int) -> _Section | None:
    if interpretation is None:
        return None
    parts = timeline_view.parts(interpretation.timeline, interpretation.analysis.findings, room)
    return _section("timeline", "The timeline", parts)


def _times(analysis: Analysis | None) -> _Section | None:
    if analysis is None:
        return None
    gpu = tables.pairs("gpu", "GPU", content.gpu_facts(analysis.gpu))
    parts = [markup.table(tables.steps(analysis)), _bars(analysis), markup.table(tables.labels(analysis))]
    parts.append(markup.definitions(gpu.rows))
    return _section("times", "Where the step's time goes", parts)


def _bars(analysis: Analysis) -> str:
    """The labels' elapsed time drawn against that of the steps; the table after it has the numbers."""
    whole = sum(step.cpu_us for step in analysis.steps)
    longest = max([whole, *(times.cpu_us for times in analysis.labels.values())])
    if not analysis.labels or longest <= 0:
        return ""
    unit = words.unit_for([longest])
    longest_first = sorted(analysis.labels.items(), key=lambda item: -item[1].cpu_us)
    shown = longest_first[:BARS] if len(longest_first) > BARS else analysis.labels.items()
    rows = [("all active steps", whole)] if analysis.steps else []
    rows += [(name, times.cpu_us) for name, times in shown]
    drawn = "".join(markup.bar(words.shorten(name, 80), us / longest, unit.text(us)) for name, us in rows)
    left_out = len(longest_first) - len(shown)
    more = markup.paragraph(f"{words.counted(left_out, 'shorter label')} without a bar.", "note") if left_out else ""
    return f'<div class="bars" aria-hidden="true">{drawn}{more}</div>'


def _findings(analysis: Analysis | None) -> _Section | None:
    if analysis is None:
        return None
    parts = [_finding(finding) for finding in analysis.findings] or [markup.paragraph(words.NOTHING_FOUND)]
    if analysis.not_worth:
        left = markup.listed(words.prose(sentence) for sentence in analysis.not_worth)
        parts.append(f"<h3>{content.NOT_WORTH}</h3>{left}")
    if analysis.notes:
        parts.append(f"<h3>Notes</h3>{markup.listed(words.prose(note) for note in analysis.notes)}")
    return _section("findings", "Findings", parts)


def _finding(finding: Finding) -> str:
    rows = [
        ("Observation", words.prose(finding.observation)),
        ("Hypothesis", words.prose(finding.hypothesis)),
        ("Next check", words.prose(finding.next_check)),
    ]
    evidence = markup.folded("Evidence", [markup.definitions(words.flat(finding.evidence))])
    badge = f'<span class="badge">{safe(words.explains(finding.share_of_step, finding.share_seen))}</span>'
    return f'<div class="finding"><h3>{safe(finding.id)}{badge}</h3>{markup.definitions(rows)}{evidence}</div>'


def _operators(analysis: Analysis | None) -> _Section | None:
    if analysis is None:
        return None
    if not analysis.operators:
        return _section("operators", "Operators", [markup.paragraph("The trace has no operators.")])
    parts = [markup.table(tables.operators(analysis, OPERATORS_IN_VIEW))]
    if len(analysis.operators) > OPERATORS_IN_VIEW:
        count = words.counted(len(analysis.operators), "operator")
        parts.append(markup.folded(f"All {count}", [markup.table(tables.operators(analysis))]))
    return _section("operators", "Operators", parts)


def _difference(difference: Difference | None) -> _Section | None:
    if difference is None:
        return None
    parts = [
        markup.facts(table) if table.is_pairs and table.title else _pairs_or_table(table)
        for table in comparison.of_difference(difference)
    ]
    return _section("comparison", "Beside another trace of the same thing: no verdict", parts)


def _pairs_or_table(table: tables.Table) -> str:
    return markup.definitions(table.rows) if table.is_pairs else markup.table(table)


def _validation(validation: Validation | None) -> _Section | None:
    if validation is None:
        return None
    return _section("validation", "Validation, outside the profiler", validation_page.parts(validation))


def _missing(
    record: Record | None,
    analysis: Analysis | None,
    validation: Validation | None,
    environment: Mapping[str, Any] | None,
) -> _Section:
    rows = content.not_observed(record=record, analysis=analysis, validation=validation, environment=environment)
    if not rows:
        said = "Everything that this report looks for was observed. That says nothing of what it does not look for."
        return _section("missing", "What was not observed", [markup.paragraph(said)])
    return _section("missing", "What was not observed", [markup.definitions(rows)])
