"""What a picture of the window needs: lanes with spans on one axis of time, and arrows from launch to device work.

Lanes stand in the order in which work flows: the steps, then each thread with its labels and its calls, and a stream
under the threads that launch to it. No span is left out of a lane that is shown: where there are more than can be
drawn, short neighbours become one bundle (`stepprof_lab.trace.detail`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.detail import Detail, apart, bundle
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.model import Arrow, Lane, Span, Timeline
from stepprof_lab.trace.operators import by_lane
from stepprof_lab.trace.steps import find_drawn_work, is_step, us

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stepprof_lab.trace.intervals import Bool, Int64
    from stepprof_lab.trace.model import Finding
    from stepprof_lab.trace.reader import Lane as LaneOfTrace
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

SPANS_A_LANE = 3000
"""Bars of a lane in the still picture: more than a thousand pixels can show."""
SPANS_IN_DETAIL = 500_000
"""Bars in the view that can be zoomed: several times what the largest real traces at hand have; some 3 MB in a page."""
ARROWS = 400
LANES_OF_A_KIND = 16
"""Threads, and streams, that are shown: the fullest ones."""
THREADS = 1000
"""Threads that are looked at for it, likewise: a file may have a hundred thousand."""
DEEPEST = 255
"""Deeper nesting is drawn in this row."""
DEVICE_ROWS = 8
"""Rows of a stream, at the most: work of one stream that overlaps (graphs, dependent launches) lies in rows of its own.
Where more is at work at once, the rest lies in the last one."""
SMALL_SHARE = 0.02
"""A thread that launches less of a stream's work than that does not draw the stream under itself."""
FINDINGS_MARKED = 16
BACKWARD = re.compile(r"^autograd::engine::|Backward\d*$")
"""What only the thread of the backward pass runs."""

WORD_OF_KIND = {
    Kind.OPERATOR: "operator",
    Kind.ANNOTATION: "label",
    Kind.RUNTIME: "runtime",
    Kind.KERNEL: "kernel",
    Kind.COPY: "copy",
    Kind.MEMSET: "memset",
    Kind.PRACTICE: "simulated",
}
KINDS = [*WORD_OF_KIND.values(), "step"]

LaneKind = Literal["steps", "labels", "cpu", "device", "practice"]


@dataclasses.dataclass
class _Draft:
    """A lane before it is drawn: all its spans inside the window."""

    kind: LaneKind
    lane_id: int
    """Of the trace."""
    rows: Int64
    """Of the trace."""
    depth: Int64
    title: str = ""
    note: str = ""


@dataclasses.dataclass
class _Picture:
    """What is put together while lanes are added."""

    trace: Trace
    device: DeviceWork
    low: int
    high: int
    marks: npt.NDArray[np.uint16]
    """For each name, the findings whose evidence it is: bit n is finding n."""
    found: list[str]
    own: Int64
    """Self time of each host span; ns."""
    drafts: list[_Draft] = dataclasses.field(default_factory=list)
    unseen: dict[str, int] = dataclasses.field(default_factory=dict)
    """Lanes that are left out, by what they are."""

    def clipped(self, rows: Int64) -> tuple[Int64, Int64]:
        """Start and end of rows inside the window, in ns from its beginning."""
        start = np.clip(self.trace.start[rows], self.low, self.high) - self.low
        return start, np.clip(self.trace.end[rows], self.low, self.high) - self.low

    def kinds(self, draft: _Draft) -> Int64:
        """What each row is, as a place in `KINDS`."""
        if draft.kind == "steps":
            return np.full(len(draft.rows), KINDS.index("step"), dtype=np.int64)
        place = np.zeros(len(Kind), dtype=np.int64)
        for kind, word in WORD_OF_KIND.items():
            place[kind] = KINDS.index(word)
        return place[self.trace.kind[draft.rows]]


