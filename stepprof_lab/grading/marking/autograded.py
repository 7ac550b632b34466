"""The copy of a submission that nbgrader's form grader opens, so that a person can read it and give points.

The cells are those of the release, with nbgrader's metadata from there; what the learner wrote stands in its places,
the cells that they added behind them. What the checks said stands below the checks. Nothing of it was run here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.cells import Cell
from stepprof_lab.grading.marking import feedback, matching, submissions
from stepprof_lab.grading.marking.result import Marked, Result


def write(result: Result, handed_in: Path | None, release: Path, folder: Path) -> Path:
    """Write ``folder/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb``; one of an earlier run is replaced, as a whole.

    Args:
        result: of the submission.
        handed_in: its file; None, or one that cannot be read, leaves the cells as they were released.
        release: the folder of the releases.
        folder: nbgrader's ``autograded``.

    Raises:
        StepprofError: the names are no folders', there is no such release, or it cannot be written.
    """
    if not feedback.is_name(result.student) or not feedback.is_name(result.assignment):
        raise StepprofError(f"student {result.student[:40]!r}", "a name of a folder", "rename the folder")
    place = folder / result.student / result.assignment
    text = json.dumps(_notebook(result, handed_in, release / result.assignment), indent=1, ensure_ascii=False)
    files.write_anew(place / f"{result.assignment}.ipynb", f"{text}\n".encode(), "copy for the form grader")
    if result.submitted:
        files.write_anew(place / submissions.TIMESTAMP, result.submitted.encode(), "time stamp")
    return place / f"{result.assignment}.ipynb"


def _notebook(result: Result, handed_in: Path | None, release: Path) -> dict[str, Any]:
    outline = matching.read_release(release)
    made: dict[str, Any] = json.loads((release / f"{release.name}.ipynb").read_text(encoding="utf-8"))
    found = _cells_of(handed_in, release.name)
    owners = matching.owners(found, outline)
    sources = {part: found[place].source for place, part in owners.items()}
    added = _added(found, owners)
    marked = {one.item: one for one in result.items}
    cells = list(added.get(-1, []))
    for number, (part, cell) in enumerate(zip(outline.parts, made["cells"], strict=True)):
        if part.role == "answer":
            cell["source"] = sources.get(number, cell["source"])
        if part.item in marked and part.cell.kind == "code":
            cell["outputs"] = [_output(marked[part.item])]
        cells += [cell, *added.get(number, [])]
    return {**made, "cells": cells}


def _cells_of(handed_in: Path | None, assignment: str) -> list[Cell]:
    if handed_in is None:
        return []
    try:
        return submissions.cells_of(*submissions.read(handed_in, assignment))
    except StepprofError:
        return []  # its result says so


def _added(found: list[Cell], owners: dict[int, int]) -> dict[int, list[dict[str, Any]]]:
    """The learner's further cells, by the part of the release that they stand behind."""
    behind, added = -1, dict[int, list[dict[str, Any]]]()
    for place, cell in enumerate(found):
        if place in owners:
            behind = owners[place]
        elif cell.source.strip():
            added.setdefault(behind, []).append(_cell(cell, f"added-{place + 1}"))
    return added


def _cell(cell: Cell, ident: str) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": cell.kind, "id": ident, "metadata": {}, "source": cell.source}
    return {**made, "execution_count": None, "outputs": []} if cell.kind == "code" else made


def _output(marked: Marked) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": "\n".join([*feedback.lines(marked), ""])}
