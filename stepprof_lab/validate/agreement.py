"""Do both arms do the same work? Some steps of each are compared before anything is timed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate import fingerprint, outputs, quality, start
from stepprof_lab.validate.arms import USUAL_PREFETCH, LoaderSeen, RunningArm
from stepprof_lab.validate.beginning import NotComparable, Start, same_start
from stepprof_lab.validate.bench import OUTPUTS_RUN, REHEARSAL, Bench
from stepprof_lab.validate.ending import End, refuse_stored, stored_after_search
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.outputs import Comparison
from stepprof_lab.validate.plan import OVERSHOOT, Cost, drained_steps, too_long, window_of
from stepprof_lab.validate.spans import Names, listening
from stepprof_lab.validate.start import RandomStates
from stepprof_lab.validate.steady import is_settled
from stepprof_lab.validate.timed_outputs import Reading

OUTPUT_STEPS = 5
"""Steps of each arm whose outputs are compared, unless the caller says otherwise."""

FEWEST_TIMED = 9
"""Steps of an arm in a replicate that even the smallest plan takes."""

MOST_PILOT_WINDOWS = 10

SEARCHED_SHARE = 0.02
"""Share of the budget in which each arm is watched for results that come back."""


@dataclasses.dataclass(frozen=True)
class Answers:
    """What the comparison of outputs has shown."""

    outputs: dict[str, Any]
    bitwise: bool
    samples: int | None
    costs: dict[ArmName, Cost]
    loaders: dict[ArmName, list[LoaderSeen]]
    ends: list[Comparison] = dataclasses.field(default_factory=list)
    """How the arms compared after the timed steps of each replicate."""
    learns: bool = True
    """Whether the state of an arm is another one after some steps."""
    reading: Reading = dataclasses.field(default_factory=Reading)
    """How long it takes to read what timed steps returned."""
    remarks: dict[str, str] = dataclasses.field(default_factory=dict)
    """What could not be judged and has to be told, one sentence for each kind."""

    def remark(self, kind: str, sentence: str) -> None:
        """Keep a sentence for the reasons, the first of its kind."""
        self.remarks.setdefault(kind, sentence)


@dataclasses.dataclass
class _Answered:
    """What one arm gave."""

    start: Start
    returned: list[dict[str, Any]]
    end_state: dict[str, Any]
    metrics: dict[str, float]
    random: RandomStates
    not_compared: list[str]
    build_s: float
    step_ms: float
    end_s: float
    learns: bool
    stored: bool
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
    refuse_leaks(bench)
    found = _report(before, after, steps, bench.scenario.outputs)
    returned = [
        outputs.compare(one, other, bench.scenario.outputs)
        for one, other in zip(before.returned, after.returned, strict=True)
    ]
    state = outputs.compare(before.end_state, after.end_state, bench.scenario.outputs)
    whole = outputs.worst([*returned, state])
    found |= {
        "agreement": whole.agreement,
        "largest_absolute_difference": outputs.finite(whole.absolute),
        "largest_relative_difference": outputs.finite(whole.relative),
    }
    if before.metrics or after.metrics:
        found["metrics"] = quality.compared(before.metrics, after.metrics, bench.scenario.outputs, steps)
    quality.demand_known(bench.scenario.outputs, [*before.metrics, *after.metrics])
    drawn = before.random.differing(after.random)
    for number, one in enumerate(returned, start=1):
        _demand(one, f"in step {number} the returned value", bench.scenario.outputs, found, drawn)
    _demand(state, f"after {steps} steps the state", bench.scenario.outputs, found, drawn)
    if not whole.agrees:
        raise NotComparable(
            "there is nothing to compare: the steps return nothing and have no state; "
            "return the loss or the output from the step, and give Step(..., state={...})",
            found,
        )
    quality.demand_equal(found.get("metrics", {}), found)
    answers = Answers(
        outputs=found,
        bitwise=whole.agreement == "bitwise",
        samples=before.start.samples,
        costs={"before": _cost(bench, "before", before), "after": _cost(bench, "after", after)},
        loaders={"before": before.loaders, "after": after.loaders},
        learns=before.learns or after.learns or not before.start.fingerprint,
    )
    refuse_stored(before.stored, after.stored, answers)
    if drawn:
        answers.remark("random", f"the answers are the same so far{_drawn(drawn)}")
    return answers


def refuse_leaks(bench: Bench) -> None:
    """Raise `NotComparable` where one arm sets a name in a module that the other runs with too."""
    for leak in bench.around.names.leaks():
        if leak.is_setting:
            raise NotComparable(
                f"{leak.sentence}: both live in one process, so what was timed would be neither arm as it is alone; "
                "give the value to what build makes, and keep it out of the module"
            )


def _answer(bench: Bench, name: ArmName, steps: int, other: _Answered | None) -> _Answered:
    begin, mark = bench.clock(), len(bench.loaders)
    arm = bench.fresh(name, OUTPUTS_RUN)
    started = Start.of(arm)
    build_s = bench.clock() - begin
    if other is not None:
        same_start(other.start, started)
    with _labels_heard(bench, name):
        returned, times = _steps_of(bench, arm, steps)
    bench.profilers.refuse(f"a step of arm {arm.name}, in {arm.where}")
    random = arm.random_states
    end_state, not_compared = start.held_state(arm.step.state), start.not_comparable(arm.step.state)
    with arm.turn():
        metrics = arm.quality()
    loaders = bench.loaders[mark:]
    step_ms = _pilot(bench, arm, times, loaders)
    begin = bench.clock()
    end = End.of(arm, started, tolerant=outputs.tolerates(bench.scenario.outputs), clock=bench.clock)
    end_s = bench.clock() - begin
    stored = end.stored or (not end.learns and stored_after_search(arm, SEARCHED_SHARE * bench.budget_s, bench.clock))
    bench.drop(arm)
    return _Answered(
        start=started,
        returned=returned,
        end_state=end_state,
        metrics=metrics,
        random=random,
        not_compared=not_compared,
        build_s=build_s,
        step_ms=step_ms,
        end_s=end_s,
        learns=end.learns,
        stored=stored,
        loaders=loaders,
    )


@contextlib.contextmanager
def _labels_heard(bench: Bench, name: ArmName) -> Iterator[None]:
    """Learn the names of an arm's labels, where one of them is asked about; none of these steps is timed for good."""
    if bench.region is None:
        yield
        return
    names = Names()
    with listening(names, None):
        yield
    bench.heard[name] = names.heard


