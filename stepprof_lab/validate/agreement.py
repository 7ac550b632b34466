"""Do both arms start from the same state and do the same work? Asked before anything is timed, and after it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import outputs, start
from stepprof_lab.validate.arms import USUAL_PREFETCH, LoaderSeen, RunningArm
from stepprof_lab.validate.bench import OUTPUTS_RUN, Bench
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.outputs import Comparison
from stepprof_lab.validate.plan import OVERSHOOT, Cost, drained_steps, too_long, window_of
from stepprof_lab.validate.statistics import is_steady

FEWEST_TIMED = 9
"""Steps of an arm in a replicate that even the smallest plan takes."""

MOST_PILOT_WINDOWS = 10


class NotComparable(Exception):
    """The arms cannot be compared.

    Args:
        reason: why, in a sentence that names what differs.
        found: what was learned of the outputs.
    """

    def __init__(self, reason: str, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = dict(found or {})


@dataclasses.dataclass(frozen=True)
class Start:
    """What an arm starts from; its tensors are held, and nothing else of it."""

    fingerprint: dict[str, str]
    samples: int | None
    tensors: Mapping[str, Any]

    @classmethod
    def of(cls, arm: RunningArm) -> Start:
        """Look at an instance that has done no step yet."""
        return cls(start.fingerprint(arm.step.state), arm.step.samples, start.tensors_of(arm.step.state))


def same_start(before: Start, after: Start) -> None:
    """Raise `NotComparable` unless both start from equal values in memory of their own, with equal samples."""
    if before.samples != after.samples:
        raise NotComparable(
            f"the arms do not do the same work: a step of before processes {_count(before.samples)}, "
            f"a step of after {_count(after.samples)}"
        )
    if names := start.differing(before.fingerprint, after.fingerprint):
        told = start.difference_in_words(names, before.fingerprint, after.fingerprint)
        raise NotComparable(
            f"the arms do not start from the same state: {told}; both are built from the same random numbers, so make "
            "the model first in both, before a loader or anything else draws from them"
        )
    if names := start.shared_names(before.tensors, after.tensors):
        raise NotComparable(
            f"the arms share their state ({', '.join(names[:3])}): a step of one changes the other; "
            "make model and optimizer inside build"
        )


@dataclasses.dataclass(frozen=True)
class Answers:
    """What the comparison of outputs has shown."""

    outputs: dict[str, Any]
    bitwise: bool
    samples: int | None
    costs: dict[ArmName, Cost]
    loaders: dict[ArmName, list[LoaderSeen]]


@dataclasses.dataclass
class _Answered:
    """What one arm gave."""

    start: Start
    returned: list[dict[str, Any]]
    end_state: dict[str, Any]
    not_compared: list[str]
    cost: Cost
    loaders: list[LoaderSeen]


def compare_answers(bench: Bench, steps: int) -> Answers:
    """Run some steps of each arm, one after the other, from the same seeds, and compare what they give.

    Args:
        bench: the comparison.
        steps: steps to compare, at least 2: an update shows in the second.

    Raises:
        NotComparable: the start, the returned values or the states after the steps differ.
        StepprofError: an arm raised, or would take too long.
    """
    before = _answer(bench, "before", steps, None)
    after = _answer(bench, "after", steps, before)
    found = _report(before, after, steps, bench.scenario.outputs)
    returned = [
        outputs.compare(one, other, bench.scenario.outputs)
        for one, other in zip(before.returned, after.returned, strict=True)
    ]
    state = outputs.compare(before.end_state, after.end_state, bench.scenario.outputs)
    whole = outputs.worst([*returned, state])
    found |= {
        "agreement": whole.agreement,
        "largest_absolute_difference": _finite(whole.absolute),
        "largest_relative_difference": _finite(whole.relative),
    }
    for number, one in enumerate(returned, start=1):
        _demand(one, f"in step {number} the returned value", bench.scenario.outputs, found)
    _demand(state, f"after {steps} steps the state", bench.scenario.outputs, found)
    if not whole.agrees:
        raise NotComparable(
            "there is nothing to compare: the steps return nothing and have no state; "
            "return the loss or the output from the step, and give Step(..., state={...})",
            found,
        )
    return Answers(
        outputs=found,
        bitwise=whole.agreement == "bitwise",
        samples=before.start.samples,
        costs={"before": before.cost, "after": after.cost},
        loaders={"before": before.loaders, "after": after.loaders},
    )


@dataclasses.dataclass(frozen=True)
class End:
    """What an arm came to after its timed steps."""

    steps: int
    fingerprint: dict[str, str]
    returned: dict[str, Any]

    @classmethod
    def of(cls, arm: RunningArm) -> End:
        """One more step, which is not timed, and the state after it."""
        with arm.turn():
            returned = outputs.held_value(arm.once())
        return cls(arm.done, start.fingerprint(arm.step.state), returned)


def same_end(before: End, after: End, answers: Answers) -> None:
    """After the timed steps both arms must still agree, or the later ones were not the same work.

    Where the outputs agreed within a tolerance only, a difference is noted and not judged: rounding differences grow
    with the steps, and the tolerance was stated for a few.
    """
    names = start.differing(before.fingerprint, after.fingerprint)
    returned = outputs.compare(before.returned, after.returned, Outputs())
    equal = not names and returned.agreement in ("bitwise", "nothing to compare")
    answers.outputs["after_timed_steps"] = {
        "steps": before.steps,
        "agreement": "bitwise" if equal else "different",
        "judged": answers.bitwise,
    }
    if equal:
        return
    if returned.agreement == "not a number":
        raise NotComparable(f"after {before.steps} steps both arms return NaN: equal NaN prove nothing")
    if answers.bitwise:
        told = start.difference_in_words(names, before.fingerprint, after.fingerprint) or "the returned value"
        raise NotComparable(
            f"the arms agree bitwise at the beginning and differ after {before.steps} steps: {told}; "
            "where arithmetic may be reordered, state a tolerance with its reason"
        )


def _answer(bench: Bench, name: ArmName, steps: int, other: _Answered | None) -> _Answered:
    begin, mark = bench.clock(), len(bench.loaders)
    arm = bench.fresh(name, OUTPUTS_RUN)
    started = Start.of(arm)
    fresh_s = bench.clock() - begin
    if other is not None:
        same_start(other.start, started)
    returned, times = _steps_of(bench, arm, steps)
    end_state, not_compared = start.held_state(arm.step.state), start.not_comparable(arm.step.state)
    loaders = bench.loaders[mark:]
    step_ms = _pilot(bench, arm, times, loaders)
    begin = bench.clock()
    bench.drop(arm)
    cost = Cost(fresh_s=fresh_s + bench.clock() - begin, step_ms=step_ms)
    return _Answered(started, returned, end_state, not_compared, cost, loaders)


def _steps_of(bench: Bench, arm: RunningArm, steps: int) -> tuple[list[dict[str, Any]], list[float]]:
    """What each step returned, and its time in ms."""
    returned, times = [], []
    with arm.turn():
        for _ in range(steps):
            begin = bench.clock()
            value = arm.once()
            bench.device.synchronize()
            times.append((bench.clock() - begin) * 1e3)
            returned.append(outputs.held_value(value))
            bench.progress(f"outputs of {arm.name}", len(times), steps)
            if len(times) > 1:
                _refuse_long(bench, FEWEST_TIMED * min(times) / 1e3)
    return returned, times


def _pilot(bench: Bench, arm: RunningArm, times: list[float], loaders: list[LoaderSeen]) -> float:
    """Mean step in ms when the arm has come into its stride; it decides the plan and nothing else."""
    if bench.scenario.boundary.read:
        workers, prefetch = workers_of(bench, loaders)
        whole = max(1, workers) * math.ceil(5 / max(1, workers))
        drained = drained_steps(workers, prefetch)
        _refuse_long(bench, (drained + whole) * min(times[1:]) / 1e3)
        seen = bench.start_up(arm, drained + whole)[-whole:]
    else:
        window, seen = window_of(min(times[1:])), []
        for _ in range(MOST_PILOT_WINDOWS):
            seen += bench.start_up(arm, window)
            if is_steady(seen, window) or sum(seen) > 50 * bench.budget_s:  # ms: 5 % of the budget
                break
        seen = seen[-window:]
    return sum(seen) / len(seen)


def workers_of(bench: Bench, loaders: list[LoaderSeen]) -> tuple[int, int]:
    """Workers of an arm's loader and batches that each prepares in advance: as seen, else as the scenario states."""
    if loaders:
        most = max(loaders, key=lambda one: one.workers)
        return most.workers, most.prefetch
    return bench.scenario.conditions.loader_workers or 0, USUAL_PREFETCH


