"""What stands out in a trace: one function a finding, and the list of them is the interpreter.

A finding is an observation with its evidence, a hypothesis that is worded as one, and a next check. It says how much
of the step it could explain at the most, never how much faster the step would become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from stepprof_lab.trace import intervals
from stepprof_lab.trace.findings.case import Case
from stepprof_lab.trace.findings.communication import exposed_communication
from stepprof_lab.trace.findings.copies import pageable_copy, repeated_copy, undecided_memory, undecided_repeat
from stepprof_lab.trace.findings.hosts import host_bound, host_sync, small_launches
from stepprof_lab.trace.findings.leave import not_worth
from stepprof_lab.trace.findings.observed import gpu_not_observed, gpu_partly_observed
from stepprof_lab.trace.findings.operator import dominant_operator
from stepprof_lab.trace.findings.reading import input_wait
from stepprof_lab.trace.findings.regime import DEVICE_BUSY_SHARE, INPUT_REGIME_SHARE, reason, regime
from stepprof_lab.trace.findings.window import compile_in_window, unsteady_window
from stepprof_lab.trace.findings.words import ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepprof_lab.trace.model import Finding

__all__ = [
    "DEVICE_BUSY_SHARE",
    "FINDINGS",
    "INPUT_REGIME_SHARE",
    "Case",
    "find",
    "not_worth",
    "notes",
    "reason",
    "regime",
]

FINDINGS: tuple[Callable[[Case], Finding | None], ...] = (
    input_wait,
    repeated_copy,
    small_launches,
    dominant_operator,
    host_sync,
    host_bound,
    pageable_copy,
    exposed_communication,
    compile_in_window,
    unsteady_window,
    gpu_not_observed,
    gpu_partly_observed,
)
"""In the order of the contract's ids."""
PROFILERS_WAIT_SHARE = 0.01
"""Share of the steps from which the profiler's own wait is told: less changes no number that a person compares."""


def find(case: Case) -> list[Finding]:
    """All findings that this trace gives, by the largest share of the step, largest first."""
    found = [finding for look in FINDINGS if (finding := look(case)) is not None]
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> float:
    """By the share of the step; where that cannot be said, by the share that was seen; without any at the end."""
    if finding.share_of_step is not None:
        return -finding.share_of_step
    return 1.0 if finding.share_seen is UNSET else -finding.share_seen


def notes(case: Case, found: Sequence[Finding] = ()) -> list[str]:
    """What the findings looked for and could not decide, and how their shares are to be read."""
    return [*undecided_repeat(case), *undecided_memory(case), *_profilers_wait(case), *_overlapping(found)]


def _profilers_wait(case: Case) -> list[str]:
    took = intervals.total(*case.profilers_wait)
    if not len(case.steps) or case.ratio(took) < PROFILERS_WAIT_SHARE:
        return []
    return [
        (
            f"{ms(took)} of {case.of_window} passed in a wait for the whole device before the first launch: the "
            "profiler makes such a call when it begins to record, so it is blamed on nothing, but it is in the time of "
            "the step"
        )
    ]


def _overlapping(found: Sequence[Finding]) -> list[str]:
    shares = [one for one in found if one.share_of_step is not None or one.share_seen is not UNSET]
    if len(shares) < 2:
        return []
    return ["the same time can stand in the shares of several findings, so these shares do not add up"]
