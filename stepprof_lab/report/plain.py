"""``name: value`` lines: one fact a line, stable names, no boxes, no colours; made to be heard or searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report.content import Series
from stepprof_lab.report.tables import cell_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepprof_lab.report.tables import Table


def lines(parts: Iterable[Table | Series]) -> Iterator[str]:
    """Every fact of the parts as one line."""
    for part in parts:
        if not isinstance(part, Series):
            yield from _of_table(part)


def _of_table(table: Table) -> Iterator[str]:
    prefix = f"{table.key}." if table.key else ""
    if table.is_pairs:
        for name, value in table.rows:
            yield f"{prefix}{slug(str(name))}: {value}"
        if not table.rows:
            yield f"{table.key}: none"
    else:
        if not table.rows:
            yield f"{table.key}: none"
        for number, row in enumerate(table.rows, 1):
            for column, cell in zip(table.columns, row, strict=True):
                yield f"{prefix}{number}.{column.key}: {cell_text(cell, column.kind)}"
    if table.rows and table.note:
        yield f"{prefix}note: {table.note}"


def slug(name: str) -> str:
    """A name as a key: lower case, no white space, and no colon that could be taken for the end of the name."""
    return "_".join(name.lower().replace(":", " ").split())
