"""How long a step waits for its input: measured in the active steps, and in the approach before them.

Two active steps are not enough where a loader has workers. Workers deliver in bursts, with a period of as many steps
as there are workers, and the queue that they filled before the window hides the wait: measured with 4 workers, two
active steps waited 3 % of their time where the steady loop waited 75 %. So there the approach decides, by its mean
over whole periods of its steady part (`stepprof_lab.trace.ahead`); a median would miss the stall. A short wait acquits
only where it is known how many batches can be made ahead, and where those cannot hide a longer one.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepprof_lab.trace import ahead, intervals
from stepprof_lab.trace.events import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepprof_lab.trace.intervals import Int64, Intervals
    from stepprof_lab.trace.model import Approach, Context
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

USUAL_READ_NAMES = ("read_batch",)
"""Names that mean reading where nothing else says so: those of this project's own texts."""
LOADER_RANGE = re.compile(r"enumerate\(DataLoader\)#.*\.__next__")
"""The range that PyTorch's own loader records around every batch."""
WITH_WORKERS = "_MultiProcessingDataLoaderIter"
WITHOUT_WORKERS = "_SingleProcessDataLoaderIter"

INPUT_WAIT_SHARE = 0.10
"""Share of the step from which a wait is reported: less could not shorten the step by more than a tenth."""
AGREES_WITHIN = 0.15
"""Difference in share up to which the active steps and the approach are said to agree: single steps vary that much."""
FEWEST_STEPS = 3
"""Steps of the approach below which a mean says nothing about the steady loop."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """Which regions of the step read the batch, and how that is known."""

    names: list[str]
    known_from: Literal["role", "usual name", "loader"]


@dataclasses.dataclass(frozen=True)
class StepWait:
    """Reading in one step of the window, or in the whole record where no step is marked; ns."""

    name: str
    host: int
    read: int
    busy: int | None
    """Device time during the reading; None where no device event was observed."""

    @property
    def wait(self) -> int:
        """Time in which the host read and the device did nothing; without a device, the reading."""
        return self.read - (self.busy or 0)


@dataclasses.dataclass(frozen=True)
class ActiveWait:
    """Reading in the active steps."""

    steps: list[StepWait]
    whole_record: bool
    """True where no step is marked: the one entry is the whole record."""

    @property
    def host(self) -> int:
        """Elapsed time of the steps, ns."""
        return sum(step.host for step in self.steps)

    @property
    def read(self) -> int:
        """Time of the host in reading, ns."""
        return sum(step.read for step in self.steps)

    @property
    def share(self) -> float:
        """Share of the steps that waited."""
        return sum(step.wait for step in self.steps) / self.host if self.host else 0.0


@dataclasses.dataclass(frozen=True)
class ApproachWait:
    """Reading in the unprofiled steps; host-clock milliseconds a step, means over the steps used."""

    steps: int
    skipped: int
    step_ms: float
    read_ms: float
    busy_ms: float | None
    """Device time a step, as the active steps launched it; None where no device event was observed."""
    lead: float | None = None
    """How many of these steps may have lived from batches that were made before; None where that is not known."""

    @property
    def share(self) -> float:
        """Share of the step that waits, at the most: the device's own work needs its time too."""
        if not self.step_ms:
            return 0.0
        wait = self.read_ms if self.busy_ms is None else min(self.read_ms, max(self.step_ms - self.busy_ms, 0.0))
        return wait / self.step_ms

    @property
    def at_most(self) -> float | None:
        """The largest share of the steady step that can be waiting: with what batches made before may hide.

        None where it is not known how many batches that may be.
        """
        if self.lead is None:
            return None
        rest = max(self.step_ms - self.read_ms, self.busy_ms or 0.0)
        return max(ahead.largest_share(self.steps, self.lead, self.step_ms, rest), self.share)


@dataclasses.dataclass(frozen=True)
class Waiting:
    """What is known about waiting for input."""

    reading: Reading | None
    active: ActiveWait | None
    approach: ApproachWait | None
    workers: int | None
    """Workers of the loader; None where their number is not known."""
    waits: bool | None
    """Whether the step waits by `INPUT_WAIT_SHARE` or more; None where this trace cannot say."""
    share: float | None
    """The share that decided."""
    at_most: float | None
    """The largest share of the steady step that can be waiting; None where batches that were made before may hide
    more than was seen, and it is not known how much."""
    decided_by: Literal["active steps", "approach"] | None
    notes: list[str]


