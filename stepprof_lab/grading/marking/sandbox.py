"""Where learners' code runs: a small interface, bubblewrap behind it, and no sandbox where that was written out.

A site brings its own container by a class with the same four things. What a sandbox has to promise stands at `Sandbox`;
the border relies on nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import stepprof_lab
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking.job import Limits

HOME, WORK = "/tmp/home", "/tmp/work"  # noqa: S108 - inside, where /tmp is the submission's own
START_S = 60.0
"""A sandbox that has not started by then does not start."""

THREADS, THREADS_A_CORE = 8, 64
"""For each process, and for each core, where torch and the BLAS libraries start some. The system counts threads as
processes, and before Linux 5.14 it counts all that the user has on the machine: its limit is the last resort."""

ADDRESSES = 2
"""Address space for each byte of memory: a process reserves more than it uses, more so with many cores."""

ROOM = 4
"""All files together may take so many times the largest one."""


class Sandbox(Protocol):
    """Runs a command where it can do no harm."""

    @property
    def name(self) -> str:
        """What a result says of it."""

    def start(self, argv: Sequence[str], scratch: Path, *, limits: Limits, gpu: bool) -> subprocess.Popen[bytes]:
        """Start a command with pipes for its input, output and errors.

        It must have: no network; a system, a Python and this package that it cannot change; a home and a place for
        temporary files of its own, which nobody sees after it; no sight of the machine's other files and processes;
        an environment without anything of this one; limits. Ending the returned process ends all that it started.

        Args:
            argv: the command; its Python is ``sys.executable``.
            scratch: a folder; what lies in it is there to read in the working directory.
            limits: memory, processes, sizes of files. The time is the caller's to watch.
            gpu: whether it may use the GPUs.
        """

    def works(self, limits: Limits) -> str | None:
        """None where it starts here, or why it does not, in one line; tried by starting it."""


class Bubblewrap:
    """Bubblewrap: namespaces of its own for everything, and nothing of the machine that can be written to."""

    name = "bubblewrap"

    def start(self, argv: Sequence[str], scratch: Path, *, limits: Limits, gpu: bool) -> subprocess.Popen[bytes]:
        """Start a command in a sandbox of its own; the sandbox dies with the thread that started it."""
        files = [part for one in sorted(scratch.iterdir()) for part in ("--ro-bind", str(one), f"{WORK}/{one.name}")]
        command = [
            *(
                _bwrap(),
                "--unshare-all",
                "--unshare-user",
                "--die-with-parent",
                "--new-session",
                "--clearenv",
                "--cap-drop",
                "ALL",
            ),
            *(("--disable-userns",) if _can_disable_userns() else ()),
            *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
            *_system(),
            *("--proc", "/proc", "--dev", "/dev", *(_gpus() if gpu else ())),
            *_own_room("/dev/shm", limits),  # noqa: S108 - inside
            *_own_room("/tmp", limits),  # noqa: S108 - inside
            *("--dir", HOME, "--dir", WORK),
            *_read_only(python_folders()),
            *files,
            # To the kernel, root's files in /proc/sys are root's in here too.
            *("--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc", "--chdir", WORK),
            *(part for name, value in _environment(HOME, gpu).items() for part in ("--setenv", name, value)),
            *("--", *limited(argv, limits, gpu=gpu)),
        ]
        return _popen(command)

    def works(self, limits: Limits) -> str | None:
        """Start Python in it."""
        if shutil.which("bwrap") is None:
            return "bwrap is not installed (package bubblewrap)"
        return _tried(self, limits)


class NoSandbox:
    """The same limits and a clean environment, and nothing else: what runs can read and write what its user can."""

    name = "none"

    def start(self, argv: Sequence[str], scratch: Path, *, limits: Limits, gpu: bool) -> subprocess.Popen[bytes]:
        """Start a command in a folder of its own."""
        return _popen(limited(argv, limits, gpu=gpu), cwd=scratch, env=_environment(str(scratch), gpu))

    def works(self, limits: Limits) -> str | None:
        """Start Python under the limits."""
        return _tried(self, limits)


def of_name(name: str) -> Sandbox:
    """The sandbox of a name, as a job has it.

    Raises:
        StepprofError: there is none of that name.
    """
    if name == Bubblewrap.name:
        return Bubblewrap()
    if name == NoSandbox.name:
        return NoSandbox()
    raise StepprofError(f"sandbox {name!r}", "bubblewrap or none", "name one of these")


def limited(argv: Sequence[str], limits: Limits, *, gpu: bool) -> list[str]:
    """A command under the system's own limits, which no process of it can raise.

    The address space is limited for each process, and not where a GPU is used: CUDA reserves far more than a machine
    has. Memory and processes of all together are for the caller to watch (`tasks_below`, `memory_beyond`). The system
    does not count the processes of root at all.
    """
    mb = 1_000_000
    threads = THREADS * limits.processes + THREADS_A_CORE * (os.cpu_count() or 1)
    asked = [f"--fsize={limits.file_mb * mb}", "--core=0"]
    if not gpu:
        asked.append(f"--as={ADDRESSES * limits.memory_mb * mb}")
    return ["prlimit", *asked, f"--nproc={threads}", "--", *argv]


def python_folders() -> list[Path]:
    """What Python and this package need, under each of their names: a virtual environment is full of links."""
    package = Path(stepprof_lab.__file__).parent
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1], package]
    found += [one.resolve() for one in found]
    return list(dict.fromkeys(one for one in found if not one.is_relative_to("/usr")))


def _bwrap() -> str:
    return shutil.which("bwrap") or "bwrap"


@functools.cache
def _can_disable_userns() -> bool:
    """Since bubblewrap 0.8: what runs inside can make no namespaces, from which it sees more of the kernel."""
    said = subprocess.run([_bwrap(), "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in said.stdout + said.stderr


def _system() -> Iterator[str]:
    """Programs and libraries, to read alone; of /etc only what finds them."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/sys/devices/system/cpu"):
        yield from ("--ro-bind-try", name, name)


