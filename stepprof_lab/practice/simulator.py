"""The practice device itself: launches return at once, the work is done elsewhere, and its times come from a model.

The timeline is computed when an operation is launched: it starts at the launch, or at the end of what it has to wait
for, and lasts as long as was said. So one late wake-up shifts nothing that comes after it, and events read a time that
no thread has touched. The functions run in a thread a stream; a wait of the host ends when the clock has passed the
modelled end and the functions have returned.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stepprof_lab.errors import StepprofError
from stepprof_lab.practice import log
from stepprof_lab.practice.clock import Clock, HostClock
from stepprof_lab.practice.operation import Operation, failed
from stepprof_lab.practice.streams import Event, Stream

LATENESS_KEPT = 4096


class Engine:
    """A practice device. Programs share the one of `engine`; tests make their own, on a clock that they move.

    Args:
        clock: what its times are read from and waited on.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or HostClock()
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.lateness_ns: collections.deque[int] = collections.deque(maxlen=LATENESS_KEPT)
        """How long after the modelled end each wait of the host returned; the newest last."""
        self._numbers = itertools.count(1)
        self._streams: list[Stream] = []
        self._default = Stream(self, 0)
        self._here = threading.local()
        self._open: list[Operation] = []
        self._tidy_at = 256
        self._failed: collections.deque[Operation] = collections.deque()
        self._called: set[str] = set()

    # ---- streams and events, as torch.cuda has them ----

    def new_stream(self) -> Stream:
        """A further stream; it waits for no other one unless it is told to."""
        return Stream(self, next(self._numbers))

    def current_stream(self) -> Stream:
        """Where this thread launches to."""
        stream: Stream = getattr(self._here, "stream", self._default)
        return stream

    @contextlib.contextmanager
    def stream(self, stream: Stream | None) -> Iterator[None]:
        """Launch to this stream inside the block; None changes nothing."""
        before = self.current_stream()
        self._here.stream = stream or before
        try:
            yield
        finally:
            self._here.stream = before

    def event(self) -> Event:
        """A new event, which carries a time."""
        return Event(self)

    # ---- work ----

    def launch(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        ms: float,
        name: str | None = None,
        first_ms: float = 0.0,
    ) -> Operation:
        """Queue an operation on the current stream and return at once.

        Args:
            function: what it computes; called in another thread, without autograd. It should take far less than `ms`.
            *arguments: its arguments; an operation stands for its result.
            ms: how long it lasts on the device's timeline.
            name: what it is called in a trace, and what kind of operation it is; by default the function's name.
            first_ms: how long the first operation of this name takes more, as loading a kernel would: an entry of its
                own on the timeline, called "NAME (first call)".

        Returns:
            The operation; `Operation.value` waits for its result.

        Raises:
            StepprofError: a duration is none, or the device was closed.
        """
        begun = self.clock.now_ns()
        kind = str(name or getattr(function, "__name__", "operation"))
        length, first = _ns(ms), _ns(first_ms)
        stream = self.current_stream()
        with self.lock:
            self._refuse_closed()
            queued = []
            if first and kind not in self._called:
                queued.append(self._put(stream, f"{kind} (first call)", _nothing, (), first, begun))
            self._called.add(kind)
            queued.append(self._put(stream, kind, function, arguments, length, begun))
        call = (begun, self.clock.now_ns())
        for made in queued:
            log.note_work(made.name, stream.number, call, (made.start_ns, made.end_ns))
        return made

    def occupy(self, ms: float, *, name: str = "busy", first_ms: float = 0.0) -> Operation:
        """Queue a small real operation that lasts this long; its result is the same each time."""
        return self.launch(_small, ms=ms, name=name, first_ms=first_ms)

    def pending(self) -> int:
        """How many operations are launched and not done."""
        with self.lock:
            return len(self._unfinished())

    def synchronize(self) -> None:
        """Wait until everything that was launched is done.

        Raises:
            OperationFailed: an operation raised. It is told once, at the first wait after its end, and the device goes
                on; a real device would refuse everything from then on.
        """
        with self.lock:
            waited = self._unfinished()
        end = max((one.end_ns for one in waited), default=0)
        self.wait_for("practiceDeviceSynchronize", end, waited)

    def wait_for(self, call: str, end_ns: int, operations: Sequence[Operation]) -> None:
        """Wait until a time of the timeline is reached and these operations have returned; raise what failed.

        Args:
            call: what the wait is called in a trace.
            end_ns: the time.
            operations: the operations.
        """
        operations = list(operations)
        begun = self.clock.now_ns()
        if begun < end_ns:
            self.clock.wait_until(end_ns, self.closing)
        for one in operations:
            one.returned.wait()
        ended = self.clock.now_ns()
        if begun < end_ns:
            self.lateness_ns.append(ended - end_ns)
        log.note_wait(call, begun, ended)
        self._raise_failed(ended)

    def note_failed(self, operation: Operation) -> None:
        """A worker tells that a function has raised."""
        if not self.closing.is_set():
            with self.lock:
                self._failed.append(operation)

    def note_idle(self, stream: Stream) -> None:
        """A stream's worker ends, with the lock held; nothing has to be closed."""
        self._streams.remove(stream)

    def close(self) -> None:
        """Drop what has not run and end all threads; launching is refused from now on."""
        with self.lock:
            self.closing.set()
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    # ---- how ----

    def _put(
        self,
        stream: Stream,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        length: int,
        launched: int,
    ) -> Operation:
        """Give an operation its place on the timeline, and to the stream's worker; with the lock held."""
        start = max(launched, stream.ready_ns)
        given = [one for one in arguments if isinstance(one, Operation)]
        if any(one.end_ns > start for one in given):
            function, arguments, given = _race, (), []
        after = [*given, *stream.last]
        made = Operation(self, name, (function, arguments), start, start + length, after)
        stream.ready_ns, stream.last = made.end_ns, [made]
        self._open.append(made)
        if len(self._open) >= self._tidy_at:
            self._tidy_at = 256 + 2 * len(self._unfinished())
        if stream not in self._streams:
            self._streams.append(stream)
        stream.put(made)
        return made

    def _unfinished(self) -> list[Operation]:
        now = self.clock.now_ns()
        self._open = [one for one in self._open if not one.is_done(now)]
        return list(self._open)

    def _raise_failed(self, now: int) -> None:
        """Raise the first error of what has ended by now; the others are mostly its consequences, and are dropped."""
        with self.lock:
            found = [one for one in self._failed if one.end_ns <= now]
            for one in found:
                self._failed.remove(one)
        if found:
            raise failed(found[0])

    def _refuse_closed(self) -> None:
        if self.closing.is_set():
            raise StepprofError(
                "a launch on a practice device that was closed", "a device that is open", "choose it again"
            )


def _ns(ms: float) -> int:
    if not 0 <= ms < math.inf:
        raise StepprofError(f"an operation of {ms!r} ms", "0 ms or more", "give its duration in milliseconds")
    return round(ms * 1e6)


def _nothing() -> None:
    """What a first call computes: nothing."""


def _race() -> None:
    raise RuntimeError(
        "it took the result of another stream's operation that had not ended: wait_stream or wait_event is missing"
    )


def _small() -> Any:
    """A small real operation; of plain Python where torch is not loaded."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None:
        return sum(n * n for n in range(64))
    ones = torch.ones(16, 16)
    return ones @ ones


_making = threading.Lock()
_engine: Engine | None = None


def engine() -> Engine:
    """The practice device of this process; made when it is first asked for."""
    global _engine  # noqa: PLW0603 - a process has one, as it has one of each GPU
    with _making:
        if _engine is None or _engine.closing.is_set():
            _engine = Engine()
        return _engine


def _close() -> None:
    if _engine is not None:
        _engine.close()


def _forget() -> None:
    """A forked child has none of the parent's threads: it gets a device of its own."""
    global _engine, _making
    _engine, _making = None, threading.Lock()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
