"""Several ranks of one job: what their records say, then what their traces show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab import record as records
from stepprof_lab.trace.model import Context

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepprof_lab.trace.ranks import Source
    from stepprof_lab.trace.ranks_model import RanksInterpretation


def read(traces: Sequence[Path], *, picture: bool = True, processes: int | None = None) -> RanksInterpretation:
    """Read the traces of several ranks with their records and put them beside each other.

    Args:
        traces: one of each rank, in any order.
        picture: whether the common timeline is wanted.
        processes: traces that are read at the same time; as many as there are processors by default.

    Raises:
        StepprofError: a trace cannot be read, its rank is not known, or two traces are of one rank.
    """
    from stepprof_lab.trace import ranks

    return ranks.read([_source(trace) for trace in traces], picture=picture, processes=processes)


def _source(trace: Path) -> Source:
    from stepprof_lab.trace.ranks import Source

    record, note = records.find(trace)
    if record is None:
        return Source(trace, Context(notes=[note] if note else []))
    return Source(trace, records.context_of(record), record.rank, record.world_size)
