"""The one writer of nbgrader's gradebook: what the workers' results say, and what `nbgrader autograde` would keep.

The same results again leave the same content. What a person has entered (points, extra credit, comments, extensions,
due dates) is read and never written. As in nbgrader, a person's points stand until that person changes them; where
what they were given for has changed, the cell asks to be looked at again.

What is written for a cell is told by its points and by its automatic comment, which names the submission: where both
are what the gradebook has, nothing of that cell is touched. The method of penalties is that of nbgrader's
``AssignLatePenalties``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import database, feedback
from stepprof_lab.grading.marking import release as releases
from stepprof_lab.grading.marking import result as results_of
from stepprof_lab.grading.marking.release import Cell, Release
from stepprof_lab.grading.marking.result import Ending, Marked, Result

PATIENCE_S = 60.0
"""How long a locked gradebook, or another import, is waited for."""

NOT_RUN = frozenset({"crashed", "timed out", "out of memory", "not reached", "unreadable"})
"""Endings after which a person should look: no points, and nobody has seen the answer."""

_Age = tuple[dt.datetime, str]
"""When it was handed in, and when it was graded."""


class Penalty(Protocol):
    """nbgrader's ``LateSubmissionPlugin``, or a site's own."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points taken away; None for none."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What one import did; students' names, each with its assignment before it ("03-nested-sums/ada")."""

    written: list[str] = []
    """Something of them was new."""
    same: list[str] = []
    """The gradebook had it all."""
    older: list[str] = []
    """Left alone: the gradebook has a newer submission."""
    refused: dict[str, str] = {}
    """Why, in one line each; a file that is no result stands by its own name."""
    for_a_person: list[str] = []
    """A person has to give points, or to look: cells that are worth something and have none, or had another answer."""


def import_results(
    files: Iterable[Path],
    db_url: str,
    release: Path,
    *,
    course: str,
    penalty: Penalty | None = None,
    patience_s: float = PATIENCE_S,
    told: Callable[[str], None] = lambda _: None,
) -> Imported:
    """Write results to a gradebook, one transaction a submission: of several of one student, the newest.

    Args:
        files: that `result.keep` wrote.
        db_url: SQLAlchemy's URL of the gradebook; made where there is none.
        release: the folder of the releases; an assignment that the gradebook lacks is made from there, as ``nbgrader
            generate_assignment`` would.
        course: nbgrader's ``CourseDirectory.course_id``.
        penalty: for late submissions; nbgrader's own by default, which takes nothing.
        patience_s: how long a locked gradebook is waited for.
        told: called after each submission that is kept, with its name.

    Raises:
        StepprofError: the gradebook cannot be written, is another course's, or has another version of a lab. What was
            written until then stays.
    """
    chosen, refused = newest(files)
    found = Imported(refused=refused)
    with database.opened(db_url, course, patience_s=patience_s) as gradebook:
        rule = penalty or penalty_of(None)
        for assignment in sorted({one.assignment for one in chosen}):
            handed_out = releases.read(release, assignment)
            made = _Assignment(gradebook, handed_out, course, rule)
            database.in_one_transaction(gradebook, made.make, patience_s=patience_s)
            for one in chosen:
                if one.assignment == assignment:
                    _import(made, one, found, patience_s)
                    told(_name(one))
    return found


def newest(files: Iterable[Path]) -> tuple[list[Result], dict[str, str]]:
    """Of each student and assignment the newest result, by time of submission, then by when it was made.

    Returns:
        The results in the order of assignments and students, and files that are none, each with the reason.
    """
    chosen: dict[tuple[str, str], tuple[Result, _Age]] = {}
    refused: dict[str, str] = {}
    for path in sorted(files):
        found = _read(path)
        if isinstance(found, StepprofError):
            refused[path.name] = str(found)
            continue
        one, age = found
        before = chosen.get((one.assignment, one.student))
        if before is None or before[1] < age:
            chosen[one.assignment, one.student] = one, age
    return [one for _, (one, _) in sorted(chosen.items())], refused


def _read(path: Path) -> tuple[Result, _Age] | StepprofError:
    try:
        one = results_of.read(path)
        return one, (_time(one) or dt.datetime.min, one.made)  # noqa: DTZ901 - naive UTC, as nbgrader's
    except StepprofError as error:
        return error


def penalty_of(config: Path | None) -> Penalty:
    """The penalty for late submissions that a course's ``nbgrader_config.py`` chooses; nbgrader's own without one.

    Raises:
        StepprofError: the file cannot be run.
    """
    try:
        from nbgrader.preprocessors import AssignLatePenalties
        from traitlets.config import Config, PyFileConfigLoader
    except ImportError as error:
        raise NotAvailable("no nbgrader here", "nbgrader", "install stepprof-lab[lab]") from error
    try:
        loaded = PyFileConfigLoader(config.name, str(config.parent)).load_config() if config else Config()
        chooser = AssignLatePenalties(config=loaded)
        chooser.init_plugin()
    except Exception as error:  # a configuration is code, and may raise anything
        raise StepprofError(
            f"{config.name if config else 'nbgrader'}: {' '.join(str(error).split())[:300]}",
            "a configuration that nbgrader takes",
            "mend it",
        ) from error
    found: Penalty = chooser.plugin_inst
    return found


