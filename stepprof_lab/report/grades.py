"""What a run of `stepprof grade` did, as a table or in lines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from stepprof_lab.grading.marking.gradebook import Imported
    from stepprof_lab.grading.marking.run import Row, Summary


def show(summary: Summary, imported: Imported | None, console: Console, *, plain: bool) -> None:
    """Show the table, what the gradebook took, and how many of each kind there are."""
    if plain or not console.is_terminal:
        for row in summary.rows:
            console.print(_line(row), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(_table(summary))
    for sentence in closing(summary, imported):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def closing(summary: Summary, imported: Imported | None) -> list[str]:
    """What stands below the table."""
    count = Counter(row.state for row in summary.rows)
    told = ", ".join(f"{number} {state}" for state, number in count.items()) or "nobody handed anything in"
    said = [f"{summary.assignment}: {told}"]
    if summary.sandbox == "none":
        said.append("These grades were made without a sandbox: what ran could read and write what you can.")
    if imported is not None:
        said.append(
            f"gradebook: {len(imported.written)} written, {len(imported.same)} as they were, "
            f"{len(imported.older)} older than what it has"
        )
        said += [f"not in the gradebook: {name}: {why}" for name, why in imported.refused.items()]
        if imported.for_a_person:
            said.append(f"a person has to look at: {', '.join(imported.for_a_person)}")
    return said


def _line(row: Row) -> str:
    points = "" if row.points is None else f" {row.points:g} of {row.of:g}"
    return f"{row.student}: {row.state}{points}{f' ({row.why})' if row.why else ''}"


def _table(summary: Summary) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("student", "state", "points", "why"):
        table.add_column(name, justify="right" if name == "points" else "left")
    for row in summary.rows:
        points = "" if row.points is None else f"{row.points:g} of {row.of:g}"
        table.add_row(*map(Text, (row.student, row.state, points, row.why)))  # names are data, never markup
    return table
