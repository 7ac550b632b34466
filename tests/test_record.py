"""The record beside a trace: written whole with it, and used only where it belongs to it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab import files, record
from stepprof_lab.errors import StepprofError
from stepprof_lab.record import Check, LabelSeen, Record
from stepprof_lab.scenario import Boundary, Scenario
from stepprof_lab.trace.model import Approach

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
DATA = json.dumps(
    {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}
            for step in (0, 1)
            for cat, name, ts, dur in (
                ("user_annotation", f"ProfilerStep#{step + 2}", 1000.0 * step, 900.0),
                ("user_annotation", "lecture", 1000.0 * step + 10, 600.0),
                ("cpu_op", "aten::mm", 1000.0 * step + 700, 100.0),
            )
        ],
    }
).encode()


def make(data: bytes = DATA, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "stepprof_lab": "0.1.0",
        "captured_at": "2026-01-01T00:00:00+00:00",
        "scenario": Scenario(
            question="is compute waiting for data?",
            kind="training",
            boundary=Boundary(read=True, transfer=True, forward=True, backward=True, update=True, model_load=False),
            unit="ms/step",
        ),
        "observed": {"loader_iterators_made_in_window": 0},
        "environment": {},
        "device": "CPU, no GPU observed",
        "gpu_requested": False,
        "schedule": {"wait": 1, "warmup": 1, "active": 2, "repeat": 1},
        "options": {"record_shapes": False},
        "labels": [LabelSeen(name="lecture", role="read", role_from="stated")],
        "approach": Approach(steps_ms=[0.9] * 20, labels_ms={"lecture": [0.6] * 20}, loader_workers=0, wanted_steps=20),
        "window_steps_ms": [0.9] * 4,
        "checks": [Check(name="turns", passed=True, detail="4 of 4")],
        "valid": True,
        "trace": "t.json",
        "trace_sha256": hashlib.sha256(data).hexdigest(),
    }
    return Record(**{**values, **changes})


def keep(path: Path, **changes: Any) -> Path:
    trace = path / "t.json"
    record.keep(make(**changes), trace, DATA)
    return trace


@pytest.mark.parametrize(
    ("trace", "beside"),
    [("t.json", "t.record.json"), ("t.json.gz", "t.record.json"), ("a.rank0.json.gz", "a.rank0.record.json")],
)
def test_the_record_lies_beside_its_trace(trace: str, beside: str) -> None:
    assert record.record_path(Path("out") / trace) == Path("out") / beside


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    trace = keep(tmp_path)
    assert record.find(trace) == (make(), None)
    assert trace.read_bytes() == DATA
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["t.json", "t.record.json"]


@pytest.mark.parametrize("taken", ["t.json", "t.record.json"])
def test_where_one_name_is_taken_neither_is_written(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).write_text("old")
    with pytest.raises(StepprofError, match="exists already"):
        keep(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [taken]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_where_the_trace_cannot_take_its_name_the_record_goes_too(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = files.take_name

    def fail_for_the_trace(temporary: Path, path: Path, what: str) -> None:
        if what == "trace":
            raise error
        take(temporary, path, what)

    monkeypatch.setattr(files, "take_name", fail_for_the_trace)
    with pytest.raises((StepprofError, KeyboardInterrupt)):
        keep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_without_a_record_is_of_unknown_origin(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_bytes(DATA)
    interpretation, found = record.read(trace, origin="live")
    assert found is None
    assert (interpretation.analysis.origin, interpretation.analysis.question) == ("unknown", None)


@pytest.mark.parametrize("origin", ["recorded", "live"])
def test_a_trace_is_read_with_its_record(origin: Any, tmp_path: Path) -> None:
    interpretation, found = record.read(keep(tmp_path), origin=origin)
    assert found == make()
    analysis = interpretation.analysis
    assert (analysis.origin, analysis.question) == (origin, "is compute waiting for data?")
    assert analysis.labels["lecture"].calls == 2


def test_a_record_of_another_trace_is_not_used(tmp_path: Path) -> None:
    trace = keep(tmp_path)
    trace.write_bytes(DATA + b" ")
    interpretation, found = record.read(trace)
    assert found is None
    assert interpretation.analysis.origin == "unknown"
    assert any("is of another trace" in note for note in interpretation.analysis.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "is not one of this version"),
        (b"\xff", "is not one of this version"),
        (b"{}", "is not one of this version"),
        (msgspec.json.encode(make(format=99)), "has format 99, this version reads 1"),
    ],
)
def test_a_record_that_cannot_be_used_is_said(text: bytes, said: str, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_bytes(DATA)
    record.record_path(trace).write_bytes(text)
    found, note = record.find(trace)
    assert found is None
    assert note is not None
    assert said in note


def test_the_loaders_own_range_counts_only_where_no_label_reads() -> None:
    loader = LabelSeen(name=LOADER, role="read", role_from="loader")
    train = LabelSeen(name="train", role="compute", role_from="usual name")
    mine = LabelSeen(name="lecture", role="read", role_from="stated")
    unknown = LabelSeen(name="x", role=None, role_from="unknown")
    assert record.context_of(make(labels=[train, unknown, loader])).roles == {"train": "compute", LOADER: "read"}
    assert record.context_of(make(labels=[mine, train, loader])).roles == {"lecture": "read", "train": "compute"}


def test_what_a_reader_has_to_know_is_in_the_notes() -> None:
    context = record.context_of(
        make(
            valid=False,
            checks=[
                Check(name="turns", passed=False, detail="3 of 4 turns were run to their end"),
                Check(name="file", passed=True, detail="fine"),
            ],
            contradictions=["the scenario says mode = eval, seen was train"],
            options={"record_shapes": True, "profile_memory": False, "with_stack": True},
            approach=Approach(
                steps_ms=[1.0],
                labels_ms={},
                loader_workers=None,
                wanted_steps=20,
                cut=True,
                cut_reason="30 s were over",
            ),
            observed={
                "loader_read_in_another_thread": True,
                "labels_in_other_threads": ["lecture", "prefetch"],
                "loader_iterators_made_in_window": 1,
            },
        )
    )
    notes = context.notes
    assert notes[0] == (
        "rejected: this capture is not valid (3 of 4 turns were run to their end); its numbers are not to be used"
    )
    assert notes[1] == "the scenario says mode = eval, seen was train"
    assert "recorded with record_shapes, with_stack" in notes[2]
    assert "30 s were over" in notes[3]
    assert "how many of them were ready before the window is not known" in notes[4]
    assert notes[5].endswith("where nothing records them: 'lecture' (there as well), 'prefetch'")
    assert "iterator was made inside the window" in notes[6]


def test_a_capture_with_nothing_to_say_has_no_notes() -> None:
    assert record.context_of(make()).notes == []
