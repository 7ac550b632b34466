"""A small step that notes what a profiler around it records, and what that costs: the live part of lab 09.

The step is plain PyTorch of many small operations, on the CPU of any machine: what a profiler's options cost is time of
the host. Each call is logged with its time and with the options of the profiler that was on, so that a learner's number
is judged by the very steps that it was made from. Beside it stands the library's own measurement of the same step.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from stepprof_lab.grading.feeding import wait_ms

OPTIONS: Mapping[str, Mapping[str, bool]] = {
    "none": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
}
"""What may be switched on, by the lab's word: arguments of ``torch.profiler.profile``."""
NOTED = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")

FIRST_MS = 150.0
"""What the first call of each step costs beside its work: more than a hundred times the rest."""
BLOCKS, STEPS_A_BLOCK = 2, 8
"""The library's own measurement: steps outside and steps inside take turns so often."""

Plan = dict[str, Any]
Log = Sequence[Mapping[str, Any]]
"""Of each step: ``ms``, ``cpu_ms`` (of its thread), ``first``, and ``options``: None outside of any profiler."""


def plan(chance: random.Random) -> Plan:
    """How many operations a step has, and on how many elements: plain data."""
    return {"operations": 2 * chance.randint(60, 100), "elements": chance.randint(32, 96)}


class Sessions:
    """The profiler sessions of a while, with their options and how long each lasted."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.left_on = False
        """Whether one was still on at the end of `watching`."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note each session that begins in here, and end one that is left on: two at a time lose events or crash.

        Where torch has no such place, none is noted.
        """
        base = import_module("torch").autograd.profiler.profile
        prepare, leave = getattr(base, "_prepare_trace", None), base.__exit__
        if prepare is None:
            yield
            return

        newest: list[Any] = []

        def prepared(profiler: Any) -> Any:
            newest[:] = [profiler]
            on = sorted(name for name in NOTED if getattr(profiler, name, False))
            self.seen.append({"options": on, "begin": time.perf_counter(), "ms": None})
            return prepare(profiler)

        def left(profiler: Any, *error: Any) -> Any:
            found = leave(profiler, *error)
            if self.seen and self.seen[-1]["ms"] is None:
                self.seen[-1]["ms"] = 1e3 * (time.perf_counter() - self.seen[-1]["begin"])
            return found

        base._prepare_trace, base.__exit__ = prepared, left  # noqa: SLF001
        try:
            yield
        finally:
            base._prepare_trace, base.__exit__ = prepare, leave  # noqa: SLF001
            if self.options() is not None and newest:
                self.left_on = True
                leave(newest[0], None, None, None)

    def options(self) -> list[str] | None:
        """What is recorded now; None where no profiler is on."""
        if not import_module("torch").autograd._profiler_enabled():  # noqa: SLF001 - the one function that tells it
            return None
        return list(self.seen[-1]["options"]) if self.seen else ["unknown"]


class Step:
    """One step: small operations one after the other, each called through a function of its own.

    Args:
        planned: from `plan`.
        sessions: that say which options are on; without any the step logs times alone.
    """

    def __init__(self, planned: Plan, sessions: Sessions | None = None) -> None:
        self._x = import_module("torch").full((planned["elements"],), 2.0)
        self._pairs = planned["operations"] // 2
        self._sessions = Sessions() if sessions is None else sessions
        self.log: list[dict[str, Any]] = []

    def __call__(self) -> float:
        """Run the step once, and note how long it took and what was recorded."""
        begin, cpu = time.perf_counter(), time.thread_time()
        options, is_first = self._sessions.options(), not self.log
        if is_first:
            wait_ms(FIRST_MS)
        found = self._worked()
        took, worked = time.perf_counter() - begin, time.thread_time() - cpu
        self.log.append({"ms": 1e3 * took, "cpu_ms": 1e3 * worked, "options": options, "first": is_first})
        return found

    def _worked(self) -> float:
        """The work, with the release of its memory at the end: a profiler records that as well."""
        found = self._x
        for _ in range(self._pairs):
            found = _shifted(_scaled(found))
        return float(found[0])


def _scaled(x: Any) -> Any:
    return x.mul(0.5)


def _shifted(x: Any) -> Any:
    return x.add(1.0)


def ready() -> None:
    """Have the process's first session behind us: it loads what later ones find there."""
    _profiled(lambda: None, 1, {})


