"""Quality metrics that the user names: a change that is faster because the result is worse is no faster step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import Outputs
from stepprof_lab.validate.beginning import NotComparable


def compared(
    before: Mapping[str, float], after: Mapping[str, float], allowed: Outputs, steps: int
) -> dict[str, dict[str, Any]]:
    """Both arms' metrics side by side, by name.

    Args:
        before: metrics of one arm.
        after: of the other.
        allowed: how far each may differ, absolutely; one that the scenario does not name may not.
        steps: after how many steps of both.
    """
    return {
        name: {
            "before": _finite(before.get(name)),
            "after": _finite(after.get(name)),
            "tolerance": allowed.metrics.get(name, 0.0),
            "steps": steps,
            "agrees": _agree(before.get(name), after.get(name), allowed.metrics.get(name, 0.0)),
        }
        for name in [*before, *(name for name in after if name not in before)]
    }


def demand_equal(found: Mapping[str, Mapping[str, Any]], outputs: Mapping[str, Any]) -> None:
    """Raise `NotComparable` for metrics that are further apart than allowed; which one is better is not judged.

    Args:
        found: what `compared` gave.
        outputs: what is known of the outputs, kept with the verdict.
    """
    told = [_in_words(name, one) for name, one in found.items() if not one["agrees"]]
    if told:
        raise NotComparable(f"the arms do not give the same quality: {'; '.join(told)}", outputs)


def demand_known(allowed: Outputs, names: Iterable[str]) -> None:
    """Refuse a scenario that states a tolerance for a metric that no arm gives.

    Raises:
        StepprofError: with the metrics that there are.
    """
    known = sorted(set(names))
    for name in allowed.metrics:
        if name not in known:
            raise StepprofError(
                f"[outputs.metrics] with {name!r}, which no arm gives",
                f"one of {', '.join(map(repr, known))}" if known else "a metric of the step",
                f"end build(device) with Step(..., metrics={{{name!r}: function}})",
            )


def worse(one: Mapping[str, Any] | None, other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of two looks at one metric that with the larger difference."""
    return other if one is None or _apart(other) > _apart(one) else one


def _apart(one: Mapping[str, Any]) -> float:
    if one["before"] is None or one["after"] is None:
        return math.inf
    return float(abs(one["before"] - one["after"]))


def _agree(before: float | None, after: float | None, tolerance: float) -> bool:
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return False
    return abs(before - after) <= tolerance


def _in_words(name: str, one: Mapping[str, Any]) -> str:
    if one["before"] is None or one["after"] is None:
        values = " and ".join(f"{'no number' if one[arm] is None else f'{one[arm]:.6g}'} {arm}" for arm in _ARMS)
        return f"{name} is {values}, after {one['steps']} steps"
    return (
        f"{name} is {one['before']:.6g} before and {one['after']:.6g} after, {_apart(one):.3g} apart after "
        f"{one['steps']} steps; allowed is {one['tolerance']:.3g}"
    )


_ARMS = ("before", "after")


def _finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity; a metric that is none of the numbers is told as such."""
    return value if value is not None and math.isfinite(value) else None