def _time(one: Result) -> dt.datetime | None:
    """When it was handed in, as nbgrader reads its time stamps: naive UTC."""
    from nbgrader.utils import parse_utc

    try:
        found: dt.datetime | None = parse_utc(one.submitted)
    except (ValueError, OverflowError) as error:
        raise StepprofError(
            f"{_name(one)}: the time stamp {one.submitted!r}", "a date and a time", "mend its timestamp.txt"
        ) from error
    return found


def _name(one: Result) -> str:
    return f"{one.assignment}/{one.student}"


def _import(made: _Assignment, one: Result, found: Imported, patience_s: float) -> None:
    """Write one submission, and note in ``found`` what that did."""
    name = _name(one)
    try:
        wanted = _wanted(one, made.release)
    except StepprofError as error:
        found.refused[name] = str(error)
        return
    outcome = database.in_one_transaction(made.gradebook, lambda: made.write(one, wanted), patience_s=patience_s)
    {"written": found.written, "same": found.same, "older": found.older}[outcome.how].append(name)
    if outcome.for_a_person:
        found.for_a_person.append(name)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """What a result says about a graded cell."""

    auto_score: float | None
    look: bool
    """Whether a person has to look at it."""


def _wanted(one: Result, release: Release) -> dict[str, _Wanted]:
    """By the name of each graded cell: what the result says.

    Raises:
        StepprofError: the result is of another version of the lab, or the name is none that a gradebook can hold.
    """
    if not feedback.is_name(one.student):
        raise StepprofError(f"student {one.student[:40]!r}", "a folder's name, not too long", "rename the folder")
    marked = {each.item: each for each in one.items}
    if one.ending.how == "unreadable":
        marked = {cell.item: _unreadable(cell, one.ending) for cell in release.graded if cell.item}
    checks = {cell.item: cell.points for cell in release.graded if cell.item}
    if {item: each.of for item, each in marked.items()} != checks:
        raise StepprofError(
            f"{_name(one)}: a result of another version of the lab", "the items and points of the release", "regrade it"
        )
    return {cell.name: _of_cell(cell, marked, one) for cell in release.graded}


def _unreadable(cell: Cell, ending: Ending) -> Marked:
    return Marked(item=str(cell.item), of=cell.points or 0.0, ending=ending)


def _of_cell(cell: Cell, marked: Mapping[str, Marked], one: Result) -> _Wanted:
    if cell.item is None:
        return _Wanted(None, look=True)  # a person reads it
    found = marked[cell.item]
    if found.points is not None and not 0 <= found.points <= found.of:
        raise StepprofError(
            f"{_name(one)}: {found.points:g} points for {cell.item}", f"0 to {found.of:g}", "grade it again"
        )
    return _Wanted(found.points, look=found.points is None or found.ending.how in NOT_RUN)


def comments_of(one: Result, release: Release) -> dict[str, str]:
    """By the name of each cell that learners write in: the automatic comment, for the grader and for the learner."""
    marked = {each.item: each for each in one.items}
    source = f"(submission {one.key}{', graded without a sandbox' if one.sandbox == 'none' else ''})"
    found = {}
    for name, asked in release.commented().items():
        several = [marked.get(item) or Marked(item=item, of=0.0, ending=one.ending) for item in asked]
        said = [line for each in several for line in feedback.lines(each)]
        found[name] = html.escape("\n".join([*said, source]), quote=False)  # nbgrader shows it as Markdown
    return found


@dataclasses.dataclass(frozen=True)
class _Outcome:
    how: str
    for_a_person: bool = False


