"""The result of a validation: the JSON contract of ``stepprof validate``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stepprof_lab.environment import Environment
from stepprof_lab.scenario import Scenario

Verdict = Literal["faster", "slower", "equivalent", "no difference shown", "not comparable"]
ArmName = Literal["before", "after"]


class LabelSeen(msgspec.Struct, frozen=True, kw_only=True):
    """How often a label occurred in a block."""

    name: str
    calls: int
    """Regions, those inside a region of the same label not counted."""
    steps: int
    """Steps in which one begins."""
    nested: int
    """Regions inside a region of the same label; their time is part of that one's."""


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
    """How many steps the block timed."""
    lead_in: int = 0
    """Steps at its beginning that no value holds: on a GPU they fill the queue. `wall_ms` and `cpu_ms` have them."""
    wall_ms: float | None = None
    tail_ms: float | None = None
    """From the device's last event until the whole device was done, on the host's clock; None where there is none."""
    cpu_ms: float | None = None
    """Processor time of the whole process over the block, for the noise report."""
    involuntary_switches: int | None = None
    cpu_pressure_us: int | None = None
    """For how long some task of the machine waited for a processor; the system tells it on Linux only."""
    started_s: float | None = None
    """Seconds since the run began."""
    compilations: int | None = None
    """Graphs that torch.compile compiled meanwhile; None where it was not used."""
    label: LabelSeen | None = None
    """The label whose regions `steps_ms` holds, from a run in which it alone was heard; None: whole steps."""

    @property
    def ran(self) -> int:
        """All steps of the block, timed or not."""
        return self.lead_in + (self.steps or len(self.steps_ms))


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


class ArmFrom(msgspec.Struct, frozen=True, kw_only=True):
    """Where an arm comes from."""

    name: str
    """ "loop.py:build": the name of the file, without its place, and of the function."""
    sha256: str | None = None
    """Of the whole file; None where there is none that can be read."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One sitting of a run: a run that was interrupted and resumed has several."""

    began_at: str
    """Date and time in UTC."""
    from_replicate: int
    """The first replicate that was measured in it."""
    load_average: list[float] | None
    """At its beginning."""
    ended: str | None = None
    """Why it stopped before the end; None where it did not, or was killed."""
    cut_blocks: list[Block] = []
    """What was measured of the replicate that was cut; it was measured anew, and is in no number."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an arm against itself."""

    ratio: float
    interval: tuple[float, float]
    replicate_ratios: list[float]


class FalseAlarms(msgspec.Struct, frozen=True, kw_only=True):
    """How often an arm was called faster or slower than itself."""

    margin: float
    count: int
    rate: float
    interval: tuple[float, float]
    """95 % confidence interval of the rate (Wilson)."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine says of an arm against itself, with the same plan."""

    arm: ArmName
    trials: list[Trial]
    planned: int
    """Trials that were decided on before the first."""
    false_alarms: list[FalseAlarms]
    """At margin 0, and at the margin in use."""
    spread: float | None
    """95 % of the trials had a ratio that was less than this away from 1; None where there were no trials."""
    budget_s: float
    """What the trials alone were allowed."""
    took_s: float
    reasons: list[str]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine's result, as it stands beside another's."""

    name: str
    """Name of the file that it was read from, or "this result"."""
    environment: Environment
    verdict: Verdict
    ratio: float
    interval: tuple[float, float]
    arms: list[Arm]


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """Results of two machines side by side; nothing of them is added or averaged."""

    machines: list[Machine]
    intervals_overlap: bool
    differences: list[str]
    """In what the machines differ."""
    reasons: list[str]


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """Latency and throughput of one arm, where a step is a request; one request after the other."""

    arm: ArmName
    requests: int
    median_ms: float | None
    """Time until a request is answered."""
    q95_ms: float | None
    q99_ms: float | None
    requests_per_s: float | None
    """All requests over the elapsed time of the whole timed loop."""
    samples_per_s: float | None
    not_observed: dict[str, str]
    """Why a number is missing."""


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """One label by itself, from a run in which it alone was heard; nothing of the whole step comes from it."""

    label: str
    verdict: Verdict
    ratio: float | None = None
    """After over before of the time inside the label; None where it could not be compared."""
    interval: tuple[float, float] | None = None
    smallest_effect_seen: float | None = None
    share_of_step: dict[ArmName, float] = {}
    """The label's time over the elapsed time of the same blocks."""
    calls_per_step: dict[ArmName, float] = {}
    arms: list[Arm] = []
    statistics: list[Statistic] = []
    replicate_ratios: list[float] = []
    blocks: list[Block] = []
    """As of the whole step; `steps_ms` holds the time inside the label in each step."""
    reasons: list[str]
    """First what it means for the whole step."""


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
    scenario: Scenario | None = None
    """The question as it was asked, with its conditions and tolerances."""
    made_from: dict[ArmName, ArmFrom] = {}
    environment: Environment | None = None
    sessions: list[Session] = []
    """When it was measured; several where it was interrupted and resumed."""
    requests: list[Requests] = []
    """Of each arm, where the scenario's kind is inference."""
    region: Region | None = None
    """One label by itself; None where it was not asked for."""
    calibration: Calibration | None = None
    """The same machine with nothing to find; None where it was not asked for."""
    against: Against | None = None
    """The same question on another machine; None where it was not asked for."""
