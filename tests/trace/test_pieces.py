"""A trace that is decoded in pieces gives what it gives at once, and what cannot be cut is decoded at once."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import intervals, pieces, reader, source
from stepprof_lab.trace.events import Event, LeftOut, decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def events(count: int) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": f'aten::"{n % 7}}}, {{"', "pid": 1, "tid": n % 3, "ts": 10 * n, "dur": 4}
        for n in range(count)
    ]


def put(path: Path, held: list[dict[str, Any]], **around: Any) -> Path:
    path.write_text(json.dumps({"host_name": "here", "traceEvents": held, **around}, indent=1))
    return path


def filling(data: bytes, most: int = 10**9) -> Callable[[memoryview], int]:
    """What puts a text into a buffer, so many bytes at a time."""
    stream = io.BytesIO(data)
    return lambda view: stream.readinto(view[:most])


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = pieces.cut
    monkeypatch.setattr(pieces, "cut", lambda fill: cut(fill, 800, 200))


@pytest.mark.parametrize("most", [1, 7, 10**6])
@pytest.mark.parametrize("indent", [None, 2])
def test_pieces_put_together_are_the_text(most: int, indent: int | None) -> None:
    data = json.dumps({"traceEvents": events(100), "last": 1}, indent=indent).encode()
    listed: list[list[Any]] = []
    heads = set()
    rest = None
    for part in pieces.cut(filling(data, most), 1000, 300):
        assert rest is None
        if isinstance(part, pieces.Rest):
            rest = json.loads(part.text)
        else:
            listed.append(json.loads(bytes(part.events)))
            heads.add(part.head)
    assert len(listed) > 5
    assert len(heads) == 1
    assert rest is not None
    assert rest["last"] == 1
    assert [event for part in [*listed, rest["traceEvents"]] for event in part] == events(100)


def test_a_short_text_is_not_cut() -> None:
    data = json.dumps({"traceEvents": events(10)}).encode()
    assert list(pieces.cut(filling(data))) == [pieces.Rest(data)]


def test_a_piece_grows_with_an_event_that_is_longer() -> None:
    held = events(30)
    held[10]["args"] = {"long": "x" * 5000}
    parts = list(pieces.cut(filling(json.dumps({"traceEvents": held}).encode()), 1000, 300))
    assert isinstance(parts[-1], pieces.Rest)


@pytest.mark.parametrize("text", ["", "[]", '{"traceEvents": 3}', '{"traceEvents": []}', '{"a": [{"ph": "X"}]}'])
def test_a_text_without_a_usual_list_cannot_be_cut(text: str) -> None:
    with pytest.raises(pieces.Uncut):
        list(pieces.cut(filling(text.encode())))


def test_an_event_without_an_end_cannot_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "FURTHEST", 5000)
    data = b'{"traceEvents": [{"ph": "' + b"x" * 100_000
    with pytest.raises(pieces.Uncut):
        list(pieces.cut(filling(data), 1000, 300))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each trace that is read was sound enough for pieces."""
    seen: list[bool] = []
    decode = reader._decode_pieces

    def watched(path: Path, gathered: Any) -> Any:
        found = decode(path, gathered)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(reader, "_decode_pieces", watched)
    return seen


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_a_sound_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    path = put(tmp_path / "t.json", events(400))
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    seen = counted(monkeypatch)
    assert len(reader.read(path)) == 400
    assert seen == [True]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-20],
        lambda data: data + b"more",
        lambda data: data[:100] + b"\xff" + data[101:],
        lambda data: data + gzip.compress(b"\n"),
        lambda data: data[:40] + gzip.compress(b"{}"),
    ],
    ids=["cut", "followed", "damaged", "two members", "two, the first cut"],
)
def test_a_damaged_packed_file_is_not_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    path = put(tmp_path / "t.json", events(400))
    path.write_bytes(spoil(gzip.compress(path.read_bytes())))
    seen = counted(monkeypatch)
    with contextlib.suppress(StepprofError):
        reader.read(path)
    assert seen == [False]


