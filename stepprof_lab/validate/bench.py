"""What all parts of one comparison share: the arms' builders, the device, the clock, and what was recorded so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stepprof_lab.progress import Progress
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate.arms import Build, Clock, LoaderSeen, RunningArm, collect_garbage
from stepprof_lab.validate.model import ArmName, Block, WarmUp
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.plan import Terms
from stepprof_lab.validate.surroundings import Surroundings
from stepprof_lab.validate.timed_outputs import Answered
from stepprof_lab.validate.timing import DIGITS, TimedDevice, Way, time_block, time_start_up
from stepprof_lab.validate.watchers import ProfilersSeen

ARMS: tuple[ArmName, ArmName] = ("before", "after")

REHEARSAL, OUTPUTS_RUN = -2, -1
"""The runs before the timed replicates, which are numbered from 0."""

_RUN_NAMES = {REHEARSAL: "the rehearsal", OUTPUTS_RUN: "the comparison of outputs"}


@dataclasses.dataclass
class Bench:
    """One comparison at work.

    Args:
        scenario: the question that both arms belong to.
        builds: what makes each arm.
        device: where the steps run.
        clock: the host's clock in seconds.
        meter: what the noise report reads.
        progress: told how far it is.
        loaders: every DataLoader iterator made so far.
        around: the process that both arms share.
        profilers: counts the profilers that a step or a build opened.
        replicates: fresh pairs of arms.
        budget_s: how long all of it may take.
    """

    scenario: Scenario
    builds: Mapping[ArmName, Build]
    device: TimedDevice
    clock: Clock
    meter: Meter
    progress: Progress
    loaders: list[LoaderSeen]
    around: Surroundings
    profilers: ProfilersSeen
    replicates: int
    budget_s: float
    blocks: list[Block] = dataclasses.field(default_factory=list)
    warm_ups: list[WarmUp] = dataclasses.field(default_factory=list)
    build_ms: dict[tuple[ArmName, int], float] = dataclasses.field(default_factory=dict)
    drops_s: list[float] = dataclasses.field(default_factory=list)
    """How long it took each time to let go of instances and collect garbage, in seconds."""
    began_s: float = 0.0
    planned_s: float = 0.0
    """Seconds from the beginning until the plan was made."""
    timed_s: float = 0.0
    """Seconds that a whole run of the plan takes, as seen; 0 where none was timed in this session."""
    offset_s: float = 0.0
    """Seconds from the beginning of a run to that of this session, where it was resumed."""
    done: int = 0
    """Replicates that are whole."""
    on_replicate: Callable[[], None] = lambda: None
    """Called when one more is, before anything else is timed."""
    region: str | None = None
    """The label that is asked about beside the whole step."""
    heard: dict[ArmName, list[str]] = dataclasses.field(default_factory=dict)
    """The labels of each arm, where one is asked about."""
    label: str | None = None
    """The label whose regions this bench times instead of whole steps."""

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    @property
    def terms(self) -> Terms:
        """What a plan that is made now has to keep to."""
        runs = 1 if self.region is None else 2
        return Terms(
            seed=self.scenario.seed,
            replicates=self.replicates,
            left_s=(self.budget_s - (self.clock() - self.began_s)) / runs,
            budget_s=self.budget_s,
            runs=runs,
        )

    def fresh(self, name: ArmName, replicate: int) -> RunningArm:
        """Build an instance of an arm from the seeds of a replicate."""
        begin = self.clock()
        arm = RunningArm(
            name,
            self.builds[name],
            self.device.torch_device,
            seed=self.scenario.seed,
            replicate=replicate,
            where=_RUN_NAMES.get(replicate, f"replicate {replicate}"),
            around=self.around,
        )
        self.device.synchronize()
        self.build_ms[name, replicate] = round((self.clock() - begin) * 1e3, DIGITS)
        self.profilers.refuse(f"arm {name} was built")
        return arm

    def drop(self, *arms: RunningArm) -> None:
        """Let go of instances and of all that belongs to them, before anything else is timed."""
        begin = self.clock()
        for arm in arms:
            arm.drop()
        collect_garbage(self.loaders, arms[-1].name if self.scenario.boundary.read else None)
        self.drops_s.append(self.clock() - begin)

    def start_up(self, arm: RunningArm, steps: int) -> list[float]:
        """Run steps that count for the start-up alone; their times in ms."""
        found = time_start_up(arm, steps, device=self.device, clock=self.clock, label=self.label)
        self.profilers.refuse(f"a step of arm {arm.name}, in {arm.where}")
        return found

    def note_warm_up(self, arm: RunningArm, replicate: int, steps_ms: list[float], steady: int | None) -> None:
        """Keep how an instance started; apart from the times that are compared."""
        self.warm_ups.append(
            WarmUp(
                replicate=replicate,
                arm=arm.name,
                build_ms=self.build_ms[arm.name, replicate],
                steps_ms=steps_ms,
                steady_after_steps=steady,
            )
        )

    @property
    def times_requests(self) -> bool:
        """Whether the time until each request is answered is asked for, and not how many of them a second has."""
        return self.scenario.unit == "ms/request"

    def measure(self, arm: RunningArm, steps: int, *, replicate: int, pair: int, host_clock: bool) -> Answered:
        """Time one block and keep it; gives it with what its last step returned."""
        started = self.clock() - self.began_s + self.offset_s
        way = Way(host_clock=host_clock, wait_each=self.times_requests, label=self.label)
        timed = time_block(arm, steps, device=self.device, clock=self.clock, meter=self.meter, way=way)
        block = Block(
            replicate=replicate,
            pair=pair,
            arm=arm.name,
            order=len(self.blocks),
            steps_ms=timed.steps_ms,
            per_step=timed.per_step,
            steps=steps,
            lead_in=timed.lead_in,
            tail_ms=timed.tail_ms,
            wall_ms=timed.wall_ms,
            cpu_ms=timed.cpu_ms,
            involuntary_switches=timed.involuntary_switches,
            cpu_pressure_us=timed.cpu_pressure_us,
            started_s=round(started, DIGITS),
            compilations=timed.compilations,
            label=timed.label,
        )
        self.blocks.append(block)
        self.profilers.refuse(f"a step of arm {arm.name}, in {arm.where}")
        return Answered(block, arm.done, timed.answer, timed.read_ms)

    def replicate_done(self) -> None:
        """One more replicate is whole."""
        self.done += 1
        self.on_replicate()

    def start_up_report(self) -> dict[str, Any]:
        """What the start-up of each arm took, as medians over the replicates."""
        found: dict[str, Any] = {
            name: _report(own) for name in ARMS if (own := [one for one in self.warm_ups if one.arm == name])
        }
        if self.scenario.kind == "inference":
            for one in found.values():
                one["load_ms"] = one["build_ms"]  # a service loads its model there, before the first request
        return found


def _report(found: list[WarmUp]) -> dict[str, Any]:
    steady = [one.steady_after_steps for one in found if one.steady_after_steps is not None]
    return {
        "build_ms": float(np.median([one.build_ms for one in found])),
        "first_step_ms": float(np.median([one.steps_ms[0] for one in found])),
        "steady_after_steps": float(np.median(steady)) if steady else None,
        "instances": len(found),
        "not_steady": len(found) - len(steady),
    }
