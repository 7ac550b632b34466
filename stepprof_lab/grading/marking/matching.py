"""From what was handed in to the cells that run: checks and their order from the release, answers from the learner.

Editors lose metadata, split cells and paste them twice; people delete cells and add their own. None of it costs a
point, and nothing that a submission says of itself counts: not its points, not its locks, not which cell is a check.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import stepprof_lab
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import items
from stepprof_lab.grading.cells import Cell
from stepprof_lab.grading.items import Lab
from stepprof_lab.grading.marking import release

Role = Literal["as it stands", "answer", "check"]

ALIKE = 0.6
"""A cell that shows nothing else is taken for the release's from this ratio of `difflib` on."""
LONGEST_COMPARED = 5_000
"""Characters; a longer cell is not compared, because that takes long."""

_WHOLE_CHECK = re.compile(r"check\(\s*[\"'](\d\d/\w+)[\"'],\s*\w+\s*\)\.points")
_LAB_NAMED = re.compile(r"\b(?:begin|check)\(\s*[\"'](\d\d)\b")
_DEFINED = re.compile(r"^(?:(?:async +)?def|class) +(\w+)|^(\w+) *(?::[^=\n]*)?=(?!=)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Part:
    """One cell of a release.

    Args:
        cell: its kind, source and name.
        cell_id: the notebook format's own id of it.
        role: as it stands, the learner's answer, or a check.
        item: what it checks.
    """

    cell: Cell
    cell_id: str | None
    role: Role
    item: str | None = None


@dataclasses.dataclass(frozen=True)
class Release:
    """A lab as it was handed out.

    Args:
        name: of its folder: "03-nested-sums".
        version: changes with every byte of the release and with the package's version.
        parts: all cells, in order.
    """

    name: str
    version: str
    parts: tuple[Part, ...]

    @property
    def lab(self) -> Lab:
        """What it asks for."""
        return items.lab(self.name)


@dataclasses.dataclass(frozen=True)
class Placed:
    """One cell that runs.

    Args:
        name: as it is told to people.
        source: its code.
        item: whose check it is; None where it is none.
        part: the item whose check comes next: what goes wrong here goes wrong for it.
    """

    name: str
    source: str
    item: str | None = None
    part: str | None = None


@dataclasses.dataclass(frozen=True)
class Matched:
    """What runs for a submission, and what a person should know of it."""

    placed: tuple[Placed, ...]
    notes: tuple[str, ...]


def read_release(folder: Path) -> Release:
    """The release in a folder, ``exercises/NN-name`` with its notebook ``NN-name.ipynb``.

    Raises:
        StepprofError: there is none, or it lacks the check of an item.
    """
    outline = release.read(folder.parent, folder.name)
    parts = tuple(_part(one) for one in outline.cells)
    checked = [one.item for one in parts if one.item]
    asked = [one.id for one in items.lab(folder.name).items]
    if checked != asked:
        raise StepprofError(
            f"the release of {folder.name!r}, which checks {checked}", f"checks of {asked}", "make it again (make labs)"
        )
    return Release(folder.name, f"{stepprof_lab.__version__}-{outline.digest}", parts)


def _part(cell: release.Cell) -> Part:
    role: Role = "answer" if cell.solution else "as it stands" if cell.points is None else "check"
    return Part(Cell(cell.kind, cell.source, cell.name), cell.cell_id, role, cell.item)


def match(found: Sequence[Cell], release: Release) -> Matched:
    """Put the cells of a submission in the places of the release.

    Raises:
        StepprofError: they are not of this lab, or of a release that has more items.
    """
    _demand_this_lab(found, release)
    owned = owners(found, release)
    if not owned:
        raise StepprofError(f"no cell of {release.name}", "the lab's own cells", "hand in the lab's notebook")
    notes: list[str] = []
    placed = list(_in_order(found, release, owned, notes))
    return Matched(tuple(_with_parts(placed)), tuple(notes))


def _demand_this_lab(found: Sequence[Cell], release: Release) -> None:
    code = [one.source for one in found if one.kind == "code"]
    if not code:
        raise StepprofError("no cell of code", "the lab's own cells", "hand in the lab's notebook")
    named = {number for source in code for number in _LAB_NAMED.findall(source)}
    if named and release.lab.number not in named:
        raise StepprofError(
            f"cells of lab {', '.join(sorted(named))}", f"cells of {release.name}", "hand it in as that lab"
        )
    known = {one.id for one in release.lab.items}
    checks = [check[1] for source in code if (check := _WHOLE_CHECK.fullmatch(source.strip()))]
    if later := [one for one in checks if one.startswith(f"{release.lab.number}/") and one not in known]:
        raise StepprofError(
            f"a check of {later[0]!r}", f"items of this release ({release.version})", "grade it with its own release"
        )


# ---- which cell is which ----


def owners(found: Sequence[Cell], release: Release) -> dict[int, int]:
    """From cells of the submission to parts of the release, one each: by name, text, definitions, look."""
    found_for: dict[int, int] = {}
    for way in (_by_name, _by_text, _by_definition, _by_look):
        for number, part in enumerate(release.parts):
            if number in found_for.values():
                continue
            free = [place for place, cell in enumerate(found) if place not in found_for and cell.kind == part.cell.kind]
            if (best := way(part, found, free)) is not None:
                found_for[best] = number
    return found_for


def _by_name(part: Part, found: Sequence[Cell], free: Sequence[int]) -> int | None:
    """Of several cells of one name, the one that still defines what the part defines: the others were split off."""
    named = [place for place in free if found[place].id in {part.cell.id, part.cell_id} - {None}]
    if part.role != "answer":
        return next((place for place in named if _same(found[place], part)), named[0] if named else None)
    return next((place for place in named if _defined(found[place]) & _defined(part.cell)), named[0] if named else None)


def _by_text(part: Part, found: Sequence[Cell], free: Sequence[int]) -> int | None:
    return next((place for place in free if _same(found[place], part)), None)


def _by_definition(part: Part, found: Sequence[Cell], free: Sequence[int]) -> int | None:
    if part.role != "answer" or part.cell.kind != "code":
        return None
    return next((place for place in free if _defined(found[place]) & _defined(part.cell)), None)


def _by_look(part: Part, found: Sequence[Cell], free: Sequence[int]) -> int | None:
    """The most similar cell, if it is similar enough; not for checks, which come from the release anyway."""
    short = [place for place in free if len(found[place].source) <= LONGEST_COMPARED]
    if part.role == "check" or len(part.cell.source) > LONGEST_COMPARED or not short:
        return None
    compare = difflib.SequenceMatcher(a="", b=part.cell.source, autojunk=False)
    ratios = {}
    for place in short:
        compare.set_seq1(found[place].source)
        if compare.real_quick_ratio() >= ALIKE and compare.quick_ratio() >= ALIKE:
            ratios[place] = compare.ratio()
    best = max(ratios, key=lambda place: ratios[place], default=None)
    return best if best is not None and ratios[best] >= ALIKE else None


def _defined(cell: Cell) -> frozenset[str]:
    return _names_in(cell.source) if cell.kind == "code" else frozenset()


@functools.lru_cache(maxsize=4096)
def _names_in(source: str) -> frozenset[str]:
    """The names that a cell defines at its top level, also where it is no valid Python (yet)."""
    return frozenset(one or other for one, other in _DEFINED.findall(source))


def _same(cell: Cell, part: Part) -> bool:
    return cell.kind == part.cell.kind and _text(cell.source) == _text(part.cell.source)


def _text(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


# ---- in which order they run ----


def _in_order(found: Sequence[Cell], release: Release, owners: dict[int, int], notes: list[str]) -> Iterator[Placed]:
    """The release's order; what a learner added stays behind the cell that it stands behind."""
    own = {part: found[place] for place, part in owners.items()}
    added = _added(found, release, owners)
    yield from added.get(-1, [])
    for number, part in enumerate(release.parts):
        yield from _of_part(part, own.get(number), found, notes)
        yield from added.get(number, [])


def _added(found: Sequence[Cell], release: Release, owners: dict[int, int]) -> dict[int, list[Placed]]:
    """The learner's further cells of code, by the part of the release that they stand behind."""
    known = {_text(part.cell.source) for part in release.parts}  # pasted once more, or a stub beside its answer
    behind, added = -1, dict[int, list[Placed]]()
    for place, cell in enumerate(found):
        if place in owners:
            behind = owners[place]
        elif cell.kind == "code" and _text(cell.source) not in known and cell.source.strip():
            added.setdefault(behind, []).append(Placed(f"cell {place + 1}", cell.source))
    return added


def _of_part(part: Part, own: Cell | None, found: Sequence[Cell], notes: list[str]) -> Iterator[Placed]:
    name = str(part.cell.id)
    if part.cell.kind != "code":
        if own is None and part.role == "answer":
            notes.append(f"the text of {name!r} is missing")
        return
    release = Placed(name, part.cell.source, part.item)
    if part.role == "answer":
        if own is not None:
            yield dataclasses.replace(release, source=own.source)
        elif not any(_defined(part.cell) & _defined(cell) for cell in found):
            notes.append(f"the cell {name!r} was missing: it is as unanswered")
            yield release
        return
    if own is None:
        notes.append(f"the cell {name!r} was missing and was put back")
    changed = own is not None and not _same(own, part)
    if changed:
        notes.append(f"the cell {name!r} was changed: the release's own ran too")
    if own is None or not changed:
        yield release
    elif part.role == "check":  # there may be an answer in it
        yield from (Placed(f"{name}, as changed", own.source), release)
    else:
        yield from (release, Placed(f"{name}, as changed", own.source))


def _with_parts(placed: Sequence[Placed]) -> list[Placed]:
    following: str | None = None
    found = []
    for one in reversed(placed):
        following = one.item or following
        found.append(dataclasses.replace(one, part=following))
    return found[::-1]
