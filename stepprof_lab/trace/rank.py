"""What is measured in the trace of one rank, so that ranks can be put beside each other.

All of it is of the rank's compared windows, its steps; times are ns from the beginning of its first one.

- The host's **own** time of a step is its elapsed time without waiting for the device and without the collectives that
  the host carries out itself while no operator works beside them. Reading a batch is own time: who reads longer
  arrives later.
- The device's **own** work is the union of what the step launched, without collectives.
- **Communication** is the union of the collectives of the step. It is **exposed** where no other work of this rank runs
  beside it: on the device no other device event, on the host no operator.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.trace import communication, intervals
from stepprof_lab.trace import steps as stepping
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings import Case
from stepprof_lab.trace.operators import _self_times
from stepprof_lab.trace.reader import STEP_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from stepprof_lab.trace.communication import Collectives
    from stepprof_lab.trace.intervals import Int64, Intervals
    from stepprof_lab.trace.model import Analysis, Context, Timeline
    from stepprof_lab.trace.reader import Metadata, Trace
    from stepprof_lab.trace.steps import DeviceWork

WHOLE_RECORD = "the whole record"
LABELS_COMPARED = 300
"""Names of labels that are compared between ranks, the longest ones: a program that puts a number into each name has as
many of them as it has batches."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a trace says of its place among the ranks; None or empty where it says nothing."""

    rank: int | None
    world_size: int | None
    host: str
    session: str
    """The number that the profiler gives each of its sessions."""
    base: int | None
    """What the times count from, in ns; 0 where they are absolute, None where that cannot be a number."""


@dataclasses.dataclass(frozen=True)
class Window:
    """One step of a rank, or its whole record; ns."""

    name: str
    number: int | None
    """Of the step; None where its name has none."""
    start: int
    """From the beginning of the rank's first one."""
    elapsed: int
    host_own: int
    device_own: int | None
    """None where no device event was observed."""
    communication: Intervals
    exposed: Intervals
    label_own: dict[str, int]
    """The host's own time in each label."""
    label_device: dict[str, int]
    """The device's own work that each label launched."""
    operator_self: dict[str, int]
    """Self time of each operator that began in it: a sum over calls."""
    operator_device: dict[str, int]
    """Device work by the innermost operator that launched it: a sum over events."""


@dataclasses.dataclass(frozen=True)
class Rank:
    """One rank's trace, measured."""

    trace: str
    identity: Identity
    analysis: Analysis
    windows: list[Window]
    marked: bool
    """Whether the windows are steps; otherwise the one window is the whole record."""
    origin: int
    """Beginning of the first window on the trace's own clock; ns."""
    collectives: Collectives
    window_of: Int64
    """For each collective the window that issued it; -1: none of them."""
    issued_unseen: bool
    """Whether collectives were given to a device of which none was observed."""
    picture: Timeline | None
    """Its timeline, where one was wanted."""
    picture_start: int
    """Beginning of the timeline; ns from the beginning of the first window."""
    communication_names: frozenset[str]
    """Names of spans that are collectives."""


def measure(path: Path, context: Context, *, picture: bool) -> Rank:
    """Read the trace of one rank and measure it.

    Args:
        path: the trace.
        context: what its record says.
        picture: whether its timeline is wanted.

    Raises:
        StepprofError: the file cannot be read as a trace.
    """
    from stepprof_lab.trace import _look, timeline, waiting

    seen = _look(path, context)
    trace, device = seen.trace, seen.device
    case = Case(trace, context, seen.steps, device, waiting.measure(trace, context, seen.steps, device))
    spans = _windows(seen.steps, trace)
    origin = spans[0][1]
    found = communication.find(trace, device)
    drawn = timeline.build(trace, seen.steps, device, seen.analysis.findings) if picture else None
    return Rank(
        trace=trace.name,
        identity=identity(trace.metadata),
        analysis=seen.analysis,
        windows=_measured(case, found, spans, origin),
        marked=len(seen.steps) > 0,
        origin=origin,
        collectives=_from(found, origin),
        window_of=_window_of(found, spans, marked=len(seen.steps) > 0),
        issued_unseen=not len(device) and communication.issued_unseen(trace) > 0,
        picture=drawn,
        picture_start=0 if len(seen.steps) else int(trace.start.min()) - origin,
        communication_names=_names(trace, device),
    )


