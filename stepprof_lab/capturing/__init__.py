"""Four labelled steps of a real loop: unprofiled steps before the window, the window, its checks, its record.

Three forms of one thing:

    for step in capture(scenario, trace="runs/a.json.gz"):   # around the loop's body: each turn is one step
        ...

    for batch in capture(scenario, trace=...).over(loader):  # reading the batch belongs to the step
        ...

    with capture(scenario, trace=..., begin=100) as window:  # a trainer owns the loop
        trainer.fit(on_step_end=window.step)

In the first two a loop that is left by ``break`` closes the window, where nothing but the loop holds its iterator.
Where a name or a wrapper does (``tqdm(window.over(loader))``), use the window by ``with`` as in the third, and loop
over it or over ``window.over(loader)`` inside.

The steps are: an approach (see `stepprof_lab.capturing.approach`), then wait 1, warm-up 1, active 2, once. A capture
that is not valid is kept as ``.rejected`` with its reasons and never under its own name; an interrupted one leaves
nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepprof_lab import files, workload
from stepprof_lab import scenario as scenarios
from stepprof_lab.capturing import ranks
from stepprof_lab.capturing.approach import LIMIT_S
from stepprof_lab.capturing.plan import Plan, checked_name, refuse
from stepprof_lab.capturing.window import Captured, Window
from stepprof_lab.devices import choose
from stepprof_lab.errors import StepprofError
from stepprof_lab.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepprof_lab.labels import Step
    from stepprof_lab.scenario import Boundary, Scenario

__all__ = ["Captured", "Plan", "Window", "capture", "profile_workload"]


def capture(
    scenario: Scenario | Path | str,
    trace: Path | str,
    *,
    kind: str = "training",
    boundary: Boundary | str | None = None,
    unit: str | None = None,
    seed: int = 0,
    device: str = "auto",
    begin: int | None = None,
    approach_limit_s: float = LIMIT_S,
    record_shapes: bool = False,
    profile_memory: bool = False,
    with_stack: bool = False,
    progress: Progress = silent,
) -> Window:
    """Capture four labelled steps of a loop that exists already; see the module for the three forms.

    What a step is, is the caller's choice: several micro-batches are one step where `Window.step` is called once for
    all of them. Before the window clocks are read and one step is looked at; after it nothing of ours runs.

    Args:
        scenario: a scenario, the path of one (``.toml``), or the question itself; then ``boundary`` and ``unit`` say
            the rest.
        trace: a new name that ends in ``.json`` or ``.json.gz``. The record lies beside it.
        kind: for a question given inline: "training" or "inference".
        boundary: for a question given inline: what a step includes ("read transfer forward backward update").
        unit: for a question given inline: "ms/step", "ms/request" or "samples/s".
        seed: for a question given inline: the seed that the loop uses.
        device: "auto", "cpu", "gpu", "cuda", "rocm", "xpu" or "practice".
        begin: the window begins at this step, counted from 0; the steps before it are the approach.
        approach_limit_s: the approach is cut after this many seconds (not with ``begin``).
        record_shapes: record operators' input shapes; takes time inside the window.
        profile_memory: record allocations; takes time inside the window.
        with_stack: record Python's stack; takes much time inside the window.
        progress: is told how far it is, never between the active steps.

    Raises:
        StepprofError: the scenario cannot be used, or the trace's name ends in something else. What else can be
            refused is refused when the first step begins.
    """
    options = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack}
    if begin is not None and begin < 0:
        raise StepprofError(f"begin = {begin}", "a step's number, 0 or more", "count the steps from 0")
    plan = Plan(
        scenario=_scenario(scenario, kind=kind, boundary=boundary, unit=unit, seed=seed),
        trace=checked_name(Path(trace)).absolute(),
        device=device,
        options=options,
        begin=begin,
        approach_limit_s=approach_limit_s,
    )
    return Window(plan, progress=progress)


def profile_workload(
    scenario: Scenario,
    spec: str,
    *,
    device: str = "auto",
    out: Path | None = None,
    name: str | None = None,
    record_shapes: bool = False,
    profile_memory: bool = False,
    with_stack: bool = False,
    approach_limit_s: float = LIMIT_S,
    traced_ranks: Iterable[int] | None = None,
    progress: Progress = silent,
) -> Captured | None:
    """Build a workload and capture four of its steps.

    Args:
        scenario: the question; its seed is set before the workload is built.
        spec: the workload, ``FILE`` or ``FILE:NAME``.
        device: "auto", "cpu", "gpu", "cuda", "rocm", "xpu" or "practice".
        out: directory for ``trace.json.gz`` and its record; by default a new one below ``runs/``.
        name: begins the default directory's name (the scenario file's name, say); by default the question's words.
        record_shapes: see `capture`.
        profile_memory: see `capture`.
        with_stack: see `capture`.
        approach_limit_s: the approach is cut after this many seconds.
        traced_ranks: under ``torchrun``, the ranks that are traced; all run as many steps.
        progress: is told how far it is.

    Returns:
        The capture; None on a rank that is not traced.

    Raises:
        StepprofError: anything that was given cannot be used, or the capture is not valid.
        NotAvailable: the device, or the collection of its activity, is not there.
    """
    plan = Plan(
        scenario=scenario,
        trace=(out or files.run_directory(name or scenario.question)).absolute() / "trace.json.gz",
        device=device,
        options={"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack},
        approach_limit_s=approach_limit_s,
        traced_ranks=None if traced_ranks is None else frozenset(traced_ranks),
    )
    # Before the file is run: most files import torch, and where there is none that is what has to be said.
    choose(device)
    build = workload.load(spec)
    if ranks.place() is not None:
        step, plan = _built_by_all(build, plan, shared_out=out is not None)
        return _run(step, plan, progress)
    with _no_empty_directory(plan.trace.parent):
        # Alone there is nobody to agree with: refuse before anything slow is built.
        refuse(plan)
        return _run(_seeded(build, plan), plan, progress)


def _run(step: Step, plan: Plan, progress: Progress) -> Captured | None:
    with Window(plan, step=step, progress=progress) as window:
        while not window.done:
            workload.run_step(step, window.steps_run, window.total)
            window.step()
    return window.captured


@contextlib.contextmanager
def _no_empty_directory(path: Path) -> Iterator[None]:
    """A directory that is made for a capture does not stay behind empty where there is none."""
    existed = path.exists()
    try:
        yield
    except BaseException:
        if not existed:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _scenario(given: Scenario | Path | str, **inline: Any) -> Scenario:
    if isinstance(given, scenarios.Scenario):
        return given
    if isinstance(given, Path) or given.endswith(".toml"):
        return scenarios.load(Path(given))
    return scenarios.inline(given, **inline)


def _seeded(build: Callable[[str], Step], plan: Plan) -> Step:
    """Build the step with every random number generator at the scenario's seed."""
    device = choose(plan.device)
    import torch

    seed = plan.scenario.seed
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    return build(device.torch_device)


def _built_by_all(build: Callable[[str], Step], plan: Plan, *, shared_out: bool) -> tuple[Step, Plan]:
    """Build on every rank; building is what makes the process group, so that only after it the ranks can agree."""
    step: Step | None = None
    problem: StepprofError | None = None
    try:
        step = _seeded(build, plan)
    except StepprofError as error:
        problem = error
    ranks.agree(problem)
    assert step is not None
    if not shared_out:
        # Each rank took its own clock for the default name: the first one's counts.
        plan = dataclasses.replace(plan, trace=Path(ranks.gather(str(plan.trace))[0]))
    return step, plan
