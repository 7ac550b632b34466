"""How one block of steps is timed: each step by the host's clock on the CPU, the whole block on a GPU.

On a GPU a step's host time is the time of queueing it. Waiting for the device after each step would change the
program, so a block has one wait at its end, and its value is the mean over its steps. A request is another matter: it
has been answered when its caller has the answer, so that each one is waited for where its latency is asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any, Protocol

from stepprof_lab.devices import Timer
from stepprof_lab.validate import outputs
from stepprof_lab.validate.arms import Clock, RunningArm
from stepprof_lab.validate.model import LabelSeen
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.spans import Spans, listening

LEAD_IN = 1
"""Steps of a GPU block before its first event: into an empty queue the device waits for the first launches, which a
program that runs on never does."""

DIGITS = 6
"""Milliseconds are kept to the nanosecond; no clock here is finer."""


class TimedDevice(Protocol):
    """What validation needs of a device; `stepprof_lab.devices.Device` has it."""

    @property
    def torch_device(self) -> str:
        """Name of the device in torch."""

    @property
    def is_gpu(self) -> bool:
        """Whether device time is another time than the host's."""

    @property
    def sentence(self) -> str:
        """The device in words."""

    def synchronize(self) -> None:
        """Wait until the device has done what was queued."""

    def timer(self) -> Timer:
        """A new timer of the device."""


@dataclasses.dataclass(frozen=True)
class Way:
    """What is timed of a block, and by which clock.

    Args:
        host_clock: on a GPU, take the host's clock over the whole block instead of device events: right where reading
            belongs to the step.
        wait_each: on a GPU, wait after each step and time each one: right where a step is a request.
        label: time this label's regions instead of the steps; only it is heard.
    """

    host_clock: bool = False
    wait_each: bool = False
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class Timed:
    """What was measured of one block.

    Args:
        steps_ms: each step in ms, or one value, the mean, where ``per_step`` is false.
        wall_ms: elapsed time of the whole block on the host's clock.
        cpu_ms: processor time of the whole process; None where it was not observed.
        involuntary_switches: how often the system took the processor away; None where it was not observed.
        cpu_pressure_us: for how long some task of the machine waited for a processor; None where not observed.
        compilations: graphs that torch.compile compiled meanwhile; None where it was not used.
        answer: a copy of what the last step returned, made after the block.
        read_ms: how long making the copy took: a result that is computed when it is read shows there.
        label: how often the label occurred; None where the steps were timed.
        lead_in: steps before those that were timed; ``wall_ms`` and ``cpu_ms`` have them too.
        tail_ms: from the last event until the whole device was done; None where there was no event.
    """

    steps_ms: list[float]
    per_step: bool
    wall_ms: float
    cpu_ms: float | None
    involuntary_switches: int | None
    cpu_pressure_us: int | None
    compilations: int | None
    answer: dict[str, Any]
    read_ms: float
    label: LabelSeen | None = None
    lead_in: int = 0
    tail_ms: float | None = None


@dataclasses.dataclass(frozen=True)
class _Taken:
    """The times of a block: when it began and ended in seconds, and each step or their mean in ms."""

    begin: float
    end: float
    steps_ms: list[float]
    per_step: bool
    label: LabelSeen | None = None
    lead_in: int = 0
    tail_ms: float | None = None


