"""What several ranks of one job say together: the JSON of ``stepprof read RANK0 RANK1 ...``.

Times are microseconds with three exact decimals, as in `stepprof_lab.trace.model`. What was not observed is
`msgspec.UNSET` and stays out of the JSON.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from stepprof_lab.trace.model import Origin, Regime, Timeline

RankFrom = Literal["trace", "record", "file name"]
MatchedBy = Literal["number", "position", "whole record"]
Clock = Literal["cpu", "gpu"]


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one rank, or the mean over its compared steps; see `stepprof_lab.trace.rank` for the definitions.

    Collectives bring the elapsed times of all ranks together. The own times are what tells the ranks apart.
    """

    name: str
    cpu_us: float
    """Elapsed, host clock."""
    cpu_own_us: float
    """The host's own time: elapsed, without waiting for the device and without collectives that it carries out."""
    gpu_own_us: float | UnsetType = UNSET
    """The device's own work: busy, without collectives."""
    communication_us: float | UnsetType = UNSET
    """Busy with collectives, waiting for peers inside them included; absent where no collective was observed."""
    exposed_communication_us: float | UnsetType = UNSET
    """Of it, with no other work of this rank beside it."""
    peers_wait_us: float | UnsetType = UNSET
    """Of the communication, waiting for a peer that had not begun yet; absent where it cannot be told."""
    peers_wait_exposed_us: float | UnsetType = UNSET
    """Of that, exposed."""


class RankCollectives(msgspec.Struct, frozen=True, kw_only=True):
    """The collectives in one rank's trace, and how each is known to be one."""

    count: int
    by_arguments: int
    by_name: int
    unclassified: int
    """Communication by its name, but which operation cannot be told."""
    in_compared_steps: int
    matched: int
    """Of these, matched with other ranks and waiting for all of them."""
    ran_on: list[Clock]


class RankTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One rank."""

    rank: int
    rank_from: RankFrom
    trace: str
    origin: Origin
    regime: Regime
    findings: list[str]
    """What its trace says by itself; ``stepprof read`` of it has the details."""
    devices: list[str] | None
    """The devices whose work was observed; None where there is none."""
    device_not_observed: str | None
    """Why not, where none was observed."""
    mean: RankTimes
    """Over the compared steps."""
    steps: list[RankTimes]
    """The compared ones, in their order."""
    collectives: RankCollectives
    arrives_after_first_us: float | UnsetType = UNSET
    """How long after the first rank it begins a matched collective, mean; absent where it cannot be told."""
    arrives_last: int | UnsetType = UNSET
    """In how many matched collectives it is clearly the last one to begin."""
    arrives_last_sum_us: float | UnsetType = UNSET
    """How long after the first rank it begins these, a sum."""
    arrives_last_longest_us: float | UnsetType = UNSET
    """The longest of them."""


class Differs(msgspec.Struct, frozen=True, kw_only=True):
    """A label or an operator on the slowest rank and on the others; means over the compared steps."""

    name: str
    own_us: float
    others_median_us: float
    more_us: float


class Slowest(msgspec.Struct, frozen=True, kw_only=True):
    """The rank with the most own time on one clock."""

    by: Clock
    rank: int
    own_us: float
    others_median_us: float
    """Median of the other ranks' means."""
    more_us: float
    share_of_step: float
    """What it has more, as a share of its mean step."""
    in_every_step: bool
    """Whether it has the most own time in each compared step."""
    stands_out: bool
    """Whether that is enough to call it slower than the others."""
    label: Differs | None
    """The label that differs most, the innermost one that explains it."""
    operator: Differs | None
    """The operator that differs most; by self time on the host, by what it launched on the device (a sum)."""


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Who begins the matched collectives last."""

    told: bool
    why: str
    """What the ranks' common clock rests on, or why there is none."""
    collectives: int
    """Matched ones that wait for all ranks."""
    precision_us: float | UnsetType = UNSET
    """Beginnings that lie closer are not told apart."""
    spread_us: float | UnsetType = UNSET
    """From the first rank's beginning to the last one's, median."""
    largest_spread_us: float | UnsetType = UNSET
    last_rank: int | None = None
    """The rank that makes the others wait longest by beginning last; None where none is clearly last."""


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """Observation, hypothesis and next check, as in a finding."""

    observation: str
    hypothesis: str
    next_check: str


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """Several ranks of one job beside each other."""

    question: str | None
    world_size: int | None
    """Ranks in the job, as the traces say; None where they say nothing or disagree."""
    missing: list[int]
    """Ranks of the job of which no trace was given."""
    doubts: list[str]
    """What speaks against these traces being of one run; read it before any number."""
    conclusion: Conclusion
    slowest: list[Slowest]
    """By the host's own time, and by the device's where it was observed on two ranks or more; none where the traces
    cannot be of one run."""
    arrivals: Arrivals
    matched_by: MatchedBy
    steps_compared: int
    ranks: list[RankTrace]
    """By rank."""
    notes: list[str]


class RanksInterpretation(msgspec.Struct, frozen=True):
    """What one reading of several ranks gives: the conclusions, and the picture where one was wanted."""

    ranks: Ranks
    timeline: Timeline | None