def _cost(bench: Bench, name: ArmName, seen: _Answered) -> Cost:
    """What an instance costs, from the rehearsal and the comparison of outputs: one sample is off by several times."""
    share = 1 if bench.scenario.boundary.read else 0.5  # where both arms live, they are dropped at once
    rehearsed_s = bench.build_ms[name, REHEARSAL] / 1e3
    return Cost(
        fresh_s=seen.build_s + seen.end_s + share * max(bench.drops_s),
        least_fresh_s=min(seen.build_s, rehearsed_s) + seen.end_s + share * min(bench.drops_s),
        step_ms=seen.step_ms,
    )


def _steps_of(bench: Bench, arm: RunningArm, steps: int) -> tuple[list[dict[str, Any]], list[float]]:
    """What each step returned, and its time in ms."""
    returned, times = [], []
    with arm.turn():
        for _ in range(steps):
            begin = bench.clock()
            value = arm.once()
            bench.device.synchronize()
            times.append((bench.clock() - begin) * 1e3)
            arm.returned.note(value)
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
            if is_settled(seen, window) or sum(seen) > 50 * bench.budget_s:  # ms: 5 % of the budget
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
        "fingerprint": fingerprint.of_arm(before.returned, before.end_state),
    }
    if compared == ["state"]:
        found["note"] = "the steps return nothing that can be compared: the states alone were compared"
    if compared == ["returned values"]:
        found["note"] = "the steps have no state that can be compared: the returned values alone were compared"
    if names := sorted({*before.not_compared, *after.not_compared}):
        found["not_compared"] = names
    return found


def _demand(one: Comparison, what: str, allowed: Outputs, found: dict[str, Any], drawn: list[str]) -> None:
    """Raise `NotComparable` for a comparison that shows a difference or NaN.

    Args:
        one: the comparison.
        what: what was compared, in words.
        allowed: the scenario's tolerance.
        found: what is known of the outputs; the place of the difference is added.
        drawn: generators from which the arms drew differently.
    """
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
        f"the arms do not give the same answer: {place}: {one.why}{size}; allowed is {_allowed(allowed)}"
        f"{_drawn(drawn)}",
        found,
    )


def _drawn(generators: list[str]) -> str:
    """That one arm drew random numbers that the other did not, or seeded; nothing where both stand at one place."""
    if not generators:
        return ""
    return (
        f"; the arms do not draw the same random numbers ({', '.join(generators)}): look for dropout, shuffling or a "
        "seed that is set in one of them alone"
    )


def _allowed(allowed: Outputs) -> str:
    if not (allowed.relative_tolerance or allowed.absolute_tolerance):
        return "none (where arithmetic is reordered on purpose, state a tolerance with its reason)"
    return f"{allowed.absolute_tolerance:.3g} + {allowed.relative_tolerance:.3g} of before's value"
