"""Where workers run: on this machine, and on a real Slurm where one is up."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import slurm
from stepprof_lab.grading.marking.job import Executor, Job, Task
from stepprof_lab.grading.marking.local import Local
from stepprof_lab.grading.marking.slurm import Options, Slurm
from tests.marking.conftest import MakeJob


def ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.fixture(scope="session")
def cluster() -> None:
    """A Slurm that answers; where CI has started one, its absence is a failure."""
    if shutil.which("sbatch") and "UP" in ask("scontrol", "ping"):
        return
    why = "no Slurm answers here (install slurm-wlm and start it)"
    if os.environ.get("STEPPROF_SLURM"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(params=["local", "slurm"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "local":
        yield Local(2)
    else:
        request.getfixturevalue("cluster")
        yield Slurm(Options(partition="grade"), poll_s=0.3)


def run(executor: Executor, job: Job, path: Path) -> dict[str, str | None]:
    ended: dict[str, str | None] = {}

    def told(task: Task, failed: str | None) -> None:
        assert task.student not in ended
        ended[task.student] = failed

    executor.run(job, path, range(len(job.tasks)), told)
    return ended


def ran(path: Path, student: str) -> list[str]:
    note = path.parent / f"ran-{student}"
    return note.read_text().splitlines() if note.exists() else []


def test_every_task_ends_once_with_a_result_or_a_reason(executor: Executor, make_job: MakeJob) -> None:
    job, path = make_job("anna", "fails", "dies", "zoë", "bert", timed="bert")
    ended = run(executor, job, path)
    assert sorted(ended) == ["anna", "bert", "dies", "fails", "zoë"]
    assert [ended[name] for name in ("anna", "zoë", "bert")] == [None] * 3
    assert "the sandbox does not start" in (ended["fails"] or "")
    assert ended["dies"] is not None
    assert all(job.result_of(task).exists() == (ended[task.student] is None) for task in job.tasks)
    assert all(len(ran(path, task.student)) == 1 for task in job.tasks), "an own failure is not tried again"


def workers_of(path: Path) -> list[str]:
    """The processes of this machine that were given the job."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if os.fsencode(path) in one.read_bytes():
                found.append(one.parent.name)
    return found


