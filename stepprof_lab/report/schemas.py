"""The JSON schemas of the results, made from the types themselves.

They lie in ``stepprof_lab/schemas`` and ship with the package; ``python -m stepprof_lab.report.schemas`` writes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from stepprof_lab.demo.run import Summary
from stepprof_lab.doctor import Diagnosis
from stepprof_lab.record import Profiled, Record
from stepprof_lab.scenario import Scenario
from stepprof_lab.sharing import Shared
from stepprof_lab.trace.difference import Difference
from stepprof_lab.trace.model import Analysis, GpuNotObserved, GpuObserved
from stepprof_lab.trace.ranks_model import Ranks
from stepprof_lab.validate.model import Validation

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = Path(__file__).parent.parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

TYPES: Mapping[str, Any] = {
    "read": Analysis,
    "read-compare": Difference,
    "read-ranks": Ranks,
    "share": Shared,
    "validate": Validation,
    "doctor": Diagnosis,
    "record": Record,
    "profile": Profiled,
    "demo": Summary,
    "scenario": Scenario,
}


def schema(name: str) -> dict[str, Any]:
    """The schema of one result, by its name in `TYPES`."""
    made = _of_analysis() if name == "read" else msgspec.json.schema(TYPES[name])
    title = f"stepprof_lab {name}"
    return {"$schema": DIALECT, "title": title, **made}


def _of_analysis() -> dict[str, Any]:
    """The contract tells the two kinds of ``gpu`` apart by ``observed``, which is more than msgspec can describe."""
    hints = get_type_hints(Analysis)
    fields = [(f, Any if f == "gpu" else hints[f]) for f in Analysis.__struct_fields__]
    stand_in = msgspec.defstruct("Analysis", fields, namespace={"__doc__": Analysis.__doc__})
    (top, observed, missing), parts = msgspec.json.schema_components(
        [stand_in, GpuObserved, GpuNotObserved], ref_template="#/$defs/{name}"
    )
    parts["Analysis"]["properties"]["gpu"] = {"oneOf": [observed, missing]}
    for gpu in ("GpuObserved", "GpuNotObserved"):
        # The field that tells them apart has a default in Python, but is always written.
        parts[gpu]["required"] = ["observed", *parts[gpu]["required"]]
    return {**top, "$defs": parts, "if": _gpu_missing(), "then": _no_gpu_keys(parts)}


def _gpu_missing() -> dict[str, Any]:
    return {"properties": {"gpu": {"properties": {"observed": {"const": False}}}}}


def _no_gpu_keys(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Where no GPU was observed, no ``gpu_*`` key appears anywhere."""

    def without(struct: str) -> dict[str, Any]:
        return {"properties": {key: False for key in parts[struct]["properties"] if key.startswith("gpu_")}}

    return {
        "properties": {
            "steps": {"items": without("StepTimes")},
            "labels": {"additionalProperties": without("LabelTimes")},
            "operators": {"items": without("OperatorTimes")},
        }
    }


def text(name: str) -> str:
    """The schema as its file holds it."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def write(directory: Path = DIRECTORY) -> list[Path]:
    """Write all schemas; they are generated, so the old ones are replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in TYPES:
        path = directory / f"{name}.schema.json"
        path.write_text(text(name), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write():
        sys.stdout.write(f"{written}\n")
