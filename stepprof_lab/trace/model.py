"""The values that the interpreter gives: the JSON contract of ``stepprof read``, and what a picture needs.

Durations in the contract are microseconds as floats whose third decimal is exact (they are made from integer
nanoseconds). What was not observed is `msgspec.UNSET` and stays out of the JSON: it is never a zero.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Origin = Literal["live", "recorded", "constructed", "simulated", "unknown"]
Regime = Literal["input", "host", "device", "communication", "undecided"]
Vendor = Literal["cuda", "rocm", "xpu", "mtia", "privateuse1", "unknown"]

FINDING_IDS = (
    "input-wait",
    "repeated-copy",
    "small-launches",
    "dominant-operator",
    "host-sync",
    "host-bound",
    "pageable-copy",
    "exposed-communication",
    "compile-in-window",
    "unsteady-window",
    "gpu-not-observed",
    "gpu-partly-observed",
)


class GpuNotObserved(msgspec.Struct, frozen=True, kw_only=True):
    """No device event is in the trace."""

    observed: Literal[False] = False
    reason: str


class GpuObserved(msgspec.Struct, frozen=True, kw_only=True):
    """What the device did over the whole trace."""

    observed: Literal[True] = True
    vendor: Vendor
    devices: list[str]
    """One entry for each distinct device seen, in words ("device 0 (NVIDIA H200)")."""
    events: int
    events_unlinked: int
    busy_us: float
    sum_us: float
    span_us: float


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the window; the definitions stand in `stepprof_lab.trace.steps`."""

    name: str
    cpu_us: float
    gpu_events_launched: int | UnsetType = UNSET
    gpu_launched_us: float | UnsetType = UNSET
    gpu_busy_in_window_us: float | UnsetType = UNSET
    gpu_foreign_in_window_us: float | UnsetType = UNSET
    gpu_tail_us: float | UnsetType = UNSET


class LabelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One label over the whole trace."""

    calls: int
    cpu_us: float
    gpu_launched_us: float | UnsetType = UNSET


class OperatorTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One operator over the whole trace; what is a sum is called a sum."""

    name: str
    calls: int
    cpu_sum_us: float
    cpu_self_us: float
    gpu_sum_us: float | UnsetType = UNSET
    shapes: list[str] | UnsetType = UNSET
    """The distinct input shapes, where the trace recorded shapes."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An observation, a hypothesis and a next check; never a cause and never a speed-up."""

    id: str
    observation: str
    hypothesis: str
    next_check: str
    share_of_step: float | None
    """The largest share of the step (0 to 1) that this could explain; None where the trace cannot say."""
    evidence: dict[str, Any]


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What `interpret` concludes from one trace: the JSON of ``stepprof read``."""

    trace: str
    origin: Origin
    question: str | None
    notes: list[str]
    regime: Regime
    gpu: GpuObserved | GpuNotObserved
    steps: list[StepTimes]
    labels: dict[str, LabelTimes]
    operators: list[OperatorTimes]
    """By self time, largest first."""
    findings: list[Finding]
    """By the largest share of the step, largest first."""


class Approach(msgspec.Struct, frozen=True, kw_only=True):
    """The unprofiled steps before the window, each timed by the host clock."""

    steps_ms: list[float]
    labels_ms: dict[str, list[float]]
    """For each label, its time in each of these steps (a sum where it ran several times), in the order of the steps."""
    loader_workers: int | None
    """Workers of the loader as seen (or else stated); None where neither is known, 0 where there are none."""
    wanted_steps: int
    cut: bool = False
    """True where the time limit ended it before it had `wanted_steps` steps."""
    cut_reason: str | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture's record says about its trace; a trace without one is read with the defaults."""

    origin: Origin = "unknown"
    question: str | None = None
    roles: dict[str, str] = {}
    """Role of each label: read, transfer, forward, backward, compute, update or other."""
    gpu_requested: bool | None = None
    """Whether GPU collection was asked for; None: not known."""
    approach: Approach | None = None
    notes: list[str] = []


class Span(msgspec.Struct, frozen=True):
    """One bar of the timeline; times are microseconds from the timeline's start."""

    name: str
    start_us: float
    duration_us: float
    depth: int
    kind: str
    """step, label, operator, runtime, kernel, copy, memset."""


class Lane(msgspec.Struct, frozen=True):
    """One row of the timeline: the steps, the labels, a CPU thread or a device stream."""

    title: str
    kind: Literal["steps", "labels", "cpu", "device"]
    spans: list[Span]
    omitted: int = 0
    """Spans too short to draw that were left out."""


class Arrow(msgspec.Struct, frozen=True):
    """From a launch on the host to the work on the device; lanes by index."""

    from_lane: int
    from_us: float
    to_lane: int
    to_us: float


class Timeline(msgspec.Struct, frozen=True):
    """What a picture of the window needs; the times are relative to `start_us` of the trace's own clock."""

    duration_us: float
    lanes: list[Lane]
    arrows: list[Arrow]
    note: str | None = None
    """What the picture leaves out, in words."""


class Interpretation(msgspec.Struct, frozen=True):
    """What one reading of one trace gives: the conclusions, and the picture they were drawn from."""

    analysis: Analysis
    timeline: Timeline
