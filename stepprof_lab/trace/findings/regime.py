"""What the step is limited by, where the trace allows to say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.trace import intervals
from stepprof_lab.trace.device import vendor_of
from stepprof_lab.trace.findings.communication import EXPOSED_COMMUNICATION_SHARE
from stepprof_lab.trace.findings.words import percent

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.model import Regime

INPUT_REGIME_SHARE = 0.30
"""Share of the step from which waiting for input is called the step's regime: nearly a third of it, which nothing
that happens once in a step (a copy, an update) usually reaches."""
DEVICE_BUSY_SHARE = 0.90
"""Share of the window that device work has to fill before the step is called limited by the device: with more idle
time than a tenth something else takes part. Communication alone may have a tenth at most
(`EXPOSED_COMMUNICATION_SHARE`)."""
HOST_REGIME_SHARE = 0.50
"""Share of the window that the device has to wait for launches before the host is called the limit."""
COMMUNICATION_REGIME_SHARE = 0.30
"""As for input; where waiting for input is not acquitted, half of the window (`HOST_REGIME_SHARE`)."""
CLEARLY = 1.5
"""How many times more than the host's part communication has to take to be named before it."""
NEXT_TOOL = {"cuda": "ncu", "rocm": "rocprof-compute"}


def regime(case: Case) -> Regime:
    """What the step is limited by; in doubt "undecided".

    - ``input``: waiting for input is found, and takes `INPUT_REGIME_SHARE` of the step or more.
    - ``device``: device work fills `DEVICE_BUSY_SHARE` of the steps, communication alone hardly any of it.
    - ``communication``: communication alone takes `COMMUNICATION_REGIME_SHARE` or more, clearly more than the host.
    - ``host``: the device waits for launches for `HOST_REGIME_SHARE` of the steps or more, while the host neither
      reads nor waits, and waiting for input is shown not to be the reason.

    Without marked steps or without device events only ``input`` can be decided.
    """
    waiting = case.waiting
    if not len(case.steps):
        return "undecided"
    if waiting.waits and waiting.share is not None and waiting.share >= INPUT_REGIME_SHARE:
        return "input"
    if not len(case.device):
        return "undecided"
    exposed = case.ratio(intervals.total(*case.exposed))
    if case.ratio(intervals.total(*case.busy)) >= DEVICE_BUSY_SHARE and exposed < EXPOSED_COMMUNICATION_SHARE:
        return "device"
    host = case.ratio(intervals.total(*case.idle.host))
    needed = COMMUNICATION_REGIME_SHARE if waiting.waits is False else HOST_REGIME_SHARE
    if exposed >= needed and exposed >= CLEARLY * host:
        return "communication"
    if waiting.waits is False and case.in_window.any() and host >= HOST_REGIME_SHARE:
        return "host"
    return "undecided"


def reason(case: Case, named: Regime) -> str:
    """One sentence on what the regime is concluded from, and for a busy device the next tool."""
    if named == "input":
        return f"waiting for the next batch takes {percent(case.waiting.share or 0.0)} of the step"
    if not len(case.steps):
        return "no step is marked"
    if not len(case.device):
        return "no device event was observed, and waiting for input is not found"
    busy = intervals.total(*case.busy)
    if named == "device":
        tool = NEXT_TOOL.get(vendor_of(case.trace), "a kernel profiler")
        return (
            f"the device works during {percent(case.ratio(busy))} of the active steps; whether it works well is a "
            f"question for {tool}, on the kernels with the largest share"
        )
    parts = ", ".join(f"{percent(case.ratio(ns))} {what}" for what, ns in _parts(case, busy))
    unknown = "" if case.waiting.waits is not None else "; whether the loop waits for its input is not known"
    return f"in the active steps {parts}{unknown}"


def _parts(case: Case, busy: int) -> list[tuple[str, int]]:
    """Where the steps go, in parts that do not overlap; those that are nothing are left out."""
    idle, exposed = case.idle, intervals.total(*case.exposed)
    parts = [
        ("of the time the device works", busy - exposed),
        ("it does nothing but communicate", exposed),
        ("it is idle while a batch is read", intervals.total(*idle.reading)),
        ("it is idle around waits of the host", intervals.total(*idle.waiting)),
        ("it is idle because nothing is launched yet", intervals.total(*idle.host)),
        ("it is idle although work is queued, or for a reason that is not seen", intervals.total(*idle.queued)),
    ]
    return [(what, ns) for what, ns in parts if ns > 0]
