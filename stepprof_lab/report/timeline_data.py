"""The spans of a timeline as the page carries them: columns of bytes, compressed, in a JSON object that is only text.

Every column is a list of non-negative integers in the order of rows (lane, depth, start). It is written as planes: the
lowest byte of all values, then the second lowest, and so on, as many as its largest value needs. All planes, then the
names as JSON, are compressed together (zlib) and written as base64. `timeline_view.js` reads it.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepprof_lab.report import words
from stepprof_lab.report.drawing import KIND_LOOKS, LABEL_LOOKS
from stepprof_lab.report.svg import findings_of, named_by
from stepprof_lab.trace.detail import Detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.report.drawing import Look
    from stepprof_lab.trace.intervals import Int64
    from stepprof_lab.trace.model import Finding, Timeline

LARGEST = 3_600_000
"""Characters of base64, at the most; a page may have less room."""
NAMES_LARGEST = 8_000_000
"""Characters of all names together, before compression; longer ones are cut."""
LONGEST_NAME = 300
SHORTEST_NAME = 12


class Embedded(NamedTuple):
    """The data for a page."""

    text: str
    """JSON; nothing in it can end a ``script`` element."""
    left_out: list[str]
    """What was left out to keep it small, one sentence each."""


def embedded(timeline: Timeline, findings: Sequence[Finding], largest: int = LARGEST) -> Embedded:
    """The spans of a timeline as text.

    Args:
        timeline: its `detail`, or where it has none the spans of its lanes.
        findings: what their evidence names is marked, where the timeline has no detail that says it.
        largest: characters that the columns may take; short spans go into bundles until they fit.
    """
    detail = timeline.detail if timeline.detail is not None else from_spans(timeline, findings)
    largest = min(largest, LARGEST)
    given = len(detail)
    packed, names = _packed(detail)
    while len(packed) > largest and len(detail) > 1000:
        detail = detail.coarser(int(len(detail) * min(0.8, 0.9 * largest / len(packed))))
        packed, names = _packed(detail)
    data = _around(timeline, detail, names) | {"data": packed}
    text = json.dumps(data, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Embedded(text, _left_out(detail, given))


def _left_out(detail: Detail, given: int) -> list[str]:
    said = []
    if len(detail) < given:
        spans = words.counted(int(detail.count.sum()), "span")
        said.append(
            f"To keep the page small, {spans} come in {len(detail)} bars: short ones in bundles, of which only the "
            "longest has its name here. The trace has them all."
        )
    used, longest = _used_names(detail)
    cut = sum(len(detail.names[name]) > longest for name in used)
    if cut:
        said.append(
            f"{words.counted(cut, 'name')} of more than {longest} characters cut here; the trace has them whole."
        )
    return said


def _around(timeline: Timeline, detail: Detail, names: int) -> dict[str, Any]:
    """What stands beside the columns: lanes with the length of each row, looks, findings."""
    rows: list[list[int]] = [[] for _ in timeline.lanes]
    if len(detail):
        pairs, counts = np.unique(np.stack((detail.lane, detail.depth)), axis=1, return_counts=True)
        for lane, depth, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            rows[lane] += [0] * (depth - len(rows[lane])) + [count]
    lanes = [
        {"title": _shown(lane.title), "note": _shown(lane.note), "kind": lane.kind, "rows": row}
        for lane, row in zip(timeline.lanes, rows, strict=True)
    ]
    looks = [_look(kind, KIND_LOOKS.get(kind, KIND_LOOKS["other"])) for kind in detail.kinds]
    return {
        "duration": round(timeline.duration_us * 1000),
        "count": len(detail),
        "lanes": lanes,
        "looks": looks,
        "labelLooks": [_look("", look) for look in LABEL_LOOKS],
        "findings": [_shown(ident) for ident in detail.found],
        "planes": [_planes(column) for column in _columns(detail).values()],
        "names": names,
    }


def _look(name: str, look: Look) -> dict[str, str]:
    return {"name": name, **look._asdict()}


def _shown(name: str, longest: int = LONGEST_NAME) -> str:
    """A name as a page shows it: without what would move the cursor or turn the line around."""
    return words.visible(words.shorten(words.visible(words.shorten(name, longest)), longest))


# ---- columns ----


def _columns(detail: Detail) -> dict[str, Int64]:
    """The columns, in the order in which they are written; `timeline_view.js` has the same list."""
    length = detail.end - detail.start
    begins = np.diff(detail.start, prepend=0)
    new_row = np.diff(detail.lane * (int(detail.depth.max(initial=0)) + 1) + detail.depth, prepend=-1) != 0
    begins[new_row] = detail.start[new_row]
    bundled = detail.count > 1
    operator = detail.kind_id == detail.kinds.index("operator") if "operator" in detail.kinds else bundled
    own = np.where(bundled, detail.own + 1, np.where(operator & (detail.own >= 0), length - detail.own + 1, 0))
    _, name = np.unique(detail.name_id, return_inverse=True)
    return {
        "begins": begins,
        "length": length,
        "name": name.reshape(-1).astype(np.int64),
        "kind": detail.kind_id,
        "count": detail.count - 1,
        "own": np.maximum(own, 0),
        "launch": _zigzag(np.diff(detail.launch + 1, prepend=0)),
        "evidence": detail.evidence.astype(np.int64),
    }


def _zigzag(values: Int64) -> Int64:
    """Signed values as unsigned ones, small ones small."""
    return np.where(values < 0, -2 * values - 1, 2 * values)


def _planes(column: Int64) -> int:
    """Bytes that the largest value of a column needs."""
    return (int(column.max(initial=0)).bit_length() + 7) // 8


def _packed(detail: Detail) -> tuple[str, int]:
    """All columns and names as base64, and the number of bytes that the names take before compression."""
    pieces = [
        column.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : _planes(column)].T.tobytes()
        for column in _columns(detail).values()
    ]
    names = json.dumps(_names(detail), separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(b"".join([*pieces, names]), 7)).decode("ascii"), len(names)


def _names(detail: Detail) -> list[list[Any]]:
    """Each name that is used with the place of its look among the labels' (-1: it is no label)."""
    used, longest = _used_names(detail)
    looks = _looks_of_labels(detail)
    return [[_shown(detail.names[name], longest), looks.get(name, -1)] for name in used]


