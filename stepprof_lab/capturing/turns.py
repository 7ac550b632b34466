"""The steps of a window as an iterator, and how it notices that its loop was left."""

from __future__ import annotations

import gc
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from stepprof_lab.capturing.window import Window

T = TypeVar("T")


class Turns(Generic[T]):
    """The steps of a window as an iterator; a loop that is left early closes the window.

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
        self._between_steps = False

    def __iter__(self) -> Turns[T]:
        return self

    def __next__(self) -> T:
        window = self._window
        if not window.started:
            window.start()
        elif self._between_steps:
            window.step()
        self._between_steps = True
        if self._ends_with_window and window.closed:
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
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
        if _is_raising(sys._getframe(1)):  # noqa: SLF001 - the only way to the loop's own frame
            window.abandon()
            return
        try:
            window.close()
        except StepprofError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _is_raising(frame: types.FrameType) -> bool:
    """Whether an error is on its way through the loop that lets go of its iterator, and not a ``break``.

    Python does not tell a finalizer of an error in flight. But such an error has just put the frame, at the very
    instruction that it is at, into its traceback.
    """
    return any(
        isinstance(holder, types.TracebackType) and holder.tb_frame is frame and holder.tb_lasti == frame.f_lasti
        for holder in gc.get_referrers(frame)
    )
