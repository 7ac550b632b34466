"""The JSON is one object, finite, encodable, and as its schema says."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest

from stepprof_lab.report import schemas
from stepprof_lab.report.json import to_json


def test_one_object_on_one_line(samples: Any) -> None:
    written = to_json(samples.cpu_analysis())
    assert written.endswith("}\n")
    assert written.count("\n") == 1
    read = json.loads(written)
    assert read["regime"] == "input"
    assert read["gpu"] == {"observed": False, "reason": "the capture collected CPU activity only"}
    assert "gpu_" not in written


def test_the_keys_of_the_contract(samples: Any) -> None:
    read = json.loads(to_json(samples.gpu_analysis()))
    assert set(read) == {
        "trace", "origin", "question", "notes", "regime", "gpu", "steps", "labels", "operators", "findings",
        "regime_reason", "doubts", "not_worth",
    }  # fmt: skip
    assert read["steps"][0]["gpu_tail_us"] == 160.25
    assert set(read["findings"][0]) == {
        "id", "observation", "hypothesis", "next_check", "share_of_step", "evidence"
    }  # fmt: skip


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused_with_its_place(samples: Any, bad: float) -> None:
    finding = msgspec.structs.replace(samples.input_wait(), evidence={"waits": [1.0, bad]})
    with pytest.raises(ValueError, match=r"Finding\.evidence\.waits\[1\]"):
        to_json(finding)


def test_hostile_names_stay_one_json_text(samples: Any) -> None:
    for name in samples.HOSTILE:
        read = json.loads(to_json(samples.cpu_analysis(name)))
        wanted = name.encode("utf-8", "backslashreplace").decode()
        assert wanted in read["labels"]
        assert read["operators"][-1]["name"] == wanted


def _values(samples: Any) -> dict[str, list[Any]]:
    return {
        "read": [samples.cpu_analysis(), samples.cpu_analysis(found=False), samples.gpu_analysis()],
        "validate": [samples.validation(), samples.not_comparable()],
        "record": [samples.record()],
        "scenario": [samples.scenario()],
    }


def test_the_samples_are_as_the_schemas_say(samples: Any) -> None:
    for name, values in _values(samples).items():
        validator = jsonschema.Draft202012Validator(schemas.schema(name))
        for value in values:
            validator.validate(json.loads(to_json(value)))


def test_a_diagnosis_is_as_its_schema_says() -> None:
    from stepprof_lab import doctor

    diagnosis = doctor.examine(probe=False)
    jsonschema.Draft202012Validator(schemas.schema("doctor")).validate(json.loads(to_json(diagnosis)))


@pytest.mark.parametrize("name", sorted(schemas.TYPES))
def test_the_schema_files_are_current(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.schema(name))
    held = (schemas.DIRECTORY / f"{name}.schema.json").read_text(encoding="utf-8")
    assert held == schemas.text(name), "run: python -m stepprof_lab.report.schemas"


def test_a_zero_for_a_gpu_that_was_not_observed_breaks_the_schema(samples: Any) -> None:
    validator = jsonschema.Draft202012Validator(schemas.schema("read"))
    read = json.loads(to_json(samples.cpu_analysis()))
    assert validator.is_valid(read)
    read["steps"][0]["gpu_busy_in_window_us"] = 0.0
    assert not validator.is_valid(read)
    read = json.loads(to_json(samples.gpu_analysis()))
    read["gpu"] = {"observed": False}
    assert not validator.is_valid(read)


def test_a_missing_key_and_a_strange_word_break_the_schema(samples: Any) -> None:
    validator = jsonschema.Draft202012Validator(schemas.schema("read"))
    for change in ({"regime": "fast"}, {"origin": "mine"}, {"steps": None}):
        read = json.loads(to_json(samples.cpu_analysis())) | change
        assert not validator.is_valid(read), change
    read = json.loads(to_json(samples.cpu_analysis()))
    del read["findings"]
    assert not validator.is_valid(read)


def test_all_schemas_are_written(tmp_path: Any) -> None:
    written = schemas.write(tmp_path / "schemas")
    assert sorted(path.name for path in written) == sorted(f"{name}.schema.json" for name in schemas.TYPES)
    assert all(json.loads(path.read_text(encoding="utf-8"))["$schema"] == schemas.DIALECT for path in written)
