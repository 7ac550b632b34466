"""One small interface over cuda, rocm, xpu, cpu and practice: which device runs, how to wait for it, how to time it.

A ROCm build of torch calls its device ``cuda`` too. Here the vendor is told apart from the name that torch uses, so
that a report never calls an AMD GPU by the wrong name. torch is imported by the functions, never by this module.

The practice device (`stepprof_lab.practice`) is chosen only where it is asked for, and is never a GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import platform
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from stepprof_lab import queues
from stepprof_lab.errors import NotAvailable, StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from stepprof_lab.queues import Queues, Result

Vendor = Literal["cpu", "cuda", "rocm", "xpu", "practice"]
GpuVendor = Literal["cuda", "rocm", "xpu"]

GPU_VENDORS: tuple[GpuVendor, ...] = ("cuda", "rocm", "xpu")
"""In the order in which ``auto`` and ``gpu`` prefer them; one build of torch has at most one of cuda and rocm."""

HIDING_VARIABLES: dict[GpuVendor, tuple[str, ...]] = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "xpu": ("ZE_AFFINITY_MASK",),
}
"""The variables that can hide every device of a vendor from torch."""

_WORDS = "auto, cpu, gpu, cuda, rocm, xpu or practice (with an index where one is meant: cuda:1)"
PRACTICE_NAME = "practice device (simulated on the CPU)"
_ACTIVITY: dict[GpuVendor, str] = {"cuda": "CUDA", "rocm": "CUDA", "xpu": "XPU"}
_VENDOR_NAME: dict[GpuVendor, str] = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel"}


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let a Ctrl-C wait until an import is done: torch and numpy cannot be imported again where one was cut in two."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    except ValueError:  # not in the main interpreter
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    if arrived:
        raise KeyboardInterrupt


def import_torch() -> Any | None:
    """The torch module, or None where there is none that can be imported. The only place that looks for torch."""
    loaded = sys.modules.get("torch")
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return loaded  # asked between timed blocks, where an interrupt that is deferred costs more than the question
    try:
        with interrupts_deferred():
            import torch
    except (ImportError, OSError):  # OSError: a library of an installed torch is missing or broken
        return None
    return torch


def why_no_torch() -> str:
    """Why `import_torch` gave None, in words that follow "torch"."""
    if importlib.util.find_spec("torch") is None:
        return "is not installed"
    return "is installed and cannot be imported"


class Timer(Protocol):
    """Times what runs between `start` and `stop` on one device."""

    def start(self) -> None:
        """Mark the beginning."""

    def stop(self) -> None:
        """Mark the end."""

    def elapsed_ms(self) -> float:
        """Milliseconds from the beginning to the end; on a GPU this waits until the end was reached."""


class HostTimer:
    """Elapsed time on the host's monotonic clock (`time.perf_counter_ns`)."""

    def __init__(self) -> None:
        self._start_ns: int | None = None
        self._stop_ns: int | None = None

    def start(self) -> None:
        """Read the clock."""
        self._stop_ns = None
        self._start_ns = time.perf_counter_ns()

    def stop(self) -> None:
        """Read the clock again."""
        self._stop_ns = time.perf_counter_ns()

    def elapsed_ms(self) -> float:
        """Milliseconds between the two readings."""
        if self._start_ns is None or self._stop_ns is None:
            raise RuntimeError("the timer was not started and stopped")
        return (self._stop_ns - self._start_ns) / 1e6


class EventTimer:
    """Elapsed time between two device events on the device's current stream.

    The events carry the device's own time stamps, so that the host's wait is not measured. A pair also contains the
    gaps in which the queue was empty: it is elapsed time, not busy time.

    Args:
        device: the device's queues.
    """

    def __init__(self, device: Queues) -> None:
        self._device = device
        self._start = device.event()
        self._stop = device.event()
        self._marks = 0

    def start(self) -> None:
        """Put the first event into the current stream."""
        self._start.record(self._device.current_stream())
        self._marks = 1

    def stop(self) -> None:
        """Put the second event into the current stream."""
        if self._marks:
            self._stop.record(self._device.current_stream())
            self._marks = 2

    def elapsed_ms(self) -> float:
        """Milliseconds between the two events, after waiting for the second."""
        if self._marks != 2:
            raise RuntimeError("the timer was not started and stopped")
        self._stop.synchronize()
        return float(self._start.elapsed_time(self._stop))


