"""What the pictures share: well-formed SVG from plain values, one palette, axes with round numbers.

The pictures are plain SVG text without scripts, fonts or links. Colours come from the Okabe-Ito set, which people
with the usual colour deficiencies can tell apart; each one comes with a pattern, so that colour is never the only
sign. The same fills carry dark text on light and on dark ground.
"""

from __future__ import annotations

import math
import statistics
import unicodedata
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from stepprof_lab.report import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Look(NamedTuple):
    """A fill and the pattern on it."""

    fill: str
    ink: str
    pattern: str


KIND_LOOKS = {
    "step": Look("#c3ccd6", "#7d8a99", "plain"),
    "operator": Look("#86c5ee", "#2b7cb3", "plain"),
    "runtime": Look("#f2b84b", "#9a6700", "rising"),
    "kernel": Look("#5cc3a4", "#0b6b52", "plain"),
    "copy": Look("#f0905a", "#8f3d0c", "falling"),
    "memset": Look("#d9a3c6", "#84376a", "dots"),
    "simulated": Look("#a9dccb", "#0b6b52", "level"),
    "collective": Look("#c9b8e8", "#5b3d8f", "upright"),
    "other": Look("#d5d5cd", "#77776e", "level"),
}
"""How each kind of span looks; a kind that is not listed looks like ``other``."""

LABEL_LOOKS = (
    Look("#f2b84b", "#9a6700", "falling"),
    Look("#86c5ee", "#2b7cb3", "level"),
    Look("#5cc3a4", "#0b6b52", "plain"),
    Look("#d9a3c6", "#84376a", "dots"),
    Look("#eee27a", "#8a7d00", "upright"),
    Look("#f0905a", "#8f3d0c", "rising"),
)
"""How labels look, in the order in which they first appear; from the seventh on the looks repeat."""

_INK_OF_PATTERN = {
    "rising": "M-1 1l2 -2M0 8l8 -8M7 9l2 -2",
    "falling": "M-1 7l2 2M0 0l8 8M7 -1l2 2",
    "level": "M0 4h8",
    "upright": "M4 0v8",
    "dots": "M2 2h1.6M6 6h1.6",
}

STYLE = """
.sp{--ground:#fff;--text:#1f2933;--soft:#52606d;--line:#d9dfe6;--strong:#323f4b;--accent:#b42318;
  --band:#e6ebf0;--before:#2b7cb3;--after:#b3500f;
  font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;background:var(--ground)}
.sp text{fill:var(--text)}
.sp .soft{fill:var(--soft)}
.sp .small{font-size:11px}
.sp .tiny{font-size:10.5px}
.sp .on{fill:#14202b;stroke:#fff;stroke-opacity:.55;stroke-width:2.5;paint-order:stroke}
.sp .head{font-weight:600}
.sp .grid{stroke:var(--line);fill:none}
.sp .axis{stroke:var(--strong);fill:none}
.sp .edge{stroke:var(--strong);stroke-dasharray:3 3;fill:none}
.sp .lane{fill:var(--band);opacity:.45}
.sp .mark{stroke:var(--accent);stroke-width:2;fill:none}
.sp .found{fill:var(--accent)}
.sp .finding{fill:var(--accent)}
.sp .launch{stroke:var(--soft);stroke-width:.8;fill:none;opacity:.55}
.sp .tip{fill:var(--soft)}
.sp .band{fill:var(--band)}
.sp .before{stroke:var(--before);fill:var(--before)}
.sp .after{stroke:var(--after);fill:var(--after)}
.sp .hollow{fill:none}
.sp .thick{stroke-width:2.5}
.sp .dashed{stroke-dasharray:5 4;fill:none}
@media (prefers-color-scheme:dark){.sp{--ground:#161b22;--text:#e6edf3;--soft:#a3afbb;--line:#30373f;
  --strong:#aab4bf;--accent:#ff8f7d;--band:#222a33;--before:#7cc0f2;--after:#f5a15f}}
@media print{.sp{--ground:#fff;--text:#000;--soft:#333;--line:#ccc;--strong:#000;--accent:#b42318;
  --band:#eee;--before:#0b5d94;--after:#9c4200}}
"""
"""One sheet for every picture; in a page each picture brings the same one."""


