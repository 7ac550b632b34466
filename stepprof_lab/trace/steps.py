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
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.model import LabelTimes, StepTimes
from stepprof_lab.trace.reader import STEP_PREFIX

if TYPE_CHECKING:
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
    spans = list(zip(steps.names, steps.start.tolist(), steps.end.tolist(), strict=True))
    if not len(device):
        return [StepTimes(name=name, cpu_us=us(end - start)) for name, start, end in spans]
    by_launch, by_time = Launched(device), _Present(device)
    pairs = by_launch.counts(steps.start, steps.end) + by_time.counts(steps.start, steps.end)
    _demand_bounded(pairs, steps.trace, "steps")
    return [_step(name, start, end, device, by_launch, by_time) for name, start, end in spans]


def _step(name: str, start: int, end: int, device: DeviceWork, by_launch: Launched, by_time: _Present) -> StepTimes:
    mine = by_launch.within(start, end)
    last = int(device.end[mine].max()) if len(mine) else end
    near = by_time.within(start, end)
    at = device.launched_at[near]
    others = near[~(device.linked[near] & (at >= start) & (at < end))]
    return StepTimes(
        name=name,
        cpu_us=us(end - start),
        gpu_events_launched=len(mine),
        gpu_launched_us=us(intervals.covered(device.start[mine], device.end[mine])),
        gpu_busy_in_window_us=us(intervals.covered(*intervals.clip(device.start[near], device.end[near], start, end))),
        gpu_foreign_in_window_us=us(
            intervals.covered(*intervals.clip(device.start[others], device.end[others], start, end))
        ),
        gpu_tail_us=us(max(last - end, 0)),
    )


class Launched:
    """Device events by the time of their launch: for many spans, of which each holds a few."""

    def __init__(self, device: DeviceWork) -> None:
        linked = np.flatnonzero(device.linked)
        self._order = linked[np.argsort(device.launched_at[linked], kind="stable")]
        self._at = device.launched_at[self._order]

    def counts(self, start: Int64, end: Int64) -> int:
        """How many events `within` gives for all of these spans together."""
        return int((np.searchsorted(self._at, np.maximum(start, end)) - np.searchsorted(self._at, start)).sum())

    def within(self, start: int, end: int) -> Int64:
        """The events launched in ``[start, end)``."""
        low, high = np.searchsorted(self._at, (start, end))
        return self._order[low:high]

    def inside(self, merged: Intervals) -> Int64:
        """The events launched inside a union of host spans."""
        first, last = np.searchsorted(self._at, merged[0]), np.searchsorted(self._at, merged[1])
        counts = last - first
        # Each span's places one after the other: 3, 4, 5 and 9, 10 for 3 to 6 and 9 to 11.
        places: Int64 = np.repeat(last - np.cumsum(counts), counts) + np.arange(int(counts.sum()))
        return self._order[places]


class _Present:
    """Device events by their own time."""

    def __init__(self, device: DeviceWork) -> None:
        self._order = np.argsort(device.start, kind="stable")
        self._start = device.start[self._order]
        self._reached = np.maximum.accumulate(device.end[self._order])

    def counts(self, start: Int64, end: Int64) -> int:
        """How many events `within` gives for all of these spans together."""
        low, high = np.searchsorted(self._reached, start, side="right"), np.searchsorted(self._start, end)
        return int(np.maximum(high - low, 0).sum())

    def within(self, start: int, end: int) -> Int64:
        """The events that overlap ``[start, end)``, and possibly others between them."""
        return self._order[np.searchsorted(self._reached, start, side="right") : np.searchsorted(self._start, end)]


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
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    by_name: dict[str, list[int]] = {}
    for row, name in zip(rows.tolist(), trace.name_id[rows].tolist(), strict=True):
        by_name.setdefault(trace.names[name], []).append(row)
    return {
        name: np.array(of_name, dtype=np.int64) for name, of_name in by_name.items() if not name.startswith(STEP_PREFIX)
    }


def label_times(trace: Trace, labels: dict[str, Int64], device: DeviceWork) -> dict[str, LabelTimes]:
    """The contract's numbers for each label, over the whole trace."""
    times = {}
    by_launch = Launched(device)
    pairs = 0
    for name, rows in labels.items():
        spans = intervals.union(trace.start[rows], trace.end[rows])
        mine = by_launch.inside(spans)
        _demand_bounded(pairs := pairs + len(mine), trace.name, "labels")
        times[name] = LabelTimes(
            calls=len(rows),
            cpu_us=us(intervals.total(*spans)),
            gpu_launched_us=us(intervals.covered(device.start[mine], device.end[mine])) if len(device) else UNSET,
        )
    return times
