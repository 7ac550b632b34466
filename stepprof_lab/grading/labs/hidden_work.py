"""Hidden work to be timed: drawn, handed to a learner's function, and measured by the library next to it.

A *plan* is plain data: ``parts`` (``[ms, stream]`` each, as `stepprof_lab.practice.Part`), ``first_ms`` (what its first
call takes more), ``host_ms`` (what the host does before the first launch), ``earlier_ms`` (other work that is queued
when the function is called), ``late_ms`` (how much later the host goes on after a wait).
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepprof_lab import practice
from stepprof_lab.grading.probing import call
from stepprof_lab.grading.watching import Watch, watching

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

# Taken before a learner's code runs: what it puts in their place later changes nothing here.
_now_ns, _sleep = time.perf_counter_ns, time.sleep

Plan = dict[str, Any]

FIRST_CALL = 2.5
"""A first call takes so many times the work more: the mean of 10 runs with it among them is still 18 % too long, and
none of these means is a whole number of runs."""
HOST_SHARE = (0.6, 0.75)
"""The host's part, of the device's: two runs that overlap, halving it, are a fifth shorter a run than one."""

_numbers = itertools.count(1)


def draw(chance: random.Random, *, scale: float = 1.0, host: bool, late: bool) -> Plan:
    """A plan: an operation alone, then three streams side by side, so that one after the other takes twice as long.

    Args:
        chance: the generator.
        scale: of all durations; 1 gives some 13 ms of device work.
        host: whether the host does something before it launches.
        late: whether the host goes on late after a wait.
    """
    first, longest = scale * chance.uniform(3.0, 4.0), scale * chance.uniform(9.0, 11.0)
    lanes = [longest, longest * chance.uniform(0.75, 0.95)]
    chance.shuffle(lanes)
    (a, more_a), (b, more_b) = (_cut(chance, lane) for lane in lanes)
    beside = longest * chance.uniform(0.85, 0.95)
    parts = [[first, 0], [a, 1], [b, 2], [beside, 0], [more_a, 1], [more_b, 2]]
    device_ms = first + longest
    return {
        "parts": [[round(ms, 3), stream] for ms, stream in parts],
        "first_ms": round(FIRST_CALL * device_ms, 3),
        "host_ms": round(device_ms * chance.uniform(*HOST_SHARE), 3) if host else 0.0,
        "earlier_ms": round(chance.uniform(8.0, 11.0), 3),
        "late_ms": round(device_ms * chance.uniform(0.4, 0.5), 3) if late else 0.0,
    }


def _cut(chance: random.Random, ms: float) -> tuple[float, float]:
    share = chance.uniform(0.45, 0.55)
    return ms * share, ms * (1 - share)


def device_ms(plan: Mapping[str, Any]) -> float:
    """What the plan says of its work on the device, where its streams overlap."""
    return float(max(one["end_ms"] for one in spans(plan)))


def spans(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The plan as a picture needs it: when each operation begins and ends on its stream, without the first call."""
    ends: dict[int, float] = {0: 0.0}
    found = []
    for number, (ms, stream) in enumerate(plan["parts"], 1):
        begin = ends.get(stream, ends[0])
        ends[stream] = begin + ms
        found.append(
            {
                "name": f"operation {number}",
                "kind": "kernel",
                "lane": f"stream {stream}",
                "start_ms": begin,
                "end_ms": ends[stream],
            }
        )
    return found


class HiddenWork:
    """What a learner's function is given: ``work()`` launches everything, ``for operation in work: operation()`` too.

    It tells nothing of how long it takes.
    """

    def __init__(self, operations: Callable[[], Sequence[Callable[[], Any]]], length: int) -> None:
        self._operations = operations
        self._length = length

    def __call__(self) -> list[Any]:
        """Launch everything; returns the handles of the results."""
        return [operation() for operation in self]

    def __iter__(self) -> Iterator[Callable[[], Any]]:
        """The operations in order; each launches when it is called."""
        return iter(self._operations())

    def __len__(self) -> int:
        """How many operations it has."""
        return self._length


def hidden(plan: Mapping[str, Any], device: Device, watch: Watch | None = None) -> HiddenWork:
    """The plan's work, with a first call that has not been made yet."""
    made = _work(plan, device, first_ms=plan["first_ms"])

    def launching(number: int, operation: Callable[[], Any]) -> Callable[[], Any]:
        def launch() -> Any:
            if number == 0:
                _host_part(plan)
            if watch is not None:
                watch.launched()
            return operation()

        return launch

    return HiddenWork(lambda: [launching(number, operation) for number, operation in enumerate(made)], len(made))


def _work(plan: Mapping[str, Any], device: Device, *, first_ms: float) -> practice.Work:
    parts = [practice.Part(ms, stream) for ms, stream in plan["parts"]]
    # A first call belongs to a name.
    return practice.Work(device, parts, name=f"work {next(_numbers)}", first_ms=first_ms)


def _host_part(plan: Mapping[str, Any]) -> None:
    if plan["host_ms"]:
        _sleep(plan["host_ms"] / 1e3)


class Reference:
    """The library's own measurement of a plan's work, without its first call."""

    def __init__(self, plan: Mapping[str, Any], device: Device) -> None:
        self._plan, self._device = plan, device
        self._work = _work(plan, device, first_ms=0.0)
        self._work()
        device.synchronize()

    def elapsed_ms(self) -> float:
        """End to end: from before the host's part until the host goes on after the last operation."""
        self._device.synchronize()
        begun = _now_ns()
        _host_part(self._plan)
        self._work()
        self._device.synchronize()
        return (_now_ns() - begun) / 1e6

    def device_ms(self) -> float:
        """Between events around the work, behind other work: the stream has no gap to wait for the host."""
        begin, end = self._device.event(), self._device.event()
        self._device.occupy(self._plan["earlier_ms"], name="earlier work")
        begin.record(self._device.current_stream())
        self._work()
        end.record(self._device.current_stream())
        end.synchronize()
        return float(begin.elapsed_time(end))


def once(answer: Any, plan: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Call a learner's function ``(work, device)`` once, with other work queued before it.

    Returns:
        ``found`` (the learner's object), ``outside_ms`` (the call by the library's clock), ``left_ms`` (for how long
        work went on when it had returned), ``calls`` and ``reads`` (see `Watch`).

    Raises:
        Exception: whatever the function raised; the device is idle by then.
    """
    watch = Watch()
    work = hidden(plan, device, watch)
    device.synchronize()
    try:
        device.occupy(plan["earlier_ms"], name="earlier work")
        with watching(device, watch, late_ms=plan["late_ms"]):
            begun = _now_ns()
            found = call(answer, work, device)
            returned = _now_ns()
    finally:
        device.synchronize()
    return {
        "found": found,
        "outside_ms": (returned - begun) / 1e6,
        "left_ms": (_now_ns() - returned) / 1e6,
        "calls": watch.calls,
        "reads": watch.reads,
    }
