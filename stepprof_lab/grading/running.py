"""Running a lab's file from its first cell to its last, in a process of its own, and taking its verdicts.

One executor for ``stepprof check`` and for tests. A cell that raises is told and the next one runs, as in a notebook
that somebody works through; magics and top-level ``await`` work where IPython is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import cells, items
from stepprof_lab.grading.check import VERDICTS_VARIABLE
from stepprof_lab.grading.model import Verdict


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that raised."""

    cell: str
    """Its id, or its number."""
    error: str


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What running a lab's file gave."""

    file: str
    verdicts: list[Verdict]
    """The last one of each item, in the order of the file."""
    failed: list[Failed]
    finished: bool
    """Whether the last cell was reached."""
    unchecked: list[str] = []
    """Items of the lab whose check did not run: its cell is missing, or stopped. They are worth points."""
    output: str = ""
    """What the cells printed."""


def run(path: Path, *, timeout_s: float = 600.0, cell_timeout_s: float | None = None) -> Ran:
    """Run a lab's notebook or script in a child process.

    Args:
        path: ``.ipynb`` or ``.py``.
        timeout_s: for the whole file.
        cell_timeout_s: for each cell; None for no limit of its own.

    Raises:
        StepprofError: the file cannot be read, or holds no code.
    """
    found = [one for one in cells.read(path) if one.kind == "code"]
    if not found:
        raise StepprofError(f"{path.name!r} without a cell of code", "a lab's notebook or script", "check the file")
    with tempfile.TemporaryDirectory(prefix="stepprof-check-") as directory:
        work = Path(directory)
        script = [{"id": one.id or f"cell {one.line}", "source": one.source} for one in found]
        (work / "cells.json").write_text(json.dumps(script), encoding="utf-8")
        output, finished = _child(work, path.parent.resolve(), timeout_s, cell_timeout_s)
        verdicts = _last_of_each(work / "verdicts.jsonl")
        return Ran(
            file=path.name,
            verdicts=verdicts,
            unchecked=_unchecked(verdicts),
            failed=_failed(work / "failed.jsonl", finished, output),
            finished=finished,
            output=output,
        )


def _child(work: Path, directory: Path, timeout_s: float, cell_timeout_s: float | None) -> tuple[str, bool]:
    command = [sys.executable, "-m", "stepprof_lab.grading.run_cells", str(work), str(cell_timeout_s or 0)]
    environment = {**os.environ, VERDICTS_VARIABLE: str(work / "verdicts.jsonl"), "MPLBACKEND": "Agg"}
    with (work / "output.txt").open("wb") as stream:
        try:
            subprocess.run(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            stream.write(f"\nstopped after {timeout_s:g} s\n".encode())
    output = (work / "output.txt").read_text(encoding="utf-8", errors="replace")
    return output, (work / "finished").exists()


def _last_of_each(path: Path) -> list[Verdict]:
    found: dict[str, Verdict] = {}
    for line in path.read_bytes().splitlines() if path.exists() else []:
        verdict = msgspec.json.decode(line, type=Verdict)
        found.pop(verdict.item, None)
        found[verdict.item] = verdict
    return list(found.values())


def _failed(path: Path, finished: bool, output: str) -> list[Failed]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [msgspec.json.decode(line, type=Failed) for line in lines]
    if not finished:
        last = output.strip().splitlines()[-1:] or ["no output"]
        found.append(Failed(cell="the process", error=f"ended before the last cell: {last[0][:300]}"))
    return found


def _unchecked(verdicts: list[Verdict]) -> list[str]:
    """What the labs of these verdicts ask for beside them: a check that an editor lost must not be lost silently."""
    seen = {one.item for one in verdicts}
    labs = sorted({one.split("/")[0] for one in seen})
    return [item.id for number in labs for item in items.lab(number).items if item.id not in seen]


def as_json(ran: Ran) -> dict[str, Any]:
    """The result as ``stepprof check --json`` prints it."""
    points = sum(one.points for one in ran.verdicts)
    found: dict[str, Any] = msgspec.to_builtins(ran)
    return {**found, "points": points, "of": worth(ran)}


def worth(ran: Ran) -> float:
    """What all items are worth, those that were not checked too."""
    return sum(one.of for one in ran.verdicts) + sum(items.item(one).points for one in ran.unchecked)


def missing(ran: Ran) -> tuple[str, str, str] | None:
    """What is missing to every point, as an error says it: given, expected, what to do next; None where nothing is."""
    if not ran.verdicts:
        return f"{ran.file!r} without a check that ran", "a lab's notebook or script", "run its cells to see why"
    open_items = [one.item for one in ran.verdicts if not one.passed]
    if open_items:
        return (
            f"{ran.file!r} with {len(open_items)} of {len(ran.verdicts)} checks not passed ({', '.join(open_items)})",
            "every check passed",
            "read the hints above, and check again",
        )
    if ran.unchecked:
        return (
            f"{ran.file!r}, in which no check ran for {', '.join(ran.unchecked)}",
            "a check of every item",
            "put the missing cells back from the exercise",
        )
    if ran.failed:
        return f"{ran.file!r}, whose {ran.failed[0].cell} stopped ({ran.failed[0].error})", "cells that run", "mend it"
    return None
