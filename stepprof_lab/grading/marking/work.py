"""One worker: grades one submission and leaves one result. ``python -m`` runs it, on this machine or on a node."""

from __future__ import annotations

import sys
from pathlib import Path

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import job as jobs
from stepprof_lab.grading.marking.submissions import Submission


def main(job_file: Path, number: int) -> None:
    """Grade the task of a number, unless its result is there already.

    Raises:
        StepprofError: no result can be made here: the sandbox does not start, or there is no room.
    """
    job = jobs.read(job_file)
    task = job.tasks[number]
    if job.result_of(task).exists():
        return
    from stepprof_lab.grading.marking import border, matching, result, sandbox

    where = sandbox.of_name(job.sandbox)
    if (reason := where.works(job.limits)) is not None:
        raise NotAvailable(f"a sandbox that does not start ({reason})", "bubblewrap", "see `stepprof grade --help`")
    made = border.mark(
        Submission(task.student, task.assignment, Path(task.file), task.key, task.submitted, tuple(task.notes)),
        matching.read_release(Path(job.exercises) / task.assignment),
        sandbox=where,
        secret=Path(job.secret_file).read_bytes().strip(),
        limits=job.limits,
        gpu=job.gpu and task.gpu,
    )
    result.keep(made, Path(job.results))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except StepprofError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
