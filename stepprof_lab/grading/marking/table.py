"""One table of grades that Canvas and Moodle both take, from nbgrader's gradebook.

The columns are those of Canvas's own gradebook file: ``Student``, ``ID``, ``SIS User ID``, ``SIS Login ID``,
``Section`` and one for each assignment. Canvas finds a student by the first of ID, SIS User ID and SIS Login ID that
fits, and asks for the points of an assignment that it does not have yet. In Moodle (Grades, Import, CSV file) the
separator is the comma, "Map from" is ``SIS Login ID``, "Map to" is the user name, and each assignment's column is
mapped to its grade item.

Moodle refuses the whole file for one line whose student it does not find: that is why Canvas's line "Points Possible"
is left out, and why people who dropped the course have to be taken out. Both take ``-`` for no grade. (Read in Canvas's
``gradebook_importer.rb`` and in ``load_data.php`` of Moodle's CSV import; tried on neither.)

`nbgrader export` keeps working beside it, and has what this table leaves out: time stamps, due dates, penalties.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import database

COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
"""Before the assignments."""

NO_GRADE = "-"
"""Left empty, a cell of a new grade item would be no number to Moodle."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would calculate instead of showing it."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody's points in the assignments that were asked for."""

    text: str
    """As CSV."""
    left_out: list[str] = []
    """Submissions without a grade because a person still has to give points, as "ASSIGNMENT/STUDENT"."""


def of_gradebook(db_url: str, *, course: str, assignments: Sequence[str] = (), patience_s: float = 60.0) -> Table:
    """The table of a course's gradebook.

    `NO_GRADE` is no zero: nothing was handed in, or a person has not given all points yet.

    Args:
        db_url: SQLAlchemy's URL of the gradebook.
        course: nbgrader's ``CourseDirectory.course_id``.
        assignments: only these, in this order; all where it is empty.
        patience_s: how long a locked gradebook is waited for.

    Raises:
        StepprofError: the gradebook cannot be read, or lacks an assignment.
    """
    with database.opened(db_url, course, patience_s=patience_s, make=False) as gradebook:
        return database.in_one_transaction(gradebook, lambda: _made(gradebook, assignments), patience_s=patience_s)


def write(table: Table, path: Path) -> None:
    """Write it as a new file.

    Raises:
        StepprofError: the name is taken, or it cannot be written.
    """
    files.write_new(path, table.text.encode("utf-8-sig"), "table of grades")


def _made(gradebook: Any, assignments: Sequence[str]) -> Table:
    known = [one.name for one in gradebook.assignments]
    if missing := [one for one in assignments if one not in known]:
        raise StepprofError(
            f"assignment {missing[0]!r}", f"one of {', '.join(known) or 'none yet'}", "import its results first"
        )
    columns = list(assignments) or known
    points: dict[tuple[str, str], str] = {}
    left_out = []
    for name in columns:
        for submission in gradebook.assignment_submissions(name):
            if _is_open(submission):
                left_out.append(f"{name}/{submission.student_id}")
            else:
                score = max(0.0, submission.score - submission.late_submission_penalty)
                points[submission.student_id, name] = f"{round(score, 4):g}"
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow([*COLUMNS, *map(_shown, columns)])
    for student in sorted(gradebook.students, key=lambda one: str(one.id)):
        writer.writerow([*_who(student), *(points.get((student.id, name), NO_GRADE) for name in columns)])
    return Table(text=stream.getvalue(), left_out=sorted(left_out))


def _is_open(submission: Any) -> bool:
    """Whether some cell that is worth something has no points yet, neither automatic ones nor a person's."""
    return any(
        grade.needs_manual_grade and grade.manual_score is None and grade.max_score
        for notebook in submission.notebooks
        for grade in notebook.grades
    )


def _who(student: Any) -> list[str]:
    name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
    return [_shown(name), _shown(student.lms_user_id or ""), "", _shown(student.id), ""]


def _shown(text: str) -> str:
    """A text that no spreadsheet takes for a formula; a name so changed fits no account, and a person sees it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
