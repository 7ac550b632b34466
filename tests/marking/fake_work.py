"""A worker that grades nothing: what it does is the student's name. For tests of where workers run."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from stepprof_lab.grading.marking import job as jobs
from stepprof_lab.grading.marking import result
from stepprof_lab.grading.marking.result import Ending, Result
from stepprof_lab.grading.marking.work import GOES_ON


def main(job_file: Path, number: int) -> None:
    job = jobs.read(job_file)
    task = job.tasks[number]
    note = job_file.parent / f"ran-{task.student}"
    with note.open("a") as stream:
        stream.write(f"{time.time()} {os.environ.get('SLURM_JOB_GRES', os.environ.get('SLURM_GPUS_ON_NODE', ''))}\n")
    if task.student.startswith("fails"):
        sys.stderr.write("one line\nthe sandbox does not start\n")
        sys.exit(2)
    if task.student.startswith("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if task.student.startswith("waits"):
        while not (job_file.parent / "go").exists():
            time.sleep(0.05)
    result.keep(
        Result(
            student=task.student,
            assignment=task.assignment,
            key=task.key,
            items=[],
            ending=Ending(how="graded"),
            sandbox="none",
            seconds=0.0,
            made="2026-01-01T00:00:00Z",
        ),
        Path(job.results),
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        for line in sys.stdin:
            main(Path(sys.argv[1]), int(line))
            print(GOES_ON, flush=True)
