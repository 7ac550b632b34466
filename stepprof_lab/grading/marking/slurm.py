"""Workers as job arrays of Slurm, by its own commands alone.

Plain ``sbatch``, ``squeue``, ``sacct`` and ``scancel`` and not submitit: a task's outcome is the result file that its
worker leaves, so that nothing has to be pickled, no Python of ours runs on the node beside the worker, and a job that
was preempted, requeued or lost is told from a finished one by looking for the file. A site needs no root for it and no
daemon of ours.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking.job import Job, Told
from stepprof_lab.grading.marking.local import WORKER

POLL_S = 2.0
"""Between two looks at the queue. A site's controller has others to serve; what is asked is one line a task."""

ROUNDS = 3
"""A task whose node failed, or that was preempted and not put back by Slurm, is handed in this often at the most."""

AGAIN = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REVOKED", "VANISHED"})
"""Endings that are nobody's fault: the task is handed in again."""

REASONS = {
    "BOOT_FAIL": "its node did not start",
    "CANCELLED": "somebody cancelled it",
    "COMPLETED": "its worker ended and left no result",
    "DEADLINE": "the cluster's deadline came first",
    "FAILED": "its worker failed",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it used more memory than the job has; give it more by --sbatch mem=...",
    "PREEMPTED": "it was preempted",
    "REVOKED": "its allocation was revoked",
    "TIMEOUT": "it took longer than the job's time; give it more by --time",
    "VANISHED": "Slurm no longer knows it",
}
"""Slurm's job states in words."""

LARGEST_ARRAY = 1000
"""Tasks of one array where the cluster does not say how many it takes (Slurm's default is 1001)."""

LOG = "task-{}_{}.log"
"""Of the job's id and the index in its array."""

_OPEN = frozenset(
    {
        *("CONFIGURING", "COMPLETING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RUNNING"),
        *("RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED"),
    }
)
"""States of a task that may still end well."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a site asks for.

    Args:
        partition: of the cluster; None for its default.
        time: limit of one task as Slurm writes it ("00:20:00"); None to take it from the submission's own limit.
        gpus: of each task; 0 for none.
        throttle: at most so many tasks at once; None for no limit.
        sbatch: any other option, by its long name: {"account": "course", "qos": "low"}.
        setup: lines of shell before the worker: modules, a venv, a container.
    """

    partition: str | None = None
    time: str | None = None
    gpus: int = 0
    throttle: int | None = None
    sbatch: Mapping[str, str] = dataclasses.field(default_factory=dict)
    setup: Sequence[str] = ()


@dataclasses.dataclass
class _Array:
    """One array that was handed in: its id, and which task each of its numbers is."""

    ident: str
    numbers: list[int]


class Slurm:
    """A cluster.

    Args:
        options: what the site asks for.
        poll_s: seconds between two looks at the queue.
    """

    name = "slurm"

    def __init__(self, options: Options, poll_s: float = POLL_S) -> None:
        self._options = options
        self._poll_s = poll_s

    def run(self, job: Job, job_file: Path, numbers: Sequence[int], told: Told) -> None:
        """Hand in arrays until every task has ended; cancels them where it is interrupted.

        Raises:
            NotAvailable: there is no Slurm here.
            StepprofError: it refuses the job, with what it said.
        """
        left = list(numbers)
        for last in range(ROUNDS, 0, -1):
            left = self._round(job, job_file, left, told, is_last=last == 1)
            if not left:
                return

    def plan(self, job: Job, numbers: Sequence[int]) -> str:
        """The scripts of the arrays."""
        parts = _arrays_of(job, numbers, LARGEST_ARRAY)
        return "\n".join(self._script(job, Path("JOB"), Path("LOGS"), part) for part in parts)

    def _round(self, job: Job, job_file: Path, numbers: list[int], told: Told, *, is_last: bool) -> list[int]:
        """Hand in the tasks once; those that are to be handed in again."""
        arrays: list[_Array] = []
        again: list[int] = []
        try:
            arrays.extend(self._submit(job, job_file, part) for part in _arrays_of(job, numbers, _largest_array()))
            for number, state, log in self._endings(arrays):
                task = job.tasks[number]
                if job.result_of(task).exists():
                    told(task, None)
                elif state in AGAIN and not is_last:
                    again.append(number)
                else:
                    told(task, _reason(state, job_file.parent / log))
        except BaseException:
            for array in arrays:
                _ask("scancel", array.ident, may_fail=True)
            raise
        return again

    def _submit(self, job: Job, job_file: Path, numbers: list[int]) -> _Array:
        logs = job_file.parent
        script = logs / f"array-{numbers[0]}.sh"
        script.write_text(self._script(job, job_file, logs, numbers), encoding="utf-8")
        said = _ask("sbatch", "--parsable", str(script))
        return _Array(said.strip().split(";")[0], numbers)

    def _script(self, job: Job, job_file: Path, logs: Path, numbers: list[int]) -> str:
        """The array's script: option lines, the site's own lines, and the worker of this array's number."""
        throttle = f"%{self._options.throttle}" if self._options.throttle else ""
        asked: dict[str, str] = {
            "job-name": "stepprof-grade",
            "array": f"0-{len(numbers) - 1}{throttle}",
            "output": f"{logs}/{LOG.format('%A', '%a')}",
            "time": self._options.time or f"{_minutes(job)}",
            "cpus-per-task": "1",
            "mem": f"{job.limits.memory_mb + 512}M",
        }
        if self._options.partition:
            asked["partition"] = self._options.partition
        if self._options.gpus and job.tasks[numbers[0]].gpu:
            asked["gres"] = f"gpu:{self._options.gpus}"
        if job.tasks[numbers[0]].timed:
            asked["exclusive"] = ""  # times are measured: nobody else's work beside it
        asked |= self._options.sbatch
        lines = [
            f"#SBATCH --{name}{f'={value}' if value else ''}" for name, value in asked.items() if value is not None
        ]
        numbered = " ".join(map(str, numbers))
        worker = shlex.join([sys.executable, "-m", WORKER, str(job_file)])
        return "\n".join(
            [
                "#!/bin/bash",
                *lines,
                "#SBATCH --requeue",
                "#SBATCH --open-mode=append",
                *self._options.setup,
                f"numbers=({numbered})",
                f'exec {worker} "${{numbers[$SLURM_ARRAY_TASK_ID]}}"',
                "",
            ]
        )

    def _endings(self, arrays: list[_Array]) -> Iterator[tuple[int, str, str]]:
        """Wait for every task; its number, the state in which it ended, and the name of its log."""
        waiting = list(arrays)
        while waiting:
            time.sleep(self._poll_s)
            for array in list(waiting):
                if _is_open(array.ident):
                    continue
                states = _states(array.ident)
                for index, number in enumerate(array.numbers):
                    yield number, states.get(index, "VANISHED"), LOG.format(array.ident, index)
                waiting.remove(array)


