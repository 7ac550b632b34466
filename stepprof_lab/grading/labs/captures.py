"""The captures of lab 11: constructed traces in which GPU activity is there, missing, or missing in part.

A capture is plain data: what was asked of the profiler, what the interpreter says of the trace (the JSON of ``stepprof
read``), and the same as text. The traces are written with `stepprof_lab.construct` and read by the library.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepprof_lab.construct import VENDORS, Construct
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Analysis, Context

Capture = dict[str, Any]

STEPS = 4
SKIPPED = 2
"""Which step of the whole capture launches nothing, counted from 0."""

WIDTH = 100


class Numbers(NamedTuple):
    """What differs from learner to learner, in ms where it is a time."""

    vendor: str
    read: float
    host: float
    kernel: float
    operators: int


def numbers(chance: random.Random) -> Numbers:
    """Numbers of a capture; reading takes less than half of a step."""
    return Numbers(
        vendor=chance.choice(["cuda", "rocm"]),
        read=round(chance.uniform(1.5, 2.5), 2),
        host=round(chance.uniform(0.5, 0.8), 2),
        kernel=round(chance.uniform(0.2, 0.45), 2),
        operators=chance.randint(6, 9),
    )


def _work(t: Construct, chosen: Numbers, number: int, *, lost: Callable[[int], bool]) -> None:
    """One operator of a step; a lost launch is a call without its work."""
    with t.operator("aten::mm" if number % 2 == 0 else "aten::relu"):
        t.cpu(chosen.host if number % 2 == 0 else chosen.host / 3)
        if lost(number):
            names = VENDORS[chosen.vendor]
            t.call(names.launch if names else "")
        else:
            t.launch("gemm" if number % 2 == 0 else "relu", device=chosen.kernel)


def _steps(t: Construct, chosen: Numbers, train: Callable[[int], None]) -> Construct:
    for step in range(STEPS):
        with t.step():
            with t.label("read_batch"):
                t.cpu(chosen.read)
            with t.label("train"):
                train(step)
    return t


def no_events(chosen: Numbers) -> Construct:
    """GPU activity was asked for; the host launched, and no device event is there."""
    t = Construct(chosen.vendor)

    def train(_: int) -> None:
        for number in range(chosen.operators):
            _work(t, chosen, number, lost=lambda _: True)

    return _steps(t, chosen, train)


def cpu_alone(chosen: Numbers) -> Construct:
    """GPU activity was not asked for: whether a GPU took part is not in the trace."""
    return _on_the_cpu(Construct("cpu"), chosen)


def no_launches(chosen: Numbers) -> Construct:
    """GPU activity was asked for and a GPU is listed; the host made no call that queues work."""
    return _on_the_cpu(Construct(chosen.vendor), chosen)


def _on_the_cpu(t: Construct, chosen: Numbers) -> Construct:
    def train(_: int) -> None:
        for number in range(chosen.operators):
            t.cpu(chosen.host if number % 2 == 0 else chosen.host / 3, "aten::mm" if number % 2 == 0 else "aten::relu")

    return _steps(t, chosen, train)


def some_events(chosen: Numbers) -> Construct:
    """The device's records of the first step are lost, and some of the second's."""
    t = Construct(chosen.vendor)

    def train(step: int) -> None:
        for number in range(chosen.operators):
            _work(t, chosen, number, lost=lambda at, step=step: step == 0 or (step == 1 and at < 2))  # type: ignore[misc]

    return _steps(t, chosen, train)


def all_events(chosen: Numbers) -> Construct:
    """Everything is there, and one step launched nothing: its zero was observed."""
    t = Construct(chosen.vendor)

    def train(step: int) -> None:
        if step == SKIPPED:
            t.cpu(3 * chosen.host, "aten::isfinite")
            return
        for number in range(chosen.operators):
            _work(t, chosen, number, lost=lambda _: False)
        t.wait()

    return _steps(t, chosen, train)


def nothing_in_window(chosen: Numbers) -> Construct:
    """All work had been launched before the steps and ended before them: an observed zero."""
    t = Construct(chosen.vendor)
    t.queued_before("left_over", device=chosen.kernel)
    t.cpu(2 * chosen.kernel + 1.0)
    return _steps(t, chosen, lambda _: t.cpu(chosen.operators * chosen.host, "aten::mm"))


def two_streams(chosen: Numbers) -> Construct:
    """Two streams at once, with work that reaches into the next step and beyond the last one."""
    t = Construct(chosen.vendor)
    t.queued_before("left_over", device=2 * chosen.read)
    t.cpu(chosen.read)

    def train(step: int) -> None:
        for number in range(chosen.operators):
            with t.operator("aten::mm"):
                t.cpu(chosen.host / 2)
                t.launch("gemm", device=chosen.kernel * (1 + step / 4), stream=20 + number % 2)
        t.launch("long", device=0.6 * chosen.read, stream=20)

    return _steps(t, chosen, train)


KINDS: Mapping[str, tuple[Callable[[Numbers], Construct], bool]] = {
    "no_events": (no_events, True),
    "cpu_alone": (cpu_alone, False),
    "no_launches": (no_launches, True),
    "some_events": (some_events, True),
    "all_events": (all_events, True),
    "nothing_in_window": (nothing_in_window, True),
    "two_streams": (two_streams, True),
}
"""Each kind of capture: what writes its trace, and whether GPU activity was asked for."""


QUESTION = "Does compute wait for the next batch?"


def analysis(kind: str, chance: random.Random) -> Analysis:
    """What the interpreter says of a capture of this kind."""
    write, gpu_asked = KINDS[kind]
    context = Context(gpu_requested=gpu_asked, origin="constructed", question=QUESTION)
    with tempfile.TemporaryDirectory(prefix="stepprof-lab11-") as directory:
        return interpret(write(numbers(chance)).save(Path(directory) / f"{kind}.json"), context).analysis


def as_data(analysed: Analysis) -> dict[str, Any]:
    """The JSON of ``stepprof read`` as a dict."""
    found: dict[str, Any] = msgspec.to_builtins(analysed)
    return found


def make(kind: str, chance: random.Random) -> Capture:
    """One capture: ``asked`` (words), ``analysis`` (the JSON of ``stepprof read`` as a dict), ``report`` (text)."""
    from rich.console import Console

    from stepprof_lab.report import text

    analysed, out = analysis(kind, chance), io.StringIO()
    text.show_analysis(analysed, Console(file=out, width=WIDTH, color_system=None))
    return {
        "asked": "CPU and GPU" if KINDS[kind][1] else "CPU alone",
        "analysis": as_data(analysed),
        # The last line names flags of the command line, which nobody uses here.
        "report": out.getvalue().rpartition("\nMore ")[0],
    }
