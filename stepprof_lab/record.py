"""The record of a capture: a JSON file beside the trace that says what the trace answers and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from stepprof_lab.scenario import Scenario
from stepprof_lab.trace.model import Approach

FORMAT = 1


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked of a capture."""

    name: str
    passed: bool
    detail: str


class LabelSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One label that the workload used."""

    name: str
    role: str | None
    role_from: Literal["stated", "usual name", "loader", "unknown"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a later reader of the trace has to know."""

    format: int = FORMAT
    stepprof_lab: str
    """Version of the library that captured."""
    captured_at: str
    """UTC, ISO 8601."""
    scenario: Scenario
    observed: dict[str, Any]
    """Conditions as they were seen during the capture; those stated by a person are in the scenario."""
    contradictions: list[str] = []
    """Where what was stated and what was seen differ."""
    environment: dict[str, Any]
    device: str
    gpu_requested: bool
    schedule: dict[str, int]
    options: dict[str, bool]
    labels: list[LabelSeen]
    approach: Approach
    window_steps_ms: list[float]
    """Host-clock time of the four turns of the window (wait, warm-up, active, active)."""
    checks: list[Check]
    valid: bool
    trace: str
    """Name of the trace file, which lies beside this record."""
    trace_sha256: str
    rank: int | None = None
    world_size: int | None = None


def stem_of(trace: Path) -> str:
    """The trace's name without ``.json`` or ``.json.gz``."""
    name = trace.name
    for ending in (".json.gz", ".json"):
        if name.endswith(ending):
            return name[: -len(ending)]
    return name


def record_path(trace: Path) -> Path:
    """Where the record of a trace lies: ``trace.json.gz`` has ``trace.record.json`` beside it."""
    return trace.with_name(f"{stem_of(trace)}.record.json")
