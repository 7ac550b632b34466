"""A small step that builds a table and copies it to the device, with tools that count both: the live part of lab 06.

On a GPU the copies are real, from pageable memory. On the practice device a copy computes a real copy and its duration
is modelled. All values are small whole numbers, which single precision holds exactly: so the order in which a step
multiplies changes no bit of its output.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from stepprof_lab import devices
from stepprof_lab.devices import Device
from stepprof_lab.grading import plain

Step = Callable[[Any], Any]
MakeStep = Callable[["Tools"], Step]

ROWS, COLUMNS = 16, 256
"""Of the table on the practice device; a batch is one row."""
GPU_ROWS, GPU_COLUMNS = 64, 1 << 16
"""On a GPU: the table is 16 MB, the batch a quarter of one."""
COPY_MS, TABLE_MS = 2.0, 10.0
"""On the practice device a copy takes `COPY_MS`, and in proportion to its size up to `TABLE_MS` more for the table."""


class Tools:
    """What a step is given: ``build_table()`` and ``to_device(tensor)``.

    Args:
        seed: of the table's values: the same seed gives the same table.
        counts: whether it counts; counting compares values, and is left out where time is measured.
    """

    def __init__(self, seed: int, *, counts: bool = True) -> None:
        import torch

        self._torch = torch
        self._device: Device = devices.gpu_or_practice()
        rows, columns = (GPU_ROWS, GPU_COLUMNS) if self._device.is_gpu else (ROWS, COLUMNS)
        chance = torch.Generator().manual_seed(seed)
        self._table = torch.randint(1, 8, (rows, columns), generator=chance, dtype=torch.float32)
        self._counts = counts
        self._batches: list[Any] = []
        self.built = 0
        """How often a table was built."""
        self.batch_copies = 0
        """How many copies to the device held a batch as it is."""
        self.other_copies = 0
        """How many held anything else."""

    def build_table(self) -> Any:
        """A fresh tensor on the host with the same values each time."""
        self.built += 1
        return self._table.clone()

    def to_device(self, tensor: Any) -> Any:
        """Copy a tensor of the host to the device, and wait until it is there."""
        if self._counts:
            self._count(tensor)
        if self._device.is_gpu:
            moved = tensor.to(self._device.torch_device)
            self._device.synchronize()
            return moved
        ms = COPY_MS + TABLE_MS * tensor.numel() / self._table.numel()
        return self._device.launch(self._torch.clone, tensor, ms=ms, name="copy to device").value()

    def batches(self, count: int, seed: int) -> list[Any]:
        """Batches on the host, each with other values; every later one has a larger greatest value."""
        chance = self._torch.Generator().manual_seed(seed)
        found = []
        for number in range(count):
            batch = self._torch.randint(1, 4, (self._table.shape[1],), generator=chance, dtype=self._torch.float32)
            batch[number % len(batch)] = 4 + number % 6
            found.append(batch)
        self._batches += found if self._counts else []
        return found

    def _count(self, tensor: Any) -> None:
        if any(tensor.shape == one.shape and bool(self._torch.equal(tensor, one)) for one in self._batches):
            self.batch_copies += 1
        else:
            self.other_copies += 1


def original(tools: Tools) -> Step:
    """The step as it stands in the lab: it builds and copies its table each time, and scales it in place."""

    def step(batch: Any) -> Any:
        x = tools.to_device(batch)
        table = tools.to_device(tools.build_table())
        table *= x.max()
        return x * table

    return step


def moved_once(tools: Tools) -> Step:
    """The library's own answer: the table is copied once and never changed."""
    table = tools.to_device(tools.build_table())

    def step(batch: Any) -> Any:
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def digest(output: Any) -> str:
    """What a step returned, as a hash of its values in single precision; its type's name where it is no array."""
    if not plain.is_array(output):
        return f"<{type(output).__name__[:100]}>"
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    values = output.astype("float32")
    return f"{list(values.shape)} {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def ms_a_step(make_step: MakeStep, seed: int, *, steps: int = 12) -> float:
    """Milliseconds of the fastest of some steps; a first step is not counted."""
    return fastest_step(ready(make_step, seed), seed, steps)


def ready(make_step: MakeStep, seed: int) -> tuple[Tools, Step]:
    """Tools that do not count, and a step made from them that has run once."""
    tools = Tools(seed, counts=False)
    step = make_step(tools)
    step(tools.batches(1, seed)[0])
    return tools, step


def fastest_step(made: tuple[Tools, Step], seed: int, steps: int) -> float:
    """Milliseconds of the fastest of some steps, each on the host's clock with the wait for the device at its end."""
    tools, step = made
    device = devices.gpu_or_practice()
    times = []
    for batch in tools.batches(steps, seed):
        device.synchronize()
        begin = time.perf_counter()
        step(batch)
        device.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)
