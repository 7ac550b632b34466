"""Real torch steps on this machine's clock, and a device with a queue. No time is asserted, only what was done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab.labels import Step, label
from stepprof_lab.validate import compare, verdict_from
from stepprof_lab.validate.model import Validation

torch = pytest.importorskip("torch")


def training(
    *, optimizer: Callable[[Any], Any] | None = None, wrap: Callable[[Any], Any] = lambda m: m, extra: int = 0
) -> Callable[[str], Step]:
    """A small classifier with dropout, so that every step draws random numbers."""

    def build(device: str) -> Step:
        model = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 4)
        ).to(device)
        step_by = (optimizer or (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)))(model.parameters())
        forward, loss_fn = wrap(model), torch.nn.CrossEntropyLoss()
        x, y = torch.randn(8, 16, device=device), torch.randint(4, (8,), device=device)

        def step() -> Any:
            with label("train"):
                step_by.zero_grad(set_to_none=True)
                for _ in range(extra):
                    model[0](x)
                loss = loss_fn(forward(x), y)
                loss.backward()
                step_by.step()
            return loss

        return Step(step, state={"model": forward, "optimizer": step_by}, samples=8)

    return build


def quick(before: Any, after: Any, scenario: Any, device: Any) -> Validation:
    return compare(before, after, scenario, device=device, replicates=2, budget_s=120)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_same_training_step_twice_stays_bitwise_equal(cpu: Any, ask: Any) -> None:
    found = quick(training(), training(), ask(), cpu)
    assert found.verdict != "not comparable"
    assert found.outputs["compared"] == ["returned values", "state"]
    assert found.outputs["agreement"] == "bitwise"
    end = found.outputs["after_timed_steps"]
    assert (end["agreement"], end["judged"]) == ("bitwise", True)
    assert end["steps"] > 100
    assert all(value > 0 for block in found.blocks for value in block.steps_ms)
    again = msgspec.json.decode(msgspec.json.encode(found), type=Validation)
    assert verdict_from(again.blocks, again.design, again.margin).verdict == found.verdict


@pytest.mark.slow
def test_several_times_the_work_is_slower(cpu: Any, ask: Any) -> None:
    found = compare(training(), training(extra=20), ask(), device=cpu, replicates=3, budget_s=30)
    assert found.verdict == "slower"
    assert found.outputs["agreement"] == "bitwise"


def test_another_learning_rate_is_another_start(cpu: Any, ask: Any) -> None:
    found = quick(training(), training(optimizer=lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9)), ask(), cpu)
    assert found.verdict == "not comparable"
    assert "give both the same settings (optimizer.param_groups.0.lr)" in found.reasons[0]
    assert "make the model first" not in found.reasons[0]


def test_an_optimizer_that_computes_in_one_kernel_needs_a_tolerance(cpu: Any, ask: Any) -> None:
    adam = training(optimizer=lambda p: torch.optim.Adam(p, lr=0.01))
    fused = training(optimizer=lambda p: torch.optim.Adam(p, lr=0.01, fused=True))
    found = quick(adam, fused, ask(), cpu)
    # How the two round depends on the processor: a difference is found, or there is none to the last bit.
    assert (found.verdict == "not comparable") != (
        found.outputs.get("after_timed_steps", {}).get("agreement") == "bitwise"
    )
    within = quick(adam, fused, ask(relative_tolerance=1e-3, absolute_tolerance=1e-5, reason="fused kernel"), cpu)
    assert within.verdict != "not comparable"


@pytest.mark.slow
def test_a_compiled_model_is_the_same_arm_with_a_longer_start_up(cpu: Any, ask: Any) -> None:
    found = quick(training(), training(wrap=lambda m: torch.compile(m, backend="eager")), ask(), cpu)
    assert found.verdict != "not comparable"
    assert found.noise["compilations_while_timed"] is not None
    first = found.startup["first_in_process"]
    assert first["after"]["first_step_ms"] > 0


def test_arms_are_named_by_file_and_function(tmp_path: Path, ask: Any) -> None:
    file = tmp_path / "arms.py"
    file.write_text(
        "import torch\n"
        "from stepprof_lab import Step\n"
        "def build(device, rows=50):\n"
        "    x = torch.ones(rows, rows, device=device)\n"
        "    return Step(lambda: (x @ x).sum(), samples=1)\n"
        "def other(device):\n"
        "    return build(device)\n",
        encoding="utf-8",
    )
    found = compare(str(file), f"{file}:other", ask(), device="cpu", replicates=2, budget_s=120)
    assert found.outputs["agreement"] == "bitwise"
    assert found.device.startswith("CPU")


@pytest.mark.parametrize("read", [False, True])
def test_a_device_with_a_queue_gives_one_value_a_block(world: Any, meter: Any, ask: Any, read: bool) -> None:
    device = world.queue_device()

    def arm(device_ms: float) -> Callable[[str], Step]:
        def build(_device: str) -> Step:
            def step() -> float:
                world.now += 0.0001
                device.launch(device_ms)
                return 1.0

            return Step(step, samples=1)

        return build

    found = compare(arm(10.0), arm(8.0), ask(read=read), device=device, clock=world.clock, meter=meter, replicates=3)
    assert found.verdict == "faster"
    assert found.ratio == pytest.approx(0.8, abs=0.005)  # launching alone would be equal
    assert all(not block.per_step and len(block.steps_ms) == 1 and block.steps for block in found.blocks)
    assert found.arms[0].steps == sum(block.steps or 0 for block in found.blocks if block.arm == "before")
    assert found.arms[0].mean_ms == pytest.approx(10, rel=0.01)
    if not read:
        assert min((block.wall_ms or 0) for block in found.blocks) >= 16  # 2 steps of the faster arm at the least
    assert found.noise["wall_over_cpu"] is None


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    ("aside_ms", "verdict", "ratio"), [(8.0, "faster", 0.8), (9.99, "equivalent", 1.0), (12.0, "slower", 1.2)]
)
def test_work_on_a_stream_that_is_not_waited_for_counts(
    world: Any, meter: Any, ask: Any, read: bool, aside_ms: float, verdict: str, ratio: float
) -> None:
    """10 ms on one stream before; 1 ms on it after, and the rest on another."""
    device = world.queue_device()

    def arm(main_ms: float, aside_ms: float = 0.0) -> Callable[[str], Step]:
        def build(_device: str) -> Step:
            def step() -> float:
                world.now += 0.0001
                device.launch(main_ms)
                device.launch_aside(aside_ms)
                return 1.0

            return Step(step, samples=1)

        return build

    def run(after: Any) -> Validation:
        return compare(arm(10.0), after, ask(read=read), device=device, clock=world.clock, meter=meter, replicates=3)

    found = run(arm(1.0, aside_ms))
    assert (found.verdict, found.ratio) == (verdict, pytest.approx(ratio, abs=0.01))
    assert found.arms[1].mean_ms == pytest.approx(aside_ms, rel=0.02)
    told = [one for one in found.reasons if one.startswith("the two clocks disagree: by the device's events a step of")]
    assert len(told) == (0 if read else 1)  # where reading belongs to the step, the host's clock counts anyway
    again = verdict_from(found.blocks, found.design, found.margin)
    assert (again.verdict, again.ratio) == (found.verdict, found.ratio)
    assert not any("the two clocks" in one for one in run(arm(8.0)).reasons)


@pytest.mark.slow
def test_the_demo_allows_another_order_of_sums_and_needs_none_on_a_cpu(cpu: Any) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    from stepprof_lab import scenario
    from stepprof_lab.demo.run import AFTER, BEFORE, SCENARIO

    asked = scenario.load(SCENARIO)
    assert 0 < asked.outputs.relative_tolerance <= 1e-3
    assert "GPU" in (asked.outputs.reason or "")
    found = compare(BEFORE, AFTER, asked, device=cpu, replicates=2, budget_s=20)
    assert found.verdict != "not comparable"
    assert found.outputs["agreement"] == "bitwise"
    end = found.outputs["after_timed_steps"]
    assert (end["agreement"], end["judged"]) == ("bitwise", True)
