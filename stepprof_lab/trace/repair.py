"""Make valid JSON of a trace that is almost JSON, and count what was mended and what was set aside.

The exporter writes every event in the same layout, so the text can be cut where an event begins and each event be
looked at alone: one broken event costs one event, never the file. What is mended is known from real files: a cut
end, Windows paths, control characters, quotes inside names, ``N/A`` and ``NaN``, trailing commas.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

MAX_ENVELOPE = 2_000_000
"""Bytes around the events that are mended at the most; they hold the metadata, a few kilobytes in real files."""
MAX_LAST = 16_000_000
"""Bytes in which the end of the last event is looked for."""
HOLE = bytes(16)
"""No text has so many zero bytes: a block of the file was never written, or was lost."""
MAX_KEY = 1000
"""Bytes of the key with which an event begins, at the most."""
MAX_EVENT = 64_000
"""Bytes of one event that are mended at the most: a real one has a few hundred, with stacks some thousands."""
MAX_LOST = 1000
"""Events that may resist mending before it is no longer tried: such a file is broken in a way not known here."""
MAX_LOST_BYTES = 4_000_000
"""Their bytes, likewise."""

Accepts = Callable[[bytes], object]
"""Raises `msgspec.MsgspecError` (or `RecursionError`) where one event's text cannot be used."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'\s*\{\s*("(?:[^"\\]|\\.)*")\s*:')
_USUAL_FIRST_KEYS = (b"ph", b"name", b"cat", b"ts")
# A text that never ends matches to the end: to fail there and try again at the next quote would take quadratic time.
_STRING = rb'"[^"\\]*(?:\\.?[^"\\]*)*"?'
_STRING_OR_WORD = re.compile(_STRING + rb'|(-?\b(?:NaN|nan|Infinity|inf|N/A|None|undefined)(?![\w"]))', re.DOTALL)
_BAD_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_SURROGATE = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_OUTSIDE = re.compile(rb'["{}\[\]]')
_CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"]{0,60})"')
_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_AFTER_KEY = re.compile(rb"\s*:")
_AFTER_VALUE = re.compile(rb'\s*(?:,\s*"[^"]{0,200}"\s*:|\}\s*(?:[,}\]]|$))')
_AFTER_ITEM = re.compile(rb'\s*(?:,\s*["\[{\w-]|\]\s*(?:[,}\]]|$))')
"""What may follow the quote that ends a key, a value of an object and an item of a list."""
_TRAILING_COMMA = re.compile(_STRING + rb"|,(?=\s*[}\]])", re.DOTALL)
_CONTROLS_AS_SPACE = bytes(max(b, 32) for b in range(256))


class Salvage:
    """Valid JSON, and what it cost.

    Attributes:
        data: the trace as valid JSON that holds the usable events.
        whole: False where the text ended before the events did.
        cut_in: index of the event in which it ended, and the byte where that event begins.
        mended: for each kind of repair, in how many events.
        sufficed: the one repair that sufficed for the event mended last; None where it took several.
        aside: events that cannot be used.
        aside_bytes: how long they are together.
        first_aside: index of the first of them, and the byte where it begins.
        why_aside: what is wrong with the first of them.
        aside_of: how many of them are of each category; of none where their text is broken, so that others may be
            lost with them.
        mended_around: the kinds of repair that the metadata around the events needed.
        envelope_lost: True where the metadata around the events could not be read.
    """

    def __init__(self) -> None:
        self.data = b""
        self.whole = True
        self.cut_in: tuple[int, int] | None = None
        self.mended: Counter[str] = Counter()
        self.sufficed: str | None = None
        self.aside = 0
        self.aside_bytes = 0
        self.first_aside: tuple[int, int] = (-1, -1)
        self.why_aside = ""
        self.aside_of: Counter[str] = Counter()
        self.mended_around: list[str] = []
        self.envelope_lost = False

    def set_aside(self, index: int, byte: int, why: str, piece: bytes) -> None:
        """Count one event that cannot be used."""
        if self.aside == 0:
            self.first_aside = (index, byte)
            self.why_aside = why
        category = None if _problem(piece, msgspec.json.decode) else _CATEGORY.search(piece, 0, MAX_EVENT)
        self.aside_of[category[1].decode("utf-8", "replace") if category else ""] += 1
        self.aside += 1
        self.aside_bytes += len(piece)

    @property
    def hopeless(self) -> bool:
        """Whether so much resisted mending that it is no longer tried."""
        return self.aside >= MAX_LOST or self.aside_bytes >= MAX_LOST_BYTES


