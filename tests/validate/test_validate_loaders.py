"""Steps that read from workers: bursts, queues that refill, loaders that outlive their arm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.validate import compare, verdict_from
from stepprof_lab.validate.arms import loaders_watched
from stepprof_lab.validate.statistics import PAIRS

torch = pytest.importorskip("torch")


class SleepingBatches(torch.utils.data.Dataset):  # type: ignore[misc]
    """Batches that cost time and no processor, the same in every epoch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return torch.full((2,), float(index % 7))


def loader(workers: int, seconds: float = 0.0, **more: Any) -> Any:
    return torch.utils.data.DataLoader(
        SleepingBatches(seconds), batch_size=1, num_workers=workers, shuffle=False, **more
    )


class BurstLoader:
    """The queue of a loader with workers, in the world's time.

    Batch ``i`` is made by worker ``i`` modulo their number, is asked for when batch ``i - prefetch * workers`` was
    taken, and takes ``cost_ms`` of its worker's time.
    """

    def __init__(self, world: Any, workers: int, cost_ms: float, prefetch: int, spread: float, seed: int) -> None:
        self.world, self.workers, self.cost_ms = world, workers, cost_ms
        self.depth = prefetch * workers
        self.chance, self.spread = np.random.default_rng(seed), spread
        self.free_at = [world.now] * workers
        self.ready = [self._made(index, world.now) for index in range(self.depth)]
        self.taken = 0

    def _made(self, index: int, asked: float) -> float:
        worker = index % self.workers
        cost = self.cost_ms * float(np.exp(self.chance.normal(0, self.spread))) / 1e3
        self.free_at[worker] = max(asked, self.free_at[worker]) + cost
        return self.free_at[worker]

    def __next__(self) -> int:
        self.world.now = max(self.world.now, self.ready[self.taken])
        self.taken += 1
        self.ready.append(self._made(self.taken - 1 + self.depth, self.world.now))
        return self.taken


def burst_arm(world: Any, seed: int, *, workers: int = 4, cost_ms: float = 80.0) -> Callable[[str], Step]:
    """80 ms a batch from 4 workers and 5 ms of compute: 20 ms a step in the long run, most steps 5 ms."""
    built = 0

    def build(_device: str) -> Step:
        nonlocal built
        built += 1
        batches = BurstLoader(world, workers, cost_ms, prefetch=2, spread=0.02, seed=1000 * seed + built)

        def step() -> float:
            batch = next(batches)
            world.now += 0.005
            return float(batch)

        return Step(step, samples=1)

    return build


def ready_arm(world: Any) -> Callable[[str], Step]:
    def build(_device: str) -> Step:
        taken = 0

        def step() -> float:
            nonlocal taken
            taken += 1
            world.now += 0.005
            return float(taken)

        return Step(step, samples=1)

    return build


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_the_wait_for_workers_is_in_the_ratio(world: Any, cpu: Any, meter: Any, ask: Any, workers: int) -> None:
    found = compare(
        burst_arm(world, workers, workers=workers, cost_ms=20.0 * workers),
        ready_arm(world),
        ask(read=True, workers=workers),
        device=cpu,
        clock=world.clock,
        meter=meter,
        budget_s=120,
    )
    assert found.verdict == "faster"
    assert found.interval is not None
    assert found.ratio == pytest.approx(5 / 20, rel=0.02)
    assert found.interval[0] <= 0.25 * 1.01
    assert found.interval[1] >= 0.25 * 0.99
    assert found.plan["period"] == workers
    assert found.plan["drained"] == max(4 * workers, 5)
    assert all((block.steps or 0) % workers == 0 for block in found.blocks)
    assert len(found.blocks) == 16
    # Many steps do not wait at all: the lower quartile misses what the mean has.
    blind = verdict_from(found.blocks, PAIRS, 0.01)
    assert blind.verdict == "equivalent"
    assert any("by the lower quartile alone the verdict would be 'equivalent'" in one for one in found.reasons)


def test_two_loaders_that_are_equal_are_not_called_different(world: Any, cpu: Any, meter: Any, ask: Any) -> None:
    verdicts = [
        compare(
            burst_arm(world, 2 * seed),
            burst_arm(world, 2 * seed + 1),
            ask(read=True, workers=4, seed=seed),
            device=cpu,
            clock=world.clock,
            meter=meter,
            budget_s=120,
        ).verdict
        for seed in range(3)
    ]
    assert "faster" not in verdicts
    assert "slower" not in verdicts


def test_every_loader_that_is_made_is_seen() -> None:
    with loaders_watched() as seen:
        iterator = iter(loader(0))
        assert [one.workers for one in seen] == [0]
        next(iterator)
        assert not seen[0].is_working
        iter(loader(2, prefetch_factor=3))
    assert [(one.workers, one.prefetch) for one in seen] == [(0, 2), (2, 3)]
    iter(loader(0))
    assert len(seen) == 2


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


def reading(make: Callable[[], Any], compute_s: float = 0.0) -> Callable[[str], Step]:
    def build(_device: str) -> Step:
        weight = torch.zeros(2)
        batches = endless(make())

        def step() -> Any:
            weight.add_(next(batches)[0])
            time.sleep(compute_s)
            return weight.clone()

        return Step(step, state={"weight": weight}, samples=1)

    return build


def test_a_real_loader_that_is_waited_for(cpu: Any, ask: Any) -> None:
    """10 ms a batch from 2 workers against the same batches at once: 5 ms of wait a step."""
    found = compare(
        reading(lambda: loader(2, 0.01), 0.001),
        reading(lambda: loader(0), 0.001),
        ask(read=True),
        device=cpu,
        replicates=2,
        budget_s=60,
        margin=0.1,
    )
    assert found.outputs["agreement"] == "bitwise"
    assert found.plan["loader_workers"] == {"before": 2, "after": 0}
    assert (found.plan["period"], found.plan["drained"]) == (2, 8)
    assert found.verdict in ("faster", "no difference shown")  # two replicates on a shared machine
    assert found.ratio is not None
    assert found.ratio < 1
    assert [len(one.steps_ms) for one in found.warm_up] == [8] * 4


def test_workers_that_outlive_their_arm_are_refused(cpu: Any, ask: Any) -> None:
    kept = []

    def make() -> Any:
        kept.append(iter(loader(1)))
        return kept[-1]

    try:
        with pytest.raises(StepprofError, match="the loader's workers of arm before still run"):
            compare(reading(make), reading(make), ask(read=True), device=cpu)
    finally:
        kept.clear()


def test_a_loader_with_workers_in_a_step_that_is_said_not_to_read_is_told(cpu: Any, ask: Any) -> None:
    found = compare(
        reading(lambda: loader(1)), reading(lambda: loader(0)), ask(read=False), device=cpu, replicates=2, budget_s=60
    )
    assert any("arm before made a loader with 1 workers" in one for one in found.reasons)