def identity(about: Metadata) -> Identity:
    """Rank and place as the trace's own metadata say."""
    job = about.distributedInfo if isinstance(about.distributedInfo, dict) else {}
    base = about.baseTimeNanoseconds
    return Identity(
        rank=_count(job.get("rank")),
        world_size=_count(job.get("world_size")),
        host=about.host_name if isinstance(about.host_name, str) else "",
        session=about.trace_id if isinstance(about.trace_id, str) else "",
        base=0 if base is None else _count(base),
    )


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**62 else None


def _windows(steps: stepping.Steps, trace: Trace) -> list[tuple[str, int, int]]:
    """Name, start and end of each step; the host's part of the record where none is marked."""
    if len(steps):
        return list(zip(steps.names, steps.start.tolist(), steps.end.tolist(), strict=True))
    host = trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)
    rows = host if len(host) else np.arange(len(trace), dtype=np.int64)
    return [(WHOLE_RECORD, int(trace.start[rows].min()), int(trace.end[rows].max()))]


def _from(found: Collectives, origin: int) -> Collectives:
    return dataclasses.replace(found, start=found.start - origin, end=found.end - origin, issued=found.issued - origin)


def _window_of(found: Collectives, spans: list[tuple[str, int, int]], *, marked: bool) -> Int64:
    """The window that issued each collective, the later one where they overlap; -1 where it is not known."""
    window = np.full(len(found), -1, dtype=np.int64)
    for place, (_, low, high) in enumerate(spans):
        window[(found.issued >= low) & (found.issued < high) & (found.linked | (not marked))] = place
    return window


def _names(trace: Trace, device: DeviceWork) -> frozenset[str]:
    rows = device.rows[communication.is_communication(trace, device.rows)]
    on_host = {name for name in trace.names if communication.ON_HOST.match(name)}
    return frozenset(trace.names[i] for i in np.unique(trace.name_id[rows]).tolist()) | on_host


# ---- the numbers of each window ----


@dataclasses.dataclass(frozen=True)
class _Parts:
    """What every window is cut out of."""

    case: Case
    collective: np.ndarray[Any, np.dtype[np.bool_]]
    """Which device events are collectives."""
    others: Intervals
    """All other device work."""
    on_host: Intervals
    """Collectives that the host carries out."""
    host_work: Intervals
    waiting: Intervals
    """The host waits for the device."""
    labels: dict[str, Intervals]
    own_self: Int64
    """Self time of each host span; ns."""
    launched_by: list[str]
    """For each device event the name of the innermost operator around its launch, else its own."""


def _measured(case: Case, found: Collectives, spans: list[tuple[str, int, int]], origin: int) -> list[Window]:
    trace, device = case.trace, case.device
    collective = communication.is_communication(trace, device.rows)
    _, wait_from, wait_to = case.waits
    host = ~found.on_device
    parts = _Parts(
        case=case,
        collective=collective,
        others=intervals.union(device.start[~collective], device.end[~collective]),
        on_host=intervals.union(found.start[host], found.end[host]),
        host_work=communication.host_work(trace),
        waiting=intervals.union(wait_from, wait_to),
        labels=_labels(trace),
        own_self=_self_times(trace),
        launched_by=_launched_by(case),
    )
    return [_window(parts, name, low, high, origin) for name, low, high in spans]


