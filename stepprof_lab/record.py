"""The record of a capture: a JSON file beside the trace that says what the trace answers and where it came from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import Scenario
from stepprof_lab.trace.model import Approach, Context, Interpretation

FORMAT = 1
MAX_BYTES = 64_000_000
"""Of a record; real ones have some ten thousand."""
LONGEST_STEP_MS = 86_400_000.0
"""A day."""
MOST_WORKERS = 100_000


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
    origin: Literal["live", "simulated"] = "live"
    """What the numbers were when they were captured: simulated where the practice device took part."""
    capture_id: str | None = None
    """The same in the trace's own text, under ``stepprof_lab``."""


class Profiled(msgspec.Struct, frozen=True, kw_only=True):
    """Where a capture lies, and its record: the JSON of ``stepprof profile``."""

    trace: str
    """Path of the trace; the record lies beside it."""
    record: Record


def stem_of(trace: Path) -> str:
    """The trace's name without ``.json`` or ``.json.gz``."""
    name = trace.name
    for ending in (".json.gz", ".json"):
        if name.endswith(ending):
            return name[: -len(ending)]
    return name


def record_path(trace: Path) -> Path:
    """Where the record of a trace lies: ``trace.json.gz`` has ``trace.record.json`` beside it."""
    return trace.parent / f"{stem_of(trace)}.record.json"


def encode(record: Record) -> bytes:
    """The record as it is written: JSON with two spaces a level, UTF-8."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def keep(record: Record, trace: Path, data: bytes) -> Path:
    """Write a trace and its record: both whole, or neither; returns where the record lies.

    The record takes its name first, so that a trace never lies there without one.

    Args:
        record: what is written beside the trace.
        trace: the trace's final name.
        data: the trace's bytes, as they are to be stored.
    """
    beside = record_path(trace)
    beside_is_ours = False
    try:
        with files.new_file(trace, "trace") as temporary:
            temporary.write_bytes(data)
            files.write_new(beside, encode(record), "record")
            beside_is_ours = True
    except BaseException as error:
        # An interrupt after both names were taken leaves a whole capture, not half of one.
        if beside_is_ours and (isinstance(error, StepprofError) or not trace.exists()):
            beside.unlink(missing_ok=True)
        raise
    return beside


def read(trace: Path, *, origin: Literal["live", "recorded"] = "recorded") -> tuple[Interpretation, Record | None]:
    """Interpret a trace with what its record says; without a usable record the trace's origin is unknown.

    Args:
        trace: a trace of ours or of anyone.
        origin: "live" for a capture that this process has just made.

    Returns:
        The interpretation, and the record where one lies beside the trace and belongs to it.

    Raises:
        StepprofError: the trace cannot be read.
    """
    from stepprof_lab.trace import interpret

    trace = Path(trace)
    record, note = find(trace)
    context = Context(notes=[note] if note else []) if record is None else context_of(record, origin)
    return interpret(trace, context), record


def find(trace: Path) -> tuple[Record | None, str | None]:
    """The record beside a trace, and a note where it is there and cannot be used."""
    beside = record_path(trace)
    try:
        size = beside.stat().st_size
        if not beside.is_file() or size > MAX_BYTES:
            return None, f"the record {beside.name} is no file of at most {MAX_BYTES} bytes: it was not used"
        data = beside.read_bytes()
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have (a null character)
        reason = getattr(error, "strerror", None) or error
        return None, f"the record {beside.name} cannot be read ({reason}): it was not used"
    try:
        record = msgspec.json.decode(data, type=Record)
    except RecursionError:
        return None, f"the record {beside.name} is nested too deeply: it was not used"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return None, f"the record {beside.name} is not one of this version ({error}): it was not used"
    if record.format != FORMAT:
        return (
            None,
            f"the record {beside.name} has format {record.format}, this version reads {FORMAT}: it was not used",
        )
    impossible = _impossible(record)
    if impossible:
        return None, f"the record {beside.name} has {impossible}, which cannot be true: it was not used"
    digest = _digest(trace)
    if digest is not None and digest != record.trace_sha256:
        return None, (
            f"the record {beside.name} is of another trace (its digest differs): it was not used, "
            "and where this trace comes from is unknown"
        )
    return record, None


def _impossible(record: Record) -> str | None:
    """What in a record cannot be true, so that no number may be made from it."""
    series = {"approach.steps_ms": record.approach.steps_ms, "window_steps_ms": record.window_steps_ms}
    series |= {f"approach.labels_ms of {name[:80]!r}": times for name, times in record.approach.labels_ms.items()}
    for name, times in series.items():
        for time in times:
            if not 0 <= time <= LONGEST_STEP_MS:
                return f"a step of {time:g} ms in {name}"
    workers = record.approach.loader_workers
    return f"{workers} loader workers" if workers is not None and not 0 <= workers <= MOST_WORKERS else None


def context_of(record: Record, origin: Literal["live", "recorded"] = "recorded") -> Context:
    """What a record says about its trace, as the interpreter takes it."""
    return Context(
        origin="simulated" if record.origin == "simulated" else origin,
        question=record.scenario.question,
        roles=_roles(record.labels),
        gpu_requested=record.gpu_requested,
        approach=record.approach,
        notes=_notes(record),
    )


def _roles(labels: list[LabelSeen]) -> dict[str, str]:
    """Role of each label; the loader's own range lies inside a label that reads and counts only without one."""
    reads = any(label.role == "read" and label.role_from != "loader" for label in labels)
    return {
        label.name: label.role
        for label in labels
        if label.role is not None and not (reads and label.role_from == "loader")
    }


def _notes(record: Record) -> list[str]:
    notes = []
    if not record.valid:
        reasons = "; ".join(check.detail for check in record.checks if not check.passed)
        notes.append(f"rejected: this capture is not valid ({reasons}); its numbers are not to be used")
    notes += record.contradictions
    on = [name for name, chosen in record.options.items() if chosen]
    if on:
        notes.append(f"recorded with {', '.join(on)}: that takes time inside the window, so the steps are longer")
    if record.approach.cut:
        notes.append(f"the approach is shorter than wanted: {record.approach.cut_reason}")
    if record.observed.get("loader_read_in_another_thread"):
        notes.append(
            "another thread read from a loader: it hands batches on by a queue of its own, and how many of them were "
            "ready before the window is not known"
        )
    if elsewhere := record.observed.get("labels_in_other_threads"):
        notes.append(_elsewhere(elsewhere, {label.name for label in record.labels}))
    if record.observed.get("loader_iterators_made_in_window"):
        notes.append(
            "a loader's iterator was made inside the window: its start-up (of workers too) is in the steps; "
            "make it before the window"
        )
    return notes


def _elsewhere(names: list[str], also_here: set[str]) -> str:
    """Labels of other threads: the profiler records the steps' own thread alone, and so does the approach."""
    said = ", ".join(f"{name!r}" + (" (there as well)" if name in also_here else "") for name in names)
    return f"labels that ran in another thread than the steps, where nothing records them: {said}"


def _digest(trace: Path) -> str | None:
    """SHA-256 of the file; None where it cannot be read, which the reader then says better."""
    digest = hashlib.sha256()
    try:
        if not trace.is_file():
            return None
        with trace.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()