@dataclasses.dataclass(frozen=True)
class Device:
    """The device that steps run on.

    Args:
        vendor: who made it possible: "cpu", "cuda", "rocm", "xpu", or "practice" for the one that is simulated.
        torch_device: the device's name in torch: "cpu", "cuda:0" (on ROCm too), "xpu:0"; "cpu" for practice.
        name: the product's name, or the processor's model.
        why: for the CPU, why it is the CPU ("no GPU observed", "as asked").
    """

    vendor: Vendor
    torch_device: str
    name: str
    why: str = "no GPU is used"

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, whose work a capture collects. The practice device is none."""
        return self.vendor in GPU_VENDORS

    @property
    def has_queues(self) -> bool:
        """Whether launches return before the work is done, so that device time is another time than the host's."""
        return self.vendor != "cpu"

    @property
    def origin(self) -> Literal["live", "simulated"]:
        """What a time that was measured on it is: the practice device's are simulated, in every record and grade."""
        return "simulated" if self.vendor == "practice" else "live"

    @property
    def sentence(self) -> str:
        """The device in words: "NVIDIA H200 (cuda:0)", "CPU, no GPU observed"."""
        if self.vendor == "cpu":
            return f"CPU, {self.why}"
        if self.vendor == "practice":
            return self.name
        built = "rocm, " if self.vendor == "rocm" else ""
        return f"{self.name} ({built}{self.torch_device})"

    def synchronize(self) -> None:
        """Wait until the device has done what was queued; the CPU has nothing to wait for."""
        if self.has_queues:
            self._queues().synchronize()

    def activities(self) -> list[Any]:
        """The ``torch.profiler.ProfilerActivity`` values that a capture on this device collects.

        Raises:
            NotAvailable: this build of torch does not collect the device's activity. With such an activity torch
                itself only warns and goes on without it.
        """
        torch = _torch_or_refuse(f"a capture on {self.torch_device}")
        wanted = [torch.profiler.ProfilerActivity.CPU]
        if self.vendor in _ACTIVITY:
            wanted.append(getattr(torch.profiler.ProfilerActivity, _ACTIVITY[self.vendor]))
        if not set(wanted) <= set(torch.profiler.supported_activities()):
            raise NotAvailable(
                f"a capture on {self.sentence}",
                f"a build of torch that collects its activity (torch {torch.__version__} does not)",
                "ask `stepprof doctor` for the reason, or say --device cpu",
            )
        return wanted

    def timer(self) -> Timer:
        """A new timer: device events where there are queues, the host's clock on the CPU."""
        return EventTimer(self._queues()) if self.has_queues else HostTimer()

    # What follows means the same on a GPU and on the practice device; the CPU has no queues and refuses it.

    def new_stream(self) -> Any:
        """A further stream, with the methods of `stepprof_lab.queues.Stream`."""
        return self._queues().new_stream()

    def current_stream(self) -> Any:
        """The stream that this thread launches to."""
        return self._queues().current_stream()

    def stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Launch to a stream inside the block: ``with device.stream(side): ...``."""
        return self._queues().stream(stream)

    def event(self) -> Any:
        """A new event with a time, with the methods of `stepprof_lab.queues.Event`."""
        return self._queues().event()

    def launch(
        self, function: Callable[..., Any], *arguments: Any, ms: float, name: str | None = None, first_ms: float = 0.0
    ) -> Result:
        """Queue an operation on the current stream and return at once.

        Args:
            function: what it does. On a GPU it queues its own work; on the practice device it runs in another thread.
            *arguments: its arguments; what an earlier launch returned stands for its result.
            ms: how long it lasts on the practice device. A GPU takes the time that the function's work takes.
            name: what the practice device calls it.
            first_ms: what the first operation of this name takes more on the practice device.
        """
        return self._queues().launch(function, *arguments, ms=ms, name=name, first_ms=first_ms)

    def occupy(self, ms: float, *, name: str = "busy", first_ms: float = 0.0) -> Result:
        """Queue an operation that lasts about this long on any device, and `first_ms` more the first time."""
        return self._queues().occupy(ms, name=name, first_ms=first_ms)

    def pending(self) -> int | None:
        """How many operations are launched and not done; None where some are and the device does not count (a GPU)."""
        return self._queues().pending()

    def _queues(self) -> Queues:
        if self.vendor == "practice":
            from stepprof_lab import practice

            return practice.engine()
        if self.vendor == "cpu":
            raise NotAvailable(
                f"streams, events or launches on a device without queues ({self.sentence})",
                "a GPU, or the practice device",
                "say --device practice, or devices.gpu_or_practice() in Python",
            )
        module = _module(_torch_or_refuse(self.torch_device), self.vendor)
        return queues.of_gpu(module, self.torch_device)


def choose(asked: str = "auto") -> Device:
    """The device that was asked for.

    Args:
        asked: "auto" (the best device that is present and collectable, else the CPU), "cpu", "gpu" (any GPU),
            "cuda", "rocm" or "xpu"; a GPU may have an index ("cuda:1"). Without an index it is the process's own
            device under ``torchrun`` (``LOCAL_RANK``), else the first. "practice" is the simulated one, which needs no
            torch.

    Raises:
        StepprofError: the word is none of these, or there is no device of that index.
        NotAvailable: the device is not there, with the likely reason.
    """
    word, index = _parse(asked)
    if word == "practice":
        return Device("practice", "cpu", PRACTICE_NAME, why="as asked")
    torch = _torch_or_refuse(f"device {asked!r}")
    if word == "cpu":
        return Device("cpu", "cpu", processor(), why="as asked")
    if word == "auto":
        return _best(torch)
    vendors = GPU_VENDORS if word == "gpu" else (word,)
    for vendor in vendors:
        if is_built_for(torch, vendor) and (found := count(torch, vendor)[0]):
            return _device(torch, vendor, _checked(index, found, asked))
    raise _not_there(torch, asked, word)


def gpu_or_practice() -> Device:
    """The best GPU that is present and collectable, else the practice device: for what needs queues, as a lab does."""
    if import_torch() is None:
        return choose("practice")
    best = choose("auto")
    return best if best.is_gpu else choose("practice")


def count(torch: Any, vendor: GpuVendor) -> tuple[int, str | None]:
    """How many devices of a vendor torch sees, and what torch said where it sees none (an old driver, for instance)."""
    module = _module(torch, vendor)
    if module is None or not is_built_for(torch, vendor):
        return 0, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = int(module.device_count()) if module.is_available() else 0
        except RuntimeError as error:
            return 0, first_sentence(str(error))
    return found, first_sentence(str(caught[-1].message)) if caught and not found else None


def is_built_for(torch: Any, vendor: GpuVendor) -> bool:
    """Whether this build of torch can drive a vendor's devices."""
    if vendor == "xpu":
        # torch 2.6 has no torch.version.xpu yet; its wheels for Intel GPUs are called 2.6.0+xpu.
        return bool(getattr(torch.version, "xpu", None)) or "+xpu" in str(torch.__version__)
    return bool(torch.version.hip if vendor == "rocm" else torch.version.cuda and not torch.version.hip)


