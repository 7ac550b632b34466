"""One run of `stepprof grade`: what was handed in, what of it is graded already, the workers, the gradebook."""

from __future__ import annotations

import datetime as dt
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import items
from stepprof_lab.grading.marking import job as jobs
from stepprof_lab.grading.marking import matching, result, submissions
from stepprof_lab.grading.marking.job import Executor, Job, Limits, Task
from stepprof_lab.grading.marking.result import Ending, Result
from stepprof_lab.grading.marking.submissions import Refused, Submission
from stepprof_lab.progress import Progress, silent

KEY_FILE = "course.key"
"""Beside the submissions. Whoever has it can work out every hidden case."""

KEY_BYTES = 32


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One submission in the table at the end."""

    student: str
    state: str
    """"graded", "needs a person", "cannot be read" or "failed to run"."""
    points: float | None = None
    of: float | None = None
    why: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of `stepprof grade` gives."""

    assignment: str
    executor: str
    sandbox: str
    rows: list[Row]
    plan: str | None = None
    """What would be done, for a dry run."""

    @property
    def failed(self) -> list[Row]:
        """Submissions without a result."""
        return [row for row in self.rows if row.state == "failed to run"]


class Graded(NamedTuple):
    """A submission that has a result."""

    result: Path
    handed_in: Path | None
    """None where it could not be read."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Where a course's files lie.

    Args:
        root: the folder that nbgrader is called from.
        exercises: the folder of the releases.
    """

    root: Path
    exercises: Path

    @property
    def submitted(self) -> Path:
        """What was handed in: nbgrader's tree, or files named by student."""
        return self.root / "submitted"

    @property
    def results(self) -> Path:
        """One file for each graded submission."""
        return self.root / "marked"

    def secret(self) -> bytes:
        """The course's key; made where there is none yet.

        Raises:
            StepprofError: it cannot be read, or is too short to be one.
        """
        path = self.root / KEY_FILE
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            pass
        except OSError as error:
            raise StepprofError(
                f"{KEY_FILE} ({error.strerror or error})", "a course's folder that can be written", "check its owner"
            ) from error
        else:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(KEY_BYTES))
        found = path.read_bytes().strip()
        if len(found) < KEY_BYTES:
            raise StepprofError(
                f"{KEY_FILE} with {len(found)} bytes", f"at least {KEY_BYTES}", "restore it, or remove it and regrade"
            )
        return found


