"""What is checked of a window before it may be called a capture.

Counting step spans is not enough: a loop that breaks in the fourth turn leaves two perfect spans, and a step that was
counted twice leaves a span of a few microseconds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from stepprof_lab.capturing.names import STEP_PREFIX
from stepprof_lab.capturing.session import FIRST_ACTIVE, TURNS
from stepprof_lab.record import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ACTIVE = TURNS - FIRST_ACTIVE
DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
PRACTICE_CATEGORY = "practice_kernel"
SHORTEST_SHARE = 0.5
"""A span shorter than this share of its turn on the host's clock covers no whole step."""
CLOCK_SLACK_US = 200.0
"""The two clocks are read at different places; steps shorter than this cannot be judged by their length."""
ROUNDING_US = 0.002


class _Event(msgspec.Struct):
    """What the checks need of one event; times in microseconds."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = None

    @property
    def end(self) -> float:
        return self.ts + self.dur


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")


class Seen(msgspec.Struct, kw_only=True):
    """What the window's own bookkeeping knows, independent of the trace."""

    handler_calls: int
    turns_ns: list[int]
    """Time of each turn by the host's clock."""
    label_calls: list[dict[str, int]]
    """For each turn, how often each label was entered."""
    always: list[str]
    """Labels that ran in every step of the approach."""
    gpu_collected: bool
    """Whether the profiler was told to collect a GPU's activity."""
    gpu_required: bool
    """Whether GPU events have to be there: not where the device was left to choose and the workload ran on the CPU."""


def examine(trace: bytes, seen: Seen) -> list[Check]:
    """Check a window; where the trace does not parse, what depends on it is left out.

    Args:
        trace: the text of the trace, uncompressed.
        seen: what was counted while it ran.
    """
    checks = [_handler(seen), _turns(seen)]
    try:
        events = msgspec.json.decode(trace, type=_Trace).events
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return [*checks, Check(name="file", passed=False, detail=f"the trace does not parse: {error}")]
    checks.append(Check(name="file", passed=True, detail=f"{len(events)} events in {len(trace)} bytes"))
    steps = sorted((e for e in _spans(events) if e.name.startswith(STEP_PREFIX)), key=lambda e: e.ts)
    checks.append(_step_spans(steps))
    names = sorted({*seen.always, *(name for calls in seen.label_calls[FIRST_ACTIVE:] for name in calls)})
    labels = [e for e in _spans(events) if e.name in set(names)]
    if len(steps) == ACTIVE:
        checks.append(_lengths(steps, labels, seen))
        checks.append(_labels(steps, labels, names, seen))
    checks.append(_device_events(events, seen))
    return checks


def _spans(events: Iterable[_Event]) -> Iterable[_Event]:
    # On a GPU the same names come a second time as gpu_user_annotation: those are no host spans.
    return (e for e in events if e.ph == "X" and e.cat == "user_annotation")


def _handler(seen: Seen) -> Check:
    count = seen.handler_calls
    return Check(name="handler", passed=count == 1, detail=f"the profiler handed over a trace {_times(count)}")


def _turns(seen: Seen) -> Check:
    count = len(seen.turns_ns)
    return Check(name="turns", passed=count == TURNS, detail=f"{count} of {TURNS} turns were run to their end")


def _step_spans(steps: Sequence[_Event]) -> Check:
    said = ", ".join(step.name for step in steps) or "none"
    return Check(
        name="step spans", passed=len(steps) == ACTIVE, detail=f"{len(steps)} step spans in the trace ({said})"
    )


def _lengths(steps: Sequence[_Event], labels: Sequence[_Event], seen: Seen) -> Check:
    for number, step in enumerate(steps):
        turn = FIRST_ACTIVE + number
        turn_us = seen.turns_ns[turn] / 1e3 if turn < len(seen.turns_ns) else 0.0
        longest = max((e.dur for e in labels if step.ts <= e.ts < step.end), default=0.0)
        if step.dur + ROUNDING_US < longest or step.dur + CLOCK_SLACK_US < SHORTEST_SHARE * turn_us:
            return Check(
                name="no phantom step",
                passed=False,
                detail=f"{step.name} lasts {step.dur:.1f} µs, its turn lasted {turn_us:.1f} µs by the host's clock"
                f" and its longest label {longest:.1f} µs",
            )
    said = ", ".join(f"{step.name} {step.dur:.1f} µs" for step in steps)
    return Check(name="no phantom step", passed=True, detail=f"as long as their turns by the host's clock: {said}")


def _labels(steps: Sequence[_Event], labels: Sequence[_Event], names: Sequence[str], seen: Seen) -> Check:
    wrong = [problem for name in names if (problem := _label_problem(name, steps, labels, seen.label_calls))]
    if wrong:
        return Check(name="labels", passed=False, detail="; ".join(wrong))
    if not names:
        return Check(name="labels", passed=True, detail="the workload has no labels")
    said = ", ".join(f"{name} {_times(seen.label_calls[FIRST_ACTIVE].get(name, 0))}" for name in names)
    return Check(name="labels", passed=True, detail=f"in each active step, inside it: {said}")


def _label_problem(
    name: str, steps: Sequence[_Event], labels: Sequence[_Event], calls: Sequence[Mapping[str, int]]
) -> str | None:
    spans = [e for e in labels if e.name == name]
    inside: Counter[int] = Counter()
    for span in spans:
        home = [
            number
            for number, step in enumerate(steps)
            if step.ts - ROUNDING_US <= span.ts and span.end <= step.end + ROUNDING_US and span.tid == step.tid
        ]
        if not home:
            return f"label {name!r} is not inside one step ({span.dur:.1f} µs)"
        inside[home[0]] += 1
    counts = [inside[number] for number in range(ACTIVE)]
    if len(set(counts)) > 1 or not counts[0]:
        return f"label {name!r} is in the two active steps {' and '.join(_times(count) for count in counts)}"
    counted = [turn.get(name, 0) for turn in calls[FIRST_ACTIVE:]]
    if counted != counts:
        return f"label {name!r} was entered {counted} times in the active steps, and the trace holds {counts}"
    return None


def _device_events(events: Sequence[_Event], seen: Seen) -> Check:
    count = sum(e.ph == "X" and e.cat in DEVICE_CATEGORIES for e in events)
    simulated = sum(e.ph == "X" and e.cat == PRACTICE_CATEGORY for e in events)
    if count:
        detail = f"{count} device events in the trace"
    elif seen.gpu_required:
        detail = "GPU collection was asked for, no GPU event was observed"
    elif seen.gpu_collected:
        detail = "no GPU event was observed; GPU collection was on, and the workload's parameters were on the CPU"
    else:
        detail = "no GPU event was observed, and none was asked for"
    if simulated:
        detail += f"; {simulated} operations of the practice device, simulated"
    return Check(name="device events", passed=bool(count) or not seen.gpu_required, detail=detail)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
