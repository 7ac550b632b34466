"""Communication that nothing else on the device runs beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.findings.words import GRAPHS, counted, first_lines, lines_of, ms, percent, quoted, where_to_look
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case

EXPOSED_COMMUNICATION_SHARE = 0.10
"""Share of the step from which it is reported: less could not shorten the step by more than a tenth."""


def exposed_communication(case: Case) -> Finding | None:
    """Collectives have the device for themselves."""
    if not case.judged or not len(case.device):
        return None
    exposed = intervals.total(*case.exposed)
    if case.ratio(exposed) < EXPOSED_COMMUNICATION_SHARE:
        return None
    low, high = int(case.window[0][0]), int(case.window[1][-1])
    device = case.device
    mine = np.flatnonzero(case.communicating & (device.start < high) & (device.end > low))
    rows = device.rows[mine]
    names = [name for name, _ in case.by_name(rows, device.end[mine] - device.start[mine])[:5]]
    whole = intervals.overlap(intervals.union(device.start[mine], device.end[mine]), case.window)
    by_argument = int(case.trace.collective[rows].sum())
    calls = device.launch_row[mine]
    lines = lines_of(case, calls[calls >= 0])
    return Finding(
        id="exposed-communication",
        observation=(
            f"{counted(len(mine), 'collective')} ({quoted(names[:3])}) ran during {ms(whole)} of the {ms(case.length)} "
            f"of {case.of_window}; for {ms(exposed)} of it ({percent(case.ratio(exposed))}) nothing else ran on this "
            "rank's device." + first_lines(lines)
        ),
        hypothesis=(
            "The step may wait for communication. A collective is busy while it waits for a rank that comes late, so "
            "this rank's trace alone does not tell a slow network from a slow peer."
            + (GRAPHS if case.has_graph else "")
        ),
        next_check=(
            "Read the traces of all ranks together (stepprof read RANK0 RANK1 ...): the one that arrives last waits "
            "least. Then look whether the communication could begin earlier (bucket sizes, order), and validate the "
            "whole job outside the profiler." + where_to_look(case, lines)
        ),
        share_of_step=case.share(exposed),
        share_seen=case.share_seen(exposed),
        evidence={
            "names": names,
            "steps": case.steps.names,
            "collectives": len(mine),
            "known_by_arguments": by_argument,
            "known_by_name": len(mine) - by_argument,
            "gpu_communication_us": us(whole),
            "gpu_exposed_us": us(exposed),
            "lines": lines,
            "streams": sorted({case.trace.lanes[i].row for i in intervals.distinct(case.trace.lane_id[rows]).tolist()}),
        },
    )
