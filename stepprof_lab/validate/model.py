"""The result of a validation: the JSON contract of ``stepprof validate``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Verdict = Literal["faster", "slower", "equivalent", "no difference shown", "not comparable"]
ArmName = Literal["before", "after"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps of one arm timed in a row; raw values, in the order in which they were measured."""

    replicate: int
    pair: int
    arm: ArmName
    order: int
    """Position in the whole run, from 0."""
    steps_ms: list[float]
    """Time of each step in ms, nothing deleted; where `per_step` is false one value, their mean."""
    per_step: bool = True
    """False on a GPU: only the whole block was timed, because waiting after each step would change the program."""
    steps: int | None = None
    """How many steps the block did."""
    wall_ms: float | None = None
    cpu_ms: float | None = None
    """Processor time of the whole process over the block, for the noise report."""
    involuntary_switches: int | None = None
    cpu_pressure_us: int | None = None
    """For how long some task of the machine waited for a processor; the system tells it on Linux only."""
    started_s: float | None = None
    """Seconds since the run began."""


class WarmUp(msgspec.Struct, frozen=True, kw_only=True):
    """How one instance of an arm came into its stride; none of this is in the times that are compared."""

    replicate: int
    arm: ArmName
    build_ms: float
    steps_ms: list[float]
    """Each step before the timed ones; on a GPU each was waited for."""
    steady_after_steps: int | None
    """Steps until the rolling median stayed near its last value; None where it did not settle."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one arm, over all its blocks."""

    name: str
    steps: int
    median_ms: float
    mean_ms: float
    iqr_ms: float
    """Distance between the quartiles."""
    q25_ms: float
    samples_per_s: float | None = None
    """From the mean; None where the step states no samples."""


class Statistic(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio after/before by one statistic, with its confidence interval over replicates."""

    name: str
    ratio: float
    interval: tuple[float, float]


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison of two arms concludes, and everything that it was concluded from."""

    verdict: Verdict
    design: str
    """Which of the two designs ran: "blocks in random pairs" or "whole arms in random order"."""
    question: str | None = None
    change: str | None = None
    """The one change, in the scenario's words."""
    unit: str = "ms/step"
    device: str = "cpu"
    seed: int = 0
    ratio: float | None = None
    """After over before by the verdict's statistic: below 1 is faster. None where nothing was timed."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval of the ratio over replicates."""
    margin: float
    """Differences smaller than this share are not called differences."""
    smallest_effect_seen: float | None = None
    """How far beyond the margin a change must be to be called one with probability 0.8, as a share: it says how much
    this run could have shown."""
    outputs: dict[str, Any]
    """How the outputs were compared, over how many steps, and the largest difference."""
    startup: dict[str, Any]
    """Time to the first step and steps until steady, for each arm; never mixed into the times above."""
    settings: dict[str, Any] = {}
    """Switches of the process (threads, precision, gradients, ...) that each arm set; each had its own in its turns."""
    statistics: list[Statistic] = []
    """The other statistics beside the verdict's own (median, mean), and where they disagree."""
    replicate_ratios: list[float] = []
    plan: dict[str, Any] = {}
    """What was fixed before the timing began: replicates, pairs, steps, warm-up, estimated duration."""
    warm_up: list[WarmUp] = []
    blocks: list[Block] = []
    arms: list[Arm] = []
    reasons: list[str]
    """Why this verdict, in sentences; first the one that decided."""
    noise: dict[str, Any]
    """Contention, drift, load; marked, never used to delete a value."""
