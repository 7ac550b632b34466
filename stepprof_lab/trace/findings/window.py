"""A window that does not stand for the loop: something was compiled in it, or its steps differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import COMPILING
from stepprof_lab.trace.findings.words import first_lines, lines_of, ms, percent, quoted, where_to_look
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import in_groups, is_step, label_rows, us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64

COMPILE_SHARE = 0.02
"""Share of the step from which compilation is reported: a fiftieth is more than a first use of a kernel takes, and it
is work that a steady step does not do at all."""
UNSTEADY_RATIO = 1.5
"""Longest over shortest step from which the window is called unsteady: steps of a steady loop were seen to differ by
up to 1.1 on GPUs and 1.3 on a shared CPU."""
UNSTEADY_NS = 1_000_000
"""Difference below which steps are not called different: another task on the processor takes as much."""
MAIN_PART = 0.5
"""Part of the difference that a label has to have to be named: with less, it explains little of it."""


# ---- compile-in-window ----


def compile_in_window(case: Case) -> Finding | None:
    """Something was compiled, or loaded for its first use, in the active steps."""
    if not len(case.steps):
        return None
    spent = intervals.total(*case.compiling)
    if case.ratio(spent) < COMPILE_SHARE:
        return None
    rows = case.matching(COMPILING, Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD)
    rows = rows[intervals.contains(case.window, case.trace.start[rows])]
    names = [name for name, _ in case.by_name(rows, case.trace.end[rows] - case.trace.start[rows])]
    lines = lines_of(case, rows)
    steps = [
        {"name": name, "compiling_us": us(inside)}
        for name, low, high in zip(case.steps.names, case.steps.start.tolist(), case.steps.end.tolist(), strict=True)
        if (inside := intervals.total(*intervals.part(case.compiling, low, high)))
    ]
    return Finding(
        id="compile-in-window",
        observation=(
            f"Code was compiled or loaded ({quoted(names[:3])}) during {ms(spent)} of the {ms(case.length)} of "
            f"{case.of_window} ({percent(case.ratio(spent))}), in {quoted([str(step['name']) for step in steps[:4]])}."
            + first_lines(lines)
        ),
        hypothesis=(
            "These steps may be the first of their kind (a new shape, a first use), so they do not stand for the "
            "steady loop. If it happens again and again, something may make the compiler start over each time."
        ),
        next_check=(
            "Begin the window later (more steps before it) and capture again. If it is still there, run with "
            "TORCH_LOGS=recompiles to see what changes." + where_to_look(case, lines)
        ),
        share_of_step=case.share(spent),
        evidence={"names": names[:5], "steps": steps, "compiling_us": us(spent), "lines": lines},
    )


# ---- unsteady-window ----


def unsteady_window(case: Case) -> Finding | None:
    """The active steps differ so much that their mean stands for none of them."""
    if len(case.steps) < 2:
        return None
    lasted = case.steps.end - case.steps.start
    longest, shortest = int(lasted.max()), int(lasted.min())
    if longest - shortest < UNSTEADY_NS or longest < UNSTEADY_RATIO * shortest:
        return None
    over = int(lasted.sum()) - shortest * len(lasted)
    least = int(np.argmin(lasted))
    most = int(np.argmax(lasted))
    differs = _differing_label(case, most, least)
    lines = lines_of(case, _rows_in(case, differs["name"], most)) if differs else []
    decimals = 1 if shortest >= UNSTEADY_NS else 3
    times = ", ".join(f"{ns / 1e6:.{decimals}f}" for ns in lasted[:8].tolist()) + (", ..." if len(lasted) > 8 else "")
    empty = [case.steps.names[least]] if _holds_nothing(case, least) else []
    return Finding(
        id="unsteady-window",
        observation=(
            f"The active steps took {times} ms: the longest {longest / max(shortest, 1):.2f} times the shortest."
            + (
                f" Between these two, {quoted([differs['name']])} differs the most "
                f"({differs['longest_us'] / 1000:.1f} against {differs['shortest_us'] / 1000:.1f} ms on the host)."
                if differs
                else ""
            )
            + (
                f" {quoted(empty)} holds no operator, no label and no call: it may be no turn of the loop."
                if empty
                else ""
            )
            + first_lines(lines)
        ),
        hypothesis=(
            "The loop may not have been in a steady state, or its steps may differ by nature (shapes, accumulation, "
            "logging, an evaluation in between). Means over this window do not stand for the loop."
        ),
        next_check=(
            "Look at the times of the unprofiled steps before the window: where they differ as much, compare whole "
            "periods; where they do not, capture again later in the run."
            + (where_to_look(case, lines) if differs else "")
        ),
        share_of_step=case.share(over),
        evidence={
            "steps": [
                {"name": name, "cpu_us": us(ns)} for name, ns in zip(case.steps.names, lasted.tolist(), strict=True)
            ],
            "labels": [differs["name"]] if differs else [],
            "ratio": longest / max(shortest, 1),
            "lines": lines,
        },
    )


def _holds_nothing(case: Case, step: int) -> bool:
    """Whether no operator, label or call of the step's own threads begins in a step."""
    rows = case.trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)
    at = case.trace.start[rows]
    rows = rows[(at >= case.steps.start[step]) & (at < case.steps.end[step])]
    return not (
        np.isin(case.trace.lane_id[rows], case.step_lanes) & ~is_step(case.trace)[case.trace.name_id[rows]]
    ).any()


def _differing_label(case: Case, longest: int, shortest: int) -> dict[str, Any] | None:
    """The label on the steps' own threads that has the most of the difference of two steps; None without a main one."""
    labels = label_rows(case.trace)
    of, rows = in_groups(labels)
    own = np.isin(case.trace.lane_id[rows], case.step_lanes)
    of, rows = of[own], rows[own]
    if not len(rows):
        return None
    inside = [_in_step(case, of, rows, step, len(labels)) for step in (longest, shortest)]
    more = inside[0] - inside[1]
    best = int(np.argmax(more))
    lasted = case.steps.end - case.steps.start
    if more[best] < MAIN_PART * int(lasted[longest] - lasted[shortest]):
        return None
    return {"name": list(labels)[best], "longest_us": us(inside[0][best]), "shortest_us": us(inside[1][best])}


def _rows_in(case: Case, label: str, step: int) -> Int64:
    """The spans of a label on the steps' own threads that begin in one step."""
    rows = label_rows(case.trace)[label]
    at = case.trace.start[rows]
    inside = (at >= case.steps.start[step]) & (at < case.steps.end[step])
    own: Int64 = rows[inside & np.isin(case.trace.lane_id[rows], case.step_lanes)]
    return own


def _in_step(case: Case, of: Int64, rows: Int64, step: int, labels: int) -> Int64:
    """Elapsed time of each label in one step, ns."""
    start = np.maximum(case.trace.start[rows], case.steps.start[step])
    end = np.minimum(case.trace.end[rows], case.steps.end[step])
    group, start, end = intervals.union_by(of, start, end)
    return intervals.total_by(group, end - start, labels)
