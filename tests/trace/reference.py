"""The design's definitions, worked out the slow and obvious way: no unions, no sorting tricks, no arrays.

An interval is the set of its nanoseconds, so a union is a set union and its length a count. Everything is looked at
against everything else, which is quadratic and hard to get wrong. `numbers` gives the contract's values for a list of
events; `insane` says what in an interpretation of any file at all cannot be true.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HOST = ("cpu_op", "user_annotation", "cuda_runtime")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
STEP = "ProfilerStep#"


class Event(NamedTuple):
    """One event; times are whole nanoseconds."""

    category: str
    name: str
    start: int
    duration: int
    lane: int
    """Thread of a host event, stream of a device event."""
    correlation: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def covers(self) -> set[int]:
        return set(range(self.start, self.end))

    def as_json(self, base: int = 0) -> dict[str, Any]:
        """The event as the profiler writes it; times are texts that the caller turns into numbers."""
        args: dict[str, Any] = {"correlation": self.correlation} if self.correlation else {}
        where: dict[str, Any] = {"pid": 1, "tid": self.lane}
        if self.category in DEVICE:
            where = {"pid": 0, "tid": self.lane}
            args |= {"device": 0, "stream": self.lane}
        times = {"ts": _us(base + self.start), "dur": _us(self.duration)}
        return {"ph": "X", "cat": self.category, "name": self.name, **where, **times, "args": args}


def _us(ns: int) -> str:
    return f"@{ns // 1000}.{ns % 1000:03d}@"


def text_of(events: Sequence[Event], base: int = 0) -> bytes:
    """A trace file with these events."""
    data = msgspec.json.encode({"traceEvents": [event.as_json(base) for event in events]})
    return data.replace(b'"@', b"").replace(b'@"', b"")


def counted_once(events: Sequence[Event]) -> list[Event]:
    """Without device events and steps that are written again, and host events where at least half of them are."""
    # A span has no correlation.
    keys = [event._replace(correlation=0) if _is_host_span(event) else event for event in events]
    repeats = [key in keys[:at] for at, key in enumerate(keys)]
    alone = [event.category in DEVICE or (_is_host_span(event) and event.name.startswith(STEP)) for event in events]
    if not any(again and one for again, one in zip(repeats, alone, strict=True)):
        return list(events)
    others = [again for again, one in zip(repeats, alone, strict=True) if not one]
    all_of_them = 2 * sum(others) >= len(others)
    return [e for e, again, one in zip(events, repeats, alone, strict=True) if not (again and (one or all_of_them))]


def _is_host_span(event: Event) -> bool:
    return event.category in {"cpu_op", "user_annotation"}


def numbers(events: Sequence[Event]) -> dict[str, Any]:
    """Steps, labels, operators and GPU as the JSON of ``stepprof read`` has them, but for names of devices."""
    events = counted_once(events)
    device = [event for event in events if event.category in DEVICE]
    launches = {id(event): launch_of(event, events) for event in device}
    return {
        "steps": [_step(step, device, launches) for step in steps_of(events)],
        "labels": _labels(events, device, launches),
        "operators": _operators(events, device, launches),
        "gpu": _gpu(device, launches),
    }


def launch_of(work: Event, events: Sequence[Event]) -> Event | None:
    """The earliest host call with the same non-zero correlation."""
    if not work.correlation:
        return None
    calls = [e for e in events if e.category == "cuda_runtime" and e.correlation == work.correlation]
    return min(calls, key=lambda call: call.start) if calls else None


def steps_of(events: Iterable[Event]) -> list[Event]:
    """The steps in order of their start."""
    return sorted(
        (e for e in events if e.category in {"cpu_op", "user_annotation"} and e.name.startswith(STEP)),
        key=lambda step: step.start,
    )


def _points(events: Iterable[Event]) -> set[int]:
    return {ns for event in events for ns in event.covers}


def _step(step: Event, device: list[Event], launches: dict[int, Event | None]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": step.name, "cpu_us": step.duration / 1000}
    if not device:
        return found
    mine = [w for w in device if (call := launches[id(w)]) is not None and step.start <= call.start < step.end]
    others = [w for w in device if w not in mine]
    return found | {
        "gpu_events_launched": len(mine),
        "gpu_launched_us": len(_points(mine)) / 1000,
        "gpu_busy_in_window_us": len(_points(device) & step.covers) / 1000,
        "gpu_foreign_in_window_us": len(_points(others) & step.covers) / 1000,
        "gpu_tail_us": max([work.end - step.end for work in mine] + [0]) / 1000,
    }


def _labels(events: Sequence[Event], device: list[Event], launches: dict[int, Event | None]) -> dict[str, Any]:
    spans = [e for e in events if e.category == "user_annotation" and not e.name.startswith(STEP)]
    spans.sort(key=lambda span: span.start)
    found: dict[str, Any] = {}
    for name in dict.fromkeys(span.name for span in spans):
        of_name = [span for span in spans if span.name == name]
        inside = _points(of_name)
        mine = [w for w in device if (call := launches[id(w)]) is not None and call.start in inside]
        found[name] = {"calls": len(of_name), "cpu_us": len(inside) / 1000}
        if device:
            found[name]["gpu_launched_us"] = len(_points(mine)) / 1000
    return found


def _operators(events: Sequence[Event], device: list[Event], launches: dict[int, Event | None]) -> dict[str, Any]:
    calls = [e for e in events if e.category == "cpu_op" and not e.name.startswith(STEP)]
    own = _self_times(events)
    found: dict[str, Any] = {}
    for name in {call.name for call in calls}:
        of_name = [call for call in calls if call.name == name]
        found[name] = {
            "calls": len(of_name),
            "cpu_sum_us": sum(call.duration for call in of_name) / 1000,
            "cpu_self_us": sum(own[id(call)] for call in of_name) / 1000,
        }
        if device:
            pairs = [(call, work, launches[id(work)]) for call in of_name for work in device]
            inside = [w.duration for c, w, at in pairs if at and at.lane == c.lane and c.start <= at.start < c.end]
            found[name]["gpu_sum_us"] = sum(inside) / 1000
    return found


def _self_times(events: Sequence[Event]) -> dict[int, int]:
    """Self time of each host event: its duration less its direct children, each up to the parent's end."""
    host = [event for event in events if event.category in HOST]
    own = {id(event): event.duration for event in host}
    for lane in {event.lane for event in host}:
        # In order of start, longer first, then as in the file.
        here = sorted((e for e in host if e.lane == lane), key=lambda e: (e.start, -e.duration))
        for place, child in enumerate(here):
            open_ = [earlier for earlier in here[:place] if earlier.end > child.start]
            if open_:
                parent = open_[-1]
                own[id(parent)] -= min(child.end, parent.end) - child.start
    return own


