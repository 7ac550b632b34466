"""What the step is limited by, where the trace allows to say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.trace import intervals
from stepprof_lab.trace.device import vendor_of
from stepprof_lab.trace.events import Kind
from stepprof_lab.trace.findings.case import SYNC
from stepprof_lab.trace.findings.communication import EXPOSED_COMMUNICATION_SHARE
from stepprof_lab.trace.findings.words import percent, quoted
from stepprof_lab.trace.waiting import AGREES_WITHIN

if TYPE_CHECKING:
    from stepprof_lab.trace.findings.case import Case
    from stepprof_lab.trace.model import Regime
    from stepprof_lab.trace.waiting import ActiveWait, ApproachWait, Waiting

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
KERNELS_NAMED = 2
NEXT_TOOL = {"cuda": "ncu", "rocm": "rocprof-compute"}


def regime(case: Case) -> Regime:
    """What the step is limited by; in doubt "undecided".

    - ``input``: waiting for input is found, and takes `INPUT_REGIME_SHARE` of the step or more.
    - ``device``: device work fills `DEVICE_BUSY_SHARE` of the steps, communication alone hardly any of it.
    - ``communication``: communication alone takes `COMMUNICATION_REGIME_SHARE` or more, clearly more than the host.
    - ``host``: the device waits for launches for `HOST_REGIME_SHARE` of the steps or more, while the host neither
      reads nor waits, and waiting for input is shown not to be the reason.

    Without marked steps or without device events only ``input`` can be decided, and nothing where device work may be
    missing (`Case.doubts`): what looks idle then need not be idle.
    """
    waiting = case.waiting
    if not len(case.steps) or case.doubts:
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


def _waits_for_input(waiting: Waiting) -> str:
    """By which share of the step it waits, as both looks at it say where they say different things."""
    active, approach = waiting.active, waiting.approach
    if active is not None and approach is not None and abs(active.share - approach.share) > AGREES_WITHIN:
        return f"{_of_active(active)}, and {_of_approach(approach)}: they differ"
    if approach is not None and (active is None or waiting.decided_by == "approach"):
        return _of_approach(approach)
    return "" if active is None else _of_active(active)


def _of_active(active: ActiveWait) -> str:
    observed = any(step.busy is not None for step in active.steps)
    idle = " with an idle device" if observed else ""
    return f"reading the next batch{idle} takes {percent(active.share)} of the active steps"


def _of_approach(approach: ApproachWait) -> str:
    """The host's clock sees the reading; what the device does meanwhile it does not."""
    what = "reading the next batch takes" if approach.busy_ms is None else "waiting for the next batch takes at most"
    return f"{what} {percent(approach.share)} of the unprofiled steps before the window"


def reason(case: Case, named: Regime) -> str:
    """One sentence on what the regime is concluded from, and for a busy device the next tool."""
    if named == "input":
        return _waits_for_input(case.waiting)
    if case.doubts:
        return f"{'; '.join(case.doubts)}: what looks idle need not be idle, so no idle time is judged"
    if not len(case.steps):
        return "no step is marked"
    if not len(case.device):
        return "no device event was observed, and waiting for input is not found"
    busy = intervals.total(*case.busy)
    if named == "device":
        return _busy(case, busy)
    parts = ", ".join(f"{percent(case.ratio(ns))} {what}" for what, ns in _parts(case, busy))
    unknown = "" if case.waiting.waits is not None else "; whether the loop waits for its input is not known"
    graphs = "; work was launched as a graph, and graphs can be recorded late or in part" if case.has_graph else ""
    return f"in the active steps {parts}{unknown}{graphs}"


def _busy(case: Case, busy: int) -> str:
    """How busy the device is, and the next tool, with the kernels to look at: none that communicates.

    A kernel profiler runs a kernel several times, alone: a collective would wait for its peers for ever.
    """
    exposed = intervals.total(*case.exposed)
    alone = f" (communication alone {percent(case.ratio(exposed))})" if exposed else ""
    tool = NEXT_TOOL.get(vendor_of(case.trace), "a kernel profiler")
    low, high = int(case.window[0][0]), int(case.window[1][-1])
    device = case.device
    mine = (case.trace.kind[device.rows] == Kind.KERNEL) & ~case.communicating
    mine &= (device.start < high) & (device.end > low)
    names = [name for name, _ in case.by_name(device.rows[mine], (device.end - device.start)[mine])[:KERNELS_NAMED]]
    on = f", on the kernels with the largest sums of time ({quoted(names)})" if names else ""
    graphs = "; work was launched as a graph, and graphs can be recorded late or in part" if case.has_graph else ""
    return (
        f"the device works during {percent(case.ratio(busy))} of the active steps{alone}; whether it works well is a "
        f"question for {tool}{on}{graphs}"
    )


def _around_waits(case: Case) -> str:
    """Idle time that waits explain: in a trace without any call that only waits, it is copies that were waited for."""
    if len(case.matching(SYNC, Kind.RUNTIME)):
        return "it is idle around waits of the host"
    return "it is idle around copies for which the host waited (the trace has no call that only waits)"


def _parts(case: Case, busy: int) -> list[tuple[str, int]]:
    """Where the steps go, in parts that do not overlap; those that are nothing are left out."""
    idle, exposed = case.idle, intervals.total(*case.exposed)
    parts = [
        ("of the time the device works" + (" at something else than communication" if exposed else ""), busy - exposed),
        ("it does nothing but communicate", exposed),
        ("it is idle while a batch is read", intervals.total(*idle.reading)),
        (_around_waits(case), intervals.total(*idle.waiting)),
        ("it is idle because nothing is launched", intervals.total(*idle.host)),
        ("it is idle although work is queued, or for a reason that is not seen", intervals.total(*idle.queued)),
    ]
    return [(what, ns) for what, ns in parts if ns > 0]
