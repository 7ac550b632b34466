"""Do two values agree: bitwise, or within a tolerance that the scenario gives a reason for?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import values

Agreement = Literal["nothing to compare", "bitwise", "within tolerance", "different", "not a number"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How two values compare.

    Args:
        agreement: "not a number" where both hold NaN: equal NaN say nothing about equal work.
        where: name of the leaf that decided, empty for the value itself.
        why: what differs, in words.
        absolute: largest absolute difference over all leaves; None where no numbers could be subtracted.
        relative: largest difference as a share of before's value, over its non-zero values.
    """

    agreement: Agreement
    where: str = ""
    why: str = ""
    absolute: float | None = None
    relative: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the values may count as the same answer."""
        return self.agreement in ("bitwise", "within tolerance")


_ORDER: tuple[Agreement, ...] = ("nothing to compare", "bitwise", "within tolerance", "different", "not a number")


def held_value(value: Any) -> dict[str, Any]:
    """A copy on the host of what a step returned, as named leaves; None is left out, it is nothing to compare."""
    return {
        name: values.held(leaf)
        for name, leaf in values.leaves(value)
        if leaf is not None and values.is_comparable(leaf)
    }


def compare(before: Mapping[str, Any], after: Mapping[str, Any], allowed: Outputs) -> Comparison:
    """Compare two sets of named leaves; the worst leaf decides, the largest differences are over all of them."""
    found = [Comparison("nothing to compare")]
    for name in [*before, *(name for name in after if name not in before)]:
        if name in before and name in after:
            found.append(_compare_leaf(name, before[name], after[name], allowed))
        else:
            only = "before" if name in before else "after"
            found.append(Comparison("different", name, f"only arm {only} has it"))
    return worst(found)


def tolerates(allowed: Outputs) -> bool:
    """Whether anything but equal bytes may count as the same answer."""
    return allowed.relative_tolerance > 0 or allowed.absolute_tolerance > 0


def finite(value: float | None) -> float | None:
    """JSON has no infinity; the words of the reason have it."""
    return value if value is None or math.isfinite(value) else None


def worst(comparisons: list[Comparison]) -> Comparison:
    """The first of the worst, with the largest differences of all."""
    decided = max(comparisons, key=lambda one: _ORDER.index(one.agreement))
    return dataclasses.replace(
        decided,
        absolute=_largest([one.absolute for one in comparisons]),
        relative=_largest([one.relative for one in comparisons]),
    )


def _compare_leaf(name: str, before: Any, after: Any, allowed: Outputs) -> Comparison:
    numbers = values.numbers(before), values.numbers(after)
    if numbers[0] is None or numbers[1] is None:
        same = values.kind_of(before) == values.kind_of(after) and values.raw_bytes(before) == values.raw_bytes(after)
        return Comparison("bitwise", name) if same else Comparison("different", name, "the values differ")
    nan = bool(np.isnan(numbers[0]).any()), bool(np.isnan(numbers[1]).any())
    if any(nan):
        if all(nan):
            return Comparison("not a number", name, "both arms give NaN there")
        return Comparison("different", name, f"only arm {'before' if nan[0] else 'after'} gives NaN")
    kinds = values.kind_of(before), values.kind_of(after)
    if kinds[0] == kinds[1] and values.raw_bytes(before) == values.raw_bytes(after):
        return Comparison("bitwise", name, absolute=0.0, relative=0.0)
    if np.shape(before) != np.shape(after):
        return Comparison("different", name, f"{kinds[0]} before and {kinds[1]} after")
    return _compare_numbers(name, numbers[0], numbers[1], kinds, allowed)


def _compare_numbers(name: str, before: Any, after: Any, kinds: tuple[str, str], allowed: Outputs) -> Comparison:
    with np.errstate(invalid="ignore"):  # two equal infinities have no difference
        apart = np.where(before == after, 0.0, np.abs(after - before))
    size = np.abs(before)
    has_share = (size > 0) & np.isfinite(size)
    scaled = apart[has_share] / size[has_share]
    absolute = float(apart.max(initial=0.0))
    relative = float(scaled.max()) if scaled.size else None
    # Without a tolerance only equal bytes are equal: beyond 2**53 these float64 no longer tell integers apart.
    inside = np.isfinite(apart) & (apart <= allowed.absolute_tolerance + allowed.relative_tolerance * size)
    if tolerates(allowed) and bool(inside.all()):
        return Comparison("within tolerance", name, "", absolute, relative)
    why = "the values differ" if kinds[0] == kinds[1] else f"{kinds[0]} before and {kinds[1]} after"
    return Comparison("different", name, why, absolute, relative)


def _largest(found: list[float | None]) -> float | None:
    known = [one for one in found if one is not None]
    return max(known) if known else None
