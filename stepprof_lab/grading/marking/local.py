"""Workers on this machine: several beside each other, and those that measure times one after the other."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from stepprof_lab.grading.marking.job import Job, Task, Told
from stepprof_lab.grading.marking.work import GOES_ON

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
        self._workers: set[_Worker] = set()
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
        mine = threading.local()
        try:
            waiting = {pool.submit(self._one, mine, job, job_file, number): job.tasks[number] for number in numbers}
            for done in concurrent.futures.as_completed(waiting):
                told(waiting[done], done.result())
        except BaseException:
            self._end_all()  # or the pool would wait for them
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._dismiss()

    def _one(self, mine: threading.local, job: Job, job_file: Path, number: int) -> str | None:
        """Have this thread's worker grade one task; why there is no result, or None."""
        task = job.tasks[number]
        worker: _Worker | None = getattr(mine, "worker", None)
        if worker is None:
            worker = self._hired(job_file)
            if worker is None:
                return "the run was ended"
            mine.worker = worker
        if worker.grade(number, job.limits.seconds * 2 + GRACE_S):
            return why(job, task, 0, b"")
        mine.worker = None
        code, said = worker.end()
        with self._guard:
            self._workers.discard(worker)
        return why(job, task, code, said)

    def _hired(self, job_file: Path) -> _Worker | None:
        with self._guard:
            if self._stopped:
                return None
            worker = _Worker(job_file)
            self._workers.add(worker)
            return worker

    def _dismiss(self) -> None:
        """End the workers that have nothing more to do."""
        with self._guard:
            for worker in self._workers:
                worker.end()
            self._workers.clear()

    def _end_all(self) -> None:
        with self._guard:
            self._stopped = True
            for worker in self._workers:
                worker.kill()


class _Worker:
    """A process that grades one task after the other; what a learner wrote runs in sandboxes that it starts."""

    def __init__(self, job_file: Path) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill
        self._child = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(job_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,  # Ctrl-C at the terminal is the run's business
        )

    def grade(self, number: int, seconds: float) -> bool:
        """Hand it a task, and wait; whether it can take another one."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._said.seek(0)  # where the worker writes too: both have one position
        self._said.truncate()
        late = threading.Timer(seconds, self._too_late)
        late.start()
        try:
            self._child.stdin.write(f"{number}\n")
            self._child.stdin.flush()
            return self._child.stdout.readline().strip() == GOES_ON
        except OSError:  # it is gone
            return False
        finally:
            late.cancel()

    def end(self) -> tuple[int, bytes]:
        """Let it end; its exit code and what it said."""
        try:
            self._child.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._too_late()
            self._child.communicate()
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        return self._child.returncode, said

    def kill(self) -> None:
        """End it; what it started in a sandbox dies with it."""
        self._child.kill()

    def _too_late(self) -> None:
        self.kill()
        self._said.write(b"it did not end by itself\n")


def why(job: Job, task: Task, code: int, said: bytes) -> str | None:
    """Why there is no result of a task, in one line; None where there is one."""
    if job.result_of(task).exists():
        return None
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"the worker ended with {code} and said nothing"
