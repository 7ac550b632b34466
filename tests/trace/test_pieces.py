"""A trace that is decoded in pieces gives what it gives at once, and what cannot be cut is decoded at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepprof_lab.trace import intervals, pieces, reader

if TYPE_CHECKING:
    from pathlib import Path


def events(count: int) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": f'aten::"{n % 7}}}, {{"', "pid": 1, "tid": n % 3, "ts": 10 * n, "dur": 4}
        for n in range(count)
    ]


def put(path: Path, held: list[dict[str, Any]], **around: Any) -> Path:
    path.write_text(json.dumps({"host_name": "here", "traceEvents": held, **around}, indent=1))
    return path


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = pieces.cut
    monkeypatch.setattr(pieces, "cut", lambda data: cut(data, 500))


def test_pieces_put_together_are_the_text() -> None:
    data = json.dumps({"traceEvents": events(100)}).encode()
    cut = pieces.cut(data, 1000)
    assert cut is not None
    assert len(cut.pieces) > 5
    listed = [json.loads(b"[" + data[begin:end] + b"]") for begin, end in cut.pieces]
    listed.append(json.loads(b"[" + data[cut.rest : -1]))
    assert [event for part in listed for event in part] == events(100)


def test_a_short_text_is_not_cut() -> None:
    assert pieces.cut(json.dumps({"traceEvents": events(10)}).encode()) is None


@pytest.mark.usefixtures("small_pieces")
def test_the_same_events_as_at_once(tmp_path: Path) -> None:
    trace = reader.read(put(tmp_path / "t.json", events(90), trace_id="X"))
    assert (trace.start == np.arange(90) * 10_000).all()
    assert [trace.names[i] for i in trace.name_id] == [event["name"] for event in events(90)]
    assert [trace.lanes[i].row for i in trace.lane_id] == [str(n % 3) for n in range(90)]
    assert (trace.metadata.host_name, trace.metadata.trace_id) == ("here", "X")
    assert trace.notes == []


@pytest.mark.usefixtures("small_pieces")
def test_an_event_in_an_event_is_not_taken_for_one(tmp_path: Path) -> None:
    held = events(60)
    held[30]["args"] = {"inner": [{"name": "no event", "filler": "x" * 900}, {"name": "nor this"}] * 3}
    assert len(reader.read(put(tmp_path / "t.json", held))) == 60


@pytest.mark.usefixtures("small_pieces")
def test_a_broken_piece_is_repaired_as_before(tmp_path: Path) -> None:
    path = put(tmp_path / "t.json", events(60))
    path.write_text(path.read_text().replace('"dur": 4', '"dur": NaN', 1))
    trace = reader.read(path)
    assert len(trace) == 59
    assert any("NaN" in note for note in trace.notes)


def test_nesting_without_crossings_is_the_same_level_by_level() -> None:
    start = np.array([0, 0, 0, 1, 1, 3, 5, 5, 9], dtype=np.int64)
    end = np.array([9, 5, 0, 3, 1, 3, 9, 5, 9], dtype=np.int64)
    order = np.lexsort((start - end, start))
    fast = intervals._without_crossings(start[order], end[order])
    slow = intervals._one_by_one(start[order], end[order])
    assert fast is not None
    assert all(np.array_equal(one, other) for one, other in zip(fast, slow, strict=True))


def test_crossing_intervals_are_seen() -> None:
    assert intervals._without_crossings(np.array([0, 5]), np.array([10, 15])) is None
