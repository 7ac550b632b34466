"""What is not worth touching: labels that take next to nothing of the step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.communication import COMMUNICATION, ISSUED, ON_HOST
from stepprof_lab.trace.device import launch_calls
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.observed import LAUNCH
from stepprof_lab.trace.findings.words import percent, quoted
from stepprof_lab.trace.steps import Launched, label_rows
from stepprof_lab.trace.waiting import LOADER_RANGE

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64, Intervals

NOT_WORTH_SHARE = 0.02
"""Share of the step below which a label is not worth touching: a validation could hardly show its whole removal."""
MOST = 5

MOST_LABELS = 1000
"""Beyond this many names (one for each batch, say) labels are no parts of a step, and nothing is said about them."""
READS_NOT = re.compile(r"Optimizer\.\w+#|DistributedDataParallel\.")
"""PyTorch's own labels around work that is no reading."""


def not_worth(case: Case) -> list[str]:
    """One sentence for each label that takes next to nothing of the step, on the host and by its device work together.

    Only labels on the steps' own threads, and only where steps are marked; of labels inside each other the outermost.
    Nothing is acquitted of what was not observed:

    - labels that read, or hold or lie in what reads, are left out: what a loader with workers hides is not seen here.
      Where no label is known to read, so are all that may;
    - where device work may be missing or mistimed, or a device is likely and none was observed, nothing is said;
    - a label that launched work which is not in the trace is left out, and so is communication whose work is not: its
      label is the call that begins it.
    """
    if not len(case.steps) or not case.length or case.doubts or _device_unseen(case):
        return []
    labels = label_rows(case.trace)
    launched, reads, unanswered = Launched(case.device), _reads(case), _unanswered(case)
    found: list[tuple[float, str, Intervals]] = []
    for name, rows in labels.items() if len(labels) <= MOST_LABELS else ():
        spans = case.spans(rows[np.isin(case.trace.lane_id[rows], case.step_lanes)])
        if len(spans[0]) and case.ratio(intervals.total(*spans)) < NOT_WORTH_SHARE:
            mine = launched.inside(spans)
            hides = (
                _may_hide(case, name, mine)
                or intervals.overlap(spans, reads) > 0
                or bool(intervals.contains(spans, case.trace.start[unanswered]).any())
            )
            share = case.ratio(intervals.total(*_with_device_work(case, spans, mine)))
            if share < NOT_WORTH_SHARE and not hides:
                found.append((share, name, spans))
    found.sort(key=lambda one: (-one[0], one[1]))
    how = "on the host and by its device work together" if len(case.device) else "on the host (it has no device work)"
    return [f"{quoted([name])}: {_at_most(share)} of {case.of_window}, {how}" for share, name, _ in _outermost(found)]


def _at_most(share: float) -> str:
    said = percent(share)
    return said if said.startswith("less") else f"at the most {said}"


def _with_device_work(case: Case, spans: Intervals, mine: Int64) -> Intervals:
    """Union of a label's spans and of the device work launched in them, in which both take part at any time."""
    start, end = case.device.start[mine], case.device.end[mine]
    return intervals.union(np.concatenate((spans[0], start)), np.concatenate((spans[1], end)))


def _device_unseen(case: Case) -> bool:
    """Whether a device is likely to have worked, and none of its work is in the trace."""
    if len(case.device):
        return False
    listed = case.trace.metadata.device_names() or len(case.trace.of(Kind.DEVICE_ANNOTATION))
    issued = any(ISSUED.match(name) for name in case.trace.names)
    return bool(launch_calls(case.trace) or listed or issued or case.context.gpu_requested)


def _reads(case: Case) -> Intervals:
    """Union of what reads on the steps' own threads, ranges of PyTorch's loader included."""
    names = {name for name in case.trace.names if LOADER_RANGE.match(name)}
    names |= set(case.waiting.reading.names) if case.waiting.reading is not None else set()
    rows = case.trace.named(names, Kind.ANNOTATION, Kind.OPERATOR)
    return case.spans(rows[np.isin(case.trace.lane_id[rows], case.step_lanes)])


def _unanswered(case: Case) -> Int64:
    """Calls that launched device work which is not in the trace."""
    calls = case.matching(LAUNCH, Kind.RUNTIME)
    return calls[~np.isin(calls, case.device.launch_row)]


def _may_hide(case: Case, name: str, mine: Int64) -> bool:
    """Whether a label may stand for more than is seen of it, by its name and the device work launched in it."""
    kernels = (case.trace.kind[case.device.rows[mine]] == Kind.KERNEL).any()
    if case.waiting.reading is None and not (kernels or READS_NOT.match(name) or name in case.context.roles):
        return True  # a label without kernels may be the one that reads
    return not len(mine) and bool(COMMUNICATION.search(name) or ON_HOST.match(name) or ISSUED.match(name))


def _outermost(found: list[tuple[float, str, Intervals]]) -> list[tuple[float, str, Intervals]]:
    """The first few of some labels, largest first, without those that lie in one that is there already."""
    kept: list[tuple[float, str, Intervals]] = []
    for one in found:
        if len(kept) == MOST:
            break
        length = intervals.total(*one[2])
        if not any(intervals.overlap(one[2], other[2]) == length for other in kept):
            kept.append(one)
    return kept
