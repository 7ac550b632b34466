"""What the findings look at: one trace, its window, and where an idle device was waited for by whom."""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET, UnsetType

from stepprof_lab.trace import intervals
from stepprof_lab.trace.communication import is_communication
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.observed import gpu_partly_observed
from stepprof_lab.trace.steps import is_step
from stepprof_lab.trace.waiting import LOADER_RANGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepprof_lab.trace.intervals import Bool, Int64, Intervals
    from stepprof_lab.trace.model import Context
    from stepprof_lab.trace.reader import Int32, Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps
    from stepprof_lab.trace.waiting import Waiting

FEWEST_EVENTS = 100
"""Device events below which a record without marked steps is no loop that could be judged."""
DRAINED_NS = 1_000_000
"""How long after a wait of the host an empty device is still put down to the wait: launching again takes well under a
millisecond, what takes longer is the host's own work."""
STAGING_SLOWDOWN = 10
"""How many times longer than the copy itself a call may stage pageable memory; what it takes beyond is waiting. A core
moves at least 1 GB/s, a bus some 10 to 25 GB/s."""
STAGING_NS = 50_000
"""What a call that copies takes however little it copies."""

SYNC = re.compile(r"\w*Synchronize$|ur(EventWait|QueueFinish)$")
"""Host calls that only wait for the device."""
WHOLE_DEVICE = re.compile(r"(cuda|hip)DeviceSynchronize$")
TO_HOST = re.compile(r"Memcpy DtoH|MEMORY_COPY_DEVICE_TO_HOST")
TO_DEVICE = re.compile(r"Memcpy HtoD|MEMORY_COPY_HOST_TO_DEVICE")
COMPILING = re.compile(
    r".*\(dynamo_timed\)$|(cu|hip)\w*(ModuleLoad|LibraryLoad)\w*|Lazy Function Loading|"
    r"Runtime Triggered Module Loading|Driver Compiler|(nvrtc|hiprtc)\w+"
)
"""Compilation, and code loaded to the device on its first use: PyTorch's own names and those of the drivers."""
STEP_IN_2021 = re.compile(r"Optimizer\.(step|zero_grad)#")

_NOTHING = np.empty(0, dtype=np.int64)
EMPTY: Intervals = (_NOTHING, _NOTHING)


