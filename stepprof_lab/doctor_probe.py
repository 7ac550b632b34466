"""The probe capture of `stepprof_lab.doctor`, made in a child process: does a kernel really appear in a trace?

A child, because a profiler session that is empty or too early can leave ROCm's collection dead for the whole process,
and because a crash of the profiler's library must end the child and not the one who asks. The device is used before
the profiler begins, and the schedule is the one of a capture, so that the probe sees what a capture would see.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepprof_lab import devices

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

PROBE_TIMEOUT_S = 120.0

RESULT = "result.json"
"""Name of the file, in the probe's directory, that holds what was seen; written whole, or not at all."""

CHOSEN = "chosen.json"
"""Name of the file that holds which device the child took, written before it captures."""

DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""What counts as a device event. The mirror of an annotation on the device (gpu_user_annotation) is none."""

_COLLECTORS = ("cupti_version", "roctracer_version", "rocprofiler-sdk_version")
_SIZE = 128


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe capture in a child process showed."""

    device: str
    """The device in words; empty where the child ended before it had chosen one."""
    on_gpu: bool
    ran: bool
    """Whether the child captured, wrote a trace and ended well."""
    ended: str
    """How the child ended: "return code 0", "signal SIGSEGV", "no end after 120 s"."""
    categories: dict[str, int] = {}
    """Events in the trace by their category."""
    device_events: int | None = None
    """Kernels, copies and memsets; None where none was observed."""
    kernel: str | None = None
    """Name of the first kernel; None where none was observed."""
    collectors: dict[str, str] = {}
    """Versions of the vendor's collecting library, as the trace states them."""
    stderr: list[str] = []
    """Last lines of what the child said, the profiler's routine messages left out."""

    def of(self, device: Device) -> Probe:
        """The same, where the child did not come to say its device: it chooses as this process does."""
        if self.device:
            return self
        return msgspec.structs.replace(self, device=device.sentence, on_gpu=device.is_gpu)


def probe_capture(asked: str = "auto", timeout_s: float = PROBE_TIMEOUT_S) -> Probe:
    """Make a tiny capture in a child process; its crash or its silence is a finding, not an error.

    The child chooses the device itself, so that this process need not have touched one.

    Args:
        asked: the device, as `stepprof_lab.devices.choose` takes it.
        timeout_s: the child is ended after this many seconds.
    """
    with tempfile.TemporaryDirectory(prefix="stepprof-doctor-", ignore_cleanup_errors=True) as directory:
        ended, errors = run_child(asked, directory, timeout_s)
        seen = _written(Path(directory) / RESULT)
        chosen = _written(Path(directory) / CHOSEN)
    return Probe(
        device=chosen.get("device", ""),
        on_gpu=chosen.get("on_gpu", False),
        ran=bool(seen) and ended == "return code 0",
        ended=ended,
        categories=seen.get("categories", {}),
        device_events=seen.get("device_events") or None,
        kernel=seen.get("kernel"),
        collectors=seen.get("collectors", {}),
        stderr=_telling_lines(errors),
    )


def _written(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    return found


def run_child(asked: str, directory: str, timeout_s: float) -> tuple[str, str]:
    """Run the probe in a child; returns how it ended, in words, and its stderr."""
    done: subprocess.CompletedProcess[bytes]
    try:
        done = subprocess.run(
            _command(asked, directory),
            cwd=directory,
            # Level 2 shows warnings: why CUPTI did not start is one, and the usual level keeps it back.
            env={**os.environ, "KINETO_LOG_LEVEL": "2"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return f"no end after {timeout_s:g} s", (expired.stderr or b"").decode("utf-8", "replace")
    except OSError as error:
        return f"could not be started ({error.strerror})", ""
    return _ending(done.returncode), done.stderr.decode("utf-8", "replace")


def _command(asked: str, directory: str) -> list[str]:
    """The child runs in its own empty directory, so that no file of the user's is imported in place of a module."""
    # This package goes to the end of the child's path: in front it could hide modules of the standard library.
    start = "import sys; sys.path.append(sys.argv[1]); from stepprof_lab.doctor_probe import main; main(*sys.argv[2:])"
    return [sys.executable, "-c", start, str(Path(__file__).resolve().parents[1]), asked, directory]


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"return code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


def _telling_lines(text: str, keep: int = 12) -> list[str]:
    """The last lines that say something: warnings, errors, a traceback. The user's own directory is not shown."""
    routine = re.compile(r"(VERBOSE|INFO|STAGE|USDT):")
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not routine.match(line)]
    return [line.replace(str(Path.home()), "~") for line in lines[-keep:]]


def capture(device: Device, trace: Path) -> None:
    """Capture four turns of a small matrix product on a device into ``trace``."""
    import torch

    activities = device.activities()
    x = torch.ones((_SIZE, _SIZE), device=device.torch_device)
    x @ x
    device.synchronize()
    with torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(trace)),
    ) as profiler:
        for _ in range(4):
            x @ x
            device.synchronize()
            profiler.step()


def read(trace: dict[str, Any]) -> dict[str, Any]:
    """Count what a Chrome trace holds: events by category, the first kernel's name, who collected."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    categories = Counter(str(event.get("cat")) for event in events)
    kernels = [str(event.get("name")) for event in events if event.get("cat") == "kernel"]
    return {
        "categories": dict(sorted(categories.items())),
        "device_events": sum(categories[name] for name in DEVICE_CATEGORIES),
        "kernel": kernels[0] if kernels else None,
        "collectors": {name: str(trace[name]) for name in _COLLECTORS if name in trace},
    }


def main(asked: str, directory: str) -> None:
    """Capture and write what was seen; an error of torch ends this process with its traceback, which is read too."""
    here = Path(directory)
    trace = here / "probe.json"
    device = devices.choose(asked)
    _write(here / CHOSEN, {"device": device.sentence, "on_gpu": device.is_gpu})
    capture(device, trace)
    # Kernel names hold any bytes; the writer of the trace does not always make them valid UTF-8.
    _write(here / RESULT, read(json.loads(trace.read_text(encoding="utf-8", errors="replace"))))


def _write(path: Path, found: dict[str, Any]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(found), encoding="utf-8")
    part.replace(path)
