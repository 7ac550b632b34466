"""The values that the interpreter gives: the JSON contract of ``stepprof read``, and what a picture needs.

Durations in the contract are microseconds as floats whose third decimal is exact (they are made from integer
nanoseconds). What was not observed is `msgspec.UNSET` and stays out of the JSON: it is never a zero.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepprof_lab.trace.detail import Detail

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
    share_seen: float | UnsetType = UNSET
    """Where `share_of_step` cannot be said: the share of what was recorded (0 to 1) that was seen; absent where it can
    be, and where nothing was measured."""

    def names_of_spans(self) -> list[str]:
        """The names in the evidence (labels, operators, device work) whose spans a picture marks."""
        return [name for key in EVIDENCE_OF_SPANS for name in _names_in(self.evidence.get(key))]


EVIDENCE_OF_SPANS = ("label", "labels", "operator", "operators", "name", "names")
"""Keys of a finding's evidence that hold names of spans."""


def _names_in(held: Any) -> list[str]:
    """A name, a list of names, or a list of objects with a ``name``."""
    several = held if isinstance(held, (list, tuple)) else [held]
    named = [item.get("name") if isinstance(item, dict) else item for item in several]
    return [name for name in named if isinstance(name, str)]


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
    regime_reason: str = ""
    """What the regime is concluded from, and for a busy device the next tool."""
    doubts: list[str] = []
    """Why device work may be missing or lie at a wrong time, so that no idle time is judged; one clause each."""
    not_worth: list[str] = []
    """What takes next to nothing of the step: one sentence each."""


class Approach(msgspec.Struct, frozen=True, kw_only=True):
    """The unprofiled steps before the window, each timed by the host clock."""

    steps_ms: list[float]
    labels_ms: dict[str, list[float]]
    """For each label, its time in each of these steps (a sum where it ran several times), in the order of the steps."""
    loader_workers: int | None
    """Workers of the loader that the step reads from, as seen (or else stated); 0 where there are none. None where
    neither is known, and where something else may read ahead: a thread of the program's own, a loader that was read
    outside what reads."""
    wanted_steps: int
    cut: bool = False
    """True where the time limit ended it before it had `wanted_steps` steps."""
    cut_reason: str | None = None
    loader_prefetch: int | None = None
    """Batches that each worker makes ahead, as seen; None where the step does not read from one loader with workers."""
    loader_ready: list[int] = []
    """Batches that the workers had ready after each of these steps; empty where that could not be seen."""
    loader_reads: int | None = None
    """Batches read from a loader with workers in these steps; None where none was seen."""


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
    """step, label, operator, runtime, kernel, copy, memset, simulated."""
    count: int = 1
    """More than 1: a bundle of short neighbours, from the first one's start to the last one's end; name and kind are
    those of the longest."""
    evidence: tuple[str, ...] = ()
    """Ids of the findings whose evidence is in it."""
    longest_us: float = 0.0
    """Of a bundle: how long the longest of its spans is."""


class Lane(msgspec.Struct, frozen=True):
    """One row of the timeline: the steps, the labels, a CPU thread, a device stream, a simulated stream."""

    title: str
    kind: Literal["steps", "labels", "cpu", "device", "practice"]
    spans: list[Span]
    omitted: int = 0
    """Spans that were left out."""
    note: str = ""
    """What else is known of it, in a few words: who launches to it, what runs on it."""


class Arrow(msgspec.Struct, frozen=True):
    """From a launch on the host to the work on the device; lanes by index."""

    from_lane: int
    from_us: float
    to_lane: int
    to_us: float
    from_depth: int = 0


class Timeline(msgspec.Struct, frozen=True):
    """What a picture of the window needs; the times are relative to `start_us` of the trace's own clock."""

    duration_us: float
    lanes: list[Lane]
    arrows: list[Arrow]
    note: str | None = None
    """What the picture leaves out, in words."""
    launched: int = 0
    """Device events whose launch is in the window; `arrows` has some of them. 0: as many as `arrows`."""
    detail: Detail | None = None
    """The same lanes with (nearly) every span, for a view that can be zoomed; None where there is only the picture."""


class Interpretation:
    """What one reading of one trace gives: the conclusions, and the picture they were drawn from."""

    def __init__(self, analysis: Analysis, timeline: Timeline | Callable[[], Timeline]) -> None:
        """Keep both.

        Args:
            analysis: the conclusions.
            timeline: the picture, or what makes it when it is asked for: most readers print and draw nothing.
        """
        self.analysis = analysis
        self._timeline = timeline

    @cached_property
    def timeline(self) -> Timeline:
        """What a picture of the window needs."""
        made = self._timeline if isinstance(self._timeline, Timeline) else self._timeline()
        self._timeline = made  # lets go of the events that it was made from
        return made
