"""Which names in a trace tell nothing about who recorded it, and what stands in place of the others.

An allow-list, not a block-list: a name stays where it consists of words that stand in public names (`known_words.txt`:
operators, modules, libraries, this package's own sentences), short numbers, and codes of a few fixed forms (``bf16``,
``128x64``). Each other word is replaced by a numbered one, the same everywhere, so that different names stay
different and what is known of a name (``nccl``, ``gemm``, ``Optimizer.step``) can still be read. Text that looks like
a secret, a path or an address never gets as far as its words.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepprof_lab.privacy import secrets_in
from stepprof_lab.trace import addresses

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_DIGITS = 4
"""Digits of a number in a name that are no secret: tile sizes, counters. Longer ones may be process or phone numbers;
powers of two are sizes at any length."""
MOST_PIECES = 0.4
"""Pieces (letter and digit runs) for each character of a compound: chance changes more often."""
HALF = 4
"""Letters that each half of a compound (``warpgroup``) has at the least."""
SHORTEST_IDENTITY = 3
"""Characters that a machine's or a person's name has at the least to be looked for in other names."""
LONGEST = 4_000
"""Characters of a name that are looked at; what is longer is replaced as a whole."""

# A word ends at a space or at ASCII punctuation; anything else, of any script, belongs to it.
_WORD = re.compile(r"[^ !-/:-@\[-`{-~]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_RUN = re.compile(r"[^ ]+")
_UNUSUAL = re.compile(r"""[@\\%$?;^~"']|!(?!\()|//|(?<![\w\]>)])/(?=\w)""")
"""What names of code do not hold: the run between spaces is taken as one word. A leading / begins a path."""
_HOST = re.compile(r"(?<![\w.:<-])[A-Za-z][A-Za-z0-9-]*[0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+){2,}(?![\w(<:])")
"""``gpu-node-17.cluster.site``: a name with a number in it, and a domain."""
_MACHINE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?=[A-Za-z0-9.-]*[0-9])[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9.]+)+|[a-z]{2,}0[0-9]+)(?![A-Za-z0-9])"
)
"""``node-17``, ``gpu01``: what machines are called and names of code are not; models of devices are."""
_CODES = re.compile(
    r"[A-Za-z]"
    r"|[A-Za-z][0-9]{1,4}|[0-9]{1,3}[A-Za-z]"  # s1688, 5x
    r"|(?:(?:bf|tf|fp|[fsiu])(?:1|4|8|16|32|64)){1,4}|[ef][0-9]m[0-9](?:fnu?z?)?"  # f32f32, e4m3
    r"|[0-9]{1,4}(?:x[0-9]{1,4}){1,5}"  # 128x64
    r"|(?:[a-z]{1,3}[0-9]{1,4}(?:x[0-9]{1,4})+){1,2}"  # wt64x16x4
    r"|gfx[0-9a-f]{3,4}|sm[0-9]{2,3}[a-z]?|[0-9]{4}[A-Z]"
)
_FRAMED = re.compile(r"[0-9]?(?P<word>[A-Z][A-Z0-9]{2,}[A-Z])[0-9]{1,3}|[sdhi][0-9]{3,6}(?P<more>[a-z]{4,})")
"""``1LDSB0``, ``s1688gemm``: a word between numbers."""
_SIMPLE = re.compile(r"[0-9]{1,4}(?:[A-Z]{2,}|[a-z]{2,})|(?:[A-Z]{2,}|[A-Z]?[a-z]{2,})[0-9]{1,4}[A-Z]?[a-z]?")
"""A word with a number before or after it: ``16GB``, ``WG64``, ``MI300X``."""
_HEX = re.compile(r"(?=.*[0-9])[0-9a-f]{6,}|(?=.*[0-9])[0-9A-F]{6,}")
_TILES = re.compile(r"[0-9]+(?:x[0-9]+)+")
_NEGATIVE = re.compile(r"(?<=[A-Z]{2})n(?=[0-9]{1,2}$)")
"""``LWPMn1``: AMD's generated names write -1 so."""
_MANGLED = re.compile(r"_Z[NLTKS]?[A-Za-z0-9_]")
_LABEL_BEGINS = re.compile(
    r"ProfilerStep#|enumerate\(DataLoader\)#_(?:SingleProcess|MultiProcessing)DataLoaderIter\.__next__"
)
_CALL_BEGINS = re.compile(
    r"(?:cuda|cu|hip|ur|ze)(?:LaunchKernel|LaunchCooperative|GraphLaunch|KernelLaunch|Memcpy|Memset)"
    r"|hip|cuda|cu(?=[A-Z])"
)
"""What decides what a label or a call is, whatever else its name says: a step, a loader, a launch, whose device."""
_LENGTH = re.compile(r"[1-9][0-9]{0,2}")


