"""What stands out in a trace: one function a finding, and the list of them is the interpreter.

A finding is an observation with its evidence, a hypothesis that is worded as one, and a next check. It says how much
of the step it could explain at the most, never how much faster the step would become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.trace.findings.case import Case
from stepprof_lab.trace.findings.communication import exposed_communication
from stepprof_lab.trace.findings.copies import pageable_copy, repeated_copy, undecided_memory
from stepprof_lab.trace.findings.hosts import host_bound, host_sync, small_launches
from stepprof_lab.trace.findings.leave import not_worth
from stepprof_lab.trace.findings.observed import gpu_not_observed, gpu_partly_observed
from stepprof_lab.trace.findings.operator import dominant_operator
from stepprof_lab.trace.findings.reading import input_wait
from stepprof_lab.trace.findings.regime import DEVICE_BUSY_SHARE, INPUT_REGIME_SHARE, reason, regime
from stepprof_lab.trace.findings.window import compile_in_window, unsteady_window

if TYPE_CHECKING:
    from collections.abc import Callable

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


def find(case: Case) -> list[Finding]:
    """All findings that this trace gives, by the largest share of the step, largest first."""
    found = [finding for look in FINDINGS if (finding := look(case)) is not None]
    return sorted(found, key=lambda finding: (finding.share_of_step is None, -(finding.share_of_step or 0.0)))


def notes(case: Case) -> list[str]:
    """What the findings looked for and could not decide."""
    return undecided_memory(case)