def grade(
    course: Course,
    assignment: str,
    executor: Executor,
    *,
    sandbox: str,
    students: Sequence[str] = (),
    regrade: bool = False,
    gpu: bool = False,
    dry_run: bool = False,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> tuple[Summary, list[Graded]]:
    """Grade every submission of an assignment that is not graded yet.

    Args:
        course: where its files lie.
        assignment: "03-nested-sums", or what `items.lab` takes.
        executor: where the workers run.
        sandbox: "bubblewrap" or "none".
        students: only these; all where it is empty.
        regrade: make every result anew.
        gpu: pass a GPU through to labs that use one.
        dry_run: say what would be done, and do nothing.
        limits: of one submission.
        progress: told how many are done.

    Returns:
        The table, and all results that there are, for the gradebook; what cannot be read has one too.

    Raises:
        StepprofError: there is no such assignment, no submission of it, or no way to run one.
    """
    lab = items.lab(assignment)
    secret = course.secret()
    release = matching.read_release(course.exercises / lab.name)
    found = _wanted(submissions.find(course.submitted, release, secret), students)
    job = Job(
        results=str(course.results.resolve()),
        exercises=str(course.exercises.resolve()),
        secret_file=str((course.root / KEY_FILE).resolve()),
        sandbox=sandbox,
        limits=limits or Limits(),
        gpu=gpu,
        tasks=[_task(one, lab) for one in found if isinstance(one, Submission)],
    )
    if regrade and not dry_run:
        for task in job.tasks:
            job.result_of(task).unlink(missing_ok=True)
    left = [number for number, task in enumerate(job.tasks) if regrade or not job.result_of(task).exists()]
    if dry_run:
        plan = executor.plan(job, left) if left else "nothing is left to do"
        return _summary(lab.name, executor, sandbox, found, job, {}, plan), []
    failed = _carry_out(course, job, executor, left, progress) if left else {}
    graded = [Graded(path, Path(task.file)) for task in job.tasks if (path := job.result_of(task)).exists()]
    graded += [
        Graded(_of_refused(one, release.version, secret, job), None) for one in found if isinstance(one, Refused)
    ]
    return _summary(lab.name, executor, sandbox, found, job, failed, None), graded


def _of_refused(refused: Refused, version: str, secret: bytes, job: Job) -> Path:
    """The result of what cannot be read: every submission has one, so that a person finds it in the gradebook."""
    made = Result(
        student=refused.student,
        assignment=refused.assignment,
        key=result.key_of(refused.why.encode(), version, secret),
        items=[],
        ending=Ending(how="unreadable", why=refused.why),
        sandbox=job.sandbox,
        seconds=0.0,
        made=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
    )
    return result.keep(made, Path(job.results))


def _wanted(found: Sequence[Submission | Refused], students: Sequence[str]) -> list[Submission | Refused]:
    missing = sorted(set(students) - {one.student for one in found})
    if missing:
        raise StepprofError(
            f"student {missing[0]!r}, who handed in nothing", "a student who did", "look at the submitted folder"
        )
    return [one for one in found if not students or one.student in students]


def _task(submission: Submission, lab: items.Lab) -> Task:
    return Task(
        student=submission.student,
        assignment=submission.assignment,
        file=str(submission.file.resolve()),
        key=submission.key,
        submitted=submission.submitted,
        timed=lab.measures,
        gpu=lab.gpu != "none",
        notes=list(submission.notes),
    )


def _carry_out(course: Course, job: Job, executor: Executor, left: Sequence[int], progress: Progress) -> dict[str, str]:
    """Run the workers; why a student has no result."""
    reasons: dict[str, str] = {}
    done = 0

    def told(task: Task, failed: str | None) -> None:
        nonlocal done
        done += 1
        if failed is not None:
            reasons[task.student] = failed
        progress("grading", done, len(left))

    progress("grading", 0, len(left))
    path = files.free_directory(course.root / "grading-runs") / "job.json"
    jobs.write(job, path)
    executor.run(job, path, left, told)
    return reasons


def _summary(
    name: str,
    executor: Executor,
    sandbox: str,
    found: Sequence[Submission | Refused],
    job: Job,
    failed: dict[str, str],
    plan: str | None,
) -> Summary:
    tasks = {task.student: task for task in job.tasks}
    rows = [_row(one, job, tasks.get(one.student), failed.get(one.student)) for one in found]
    return Summary(assignment=name, executor=executor.name, sandbox=sandbox, rows=rows, plan=plan)


def _row(found: Submission | Refused, job: Job, task: Task | None, failed: str | None) -> Row:
    if isinstance(found, Refused) or task is None:
        return Row(student=found.student, state="cannot be read", why=found.why if isinstance(found, Refused) else "")
    path = job.result_of(task)
    if not path.exists():
        return Row(student=task.student, state="failed to run" if failed else "not graded", why=failed or "")
    made = result.read(path)
    undecided = [one.item for one in made.items if one.points is None]
    return Row(
        student=task.student,
        state="needs a person" if undecided else "graded",
        points=sum(one.points or 0.0 for one in made.items),
        of=sum(one.of for one in made.items),
        why=f"this machine could not decide {', '.join(undecided)}" if undecided else _what_happened(made),
    )


def _what_happened(made: Result) -> str:
    ending = made.ending
    if ending.how == "graded":
        return ""
    return f"{ending.how}{f' at {ending.where}' if ending.where else ''}{f': {ending.why}' if ending.why else ''}"
