"""One worker: grades submissions, each in a sandbox of its own, and leaves one result of each.

``python -m`` runs it, on this machine or on a node. ``work JOB NUMBER`` grades that task; ``work JOB`` grades those
whose numbers come as lines of its input, and answers each with a line, so that Python and the labs are loaded once for
many. It never runs a learner's line, so that nothing of one submission is there when the next one comes; after one that
did not end well it ends all the same, and says so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import border, matching, result, sandbox
from stepprof_lab.grading.marking import job as jobs
from stepprof_lab.grading.marking.job import Job, Task
from stepprof_lab.grading.marking.submissions import Submission

GOES_ON, ENDS = "done", "done, and this worker ends"
"""What a worker answers when a task has its result."""


def many(job_file: Path, numbers: TextIO, answers: TextIO) -> None:
    """Grade the tasks whose numbers come as lines, one after the other.

    Raises:
        StepprofError: as `one` does; the tasks before have their results.
    """
    for line in numbers:
        well = one(job_file, int(line))
        answers.write(f"{GOES_ON if well else ENDS}\n")
        answers.flush()
        if not well:
            return


def one(job_file: Path, number: int) -> bool:
    """Grade the task of a number, unless its result is there already; whether all of it ended well.

    Raises:
        StepprofError: no result can be made here: the sandbox does not start, or there is no room.
    """
    job = jobs.read(job_file)
    task = job.tasks[number]
    if job.result_of(task).exists():
        return True
    where = sandbox.of_name(job.sandbox)
    if (reason := where.works(job.limits)) is not None:
        raise NotAvailable(f"a sandbox that does not start ({reason})", "bubblewrap", "see `stepprof grade --help`")
    return _mark(job, task, where)


def _mark(job: Job, task: Task, where: sandbox.Sandbox) -> bool:
    made = border.mark(
        Submission(task.student, task.assignment, Path(task.file), task.key, task.submitted, tuple(task.notes)),
        matching.read_release(Path(job.exercises) / task.assignment),
        sandbox=where,
        secret=Path(job.secret_file).read_bytes().strip(),
        limits=job.limits,
        gpu=job.gpu and task.gpu,
    )
    result.keep(made, Path(job.results))
    return made.ending.how == "graded"


if __name__ == "__main__":
    try:
        if len(sys.argv) > 2:
            one(Path(sys.argv[1]), int(sys.argv[2]))
        else:
            many(Path(sys.argv[1]), sys.stdin, sys.stdout)
    except StepprofError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
