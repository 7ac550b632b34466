"""How one block is timed: each step by the host's clock, the whole block on a device, and what an arm's errors say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from stepprof_lab.devices import choose
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.validate.arms import RunningArm
from stepprof_lab.validate.lost import WatchedDevice
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.timing import TimedDevice, Way, time_block, time_start_up


def running(build: Callable[[str], Step], name: Any = "before") -> RunningArm:
    return RunningArm(name, build, "cpu", seed=1, replicate=0, where="replicate 0")


def test_each_step_is_timed_on_the_cpu(world: Any, cpu: TimedDevice, meter: Meter) -> None:
    arm = running(world.arm(lambda n: 10.0 * n))
    timed = time_block(arm, 3, device=cpu, clock=world.clock, meter=meter)
    assert timed.steps_ms == pytest.approx([10, 20, 30])
    assert (timed.per_step, timed.wall_ms) == (True, pytest.approx(60))
    assert (timed.cpu_ms, timed.involuntary_switches, timed.cpu_pressure_us) == (None, None, None)
    assert arm.done == 3


def queued(world: Any, device: Any, *, host_ms: float, device_ms: float) -> Callable[[str], Step]:
    def build(_device: str) -> Step:
        def step() -> None:
            world.now += host_ms / 1e3
            device.launch(device_ms)

        return Step(step)

    return build


@pytest.mark.parametrize("host_clock", [False, True])
def test_a_queue_is_timed_to_its_end_and_not_waited_for_in_between(world: Any, meter: Meter, host_clock: bool) -> None:
    device = world.queue_device()
    arm = running(queued(world, device, host_ms=1, device_ms=30))
    device.launch(500)  # what was queued before does not count
    timed = time_block(arm, 10, device=device, clock=world.clock, meter=meter, way=Way(host_clock=host_clock))
    # Into an empty queue the first launch waits for 1 ms of host work: in the host's view of a block, and not between
    # events, which begin when the queue is full.
    assert timed.steps_ms == pytest.approx([(1 + 300) / 10 if host_clock else 30])
    assert timed.lead_in == (0 if host_clock else 1)
    assert timed.wall_ms == pytest.approx(1 + 30 * (10 + timed.lead_in))
    assert timed.tail_ms == (None if host_clock else 0)
    assert timed.per_step is False
    assert device.waits == 2


def test_start_up_steps_are_waited_for_one_by_one(world: Any) -> None:
    device = world.queue_device()
    arm = running(queued(world, device, host_ms=1, device_ms=30))
    assert time_start_up(arm, 3, device=device, clock=world.clock) == pytest.approx([31, 31, 31])


def test_the_meter_counts_over_the_block_alone(world: Any, cpu: TimedDevice) -> None:
    class Counting(Meter):
        reads = 0

        def cpu_ms(self) -> float:
            return world.now * 1e3 / 2

        def involuntary_switches(self) -> int:
            self.reads += 1
            return self.reads

        def pressure_us(self) -> int:
            return round(world.now * 1e6 / 10)

    timed = time_block(running(world.arm(10.0)), 4, device=cpu, clock=world.clock, meter=Counting())
    assert (timed.cpu_ms, timed.involuntary_switches, timed.cpu_pressure_us) == (pytest.approx(20), 1, 4000)


def test_the_real_meter_reads_what_this_system_tells() -> None:
    meter = Meter()
    assert (meter.cpu_ms() or 0) > 0
    assert (meter.processors() or 0) >= 1
    for value in (meter.involuntary_switches(), meter.pressure_us()):
        assert value is None or value >= 0


def test_each_arm_goes_on_with_its_own_random_numbers(world: Any) -> None:
    def build(_device: str) -> Step:
        return Step(random.random)

    state = random.getstate()
    try:
        one, other = running(build), running(build, "after")
        seen: dict[str, list[float]] = {"before": [], "after": []}
        for arm, steps in ((one, 2), (other, 1), (one, 1), (other, 2)):
            with arm.turn():
                seen[arm.name] += [arm.once() for _ in range(steps)]
    finally:
        random.setstate(state)
    assert seen["before"] == seen["after"]
    assert len(set(seen["before"])) == 3


def failing_at(number: int, error: Exception) -> Callable[[str], Step]:
    def build(_device: str) -> Step:
        ran = 0

        def my_step() -> None:
            nonlocal ran
            ran += 1
            if ran == number:
                raise error

        return Step(my_step)

    return build


@pytest.mark.parametrize("how", ["stamps", "bare", "once"])
def test_an_arm_that_raises_is_named_with_its_step(world: Any, how: str) -> None:
    arm = running(failing_at(37, ValueError("bad batch\nsecond line")))
    arm.bare(30)
    go_on = {"once": lambda: [arm.once() for _ in range(30)], "stamps": lambda: arm.stamps(30, world.clock)}
    with pytest.raises(StepprofError) as caught:
        go_on.get(how, lambda: arm.bare(30))()
    told = str(caught.value)
    assert told.startswith("arm before, step 37 raised ValueError: bad batch in replicate 0; expected")
    assert "\n" not in told
    assert "my_step" in (caught.value.detail or "")
    assert "arms.py" not in (caught.value.detail or "")


def test_a_loader_that_ends_is_told_with_what_was_needed(world: Any) -> None:
    def build(_device: str) -> Step:
        batches = iter(range(12))
        return Step(lambda: next(batches))

    arm = running(build, "after")
    arm.bare(10)
    with pytest.raises(StepprofError) as caught:
        arm.stamps(8, world.clock)
    assert str(caught.value).startswith(
        "arm after gave 12 steps in replicate 0 and then its loader ended; expected at least 18 steps; read from"
    )


def test_a_build_that_raises_or_gives_no_step() -> None:
    def broken(_device: str) -> Step:
        raise KeyError("weights")

    with pytest.raises(StepprofError, match="building arm before raised KeyError: 'weights' in replicate 0") as caught:
        running(broken)
    assert "broken" in (caught.value.detail or "")
    with pytest.raises(StepprofError, match="building arm before gave tuple; expected a Step"):
        running(lambda _device: (1, 2))  # type: ignore[arg-type,return-value]


def test_a_users_own_error_line_is_passed_on() -> None:
    with pytest.raises(StepprofError, match="a; expected b; c"):
        running(failing_at(1, StepprofError("a", "b", "c"))).once()


def test_ctrl_c_is_not_an_error_of_the_arm(world: Any) -> None:
    arm = running(failing_at(2, KeyboardInterrupt()))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        arm.stamps(3, world.clock)


def test_the_practice_device_is_waited_for_like_a_gpu() -> None:
    assert WatchedDevice(choose("practice")).is_gpu
    assert not WatchedDevice(choose("cpu")).is_gpu
