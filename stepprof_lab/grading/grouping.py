"""A small update of many tensors, its launches counted, and its time: the live part of lab 07.

It is plain PyTorch. On a GPU its time is real. On the practice device each of its operations is computed on the CPU
while it is dispatched, costs the host a modelled `LAUNCH_MS`, and then occupies the device in proportion to the
elements that it works on. Views and allocations launch nothing.

All values are small whole numbers and halves of them, which single precision holds exactly: so the order of exact
operations changes no bit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from stepprof_lab import devices
from stepprof_lab.grading import copying

Step = Callable[[Any], Any]
MakeStep = Callable[[Any], Step]

TENSORS, GPU_TENSORS = 48, 128
SMALL, LARGE = (100, 400), (12_000, 15_000)
"""How many elements the tensors have: all but one are small."""
GPU_SMALL, GPU_LARGE = (200, 900), (400_000, 500_000)
LAUNCH_MS = 0.2
"""What a launch takes the host on the practice device. On a real one it is some microseconds; this is long enough for a
wait to hold it."""
WORK_MS, ELEMENTS_A_MS = 0.005, 12_500
"""What an operation takes the practice device: a part of its own, and a part in proportion to its elements."""


def plan(chance: random.Random) -> dict[str, Any]:
    """Sizes of the tensors, and a seed of their values: plain data."""
    gpu = devices.gpu_or_practice().is_gpu
    small = GPU_SMALL if gpu else SMALL
    sizes = [chance.randint(*small) for _ in range((GPU_TENSORS if gpu else TENSORS) - 1)]
    sizes.insert(chance.randrange(len(sizes)), chance.randint(*(GPU_LARGE if gpu else LARGE)))
    return {"sizes": sizes, "seed": chance.randrange(1 << 30)}


def parameters(planned: dict[str, Any]) -> list[Any]:
    """Fresh parameters on the device, the same each time."""
    return _tensors(planned, planned["seed"], 50)


def gradients(planned: dict[str, Any], steps: int, seed: int) -> list[list[Any]]:
    """For each step a gradient for each parameter, on the device."""
    return [_tensors(planned, seed + number, 8) for number in range(steps)]


def _tensors(planned: dict[str, Any], seed: int, below: int) -> list[Any]:
    import torch

    place = devices.gpu_or_practice().torch_device
    chance = torch.Generator().manual_seed(seed)
    return [
        torch.randint(0, below, (size,), generator=chance, dtype=torch.float32).to(place) for size in planned["sizes"]
    ]


# ---- two answers of the library's own ----


def one_by_one(params: list[Any]) -> Step:
    """The update as it stands in the lab: three operations for each tensor."""
    import torch

    moments = [torch.zeros_like(p) for p in params]

    def step(grads: Any) -> Any:
        for p, m, g in zip(params, moments, grads, strict=True):
            m.mul_(0.5)
            m.add_(g)
            p.sub_(m)
        return params

    return step


def grouped(params: list[Any]) -> Step:
    """The same arithmetic in three operations for all tensors."""
    import torch

    moments = [torch.zeros_like(p) for p in params]

    def step(grads: Any) -> Any:
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        torch._foreach_sub_(params, moments)
        return params

    return step


# ---- counting and timing ----


class Launches:
    """Counts operations that launch work, and on the practice device gives them their modelled times.

    Args:
        paced: whether the host and the device take modelled times; False where operations are only counted.
    """

    def __init__(self, *, paced: bool) -> None:
        self._paced = paced
        self._device = devices.gpu_or_practice()
        self._due = time.perf_counter()
        self.count = 0

    def note(self, name: str, elements: int) -> None:
        """An operation was dispatched."""
        self.count += 1
        if not self._paced:
            return
        # The host's times follow a plan of their own: one late wake-up does not move what comes after it.
        self._due += LAUNCH_MS / 1e3
        if (left := self._due - time.perf_counter()) > 0:
            time.sleep(left)
        self._device.occupy(WORK_MS + elements / ELEMENTS_A_MS, name=name)

    def note_read(self) -> None:
        """The host read a value: it waits for the device."""
        if self._paced:
            self._device.synchronize()
            self.begin()

    def begin(self) -> None:
        """The host's plan begins now."""
        self._due = time.perf_counter()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Count what runs inside the block."""
        self.begin()
        with _mode()(self):
            yield


@functools.cache
def _mode() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Sees each operation as it is dispatched; one of a whole list is one."""

        def __init__(self, launches: Launches) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.launches = launches

    # Set when the class is there: torch wraps what it finds in the class's body such that its first call imports the
    # compiler, which takes seconds.
    Mode.__torch_dispatch__ = _dispatched  # type: ignore[method-assign]
    return Mode


def _dispatched(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG001
    found = func(*args, **(kwargs or {}))
    name = str(func.name()).split(".")[0]
    if name == "aten::_local_scalar_dense":
        mode.launches.note_read()
    elif _launches_work(name, func):
        mode.launches.note(name, max(_elements(found), _elements(args[0] if args else None)))
    return found


_NO_WORK = ("aten::empty", "aten::new_empty", "aten::detach", "aten::alias", "aten::set_", "aten::resize_")


def _launches_work(name: str, func: Any) -> bool:
    """Whether it is an operation of torch's own that neither views nor allocates alone."""
    if not name.startswith("aten::") or name.startswith(_NO_WORK):
        return False
    returned = [one.alias_info for one in func._schema.returns]  # noqa: SLF001 - torch has no other name for it
    return not any(one is not None and not one.is_write for one in returned)


def _elements(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(_elements(one) for one in value)
    return int(value.numel()) if hasattr(value, "numel") else 0


def launches_a_step(make_step: MakeStep, planned: dict[str, Any], *, steps: int = 2) -> float:
    """How many operations a step launches; a first step is not counted."""
    step = make_step(parameters(planned))
    first, *rest = gradients(planned, steps + 1, planned["seed"])
    step(first)
    launches = Launches(paced=False)
    with launches.watching():
        for grads in rest:
            step(grads)
    return launches.count / steps


def outputs(make_step: MakeStep, planned: dict[str, Any], *, steps: int) -> list[str]:
    """A hash of what each step returns."""
    step = make_step(parameters(planned))
    return [_digest(step(grads)) for grads in gradients(planned, steps, planned["seed"] + 100)]


def _digest(found: Any) -> str:
    if type(found) not in {list, tuple}:
        return f"<{type(found).__name__[:100]}>"
    return hashlib.sha256("\n".join(copying.digest(one) for one in found).encode()).hexdigest()[:16]


def ready(make_step: MakeStep, planned: dict[str, Any]) -> Step:
    """A step that has run once."""
    step = make_step(parameters(planned))
    step(gradients(planned, 1, planned["seed"])[0])
    return step


def fastest_step(step: Step, planned: dict[str, Any], seed: int, steps: int) -> float:
    """Milliseconds of the fastest of some steps, each on the host's clock with the wait for the device at its end."""
    device = devices.gpu_or_practice()
    found, times = gradients(planned, steps, seed), []
    launches = Launches(paced=not device.is_gpu)
    with _one_thread(), contextlib.nullcontext() if device.is_gpu else launches.watching():
        for grads in found:
            device.synchronize()
            launches.begin()
            begin = time.perf_counter()
            step(grads)
            device.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Torch's own threads wait for each other where other processes keep the cores busy: up to 200 ms an operation."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ms_a_step(make_step: MakeStep, planned: dict[str, Any], *, steps: int = 12) -> float:
    """Milliseconds of the fastest of some steps; a first step is not counted."""
    return fastest_step(ready(make_step, planned), planned, planned["seed"], steps)
