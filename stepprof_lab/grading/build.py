"""From one source a lab to what is handed out: ``python -m stepprof_lab.grading.build`` (``make labs``).

``solutions/NN-name/lab.py`` is a percent-format script. A cell's mark says what it is:

- ``# %% [markdown] id="why"``: text;
- ``# %% id="setup"``: code that stands as it is;
- ``# %% id="busy" grade="solution"``: the learner's cell; what is between ``### BEGIN SOLUTION`` and ``### END
  SOLUTION`` is taken out for them;
- ``# %% id="busy-check" grade="test" points=4``: a check;
- ``# %% id="record" grade="manual" points=2``: read by a person.

Made from it: the instructor's notebook beside the source, and below ``exercises/`` the notebook that nbgrader would
release and the same as a script. The same source gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import cells, items
from stepprof_lab.grading.cells import Cell

STUB = "...  # your code here"
"""What stands where a solution stood: it runs, at the top of a cell and as a function's body, and answers nothing."""

SOURCES, RELEASES = Path("solutions"), Path("exercises")

_GRADES = {
    None: {"grade": False, "solution": False, "locked": True},
    "solution": {"grade": False, "solution": True, "locked": False},
    "test": {"grade": True, "solution": False, "locked": True},
    "manual": {"grade": True, "solution": True, "locked": False},
}


def build(source: Path) -> dict[Path, str]:
    """All that is made from one lab's folder: paths from the project's root, and their text.

    Args:
        source: ``solutions/NN-name``.

    Raises:
        StepprofError: the source cannot be used; the line says which cell.
    """
    name = source.name
    found = cells.read(source / "lab.py")
    _check(found, name)
    notebook = _notebook(found)
    release = _released(notebook)
    return {
        SOURCES / name / f"{name}.ipynb": _as_text(notebook),
        RELEASES / name / f"{name}.ipynb": _as_text(release),
        RELEASES / name / f"{name}.py": as_script(cells.of_notebook(json.dumps(release))),
    }


def as_script(found: list[Cell]) -> str:
    """Cells as a percent-format script."""
    parts = []
    for cell in found:
        mark = "# %% [markdown]" if cell.kind == "markdown" else "# %%"
        body = cell.source
        if cell.kind == "markdown":
            body = "\n".join(f"# {line}".rstrip() for line in body.splitlines())
        parts.append(f'{mark} id="{cell.id}"\n{body}\n')
    return "\n".join(parts)


def _check(found: list[Cell], name: str) -> None:
    seen: set[str] = set()
    for cell in found:
        problem = None
        if cell.id is None or cell.id in seen:
            problem = "an id of its own for every cell"
        elif cell.options.get("grade") not in _GRADES:
            problem = "grade = solution, test or manual"
        elif cell.options.get("grade") in {"test", "manual"} and not isinstance(
            cell.options.get("points"), int | float
        ):
            problem = "points for what is graded"
        if problem:
            raise StepprofError(f"{name}/lab.py, the cell at line {cell.line}", problem, "mend the cell's mark")
        seen.add(str(cell.id))


def _notebook(found: list[Cell]) -> dict[str, Any]:
    return {
        "cells": [_cell(cell) for cell in found],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    grade = cell.options.get("grade")
    told: dict[str, Any] = {**_GRADES[grade], "grade_id": cell.id, "schema_version": 3, "task": False}
    if grade in {"test", "manual"}:
        told["points"] = cell.options["points"]
    made: dict[str, Any] = {
        "cell_type": cell.kind,
        # Jupytext and nbformat make random ids: committed notebooks would change at every build.
        "id": hashlib.sha256(str(cell.id).encode()).hexdigest()[:12],
        "metadata": {"nbgrader": told},
        "source": cell.source,
    }
    if cell.kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made


def _released(notebook: dict[str, Any]) -> dict[str, Any]:
    """What nbgrader's ``generate_assignment`` makes of it, by the same preprocessors, without its database."""
    import nbformat
    from nbgrader import preprocessors
    from traitlets.config import Config

    node: Any = nbformat.from_dict(json.loads(json.dumps(notebook)))
    resources: dict[str, Any] = {}
    config = Config({"ClearSolutions": {"code_stub": {"python": STUB}}})
    for kind in (
        preprocessors.LockCells,
        preprocessors.ClearSolutions,
        preprocessors.ClearOutput,
        preprocessors.CheckCellMetadata,
        preprocessors.ComputeChecksums,
        preprocessors.ClearHiddenTests,
        preprocessors.ClearMarkScheme,
        preprocessors.ComputeChecksums,
    ):
        node, resources = kind(config=config).preprocess(node, resources)
    found: dict[str, Any] = json.loads(nbformat.writes(node))
    return found


def _as_text(notebook: dict[str, Any]) -> str:
    """As nbformat writes it: sources in lines, keys in order, one space of indentation."""
    lined = {**notebook, "cells": [{**cell, "source": _lines(cell["source"])} for cell in notebook["cells"]]}
    return json.dumps(lined, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _lines(source: str | list[str]) -> list[str]:
    return (source if isinstance(source, str) else "".join(source)).splitlines(keepends=True)


def differing(root: Path, made: dict[Path, str]) -> list[Path]:
    """Which files are missing or are not what the source gives."""
    return [
        path
        for path, text in made.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str] | None = None) -> int:
    """Build every lab, or with ``--check`` say what is not up to date; 1 where something is not."""
    parser = argparse.ArgumentParser(prog="python -m stepprof_lab.grading.build", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's directory")
    asked = parser.parse_args(arguments)
    stale: list[Path] = []
    for source in sorted(path.parent for path in (asked.root / SOURCES).glob("*/lab.py")):
        items.lab(source.name)  # every lab has its checks
        made = build(source)
        for path in differing(asked.root, made):
            stale.append(path)
            if not asked.check:
                (asked.root / path).parent.mkdir(parents=True, exist_ok=True)
                (asked.root / path).write_text(made[path], encoding="utf-8")
    for path in stale:
        sys.stdout.write(f"{'out of date' if asked.check else 'made'}: {path}\n")
    return 1 if asked.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
