"""Results on a terminal, drawn on the console that the caller gives.

Nothing in a result is markup: names are shown as data, and what the console's encoding cannot write is escaped.
Width, colour and boxes follow the console: none of it where the output is piped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from stepprof_lab.report import comparison, content, ranks, story, words
from stepprof_lab.report.content import Series
from stepprof_lab.report.drawing import longest_near
from stepprof_lab.report.plain import lines
from stepprof_lab.report.tables import Table, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.console import Console, JustifyMethod

    from stepprof_lab.record import Record
    from stepprof_lab.scenario import Scenario
    from stepprof_lab.trace.difference import Difference
    from stepprof_lab.trace.model import Analysis
    from stepprof_lab.trace.ranks_model import Ranks
    from stepprof_lab.validate.model import Validation

NAME_LENGTH = 60
INDENT = 2
BARS = " ▁▂▃▄▅▆▇█"
BARS_ASCII = " .:-=+*#@"
FAR_MARK = "^"


def show_analysis(analysis: Analysis, console: Console, *, record: Record | None = None, plain: bool = False) -> None:
    """Draw what one trace says; with its record, the approach too."""
    show(content.of_analysis(analysis, record), console, plain=plain)


def show_difference(difference: Difference, console: Console, *, plain: bool = False) -> None:
    """Draw what changed between two traces of the same thing."""
    show(comparison.of_difference(difference), console, plain=plain)


def show_ranks(read: Ranks, console: Console, *, plain: bool = False) -> None:
    """Draw what several ranks of one job say together."""
    show(ranks.of_ranks(read), console, plain=plain)


def show_validation(
    validation: Validation, console: Console, *, scenario: Scenario | None = None, plain: bool = False
) -> None:
    """Draw a verdict with what it was concluded from."""
    show(content.of_validation(validation, scenario), console, plain=plain)


def show_captured(record: Record, console: Console, *, trace: Path | None = None, plain: bool = False) -> None:
    """Draw what was captured and how to go on; ``trace`` is the path to name, by default the record's name."""
    show(content.of_capture(record, str(trace) if trace else None), console, plain=plain)


def show_diagnosis(diagnosis: Any, console: Console, *, plain: bool = False) -> None:
    """Draw what `stepprof_lab.doctor.examine` found."""
    from stepprof_lab.doctor import facts

    show(content.of_diagnosis(diagnosis, facts(diagnosis)), console, plain=plain)


def show_demo(demo: Any, console: Console, *, plain: bool = False) -> None:
    """Draw what the demo did, in the order of the way of working."""
    show(story.of_demo(demo), console, plain=plain)


def show(parts: Iterable[Table | Series], console: Console, *, plain: bool = False) -> None:
    """Draw parts in order: as lines of ``name: value``, or as a person with a screen reads them best."""
    if plain:
        _print_lines(lines(parts), console)
    elif console.is_terminal:
        _draw(parts, console)
    else:
        # Cells are padded to the right, which no file needs.
        with console.capture() as drawn:
            _draw(parts, console)
        _print_lines((line.rstrip() for line in drawn.get().rstrip("\n").split("\n")), console)


def _draw(parts: Iterable[Table | Series], console: Console) -> None:
    for n, part in enumerate(parts):
        if n and not isinstance(part, Series):
            console.print()
        if isinstance(part, Series):
            _draw_series(part, console)
        elif part.is_pairs:
            _draw_pairs(part, console)
        else:
            _draw_table(part, console)


def _print_lines(drawn: Iterable[str], console: Console) -> None:
    text = "\n".join(encodable(line, console.encoding) for line in drawn)
    console.out(text, highlight=False)


