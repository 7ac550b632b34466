"""What a validation is told in: the time of a step or of a request, or samples a second; converted here and only here.

The JSON keeps milliseconds a step. A scenario whose unit is samples/s is shown in samples a second wherever a reader
compares steps; times that are no rate (building, the first step) stay times.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from stepprof_lab.report import words

if TYPE_CHECKING:
    from stepprof_lab.validate.model import Validation


@dataclasses.dataclass(frozen=True)
class Quantity:
    """How one step is told.

    Args:
        samples: samples of a step, where it is told in samples a second.
        one: what a step is called: "step" or "request".
    """

    samples: float | None
    one: str

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.samples is not None

    @property
    def kind(self) -> Literal["time", "rate"]:
        """What a column of a table holds."""
        return "rate" if self.is_rate else "time"

    @property
    def title(self) -> str:
        """What an axis shows."""
        return f"samples a second, by each {self.one}" if self.is_rate else f"time of a {self.one}"

    def cell(self, ms: float) -> float:
        """A step's time as a table's cell: samples a second, or microseconds."""
        return self.number(ms) if self.is_rate else 1e3 * ms

    def number(self, ms: float) -> float:
        """A step's time as an axis has it: samples a second, or milliseconds."""
        if self.samples is None:
            return ms
        return 1e3 * self.samples / ms if ms > 0 else 0.0

    def text(self, ms: float) -> str:
        """A step's time in words."""
        return words.rate(self.number(ms)) if self.is_rate else words.duration(1e3 * ms)


def of(validation: Validation) -> Quantity:
    """What the scenario's unit asks for; times, where the steps state no samples."""
    one = "request" if validation.unit == "ms/request" else "step"
    if validation.unit != "samples/s":
        return Quantity(None, one)
    samples = [1e-3 * arm.samples_per_s * arm.mean_ms for arm in validation.arms if arm.samples_per_s is not None]
    return Quantity(samples[0] if samples else None, one)
