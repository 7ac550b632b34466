"""The demo in one screen: asked, captured, interpreted, changed, validated, and what was not observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report import content, tables, words

if TYPE_CHECKING:
    from stepprof_lab.demo.run import Demo
    from stepprof_lab.report.tables import Table
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.model import Analysis
    from stepprof_lab.validate.model import Validation


def of_demo(demo: Demo) -> list[Table | content.Series]:
    """One block for each part of the way of working."""
    record = demo.record
    passed = sum(check.passed for check in record.checks)
    return [
        tables.pairs("ask", "1 Ask", asked(record.scenario)),
        tables.pairs(
            "capture",
            "2 Capture",
            [
                ("Device", words.prose(demo.summary.device)),
                ("Approach", f"{words.counted(len(record.approach.steps_ms), 'step')} without the profiler"),
                ("Window", f"wait 1, warm-up 1, active 2; {passed} of {len(record.checks)} checks passed"),
            ],
        ),
        tables.pairs("interpret", "3 Interpret", interpreted(demo.analysis)),
        tables.pairs("change", "4 Change one thing", [("Change", words.prose(record.scenario.change or "not stated"))]),
        tables.pairs("validate", "5 Validate outside the profiler", validated(demo.validation)),
        tables.pairs("report", "6 Report", [("Page", demo.summary.report), ("Trace", demo.summary.trace)]),
    ]


def asked(scenario: Scenario) -> list[tuple[str, str]]:
    """The question with the step's boundary and the unit of the answer."""
    boundary = scenario.boundary
    parts = {part: getattr(boundary, part) for part in boundary.__struct_fields__}
    inside = [part.replace("_", " ") for part, included in parts.items() if included]
    outside = [part.replace("_", " ") for part, included in parts.items() if not included]
    rows = [
        ("Question", words.prose(scenario.question)),
        ("A step has", ", ".join(inside) + (f"; not: {', '.join(outside)}" if outside else "")),
        ("Unit", scenario.unit),
    ]
    if scenario.conditions.data_source:
        rows.append(("Data", words.prose(scenario.conditions.data_source)))
    return rows


def interpreted(analysis: Analysis) -> list[tuple[str, str]]:
    """The regime, the findings with their next checks, and the device."""
    rows = [("Regime", words.REGIME_WORDS[analysis.regime])]
    for finding in analysis.findings:
        rows += [("Finding", words.visible(finding.id)), *content.finding_rows(finding)[1:]]
    return rows + content.gpu_facts(analysis.gpu)


def validated(validation: Validation) -> list[tuple[str, str]]:
    """Verdict, ratio with its interval, the arms, and what it rests on."""
    rows = content.verdict_facts(validation)
    rows += [
        (
            arm.name.capitalize(),
            f"mean {words.duration(1e3 * arm.mean_ms)} a step over {words.counted(arm.steps, 'step')}",
        )
        for arm in validation.arms
    ]
    rows += content.beside(validation)
    return rows + [("But", words.prose(reason)) for reason in validation.reasons[1:]]
