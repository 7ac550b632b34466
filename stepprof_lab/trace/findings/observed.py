"""Device work that was to be expected and is not in the trace, all of it or a part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.device import LIKELY_REASONS, known_fault, launch_calls, strange_kinds
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.words import counted, quoted
from stepprof_lab.trace.model import Finding
from stepprof_lab.trace.steps import unlinked

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case

LAUNCH = re.compile(r"(cu|hip|ur|ze)\w*(LaunchKernel|LaunchCooperative|GraphLaunch|KernelLaunch|Memcpy)")
"""Host calls that must leave device work behind. Fills are left out: CUDA records some of them as a call alone."""


def gpu_not_observed(case: Case) -> Finding | None:
    """Device work was to be expected, and none is in the trace.

    A capture of the CPU alone is no finding: there `Analysis.gpu` says why nothing was observed.
    """
    if len(case.device):
        return None
    launches = launch_calls(case.trace)
    asked = case.context.gpu_requested
    listed = [name or "unnamed" for name in case.trace.metadata.device_names().values()]
    strange = strange_kinds(case.trace)
    if strange:
        count = sum(strange.values())
        seen = (
            f"{counted(count, 'event')} of kinds that are not known here ({quoted(list(strange)[:3])}) may be device "
            "work"
        )
    elif launches:
        count = sum(launches.values())
        seen = f"The host made {counted(count, 'call')} that queue device work ({', '.join(list(launches)[:3])})"
    elif asked:
        seen = "Collection of GPU activity was asked for"
    elif listed and asked is None:
        seen = f"The trace lists {counted(len(listed), 'device')} ({', '.join(dict.fromkeys(listed))})"
    else:
        return None
    hypothesis, next_check = _why_nothing(case, strange=bool(strange), launches=bool(launches))
    return Finding(
        id="gpu-not-observed",
        observation=f"{seen}, but no kernel, copy or memset is in the trace: what the device did was not observed.",
        hypothesis=f"{hypothesis} This does not show an idle device.",
        next_check=next_check,
        share_of_step=None,
        evidence={"launch_calls": launches, "asked_for": asked, "devices_listed": listed},
    )


def _why_nothing(case: Case, *, strange: bool, launches: bool) -> tuple[str, str]:
    """A hypothesis and what to do next, where no device work is in the trace."""
    if strange:
        return (
            "The device may be of a kind that this reader does not know, or the kinds may have been renamed.",
            "Look at these events in a viewer of Chrome traces, and compare with a trace as the profiler wrote it.",
        )
    if case.trace.missing:
        return (
            f"The device's events may be among what is missing from the file ({'; '.join(case.trace.missing)}).",
            "Read the whole file: copy or export it again, or capture again.",
        )
    hypothesis = (
        f"The collection may have failed on the device side ({LIKELY_REASONS})."
        if launches
        else f"The steps may have run on the CPU, or the collection may have failed ({LIKELY_REASONS})."
    )
    return hypothesis, (
        "Run stepprof doctor --require gpu: it makes a small capture in a process of its own and says whether a "
        "kernel appears in it. Then capture again."
    )


# ---- gpu-partly-observed ----

PARTLY_SHARE = 0.01
"""Part of the launches without device work from which records are said to be missing: in none of 23 sound traces of
real GPUs is it more than 0, once fills are left out (CUDA records the call of some without their work)."""


def gpu_partly_observed(case: Case) -> Finding | None:
    """Some launches in the window have no device work in the trace."""
    if not len(case.device):
        return None
    calls = case.matching(LAUNCH, Kind.RUNTIME)
    calls = calls[case.trace.correlation[calls] != 0]
    if len(case.steps):
        calls = calls[intervals.contains(case.window, case.trace.start[calls])]
    lost = calls[~np.isin(calls, case.device.launch_row)]
    if not len(lost) or len(lost) < PARTLY_SHARE * len(calls):
        return None
    astray, unusable = unlinked(case.trace, case.device).astray, case.trace.unusable
    missing = "; ".join(case.trace.missing)
    gone = max(len(lost) - astray - unusable, 0)
    if not unusable and (not gone or gone < PARTLY_SHARE * len(calls)):
        return None  # the work is there and counts as busy: a note says that its link is lost
    names = [name for name, _ in case.by_name(lost, np.ones(len(lost), dtype=np.int64))]
    place = np.searchsorted(case.steps.start, case.trace.start[lost], side="right") - 1
    steps = [
        {"name": name, "launches_without_work": int(count)}
        for name, count in zip(case.steps.names, np.bincount(place[place >= 0], minlength=len(case.steps)), strict=True)
        if count
    ]
    linked = "linked to them in the trace" if astray or unusable else "in the trace"
    return Finding(
        id="gpu-partly-observed",
        observation=(
            f"{len(lost)} of {len(calls)} calls that queue device work ({quoted(names[:3])}) have no kernel or copy "
            + linked
            + (f", in {quoted([str(step['name']) for step in steps[:4]])}" if steps else "")
            + "."
            + (f" {counted(unusable, 'device event')} of the file could not be used." if unusable else "")
            + (f" {counted(astray, 'device event')} in it lost the link to a launch." if astray else "")
        ),
        hypothesis=(
            (
                f"Their work may be in what could not be read ({missing})."
                if missing
                else "Records of the device may have been lost (at the start of a session, in a full buffer, by a "
                "library with a known fault), or the record ended before the work did."
            )
            + " What looks idle in this trace need not be idle."
            + (f" The trace was {fault}." if not missing and (fault := known_fault(case.trace)) else "")
        ),
        next_check=(
            "Do not read idle time from this trace. "
            + (
                "Copy or export it again, or capture again."
                if missing
                else "Capture again with a longer warm-up and fewer steps, and see stepprof doctor for the versions of "
                "the driver and its collection library."
            )
        ),
        share_of_step=None,
        evidence={"names": names[:5], "launches": len(calls), "launches_without_work": len(lost), "steps": steps}
        | ({"unusable": unusable, "unlinked": astray} if unusable or astray else {}),
    )