def element(name: str, content: str | None = None, /, **attributes: str | float) -> str:
    """One element. ``content`` is markup already; attribute values are escaped here.

    Attribute names are written with ``_`` for ``-``, and ``class_`` for ``class``.
    """
    parts = [name]
    for key, value in attributes.items():
        text = value if isinstance(value, str) else number(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{safe(text)}"')
    opened = " ".join(parts)
    return f"<{opened}/>" if content is None else f"<{opened}>{content}</{name}>"


def safe(text: str) -> str:
    """Text that stays text in SVG and in HTML, whatever it holds."""
    return escape(words.visible(text), quote=True)


def number(value: float) -> str:
    """A coordinate, short: pictures do not need more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def title(text: str) -> str:
    """What a pointer or a screen reader is told about an element."""
    return element("title", safe(text))


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    """One line of text at a place."""
    attributes: dict[str, str | float] = {"x": x, "y": y}
    if class_:
        attributes["class_"] = class_
    if anchor != "start":
        attributes["text_anchor"] = anchor
    return element("text", safe(content), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("path", d=f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", class_=class_)


def picture(*, ident: str, name: str, description: str, width: float, height: float, body: Iterable[str]) -> str:
    """A whole SVG with its name and description for people who do not see it.

    Args:
        ident: prefix of every id in the picture, different for each picture of a page.
        name: short name of the picture.
        description: what it shows, in words.
        width: width in pixels; it scales where it is shown narrower.
        height: height in pixels.
        body: elements, drawn in order.
    """
    inside = [
        element("title", safe(name), id=f"{ident}-title"),
        element("desc", safe(description), id=f"{ident}-desc"),
        element("style", STYLE),
        *body,
    ]
    return element(
        "svg",
        "\n".join(inside),
        xmlns="http://www.w3.org/2000/svg",
        class_="sp",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
    )


def patterns(ident: str, looks: Iterable[Look]) -> str:
    """Definitions of the fills that have a pattern; see `fill`."""
    drawn = {}
    for look in looks:
        if look.pattern != "plain":
            ground = element("rect", width=8, height=8, fill=look.fill)
            ink = element("path", d=_INK_OF_PATTERN[look.pattern], stroke=look.ink, stroke_width=1.1, opacity=0.55)
            key = _pattern_id(ident, look)
            drawn[key] = element("pattern", ground + ink, id=key, width=8, height=8, patternUnits="userSpaceOnUse")
    return element("defs", "".join(drawn.values()))


def fill(ident: str, look: Look) -> str:
    """What to write as ``fill`` for a look."""
    return look.fill if look.pattern == "plain" else f"url(#{_pattern_id(ident, look)})"


def _pattern_id(ident: str, look: Look) -> str:
    return f"{ident}-{look.pattern}-{look.fill[1:]}"


FAR = 4.0
"""A value more than this many medians away ends the axis early: one slow first step would flatten all others."""


def longest_near(values: Sequence[float]) -> float:
    """Where an axis from 0 ends: the longest value, or the longest near one where only a few are far.

    Where many are far, they are what is to be seen. What lies beyond has to be marked and said in words.
    """
    longest = max(values, default=0.0)
    limit = FAR * statistics.median(values) if values else 0.0
    near = [value for value in values if value <= limit]
    if 0 < limit < longest and len(values) - len(near) <= max(1, len(values) // 20):
        return max(near)
    return longest


def ticks(top: float, about: int) -> list[float]:
    """Round numbers from 0 up to ``top``: steps of 1, 2 or 5 times a power of ten, about so many of them."""
    if not top > 0 or not math.isfinite(top):
        return [0.0]
    return spaced(0.0, top, about)


def spaced(low: float, high: float, about: int) -> list[float]:
    """Round numbers between two values."""
    raw = (high - low) / max(about, 1)
    if not raw > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.8 * raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # A multiple of the step, not a running sum: 0.1 + 0.2 must not be drawn as 0.30000000000000004.
    decimals = max(0, -math.floor(math.log10(step)))
    return [round(n * step, decimals) for n in range(first, last + 1)]


def text_width(content: str, size: float = 10.5) -> float:
    """About how wide a text is drawn in pixels: wide scripts take a whole square a character, others about half."""
    wide = sum(1 for char in content if unicodedata.east_asian_width(char) in "WF")
    return size * (0.56 * (len(content) - wide) + wide)


def fitted(content: str, room: float, size: float = 10.5) -> str:
    """As much of a text as fits into ``room`` pixels, with three dots where it was cut; nothing if hardly any fits."""
    # A name of a million characters is cut before it is measured.
    content = words.shorten(words.visible(words.shorten(content, 400)), 400)
    if text_width(content, size) <= room:
        return content
    kept = content
    while kept and text_width(kept + "...", size) > room:
        kept = kept[:-1]
    return f"{kept}..." if len(kept) >= 3 else ""


def legend(
    ident: str, entries: Sequence[tuple[str, Look]], x: float, y: float, width: float
) -> tuple[list[str], float]:
    """Swatches with their names in rows, and the y below the last row."""
    body: list[str] = []
    left = x
    for full_name, look in entries:
        name = words.shorten(words.visible(full_name), 40)
        room = 14 + 6 + text_width(name, 12) + 18
        if left + room > x + width and left > x:
            left, y = x, y + 20
        body.append(element("rect", x=left, y=y - 10, width=14, height=12, rx=2, fill=fill(ident, look)))
        body.append(text(left + 20, y, name))
        left += room
    return body, y + 20 if entries else y
