"""What the records of two captures say differently is said before any number."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab import pairing, record, scenario
from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.record import Record
from stepprof_lab.scenario import Conditions
from stepprof_lab.trace.model import Approach

QUESTION = "Is compute waiting for data?"


def a_record(question: str = QUESTION, boundary: str = "read forward", **changes: Any) -> Record:
    held = Record(
        stepprof_lab="0",
        captured_at="",
        scenario=scenario.inline(question, boundary=boundary, unit="ms/step"),
        observed={"batch": 64, "mode": "train"},
        environment={"torch": "2.13.0", "cpu": "a processor", "load_average": [1.0, 1.0, 1.0]},
        device="CPU",
        gpu_requested=False,
        schedule={},
        options={"with_stack": False},
        labels=[],
        approach=Approach(steps_ms=[], labels_ms={}, loader_workers=None, wanted_steps=20),
        window_steps_ms=[],
        checks=[],
        valid=True,
        trace="t.json",
        trace_sha256="",
    )
    return msgspec.structs.replace(held, **changes)


def captured(path: Path, held: Record | None, ms: float = 1.0) -> Path:
    t = Construct("cpu")
    with t.step(), t.label("train"):
        t.cpu(ms, "aten::mm")
    t.save(path)
    if held is not None:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        record.record_path(path).write_bytes(record.encode(msgspec.structs.replace(held, trace_sha256=digest)))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": "Is it the copy?"}, "the question differs: 'Is compute waiting for data?' and 'Is it the copy?'"),
        ({"boundary": "forward"}, "the boundary: reading the batch is inside the first step only"),
        ({"boundary": "read forward backward"}, "the boundary: the backward pass is inside the second step only"),
        ({"device": "CUDA 0"}, "the device differs: 'CPU' and 'CUDA 0'"),
        ({"gpu_requested": True}, "GPU activity was asked for in the second capture only"),
        ({"options": {"with_stack": True}}, "with_stack was on in the second capture only: it takes time"),
        ({"valid": False}, "the second capture is not valid"),
        ({"observed": {"batch": 128, "mode": "train"}}, "batch differs: 64 and 128"),
        ({"environment": {"torch": "2.6.0", "cpu": "a processor"}}, "torch differs: '2.13.0' and '2.6.0'"),
    ],
    ids=["question", "less", "more", "device", "gpu", "options", "valid", "observed", "environment"],
)
def test_each_difference_of_the_records_is_said(change: dict[str, Any], said: str) -> None:
    (found,) = pairing.between_records(a_record(), a_record(**change))
    assert found.startswith(said)


def test_the_question_comes_before_all_else() -> None:
    other = a_record("Is it the copy?", "forward", device="GPU", observed={"batch": 1, "mode": "eval"})
    found = list(pairing.between_records(a_record(), other))
    assert [text.split(" ")[1] for text in found[:3]] == ["question", "boundary:", "device"]
    assert len(found) == 5


def test_the_same_captures_have_nothing_against_them() -> None:
    assert list(pairing.between_records(a_record(), a_record())) == []


def test_what_was_stated_counts_where_nothing_was_seen() -> None:
    def stating(**stated: Any) -> Record:
        held = a_record(observed={})
        return msgspec.structs.replace(
            held, scenario=msgspec.structs.replace(held.scenario, conditions=Conditions(**stated))
        )

    found = list(pairing.between_records(stating(precision="float32", shapes=["64x8"]), stating(precision="bfloat16")))
    assert found == ["precision differs: 'float32' and 'bfloat16'"]  # the shapes of the second are not known


def test_the_records_are_read_and_come_first(tmp_path: Path) -> None:
    first = captured(tmp_path / "a.json", a_record())
    second = captured(tmp_path / "b.json", a_record("Is it the copy?"), ms=2.0)
    found = pairing.compare(first, second)
    assert found.unlike[0].startswith("the question differs")
    assert (found.first.question, found.second.question) == (QUESTION, "Is it the copy?")
    assert found.validate.startswith("stepprof validate ")
    assert (found.steps[0].cpu_us.first, found.steps[0].cpu_us.second) == (1000, 2000)


@pytest.mark.parametrize(
    ("one", "other", "named"), [(True, False, "b.json"), (False, True, "a.json"), (False, False, "a")]
)
def test_a_missing_record_is_said_by_name(tmp_path: Path, one: bool, other: bool, named: str) -> None:
    first = captured(tmp_path / "a.json", a_record() if one else None)
    second = captured(tmp_path / "b.json", a_record() if other else None)
    (said,) = pairing.compare(first, second).unlike
    assert f"no usable record lies beside {named}" in said


def test_a_record_of_another_trace_is_not_used_and_said(tmp_path: Path) -> None:
    first = captured(tmp_path / "a.json", a_record())
    second = captured(tmp_path / "b.json", a_record())
    second.write_bytes(second.read_bytes() + b" ")
    found = pairing.compare(first, second)
    assert "beside b.json" in found.unlike[0]
    assert any(note.startswith("second trace: the record") for note in found.notes)


def test_the_same_file_twice_is_said(tmp_path: Path) -> None:
    trace = captured(tmp_path / "a.json", a_record())
    assert pairing.compare(trace, trace).unlike == [
        "both names are the same file: every number below is compared with itself"
    ]


@pytest.mark.parametrize("broken", [0, 1])
def test_a_trace_that_cannot_be_read_is_named(tmp_path: Path, broken: int) -> None:
    paths = [captured(tmp_path / "a.json", None), captured(tmp_path / "b.json", None)]
    paths[broken].write_bytes(b"{}")
    with pytest.raises(StepprofError, match=paths[broken].name):
        pairing.compare(*paths)
    with pytest.raises(StepprofError, match=r"nowhere\.json"):
        pairing.compare(paths[1 - broken], tmp_path / "nowhere.json")
