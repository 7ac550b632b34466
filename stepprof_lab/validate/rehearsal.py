"""The first run of each arm: it pays what a process pays once, and shows what each arm sets by itself."""

from __future__ import annotations

import contextlib
from typing import Any

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.bench import ARMS, REHEARSAL, Bench
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.settings import Settings


def rehearse(bench: Bench) -> dict[str, Any]:
    """Build each arm once and run one step, so that what a process pays once is paid before anything is planned.

    An arm that switches something of the process is built once more: what the second build does not set again was set
    by an import, and belongs to both. Names that the first arm set in its modules are put back before the other is
    built, so that each shows what it sets by itself.

    Returns:
        what that took, for each arm.
    """
    found: dict[str, Any] = {}
    names = bench.around.names
    at_first = names.held()
    bench.progress("rehearsal", 0, len(ARMS))
    found["before"] = _rehearse_arm(bench, "before")
    as_left = names.held()
    names.put_back(at_first)
    bench.progress("rehearsal", 1, len(ARMS))
    try:
        found["after"] = _rehearse_arm(bench, "after")
    except StepprofError:
        if not names.put_back(as_left):  # what belongs together in a module may have been torn apart
            raise
        found["after"] = _rehearse_arm(bench, "after")
    bench.progress("rehearsal", len(ARMS), len(ARMS))
    note = "the first arm of a process also pays what the process pays once; do not compare these two"
    return {**found, "note": note}


def _rehearse_arm(bench: Bench, name: ArmName) -> dict[str, Any]:
    settings, took = _build_and_step(bench, name)
    if first := bench.around.set_by[name]:
        bench.around.set_by[name] = {}
        with contextlib.suppress(StepprofError):  # it may need what only the first build has set
            _build_and_step(bench, name)
        if once := first.keys() - bench.around.set_by[name].keys():
            bench.around.adopt(name, set(once), settings)
    return took


def _build_and_step(bench: Bench, name: ArmName) -> tuple[Settings, dict[str, Any]]:
    arm = bench.fresh(name, REHEARSAL)
    took = {"build_ms": bench.build_ms[name, REHEARSAL], "first_step_ms": bench.start_up(arm, 1)[0]}
    settings = arm.settings
    bench.drop(arm)
    return settings, took