def build(trace: Trace, steps: Steps, device: DeviceWork, findings: Sequence[Finding] = ()) -> Timeline:
    """The steps and the work that they launched; the whole record where no step is marked.

    Args:
        trace: the events.
        steps: its steps.
        device: its device work.
        findings: what their evidence names is marked, inside bundles too.
    """
    if len(trace.of(Kind.PRACTICE)):
        device = find_drawn_work(trace)
    low, high = _window(trace, steps, device)
    marks, found = _marks(trace, findings)
    picture = _Picture(trace, device, low, high, marks, found, trace.end - trace.start)
    if len(steps):
        rows = steps.rows
        picture.drafts.append(_Draft("steps", int(trace.lane_id[rows[0]]), rows, np.zeros(len(rows), dtype=np.int64)))
    labels, calls = _host(picture)
    streams = _streams(picture)
    _arrange(picture, labels, calls, streams, int(trace.lane_id[steps.rows[0]]) if len(steps) else -1)
    detail = _detail(picture)
    arrows, launched = _arrows(picture)
    lanes = [_lane(picture, draft) for draft in picture.drafts]
    return Timeline(us(high - low), lanes, arrows, _note(picture, steps), launched, detail)


def _window(trace: Trace, steps: Steps, device: DeviceWork) -> tuple[int, int]:
    """From the first step to the end of the last one and of all that the steps launched; ns."""
    if not len(steps):
        return int(trace.start.min()), int(trace.end.max())
    mine = device.launched_in(steps.window())
    last = int(steps.end.max())
    return int(steps.start.min()), max(last, int(device.end[mine].max())) if mine.any() else last


def _marks(trace: Trace, findings: Sequence[Finding]) -> tuple[npt.NDArray[np.uint16], list[str]]:
    """For each name of the trace the findings whose evidence it is, as bits; and the findings' ids."""
    marked = findings[:FINDINGS_MARKED]
    bits: dict[str, int] = {}
    for number, finding in enumerate(marked):
        for name in finding.names_of_spans():
            bits[name] = bits.get(name, 0) | 1 << number
    marks = np.fromiter((bits.get(name, 0) for name in trace.names), dtype=np.uint16, count=len(trace.names))
    return marks, [finding.id for finding in marked]


def _inside(picture: _Picture, rows: Int64) -> Bool:
    start, end = picture.trace.start[rows], picture.trace.end[rows]
    inside: Bool = (end > picture.low) & (start < picture.high) | ((start == end) & (start == picture.low))
    return inside


# ---- which lanes there are ----


def _host(picture: _Picture) -> tuple[list[_Draft], list[_Draft]]:
    """The labels and the calls of each thread; notes the self time of their spans on the way."""
    trace = picture.trace
    stepping = is_step(trace)[trace.name_id]
    nested_in, depths = trace.nesting
    place = np.zeros(len(trace), dtype=np.int64)
    labels: list[_Draft] = []
    calls: list[_Draft] = []
    lanes = by_lane(trace, trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME))
    few = len(lanes) - THREADS
    if few > 0:
        lanes = sorted(lanes, key=len, reverse=True)[:THREADS]
        picture.unseen["other CPU threads"] = few
    for rows in lanes:
        start, end = trace.start[rows], trace.end[rows]
        place[rows] = np.arange(len(rows))
        parent, depth = np.where(nested_in[rows] >= 0, place[nested_in[rows]], -1), depths[rows]
        child = np.flatnonzero(parent >= 0)
        nested = np.minimum(end[child], end[parent[child]]) - start[child]
        np.subtract.at(picture.own, rows[parent[child]], nested)
        crossing = bool((end[child] > end[parent[child]]).any())
        is_label = (trace.kind[rows] == Kind.ANNOTATION) & ~stepping[rows]
        is_call = (trace.kind[rows] != Kind.ANNOTATION) & ~stepping[rows]
        visible = _inside(picture, rows)
        for drafts, wanted in ((labels, is_label), (calls, is_call)):
            shown = wanted & visible
            if shown.any():
                among = _depth_alone(wanted, start, end) if crossing else _depth_among(wanted, parent, depth)
                among = np.minimum(among, DEEPEST)
                kind: LaneKind = "labels" if drafts is labels else "cpu"
                drafts.append(_Draft(kind, int(trace.lane_id[rows[0]]), rows[shown], among[shown]))
    return _fullest(picture, labels, "threads with labels"), _fullest(picture, calls, "CPU threads")


