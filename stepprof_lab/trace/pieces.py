"""The text of a trace in pieces, as it comes off the disk, so that a few megabytes of it are in memory at a time.

Decoded at once, a trace takes several times the file's size in small objects, most of which are looked at once. A cut
is only a guess at where an event ends. It need not be right: pieces that are each a valid list of objects make, put
together again, exactly the list that was cut, and a wrong cut leaves pieces that are no valid list. So whoever decodes
all pieces has the same events as whoever decodes the whole, and whoever cannot decodes the whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE = 1_000_000
"""Bytes of a piece: its text and its events stay in the processor's cache, and the cost a piece does not show."""
END = 60_000
"""Bytes at the end of the text that are never cut: what stands there is written otherwise (the names of threads)."""
FURTHEST = 8_000_000
"""Bytes without a place to cut, with which a trace is still read in pieces."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY = rb'\{\s*"(?:ph|name|cat|ts)"\s*:'
_BEGIN = re.compile(rb"\s*(?=" + _KEY + rb")")
_BETWEEN = re.compile(rb"\}(\s*,\s*)(?=" + _KEY + rb")")


class Uncut(Exception):
    """The text cannot be cut."""


class Piece(NamedTuple):
    """Some of a trace's text."""

    events: memoryview
    """A list of events, in its brackets. It is overwritten when the next piece is asked for."""
    head: bytes
    """What stands before the events of the trace, up to the bracket."""


class Rest(NamedTuple):
    """The end of a trace's text, which comes last."""

    text: bytes
    """The trace without the events of the pieces before."""


def cut(fill: Callable[[memoryview], int], size: int = PIECE, end: int = END) -> Iterator[Piece | Rest]:
    """Cut a trace's text into pieces.

    Args:
        fill: puts the next bytes of the text into a buffer and says how many these are; 0 at its end.
        size: of a piece, in bytes, at the most; more only where no place to cut is found.
        end: bytes at the end that stay together.

    Raises:
        Uncut: it holds no list of events that looks as usual.
    """
    buffer, used, whole = _filled(fill, bytearray(size + 2), 1)
    opened = _EVENTS.search(buffer, 1, used)
    first = _BEGIN.match(buffer, opened.end(), used) if opened is not None else None
    if opened is None or first is None:
        raise Uncut
    head, begin = bytes(buffer[1 : opened.end()]), first.end()
    while not (whole and used - begin <= end):
        between = _place(buffer, begin, used, end)
        if between is not None:
            # What lies around a piece is no longer needed: its brackets stand there.
            buffer[begin - 1] = ord("[")
            buffer[between.start(1)] = ord("]")
            yield Piece(memoryview(buffer)[begin - 1 : between.start(1) + 1], head)
            left = buffer[between.end(1) : used]
            buffer[1 : 1 + len(left)] = left
            used, begin = 1 + len(left), 1
        elif whole:
            break
        elif len(buffer) > FURTHEST:
            raise Uncut
        else:
            buffer = buffer + bytes(len(buffer))
        if not whole:
            buffer, used, whole = _filled(fill, buffer, used)
    yield Rest(head + bytes(buffer[begin:used]))


def _place(buffer: bytearray, begin: int, used: int, end: int) -> re.Match[bytes] | None:
    """A place to cut, if possible near the end of what is there."""
    back, place = end, None
    while place is None and back < 4 * (used - begin):
        place = _BETWEEN.search(buffer, max(begin, used - back), used)
        back *= 4
    return place


def _filled(fill: Callable[[memoryview], int], buffer: bytearray, used: int) -> tuple[bytearray, int, bool]:
    """Fill a buffer from a place on, but for its last byte; says up to where, and whether the text ends there."""
    with memoryview(buffer) as view:
        while used < len(buffer) - 1:
            got = fill(view[used:-1])
            if not got:
                return buffer, used, True
            used += got
    return buffer, used, False
