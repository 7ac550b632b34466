"""A constructed step as the spans that a trace holds, and what is right to say of it: elapsed, total, self, busy.

A span is ``{"name", "kind", "lane", "start_ms", "end_ms"}``. Kinds: "step", "label", "operator" and "launch" on threads
of the CPU; "kernel" and "copy" are the GPU's work on streams; "label on the GPU" is a label's projection, for which
nothing is executed. The values are those of the interpreter (`stepprof_lab.trace`); a test compares both.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Span = dict[str, Any]

WORK = ("kernel", "copy")
HOST = ("step", "label", "operator", "launch")
STREAMS = ("stream 7", "stream 20")
MAIN = "thread 1"


class _Making:
    """Spans in the making, on a clock in ms that only goes forward."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.spans: list[Span] = []
        self.now = self.draw(100.0, 140.0)

    def draw(self, low: float, high: float) -> float:
        """Whole microseconds between two times in ms."""
        return round(self._chance.uniform(low, high), 3)

    def go(self, low: float, high: float) -> float:
        """Move the clock on; returns where it was."""
        before = self.now
        self.now += self.draw(low, high)
        return before

    def add(self, name: str, kind: str, lane: str, start: float, end: float) -> None:
        self.spans.append(
            {"name": name, "kind": kind, "lane": lane, "start_ms": round(start, 3), "end_ms": round(end, 3)}
        )


def make_step(chance: random.Random) -> list[Span]:
    """One step: work of the step before reaches into it, and its own work reaches beyond its end.

    Labels, three levels of operators with calls to the driver on one thread, another thread beside it, two streams
    whose work overlaps, a copy in the step and one after it, and a label's projection on both streams. In order of
    start; times in ms, whole microseconds.
    """
    made = _Making(chance)
    begin = made.now
    left_over = begin + made.draw(0.7, 1.4)
    made.add("gemm", "kernel", STREAMS[0], begin - made.draw(2.0, 4.0), left_over)
    ready = {STREAMS[0]: left_over + 0.01, STREAMS[1]: _transfer(made, left_over)}
    train = made.now
    for _ in range(chance.randint(2, 3)):
        _linear(made, ready)
        made.go(0.5, 1.0)
    tail = ready[STREAMS[0]] + 0.02
    made.add("Memcpy DtoH", "copy", STREAMS[0], tail, tail + made.draw(0.5, 1.0))
    end = max(min(ready.values()) - made.draw(0.4, 0.8), made.now + 0.5)
    made.add("train", "label", MAIN, train, end - 0.3)
    for lane in STREAMS:
        own = [one for one in made.spans if one["lane"] == lane and one["start_ms"] > train]
        first, last = min(one["start_ms"] for one in own), max(one["end_ms"] for one in own)
        made.add("train", "label on the GPU", lane, first - made.draw(0.2, 0.4), last + made.draw(0.8, 1.2))
    made.add("step", "step", MAIN, begin, end)
    return sorted(made.spans, key=lambda one: (one["start_ms"], -one["end_ms"]))


def _transfer(made: _Making, left_over: float) -> float:
    """A label with a copy to the second stream; returns when the stream is free again."""
    made.go(0.4, 0.8)
    label, call = made.now, made.now + 0.05
    made.go(0.3, 0.6)
    made.add("transfer", "label", MAIN, label, made.now)
    made.add("cudaMemcpyAsync", "launch", MAIN, call, call + 0.04)
    start = max(left_over, call + 0.05) - made.draw(0.1, 0.2)
    free = start + made.draw(0.6, 1.1)
    made.add("Memcpy HtoD", "copy", STREAMS[1], start, free)
    made.go(0.4, 0.8)
    return free + 0.01


def _linear(made: _Making, ready: dict[str, float]) -> None:
    """A call of aten::linear with all that is in it, its kernels, and another thread's operator beside it."""
    outer = made.go(0.25, 0.4)
    made.add("cudaStreamIsCapturing", "launch", MAIN, outer + 0.02, made.now - 0.02)
    middle = made.now
    query = made.go(0.25, 0.4)
    made.add("cudaFuncGetAttributes", "launch", MAIN, query + 0.02, made.now - 0.02)
    for stream in STREAMS:
        made.go(0.02, 0.1)
        inner = made.go(0.3, 0.8)
        made.add("aten::mm", "operator", MAIN, inner, made.now)
        made.add("cudaLaunchKernel", "launch", MAIN, made.now - 0.05, made.now - 0.02)
        start = max(ready[stream], made.now)
        ready[stream] = start + made.draw(2.4, 4.2)
        made.add("gemm", "kernel", stream, start, ready[stream])
        made.go(0.1, 0.3)
    made.add("aten::addmm", "operator", MAIN, middle, made.now)
    made.go(0.2, 0.4)
    made.add("aten::linear", "operator", MAIN, outer, made.now)
    for beside in (outer + 0.05, middle + made.draw(0.6, 0.7)):
        made.add("aten::copy_", "operator", "thread 2", beside, beside + made.draw(0.4, 0.5))


# ---- what is right ----


def elapsed(spans: Sequence[Span]) -> float:
    """The step's time on the host's clock, in ms."""
    return length(step_of(spans))


def total(spans: Sequence[Span], name: str) -> float:
    """Sum of the calls of a name on the host, with their children, in ms."""
    return sum(length(one) for one in named(spans, name))


def own(spans: Sequence[Span], name: str) -> float:
    """Self time: the calls of a name without their direct children, in ms."""
    return total(spans, name) - sum(length(child) for one in named(spans, name) for child in children(spans, one))


def busy(spans: Sequence[Span]) -> float:
    """How long the GPU was at work inside the step: the union of its work, clipped to the step, in ms."""
    step = step_of(spans)
    return union(
        [
            (max(one["start_ms"], step["start_ms"]), min(one["end_ms"], step["end_ms"]))
            for one in spans
            if one["kind"] in WORK
        ]
    )


def step_of(spans: Sequence[Span]) -> Span:
    """The span that is the step."""
    return next(one for one in spans if one["kind"] == "step")


def length(one: Span) -> float:
    """How long a span is, in ms."""
    return float(one["end_ms"] - one["start_ms"])


def named(spans: Sequence[Span], name: str) -> list[Span]:
    """The spans of a name on the host."""
    return [one for one in spans if one["name"] == name and one["kind"] in HOST]


def inside(spans: Sequence[Span], outer: Span, *, kinds: Sequence[str] = HOST, any_lane: bool = False) -> list[Span]:
    """What begins and ends inside a span, on its lane unless any lane will do."""
    return [
        one
        for one in spans
        if one is not outer
        and (any_lane or one["lane"] == outer["lane"])
        and one["kind"] in kinds
        and outer["start_ms"] <= one["start_ms"]
        and one["end_ms"] <= outer["end_ms"]
    ]


def children(spans: Sequence[Span], outer: Span, **how: Any) -> list[Span]:
    """What is inside a span (as for `inside`) and in nothing else that is inside it."""
    found = inside(spans, outer, **how)
    return [one for one in found if not any(one in inside(found, other, **how) for other in found)]


def union(parts: Sequence[tuple[float, float]]) -> float:
    """The length of the union of intervals; one that ends before it begins is empty."""
    found, reached = 0.0, float("-inf")
    for start, end in sorted(part for part in parts if part[1] > part[0]):
        found += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return found
