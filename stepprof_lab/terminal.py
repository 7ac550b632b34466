"""The terminal, as the verbs of the command use it: what goes to stdout, what to stderr, and what stays out of both."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.console import Console


def results() -> Console:
    """The console for results."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> NoReturn:
            """The reader of a pipe went away (``| head``): told to `main`, where rich would end the program itself."""
            raise BrokenPipeError

    return Results(highlight=False, soft_wrap=False)


def progress_console() -> Console:
    """The console for progress and notices."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object on stdout and nothing else."""
    from stepprof_lab.report.json import to_json

    click.echo(to_json(value).rstrip("\n"))


def notice(text: str) -> None:
    """A line on stderr."""
    click.echo(text, err=True)


@contextlib.contextmanager
def users_code() -> Iterator[None]:
    """Run what a user wrote: what it prints goes to stderr, and a directory that it changed is changed back.

    Stdout holds results alone, also where the user's code, a library of theirs or a child process writes to the file
    descriptor itself.
    """
    here = Path.cwd()
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.chdir(here)


def absolute(path: Path | None) -> Path | None:
    """A path that stays the same where a user's code changes the directory."""
    return None if path is None else path.absolute()


def shown(path: Path) -> Path:
    """A path as a person would type it from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


class Terminated(KeyboardInterrupt):
    """SIGTERM: what a scheduler sends before it kills."""


@contextlib.contextmanager
def ended_by_signal() -> Iterator[None]:
    """Let SIGTERM end the work as Ctrl-C does, so that what was done can be kept; in this process alone.

    A loader's workers are copies of this process, and have to end without a word.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the next one ends it at once
        if os.getpid() != own:
            os.kill(os.getpid(), number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
