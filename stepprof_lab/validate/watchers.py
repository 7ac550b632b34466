"""What must not watch while steps are timed: profilers and recorders of labels change what is timed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from stepprof_lab import labels
from stepprof_lab.devices import import_torch
from stepprof_lab.errors import StepprofError


class ProfilersSeen:
    """Counts the profilers of torch that were started while somebody watched."""

    def __init__(self) -> None:
        self.started = 0

    def refuse(self, when: str) -> None:
        """Refuse what was timed under a profiler, whether it still runs or was closed again.

        Raises:
            StepprofError: a profiler was started, or watches now, or labels are recorded.
        """
        refuse_watchers(when)
        if self.started:
            raise _watched("a profiler was opened and closed", when)


@contextlib.contextmanager
def profilers_watched() -> Iterator[ProfilersSeen]:
    """Notice every start of torch's profiler, of whichever class; one inside a step ends before anybody looks."""
    seen = ProfilersSeen()
    torch = import_torch()
    module: Any = None if torch is None else torch.autograd.profiler
    original: Callable[..., Any] | None = getattr(module, "_enable_profiler", None)
    if original is None:
        yield seen
        return

    def enable(*given: Any, **more: Any) -> Any:
        seen.started += 1
        return original(*given, **more)

    module._enable_profiler = enable  # noqa: SLF001 - what all profilers of torch start with
    try:
        yield seen
    finally:
        module._enable_profiler = original  # noqa: SLF001


def refuse_watchers(when: str) -> None:
    """Refuse to time under a profiler or while labels are recorded: both change what is timed.

    Raises:
        StepprofError: one of them is active.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.autograd._profiler_enabled():  # noqa: SLF001 - no public way to ask
        raise _watched("a profiler is active", when)
    if labels._recorder is not None:  # noqa: SLF001 - the switch itself
        raise _watched("labels are recorded", when)


def _watched(what: str, when: str) -> StepprofError:
    return StepprofError(
        f"{what} ({when})",
        "a comparison outside the profiler",
        "end the profiler or the capture before validating, and open none inside build or a step",
    )
