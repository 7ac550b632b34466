"""When a step ran on the host, and what the device did for it and during it.

Definitions, all on the trace's clock:

- A **step** is a ``ProfilerStep#n`` span of the host. Its elapsed time is its length.
- A **label** is any other annotation of the host, the framework's own included (``Optimizer.step#SGD.step``,
  ``enumerate(DataLoader)#...``). Its elapsed time is the union of its spans.
- **Device events** are kernels, copies and memsets. A label's projection onto a stream is not one: it holds idle gaps.
- The **launch** of a device event is the host call with the same non-zero correlation. An event without one is
  *unlinked*: in a scheduled capture that is usual, its launch lies before the record.
- **Launched** by a step or a label: union of the device events whose launch starts inside it, on any thread
  (backward runs on another one).
- **Busy in the window** of a step: union of all device events, clipped to the step.
- **Foreign** in the window: union of the clipped device events that this step did not launch.
- **Tail**: how far the launched work ends after the step's host part.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.model import LabelTimes, StepTimes
from stepprof_lab.trace.reader import STEP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepprof_lab.trace.intervals import Bool, Int64, Intervals
    from stepprof_lab.trace.reader import Trace


@dataclasses.dataclass(frozen=True)
class Steps:
    """The steps of a trace in order of time; ns."""

    names: list[str]
    rows: Int64
    """Their rows in the trace."""
    start: Int64
    end: Int64
    trace: str = ""
    """Name of the trace."""

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.names)

    def window(self) -> Intervals:
        """Union of the steps."""
        return intervals.union(self.start, self.end)


@dataclasses.dataclass(frozen=True)
class DeviceWork:
    """The device events of a trace, in the file's order; ns."""

    rows: Int64
    """Their rows in the trace."""
    start: Int64
    end: Int64
    launch_row: Int64
    """Row of the host call that launched each of them; -1 where there is none in the trace."""
    launched_at: Int64
    """Start of that call; meaningless where there is none."""
    merged: Intervals
    """Union of all."""

    def __len__(self) -> int:
        """Number of device events."""
        return len(self.rows)

    @property
    def linked(self) -> Bool:
        """Whether the launch of each event is in the trace."""
        return self.launch_row >= 0

    def record(self) -> Intervals:
        """The part of the record in which the device worked: from the first launch to the end of the last work; ns."""
        launched = self.launched_at[self.linked]
        low = min(int(self.start.min()), int(launched.min(initial=2**62)))
        return np.array([low], dtype=np.int64), np.array([int(self.end.max())], dtype=np.int64)

    def launched_in(self, window: Intervals) -> Bool:
        """Which events were launched inside a union of host spans."""
        return self.linked & intervals.contains(window, self.launched_at)


def us(ns: int) -> float:
    """Nanoseconds as the contract's microseconds: the double nearest to three decimals."""
    return int(ns) / 1000


def find_steps(trace: Trace) -> Steps:
    """The steps that the profiler marked.

    In traces of 2021 they are operators; a step's projection onto a stream is not counted again.
    """
    rows = trace.of(Kind.ANNOTATION, Kind.OPERATOR)
    rows = rows[is_step(trace)[trace.name_id[rows]]]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    names = [trace.names[i] for i in trace.name_id[rows].tolist()]
    return Steps(names, rows, trace.start[rows], trace.end[rows], trace.name)


def overlapping(steps: Steps) -> int:
    """How many steps begin before one before them has ended."""
    return int((steps.start[1:] < np.maximum.accumulate(steps.end)[:-1]).sum()) if len(steps) else 0


def is_step(trace: Trace) -> Bool:
    """For each name of the trace whether it is a step's."""
    return np.array([name.startswith(STEP_PREFIX) for name in trace.names], dtype=np.bool_)


def find_device_work(trace: Trace) -> DeviceWork:
    """The device events with their launches."""
    return _work(trace, trace.of(Kind.KERNEL, Kind.COPY, Kind.MEMSET))


def find_drawn_work(trace: Trace) -> DeviceWork:
    """The device events and the simulated ones of the practice device: for a picture, never for a number."""
    return _work(trace, trace.of(Kind.KERNEL, Kind.COPY, Kind.MEMSET, Kind.PRACTICE))


def _work(trace: Trace, rows: Int64) -> DeviceWork:
    start, end = trace.start[rows], trace.end[rows]
    launch_row = _launches(trace, rows)
    launched_at = np.where(launch_row >= 0, trace.start[np.maximum(launch_row, 0)], 0)
    return DeviceWork(rows, start, end, launch_row, launched_at, intervals.union(start, end))


