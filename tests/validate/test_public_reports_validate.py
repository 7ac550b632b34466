"""Public reports of measuring mistakes: what `compare` says of each.

Each test names the report that it is made from. Those that no comparison of two arms can show are here instead:

==================================================  ===================================================================
report                                              where it is
==================================================  ===================================================================
pytorch/pytorch#18012 on a real GPU                 ``tests/hardware``; here a device with a queue stands in
iopenv "cudaMemcpyAsync is not a true async"        finding ``pageable-copy``, read from a trace
pytorch/pytorch#30902, #56245 (find the steady      ``test_validate_steady.py``: a series in, the steady part out
step)
pytorch/pytorch#120309 on a real GPU                ``tests/hardware``; here a series with the same three first steps
pytorch/pytorch PR#45209, #94972, #130730, #60783   sums in a trace: the interpreter's tests
pytorch/pytorch#91682, #121141, #92855              the capture's tests
pytorch/pytorch#99615 and the other empty traces    finding ``gpu-not-observed``
kineto#325 (a step under the profiler is slower)    ``test_validate_compare.py``: an active profiler is refused
arogozhnikov "twin training"                        reading; both arms of `compare` are such twins
tensara#226 (35 us to 45 ms, 27 against 64 C)       a lab case: clocks and temperature need a GPU
==================================================  ===================================================================

A step's ``samples`` is a statement that nothing checks: a last batch that is smaller is not seen in a throughput.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepprof_lab.labels import Step
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation

torch = pytest.importorskip("torch")

Judge = Callable[..., Validation]


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Judge:
    """Compare two arms in a world whose clock only their steps move."""

    def run(before: Any, after: Any, *, device: Any = None, scenario: Any = None, replicates: int = 3) -> Validation:
        return compare(
            before,
            after,
            scenario or ask(),
            device=device or cpu,
            clock=world.clock,
            meter=meter,
            replicates=replicates,
            budget_s=600,
        )

    return run


@pytest.fixture
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def refused(found: Validation) -> str:
    assert found.verdict == "not comparable"
    assert found.ratio is None
    return found.reasons[0]


# Work that a queue does later -----------------------------------------------------------------------------------


def queued(world: Any, device: Any, *, host_ms: float, work_ms: float, wait: bool = False) -> Callable[[str], Step]:
    """A step that launches work and goes on; with ``wait`` it waits for the result, as ``print(output)`` does."""

    def build(_device: str) -> Step:
        numbers = itertools.count()

        def step() -> float:
            world.now += host_ms / 1e3
            device.launch(work_ms)
            if wait:
                device.synchronize()
            return float(next(numbers) % 5)

        return Step(step, samples=1)

    return build


def test_the_time_of_queueing_is_not_the_time_of_the_work(world: Any, judge: Judge) -> None:
    """pytorch/pytorch#18012: 180 frames a second without waiting, 30 with; queueing alone was timed."""
    device = world.queue_device()
    arm = queued(world, device, host_ms=5.6, work_ms=33.0)
    found = judge(arm, arm, device=device)
    assert [one.median_ms for one in found.arms] == pytest.approx([33, 33])
    assert found.ratio == pytest.approx(1)


def test_a_wait_in_each_step_costs_what_could_overlap(world: Any, judge: Judge) -> None:
    """pytorch/pytorch PR#75393 and the forum's "slow training due to synchronization": a wait is a part of the arm.

    Ours waits once a block, so that an arm that waits in each step is the slower one by just that.
    """
    device = world.queue_device()
    waiting = queued(world, device, host_ms=2.0, work_ms=2.0, wait=True)
    free = queued(world, device, host_ms=2.0, work_ms=2.0)
    found = judge(waiting, free, device=device)
    assert found.verdict == "faster"
    assert found.ratio is not None
    assert found.ratio == pytest.approx(2 / 4, rel=0.01)


# Work that is counted wrong -------------------------------------------------------------------------------------


def test_a_step_that_loops_is_another_number_of_samples(world: Any, judge: Judge) -> None:
    """pytorch/pytorch PR#177765: the operator benchmark timed a statement that looped already."""
    told = refused(judge(world.arm(2.0, samples=16), world.arm(20.0, samples=160)))
    assert "a step of before processes 16 samples, a step of after 160 samples" in told


