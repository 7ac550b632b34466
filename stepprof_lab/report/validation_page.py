"""The validation's section of a page: every picture is followed by the table with the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report import charts, content, markup, tables, validation_charts, words
from stepprof_lab.report import validation as own
from stepprof_lab.report import validation_parts as more

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepprof_lab.report.tables import Table
    from stepprof_lab.validate.model import Validation


def parts(validation: Validation) -> list[str]:
    """The section in order: the verdict and why, what was measured, and what stands beside it."""
    return [
        markup.definitions(content.verdict_facts(validation)),
        f"<h3>Why this verdict</h3>{markup.listed(words.prose(reason) for reason in validation.reasons)}",
        *(markup.table(table) if not table.is_pairs else markup.facts(table) for table in own.machines(validation)),
        f"<h3>How it was measured</h3>{markup.definitions(content.design_facts(validation))}",
        *_raw(validation),
        *(markup.facts(table) if table.is_pairs else markup.table(table) for table in more.all_of(validation)),
        *_start_up(validation),
        *_outputs(validation),
        _or_words(own.settings(validation), "Neither arm sets anything that the other does not have."),
        *_noise(validation),
        *_calibration(validation),
        *(markup.table(own.sessions(validation)) for _ in validation.sessions[:1]),
    ]


def _raw(validation: Validation) -> Iterator[str]:
    if not validation.blocks:
        return
    yield markup.figure(charts.validation_svg(validation), "Every raw value, and the ratio with its interval")
    for table in (tables.arms(validation), tables.replicates(validation), tables.statistics_beside(validation)):
        if table.rows:
            yield markup.table(table)
    yield markup.folded("Every raw value as a table", [markup.table(tables.blocks(validation))])


def _start_up(validation: Validation) -> Iterator[str]:
    table = own.start_up(validation)
    if validation.warm_up:
        caption = "The first steps of each instance; none of them is in the times above"
        yield markup.figure(validation_charts.start_up_svg(validation), caption)
    yield _or_words(table, "Nothing was built for the timing, so no start-up was observed.")
    if validation.warm_up:
        yield markup.folded("Every step of the start-up as a table", [markup.table(own.instances(validation))])


def _outputs(validation: Validation) -> Iterator[str]:
    yield f"<h3>Outputs</h3>{markup.paragraph(content.outputs_in_words(validation.outputs))}"
    table = tables.flat("outputs", "Outputs compared", validation.outputs, "none")
    yield markup.folded("Everything about the outputs", [markup.definitions(table.rows)])


def _noise(validation: Validation) -> Iterator[str]:
    if not validation.noise:
        yield f"<h3>Noise</h3>{markup.paragraph(words.NOT_OBSERVED)}"
        return
    yield markup.facts(own.noise(validation))
    table = tables.flat("noise", "Noise", validation.noise)
    yield markup.folded("Everything that was seen of the machine", [markup.definitions(table.rows)])


def _calibration(validation: Validation) -> Iterator[str]:
    found = validation.calibration
    if found is None:
        said = (
            "Not asked for (--calibrate): how often this machine finds a difference where there is none is not known."
        )
        yield f"<h3>Calibration</h3>{markup.paragraph(said)}"
        return
    yield f"<h3>Calibration</h3>{markup.listed(words.prose(reason) for reason in found.reasons)}"
    if found.trials:
        svg = validation_charts.calibration_svg(found, validation.margin)
        yield markup.figure(svg, "This machine with nothing to find: an arm against itself")
        yield markup.table(own.false_alarms(found))
        yield markup.folded("Every trial as a table", [markup.table(own.trials(found))])


def _or_words(table: Table, nothing: str) -> str:
    return markup.table(table) if table.rows else f"<h3>{table.title}</h3>{markup.paragraph(nothing)}"
