"""Outputs of the timed steps themselves: what the last step of each timed block returned, of both arms.

Both arms are at the same step there, so that they must give the same answer as they did before the timing. What is
kept is the one result, so that looking costs the timed steps nothing. A result that is computed only when it is read
shows by the time that reading it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import outputs
from stepprof_lab.validate.beginning import NotComparable
from stepprof_lab.validate.model import ArmName, Block
from stepprof_lab.validate.outputs import Comparison

if TYPE_CHECKING:
    from stepprof_lab.validate.agreement import Answers

LATE_SHARE, LATE_FACTOR = 0.25, 2.0
"""Work was left in one arm where looking at what it made takes this share of its steps' time longer than in the other
arm, and this many times as long."""

FEWEST_READ, FEWEST_LOOKS = 3, 2
"""Results and states of an arm that are needed to judge it; the fastest counts, others may have been interrupted."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """What came out of a timed block.

    Args:
        block: the block.
        number: the step whose result it is, counted from 1 over all steps of the instance.
        returned: what that step returned, as named leaves.
        read_ms: how long reading it took.
    """

    block: Block
    number: int
    returned: dict[str, Any]
    read_ms: float


class Reading:
    """How long it takes to look at what each arm made, over one comparison: at its results, and at its state."""

    def __init__(self) -> None:
        self._results: _Looks = {"before": [], "after": []}
        self._states: _Looks = {"before": [], "after": []}

    def note(self, answered: Answered) -> None:
        """Take note of one block."""
        steps_ms = answered.block.steps_ms
        self._results[answered.block.arm].append((answered.read_ms, sum(steps_ms) / len(steps_ms)))

    def note_state(self, arm: ArmName, look_ms: float, timed_ms: float) -> None:
        """Take note of how long the look at a state took after so much time in timed steps."""
        self._states[arm].append((look_ms, timed_ms))

    def refuse_late(self) -> None:
        """Raise `NotComparable` where one arm leaves work until somebody looks."""
        if late := _late(self._results, FEWEST_READ):
            arm, took, timed, usual = late
            raise NotComparable(
                f"reading what a step of arm {arm} returned takes {took:.3g} ms beside {timed:.3g} ms for the step, "
                f"and {usual:.3g} ms in the other arm: part of its work is left until somebody looks; let each step "
                "finish what it returns, and hand it over in the same way"
            )
        if late := _late(self._states, FEWEST_LOOKS):
            arm, took, timed, usual = late
            raise NotComparable(
                f"looking at the state of arm {arm} takes {took:.3g} ms after {timed:.3g} ms of timed steps, and "
                f"{usual:.3g} ms in the other arm: part of its work is left until somebody looks; let each step finish "
                "what it does"
            )


_Looks: TypeAlias = "dict[ArmName, list[tuple[float, float]]]"
"""For each arm: how long looks took, and how long the steps before them, in ms."""


def _late(looks: _Looks, fewest: int) -> tuple[ArmName, float, float, float] | None:
    """The arm that leaves work, with its look, its steps, and the other's look in ms; None where neither does."""
    if min(len(seen) for seen in looks.values()) < fewest:
        return None
    least = {arm: tuple(map(min, zip(*seen, strict=True))) for arm, seen in looks.items()}
    usual = min(took for took, _ in least.values())
    for arm, (took, timed) in least.items():
        if took - usual > LATE_SHARE * timed and took > LATE_FACTOR * usual:
            return arm, took, timed, usual
    return None


class TimedOutputs:
    """Compares both arms of one replicate after each pair of blocks.

    Args:
        answers: what the comparison of outputs before the timing has shown.
        allowed: the scenario's tolerance.
    """

    def __init__(self, answers: Answers, allowed: Outputs) -> None:
        self._answers = answers
        self._allowed = allowed
        self._waiting: dict[int, Answered] = {}
        self._timed_ms: dict[ArmName, float] = {"before": 0.0, "after": 0.0}
        self._different: NotComparable | None = None

    def note(self, answered: Answered) -> None:
        """Take note of one block; where it is the second of its pair, both are compared."""
        self._answers.reading.note(answered)
        self._timed_ms[answered.block.arm] += answered.block.wall_ms or 0.0
        other = self._waiting.pop(answered.block.pair, None)
        if other is None:
            self._waiting[answered.block.pair] = answered
            return
        before, after = (other, answered) if answered.block.arm == "after" else (answered, other)
        try:
            _compare(before, after, self._answers, self._allowed)
        except NotComparable as different:
            self._different = self._different or different

    def demand_same(self, looks_ms: Mapping[ArmName, float]) -> None:
        """Raise `NotComparable` for what was found; asked when the end has been looked at, which knows more.

        Args:
            looks_ms: how long the first look at the state of each arm took after its timed steps.
        """
        if self._different is not None:
            raise self._different
        for arm, look_ms in looks_ms.items():
            self._answers.reading.note_state(arm, look_ms, self._timed_ms[arm])
        self._answers.reading.refuse_late()


def _compare(before: Answered, after: Answered, answers: Answers, allowed: Outputs) -> None:
    """Raise `NotComparable` where a timed step of one arm returned something else than the same step of the other.

    Where the arms agreed bitwise in the first steps they must do so here. Where a tolerance was needed, and something
    is learned, rounding differences grow with the steps: then a larger difference is left to the look at the end.
    """
    seen = outputs.compare(before.returned, after.returned, Outputs() if answers.bitwise else allowed)
    _keep(answers, seen)
    if seen.agrees or seen.agreement == "nothing to compare":
        return
    # A difference with a size is a matter of numbers; NaN in one arm, another shape, or a leaf in one arm is not.
    if answers.learns and not answers.bitwise and seen.agreement == "different" and seen.absolute is not None:
        return
    where = f" ({seen.where})" if seen.where else ""
    size = "" if seen.absolute is None else f"; largest difference {seen.absolute:.3g}"
    raise NotComparable(
        f"in a timed step, number {before.number} of replicate {before.block.replicate}, the arms do not return the "
        f"same{where}: {seen.why}{size}; in the steps before the timing they did"
    )


def _keep(answers: Answers, seen: Comparison) -> None:
    told = answers.outputs.get("timed_steps") or {"compared": 0, "agreement": "nothing to compare"}
    worse = outputs.worst([Comparison(told["agreement"]), seen])
    answers.outputs["timed_steps"] = {"compared": told["compared"] + 1, "agreement": worse.agreement}
