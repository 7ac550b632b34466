"""Do both arms still do the same work when the timing is over?

What was checked in the first steps says little of the later ones: an arm may stop to learn, turn to NaN, or hand out
stored results. So each timed pair does a few more steps that are not timed, and is looked at once more.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import outputs, quality, start, values
from stepprof_lab.validate.arms import Clock, RunningArm
from stepprof_lab.validate.beginning import NotComparable, Start
from stepprof_lab.validate.outputs import Comparison
from stepprof_lab.validate.repeats import MOST_STEPS, hands_out_stored

if TYPE_CHECKING:
    from stepprof_lab.validate.agreement import Answers

END_STEPS = 2
"""Steps after the timed ones: two results tell whether they still change."""

NUDGE = 1 + 2.0**-6
"""By this every number of a state that does not learn is multiplied, to see whether the results follow it."""

FOLLOWS = 2.0**-10
"""Results that are this near to each other, as a share of the largest, follow the state alike."""

_WIDE = ("float32", "float64", "float ")
"""Types in which two results in a row are not equal by chance; with 8 bits they are."""


@dataclasses.dataclass(frozen=True)
class End:
    """What an arm came to after its timed steps.

    Args:
        steps: how many it did in all.
        fingerprint: of its state.
        returned: what each of the last steps returned.
        state: a copy of the state, where rounding may tell the arms apart; else nothing.
        moved: what of the state the last steps changed.
        learns: whether the state is another one than at the start.
        stored: whether it handed out results that it had stored.
        nudged: what it returned after its state was changed a little; None where that was not tried.
        metrics: the quality metrics that the user names.
        look_ms: how long the first look at the state took, in ms: work that was left until then shows there.
    """

    steps: int
    fingerprint: dict[str, str]
    returned: list[dict[str, Any]]
    state: dict[str, Any]
    moved: frozenset[str]
    learns: bool
    stored: bool
    nudged: list[dict[str, Any]] | None
    metrics: dict[str, float]
    look_ms: float

    @classmethod
    def of(cls, arm: RunningArm, started: Start, *, tolerant: bool, clock: Clock) -> End:
        """Do the last steps of an instance and look at it; it is spoilt afterwards and must be dropped.

        Args:
            arm: the instance.
            started: what it started from.
            tolerant: whether the arms agree within a tolerance only, so that more than equality has to be looked at.
            clock: the host's clock in seconds.
        """
        looks_ms: list[float] = []

        def look() -> dict[str, str]:
            begin = clock()
            seen = start.fingerprint(arm.step.state)
            looks_ms.append((clock() - begin) * 1e3)
            return seen

        before = look() if tolerant else {}
        with arm.turn():
            returned = [outputs.held_value(arm.noted()) for _ in range(END_STEPS)]
        after = look()
        steps, learns = arm.done, after != started.fingerprint
        state = start.held_state(arm.step.state) if tolerant else {}
        with arm.turn():
            metrics = arm.quality()
            nudged = None if learns else _after_nudge(arm)  # first: the other arm must be at the same step here
            stored = _gives_stored(arm)
        return cls(
            steps=steps,
            fingerprint=after,
            returned=returned,
            state=state,
            moved=frozenset(name for name in start.differing(before, after) if before),
            learns=learns,
            stored=stored,
            nudged=nudged,
            metrics=metrics,
            look_ms=looks_ms[0],
        )


def same_end(before: End, after: End, answers: Answers, allowed: Outputs) -> None:
    """Raise `NotComparable` unless both arms still do the same work; what cannot be judged is kept as a remark.

    Where the outputs agreed bitwise, they must do so still. Where they agreed within a tolerance only, rounding
    differences grow with the steps while something is learned, and the tolerance was stated for a few steps: then a
    larger difference is told and not judged, but an arm that gives NaN, stands still, or hands out stored results is
    not comparable. Where nothing is learned nothing grows, and the tolerance holds to the end.
    """
    refuse_stored(before.stored, after.stored, answers)
    names = start.differing(before.fingerprint, after.fingerprint)
    equal = outputs.worst(
        [outputs.compare(*two, Outputs()) for two in zip(before.returned, after.returned, strict=True)]
    )
    if not names and equal.agreement in ("bitwise", "nothing to compare"):
        _note(answers, before.steps, Comparison("bitwise", absolute=0.0, relative=0.0), judged=True)
    else:
        _refuse_not_finite(before, after)
        if answers.bitwise:
            _note(answers, before.steps, equal, judged=True)
            told = start.difference_in_words(names, before.fingerprint, after.fingerprint) or "the returned value"
            raise NotComparable(
                f"the arms agree bitwise at the beginning and differ after {before.steps} steps: {told}; "
                "where arithmetic may be reordered, state a tolerance with its reason"
            )
        _refuse_standstill(before, after)
        _judge_drift(before, after, answers, allowed)
    _demand_quality(before, after, answers, allowed)
    _note_nudged(before, after, answers, allowed)


def _demand_quality(before: End, after: End, answers: Answers, allowed: Outputs) -> None:
    """The tolerance of a quality metric is stated for the quality, so that it holds after any number of steps."""
    if not before.metrics and not after.metrics:
        return
    found = quality.compared(before.metrics, after.metrics, allowed, before.steps)
    kept = answers.outputs.get("metrics_after_timed_steps", {})
    answers.outputs["metrics_after_timed_steps"] = {
        name: quality.worse(kept.get(name), one) for name, one in found.items()
    }
    quality.demand_equal(found, answers.outputs)


def refuse_stored(before: bool, after: bool, answers: Answers) -> None:
    """Raise `NotComparable` where one arm hands out stored results and the other computes its own."""
    if before and after:
        answers.remark("stored", "both arms return again what they returned earlier, without computing it")
    elif before or after:
        name, other = ("before", "after") if before else ("after", "before")
        raise NotComparable(
            f"arm {name} returns again what it returned earlier, without computing it (what was written over a result "
            f"came back), and arm {other} computes each result: take the store out, or let each step read other inputs"
        )


def stored_after_search(arm: RunningArm, seconds: float, clock: Clock) -> bool:
    """Run an instance that learns nothing on until a result comes back, for some seconds, and ask whether it is stored.

    It must have been looked at already, and be dropped afterwards.
    """
    until = clock() + seconds
    with arm.turn(), contextlib.suppress(StepprofError):  # its data may end
        while arm.returned.gap is None and arm.returned.steps < MOST_STEPS and clock() < until:
            arm.noted()
        return _gives_stored(arm)
    return False


def _gives_stored(arm: RunningArm) -> bool:
    """Whether an instance hands out stored results; asked in its turn, and it is spoilt afterwards."""
    try:
        return hands_out_stored(arm.once, arm.returned)
    except StepprofError:  # its data ended
        return False


def _refuse_not_finite(before: End, after: End) -> None:
    """NaN in either arm, or an infinity in one of them."""
    for where, one, other in (
        *(("the returned value", *two) for two in zip(before.returned, after.returned, strict=True)),
        ("the state", before.state, after.state),
    ):
        names = one.keys() & other.keys()
        nan = [{name for name in names if _has(np.isnan, held[name])} for held in (one, other)]
        infinite = [{name for name in names if _has(np.isinf, held[name])} for held in (one, other)]
        for found, word in ((nan, "NaN"), (infinite, "an infinity")):
            for name in sorted(found[0] ^ found[1]):
                arm = "before" if name in found[0] else "after"
                raise NotComparable(
                    f"after {before.steps} steps {where}{_called(name)} holds {word} in arm {arm} alone"
                )
        if nan[0]:
            what = "return NaN" if one is not before.state else f"hold NaN in the state{_called(min(nan[0]))}"
            raise NotComparable(f"after {before.steps} steps both arms {what}: equal NaN prove nothing")


def _refuse_standstill(before: End, after: End) -> None:
    """Where one arm's numbers still change and none of the other's do, the other has stopped to work."""
    moving = {"before": _numbers_moved(before), "after": _numbers_moved(after)}
    results = {"before": _results_changed(before), "after": _results_changed(after)}
    for name, other in (("before", "after"), ("after", "before")):
        if moving[other] and not moving[name]:
            what = f"the state of arm {name} no longer changes, and that of arm {other} does ({min(moving[other])})"
        elif moving[name] and results[other] and not results[name]:
            what = f"arm {name} returns the same numbers again and again, and arm {other} does not"
        else:
            continue
        raise NotComparable(f"in the last {END_STEPS} of {before.steps} steps {what}: they no longer do the same work")


def _numbers_moved(end: End) -> set[str]:
    return {name for name in end.moved if "float" in end.fingerprint.get(name, "")}


def _results_changed(end: End) -> set[str]:
    """Names of the returned numbers that differ between the last two steps; all, where they cannot tell."""
    last, one = end.returned[-1], end.returned[-2]
    wide = {
        name
        for name, leaf in last.items()
        if name in one and f"{values.kind_of(leaf)} ".startswith(_WIDE) and _told(leaf)
    }
    if not wide:
        return {"nothing can be told"}
    return {name for name in wide if values.digest(last[name]) != values.digest(one[name])}


def _told(leaf: Any) -> bool:
    """Whether a number can tell that something stands still: a loss of exactly 0 may stay there."""
    numbers = values.numbers(leaf)
    return numbers is not None and bool(np.any(numbers != 0))


def _judge_drift(before: End, after: End, answers: Answers, allowed: Outputs) -> None:
    drift = outputs.worst(
        [
            *(outputs.compare(*two, allowed) for two in zip(before.returned, after.returned, strict=True)),
            outputs.compare(before.state, after.state, allowed),
        ]
    )
    learns = before.learns or after.learns or not before.fingerprint
    _note(answers, before.steps, drift, judged=drift.agrees or not learns)
    if drift.agrees:
        _note_partly(before, after, answers)
        return
    size = "" if drift.absolute is None else f"; largest difference {drift.absolute:.3g}"
    size += "" if drift.absolute is None or drift.relative is None else f", {drift.relative:.3g} of before's value"
    place = f"after {before.steps} steps the arms differ by more than the tolerance{_called(drift.where)}{size}"
    if not learns:
        raise NotComparable(f"{place}; nothing is learned, so that rounding differences cannot have grown: {drift.why}")
    if answers.outputs["after_timed_steps"]["steps"] == before.steps:  # the worst replicate until now
        answers.remarks["drift"] = (
            f"{place}: their agreement was judged over the first {answers.outputs['steps']} steps and not there, "
            "because rounding differences grow with the steps; look at both results of a longer run too"
        )
    _note_partly(before, after, answers)


def _note_partly(before: End, after: End, answers: Answers) -> None:
    for arm, one, other in (("before", before, after), ("after", after, before)):
        if still := sorted(_numbers_moved(other) - _numbers_moved(one)):
            more = f" and {len(still) - 3} more" if len(still) > 3 else ""
            answers.remark(
                f"partly {arm}",
                f"in the last {END_STEPS} of {before.steps} steps {', '.join(still[:3])}{more} did not change in arm "
                f"{arm} and did in the other: look whether both still train the same",
            )


def _after_nudge(arm: RunningArm) -> list[dict[str, Any]] | None:
    """Change every number of the state a little, in place, and run on; None where there is none or that fails."""
    if not start.multiply(arm.step.state, NUDGE):
        return None
    try:
        return [outputs.held_value(arm.once()) for _ in range(END_STEPS)]
    except StepprofError:
        return None


def _note_nudged(before: End, after: End, answers: Answers, allowed: Outputs) -> None:
    """With the state of both changed alike, results that were computed from it change alike."""
    if before.nudged is None or after.nudged is None or before.stored:
        return
    if all(_agree_roughly(*two, allowed) for two in zip(before.nudged, after.nudged, strict=True)):
        return
    answers.remark(
        "nudged",
        f"when every number in the state of both arms was changed alike by {100 * (NUDGE - 1):.2g} % after the timing, "
        "their results no longer agreed: one of them may return results that it stored, which is no faster step, or "
        "work on a copy of its weights",
    )


def _agree_roughly(one: Mapping[str, Any], other: Mapping[str, Any], allowed: Outputs) -> bool:
    """Within the tolerance, or a small share of the largest number: the state's change is many times that."""
    largest = max((float(np.abs(held).max(initial=0.0)) for _, held in _numeric(one)), default=0.0)
    near = Outputs(
        relative_tolerance=max(allowed.relative_tolerance, FOLLOWS),
        absolute_tolerance=max(allowed.absolute_tolerance, FOLLOWS * largest if np.isfinite(largest) else 0.0),
        reason="they follow the state",
    )
    return outputs.compare(one, other, near).agreement in ("nothing to compare", "bitwise", "within tolerance")


def _numeric(held: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, numbers) for name, leaf in held.items() if (numbers := values.numbers(leaf)) is not None]


def _has(test: Any, leaf: Any) -> bool:
    numbers = values.numbers(leaf)
    return numbers is not None and bool(test(numbers).any())


def _called(name: str) -> str:
    return f" ({name})" if name else ""


def _note(answers: Answers, steps: int, seen: Comparison, *, judged: bool) -> None:
    """Keep the worst of all replicates."""
    told = answers.outputs.get("after_timed_steps", {})
    before = outputs.worst(answers.ends) if answers.ends else None
    answers.ends.append(seen)
    whole = outputs.worst(answers.ends)
    worse = before is None or (whole.agreement, whole.absolute) != (before.agreement, before.absolute)
    answers.outputs["after_timed_steps"] = {
        "steps": steps if worse else told["steps"],
        "agreement": whole.agreement,
        "judged": judged and told.get("judged", True),
        "largest_absolute_difference": outputs.finite(whole.absolute),
        "largest_relative_difference": outputs.finite(whole.relative),
    }
