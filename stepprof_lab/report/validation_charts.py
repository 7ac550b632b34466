"""The pictures beside a validation's raw values: how each arm started, and an arm against itself."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, NamedTuple

from stepprof_lab.report import charts, drawing, quantity, words
from stepprof_lab.report.charts import LEFT, PLOT, WIDTH
from stepprof_lab.report.drawing import element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.validate.model import ArmName, Calibration, Trial, Validation

ARMS: tuple[ArmName, ArmName] = ("before", "after")

ROW = 9.0
"""Height of one trial."""


def start_up_svg(validation: Validation, *, ident: str = "startup") -> str:
    """Draw each instance's steps from the first on, and for each arm the median of the instances."""
    series = {arm: [one.steps_ms for one in validation.warm_up if one.arm == arm] for arm in ARMS}
    longest = max((len(steps) for own in series.values() for steps in own), default=0)
    values = [ms for own in series.values() for steps in own for ms in steps]
    # A first step of many times the others' would leave nothing to see of these.
    later = [ms for own in series.values() for steps in own for ms in steps[1:]]
    axis = charts.axis_for(later or values, 40.0, 200.0)
    slot = PLOT / max(longest, 1)
    body = charts.draw_axis(axis, PLOT, f"time of a {quantity.of(validation).one}, from the first on")
    for arm, own in series.items():
        body.append(_instances(axis, arm, own, slot))
        body += _steady(validation, arm, axis, slot)
    for tick in drawing.spaced(1, max(longest, 2), 10):
        if tick >= 1 and tick == int(tick):
            x = LEFT + (tick - 0.5) * slot
            body.append(drawing.text(x, axis.bottom + 18, f"{tick:.0f}", "soft small", "middle"))
    y = axis.bottom + 40
    body += charts.arm_legend(y, "line: median of the instances")
    y += 18
    body.append(drawing.text(LEFT, y, "step number; dashed: the median of the steps until steady", "soft small"))
    if far := [ms for ms in values if ms > axis.end]:
        y += 18
        counted = words.counted(len(far), "step is", "steps are")
        told = f"{counted} longer than the axis (wedge), up to {words.duration(1e3 * max(far))}."
        body.append(drawing.text(LEFT, y, told, "soft small"))
    instances = words.counted(sum(map(len, series.values())), "instance")
    description = f"The first steps of {instances}, {longest} at the most. The tables after it list each of them."
    return drawing.picture(ident=ident, name="Start-up", description=description, width=WIDTH, height=y + 12, body=body)


def _instances(axis: charts.Axis, arm: ArmName, own: Sequence[Sequence[float]], slot: float) -> str:
    """All steps of an arm's instances as points, and a line through the medians."""
    shapes = [
        charts.point(LEFT + (n + 0.5) * slot, axis.y(ms), arm)
        if ms <= axis.end
        else charts.wedge(LEFT + (n + 0.5) * slot, axis.top)
        for steps in own
        for n, ms in enumerate(steps)
    ]
    medians = [statistics.median(ms for ms in column if ms is not None) for column in itertools.zip_longest(*own)]
    line = " ".join(
        f"{'L' if n else 'M'}{drawing.number(LEFT + (n + 0.5) * slot)} {drawing.number(axis.y(ms))}"
        for n, ms in enumerate(medians)
    )
    told = drawing.title(f"{arm}: {words.counted(len(own), 'instance')}")
    if not shapes:
        return element("g", told)
    thick = element("path", d=line, class_=f"{arm} hollow thick")
    return element("g", told + element("path", d="".join(shapes), class_=f"{arm} hollow") + thick)


def _steady(validation: Validation, arm: ArmName, axis: charts.Axis, slot: float) -> list[str]:
    steady = (validation.startup.get(arm) or {}).get("steady_after_steps")
    if not isinstance(steady, (int, float)):
        return []
    x = LEFT + steady * slot
    told = drawing.title(f"{arm}: steady after {steady:g} steps, the median")
    line = element("path", d=f"M{drawing.number(x)} {axis.top}V{axis.bottom}", class_=f"{arm} dashed")
    return [element("g", told + line)]


class _Scale(NamedTuple):
    low: float
    high: float

    def x(self, ratio: float) -> float:
        return LEFT + (ratio - self.low) / (self.high - self.low) * PLOT


def calibration_svg(calibration: Calibration, margin: float, *, ident: str = "calibration") -> str:
    """Draw the ratio and interval of each run of an arm against itself, with the margin around 1."""
    trials = sorted(calibration.trials, key=lambda one: one.ratio)
    ends = [end for one in trials for end in one.interval] + [1 - margin, 1 + margin, 0.999, 1.001]
    spread = max(ends) - min(ends)
    scale = _Scale(min(ends) - 0.05 * spread, max(ends) + 0.05 * spread)
    top, bottom = 34.0, 34.0 + ROW * (len(trials) + 1)
    band = element(
        "rect",
        x=scale.x(1 - margin),
        y=top,
        width=scale.x(1 + margin) - scale.x(1 - margin),
        height=bottom - top,
        class_="band",
    )
    body = [
        drawing.text(LEFT, 16, "arm before against itself: every trial, by its ratio", "head"),
        element("g", drawing.title(f"margin: {words.percent(margin)} around 1") + band),
        drawing.line(scale.x(1), top, scale.x(1), bottom, "edge"),
        drawing.line(LEFT, bottom, LEFT + PLOT, bottom, "axis"),
    ]
    body += [_trial(one, scale, top + ROW * (n + 1)) for n, one in enumerate(trials)]
    for tick in drawing.spaced(scale.low, scale.high, 10):
        body.append(drawing.line(scale.x(tick), bottom, scale.x(tick), bottom + 5, "axis"))
        body.append(drawing.text(scale.x(tick), bottom + 18, f"{tick:.6g}", "soft small", "middle"))
    key = "line: 95 % interval of one trial; red: it does not hold 1, a false alarm at margin 0; shaded: the margin"
    body.append(drawing.text(LEFT + PLOT, bottom + 36, key, "soft small", "end"))
    description = f"{words.counted(len(trials), 'trial')}. {' '.join(f'{one}.' for one in calibration.reasons)}"
    return drawing.picture(
        ident=ident, name="Calibration", description=description, width=WIDTH, height=bottom + 48, body=body
    )


def _trial(trial: Trial, scale: _Scale, y: float) -> str:
    low, high = trial.interval
    look = "axis" if low <= 1 <= high else "mark"
    told = f"ratio {words.ratio(trial.ratio)}, interval {words.ratio(low)} to {words.ratio(high)}"
    line = drawing.line(scale.x(low), y, scale.x(high), y, look)
    return element(
        "g", drawing.title(told) + line + element("circle", cx=scale.x(trial.ratio), cy=y, r=2.6, class_="tip")
    )
