"""How values become words: durations, shares, the contract's words in plain English, and names that are only data.

Every renderer takes its words from here, so that the terminal, the page and the pictures say the same.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepprof_lab.trace.model import Origin, Regime
    from stepprof_lab.validate.model import Verdict

NOT_OBSERVED = "not observed"

REGIME_WORDS: Mapping[Regime, str] = {
    "input": "waits for input",
    "host": "bound by the host",
    "device": "GPU busy",
    "communication": "waits for communication",
    "undecided": "cannot be decided from this trace",
}

ORIGIN_WORDS: Mapping[Origin, str] = {
    "live": "live: captured from a program that has just run",
    "recorded": "recorded: a real trace of an earlier run",
    "constructed": "constructed: written by hand, not measured",
    "simulated": "simulated: the times of its device come from a model, none was measured on one",
    "unknown": "unknown: the trace does not say where it came from",
}

VERDICT_WORDS: Mapping[Verdict, str] = {
    "faster": "after takes less time than before",
    "slower": "after takes more time than before",
    "equivalent": "any difference is smaller than the margin",
    "no difference shown": "this run cannot tell; that is not the same as no difference",
    "not comparable": "the two arms cannot be compared, so no ratio is given",
}

VERDICT_MARKS: Mapping[Verdict, str] = {
    "faster": "▼",
    "slower": "▲",
    "equivalent": "=",
    "no difference shown": "?",
    "not comparable": "✕",
}

NOTHING_FOUND = (
    "Nothing was found. The findings that this version knows do not apply to this trace; "
    "that does not mean that the step is fast, or that nothing could be improved."
)

_JOINERS = "\u200c\u200d"
"""Invisible, but many scripts and emoji cannot be written without them."""


def visible(text: str) -> str:
    r"""Show a name as data: what steers a terminal, a page or the direction of text becomes a visible escape.

    Control characters, bidi controls, lone surrogates, line separators and code points that XML forbids are
    replaced by ``\x1b`` or ``\u202e``. What remains can stand in XML and be encoded as UTF-8.
    """
    if text.isascii() and text.isprintable():  # nearly all names, and much faster
        return text
    return "".join(_escape(c) if _steers(c) else c for c in text)


def _steers(char: str) -> bool:
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return False
    if (code & 0xFFFE) == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:  # noncharacters
        return True
    category = unicodedata.category(char)
    return category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and char not in _JOINERS)


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def prose(text: str) -> str:
    """A sentence on one line: runs of white space become one space, the rest is made visible."""
    return visible(" ".join(text.split()))


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters; what was cut is shown by three dots at the end."""
    return text if len(text) <= length else f"{text[: max(length - 3, 1)]}..."


def shortened(texts: Iterable[str], length: int) -> dict[str, str]:
    """Texts and what stands for each of them: different ones stay different.

    Those that would be cut to the same beginning lose their middle instead; where that does not tell them apart
    either, they are numbered.

    Args:
        texts: names.
        length: characters that each may have at the most; 16 or more.
    """
    distinct = list(dict.fromkeys(texts))
    made = {text: text for text in distinct if len(text) <= length}
    cuts = Counter(shorten(text, length) for text in distinct)
    taken = set(made)
    end = length // 2 - 2
    for text in distinct:
        if text not in made:
            cut = shorten(text, length)
            forms = itertools.chain(
                [cut] if cuts[cut] == 1 else [],
                [f"{text[: length - 3 - end]}...{text[-end:]}"],
                (f"{text[: length - 7 - len(str(n))]}... ({n})" for n in itertools.count(1)),
            )
            made[text] = next(form for form in forms if form not in taken)
            taken.add(made[text])
    return made


def counted(number: int, thing: str, things: str | None = None) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def fixed(value: float, decimals: int) -> str:
    """``value`` with so many decimals; more where it would otherwise read as zero without being zero."""
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.{decimals}f}"
    if value != 0 and float(text) == 0:
        digits = decimals + 1
        while digits < 15 and float(f"{value:.{digits}f}") == 0:
            digits += 1
        return f"{value:.{digits}f}"
    return text


