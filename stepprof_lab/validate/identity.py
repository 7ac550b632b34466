"""What a result is of, so that two of them can be told to be of the same thing: scenario, arms, machine."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import environment, workload
from stepprof_lab.environment import Environment
from stepprof_lab.validate.arms import Build
from stepprof_lab.validate.model import ArmFrom
from stepprof_lab.validate.timing import TimedDevice

CHANGES_BY_ITSELF = ("load_average", "not_observed")
"""What is another value each time a machine is looked at."""

MOST_TOLD = 3
"""Differences that a sentence names."""


def arm_from(arm: Build | str) -> ArmFrom:
    """Where an arm comes from: the name of its file and function, and a digest of the whole file.

    What the file imports, and what a function that was made in Python holds, is not in the digest.

    Args:
        arm: ``build(device) -> Step``, or "FILE" or "FILE:NAME".
    """
    if isinstance(arm, str):
        file, name = workload.parse(arm)
        return ArmFrom(name=f"{file.name}:{name}", sha256=_digest(file))
    inner = inspect.unwrap(arm)
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__qualname__", type(arm).__name__)
    if code is None:
        return ArmFrom(name=name)
    file = Path(code.co_filename)
    return ArmFrom(name=f"{file.name}:{name}", sha256=_digest(file))


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, ValueError):  # typed into a shell or a notebook: there is no such file
        return None


def where(device: TimedDevice) -> Environment:
    """The machine and its software, with the device that was chosen."""
    return msgspec.structs.replace(environment.describe(), device=device.sentence)


def differing(one: Any, other: Any, leave_out: Collection[str] = ()) -> list[str]:
    """Where two values of one kind differ, each in words: "torch: 2.6.0 and 2.7.1".

    Args:
        one: a struct or a mapping.
        other: another one of the same kind.
        leave_out: names of fields that are not looked at.
    """
    mine, theirs = (dict(_flat(msgspec.to_builtins(value))) for value in (one, other))
    names = [name for name in {**mine, **theirs} if name.partition(".")[0] not in leave_out]
    return [
        f"{name}: {_word(mine.get(name))} and {_word(theirs.get(name))}"
        for name in names
        if mine.get(name) != theirs.get(name)
    ]


def in_words(differences: Collection[str]) -> str:
    """The first few differences in one sentence."""
    told = list(differences)
    return "; ".join(told[:MOST_TOLD]) + (f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else "")


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [row for key, item in value.items() for row in _flat(item, f"{name}.{key}".lstrip("."))]
    return [(name, value)]


def _word(value: Any) -> str:
    if value is None:
        return "not known"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
