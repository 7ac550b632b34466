"""A lab's cells, from a notebook or from a percent-format script, whichever the learner works in."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Literal

from stepprof_lab.errors import StepprofError

MOST_BYTES = 20_000_000
"""A notebook beyond this is not read: a lab's own has less than 100 kB."""

_MARK = re.compile(r"^# ?%%(?P<rest>.*)$")
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\{.*\}|[\w.+-]+)')


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        kind: "code" or "markdown".
        source: its text.
        id: the cell's name in its lab; None where the file has lost it.
        line: where it begins in a script; its number in a notebook.
        options: what stands on a script's mark beside the id.
    """

    kind: Literal["code", "markdown"]
    source: str
    id: str | None = None
    line: int = 0
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


def read(path: Path) -> list[Cell]:
    """The cells of a ``.ipynb`` or ``.py`` file.

    Raises:
        StepprofError: it cannot be read, is too large, or is neither.
    """
    if path.suffix not in {".ipynb", ".py"}:
        raise StepprofError(f"{path.name!r}", "a notebook (.ipynb) or a script (.py) of a lab", "name the lab's file")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StepprofError(
                f"{path.name!r} with {path.stat().st_size:,} bytes", f"at most {MOST_BYTES:,}", "clear it"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StepprofError(f"{str(path)!r} ({error.strerror or error})", "a file to read", "check the path") from error
    except UnicodeDecodeError as error:
        raise StepprofError(f"{path.name!r}, which is no UTF-8 text", "a lab's file", "check the path") from error
    return of_notebook(text, path.name) if path.suffix == ".ipynb" else of_script(text)


def of_notebook(text: str, name: str = "notebook") -> list[Cell]:
    """The cells of a notebook's JSON.

    Raises:
        StepprofError: it is no notebook.
    """
    try:
        found = json.loads(text)
        return [_of_json(cell, number) for number, cell in enumerate(found["cells"], 1) if cell["cell_type"] != "raw"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StepprofError(f"{name!r}, which is no notebook", "JSON with cells", "check the file") from error


def _of_json(cell: dict[str, Any], number: int) -> Cell:
    source = cell["source"]
    ident = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id") or cell.get("id")
    return Cell(
        "code" if cell["cell_type"] == "code" else "markdown",
        source if isinstance(source, str) else "".join(source),
        ident if isinstance(ident, str) else None,
        number,
    )


def of_script(text: str) -> list[Cell]:
    """The cells of a percent-format script; what stands before the first mark is a cell too, if it is code."""
    cells: list[Cell] = []
    kind: Literal["code", "markdown"] = "code"
    options: dict[str, Any] = {}
    begin, body = 1, list[str]()

    def end() -> None:
        source = "\n".join(body).strip("\n")
        if kind == "markdown":
            source = "\n".join(re.sub(r"^# ?", "", line) for line in source.splitlines())
        # The header of a script may be comments alone (jupytext's, a licence): no cell.
        if options or any(line.strip() and not line.startswith("#") for line in body) or (cells and source):
            cells.append(Cell(kind, source, options.pop("id", None), begin, dict(options)))

    for number, line in enumerate(text.splitlines(), 1):
        if (found := _MARK.match(line)) is None:
            body.append(line)
            continue
        end()
        kind = "markdown" if "[markdown]" in found["rest"] else "code"
        options = {key: _value(value) for key, value in _PAIR.findall(found["rest"])}
        begin, body = number, []
    end()
    return cells


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