@functools.lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """The words of public names, in lower case."""
    text = Path(__file__).with_name("known_words.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))


@functools.lru_cache(maxsize=100_000)
def is_known(word: str) -> bool:
    """Whether a word (no space, no punctuation in it) tells nothing about anybody."""
    if not word.isascii():
        return False
    if word.isdigit():
        return _is_small(word)
    if word.lower() in known_words() or _CODES.fullmatch(word):
        return True
    framed = _FRAMED.fullmatch(word)
    if framed is not None and (framed["word"] or framed["more"]).lower() in known_words():
        return True
    plain = _NEGATIVE.sub("", _TILES.sub("1", word))
    pieces = _PIECE.findall(plain)
    if not all(_is_small(p) if p.isdigit() else len(p) == 1 or _is_word(p.lower()) for p in pieces):
        return False
    if _SIMPLE.fullmatch(plain):
        return not _HEX.fullmatch(word)
    telling = sum(len(piece) for piece in pieces if piece.isalpha() and len(piece) > 2)
    return 2 * telling >= len(plain) and len(pieces) <= MOST_PIECES * len(plain) and not _HEX.fullmatch(word)


def _is_small(digits: str) -> bool:
    return len(digits) <= MOST_DIGITS or (len(digits) <= 12 and int(digits).bit_count() == 1)


def _is_word(letters: str) -> bool:
    """A word, or two of `HALF` letters and more written together."""
    words = known_words()
    return letters in words or any(
        letters[:at] in words and letters[at:] in words for at in range(HALF, len(letters) - HALF + 1)
    )


class Part(NamedTuple):
    """A stretch of a name that does not stay."""

    start: int
    end: int
    noun: str
    """What stands there instead, with a number: word, path, e-mail-address ..."""


@functools.lru_cache(maxsize=100_000)
def unjudged(name: str, *, model: bool = False) -> tuple[Part, ...]:
    """The stretches of a name that may tell something, in order; they do not overlap.

    Args:
        name: the name.
        model: whether it is that of a device's model, which may look like a machine's (``A100-SXM4-80GB``).
    """
    if len(name) > LONGEST:
        return (Part(0, len(name), "name"),)
    found = [Part(s.start, s.start + len(s.found), s.kind.replace(" ", "-")) for s in secrets_in(name)]
    # A secret ends where its form ends; what is joined to it belongs to it.
    found = [Part(_left(name, p.start), _right(name, p.end), p.noun) for p in found]
    unusual = [m for m in _RUN.finditer(name) if _UNUSUAL.search(m[0])]
    found += [Part(*m.span(), "path" if re.search(r"[/\\]", m[0]) else "word") for m in unusual]
    found += [Part(*part) for part in addresses.found(name, addresses.ALWAYS + addresses.UNLESS_KEPT)]
    for pattern in (_HOST,) if model else (_HOST, _MACHINE):
        found += [Part(*m.span(), "host") for m in pattern.finditer(name)]
    taken = _apart(found)
    kept = [
        Part(*m.span(), "word")
        for m in _WORD.finditer(name)
        if not is_known(m[0]) and not any(p.start < m.end() and m.start() < p.end for p in taken)
    ]
    return tuple(sorted(taken + kept))


_IN_PROSE = re.compile(r"""[\\]|\S@\S|//|(?<![\w\]>).])/(?=\w)""")
_FIGURE = re.compile(r"[+-]?[0-9]{1,12}")
_SYMBOLS = str.maketrans(dict.fromkeys("\u00b5\u2026\u00b7\u2192\u00d7\u2013", " "))
"""Micro sign, ellipsis, dot, arrow, times, dash."""


@functools.lru_cache(maxsize=10_000)
def giving_away(text: str) -> tuple[Part, ...]:
    """The stretches of a person's own sentence that are secrets, paths or addresses; its words are the person's."""
    found = [Part(s.start, s.start + len(s.found), s.kind.replace(" ", "-")) for s in secrets_in(text)]
    found = [Part(_left(text, p.start), _right(text, p.end), p.noun) for p in found]
    found += [Part(*m.span(), "path") for m in _RUN.finditer(text) if _IN_PROSE.search(m[0])]
    found += [Part(*part) for part in addresses.found(text, addresses.ALWAYS + addresses.UNLESS_KEPT)]
    found += [Part(*m.span(), "host") for m in _HOST.finditer(text)]
    return tuple(_apart(found))


@functools.lru_cache(maxsize=10_000)
def unjudged_in_sentence(text: str) -> tuple[Part, ...]:
    """As `unjudged`, for a sentence of this package: it has punctuation, figures of any size and a few symbols."""
    taken = list(giving_away(text))
    kept = [
        Part(*m.span(), "word")
        for m in _WORD.finditer(text.translate(_SYMBOLS))
        if not (is_known(m[0]) or _FIGURE.fullmatch(m[0]))
        and not any(p.start < m.end() and m.start() < p.end for p in taken)
    ]
    return tuple(sorted(taken + kept))


def _left(name: str, at: int) -> int:
    while at and name[at - 1] != " ":
        at -= 1
    return at


def _right(name: str, at: int) -> int:
    while at < len(name) and name[at] != " ":
        at += 1
    return at


def _apart(parts: list[Part]) -> list[Part]:
    """Overlapping stretches become one, which keeps the noun of the first."""
    apart: list[Part] = []
    for part in sorted(parts, key=lambda p: (p.start, -p.end)):
        if apart and part.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(part.end, apart[-1].end))
        elif part.end > part.start:
            apart.append(part)
    return apart


