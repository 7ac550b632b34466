"""Can this machine hold the modelled durations, so that a verdict on times may be given?"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from stepprof_lab.errors import NotAvailable
from stepprof_lab.practice.simulator import engine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepprof_lab.practice.simulator import Engine

SAMPLES = 40
SAMPLE_MS = 4.0
TOLERANCE = 0.1
"""A wait that ends later than this share of what is judged is late: right answers and wrong ones are a factor of 2
apart, and workloads that are judged last 10 ms and more."""
REPETITIONS = 7
"""A verdict looks at the shortest of so many repetitions."""
CHANCE = 0.05
"""How likely it may be that all of them are late."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """How late waits ended: from the modelled end of an operation to when the waiting program went on.

    Args:
        late_us: each of them, in order of size.
    """

    late_us: tuple[float, ...]

    @property
    def median_us(self) -> float:
        """Half of the waits were at most so late."""
        return self._at(0.5)

    @property
    def p95_us(self) -> float:
        """95 % of the waits were at most so late."""
        return self._at(0.95)

    @property
    def worst_us(self) -> float:
        """The latest one."""
        return self.late_us[-1]

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        return (
            f"waits on the practice device ended {self.median_us:.0f} µs late in the median, {self.p95_us:.0f} µs in "
            f"95 % of {len(self.late_us)}, {self.worst_us:.0f} µs at the worst"
        )

    def share_late(self, limit_us: float) -> float:
        """The share of the waits that ended later than that."""
        return sum(late > limit_us for late in self.late_us) / len(self.late_us)

    def holds(self, shortest_ms: float, *, tolerance: float = TOLERANCE, repetitions: int = REPETITIONS) -> bool:
        """Whether times of this size can be judged by the shortest of some repetitions; see `calibrate`."""
        return self.share_late(1e3 * shortest_ms * tolerance) ** repetitions <= CHANCE

    def _at(self, share: float) -> float:
        return self.late_us[max(math.ceil(share * len(self.late_us)) - 1, 0)]


def measure(device: Engine | None = None, *, samples: int = SAMPLES, ms: float = SAMPLE_MS) -> Calibration:
    """Measure how late waits end; takes ``samples * ms`` and what they are late.

    Args:
        device: the practice device; that of this process where none is given. Nothing else may be launched to it.
        samples: how many waits.
        ms: how long each operation lasts.
    """
    device = device or engine()
    late = []
    for _ in range(samples):
        end = device.occupy(ms, name="calibration").end_ns
        device.synchronize()
        late.append(device.clock.now_ns() - end)
    return of_lateness(late)


def of_lateness(late_ns: Iterable[int]) -> Calibration:
    """What some waits say; `Engine.lateness_ns` has those of a check that has just run.

    Raises:
        NotAvailable: there was none.
    """
    ordered = tuple(sorted(ns / 1e3 for ns in late_ns))
    if not ordered:
        raise NotAvailable("no wait on the practice device", "one at least", "let the work be waited for")
    return Calibration(ordered)


def calibrate(
    shortest_ms: float,
    device: Engine | None = None,
    *,
    tolerance: float = TOLERANCE,
    repetitions: int = REPETITIONS,
    samples: int = SAMPLES,
) -> Calibration:
    """Measure, and refuse where times of this size cannot be judged here and now.

    The shortest of some repetitions is wrong where all of them are late. With the share of late waits that was
    measured, that must not be likelier than `CHANCE`; for a single repetition it is the 95 % point that counts. Late
    waits come in bursts, so that this is the best case: a check also looks at its own waits (`of_lateness`).

    Args:
        shortest_ms: the shortest time that is to be judged.
        device: see `measure`.
        tolerance: the share of it beyond which a wait is late.
        repetitions: of how many the shortest is taken.
        samples: how many waits.

    Raises:
        NotAvailable: the machine is too busy or too coarse, with the numbers.
    """
    found = measure(device, samples=samples)
    if not found.holds(shortest_ms, tolerance=tolerance, repetitions=repetitions):
        limit = 1e3 * shortest_ms * tolerance
        share = CHANCE ** (1 / repetitions)
        raise NotAvailable(
            f"a verdict on times of {shortest_ms:g} ms, while {found.sentence}",
            f"at most {limit:.0f} µs late in {1 - share:.0%} of them or more",
            "try again when less runs on this machine",
        )
    return found
