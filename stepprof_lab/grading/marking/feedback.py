"""What a learner gets back: one self-contained page a submission, in the tree that nbgrader hands out.

It is made from verdicts alone, and of them only what a learner may see. Their code ran on hidden cases, and may have
put what it saw there into an error's message: of an error only the name of its kind is told, and other texts are cut.
"""

from __future__ import annotations

import builtins
import html
import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import catalogue
from stepprof_lab.grading.marking.result import Ending, Marked, Result
from stepprof_lab.grading.model import Said, Verdict
from stepprof_lab.report import markup
from stepprof_lab.report import verdict as shown

LONGEST_NAME = 128
"""Characters of a student's name in nbgrader's tables."""

LONGEST_TEXT = 120
"""Characters of a text that did not come from the catalogue."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_JOINERS = str.maketrans("", "", "\u200c\u200d")  # several scripts write names with them
_IN_NAMES = r"[^\\/\s'\"`<>|:;,()\[\]{}]"
_PATH = re.compile(rf"(?<![\w/\\.~])(?:[A-Za-z]:|~\w*|\.{{1,2}})?(?:[\\/]{_IN_NAMES}+)*[\\/](?={_IN_NAMES})")
_ERROR = re.compile(r"[A-Za-z]{1,40}")


def is_name(student: str) -> bool:
    """Whether a student's name can be a folder's, and can stand in the gradebook."""
    return (
        0 < len(student) <= LONGEST_NAME
        and student.translate(_JOINERS).isprintable()
        and student not in {".", ".."}
        and not set(student) & set("/\\")
    )


def write(result: Result, folder: Path) -> Path:
    """Write the page as ``folder/STUDENT/ASSIGNMENT/ASSIGNMENT.html``; one of an earlier run is replaced, as a whole.

    Raises:
        StepprofError: the names are no folders', or the page cannot be written.
    """
    if not is_name(result.student) or not is_name(result.assignment):
        raise StepprofError(
            f"student {result.student[:40]!r} of {result.assignment[:40]!r}", "names of folders", "rename the folder"
        )
    path = folder / result.student / result.assignment / f"{result.assignment}.html"
    files.write_anew(path, page(result).encode("utf-8"), "feedback")
    return path


def page(result: Result) -> str:
    """The page of one submission."""
    number = result.assignment.split("-")[0]
    lab = _clean(catalogue.find(f"{number}.title") or result.assignment)
    title = catalogue.text("feedback.title", lab=lab)
    style = resources.files("stepprof_lab.report").joinpath("page.css").read_text(encoding="utf-8")
    body = [
        f"<header><h1>{html.escape(title)}</h1>{_facts(result)}</header><main>",
        *(_section(one) for one in result.items),
        _whole(result),
        "</main>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body>{''.join(body)}</body></html>\n"
    )


def lines(marked: Marked) -> list[str]:
    """One item in lines of text: its points, and what is said about it."""
    verdict = _told(marked)
    if verdict is None:
        return [f"{marked.item}: {catalogue.text('feedback.no_points')}", ending_in_words(marked.ending)]
    return [line for line in shown.lines(msgspec.structs.replace(verdict, picture=None)) if line] + _undecided(verdict)


def ending_in_words(ending: Ending) -> str:
    """How it ended, for the learner; empty where there is a verdict."""
    if ending.how == "graded":
        return ""
    where = catalogue.text("feedback.cell", where=_clean(ending.where)) if ending.where else ""
    why = catalogue.text("feedback.why", why=_clean(_why(ending))) if ending.why else ""
    return catalogue.text(f"feedback.how.{ending.how.replace(' ', '_')}", where=where, why=why)


def _why(ending: Ending) -> str:
    """Its reason, without what the learner's own code wrote into it."""
    if ending.how == "cell failed" or ending.why.startswith("MemoryError"):
        return _kind_of_error(ending.why)
    return ending.why.split(" (")[0] if ending.how == "crashed" else ending.why  # a forged line is quoted in brackets


def _facts(result: Result) -> str:
    points = [one.points for one in result.items]
    rows = [
        (catalogue.text("feedback.assignment"), result.assignment),
        (catalogue.text("feedback.learner"), result.student),
        (catalogue.text("feedback.submitted"), result.submitted or catalogue.text("feedback.unknown_time")),
        (
            catalogue.text("feedback.points"),
            catalogue.text(
                "feedback.sum", points=sum(each or 0.0 for each in points), of=sum(one.of for one in result.items)
            ),
        ),
    ]
    notes = [catalogue.text("feedback.manual")]
    if left := points.count(None):
        notes.append(catalogue.text("feedback.open", count=left))
    if result.sandbox == "none":
        notes.append(catalogue.text("feedback.no_sandbox"))
    return markup.definitions(rows) + "".join(markup.paragraph(note, "soft") for note in notes)


def _whole(result: Result) -> str:
    """How the whole submission ended, where no item says it."""
    said = "" if result.items else ending_in_words(result.ending)
    return f"<section>{_code(said)}</section>" if said else ""


def _section(marked: Marked) -> str:
    verdict = _told(marked)
    if verdict is not None:
        return f"<section>{shown.as_html(verdict)}{''.join(map(_code, _undecided(verdict)))}</section>"
    head = f"<p><strong>{html.escape(_clean(marked.item))}: {catalogue.text('feedback.no_points')}</strong></p>"
    return f"<section>{head}{_code(ending_in_words(marked.ending))}</section>"


def _code(sentence: str) -> str:
    parts = html.escape(sentence).split("`")
    return f"<p>{''.join(f'<code>{part}</code>' if n % 2 else part for n, part in enumerate(parts))}</p>"


def _undecided(verdict: Verdict) -> list[str]:
    return [catalogue.text("feedback.undecided")] if verdict.undecided else []


def _told(marked: Marked) -> Verdict | None:
    """The verdict without what a learner must not see."""
    if marked.verdict is None:
        return None
    said = [Said(key=one.key, values=_values(one)) for one in marked.verdict.said]
    can_be_said = [one for one in said if _can_be_said(one)]
    if len(can_be_said) < len(said):
        can_be_said.append(Said(key="common.unknown.seen"))
    return msgspec.structs.replace(marked.verdict, said=can_be_said, hidden=0)


def _values(said: Said) -> dict[str, Any]:
    if said.key == "common.error":
        return {"error": _kind_of_error(str(said.values.get("error", "")))}
    return {name: _clean(value) if isinstance(value, str) else value for name, value in said.values.items()}


def _can_be_said(said: Said) -> bool:
    try:
        catalogue.sentence(said)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        return False
    return True


def _kind_of_error(text: str) -> str:
    """Python's own name of an error's kind, and nothing else of its text."""
    found = _ERROR.match(text)
    kind = getattr(builtins, found[0], None) if found else None
    is_error = isinstance(kind, type) and issubclass(kind, BaseException)
    return found[0] if found and is_error else catalogue.text("feedback.own_error")


def _clean(text: str) -> str:
    """One line without folders, not too long."""
    line = _PATH.sub("", " ".join(text[: 4 * LONGEST_TEXT].split()))
    return line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]} ..."
