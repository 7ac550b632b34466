"""Whether the traces of several ranks are of one run of one job: what speaks against it, and what rules it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.trace.arrivals import Clocks
    from stepprof_lab.trace.ranks import Placed

CLOCKS_DIFFER_NS = 3600 * 10**9
"""How far the clocks of two machines of one job may lie apart, in ns: they are kept to milliseconds by NTP; an hour is
a clock that nobody set, or a time zone taken for the time."""


def doubts(placed: Sequence[Placed], questions: Sequence[str]) -> list[str]:
    """What speaks against these traces being of one run.

    Args:
        placed: the traces with their ranks.
        questions: the different ones in their records.
    """
    sizes = world_sizes(placed)
    said = []
    if len(sizes) > 1:
        stated = "; ".join(f"{ranks_named(who)}: {size}" for size, who in sizes.items())
        said.append(f"the traces state jobs of different sizes ({stated}): they may not be of one run")
    for size, who in sizes.items():
        beyond = [rank for rank in who if rank >= size]
        if beyond:
            said.append(f"rank {listed(beyond)} of a job of {size} ranks: the ranks of such a job end at {size - 1}")
    if len(questions) > 1:
        said.append(f"the records have different questions: {' / '.join(questions)}")
    origins = {one.rank: one.seen.analysis.origin for one in placed}
    if len(set(origins.values())) > 1:
        said.append("the traces differ in origin: " + ", ".join(f"rank {n} {what}" for n, what in origins.items()))
    vendors = {one.seen.analysis.gpu.vendor for one in placed if one.seen.analysis.gpu.observed}
    if len(vendors) > 1:
        said.append(f"the devices are of different vendors: {', '.join(sorted(vendors))}")
    sessions = [one.seen.identity.session for one in placed if one.seen.identity.session]
    if len(set(sessions)) < len(sessions):
        said.append("some traces have the same session number: they may be copies of one capture under two ranks")
    apart = _apart(placed)
    if apart is not None:
        said.append(
            f"on their own clocks the traces lie {apart / 1e9:.1f} s apart: they may be of different runs "
            "(or of machines whose clocks differ)"
        )
    stated_twice = [
        one.rank
        for one in placed
        if one.source.rank is not None and one.rank_from == "trace" and one.source.rank != one.rank
    ]
    if stated_twice:
        said.append(f"rank {listed(stated_twice)}: the record beside the trace says another rank; the trace's counts")
    return said


def _apart(placed: Sequence[Placed]) -> int | None:
    """How long after one rank's last window another one's first begins, by absolute time; None where they overlap."""
    spans = []
    for one in placed:
        if one.seen.identity.base is None:
            return None
        begin = one.seen.identity.base + one.seen.origin
        last = one.seen.windows[-1]
        spans.append((begin, begin + last.start + last.elapsed))
    gap = max(begin for begin, _ in spans) - min(end for _, end in spans)
    return gap if gap > 0 else None


def contradictions(placed: Sequence[Placed], clocks: Clocks) -> list[str]:
    """What cannot be so in one run; where there is any, the ranks are not compared.

    Clocks that lie far apart are none where the collectives agree once they are shifted.
    """
    sizes = world_sizes(placed)
    said = []
    if len(sizes) > 1:
        said.append(f"their jobs have {' and '.join(map(str, sorted(sizes)))} ranks")
    if any(rank >= size for size, who in sizes.items() for rank in who):
        said.append("a rank is outside its job")
    apart = _apart(placed)
    if apart is not None and apart > CLOCKS_DIFFER_NS and clocks.how != "ends":
        said.append(f"they were recorded {apart / CLOCKS_DIFFER_NS:,.0f} hours apart")
    return said


def world_sizes(placed: Sequence[Placed]) -> dict[int, list[int]]:
    """For each stated number of ranks the ranks that state it."""
    sizes: dict[int, list[int]] = {}
    for one in placed:
        stated = one.seen.identity.world_size
        stated = one.source.world_size if stated is None else stated
        if stated is not None:
            sizes.setdefault(stated, []).append(one.rank)
    return sizes


def ranks_named(numbers: Sequence[int]) -> str:
    """``rank 0`` or ``ranks 0, 2 to 7``."""
    return f"rank{'s' * (len(numbers) > 1)} {listed(numbers)}"


def listed(numbers: Sequence[int]) -> str:
    """Numbers in a sentence, neighbours as a range: ``0, 2 to 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    shown = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    return ", ".join(shown[:8]) + (" ..." if len(shown) > 8 else "")