def _refuse_long(bench: Bench, replicate_s: float) -> None:
    terms = bench.terms
    if terms.replicates * replicate_s > terms.left_s * OVERSHOOT:
        raise too_long(terms.replicates * replicate_s, terms)


def _report(before: _Answered, after: _Answered, steps: int, allowed: Outputs) -> dict[str, Any]:
    compared = [
        what
        for what, seen in (
            ("returned values", any(before.returned) or any(after.returned)),
            ("state", before.end_state or after.end_state),
        )
        if seen
    ]
    found: dict[str, Any] = {
        "compared": compared,
        "steps": steps,
        "relative_tolerance": allowed.relative_tolerance,
        "absolute_tolerance": allowed.absolute_tolerance,
        "tolerance_reason": allowed.reason,
    }
    if compared == ["state"]:
        found["note"] = "the steps return nothing that can be compared: the states alone were compared"
    if compared == ["returned values"]:
        found["note"] = "the steps have no state that can be compared: the returned values alone were compared"
    if names := sorted({*before.not_compared, *after.not_compared}):
        found["not_compared"] = names
    return found


def _demand(one: Comparison, what: str, allowed: Outputs, found: dict[str, Any]) -> None:
    """Raise `NotComparable` for a comparison that shows a difference or NaN."""
    if one.agrees or one.agreement == "nothing to compare":
        return
    place = f"{what} ({one.where})" if one.where else what
    found |= {"where": place}
    if one.agreement == "not a number":
        raise NotComparable(f"{place} is NaN in both arms: equal NaN prove nothing", found)
    size = ""
    if one.absolute is not None:
        size = f"; largest difference {one.absolute:.3g}"
        size += f", {one.relative:.3g} of before's value" if one.relative is not None else ""
    raise NotComparable(
        f"the arms do not give the same answer: {place}: {one.why}{size}; allowed is {_allowed(allowed)}", found
    )


def _allowed(allowed: Outputs) -> str:
    if not (allowed.relative_tolerance or allowed.absolute_tolerance):
        return "none (where arithmetic is reordered on purpose, state a tolerance with its reason)"
    return f"{allowed.absolute_tolerance:.3g} + {allowed.relative_tolerance:.3g} of before's value"


def _count(samples: int | None) -> str:
    return "samples that it does not state" if samples is None else f"{samples} samples"


def _finite(value: float | None) -> float | None:
    """JSON has no infinity; the words of the reason have it."""
    return value if value is None or math.isfinite(value) else None
