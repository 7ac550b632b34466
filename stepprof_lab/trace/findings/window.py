"""A window that does not stand for the loop: something was compiled in it, or its steps differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import COMPILING
from stepprof_lab.trace.findings.words import ms, percent, quoted
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import label_rows, us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case

COMPILE_SHARE = 0.02
"""Share of the step from which compilation is reported: a fiftieth is more than a first use of a kernel takes, and it
is work that a steady step does not do at all."""
UNSTEADY_RATIO = 1.5
"""Longest over shortest step from which the window is called unsteady: steps of a steady loop were seen to differ by
up to 1.1 on GPUs and 1.3 on a shared CPU."""
UNSTEADY_NS = 1_000_000
"""Difference below which steps are not called different: another task on the processor takes as much."""


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
        ),
        hypothesis=(
            "These steps may be the first of their kind (a new shape, a first use), so they do not stand for the "
            "steady loop. If it happens again and again, something may make the compiler start over each time."
        ),
        next_check=(
            "Begin the window later (more steps before it) and capture again. If it is still there, run with "
            "TORCH_LOGS=recompiles to see what changes."
        ),
        share_of_step=case.share(spent),
        evidence={"names": names[:5], "steps": steps, "compiling_us": us(spent)},
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
    differs = _differing_label(case, int(np.argmax(lasted)), int(np.argmin(lasted)))
    times = ", ".join(f"{value / 1e6:.1f}" for value in lasted[:8].tolist()) + (", ..." if len(lasted) > 8 else "")
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
        ),
        hypothesis=(
            "The loop may not have been in a steady state, or its steps may differ by nature (shapes, accumulation, "
            "logging, an evaluation in between). Means over this window do not stand for the loop."
        ),
        next_check=(
            "Look at the times of the unprofiled steps before the window: where they differ as much, compare whole "
            "periods; where they do not, capture again later in the run."
        ),
        share_of_step=case.share(over),
        evidence={
            "steps": [
                {"name": name, "cpu_us": us(ns)} for name, ns in zip(case.steps.names, lasted.tolist(), strict=True)
            ],
            "labels": [differs["name"]] if differs else [],
            "ratio": longest / max(shortest, 1),
        },
    )


def _differing_label(case: Case, longest: int, shortest: int) -> dict[str, Any] | None:
    """The label on the steps' own threads whose time differs the most between two steps."""
    best: dict[str, Any] | None = None
    for name, rows in label_rows(case.trace).items():
        own = rows[np.isin(case.trace.lane_id[rows], case.step_lanes)]
        spans = intervals.union(case.trace.start[own], case.trace.end[own])
        inside = [
            intervals.total(*intervals.part(spans, int(case.steps.start[i]), int(case.steps.end[i])))
            for i in (longest, shortest)
        ]
        more = inside[0] - inside[1]
        if more > 0 and (best is None or more > best["more"]):
            best = {"name": name, "longest_us": us(inside[0]), "shortest_us": us(inside[1]), "more": more}
    return best
