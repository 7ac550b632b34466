"""The picture of a window: steps, labels, CPU threads and device streams on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stepprof_lab.report import drawing, words
from stepprof_lab.report.drawing import KIND_LOOKS, LABEL_LOOKS, Look, element

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepprof_lab.trace.model import Arrow, Finding, Lane, Span, Timeline

WIDTH = 1200.0
GUTTER = 220.0
RIGHT = 30.0
PLOT = WIDTH - GUTTER - RIGHT
TOP = 46.0
LANE_GAP = 10.0
ROW_HEIGHT = {"steps": 22.0, "labels": 18.0, "cpu": 13.0, "device": 15.0, "practice": 15.0}
ROWS_DRAWN = 12
"""Deeper nesting is counted, not drawn: a picture of a hundred rows shows nothing."""
LANES_DRAWN = 24
THINNEST = 1.0
"""Pixels; shorter spans that touch are drawn as one."""
BARS_DRAWN = 5000
"""Where a window has more, what is shorter than two pixels, four, eight ... is drawn as one, until they are so few."""
TOLD = 400_000
"""Characters of the names of all bars together, at the most; a pointer is told longer names cut."""
LONGEST_TOLD = 500
ARROWS_DRAWN = 60
ARROWS_APART = 7.0
"""Pixels between the work of two arrows to one lane: more of them are a grey patch."""
OUTLINED_FROM = 5.0
"""Pixels; in narrower bars an outline would hide what it marks, and the rows of the findings show where they are."""
FINDINGS_DRAWN = 8
FINDING_ROW = 17.0


Named = Mapping[str, Sequence[str]]
"""For each name in the evidence of findings, the findings that name it."""


class Place(NamedTuple):
    """Where a lane is drawn."""

    lane: Lane
    top: float
    rows: int

    @property
    def row_height(self) -> float:
        """Pixels of one level of nesting."""
        return ROW_HEIGHT[self.lane.kind]

    @property
    def height(self) -> float:
        """Pixels of the whole lane; two lines where it has a note."""
        return max(self.rows * self.row_height, 30.0 if self.lane.note else 0.0)

    def y(self, depth: int) -> float:
        """Top of a row; what is deeper than the rows drawn has no place."""
        return self.top + min(depth, self.rows - 1) * self.row_height


class Bar(NamedTuple):
    """One drawn rectangle: a span, or several short ones that touch."""

    x: float
    width: float
    depth: int
    spans: Sequence[Span]

    @property
    def held(self) -> int:
        """How many spans lie here."""
        return sum(span.count for span in self.spans)


def timeline_svg(timeline: Timeline, findings: Sequence[Finding] = (), *, ident: str = "timeline") -> str:
    """Draw a window as SVG.

    Args:
        timeline: lanes with spans, times in microseconds from its beginning.
        findings: what their evidence names (labels, operators, steps) is outlined.
        ident: prefix of the ids, unique on a page.
    """
    duration = max(timeline.duration_us, 0.001)
    scale = PLOT / duration
    named = named_by(findings)
    marks = marks_of(timeline, findings, named)
    top = TOP + sum(FINDING_ROW for mark in marks if mark.spans) + (LANE_GAP if marks else 0)
    places = _places(timeline.lanes[:LANES_DRAWN], top)
    bottom = places[-1].top + places[-1].height if places else top + 30
    looks = label_looks(timeline)
    body = [_axis(duration, scale, bottom), *(_ground(place) for place in places), _edges(places, scale, bottom)]
    body += _finding_rows([mark for mark in marks if mark.spans], scale)
    drawn_bars, thinnest = _drawn_bars(places, scale)
    longest = min(LONGEST_TOLD, TOLD // max(len(drawn_bars), 1))
    body += [_draw_bar(bar, place, ident, looks, named, longest) for place, bar in drawn_bars]
    arrows = _arrows_apart(timeline.arrows, places, scale)
    body += [_draw_arrow(arrow, places, scale) for arrow in arrows]
    if not places:
        body.append(drawing.text(GUTTER, TOP + 20, "Nothing to draw: the trace has no spans in this window.", "soft"))
    entries = _entries(places, looks)
    drawn, y = drawing.legend(ident, entries, GUTTER, bottom + 28, PLOT)
    body += drawn
    for sentence in _sentences(timeline, drawn_bars, thinnest, named, marks, len(arrows)):
        body.append(drawing.text(GUTTER, y, drawing.fitted(sentence, PLOT, 11), "soft small"))
        y += 16
    body.insert(0, drawing.patterns(ident, [look for _, look in entries] + list(KIND_LOOKS.values())))
    return drawing.picture(
        ident=ident,
        name="Timeline of the window",
        description=_description(timeline),
        width=WIDTH,
        height=y + 4,
        body=body,
    )


def _places(lanes: Iterable[Lane], top: float) -> list[Place]:
    places: list[Place] = []
    for lane in lanes:
        depth = max((span.depth for span in lane.spans), default=0)
        place = Place(lane, top, min(depth + 1, ROWS_DRAWN))
        places.append(place)
        top += place.height + LANE_GAP
    return places


def _axis(duration: float, scale: float, bottom: float) -> str:
    unit = words.unit_for([duration])
    parts: list[str] = []
    for tick in drawing.ticks(duration / unit.microseconds, 10):
        x = GUTTER + tick * unit.microseconds * scale
        parts.append(drawing.line(x, TOP - 10, x, bottom, "grid"))
        parts.append(drawing.text(x, TOP - 16, f"{tick:.10g} {unit.name}", "soft small", "middle"))
    parts.append(drawing.line(GUTTER, TOP - 10, GUTTER + PLOT, TOP - 10, "axis"))
    return "".join(parts)


def _ground(place: Place) -> str:
    ground = element("rect", x=GUTTER, y=place.top, width=PLOT, height=place.height, class_="lane")
    name = drawing.fitted(place.lane.title, GUTTER - 14, 13.5)  # bold is wider
    label = drawing.text(GUTTER - 10, place.top + 13, name, "head", "end")
    note = place.lane.note
    if note:
        label += drawing.text(GUTTER - 10, place.top + 26, drawing.fitted(note, GUTTER - 14, 10.5), "soft tiny", "end")
    told = f"{place.lane.title}: {note}" if note else place.lane.title
    return element("g", drawing.title(told) + ground + label)


def _edges(places: Sequence[Place], scale: float, bottom: float) -> str:
    """Where steps begin and end, through all lanes."""
    at = {
        time
        for place in places
        if place.lane.kind == "steps" and len(place.lane.spans) <= 100
        for span in place.lane.spans
        for time in (span.start_us, span.start_us + span.duration_us)
    }
    return "".join(drawing.line(_x(t, scale), TOP - 10, _x(t, scale), bottom, "edge") for t in sorted(at))


def _x(time_us: float, scale: float) -> float:
    return GUTTER + min(max(time_us * scale, 0.0), PLOT)


def bars(spans: Iterable[Span], scale: float, thinnest: float = THINNEST) -> list[Bar]:
    """Spans as rectangles, in pixels from the left of the plot; short ones of a row that touch become one.

    The picture so has at most about two rectangles a pixel and row, however many spans there are.

    Args:
        spans: of one lane.
        scale: pixels a microsecond.
        thinnest: pixels; shorter spans are short.
    """
    made: list[Bar] = []
    open_at: dict[int, tuple[float, float, list[Span]]] = {}

    def close(depth: int) -> None:
        left, right, merged = open_at.pop(depth)
        made.append(Bar(left, max(right - left, THINNEST), depth, merged))

    for span in sorted(spans, key=lambda s: s.start_us):
        left = min(max(span.start_us * scale, 0.0), PLOT)
        right = min(max((span.start_us + span.duration_us) * scale, left), PLOT)
        depth = span.depth
        if depth in open_at and (right - left >= thinnest or left > open_at[depth][1] + thinnest / 2):
            close(depth)
        if right - left >= thinnest:
            made.append(Bar(left, right - left, depth, [span]))
        elif depth in open_at:
            first, last, merged = open_at[depth]
            merged.append(span)
            open_at[depth] = (first, max(last, right), merged)
        else:
            open_at[depth] = (left, right, [span])
    for depth in list(open_at):
        close(depth)
    return made


def _drawn_bars(places: Sequence[Place], scale: float) -> tuple[list[tuple[Place, Bar]], float]:
    """The bars of all lanes, at most about `BARS_DRAWN`, and from how many pixels on a span is drawn alone."""
    thinnest = THINNEST
    while True:
        drawn = [(place, bar) for place in places for bar in _bars_of(place, scale, thinnest)]
        if len(drawn) <= BARS_DRAWN or thinnest > PLOT:
            return drawn, thinnest
        thinnest *= 2


def _bars_of(place: Place, scale: float, thinnest: float) -> list[Bar]:
    return bars((span for span in place.lane.spans if span.depth < place.rows), scale, thinnest)


def _draw_bar(bar: Bar, place: Place, ident: str, looks: dict[str, Look], named: Named, longest: int) -> str:
    first = max(bar.spans, key=lambda span: span.duration_us)
    look = _look(first, looks)
    y = place.y(bar.depth)
    height = place.row_height - 1.5
    box: dict[str, str | float] = {
        "x": GUTTER + bar.x,
        "y": y,
        "width": bar.width,
        "height": height,
        "fill": drawing.fill(ident, look),
    }
    if bar.width >= 4:
        box["rx"] = 2
    if bar.held > 1:
        box["opacity"] = 0.75
    parts = [drawing.title(_told(bar, longest)), element("rect", **box)]
    if bar.held == 1 and bar.width >= OUTLINED_FROM and findings_of(first, named):
        parts.append(_outline(GUTTER + bar.x, y, bar.width, height))
    if bar.held == 1 and bar.width > 26:
        size = 10.5 if height > 12 else 9.5
        name = drawing.fitted(first.name, bar.width - 8, size)
        if name:
            parts.append(_name_on(GUTTER + bar.x + 4, y, height, name, size))
    return element("g", "".join(parts))


def _name_on(x: float, y: float, height: float, name: str, size: float) -> str:
    return element("text", drawing.safe(name), x=x, y=y + height / 2 + size * 0.36, class_="on", font_size=size)


def _outline(x: float, y: float, width: float, height: float) -> str:
    return element("rect", x=x + 1, y=y + 1, width=max(width - 2, 0.5), height=height - 2, class_="mark")


def _told(bar: Bar, most: int) -> str:
    """What a pointer is told about a bar: one span, or how many lie there. Their times are not added."""
    first = bar.spans[0]
    if bar.held == 1:
        name = words.shorten(first.name, most)
        took, begins = words.duration(first.duration_us), words.duration(first.start_us)
        return f"{name} ({first.kind}): {took}, begins at {begins}"
    end = max(span.start_us + span.duration_us for span in bar.spans)
    longest = max(bar.spans, key=lambda span: span.duration_us)
    return (
        f"{bar.held} short spans, from {words.duration(first.start_us)} to {words.duration(end)}; "
        f"the longest: {words.shorten(longest.name, min(most, 200))} ({longest.kind})"
    )


def label_looks(timeline: Timeline) -> dict[str, Look]:
    """How each label looks, by its name: in the order in which they first appear."""
    looks: dict[str, Look] = {}
    for lane in timeline.lanes:
        for span in lane.spans:
            if span.kind == "label" and span.name not in looks:
                looks[span.name] = LABEL_LOOKS[len(looks) % len(LABEL_LOOKS)]
    return looks


def _look(span: Span, looks: dict[str, Look]) -> Look:
    if span.kind == "label":
        return looks[span.name]
    return KIND_LOOKS.get(span.kind, KIND_LOOKS["other"])


def _entries(places: Sequence[Place], looks: dict[str, Look]) -> list[tuple[str, Look]]:
    """The legend: labels by name, everything else by kind."""
    kinds = dict.fromkeys(span.kind for place in places for span in place.lane.spans if span.kind != "label")
    entries = [(kind, KIND_LOOKS.get(kind, KIND_LOOKS["other"])) for kind in kinds]
    named = [(f"label {name}", look) for name, look in looks.items()]
    return entries + named[: len(LABEL_LOOKS)]


def _arrows_apart(arrows: Sequence[Arrow], places: Sequence[Place], scale: float) -> list[Arrow]:
    """Some of the arrows: those to one lane end at least a few pixels apart."""
    last: dict[int, float] = {}
    apart: list[Arrow] = []
    for arrow in sorted(arrows, key=lambda arrow: arrow.to_us):
        if max(arrow.from_lane, arrow.to_lane) >= len(places) or min(arrow.from_lane, arrow.to_lane) < 0:
            continue
        x = _x(arrow.to_us, scale)
        if x - last.get(arrow.to_lane, -ARROWS_APART) >= ARROWS_APART:
            last[arrow.to_lane] = x
            apart.append(arrow)
    every = -(-len(apart) // ARROWS_DRAWN) or 1
    return apart[::every]


def _draw_arrow(arrow: Arrow, places: Sequence[Place], scale: float) -> str:
    """From a launch to the work that it queued."""
    start, end = places[arrow.from_lane], places[arrow.to_lane]
    down = end.top >= start.top
    x1, x2 = _x(arrow.from_us, scale), _x(arrow.to_us, scale)
    y1 = start.y(arrow.from_depth) + (start.row_height - 2 if down else 1)
    y2 = end.top if down else end.top + end.height
    bend = (y2 - y1) * 0.5
    path = " ".join(drawing.number(v) for v in (x1, y1 + bend, x2, y2 - bend, x2, y2))
    back = -4 if down else 4
    curve = f"M{drawing.number(x1)} {drawing.number(y1)}C{path}"
    tip = f"M{drawing.number(x2 - 2.5)} {drawing.number(y2 + back)}h5l-2.5 {-back}z"
    return element("path", d=curve, class_="launch") + element("path", d=tip, class_="tip")


class Mark(NamedTuple):
    """Where the evidence of a finding lies."""

    ident: str
    spans: Sequence[Span]


def named_by(findings: Iterable[Finding]) -> Named:
    """For each name in the evidence of findings, the ids of these."""
    named: dict[str, list[str]] = {}
    for finding in findings:
        for name in finding.names_of_spans():
            named.setdefault(name, []).append(finding.id)
    return named


def findings_of(span: Span, named: Named) -> tuple[str, ...]:
    """The findings whose evidence a span is, or holds where it is a bundle."""
    return span.evidence or tuple(named.get(span.name, ()))


def marks_of(timeline: Timeline, findings: Sequence[Finding], named: Named) -> list[Mark]:
    """For each finding the spans that are its evidence, in all lanes."""
    spans: dict[str, list[Span]] = {finding.id: [] for finding in findings[:FINDINGS_DRAWN]}
    for lane in timeline.lanes[:LANES_DRAWN]:
        for span in lane.spans:
            for ident in findings_of(span, named):
                if ident in spans:
                    spans[ident].append(span)
    return [Mark(ident, sorted(held, key=lambda span: span.start_us)) for ident, held in spans.items()]


def _finding_rows(marks: Sequence[Mark], scale: float) -> list[str]:
    """A row a finding, above the lanes: a bar wherever its evidence lies."""
    drawn = []
    for number, mark in enumerate(marks):
        y = TOP + number * FINDING_ROW
        name = drawing.fitted(mark.ident, GUTTER - 14, 13.5)
        told = f"evidence of {mark.ident}: {words.counted(sum(span.count for span in mark.spans), 'span')}"
        parts = [drawing.title(told), drawing.text(GUTTER - 10, y + 11, name, "head finding", "end")]
        for left, right in _joined(mark.spans, scale):
            width = max(right - left, 2.0)
            parts.append(element("rect", x=GUTTER + left, y=y + 2, width=width, height=FINDING_ROW - 7, class_="found"))
        drawn.append(element("g", "".join(parts)))
    return drawn


def _joined(spans: Sequence[Span], scale: float) -> list[tuple[float, float]]:
    """Where spans lie, in pixels from the left of the plot; what is less than two pixels apart becomes one."""
    joined: list[tuple[float, float]] = []
    for span in spans:
        left = min(max(span.start_us * scale, 0.0), PLOT - 2.0)
        right = min(max((span.start_us + span.duration_us) * scale, left), PLOT)
        if joined and left <= joined[-1][1] + 2.0:
            joined[-1] = (joined[-1][0], max(joined[-1][1], right))
        else:
            joined.append((left, right))
    return joined


def _sentences(
    timeline: Timeline,
    drawn: Sequence[tuple[Place, Bar]],
    thinnest: float,
    named: Named,
    marks: Sequence[Mark],
    arrows: int,
) -> Iterable[str]:
    """What the picture leaves out or adds, in words below it."""
    outlined = dict.fromkeys(ident for _, bar in drawn for span in bar.spans for ident in findings_of(span, named))
    if outlined:
        yield f"Rows at the top, and outlined: evidence of {', '.join(outlined)}."
    nowhere = [mark.ident for mark in marks if not mark.spans]
    if nowhere:
        yield f"At no one place in this picture: {', '.join(nowhere)}."
    if any(bar.held > 1 for _, bar in drawn):
        unseen = "half a pixel" if thinnest <= THINNEST else f"{thinnest / 2:.0f} pixels"
        yield f"Paler: several short spans drawn as one. A gap shorter than {unseen} is not seen."
    shown = timeline.lanes[:LANES_DRAWN]
    deep = sum(span.count for lane in shown for span in lane.spans if span.depth >= ROWS_DRAWN)
    if deep:
        yield f"{words.counted(deep, 'span')} nested deeper than {ROWS_DRAWN} rows: not drawn."
    lanes = len(timeline.lanes) - LANES_DRAWN
    if lanes > 0:
        yield f"{words.counted(lanes, 'further lane')}: not drawn."
    launched = max(timeline.launched, len(timeline.arrows))
    if arrows < launched:
        yield f"Arrows from launch to work: {arrows} of {launched} drawn."
    left_out = sum(lane.omitted for lane in timeline.lanes)
    if left_out and not timeline.note:
        yield f"{words.counted(left_out, 'span')} too short to draw: left out, see the table."
    if timeline.note:
        yield words.prose(timeline.note)


def _description(timeline: Timeline) -> str:
    lanes = [
        f"{words.shorten(lane.title, 80)}: {words.counted(sum(span.count for span in lane.spans), 'span')}"
        for lane in timeline.lanes[:LANES_DRAWN]
    ]
    if not any(lane.kind == "device" for lane in timeline.lanes):
        lanes.append(f"GPU: {words.NOT_OBSERVED}")
    duration = words.duration(timeline.duration_us)
    return f"{duration} on one axis of time. {'; '.join(lanes)}. The table after it lists the same facts."