def from_parts(head: bytes, events: list[msgspec.Raw], tail: bytes, accepts: Accepts) -> Salvage:
    """Keep the events of a well-formed trace that can be used, mended where that helps."""
    salvage = Salvage()
    kept = []
    for index, raw in enumerate(events):
        event = _usable(bytes(raw), accepts, salvage, index, -1)
        if event is not None:
            kept.append(event)
    head, tail = _envelope(head, tail, salvage)
    salvage.data = head + b",".join(kept) + tail
    return salvage


def from_text(data: bytes, accepts: Accepts) -> Salvage | None:
    """Cut the text into events, mend each one that needs it, and put the rest together again.

    Returns:
        The salvage, or None where the text holds no list of events.
    """
    opened = _EVENTS.search(data)
    if opened is not None:
        start = opened.end()
    elif data[:MAX_EVENT].lstrip()[:1] == b"[":
        start = data.index(b"[") + 1
    else:
        return None
    salvage = Salvage()
    kept = []
    tail_at = start
    pieces = list(_pieces(data, start))
    if not pieces and not data[start : start + MAX_EVENT].lstrip().startswith(b"]"):
        return None
    for index, (begin, end) in enumerate(pieces):
        last = index + 1 == len(pieces)
        piece, tail_at = _cut_last(data, begin) if last else (data[begin:end].rstrip(b" \t\r\n,"), end)
        if piece is None:
            salvage.cut_in = (index, begin)
            salvage.whole = False
            continue
        event = _usable(piece, accepts, salvage, index, begin)
        if event is not None:
            kept.append(event)
    tail = data[tail_at:].lstrip()
    if tail.startswith(b","):
        tail = tail.lstrip(b" \t\r\n,")
        salvage.mended.update({"a comma after the last event": 0} if tail.startswith(b"]") else {})
    salvage.whole = salvage.whole and tail.startswith(b"]")
    head = data[: opened.end()] if opened is not None else b'{"traceEvents":['
    closing = tail if opened is not None and tail.startswith(b"]") else b"]}"
    envelope = _envelope(head, closing, salvage)
    salvage.data = envelope[0] + b",".join(kept) + envelope[1]
    return salvage


