"""`stepprof grade`: from its options to a run, the gradebook and what learners get back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import autograded, feedback, gradebook, result, run, sandbox, slurm, table
from stepprof_lab.grading.marking.gradebook import Imported
from stepprof_lab.grading.marking.job import Executor, Limits
from stepprof_lab.grading.marking.local import Local
from stepprof_lab.grading.marking.run import Course, Summary
from stepprof_lab.progress import Progress

CONFIG = "nbgrader_config.py"


def grade(
    *,
    progress: Progress,
    assignment: str,
    course: Path,
    exercises: Path | None,
    students: Sequence[str],
    regrade: bool,
    require: str | None,
    executor: str,
    jobs: int | None,
    no_sandbox: bool,
    gradebook_url: str | None,
    course_id: str,
    seconds: float,
    memory: int,
    dry_run: bool,
    csv: Path | None,
    **of_slurm: Any,
) -> tuple[Summary, Imported | None]:
    """Grade, write the gradebook, and write the pages that learners get back.

    Raises:
        NotAvailable: there is no sandbox here, and ``no_sandbox`` was not said.
        StepprofError: see `run.grade` and `gradebook.import_results`.
    """
    where = Course(root=course, exercises=exercises or _releases(course))
    limits = Limits(seconds=seconds, memory_mb=memory)
    workers = _executor(executor, jobs, gpu=require == "gpu", **of_slurm)
    summary, graded = run.grade(
        where,
        assignment,
        workers,
        sandbox=_sandbox(executor, limits, without=no_sandbox),
        students=students,
        regrade=regrade,
        gpu=require == "gpu",
        dry_run=dry_run,
        limits=limits,
        progress=progress,
    )
    if dry_run:
        return summary, None
    url = gradebook_url or f"sqlite:///{(course / 'gradebook.db').resolve()}"
    imported = _import(where, [one.result for one in graded], url, course_id)
    for one in graded:
        _give_back(where, one)
    if csv is not None:
        table.write(table.of_gradebook(url, course=course_id), csv)
    return summary, imported


def _give_back(where: Course, one: run.Graded) -> None:
    """The page that the learner gets, and the copy that a person reads in nbgrader's form grader."""
    made = result.read(one.result)
    if feedback.is_name(made.student):  # the others are told in the table
        feedback.write(made, where.root / "feedback")
        autograded.write(made, one.handed_in, where.exercises, where.root / "autograded")


def as_json(summary: Summary, imported: Imported | None) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {**msgspec.to_builtins(summary), "gradebook": msgspec.to_builtins(imported)}


def failures(summary: Summary) -> tuple[str, str, str]:
    """Submissions that could not be run, as an error says it."""
    first = summary.failed[0]
    return (
        f"{len(summary.failed)} submissions that could not be run (first {first.student!r}: {first.why})",
        "a result for each",
        "mend the reason and run the same command again: what is graded stays",
    )


def _import(where: Course, files: list[Path], url: str, course_id: str) -> Imported:
    config = where.root / CONFIG
    return gradebook.import_results(
        files,
        url,
        where.exercises,
        course=course_id,
        penalty=gradebook.penalty_of(config if config.exists() else None),
    )


def _releases(course: Path) -> Path:
    for name in ("exercises", "release"):
        if (course / name).is_dir():
            return course / name
    raise StepprofError(
        f"a course {str(course)!r} without releases",
        "a folder 'exercises' or 'release' in it",
        "name it by --exercises",
    )


def _sandbox(executor: str, limits: Limits, *, without: bool) -> str:
    """The sandbox that workers use; on a cluster each node tries it by itself."""
    if without:
        return sandbox.NoSandbox.name
    if executor == "local" and (reason := sandbox.Bubblewrap().works(limits)) is not None:
        raise NotAvailable(
            f"no sandbox ({reason})",
            "bubblewrap, so that what was handed in can do no harm",
            "install it, or write --no-sandbox to run it as yourself",
        )
    return sandbox.Bubblewrap.name


def _executor(name: str, jobs: int | None, *, gpu: bool, **of_slurm: Any) -> Executor:
    if name == "local":
        return Local(jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else jobs or 1)
    return slurm.Slurm(
        slurm.Options(
            partition=of_slurm["partition"],
            time=of_slurm["limit"],
            gpus=max(of_slurm["gpus"], int(gpu)),
            throttle=of_slurm["throttle"],
            sbatch=slurm.parse(of_slurm["sbatch"]),
            setup=of_slurm["setup"],
        )
    )
