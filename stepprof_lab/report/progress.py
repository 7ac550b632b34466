"""How far long work is, on stderr: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from stepprof_lab.progress import silent
from stepprof_lab.report.text import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import TaskID

    from stepprof_lab.progress import Progress

SECONDS_BETWEEN_LINES = 2.0


@contextlib.contextmanager
def drawn(
    console: Console,
    *,
    plain: bool = False,
    quiet: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Progress]:
    """Yield what long work calls with its progress.

    Args:
        console: where to draw, on stderr.
        plain: lines instead of a bar that is redrawn.
        quiet: nothing at all.
        clock: seconds; tests give their own.
    """
    if quiet:
        yield silent
    elif plain or not console.is_terminal:
        yield _Lines(console, clock)
    else:
        with _bars(console) as progress:
            yield progress


class _Lines:
    """One line where a part begins, at most one every two seconds while it runs, one where it ends."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._what: str | None = None
        self._said_at = 0.0
        self._ended = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        begins = what != self._what
        ends = 0 < total <= done
        if not begins and (self._ended or not (ends or now - self._said_at >= SECONDS_BETWEEN_LINES)):
            return
        self._what, self._said_at, self._ended = what, now, ends
        far = f"{done} of {total}" if total > 0 else f"{done}"
        self._console.out(encodable(f"{what}: {far}", self._console.encoding), highlight=False)


@contextlib.contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    # Names of parts are data, not markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=console, transient=False) as bars:

        def progress(what: str, done: int, total: int) -> None:
            limit = total if total > 0 else None
            if what not in tasks:
                tasks[what] = bars.add_task(encodable(what, console.encoding), total=limit)
            bars.update(tasks[what], completed=done, total=limit)

        yield progress
