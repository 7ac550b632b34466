"""A verdict as the learner sees it: in a notebook with a picture, in a terminal as lines."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable

from stepprof_lab.grading import catalogue, kept, variants
from stepprof_lab.grading.items import Lab
from stepprof_lab.grading.model import Bar, Picture, Verdict
from stepprof_lab.grading.running import Ran, worth

BAR_WIDTH = 40
"""Characters of the longest bar in a terminal."""


def show(verdict: Verdict) -> None:
    """Show it: as HTML where a notebook is, as text elsewhere."""
    if (display := _notebook()) is not None:
        display(_Shown(verdict))
    else:
        sys.stdout.write("\n".join(lines(verdict)) + "\n")


def lines(verdict: Verdict) -> list[str]:
    """The verdict in lines of text."""
    return [
        f"{verdict.item}: {_mark(verdict)}",
        *(f"  {sentence}" for sentence in sentences(verdict)),
        *(_bars(verdict.picture) if verdict.picture else []),
    ]


def sentences(verdict: Verdict) -> list[str]:
    """What is said: the parts, the judge's sentences, how many more cases run when it is graded."""
    said = [f"{part.id}: {part.points:g} of {part.of:g}" for part in verdict.parts]
    said += [catalogue.sentence(one) for one in verdict.said]
    if verdict.hidden:
        said.append(catalogue.text("common.hidden", count=verdict.hidden))
    if verdict.origin == "simulated":
        said.append(f"({catalogue.text('common.begin.simulated')})")
    return said


def show_waiting(device: str) -> None:
    """Say that a timed check waits until somebody else's is done."""
    sys.stdout.write(f"{catalogue.text('common.waiting', device=device)}\n")
    sys.stdout.flush()


def show_beginning(lab: Lab) -> None:
    """What a lab's first cell says: the device, how long it takes, what a GPU is for, what was reached so far."""
    said = beginning(lab)
    sys.stdout.write("\n".join(said) + "\n")


def beginning(lab: Lab) -> list[str]:
    """The lines of `show_beginning`."""
    kinds = ", ".join(catalogue.text(f"common.begin.{one}") for one in lab.origins)
    best = kept.best()
    points = sum(best.get(item.id, (0.0, 0.0))[0] for item in lab.items)
    gpu = {"none": "none is used", "optional": "used where there is one", "required": "needed"}[lab.gpu]
    memory = f", at most {lab.gpu_memory_mb} MB of its memory" if lab.gpu_memory_mb else ""
    return [
        f"Lab {lab.number}: {catalogue.text(f'{lab.number}.title')}. {catalogue.text(f'{lab.number}.question')}",
        f"  time:    about {lab.minutes} minutes; no cell takes more than {lab.seconds} s on two cores",
        f"  device:  {_device(lab)}",
        f"  GPU:     {gpu}{memory}",
        f"  numbers: {kinds}",
        f"  learner: {variants.learner()} (your numbers differ from other people's)",
        f"  so far:  {points:g} of {sum(item.points for item in lab.items):g} points",
    ]


def _device(lab: Lab) -> str:
    if lab.gpu == "none":
        return "none needed"
    from stepprof_lab import devices
    from stepprof_lab.errors import StepprofError

    try:
        found = devices.gpu_or_practice() if "simulated" in lab.origins else devices.choose("auto")
        return found.sentence
    except StepprofError as error:
        return str(error)


def _mark(verdict: Verdict) -> str:
    if verdict.undecided:
        return "no verdict"
    mark = "passed" if verdict.passed else "not yet"
    return f"{mark}, {verdict.points:g} of {verdict.of:g} points"


def _bars(picture: Picture) -> list[str]:
    most = max(bar.value for bar in picture.bars) or 1.0
    names = [_name(bar) for bar in picture.bars]
    width = max(map(len, names))
    drawn = ["#" * max(1, round(BAR_WIDTH * max(0.0, bar.value) / most)) for bar in picture.bars]
    return [
        f"  {name:<{width}}  {line} {bar.value:.4g} {picture.unit}"
        for name, line, bar in zip(names, drawn, picture.bars, strict=True)
    ]


def _name(bar: Bar) -> str:
    return catalogue.find(f"common.{bar.name}") or catalogue.find(bar.name) or bar.name


class _Shown:
    """What a notebook asks for its forms."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def __repr__(self) -> str:
        return "\n".join(lines(self._verdict))

    def _repr_html_(self) -> str:
        return as_html(self._verdict)


def as_html(verdict: Verdict) -> str:
    """The verdict as a fragment of HTML; every text of the learner's is escaped."""
    colour = "#57606a" if verdict.undecided else "#1a7f37" if verdict.passed else "#9a6700"
    said = "".join(f"<p style='margin:.3em 0'>{_code(sentence)}</p>" for sentence in sentences(verdict))
    drawn = svg(verdict.picture) if verdict.picture else ""
    head = f"<p style='margin:.3em 0'><strong>{html.escape(verdict.item)}: {_mark(verdict)}</strong></p>"
    return f"<div style='border-left:4px solid {colour};padding:.2em .9em;max-width:52em'>{head}{said}{drawn}</div>"


def _code(sentence: str) -> str:
    parts = html.escape(sentence).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def svg(picture: Picture) -> str:
    """The numbers as bars on one axis that begins at zero."""
    most = max((bar.value for bar in picture.bars), default=0.0) or 1.0
    rows = "".join(_row(bar, picture.unit, most, 8 + 26 * number) for number, bar in enumerate(picture.bars))
    height = 12 + 26 * len(picture.bars)
    title = "; ".join(f"{_name(bar)} {bar.value:.4g} {picture.unit}" for bar in picture.bars)
    return (
        f"<svg role='img' width='520' height='{height}' viewBox='0 0 520 {height}' font-family='sans-serif' "
        f"font-size='13' fill='currentColor'><title>{html.escape(title)}</title>{rows}</svg>"
    )


def _row(bar: Bar, unit: str, most: float, y: int) -> str:
    fill = {"yours": "#b35900", "reference": "#0a6ebd", "other": "#7d8590"}[bar.kind]
    width = max(1.0, 300 * max(0.0, bar.value) / most)
    return (
        f"<text x='0' y='{y + 14}'>{html.escape(_name(bar))}</text>"
        f"<rect x='110' y='{y}' width='{width:.1f}' height='18' fill='{fill}'/>"
        f"<text x='{116 + width:.1f}' y='{y + 14}'>{bar.value:.4g} {html.escape(unit)}</text>"
    )


def table(ran: Ran) -> list[str]:
    """One line an item, and the sum."""
    width = max(len(name) for name in [*(one.item for one in ran.verdicts), *ran.unchecked])
    return [
        *(f"{one.item:<{width}}  {_mark(one)}" for one in ran.verdicts),
        *(f"{name:<{width}}  not checked: its cell is missing, or stopped" for name in ran.unchecked),
        f"{'sum':<{width}}  {sum(one.points for one in ran.verdicts):g} of {worth(ran):g} points",
    ]


def of_run(ran: Ran) -> list[str]:
    """All verdicts of a lab's file, then the table, then the cells that stopped."""
    return [
        *(line for one in ran.verdicts for line in [*lines(one), ""]),
        *(table(ran) if ran.verdicts else []),
        *(f"stopped: {one.cell}: {one.error}" for one in ran.failed),
    ]


def _notebook() -> Callable[[object], object] | None:
    """IPython's ``display`` where a kernel runs this; None in a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    return display  # type: ignore[no-any-return]
