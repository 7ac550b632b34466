"""Pictures of ideas, drawn like the timelines: a few bars on named rows, with a sentence under them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stepprof_lab.report import drawing
from stepprof_lab.report.drawing import KIND_LOOKS, Look, element

WIDTH = 720.0
GUTTER = 130.0
PLOT = WIDTH - GUTTER - 16
ROW, GAP, TOP = 26.0, 8.0, 14.0


class Bar(NamedTuple):
    """One bar: where it begins and ends, from 0 to 100, and what stands on it."""

    begin: float
    end: float
    kind: str
    name: str = ""


Row = tuple[str, Sequence[Bar]]


def draw(name: str) -> str:
    """The picture of a name, as SVG.

    Raises:
        KeyError: there is none of that name.
    """
    return PICTURES[name](f"picture-{name}")


def _rows(
    ident: str,
    title: str,
    description: str,
    rows: Sequence[Row],
    said: Sequence[str],
    arrows: Sequence[tuple[int, float, int, float]] = (),
) -> str:
    """Rows of bars under each other; an arrow is (row, place, row, place)."""
    body = [drawing.patterns(ident, [KIND_LOOKS[one.kind] for _, bars in rows for one in bars])]
    for number, (head, bars) in enumerate(rows):
        y = _top(number)
        body.append(element("rect", x=GUTTER, y=y, width=PLOT, height=ROW, class_="lane"))
        body.append(drawing.text(GUTTER - 10, y + 17, head, "soft", "end"))
        body += [_bar(ident, one, y) for one in bars]
    body += [_arrow(*one) for one in arrows]
    y = _top(len(rows)) + 14
    for number, sentence in enumerate(said):
        body.append(drawing.text(GUTTER, y + 17 * number, sentence, "soft"))
    height = y + 17 * len(said)
    return drawing.picture(ident=ident, name=title, description=description, width=WIDTH, height=height, body=body)


def _top(row: int) -> float:
    return TOP + row * (ROW + GAP)


def _x(place: float) -> float:
    return GUTTER + PLOT * place / 100


def _bar(ident: str, one: Bar, y: float) -> str:
    look: Look = KIND_LOOKS[one.kind]
    width = PLOT * (one.end - one.begin) / 100
    parts = [
        drawing.title(one.name or one.kind),
        element("rect", x=_x(one.begin), y=y + 2, width=width, height=ROW - 4, rx=2, fill=drawing.fill(ident, look)),
    ]
    shown = drawing.fitted(one.name, width - 8, 11.5)
    if shown:
        parts.append(drawing.text(_x(one.begin) + 5, y + 17, shown, "on"))
    return element("g", "".join(parts))


def _arrow(row: int, place: float, other_row: int, other: float) -> str:
    return drawing.line(_x(place), _top(row) + ROW - 2, _x(other), _top(other_row) + 2, "launch")


def _launch(ident: str) -> str:
    return _rows(
        ident,
        "Launching and executing",
        "The CPU launches three pieces of work in a short time and then waits. The GPU executes them one after the "
        "other, later. A clock around the launches ends before the first piece is done.",
        [
            ("CPU", [*(Bar(at, at + 8, "runtime", "launch") for at in (4, 13, 22)), Bar(31, 91, "other", "waits")]),
            ("GPU", [Bar(10, 36, "kernel", "A"), Bar(36, 64, "kernel", "B"), Bar(64, 90, "kernel", "C")]),
            ("clock, no wait", [Bar(4, 30, "step", "what it shows")]),
            ("clock, one wait", [Bar(4, 91, "step", "what it shows")]),
        ],
        ["A clock that is read without waiting ends when the last launch is queued."],
        [(0, 8, 1, 10), (0, 17, 1, 36), (0, 26, 1, 64)],
    )  # fmt: skip


def _nested(ident: str) -> str:
    return _rows(
        ident,
        "Nested sums",
        "One operator calls another one, which calls a third. Each total holds what is under it. Self time is the part "
        "of a bar with nothing under it.",
        [
            ("total 90", [Bar(5, 95, "operator", "linear")]),
            ("total 60", [Bar(20, 80, "operator", "addmm, called by linear")]),
            ("total 30", [Bar(35, 65, "operator", "copy_, called by addmm")]),
            ("self times", [Bar(5, 20, "step", "15"), Bar(20, 35, "memset", "15"), Bar(35, 65, "copy", "30"),
                            Bar(65, 80, "memset", "15"), Bar(80, 95, "step", "15")]),
        ],
        ["Totals: 90 + 60 + 30 = 180 for 90 that passed. Self times: 30 + 30 + 30 = 90."],
    )  # fmt: skip


def _union(ident: str) -> str:
    return _rows(
        ident,
        "Union against sum",
        "Two streams of one GPU work partly at the same time. The sum counts the overlap twice; the union is how long "
        "the GPU was busy.",
        [
            ("stream 7", [Bar(5, 45, "kernel", "40"), Bar(70, 90, "kernel", "20")]),
            ("stream 13", [Bar(30, 60, "copy", "30")]),
            ("busy (union)", [Bar(5, 60, "step", "55"), Bar(70, 90, "step", "20")]),
        ],
        [
            "Sum: 40 + 20 + 30 = 90. Union: 55 + 20 = 75.",
            "The step is 100 long, so that the GPU was busy for 75 % of it.",
        ],
    )


def _warm_up(ident: str) -> str:
    bars, place = [], 2.0
    for number, length in enumerate([34, 14, 6, 6, 6, 6, 6, 6]):
        bars.append(Bar(place, place + length - 0.8, "memset" if number < 2 else "step", str(number + 1)))
        place += length
    return _rows(
        ident,
        "Warm-up",
        "The first two steps are several times as long as those after them, which are all alike. A mean over all eight "
        "describes none of them.",
        [
            ("steps", bars),
            ("mean of all", [Bar(2 + 10.5 * n, 2 + 10.5 * n + 9.7, "other", "") for n in range(8)]),
            ("kept apart", [Bar(2, 50, "memset", "start-up"), Bar(50, 86, "step", "steady: from step 3 on")]),
        ],
        ["Start-up and steady part are two observations. The mean of both is neither."],
    )


def _bursts(ident: str) -> str:
    workers = [
        (f"worker {number + 1}", [Bar(begin, begin + 30, "operator", "reads a batch") for begin in (2, 33, 64)])
        for number in range(2)
    ]
    steps = [Bar(32 + 31 * turn + 6 * step, 32 + 31 * turn + 6 * step + 5.5, "kernel", "") for turn in range(2)
             for step in range(2)]  # fmt: skip
    waits = [Bar(2, 32, "other", "waits"), Bar(44, 63, "other", "waits"), Bar(75, 94, "other", "waits")]
    return _rows(
        ident,
        "A loader's bursts",
        "Two workers begin and end together, so that two batches arrive at once: two steps follow without waiting, and "
        "then the loop waits for the next two.",
        [*workers, ("loop", sorted([*waits, *steps]))],
        ["Two steps in a row hide the wait and the third one shows it: look at whole periods, and at their mean."],
    )


def _pairs(ident: str) -> str:
    chance = random.Random(4)  # noqa: S311 - a drawing
    bars, place = [], 2.0
    for _ in range(6):
        for arm in chance.sample(["before", "after"], 2):
            bars.append(Bar(place, place + 7, "operator" if arm == "before" else "copy", arm[0]))
            place += 7.4
        place += 1
    return _rows(
        ident,
        "Pairs in random order",
        "Short blocks of both versions in pairs, which of the two comes first drawn anew for each pair. A slow time of "
        "the machine meets both halves of a pair.",
        [("one after the other", [Bar(2, 47, "operator", "before"), Bar(48, 95, "copy", "after")]),
         ("pairs", bars),
         ("the machine", [Bar(2, 38, "step", "fast"), Bar(38, 70, "memset", "slow"), Bar(70, 95, "step", "fast")])],
        ["b: before, a: after. Above, the slow time falls on one version mostly; in pairs on both."],
    )  # fmt: skip


PICTURES: dict[str, Callable[[str], str]] = {
    "launch-and-execution": _launch,
    "nested-sums": _nested,
    "union-and-sum": _union,
    "warm-up": _warm_up,
    "loader-bursts": _bursts,
    "random-pairs": _pairs,
}
"""All pictures, by the name that a page asks for."""
