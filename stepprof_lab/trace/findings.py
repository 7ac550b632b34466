"""What stands out in a trace: one function a finding, and the list of them is the interpreter.

A finding is an observation with its evidence, a hypothesis that is worded as one, and a next check. It says how much
of the step it could explain at the most, never how much faster the step would become.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.device import LIKELY_REASONS, launch_calls
from stepprof_lab.trace.model import Finding, Regime
from stepprof_lab.trace.waiting import Waiting, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepprof_lab.trace.intervals import Intervals
    from stepprof_lab.trace.model import Context
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps
    from stepprof_lab.trace.waiting import ActiveWait, ApproachWait


@dataclasses.dataclass(frozen=True)
class Case:
    """Everything that a finding may look at."""

    trace: Trace
    context: Context
    steps: Steps
    device: DeviceWork
    waiting: Waiting


INPUT_REGIME_SHARE = 0.30
"""Share of the step from which waiting for input is called the step's regime: nearly a third of it, which nothing
that happens once in a step (a copy, an update) usually reaches."""
DEVICE_BUSY_SHARE = 0.90
"""Share of the window that device work has to fill, communication left out, before the step is called limited by the
device: with more idle time than a tenth something else takes part."""
DEVICE_IDLE_SHARE = 0.50
"""Share of the window that the device has to be idle before the host is called the limit, where input is not."""
COMMUNICATION = re.compile(r"nccl|rccl|deep_?ep|all_?reduce|all_?gather|all_?to_?all|reduce_?scatter", re.IGNORECASE)
"""Kernels that may be waiting for another rank while they count as busy."""


def find(case: Case) -> list[Finding]:
    """All findings that this trace gives, by the largest share of the step, largest first."""
    found = [finding for look in FINDINGS if (finding := look(case)) is not None]
    return sorted(found, key=lambda finding: (finding.share_of_step is None, -(finding.share_of_step or 0.0)))


# ---- input-wait ----


def input_wait(case: Case) -> Finding | None:
    """The step waits for its next batch."""
    waiting = case.waiting
    if not waiting.waits or waiting.reading is None or waiting.share is None:
        return None
    active, approach = waiting.active, waiting.approach
    seen = [_active_words(active, waiting.reading.names)] if active is not None else []
    if approach is not None:
        seen.append(_approach_words(approach, waiting.workers))
    no_steps = active is not None and active.whole_record and waiting.decided_by == "active steps"
    return Finding(
        id="input-wait",
        observation=" ".join(seen),
        hypothesis=_hypothesis(waiting),
        next_check=(
            "Run the same compute with the batches ready in memory, and validate outside the profiler "
            "whether the step becomes shorter (stepprof validate)."
        ),
        share_of_step=None if no_steps else waiting.share,
        evidence=_input_evidence(waiting),
    )


def _active_words(active: ActiveWait, names: list[str]) -> str:
    count = len(active.steps)
    of = "the whole record (no step is marked)" if active.whole_record else f"{count} active step{'s' * (count != 1)}"
    words = (
        f"Reading the batch ({quoted(names)}) took {_ms(active.read)} of the {_ms(active.host)} of {of} on the host "
        f"({_percent(active.read / active.host if active.host else 0.0)})."
    )
    if any(step.busy is None for step in active.steps):
        return words + " No device event was observed, so what a device did meanwhile is not known."
    idle = sum(step.wait for step in active.steps)
    return words + f" The device did nothing during {_ms(idle)} of it ({_percent(active.share)} of that time)."


def _approach_words(approach: ApproachWait, workers: int | None) -> str:
    periods = f", {approach.steps // workers} whole periods of {workers} workers" if workers else ""
    words = (
        f"In {approach.steps} unprofiled steps before the window{periods}, it took {approach.read_ms:.3f} ms of "
        f"{approach.step_ms:.3f} ms a step on the host clock ({_percent(approach.read_ms / approach.step_ms)})."
    )
    if approach.busy_ms is not None and approach.share < approach.read_ms / approach.step_ms:
        words += (
            f" The active steps launched {approach.busy_ms:.3f} ms of device work a step, "
            f"so at most {_percent(approach.share)} of the step can be waiting."
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


# ---- gpu-not-observed ----


def gpu_not_observed(case: Case) -> Finding | None:
    """Device work was to be expected, and none is in the trace.

    A capture of the CPU alone is no finding: there `Analysis.gpu` says why nothing was observed.
    """
    if len(case.device):
        return None
    launches = launch_calls(case.trace)
    asked = case.context.gpu_requested
    listed = [name or "unnamed" for name in case.trace.metadata.device_names().values()]
    if launches:
        count = sum(launches.values())
        seen = (
            f"The host made {count} call{'s' * (count != 1)} that queue device work ({', '.join(list(launches)[:3])})"
        )
    elif asked:
        seen = "Collection of GPU activity was asked for"
    elif listed and asked is None:
        seen = f"The trace lists {len(listed)} device{'s' * (len(listed) != 1)} ({', '.join(dict.fromkeys(listed))})"
    else:
        return None
    return Finding(
        id="gpu-not-observed",
        observation=f"{seen}, but no kernel, copy or memset is in the trace: what the device did was not observed.",
        hypothesis=(
            f"The collection may have failed on the device side ({LIKELY_REASONS}). This does not show an idle device."
            if launches
            else f"The steps may have run on the CPU, or the collection may have failed ({LIKELY_REASONS}). "
            "This does not show an idle device."
        ),
        next_check=(
            "Run stepprof doctor --require gpu: it makes a small capture in a process of its own and says whether a "
            "kernel appears in it. Then capture again."
        ),
        share_of_step=None,
        evidence={"launch_calls": launches, "asked_for": asked, "devices_listed": listed},
    )


FINDINGS: tuple[Callable[[Case], Finding | None], ...] = (input_wait, gpu_not_observed)
"""In the order of the contract's ids."""


# ---- regime ----


def regime(case: Case) -> Regime:
    """What the step is limited by, where the trace allows to say so; in doubt "undecided".

    - ``input``: waiting for input is found, and takes `INPUT_REGIME_SHARE` of the step or more.
    - ``device``: device work other than communication fills `DEVICE_BUSY_SHARE` of the steps.
    - ``host``: the device was observed and idle for `DEVICE_IDLE_SHARE` of the steps or more, work was launched in
      them, and waiting for input is shown not to be the reason.

    Without marked steps or without device events only ``input`` can be decided.
    """
    waiting = case.waiting
    if not len(case.steps):
        return "undecided"
    if waiting.waits and waiting.share is not None and waiting.share >= INPUT_REGIME_SHARE:
        return "input"
    if not len(case.device):
        return "undecided"
    window = case.steps.window()
    length = intervals.total(*window)
    if _compute_busy(case, window) >= DEVICE_BUSY_SHARE * length:
        return "device"
    idle = length - intervals.overlap(case.device.merged, window)
    launched = bool(case.device.launched_in(window).any())
    if waiting.waits is False and launched and idle >= DEVICE_IDLE_SHARE * length:
        return "host"
    return "undecided"


def _compute_busy(case: Case, window: Intervals) -> int:
    """Device time in the window without communication, in ns."""
    communicates = np.array([bool(COMMUNICATION.search(name)) for name in case.trace.names], dtype=np.bool_)
    kept = ~communicates[case.trace.name_id[case.device.rows]]
    return intervals.overlap(intervals.union(case.device.start[kept], case.device.end[kept]), window)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3f} ms"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
