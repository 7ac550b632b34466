"""An idle device that waits for the host: because it was waited for, because it is slow, because work is in crumbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import TO_DEVICE, TO_HOST, is_match
from stepprof_lab.trace.findings.words import counted, first_lines, lines_of, ms, percent, quoted, where_to_look
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

GRAPHS = (
    " Work was launched as a graph here, and graphs can be recorded late or in part: "
    "what looks idle may have been at work."
)


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
    callers = _callers(case, rows)
    lines = lines_of(case, rows)
    calls = case.by_name(rows, np.ones(len(rows), dtype=np.int64))
    waited_for = _waited_for(case, end)
    return Finding(
        id="host-sync",
        observation=(
            f"The host waited for the device in {counted(len(rows), 'call')} "
            f"({quoted([name for name, _ in calls[:3]])}, called by {quoted(callers[:3])}) for "
            f"{ms(intervals.total(*waited))} of the {ms(case.length)} of {case.of_window}. The device worked during "
            f"{ms(worked)} of that, which is the time of its work and not of the call"
            + (f"; the work that ended last was {quoted(waited_for[:2])}" if waited_for else "")
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
        evidence={
            "names": [name for name, _ in calls[:5]],
            "operators": callers[:5],
            "calls": len(rows),
            "waited_us": us(intervals.total(*waited)),
            "gpu_busy_during_waits_us": us(worked),
            "gpu_idle_blamed_us": us(blamed),
            "waited_for": waited_for,
            "lines": lines,
        },
    )


def _callers(case: Case, rows: Int64) -> list[str]:
    """The operators around host calls, the most frequent first; the calls themselves where there are none."""
    inner = case.operator_of(rows)
    names = [case.name_of(op if op >= 0 else row) for op, row in zip(inner.tolist(), rows.tolist(), strict=True)]
    return sorted(dict.fromkeys(names), key=lambda name: -names.count(name))


def _waited_for(case: Case, ends: Int64) -> list[str]:
    """The device work that ended last before the waits did, by its summed time."""
    order = np.argsort(case.device.end, kind="stable")
    place = np.searchsorted(case.device.end[order], ends, side="right") - 1
    found = intervals.distinct(order[place[place >= 0]])
    # A copy back is the end of the wait; what it had to wait for is the work before it.
    work = found[case.trace.kind[case.device.rows[found]] == Kind.KERNEL]
    return [
        name for name, _ in case.by_name(case.device.rows[work], case.device.end[work] - case.device.start[work])[:3]
    ]


# ---- host-bound ----


def host_bound(case: Case) -> Finding | None:
    """The device waits for launches, while the host neither reads a batch nor waits."""
    if not case.judged or not len(case.device) or not case.in_window.any():
        return None
    starved = intervals.total(*case.idle.host)
    if case.ratio(starved) < HOST_BOUND_SHARE:
        return None
    operators = _busiest(case, case.idle.host)
    ended_by = case.device.launch_row[_ending(case, case.idle.host)]
    lines = lines_of(case, ended_by[ended_by >= 0])
    known = case.waiting.reading is not None
    return Finding(
        id="host-bound",
        observation=(
            f"The device had nothing to do for {ms(starved)} of the {ms(case.length)} of {case.of_window} "
            f"({percent(case.ratio(starved))}) because what came next was not launched yet, while the host "
            f"{'neither read a batch nor waited' if known else 'did not wait'} for the device." + first_lines(lines)
        ),
        hypothesis=(
            "The host may not launch as fast as the device works: its own Python, operators on the CPU, first use of "
            "something" + ("" if known else ", or reading that no label names") + ". The profiler slows the host down, "
            "so a part of this may be its own."
        ),
        next_check=(
            "Time the step outside the profiler with larger batches: where the host is the limit, more work a step "
            "costs little. Then look at what the host does (a sampling profiler, or stacks), and compare a compiled or "
            "graph-launched step with equal outputs (stepprof validate)." + where_to_look(case, lines)
        ),
        share_of_step=case.share(starved),
        evidence={
            "gpu_idle_for_host_us": us(starved),
            "gpu_idle_us": us(case.length - intervals.total(*case.busy)),
            "launches": len(intervals.distinct(case.device.launch_row[case.in_window])),
            "operators": operators,
            "lines": lines,
        },
    )


def _ending(case: Case, idle: Intervals) -> Int64:
    """The device events that end idle pieces, longest pieces first."""
    start, end, following, _ = case.gaps
    hit = intervals.contains(idle, start) & (following >= 0)
    return following[hit][np.argsort(-(end - start)[hit], kind="stable")]


def _busiest(case: Case, idle: Intervals) -> list[str]:
    """Operators that ran on the launching threads while the device waited, by their time in it; outermost ones."""
    rows = case.trace.of(Kind.OPERATOR)
    rows = rows[np.isin(case.trace.lane_id[rows], case.launch_lanes) & case.own_operator[case.trace.name_id[rows]]]
    upto = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(idle[1] - idle[0])))

    def covered(at: Int64) -> Int64:
        place = np.searchsorted(idle[0], at, side="right")
        last = np.maximum(place - 1, 0)
        done: Int64 = np.where(place > 0, upto[last] + np.minimum(at, idle[1][last]) - idle[0][last], 0)
        return done

    inside = covered(case.trace.end[rows]) - covered(case.trace.start[rows])
    return [name for name, ns in case.by_name(rows, inside)[:3] if ns > 0]


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
            f"{launches // turns} launches{a_step}; {percent(float(tiny.mean()))} of the device work they queued lasts "
            f"at most {TINY_NS // 1000} us (median {np.median(lasted) / 1000:.1f} us). Pauses of at most "
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