def _depth_among(wanted: Bool, parent: Int64, depth: Int64) -> Int64:
    """How many of the wanted spans are open around each span."""
    among = np.zeros(len(parent), dtype=np.int64)
    by_depth = np.argsort(depth, kind="stable")
    for level in np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)[1:]:
        above = parent[level]
        among[level] = among[above] + wanted[above]
    return among


def _depth_alone(wanted: Bool, start: Int64, end: Int64) -> Int64:
    """The same where spans cross each other: one that ended must not count because it began around one that did not."""
    among = np.zeros(len(start), dtype=np.int64)
    among[wanted] = intervals.nesting(start[wanted], end[wanted])[1]
    return among


def _streams(picture: _Picture) -> list[_Draft]:
    """The device work of each stream; what overlaps in rows below each other."""
    rows = picture.device.rows
    drafts = [
        _Draft(
            _kind_of(picture, part),
            int(picture.trace.lane_id[part[0]]),
            part,
            apart(picture.trace.start[part], picture.trace.end[part], DEVICE_ROWS),
        )
        for part in by_lane(picture.trace, rows[_inside(picture, rows)])
    ]
    return _fullest(picture, drafts, "device streams")


def _kind_of(picture: _Picture, rows: Int64) -> LaneKind:
    return "practice" if picture.trace.kind[rows[0]] == Kind.PRACTICE else "device"


def _fullest(picture: _Picture, drafts: list[_Draft], word: str) -> list[_Draft]:
    """The lanes with the most spans, in the order in which they were given."""
    if len(drafts) <= LANES_OF_A_KIND:
        return drafts
    picture.unseen[word] = len(drafts) - LANES_OF_A_KIND
    kept = sorted(range(len(drafts)), key=lambda n: -len(drafts[n].rows))[:LANES_OF_A_KIND]
    return [drafts[n] for n in sorted(kept)]


# ---- in which order they stand, and what they are called ----


def _arrange(
    picture: _Picture, labels: list[_Draft], calls: list[_Draft], streams: list[_Draft], stepping: int
) -> None:
    """Put each thread's labels above its calls, and each stream under the last thread that launches to it."""
    launched = _launched(picture, streams)
    threads = list(dict.fromkeys(draft.lane_id for draft in [*labels, *calls]))
    by_thread = {thread: sum(counts.get(thread, 0) for counts in launched.values()) for thread in threads}
    labelled = {draft.lane_id for draft in labels}
    threads.sort(key=lambda thread: (thread != stepping, thread not in labelled, -by_thread[thread]))
    places = {thread: n for n, thread in enumerate(threads)}
    under: dict[int, list[_Draft]] = {}
    for stream in streams:
        counts = launched[stream.lane_id]
        from_here = [thread for thread in counts if thread in places]
        stream.note = _launched_by(picture, counts)
        most = max((counts[thread] for thread in from_here), default=0)
        real = [places[thread] for thread in from_here if counts[thread] >= SMALL_SHARE * most]
        under.setdefault(max(real, default=-1), []).append(stream)
    for place, thread in enumerate(threads):
        mine = [draft for draft in [*labels, *calls] if draft.lane_id == thread]
        for draft in mine:
            _name_thread(picture, draft, alone=len(labels) == 1, stepping=stepping)
        picture.drafts += mine + sorted(under.get(place, ()), key=lambda stream: -len(stream.rows))
    picture.drafts += under.get(-1, [])
    for draft in picture.drafts:
        if draft.kind == "steps":
            draft.title = "steps"
        elif draft.kind == "device":
            draft.title = _name(picture, draft.lane_id)
        elif draft.kind == "practice":
            draft.title = f"simulated stream {picture.trace.lanes[draft.lane_id].row}"


