"""What a command in the sandbox can reach, and what it may take."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import sandbox
from stepprof_lab.grading.marking.job import Limits

LIMITS = Limits(seconds=20, memory_mb=500, processes=40, file_mb=2, output_kb=20)
ROOT = Path(__file__).resolve().parents[2]
WHY_NOT = sandbox.Bubblewrap().works(LIMITS)

needs_bubblewrap = pytest.mark.skipif(WHY_NOT is not None, reason=f"no bubblewrap here: {WHY_NOT}")


def said(code: str, scratch: Path, where: sandbox.Sandbox | None = None) -> Any:
    """What a line of Python finds in the sandbox, as JSON."""
    program = f"import json, os, pathlib, socket, sys\ndef found():\n    {code}\nprint(json.dumps(found()))"
    child = (where or sandbox.Bubblewrap()).start(
        [sys.executable, "-I", "-c", program], scratch, limits=LIMITS, gpu=False
    )
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err.decode()
    return json.loads(out)


@needs_bubblewrap
def test_nothing_of_the_machine_is_there_but_python_and_this_package(tmp_path: Path) -> None:
    wanted = [str(ROOT / "solutions"), str(ROOT / "exercises"), str(ROOT / "tests"), "/etc/passwd", "/etc/shadow"]
    secret = tmp_path.parent / "secret.txt"
    secret.write_text("the course's key", encoding="utf-8")
    assert said(f"return [p for p in {[*wanted, str(secret)]!r} if os.path.exists(p)]", tmp_path) == []
    assert said("import stepprof_lab.grading; return stepprof_lab.__file__", tmp_path)
    assert said("return sorted(os.listdir('/proc/self/fd'))[:3]", tmp_path) == ["0", "1", "2"]


@needs_bubblewrap
def test_what_lies_in_the_scratch_folder_is_there_to_read(tmp_path: Path) -> None:
    (tmp_path / "a file.csv").write_text("1", encoding="utf-8")
    assert said("return [os.listdir('.'), open('a file.csv').read()]", tmp_path) == [["a file.csv"], "1"]


@needs_bubblewrap
def test_nothing_can_be_written_that_anybody_sees_later(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("as it was", encoding="utf-8")
    places = ["given", "/x", "/usr/x", "/dev/x", f"{sys.prefix}/x.pth", str(ROOT / "stepprof_lab/x.py"), "/proc/sys/x"]
    tried = (
        "import contextlib; wrote = []\n"
        f"    for place in {places!r}:\n"
        "        with contextlib.suppress(OSError): open(place, 'w').write('x'); wrote.append(place)\n"
        "    return wrote"
    )
    assert said(tried, tmp_path) == []
    kept = "os.makedirs(os.path.expanduser('~/.ipython/startup')); open('x', 'w'); open('/tmp/x', 'w'); return 1"
    assert said(kept, tmp_path) == 1
    again = "return [os.listdir(os.path.expanduser('~')), os.listdir('.'), 'x' in os.listdir('/tmp')]"
    assert said(again, tmp_path) == [[], ["given"], False]
    assert (tmp_path / "given").read_text(encoding="utf-8") == "as it was"


@needs_bubblewrap
def test_settings_of_the_kernel_cannot_be_changed(tmp_path: Path) -> None:
    wanted = ("sys/kernel/core_pattern", "sys/kernel/hostname", "sysrq-trigger")
    assert said(f"return [one for one in {wanted!r} if os.access(f'/proc/{{one}}', os.W_OK)]", tmp_path) == []


@needs_bubblewrap
def test_there_is_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"s = socket.socket(); s.settimeout(5); return s.connect_ex(('127.0.0.1', {port}))"
        assert said(code, tmp_path) != 0


@needs_bubblewrap
def test_other_processes_are_neither_seen_nor_reached(tmp_path: Path) -> None:
    pids = said("return sorted(int(one) for one in os.listdir('/proc') if one.isdigit())", tmp_path)
    assert len(pids) <= 3
    assert os.getpid() not in pids or os.getpid() < 4
    assert said("os.kill(os.getppid(), 9); return 'still here'", tmp_path) == "still here"


@needs_bubblewrap
def test_nothing_of_this_environment_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_SECRET", "not for learners")
    seen = "return [dict(os.environ), pathlib.Path('/proc/1/cmdline').read_text()]"
    environment, command = said(seen, tmp_path)
    assert "not for learners" not in json.dumps([environment, command])
    assert environment["HOME"] == sandbox.HOME


@needs_bubblewrap
def test_no_file_may_be_too_large_and_all_together_neither(tmp_path: Path) -> None:
    code = (
        "try: open('large', 'wb').write(b'x' * 3_000_000)\n"
        "    except OSError as error: return error.errno\n"
        "    return os.path.getsize('large')"
    )
    assert said(code, tmp_path) in {27, 2_000_000}
    many = (
        "n = 0\n"
        "    try:\n"
        "        while n < 100: open(f'f{n}', 'wb').write(b'x' * 1_000_000); n += 1\n"
        "    except OSError: pass\n"
        "    return n"
    )
    assert said(many, tmp_path) <= sandbox.ROOM * LIMITS.file_mb


@pytest.mark.parametrize("where", [pytest.param(sandbox.Bubblewrap(), marks=needs_bubblewrap), sandbox.NoSandbox()])
def test_address_space_is_limited_unless_a_gpu_is_passed(where: sandbox.Sandbox, tmp_path: Path) -> None:
    code = "import resource; return resource.getrlimit(resource.RLIMIT_AS)[1]"
    assert said(code, tmp_path, where) == sandbox.ADDRESSES * LIMITS.memory_mb * 1_000_000
    assert not [one for one in sandbox.limited(["x"], LIMITS, gpu=True) if one.startswith("--as")]


@pytest.mark.parametrize("where", [pytest.param(sandbox.Bubblewrap(), marks=needs_bubblewrap), sandbox.NoSandbox()])
def test_ending_it_ends_all_that_it_started(where: sandbox.Sandbox, tmp_path: Path) -> None:
    code = "import os, time\nos.fork()\nprint(1, flush=True)\ntime.sleep(600)"
    child = where.start([sys.executable, "-I", "-c", code], tmp_path, limits=LIMITS, gpu=False)
    assert child.stdout is not None
    assert child.stdout.read(4) in {b"1\n1\n", b"1\n"}
    pids = sandbox.tasks_below(child.pid)
    assert len(pids) >= 2
    sandbox.stop(child)
    assert sandbox.tasks_below(child.pid) == [child.pid]
    assert not sandbox.memory_beyond([child.pid], 0)


@needs_bubblewrap
def test_it_dies_with_the_worker_that_started_it(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from stepprof_lab.grading.marking import job, sandbox
command = ["sh", "-c", "echo 1; sleep 600"]
child = sandbox.Bubblewrap().start(command, Path({str(tmp_path)!r}), limits=job.Limits(), gpu=False)
child.stdout.read(1)
print(*sandbox.tasks_below(child.pid), flush=True)
sys.stdin.read()
"""
    worker = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with worker:
        assert worker.stdout is not None
        watched = [os.pidfd_open(int(pid)) for pid in worker.stdout.readline().split()]
        assert len(watched) >= 2
        worker.kill()
        for one in watched:
            assert select.select([one], [], [], 30)[0] == [one]
            os.close(one)


def test_memory_of_several_processes_is_told() -> None:
    assert sandbox.memory_beyond([os.getpid()], 1_000_000)
    assert not sandbox.memory_beyond([os.getpid()], 10**15)


def test_why_a_sandbox_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert sandbox.Bubblewrap().works(LIMITS) == "bwrap is not installed (package bubblewrap)"


@needs_bubblewrap
def test_a_sandbox_that_fails_says_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "python_folders", lambda: [Path("/not there")])
    assert str(sandbox.Bubblewrap().works(LIMITS)).startswith("bwrap: Can't find source path /not there")


def test_sandboxes_have_names() -> None:
    assert [sandbox.of_name(name).name for name in ("bubblewrap", "none")] == ["bubblewrap", "none"]
    with pytest.raises(StepprofError, match="'docker'"):
        sandbox.of_name("docker")


def test_the_signal_that_ended_a_process_is_named() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert sandbox.signal_in(child.wait()) == "SIGKILL"
    assert sandbox.signal_in(137) == "SIGKILL"
    assert sandbox.signal_in(1) is None
