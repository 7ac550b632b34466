"""An operator that logs how it is called, and the library's own measurement of it: the live part of lab 08.

The operator makes running sums (`torch.cumsum`). A *recorded* input is plain data, as a trace with shapes has it: its
``shape``, ``strides`` (in elements), ``dtype``, and how many ``calls`` of a step had such an input. On the CPU a log
tells what each call took. On a GPU a call returns before its work is done, so that the log tells the inputs alone and
the library times calls of its own.
"""

from __future__ import annotations

import random
import statistics
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

TRIES = 15
"""The first call on a new kind of input computes so many times more: the mean of 20 calls with it among them is still
three quarters too long."""
GPU_FACTOR = 10
"""On a GPU both sides of an input are so many times longer, so that a launch is short beside a call."""
TIMED = 8
"""Calls of the library's own measurement, on each recorded input."""
SMALL_OPERATIONS = 60
"""Of a live step, beside the operator's calls."""

# Taken before a learner's code runs: what it puts in their place later changes nothing here.
_now_ns = time.perf_counter_ns

Recorded = list[dict[str, Any]]


class Signature(NamedTuple):
    """What a record of a call tells of its input."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


def plan(chance: random.Random) -> Recorded:
    """Two kinds of inputs: a large one with few calls that lies transposed, and a small one with many; one is wide.

    A call on the large one takes at least some four times as long, so that calls which are mixed up give another sum.
    """
    columns = chance.randrange(368, 448, 16)
    sides = [(chance.randrange(1520, 1760, 16), columns), (chance.randrange(240, 288, 16), columns + 48)]
    calls = [chance.randint(2, 3), chance.randint(8, 10)]
    is_wide = chance.randrange(2)
    found = [
        {
            "shape": [rows, wide],
            "strides": [1, rows] if number == 0 else [wide, 1],
            "dtype": "float64" if number == is_wide else "float32",
            "calls": count,
        }
        for number, ((rows, wide), count) in enumerate(zip(sides, calls, strict=True))
    ]
    chance.shuffle(found)
    return found


def on_device(recorded: Recorded, device: Device) -> Recorded:
    """The same for a device: longer on a GPU."""
    if not device.is_gpu:
        return [dict(one) for one in recorded]
    return [
        {
            **one,
            "shape": [GPU_FACTOR * side for side in one["shape"]],
            "strides": [side if side == 1 else GPU_FACTOR * side for side in one["strides"]],
        }
        for one in recorded
    ]


def signature(one: dict[str, Any]) -> Signature:
    """Of a recorded input."""
    return Signature(tuple(one["shape"]), tuple(one["strides"]), one["dtype"])


def make_input(one: dict[str, Any], device: Device) -> Any:
    """A tensor as it was recorded, filled with random numbers."""
    import torch

    made = torch.empty_strided(
        one["shape"], one["strides"], dtype=getattr(torch, one["dtype"]), device=device.torch_device
    )
    return made.normal_()


class Operator:
    """Running sums along the rows: ``operator(x)`` is ``torch.cumsum(x, 1)``.

    The first time that it meets a new kind of input (shape, strides, type) it computes `TRIES` times more, as a library
    that tries its kernels and keeps the fastest.
    """

    def __init__(self) -> None:
        import torch

        self._compute = torch.cumsum
        self._known: set[Signature] = set()
        self._seen: dict[int, weakref.ref[Any]] = {}
        self.log: list[tuple[Signature, float]] = []
        """Each call's input, and for how many milliseconds it kept the host."""
        self.fresh = 0
        """How many calls were on a tensor that no call before was on."""

    def __call__(self, x: Any) -> Any:
        """The sums of a tensor with two dimensions; torch's own error where it is none."""
        begin = _now_ns()
        of = Signature(tuple(x.shape), tuple(x.stride()), str(x.dtype).rpartition(".")[2])
        if of not in self._known:
            self._known.add(of)
            for _ in range(TRIES):
                self._compute(x, 1)
        found = self._compute(x, 1)
        self.log.append((of, (_now_ns() - begin) / 1e6))
        known = self._seen.get(id(x))
        if known is None or known() is not x:
            self._seen[id(x)] = weakref.ref(x)
            self.fresh += 1
        return found

    def calls(self, of: Signature) -> list[float]:
        """The log's milliseconds of the calls on one kind of input, in order."""
        return [ms for one, ms in self.log if one == of]


def of_calls(ms: Sequence[float]) -> dict[str, float]:
    """Of some calls in ms: the first, and the fastest, median and mean of the later ones (else of the first)."""
    later = ms[1:] or ms
    return {
        "first_ms": ms[0],
        "fastest_ms": min(later),
        "median_ms": statistics.median(later),
        "mean_ms": statistics.fmean(later),
    }


def measured(recorded: Recorded, device: Device) -> list[dict[str, float]]:
    """The library's own, for each recorded input: `of_calls` of a first and `TIMED` later ones.

    The host's part of a call is in all but the fastest: on a GPU, its launch and the wait for it.
    """
    found = []
    for one in recorded:
        operator, x = Operator(), make_input(one, device)
        device.synchronize()
        own = of_calls([_on_host_ms(operator, x, device) for _ in range(1 + TIMED)])
        found.append({**own, "fastest_ms": min(own["fastest_ms"], _in_a_row_ms(operator, x, device))})
    return found


def _on_host_ms(operator: Operator, x: Any, device: Device) -> float:
    begin = _now_ns()
    operator(x)
    device.synchronize()
    return (_now_ns() - begin) / 1e6


def _in_a_row_ms(operator: Operator, x: Any, device: Device) -> float:
    """One of `TIMED` calls that do not wait for each other: on a GPU, the device's part alone."""
    timer = device.timer()
    timer.start()
    for _ in range(TIMED):
        operator(x)
    timer.stop()
    return timer.elapsed_ms() / TIMED


def in_step(recorded: Recorded, device: Device, *, steps: int = 5) -> dict[str, float]:
    """A live step with the recorded calls in it: ``step_ms``, and ``operator_ms`` of it, of the fastest of some steps.

    On a GPU the operator's part is timed by events around each call.
    """
    import torch

    operator = Operator()
    inputs = [make_input(one, device) for one in recorded]
    small = torch.ones(64, device=device.torch_device)
    calls = [x for one, x in zip(recorded, inputs, strict=True) for _ in range(one["calls"])]
    for x in inputs:
        operator(x)
    return min((_one_step(operator, calls, small, device) for _ in range(steps)), key=lambda one: one["step_ms"])


def _one_step(operator: Operator, calls: Sequence[Any], small: Any, device: Device) -> dict[str, float]:
    timers = [device.timer() for _ in calls]
    device.synchronize()
    begin = _now_ns()
    for _ in range(SMALL_OPERATIONS):
        small.mul_(1.0)
    for timer, x in zip(timers, calls, strict=True):
        timer.start()
        operator(x)
        timer.stop()
    device.synchronize()
    step_ms = (_now_ns() - begin) / 1e6
    return {"step_ms": step_ms, "operator_ms": sum(timer.elapsed_ms() for timer in timers)}
