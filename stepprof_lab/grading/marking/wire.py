"""What crosses the border: lines of JSON of these types, over two pipes, and nothing else.

The grader sends a `Script`, then for each `Asked` one `Try` a case and a `GoOn`; the sandbox sends the rest. What comes
out of the sandbox may be anything: a line is taken only if it is short enough and of the type that is due.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from typing import Any

import msgspec

from stepprof_lab.grading import plain
from stepprof_lab.grading.model import Evidence

LONGEST_LINE = 4_000_000
"""Bytes. What the labs' probes tell has less than a tenth of it."""

TICK_S = 0.05
"""So often it is looked at what the sandbox takes while it is waited for."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One cell to run."""

    id: str
    source: str
    item: str | None = None
    """The item whose check it is: then its answer is asked for, and not judged in there."""


class Script(msgspec.Struct, frozen=True, kw_only=True, tag="script", forbid_unknown_fields=True):
    """All cells, and for whom the material is drawn."""

    learner: str
    lines: list[Line]


class Try(msgspec.Struct, frozen=True, kw_only=True, tag="try", forbid_unknown_fields=True):
    """A case to run the answer on."""

    case: dict[str, Any]


class GoOn(msgspec.Struct, frozen=True, kw_only=True, tag="go on", forbid_unknown_fields=True):
    """All cases of this check were run."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready", forbid_unknown_fields=True):
    """The sandbox started, before any line of a learner's ran."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", forbid_unknown_fields=True):
    """A cell began: its place in the script."""

    cell: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", forbid_unknown_fields=True):
    """The cell that began last raised."""

    error: str


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked", forbid_unknown_fields=True):
    """The check of an item was reached, and holds the learner's answer."""

    item: str


class Told(msgspec.Struct, frozen=True, kw_only=True, tag="told", forbid_unknown_fields=True):
    """The evidence on one case."""

    evidence: Evidence


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished", forbid_unknown_fields=True):
    """The last cell ended."""


Message = Ready | Begun | Failed | Asked | Told | Finished

ORDERS = msgspec.json.Decoder(Script | Try | GoOn)
"""For the sandbox."""

_MESSAGES = msgspec.json.Decoder(Message, strict=True)


class Ended(Exception):
    """Nothing more comes: the pipes were closed."""


class Overdue(Exception):
    """It took too long."""


class Forged(Exception):
    """What came is no message that was due; the reason in words."""


class Wire:
    """The grader's end of the two pipes, with the learner's output beside them.

    Args:
        child: with pipes for its input, output and errors.
        output_bytes: so much of what the cells print is kept; the rest is read and dropped.
        look: called every `TICK_S` while it is waited for; raises where the sandbox takes too much.
    """

    def __init__(self, child: subprocess.Popen[bytes], output_bytes: int, look: Callable[[], None]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._in, self._out, self._err = child.stdin, child.stdout, child.stderr
        self._look = look
        self._room = output_bytes
        self._kept = bytearray()
        self._waiting = bytearray()
        self._closed = False
        self._looked = time.monotonic()
        self._ready = selectors.DefaultSelector()
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe.fileno(), False)
        self._ready.register(self._out, selectors.EVENT_READ)
        self._ready.register(self._err, selectors.EVENT_READ)

    @property
    def output(self) -> bytes:
        """What the cells printed, cut."""
        return bytes(self._kept)

    def close(self) -> None:
        """Let go of the pipes."""
        self._ready.close()

    def send(self, message: Script | Try | GoOn, until: float) -> None:
        """Send a line.

        Args:
            message: what to send.
            until: on the monotonic clock.

        Raises:
            Ended: nobody reads it any more.
            Overdue: nobody read it in time.
        """
        left = memoryview(msgspec.json.encode(message) + b"\n")
        self._ready.register(self._in, selectors.EVENT_WRITE)
        try:
            while left:
                self._wait(until)
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(self._in.fileno(), left) :]
        except BrokenPipeError as error:
            raise Ended from error
        finally:
            self._ready.unregister(self._in)

    def receive(self, until: float) -> Message:
        """The next message.

        Raises:
            Ended: there is none.
            Overdue: there was none in time.
            Forged: it is none.
        """
        while (end := self._waiting.find(b"\n")) < 0:
            if len(self._waiting) > LONGEST_LINE:
                raise Forged(f"a line of more than {LONGEST_LINE:,} bytes")
            if self._closed:
                raise Ended
            self._wait(until)
        line = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        return message_of(line)

    def drain(self, seconds: float) -> None:
        """Read what the cells printed last, until they close their output."""
        with contextlib.suppress(Overdue, Ended):
            until = time.monotonic() + seconds
            while self._ready.get_map():
                self._wait(until)

    def _wait(self, until: float) -> None:
        """Take what has come, for one tick at the most."""
        now = time.monotonic()
        if now >= until:
            raise Overdue
        if now - self._looked >= TICK_S:
            self._looked = now
            self._look()
        for key, _ in self._ready.select(min(TICK_S, until - now)):
            if key.fileobj is self._out:
                self._take(self._out.fileno())
            elif key.fileobj is self._err:
                self._keep(self._err.fileno())

    def _take(self, descriptor: int) -> None:
        if part := os.read(descriptor, 1 << 16):
            self._waiting += part
        else:
            self._closed = True
            self._ready.unregister(self._out)

    def _keep(self, descriptor: int) -> None:
        if part := os.read(descriptor, 1 << 16):
            self._kept += part[: max(0, self._room - len(self._kept))]
        else:
            self._ready.unregister(self._err)


def message_of(line: bytes) -> Message:
    """A line as a message.

    Raises:
        Forged: it is none, or its evidence is no plain data of a sensible size.
    """
    try:
        message = _MESSAGES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Forged(f"a line that is no message ({' '.join(str(error).split())[:100]})") from error
    if isinstance(message, Told):
        evidence = message.evidence
        _demand_plain([evidence.data, evidence.error, evidence.device], 0)
    return message


def _demand_plain(value: Any, depth: int) -> None:
    """Refuse what `plain.data` would never have let through."""
    if isinstance(value, list | dict):
        if depth > plain.DEEPEST + 4:  # a probe wraps what it took
            raise Forged("evidence that is nested too deep")
        if len(value) > plain.MOST_VALUES:
            raise Forged(f"evidence with {len(value):,} values in one place")
        for one in value.values() if isinstance(value, dict) else value:
            _demand_plain(one, depth + 1)
    elif isinstance(value, str):
        if len(value) > plain.LONGEST_TEXT:
            raise Forged(f"evidence with a text of {len(value):,} characters")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Forged("evidence with a number that is not finite")
    elif isinstance(value, int) and value.bit_length() > 64:
        raise Forged("evidence with a number beyond 64 bits")
