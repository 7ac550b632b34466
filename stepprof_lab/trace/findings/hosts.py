"""An idle device that waits for the host: because it was waited for, because it is slow, because work is in crumbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import TO_DEVICE, TO_HOST, is_match
from stepprof_lab.trace.findings.words import (
    GRAPHS,
    counted,
    first_lines,
    lines_of,
    ms,
    percent,
    quoted,
    where_to_look,
)
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64, Intervals

HOST_SYNC_SHARE = 0.10
"""Share of the step from which idle time around waits is reported: less could not shorten it by more than a tenth."""
HOST_BOUND_SHARE = 0.30
"""Share of the step that the device waits for the host's launches: nearly a third, as for waiting for input. Some idle
time at the edges of a step is usual."""
TINY_NS = 10_000
"""Device work that is shorter than what the host needs to launch it: an operator takes the host 5 to 10 us."""
MANY_LAUNCHES = 100
"""Launches a step that are "very many": fewer cost less than a millisecond together."""
MOSTLY = 0.5
"""Part of the device work that has to be tiny before a step is said to be in crumbs."""
SHORT_GAP_NS = 200_000
"""A pause between two pieces of device work that launching can explain; in longer ones the host did something else."""
SMALL_LAUNCHES_SHARE = 0.10
"""Share of the step that these pauses have to add up to: less could not shorten it by more than a tenth."""

MOST_OF_IT = 0.9
"""Part of a waiting time that a few of many calls have to make to be told apart: the rest is then a detail."""
NAMED_SHARE = 0.01
"""Part of the idle time from which an operator is named for it and its end is told apart, and part of a wait in which
the device has to work before its work is named as what was waited for."""

# ---- host-sync ----


def host_sync(case: Case) -> Finding | None:
    """The host waits for the device, and the device then has nothing to do.

    A wait is not time lost as long as the device works: that part is the work's, and is not counted here.
    """
    if not case.judged or not len(case.device):
        return None
    blamed = intervals.total(*case.idle.waiting)
    rows, start, end = case.waits
    if not len(rows) or case.ratio(blamed) < HOST_SYNC_SHARE:
        return None
    waited = intervals.intersect(intervals.union(start, end), case.window)
    worked = intervals.overlap(waited, case.device.merged)
    callers = _callers(case, rows, end - start)
    lines = lines_of(case, rows)
    calls = case.by_name(rows, end - start)
    seen = worked >= NAMED_SHARE * intervals.total(*waited)
    worked_in = _worked_in(case, waited) if seen else []
    waited_for = _waited_for(case, start, end) if seen else []
    return Finding(
        id="host-sync",
        observation=(
            f"The host waited for the device in {counted(len(rows), 'call')} "
            f"({quoted([name for name, _ in calls[:3]])}, called by {quoted(callers[:3])}) for "
            f"{ms(intervals.total(*waited))} of the {ms(case.length)} of {case.of_window}"
            + _few_calls(case, start, end)
            + f". The device worked during {ms(worked)} of that, which is the time of its work and not of the call"
            + (f" (the longest part in {quoted(worked_in[:1])})" if worked_in else "")
            + (f"; the work that ended last before the waits did was {quoted(waited_for[:1])}" if waited_for else "")
            + ". During these waits and right "
            f"after them it had nothing to do for {ms(blamed)} ({percent(case.ratio(blamed))})." + first_lines(lines)
        ),
        hypothesis=(
            "Reading a value on the host (printing, item(), a condition, a copy back) may keep it from launching "
            "ahead, so that the device runs empty. Where the device was idle during the wait itself, both may have "
            "waited for something that this trace does not show (another rank, another process)."
            + (GRAPHS if case.has_graph else "")
        ),
        next_check=(
            "Keep the value on the device and read it every n steps, or later; compare the outputs and validate "
            "outside the profiler (stepprof validate)." + where_to_look(case, lines)
        ),
        share_of_step=case.share(blamed),
        share_seen=case.share_seen(blamed),
        evidence={
            "names": [name for name, _ in calls[:5]],
            "operators": callers[:5],
            "calls": len(rows),
            "waited_us": us(intervals.total(*waited)),
            "gpu_busy_during_waits_us": us(worked),
            "gpu_idle_blamed_us": us(blamed),
            "worked_meanwhile": worked_in,
            "waited_for": waited_for,
            "lines": lines,
        },
    )


def _callers(case: Case, rows: Int64, waited: Int64) -> list[str]:
    """The operators around host calls, by their waiting; the calls themselves where there are none."""
    inner = case.operator_of(rows)
    return [name for name, _ in case.by_name(np.where(inner >= 0, inner, rows), waited)]


def _few_calls(case: Case, start: Int64, end: Int64) -> str:
    """How many calls make most of the waiting, where that is less than half of them."""
    longest = np.argsort(start - end, kind="stable")
    added = np.cumsum((end - start)[longest])
    few = int(np.searchsorted(added, MOST_OF_IT * added[-1])) + 1
    if 2 * few > len(longest):
        return ""
    mine = longest[:few]
    took = intervals.overlap(intervals.union(start[mine], end[mine]), case.window)
    return f" ({few} of them for {ms(took)})"


def _kernels(case: Case) -> Int64:
    return np.flatnonzero(case.trace.kind[case.device.rows] == Kind.KERNEL)


def _worked_in(case: Case, waited: Intervals) -> list[str]:
    """The kernels that ran during the waits, by their time in them."""
    kernels = _kernels(case)
    inside = _covered(waited, case.device.end[kernels]) - _covered(waited, case.device.start[kernels])
    return [name for name, ns in case.by_name(case.device.rows[kernels], inside)[:3] if ns > 0]


def _waited_for(case: Case, start: Int64, end: Int64) -> list[str]:
    """The kernels that ended last before the waits did, by the length of these waits.

    A copy back, or a fill, is the end of a wait; what it had to wait for is the work before it. A kernel that had
    ended before the wait began was not waited for.
    """
    device, kernels = case.device, _kernels(case)
    if not len(kernels):
        return []
    order = np.argsort(device.end, kind="stable")
    last = order[np.maximum(np.searchsorted(device.end[order], end, side="right") - 1, 0)]
    copies = (case.trace.kind[device.rows[last]] != Kind.KERNEL) & (device.end[last] <= end)
    upto = np.where(copies, device.start[last], end)
    kernels = kernels[np.argsort(device.end[kernels], kind="stable")]
    place = np.searchsorted(device.end[kernels], upto, side="right") - 1
    found = kernels[np.maximum(place, 0)]
    waited = (place >= 0) & (device.end[found] > start)
    return [name for name, _ in case.by_name(device.rows[found[waited]], (end - start)[waited])[:3]]


def _covered(merged: Intervals, at: Int64) -> Int64:
    """How much of a union lies before each instant, ns."""
    if not len(merged[0]):
        return np.zeros(len(at), dtype=np.int64)
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(merged[1] - merged[0])))
    place = np.searchsorted(merged[0], at, side="right")
    last = np.maximum(place - 1, 0)
    done: Int64 = np.where(place > 0, before[last] + np.minimum(at, merged[1][last]) - merged[0][last], 0)
    return done


# ---- host-bound ----


def host_bound(case: Case) -> Finding | None:
    """The device waits for launches, while the host neither reads a batch nor waits."""
    if not case.judged or not len(case.device) or not case.in_window.any():
        return None
    starved = intervals.total(*case.idle.host)
    if case.ratio(starved) < HOST_BOUND_SHARE:
        return None
    at_end = intervals.overlap(case.idle.host, case.after_last)
    ends = 2 * at_end > starved
    operators = _busiest(case, case.idle.host)
    ended_by = case.device.launch_row[_ending(case, case.idle.host)]
    lines = [] if ends else lines_of(case, ended_by[ended_by >= 0])
    known = case.waiting.reading is not None
    return Finding(
        id="host-bound",
        observation=(
            f"The device had nothing to do for {ms(starved)} of the {ms(case.length)} of {case.of_window} "
            f"({percent(case.ratio(starved))}) because {_not_launched(at_end, starved)}, while the host "
            f"{'neither read a batch nor waited' if known else 'did not wait'} for the device."
            + (
                f" {ms(at_end)} of this follow the last piece of device work."
                if at_end >= NAMED_SHARE * starved
                else ""
            )
            + first_lines(lines)
        ),
        hypothesis=(
            "The host may "
            + ("do something else after its last launch: " if ends else "not launch as fast as the device works: ")
            + "its own Python, operators on the CPU, first use of something"
            + ("" if known else ", or reading that no label names")
            + ". The profiler slows the host down, so a part of this may be its own."
        ),
        next_check=(
            (
                "Look at what the host does after its last launch (a sampling profiler, or stacks), and capture later "
                "steps, in which nothing is used for the first time."
                if ends
                else "Time the step outside the profiler with larger batches: where the host is the limit, more work a "
                "step costs little. Then look at what the host does (a sampling profiler, or stacks), and compare a "
                "compiled or graph-launched step with equal outputs (stepprof validate)."
            )
            + where_to_look(case, lines)
        ),
        share_of_step=case.share(starved),
        share_seen=case.share_seen(starved),
        evidence={
            "gpu_idle_for_host_us": us(starved),
            "gpu_idle_after_last_work_us": us(at_end),
            "gpu_idle_us": us(case.length - intervals.total(*case.busy)),
            "launches": len(intervals.distinct(case.device.launch_row[case.in_window])),
            "operators": operators,
            "lines": lines,
        },
    )


def _not_launched(at_end: int, starved: int) -> str:
    """What the device lacked: the next piece of work, any more work after its last one, or now one, now the other."""
    if at_end == starved:
        return "nothing more was launched"
    more = " or nothing more was launched" if at_end >= NAMED_SHARE * starved else ""
    return "what came next was not launched yet" + more


def _ending(case: Case, idle: Intervals) -> Int64:
    """The device events that end idle pieces, longest pieces first."""
    start, end, following, _ = case.gaps
    hit = intervals.contains(idle, start) & (following >= 0)
    return following[hit][np.argsort(-(end - start)[hit], kind="stable")]


def _busiest(case: Case, idle: Intervals) -> list[str]:
    """Operators that ran on the launching threads while the device waited, by their time in it; outermost ones.

    What ran in hardly any of it is left out: a picture would mark it where the device did not wait.
    """
    rows = case.trace.of(Kind.OPERATOR)
    rows = rows[np.isin(case.trace.lane_id[rows], case.launch_lanes) & case.own_operator[case.trace.name_id[rows]]]
    inside = _covered(idle, case.trace.end[rows]) - _covered(idle, case.trace.start[rows])
    least = NAMED_SHARE * intervals.total(*idle)
    return [name for name, ns in case.by_name(rows, inside)[:3] if ns >= least]


# ---- small-launches ----


def small_launches(case: Case) -> Finding | None:
    """Very many pieces of device work that are shorter than it takes to launch them, with pauses between."""
    if not case.judged or not len(case.device):
        return None
    names = case.trace.name_id[case.device.rows]
    crosses = (is_match(case.trace, TO_DEVICE) | is_match(case.trace, TO_HOST))[names]
    mine = np.flatnonzero(case.in_window & ~crosses)
    turns = max(len(case.steps), 1)
    launches = len(intervals.distinct(case.device.launch_row[mine]))
    if launches < MANY_LAUNCHES * turns:
        return None
    lasted = case.device.end[mine] - case.device.start[mine]
    tiny = lasted <= TINY_NS
    pauses = _short_pauses(case)
    lost = intervals.total(*pauses)
    if tiny.mean() <= MOSTLY or case.ratio(lost) < SMALL_LAUNCHES_SHARE:
        return None
    crumbs = mine[tiny]
    operators = [name for name, _ in case.by_name(*_by_operator(case, crumbs))[:5]]
    lines = lines_of(case, case.device.launch_row[crumbs])
    a_step = "" if case.whole_record else " a step"
    return Finding(
        id="small-launches",
        observation=(
            f"{launches // turns} launches{a_step}; {percent(float(tiny.mean()))} of the pieces of device work they "
            f"queued last at most {TINY_NS // 1000} us (median {np.median(lasted) / 1000:.1f} us), and make "
            f"{percent(float(lasted[tiny].sum() / max(lasted.sum(), 1)))} of the sum of its time. Pauses of at most "
            f"{SHORT_GAP_NS / 1e6:.1f} ms before such work add up to {ms(lost)} of the {ms(case.length)} of "
            f"{case.of_window} ({percent(case.ratio(lost))})." + first_lines(lines)
        ),
        hypothesis=(
            "The work may be in crumbs: each launch costs the host about as much as it gives the device to do."
            + (GRAPHS if case.has_graph else "")
        ),
        next_check=(
            "Group the work (a foreach or fused optimizer, larger batches, torch.compile or a graph), compare the "
            "outputs, and validate the cost of the whole step outside the profiler (stepprof validate)."
            + where_to_look(case, lines)
        ),
        share_of_step=case.share(lost),
        share_seen=case.share_seen(lost),
        evidence={
            "launches": launches,
            "steps": case.steps.names,
            "tiny": int(tiny.sum()),
            "gpu_median_us": float(np.median(lasted)) / 1000,
            "gpu_pauses_us": us(lost),
            "operators": operators,
            "lines": lines,
        },
    )


def _short_pauses(case: Case) -> Intervals:
    """Short idle pieces that end with tiny work, without reading and waiting."""
    start, end, following, _ = case.gaps
    after = np.maximum(following, 0)
    lasted = case.device.end[after] - case.device.start[after]
    hit = (following >= 0) & (end - start <= SHORT_GAP_NS) & (lasted <= TINY_NS)
    pauses = intervals.union(start[hit], end[hit])
    return intervals.subtract(intervals.subtract(pauses, case.reading), case.idle.waiting)


def _by_operator(case: Case, events: Int64) -> tuple[Int64, Int64]:
    """The operators that launched device events, and 1 for each event; events without an operator are left out."""
    rows = case.operator_of(case.device.launch_row[events])
    rows = rows[rows >= 0]
    return rows, np.ones(len(rows), dtype=np.int64)