@dataclasses.dataclass(frozen=True)
class Unlinked:
    """How many device events have no launch in the trace, apart by why."""

    before: int
    """Their launch lies before the record: its number is smaller than that of every call in the trace, for numbers
    grow with time. So it is in a capture that began while work was queued."""
    unnumbered: int
    """They carry no number."""
    lost: int
    """Their launch should be in the trace: calls with smaller numbers are."""

    @property
    def astray(self) -> int:
        """Those whose launch may well be in the trace."""
        return self.unnumbered + self.lost


def unlinked(trace: Trace, device: DeviceWork) -> Unlinked:
    """Why device events have no launch in the trace."""
    number = trace.correlation[device.rows[~device.linked]]
    calls = trace.correlation[trace.of(Kind.RUNTIME)]
    smallest = int(calls[calls != 0].min(initial=np.iinfo(np.int64).max))
    none = number == 0
    before = ~none & (number < smallest)
    return Unlinked(int(before.sum()), int(none.sum()), int((~none & ~before).sum()))


def _launches(trace: Trace, device_rows: Int64) -> Int64:
    """For each device event the row of the earliest host call with its correlation, or -1."""
    calls = trace.of(Kind.RUNTIME)
    calls = calls[trace.correlation[calls] != 0]
    if not len(calls):
        return np.full(len(device_rows), -1, dtype=np.int64)
    calls = calls[np.argsort(trace.start[calls], kind="stable")]
    known, first = np.unique(trace.correlation[calls], return_index=True)
    wanted = trace.correlation[device_rows]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, calls[first[place]], -1)


def step_times(steps: Steps, device: DeviceWork) -> list[StepTimes]:
    """The contract's numbers for each step; no ``gpu_*`` where no device event was observed."""
    lasted = (steps.end - steps.start).tolist()
    if not len(device):
        return [StepTimes(name=name, cpu_us=us(ns)) for name, ns in zip(steps.names, lasted, strict=True)]
    events, launched, last = _launched_by(steps, device)
    _demand_bounded(int(events.sum()) + _Present(device).counts(steps.start, steps.end), steps.trace, "steps")
    busy = intervals.covered_in(device.merged, steps.start, steps.end)
    tail = np.maximum(last - steps.end, 0)
    columns = (lasted, events, launched, busy, _foreign(steps, device), tail)
    return [
        StepTimes(
            name=name,
            cpu_us=us(cpu),
            gpu_events_launched=int(count),
            gpu_launched_us=us(mine),
            gpu_busy_in_window_us=us(worked),
            gpu_foreign_in_window_us=us(others),
            gpu_tail_us=us(after),
        )
        for name, cpu, count, mine, worked, others, after in zip(steps.names, *columns, strict=True)
    ]


AT_ONCE = 2_000_000
"""Pairs of a span and a device event in it that are held at a time."""


