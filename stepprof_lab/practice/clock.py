"""The clock of the practice device: what time it is, and a wait for a time that takes no processor and no lock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading


class Clock(Protocol):
    """Monotonic nanoseconds. `HostClock` is the real one; a test may bring one that it moves itself."""

    def now_ns(self) -> int:
        """Now."""

    def wait_until(self, ns: int, stop: threading.Event) -> None:
        """Return at this time or a little later, never before it; at once where `stop` is set."""


class HostClock:
    """The host's monotonic clock, `time.perf_counter_ns`."""

    def now_ns(self) -> int:
        """Now."""
        return time.perf_counter_ns()

    def wait_until(self, ns: int, stop: threading.Event) -> None:
        """Sleep until this time. What burned the processor instead could not be told from overlap on two cores."""
        while (left := ns - time.perf_counter_ns()) > 0 and not stop.wait(left / 1e9):
            pass