def _pieces(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where each event begins and ends: an object after ``[`` or ``,`` whose first key an event may have first."""
    first = _FIRST_KEY.match(data, start, start + MAX_KEY)
    if first is None:
        return
    keys = b"|".join({re.escape(first[1]), *(b'"%s"' % key for key in _USUAL_FIRST_KEYS)})
    begins = re.compile(rb"[\[,]\s*(?=\{\s*(?:" + keys + rb")\s*:)")
    begin = data.index(b"{", start)
    for found in begins.finditer(data, begin):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(data)


def _cut_last(data: bytes, begin: int) -> tuple[bytes | None, int]:
    """The last event and where the text after it begins; None where the text ends inside the event."""
    import json  # here, because few files need it

    text = data[begin : begin + MAX_LAST].decode("utf-8", "surrogateescape")
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return _cut_broken_last(data, begin)
    used = len(text[:end].encode("utf-8", "surrogateescape"))
    return data[begin : begin + used], begin + used


_END_OF_LAST = re.compile(rb'\}(?:\s*,)?\s*(?=\](?:\s*(?:\}\s*)?$|\s*,\s*"[^"]{0,1000}"\s*:))')


def _cut_broken_last(data: bytes, begin: int) -> tuple[bytes | None, int]:
    """The last event where it is broken itself: it ends before the ``]`` that closes the events."""
    found = _END_OF_LAST.search(data, begin)
    return (None, len(data)) if found is None else (data[begin : found.start() + 1], found.end())


def _usable(piece: bytes, accepts: Accepts, salvage: Salvage, index: int, begin: int) -> bytes | None:
    """One event as it is, or mended, or None where it was set aside."""
    problem = _problem(piece, accepts)
    if problem is None:
        return piece
    if HOLE in piece:
        problem = f"{piece.count(0)} zero bytes are in it, so a part of the file was lost, events with it"
    if HOLE in piece or len(piece) > MAX_EVENT or salvage.hopeless:
        salvage.set_aside(index, begin, problem, piece)
        return None
    mended, needed = _as_before(piece, accepts, salvage) or _mended(piece, accepts)
    if mended is None:
        salvage.set_aside(index, begin, problem, piece)
        return None
    salvage.mended.update(needed)
    salvage.sufficed = needed[0] if len(needed) == 1 else None
    return mended


def _as_before(piece: bytes, accepts: Accepts, salvage: Salvage) -> tuple[bytes, list[str]] | None:
    """The text mended as the event before it was: where one event is broken, all often are in the same way."""
    for name, mend in MENDS:
        if name == salvage.sufficed and (text := mend(piece)) != piece and _problem(text, accepts) is None:
            return text, [name]
    return None


def _mended(piece: bytes, accepts: Accepts) -> tuple[bytes | None, list[str]]:
    """The text with the fewest repairs that make it usable, and their names; None where they do not suffice."""
    tried: list[int] = []
    text = piece
    for number, (_, mend) in enumerate(MENDS):
        attempt = mend(text)
        if attempt != text:
            text = attempt
            tried.append(number)
            if _problem(text, accepts) is None:
                break
    else:
        return None, []
    for number in tried[:-1]:
        fewer = [other for other in tried if other != number]
        if _problem(_apply(piece, fewer), accepts) is None:
            tried = fewer
    return _apply(piece, tried), [MENDS[number][0] for number in tried]


def _apply(text: bytes, mends: list[int]) -> bytes:
    for number in mends:
        text = MENDS[number][1](text)
    return text


def _problem(event: bytes, accepts: Accepts) -> str | None:
    try:
        accepts(event)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _envelope(head: bytes, tail: bytes, salvage: Salvage) -> tuple[bytes, bytes]:
    """What stands around the events, mended where it has to be, or the least that makes JSON of them."""
    mark = b'{"ph":"the events"}'
    whole = head + mark + tail
    if len(whole) <= MAX_ENVELOPE:
        for name, mend in [("", bytes), *MENDS]:
            before, whole = whole, mend(whole)
            if before != whole:
                salvage.mended_around.append(name)
            if _problem(whole, msgspec.json.decode) is None and whole.count(mark) == 1:
                return tuple(whole.split(mark))  # type: ignore[return-value]
    salvage.envelope_lost = True
    return b'{"traceEvents":[', b"]}"


def _bad_utf8(text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode()


def _controls(text: bytes) -> bytes:
    # Between values a space means the same as a line break; inside a text it is the readable stand-in.
    return text.translate(_CONTROLS_AS_SPACE)


def _words(text: bytes) -> bytes:
    return _STRING_OR_WORD.sub(lambda found: b"null" if found[1] else found[0], text)


def _escapes(text: bytes) -> bytes:
    return _BAD_ESCAPE.sub(lambda found: found[0] if found[1] else rb"\\", text)


def _surrogates(text: bytes) -> bytes:
    return _SURROGATE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def _quotes(text: bytes) -> bytes:
    """Escape each quote inside a text that cannot be its end, by what follows it."""
    lone: list[int] = []
    inside = bytearray()
    at = 0
    while (found := _OUTSIDE.search(text, at)) is not None:
        at = found.end()
        if found[0] in b"{[":
            inside += found[0]
        elif found[0] in b"}]":
            del inside[-1:]
        elif inside.endswith(b"["):
            at = _end_of_text(text, at, _AFTER_ITEM, lone)
        elif text[max(at - 32, 0) : at - 1].rstrip().endswith(b":"):
            at = _end_of_text(text, at, _AFTER_VALUE, lone)
        else:
            at = _end_of_text(text, at, _AFTER_KEY, lone)
    cuts = [0, *lone, len(text)]
    return b"\\".join(text[begin:end] for begin, end in itertools.pairwise(cuts))


def _end_of_text(text: bytes, at: int, after: re.Pattern[bytes], lone: list[int]) -> int:
    """Where a text that begins at ``at`` ends; the quotes before its end are added to ``lone``."""
    for quote in _QUOTE.finditer(text, at):
        if quote[0] == b'"':
            if after.match(text, quote.end()):
                return quote.end()
            lone.append(quote.start())
    return len(text)


def _commas(text: bytes) -> bytes:
    return _TRAILING_COMMA.sub(lambda found: b"" if found[0] == b"," else found[0], text)


MENDS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("text that is not UTF-8", _bad_utf8),
    ("control characters in a text", _controls),
    ("halves of surrogate pairs in a text", _surrogates),
    ("backslashes that escape nothing", _escapes),
    ("words that are no JSON values (NaN, Infinity, N/A), read as missing", _words),
    ("trailing commas", _commas),
    ("unescaped quotes in a text", _quotes),
)
"""Tried in this order, each on top of the ones before it, until the text can be used."""
