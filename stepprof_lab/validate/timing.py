"""How one block of steps is timed: each step by the host's clock on the CPU, the whole block on a GPU.

On a GPU a step's host time is the time of queueing it. Waiting for the device after each step would change the
program, so a block has one wait at its end, and its value is the mean over its steps.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Protocol

from stepprof_lab.devices import Timer
from stepprof_lab.validate.arms import Clock, RunningArm
from stepprof_lab.validate.noise import Meter

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
class Timed:
    """What was measured of one block.

    Args:
        steps_ms: each step in ms, or one value, the mean, where ``per_step`` is false.
        wall_ms: elapsed time of the whole block on the host's clock.
        cpu_ms: processor time of the whole process; None where it was not observed.
        involuntary_switches: how often the system took the processor away; None where it was not observed.
        cpu_pressure_us: for how long some task of the machine waited for a processor; None where not observed.
    """

    steps_ms: list[float]
    per_step: bool
    wall_ms: float
    cpu_ms: float | None
    involuntary_switches: int | None
    cpu_pressure_us: int | None


def time_block(
    arm: RunningArm, steps: int, *, device: TimedDevice, clock: Clock, meter: Meter, host_clock: bool = False
) -> Timed:
    """Time some steps of one arm in a row.

    Args:
        arm: the arm whose turn it is.
        steps: how many.
        device: where it runs; waited for before and after.
        clock: the host's clock, in seconds.
        meter: counts processor time and switches over the block.
        host_clock: on a GPU, take the host's clock over the whole block instead of device events: right where
            reading belongs to the step.
    """
    with arm.turn():
        device.synchronize()
        pressure, switches, cpu = meter.pressure_us(), meter.involuntary_switches(), meter.cpu_ms()
        if device.is_gpu:
            begin, events_ms = clock(), None
            if host_clock:
                arm.bare(steps)
                device.synchronize()
            else:
                events_ms = _between_events(arm, steps, device)
            end = clock()
            mean = ((end - begin) * 1e3 if events_ms is None else events_ms) / steps
            steps_ms = [round(mean, DIGITS)]
        else:
            times = arm.stamps(steps, clock)
            begin, end = times[0], times[-1]
            steps_ms = [round((late - early) * 1e3, DIGITS) for early, late in itertools.pairwise(times)]
        return Timed(
            steps_ms=steps_ms,
            per_step=not device.is_gpu,
            wall_ms=round((end - begin) * 1e3, DIGITS),
            cpu_ms=_since(cpu, meter.cpu_ms()),
            involuntary_switches=_counted(switches, meter.involuntary_switches()),
            cpu_pressure_us=_counted(pressure, meter.pressure_us()),
        )


def time_start_up(arm: RunningArm, steps: int, *, device: TimedDevice, clock: Clock) -> list[float]:
    """Times in ms of steps that count for nothing but the start-up; on a GPU each is waited for."""
    found = []
    with arm.turn():
        device.synchronize()
        for _ in range(steps):
            begin = clock()
            value = arm.once()
            device.synchronize()
            found.append(round((clock() - begin) * 1e3, DIGITS))
            arm.returned.note(value)
            del value  # it may hold the whole graph of the step, and the next one makes its own
    return found


def _between_events(arm: RunningArm, steps: int, device: TimedDevice) -> float:
    timer = device.timer()
    timer.start()
    arm.bare(steps)
    timer.stop()
    device.synchronize()
    return timer.elapsed_ms()


def _since(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, DIGITS)


def _counted(begin: int | None, end: int | None) -> int | None:
    return None if begin is None or end is None else end - begin
