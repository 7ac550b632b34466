"""The two designs in which arms take turns.

*Blocks in random pairs*: both arms live, and short blocks of them alternate in an order drawn anew for each pair, so
that whatever changes on the machine meets both.

*Whole arms in random order*: for steps that read. The workers of a loader deliver in bursts with a period of their
number, and refill its queue while the other arm runs; so one arm lives at a time, its queue is emptied first, and
what counts is the mean over whole periods.
"""

from __future__ import annotations

import math

from stepprof_lab.validate.agreement import Answers, refuse_leaks, workers_of
from stepprof_lab.validate.arms import RunningArm
from stepprof_lab.validate.beginning import Start, same_start
from stepprof_lab.validate.bench import ARMS, Bench
from stepprof_lab.validate.ending import End, same_end
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.plan import (
    MIN_BLOCK_MS,
    MIN_GPU_BLOCK_MS,
    PairsPlan,
    WholePlan,
    drained_steps,
    plan_pairs,
    plan_whole_arms,
)
from stepprof_lab.validate.steady import find, is_settled
from stepprof_lab.validate.timed_outputs import TimedOutputs


def make_plan(bench: Bench, answers: Answers) -> PairsPlan | WholePlan:
    """The plan for the scenario's boundary, within what is left of the budget."""
    if not bench.scenario.boundary.read:
        shortest = MIN_GPU_BLOCK_MS if bench.device.is_gpu else MIN_BLOCK_MS
        return plan_pairs(answers.costs, bench.terms, min_block_ms=shortest)
    seen = [workers_of(bench, answers.loaders[name]) for name in ARMS]
    return plan_whole_arms(
        answers.costs,
        bench.terms,
        drained=max(drained_steps(workers, prefetch) for workers, prefetch in seen),
        period=math.lcm(*(max(1, workers) for workers, _ in seen)),
    )


def carry_out(bench: Bench, plan: PairsPlan | WholePlan, answers: Answers) -> None:
    """Measure every replicate of the plan that is not done; the blocks and start-ups are kept in ``bench``.

    Raises:
        NotComparable: a replicate's arms do not start or do not end in the same state.
        StepprofError: an arm raised, or its loader ended.
    """
    begin, first = bench.clock(), bench.done
    for replicate in range(first, bench.replicates):
        bench.progress("timing", replicate, bench.replicates)
        if isinstance(plan, PairsPlan):
            _pairs(bench, plan, replicate, answers)
        else:
            _whole_arms(bench, plan, replicate, answers)
        refuse_leaks(bench)
        bench.replicate_done()
        bench.timed_s = (bench.clock() - begin) / (bench.done - first) * bench.replicates
    bench.progress("timing", bench.replicates, bench.replicates)


def _pairs(bench: Bench, plan: PairsPlan, replicate: int, answers: Answers) -> None:
    first = plan.built_first[replicate]
    built = [bench.fresh(name, replicate) for name in _from(first)]
    arms = {arm.name: arm for arm in built}
    starts = {name: Start.of(arm) for name, arm in arms.items()}
    same_start(starts["before"], starts["after"])
    _warm_up(bench, plan, replicate, arms)
    timed = TimedOutputs(answers, bench.scenario.outputs)
    for number, pair in enumerate(plan.pairs[replicate]):
        for name in _from(pair.first):
            timed.note(bench.measure(arms[name], pair.steps, replicate=replicate, pair=number, host_clock=False))
    ends = {name: End.of(arms[name], starts[name], tolerant=not answers.bitwise, clock=bench.clock) for name in ARMS}
    same_end(ends["before"], ends["after"], answers, bench.scenario.outputs)
    timed.demand_same({name: end.look_ms for name, end in ends.items()})
    starts.clear()  # it holds the arms' memory
    bench.drop(*built)


def _warm_up(bench: Bench, plan: PairsPlan, replicate: int, arms: dict[ArmName, RunningArm]) -> None:
    """Warm both arms by the same number of steps, until both are steady or the plan's cap is reached."""
    times: dict[ArmName, list[float]] = {name: [] for name in arms}
    for _ in range(plan.most_windows):
        for name, arm in arms.items():
            times[name] += bench.start_up(arm, plan.window)
        if all(is_settled(one, plan.window) for one in times.values()):
            break
    for name, arm in arms.items():
        bench.note_warm_up(arm, replicate, times[name], find(times[name], plan.window).after)


def _whole_arms(bench: Bench, plan: WholePlan, replicate: int, answers: Answers) -> None:
    starts: dict[ArmName, Start] = {}
    ends: dict[ArmName, End] = {}
    timed = TimedOutputs(answers, bench.scenario.outputs)
    for name in _from(plan.first[replicate]):
        arm = bench.fresh(name, replicate)
        seen = Start.of(arm)
        starts[name] = Start(seen.fingerprint, seen.samples, {})  # its memory is freed before the other is built
        if len(starts) == len(ARMS):
            same_start(starts["before"], starts["after"])
        times = bench.start_up(arm, plan.drained)
        answered = bench.measure(arm, plan.steps, replicate=replicate, pair=0, host_clock=True)
        timed.note(answered)
        block = answered.block
        # A handful of steps cannot show when an arm is steady: the timed ones that follow help to tell.
        series = times + (block.steps_ms if block.per_step else [])
        window = plan.period * max(1, len(series) // (4 * plan.period))
        bench.note_warm_up(arm, replicate, times, find(series, window).after)
        ends[name] = End.of(arm, seen, tolerant=not answers.bitwise, clock=bench.clock)
        del seen
        bench.drop(arm)
        bench.progress("timing", replicate, bench.replicates)
    same_end(ends["before"], ends["after"], answers, bench.scenario.outputs)
    timed.demand_same({name: end.look_ms for name, end in ends.items()})


def _from(first: ArmName) -> tuple[ArmName, ArmName]:
    return ("before", "after") if first == "before" else ("after", "before")
