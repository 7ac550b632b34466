"""What changed between two traces of the same thing: counts, labels, operators and gaps, side by side.

It is no verdict. Both were measured under the profiler, over a few steps each, so a difference may be chance or the
profiler's own doing: only a validation outside the profiler can say that a change took effect.

- Steps are matched by position, and **only matched steps are compared**. Where one trace has more, the rest is said
  to be left out. Where one has none marked, the whole records are compared and nothing is said a step.
- A number is the **mean over the matched steps**, of what starts inside them on any thread (host) or was launched
  inside them (device). What is a sum keeps its name.
- A **gap** of the device is time of a step in which no device event ran, on any stream. The host's time outside
  operators is time of a step in which no thread was in an operator or a call of the device's runtime.
- A number of the device appears only where device work was observed in both traces. A label or an operator that one
  trace does not hold has no number there: it is absent, which is not a zero.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from stepprof_lab.trace import intervals
from stepprof_lab.trace import steps as stepping
from stepprof_lab.trace.device import launch_calls
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.model import Origin, Regime
from stepprof_lab.trace.operators import operator_times
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepprof_lab.trace.intervals import Intervals
    from stepprof_lab.trace.model import Analysis, LabelTimes, OperatorTimes
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

NO_VERDICT = (
    "This is no verdict. Both traces were recorded under the profiler, over a few steps each: what differs may be "
    "chance, or the profiler's own doing. It shows where to look, not whether a change took effect."
)

_WAITS = re.compile(r"(cu|hip)\w*Synchronize")

Which = Literal["first", "second"]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One number in both traces; a side that was not observed is left out."""

    first: float | UnsetType = UNSET
    second: float | UnsetType = UNSET
    change: float | UnsetType = UNSET
    """Second minus first."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two traces."""

    trace: str
    origin: Origin
    question: str | None
    regime: Regime
    steps: int
    """Steps that are marked in it."""
    devices: list[str] | None
    """The devices whose work was observed; None where there is none."""
    device_not_observed: str | None
    """Why not, where none was observed."""
    findings: list[str]


class StepPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two steps at the same position; the definitions stand in `stepprof_lab.trace.steps`."""

    position: int
    names: tuple[str, str]
    cpu_us: Pair
    gpu_launched_us: Pair | UnsetType = UNSET
    gpu_busy_in_window_us: Pair | UnsetType = UNSET
    gpu_tail_us: Pair | UnsetType = UNSET


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many, a step. Calls of the runtime are there where both traces recorded such calls."""

    operator_calls: Pair
    runtime_calls: Pair | UnsetType = UNSET
    launch_calls: Pair | UnsetType = UNSET
    """Of them, those that queue device work."""
    wait_calls: Pair | UnsetType = UNSET
    """Of them, those that wait for a device, a stream or an event."""
    gpu_kernels_launched: Pair | UnsetType = UNSET
    gpu_copies_launched: Pair | UnsetType = UNSET
    gpu_memsets_launched: Pair | UnsetType = UNSET


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Where nothing was recorded, a step."""

    host_outside_operators_us: Pair
    gpu_gaps: Pair | UnsetType = UNSET
    """Number of gaps."""
    gpu_idle_us: Pair | UnsetType = UNSET
    """Their total."""
    gpu_longest_gap_us: Pair | UnsetType = UNSET
    """The longest of all matched steps."""


class LabelPair(msgspec.Struct, frozen=True, kw_only=True):
    """One label, a step."""

    name: str
    only_in: Which | None
    calls: Pair
    cpu_us: Pair
    gpu_launched_us: Pair | UnsetType = UNSET
    gpu_idle_us: Pair | UnsetType = UNSET
    """Time of the label in which no device event ran."""


class OperatorPair(msgspec.Struct, frozen=True, kw_only=True):
    """One operator, a step; what is a sum is called a sum."""

    name: str
    only_in: Which | None
    calls: Pair
    cpu_self_us: Pair
    cpu_sum_us: Pair
    gpu_sum_us: Pair | UnsetType = UNSET


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from the first trace to the second: the JSON of ``stepprof read A --compare B``."""

    first: Side
    second: Side
    unlike: list[str]
    """Why the two may not be of the same thing; read it before any number."""
    no_verdict: str
    validate: str
    """The command that would give a verdict."""
    notes: list[str]
    steps_compared: int
    """0: no steps could be matched, and the numbers are of the whole records."""
    steps: list[StepPair]
    counts: Counts
    gaps: Gaps
    labels: list[LabelPair]
    """In order of time: those of the first trace, then those that only the second has."""
    operators: list[OperatorPair]
    """By the largest change of self time, or of device time where there is one."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """One trace with what was concluded from it."""

    trace: Trace
    steps: Steps
    device: DeviceWork
    analysis: Analysis


@dataclasses.dataclass(frozen=True)
class _Measured:
    """The numbers of one trace; sums over the compared steps, times in us."""

    count: int
    """What the sums are divided by."""
    counts: dict[str, float]
    gaps: dict[str, float]
    longest_gap: float | None
    labels: dict[str, LabelTimes]
    label_idle: dict[str, float]
    operators: dict[str, OperatorTimes]


def between(first: Seen, second: Seen, unlike: Iterable[str] = (), validate: str = "") -> Difference:
    """Compare two traces.

    Args:
        first: the one that the changes count from.
        second: the other one.
        unlike: what is known from elsewhere (their records) that speaks against comparing them.
        validate: the command that would give a verdict.
    """
    matched = min(len(first.steps), len(second.steps))
    both = bool(len(first.device)) and bool(len(second.device))
    one, other = (_measure(seen, matched, both=both) for seen in (first, second))
    return Difference(
        first=_side(first),
        second=_side(second),
        unlike=[*unlike, *_unlike(first, second)],
        no_verdict=NO_VERDICT,
        validate=validate,
        notes=_notes(first, second, matched),
        steps_compared=matched,
        steps=_step_pairs(first.analysis, second.analysis, matched, both=both),
        counts=Counts(**_means(one.counts, one.count, other.counts, other.count, both=both)),
        gaps=_gaps(one, other, both=both),
        labels=_label_pairs(one, other, both=both),
        operators=_operator_pairs(one, other, both=both),
    )


# ---- what is said before the numbers ----


def _side(seen: Seen) -> Side:
    analysis = seen.analysis
    gpu = analysis.gpu
    return Side(
        trace=analysis.trace,
        origin=analysis.origin,
        question=analysis.question,
        regime=analysis.regime,
        steps=len(seen.steps),
        devices=gpu.devices if gpu.observed else None,
        device_not_observed=None if gpu.observed else gpu.reason,
        findings=[finding.id for finding in analysis.findings],
    )


def _unlike(first: Seen, second: Seen) -> list[str]:
    """What the traces themselves show."""
    one, other = first.analysis, second.analysis
    said = []
    if one.origin != other.origin:
        said.append(f"the first trace is {one.origin}, the second is {other.origin}")
    if one.gpu.observed and other.gpu.observed:
        if (one.gpu.vendor, one.gpu.devices) != (other.gpu.vendor, other.gpu.devices):
            said.append(f"other devices: {', '.join(one.gpu.devices)} and {', '.join(other.gpu.devices)}")
    elif one.gpu.observed or other.gpu.observed:
        which, reason = ("first", other.gpu) if one.gpu.observed else ("second", one.gpu)
        missing = "second" if which == "first" else "first"
        why = "" if reason.observed else f" ({reason.reason})"
        said.append(
            f"device work was observed in the {which} trace only, so nothing of the device is compared; "
            f"in the {missing} one it was not observed{why}"
        )
    shapes = _other_shapes(one, other)
    if shapes:
        more = f" and {len(shapes) - 1} more" if len(shapes) > 1 else ""
        said.append(f"other input shapes, of '{shapes[0]}'{more}: the two may not do the same work")
    return said


def _other_shapes(one: Analysis, other: Analysis) -> list[str]:
    """The operators that have shapes in each trace that the other one does not have.

    Where the shapes of one are among those of the other, calls came or went, which the counts show.
    """
    first, second = (
        {times.name: set(times.shapes) for times in side.operators if times.shapes is not UNSET}
        for side in (one, other)
    )
    return [
        name for name, shapes in first.items() if name in second and shapes - second[name] and second[name] - shapes
    ]


def _notes(first: Seen, second: Seen, matched: int) -> list[str]:
    notes = []
    counts = len(first.steps), len(second.steps)
    if not matched:
        lacking = " and ".join(w for w, n in zip(("the first", "the second"), counts, strict=True) if not n)
        notes.append(f"no step is marked in {lacking} trace: the whole records are compared, and no number is a step's")
    elif counts[0] != counts[1]:
        which, more = ("first", counts[0]) if counts[0] > counts[1] else ("second", counts[1])
        rest = f"its steps from position {matched + 1} on have no partner and are left out"
        notes.append(f"the {which} trace has {more} steps: {rest}")
    for which, seen in (("first", first), ("second", second)):
        notes += [f"{which} trace: {note}" for note in seen.analysis.notes]
    return notes


# ---- measuring one trace ----


def _measure(seen: Seen, matched: int, *, both: bool) -> _Measured:
    windows = _windows(seen, matched, both=both)
    merged = intervals.union(*windows)
    trace = _starting_in(seen.trace, merged) if matched else seen.trace
    device = stepping.find_device_work(trace)
    rows = stepping.label_rows(trace)
    spans = {name: intervals.union(trace.start[r], trace.end[r]) for name, r in rows.items()}
    gaps, longest = _gaps_of(seen, windows)
    busy = seen.device.merged
    return _Measured(
        count=matched or 1,
        counts=_counts(trace, device),
        gaps=gaps,
        longest_gap=longest,
        labels=stepping.label_times(trace, rows, device),
        label_idle={name: us(intervals.total(*s) - intervals.overlap(busy, s)) for name, s in spans.items()},
        operators={times.name: times for times in operator_times(trace, device)},
    )


def _windows(seen: Seen, matched: int, *, both: bool) -> Intervals:
    """The compared steps one by one.

    Without matched steps it is the part of the record in which the device worked, as in the report of one trace; where
    no device can be compared, the host's part.
    """
    if matched:
        return seen.steps.start[:matched], seen.steps.end[:matched]
    if both:
        return seen.device.record()
    host = seen.trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)
    if not len(host):
        host = np.arange(len(seen.trace), dtype=np.int64)
    low, high = seen.trace.start[host].min(), seen.trace.end[host].max()
    return np.array([low], dtype=np.int64), np.array([high], dtype=np.int64)


def _starting_in(trace: Trace, window: Intervals) -> Trace:
    """The trace without the host's events that start outside the window; device events are all kept."""
    device = np.isin(trace.kind, (Kind.KERNEL, Kind.COPY, Kind.MEMSET))
    kept = device | intervals.contains(window, trace.start)
    columns: dict[str, Any] = {
        field.name: value[kept]
        for field in dataclasses.fields(trace)
        if isinstance(value := getattr(trace, field.name), np.ndarray) and len(value) == len(trace)
    }
    return dataclasses.replace(trace, **columns)


