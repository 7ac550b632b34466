"""Workers on this machine: several beside each other, and those that measure times one after the other."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from stepprof_lab.grading.marking.job import Job, Task, Told

WORKER = "stepprof_lab.grading.marking.work"

GRACE_S = 60.0
"""A worker has this much more than its submission's own limit: it ends that by itself."""


class Local:
    """Processes of this machine.

    Args:
        jobs: how many beside each other.
    """

    name = "local"

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._children: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, job: Job, job_file: Path, numbers: Sequence[int], told: Told) -> None:
        """Run the tasks; those that measure times come last, and alone."""
        beside = [number for number in numbers if not job.tasks[number].timed]
        alone = [number for number in numbers if job.tasks[number].timed]
        try:
            for group, jobs in ((beside, self._jobs), (alone, 1)):
                self._several(job, job_file, group, jobs, told)
        except BaseException:
            self._end_all()
            raise

    def plan(self, job: Job, numbers: Sequence[int]) -> str:
        """How many run beside each other and how many alone."""
        alone = sum(job.tasks[number].timed for number in numbers)
        return (
            f"on this machine: {len(numbers) - alone} submissions, {self._jobs} beside each other, and {alone} one "
            "after the other, because they measure times"
        )

    def _several(self, job: Job, job_file: Path, numbers: Sequence[int], jobs: int, told: Told) -> None:
        if not numbers:
            return
        pool = concurrent.futures.ThreadPoolExecutor(jobs)
        try:
            waiting = {pool.submit(self._one, job, job_file, number): job.tasks[number] for number in numbers}
            for done in concurrent.futures.as_completed(waiting):
                told(waiting[done], done.result())
        except BaseException:
            self._end_all()  # or the pool would wait for them
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _one(self, job: Job, job_file: Path, number: int) -> str | None:
        """Run one worker; why there is no result, or None."""
        with self._guard:
            if self._stopped:
                return "the run was ended"
            child = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(job_file), str(number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C at the terminal is the run's business
            )
            self._children.add(child)
        try:
            _, said = child.communicate(timeout=job.limits.seconds * 2 + GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            _, said = child.communicate()
            said += b"\nit did not end by itself"
        finally:
            with self._guard:
                self._children.discard(child)
        return why(job, job.tasks[number], child.returncode, said)

    def _end_all(self) -> None:
        with self._guard:
            self._stopped = True
            for child in self._children:
                child.kill()  # what it started in a sandbox dies with it


def why(job: Job, task: Task, code: int, said: bytes) -> str | None:
    """Why there is no result of a task, in one line; None where there is one."""
    if job.result_of(task).exists():
        return None
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"the worker ended with {code} and said nothing"
