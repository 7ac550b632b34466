"""What a copy for sharing hides and what it still tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.report import tables, words

if TYPE_CHECKING:
    from stepprof_lab.report.tables import Table
    from stepprof_lab.sharing import Replaced, Shared

SORTS = {"call": "runtime call", "event": "other event"}


def of_shared(shared: Shared) -> list[Table]:
    """The copy first, then what was replaced, what stays, what nobody could judge, and notes."""
    parts = [tables.pairs("", "", _head(shared)), replaced(shared), stays(shared)]
    if shared.unjudged:
        parts.append(unjudged(shared))
    if shared.notes:
        parts.append(tables.numbered("note", "Notes", shared.notes))
    return parts


def _head(shared: Shared) -> list[tuple[str, str]]:
    head = [("Trace", words.visible(shared.trace))]
    if shared.copy is not None:
        head.append(("Copy", words.visible(shared.copy)))
        head.append(("Record", words.visible(shared.record) if shared.record else "none lies beside the trace"))
    same = "the copy, read again, gives the same numbers and findings"
    differs = f"THE COPY GIVES OTHER NUMBERS: {', '.join(shared.differs)}; do not share it as this trace"
    head.append(("Checked", same if shared.same_numbers else differs))
    return head


def replaced(shared: Shared) -> Table:
    """Each kind with a few hints; a hint is never the whole text."""
    note = "Replaced by a number that means the same thing throughout the copy, or taken out."
    rows = [(one.kind, _replaced_words(one)) for one in shared.replaced]
    return tables.pairs("replaced", "Given away by the trace, not in the copy", rows, note)


def _replaced_words(one: Replaced) -> str:
    different = f", {one.distinct} different" if one.distinct > 1 else ""
    example = f"; for example {one.examples[0]}" if one.examples else ""
    return words.prose(f"{words.counted(one.count, 'time')}{different}: {one.what}{example}")


def stays(shared: Shared) -> Table:
    """What the copy tells."""
    rows = [(one.what, words.counted(one.count, "time")) for one in shared.stays]
    note = "Names stay where all of their words are public. --drop shapes and --drop stacks take these out."
    return tables.pairs("stays", "Still told by the copy", rows, note)


def unjudged(shared: Shared) -> Table:
    """How many names hold words that nobody could judge."""
    rows = [
        (f"{SORTS.get(sort, sort)} names", f"{words.counted(n, 'name')} with words that are not known to be public")
        for sort, n in shared.unjudged.items()
    ]
    note = "These words were replaced. At a terminal they are asked about; --keep labels (kernels, ...) keeps them."
    return tables.pairs("unjudged", "Could not be judged", rows, note)
