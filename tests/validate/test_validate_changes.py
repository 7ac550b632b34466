"""What changed while steps were timed: told with the step, the arm and the replicate."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from stepprof_lab.labels import Step
from stepprof_lab.validate import changes, compare, noise
from stepprof_lab.validate.model import ArmName, Block

Time = Callable[[int, int], float]
"""Replicate and number of the step (from 1) to ms."""


def timed(before: Time, after: Time, *, pairs: int = 40, steps: int = 5, replicates: int = 2) -> list[Block]:
    """Blocks in pairs."""
    found: list[Block] = []
    arms: dict[ArmName, Time] = {"before": before, "after": after}
    for replicate, pair, (arm, ms) in itertools.product(range(replicates), range(pairs), arms.items()):
        times = [ms(replicate, pair * steps + number) for number in range(1, steps + 1)]
        found.append(Block(replicate=replicate, pair=pair, arm=arm, order=len(found), steps_ms=times, steps=steps))
    return found


def steady(_replicate: int, number: int) -> float:
    return 2.0 + 0.01 * (number % 3)


def shifted(at: int, *, only: int = 1) -> Time:
    return lambda replicate, number: steady(replicate, number) * (1.2 if replicate == only and number >= at else 1)


def test_steady_arms_have_nothing_to_tell() -> None:
    found = changes.of(timed(steady, steady))
    assert (found.shifts, found.recurring, found.compiled) == ([], [], [])
    assert changes.sentences(found) == []


def test_a_shift_in_one_arm_is_told_with_its_step() -> None:
    found = changes.of(timed(steady, shifted(101)))
    (shift,) = found.shifts
    assert (shift.replicate, shift.arm, shift.step, shift.both) == (1, "after", 101, False)
    assert shift.to_ms / shift.from_ms == pytest.approx(1.2)
    (told,) = changes.sentences(found)
    assert "a level shifted in one arm alone: from its timed step 101 on, arm after took 2.41" in told
    assert "in replicate 1" in told


def test_a_shift_of_both_arms_is_the_machines() -> None:
    found = changes.of(timed(shifted(101), shifted(97)))
    assert [one.both for one in found.shifts] == [True, True]
    (told,) = changes.sentences(found)
    assert "both arms shifted at about the same time in replicate 1" in told


def test_shifts_in_opposite_directions_are_not_the_machines() -> None:
    faster: Time = lambda replicate, number: 2 * steady(replicate, number) / shifted(101)(replicate, number)  # noqa: E731
    assert [one.both for one in changes.of(timed(shifted(101), faster)).shifts] == [False, False]


def test_many_shifts_are_counted() -> None:
    def each(replicate: int, number: int) -> float:
        return shifted(101, only=replicate)(replicate, number)

    (told,) = changes.sentences(changes.of(timed(steady, each, replicates=5)))
    assert "; and 2 more" in told


def test_slow_steps_that_come_again_are_told() -> None:
    def every_20(replicate: int, number: int) -> float:
        return steady(replicate, number) * (4 if number % 20 == 7 else 1)

    found = changes.of(timed(steady, every_20, replicates=1))
    (one,) = found.recurring
    assert (one.arm, one.every, one.steps[:2]) == ("after", 20, [7, 27])
    assert "every 20 steps in arm after, replicate 0" in changes.sentences(found)[0]


def test_on_a_gpu_a_place_is_a_block() -> None:
    found = [
        Block(
            replicate=0,
            pair=number,
            arm="before",
            order=number,
            steps_ms=[2.0 if number < 30 else 3.0],
            per_step=False,
            steps=10,
            compilations=1 if number == 5 else 0,
        )
        for number in range(60)
    ]
    seen = changes.of(found)
    (shift,) = seen.shifts
    assert (shift.step, shift.block) == (301, 30)
    (compiled,) = seen.compiled
    assert (compiled.block, compiled.step) == (5, None)
    assert "in a block, which took 2 ms" in changes.sentences(seen)[1]


class Compiling(noise.Meter):
    """Counts what an arm says that it compiled."""

    def __init__(self) -> None:
        self.graphs = 0

    def compilations(self) -> int:
        return self.graphs


def test_compilation_in_the_timed_part_is_told_with_the_step_that_it_cost(world: Any, cpu: Any, ask: Any) -> None:
    meter = Compiling()
    plain = world.arm(2.0)

    def build(device: str) -> Step:
        inner, numbers = plain(device), itertools.count(1)

        def step() -> Any:
            if next(numbers) == 60:  # another shape, after the warm-up
                meter.graphs += 1
                world.now += 0.3
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    found = compare(plain, build, ask(), device=cpu, clock=world.clock, meter=meter, replicates=3)
    assert found.noise["compilations_while_timed"] == 3
    slow = [(block.replicate, block.order) for block in found.blocks if max(block.steps_ms) > 100]
    assert [(one["replicate"], one["block"]) for one in found.noise["changes"]["compiled"]] == slow
    assert {one["arm"] for one in found.noise["changes"]["compiled"]} == {"after"}
    (told,) = [one for one in found.reasons if "graphs were compiled" in one]
    step = found.noise["changes"]["compiled"][0]["step"]
    assert f"1 in arm after, replicate 0, at its timed step {step} or near it, which took 302 ms (usual 2)" in told


@pytest.mark.slow
def test_real_recompilation_is_counted(cpu: Any, ask: Any) -> None:
    torch = pytest.importorskip("torch")

    def build(_device: str, *, changing: bool = False) -> Step:
        torch._dynamo.reset()
        weight = torch.ones(8, requires_grad=True)
        work = torch.compile(lambda x: (x * weight).sum(), backend="eager", dynamic=False)
        numbers = itertools.count(1)

        def step() -> Any:
            rows = 1 + (next(numbers) // 60 if changing else 0)  # however long the warm-up takes, some come later
            return work(torch.ones(rows, 8)) / rows

        return Step(step, state={"weight": weight}, samples=8)

    def new_shape(device: str) -> Step:
        return build(device, changing=True)

    with torch._dynamo.config.patch(recompile_limit=64):
        found = compare(build, new_shape, ask(), device=cpu, replicates=2, budget_s=60)
    compiled = found.noise["changes"]["compiled"]
    assert {one["arm"] for one in compiled} == {"after"}
    assert found.noise["compilations_while_timed"] == sum(one["graphs"] for one in compiled)
    assert any("graphs were compiled while steps were timed" in one for one in found.reasons)
