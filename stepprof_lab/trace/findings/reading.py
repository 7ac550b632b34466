"""Waiting for the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from stepprof_lab.trace import intervals
from stepprof_lab.trace.findings.words import first_lines, lines_of, ms, percent, quoted, where_to_look
from stepprof_lab.trace.model import Finding

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.waiting import ActiveWait, ApproachWait, Waiting


def input_wait(case: Case) -> Finding | None:
    """The step waits for its next batch."""
    waiting = case.waiting
    if not waiting.waits or waiting.reading is None or waiting.share is None or case.doubts:
        return None
    active, approach = waiting.active, waiting.approach
    seen = [_active_words(active, waiting.reading.names)] if active is not None else []
    if approach is not None:
        seen.append(_approach_words(approach, waiting.workers))
    rows = case.reading_rows
    lines = lines_of(case, rows[intervals.contains(case.window, case.trace.start[rows])])
    no_steps = active is not None and active.whole_record and waiting.decided_by == "active steps"
    at_most = None if no_steps else waiting.at_most
    return Finding(
        id="input-wait",
        observation=" ".join(seen) + first_lines(lines),
        hypothesis=_hypothesis(waiting),
        next_check=(
            "Run the same compute with the batches ready in memory, and validate outside the profiler "
            "whether the step becomes shorter (stepprof validate)." + where_to_look(case, lines)
        ),
        share_of_step=at_most,
        share_seen=waiting.share if at_most is None else UNSET,
        evidence=_input_evidence(waiting) | {"lines": lines},
    )


def _active_words(active: ActiveWait, names: list[str]) -> str:
    count = len(active.steps)
    of = (
        f"{count} active step{'s' * (count != 1)}"
        if not active.whole_record
        else f"{_whole(active)} (no step is marked)"
    )
    words = (
        f"Reading the batch ({quoted(names)}) took {ms(active.read)} of the {ms(active.host)} of {of} on the host "
        f"({percent(active.read / active.host if active.host else 0.0)})."
    )
    if any(step.busy is None for step in active.steps):
        return words + " No device event was observed, so what a device did meanwhile is not known."
    idle = sum(step.wait for step in active.steps)
    return words + f" The device did nothing during {ms(idle)} of it ({percent(active.share)} of {_whole(active)})."


def _whole(active: ActiveWait) -> str:
    return "the whole record" if active.whole_record else "the steps"


def _approach_words(approach: ApproachWait, workers: int | None) -> str:
    periods = f", {approach.steps // workers} whole periods of {workers} workers" if workers else ""
    words = (
        f"In {approach.steps} unprofiled steps before the window{periods}, it took {approach.read_ms:.3f} ms of "
        f"{approach.step_ms:.3f} ms a step on the host clock ({percent(approach.read_ms / approach.step_ms)})."
    )
    if approach.busy_ms is not None and approach.share < approach.read_ms / approach.step_ms:
        words += (
            f" The active steps launched {approach.busy_ms:.3f} ms of device work a step, "
            f"so at most {percent(approach.share)} of the step can be waiting."
        )
    return words


def _hypothesis(waiting: Waiting) -> str:
    where = " Without workers, loading runs inside the step." if waiting.workers == 0 else ""
    return (
        "The input pipeline may not keep up with the step." + where + " A long wait does not say why (storage, "
        "decoding, transforms, too few workers or cores), and it does not measure the storage."
    )


def _input_evidence(waiting: Waiting) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "labels": waiting.reading.names if waiting.reading is not None else [],
        "labels_known_from": waiting.reading.known_from if waiting.reading is not None else None,
        "decided_by": waiting.decided_by,
        "loader_workers": waiting.workers,
    }
    if waiting.active is not None:
        evidence["steps"] = [
            {"name": step.name, "cpu_us": step.host / 1000, "read_us": step.read / 1000}
            | ({} if step.busy is None else {"gpu_busy_during_read_us": step.busy / 1000})
            for step in waiting.active.steps
        ]
        evidence["share_of_active_steps" if not waiting.active.whole_record else "share_of_record"] = (
            waiting.active.share
        )
    if waiting.approach is not None:
        evidence["approach"] = {
            "steps_used": waiting.approach.steps,
            "steps_skipped": waiting.approach.skipped,
            "mean_step_ms": waiting.approach.step_ms,
            "mean_read_ms": waiting.approach.read_ms,
            "share": waiting.approach.share,
        }
    return evidence