def _gpu(device: list[Event], launches: dict[int, Event | None]) -> dict[str, Any]:
    if not device:
        return {"observed": False}
    return {
        "observed": True,
        "events": len(device),
        "events_unlinked": sum(launches[id(work)] is None for work in device),
        "busy_us": len(_points(device)) / 1000,
        "sum_us": sum(work.duration for work in device) / 1000,
        "span_us": (max(work.end for work in device) - min(work.start for work in device)) / 1000,
    }


# ---- what cannot be true of any trace ----

LONGEST_US = 2 * 86_400 * 1_000_000
"""Events lie at most a day from the middle of a trace, so nothing elapsed is longer than two."""
ELAPSED = ("cpu_us", "busy_us", "span_us", "gpu_launched_us", "gpu_busy_in_window_us", "gpu_foreign_in_window_us")


def insane(interpretation: Any) -> list[str]:
    """What an interpretation says that cannot be true, whatever the file was."""
    analysis = msgspec.json.decode(msgspec.json.encode(interpretation.analysis))
    said = [f"{path} = {value}" for path, value in _leaves(analysis) if _bad(value)]
    said += [f"{path} = {value}" for path, value in _leaves(analysis) if _elapsed(path) and value > 3 * LONGEST_US]
    for step in analysis["steps"]:
        if "gpu_tail_us" in step and not step["gpu_foreign_in_window_us"] <= step["gpu_busy_in_window_us"]:
            said.append(f"more foreign than busy: {step}")
        if "gpu_tail_us" in step and not step["gpu_busy_in_window_us"] <= step["cpu_us"]:
            said.append(f"busier than the step is long: {step}")
    gpu = analysis["gpu"]
    if gpu["observed"] and not gpu["busy_us"] <= gpu["span_us"] + 1e-6:
        said.append(f"more than 100 % busy: {gpu}")
    if gpu["observed"] and not gpu["busy_us"] <= gpu["sum_us"] * (1 + 1e-12):
        said.append(f"busy longer than the sum: {gpu}")
    if not gpu["observed"] and any(key.startswith("gpu_") for key in _keys(analysis)):
        said.append("a device's number where none was observed")
    for finding in analysis["findings"]:
        share = finding["share_of_step"]
        if share is not None and not 0 <= share <= 1:
            said.append(f"{finding['id']} explains {share}")
    return said + _insane_picture(interpretation.timeline)


def _insane_picture(timeline: Any) -> list[str]:
    said = []
    if not 0 <= timeline.duration_us <= 3 * LONGEST_US:
        said.append(f"a picture of {timeline.duration_us} us")
    for lane in timeline.lanes:
        for span in lane.spans:
            end = span.start_us + span.duration_us
            if span.start_us < 0 or span.duration_us < 0 or end > timeline.duration_us * (1 + 1e-9) + 1e-3:
                said.append(f"outside the picture: {span}")
    within = [0 <= min(arrow.from_us, arrow.to_us) <= timeline.duration_us + 1e-3 for arrow in timeline.arrows]
    return said + ["an arrow from nowhere"] * (not all(within))


def _elapsed(path: str) -> bool:
    return path.rsplit(".", 1)[-1] in ELAPSED


def _bad(value: Any) -> bool:
    return isinstance(value, (int, float)) and not (value >= 0 and math.isfinite(value))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)