def time_block(
    arm: RunningArm, steps: int, *, device: TimedDevice, clock: Clock, meter: Meter, way: Way | None = None
) -> Timed:
    """Time some steps of one arm in a row.

    Args:
        arm: the arm whose turn it is.
        steps: how many.
        device: where it runs; waited for before and after.
        clock: the host's clock, in seconds.
        meter: counts processor time and switches over the block.
        way: what is timed; by default steps, on a GPU by its events.
    """
    way = way or Way()
    with arm.turn():
        device.synchronize()
        compiled = meter.compilations()
        pressure, switches, cpu = meter.pressure_us(), meter.involuntary_switches(), meter.cpu_ms()
        if way.label is not None:
            taken = _label(arm, steps, device, clock, way.label)
        elif device.is_gpu and not way.wait_each:
            taken = _whole(arm, steps, device, clock, host_clock=way.host_clock)
        else:
            taken = _each(arm, steps, device, clock)
        used = _since(cpu, meter.cpu_ms())
        switched = _counted(switches, meter.involuntary_switches())
        waited = _counted(pressure, meter.pressure_us())
        began = clock()
        answer = outputs.held_value(arm.take_last())
        return Timed(
            steps_ms=[round(one, DIGITS) for one in taken.steps_ms],
            per_step=taken.per_step,
            wall_ms=round((taken.end - taken.begin) * 1e3, DIGITS),
            cpu_ms=used,
            involuntary_switches=switched,
            cpu_pressure_us=waited,
            compilations=_counted(compiled or 0, meter.compilations()),
            answer=answer,
            read_ms=(clock() - began) * 1e3,
            label=taken.label,
            lead_in=taken.lead_in,
            tail_ms=None if taken.tail_ms is None else round(taken.tail_ms, DIGITS),
        )


def time_start_up(
    arm: RunningArm, steps: int, *, device: TimedDevice, clock: Clock, label: str | None = None
) -> list[float]:
    """Times in ms of steps that count for nothing but the start-up; on a GPU each is waited for.

    Where a label is timed afterwards, it is heard here too: a compiled step is compiled once more for that.
    """
    found = []
    with arm.turn(), contextlib.nullcontext() if label is None else listening(Spans(clock), label):
        device.synchronize()
        for _ in range(steps):
            begin = clock()
            value = arm.once()
            device.synchronize()
            found.append(round((clock() - begin) * 1e3, DIGITS))
            arm.returned.note(value)
            del value  # it may hold the whole graph of the step, and the next one makes its own
    return found


def _each(arm: RunningArm, steps: int, device: TimedDevice, clock: Clock) -> _Taken:
    """Each step by the host's clock; on a GPU each is waited for."""
    times = arm.stamps(steps, clock, device.synchronize if device.is_gpu else None)
    steps_ms = [(late - early) * 1e3 for early, late in itertools.pairwise(times)]
    return _Taken(times[0], times[-1], steps_ms, per_step=True)


def _whole(arm: RunningArm, steps: int, device: TimedDevice, clock: Clock, *, host_clock: bool) -> _Taken:
    """The mean step of a block with one wait at its end."""
    begin = clock()
    if host_clock:
        arm.bare(steps)
        device.synchronize()
        end = clock()
        return _Taken(begin, end, [(end - begin) * 1e3 / steps], per_step=False)
    arm.bare(LEAD_IN)
    timer = device.timer()
    timer.start()
    arm.bare(steps)
    timer.stop()
    mean = timer.elapsed_ms() / steps
    reached = clock()
    device.synchronize()
    end = clock()
    return _Taken(begin, end, [mean], per_step=False, lead_in=LEAD_IN, tail_ms=(end - reached) * 1e3)


def _label(arm: RunningArm, steps: int, device: TimedDevice, clock: Clock, label: str) -> _Taken:
    """One label in each step by the host's clock, or its mean over a block by device events."""
    spans = Spans(clock, device.timer if device.is_gpu else None)
    with listening(spans, label):
        times = arm.stamps(steps, clock)
    device.synchronize()
    end = clock() if device.is_gpu else times[-1]
    seen = LabelSeen(name=label, calls=spans.calls, steps=spans.steps_with(times), nested=spans.nested)
    if spans.by_events:
        return _Taken(times[0], end, [spans.device_ms() / steps], per_step=False, label=seen)
    return _Taken(times[0], end, spans.of_steps(times), per_step=True, label=seen)


def _since(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, DIGITS)


def _counted(begin: int | None, end: int | None) -> int | None:
    return None if begin is None or end is None else end - begin
