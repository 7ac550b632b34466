"""From raw times to a verdict: pure functions over arrays. Nothing here reads a clock.

The unit of replication is the replicate, a fresh pair of arms: steps of one instance are not independent of each
other, and instances differ by more than their steps do. Each replicate gives one log ratio; the interval is Student's
over replicates. Swapping the labels of blocks inside a replicate would test another claim, that these two instances are
alike, and calls equal arms different for their instances; swapping whole replicates has 128 outcomes for 8 of them, and
says what Student's interval says more coarsely. So there is neither. What all replicates share is added to the interval
(`SHARED_ERROR`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate import clocks
from stepprof_lab.validate.model import Arm, ArmName, Block, Statistic, Verdict

PAIRS = "blocks in random pairs"
WHOLE_ARMS = "whole arms in random order"

CONFIDENCE = 0.95
POWER = 0.8
"""Probability with which a change of the smallest effect seen is called one."""
SHARED_ERROR = 0.0015
"""Standard deviation, as a share, of what all replicates of one validation have in common and no spread between them
shows: where things lie in memory, the state in which the machine happens to be. Over twice 400 validations of equal
arms the ratios varied by more than their own replicates told, by 0.15 and 0.17 % (tests/benchmarks/README.md)."""


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the blocks alone."""

    verdict: Verdict
    ratio: float
    interval: tuple[float, float]
    smallest_effect_seen: float
    replicates_needed: int | None
    """With how many replicates the smallest effect seen would be as small as the margin; None: with none."""
    replicate_ratios: list[float]
    statistics: list[Statistic]
    reasons: list[str]


# Student's t ---------------------------------------------------------------------------------------------------


def t_cdf(t: float, degrees: float) -> float:
    """Probability that Student's t with these degrees of freedom is at most ``t``.

    By the regularised incomplete beta function (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1).
    """
    if t * t < degrees:  # near the middle the tail would lose what is to be told from a half
        half = 0.5 * _incomplete_beta(t * t / (degrees + t * t), 0.5, degrees / 2)
        return 0.5 + half if t > 0 else 0.5 - half
    tail = 0.5 * _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)
    return 1 - tail if t > 0 else tail