def test_a_step_that_loops_and_states_no_samples_differs_in_its_state(world: Any, judge: Judge) -> None:
    def looping(device: str) -> Step:
        inner = world.arm(2.0, samples=None)(device)
        return Step(lambda: [inner.run() for _ in range(10)][-1], state=inner.state)

    assert "the arms do not give the same answer" in refused(judge(world.arm(2.0, samples=None), looping))


def accumulating(world: Any, *, samples: int, update_ms: float = 5.0, micro_step: bool = False) -> Any:
    """Four micro-batches of 8 and one update; with ``micro_step`` each of them is called a step."""

    def build(_device: str) -> Step:
        weight, gradient, numbers = np.ones(2), np.zeros(2), itertools.count(1)

        def micro_batch() -> float:
            nonlocal gradient
            world.now += 0.001
            gradient = gradient + weight
            if next(numbers) % 4 == 0:
                world.now += update_ms / 1e3
                weight[:] = weight - 0.001 * gradient
                gradient = np.zeros(2)
            return float(weight[0])

        def step() -> float:
            return [micro_batch() for _ in range(4)][-1]

        return Step(micro_batch if micro_step else step, state={"weight": weight}, samples=samples)

    return build


def test_throughput_counts_the_whole_of_an_accumulated_step(world: Any, judge: Judge) -> None:
    """karpathy/nanochat#177: tokens of one micro-batch over the time of four: a quarter of the truth."""
    right = accumulating(world, samples=32)
    found = judge(right, right)
    assert found.arms[0].mean_ms == pytest.approx(9.0, rel=1e-6)
    assert found.arms[0].samples_per_s == pytest.approx(32 / 0.009, rel=1e-6)
    told = refused(judge(right, accumulating(world, samples=8)))
    assert "a step of before processes 32 samples, a step of after 8 samples" in told


def test_a_timer_that_leaves_out_the_update_is_told(world: Any, judge: Judge) -> None:
    """DeepSpeed PR#2165: micro-batches that do no update look fast, and the update is left out of the time.

    Where micro-batches are called steps, the lower quartile sees those without an update alone: the mean, beside it,
    tells another verdict, and that is said.
    """
    found = judge(
        accumulating(world, samples=8, micro_step=True),
        accumulating(world, samples=8, micro_step=True, update_ms=10.0),
    )
    mean = next(one for one in found.statistics if one.name == "mean")
    assert mean.interval[0] > 1.2
    assert any("by the mean alone the verdict would be 'slower'" in one for one in found.reasons)


def epochs(world: Any, *, drop_last: bool, rows: int = 1000, batch: int = 64) -> Any:
    """Epochs over 1000 rows in batches of 64: 15 whole ones and one of 40."""

    def build(_device: str) -> Step:
        data = np.arange(rows, dtype=float) / rows
        weight = np.ones(1)

        def batches() -> Any:
            while True:
                for begin in range(0, rows - (batch - 1 if drop_last else 0), batch):
                    yield data[begin : begin + batch]

        read = batches()

        def step() -> float:
            rows_read = next(read)
            world.now += 1e-5 * len(rows_read)
            weight[:] = 0.9 * weight + rows_read.mean()
            return float(weight[0])

        return Step(step, state={"weight": weight}, samples=batch)

    return build


def test_a_last_batch_that_is_dropped_is_another_work(world: Any, judge: Judge) -> None:
    """MLPerf's remainder rule, Autoformer#104: the arms agree for 15 steps, and differ from the 16th on."""
    told = refused(judge(epochs(world, drop_last=False), epochs(world, drop_last=True)))
    assert "the arms agree bitwise at the beginning and differ after" in told
    assert "weight" in told


# Start-up -------------------------------------------------------------------------------------------------------


