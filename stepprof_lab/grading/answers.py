"""The named answers beside a lab's source, for its tests and for `tests/benchmarks/judges.py`.

``solutions/NN-name/right_answers.py`` has ``RIGHT = {item: {name: answer}}`` and ``wrong_answers.py`` has ``WRONG =
{item: {name: (misconception, answer)}}``; ``..._2.py`` are a second set, written from the lab's text alone by somebody
who had not seen the judge.
"""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Answer:
    """One named answer to one item.

    Args:
        item: "03/busy_ms".
        name: what is done in it.
        answer: what `check` is given; a callable ``(material) -> answer`` marked by `from_material` is called first.
        misconception: what a judge must recognise; None for a right answer.
        is_right: whether it must earn every point.
        set_number: 1, or 2 for the second set.
    """

    item: str
    name: str
    answer: Any
    misconception: str | None
    is_right: bool
    set_number: int


def of_lab(source: Path) -> list[Answer]:
    """Every named answer of a lab's folder, first and second set."""
    found = []
    for number, ending in ((1, ""), (2, "_2")):
        for kind in ("right", "wrong"):
            path = source / f"{kind}_answers{ending}.py"
            if path.is_file():
                found += _read(path, kind == "right", number)
    return found


def _read(path: Path, is_right: bool, number: int) -> list[Answer]:
    table = runpy.run_path(str(path))["RIGHT" if is_right else "WRONG"]
    return [
        Answer(item, name, one if is_right else one[1], None if is_right else one[0], is_right, number)
        for item, named in table.items()
        for name, one in named.items()
    ]


def from_material(make: Any) -> Any:
    """Mark a function of the lab's material (a namespace, as `begin` returns it) that makes the answer itself.

    For items that ask about the learner's own numbers.
    """
    make.takes_material = True
    return make