def measure(trace: Trace, context: Context, steps: Steps, device: DeviceWork) -> Waiting:
    """Measure the wait and decide, where a decision is possible.

    Args:
        trace: the events.
        context: roles of the labels and the approach, from the capture's record.
        steps: the active steps.
        device: the device events.
    """
    approach = context.approach
    reading = find_reading(trace, context.roles, approach)
    workers = loader_workers(trace, approach, reading)
    if reading is None:
        return Waiting(None, None, None, workers, None, None, None, None, [NO_READING_LABEL])
    active = active_wait(trace, reading, steps, device)
    mean, notes = approach_wait(approach, reading, workers, _device_ms(steps, device))
    if active is None:
        notes.append(
            f"{quoted(reading.names)}: not on the step's own thread inside the window, so no wait is seen there"
        )
    waits, share, at_most, by = _decide(active, mean, workers)
    if waits is None and active is not None:
        notes.append(_not_acquitted(mean, known=bool(workers) or has_worker_range(trace)))
    return Waiting(reading, active, mean, workers, waits, share, at_most, by, notes + _agreement(active, mean))


NO_READING_LABEL = (
    "no label is known to read the batch, so whether the step waits for its input cannot be said: "
    'name the region with label("...", role="read") (or call it read_batch)'
)


def find_reading(trace: Trace, roles: Mapping[str, str], approach: Approach | None) -> Reading | None:
    """The labels whose role is reading; else those with a usual name; else the loader's own range."""
    present = set(trace.names_of(trace.of(Kind.ANNOTATION, Kind.OPERATOR)))
    present |= set(approach.labels_ms) if approach is not None else set()
    names = sorted(name for name in present if roles.get(name, "read") == "read")
    stated = [name for name in names if name in roles and not LOADER_RANGE.match(name)]
    if stated:
        return Reading(stated, "role")
    usual = [name for name in names if name in USUAL_READ_NAMES]
    if usual:
        return Reading(usual, "usual name")
    loader = [name for name in names if LOADER_RANGE.match(name)]
    return Reading(loader, "loader") if loader else None


def has_worker_range(trace: Trace) -> bool:
    """Whether the trace holds the range of a loader with workers."""
    return any(LOADER_RANGE.match(name) and WITH_WORKERS in name for name in trace.names)


def loader_workers(trace: Trace, approach: Approach | None, reading: Reading | None) -> int | None:
    """Workers of the loader: as the approach saw them, else 0 where a loader without any is inside what reads."""
    seen = approach.loader_workers if approach is not None else None
    if has_worker_range(trace):
        return seen or None  # a range of workers contradicts "no workers"
    if seen is None and reading is not None and _reads_in_place(trace, reading):
        return 0
    return seen


def _reads_in_place(trace: Trace, reading: Reading) -> bool:
    """Whether every region that reads holds the range of a loader without workers, or is one.

    A region that holds none may wait for a thread of the program's own, which reads ahead.
    """
    loader = trace.named([name for name in trace.names if _is_single(name)], Kind.ANNOTATION, Kind.OPERATOR)
    for name in reading.names:
        if _is_single(name):
            continue
        rows = trace.named([name], Kind.ANNOTATION, Kind.OPERATOR)
        lanes = intervals.distinct(trace.lane_id[rows])
        if not any(_holds(trace, rows[trace.lane_id[rows] == lane], loader) for lane in lanes):
            return False
    return True


def _holds(trace: Trace, rows: Int64, others: Int64) -> bool:
    """Whether one of the other events lies inside these, which are of one lane."""
    others = others[trace.lane_id[others] == trace.lane_id[rows[0]]]
    low, high = intervals.union(trace.start[rows], trace.end[rows])
    at = np.searchsorted(low, trace.start[others], side="right") - 1
    return bool(((at >= 0) & (trace.end[others] <= high[at])).any())


def _is_single(name: str) -> bool:
    return LOADER_RANGE.match(name) is not None and WITHOUT_WORKERS in name


def active_wait(trace: Trace, reading: Reading, steps: Steps, device: DeviceWork) -> ActiveWait | None:
    """Reading inside the steps, on the steps' own thread; None where there is none.

    A loop in another thread that reads ahead is no wait of the step.
    """
    rows = trace.named(reading.names, Kind.ANNOTATION, Kind.OPERATOR)
    if len(steps):
        rows = rows[np.isin(trace.lane_id[rows], trace.lane_id[steps.rows])]
    if not len(rows):
        return None
    spans = intervals.union(trace.start[rows], trace.end[rows])
    if len(steps):
        windows = list(zip(steps.names, steps.start.tolist(), steps.end.tolist(), strict=True))
    else:
        host = trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)
        windows = [("the whole record", int(trace.start[host].min()), int(trace.end[host].max()))]
    found = [_step_wait(name, low, high, spans, device) for name, low, high in windows]
    return ActiveWait(found, whole_record=not len(steps))