class TimeUnit:
    """One unit for all durations that are read together, so that a column can be compared by eye."""

    def __init__(self, name: str, microseconds: float, decimals: int) -> None:
        self.name = name
        self.microseconds = microseconds
        self.decimals = decimals

    def number(self, us: float) -> str:
        """The bare number of this unit."""
        return fixed(us / self.microseconds, self.decimals)

    def text(self, us: float) -> str:
        """Number and unit."""
        return f"{self.number(us)} {self.name}"


MICROSECONDS = TimeUnit("µs", 1.0, 1)
MILLISECONDS = TimeUnit("ms", 1e3, 3)
SECONDS = TimeUnit("s", 1e6, 3)


def unit_for(durations_us: Iterable[float]) -> TimeUnit:
    """Milliseconds where the longest of these reaches one, microseconds otherwise; seconds from 100 s on."""
    longest = max((abs(us) for us in durations_us), default=0.0)
    if longest >= 100e6:
        return SECONDS
    return MILLISECONDS if longest >= 1e3 else MICROSECONDS


def duration(us: float) -> str:
    """One duration with its unit: ``12.345 ms``, ``87.2 µs``; never zero unless it is."""
    return unit_for([us]).text(us)


def rate(per_second: float) -> str:
    """Samples a second with four digits: ``47580 samples/s``, ``12.35 samples/s``."""
    return f"{rate_number(per_second)} samples/s"


def rate_number(per_second: float) -> str:
    """The bare number of a rate: four digits, never an exponent."""
    return fixed(per_second, 1) if abs(per_second) >= 100 else f"{per_second:.4g}"


def percent(share: float) -> str:
    """A share as a percentage with one decimal; a small one is never shown as zero."""
    return f"{fixed(100 * share, 1)} %"


def ratio(value: float) -> str:
    """A ratio of two times with three decimals."""
    return fixed(value, 3)


def regime(named: Regime, doubts: Iterable[str] = ()) -> str:
    """The regime in words; with the reason where the trace itself is in doubt."""
    why = "; ".join(doubts)
    return REGIME_WORDS[named] + (f": {prose(why)}" if why else "")


def explains(share: float | None, seen: object = None) -> str:
    """How much of the step a finding could explain at the most; else how much of the record it was seen in."""
    if share is None:
        took = f"seen in {percent(seen)} of what was recorded; " if isinstance(seen, float) else ""
        return f"{took}how much of the step it could explain cannot be said from this trace"
    return f"could explain at most {percent(share)} of the step"


def value(anything: Any, missing: str = NOT_OBSERVED) -> str:
    """A value of a free-form part of a result (evidence, environment, noise) in words; None reads as ``missing``."""
    if anything is None:
        return missing
    if isinstance(anything, bool):
        return "yes" if anything else "no"
    if isinstance(anything, float):
        return _number(anything)
    if isinstance(anything, (list, tuple)):
        return ", ".join(value(item, missing) for item in anything) if anything else "none"
    return prose(str(anything))


def _number(number: float) -> str:
    """Six digits, or three decimals of a large number: never an exponent for what a person compares."""
    return f"{number:.3f}".rstrip("0").rstrip(".") if abs(number) >= 1000 else f"{number:.6g}"


def flat(mapping: Mapping[str, Any], prefix: str = "", missing: str = NOT_OBSERVED) -> list[tuple[str, str]]:
    """Nested mappings as rows of name and value: ``{"a": {"b": 1}}`` gives ``("a.b", "1")``."""
    rows: list[tuple[str, str]] = []
    for key, item in mapping.items():
        name = f"{prefix}{visible(str(key))}"
        if isinstance(item, dict) and item:
            rows += flat(item, f"{name}.", missing)
        elif isinstance(item, (list, tuple)) and any(isinstance(part, dict) for part in item):
            for number, part in enumerate(item, 1):
                rows += flat(part if isinstance(part, dict) else {"value": part}, f"{name}.{number}.", missing)
        else:
            rows.append((name, "none" if isinstance(item, dict) else value(item, missing)))
    return rows
