"""What crosses between probe, judge and report: plain data, as JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Origin = Literal["live", "recorded", "constructed", "simulated"]

Case = dict[str, Any]
"""The parameters of one check: plain data that `Item.draw` made."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe saw of the answer on one case."""

    data: dict[str, Any] = {}
    """Plain data alone: None, bool, int, float, str, lists and dicts of them."""
    error: str | None = None
    """The learner's own error in one line, with the line of their code where it was raised."""
    unanswered: bool = False
    """The answer still is what the exercise began with."""
    device: str = "cpu"
    """The device that the answer ran on, in words."""
    origin: Origin = "live"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an item that earns points of its own."""

    id: str
    points: float
    of: float


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence for the learner: its key in the catalogue, and the values that stand in it."""

    key: str
    values: dict[str, Any] = {}


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a verdict's picture: the learner's number beside the reference."""

    name: str
    """Key in the catalogue, or the text itself where there is none."""
    value: float
    kind: Literal["yours", "reference", "other"] = "other"


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one unit, drawn as bars on one axis."""

    unit: str
    bars: list[Bar]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge concludes from evidence."""

    item: str
    points: float
    of: float
    parts: list[Part] = []
    misconception: str | None = None
    """Id of the wrong idea that the answer shows; None where it is right, or where no known idea gives it."""
    said: list[Said] = []
    """What was right, what was seen, and one hint, in this order."""
    picture: Picture | None = None
    undecided: bool = False
    """This machine could not hold what the check needs: no verdict, and no points lost."""
    hidden: int = 0
    """How many more cases run when this is graded."""
    origin: Origin = "live"
    device: str = "cpu"

    @property
    def passed(self) -> bool:
        """Whether every point was earned."""
        return not self.undecided and self.points >= self.of