@functools.lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """The ``t`` whose `t_cdf` is ``probability``, by bisection to about 12 digits.

    Args:
        probability: between 0 and 1, both excluded.
        degrees: degrees of freedom, at least 1.
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < probability:
        low, high = high, high * 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / a * _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method."""
    c, d = 1.0, _not_zero(1 - (a + b) * x / (a + 1))
    result = d = 1 / d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + numerator * d)
            c = _not_zero(1 + numerator / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


# Ratios and verdicts -------------------------------------------------------------------------------------------


def _paired_q25(before: Sequence[Block], after: Sequence[Block]) -> float:
    """The median, over the pairs, of the ratio of the two blocks' lower quartiles.

    Within a block the quartile leaves out what interrupts single steps. Between blocks a machine that others share has
    times of full and of half speed, of any length, which meet both blocks of a pair and cancel in their ratio; a
    quartile over the steps of all blocks would compare how much of them each arm had.
    """
    own = {block.pair: _low(block) for block in before}
    both = [(own[block.pair], _low(block)) for block in after if block.pair in own]
    # A region need not occur in every block; where most blocks have none there is no usual ratio.
    seen = [(one, other) for one, other in both if one > 0 and other > 0]
    if 2 * len(seen) <= len(both):
        arm = before if sum(one > 0 for one, _ in both) < sum(other > 0 for _, other in both) else after
        _positive(0.0, arm[0])
    return math.exp(float(np.median([math.log(other / one) for one, other in seen])))


def _low(block: Block) -> float:
    """The lower quartile of a few values, as `numpy.quantile` has it, which takes 100 us for each call."""
    ordered = sorted(block.steps_ms)
    whole, part = divmod((len(ordered) - 1) * 0.25, 1)
    low, high = ordered[int(whole)], ordered[min(int(whole) + 1, len(ordered) - 1)]
    return low + (high - low) * part


def _median(before: Sequence[Block], after: Sequence[Block]) -> float:
    one, other = (_positive(float(np.median(_times(arm)[0])), arm[0]) for arm in (before, after))
    return other / one


def _mean(before: Sequence[Block], after: Sequence[Block]) -> float:
    one, other = (_positive(_mean_ms(arm), arm[0]) for arm in (before, after))
    return other / one


def _mean_ms(blocks: Sequence[Block]) -> float:
    times, weights = _times(blocks)
    return float(np.average(times, weights=weights))


STATISTICS: dict[str, Callable[[Sequence[Block], Sequence[Block]], float]] = {
    "q25": _paired_q25,
    "median": _median,
    "mean": _mean,
}
"""After over before from the blocks of one replicate. q25, a low quantile, moves least when something else runs."""

DECIDES = {PAIRS: "q25", WHOLE_ARMS: "mean"}
"""Which statistic a design's verdict is on. Workers deliver in bursts: only the mean over whole bursts has the wait."""


def t_interval(values: Sequence[float], shared: float = 0.0) -> tuple[float, float, float, float]:
    """Mean, lower and upper end of Student's interval at `CONFIDENCE`, and standard deviation of the values.

    Args:
        values: at least two independent values (log ratios of replicates).
        shared: standard deviation, known and not estimated from the values, of what they all have in common.
    """
    mean, deviation, count = float(np.mean(values)), float(np.std(values, ddof=1)), len(values)
    half = _reach(deviation, count, shared, 0.5 + CONFIDENCE / 2)
    return mean, mean - half, mean + half, deviation


def _reach(deviation: float, count: int, shared: float, *probabilities: float) -> float:
    """Quantiles of the mean's error, summed: Student's for what more values average out, the normal for the rest."""
    student = sum(t_quantile(one, count - 1) for one in probabilities)
    normal = sum(NormalDist().inv_cdf(one) for one in probabilities)
    return math.hypot(student * deviation / math.sqrt(count), normal * shared)


def verdict_of(interval: tuple[float, float], margin: float) -> Verdict:
    """What an interval of the ratio after/before says: a difference only where the whole of it is beyond the margin."""
    low, high = interval
    if high < 1 - margin:
        return "faster"
    if low > 1 + margin:
        return "slower"
    if low >= 1 - margin and high <= 1 + margin:
        return "equivalent"
    return "no difference shown"


def replicate_ratios(blocks: Sequence[Block], statistic: str) -> list[float]:
    """After over before by one statistic, for each replicate that has both arms, in order."""
    own: dict[tuple[int, ArmName], list[Block]] = {}
    for block in blocks:
        own.setdefault((block.replicate, block.arm), []).append(block)
    return [
        STATISTICS[statistic](own[replicate, "before"], own[replicate, "after"])
        for replicate in sorted({replicate for replicate, _ in own})
        if (replicate, "before") in own and (replicate, "after") in own
    ]


def verdict_from(blocks: Sequence[Block], design: str, margin: float, decides: str | None = None) -> Conclusion:
    """The verdict, computed from the raw blocks and nothing else.

    Args:
        blocks: all blocks of at least two replicates, as they were measured.
        design: "blocks in random pairs" or "whole arms in random order"; it says which statistic decides.
        margin: differences smaller than this share are not called differences.
        decides: the one statistic that is computed, where the design's own would not do.

    Raises:
        StepprofError: fewer than two whole replicates, an unknown design, or step times of zero.
    """
    if design not in DECIDES:
        raise StepprofError(f"design {design!r}", f"{PAIRS!r} or {WHOLE_ARMS!r}", "read it from the validation")
    names = list(STATISTICS) if decides is None else [decides]
    decides = decides or DECIDES[design]
    whole = len(replicate_ratios(blocks, decides))
    if whole < 2:
        raise StepprofError(
            f"{whole} whole replicates", "at least 2, because an interval needs a spread", "measure again"
        )
    blocks, told = blocks_that_count(blocks, decides)
    ratios = replicate_ratios(blocks, decides)
    ratio, interval, deviation = ratio_of(ratios)
    verdict = verdict_of(interval, margin)
    effect = _smallest_effect(deviation, len(ratios))
    needed = _replicates_needed(deviation, margin)
    statistics = [_statistic(blocks, name) for name in names]
    seen = (
        f"by the {in_words(decides)} a step of after takes {ratio:.4g} of before's time "
        f"(95 % interval {interval[0]:.4g} to {interval[1]:.4g}, {len(ratios)} replicates)"
    )
    return Conclusion(
        verdict=verdict,
        ratio=ratio,
        interval=interval,
        smallest_effect_seen=effect,
        replicates_needed=needed,
        replicate_ratios=ratios,
        statistics=statistics,
        reasons=[
            _reason(verdict, margin, seen),
            *told,
            *_power_reason(verdict, effect, needed, margin, len(ratios)),
            *_disagreements(verdict, decides, statistics, margin, design),
        ],
    )


def blocks_that_count(blocks: Sequence[Block], statistic: str) -> tuple[list[Block], list[str]]:
    """The blocks by the clock that has all of their work, and why, if that is not the one they were timed with.

    On a GPU the device's events count. Where the host's clock clearly tells another ratio, they missed work, and the
    host's clock over whole blocks counts for both arms.
    """
    by_host = clocks.by_host(blocks)
    if by_host is None:
        return list(blocks), []
    told = [ratio_of(replicate_ratios(one, statistic))[:2] for one in (blocks, by_host)]
    if not clocks.disagree(*told):
        return list(blocks), []
    return by_host, [clocks.sentence(*told)]


def ratio_of(ratios: Sequence[float]) -> tuple[float, tuple[float, float], float]:
    """Geometric mean, its interval, and the standard deviation of the logs, where a half and a double are as far."""
    mean, low, high, deviation = t_interval([math.log(one) for one in ratios], SHARED_ERROR)
    return math.exp(mean), (math.exp(low), math.exp(high)), deviation


def _statistic(blocks: Sequence[Block], name: str) -> Statistic:
    ratio, interval, _ = ratio_of(replicate_ratios(blocks, name))
    return Statistic(name=name, ratio=ratio, interval=interval)


def _positive(value: float, block: Block) -> float:
    """A time in ms that a ratio can be made of."""
    if not value > 0:
        raise StepprofError(
            f"steps of arm {block.arm} took {value} ms in replicate {block.replicate}",
            "steps longer than the clock can resolve",
            "let one step do more work",
        )
    return value


def _times(blocks: Sequence[Block]) -> tuple[Any, Any]:
    """All values in ms, and how many steps each of them stands for."""
    times = np.array([value for block in blocks for value in block.steps_ms])
    weights = np.array([1 if block.per_step else block.steps or 1 for block in blocks for _ in block.steps_ms])
    return times, weights


def _smallest_effect(deviation: float, count: int) -> float:
    """How far beyond the margin a change must be to be called with probability `POWER`, as a share."""
    return math.expm1(_reach(deviation, count, SHARED_ERROR, 0.5 + CONFIDENCE / 2, POWER))


def _replicates_needed(deviation: float, margin: float) -> int | None:
    """The smallest number of replicates for which `_smallest_effect` is at most the margin; None above a million."""

    def enough(count: int) -> bool:
        return _smallest_effect(deviation, count) <= margin

    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
        if high > 1_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _reason(verdict: Verdict, margin: float, seen: str) -> str:
    if verdict == "faster":
        return f"{seen}: the whole interval is below {1 - margin:.4g}"
    if verdict == "slower":
        return f"{seen}: the whole interval is above {1 + margin:.4g}"
    if verdict == "equivalent":
        return f"{seen}: the whole interval is within {_percent(margin)} of no change"
    return f"{seen}: the interval holds both a change beyond the margin of {_percent(margin)} and one within it"


def _power_reason(verdict: Verdict, effect: float, needed: int | None, margin: float, count: int) -> list[str]:
    if verdict != "no difference shown":
        return []
    shown = (
        f"this is not a proof that there is none: a change of {_percent(margin + effect)} "
        f"(the margin and {_percent(effect)} beyond it) would have been called with a probability of {POWER:.1f}"
    )
    if needed is None:
        return [f"{shown}; no number of replicates brings what is beyond the margin down to {_percent(margin)}"]
    if needed <= count:
        return [shown]
    more = f"about {needed} replicates would bring what is beyond the margin down to {_percent(margin)}"
    return [f"{shown}; {more}" + ("; a quieter machine helps more" if needed > 10 * count else "")]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _disagreements(
    verdict: Verdict, decides: str, statistics: Sequence[Statistic], margin: float, design: str
) -> list[str]:
    """One sentence for each other statistic whose own verdict is another one."""
    found = []
    for one in statistics:
        other = verdict_of(one.interval, margin)
        if one.name == decides or other == verdict:
            continue
        why = "a change can act on some steps only"
        if design == WHOLE_ARMS:
            why = "it misses waits that come in bursts of a loader's period, and the verdict is on the mean"
        elif other == "no difference shown":
            why = "its spread is wider" if one.name == "mean" else "its spread is another one"
        found.append(
            f"by the {in_words(one.name)} alone the verdict would be {other!r} "
            f"({one.ratio:.4g}, {one.interval[0]:.4g} to {one.interval[1]:.4g}): {why}"
        )
    return found


def in_words(statistic: str) -> str:
    """A statistic's name as it stands in a sentence."""
    return {"q25": "lower quartile"}.get(statistic, statistic)


# Summaries -----------------------------------------------------------------------------------------------------


def arm_of(blocks: Sequence[Block], name: ArmName, samples: int | None) -> Arm:
    """One arm over all its blocks; times in ms, throughput from the mean."""
    own = [block for block in blocks if block.arm == name]
    times, weights = _times(own)
    q25, median, q75 = (float(one) for one in np.quantile(times, [0.25, 0.5, 0.75]))
    mean = _mean_ms(own)
    return Arm(
        name=name,
        steps=int(weights.sum()),
        median_ms=median,
        mean_ms=mean,
        iqr_ms=q75 - q25,
        q25_ms=q25,
        samples_per_s=samples * 1e3 / mean if samples is not None and mean > 0 else None,
    )


def spearman(values: Sequence[float]) -> float | None:
    """Spearman's rank correlation of values with their order, ties by mean rank; None where all are equal."""
    ranks = _ranks(np.asarray(values, dtype=float))
    order = np.arange(len(values), dtype=float)
    if len(values) < 3 or np.ptp(ranks) == 0:
        return None
    return float(np.corrcoef(ranks, order)[0, 1])


def _ranks(values: Any) -> Any:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + last - 1) / 2)[inverse]


def drifts(correlation: float | None, count: int, probability: float = 0.01) -> bool:
    """Whether a rank correlation of ``count`` values is too large for chance (two-sided, by Student's t)."""
    if correlation is None or count < 5:
        return False
    if abs(correlation) >= 1:
        return True
    t = abs(correlation) * math.sqrt((count - 2) / (1 - correlation * correlation))
    return t_cdf(-t, count - 2) < probability / 2
