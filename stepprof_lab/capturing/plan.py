"""What is to be captured, and what is refused before a step runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from stepprof_lab import files, record
from stepprof_lab.capturing import ranks
from stepprof_lab.capturing.approach import LIMIT_S
from stepprof_lab.capturing.session import refuse_other_profiler
from stepprof_lab.devices import Device, choose
from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepprof_lab.scenario import Scenario

OPTIONS = ("record_shapes", "profile_memory", "with_stack")
"""What costs time inside the window; off unless asked for."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be captured, and how.

    Args:
        scenario: the question that the trace answers.
        trace: the trace's name, ``.json`` or ``.json.gz``; under several ranks each rank's name carries its rank.
        device: what was asked for, as `stepprof_lab.devices.choose` takes it.
        options: those of `OPTIONS` that are on.
        begin: the window begins at this step (counted from 0); None: after a whole approach.
        approach_limit_s: the approach is cut after this many seconds.
        traced_ranks: ranks that are traced, the others run as many steps without; None: all.
    """

    scenario: Scenario
    trace: Path
    device: str = "auto"
    options: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    begin: int | None = None
    approach_limit_s: float = LIMIT_S
    traced_ranks: frozenset[int] | None = None


def refuse(plan: Plan) -> Device:
    """Refuse what can be known to fail before a step runs; returns the device.

    Raises:
        StepprofError: the directory cannot be made or written, a name is taken, another profiler is active.
        NotAvailable: the device or the collection of its activity is not there.
    """
    device = choose(plan.device)
    device.activities()
    refuse_other_profiler()
    where = ranks.place()
    _refuse_strange_ranks(plan.traced_ranks, where)
    if is_traced(plan, where):
        trace = ranks.with_rank(plan.trace, where)
        for path, what in ((trace, "trace"), (record.record_path(trace), "record")):
            files.demand_new_name(path, what)
        files.make_directory(trace.parent)
    return device


def is_traced(plan: Plan, where: ranks.Place | None) -> bool:
    """Whether the rank at this place is traced."""
    return where is None or plan.traced_ranks is None or where.rank in plan.traced_ranks


def checked_name(trace: Path) -> Path:
    """The trace's name, refused where it ends in something that is no trace."""
    if not trace.name.endswith((".json", ".json.gz")) or record.stem_of(trace) == "":
        raise StepprofError(f"trace name {str(trace)!r}", "a name that ends in .json or .json.gz", "name it so")
    return trace


def rejected_name(trace: Path) -> Path:
    """A free name for a capture that is not valid; one that was rejected before is not replaced either."""
    stem = record.stem_of(trace)
    ending = trace.name[len(stem) :]
    number = 1
    while True:
        path = trace.with_name(f"{stem}.rejected{'' if number == 1 else f'-{number}'}{ending}")
        if not path.exists() and not record.record_path(path).exists():
            return path
        number += 1


def _refuse_strange_ranks(traced: frozenset[int] | None, where: ranks.Place | None) -> None:
    """Ranks that are not there would be traced by nobody."""
    size = where.world_size if where else 1
    strange = sorted(rank for rank in traced or () if not 0 <= rank < size)
    if strange:
        raise StepprofError(
            f"rank {', '.join(map(str, strange))} is to be traced",
            f"ranks from 0 to {size - 1}" if where else "no ranks: this is one process, not under torchrun",
            "name ranks that run",
        )