def _arrays_of(job: Job, numbers: Sequence[int], largest: int) -> list[list[int]]:
    """Tasks that ask the cluster for the same, in arrays that are not too large for it."""
    groups: dict[tuple[bool, bool], list[int]] = {}
    for number in numbers:
        task = job.tasks[number]
        groups.setdefault((task.timed, task.gpu), []).append(number)
    return [group[begin : begin + largest] for group in groups.values() for begin in range(0, len(group), largest)]


def _minutes(job: Job) -> int:
    """Minutes of a task: twice the submission's limit, because what crashed is tried again, and a start."""
    return int(job.limits.seconds * 2 / 60) + 2


def _ask(*command: str, may_fail: bool = False) -> str:
    """Run one of Slurm's commands; what it said.

    Raises:
        NotAvailable: it is not there.
        StepprofError: it refused.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError as error:
        raise NotAvailable(
            f"a machine without {command[0]!r}", "Slurm's commands", "grade on a login node, or with --executor local"
        ) from error
    if done.returncode and not may_fail:
        said = " ".join((done.stderr or done.stdout).split())[:300] or f"exit code {done.returncode}"
        raise StepprofError(f"{command[0]}: {said}", "a job that this cluster takes", "change the options it names")
    return done.stdout


def _largest_array() -> int:
    """How many tasks one array may have here."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _ask("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(found[1]) if found else LARGEST_ARRAY)


def _is_open(ident: str) -> bool:
    """Whether some task of an array has not ended."""
    said = _ask("squeue", "--noheader", "--array", "--jobs", ident, "--format", "%T", may_fail=True)
    return any(line.strip() in _OPEN for line in said.splitlines())


def _states(ident: str) -> dict[int, str]:
    """The last state of each task of an array, by its index: from the accounting, or from the controller's memory."""
    said = _ask(
        *("sacct", "--noheader", "--parsable2", "--allocations", "--array", "--jobs", ident),
        *("--format", "JobID,State"),
        may_fail=True,
    )
    found: dict[int, str] = {}
    for line in said.splitlines():
        name, _, state = line.partition("|")
        index = name.partition("_")[2]
        if index.isdecimal() and state:
            found[int(index)] = state.split()[0]  # "CANCELLED by 1000"
    return found or _remembered(ident)


def _remembered(ident: str) -> dict[int, str]:
    """The states as the controller has them, where there is no accounting."""
    said = _ask("scontrol", "--oneliner", "show", "job", ident, may_fail=True)
    found = {}
    for line in said.splitlines():
        index, state = re.search(r"ArrayTaskId=(\d+)", line), re.search(r"JobState=(\w+)", line)
        if index and state:
            found[int(index[1])] = state[1]
    return found


def _reason(state: str, log: Path) -> str:
    """Why a task left no result, with the last line of its log where it wrote one."""
    told = REASONS.get(state, f"it ended as {state}")
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return f"{told}: {lines[-1][:300]} ({log.name})" if lines else f"{told} ({log.name} is empty)"


def parse(pairs: Sequence[str]) -> dict[str, str]:
    """``--sbatch KEY=VALUE`` options; KEY alone for an option without a value.

    Raises:
        StepprofError: one is no option.
    """
    found = {}
    for pair in pairs:
        name, _, value = pair.lstrip("-").partition("=")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or "\n" in value:
            raise StepprofError(f"--sbatch {pair!r}", "KEY=VALUE, an option of sbatch", "look at `man sbatch`")
        found[name] = value
    return found
