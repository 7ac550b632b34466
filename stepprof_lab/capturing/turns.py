"""The steps of a window as an iterator, and how it notices that its loop was left.

Python tells an iterator nothing when its loop is left. Where the loop alone holds it, it ends there and then, and can
see whether an error is on its way. Where a name or a wrapper (tqdm, a generator) holds it as well, it ends when that
lets go of it, and nobody can tell any more how the loop was left: then nothing is kept. ``with capture(...) as window``
knows both.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepprof_lab.capturing.window import Window

T = TypeVar("T")


class Turns(Generic[T]):
    """The steps of a window as an iterator; a loop that is left early closes the window.

    Where something else than the loop holds it, the window stays open until that lets go of it, and what was recorded
    of a window that is not complete is not kept. A window that is used by ``with`` does not depend on this.

    Args:
        window: what is captured.
        items: what the loop gets for each step; reading it belongs to the step.
        ends_with_window: whether the loop ends when the capture is done, or goes on to the end of `items`.
    """

    def __init__(self, window: Window, items: Iterator[T], *, ends_with_window: bool) -> None:
        self._window = window
        self._items = items
        self._ends_with_window = ends_with_window
        # Where the window is a context manager, its own end decides: several loops may share it.
        self._owns = not window.in_with
        self.in_step = False
        """Whether a step of this loop has begun and not ended."""
        self._held = False
        self._loop: tuple[int, types.CodeType] | None = None

    def __iter__(self) -> Turns[T]:
        return self

    def __next__(self) -> T:
        window = self._window
        self._held = _references(self) > _REFERENCES_OF_A_LOOP
        self._loop = _identity(sys._getframe(1))  # noqa: SLF001 - the only way to the loop's own frame
        window.drive(self)
        if not window.started:
            window.start()
        elif self.in_step:
            window.advance()
        self.in_step = True
        if self._ends_with_window and window.closed:
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            self.in_step = False
            if self._owns:
                window.close()
            raise
        except BaseException:
            window.abandon()
            raise

    def __del__(self) -> None:
        window = self._window
        if not self._owns or window.closed or sys.is_finalizing() or os.getpid() != window.process:
            return
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to the loop's own frame
        raising = _is_raising(frame)
        # A generator that is let go of ends by an error of its own, however the loop over it was left.
        wrapped = raising and frame.f_code.co_flags & inspect.CO_GENERATOR
        if self._held or wrapped or _identity(frame) != self._loop:
            window.drop("something else than the loop held its iterator, so that nobody can tell how the loop was left")
        elif raising:
            window.abandon()
        else:
            self._close()

    def _close(self) -> None:
        try:
            self._window.close()
        except StepprofError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=3)


def _identity(frame: types.FrameType) -> tuple[int, types.CodeType]:
    """What tells a frame from others without keeping it, and all that it holds, alive."""
    return id(frame), frame.f_code


def _references(iterator: object) -> int:
    """How many references there are to an iterator, those of this call with them; where nobody counts, many."""
    count: Callable[[object], int] | None = getattr(sys, "getrefcount", None)
    return sys.maxsize if count is None else count(iterator)


class _Counting:
    """Counts the references to itself in the first turn of a loop."""

    def __iter__(self) -> _Counting:
        return self

    def __next__(self) -> int:
        return _references(self)


def _references_of_a_loop() -> int:
    for count in _Counting():
        return count
    raise AssertionError


_REFERENCES_OF_A_LOOP = _references_of_a_loop()
"""References to an iterator that a loop alone holds, in this version of Python."""


def _is_raising(frame: types.FrameType) -> bool:
    """Whether an error is on its way through the loop that lets go of its iterator, and not a ``break``.

    Python does not tell a finalizer of an error in flight. But such an error has just put the frame, at the very
    instruction that it is at, into its traceback.
    """
    return any(
        isinstance(holder, types.TracebackType) and holder.tb_frame is frame and holder.tb_lasti == frame.f_lasti
        for holder in gc.get_referrers(frame)
    )