def _gpus() -> Iterator[str]:
    """The device nodes of NVIDIA's and AMD's drivers, and where their libraries look for them."""
    for path in (*sorted(Path("/dev").glob("nvidia*")), Path("/dev/kfd"), Path("/dev/dri")):
        yield from ("--dev-bind-try", str(path), str(path))
    for name in ("/sys/bus/pci", "/sys/devices", "/sys/class", "/sys/module"):
        yield from ("--ro-bind-try", name, name)


def _own_room(path: str, limits: Limits) -> tuple[str, ...]:
    return ("--size", str(ROOM * limits.file_mb * 1_000_000), "--tmpfs", path)


def _read_only(folders: Sequence[Path]) -> Iterator[str]:
    for folder in folders:
        yield from ("--ro-bind", str(folder), str(folder))


def _environment(home: str, gpu: bool) -> dict[str, str]:
    """All that is told: nothing of this process's environment, where secrets may stand."""
    told = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "USER": "learner",
        "LOGNAME": "learner",
        "LANG": "C.UTF-8",
        "IPYTHONDIR": f"{home}/.ipython",
        "STEPPROF_HOME": f"{home}/.stepprof_lab",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    chosen = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS")
    given = {name: os.environ[name] for name in chosen if name in os.environ}
    if not gpu:
        given |= dict.fromkeys(chosen[:3], "")
    return told | given


def _popen(
    command: Sequence[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env={} if env is None else env,
            start_new_session=True,
        )
    except OSError as error:
        raise StepprofError(
            f"{command[0]!r} ({error.strerror or error})", "a sandbox that starts", "install it, or choose another"
        ) from error


def _tried(sandbox: Sandbox, limits: Limits) -> str | None:
    """Start Python in a sandbox; why that does not work, or None."""
    with tempfile.TemporaryDirectory(prefix="stepprof-try-") as folder:
        try:
            child = sandbox.start([sys.executable, "-I", "-c", "print('here')"], Path(folder), limits=limits, gpu=False)
            said, complaint = child.communicate(timeout=START_S)
        except StepprofError as error:
            return str(error)
        except subprocess.TimeoutExpired:
            stop(child)
            return f"{sandbox.name} did not start within {START_S:g} s"
    if said.strip() == b"here":
        return None
    return last_line(complaint) or f"{sandbox.name} ended with {child.returncode} and said nothing"


def last_line(said: bytes) -> str:
    """The last line of what a process said, cut."""
    return next(reversed(said.decode("utf-8", "replace").strip().splitlines()), "")[:300]


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a sandbox and all that runs in it, and close its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # it leads a group of its own
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


# ---- what all processes of a sandbox take together ----


def tasks_below(pid: int) -> list[int]:
    """A process and all that come from it, as this machine numbers them.

    A sandbox's own first process takes in what lost its parent, so that nothing in there gets away.
    """
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += _children(found[-1])
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            found += map(int, Path(task.path, "children").read_bytes().split())
    except OSError:  # it ended meanwhile, or this system does not tell
        pass
    return found


def memory_beyond(pids: Sequence[int], limit: int) -> bool:
    """Whether processes together hold more bytes of memory than a limit.

    What several of them share is counted once: the exact number costs more, and is asked for where the sum is beyond.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    resident = {pid: page * _number_in(f"/proc/{pid}/statm", r"\d+ (\d+)") for pid in pids}
    if sum(resident.values()) <= limit:
        return False
    shares = {pid: 1024 * _number_in(f"/proc/{pid}/smaps_rollup", r"(?m)^Pss:\s+(\d+)") for pid in pids}
    return sum(shares[pid] or resident[pid] for pid in pids) > limit


def _number_in(path: str, pattern: str) -> int:
    """A number that the system tells of a process; 0 where it tells nothing."""
    try:
        found = re.search(pattern, Path(path).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        return 0
    return int(found[1]) if found else 0


def signal_in(code: int) -> str | None:
    """The name of the signal that ended a process, from its exit code as a shell or Python has it."""
    number = -code if code < 0 else code - 128
    try:
        return re.sub(r"^Signals\.", "", signal.Signals(number).name)
    except ValueError:
        return None
