"""Copies to the device: the same one in every step, and those from memory that has to be staged first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import STAGING_NS, STAGING_SLOWDOWN, TO_DEVICE, is_match
from stepprof_lab.trace.findings.words import counted, first_lines, lines_of, ms, percent, quoted, where_to_look
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.intervals import Int64, Intervals

REPEATED_COPY_SHARE = 0.02
"""Share of the step from which a repeated copy is reported: small, because to keep a constant where it is used is one
line, and a fiftieth is what a validation can still show."""
FEWEST_STEPS = 2
"""Steps that have to hold the copy: once is no repetition."""
STANDS_OUT = 3
"""How many times longer than the middle one a call that copies has to be before it is told apart."""
PAGEABLE_COPY_SHARE = 0.05
"""Share of the step from which copies from pageable memory are reported: a twentieth, since pinning has a price too."""

USUAL_TRANSFER = ("transfer",)
USUAL_COMPUTE = ("train", "forward", "backward", "update", "compute", "infer")
COMPUTE_ROLES = ("forward", "backward", "compute", "update")
FROM_PAGEABLE = re.compile(r"Memcpy HtoD \(Pageable")
UNKNOWN_MEMORY = re.compile(r"Memcpy HtoD \(Host ->|MEMORY_COPY_HOST_TO_DEVICE")
"""As ROCm writes it: from the host, pageable or pinned."""


# ---- repeated-copy ----


def repeated_copy(case: Case) -> Finding | None:
    """The same amount is copied to the device by the same operator of the compute part in every step.

    The fresh batch has the same size in every step too, so this is only said where the trace shows that the batch is
    copied elsewhere: inside a label that transfers. How often something is copied is no fault by itself.
    """
    if len(case.steps) < FEWEST_STEPS or not len(case.device):
        return None
    copies = _to_device(case)
    transfer, compute = _regions(case)
    at = case.device.launched_at[copies]
    batch, inside = intervals.contains(transfer, at), intervals.contains(compute, at)
    if not _in_every_step(case, at[batch]):
        return None
    candidates = copies[inside & ~batch]
    same = [group for group in _alike(case, candidates) if _in_every_step(case, case.device.launched_at[group])]
    if not same:
        return None
    mine = np.sort(np.concatenate(same))
    cost = intervals.total(*_cost(case, mine))
    if case.ratio(cost) < REPEATED_COPY_SHARE:
        return None
    calls = case.device.launch_row[mine]
    operators = [case.name_of(op) for op in case.operator_of(calls[:1]).tolist() if op >= 0]
    labels = [name for name in _labels(case, COMPUTE_ROLES, USUAL_COMPUTE) if intervals.contains(
        case.spans(case.trace.named([name], Kind.ANNOTATION)), at[inside & ~batch]).any()]  # fmt: skip
    sizes = sorted({_size(case, int(group[0])) for group in same})
    lines = lines_of(case, calls)
    return Finding(
        id="repeated-copy",
        observation=(
            f"In each of {case.of_window} the same {'amount' if len(sizes) == 1 else 'amounts'} "
            f"({', '.join(f'{size:,} bytes' for size in sizes[:3])}) went to the device inside {quoted(labels)}, "
            f"apart from the batch: {counted(len(mine), 'copy', 'copies')}"
            + (
                ". What they cost cannot be said: device work is missing from the trace."
                if case.doubts
                else f", which took the host's call or the device alone {ms(cost)} of {ms(case.length)} "
                f"({percent(case.ratio(cost))})."
            )
            + first_lines(lines)
        ),
        hypothesis=(
            "It may be the same constant each time, made in the wrong place or living too short. The trace shows the "
            "size and the caller, not the values."
        ),
        next_check=(
            "Move it to the device once before the loop (a buffer of the module), compare the outputs, and validate "
            "outside the profiler (stepprof validate)." + where_to_look(case, lines)
        ),
        share_of_step=None if case.doubts else case.share(cost),
        evidence={
            "labels": labels,
            "operators": operators,
            "steps": case.steps.names,
            "copies": len(mine),
            "bytes": sizes,
            "gpu_copies_sum_us": us(int((case.device.end[mine] - case.device.start[mine]).sum())),
            "calls_sum_us": us(int((case.trace.end[calls] - case.trace.start[calls]).sum())),
            "lines": lines,
        },
    )


def undecided_repeat(case: Case) -> list[str]:
    """A note where something alike is copied in every step, and no label tells whether it is the batch.

    Without a label that transfers, the largest copies are taken for the batch: the note is on the others.
    """
    if len(case.steps) < FEWEST_STEPS or not len(case.device) or case.doubts:
        return []
    copies = _to_device(case)
    transfer, compute = _regions(case)
    at = case.device.launched_at[copies]
    batch = intervals.contains(transfer, at)
    known = _in_every_step(case, at[batch])
    if known and len(compute[0]):
        return []
    alike = [group for group in _alike(case, copies[~batch]) if _in_every_step(case, case.device.launched_at[group])]
    if not known and alike:
        largest = max(_size(case, int(group[0])) for group in alike)
        alike = [group for group in alike if _size(case, int(group[0])) < largest]
    if not alike:
        return []
    mine = np.sort(np.concatenate(alike))
    cost = intervals.total(*_cost(case, mine))
    if case.ratio(cost) < REPEATED_COPY_SHARE:
        return []
    took = f"{counted(len(mine), 'copy', 'copies')}, {ms(cost)}, {percent(case.ratio(cost))}"
    lacking, name = ("computes", "train") if known else ("transfers the batch", "transfer")
    return [
        (
            f"besides the {'batch' if known else 'largest copies'}, the same amounts were copied to the device in "
            f"each of {case.of_window} ({took}): whether this is the same constant each time cannot be said, because "
            f"no label is known that {lacking}; a label '{name}', or one with that role, would tell"
        )
    ]


def _to_device(case: Case) -> Int64:
    """Copies to the device that were launched in the window, in order of their launch."""
    device, trace = case.device, case.trace
    mine = case.in_window & is_match(trace, TO_DEVICE)[trace.name_id[device.rows]]
    found = np.flatnonzero(mine & (trace.kind[device.rows] == Kind.COPY))
    return found[np.argsort(device.launched_at[found], kind="stable")]


def _labels(case: Case, roles: tuple[str, ...], usual: tuple[str, ...]) -> list[str]:
    """Names of labels with one of these roles; by their usual names where the record gives them none."""
    known = case.context.roles
    return [name for name in case.trace.names if known.get(name) in roles or (name not in known and name in usual)]


def _regions(case: Case) -> tuple[Intervals, Intervals]:
    """Where the step transfers (and reads), and where it computes."""
    transfer = _labels(case, ("transfer", "read"), USUAL_TRANSFER)
    compute = _labels(case, COMPUTE_ROLES, USUAL_COMPUTE)
    named = case.trace.named
    return case.spans(named(transfer, Kind.ANNOTATION)), case.spans(named(compute, Kind.ANNOTATION))


def _in_every_step(case: Case, at: Int64) -> bool:
    """Whether each step holds one of these instants."""
    place = np.searchsorted(case.steps.start, at, side="right") - 1
    return len(intervals.distinct(place[place >= 0])) == len(case.steps)


def _size(case: Case, copy: int) -> int:
    """Bytes of a copy, from itself or from its call; -1 where neither records it."""
    size = int(case.trace.bytes[case.device.rows[copy]])
    return size if size >= 0 else int(case.trace.bytes[case.device.launch_row[copy]])


def _alike(case: Case, copies: Int64) -> list[Int64]:
    """Copies apart by size and operator; those without a recorded size are left out."""
    groups: dict[tuple[int, int], list[int]] = {}
    around = case.operator_of(case.device.launch_row[copies])
    for copy, operator in zip(copies.tolist(), around.tolist(), strict=True):
        size = _size(case, copy)
        if size >= 0:
            name = int(case.trace.name_id[operator]) if operator >= 0 else -1
            groups.setdefault((size, name), []).append(copy)
    return [np.array(group, dtype=np.int64) for group in groups.values()]


def _cost(case: Case, copies: Int64) -> Intervals:
    """The calls that copy, as far as staging can explain them, and the copies; without what other work fills.

    Communication is no such work: it runs beside the copy, and the compute that comes after waits for the copy.
    """
    device, trace = case.device, case.trace
    calls = device.launch_row[copies]
    lasted = device.end[copies] - device.start[copies]
    staged = np.minimum(trace.end[calls] - trace.start[calls], STAGING_SLOWDOWN * lasted + STAGING_NS)
    start = np.concatenate((trace.end[calls] - staged, device.start[copies]))
    end = np.concatenate((trace.end[calls], device.end[copies]))
    rest = ~case.communicating
    rest[copies] = False
    others = intervals.union(device.start[rest], device.end[rest])
    return intervals.intersect(intervals.subtract(intervals.union(start, end), others), case.window)


# ---- pageable-copy ----


def pageable_copy(case: Case) -> Finding | None:
    """Copies from pageable memory take the device alone, or the host that stages them."""
    copies, cost = _costly(case, FROM_PAGEABLE)
    if cost is None:
        return None
    calls = case.device.launch_row[copies]
    operators = list(dict.fromkeys(case.name_of(op) for op in case.operator_of(calls).tolist() if op >= 0))
    sizes = sum(max(_size(case, int(copy)), 0) for copy in copies)
    lines = lines_of(case, calls)
    return Finding(
        id="pageable-copy",
        observation=(
            f"{counted(len(copies), 'copy', 'copies')} to the device came from pageable memory"
            + (f" ({sizes / 1e6:.1f} MB)" if sizes else "")
            + ". They, and the host's calls that staged them, had the step for themselves (no other device work) "
            f"for {ms(cost)} of the {ms(case.length)} of {case.of_window} ({percent(case.ratio(cost))})."
            + _one_call(case, copies, cost)
            + first_lines(lines)
        ),
        hypothesis=(
            "Pageable memory has to be staged by the host, which then waits: the copy may not run beside other work."
        ),
        next_check=(
            "Give the loader pin_memory=True and copy with non_blocking=True, compare the outputs, and validate "
            "outside the profiler (stepprof validate): pinning has a cost of its own." + where_to_look(case, lines)
        ),
        share_of_step=case.share(cost),
        share_seen=case.share_seen(cost),
        evidence={
            "names": sorted({case.name_of(row) for row in case.device.rows[copies].tolist()}),
            "operators": operators[:5],
            "steps": case.steps.names,
            "copies": len(copies),
            "bytes": sizes,
            "gpu_copies_sum_us": us(int((case.device.end[copies] - case.device.start[copies]).sum())),
            "calls_sum_us": us(int((case.trace.end[calls] - case.trace.start[calls]).sum())),
            "lines": lines,
        },
    )


def _one_call(case: Case, copies: Int64, cost: int) -> str:
    """That one call makes most of the cost of several, where it stands out: staging takes alike for alike copies."""
    calls = case.device.launch_row[copies]
    lasted = case.trace.end[calls] - case.trace.start[calls]
    longest = int(np.argmax(lasted))
    took = int(lasted[longest])
    alone = intervals.total(*_cost(case, copies[longest : longest + 1]))
    if took < STANDS_OUT * int(np.median(lasted)) or 2 * alone <= cost:
        return ""
    device = int(case.device.end[copies[longest]] - case.device.start[copies[longest]])
    return (
        f" One call makes {ms(alone)} of this: it took {ms(took)} for a copy of {ms(device)}, so it may have waited "
        "for something else than staging."
    )


def _costly(case: Case, pattern: re.Pattern[str]) -> tuple[Int64, int | None]:
    """Copies of a kind, and what they take alone (ns); None where that is too little to be worth a word."""
    copies = np.empty(0, dtype=np.int64)
    if not case.judged or not len(case.device):
        return copies, None
    copies = _to_device(case)
    copies = copies[is_match(case.trace, pattern)[case.trace.name_id[case.device.rows[copies]]]]
    if not len(copies):
        return copies, None
    cost = intervals.total(*_cost(case, copies))
    return copies, cost if case.ratio(cost) >= PAGEABLE_COPY_SHARE else None


def undecided_memory(case: Case) -> list[str]:
    """A note where copies cost enough to ask for their memory, and the trace cannot tell it (ROCm)."""
    copies, cost = _costly(case, UNKNOWN_MEMORY)
    if cost is None:
        return []
    took = f"{len(copies)} copies to the device took {ms(cost)} ({percent(case.ratio(cost))}) with no other device work"
    return [
        f"{took}; whether they came from pageable or pinned memory cannot be decided: ROCm's traces do not record it"
    ]