def _launched(picture: _Picture, streams: list[_Draft]) -> dict[int, dict[int, int]]:
    """For each stream how many of its shown events each thread launched; by lanes of the trace."""
    trace, device = picture.trace, picture.device
    seen = np.flatnonzero(device.linked & _inside(picture, device.rows))
    lanes = len(trace.lanes)
    pairs = trace.lane_id[device.rows[seen]] * np.int64(lanes) + trace.lane_id[device.launch_row[seen]]
    launched: dict[int, dict[int, int]] = {stream.lane_id: {} for stream in streams}
    if pairs.size:
        distinct, counts = np.unique(pairs, return_counts=True)
        for pair, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            launched.get(pair // lanes, {})[pair % lanes] = count
    return launched


def _launched_by(picture: _Picture, counts: dict[int, int]) -> str:
    if not counts:
        return "launches not in the trace"
    most = sorted(counts, key=lambda thread: -counts[thread])
    said = ", ".join(picture.trace.lanes[thread].row for thread in most[:2])
    more = f" and {len(most) - 2} more" if len(most) > 2 else ""
    return f"from thread{'s' if len(most) > 1 else ''} {said}{more}"


def _name(picture: _Picture, lane_id: int) -> str:
    """What a lane of the trace is called; with the process where several take part."""
    where = picture.trace.lanes[lane_id]
    if where.device:
        return f"device {where.owner} stream {where.row}"
    named = f"thread {where.row}" if _own_name(where) or not where.title else where.title
    host = {lane.owner for lane in picture.trace.lanes if not lane.device}
    return named if len(host) == 1 else f"process {where.owner}, {named}"


def _own_name(where: LaneOfTrace) -> str:
    """What the program called a thread: the profiler writes ``thread 42 (python)``."""
    before = f"thread {where.row} ("
    return where.title[len(before) : -1] if where.title.startswith(before) and where.title.endswith(")") else ""


def _name_thread(picture: _Picture, draft: _Draft, *, alone: bool, stepping: int) -> None:
    named = _name(picture, draft.lane_id)
    if draft.kind == "labels":
        draft.title = "labels" if alone else f"labels, {named}"
        return
    draft.title = named
    known = [_own_name(picture.trace.lanes[draft.lane_id])]
    if draft.lane_id == stepping:
        known.append("runs the steps")
    elif _runs_backward(picture, draft):
        known.append("runs backward")
    draft.note = ", ".join(filter(None, known))


def _runs_backward(picture: _Picture, draft: _Draft) -> bool:
    return any(BACKWARD.search(name) for name in picture.trace.names_of(draft.rows))


# ---- what is drawn ----


def _lane(picture: _Picture, draft: _Draft) -> Lane:
    """One lane of the still picture."""
    start, end = picture.clipped(draft.rows)
    groups = bundle(start, end, draft.depth, SPANS_A_LANE)
    longest = groups.longest(start, end)
    name_id, kind = picture.trace.name_id[draft.rows], picture.kinds(draft)
    marks = groups.any_of(picture.marks[name_id])
    columns = (longest, groups.start(start), groups.end(end), groups.count, marks)
    spans = [
        Span(
            picture.trace.names[int(name_id[i])],
            us(begins),
            us(ends - begins),
            int(draft.depth[i]),
            KINDS[int(kind[i])],
            count,
            _ids(picture, bits),
            us(end[i] - start[i]) if count > 1 else 0.0,
        )
        for i, begins, ends, count, bits in zip(*(column.tolist() for column in columns), strict=True)
    ]
    spans.sort(key=lambda span: span.start_us)
    return Lane(draft.title, draft.kind, spans, note=draft.note)


def _ids(picture: _Picture, bits: int) -> tuple[str, ...]:
    return tuple(ident for n, ident in enumerate(picture.found) if bits >> n & 1) if bits else ()


def _detail(picture: _Picture) -> Detail | None:
    """Every span of every lane, in bundles only where there are more than `SPANS_IN_DETAIL`."""
    drafts = picture.drafts
    if not drafts:
        return None
    rows = np.concatenate([draft.rows for draft in drafts])
    lane = np.repeat(np.arange(len(drafts)), [len(draft.rows) for draft in drafts])
    depth = np.concatenate([draft.depth for draft in drafts])
    start, end = picture.clipped(rows)
    row = lane * (DEEPEST + 1) + depth
    groups = bundle(start, end, row, SPANS_IN_DETAIL)
    longest = groups.longest(start, end)
    covered = groups.covered(start, end, row)
    kind = np.concatenate([picture.kinds(draft) for draft in drafts])
    return Detail(
        lane=lane[longest],
        depth=depth[longest],
        start=groups.start(start),
        end=groups.end(end),
        name_id=picture.trace.name_id[rows[longest]].astype(np.int64),
        names=picture.trace.names,
        kind_id=kind[longest],
        kinds=KINDS,
        count=groups.count,
        own=np.where(groups.count > 1, covered, picture.own[rows[longest]]),
        launch=_launches(picture, rows, lane, groups.group_of_span())[longest],
        evidence=groups.any_of(picture.marks[picture.trace.name_id[rows]]),
        found=picture.found,
    )


def _launches(picture: _Picture, rows: Int64, lane: Int64, group: Int64) -> Int64:
    """For each span the group that holds its launch; -1 where that is not shown."""
    trace, device = picture.trace, picture.device
    is_call = np.array([draft.kind == "cpu" for draft in picture.drafts], dtype=np.bool_)[lane]
    group_of_row = np.full(len(trace) + 1, -1, dtype=np.int64)
    group_of_row[rows[is_call]] = group[is_call]
    launch_of_row = np.full(len(trace), -1, dtype=np.int64)
    launch_of_row[device.rows] = device.launch_row
    return group_of_row[launch_of_row[rows]]


def _arrows(picture: _Picture) -> tuple[list[Arrow], int]:
    """From each launch in the window to its device work, the longest work first; and how many launches there are."""
    trace, device = picture.trace, picture.device
    depth_of_row: dict[int, int] = {}
    linked = {"cpu", "device", "practice"}
    lane_of = {draft.lane_id: n for n, draft in enumerate(picture.drafts) if draft.kind in linked}
    seen = np.flatnonzero(
        device.linked
        & (device.launched_at >= picture.low)
        & (device.start < picture.high)
        & (device.start >= picture.low)
    )
    drawn = seen[np.argsort(-(device.end[seen] - device.start[seen]), kind="stable")][:ARROWS]
    wanted = device.launch_row[drawn]
    for draft in picture.drafts:
        if draft.kind == "cpu":
            here = np.isin(draft.rows, wanted)
            depth_of_row.update(zip(draft.rows[here].tolist(), draft.depth[here].tolist(), strict=True))
    arrows = []
    for i in np.sort(drawn).tolist():
        source = lane_of.get(int(trace.lane_id[device.launch_row[i]]))
        target = lane_of.get(int(trace.lane_id[device.rows[i]]))
        if source is not None and target is not None:
            begin, work = device.launched_at[i] - picture.low, device.start[i] - picture.low
            depth = depth_of_row.get(int(device.launch_row[i]), 0)
            arrows.append(Arrow(source, us(begin), target, us(work), depth))
    return arrows, len(seen)


def _note(picture: _Picture, steps: Steps) -> str | None:
    said = [] if len(steps) else ["No step is marked: the whole record is shown."]
    said += [f"{count} {what} with fewer spans are left out." for what, count in picture.unseen.items()]
    return " ".join(said) or None
