"""What a release says about its cells: which are graded, for how many points, and which item each check is about."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from stepprof_lab.errors import StepprofError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell, as nbgrader's metadata in the release have it.

    Args:
        name: its ``grade_id``.
        kind: "code" or "markdown".
        points: what it is worth; None where it is not graded.
        solution: whether learners write in it.
        locked: whether nbgrader puts its text back.
        item: that its check is about ("03/busy_ms"); None for all but checks. A graded cell without an item is read by
            a person.
        source: its text.
        checksum: nbgrader's, of text and metadata.
    """

    name: str
    kind: Literal["code", "markdown"]
    points: float | None
    solution: bool
    locked: bool
    item: str | None
    source: str
    checksum: str | None
    cell_id: str | None = None
    """The notebook format's own id."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Release:
    """One lab as it was handed out."""

    assignment: str
    kernelspec: str
    """As JSON."""
    cells: tuple[Cell, ...]
    digest: str
    """Of the notebook's bytes: 12 hexadecimal digits."""

    @property
    def graded(self) -> list[Cell]:
        """Checks, and what a person reads."""
        return [cell for cell in self.cells if cell.points is not None]

    def commented(self) -> Mapping[str, list[str]]:
        """By the name of each cell that learners write in: the items that are checked after it and before the next."""
        found: dict[str, list[str]] = {}
        for cell in self.cells:
            if cell.solution:
                found[cell.name] = []
            elif cell.item is not None and found:
                found[list(found)[-1]].append(cell.item)
        return found


def read(folder: Path, assignment: str) -> Release:
    """Read the release of an assignment.

    Args:
        folder: of the releases: ``folder/ASSIGNMENT/ASSIGNMENT.ipynb``.
        assignment: "03-nested-sums".

    Raises:
        StepprofError: it is not there, or is no release.
    """
    path = folder / assignment / f"{assignment}.ipynb"
    try:
        data = path.read_bytes()
        notebook = json.loads(data)
        cells = [_cell(one) for one in notebook["cells"] if one.get("metadata", {}).get("nbgrader", {}).get("grade_id")]
        kernelspec = json.dumps(notebook["metadata"].get("kernelspec", {}))
    except OSError as error:
        raise StepprofError(
            f"the release of {assignment!r} ({error.strerror or error})", "its notebook", "make it: `make labs`"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StepprofError(
            f"the release of {assignment!r}: {error!r}", "a notebook with nbgrader's metadata", "make it: `make labs`"
        ) from error
    digest = hashlib.sha256(data).hexdigest()[:12]
    return Release(assignment=assignment, kernelspec=kernelspec, cells=tuple(cells), digest=digest)


def _cell(found: Mapping[str, Any]) -> Cell:
    told = found["metadata"]["nbgrader"]
    source = found["source"] if isinstance(found["source"], str) else "".join(found["source"])
    is_check = bool(told["grade"] and not told["solution"])
    return Cell(
        name=told["grade_id"],
        kind="code" if found["cell_type"] == "code" else "markdown",
        points=float(told["points"]) if told["grade"] else None,
        solution=bool(told["solution"]),
        locked=bool(is_check or (told["locked"] and not told["solution"])),  # as `nbgrader.utils.is_locked` has it
        item=item_of(source, told["grade_id"]) if is_check else None,
        source=source,
        checksum=told.get("checksum"),
        cell_id=found.get("id"),
    )


def item_of(source: str, name: str) -> str:
    """The item that a check cell is about: the first argument of its one call of ``check``.

    Raises:
        StepprofError: there is no such call, or more than one.
    """
    try:
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except SyntaxError:
        calls = []
    found = [
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "check" and call.args
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    ]
    if len(found) != 1:
        raise StepprofError(
            f"check cell {name!r} with {len(found)} calls of `check`", "one, that names its item", "mend the lab"
        )
    return found[0]