def build_name(torch: Any) -> str:
    """What torch was built for: "cpu", "cuda 12.8", "rocm 6.4" or "xpu 2025.1"."""
    if torch.version.hip:
        return f"rocm {_short(torch.version.hip)}"
    if torch.version.cuda:
        return f"cuda {torch.version.cuda}"
    if is_built_for(torch, "xpu"):
        return f"xpu {_short(getattr(torch.version, 'xpu', None) or '')}".strip()
    return "cpu"


def has_apple_gpu(torch: Any) -> bool:
    """Whether torch sees an Apple GPU. `torch.profiler` collects none of its work."""
    mps = getattr(torch.backends, "mps", None)
    return mps is not None and bool(mps.is_available())


def hidden_by(vendor: GpuVendor) -> str | None:
    """The setting that hides every device of a vendor ("CUDA_VISIBLE_DEVICES=''"), or None."""
    for name in HIDING_VARIABLES[vendor]:
        value = os.environ.get(name)
        # A list ends at its first invalid entry, and -1 is the usual invalid one; an empty Level Zero mask hides none.
        if value is not None and (value.strip().startswith("-1") or (not value.strip() and vendor != "xpu")):
            return f"{name}={value!r}"
    return None


def properties(torch: Any, vendor: GpuVendor, index: int) -> Any:
    """The properties of one device, as torch gives them."""
    module: Any = _module(torch, vendor)
    return module.get_device_properties(index)


def processor() -> str:
    """The model of the processor, or its architecture where the system does not tell the model."""
    return _model_in_cpuinfo() or platform.processor() or platform.machine() or "unknown processor"


