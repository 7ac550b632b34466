"""The pictures of series: the approach before a window, and the raw values of a validation."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from stepprof_lab.report import drawing, quantity, words
from stepprof_lab.report.drawing import LABEL_LOOKS, Look, element
from stepprof_lab.report.tables import WINDOW_TURNS, steady_start, steady_words
from stepprof_lab.report.validation import marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepprof_lab.record import Record
    from stepprof_lab.report.quantity import Quantity
    from stepprof_lab.trace.model import Approach
    from stepprof_lab.validate.model import ArmName, Block, Validation

WIDTH = 1200.0
LEFT = 76.0
RIGHT = 30.0
PLOT = WIDTH - LEFT - RIGHT
POINTS_DRAWN = 4000

STEP_LOOK = Look("#c3ccd6", "#7d8a99", "plain")
READ_LOOK = LABEL_LOOKS[0]


class Axis(NamedTuple):
    """A vertical axis from 0 up, in milliseconds or in samples a second."""

    top: float
    bottom: float
    end: float

    def y(self, value: float) -> float:
        """Where a value lies; what is beyond the axis lies at its end."""
        return self.bottom - (self.bottom - self.top) * min(max(value / self.end, 0.0), 1.0)


def axis_for(values: Sequence[float], top: float, bottom: float) -> Axis:
    """An axis that shows the bulk of the values; the few far ones are drawn at its end and said in words."""
    longest = drawing.longest_near(values)
    return Axis(top, bottom, longest * 1.08 if longest > 0 else 1.0)


def draw_axis(axis: Axis, width: float, title: str, *, rate: bool = False) -> list[str]:
    """An axis with its title, its unit and its grid; in milliseconds, or in samples a second."""
    unit = words.unit_for([1e3 * axis.end])
    name, factor = ("samples/s", 1.0) if rate else (unit.name, 1e3 / unit.microseconds)
    parts = [drawing.text(LEFT, axis.top - 12, f"{title} ({name})", "soft small")]
    for tick in drawing.ticks(axis.end * factor, 5):
        y = axis.y(tick / factor)
        parts.append(drawing.line(LEFT, y, LEFT + width, y, "grid"))
        parts.append(drawing.text(LEFT - 8, y + 4, f"{tick:.10g}", "soft small", "end"))
    parts.append(drawing.line(LEFT, axis.bottom, LEFT + width, axis.bottom, "axis"))
    return parts


def read_label(record: Record) -> str | None:
    """The label that reads the batch, as the approach timed it: the longest one where several do."""
    reading = [label for label in record.labels if label.role == "read" and label.name in record.approach.labels_ms]
    named = [label for label in reading if label.role_from != "loader"] or reading
    return max((label.name for label in named), key=lambda name: sum(record.approach.labels_ms[name]), default=None)


def approach_svg(record: Record, *, ident: str = "approach") -> str:
    """Draw each step of the approach with the reading inside it, then the four turns of the window.

    The bars start at zero. A label's bar lies inside its step's bar; nothing is stacked.
    """
    before, window = record.approach.steps_ms, record.window_steps_ms
    reading = read_label(record)
    reads = record.approach.labels_ms[reading] if reading else []
    axis = axis_for([*before, *window], 40.0, 220.0)
    slot = PLOT / (len(before) + len(window) + (2 if window else 0) or 1)
    body = draw_axis(axis, PLOT, "elapsed a step, host clock")
    for n, ms in enumerate(before):
        read = reads[n] if n < len(reads) else None
        body.append(_step_bar(axis, LEFT + n * slot, slot, ms, what=f"approach step {n + 1}", ident=ident, read=read))
    if before:
        body += _mean_line(axis, record.approach, slot)
    if window:
        body += _window(axis, window, LEFT + (len(before) + 2) * slot, slot, ident)
    body.append(drawing.text(LEFT, axis.bottom + 18, f"{words.counted(len(before), 'unprofiled step')}", "small"))
    entries = [("step", STEP_LOOK)]
    if reading:
        entries.append((f"{reading}, inside the step", READ_LOOK))
    drawn, y = drawing.legend(ident, entries, LEFT, axis.bottom + 46, PLOT)
    body += drawn
    for sentence in _approach_sentences(axis, [*before, *window], reading):
        body.append(drawing.text(LEFT, y, sentence, "soft small"))
        y += 16
    body.insert(0, drawing.patterns(ident, [look for _, look in entries]))
    description = _approach_description(before, reading, reads)
    return drawing.picture(
        ident=ident, name="Steps before the window", description=description, width=WIDTH, height=y + 4, body=body
    )


def _step_bar(axis: Axis, x: float, slot: float, ms: float, *, what: str, ident: str, read: float | None = None) -> str:
    width = max(slot * 0.78, 0.8)
    told = f"{what}: {words.duration(1e3 * ms)}"
    parts = [element("rect", x=x, y=axis.y(ms), width=width, height=axis.bottom - axis.y(ms), fill=STEP_LOOK.fill)]
    if read is not None:
        told += f", of which reading {words.duration(1e3 * read)}"
        y = axis.y(read)
        parts.append(
            element("rect", x=x, y=y, width=width, height=axis.bottom - y, fill=drawing.fill(ident, READ_LOOK))
        )
    if ms > axis.end:
        parts.append(_beyond(x, axis.top, width))
    return element("g", drawing.title(told) + "".join(parts))


def _beyond(x: float, top: float, width: float) -> str:
    """A wedge above a bar that goes on beyond the axis."""
    return element("path", d=wedge(x + width / 2, top - 2), class_="tip")


def wedge(x: float, y: float) -> str:
    """A triangle that points up, as part of a path."""
    return f"M{drawing.number(x - 4)} {drawing.number(y)}h8l-4 -7z"


def _mean_line(axis: Axis, approach: Approach, slot: float) -> list[str]:
    """The mean of the steady steps, over the steps that it is of."""
    start = steady_start(approach)
    mean = statistics.fmean(approach.steps_ms[start:])
    left, right = LEFT + start * slot, LEFT + len(approach.steps_ms) * slot
    told = f"mean of {steady_words(approach)}: {words.duration(1e3 * mean)}"
    return [
        drawing.line(left, axis.y(mean), right, axis.y(mean), "edge"),
        drawing.text(right, axis.top - 12, told, "small", "end"),
    ]


def _window(axis: Axis, window: Sequence[float], x: float, slot: float, ident: str) -> list[str]:
    """The turns under the profiler's schedule; the active ones are framed and named."""
    body = [drawing.line(x - slot, axis.top - 6, x - slot, axis.bottom + 14, "edge")]
    for n, ms in enumerate(window):
        turn = WINDOW_TURNS[n] if n < len(WINDOW_TURNS) else "after"
        left = x + n * slot
        body.append(_step_bar(axis, left, slot, ms, what=f"window, {turn}", ident=ident))
        if turn == "active":
            y = axis.y(ms)
            frame = element("rect", x=left, y=y, width=slot * 0.78, height=axis.bottom - y, class_="mark")
            body.append(frame)
            body.append(element("path", d=wedge(left + slot * 0.39, axis.bottom + 10), class_="tip"))
    body.append(drawing.text(LEFT + PLOT, axis.bottom + 30, "the window; its active steps are framed", "small", "end"))
    return body


