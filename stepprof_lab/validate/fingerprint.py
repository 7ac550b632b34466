"""What an arm answered, small enough to be kept: a digest of each answer, and a few of its numbers.

Two runs on one machine give the same digests. Two machines may round differently; then the numbers that are kept are
compared within the tolerance that the scenario states.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import values

MOST_VALUES = 8
"""Numbers of one answer that are kept."""


def of_arm(returned: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprints of what the compared steps of an arm returned, and of its state after them.

    Args:
        returned: the named leaves of each step.
        state: the named leaves of the state.
    """
    return {"returned": [of_leaves(one) for one in returned], "state": of_leaves(state)}


def of_leaves(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """SHA-256 over all leaves with their names, types and shapes, and up to `MOST_VALUES` of their numbers.

    The numbers are spread evenly over the leaves and inside each; one that is not finite is kept as None, for JSON has
    none.
    """
    whole = hashlib.sha256()
    for name in sorted(leaves):
        whole.update(f"{name} {values.digest(leaves[name])}\n".encode())
    return {"sha256": whole.hexdigest(), "values": _some_numbers(leaves)}


def _some_numbers(leaves: Mapping[str, Any]) -> list[float | None]:
    names = sorted(leaves)
    each = max(1, MOST_VALUES // max(1, len(names)))
    kept: list[float | None] = []
    for name in (names[place] for place in _spread(len(names), MOST_VALUES)):
        numbers = values.numbers(leaves[name])  # one leaf at a time: this makes a wide copy
        if numbers is None:
            continue
        for number in numbers[_spread(len(numbers), each)]:
            real = abs(number) if isinstance(number, complex) else float(number)
            kept.append(float(real) if math.isfinite(real) else None)
    return kept


def _spread(count: int, most: int) -> list[int]:
    """At most so many places out of ``count``, evenly spread."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(most, count))}) if count else []


def difference(one: Mapping[str, Any], other: Mapping[str, Any], allowed: Outputs) -> str | None:
    """How two arms' fingerprints differ, in words; None where they are equal, or near within the tolerance."""
    if len(one["returned"]) != len(other["returned"]):
        return f"{len(one['returned'])} and {len(other['returned'])} steps were compared"
    places = [f"the value that step {number} returned" for number in range(1, len(one["returned"]) + 1)]
    pairs = zip(
        [*places, f"the state after {len(places)} steps"],
        [*one["returned"], one["state"]],
        [*other["returned"], other["state"]],
        strict=True,
    )
    for place, mine, theirs in pairs:
        if mine["sha256"] != theirs["sha256"] and not _near(mine["values"], theirs["values"], allowed):
            return f"{place} ({_apart(mine['values'], theirs['values'])})"
    return None


def _near(one: Sequence[float | None], other: Sequence[float | None], allowed: Outputs) -> bool:
    if len(one) != len(other) or not (allowed.relative_tolerance or allowed.absolute_tolerance):
        return False
    return all(
        mine is not None
        and theirs is not None
        and abs(mine - theirs) <= allowed.absolute_tolerance + allowed.relative_tolerance * abs(mine)
        for mine, theirs in zip(one, other, strict=True)
    )


def _apart(one: Sequence[float | None], other: Sequence[float | None]) -> str:
    """The two numbers that are furthest apart."""
    known = [
        (mine, theirs) for mine, theirs in zip(one, other, strict=False) if mine is not None and theirs is not None
    ]
    mine, theirs = max(known, key=lambda two: abs(two[0] - two[1]), default=(0.0, 0.0))
    return f"{mine:.9g} and {theirs:.9g}" if mine != theirs else "in numbers that are not kept"
