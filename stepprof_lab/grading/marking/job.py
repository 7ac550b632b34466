"""What a run of `stepprof grade` hands to its workers: one file, read by each of them, wherever it runs.

A worker is `stepprof_lab.grading.marking.work`, given the file and the number of one task. It leaves one result file;
where that is there already it does nothing, so that a task may be started again at any time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import result


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one submission may take."""

    seconds: float = 600.0
    memory_mb: int = 4096
    processes: int = 128
    file_mb: int = 256
    output_kb: int = 256


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One submission to grade."""

    student: str
    assignment: str
    file: str
    """As it was handed in, with its path."""
    key: str
    submitted: str | None = None
    timed: bool = False
    """Whether its lab measures times: then it has the machine, or the GPU, alone."""
    gpu: bool = False
    """Whether its lab uses a GPU where there is one."""
    notes: list[str] = []
    """What a person should know already."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of one run, and what they have in common."""

    results: str
    """The folder of the results."""
    exercises: str
    """The folder of the releases."""
    secret_file: str
    """Holds the course's key; its content is in no other file, command line or environment."""
    sandbox: str
    """"bubblewrap", or "none" where that was written out."""
    limits: Limits
    gpu: bool = False
    tasks: list[Task]

    def result_of(self, task: Task) -> Path:
        """Where the result of a task lies."""
        return result.path_of(Path(self.results), task.student, task.assignment, task.key)


class Told(Protocol):
    """What an executor calls for each task that has ended."""

    def __call__(self, task: Task, failed: str | None) -> None:
        """Take note: ``failed`` is the reason in one line where there is no result."""


class Executor(Protocol):
    """Where the workers run."""

    @property
    def name(self) -> str:
        """As it stands in ``--executor``."""

    def run(self, job: Job, job_file: Path, numbers: Sequence[int], told: Told) -> None:
        """Run the tasks of these numbers; returns when each has ended, and ends all of them where it is interrupted."""

    def plan(self, job: Job, numbers: Sequence[int]) -> str:
        """What `run` would do, in words or as the script that it would hand in."""


def write(job: Job, path: Path) -> None:
    """Write the job, for its owner's eyes alone: students' names stand in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(msgspec.json.encode(job))


def read(path: Path) -> Job:
    """Read a job.

    Raises:
        StepprofError: it is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Job)
    except (OSError, msgspec.DecodeError) as error:
        raise StepprofError(f"{path.name}: {error}", "a job of `stepprof grade`", "start the run again") from error
