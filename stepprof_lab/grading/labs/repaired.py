"""What a changed loop does beside the original one: same losses, which sites were changed, how long a step takes."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stepprof_lab.grading import plain
from stepprof_lab.grading.labs import slow_loop
from stepprof_lab.grading.labs.slow_loop import Build
from stepprof_lab.labels import Step

SEED = 12
LOSSES = 6
"""Steps whose losses are compared: an update that is left out shows in the next one."""
ROUNDS, STEPS = 5, 3
"""Rounds of the re-measurement, in each of which every loop does so many steps."""
LEFT = 0.6
"""A site that is seen for less than this share of the original is taken for changed."""


def built(build: Any) -> Step:
    """A fresh step of a learner's build, from the seed of the re-measurement.

    Raises:
        TypeError: it gave something else.
    """
    import torch

    torch.manual_seed(SEED)
    step = build("cpu")
    if type(step) is not Step:
        raise TypeError(f"build(device) gave a {type(step).__name__}, not a Step")
    return step


def losses(step: Step) -> list[float | None]:
    """What its next steps return, as numbers."""
    return [plain.number(step.run()) for _ in range(LOSSES)]


def sites_of(step: Step) -> dict[str, float]:
    """How much is seen of each site in one step: calls, or seconds where calls do not tell the forms apart."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = dict.fromkeys(slow_loop.SITES, 0.0)

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            seen["tiny"] += 1
            seen["operator"] += args[0].numel() if name in {"sort", "argsort"} else 0
            if name.rstrip("_") == "cos":
                seen["constant"] += found.numel() >= slow_loop.LENGTH**2
            return found

    with Counting():  # type: ignore[no-untyped-call, unused-ignore]
        step.run()
    seen["read"] = min(_seconds_of_unpacking(step) for _ in range(3))
    return seen


def _seconds_of_unpacking(step: Step) -> float:
    """This thread's processor time inside zlib in one step, by whatever name it is called."""
    begun, found = 0.0, 0.0
    clock, before = time.thread_time, sys.getprofile()

    def listen(_: Any, event: str, what: Any) -> None:
        nonlocal begun, found
        if getattr(what, "__name__", "") != "decompress":
            return
        if event == "c_call":
            begun = clock()
        elif event == "c_return":
            found += clock() - begun

    sys.setprofile(listen)
    try:
        step.run()
    finally:
        sys.setprofile(before)
    return found


def changed_sites(original: Mapping[str, float], other: Mapping[str, float], planted: Sequence[str]) -> list[str]:
    """The planted causes that are gone from the other loop."""
    return [name for name in planted if other[name] < LEFT * original[name]]


def ratios(builds: Mapping[str, Build]) -> dict[str, float]:
    """How long a step of each loop takes, as a share of a step of ``builds["original"]``; the median over the rounds.

    Each round has all loops in turn, so that what else the machine does falls on all of them. By the processor time of
    this thread, on which torch then does all its work: beside busy processes the clock on the wall tells about those.
    """
    with one_thread():
        steps = {name: built(build) for name, build in builds.items()}
        for step in steps.values():
            step.run()
        rounds = [{name: _timed(step.run) for name, step in steps.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(one[name] / one["original"] for one in rounds) for name in builds}


def _timed(run: Callable[[], Any]) -> float:
    """The fastest of some steps, in seconds of this thread's processor time."""
    found = []
    for _ in range(STEPS):
        begin = time.thread_time()
        run()
        found.append(time.thread_time() - begin)
    return min(found)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread, and afterwards on as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
