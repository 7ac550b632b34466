"""Collectives: which events move data between ranks, how that is known, and which operation each one is.

Arguments come first: the profiler copies those of a collective ("Collective name", the group, sizes) to the device
event that it launched. Where there are none, names decide: of the annotation around the launch (``nccl:all_reduce``),
then of the kernel. What is communication by its name alone, but which operation cannot be told, is *unclassified*.

A collective of ``gloo``, ``mpi`` or ``ucc`` runs on the host; its annotation lasts as long as the operation. One of
``nccl`` and its like only issues work to a device: there the annotation is the host's own work.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.operators import by_lane
from stepprof_lab.trace.steps import is_step

if TYPE_CHECKING:
    from stepprof_lab.trace.intervals import Bool, Int64, Intervals
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork

KnownBy = Literal["arguments", "name", "unclassified"]

COMMUNICATION = re.compile(
    r"nccl|rccl|oneccl|deep_?ep|all_?reduce|all_?gather|all_?to_?all|reduce_?scatter|sendrecv|cross_device_reduce",
    re.IGNORECASE,
)
"""Kernels that exchange data with other ranks, where no argument says so."""
ON_HOST = re.compile(r"(gloo|mpi|ucc):(.+)")
"""Annotations of collectives that the host carries out itself."""
ISSUED = re.compile(r"(nccl|rccl|xccl|hccl|oneccl):(.+)")
"""Annotations of calls that give a collective to a device."""
NOT_WORK = re.compile(r"(_?c10d_functional|c10d)::|record_param_comms$|(gloo|mpi|ucc):")
"""Host spans that carry a collective, or wait for it: neither the rank's own work nor proof of communication."""

UNCLASSIFIED = "unclassified"
OPERATIONS = (
    ("reduce_scatter", re.compile(r"reducescatter")),
    ("all_reduce", re.compile(r"allreduce|crossdevicereduce")),
    ("all_gather", re.compile(r"allgather")),
    ("all_to_all", re.compile(r"alltoall")),
    ("broadcast", re.compile(r"broadcast")),
    ("barrier", re.compile(r"barrier")),
    ("send or receive", re.compile(r"sendrecv|send|recv")),
)
"""In this order, in a name without its punctuation and in lower case."""
ROOTED = (("scatter", re.compile(r"scatter")), ("gather", re.compile(r"gather")), ("reduce", re.compile(r"reduce")))
"""Only in an argument or an annotation: kernels with such names compute."""
WAITS_FOR_ALL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""No rank can end these before every rank has begun."""


@dataclasses.dataclass(frozen=True)
class Collectives:
    """The collectives of one trace, in the order in which its program issued them; ns on the trace's clock."""

    start: Int64
    end: Int64
    issued: Int64
    """Start of the launch; of the operation where it ran on the host, or where its launch is not in the trace."""
    on_device: Bool
    linked: Bool
    """False where the launch is not in the trace, so that the place in the program's order is not known."""
    operation: list[str]
    known_by: list[KnownBy]
    group: list[str]
    """Name and members of the group, as the arguments say; empty where they do not."""
    payload: list[str]
    """What has to be the same on every rank: data type, and size where the operation wants it equal."""

    def __len__(self) -> int:
        """Number of collectives."""
        return len(self.start)


def is_communication(trace: Trace, rows: Int64) -> Bool:
    """Which of some device events are collectives: by their arguments, else (kernels alone) by their name."""
    named = np.array([bool(COMMUNICATION.search(name)) for name in trace.names], dtype=np.bool_)
    found: Bool = trace.collective[rows] | (named[trace.name_id[rows]] & (trace.kind[rows] == Kind.KERNEL))
    return found


def find(trace: Trace, device: DeviceWork) -> Collectives:
    """The collectives of a trace, on the device and on the host."""
    at = np.flatnonzero(is_communication(trace, device.rows))
    host = _matching(trace, ON_HOST, Kind.ANNOTATION)
    rows = np.concatenate((device.rows[at], host))
    launch = np.concatenate((device.launch_row[at], host))
    linked = launch >= 0
    issued = np.where(linked, trace.start[np.maximum(launch, 0)], trace.start[rows])
    issued_by = np.concatenate((_around(trace, device.launch_row[at]), host))
    told = [_told(trace, row, by) for row, by in zip(rows.tolist(), issued_by.tolist(), strict=True)]
    order = np.lexsort((trace.start[rows], issued))
    told = [told[i] for i in order.tolist()]
    return Collectives(
        start=trace.start[rows][order],
        end=trace.end[rows][order],
        issued=issued[order],
        on_device=(np.arange(len(rows)) < len(at))[order],
        linked=linked[order],
        operation=[operation for operation, _, _, _ in told],
        known_by=[known for _, known, _, _ in told],
        group=[group for _, _, group, _ in told],
        payload=[payload for _, _, _, payload in told],
    )