@dataclasses.dataclass(frozen=True)
class Idle:
    """Time of the window without device work, apart by what it ended with; unions that do not overlap."""

    reading: Intervals
    """The host read a batch."""
    waiting: Intervals
    """The host waited for the device, or had just stopped waiting (`DRAINED_NS`)."""
    host: Intervals
    """The host did something else: what came next was not launched yet, or nothing more was launched."""
    queued: Intervals
    """What came next was launched already, or its launch is not in the trace: not the host's."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Everything that a finding may look at."""

    trace: Trace
    context: Context
    steps: Steps
    device: DeviceWork
    waiting: Waiting

    # ---- the window ----

    @property
    def whole_record(self) -> bool:
        """Whether no step is marked, so that the window is the part of the record in which the device worked."""
        return not len(self.steps)

    @cached_property
    def doubts(self) -> list[str]:
        """Why device work may be missing or lie at a wrong time, so that what looks idle need not be idle.

        One clause each; empty where nothing speaks against the record.
        """
        found = list(self.trace.missing)
        early = int((self.device.linked & (self.device.start < self.device.launched_at)).sum())
        if early:
            found.append(f"{early} of {len(self.device)} device events start before their launch")
        partly = gpu_partly_observed(self)
        if partly is not None:
            lost, calls = partly.evidence["launches_without_work"], partly.evidence["launches"]
            found.append(f"{lost} of {calls} calls that queue device work have no device work linked to them")
        return found

    @property
    def judged(self) -> bool:
        """Whether there is a loop whose idle time could be judged: marked steps or much device work, and no doubts."""
        return (len(self.steps) > 0 or len(self.device) >= FEWEST_EVENTS) and not self.doubts

    @cached_property
    def window(self) -> Intervals:
        """The active steps; without any, from the first launch of device work to the end of the last; ns."""
        if len(self.steps):
            return self.steps.window()
        if not len(self.device):
            return EMPTY
        return self.device.record()

    @cached_property
    def length(self) -> int:
        """Elapsed time of the window, ns."""
        return intervals.total(*self.window)

    def ratio(self, ns: int) -> float:
        """Part of the window, from 0 to 1."""
        return min(ns / self.length, 1.0) if self.length else 0.0

    def share(self, ns: int) -> float | None:
        """Part of the step; None where no step is marked."""
        return None if self.whole_record else self.ratio(ns)

    def share_seen(self, ns: int) -> float | UnsetType:
        """Part of the record where no step is marked, so that no share of a step can be said."""
        return self.ratio(ns) if self.whole_record else UNSET

    @property
    def of_window(self) -> str:
        """The window in words, after "of"."""
        count = len(self.steps)
        return "the record (no step is marked)" if not count else f"{count} active step{'s' * (count != 1)}"

    # ---- what the host does in it ----

    @cached_property
    def step_lanes(self) -> Int32:
        """The threads that carry the steps; those that launch, where no step is marked."""
        rows = self.steps.rows if len(self.steps) else self.device.launch_row[self.device.linked]
        return intervals.distinct(self.trace.lane_id[rows])

    @cached_property
    def launch_lanes(self) -> Int32:
        """The threads that carry the steps or launch device work."""
        rows = self.device.launch_row[self.device.linked]
        return intervals.distinct(np.concatenate((self.trace.lane_id[rows], self.step_lanes)))

    def matching(self, pattern: re.Pattern[str], *kinds: Kind) -> Int64:
        """Rows of these kinds whose name matches from its start."""
        hit = np.array([bool(pattern.match(name)) for name in self.trace.names], dtype=np.bool_)
        if not hit.any():
            return _NOTHING
        rows = self.trace.of(*kinds)
        return rows[hit[self.trace.name_id[rows]]]

    def spans(self, rows: Int64) -> Intervals:
        """Union of some rows, in the window."""
        return intervals.intersect(intervals.union(self.trace.start[rows], self.trace.end[rows]), self.window)

    def name_of(self, row: int) -> str:
        """The name of an event."""
        return self.trace.names[int(self.trace.name_id[row])]

    def by_name(self, rows: Int64, value: Int64) -> list[tuple[str, int]]:
        """Sums of a value for each name, largest first."""
        names, place = np.unique(self.trace.name_id[rows], return_inverse=True)
        sums = np.zeros(len(names), dtype=np.int64)
        np.add.at(sums, place, value)
        order = np.argsort(-sums, kind="stable")
        return [(self.trace.names[int(names[i])], int(sums[i])) for i in order.tolist()]

    @cached_property
    def reading(self) -> Intervals:
        """Reading of batches on the steps' own threads."""
        return self.spans(self.reading_rows)

    @cached_property
    def reading_rows(self) -> Int64:
        """The spans in which batches are read, on the steps' own threads."""
        if self.waiting.reading is None:
            return _NOTHING
        rows = self.trace.named(self.waiting.reading.names, Kind.ANNOTATION, Kind.OPERATOR)
        return rows[np.isin(self.trace.lane_id[rows], self.step_lanes)]

    @cached_property
    def compiling(self) -> Intervals:
        """Compilation and loading of code, on any thread."""
        kinds = (Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD)
        return self.spans(self.matching(COMPILING, *kinds))

    @cached_property
    def profilers_wait(self) -> Intervals:
        """Waits for the whole device before anything was launched, in the window: the profiler begins with one."""
        rows = self.matching(WHOLE_DEVICE, Kind.RUNTIME)
        return self.spans(rows[self.trace.start[rows] < self._first_launch])

    @cached_property
    def _first_launch(self) -> int:
        return int(self.device.launched_at[self.device.linked].min(initial=2**62))

    @cached_property
    def waits(self) -> tuple[Int64, Int64, Int64]:
        """Calls in which the host waited for the device: rows, from, to (ns).

        These are calls that only wait, and calls that copy and do not come back before the copy has ended. A copy
        from pageable memory is staged by the host, so the last part of such a call is work (`STAGING_SLOWDOWN`).
        The profiler's own wait when it begins to record is left out.
        """
        rows = self.matching(SYNC, Kind.RUNTIME)
        rows = rows[np.isin(self.trace.lane_id[rows], self.launch_lanes)]
        own = np.array([bool(WHOLE_DEVICE.match(self.name_of(r))) for r in rows.tolist()], dtype=np.bool_)
        rows = rows[~(own & (self.trace.start[rows] < self._first_launch))] if len(rows) else rows
        calls, ends = self._blocking_copies()
        every = np.concatenate((rows, calls))
        start, end = self.trace.start[every], np.concatenate((self.trace.end[rows], ends))
        low, high = (int(self.window[0][0]), int(self.window[1][-1])) if len(self.window[0]) else (0, 0)
        inside = (end > start) & (start < high) & (end > low)
        return every[inside], start[inside], end[inside]

    def _blocking_copies(self) -> tuple[Int64, Int64]:
        """Calls that copy and wait for it, and the end of their waiting."""
        device, trace = self.device, self.trace
        copies = np.flatnonzero(device.linked & (trace.kind[device.rows] == Kind.COPY))
        calls = device.launch_row[copies]
        blocked = trace.end[calls] >= device.end[copies]
        copies, calls = copies[blocked], calls[blocked]
        to_device = is_match(trace, TO_DEVICE)[trace.name_id[device.rows[copies]]]
        staging = STAGING_SLOWDOWN * (device.end[copies] - device.start[copies]) + STAGING_NS
        return calls, np.where(to_device, trace.end[calls] - staging, trace.end[calls])

    # ---- what the device does in it ----

    @cached_property
    def in_window(self) -> Bool:
        """Which device events were launched in the window."""
        return self.device.launched_in(self.window)

    @cached_property
    def busy(self) -> Intervals:
        """Device work of any kind in the window."""
        return intervals.intersect(self.device.merged, self.window)

    @cached_property
    def communicating(self) -> Bool:
        """Which device events are collectives: by their arguments, else by their name."""
        return is_communication(self.trace, self.device.rows)

    @cached_property
    def exposed(self) -> Intervals:
        """Communication in the window with no other device work beside it."""
        mine = self.communicating
        if not mine.any():
            return EMPTY
        start, end = self.device.start, self.device.end
        others = intervals.union(start[~mine], end[~mine])
        return intervals.intersect(intervals.subtract(intervals.union(start[mine], end[mine]), others), self.window)

    @cached_property
    def gaps(self) -> tuple[Int64, Int64, Int64, Int64]:
        """Idle pieces of the window, ns.

        Returns:
            From, to, the device event that ends each (-1: none), and the time up to which it was not launched.
        """
        start, end = intervals.subtract(self.window, self.device.merged)
        order = np.argsort(self.device.start, kind="stable")
        place = np.searchsorted(self.device.start[order], end, side="left")
        following = np.where(place < len(order), order[np.minimum(place, len(order) - 1)], -1)
        call = self.device.launch_row[np.maximum(following, 0)]
        # What ends the window ends with no launch; a following event without a launch says nothing of the host.
        called = np.where(call >= 0, self.trace.end[np.maximum(call, 0)], start)
        due = np.where(following < 0, end, np.minimum(np.maximum(called, start), end))
        return start, end, following, due

    @cached_property
    def after_last(self) -> Intervals:
        """Idle time of the window after which no device work follows: nothing more was launched."""
        start, end, following, _ = self.gaps
        return intervals.union(start[following < 0], end[following < 0])

    @cached_property
    def idle(self) -> Idle:
        """Idle time of the device apart by what the host did; empty where no device was observed."""
        start, end, _, due = self.gaps
        if not len(start):
            return Idle(EMPTY, EMPTY, EMPTY, EMPTY)  # busy all the time
        late, queued = intervals.union(start, due), intervals.union(due, end)
        _, wait_from, wait_to = self.waits
        waits = intervals.union(wait_from, wait_to)
        place = np.searchsorted(start, wait_to, side="right") - 1
        drained_to = np.minimum(due[np.maximum(place, 0)], wait_to + DRAINED_NS)
        after = (place >= 0) & (drained_to > wait_to)
        drained = intervals.union(wait_to[after], drained_to[after])
        blamed = intervals.union(np.concatenate((waits[0], drained[0])), np.concatenate((waits[1], drained[1])))
        blamed = intervals.subtract(blamed, self.reading)
        free = intervals.union(start, end)
        return Idle(
            reading=intervals.intersect(free, self.reading),
            waiting=intervals.intersect(free, blamed),
            host=intervals.subtract(intervals.subtract(late, self.reading), blamed),
            queued=intervals.subtract(intervals.subtract(queued, self.reading), blamed),
        )

    @property
    def has_graph(self) -> bool:
        """Whether work was launched as a graph, whose parts may be recorded late or not at all."""
        return any("GraphLaunch" in name for name in self.trace.names)

    # ---- operators ----

    @cached_property
    def parent(self) -> Int64:
        """For each host event the row of the span that it is in, or -1."""
        return self.trace.nesting[0]

    @cached_property
    def own_operator(self) -> Bool:
        """For each name whether it does work of its own: steps, loaders, optimizers, compiled regions are wrappers."""
        wrapper = [bool(WRAPPER.match(name) or LOADER_RANGE.match(name)) for name in self.trace.names]
        return ~(np.array(wrapper, dtype=np.bool_) | is_step(self.trace))

    def operator_of(self, rows: Int64) -> Int64:
        """The innermost operator around each of some host events, or -1."""
        at = self.parent[rows]
        while True:
            up = (at >= 0) & (self.trace.kind[np.maximum(at, 0)] != Kind.OPERATOR)
            if not up.any():
                return at
            at = np.where(up, self.parent[np.maximum(at, 0)], at)


WRAPPER = re.compile(
    r"Optimizer\.\w+#|Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph|record_param_comms"
)


def is_match(trace: Trace, pattern: re.Pattern[str]) -> Bool:
    """For each name of the trace whether it matches from its start."""
    matches: Callable[[str], object] = pattern.match
    return np.array([bool(matches(name)) for name in trace.names], dtype=np.bool_)