class Namer:
    """Replaces what cannot be judged, the same text by the same number everywhere in one copy.

    Args:
        kept: names that their owner has judged: they stay but for what looks like a secret or an address.
    """

    def __init__(self, kept: frozenset[str] = frozenset()) -> None:
        self.kept = kept
        self.identities: dict[str, re.Pattern[str]] = {}
        self.numbers: dict[str, dict[str, int]] = {}
        self.made: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        """Each name that was given out, and what it stands for."""

    def number(self, noun: str, text: str) -> str:
        """``noun-n``: the same n for the same text."""
        numbers = self.numbers.setdefault(noun, {})
        return f"{noun}-{numbers.setdefault(text, len(numbers) + 1)}"

    def is_public(self, text: str) -> bool:
        """Whether nothing in a text has to be replaced."""
        return text in self.kept or not (unjudged(text) or self._known_to_identify(text))

    def name(self, text: str, noun: str) -> str:
        """A name without what cannot be judged; different names stay different.

        Args:
            text: the name as the trace has it.
            noun: what a name is called of which nothing is known ("kernel", "label").
        """
        if text not in self.made:
            made = self._cleaned(text, noun)
            begins = (_CALL_BEGINS if noun == "call" else _LABEL_BEGINS).match(text)
            if begins is not None and not made.startswith(begins[0]):
                made = f"{begins[0]}{made}"
            while self.taken.setdefault(made, text) != text:
                made = f"{made} ({self.number('name', text)})"
            self.made[text] = made
        return self.made[text]

    def prose(self, text: str) -> str:
        """A person's own sentence without secrets, paths and addresses."""
        return self._without(text, _apart([*self._known_to_identify(text), *giving_away(text)]))

    def sentence(self, text: str) -> str:
        """A sentence of this package with the trace's names in it, without what cannot be judged."""
        for was in sorted(self.made, key=len, reverse=True):
            if was in text and self.made[was] != was and len(was) > 2:
                text = text.replace(was, self.made[was])
        return self._without(text, _apart([*self._known_to_identify(text), *unjudged_in_sentence(text)]))

    def identify(self, text: str) -> None:
        """Take note of a text that names a machine or a person: wherever it stands, it is replaced.

        A word that is public itself (a user called "python") cannot be told from the word.
        """
        if len(text) >= SHORTEST_IDENTITY and text.lower() not in known_words():
            self.identities[text] = re.compile(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])", re.IGNORECASE)

    def _known_to_identify(self, text: str) -> list[Part]:
        return [Part(*m.span(), "name") for pattern in self.identities.values() for m in pattern.finditer(text)]

    def _cleaned(self, text: str, noun: str) -> str:
        if text in self.kept:
            secret = [Part(s.start, s.start + len(s.found), "secret") for s in secrets_in(text)]
            numbers = [Part(*part) for part in addresses.found(text, addresses.ALWAYS)]
            return self._without(text, _apart([*self._known_to_identify(text), *secret, *numbers]))
        parts = (*self._known_to_identify(text), *unjudged(text, model=noun == "device"))
        if not parts:
            return text
        parts = tuple(_apart(list(parts)))
        if _MANGLED.match(text):
            return f"{'::'.join(_identifiers(text))} ({self.number(noun, text)})".lstrip()
        rest = self._without(text, parts, keep=False)
        if not any(len(word) > 1 and any(c.isalpha() for c in word) for word in _WORD.findall(rest)):
            return self.number(noun, text)
        return self._without(text, parts)

    def _without(self, text: str, parts: Iterable[Part], *, keep: bool = True) -> str:
        out, at = "", 0
        for part in parts:
            out += text[at : part.start] + (self.number(part.noun, text[part.start : part.end]) if keep else "")
            at = part.end
        return out + text[at:]


def _identifiers(mangled: str) -> list[str]:
    """The known identifiers in a mangled C++ name, each of which stands after its length."""
    found = []
    at = 2
    while (number := _LENGTH.search(mangled, at)) is not None:
        end = number.end() + int(number[0])
        text = mangled[number.end() : end]
        if len(text) == int(number[0]) and re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII):
            public = not text.startswith("EE") and all(is_known(word) for word in _WORD.findall(text))
            if public and text not in found:
                found.append(text)
            at = end
        else:
            at = number.end()
    return found


def hint(text: str) -> str:
    """Enough of a text to recognise it by: at most a quarter, and at most four characters."""
    return f"{text[: min(4, len(text) // 4)]}... ({len(text)} characters)"
