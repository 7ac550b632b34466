"""Pairs of small arms for a comparison outside the profiler: some of them honest, some only look faster.

An arm's arithmetic is real and small. How long its step takes is modelled by a wait that holds no lock, and what each
step really took is logged.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from stepprof_lab.grading.feeding import wait_ms

if TYPE_CHECKING:
    from stepprof_lab.labels import Step

Kind = Literal["equal", "slower", "faster", "inside", "less-work", "moved-on", "stored"]

HONEST: tuple[Kind, ...] = ("equal", "slower", "faster", "inside")
"""Kinds of pairs whose arms do the same work from the same start."""

START_UP_STEPS = 2
"""The first steps of a fresh arm prepare something."""
BATCHES = 3
"""Different batches; after so many steps they come again."""

Plan = dict[str, Any]
"""Plain data that `plan` made; times are milliseconds."""


@dataclasses.dataclass
class Run:
    """What one fresh arm did.

    Args:
        arm: "before" or "after".
        steps: number of the step in the whole comparison, and what it took in milliseconds.
    """

    arm: str
    steps: list[tuple[int, float]] = dataclasses.field(default_factory=list)


def plan(chance: random.Random, kind: Kind) -> Plan:
    """The numbers of one pair: plain data."""
    factor = {"equal": 1.0, "inside": 1.0, "slower": chance.uniform(1.65, 1.8)}.get(kind, chance.uniform(0.48, 0.54))
    return {
        "kind": kind,
        "step_ms": round(chance.uniform(3.2, 3.8), 2),
        "start_up_ms": round(chance.uniform(11.0, 13.0), 1),
        "factor": round(factor, 3),
        "inside": [0.6, 0.3],
        "weights": [round(chance.uniform(0.5, 1.5), 3) for _ in range(4)],
        "batches": [[round(chance.uniform(0.5, 1.5), 3) for _ in range(4)] for _ in range(BATCHES)],
    }


class Arm:
    """One arm, fresh from its start: `step` does a step, `state` tells where it stands.

    Its `inside_ms` is what a profiler would give for the operator that was replaced, in the step before.
    """

    def __init__(self, planned: Plan, name: str, log: list[Run]) -> None:
        self.inside_ms = 0.0
        self._planned = planned
        self._is_after = name == "after"
        self._weights = [float(one) for one in planned["weights"]]
        self._done = 0
        self._stored: dict[int, list[float]] = {}
        self._log = log
        self._run = Run(name)
        log.append(self._run)
        if self._does("moved-on"):
            for batch in planned["batches"]:
                self._learn(batch)

    def step(self) -> list[float]:
        """Do one step; returns its outputs."""
        began = time.perf_counter()
        number = self._done % BATCHES
        found = self._stored.get(number)
        if found is None:
            found = self._learn(self._planned["batches"][number])
            wait_ms(self._step_ms())
            if self._does("stored"):
                self._stored[number] = found
        self._done += 1
        took = 1e3 * (time.perf_counter() - began)
        self.inside_ms = took * self._planned["inside"][self._is_after and self._does("inside")]
        self._run.steps.append((sum(len(one.steps) for one in self._log), took))
        return list(found)

    def state(self) -> list[float]:
        """The weights, as a list of its own."""
        return list(self._weights)

    def _does(self, kind: Kind) -> bool:
        return self._is_after and self._planned["kind"] == kind

    def _step_ms(self) -> float:
        more = self._planned["start_up_ms"] if self._done < START_UP_STEPS else 0.0
        factor = self._planned["factor"] if self._is_after and not self._does("stored") else 1.0
        return float(self._planned["step_ms"] * factor + more)

    def _learn(self, batch: list[float]) -> list[float]:
        used = batch[:2] if self._does("less-work") else batch
        output = sum(weight * one for weight, one in zip(self._weights, used, strict=False))
        self._weights = [weight - 0.05 * output * one for weight, one in zip(self._weights, batch, strict=True)]
        return [output, output / len(used)]


class Pair:
    """Two builders, `before` and `after`, and the log of what was done with what they built."""

    def __init__(self, planned: Plan) -> None:
        self.planned = planned
        self.log: list[Run] = []

    def before(self) -> Arm:
        """A fresh arm as it was."""
        return Arm(self.planned, "before", self.log)

    def after(self) -> Arm:
        """A fresh arm with the change."""
        return Arm(self.planned, "after", self.log)


def as_build(make: Callable[[], Arm]) -> Callable[[str], Step]:
    """A builder in the form that `stepprof_lab.compare` takes."""
    from stepprof_lab.labels import Step

    def build(_: str) -> Step:
        arm = make()
        return Step(arm.step, state={"arm": _State(arm)}, samples=4)

    return build


class _State:
    """An arm's state in the form that fingerprints are taken of."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self._arm.state()}