class _Assignment:
    """One assignment of an open gradebook. Its methods find their objects anew: a transaction may be done twice."""

    def __init__(self, gradebook: Any, release: Release, course: str, penalty: Penalty) -> None:
        self.gradebook = gradebook
        self.release = release
        self._db = gradebook.db
        self._course = course
        self._penalty = penalty
        self._comment_of = {item: name for name, items in release.commented().items() for item in items}

    def make(self) -> None:
        """Make the assignment, its notebook and cells where they are missing.

        Raises:
            StepprofError: it is another course's, or its graded cells are not those of the release.
        """
        from nbgrader import api

        name = self.release.assignment
        found = self._db.query(api.Assignment).filter_by(name=name).one_or_none()
        if found is None:
            found = api.Assignment(name=name, course_id=self._course)
            self._db.add(found)
        elif found.course_id != self._course:
            raise StepprofError(
                f"{name!r} of the course {found.course_id!r} in the gradebook", f"of {self._course!r}", "check the URL"
            )
        if not found.notebooks:
            notebook = api.Notebook(name=name, assignment=found, kernelspec=self.release.kernelspec)
            self._db.add_all([notebook, *_cells(notebook, self.release)])
        elif not self._is_this_version(found):
            raise StepprofError(
                f"another version of {name!r} in the gradebook: other cells, or other points",
                "that of the release",
                f"run `nbgrader generate_assignment {name}`, or grade into another gradebook",
            )

    def write(self, one: Result, wanted: Mapping[str, _Wanted]) -> _Outcome:
        """Write one submission."""
        submission = self._submission(one.student)
        is_new = submission.id is None
        time = _time(one)
        if time and submission.timestamp and time < submission.timestamp:
            return _Outcome("older")
        changes = [is_new, bool(time) and _put(submission, "timestamp", time)]
        self._db.flush()
        (notebook,) = submission.notebooks
        commented = self._comment(notebook, comments_of(one, self.release))
        changes += commented.values()
        grades = self._grades(notebook)
        changes += [self._grade(grades[cell.name], wanted[cell.name], cell, commented) for cell in self.release.graded]
        changes.append(self._take_away(submission, notebook))
        look = any(grades[cell.name].needs_manual_grade for cell in self.release.graded if cell.points)
        return _Outcome("written" if any(changes) else "same", look)

    def _is_this_version(self, assignment: Any) -> bool:
        """Whether the gradebook has one notebook whose graded and written cells are those of the release."""
        wanted = {(cell.name, cell.kind, cell.points) for cell in self.release.graded}
        written = {cell.name for cell in self.release.cells if cell.solution}
        return [
            (found.name, {(cell.name, cell.cell_type, cell.max_score) for cell in found.grade_cells})
            for found in assignment.notebooks
            if {cell.name for cell in found.solution_cells} == written and not found.task_cells
        ] == [(self.release.assignment, wanted)] and len(assignment.notebooks) == 1

    def _submission(self, student: str) -> Any:
        """The student's submission, with a row for every graded cell and for every comment, as nbgrader makes them."""
        from nbgrader import api

        assignment = self._db.query(api.Assignment).filter_by(name=self.release.assignment).one()
        query = self._db.query(api.SubmittedAssignment).filter_by(assignment_id=assignment.id, student_id=student)
        if found := query.one_or_none():
            return found
        who = self._db.get(api.Student, student) or api.Student(id=student)
        (notebook,) = assignment.notebooks
        with self._db.no_autoflush:  # until all of them are there
            made = api.SubmittedAssignment(assignment=assignment, student=who)
            copy = api.SubmittedNotebook(notebook=notebook, assignment=made)
            grades = [api.Grade(cell_id=cell.id, notebook=copy) for cell in notebook.grade_cells]
            comments = [api.Comment(cell_id=cell.id, notebook=copy) for cell in notebook.solution_cells]
            self._db.add_all([who, made, copy, *grades, *comments])
        return made

    def _grades(self, notebook: Any) -> dict[str, Any]:
        return {grade.cell.name: grade for grade in notebook.grades}

    def _comment(self, notebook: Any, wanted: Mapping[str, str]) -> dict[str, bool]:
        """Write the automatic comments; by the name of each cell, whether its comment is another one now."""
        found = {comment.cell.name: comment for comment in notebook.comments}
        return {name: _put(found[name], "auto_comment", said) for name, said in wanted.items()}

    def _grade(self, grade: Any, wanted: _Wanted, cell: Cell, commented: Mapping[str, bool]) -> bool:
        """Write one cell's points; whether anything is new.

        Where there is nothing new, a person may have looked at it since: whether it needs that stays as it is.
        """
        scored = _put(grade, "auto_score", wanted.auto_score)
        if not scored and not commented.get(self._comment_of.get(cell.item or "", cell.name), False):
            return False
        look = wanted.look or grade.manual_score is not None  # what a person gave points for is another answer now
        return _put(grade, "needs_manual_grade", look) or scored

    def _take_away(self, submission: Any, notebook: Any) -> bool:
        """Work out the penalty for a late submission again, as ``AssignLatePenalties`` does; whether it is new."""
        self._db.flush()  # the database sums the points
        late = submission.total_seconds_late if submission.assignment.duedate else 0
        taken = None
        if late > 0:
            taken = self._penalty.late_submission_penalty(submission.student_id, notebook.score, late)
        if taken is not None:
            taken = min(max(float(taken), 0.0), notebook.score)
        return _put(notebook, "late_submission_penalty", taken)


def _put(row: Any, name: str, value: object) -> bool:
    """Give a row a value; whether it had another one."""
    if getattr(row, name) == value:
        return False
    setattr(row, name, value)
    return True


def _cells(notebook: Any, release: Release) -> list[Any]:
    """The rows of a notebook's cells, as nbgrader's ``SaveCells`` makes them."""
    from nbgrader import api

    rows: list[Any] = []
    for cell in release.cells:
        if cell.points is not None:
            rows.append(api.GradeCell(name=cell.name, notebook=notebook, max_score=cell.points, cell_type=cell.kind))
        if cell.solution:
            rows.append(api.SolutionCell(name=cell.name, notebook=notebook))
        if cell.points is not None or cell.solution or cell.locked:
            rows.append(
                api.SourceCell(
                    name=cell.name,
                    notebook=notebook,
                    cell_type=cell.kind,
                    locked=cell.locked,
                    source=cell.source,
                    checksum=cell.checksum,
                )
            )
    return rows