def test_compiling_in_the_first_steps_is_in_no_throughput(world: Any, judge: Judge) -> None:
    """alpa#823, anemoi-core PR#1254, OpenNMT-tf PR#718: a cumulative mean that holds the compilation keeps rising."""
    compiling = world.arm(lambda n: 4000.0 if n == 1 else 400.0 if n == 2 else 10.0, samples=64)
    found = judge(compiling, world.arm(10.0, samples=64))
    assert found.verdict == "equivalent"
    assert found.arms[0].samples_per_s == pytest.approx(6400, rel=1e-5)
    assert found.startup["before"]["first_step_ms"] == pytest.approx(4000, rel=1e-5)
    assert found.startup["after"]["first_step_ms"] == pytest.approx(10, rel=1e-5)


def test_two_steps_of_warm_up_would_not_do(world: Any, judge: Judge) -> None:
    """pytorch/pytorch#120309: run 1 warms up, run 2 records the graph, run 3 is the first fast one."""
    graphed = world.arm(lambda n: {1: 300.0, 2: 900.0}.get(n, 5.0))
    found = judge(world.arm(20.0), graphed)
    assert found.ratio == pytest.approx(0.25, rel=1e-5)
    assert max(value for block in found.blocks for value in block.steps_ms) == pytest.approx(20, rel=1e-5)


def test_a_path_that_runs_for_the_first_time_while_timed_is_marked(world: Any, judge: Judge) -> None:
    """NVIDIA's guide to lazy loading: what a warm-up did not run, such as an evaluation, loads when it runs first."""
    rare = world.arm(lambda n: 80.0 if n == 70 else 2.0)
    found = judge(world.arm(2.0), rare)
    assert found.verdict == "equivalent"
    slow = [block for block in found.blocks if block.order in found.noise["slow_blocks"]]
    assert [block.arm for block in slow] == ["after"] * 3  # once in each replicate
    assert all(max(block.steps_ms) == pytest.approx(80, rel=1e-5) for block in slow)


