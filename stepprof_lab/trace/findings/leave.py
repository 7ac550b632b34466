"""What is not worth touching: labels that take next to nothing of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.findings.words import percent, quoted
from stepprof_lab.trace.steps import Launched, label_rows

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case

NOT_WORTH_SHARE = 0.02
"""Share of the step below which a label is not worth touching: a validation could hardly show its whole removal."""
MOST = 5

MOST_LABELS = 1000
"""Beyond this many names (one for each batch, say) labels are no parts of a step, and nothing is said about them."""


def not_worth(case: Case) -> list[str]:
    """One sentence for each label whose time on the host and whose device work are both next to nothing.

    Only labels on the steps' own threads that are in no other label, and only where steps are marked. Labels that
    read are left out: what a loader with workers hides is not seen here.
    """
    if not len(case.steps) or not case.length:
        return []
    reading = case.waiting.reading.names if case.waiting.reading is not None else []
    launched = Launched(case.device)
    found = []
    labels = label_rows(case.trace)
    for name, rows in labels.items() if len(labels) <= MOST_LABELS else ():
        own = rows[np.isin(case.trace.lane_id[rows], case.step_lanes)]
        if name in reading or not len(own):
            continue
        spans = case.spans(own)
        mine = launched.inside(spans)
        device = intervals.union(case.device.start[mine], case.device.end[mine])
        most = max(case.ratio(intervals.total(*spans)), case.ratio(intervals.total(*device)))
        if len(spans[0]) and most < NOT_WORTH_SHARE:
            found.append((most, name))
    return [
        f"{quoted([name])}: at the most {percent(share)} of {case.of_window}, on the host or by its device work"
        for share, name in sorted(found, reverse=True)[:MOST]
    ]