def encodable(text: str, encoding: str) -> str:
    """The text with what the encoding cannot write escaped, so that a name in any script never stops a report."""
    text = words.visible(text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        # Units and marks have a plain spelling; names become escapes, which lose nothing.
        for pretty, ascii_only in (("µs", "us"), ("✕", "x"), ("▼", "v"), ("▲", "^")):
            text = text.replace(pretty, ascii_only)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")
    return text


def _text(text: str, console: Console, style: str = "") -> Text:
    return Text(encodable(text, console.encoding), style=style, overflow="fold")


def _draw_title(title: str, console: Console) -> None:
    if title:
        console.print(_text(title, console, "bold"))


def _draw_pairs(table: Table, console: Console) -> None:
    _draw_title(table.title, console)
    grid = Grid.grid(padding=(0, 2, 0, 0))
    # A long name must leave room for its value on a narrow console.
    grid.add_column(max_width=max(2 * console.width // 5, 8), overflow="fold")
    grid.add_column(overflow="fold")
    for name, value in table.rows:
        grid.add_row(_text(str(name), console, "dim" if table.title else "bold"), _text(str(value), console))
    if not table.rows:
        grid.add_row(_text("none", console), "")
    console.print(Padding(grid, (0, 0, 0, INDENT if table.title else 0), expand=False))
    _draw_note(table, console)


def _draw_table(table: Table, console: Console) -> None:
    _draw_title(table.title, console)
    if not table.rows:
        console.print(_text("  none", console))
        return
    heads, rows = shown(table)
    heads = [encodable(head, console.encoding) for head in heads]
    names = words.shortened((row[0] for row in rows), NAME_LENGTH)
    rows = [[names[row[0]], *(words.shorten(cell, NAME_LENGTH) for cell in row[1:])] for row in rows]
    rows = [[encodable(cell, console.encoding) for cell in row] for row in rows]
    widths = _widths(list(zip(heads, *rows, strict=True)), console.width - INDENT)
    if widths is None:
        _draw_stacked(heads, rows, console)
    else:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
        for head, column, width in zip(heads, table.columns, widths, strict=True):
            side: JustifyMethod = "left" if column.kind == "text" else "right"
            grid.add_column(Text(head), justify=side, overflow="fold", vertical="bottom", width=width)
        for row in rows:
            grid.add_row(*(Text(cell, overflow="fold") for cell in row))
        console.print(Padding(grid, (0, 0, 0, INDENT), expand=False))
    _draw_note(table, console)


def _widths(columns: list[tuple[str, ...]], room: int) -> list[int] | None:
    """A width for each column so that no word but a row's name is broken; None where they do not fit.

    rich would rather crop the last column than say that there is no room for it.
    """
    least = [max(_longest_word(text) for text in column) for column in columns]
    least[0] = min(least[0], max(room // 4, 8))
    spare = room - sum(least) - 3 * (len(columns) - 1)
    if spare < 0:
        return None
    # A heading is folded before a cell is.
    for begin in (1, 0):
        for n, column in enumerate(columns):
            wanted = max(cell_len(text) for text in column[begin:]) - least[n]
            more = max(min(spare, wanted), 0)
            least[n] += more
            spare -= more
    return least


def _longest_word(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=1)


def _draw_stacked(heads: list[str], rows: list[list[str]], console: Console) -> None:
    """Where a table is too wide, each row becomes lines of heading and cell: nothing is cut off at the right."""
    for row in rows:
        console.print(Padding(Text(row[0], style="bold", overflow="fold"), (0, 0, 0, INDENT), expand=False))
        for head, cell in zip(heads[1:], row[1:], strict=True):
            line = Text(f"{head}: {cell}", overflow="fold")
            console.print(Padding(line, (0, 0, 0, 2 * INDENT), expand=False))


def _draw_note(table: Table, console: Console) -> None:
    if table.note and table.rows:
        console.print(Padding(_text(table.note, console, "dim"), (0, 0, 0, INDENT), expand=False))


def _draw_series(series: Series, console: Console) -> None:
    top = longest_near(series.values_us)
    line = sparkline(series.values_us, encodable(BARS, console.encoding) == BARS)
    width = max(console.width - 4, 8)
    scale = f"{series.title}, from 0 to {words.duration(top)}"
    far = sum(1 for value in series.values_us if value > top)
    if far:
        scale += f" ({FAR_MARK}: longer, up to {words.duration(max(series.values_us))})"
    rows = [line[start : start + width] for start in range(0, len(line), width)]
    for row in [f"{scale}:", *rows]:
        console.print(Padding(_text(row, console), (0, 0, 0, INDENT), expand=False))


def sparkline(values: Sequence[float], bars_can_be_written: bool = True) -> str:
    """One character a value, its height against the longest near one.

    A value above zero is never drawn as nothing, and a far one never as a bar.
    """
    bars = BARS if bars_can_be_written else BARS_ASCII
    top = longest_near(values)
    if top <= 0:
        return bars[0] * len(values)
    steps = len(bars) - 1

    def bar(value: float) -> str:
        if value > top:
            return FAR_MARK
        return bars[min(steps, max(1, round(value / top * steps))) if value > 0 else 0]

    return "".join(map(bar, values))
