"""Two captures that are read side by side: what their records say differently, then what their traces show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from stepprof_lab import record as records
from stepprof_lab.scenario import PARTS, Conditions
from stepprof_lab.trace.model import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from stepprof_lab.record import Record
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.difference import Difference

VALIDATE = "stepprof validate SCENARIO BEFORE AFTER"
"""Records do not hold the names of the files that the captures were made from, so the command has placeholders."""

ENVIRONMENT_COMPARED = ("system", "cpu", "cpus_allowed", "cpu_limit", "torch", "build", "driver", "device")
"""What of the surroundings changes times; who else was on the machine differs from run to run anyway."""


def compare(first: Path, second: Path) -> Difference:
    """Read two traces with their records and say what changed.

    Args:
        first: the trace that the changes count from.
        second: the other one.

    Raises:
        StepprofError: one of the traces cannot be read.
    """
    from stepprof_lab import trace

    sides = [_side(path) for path in (first, second)]
    return trace.compare(
        (first, sides[0][1]),
        (second, sides[1][1]),
        unlike=list(_unlike(first, second, sides[0][0], sides[1][0])),
        validate=VALIDATE,
    )


def _side(trace: Path) -> tuple[Record | None, Context]:
    record, note = records.find(trace)
    if record is None:
        return None, Context(notes=[note] if note else [])
    return record, records.context_of(record)


def _unlike(first: Path, second: Path, one: Record | None, other: Record | None) -> Iterator[str]:
    """Everything that speaks against comparing the two, in words."""
    if _same_file(first, second):
        yield "both names are the same file: every number below is compared with itself"
    if one is not None and other is not None:
        yield from between_records(one, other)
        return
    missing = [path.name for path, record in ((first, one), (second, other)) if record is None]
    yield (
        f"no usable record lies beside {' and '.join(missing)}: whether both answer the same question, with the same "
        "boundary and under the same conditions, is not known"
    )


def _same_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # not there: the reader says so better
        return False


def between_records(one: Record, other: Record) -> Iterator[str]:
    """What two records say differently: the question first, then the boundary, the device and the conditions."""
    yield from _scenarios(one.scenario, other.scenario)
    yield from _either("the device", one.device, other.device)
    if one.gpu_requested != other.gpu_requested:
        yield f"GPU activity was asked for in the {'first' if one.gpu_requested else 'second'} capture only"
    yield from _options(one.options, other.options)
    for which, record in (("first", one), ("second", other)):
        if not record.valid:
            yield f"the {which} capture is not valid: a check was not passed"
    yield from _conditions(one, other)
    for name in ENVIRONMENT_COMPARED:
        if name in one.environment and name in other.environment:
            yield from _either(name.replace("_", " "), one.environment[name], other.environment[name])


def _scenarios(one: Scenario, other: Scenario) -> Iterator[str]:
    yield from _either("the question", one.question, other.question)
    for part, words in PARTS.items():
        inside = getattr(one.boundary, part), getattr(other.boundary, part)
        if inside[0] != inside[1]:
            yield f"the boundary: {words} is inside the {'first' if inside[0] else 'second'} step only"
    yield from _either("the kind of step", one.kind, other.kind)
    yield from _either("the unit", one.unit, other.unit)


def _options(one: Mapping[str, bool], other: Mapping[str, bool]) -> Iterator[str]:
    for name in dict.fromkeys([*one, *other]):
        on = one.get(name, False), other.get(name, False)
        if on[0] != on[1]:
            yield f"{name} was on in the {'first' if on[0] else 'second'} capture only: it takes time inside the window"


def _conditions(one: Record, other: Record) -> Iterator[str]:
    """Conditions as they were seen, or else as they were stated; what one side does not know is not compared."""
    known = [{**_stated(record), **record.observed} for record in (one, other)]
    for name in Conditions.__struct_fields__:
        if name != "observed" and name in known[0] and name in known[1]:
            yield from _either(name.replace("_", " "), known[0][name], known[1][name])


def _stated(record: Record) -> dict[str, Any]:
    stated: dict[str, Any] = msgspec.to_builtins(record.scenario.conditions)  # what was not stated is left out
    return stated


def _either(what: str, one: Any, other: Any) -> Iterator[str]:
    if one != other:
        yield f"{what} differs: {_said(one)} and {_said(other)}"


def _said(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"'{value}'" if isinstance(value, str) else str(value)