def _step_wait(name: str, low: int, high: int, spans: Intervals, device: DeviceWork) -> StepWait:
    inside = intervals.part(spans, low, high)
    busy = intervals.overlap(inside, intervals.part(device.merged, low, high)) if len(device) else None
    return StepWait(name, high - low, intervals.total(*inside), busy)


def _device_ms(steps: Steps, device: DeviceWork) -> float | None:
    """Device time a step as the window launched it, in ms; None where it was not observed."""
    if not len(device) or not len(steps):
        return None
    mine = device.launched_in(steps.window())
    return intervals.covered(device.start[mine], device.end[mine]) / len(steps) / 1e6


def approach_wait(
    approach: Approach | None, reading: Reading, workers: int | None, busy_ms: float | None
) -> tuple[ApproachWait | None, list[str]]:
    """The mean wait of the steady part of the approach, over whole periods of the loader.

    Returns:
        The means, or None where the approach cannot give them; and a note that says why not.
    """
    if approach is None or not approach.steps_ms:
        return None, []
    timed = [approach.labels_ms[name] for name in reading.names if name in approach.labels_ms]
    timed = [series for series in timed if len(series) == len(approach.steps_ms)]
    if not timed:
        return None, [f"the approach did not time {quoted(reading.names)}, so it says nothing about the wait"]
    skipped, lead = ahead.steady(approach, workers)
    used = np.array(approach.steps_ms[skipped:], dtype=np.float64)
    if len(used) < max(FEWEST_STEPS, workers or 0):
        return None, [
            f"the approach has {len(approach.steps_ms)} steps, too few to know the steady wait"
            + (f" behind a loader with {workers} workers" if workers else "")
        ]
    # Several labels that read may nest; a step cannot read for longer than it lasts.
    read = np.minimum(np.sum(timed, axis=0)[skipped:], used)
    return ApproachWait(len(used), skipped, float(used.mean()), float(read.mean()), busy_ms, lead), []


def _decide(
    active: ActiveWait | None, mean: ApproachWait | None, workers: int | None
) -> tuple[bool | None, float | None, float | None, Literal["active steps", "approach"] | None]:
    """Whether the step waits, by which share, which share it can be at the most, and what decided.

    Args:
        active: the wait of the active steps.
        mean: the wait of the approach.
        workers: of the loader; None: not known.
    """
    in_approach = mean is not None and mean.share >= INPUT_WAIT_SHARE
    if workers == 0 and active is not None and (active.share >= INPUT_WAIT_SHARE or not in_approach):
        return active.share >= INPUT_WAIT_SHARE, active.share, active.share, "active steps"
    if mean is None:
        if active is None or active.share < INPUT_WAIT_SHARE:
            return None, None if active is None else active.share, None, None
        return True, active.share, None, "active steps"
    if in_approach:
        return True, mean.share, mean.at_most, "approach"
    if mean.at_most is not None and mean.at_most < INPUT_WAIT_SHARE:
        return False, mean.share, mean.at_most, "approach"
    return None, mean.share, mean.at_most, None


def _not_acquitted(mean: ApproachWait | None, *, known: bool) -> str:
    if mean is not None and mean.at_most is not None:
        return (
            f"waiting took {mean.share * 100:.1f} % of the approach, which does not show that the loop does not wait: "
            f"batches that the loader's workers made before could hide a wait of up to {mean.at_most * 100:.1f} % of "
            "the step; a longer approach before the window can tell"
        )
    workers = "its loader has workers" if known else "whether a loader with workers stands behind it is not known"
    return (
        "the active steps waited little for their input, which does not show that the loop does not wait: "
        f"{workers}, and workers deliver in bursts from a queue that they filled before; "
        + (
            "a longer approach before the window can tell"
            if known
            else "where nothing reads ahead, state loader_workers = 0 in the scenario"
        )
    )


def _agreement(active: ActiveWait | None, mean: ApproachWait | None) -> list[str]:
    if mean is None or active is None:
        return []
    shares = (
        f"waiting for input: {active.share * 100:.1f} % of the active steps, {mean.share * 100:.1f} % of the approach"
    )
    waits = {active.share >= INPUT_WAIT_SHARE, mean.share >= INPUT_WAIT_SHARE}
    if waits == {False}:
        return [f"{shares}: neither reaches the {INPUT_WAIT_SHARE * 100:.0f} % from which a wait is reported"]
    if waits == {True} and abs(active.share - mean.share) <= AGREES_WITHIN:
        return [f"{shares}: both show the wait"]
    return [f"{shares}: they differ, so two active steps do not stand for the steady loop"]


def quoted(names: list[str]) -> str:
    """Names in a sentence; very long ones are shortened."""
    return ", ".join(f"'{name if len(name) <= 80 else name[:79] + '…'}'" for name in names)
