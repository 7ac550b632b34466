"""What a lab asks for, one item each, and where to find it."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.model import Case, Evidence, Origin, Verdict

Draw = Callable[[random.Random], Case]
Probe = Callable[[Any, Case], Evidence]
Judge = Callable[[Sequence[Case], Sequence[Evidence]], Verdict]
OwnNumbers = Callable[[str], random.Random]
"""From a purpose ("03/table") to a generator of the learner's own numbers for it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a lab asks for.

    Args:
        id: lab and name: "03/busy_ms".
        points: what it is worth.
        draw: makes one case.
        probe: runs next to the answer.
        judge: pure; sees cases and evidence of all runs of the check.
        visible: cases of a check while working.
        hidden: cases when it is graded, beside the visible ones.
        numbers_of: the purpose whose own numbers its visible cases are drawn from, where several items are about one
            thing; None for its own id.
        timed: whether its probe measures times on the GPU where there is one; then it has the GPU alone.
    """

    id: str
    points: float
    draw: Draw
    probe: Probe
    judge: Judge
    visible: int = 1
    hidden: int = 0
    numbers_of: str | None = None
    timed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lab:
    """One lab: its items and what its first cell says.

    Args:
        number: two digits.
        name: of its folder: "03-nested-sums".
        minutes: for a learner, at most 45.
        seconds: what the longest cell takes on two processor cores, at most 60.
        gpu: what a GPU is for: "none" (nothing here runs on one), "optional" or "required".
        gpu_memory_mb: at most this much of a GPU's memory.
        origins: which kinds of numbers it has.
        material: makes what the lab hands out, from the learner's own numbers. What it draws for the purpose of an
            item's id is what that item's visible cases are drawn from too.
        items: in the order of the notebook.
    """

    number: str
    name: str
    minutes: int
    seconds: int
    gpu: str
    gpu_memory_mb: int
    origins: tuple[Origin, ...]
    items: tuple[Item, ...]
    material: Callable[[OwnNumbers], Mapping[str, Any]] = lambda _: {}

    @property
    def measures(self) -> bool:
        """Whether some of its numbers are measured where it runs: nothing else should run beside it."""
        return bool({"live", "simulated"} & set(self.origins))


def numbers() -> list[str]:
    """The numbers of all labs that there are, in order."""
    from stepprof_lab.grading import labs

    return sorted(name[3:] for _, name, _ in pkgutil.iter_modules(labs.__path__) if name.startswith("lab"))


def lab(number: str) -> Lab:
    """The lab of a number, or of a text that begins with it ("03", "03-nested-sums", "3").

    Raises:
        StepprofError: there is none.
    """
    wanted = str(number).split("-")[0].split("/")[0].strip().zfill(2)
    if wanted not in numbers():
        raise StepprofError(f"lab {number!r}", f"one of {', '.join(numbers())}", "look at the lab's first cell")
    found: Lab = importlib.import_module(f"stepprof_lab.grading.labs.lab{wanted}").LAB
    return found


def item(ident: str) -> Item:
    """The item of an id such as "03/busy_ms".

    Raises:
        StepprofError: there is none, with the ids that the lab has.
    """
    found = lab(ident)
    for one in found.items:
        if one.id == ident:
            return one
    raise StepprofError(f"item {ident!r}", f"one of {', '.join(one.id for one in found.items)}", "copy it from the lab")
