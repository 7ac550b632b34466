"""Recorders of labels: what one label took while a block ran, and which labels there are."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from stepprof_lab import labels
from stepprof_lab.devices import Timer
from stepprof_lab.labels import ROLE_OF_USUAL_NAME, Role


class Spans:
    """A recorder for one label.

    A region inside a region of the same label is part of it and is not counted again. Device events are put around a
    region without a wait: they are read when the block is over. A region that reads is timed by the host's clock on a
    GPU too, for the device has no part in it.

    Args:
        clock: the host's clock in seconds.
        new_timer: makes a timer of the device's events; None: the host's clock decides.
    """

    def __init__(self, clock: Callable[[], float], new_timer: Callable[[], Timer] | None = None) -> None:
        self.nested = 0
        self._clock = clock
        self._new_timer = new_timer
        self._depth: dict[int, int] = {}
        self._spans: list[tuple[float, float]] = []
        self._timers: list[Timer] = []

    def enter(self, name: str, role: Role | None) -> tuple[float, Timer | None] | None:
        """A region begins."""
        thread = threading.get_ident()
        depth = self._depth[thread] = self._depth.get(thread, 0) + 1
        if depth > 1:
            self.nested += 1
            return None
        timer = None
        if self._new_timer is not None and (role or ROLE_OF_USUAL_NAME.get(name)) != "read":
            timer = self._new_timer()
            timer.start()
        return self._clock(), timer

    def exit(self, token: object) -> None:
        """The region of this token ends."""
        end = self._clock()
        self._depth[threading.get_ident()] -= 1
        if not isinstance(token, tuple):
            return
        begin, timer = token
        if timer is not None:
            timer.stop()
            self._timers.append(timer)
        self._spans.append((begin, end))

    @property
    def calls(self) -> int:
        """How many regions there were."""
        return len(self._spans)

    @property
    def by_events(self) -> bool:
        """Whether each region was timed by device events."""
        return bool(self._timers) and len(self._timers) == len(self._spans)

    def device_ms(self) -> float:
        """Sum of all regions by device events, in ms; asked after the wait at the end of the block."""
        return sum(timer.elapsed_ms() for timer in self._timers)

    def of_steps(self, stamps: Sequence[float]) -> list[float]:
        """What the label took in each step on the host's clock, in ms; 0 in a step that has none.

        Regions of several threads at one time count once. A region belongs to the step in which it begins.

        Args:
            stamps: the clock before the first step and after each, in seconds.
        """
        found = np.zeros(len(stamps) - 1)
        reached = -np.inf
        for begin, end in sorted(self._spans):
            step = min(max(0, int(np.searchsorted(stamps, begin, side="right")) - 1), len(found) - 1)
            found[step] += max(0.0, end - max(begin, reached)) * 1e3
            reached = max(reached, end)
        return [float(one) for one in found]

    def steps_with(self, stamps: Sequence[float]) -> int:
        """In how many steps a region begins."""
        return len({int(np.searchsorted(stamps, begin, side="right")) for begin, _ in self._spans})


class Names:
    """A recorder that only learns which labels there are."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def enter(self, name: str, _role: Role | None) -> None:
        """A region begins."""
        if name not in self.heard:
            self.heard.append(name)

    def exit(self, token: object) -> None:
        """A region ends."""


@contextlib.contextmanager
def listening(recorder: labels.Recorder, label: str | None) -> Iterator[None]:
    """Let a recorder hear one label (None: all) and no other for a while; nobody listens afterwards."""
    labels.set_recorder(recorder, only=label)
    try:
        yield
    finally:
        labels.set_recorder(None)