def _used_names(detail: Detail) -> tuple[list[int], int]:
    """The names of bars, and how many characters of each are kept."""
    used: list[int] = np.unique(detail.name_id).tolist()
    return used, min(LONGEST_NAME, max(SHORTEST_NAME, NAMES_LARGEST // max(len(used), 1)))


def _looks_of_labels(detail: Detail) -> dict[int, int]:
    """By name, in the order in which the still picture gives them."""
    if "label" not in detail.kinds:
        return {}
    labels = np.flatnonzero(detail.kind_id == detail.kinds.index("label"))
    ordered = labels[np.lexsort((detail.start[labels], detail.lane[labels]))]
    distinct = dict.fromkeys(detail.name_id[ordered].tolist())
    return {name: place % len(LABEL_LOOKS) for place, name in enumerate(distinct)}


# ---- a timeline without detail ----


def from_spans(timeline: Timeline, findings: Sequence[Finding]) -> Detail:
    """The spans of the still picture as columns; self times are not known, launches are those of the arrows."""
    named = named_by(findings)
    ids = [finding.id for finding in findings[:16]]
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    table = sorted(
        (
            lane_number,
            min(span.depth, 255),
            round(span.start_us * 1000),
            round((span.start_us + span.duration_us) * 1000),
            names.setdefault(span.name, len(names)),
            kinds.setdefault(span.kind, len(kinds)),
            span.count,
            sum(1 << ids.index(ident) for ident in set(findings_of(span, named)) if ident in ids),
        )
        for lane_number, lane in enumerate(timeline.lanes)
        for span in lane.spans
    )
    columns = np.array(table, dtype=np.int64).reshape(-1, 8).T
    lane, depth, start, end, name_id, kind_id, count, evidence = columns
    return Detail(
        lane=lane,
        depth=depth,
        start=np.maximum(start, 0),
        end=np.maximum(end, 0),
        name_id=name_id,
        names=list(names),
        kind_id=kind_id,
        kinds=list(kinds),
        count=count,
        own=np.full(len(table), -1, dtype=np.int64),
        launch=_launches_of_arrows(timeline, table),
        evidence=evidence.astype(np.uint16),
        found=ids,
    )


def _launches_of_arrows(timeline: Timeline, table: Sequence[Sequence[int]]) -> Int64:
    places = {(row[0], row[2]): number for number, row in enumerate(table)}
    exact = {(row[0], row[1], row[2]): number for number, row in enumerate(table)}
    launch = np.full(len(table), -1, dtype=np.int64)
    for arrow in timeline.arrows:
        at = round(arrow.from_us * 1000)
        source = exact.get((arrow.from_lane, arrow.from_depth, at), places.get((arrow.from_lane, at)))
        target = places.get((arrow.to_lane, round(arrow.to_us * 1000)))
        if source is not None and target is not None:
            launch[target] = source
    return launch