@pytest.mark.parametrize("workers", [0, 4])
def test_the_start_of_a_loaders_workers_is_not_in_the_steps(world: Any, judge: Judge, ask: Any, workers: int) -> None:
    """Lightning#21771, pytorch PR#8371: 12.6 s for the first batch and 0.01 s for each other one."""
    slow_start = world.arm(lambda n: 12_600.0 if n == 1 else 10.0)
    found = judge(slow_start, world.arm(10.0), scenario=ask(read=True, workers=workers))
    assert found.verdict == "equivalent"
    assert found.arms[0].mean_ms == pytest.approx(10, rel=1e-5)
    assert found.startup["before"]["first_step_ms"] == pytest.approx(12_600, rel=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_recompilation_while_timed_is_told(world: Any, judge: Judge) -> None:
    """pytorch/pytorch#97783, #114293: a new shape compiles anew, here the smaller last batch of an epoch."""

    def build(compiled: bool) -> Callable[[str], Step]:
        def make(_device: str) -> Step:
            torch.compiler.reset()
            model = torch.nn.Linear(8, 4)
            run = torch.compile(model, backend="eager", dynamic=False) if compiled else model
            sizes = itertools.chain([32] * 20, itertools.cycle([17, 32]))

            def step() -> Any:
                world.now += 0.05
                return run(torch.ones(next(sizes), 8)).sum()

            return Step(step, state={"model": model})

        return make

    found = judge(build(False), build(True), replicates=2)
    assert found.noise["compilations_while_timed"] == 2  # one in each replicate
    assert any("compiled while steps were timed" in one for one in found.reasons)


# Gains that are none --------------------------------------------------------------------------------------------


def test_claimed_fixes_are_ranked_by_what_they_measure(world: Any, judge: Judge) -> None:
    """The "why your model is slower" post: 1.29 for deferred waits, 1.08 for pinned memory, 1.01 for the allocator."""
    gains = {"wait": 1.29, "pinned": 1.08, "allocator": 1.005}
    found = {name: judge(world.arm(100.0), world.arm(100.0 / gain), replicates=2) for name, gain in gains.items()}
    assert sorted(found, key=lambda name: found[name].ratio or 1.0) == ["wait", "pinned", "allocator"]
    assert {name: one.verdict for name, one in found.items()} == {
        "wait": "faster",
        "pinned": "faster",
        "allocator": "equivalent",  # within the margin
    }


def remembering(world: Any, *, key: str | None, refill: bool) -> Any:
    """A model that answers; with a key it remembers its answers by that.

    With ``refill`` one input buffer is filled anew for each step, as a loader into pinned memory does.
    """

    def build(_device: str) -> Step:
        model = torch.nn.Linear(3, 2)
        stream = torch.Generator().manual_seed(7)
        buffer = torch.zeros(4, 3)
        known: dict[Any, Any] = {}

        @torch.no_grad()
        def step() -> Any:
            fresh = torch.randn(4, 3, generator=stream)
            x = buffer.copy_(fresh) if refill else fresh
            name = {"data_ptr": x.data_ptr(), "shape": tuple(x.shape), None: None}[key]
            if key is not None and name in known:
                world.now += 1e-5
                return known[name]
            world.now += 0.002
            known[name] = model(x)
            return known[name]

        return Step(step, state={"model": model}, samples=4)

    return build


@pytest.mark.parametrize("key", ["data_ptr", "shape"])
def test_an_arm_that_remembers_answers_by_their_place_is_no_faster_arm(world: Any, judge: Judge, key: str) -> None:
    """flashinfer-bench-starter-kit#21, reference-kernels#102, kernelbot#501: what was stored is handed out again."""
    found = judge(remembering(world, key=None, refill=True), remembering(world, key=key, refill=True))
    told = refused(found)
    assert "in step 2 the returned value" in told
    assert "the values differ" in told
    assert found.blocks == []


def test_fresh_inputs_find_a_store_by_shape(world: Any, judge: Judge) -> None:
    """BackendBench#41: a key that does not hold the values."""
    told = refused(judge(remembering(world, key=None, refill=False), remembering(world, key="shape", refill=False)))
    assert "in step 2 the returned value" in told


# Which difference is benign -------------------------------------------------------------------------------------


def classifier(
    world: Any,
    *,
    foreach: bool = False,
    fused: bool = False,
    threads: int = 1,
    dropout_draws: int = 0,
    extra_step: bool = False,
) -> Callable[[str], Step]:
    """A classifier with dropout, and the ways in which two runs of it come to differ."""

    def build(_device: str) -> Step:
        torch.set_num_threads(threads)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(128, 10)
        )
        adam = torch.optim.Adam(model.parameters(), lr=1e-3, **({"fused": True} if fused else {"foreach": foreach}))
        loss_of = torch.nn.CrossEntropyLoss()
        x, y = torch.randn(32, 64), torch.randint(10, (32,))

        def step() -> Any:
            world.now += 0.1
            torch.rand(dropout_draws)
            adam.zero_grad(set_to_none=True)
            loss = loss_of(model(x), y)
            loss.backward()
            adam.step()
            return loss.detach()

        if extra_step:
            step()
        return Step(step, state={"model": model, "optimizer": adam}, samples=32)

    return build


ROUNDING = {"relative_tolerance": 1e-4, "absolute_tolerance": 1e-6, "reason": "sums in another order"}
"""Far above what reordered sums give over a few steps (about 1e-8), far below another dropout (about 1e-2)."""


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("after", "tolerated", "benign"),
    [
        ({}, False, True),
        ({"foreach": True}, False, True),
        ({"fused": True}, True, True),
        ({"threads": 2}, True, True),
        ({"dropout_draws": 1}, True, False),
        ({"extra_step": True}, True, False),
    ],
    ids=["same seed", "foreach", "fused", "two threads", "other random numbers", "one step more"],
)
def test_which_difference_is_benign(
    world: Any, judge: Judge, ask: Any, after: dict[str, Any], tolerated: bool, benign: bool
) -> None:
    """Own numbers: equal bits, 1.5e-8 for a fused optimizer, 1.8e-2 for another dropout, 1.4e-2 for one step more."""
    asked = ask(**(ROUNDING if tolerated else {}))
    found = judge(classifier(world), classifier(world, **after), scenario=asked, replicates=2)
    assert (found.verdict != "not comparable") == benign
    if not benign:
        assert found.reasons[0].startswith(
            "the arms do not start from the same state" if "extra_step" in after else "the arms do not give the same"
        )
