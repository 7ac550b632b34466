"""What a capture takes from the practice device's log: lanes of their own in the trace's file, marked as simulated.

The profiler stamps events by the system's wall clock, the device by the host's monotonic one. Both are read side by
side at the beginning and at the end, as close together as the system allows, and their distance is the mean of the two.
Measured against the profiler's own marks (tests/practice/test_lanes_clock.py), a time is a few microseconds off at the
most; a wall clock that is set while the window lasts would be off by half of that step.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from stepprof_lab import kineto
from stepprof_lab.practice import log

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNEL = "practice_kernel"
RUNTIME = "practice_runtime"
OWNER = "practice"
"""What stands where a GPU's events have the number of the device."""
FIRST_CORRELATION = 1 << 40
"""The profiler's own correlations have 32 bits: none of them can link to simulated work."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')


class Lanes:
    """Listens to the practice device while a window lasts."""

    def __init__(self) -> None:
        self._recording = log.start()
        self._distances = [wall_minus_monotonic()]
        self._from_ns: int | None = None
        self._to_ns: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked of the device."""
        return self._recording.is_empty

    def begin_active(self, ns: int) -> None:
        """The profiler records from now on; by `time.perf_counter_ns`."""
        self._from_ns = ns

    def end_active(self, ns: int) -> None:
        """The profiler's last step has ended."""
        self._to_ns = ns
        self._distances.append(wall_minus_monotonic())

    def stop(self) -> None:
        """Listen no longer."""
        log.stop(self._recording)

    def merged(self, text: bytes, capture: str) -> bytes:
        """The trace with what the device did in the active steps, and with the mark of what is simulated.

        Args:
            text: the trace as the profiler exported it.
            capture: the number of the capture, as it stands in the trace's own text.
        """
        opened = _EVENTS.search(text)
        if opened is None:
            return text
        head, rest = text[: opened.start()], text[opened.end() :]
        base = _BASE.search(head)
        lines = self._lines(int(base[1]) if base else 0)
        added = ",\n".join(lines) + (",\n" if lines and not rest.lstrip().startswith(b"]") else "")
        return _marked(head, capture) + opened[0] + b"\n" + added.encode() + rest

    def _lines(self, base_ns: int) -> list[str]:
        moved = sum(self._distances) // len(self._distances) - base_ns
        calls: dict[tuple[int, int], kineto.Event] = {}
        works: list[kineto.Event] = []
        for one in self._works():
            number = FIRST_CORRELATION + len(works)
            if one.call_start_ns >= self._first_ns:
                call = calls.setdefault(
                    (one.thread, one.call_start_ns),
                    _call("practiceLaunch", one.call_start_ns, one.call_end_ns, one.thread, moved, number),
                )
                number = call.correlation
            works.append(_work(one, moved, number))
        waits = [
            _call(wait.name, wait.start_ns, wait.end_ns, wait.thread, moved, 0)
            for wait in self._recording.waits
            if self._first_ns <= wait.start_ns <= self._last_ns
        ]
        return kineto.added_lines([*calls.values(), *waits], works, "practice device (simulated on the CPU)")

    def _works(self) -> Iterator[log.Work]:
        """What was launched in the active steps, and what was launched before and still ran in them."""
        for one in self._recording.works:
            if one.call_start_ns <= self._last_ns and one.end_ns >= self._first_ns:
                yield one

    @property
    def _first_ns(self) -> int:
        return self._from_ns if self._from_ns is not None else 0

    @property
    def _last_ns(self) -> int:
        return self._to_ns if self._to_ns is not None else time.perf_counter_ns()


def wall_minus_monotonic(tries: int = 9) -> int:
    """Distance of the wall clock from `time.perf_counter_ns`, in ns, by the closest of some pairs of readings."""
    pairs = []
    for _ in range(tries):
        before, wall, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        pairs.append((after - before, wall - (before + after) // 2))
    return min(pairs)[1]


def _work(one: log.Work, moved: int, number: int) -> kineto.Event:
    return kineto.Event(
        category=KERNEL,
        name=one.name,
        start=one.start_ns + moved,
        end=one.end_ns + moved,
        pid=OWNER,
        tid=one.stream,
        args={"device": OWNER, "stream": one.stream, "correlation": number},
    )


def _call(name: str, start: int, end: int, thread: int, moved: int, number: int) -> kineto.Event:
    linked = {"correlation": number} if number else {}
    return kineto.Event(
        category=RUNTIME, name=name, start=start + moved, end=end + moved, pid=os.getpid(), tid=thread, args=linked
    )


def _marked(head: bytes, capture: str) -> bytes:
    """What stands before the events, with the word that makes every reader call the trace simulated."""
    ours, mark = f'"capture": "{capture}"'.encode(), b'"origin": "simulated"'
    if ours in head:
        return head.replace(ours, ours + b", " + mark, 1)
    return head + b'"stepprof_lab": {' + mark + b"},\n"
