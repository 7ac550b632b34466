"""Which rank has the most own time, in what it differs from the others, and what can be concluded from that."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from stepprof_lab.trace.ranks_model import Conclusion, Differs, Slowest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepprof_lab.trace.rank import Window
    from stepprof_lab.trace.ranks import Placed
    from stepprof_lab.trace.ranks_model import Arrivals, Clock, RankTrace

STANDS_OUT_SHARE = 0.05
"""Share of the step by which a rank's own time has to exceed the others' before it is called slower: two active steps
vary by a few percent by themselves."""
OPERATOR_EXPLAINS = 0.5
"""Part of the difference from which on an operator is named for it in the conclusion."""
EXPLAINS = 0.9
"""An inner label explains what an outer one shows from this part of it on."""


def find(placed: Sequence[Placed]) -> list[Slowest]:
    """The slowest rank by the host's own time, and by the device's where two ranks or more observed one."""
    found = [_slowest("cpu", placed)]
    observed = [one for one in placed if all(window.device_own is not None for window in one.windows)]
    if len(observed) >= 2:
        found.append(_slowest("gpu", observed))
    return found


def _slowest(by: Clock, placed: Sequence[Placed]) -> Slowest:
    own = {one.rank: [_own(by, window) for window in one.windows] for one in placed}
    means = {rank: statistics.fmean(steps) for rank, steps in own.items()}
    worst = max(placed, key=lambda one: means[one.rank])
    others = [one for one in placed if one is not worst]
    median = statistics.median(means[one.rank] for one in others)
    step = statistics.fmean(window.elapsed for window in worst.windows)
    more = means[worst.rank] - median
    share = more / step if step else 0.0
    every = all(
        steps[n] <= own[worst.rank][n] for rank, steps in own.items() if rank != worst.rank for n in range(len(steps))
    )
    return Slowest(
        by=by,
        rank=worst.rank,
        own_us=_us(means[worst.rank]),
        others_median_us=_us(median),
        more_us=_us(more),
        share_of_step=round(share, 6),
        in_every_step=every,
        stands_out=every and share >= STANDS_OUT_SHARE,
        label=_innermost(_differences(worst, others, _labels(by))),
        operator=next(iter(_differences(worst, others, _operators(by))), None),
    )


def _us(ns: float) -> float:
    return round(ns / 1000, 3)


def _own(by: Clock, window: Window) -> int:
    return window.host_own if by == "cpu" else window.device_own or 0


def _labels(by: Clock) -> Callable[[Window], Mapping[str, int]]:
    return (lambda window: window.label_own) if by == "cpu" else (lambda window: window.label_device)


def _operators(by: Clock) -> Callable[[Window], Mapping[str, int]]:
    return (lambda window: window.operator_self) if by == "cpu" else (lambda window: window.operator_device)


def _differences(
    worst: Placed, others: Sequence[Placed], times: Callable[[Window], Mapping[str, int]]
) -> list[Differs]:
    """What takes longer on one rank than on the others, means over the steps; the largest difference first."""
    mine, theirs = _means(worst, times), [_means(one, times) for one in others]
    found = []
    for name, own in mine.items():
        median = statistics.median(means.get(name, 0.0) for means in theirs)
        if own > median:
            found.append(Differs(name=name, own_us=_us(own), others_median_us=_us(median), more_us=_us(own - median)))
    return sorted(found, key=lambda one: -one.more_us)


def _means(one: Placed, times: Callable[[Window], Mapping[str, int]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for window in one.windows:
        for name, ns in times(window).items():
            sums[name] = sums.get(name, 0.0) + ns / len(one.windows)
    return sums


def _innermost(labels: Sequence[Differs]) -> Differs | None:
    """Of the labels that show nearly the largest difference the shortest one: it lies inside the others."""
    if not labels:
        return None
    near = [label for label in labels if label.more_us >= EXPLAINS * labels[0].more_us]
    return min(near, key=lambda label: label.own_us)


# ---- in words ----

NEXT_CHECK = (
    "Give every rank the same work of the same size and see whether the difference stays with the rank (its machine) "
    "or goes with the work; then change one thing and compare the step of the whole job outside the profiler."
)


def not_compared(against: Sequence[str]) -> Conclusion:
    """What is said of traces that cannot be of one run: nothing about their ranks.

    Args:
        against: why they cannot.
    """
    return Conclusion(
        observation=f"These traces are not of one run: {'; '.join(against)}. So their ranks are not compared.",
        hypothesis="None: which rank is slower can only be asked of ranks that ran together.",
        next_check=(
            "Read the traces that one run wrote, one a rank (stepprof read RANK0 RANK1 ...). To see what differs "
            "between two captures, read one with --compare the other."
        ),
    )


def conclude(
    traces: Sequence[RankTrace],
    found: Sequence[Slowest],
    arrived: Arrivals,
    missing: Sequence[int],
    *,
    doubted: bool = False,
) -> Conclusion:
    """Observation, hypothesis and next check.

    Args:
        traces: the ranks.
        found: the slowest one on each clock.
        arrived: who begins the collectives last.
        missing: ranks of the job of which no trace was given.
        doubted: whether something speaks against the traces being of one run.
    """
    out = [one for one in found if one.stands_out]
    named = [one for one in out if one.rank == arrived.last_rank] or out
    named.sort(key=lambda one: -one.more_us)
    seen = [_stands_out(one, len(traces[0].steps)) for one in named] or [_nobody(found)]
    seen.append(_arrives(arrived, traces))
    seen.append(_waiting(traces))
    if missing:
        seen.append(f"{len(missing)} of the job's ranks are missing here, the slowest one may be among them.")
    return Conclusion(
        observation=" ".join(filter(None, seen)),
        hypothesis=("If these traces are of one run: " if doubted else "") + _hypothesis(named, arrived, traces),
        next_check=_next_check(named, traces),
    )


def _ms(us: float) -> str:
    return f"{us / 1000:.3f} ms"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share >= 0.0005 else "less than 0.1 %"


def _clock(by: Clock) -> str:
    return "own host time" if by == "cpu" else "own device work"


def _stands_out(one: Slowest, steps: int) -> str:
    compared = "every compared step" if steps > 1 else "the one compared step"
    words = (
        f"Rank {one.rank} has the most {_clock(one.by)}, in {compared}: {_ms(one.own_us)} a step without "
        f"collectives, against {_ms(one.others_median_us)} (median of the others); {_ms(one.more_us)} more, "
        f"{one.share_of_step * 100:.1f} % of its step."
    )
    parts = []
    if one.label is not None:
        parts.append(f"the label '{_short(one.label.name)}' ({_ms(one.label.more_us)} more)")
    explains = one.operator is not None and one.operator.more_us >= OPERATOR_EXPLAINS * one.more_us
    if one.operator is not None and explains:
        kind = "self time" if one.by == "cpu" else "sum of what it launched"
        parts.append(f"the operator '{_short(one.operator.name)}' ({_ms(one.operator.more_us)} more, {kind})")
    words += f" It differs most in {' and '.join(parts)}." if parts else ""
    return words + ("" if explains else " No one operator shows as much: it may be spent outside operators.")


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"


def _nobody(found: Sequence[Slowest]) -> str:
    return f"No rank stands out by its own time: {'; '.join(map(_largest, found))}."


def _largest(one: Slowest) -> str:
    if not one.more_us:
        return f"{_clock(one.by)} is the same on all of them"
    varies = "" if one.in_every_step else ", not in every step"
    return (
        f"{_clock(one.by)} is largest on rank {one.rank} by {_ms(one.more_us)} a step "
        f"({_percent(one.share_of_step)}{varies})"
    )


def _arrives(arrived: Arrivals, traces: Sequence[RankTrace]) -> str:
    if not arrived.told:
        return f"Who arrives last at the collectives cannot be told: {arrived.why}."
    if arrived.last_rank is None:
        return (
            f"The ranks begin the {arrived.collectives} matched collectives too close to each other to tell who is "
            "last."
        )
    # The one that makes the others wait longest comes first; the counts alone would not tell it.
    late = sorted((one for one in traces if _known(one.arrives_last)), key=lambda one: -_known(one.arrives_last_sum_us))
    said = [
        f"rank {one.rank} is the last to begin {one.arrives_last} of them, "
        f"{_ms(_known(one.arrives_last_sum_us))} after the first rank{_summed(one)}"
        for one in late[:2]
    ]
    more = f", and {len(late) - 2} other rank{'s' * (len(late) > 3)} of some with less" if len(late) > 2 else ""
    return (
        f"{arrived.collectives} collective{'s' * (arrived.collectives != 1)} could be matched. Where it is clear: "
        f"{'; '.join(said)}{more}."
    )


def _summed(one: RankTrace) -> str:
    return (
        f" (a sum; the longest of them {_ms(_known(one.arrives_last_longest_us))})"
        if _known(one.arrives_last) > 1
        else ""
    )


def _known(value: Any) -> float:
    return 0.0 if value is UNSET else float(value)


def _waiting(traces: Sequence[RankTrace]) -> str:
    """How much of the exposed communication is waiting, on the rank that waits longest."""
    told = [one for one in traces if one.mean.peers_wait_exposed_us is not UNSET]
    if not told:
        return ""
    one = max(told, key=lambda each: _known(each.mean.peers_wait_exposed_us))
    exposed = _known(one.mean.exposed_communication_us)
    if not exposed:
        return ""
    waiting = _known(one.mean.peers_wait_exposed_us)
    return (
        f"On rank {one.rank}, {_ms(exposed)} a step is exposed communication, {_ms(waiting)} of it waiting for a peer "
        "that has not begun."
    )


def _hypothesis(named: Sequence[Slowest], arrived: Arrivals, traces: Sequence[RankTrace]) -> str:
    if named and named[0].rank == arrived.last_rank:
        return (
            f"The other ranks may be waiting for rank {named[0].rank}, whose own work takes longer. Why it does (more "
            "data, other shapes, a slower machine, something else running there) is not in these traces."
        )
    if named and not arrived.told:
        return (
            f"Rank {named[0].rank} may hold up the others; that they wait for it was not observed. Collectives "
            "bring the elapsed times of all ranks together, so these do not show it."
        )
    if named:
        return (
            f"Rank {named[0].rank} does more by itself, but is not the one that the others wait for: its own work may "
            "be hidden behind communication, or done after it."
        )
    if arrived.last_rank is not None:
        last = next(one for one in traces if one.rank == arrived.last_rank)
        one_alone = _known(last.arrives_last_longest_us) >= EXPLAINS * _known(last.arrives_last_sum_us)
        return (
            f"Rank {last.rank} may begin {'one collective' if one_alone else 'its collectives'} late for a reason that "
            "its own time does not show: the order of its work, or a delay before it."
        )
    return "The ranks may do the same work at the same pace; what communication costs then is the exchange itself."


def _next_check(named: Sequence[Slowest], traces: Sequence[RankTrace]) -> str:
    if not named:
        return (
            "Read each rank's trace alone (stepprof read TRACE): its own findings say what limits it. To learn what "
            "communication costs, compare the job with a run of one rank outside the profiler."
        )
    trace = next(one.trace for one in traces if one.rank == named[0].rank)
    return f"Read the trace of rank {named[0].rank} alone ({trace}). {NEXT_CHECK}"
