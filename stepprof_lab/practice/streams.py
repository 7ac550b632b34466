"""Streams and events of the practice device, with the names and the meaning that `torch.cuda` gives them."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.practice.operation import Operation
    from stepprof_lab.practice.simulator import Engine

IDLE_S = 5.0
"""A worker with nothing to do ends after this time; the next launch starts another one."""


class EventNotReady(StepprofError, RuntimeError):
    """The time of an event was asked for too early, or it was never recorded; `torch.cuda` has a RuntimeError too."""


class Stream:
    """A queue of operations that run one after the other; different streams do not wait for each other.

    Made by `Engine.new_stream`. Its functions run in a thread of their own.
    """

    def __init__(self, engine: Engine, number: int) -> None:
        self.number = number
        self._engine = engine
        self.ready_ns = 0
        """When the device can start what is launched next: the end of all before it."""
        self.last: list[Operation] = []
        """The operations that what is launched next comes after: the stream's last one, and those it waits for."""
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<stream {self.number} of the practice device>"

    def wait_stream(self, other: Stream) -> None:
        """What is launched here from now on starts after what `other` has been given so far."""
        with self._engine.lock:
            self.come_after(other.ready_ns, other.last)

    def wait_event(self, event: Event) -> None:
        """What is launched here from now on starts after the event; one that was never recorded changes nothing."""
        with self._engine.lock:
            if event.at_ns is not None:
                self.come_after(event.at_ns, event.after)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here, a new one where none is given."""
        event = event or Event(self._engine)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Wait until everything that was launched here is done; an error of an operation is raised here."""
        self._engine.wait_for("practiceStreamSynchronize", self.ready_ns, self.last)

    def query(self) -> bool:
        """Whether everything that was launched here is done; does not wait."""
        now = self._engine.clock.now_ns()
        return now >= self.ready_ns and all(one.is_done(now) for one in self.last)

    def come_after(self, ns: int, operations: Sequence[Operation]) -> None:
        """What is launched next starts at this time or later, and after these; with the engine's lock held."""
        now = self._engine.clock.now_ns()
        self.ready_ns = max(self.ready_ns, ns)
        self.last = [one for one in dict.fromkeys([*self.last, *operations]) if not one.is_done(now)]

    def put(self, operation: Operation) -> None:
        """Queue an operation; with the engine's lock held."""
        self._queue.put(operation)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name=f"practice stream {self.number}", daemon=True)
            self._worker.start()

    def close(self) -> None:
        """Let the worker end, and wait for it."""
        worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            self._queue.put(None)
            worker.join(1.0)

    def _work(self) -> None:
        """In the worker: take operations in order, and call each at its start."""
        clock, closing = self._engine.clock, self._engine.closing
        while (operation := self._next()) is not None:
            clock.wait_until(operation.start_ns, closing)
            operation.run(closing=closing.is_set())
            del operation  # its result is the caller's alone

    def _next(self) -> Operation | None:
        """The next operation; None where the worker is to end."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=IDLE_S)
            with self._engine.lock:
                if self._queue.empty():
                    self._worker = None
                    self._engine.note_idle(self)
                    return None


class Event:
    """A place in a stream whose time is read from the device's own timeline, not from when a thread woke up.

    Made by `Engine.event`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.at_ns: int | None = None
        """Its time; None before it is recorded."""
        self.after: Sequence[Operation] = ()
        """The operations that it comes after."""

    def record(self, stream: Stream | None = None) -> None:
        """Put it into a stream, the current one where none is given; an earlier record is forgotten."""
        stream = stream or self._engine.current_stream()
        with self._engine.lock:
            self.at_ns = max(self._engine.clock.now_ns(), stream.ready_ns)
            self.after = tuple(stream.last)

    def wait(self, stream: Stream | None = None) -> None:
        """What is launched on a stream (the current one where none is given) from now on starts after it."""
        (stream or self._engine.current_stream()).wait_event(self)

    def synchronize(self) -> None:
        """Wait until it is reached; returns at once where it was never recorded."""
        if self.at_ns is not None:
            self._engine.wait_for("practiceEventSynchronize", self.at_ns, self.after)

    def query(self) -> bool:
        """Whether it is reached; true where it was never recorded."""
        now = self._engine.clock.now_ns()
        return self.at_ns is None or (now >= self.at_ns and all(one.is_done(now) for one in self.after))

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`.

        Raises:
            EventNotReady: one of them was never recorded, or is not reached yet.
        """
        for event, which in ((self, "first"), (end, "second")):
            if event.at_ns is None or not event.query():
                state = "was never recorded" if event.at_ns is None else "is not reached yet"
                raise EventNotReady(
                    f"the time between two events of which the {which} {state}",
                    "two events that were recorded and reached",
                    "record both around the work, and wait for the second before its time is read",
                )
        assert self.at_ns is not None
        assert end.at_ns is not None
        return (end.at_ns - self.at_ns) / 1e6
