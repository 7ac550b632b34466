"""Submissions for tests: a lab's notebook with some of its cells replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepprof_lab.grading.marking import border, matching, result, sandbox
from stepprof_lab.grading.marking.job import Limits
from stepprof_lab.grading.marking.matching import Release
from stepprof_lab.grading.marking.result import Marked, Result
from stepprof_lab.grading.marking.sandbox import Sandbox
from stepprof_lab.grading.marking.submissions import Submission

ROOT = Path(__file__).resolve().parents[2]
LAB = "03-nested-sums"
SECRET = b"a secret of these tests"
LIMITS = Limits(seconds=60, memory_mb=2000, processes=40, file_mb=20, output_kb=20)


def release(name: str = LAB) -> Release:
    return matching.read_release(ROOT / "exercises" / name)


def notebook(name: str = LAB, *, solved: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / ("solutions" if solved else "exercises") / name / f"{name}.ipynb").read_text(encoding="utf-8")
    )
    return found


def name_of(cell: Mapping[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def with_cells(made: dict[str, Any], **sources: str) -> dict[str, Any]:
    """Replace cells by their names ("busy", "busy_check" for "busy-check"); a text in front of them: "+..."."""
    for cell in made["cells"]:
        told = sources.pop(name_of(cell).replace("-", "_"), None)
        if told is not None:
            own = "".join(cell["source"])
            cell["source"] = f"{told[1:]}\n{own}" if told.startswith("+") else told
    assert not sources, f"no such cells: {sources}"
    return made


def handed_in(folder: Path, made: dict[str, Any] | str, student: str = "ann", name: str = LAB) -> Submission:
    """Write it where nbgrader collects it."""
    path = folder / "submitted" / student / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made if isinstance(made, str) else json.dumps(made), encoding="utf-8")
    return Submission(student, name, path, result.key_of(path.read_bytes(), "1", SECRET))


def mark(
    submission: Submission,
    *,
    where: Sandbox | None = None,
    limits: Limits = LIMITS,
    of: Release | None = None,
    **more: Any,
) -> Result:
    return border.mark(
        submission,
        of or release(submission.assignment),
        sandbox=where or sandbox.Bubblewrap(),
        secret=SECRET,
        limits=limits,
        **more,
    )


def points(found: Result) -> dict[str, float | None]:
    return {one.item.partition("/")[2]: one.points for one in found.items}


def item(found: Result, name: str) -> Marked:
    return next(one for one in found.items if one.item.endswith(f"/{name}"))


FULL = {"prediction": 1.0, "elapsed_ms": 2.0, "total_ms": 2.0, "self_ms": 3.0, "busy_ms": 4.0, "table": 3.0}
"""What lab 03 is worth."""
