"""What a validation holds where it was asked for: a label by itself, latency and throughput, quality metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report import tables, words
from stepprof_lab.report.tables import Cell, Column, Table

if TYPE_CHECKING:
    from stepprof_lab.validate.model import Validation

ARMS = ("before", "after")


def all_of(validation: Validation) -> list[Table]:
    """The parts that there are, in order."""
    return [*requests(validation), *quality(validation), *region(validation)]


def region(validation: Validation) -> list[Table]:
    """One label by itself, from a run of its own."""
    found = validation.region
    if found is None:
        return []
    rows = [("Verdict in the label", f"{found.verdict}: {words.VERDICT_WORDS[found.verdict]}")]
    if found.ratio is not None and found.interval is not None:
        low, high = map(words.ratio, found.interval)
        rows.append(("Ratio in the label", f"{words.ratio(found.ratio)} after / before, {low} to {high} (95 %)"))
    for arm in found.arms:
        name: str = arm.name
        share = words.percent(found.share_of_step[name])  # type: ignore[index]
        told = f"median {words.duration(1e3 * arm.median_ms)} a step, {share} of the step"
        rows.append((words.prose(name.capitalize()), told))
    rows.append(("Measured", "with this label alone heard; no number of the whole step comes from it"))
    title = f"The label {words.visible(found.label)} by itself"
    sentences = tables.numbered("region_reason", f"What {words.visible(found.label)} says of the whole", found.reasons)
    return [tables.pairs("region", title, rows), sentences]


def requests(validation: Validation) -> list[Table]:
    """Latency and throughput, apart."""
    if not validation.requests:
        return []
    latency = (
        Column("arm", "arm"),
        Column("requests", "requests", "count"),
        Column("median", "median", "time"),
        Column("q95", "95 % are faster than"),
        Column("q99", "99 % are faster than"),
    )
    rows: list[list[Cell]] = [
        [
            one.arm,
            one.requests,
            None if one.median_ms is None else 1e3 * one.median_ms,
            _time(one.q95_ms),
            _time(one.q99_ms),
        ]
        for one in validation.requests
    ]
    rate = (
        Column("arm", "arm"),
        Column("requests", "requests/s"),
        Column("samples", "samples/s"),
    )
    rates: list[list[Cell]] = [
        [one.arm, _rate(one.requests_per_s), _rate(one.samples_per_s)] for one in validation.requests
    ]
    return [
        Table("latency", "Latency: the time until a request is answered", latency, rows, _why(validation)),
        Table("throughput", "Throughput: over the whole timed loop, one request after the other", rate, rates),
    ]


def quality(validation: Validation) -> list[Table]:
    """Each quality metric of both arms."""
    columns = (
        Column("metric", "metric"),
        Column("steps", "after steps", "count"),
        Column("before", "before"),
        Column("after", "after"),
        Column("tolerance", "may differ by"),
    )
    rows: list[list[Cell]] = [
        [words.prose(name), one["steps"], *(words.value(one[key]) for key in ("before", "after", "tolerance"))]
        for part in ("metrics", "metrics_after_timed_steps")
        for name, one in (validation.outputs.get(part) or {}).items()
    ]
    note = "After the timed steps: the replicate in which they are furthest apart."
    return [Table("quality", "Quality metrics of the step", columns, rows, note)] if rows else []


def _time(ms: float | None) -> str:
    return words.NOT_OBSERVED if ms is None else words.duration(1e3 * ms)


def _rate(rate: float | None) -> str:
    return words.NOT_OBSERVED if rate is None else f"{rate:.1f}"


def _why(validation: Validation) -> str:
    """Why a quantile is not told, once for both arms where the reason is the same."""
    names = {"median_ms": "median", "q95_ms": "95 %", "q99_ms": "99 %"}
    told = dict.fromkeys(
        f"{names[key]}: {why}." for one in validation.requests for key, why in one.not_observed.items() if key in names
    )
    return " ".join(["These are the requests one after the other, with no queue before them.", *told])