def test_a_file_that_changes_meanwhile_is_not_sound(tmp_path: Path) -> None:
    path = put(tmp_path / "t.json", events(4))
    with pytest.raises(source.NotPlain), source.opened(path) as fill:
        assert fill(memoryview(bytearray(10))) == 10
        path.write_bytes(path.read_bytes() + b" " * 100)
        fill(memoryview(bytearray(10_000)))
    with pytest.raises(source.NotPlain), source.opened(path) as fill:
        path.write_bytes(path.read_bytes()[:-50])
        fill(memoryview(bytearray(10_000)))
        fill(memoryview(bytearray(10_000)))


@pytest.mark.parametrize("name", [".", "missing.json", "a\0b"])
def test_what_is_no_file_is_not_sound(tmp_path: Path, name: str) -> None:
    with pytest.raises(source.NotPlain), source.opened(tmp_path / name):
        pass


def test_a_bomb_is_left_to_the_careful_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RATIO_FROM", 1_000_000)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 10_000_000))
    with pytest.raises(source.NotPlain), source.opened(path) as fill:
        while fill(memoryview(bytearray(100_000))):
            pass


# ---- the form of events ----


def usual(**other: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.25, "dur": 1, **other}


@pytest.mark.parametrize(
    ("other", "same_as"),
    [
        ({}, {}),
        ({"pid": 0.0, "tid": 7.0}, {}),
        ({"name": 12}, {"name": "12"}),
        ({"name": None}, {"name": ""}),
        ({"args": None}, {}),
        ({"args": {"correlation": None}}, {}),
        ({"args": {"correlation": "3"}}, {"args": {"correlation": 3}}),
        ({"args": {"correlation": 3.0}}, {"args": {"correlation": 3}}),
        ({"args": {"correlation": "no"}}, {}),
        ({"args": {"device": 1.0, "stream": 2.0}}, {"args": {"device": 1, "stream": 2}}),
        ({"more": [1, {}]}, {}),
    ],
)
@pytest.mark.parametrize("category", ["kernel", "cuda_runtime", "cpu_op"])
def test_an_unusual_event_gets_the_usual_form(category: str, other: dict[str, Any], same_as: dict[str, Any]) -> None:
    def decoded(event: dict[str, Any]) -> Any:
        return decode(json.dumps([event]).encode())[0]

    assert decoded(usual(cat=category, **other)) == decoded(usual(cat=category, **same_as))


def test_one_unusual_event_changes_no_other(tmp_path: Path) -> None:
    held = events(40)
    sound = reader.read(put(tmp_path / "sound.json", held))
    held.insert(20, {"ph": "X", "cat": "of_another_program", "name": 3, "ts": [], "dur": None})
    held.append({"ph": "i", "name": "a mark"})
    held[20]["ts"] = "7"
    mixed = reader.read(put(tmp_path / "mixed.json", held))
    assert (mixed.start == sound.start).all()
    assert (mixed.name_id == sound.name_id).all()
    assert [mixed.lanes[i] for i in mixed.lane_id] == [sound.lanes[i] for i in sound.lane_id]
    assert any("1 of 'of_another_program'" in note for note in mixed.notes)


def test_events_that_are_left_out_and_marks_are_told_apart() -> None:
    listed = [
        {"ph": "s", "cat": "ac2g", "id": 1},
        {"ph": "M", "name": "thread_name", "args": {"name": "main"}},
        usual(ph="B"),
    ]
    left, title, begun = (decode(json.dumps([event]).encode())[0] for event in listed)
    assert isinstance(left, LeftOut)
    assert isinstance(title, Event)
    assert isinstance(begun, Event)


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


def test_distinct_values_in_order() -> None:
    assert intervals.distinct(np.array([5, 3, 5, 1, 3])).tolist() == [1, 3, 5]
    assert intervals.distinct(np.array([], dtype=np.int64)).tolist() == []