def _labels(trace: Trace) -> dict[str, Intervals]:
    """The spans of each label that is no collective; the longest ones, where there are very many names."""
    spans = {
        name: intervals.union(trace.start[rows], trace.end[rows])
        for name, rows in stepping.label_rows(trace).items()
        if not communication.ON_HOST.match(name) and not communication.ISSUED.match(name)
    }
    longest = sorted(spans, key=lambda name: -intervals.total(*spans[name]))
    return {name: spans[name] for name in longest[:LABELS_COMPARED]}


def _launched_by(case: Case) -> list[str]:
    trace, device = case.trace, case.device
    around = np.where(device.linked, case.operator_of(np.maximum(device.launch_row, 0)), -1)
    named = np.where(around >= 0, around, device.rows)
    return [trace.names[i] for i in trace.name_id[named].tolist()]


def _window(parts: _Parts, name: str, low: int, high: int, origin: int) -> Window:
    device = parts.case.device
    whole = (np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))
    mine = _launched(parts.case, low, high)
    own, shared = mine & ~parts.collective, mine & parts.collective
    on_device = intervals.union(device.start[shared], device.end[shared])
    on_host = intervals.clip(*parts.on_host, low, high)
    alone_on_host = intervals.subtract(on_host, parts.host_work)
    not_own = communication.joined([alone_on_host, intervals.clip(*parts.waiting, low, high)])
    host_own = intervals.subtract(whole, not_own)
    exposed = communication.joined([intervals.subtract(on_device, parts.others), alone_on_host])
    by_label = {label: intervals.intersect(spans, whole) for label, spans in parts.labels.items()}
    return Window(
        name=name,
        number=step_number(name),
        start=low - origin,
        elapsed=high - low,
        host_own=intervals.total(*host_own),
        device_own=intervals.covered(device.start[own], device.end[own]) if len(device) else None,
        communication=_moved(communication.joined([on_device, on_host]), -origin),
        exposed=_moved(exposed, -origin),
        label_own={label: intervals.overlap(spans, host_own) for label, spans in by_label.items()},
        label_device=_label_device(device, own, by_label),
        operator_self=_operator_self(parts, low, high),
        operator_device=_operator_device(parts, own),
    )


def _launched(case: Case, low: int, high: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Device work of a window; of the whole record, all of it."""
    device = case.device
    if case.whole_record:
        return np.ones(len(device), dtype=np.bool_)
    return device.linked & (device.launched_at >= low) & (device.launched_at < high)


def _moved(merged: Intervals, by: int) -> Intervals:
    return merged[0] + by, merged[1] + by


def step_number(name: str) -> int | None:
    """The number in a step's name."""
    digits = re.fullmatch(re.escape(STEP_PREFIX) + r"(\d{1,18})", name)
    return int(digits[1]) if digits else None


def _label_device(device: DeviceWork, own: Any, by_label: dict[str, Intervals]) -> dict[str, int]:
    if not len(device):
        return {}
    inside = {label: own & device.launched_in(spans) for label, spans in by_label.items()}
    return {label: intervals.covered(device.start[rows], device.end[rows]) for label, rows in inside.items()}


def _operator_self(parts: _Parts, low: int, high: int) -> dict[str, int]:
    trace = parts.case.trace
    rows = trace.of(Kind.OPERATOR)
    rows = rows[(trace.start[rows] >= low) & (trace.start[rows] < high)]
    sums = _sums([trace.names[i] for i in trace.name_id[rows].tolist()], parts.own_self[rows])
    return {
        name: ns
        for name, ns in sums.items()
        if not name.startswith(STEP_PREFIX) and not communication.NOT_WORK.match(name)
    }


def _operator_device(parts: _Parts, own: Any) -> dict[str, int]:
    device = parts.case.device
    rows = np.flatnonzero(own)
    return _sums([parts.launched_by[i] for i in rows.tolist()], (device.end - device.start)[rows])


def _sums(names: list[str], values: Int64) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        sums[name] = sums.get(name, 0) + value
    return sums