def when(condition: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    def watch() -> None:
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_interrupted_run_leaves_no_worker_behind(
    executor: Executor, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, path = make_job("anna", "waits")

    def told(task: Task, failed: str | None) -> None:
        raise KeyboardInterrupt

    if executor.name == "slurm":  # it tells of an array when all of it has ended: interrupted while it looks

        def interrupted(_: float) -> None:
            if ran(path, "waits"):
                raise KeyboardInterrupt

        monkeypatch.setattr(slurm, "time", SimpleNamespace(sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        executor.run(job, path, range(2), told)
    monkeypatch.undo()
    deadline = time.monotonic() + 30
    while workers_of(path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers_of(path) == []
    assert not job.result_of(job.tasks[1]).exists()


def test_tasks_that_measure_times_run_alone_and_last(make_job: MakeJob) -> None:
    job, path = make_job("a", "b", "c", "d", timed="a c")
    assert list(run(Local(4), job, path).values()) == [None] * 4
    begun = {name: float(ran(path, name)[0].split()[0]) for name in "abcd"}
    assert max(begun["b"], begun["d"]) < min(begun["a"], begun["c"])
    assert "2 beside" not in Local(4).plan(job, range(4))
    assert "2 submissions, 4 beside each other, and 2 one after the other" in Local(4).plan(job, range(4))


@pytest.mark.usefixtures("cluster")
def test_a_cancelled_task_is_told_and_the_others_are_graded(make_job: MakeJob) -> None:
    job, path = make_job("anna", "waits")

    def cancel() -> None:
        for line in ask("squeue", "-h", "-r", "-n", "stepprof-grade", "-o", "%F_%K").split():
            ask("scancel", line)

    thread = when(lambda: bool(ran(path, "waits")) and job.result_of(job.tasks[0]).exists(), cancel)
    ended = run(Slurm(Options(), poll_s=0.3), job, path)
    thread.join()
    assert ended["anna"] is None
    assert "somebody cancelled it" in (ended["waits"] or "")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_preempted_task_runs_again_by_itself(make_job: MakeJob) -> None:
    job, path = make_job("waits")

    def requeue() -> None:
        for line in ask("squeue", "-h", "-r", "-n", "stepprof-grade", "-o", "%F_%K").split():
            ask("scontrol", "requeue", line)
        (path.parent / "go").touch()  # Slurm starts it again after about two minutes

    thread = when(lambda: bool(ran(path, "waits")), requeue)
    ended = run(Slurm(Options(), poll_s=0.3), job, path)
    thread.join()
    assert ended == {"waits": None}


@pytest.mark.usefixtures("cluster")
def test_a_gpu_is_asked_for_only_where_a_lab_uses_one(make_job: MakeJob) -> None:
    job, path = make_job("plain", "needy", gpu="needy")
    executor = Slurm(Options(gpus=1), poll_s=0.3)
    assert executor.plan(job, [0, 1]).count("#SBATCH --gres=gpu:1") == 1
    assert run(executor, job, path) == {"plain": None, "needy": None}
    assert not ran(path, "plain")[0].split()[1:]
    assert ran(path, "needy")[0].split()[1:]


@pytest.mark.usefixtures("cluster")
def test_what_the_cluster_refuses_is_told_in_one_line(make_job: MakeJob) -> None:
    job, path = make_job("anna")
    with pytest.raises(StepprofError, match=r"sbatch: .*invalid partition") as told:
        run(Slurm(Options(partition="nowhere")), job, path)
    assert "\n" not in str(told.value)


def test_without_slurm_it_says_where_to_go(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    job, path = make_job("anna")
    with pytest.raises(NotAvailable, match="--executor local"):
        run(Slurm(Options()), job, path)


def test_the_script_has_the_sites_options_and_no_secret(make_job: MakeJob) -> None:
    job, _ = make_job("anna", "bert", "carl", timed="carl")
    options = Options(
        partition="gpu",
        time="00:30:00",
        throttle=5,
        sbatch=slurm.parse(["account=course", "--qos=low"]),
        setup=["module load x"],
    )
    first, second = Slurm(options).plan(job, [0, 1, 2]).split("#!/bin/bash\n")[1:]
    for line in ("--partition=gpu", "--time=00:30:00", "--account=course", "--qos=low", "--array=0-1%5", "--requeue"):
        assert f"#SBATCH {line}\n" in first
    assert "\nmodule load x\nnumbers=(0 1)\nexec " in first
    assert "#SBATCH --exclusive\n" in second
    assert "--exclusive" not in first
    assert job.secret_file not in first


@pytest.mark.parametrize("option", ["", "=x", "a b=c", "Account=x", "account=a\nb"])
def test_what_is_no_option_of_sbatch_is_refused(option: str) -> None:
    with pytest.raises(StepprofError, match="KEY=VALUE"):
        slurm.parse([option])


def test_arrays_are_no_larger_than_the_cluster_takes(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job, path = make_job(*"abcdefg", timed="g")
    handed: list[str] = []

    def answer(*command: str, may_fail: bool = False) -> str:
        if command[0] == "sbatch":
            handed.append(Path(command[-1]).read_text(encoding="utf-8"))
            return f"{len(handed)}\n"
        return {"scontrol": "MaxArraySize            = 4\n", "squeue": "", "sacct": "1_0|COMPLETED\n"}[command[0]]

    monkeypatch.setattr(slurm, "_ask", answer)
    ended = run(Slurm(Options(), poll_s=0), job, path)
    assert len(ended) == 7
    arrays = [text.split("--array=")[1].split()[0] for text in handed]
    assert arrays[:3] == ["0-3", "0-1", "0-0"]


@pytest.mark.parametrize(
    ("state", "rounds", "told"),
    [
        ("NODE_FAIL", 3, "its node failed"),
        ("TIMEOUT", 1, "--time"),
        ("OUT_OF_MEMORY", 1, "more memory"),
        ("CANCELLED by 1000", 1, "somebody cancelled"),
        ("STRANGE", 1, "it ended as STRANGE"),
    ],
)
def test_each_ending_has_its_reason_and_what_is_nobodys_fault_is_tried_again(
    state: str, rounds: int, told: str, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, path = make_job("anna")
    handed: list[str] = []

    def answer(*command: str, may_fail: bool = False) -> str:
        if command[0] == "sbatch":
            handed.append(command[-1])
            return "17;lab\n"
        return {"scontrol": "", "squeue": "", "sacct": f"17_0|{state}\n"}[command[0]]

    monkeypatch.setattr(slurm, "_ask", answer)
    assert told in (run(Slurm(Options(), poll_s=0), job, path)["anna"] or "")
    assert len(handed) == rounds
