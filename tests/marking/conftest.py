"""A job whose workers grade nothing, for tests of where workers run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepprof_lab.grading.marking import job as jobs
from stepprof_lab.grading.marking import local, slurm
from stepprof_lab.grading.marking.job import Job, Limits, Task

ROOT = Path(__file__).resolve().parents[2]

MakeJob = Callable[..., tuple[Job, Path]]


@pytest.fixture
def make_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJob:
    """Makes a job of tasks of these students, with workers that do what their names say."""
    for room in (local, slurm):
        monkeypatch.setattr(room, "WORKER", "tests.marking.fake_work")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def make(*students: str, timed: str = "", gpu: str = "", seconds: float = 20.0) -> tuple[Job, Path]:
        job = Job(
            results=str(tmp_path / "results"),
            exercises=str(tmp_path / "exercises"),
            secret_file=str(tmp_path / "secret"),
            sandbox="none",
            limits=Limits(seconds=seconds, memory_mb=500),
            tasks=[
                Task(
                    student=student,
                    assignment="01-a-lab",
                    file=str(tmp_path / "a file"),
                    key=f"{number:016x}",
                    timed=student in timed.split(),
                    gpu=student in gpu.split(),
                )
                for number, student in enumerate(students)
            ],
        )
        path = tmp_path / "run" / "job.json"
        jobs.write(job, path)
        return job, path

    return make