def _approach_sentences(axis: Axis, values: Sequence[float], reading: str | None) -> Iterable[str]:
    far = [v for v in values if v > axis.end]
    if far:
        counted = words.counted(len(far), "step is", "steps are")
        yield f"{counted} longer than the axis (wedge), up to {words.duration(1e3 * max(far))}."
    if reading is None:
        yield "No label with the role of reading was timed: what part of a step is reading is not observed."


def _approach_description(steps: Sequence[float], reading: str | None, reads: Sequence[float]) -> str:
    if not steps:
        return "No step ran before the window."
    shortest, longest = words.duration(1e3 * min(steps)), words.duration(1e3 * max(steps))
    told = f"{words.counted(len(steps), 'step')} before the window, from {shortest} to {longest}"
    if reading and reads:
        told += f"; inside them {reading}, up to {words.duration(1e3 * max(reads))}"
    return f"{told}. The tables after it list each of them."


def validation_svg(validation: Validation, *, ident: str = "validation") -> str:
    """Draw every raw value in the order of measuring, and below it the replicates' ratios with the interval."""
    blocks = sorted(validation.blocks, key=lambda block: block.order)
    told = quantity.of(validation)
    values = [told.number(ms) for block in blocks for ms in block.steps_ms]
    if not values:
        nothing = drawing.text(LEFT, 40, "Nothing was timed, so there is nothing to draw.", "soft")
        return drawing.picture(
            ident=ident, name="Raw values", description="Nothing was timed.", width=WIDTH, height=70, body=[nothing]
        )
    axis = axis_for(values, 40.0, 250.0)
    body = _ground(axis, validation, blocks)
    body += draw_axis(axis, PLOT, f"{told.title}, outside the profiler", rate=told.is_rate)
    body += _raw_values(axis, blocks, told)
    key = "order of measuring, from left to right; upright lines: a new replicate"
    body.append(drawing.text(LEFT, axis.bottom + 18, key, "soft small"))
    y = axis.bottom + 42
    body += arm_legend(y, "bar: median of the block")
    for sentence in _raw_sentences(axis, values, validation):
        y += 18
        body.append(drawing.text(LEFT, y, sentence, "soft small"))
    if validation.ratio is not None:
        drawn, y = _ratios(validation, y + 34)
        body += drawn
    return drawing.picture(
        ident=ident,
        name="Raw values and ratios",
        description=_validation_description(validation, len(values)),
        width=WIDTH,
        height=y + 16,
        body=body,
    )


