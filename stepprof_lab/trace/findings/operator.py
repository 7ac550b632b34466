"""One operator that takes most of the step by its own time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.words import counted, first_lines, lines_of, ms, percent, quoted, where_to_look
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64, Intervals

DOMINANT_SHARE = 0.50
"""Share of the step that is "most of it": more than all the others together."""


@dataclasses.dataclass(frozen=True)
class _Most:
    """The operator (or kernel) with the most time of its own."""

    name: str
    ns: int
    """Time in the window."""
    calls: Int64
    """Rows of its calls on the host."""


def dominant_operator(case: Case) -> Finding | None:
    """One operator has more than half of the step: on the device, or on the host while no device works."""
    if not case.judged:
        return None
    on_device, on_host = _on_device(case), _on_host(case)
    for most, where in ((on_device, "device"), (on_host, "host")):
        if most is not None and case.ratio(most.ns) >= DOMINANT_SHARE:
            return _finding(case, most, where)
    return None


def _finding(case: Case, most: _Most, where: str) -> Finding:
    shapes = _shapes(case, most.calls)
    lines = lines_of(case, most.calls)
    worked = (
        "The device work that it launched itself covers"
        if where == "device"
        else "Its own time on the host" + (" while the device did nothing" if len(case.device) else "") + " covers"
    )
    tool = {"cuda": "ncu", "rocm": "rocprof-compute"}.get(_vendor(case), "a kernel profiler")
    return Finding(
        id="dominant-operator",
        observation=(
            f"{quoted([most.name])} takes most of {case.of_window}, in {counted(len(most.calls), 'call')}. {worked} "
            f"{ms(most.ns)} of {ms(case.length)} ({percent(case.ratio(most.ns))}); what it calls is not counted."
            + (f" Shapes: {'; '.join(shapes)}." if shapes else "")
            + first_lines(lines)
        ),
        hypothesis=(
            "The shape, the data type or the algorithm of this operator may decide the step. That it takes long does "
            "not show that it takes longer than it needs."
        ),
        next_check=(
            "Time the same operator alone on its own inputs (shape, type, layout), outside the profiler, and against "
            "what the hardware can do"
            + (f"; {tool} shows what limits its kernel." if where == "device" else ".")
            + ("" if shapes else " For the shapes capture once more with them (stepprof profile --shapes).")
            + where_to_look(case, lines)
        ),
        share_of_step=case.share(most.ns),
        share_seen=case.share_seen(most.ns),
        evidence={
            "operators": [most.name],
            "calls": len(most.calls),
            ("gpu_launched_us" if where == "device" else "cpu_self_us"): us(most.ns),
            "shapes": shapes,
            "steps": case.steps.names,
            "lines": lines,
        },
    )


def _vendor(case: Case) -> str:
    from stepprof_lab.trace.device import vendor_of

    return vendor_of(case.trace)


def _shapes(case: Case, rows: Int64) -> list[str]:
    found, counts = np.unique(case.trace.shape_id[rows], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [case.trace.shapes[int(i)] for i in found[order].tolist() if i >= 0][:3]


# ---- on the device ----


def _on_device(case: Case) -> _Most | None:
    """The operator whose own launches cover the most of the window; a kernel by its name where none is around it."""
    mine = np.flatnonzero(case.in_window & ~case.communicating) if len(case.device) else np.empty(0, dtype=np.int64)
    if case.ratio(intervals.total(case.device.start[mine], case.device.end[mine])) < DOMINANT_SHARE:
        return None  # as long as all of it together
    calls = case.device.launch_row[mine]
    around = case.operator_of(calls)
    wrapped = (around < 0) | ~case.own_operator[case.trace.name_id[np.maximum(around, 0)]]
    key = np.where(wrapped, case.trace.name_id[case.device.rows[mine]], case.trace.name_id[np.maximum(around, 0)])
    sums = np.zeros(len(case.trace.names), dtype=np.int64)
    np.add.at(sums, key, case.device.end[mine] - case.device.start[mine])
    best = int(np.argmax(sums))
    its = key == best
    covered = intervals.union(case.device.start[mine[its]], case.device.end[mine[its]])
    called = intervals.distinct(np.where(wrapped, calls, around)[its])
    # What was launched here and ran later is no time of the window.
    return _Most(case.trace.names[best], intervals.overlap(covered, case.window), called)


# ---- on the host ----


def _on_host(case: Case) -> _Most | None:
    """The operator with the most own time on the launching threads, without reading, compiling and device work."""
    rows = _candidates(case)
    best: _Most | None = None
    taken = _taken(case)
    for name in intervals.distinct(case.trace.name_id[rows]).tolist():
        calls = rows[case.trace.name_id[rows] == name]
        own = intervals.total(*_own(case, calls, taken))
        if best is None or own > best.ns:
            best = _Most(case.trace.names[name], own, calls)
    return best


def _candidates(case: Case) -> Int64:
    """Calls of the operators that are long enough with all that they call."""
    rows = case.trace.of(Kind.OPERATOR)
    lanes = case.launch_lanes if len(case.device) else intervals.distinct(case.trace.lane_id[rows])
    rows = rows[np.isin(case.trace.lane_id[rows], lanes) & case.own_operator[case.trace.name_id[rows]]]
    rows = rows[intervals.contains(case.window, case.trace.start[rows])]
    total = np.zeros(len(case.trace.names), dtype=np.int64)
    np.add.at(total, case.trace.name_id[rows], case.trace.end[rows] - case.trace.start[rows])
    return rows[total[case.trace.name_id[rows]] >= DOMINANT_SHARE * case.length]


def _taken(case: Case) -> Intervals:
    """Time that is not an operator's fault: reading, compiling, and what the device works."""
    parts = [case.reading, case.compiling, *([case.busy] if len(case.device) else [])]
    return intervals.union(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def _own(case: Case, calls: Int64, taken: Intervals) -> Intervals:
    """When these calls ran themselves: without their direct children, and without what is taken."""
    trace = case.trace
    children = np.flatnonzero(np.isin(case.parent, calls))
    children = children[trace.name_id[children] != trace.name_id[calls[0]]]
    inside = intervals.union(trace.start[children], trace.end[children])
    return intervals.subtract(intervals.subtract(case.spans(calls), inside), taken)