def _told(trace: Trace, row: int, annotation: int) -> tuple[str, KnownBy, str, str]:
    """Operation, how it is known, group and payload of one collective."""
    place = int(trace.collective_id[row])
    name = trace.names[int(trace.name_id[row])]
    if place >= 0:
        args = trace.collectives[place]
        operation = operation_of(args.name, *ROOTED) or args.name or UNCLASSIFIED
        equal = args.elements if operation in {"all_reduce", "broadcast"} else ""
        return operation, "arguments", f"{args.group} {args.group_ranks}".strip(), f"{args.dtype} {equal}".strip()
    if annotation >= 0:
        operation = operation_of(trace.names[int(trace.name_id[annotation])].partition(":")[2], *ROOTED)
        if operation:
            return operation, "name", "", ""
    operation = operation_of(name)
    return (operation, "name", "", "") if operation else (UNCLASSIFIED, "unclassified", "", "")


def operation_of(name: str, *more: tuple[str, re.Pattern[str]]) -> str:
    """Which operation a name tells of; empty where it tells none.

    Args:
        name: of an argument, an annotation (without its backend) or a kernel.
        more: patterns that count here beside `OPERATIONS`.
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((operation for operation, pattern in (*OPERATIONS, *more) if pattern.search(plain)), "")


def issued_unseen(trace: Trace) -> int:
    """Collectives that the host gave to a device; what became of them is in the device events, if at all."""
    return len(_matching(trace, ISSUED, Kind.ANNOTATION))


def host_work(trace: Trace) -> Intervals:
    """When any thread of the host was in an operator that is not part of a collective; ns."""
    not_work = np.array([bool(NOT_WORK.match(name)) for name in trace.names], dtype=np.bool_)
    rows = trace.of(Kind.OPERATOR, Kind.ANNOTATION)
    rows = rows[~is_step(trace)[trace.name_id[rows]]]
    pieces: list[Intervals] = []
    for lane in by_lane(trace, rows):
        idle = not_work[trace.name_id[lane]]
        work = lane[~idle & (trace.kind[lane] == Kind.OPERATOR)]
        spans = intervals.union(trace.start[work], trace.end[work])
        carried = intervals.union(trace.start[lane[idle]], trace.end[lane[idle]])
        pieces.append(intervals.subtract(spans, carried))
    return joined(pieces)


def joined(pieces: list[Intervals]) -> Intervals:
    """The union of several unions."""
    nothing = np.empty(0, dtype=np.int64)
    return intervals.union(
        np.concatenate([nothing, *(start for start, _ in pieces)]),
        np.concatenate([nothing, *(end for _, end in pieces)]),
    )


def _matching(trace: Trace, pattern: re.Pattern[str], kind: Kind) -> Int64:
    """Rows of a kind whose name matches from its start."""
    hit = np.array([bool(pattern.match(name)) for name in trace.names], dtype=np.bool_)
    rows = trace.of(kind)
    return rows[hit[trace.name_id[rows]]]


def _around(trace: Trace, calls: Int64) -> Int64:
    """For each call of the host the annotation of a collective that it lies in, or -1; -1 stays -1."""
    found = np.full(len(calls), -1, dtype=np.int64)
    for lane in by_lane(trace, _matching(trace, ISSUED, Kind.ANNOTATION)):
        rows = lane[np.argsort(trace.start[lane], kind="stable")]
        here = np.flatnonzero((calls >= 0) & (trace.lane_id[np.maximum(calls, 0)] == trace.lane_id[rows[0]]))
        at = trace.start[calls[here]]
        place = np.searchsorted(trace.start[rows], at, side="right") - 1
        inside = (place >= 0) & (at < trace.end[rows[np.maximum(place, 0)]])
        found[here[inside]] = rows[place[inside]]
    return found
