"""The pieces of a page: every text is escaped here, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report import tables, words
from stepprof_lab.report.drawing import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepprof_lab.report.tables import Table


TABLE = 200_000
"""Characters of a table's cells on a page; what follows is left out, with a word."""
CELL = 2000
"""Characters of a cell, and of a value; longer ones are cut."""
DEFINITIONS = 300
"""Names and values of one list, likewise."""


def paragraph(text: str, class_: str = "") -> str:
    """A paragraph of text."""
    return f"<p{_class(class_)}>{safe(text)}</p>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def section(ident: str, heading: str, parts: Iterable[str]) -> str:
    """A section with its heading; its parts are markup already."""
    title = f'<h2 id="{ident}-h">{safe(heading)}</h2>'
    return f'<section id="{ident}" aria-labelledby="{ident}-h">{title}{"".join(parts)}</section>'


def definitions(rows: Iterable[Sequence[tables.Cell]]) -> str:
    """Names and values as a list of definitions."""
    given = [[words.shorten(str(cell), CELL) for cell in row[:2]] for row in rows]
    items = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in given[:DEFINITIONS])
    more = paragraph(f"{words.counted(len(given) - DEFINITIONS, 'further value')} in the JSON only.", "note")
    return f"<dl>{items}</dl>{more if len(given) > DEFINITIONS else ''}" if items else paragraph("none", "soft")


def facts(table: Table) -> str:
    """A table of names and values under its own small heading."""
    return f"<h3>{safe(table.title)}</h3>{definitions(table.rows)}"


def table(table: Table) -> str:
    """A table with its caption, in a frame that scrolls by keyboard where it is too wide."""
    if not table.rows:
        return f"<h3>{safe(table.title)}</h3>{paragraph('none', 'soft')}"
    heads, cells = tables.shown(table)
    rows, left_out = _fitting(cells)
    kinds = ["n" if column.kind != "text" else "" for column in table.columns]
    head = "".join(f'<th scope="col"{_class(kind)}>{safe(text)}</th>' for text, kind in zip(heads, kinds, strict=True))
    body = "".join(f"<tr>{_row(row, kinds)}</tr>" for row in rows)
    named = f"<caption>{safe(table.title)}</caption>"
    said = [table.note] if table.note else []
    if left_out:
        said.append(f"{words.counted(left_out, 'further row')} with long names in the JSON only.")
    note = paragraph(" ".join(said), "note") if said else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{safe(table.title)}">'
        f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def _fitting(cells: Sequence[Sequence[str]]) -> tuple[list[list[str]], int]:
    """The first rows, as many as a page has room for, with long cells cut; and how many follow."""
    rows: list[list[str]] = []
    room = TABLE
    for given in cells:
        row = [words.shorten(cell, CELL) for cell in given]
        room -= sum(map(len, row))
        if room < 0 and rows:
            break
        rows.append(row)
    return rows, len(cells) - len(rows)


def _row(row: Sequence[str], kinds: Sequence[str]) -> str:
    first = f'<th scope="row"{_class(kinds[0])}>{safe(row[0])}</th>'
    return first + "".join(
        f"<td{_class(kind)}>{safe(text)}</td>" for text, kind in zip(row[1:], kinds[1:], strict=True)
    )


def folded(summary: str, parts: Iterable[str]) -> str:
    """Details that are opened on demand, and printed in full."""
    return f'<details><summary>{safe(summary)}</summary><div class="folded">{"".join(parts)}</div></details>'


def figure(svg: str, caption: str) -> str:
    """A picture with its caption; it keeps its size and scrolls where there is no room."""
    return (
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="{safe(caption)}">{svg}</div>'
        f"<figcaption>{safe(caption)}</figcaption></figure>"
    )


def card(title: str, big: str, small: str, class_: str = "") -> str:
    """One key number or word, large."""
    big, small = words.shorten(big, CELL), words.shorten(small, CELL)
    return (
        f'<div class="card {class_}"><p class="kicker">{safe(title)}</p>'
        f'<p class="big">{safe(big)}</p><p class="soft">{safe(small)}</p></div>'
    )


def bar(name: str, share: float, value: str) -> str:
    """One bar with its name and value; ``share`` (0 to 1) is how much of the track it fills."""
    filled = f'<span class="track"><i style="width:{100 * share:.2f}%"></i></span>'
    return f'<div><span>{safe(name)}</span>{filled}<span class="value">{safe(value)}</span></div>'


def listed(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return f"<ul>{''.join(f'<li>{safe(words.shorten(sentence, CELL))}</li>' for sentence in sentences)}</ul>"