def _raw_sentences(axis: Axis, values: Sequence[float], validation: Validation) -> Iterable[str]:
    far = [value for value in values if value > axis.end]
    if far:
        counted = words.counted(len(far), "value is", "values are")
        largest = words.rate(max(far)) if quantity.of(validation).is_rate else words.duration(1e3 * max(far))
        yield f"{counted} beyond the axis (wedge), up to {largest}."
    if slow := marked(validation):
        yield f"Shaded: {words.counted(len(slow), 'block')} that took twice the usual time or more; none was left out."


def _ground(axis: Axis, validation: Validation, blocks: Sequence[Block]) -> list[str]:
    """What lies behind the values: slow blocks shaded, and a line where a replicate begins."""
    slot = PLOT / len(blocks)
    slow = set(marked(validation))
    body = []
    for n, block in enumerate(blocks):
        x = LEFT + n * slot
        if block.order in slow:
            shade = element("rect", x=x, y=axis.top, width=slot, height=axis.bottom - axis.top, class_="band")
            body.append(element("g", drawing.title(f"block {block.order}: marked as slow") + shade))
        if n and block.replicate != blocks[n - 1].replicate:
            body.append(drawing.line(x, axis.top, x, axis.bottom + 6, "grid"))
    return body


def _raw_values(axis: Axis, blocks: Sequence[Block], told: Quantity) -> list[str]:
    """Circles for one arm, triangles for the other, and each block's median as a bar across its slot."""
    slot = PLOT / len(blocks)
    total = sum(len(block.steps_ms) for block in blocks)
    every = -(-total // POINTS_DRAWN)
    body: list[str] = []
    if every > 1:
        note = f"one step in {every} drawn; the table has all"
        body.append(drawing.text(LEFT + PLOT, axis.top - 12, note, "soft small", "end"))
    for n, block in enumerate(blocks):
        if not block.steps_ms:
            continue
        left, width = LEFT + (n + 0.1) * slot, 0.8 * slot
        shapes = []
        for k, value in enumerate(map(told.number, block.steps_ms)):
            # A value beyond the axis is drawn whatever the thinning: far values are what a median hides.
            if k % every and value <= axis.end:
                continue
            x = left + width * (k + 0.5) / len(block.steps_ms)
            shapes.append(point(x, axis.y(value), block.arm) if value <= axis.end else wedge(x, axis.top))
        median = statistics.median(block.steps_ms)
        y = axis.y(told.number(median))
        name = (
            f"{block.arm}, replicate {block.replicate}, pair {block.pair}: "
            f"{words.counted(len(block.steps_ms), told.one)}, median {told.text(median)}"
        )
        body.append(
            element(
                "g",
                drawing.title(name)
                + element("path", d="".join(shapes), class_=f"{block.arm} hollow")
                + drawing.line(left, y, left + width, y, f"{block.arm} thick"),
            )
        )
    return body


def point(x: float, y: float, arm: ArmName) -> str:
    """A small circle or triangle as part of a path."""
    if arm == "before":
        return f"M{drawing.number(x - 2)} {drawing.number(y)}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0"
    return f"M{drawing.number(x - 2.4)} {drawing.number(y + 2)}h4.8l-2.4 -4.4z"


def arm_legend(y: float, line: str) -> list[str]:
    """The signs of the two arms, and what their thick line is."""
    arms: tuple[tuple[ArmName, str], ...] = (("before", "before: circles"), ("after", "after: triangles"))
    body: list[str] = []
    left = LEFT
    for arm, name in arms:
        body.append(element("path", d=point(left + 4, y - 4, arm), class_=f"{arm} hollow"))
        body.append(drawing.line(left + 12, y - 4, left + 26, y - 4, f"{arm} thick"))
        body.append(drawing.text(left + 32, y, f"{name}; {line}"))
        left += 360
    return body


def _ratios(validation: Validation, top: float) -> tuple[list[str], float]:
    """The ratio axis: margin band around 1, each replicate, the interval and the ratio."""
    ratio = validation.ratio or 1.0
    margin = validation.margin
    shown: list[float] = [ratio, *(validation.interval or ()), *validation.replicate_ratios, 1 - margin, 1 + margin]
    spread = max(shown) - min(shown)
    low, high = min(shown) - 0.06 * spread - 1e-9, max(shown) + 0.06 * spread + 1e-9
    scale = PLOT / (high - low)

    def x(value: float) -> float:
        return LEFT + (value - low) * scale

    bottom = top + 86
    body = [
        drawing.text(LEFT, top, "ratio after / before: left of 1 is faster, right of 1 is slower", "head"),
        element(
            "g",
            drawing.title(f"margin: {words.percent(margin)} around 1")
            + element("rect", x=x(1 - margin), y=top + 12, width=2 * margin * scale, height=74, class_="band"),
        ),
    ]
    for tick in drawing.spaced(low, high, 10):
        body.append(drawing.line(x(tick), bottom, x(tick), bottom + 5, "axis"))
        body.append(drawing.text(x(tick), bottom + 18, f"{tick:.6g}", "soft small", "middle"))
    body.append(drawing.line(LEFT, bottom, LEFT + PLOT, bottom, "axis"))
    body.append(drawing.line(x(1), top + 12, x(1), bottom, "edge"))
    for n, value in enumerate(validation.replicate_ratios):
        told = drawing.title(f"replicate {n + 1}: {words.ratio(value)}")
        body.append(element("g", told + element("circle", cx=x(value), cy=top + 30 + 5 * (n % 3), r=3.5, class_="tip")))
    body += _interval(validation, ratio, x(ratio), [x(value) for value in validation.interval or ()], top + 64)
    key = "dots: replicates; line: 95 % interval; shaded: the margin"
    body.append(drawing.text(LEFT + PLOT, bottom + 36, key, "soft small", "end"))
    return body, bottom + 40


def _interval(validation: Validation, ratio: float, x: float, ends: Sequence[float], y: float) -> list[str]:
    told = f"ratio {words.ratio(ratio)}"
    shapes = ""
    if validation.interval is not None:
        told += f", interval {words.ratio(validation.interval[0])} to {words.ratio(validation.interval[1])}"
        low, high = ends
        shapes = drawing.line(low, y, high, y, "after thick")
        shapes += "".join(drawing.line(end, y - 6, end, y + 6, "after thick") for end in ends)
    diamond = f"M{drawing.number(x)} {drawing.number(y - 7)}l6 7l-6 7l-6 -7z"
    return [element("g", drawing.title(told) + shapes + element("path", d=diamond, class_="after"))]


def _validation_description(validation: Validation, values: int) -> str:
    text = f"{words.counted(values, 'step time')} in {words.counted(len(validation.blocks), 'block')}. "
    text += f"Verdict: {validation.verdict}."
    if validation.ratio is not None:
        text += f" Ratio after / before {words.ratio(validation.ratio)}"
        if validation.interval is not None:
            text += f", 95 % interval {words.ratio(validation.interval[0])} to {words.ratio(validation.interval[1])}"
        text += "."
    return f"{text} The tables after it list the same values."
