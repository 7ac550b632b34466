"""Pictures that a lab's notebook shows of its material: spans on one axis of time, and step times in order.

Both are values with the forms that a notebook asks for; in a terminal they print as lines of text.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from stepprof_lab.report import drawing
from stepprof_lab.report.drawing import KIND_LOOKS, element
from stepprof_lab.report.svg import timeline_svg
from stepprof_lab.trace.model import Lane, Timeline
from stepprof_lab.trace.model import Span as Drawn

_DRAWN_AS = {"launch": "runtime", "label on the GPU": "label"}
"""Kinds of a lab's spans that have another word in a timeline."""

COLUMNS = 72
"""Characters of a line of text over the whole axis."""


class Shown:
    """A picture as SVG, and as text."""

    def __init__(self, svg: str, text: str) -> None:
        self._svg = svg
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return f"<div style='max-width:75em;overflow-x:auto'>{self._svg}</div>"


def spans(found: Sequence[Mapping[str, Any]], *, ident: str = "spans") -> Shown:
    """Spans on one axis of time, a lane each thread and stream.

    Args:
        found: ``{"name", "kind", "lane", "start_ms", "end_ms"}`` each, as `stepprof_lab.grading.spans` makes them.
        ident: prefix of the ids in the picture, unique in a notebook.
    """
    begin = min(one["start_ms"] for one in found)
    end = max(one["end_ms"] for one in found)
    lanes = [_lane(title, [one for one in found if _lane_of(one) == title], begin) for title in _titles(found)]
    timeline = Timeline(1e3 * (end - begin), lanes, [], f"0 is {begin:.3f} ms of the spans' own clock.")
    return Shown(timeline_svg(timeline, ident=ident), "\n".join(_lines(found, begin, end)))


def _titles(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The step's lane first, then threads, then streams."""
    titles = dict.fromkeys(_lane_of(one) for one in found)
    return sorted(titles, key=lambda title: (title != "step", title.startswith("stream"), len(title), title))


def _lane_of(one: Mapping[str, Any]) -> str:
    return "step" if one["kind"] == "step" else str(one["lane"])


def _lane(title: str, found: Sequence[Mapping[str, Any]], begin: float) -> Lane:
    kind: Any = "steps" if title == "step" else "device" if title.startswith("stream") else "cpu"
    drawn = [
        Drawn(
            one["name"],
            1e3 * (one["start_ms"] - begin),
            1e3 * (one["end_ms"] - one["start_ms"]),
            depth,
            _DRAWN_AS.get(one["kind"], one["kind"]),
        )
        for one, depth in _nested(found)
    ]
    return Lane(title, kind, drawn)


def _nested(found: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Each span with the first row that is free where it starts: below what it lies in."""
    ends: list[float] = []
    placed = []
    for one in sorted(found, key=lambda span: (span["start_ms"], -span["end_ms"])):
        depth = next((row for row, end in enumerate(ends) if end <= one["start_ms"]), len(ends))
        ends[depth : depth + 1] = [one["end_ms"]]
        placed.append((one, depth))
    return placed


def _lines(found: Sequence[Mapping[str, Any]], begin: float, end: float) -> list[str]:
    """One line a span: where it lies, its lane, its kind and its name."""
    scale = COLUMNS / max(end - begin, 1e-9)
    lines = []
    for title in _titles(found):
        lines.append(title)
        for one, depth in _nested([span for span in found if _lane_of(span) == title]):
            left = int((one["start_ms"] - begin) * scale)
            width = max(1, round((one["end_ms"] - one["start_ms"]) * scale))
            bar = f"{' ' * left}{'=' * width}"[:COLUMNS]
            lines.append(f"  |{bar:<{COLUMNS}}| {'. ' * depth}{one['name']} ({one['kind']})")
    return lines


# ---- step times ----

WIDTH, HEIGHT = 900.0, 190.0
LEFT, TOP, BOTTOM = 70.0, 34.0, 150.0
PIECES = 8


def steps(series: Mapping[str, Sequence[float]], *, ident: str = "steps") -> Shown:
    """Series of step times, one below the other, each with a bar a step and an axis of its own that begins at zero.

    Args:
        series: name to the times of its steps, in ms.
        ident: prefix of the ids in the picture, unique in a notebook.
    """
    body = [part for row, (name, times) in enumerate(series.items()) for part in _series(name, times, row)]
    told = "; ".join(_told(name, times) for name, times in series.items())
    svg = drawing.picture(
        ident=ident, name="Step times", description=told, width=WIDTH, height=HEIGHT * max(1, len(series)), body=body
    )
    return Shown(svg, "\n".join(_told(name, times) for name, times in series.items()))


def _series(name: str, times_ms: Sequence[float], row: int) -> list[str]:
    plot = WIDTH - LEFT - 20
    end = 1.15 * drawing.longest_near(times_ms) or 1.0
    slot = plot / max(1, len(times_ms))

    def y(ms: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * min(ms / end, 1.0)

    parts = [drawing.text(LEFT, TOP - 16, f"{name}: ms a step", "head")]
    for tick in drawing.ticks(end, 4):
        parts.append(drawing.line(LEFT, y(tick), LEFT + plot, y(tick), "grid"))
        parts.append(drawing.text(LEFT - 8, y(tick) + 4, f"{tick:.10g}", "soft small", "end"))
    for number, ms in enumerate(times_ms):
        x, width = LEFT + number * slot, max(0.8 * slot, 0.6)
        bar = element("rect", x=x, y=y(ms), width=width, height=BOTTOM - y(ms), fill=KIND_LOOKS["operator"].ink)
        if ms > end:
            bar += drawing.text(x, TOP - 2, f"{ms:.3g}", "soft tiny")
        parts.append(element("g", drawing.title(f"step {number}: {ms:.4g} ms") + bar))
    parts += [
        drawing.text(LEFT + (number + 0.5) * slot, BOTTOM + 15, str(number), "soft small", "middle")
        for number in range(0, len(times_ms), 10)
    ]
    return [element("g", "".join(parts), transform=f"translate(0 {drawing.number(row * HEIGHT)})")]


def _told(name: str, times_ms: Sequence[float]) -> str:
    """The first steps, then the median of each eighth, then the slowest steps with their numbers."""
    length = max(1, len(times_ms) // PIECES)
    medians = [statistics.median(times_ms[at : at + length]) for at in range(0, len(times_ms), length)]
    slowest = sorted(sorted(range(len(times_ms)), key=lambda at: -times_ms[at])[:6])
    return (
        f"{name}: first {' '.join(f'{ms:.2f}' for ms in times_ms[:6])}; medians of {length} steps each "
        f"{' '.join(f'{ms:.2f}' for ms in medians)}; slowest steps, counted from 0: "
        f"{', '.join(f'{at} ({times_ms[at]:.1f})' for at in slowest)}"
    )
