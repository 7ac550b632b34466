"""The running example of the course: one training step, as it is in each lesson, as a trace that was constructed.

``python -m stepprof_lab.site.scenes`` writes the traces beside the lessons; a test compares. The numbers that a lesson
tells are computed from its trace by the interpreter, never written into the text.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from stepprof_lab.construct import Construct
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Interpretation

LESSONS = Path(__file__).resolve().parents[2] / "course" / "lessons"

Values = Mapping[str, float]
"""Names and numbers: ``_ms`` are milliseconds, ``_share`` is a part of 1, the others are counts."""


@dataclasses.dataclass(frozen=True)
class Loop:
    """The photo loop: a small network learns to tell photos apart. Times in ms, of one step.

    Args:
        read: the host waits for the next batch.
        pinned: whether the batch lies in pinned memory, from which a copy needs no waiting host.
        constants: how often the same small table is built on the host and copied to the device.
        updates: kernels of the optimizer, one for each parameter unless they are grouped.
        resize: the device resizes the batch.
        host: what the host needs to launch one layer.
        device: whether there is one in the record.
        detail: what recording costs the host for each operator.
    """

    read: float = 22.0
    pinned: bool = False
    constants: int = 6
    updates: int = 200
    resize: float = 11.0
    host: float = 0.08
    device: bool = True
    detail: float = 0.0


LAYERS = (("conv1", 0.6), ("conv2", 0.9), ("conv3", 0.5), ("classifier", 0.2))
"""Layers of the network, and how long the device computes each; backward takes twice as long."""

START = Loop()
"""As the loop is when the course begins."""
FED = dataclasses.replace(START, read=0.6, pinned=True)
"""After lesson 05: four workers read ahead, into pinned memory."""
PLACED = dataclasses.replace(FED, constants=0)
"""After lesson 06: the table is moved once, before the loop."""
GROUPED = dataclasses.replace(PLACED, updates=5)
"""After lesson 07: the optimizer updates many parameters in one launch."""
RESIZED = dataclasses.replace(GROUPED, resize=2.0)
"""After lesson 08: photos are resized in the layout that the device reads fastest."""


def step(t: Construct, loop: Loop, *, extra: float = 0.0) -> None:
    """Place one step; ``extra`` ms of the host come first in the forward pass, as in a step that compiles."""
    with t.step():
        with t.label("read_batch"):
            t.cpu(loop.read)
        with t.label("transfer"):
            _transfer(t, loop)
        with t.label("train_step"):
            with t.label("forward"):
                if extra:
                    t.cpu(extra)
                _table(t, loop)
                _operator(t, loop, "aten::upsample_bilinear2d", [("upsample_bilinear2d", loop.resize)])
                for name, ms in LAYERS:
                    _layer(t, loop, name, ms)
            with t.label("backward"):
                for name, ms in reversed(LAYERS):
                    _layer(t, loop, f"{name}_backward", 2 * ms, kernels=2)
            with t.operator("aten::item"):  # the loss is printed: the host waits for the device
                if loop.device:
                    t.copy("DtoH", device=0.003, bytes=4, blocking=True)
            with t.label("update"):
                for _ in range(loop.updates):
                    _operator(t, loop, "aten::add_", [("vectorized_add", 0.6 / loop.updates)])


def _transfer(t: Construct, loop: Loop) -> None:
    if not loop.device:
        return
    with t.operator("aten::to"), t.operator("aten::copy_"):
        t.copy("HtoD", device=2.6, bytes=38_535_168, pinned=loop.pinned)


def _table(t: Construct, loop: Loop) -> None:
    """A table of positions, built anew on the host and copied in each step."""
    for _ in range(loop.constants):
        with t.operator("aten::arange"):
            t.cpu(0.35)
        with t.operator("aten::to"), t.operator("aten::copy_"):
            if loop.device:
                t.copy("HtoD", device=0.15, bytes=1_572_864)


def _layer(t: Construct, loop: Loop, name: str, ms: float, kernels: int = 1) -> None:
    kind = "linear" if "classifier" in name else "convolution"
    with t.operator(f"aten::{kind}"):
        t.cpu(loop.host + loop.detail)
        _operator(t, loop, f"aten::_{kind}", [(f"{name}_{number}", ms / kernels) for number in range(kernels)])


def _operator(t: Construct, loop: Loop, name: str, kernels: list[tuple[str, float]]) -> None:
    """One operator that launches its kernels; without a device the host computes, four times as long."""
    with t.operator(name):
        t.cpu(0.02 + loop.detail)
        for kernel, ms in kernels:
            if loop.device:
                t.launch(kernel, device=ms)
            else:
                t.cpu(4 * ms)


def _of(loop: Loop, about: str, *, extra: tuple[float, ...] = (0.0, 0.0)) -> Callable[[], Construct]:
    def make() -> Construct:
        t = Construct("cuda" if loop.device else "cpu", about=about)
        for one in extra:
            step(t, loop, extra=one)
        return t

    return make


def _common(seen: Interpretation) -> dict[str, float]:
    """Numbers that every lesson may tell: of the first active step, and of both."""
    analysis = seen.analysis
    first = analysis.steps[0]
    found: dict[str, float] = {
        "step_ms": first.cpu_us / 1e3,
        "steps": len(analysis.steps),
        "operators": sum(one.calls for one in analysis.operators) / len(analysis.steps),
    }
    for name, label in analysis.labels.items():
        found[f"{name}_ms"] = label.cpu_us / len(analysis.steps) / 1e3
    if (
        isinstance(first.gpu_busy_in_window_us, float)
        and isinstance(first.gpu_launched_us, float)
        and isinstance(first.gpu_events_launched, int)
    ):
        busy = first.gpu_busy_in_window_us / 1e3
        found |= {
            "busy_ms": busy,
            "idle_ms": found["step_ms"] - busy,
            "busy_share": busy / found["step_ms"],
            "launched_ms": first.gpu_launched_us / 1e3,
            "work": first.gpu_events_launched,
        }
    return found


def _shares(found: dict[str, float]) -> None:
    """Parts of the step, for each label."""
    for name in [one for one in found if one.endswith("_ms") and one != "step_ms"]:
        found[f"{name[:-3]}_share"] = found[name] / found["step_ms"]


def values_of(seen: Interpretation) -> Values:
    """Every number that a lesson can tell of its trace."""
    found = _common(seen)
    by_name = {one.name: one for one in seen.analysis.operators}
    steps = len(seen.analysis.steps)
    for name, one in by_name.items():
        short = name.removeprefix("aten::").strip("_")
        if f"{short}_calls" in found:  # a wrapper and what it calls have one name: the outer one counts
            continue
        found |= {
            f"{short}_calls": one.calls / steps,
            f"{short}_self_ms": one.cpu_self_us / steps / 1e3,
            f"{short}_total_ms": one.cpu_sum_us / steps / 1e3,
        }
        if isinstance(one.gpu_sum_us, float):
            found[f"{short}_gpu_ms"] = one.gpu_sum_us / steps / 1e3
    found["total_sum_ms"] = sum(one.cpu_sum_us for one in by_name.values()) / steps / 1e3
    found["self_sum_ms"] = sum(one.cpu_self_us for one in by_name.values()) / steps / 1e3
    if steps > 1:
        found["second_step_ms"] = seen.analysis.steps[1].cpu_us / 1e3
        found["mean_step_ms"] = sum(one.cpu_us for one in seen.analysis.steps) / steps / 1e3
    found |= _of_copies(seen, found) | _derived(found)
    found["before_training_ms"] = found.get("read_batch_ms", 0.0) + found.get("transfer_ms", 0.0)
    found["before_training_twice_ms"] = 2 * found["before_training_ms"]
    _shares(found)
    return found


def _of_copies(seen: Interpretation, found: Values) -> dict[str, float]:
    """How often the table is copied, and how long one such copy takes the device."""
    lengths = [span.duration_us / 1e3 for lane in seen.timeline.lanes for span in lane.spans if span.kind == "copy"]
    if len(lengths) < 3:
        return {}
    return {"copies": found["to_calls"] - 1, "one_copy_ms": statistics.median(lengths)}


def _derived(found: Values) -> dict[str, float]:
    """What questions ask for: ratios, and steps without one of their parts."""
    made = {
        "first_over_second": found["step_ms"] / found["second_step_ms"],
        "mean_over_second": found["mean_step_ms"] / found["second_step_ms"],
        "without_reading_ms": found["step_ms"] - found["read_batch_ms"],
    }
    if "upsample_bilinear2d_gpu_ms" in found and "busy_ms" in found:
        made["busy_without_resize_ms"] = found["busy_ms"] - found["upsample_bilinear2d_gpu_ms"]
    return made


SCENES: dict[str, Callable[[], Construct]] = {
    "01-ask-first": _of(START, "the photo loop, as it is at the beginning"),
    "02-async-timing": _of(START, "the photo loop, as it is at the beginning"),
    "03-nested-sums": _of(START, "the photo loop, as it is at the beginning"),
    "04-warm-up": _of(START, "the photo loop, whose first active step compiles", extra=(180.0, 0.0)),
    "05-input-wait": _of(START, "the photo loop, as it is at the beginning"),
    "06-repeated-copy": _of(FED, "the photo loop, with workers that read ahead"),
    "07-small-launches": _of(PLACED, "the photo loop, with its table on the device"),
    "08-dominant-operator": _of(GROUPED, "the photo loop, with grouped updates"),
    "09-cost-and-privacy": _of(
        dataclasses.replace(RESIZED, detail=0.35), "the photo loop, recorded with shapes and stacks"
    ),
    "10-validate-outside": _of(RESIZED, "the photo loop, with the faster resize"),
    "11-not-observed": _of(dataclasses.replace(RESIZED, device=False), "the photo loop on a machine without a GPU"),
    "12-whole-way": _of(RESIZED, "the photo loop, at the end of the course"),
}
"""For each lesson its trace."""


def trace_of(lesson: str) -> Path:
    """Where a lesson's trace lies."""
    return LESSONS / "traces" / f"{lesson}.json.gz"


@functools.cache
def values(lesson: str) -> Values:
    """Every number that can be told of a lesson's trace, and how many times as fast the loop became by then."""
    found = dict(values_of(interpreted(lesson)))
    first = values_of(interpreted("01-ask-first")) if lesson != "01-ask-first" else found
    return found | {"gain": first["step_ms"] / found["step_ms"]}


@functools.cache
def interpreted(lesson: str) -> Interpretation:
    """What the interpreter says of a lesson's trace."""
    return interpret(trace_of(lesson))


def main() -> None:
    """Write every lesson's trace anew."""
    for lesson, make in SCENES.items():
        with tempfile.TemporaryDirectory() as folder:
            made = make().save(Path(folder) / "trace.json.gz").read_bytes()
        trace_of(lesson).parent.mkdir(parents=True, exist_ok=True)
        trace_of(lesson).write_bytes(made)


if __name__ == "__main__":
    main()
