"""Which wrong idea a wrong number shows.

An idea is a function from a case to the number that it gives. An answer shows the idea whose numbers it gives on all
cases: so cases have to be drawn such that the ideas differ (`tell_apart`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from stepprof_lab.grading.model import Case

Idea = Callable[[Case], float]


def is_near(value: float, wanted: float, tolerance: float, absolute: float = 0.0) -> bool:
    """Whether a value is within a relative tolerance of another, or an absolute one; near zero it is absolute."""
    return abs(value - wanted) <= max(absolute, tolerance * max(abs(wanted), 1e-3))


def shown_by(
    answers: Sequence[float | None],
    cases: Sequence[Case],
    ideas: Mapping[str, Idea],
    tolerance: float,
    absolute: float = 0.0,
) -> str | None:
    """The name of the first idea whose numbers are the answers on every case; None where none is.

    Args:
        answers: the learner's numbers, one for each case; None where it gave none.
        cases: the same length.
        ideas: in the order in which they are asked: the more specific first.
        tolerance: relative.
        absolute: where that is more: what rounding may take.
    """
    for name, idea in ideas.items():
        if all(
            answer is not None and is_near(answer, idea(case), tolerance, absolute)
            for answer, case in zip(answers, cases, strict=True)
        ):
            return name
    return None


def tell_apart(case: Case, ideas: Mapping[str, Idea], tolerance: float, absolute: float = 0.0) -> bool:
    """Whether on this case no two ideas give numbers that the tolerance would take for one."""
    found = sorted(idea(case) for idea in ideas.values())
    return all(not is_near(low, high, 3 * tolerance, 3 * absolute) for low, high in itertools.pairwise(found))


def differ_from(wanted: float, case: Case, ideas: Mapping[str, Idea], tolerance: float, absolute: float = 0.0) -> bool:
    """Whether no idea gives what is right on this case; ideas among themselves may agree on one."""
    return all(not is_near(idea(case), wanted, 3 * tolerance, 3 * absolute) for idea in ideas.values())
