"""Numbers that identify: addresses of networks and cards, UUIDs, dates, card numbers, and who ``user=`` says it was.

Names of code are full of numbers and colons, so each form is narrow. What it is joined to does not hide it: an
underscore, a letter or a scope before or after it (``run_192.168.1.7_step``, ``x192.168.1.7y``, ``aten::fe80::1``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HEX = "[0-9A-Fa-f]"
_BEGINS = "(?:(?<![A-Za-z0-9])|(?<=[A-Za-z])(?=[0-9]))"
"""Where a group of digits may begin: not within a word, but a digit may follow a letter."""
_ENDS = "(?:(?![A-Za-z0-9])|(?<=[0-9])(?=[A-Za-z]))"


class Form(NamedTuple):
    """One form: a pattern, and for some a test of what it matched."""

    noun: str
    """What stands instead, with a number."""
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = bool


def is_hex_address(text: str) -> bool:
    """Whether hexadecimal groups are an address: scopes of C++ have double colons alone, and no digits."""
    groups = [group for group in text.split(":") if group]
    return re.search("(?<!:):(?!:)", text) is not None and (len(groups) >= 5 or any(c.isdigit() for c in text))


def is_long_number(text: str) -> bool:
    """Whether digits are no size: powers of two are sizes at any length."""
    return int(text).bit_count() != 1


def is_card_number(text: str) -> bool:
    """Whether the check digit is right (Luhn, ISO/IEC 7812)."""
    digits = [int(c) for c in reversed(text) if c.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


_UUID = re.compile(rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}")
_DATE = re.compile(
    r"(?<![0-9])[12][0-9]{3}-[01][0-9]-[0-3][0-9](?:[T_ ][0-2][0-9](?::?[0-5][0-9]){1,2}(?:\.[0-9]{1,9})?)?(?![0-9])"
)
_CHAIN = re.compile(
    r"(?<![A-Za-z0-9.:-])(?:(?:[0-9A-Fa-f]{1,4}[.:-]){2,}[0-9A-Fa-f]{1,4}"
    r"|(?!c10)(?=[a-f]*[0-9])[0-9a-f]{3,4}(?:::?[0-9a-f]{1,4})+(?!\w))(?![A-Za-z0-9.:-])"
)
"""Three groups and more between dots, colons or dashes: addresses, dates, clock times, serial numbers."""

ALWAYS: tuple[Form, ...] = (
    Form("address", _UUID),
    Form("address", _DATE),
    Form("address", re.compile(r"(?<![0-9])[0-9]{1,4}(?:\.[0-9]{1,4}){3,}(?![0-9])")),
    Form("address", re.compile(rf"{_BEGINS}{_HEX}{{1,4}}(?:::?{_HEX}{{1,4}}){{2,}}{_ENDS}"), is_hex_address),
    Form("address", re.compile(rf"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,}}")),
    Form(  # How addresses that are in use begin (IANA): 2000::/3, fc00::/7, fe80::/10, ff00::/8.
        "address",
        re.compile(rf"(?<![A-Za-z0-9])(?:[23]{_HEX}{{3}}|[Ff][C-Fc-f]{_HEX}{{2}})::{_HEX}{{1,4}}{_ENDS}"),
        lambda text: any(c.isdigit() for c in text),
    ),
    Form("number", re.compile(r"(?<![0-9.])[0-9]{13,}(?![0-9])"), is_long_number),
    Form("number", re.compile(r"(?<![0-9])[2-6][0-9]{3}(?:[ _-][0-9]{4}){3}(?![0-9])"), is_card_number),
    Form(
        "name",
        re.compile(
            r"(?<![A-Za-z])(?:user(?:_?name)?|login|owner|author|account|host(?:_?name)?)[ ]?="
            r"[ ]?[\"']?(?P<said>[^\s\"',;()\[\]{}<>&|]+)",
            re.IGNORECASE,
        ),
    ),
)
"""What goes even where its owner keeps a name as it is."""
UNLESS_KEPT: tuple[Form, ...] = (Form("address", _CHAIN),)
"""What may be a version or an index as well."""


def found(text: str, forms: tuple[Form, ...]) -> Iterator[tuple[int, int, str]]:
    """Start, end and noun of each find, with the letters and digits that it is joined to; finds may overlap."""
    for form in forms:
        for match in form.pattern.finditer(text):
            start, end = match.span("said" if "said" in form.pattern.groupindex else 0)
            if form.holds(text[start:end]):
                yield _widened(text, start, end, form.noun)


def _widened(text: str, start: int, end: int, noun: str) -> tuple[int, int, str]:
    while start and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return start, end, noun
