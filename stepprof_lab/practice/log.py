"""What the practice device did while something listened: launches, their work, waits of the host.

The profiler sees nothing of it: the work runs in other threads, and its times are modelled. All times here are
nanoseconds of the device's clock.
"""

from __future__ import annotations

import dataclasses
import threading


@dataclasses.dataclass(frozen=True)
class Work:
    """One operation: the host's call that launched it, and its place on the device's own timeline."""

    name: str
    stream: int
    call_start_ns: int
    call_end_ns: int
    start_ns: int
    end_ns: int
    thread: int
    """The system's number of the thread that launched it, as the profiler has it."""


@dataclasses.dataclass(frozen=True)
class Wait:
    """The host waited for the device."""

    name: str
    start_ns: int
    end_ns: int
    thread: int


@dataclasses.dataclass
class Recording:
    """What happened while it was listening, in the order in which it was noted."""

    works: list[Work] = dataclasses.field(default_factory=list)
    waits: list[Wait] = dataclasses.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked of the device."""
        return not self.works and not self.waits


_listening: list[Recording] = []


def start() -> Recording:
    """Begin to listen."""
    recording = Recording()
    _listening.append(recording)
    return recording


def stop(recording: Recording) -> None:
    """End it; does nothing where it has ended."""
    if recording in _listening:
        _listening.remove(recording)


def note_work(name: str, stream: int, call: tuple[int, int], work: tuple[int, int]) -> None:
    """An operation was launched by the calling thread."""
    for recording in _listening:
        recording.works.append(Work(name, stream, *call, *work, threading.get_native_id()))


def note_wait(name: str, start_ns: int, end_ns: int) -> None:
    """The calling thread has waited."""
    for recording in _listening:
        recording.waits.append(Wait(name, start_ns, end_ns, threading.get_native_id()))
