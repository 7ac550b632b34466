"""A practice device on a clock that the test moves, so that nothing depends on when a thread woke up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from stepprof_lab import devices, practice
from stepprof_lab.devices import Device
from stepprof_lab.practice import Engine


class ManualClock:
    """Time stands still. The test's own waits move it on, `late_ms` too far; workers wait until it has come so far."""

    def __init__(self) -> None:
        self.late_ms: Callable[[], float] = lambda: 0.0
        self._ns = 0
        self._moved = threading.Condition()
        self._owner = threading.current_thread()

    def now_ns(self) -> int:
        return self._ns

    def advance(self, ms: float) -> None:
        self._to(self._ns + round(ms * 1e6))

    def wait_until(self, ns: int, stop: threading.Event) -> None:
        if threading.current_thread() is self._owner:
            self._to(ns + round(self.late_ms() * 1e6))
            return
        with self._moved:
            while self._ns < ns and not stop.is_set():
                self._moved.wait(0.02)

    def _to(self, ns: int) -> None:
        with self._moved:
            self._ns = max(self._ns, ns)
            self._moved.notify_all()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(clock: ManualClock) -> Iterator[Engine]:
    made = Engine(clock)
    yield made
    made.close()


@pytest.fixture
def device(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device that a lab chooses, on the test's clock."""
    monkeypatch.setattr(practice, "engine", lambda: engine)
    return devices.choose("practice")
