"""Where the text of a trace can be cut, so that its events are decoded a few megabytes at a time.

Decoded at once, a trace takes several times the file's size in small objects, most of which are looked at once. A cut
is only a guess at where an event ends. It need not be right: pieces that are each a valid list of objects make, put
together again, exactly the list that was cut, and a wrong cut leaves pieces that are no valid list. So whoever decodes
all pieces has the same events as whoever decodes the whole, and whoever cannot decodes the whole.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PIECE = 2_000_000
"""Bytes of a piece, at the least: its events stay in the processor's cache, and the cost a piece does not show."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY = rb'\{\s*"(?:ph|name|cat|ts)"\s*:'
_BEGIN = re.compile(rb"\s*(?=" + _KEY + rb")")
_BETWEEN = re.compile(rb"\}(\s*,\s*)(?=" + _KEY + rb")")


class Cut(NamedTuple):
    """Places in the text of a trace; bytes from its beginning."""

    opened: int
    """Just behind the bracket that opens the list of events."""
    pieces: list[tuple[int, int]]
    """From the first event of each piece to the end of its last one; without what follows the last piece."""
    rest: int
    """Where the last piece begins, which ends with the text."""


def cut(data: bytes, size: int = PIECE) -> Cut | None:
    """Where to cut; None where the text is short, or holds no list of events that looks as usual.

    Args:
        data: the text of a trace: an object with ``traceEvents``.
        size: of a piece, in bytes.
    """
    if len(data) <= 2 * size:
        return None
    opened = _EVENTS.search(data)
    first = _BEGIN.match(data, opened.end()) if opened is not None else None
    if opened is None or first is None:
        return None
    pieces = []
    begin = first.end()
    while (found := _BETWEEN.search(data, begin + size)) is not None:
        pieces.append((begin, found.start(1)))
        begin = found.end(1)
    return Cut(opened.end(), pieces, begin)
