"""Which operators the host spent its time in: calls, total, self, and the device work that they launched.

- **Total** (``cpu_sum_us``) adds the calls with their children: a sum, not an elapsed time.
- **Self** takes away the direct children: operators, annotations and runtime calls that start while the call is the
  innermost span open on its thread (`stepprof_lab.trace.intervals.nesting`). A child that ends after its parent
  counts up to the parent's end.
- ``gpu_sum_us`` adds the device events that were launched inside the calls on their own thread. A wrapper counts
  what its inner operators launched, so these sums must not be added over operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.model import OperatorTimes
from stepprof_lab.trace.steps import is_step, us

if TYPE_CHECKING:
    from stepprof_lab.trace.intervals import Int64
    from stepprof_lab.trace.reader import Int32, Trace
    from stepprof_lab.trace.steps import DeviceWork

LARGEST_SUM = 2.0**62
MAX_SHAPES = 20
"""Distinct shapes that are listed for an operator; the last entry says how many more there are."""


def operator_times(trace: Trace, device: DeviceWork) -> list[OperatorTimes]:
    """The contract's numbers for each operator over the whole trace, by self time, largest first."""
    rows = trace.of(Kind.OPERATOR)
    rows = rows[~is_step(trace)[trace.name_id[rows]]]
    if not len(rows):
        return []
    names = trace.name_id[rows]
    calls = np.bincount(names, minlength=len(trace.names))
    total = _sums(names, (trace.end - trace.start)[rows], len(trace.names))
    own = _sums(names, _self_times(trace)[rows], len(trace.names))
    on_device = _sums(names, _launched_inside(trace, rows, device), len(trace.names))
    shapes = _shapes(trace, rows)
    present = np.flatnonzero(calls)
    order = present[np.argsort(-own[present], kind="stable")]
    return [
        OperatorTimes(
            name=trace.names[i],
            calls=int(calls[i]),
            cpu_sum_us=us(total[i]),
            cpu_self_us=us(own[i]),
            gpu_sum_us=us(on_device[i]) if len(device) else UNSET,
            shapes=shapes.get(i, UNSET),
        )
        for i in order.tolist()
    ]


def _sums(groups: Int32, values: Int64, count: int) -> Int64:
    """Integer sums a group: a bincount with weights would go through doubles."""
    # Python's integers where 64 bits might not do, which nested calls around endless work can bring about.
    large = bool(values.sum(dtype=np.float64) > LARGEST_SUM)
    sums: Any = np.zeros(count, dtype=np.object_ if large else np.int64)
    np.add.at(sums, groups, values)
    found: Int64 = sums
    return found


def _self_times(trace: Trace) -> Int64:
    """Self time of each host span, in ns; 0 for the other events."""
    own = trace.end - trace.start
    parent, _ = trace.nesting
    child = np.flatnonzero(parent >= 0)
    around = parent[child]
    np.subtract.at(own, around, np.minimum(trace.end[child], trace.end[around]) - trace.start[child])
    return own


def by_lane(trace: Trace, rows: Int64) -> list[Int64]:
    """The rows apart by thread or stream, in the order in which these appear; the file's order within each."""
    return trace.by_lane(rows)


def _launched_inside(trace: Trace, rows: Int64, device: DeviceWork) -> Int64:
    """For each call: summed duration of the device events launched inside it on its thread, in ns."""
    sums = np.zeros(len(trace), dtype=np.int64)
    linked = np.flatnonzero(device.linked)
    linked = linked[np.argsort(device.launched_at[linked], kind="stable")]
    by_launch = {int(trace.lane_id[device.launch_row[part[0]]]): part for part in _apart(trace, device, linked)}
    for calls in by_lane(trace, rows):
        here = by_launch.get(int(trace.lane_id[calls[0]]), linked[:0])
        if not len(here):
            continue
        at = device.launched_at[here]
        upto = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(device.end[here] - device.start[here])))
        first = np.searchsorted(at, trace.start[calls], side="left")
        last = np.searchsorted(at, trace.end[calls], side="left")
        sums[calls] = upto[np.maximum(last, first)] - upto[first]
    return sums[rows]


def _apart(trace: Trace, device: DeviceWork, linked: Int64) -> list[Int64]:
    """Device events apart by the thread that launched them, in the order given within each."""
    lanes = trace.lane_id[device.launch_row[linked]]
    order = np.argsort(lanes, kind="stable")
    parts = np.split(linked[order], np.flatnonzero(np.diff(lanes[order])) + 1)
    return [part for part in parts if len(part)]


def _shapes(trace: Trace, rows: Int64) -> dict[int, list[str]]:
    """The distinct shapes of each operator, most frequent first; operators without any are left out."""
    rows = rows[trace.shape_id[rows] >= 0]
    if not len(rows):
        return {}
    pairs = trace.name_id[rows] * np.int64(len(trace.shapes)) + trace.shape_id[rows]
    distinct, counts = np.unique(pairs, return_counts=True)
    found: dict[int, list[str]] = {}
    for pair in distinct[np.argsort(-counts, kind="stable")].tolist():
        name, shape = divmod(pair, len(trace.shapes))
        found.setdefault(name, []).append(trace.shapes[shape])
    return {name: _shortened(shapes) for name, shapes in found.items()}


def _shortened(shapes: list[str]) -> list[str]:
    if len(shapes) <= MAX_SHAPES:
        return shapes
    return [*shapes[:MAX_SHAPES], f"and {len(shapes) - MAX_SHAPES} more"]
