"""How often this machine finds a difference where there is none: arm before against itself, with the same plan.

Every trial is a whole run, with its own order. How many there are is decided before the first of them, and all of them
count: stopping when the rate looks good would make it look good.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from stepprof_lab.errors import StepprofError
from stepprof_lab.progress import silent
from stepprof_lab.validate.agreement import Answers
from stepprof_lab.validate.beginning import NotComparable
from stepprof_lab.validate.bench import ARMS, Bench
from stepprof_lab.validate.designs import carry_out
from stepprof_lab.validate.model import Calibration, FalseAlarms, Trial
from stepprof_lab.validate.plan import PairsPlan, WholePlan, drawn_again
from stepprof_lab.validate.resume import Keeper
from stepprof_lab.validate.start import derived_seed
from stepprof_lab.validate.statistics import verdict_from, verdict_of
from stepprof_lab.validate.surroundings import Surroundings

ENOUGH_TRIALS = 20
"""With fewer the rate says little; that is told."""

MOST_TRIALS = 40
"""With none of them a false alarm the rate is below 9 %; more precision is rarely worth the wait."""

SPREAD_SHARE = 0.95

NORMAL_975 = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


def wilson(count: int, total: int) -> tuple[float, float]:
    """95 % confidence interval of a rate (Wilson 1927, score interval); it stays within 0 and 1, also for no event.

    Args:
        count: how often it happened.
        total: out of how many, at least 1.
    """
    z, rate = NORMAL_975, count / total
    middle = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def calibrate(
    bench: Bench, plan: PairsPlan | WholePlan, answers: Answers, keeper: Keeper, *, margin: float, budget_s: float
) -> Calibration:
    """Run arm before against itself, as often as it fits.

    Args:
        bench: the comparison, whose own timing is done.
        plan: its plan.
        answers: what the arms gave.
        keeper: told of each trial, and knows those of an earlier session.
        margin: the one in use.
        budget_s: what all trials may take, in seconds; apart from the comparison's budget.
    """
    begin = bench.clock()
    if keeper.trials_planned is None:
        keeper.trials_planned = min(MOST_TRIALS, int(budget_s / _trial_s(bench, plan)))
    planned, broken = keeper.trials_planned, None
    for number in range(len(keeper.trials), planned):
        bench.progress("calibration, A against A", number, planned)
        try:
            keeper.trials.append(_trial(bench, drawn_again(plan, _seed(bench, number)), answers, margin))
        except (NotComparable, StepprofError) as error:  # what was measured of both arms stands
            broken = f"arm before could not be compared with itself: {error}"
            break
        keeper.note(bench)
    bench.progress("calibration, A against A", planned, planned)
    told = [broken] if broken else []
    if planned < ENOUGH_TRIALS:
        need_s = math.ceil(ENOUGH_TRIALS * _trial_s(bench, plan))
        told.append(
            f"{planned} trials fit in the {budget_s:.4g} s that calibration was allowed; {ENOUGH_TRIALS}, with which a "
            f"rate says something, take about {need_s} s"
        )
    return summed_up(
        keeper.trials, margin, planned=planned, budget_s=budget_s, took_s=bench.clock() - begin, reasons=told
    )


def summed_up(
    trials: Sequence[Trial], margin: float, *, planned: int, budget_s: float, took_s: float, reasons: Sequence[str] = ()
) -> Calibration:
    """What the trials say together: false alarms at margin 0 and at the one in use, and how far ratios were from 1."""
    alarms = [_false_alarms(trials, one) for one in sorted({0.0, margin})] if trials else []
    spread = float(np.quantile([abs(one.ratio - 1) for one in trials], SPREAD_SHARE)) if trials else None
    return Calibration(
        arm="before",
        trials=list(trials),
        planned=planned,
        false_alarms=alarms,
        spread=spread,
        budget_s=budget_s,
        took_s=round(took_s, 3),
        reasons=[*(_in_words(one, len(trials)) for one in alarms), *_spread_in_words(spread), *reasons],
    )


def below_spread(ratio: float, calibration: Calibration) -> list[str]:
    """That a difference is smaller than those that this machine shows where there is none, if it is."""
    if calibration.spread is None or abs(ratio - 1) >= calibration.spread:
        return []
    told = (
        f"a difference of {_percent(abs(ratio - 1))} is below what this machine can tell: 95 % of the "
        f"runs of arm before against itself were up to {_percent(calibration.spread)} away from 1"
    )
    return [told]


def _trial_s(bench: Bench, plan: PairsPlan | WholePlan) -> float:
    """How long one trial takes, in seconds: as the run itself took, else as it was estimated."""
    return max(1e-9, bench.timed_s or plan.estimated_s)


def _seed(bench: Bench, number: int) -> int:
    return derived_seed(bench.scenario.seed, "calibration", number)


def _trial(bench: Bench, plan: PairsPlan | WholePlan, answers: Answers, margin: float) -> Trial:
    build = bench.builds["before"]
    bench.around.base.restore()
    own = dataclasses.replace(
        bench,
        builds=dict.fromkeys(ARMS, build),
        around=Surroundings(build, build),
        progress=silent,
        blocks=[],
        warm_ups=[],
        build_ms={},
        drops_s=[],
        done=0,
        on_replicate=lambda: None,
    )
    carry_out(own, plan, dataclasses.replace(answers, outputs=dict(answers.outputs), ends=[], remarks={}))
    found = verdict_from(own.blocks, plan.design, margin)
    return Trial(ratio=found.ratio, interval=found.interval, replicate_ratios=found.replicate_ratios)


def _false_alarms(trials: Sequence[Trial], margin: float) -> FalseAlarms:
    count = sum(verdict_of(one.interval, margin) in ("faster", "slower") for one in trials)
    return FalseAlarms(margin=margin, count=count, rate=count / len(trials), interval=wilson(count, len(trials)))


def _in_words(alarms: FalseAlarms, total: int) -> str:
    low, high = alarms.interval
    return (
        f"at a margin of {_percent(alarms.margin)} arm before was called faster or slower than itself in "
        f"{alarms.count} of {total} trials: {_percent(alarms.rate)}, 95 % interval {_percent(low)} to {_percent(high)}"
    )


def _spread_in_words(spread: float | None) -> list[str]:
    return [] if spread is None else [f"95 % of the ratios were up to {_percent(spread)} away from 1"]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
