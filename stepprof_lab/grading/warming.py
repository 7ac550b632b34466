"""A real small step that is slow at first: it prepares each kind of batch when it meets it for the first time.

The work is real and runs on the device at hand; which call prepares how much is planned. A step ends with a wait for
the device, so that the host's clock around a call holds what the call did.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from stepprof_lab import devices

CALLS = 120
UNIT_MS = 0.5
"""About what a prepared step takes: hundreds of times what it takes to read the clock, and so short that most calls end
before the system gives the processor to somebody else. With units of 1.6 ms, beside some eight busy tasks on two cores,
every second call waited 20 to 40 ms for the processor, and the median was of these."""
ELEMENTS = 1024
"""Of the tensor that is worked on. From 2,048 on torch splits such an operation over threads, and beside busy processes
these wait for each other: a unit of 1.5 ms then took 20 to 40 ms in the median (seen on 2 cores with 9 busy tasks)."""
FIRST, OTHERS, NEW = 15, (3, 4), 40
"""What it takes to prepare the first kind of batch, the other ones of the start-up, and the new one in the middle: in
units of a prepared step."""


def plan(chance: random.Random, calls: int = CALLS) -> dict[str, Any]:
    """Which kind of batch each call has, and what it takes to prepare each kind: plain data.

    Every call of the start-up meets a kind that is new. A later one is met for the first time in the middle.
    """
    start_up = chance.randint(14, 20)
    new_at = chance.randint(calls // 2, calls - 25)
    kinds = [*range(start_up), *(chance.randrange(start_up) for _ in range(calls - start_up))]
    kinds[new_at] = start_up
    costs = [FIRST, *(chance.randint(*OTHERS) for _ in range(start_up - 1)), NEW]
    return {"calls": calls, "kinds": kinds, "costs": costs, "start_up": start_up, "new_at": new_at}


def new_step(planned: dict[str, Any]) -> Callable[[], float]:
    """A step that has not run yet; each call returns what it computed.

    Args:
        planned: from `plan`. After its last call the kinds of the start-up go on.
    """
    work = _Work()
    prepared: dict[int, float] = {}
    made = 0

    def step() -> float:
        nonlocal made
        kinds = planned["kinds"]
        kind = kinds[made] if made < len(kinds) else made % planned["start_up"]
        made += 1
        if kind not in prepared:
            prepared[kind] = work.run(planned["costs"][kind])
        return work.run(1) + prepared[kind]

    return step


def device_in_words() -> str:
    """What steps of `new_step` run on."""
    return devices.choose("auto").sentence


class _Work:
    """Some arithmetic on the device, in units of about `UNIT_MS`."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._device = devices.choose("auto")
        self._x = torch.linspace(-1.0, 1.0, ELEMENTS, device=self._device.torch_device)
        self._each = self._operations_a_unit()

    def run(self, units: int) -> float:
        """Do so many units, wait for the device, and return a number of the result."""
        return self._operations(units * self._each)

    def _operations(self, count: int) -> float:
        x = self._x
        with self._torch.inference_mode():
            for _ in range(count):
                x = self._torch.tanh(x)
        self._device.synchronize()
        return float(x[-1])

    def _operations_a_unit(self) -> int:
        """The shortest of a few runs tells how many operations make a unit here."""
        tried = 20
        self._operations(tried)
        shortest = min(_timed_ms(lambda: self._operations(tried)) for _ in range(5))
        return max(1, round(UNIT_MS * tried / shortest))


def _timed_ms(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begin)


def recorded(step: Callable[[], Any], times_ms: list[float]) -> Callable[[], Any]:
    """The same step, with the time of each call put into a list: the library's own measurement of the same calls."""
    clock = time.perf_counter

    def call() -> Any:
        begin = clock()
        found = step()
        times_ms.append(1e3 * (clock() - begin))
        return found

    return call