def _profiled(step: Callable[[], Any], steps: int, options: Mapping[str, bool]) -> None:
    profiler = import_module("torch.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], **options):
        for _ in range(steps):
            step()


def reference(planned: Plan, name: str) -> float:
    """The library's own ratio of a step inside the profiler to one outside, in processor time of the thread.

    Processor time does not count what other processes take, so that a busy machine gives nearly the same ratio.
    """
    sessions = Sessions()
    with sessions.watching():
        step = Step(planned, sessions)
        step()
        for _ in range(BLOCKS):
            for _ in range(STEPS_A_BLOCK):
                step()
            _profiled(step, STEPS_A_BLOCK, OPTIONS[name])
    found = ratio_by_processor(step.log, name)
    return found if found is not None else math.nan


# ---- what a log says ----


def outside(log: Log) -> list[Mapping[str, Any]]:
    """The steps outside of any profiler, without the very first one."""
    return [one for one in log if one["options"] is None and not one["first"]]


def inside(log: Log, name: str) -> list[Mapping[str, Any]]:
    """The steps with exactly these options on, without the very first one."""
    wanted = sorted(OPTIONS[name])
    return [one for one in log if one["options"] in (wanted, ["unknown"]) and not one["first"]]


def ratio_by_processor(log: Log, name: str) -> float | None:
    """Median inside over median outside, in processor time; None where one of them is missing or too short to tell."""
    sides = [[float(one["cpu_ms"]) for one in side] for side in (inside(log, name), outside(log))]
    if not all(sides) or not all(statistics.median(side) > 0 for side in sides):
        return None
    return statistics.median(sides[0]) / statistics.median(sides[1])


def _low_quarter(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


WAYS: Sequence[Callable[[Sequence[float]], float]] = (statistics.median, statistics.fmean, min, _low_quarter)
"""Honest ways to put steps together."""
DROPPED = (0, 1, 2, 3, 5)
"""So many more of the first steps people leave out."""


def honest(log: Log, name: str) -> list[float]:
    """The ratios that honest ways give for the steps of a log."""
    ours, others = ([one["ms"] for one in side] for side in (inside(log, name), outside(log)))
    return [
        way(ours[first:]) / way(others[second:])
        for way in WAYS
        for first, second in itertools.product(DROPPED, DROPPED)
        if len(ours) > first and len(others) > second
    ]


def mistaken(log: Log, sessions: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, float]]:
    """Numbers that wrong ideas give for the same steps: idea and number."""
    found: list[tuple[str, float]] = []
    ours, others = ([one["ms"] for one in side] for side in (inside(log, name), outside(log)))
    for way in WAYS:
        ratio, traced, plain = way(ours) / way(others), way(ours), way(others)
        found += [("upside-down", 1 / ratio), ("sum-for-step", len(ours) * ratio)]
        found += [("units-mixed", one) for one in (100 * ratio, ratio - 1, 100 * (ratio - 1))]
        found += [("units-mixed", one / 1e3) for one in (traced, traced - plain)]  # seconds, as Python's clock has them
        found += [("session-counted", one / plain) for one in _session_ms(sessions, name, len(ours))]
    found.append(("sum-for-step", sum(ours) / statistics.median(others)))
    everywhere = [[one["ms"] for one in log if (one["options"] is None) == side] for side in (False, True)]
    for way in (statistics.fmean, max, operator.itemgetter(0)):
        found.append(("first-step-counted", way(everywhere[0]) / way(everywhere[1])))
    return [(idea, one) for idea, one in found if one > 0]


def _session_ms(sessions: Sequence[Mapping[str, Any]], name: str, steps: int) -> list[float]:
    """What a step takes where the session around it is counted."""
    lasted = [one["ms"] for one in sessions if one["options"] == sorted(OPTIONS[name]) and one["ms"]]
    return [sum(lasted) / steps] if lasted else []


def distance(value: float, wanted: float) -> float:
    """How far apart two positive numbers are: 0.1 is about a tenth."""
    return abs(math.log(value / wanted))
