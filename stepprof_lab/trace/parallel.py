"""Traces read at the same time, each share of them in a process of its own.

The processes are new interpreters that run this module alone: the program that asked is never imported again, so this
works from a script without a ``__main__`` guard, from a notebook, and on every system. What comes back is pickled by
our own code on the same machine.
"""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepprof_lab.trace.model import Context
    from stepprof_lab.trace.rank import Rank

    Source = tuple[Path, Context]

CHILD = "from stepprof_lab.trace import parallel; parallel.answer()"
"""What a child runs."""
PACKED = 10
"""How many times a packed trace grows: 10 to 40 in real ones."""
WORTH_A_PROCESS = 60_000_000
"""Bytes of JSON for which another interpreter is started: it takes a few tenths of a second, as reading these does."""


def measure(sources: Sequence[Source], picture: bool, processes: int | None = None) -> list[Rank]:
    """Measure the trace of each rank.

    Args:
        sources: each trace with what its record says.
        picture: whether the timelines are wanted.
        processes: how many are read at the same time, this process included; as many as it may use processors by
            default, and fewer where the traces are small.

    Returns:
        The ranks, in the order of the sources.

    Raises:
        StepprofError: a file cannot be read; the line names it. Of several, the first one.
    """
    sizes = [_size(path) for path, _ in sources]
    wanted = processes or min(_processors(), 1 + sum(sizes) // WORTH_A_PROCESS)
    at_once = max(1, min(len(sources), wanted)) if sys.executable else 1
    mine, *others = _shares(sizes, at_once)
    found: dict[int, Rank | StepprofError] = {}
    with concurrent.futures.ThreadPoolExecutor(max(len(others), 1)) as pool:
        waiting = [pool.submit(_in_child, [sources[i] for i in share], picture) for share in others]
        found.update(zip(mine, measured([sources[i] for i in mine], picture), strict=True))
        for share, answered in zip(others, waiting, strict=True):
            found.update(zip(share, answered.result(), strict=True))
    return [_or_raise(found[i]) for i in range(len(sources))]


def _or_raise(found: Rank | StepprofError) -> Rank:
    if isinstance(found, StepprofError):
        raise found
    return found


def _size(path: Path) -> int:
    """How much JSON a file holds, roughly; a file that cannot be looked at is refused when it is read."""
    try:
        return path.stat().st_size * (PACKED if path.suffix == ".gz" else 1)
    except (OSError, ValueError):
        return 0


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _shares(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The places of the sizes in so many shares, of about the same total each."""
    shares: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    for place in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        least = totals.index(min(totals))
        shares[least].append(place)
        totals[least] += sizes[place] + 1
    return shares


def measured(sources: Sequence[Source], picture: bool) -> list[Rank | StepprofError]:
    """The ranks of one share, one after the other; an error in place of what cannot be read."""
    return [_measured(path, context, picture) for path, context in sources]


def _measured(path: Path, context: Context, picture: bool) -> Rank | StepprofError:
    from stepprof_lab.trace import rank

    try:
        return rank.measure(path, context, picture=picture)
    except StepprofError as error:
        return error


def _in_child(sources: Sequence[Source], picture: bool) -> list[Rank | StepprofError]:
    """Measure a share in a new interpreter that imports from the same places as this one."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((list(sources), picture)),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )
    try:
        answered: list[Rank | StepprofError] = pickle.loads(done.stdout)  # noqa: S301 - written by `answer`, below
    except (pickle.UnpicklingError, EOFError):
        return [_died(path, done) for path, _ in sources]
    return answered


def _died(path: Path, done: subprocess.CompletedProcess[bytes]) -> StepprofError:
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    why = f"ended with {done.returncode}" + (f": {last[0]}" if last else "")
    return StepprofError(
        f"the process that reads trace {str(path)!r} {why}",
        "a process that ends with an answer",
        "read this trace alone; it may need more memory than there is",
    )


def answer() -> None:
    """The child's side: what is to be read comes in on stdin, the result goes out on stdout, pickled."""
    sources, picture = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by `_in_child`, above
    pickle.dump(measured(sources, picture), sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()
