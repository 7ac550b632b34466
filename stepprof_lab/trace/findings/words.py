"""How findings put numbers, counts and places into sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.waiting import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64

__all__ = ["GRAPHS", "counted", "first_lines", "lines_of", "ms", "percent", "quoted", "where_to_look"]

GRAPHS = (
    " Work was launched as a graph here, and graphs can be recorded late or in part: "
    "what looks idle may have been at work."
)
LINES = 3
"""Places in the user's code that are named."""
SAMPLES = 200
"""Events for which the user's line is looked up; more would not change which lines are the most frequent."""
PLACE_LATER = " To see the line in your own code, capture once more with stacks (stepprof profile --stacks)."


def ms(ns: int) -> str:
    """Nanoseconds as milliseconds with three decimals."""
    return f"{ns / 1e6:.3f} ms"


def percent(share: float) -> str:
    """A share with one decimal; one that is nearly nothing, or nearly all, is not rounded to it."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= share < 1:
        return "more than 99.9 %"
    return f"{share * 100:.1f} %"


def counted(count: int, one: str, several: str = "") -> str:
    """A number with its noun."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def lines_of(case: Case, rows: Int64) -> list[str]:
    """The user's own ``file:line`` around some host events, the most frequent first; empty without stacks."""
    if not len(rows) or not len(case.trace.frames.line):
        return []
    sample = rows[intervals.distinct(np.linspace(0, len(rows) - 1, min(len(rows), SAMPLES)).astype(np.int64))]
    steps = [case.trace.lanes[lane] for lane in case.step_lanes.tolist()]
    counts: dict[str, int] = {}
    for lane in intervals.distinct(case.trace.lane_id[sample]).tolist():
        where = case.trace.lanes[lane]
        here = case.trace.start[sample[case.trace.lane_id[sample] == lane]]
        # A thread of PyTorch's own (backward) has no line of the user's: then where the step's thread stood meanwhile.
        for place in (where, *(step for step in steps if step.owner == where.owner and step != where)):
            if found := case.trace.frames.at((place.owner, place.row), here):
                for line in found:
                    counts[line] = counts.get(line, 0) + 1
                break
    return sorted(counts, key=lambda line: -counts[line])[:LINES]


def first_lines(lines: Sequence[str]) -> str:
    """A sentence that names the lines; nothing where there are none."""
    return f" In your own code: {', '.join(lines)}." if lines else ""


def where_to_look(case: Case, lines: Sequence[str]) -> str:
    """How to get the user's line, where the trace has no stacks."""
    return "" if lines or case.trace.frames.recorded else PLACE_LATER