def _model_in_cpuinfo(path: Path = Path("/proc/cpuinfo")) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^model name\s*:[ \t]*(\S.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def _torch_or_refuse(given: str) -> Any:
    torch = import_torch()
    if torch is None:
        raise NotAvailable(
            f"{given}, and torch {why_no_torch()}",
            "torch, which runs the steps",
            "install PyTorch 2.6 or newer (the extra run of this package, or your own build)",
        )
    return torch


def _parse(asked: str) -> tuple[Any, int | None]:
    found = re.fullmatch(r"(auto|cpu|practice)|(gpu|cuda|rocm|xpu)(?::(\d{1,4}))?", asked.strip().lower())
    if found:
        return found.group(1) or found.group(2), int(found.group(3)) if found.group(3) else None
    if asked.strip().lower() in {"mps", "metal"}:
        raise NotAvailable(
            f"device {asked!r}, whose work torch.profiler cannot collect",
            _WORDS,
            "say --device cpu: an Apple GPU is never shown as if it had been observed",
        )
    raise StepprofError(f"device {asked!r}", _WORDS, "choose one of these")


def _module(torch: Any, vendor: GpuVendor) -> Any | None:
    return getattr(torch, "xpu" if vendor == "xpu" else "cuda", None)


def _best(torch: Any) -> Device:
    why = "an Apple GPU is present and torch.profiler cannot collect it" if has_apple_gpu(torch) else "no GPU observed"
    for vendor in GPU_VENDORS:
        found = count(torch, vendor)[0]
        if not found:
            continue
        device = _device(torch, vendor, _checked(None, found, "auto"))
        if getattr(torch.profiler.ProfilerActivity, _ACTIVITY[vendor]) in torch.profiler.supported_activities():
            return device
        why = f"{device.sentence} is present and this torch cannot collect it"
    return Device("cpu", "cpu", processor(), why=why)


def _device(torch: Any, vendor: GpuVendor, index: int) -> Device:
    kind = "xpu" if vendor == "xpu" else "cuda"
    # Some ROCm boards have no name of their own.
    name = str(properties(torch, vendor, index).name).strip() or f"unnamed {_VENDOR_NAME[vendor]} GPU"
    return Device(vendor, f"{kind}:{index}", name)


def _checked(index: int | None, found: int, asked: str) -> int:
    if index is None:
        own = os.environ.get("LOCAL_RANK", "")
        return int(own) if own.isdecimal() and int(own) < found else 0
    if index >= found:
        raise StepprofError(
            f"device {asked!r}",
            f"an index below {found}, the number of GPUs that torch sees",
            "choose another index",
        )
    return index


def _not_there(torch: Any, asked: str, word: str) -> NotAvailable:
    """Why a GPU that was asked for is not there: the build first, then what hides it, then what torch says."""
    build = build_name(torch)
    wanted = "a GPU that torch can use" if word == "gpu" else f"a GPU that torch can use as {word}"
    given = f"device {asked!r}"
    if build == "cpu":
        given += f", and torch {torch.__version__} is a CPU build"
        return NotAvailable(given, wanted, "install a build of torch for your GPU, or say --device cpu")
    if word != "gpu" and not build.startswith(word):
        given += f", and torch {torch.__version__} is built for {build}"
        other = build.split(maxsplit=1)[0]
        return NotAvailable(given, f"a build of torch for {word}", f"say --device {other} or --device gpu")
    for vendor in GPU_VENDORS:
        if not is_built_for(torch, vendor):
            continue
        if hiding := hidden_by(vendor):
            return NotAvailable(f"{given} while {hiding} hides every GPU", wanted, "unset it, or say --device cpu")
        if said := count(torch, vendor)[1]:
            given += f", and torch says: {said}"
    given += f" (torch {torch.__version__}, built for {build}, sees none)"
    return NotAvailable(given, f"{wanted} and its driver", "ask `stepprof doctor`, or say --device cpu")


def first_sentence(text: str) -> str:
    """The first sentence of what torch says, without the place in torch's source."""
    text = " ".join(text.split("(Triggered internally", maxsplit=1)[0].split())
    return re.split(r"(?<=[a-z)])\. ", text)[0].rstrip(". ")


def _short(version: str) -> str:
    return ".".join(re.split(r"[.-]", version)[:2])
