"""What a picture of the window needs: lanes with spans on one axis of time, and arrows from launch to device work."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.model import Arrow, Lane, Span, Timeline
from stepprof_lab.trace.operators import by_lane
from stepprof_lab.trace.reader import Kind
from stepprof_lab.trace.steps import is_step, us

if TYPE_CHECKING:
    from stepprof_lab.trace.intervals import Int64
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

SPANS_A_LANE = 3000
"""More than a picture of a thousand pixels can show; the shortest are left out and counted."""
ARROWS = 400
LANES_OF_A_KIND = 16
"""Threads, and streams, that are shown: the fullest ones."""

WORD_OF_KIND = {
    Kind.OPERATOR: "operator",
    Kind.ANNOTATION: "label",
    Kind.RUNTIME: "runtime",
    Kind.KERNEL: "kernel",
    Kind.COPY: "copy",
    Kind.MEMSET: "memset",
}

LaneKind = Literal["steps", "labels", "cpu", "device"]


@dataclasses.dataclass
class _Picture:
    """What is put together while lanes are added."""

    trace: Trace
    low: int
    high: int
    lanes: list[Lane] = dataclasses.field(default_factory=list)
    lane_of: dict[int, int] = dataclasses.field(default_factory=dict)
    """Place of the lane in the picture, by lane of the trace; threads and streams only."""
    unseen: dict[str, int] = dataclasses.field(default_factory=dict)
    """Lanes that are left out, by what they are."""


def build(trace: Trace, steps: Steps, device: DeviceWork) -> Timeline:
    """The steps and the work that they launched; the whole record where no step is marked."""
    low, high = _window(trace, steps, device)
    picture = _Picture(trace, low, high)
    stepping = is_step(trace)[trace.name_id]
    labels = trace.of(Kind.ANNOTATION)
    labels = labels[~stepping[labels]]
    calls = trace.of(Kind.OPERATOR, Kind.RUNTIME)
    calls = calls[~stepping[calls]]
    if len(steps):
        picture.lanes.append(_lane(picture, "steps", "steps", steps.rows, word="step"))
    _add(picture, "labels", labels)
    _add(picture, "cpu", calls)
    _add(picture, "device", device.rows)
    arrows, left_out = _arrows(picture, device)
    return Timeline(us(high - low), picture.lanes, arrows, _note(picture, steps, left_out))


def _window(trace: Trace, steps: Steps, device: DeviceWork) -> tuple[int, int]:
    """From the first step to the end of the last one and of all that the steps launched; ns."""
    if not len(steps):
        return int(trace.start.min()), int(trace.end.max())
    mine = device.launched_in(steps.window())
    last = int(steps.end.max())
    return int(steps.start.min()), max(last, int(device.end[mine].max())) if mine.any() else last


def _visible(picture: _Picture, rows: Int64) -> Int64:
    start, end = picture.trace.start[rows], picture.trace.end[rows]
    inside = (end > picture.low) & (start < picture.high) | ((start == end) & (start == picture.low))
    kept: Int64 = rows[inside]
    return kept


def _add(picture: _Picture, kind: LaneKind, rows: Int64) -> None:
    """Add a lane for each thread or stream that has something to show."""
    parts = by_lane(picture.trace, _visible(picture, rows))
    by_fullness = sorted(parts, key=len, reverse=True)
    kept = {int(picture.trace.lane_id[part[0]]) for part in by_fullness[:LANES_OF_A_KIND]}
    if len(parts) > len(kept):
        word = {"labels": "threads with labels", "cpu": "CPU threads"}.get(kind, "device streams")
        picture.unseen[word] = len(parts) - len(kept)
    for part in parts:
        lane = int(picture.trace.lane_id[part[0]])
        if lane not in kept:
            continue
        title = _title(picture, lane, alone=kind == "labels" and len(parts) == 1)
        picture.lanes.append(_lane(picture, title, kind, part))
        if kind != "labels":
            picture.lane_of[lane] = len(picture.lanes) - 1


def _title(picture: _Picture, lane: int, *, alone: bool) -> str:
    if alone:
        return "labels"
    where = picture.trace.lanes[lane]
    if where.device:
        return f"device {where.owner} stream {where.row}"
    return where.title or f"thread {where.row}"


def _lane(picture: _Picture, title: str, kind: LaneKind, rows: Int64, word: str | None = None) -> Lane:
    """One lane; depth is the nesting of all its spans, those that are left out too."""
    trace = picture.trace
    if kind == "labels" and title != "labels":
        title = f"labels, {title}"
    start, end = trace.start[rows], trace.end[rows]
    depth = np.zeros(len(rows), dtype=np.int64) if kind == "device" else intervals.nesting(start, end)[1]
    drawn_from, drawn_to = np.maximum(start, picture.low), np.minimum(end, picture.high)
    longest = np.argsort(-(drawn_to - drawn_from), kind="stable")[:SPANS_A_LANE]
    kept = longest[np.lexsort((depth[longest], drawn_from[longest]))]
    spans = [
        Span(
            trace.names[int(trace.name_id[rows[i]])],
            us(drawn_from[i] - picture.low),
            us(drawn_to[i] - drawn_from[i]),
            int(depth[i]),
            word or WORD_OF_KIND[Kind(int(trace.kind[rows[i]]))],
        )
        for i in kept.tolist()
    ]
    return Lane(title, kind, spans, omitted=len(rows) - len(spans))


def _arrows(picture: _Picture, device: DeviceWork) -> tuple[list[Arrow], int]:
    """From each launch in the window to its device work; the longest device events have their arrow drawn."""
    trace = picture.trace
    seen = np.flatnonzero(
        device.linked
        & (device.launched_at >= picture.low)
        & (device.start < picture.high)
        & (device.start >= picture.low)
    )
    drawn = seen[np.argsort(-(device.end[seen] - device.start[seen]), kind="stable")][:ARROWS]
    arrows = []
    for i in np.sort(drawn).tolist():
        source = picture.lane_of.get(int(trace.lane_id[device.launch_row[i]]))
        target = picture.lane_of.get(int(trace.lane_id[device.rows[i]]))
        if source is not None and target is not None:
            begin, work = device.launched_at[i] - picture.low, device.start[i] - picture.low
            arrows.append(Arrow(source, us(begin), target, us(work)))
    return arrows, len(seen) - len(arrows)


def _note(picture: _Picture, steps: Steps, arrows_left_out: int) -> str | None:
    said = [] if len(steps) else ["No step is marked: the whole record is shown."]
    omitted = sum(lane.omitted for lane in picture.lanes)
    if omitted:
        said.append(f"{omitted} of the shortest spans are left out.")
    said += [f"{count} {what} with fewer spans are left out." for what, count in picture.unseen.items()]
    if arrows_left_out:
        said.append(f"{arrows_left_out} arrows to shorter device work are left out.")
    return " ".join(said) or None