def _counts(trace: Trace, device: DeviceWork) -> dict[str, float]:
    operators = trace.of(Kind.OPERATOR)
    steps = stepping.is_step(trace)[trace.name_id[operators]]
    counts: dict[str, float] = {"operator_calls": int((~steps).sum())}
    calls = trace.of(Kind.RUNTIME)
    if len(calls):
        names = np.array([bool(_WAITS.match(name)) for name in trace.names], dtype=np.bool_)
        counts["runtime_calls"] = len(calls)
        counts["launch_calls"] = sum(launch_calls(trace).values())
        counts["wait_calls"] = int(names[trace.name_id[calls]].sum())
    if len(device):
        kinds = trace.kind[device.rows[device.linked]]
        for key, kind in (("kernels", Kind.KERNEL), ("copies", Kind.COPY), ("memsets", Kind.MEMSET)):
            counts[f"gpu_{key}_launched"] = int((kinds == kind).sum())
    return counts


def _gaps_of(seen: Seen, windows: Intervals) -> tuple[dict[str, float], float | None]:
    """Gaps of host and device in the windows, and the device's longest."""
    trace = seen.trace
    rows = trace.of(Kind.OPERATOR, Kind.RUNTIME)
    rows = rows[~stepping.is_step(trace)[trace.name_id[rows]]]
    host = intervals.union(trace.start[rows], trace.end[rows])
    found = {"host_outside_operators_us": sum(intervals.total(*g) for g in _free(host, windows)) / 1000}
    if not len(seen.device):
        return found, None
    free = _free(seen.device.merged, windows)
    found["gpu_gaps"] = sum(len(start) for start, _ in free)
    found["gpu_idle_us"] = sum(intervals.total(*gap) for gap in free) / 1000
    return found, us(max((int((end - start).max()) for start, end in free if len(start)), default=0))