def _portions(counts: Int64) -> Iterator[slice]:
    """Neighbouring spans whose counts add up to `AT_ONCE` at the most, or one span."""
    upto = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        done = int(upto[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(upto, done + AT_ONCE, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _launched_by(steps: Steps, device: DeviceWork) -> tuple[Int64, Int64, Int64]:
    """For each step the number of device events that it launched, their union in ns, and the end of the last.

    The end is the step's own where it launched nothing.
    """
    by_launch = Launched(device)
    first, past = by_launch.places(steps.start, np.maximum(steps.start, steps.end))
    _demand_bounded(int((past - first).sum()), steps.trace, "steps")
    union, last = np.zeros(len(steps), dtype=np.int64), np.array(steps.end)
    for some in _portions(past - first):
        of, place = intervals.ranges(first[some], past[some])
        mine = by_launch.order[place]
        group, start, end = intervals.union_by(of, device.start[mine], device.end[mine])
        union[some] = intervals.total_by(group, end - start, some.stop - some.start)
        np.maximum.at(last[some], of, device.end[mine])
    return past - first, union, last


def _foreign(steps: Steps, device: DeviceWork) -> Int64:
    """For each step the union of the device events in its window that it did not launch, in ns."""
    present = _Present(device)
    first, past = present.places(steps.start, steps.end)
    found = np.zeros(len(steps), dtype=np.int64)
    for some in _portions(np.maximum(past - first, 0)):
        of, place = intervals.ranges(first[some], past[some])
        near, low, high = present.order[place], steps.start[some][of], steps.end[some][of]
        at = device.launched_at[near]
        other = ~(device.linked[near] & (at >= low) & (at < high))
        start, end = np.maximum(device.start[near], low)[other], np.minimum(device.end[near], high)[other]
        group, start, end = intervals.union_by(of[other], start, end)
        found[some] = intervals.total_by(group, end - start, some.stop - some.start)
    return found


class Launched:
    """Device events by the time of their launch: for many spans, of which each holds a few."""

    def __init__(self, device: DeviceWork) -> None:
        linked = np.flatnonzero(device.linked)
        self.order = linked[np.argsort(device.launched_at[linked], kind="stable")]
        """The events in the order in which they were launched."""
        self._at = device.launched_at[self.order]

    def places(self, start: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Which part of the order was launched in each ``[start, end)``: its first place, and that after its last."""
        return np.searchsorted(self._at, start), np.searchsorted(self._at, end)

    def inside(self, merged: Intervals) -> Int64:
        """The events launched inside a union of host spans."""
        return self.order[intervals.ranges(*self.places(*merged))[1]]


class _Present:
    """Device events by their own time."""

    def __init__(self, device: DeviceWork) -> None:
        self.order = np.argsort(device.start, kind="stable")
        """The events in the order in which they start."""
        self._start = device.start[self.order]
        self._reached = np.maximum.accumulate(device.end[self.order])

    def places(self, start: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Which part of the order holds all events that overlap each ``[start, end)``, and possibly others."""
        return np.searchsorted(self._reached, start, side="right"), np.searchsorted(self._start, end)

    def counts(self, start: Int64, end: Int64) -> int:
        """How many these are for all spans together."""
        first, past = self.places(start, end)
        return int(np.maximum(past - first, 0).sum())


MOST_PAIRS = 300_000_000
"""Pairs of a step (or a label) and a device event in it that are looked at. Steps follow each other, labels nest some
ten deep, so real traces have some ten pairs an event; what has more was made to take for ever."""


def _demand_bounded(pairs: int, trace: str, what: str) -> None:
    if pairs > MOST_PAIRS:
        raise StepprofError(
            f"trace {trace!r} has {what} inside each other: counted in each, its device events are {pairs}",
            f"at most {MOST_PAIRS}, which no profiler's {what} reach",
            "capture it again",
        )


def label_rows(trace: Trace) -> dict[str, Int64]:
    """Rows of each label, labels in order of their first start."""
    rows = trace.of(Kind.ANNOTATION)
    rows = rows[~is_step(trace)[trace.name_id[rows]]]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    if not len(rows):
        return {}
    by_name = np.argsort(trace.name_id[rows], kind="stable")
    ordered = rows[by_name]
    cuts = np.flatnonzero(np.diff(trace.name_id[ordered])) + 1
    bounds = [0, *cuts.tolist(), len(ordered)]
    apart = [ordered[low:high] for low, high in itertools.pairwise(bounds)]
    names = trace.name_id[ordered[bounds[:-1]]].tolist()
    return {trace.names[names[i]]: apart[i] for i in np.argsort(by_name[bounds[:-1]]).tolist()}


def in_groups(labels: dict[str, Int64]) -> tuple[Int64, Int64]:
    """The number of its label for each row of all labels, and the rows."""
    if not labels:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    counts = np.fromiter(map(len, labels.values()), dtype=np.int64, count=len(labels))
    return np.repeat(np.arange(len(labels)), counts), np.concatenate(list(labels.values()))


def label_times(trace: Trace, labels: dict[str, Int64], device: DeviceWork) -> dict[str, LabelTimes]:
    """The contract's numbers for each label, over the whole trace."""
    of, rows = in_groups(labels)
    group, start, end = intervals.union_by(of, trace.start[rows], trace.end[rows])
    elapsed = intervals.total_by(group, end - start, len(labels))
    launched = _launched_in_groups(trace, (group, start, end), device, len(labels))
    return {
        name: LabelTimes(calls=len(of_name), cpu_us=us(cpu), gpu_launched_us=us(gpu) if len(device) else UNSET)
        for (name, of_name), cpu, gpu in zip(labels.items(), elapsed.tolist(), launched.tolist(), strict=True)
    }


def _launched_in_groups(trace: Trace, spans: tuple[Int64, Int64, Int64], device: DeviceWork, groups: int) -> Int64:
    """For each group of host spans the union of the device events launched inside them, in ns.

    Args:
        trace: its name stands in the refusal.
        spans: unions by group, as `intervals.union_by` gives them.
        device: the device events.
        groups: how many there are.
    """
    group, start, end = spans
    by_launch = Launched(device)
    first, past = by_launch.places(start, end)
    _demand_bounded(int((past - first).sum()), trace.name, "labels")
    found = np.zeros(groups, dtype=np.int64)
    counts = intervals.total_by(group, past - first, groups)
    for some in _portions(counts):
        mine = slice(*np.searchsorted(group, (some.start, some.stop)))
        of, place = intervals.ranges(first[mine], past[mine])
        events = by_launch.order[place]
        merged = intervals.union_by(group[mine][of] - some.start, device.start[events], device.end[events])
        found[some] = intervals.total_by(merged[0], merged[2] - merged[1], some.stop - some.start)
    return found
