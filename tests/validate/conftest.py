"""A world with its own clock: arms whose steps take exactly as long as a test says, at once."""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stepprof_lab.devices import Device
from stepprof_lab.labels import Step
from stepprof_lab.scenario import Boundary, Conditions, Outputs, Scenario
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.timing import TimedDevice


@pytest.fixture(autouse=True, scope="module")
def what_other_tests_left_is_not_collected() -> Iterator[None]:
    """Each comparison collects garbage a dozen times, and after other tests would look at all that lives by then."""
    gc.freeze()
    yield
    gc.unfreeze()


class QuietMeter(Meter):
    """A machine on which nothing can be observed."""

    def cpu_ms(self) -> None:
        return None

    def involuntary_switches(self) -> None:
        return None

    def pressure_us(self) -> None:
        return None

    def load(self) -> None:
        return None

    def threads(self) -> None:
        return None


class Model:
    """The smallest thing that trains: one array that random steps change."""

    def __init__(self, first: float | None = None) -> None:
        self.weight = np.array([random.random() if first is None else first, 0.0])

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight}

    def learn(self) -> float:
        self.weight = self.weight * 0.9 + random.random()
        return float(self.weight[0])


class QueueDevice:
    """A device that works on a queue: a launch returns at once, the work is done later."""

    torch_device = "cpu"
    is_gpu = True
    sentence = "a device with a queue"

    def __init__(self, world: World) -> None:
        self.world = world
        self.free_at = 0.0
        self.aside_free_at = 0.0
        self.waits = 0

    def launch(self, ms: float) -> None:
        self.free_at = max(self.free_at, self.world.now) + ms / 1e3

    def launch_aside(self, ms: float) -> None:
        """On another stream, which no event of the first one sees."""
        self.aside_free_at = max(self.aside_free_at, self.world.now) + ms / 1e3

    def synchronize(self) -> None:
        self.waits += 1
        self.world.now = max(self.world.now, self.free_at, self.aside_free_at)

    def timer(self) -> Any:
        device = self

        class Events:
            def start(self) -> None:
                self.begin = max(device.free_at, device.world.now)

            def stop(self) -> None:
                self.end = max(device.free_at, device.world.now)

            def elapsed_ms(self) -> float:
                device.world.now = max(device.world.now, self.end)
                return (self.end - self.begin) * 1e3

        return Events()


class World:
    """A clock that only steps move forward, and arms that live by it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.built: list[str] = []

    def clock(self) -> float:
        return self.now

    def queue_device(self) -> QueueDevice:
        """A device with a queue, in this world's time; its name in torch is the CPU's."""
        return QueueDevice(self)

    def arm(
        self,
        ms: float | Callable[[int], float],
        *,
        name: str = "arm",
        samples: int | None = 8,
        first: float | None = None,
        answer: Callable[[int, float], Any] = lambda _number, loss: loss,
        state: bool = True,
        build_ms: float = 1.0,
    ) -> Callable[[str], Step]:
        """An arm whose step ``n`` (from 1) takes ``ms`` or ``ms(n)`` and returns ``answer(n, loss)``."""

        def build(_device: str) -> Step:
            self.built.append(name)
            self.now += build_ms / 1e3
            model = Model(first)
            ran = 0

            def step() -> Any:
                nonlocal ran
                ran += 1
                loss = model.learn()
                value = answer(ran, loss)
                self.now += (ms(ran) if callable(ms) else ms) / 1e3
                return value

            return Step(step, state={"model": model} if state else {}, samples=samples)

        return build

    def noisy(self, ms: float, spread: float, seed: int, *, instance: float = 0.0) -> Callable[[int], float]:
        """Step times with log-normal noise of a spread, drawn apart from the arms' own random numbers."""
        chance = np.random.default_rng(seed)
        return lambda _number: float(ms * np.exp(abs(chance.normal(0, spread)) + chance.normal(0, instance)))


@pytest.fixture(autouse=True, scope="package")
def quick_garbage_collection() -> Iterator[None]:
    """Every comparison collects garbage for each replicate; torch's own objects need not be looked at each time."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def meter() -> Meter:
    return QuietMeter()


@pytest.fixture
def cpu() -> TimedDevice:
    return Device("cpu", "cpu", "a processor", why="as asked")


@pytest.fixture
def ask() -> Callable[..., Scenario]:
    def make(*, read: bool = False, workers: int | None = None, seed: int = 3, **outputs: Any) -> Scenario:
        return Scenario(
            question="is it faster?",
            kind="training",
            unit="ms/step",
            seed=seed,
            change="one change",
            boundary=Boundary(read=read, transfer=True, forward=True, backward=True, update=True, model_load=False),
            conditions=Conditions(loader_workers=workers),
            outputs=Outputs(**outputs),
        )

    return make