def _free(merged: Intervals, windows: Intervals) -> list[Intervals]:
    return [intervals.gaps(merged, low, high) for low, high in zip(*(w.tolist() for w in windows), strict=True)]


# ---- putting two side by side ----


def _pair(first: float | None, second: float | None) -> Pair:
    if first is None or second is None:
        return Pair(first=UNSET if first is None else first, second=UNSET if second is None else second)
    return Pair(first=first, second=second, change=_rounded(second - first))


def _rounded(number: float) -> float:
    """A difference of two numbers without the dust of their decimals: a thousandth of a nanosecond is none."""
    return round(number, 6) + 0.0


def _mean(total: float | UnsetType | None, count: int) -> float | None:
    return None if total is None or total is UNSET else _rounded(total / count)


def _means(
    first: dict[str, float], first_count: int, second: dict[str, float], second_count: int, *, both: bool
) -> dict[str, Any]:
    """Means of what both sides have; of the device only where it was observed in both."""
    shared = [key for key in first if key in second and (both or not key.startswith("gpu_"))]
    return {key: _pair(_mean(first[key], first_count), _mean(second[key], second_count)) for key in shared}


def _gaps(one: _Measured, other: _Measured, *, both: bool) -> Gaps:
    means = _means(one.gaps, one.count, other.gaps, other.count, both=both)
    return Gaps(**means, gpu_longest_gap_us=_pair(one.longest_gap, other.longest_gap) if both else UNSET)


def _step_pairs(first: Analysis, second: Analysis, matched: int, *, both: bool) -> list[StepPair]:
    device = ("gpu_launched_us", "gpu_busy_in_window_us", "gpu_tail_us") if both else ()
    return [
        StepPair(
            position=n + 1,
            names=(one.name, other.name),
            cpu_us=_pair(one.cpu_us, other.cpu_us),
            **{key: _pair(getattr(one, key), getattr(other, key)) for key in device},
        )
        for n, (one, other) in enumerate(zip(first.steps[:matched], second.steps[:matched], strict=True))
    ]


def _keys(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, Which | None]]:
    """Names of both, those of the first in their order, with the only side that has it."""
    names = dict.fromkeys([*first, *second])
    return [(n, None if n in first and n in second else "first" if n in first else "second") for n in names]


def _label_pairs(one: _Measured, other: _Measured, *, both: bool) -> list[LabelPair]:
    pairs = []
    for name, only in _keys(one.labels, other.labels):
        found = [side.labels.get(name) for side in (one, other)]
        idle = [side.label_idle.get(name) for side in (one, other)]
        device = {"gpu_idle_us": _pair_of(idle, one, other)} if both else {}
        fields = ("calls", "cpu_us", *(("gpu_launched_us",) if both else ()))
        pairs.append(LabelPair(name=name, only_in=only, **_fields(found, fields, one, other), **device))
    return pairs


def _operator_pairs(one: _Measured, other: _Measured, *, both: bool) -> list[OperatorPair]:
    fields = ("calls", "cpu_self_us", "cpu_sum_us", *(("gpu_sum_us",) if both else ()))
    pairs = []
    for name, only in _keys(one.operators, other.operators):
        found = [side.operators.get(name) for side in (one, other)]
        pairs.append(OperatorPair(name=name, only_in=only, **_fields(found, fields, one, other)))
    return sorted(pairs, key=lambda pair: -largest_change(pair))


def _fields(found: Sequence[Any], names: Iterable[str], one: _Measured, other: _Measured) -> dict[str, Any]:
    return {
        name: _pair_of([None if times is None else getattr(times, name) for times in found], one, other)
        for name in names
    }


def _pair_of(totals: Sequence[Any], one: _Measured, other: _Measured) -> Pair:
    return _pair(_mean(totals[0], one.count), _mean(totals[1], other.count))


def largest_change(operator: OperatorPair) -> float:
    """How much of an operator's own or device time came, went or changed, us a step."""
    pairs = [operator.cpu_self_us] + ([] if operator.gpu_sum_us is UNSET else [operator.gpu_sum_us])
    return max(abs((0.0 if p.second is UNSET else p.second) - (0.0 if p.first is UNSET else p.first)) for p in pairs)
