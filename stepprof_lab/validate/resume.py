"""What was measured so far, on disk while a run goes on, and how a run that was interrupted goes on from it.

The file is the run's own: each state of it replaces the one before, whole or not at all. It is written between
replicates only, and so seldom that it takes less than `WRITING_SHARE` of the time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepprof_lab.environment import Environment, load_average
from stepprof_lab.errors import StepprofError
from stepprof_lab.files import write_anew, write_new
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import fingerprint, identity
from stepprof_lab.validate.agreement import OUTPUT_STEPS, Answers
from stepprof_lab.validate.bench import Bench
from stepprof_lab.validate.model import ArmFrom, ArmName, Block, Session, Trial, WarmUp
from stepprof_lab.validate.outputs import Comparison
from stepprof_lab.validate.plan import PairsPlan, WholePlan

WRITING_SHARE = 0.01
"""Share of the time that may go into writing; after a slow write the next one waits."""

ENDING = ".partial.json"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked for."""

    replicates: int
    budget_s: float
    margin: float
    output_steps: int = OUTPUT_STEPS
    calibrate_s: float | None = None
    region: str | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """All that has to be the same for a run to go on."""

    scenario: Scenario
    arms: dict[ArmName, ArmFrom]
    environment: Environment
    options: Options


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """A run as far as it came: the JSON of ``*.partial.json``."""

    partial: Literal[True]
    asked: Asked
    plan: dict[str, Any]
    """The whole plan, with every order that was drawn."""
    outputs: dict[str, Any]
    """How the arms' outputs compared, with the fingerprint of what arm before answered."""
    ends: list[Comparison]
    remarks: dict[str, str]
    began_s: float
    """When the run began, in seconds since 1970."""
    replicates_done: int
    blocks: list[Block]
    """In measured order; those of a replicate that was cut are the last."""
    warm_up: list[WarmUp]
    sessions: list[Session]
    trials_planned: int | None = None
    trials: list[Trial] = []
    stopped: str | None = None
    """Why it stopped; None while it runs, and where it was killed."""


def options_of(
    *,
    replicates: int,
    budget: float,
    margin: float,
    calibrate: bool,
    calibrate_budget: float | None,
    region: str | None,
) -> Options:
    """The options of a new run, as the command has them; calibration has a budget of its own, as large by default."""
    return Options(
        replicates=replicates,
        budget_s=budget,
        margin=margin,
        calibrate_s=calibrate_budget or (budget if calibrate else None),
        region=region,
    )


def beside(kept: Path) -> Path:
    """The name of the partial file of a result: ``validation.json`` has ``validation.partial.json``."""
    return kept.with_name(kept.name.removesuffix(".json") + ENDING)


def result_of(partial: Path) -> Path:
    """The name of the result that a partial file becomes."""
    return partial.with_name(f"{partial.name.removesuffix(ENDING).removesuffix('.json')}.json")


def demand_none(partial: Path) -> None:
    """Refuse to begin a run where an earlier one of the same name was left unfinished."""
    if partial.exists():
        raise StepprofError(
            f"{str(partial)!r} exists already: a run that was not finished",
            "another --out, or that run",
            f"go on with it (--resume {partial}), or move it away",
        )


def load(path: Path) -> Partial:
    """Read a partial file.

    Raises:
        StepprofError: there is no such file, or it is none.
    """
    todo = f"give the {ENDING} that an interrupted run has left"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StepprofError(f"{str(path)!r} cannot be read ({error.strerror or error})", "a file", todo) from error
    try:
        found = msgspec.json.decode(data, type=Partial)
        _plan_of(found.plan)
    except msgspec.MsgspecError as error:
        raise StepprofError(f"{str(path)!r} is no run to go on with ({error})", f"a {ENDING}", todo) from error
    return found


def demand_same(earlier: Asked, now: Asked) -> None:
    """Refuse to go on with another scenario, other arms, on another machine, or with other options.

    Raises:
        StepprofError: in one line, what differs.
    """
    for what, one, other, todo in (
        ("scenario", earlier.scenario, now.scenario, "give the scenario that the run began with"),
        ("arms", earlier.arms, now.arms, "put the files back as they were, or begin a new run"),
        ("machine", earlier.environment, now.environment, "go on where it began, or begin a new run"),
        ("options", earlier.options, now.options, "leave them out: they are those of the run"),
    ):
        if found := identity.differing(one, other, identity.CHANGES_BY_ITSELF):
            raise StepprofError(
                f"a run to go on with whose {what} {'are' if what.endswith('s') else 'is'} not the same "
                f"({identity.in_words(found)})",
                f"the same {what}",
                todo,
            )


class Keeper:
    """Keeps a run on disk while it goes on, or, without a file, only knows its sessions.

    Args:
        asked: what the run is of.
        path: the partial file; None keeps nothing.
        earlier: what an earlier session has left, to go on with.
    """

    def __init__(self, asked: Asked, path: Path | None, earlier: Partial | None = None) -> None:
        if earlier is not None:
            demand_same(earlier.asked, asked)
        self.path = path
        self.earlier = earlier
        self.trials: list[Trial] = list(earlier.trials) if earlier else []
        self.trials_planned = earlier.trials_planned if earlier else None
        self.asked = asked
        self._began_s = earlier.began_s if earlier else time.time()
        self._plan: dict[str, Any] = {}
        self._answers: Answers | None = None
        self._session = Session(
            began_at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            from_replicate=earlier.replicates_done if earlier else 0,
            load_average=load_average(),
        )
        self._cost_s = 0.0
        self._written_s = float("-inf")

    @property
    def sessions(self) -> list[Session]:
        """All sessions of the run, this one last."""
        return [*_ended(self.earlier), self._session] if self.earlier else [self._session]

    def take_up(self, bench: Bench) -> None:
        """Give a new bench what an earlier session has measured of whole replicates."""
        if self.earlier is None:
            return
        bench.done = self.earlier.replicates_done
        bench.blocks += [block for block in self.earlier.blocks if block.replicate < bench.done]
        bench.warm_ups += [one for one in self.earlier.warm_up if one.replicate < bench.done]
        bench.offset_s = time.time() - self._began_s

    def plan(self, answers: Answers) -> PairsPlan | WholePlan | None:
        """The plan to go on with; None where the run begins.

        Args:
            answers: what the arms answered in this session.

        Raises:
            StepprofError: the arms answer otherwise than when the run began.
        """
        if self.earlier is None:
            return None
        then, now = self.earlier.outputs["fingerprint"], answers.outputs["fingerprint"]
        if told := fingerprint.difference(then, now, self.asked.scenario.outputs):
            raise StepprofError(
                f"a run to go on with whose arms answered otherwise when it began: {told}",
                "the same answers",
                "look at what the arms read that has changed, or begin a new run",
            )
        return _plan_of(self.earlier.plan)

    def begin(self, bench: Bench, plan: PairsPlan | WholePlan, answers: Answers) -> None:
        """The plan is made: from now on there is something to keep."""
        self._plan, self._answers = msgspec.to_builtins(plan), answers
        bench.on_replicate = lambda: self.note(bench)
        if self.earlier is not None:
            answers.ends.extend(self.earlier.ends)
            answers.remarks.update(self.earlier.remarks)
            answers.outputs.update(self.earlier.outputs)
        elif self.path is not None:
            write_new(self.path, self._state(bench, answers, None), "partial result")
            self._written_s = time.perf_counter()

    def note(self, bench: Bench) -> None:
        """A replicate or a trial is done; it is written unless that would take more than its share of the time."""
        begin = time.perf_counter()
        if self.path is None or self._answers is None or begin - self._written_s < self._cost_s / WRITING_SHARE:
            return
        write_anew(self.path, self._state(bench, self._answers, None), "partial result")
        self._written_s = time.perf_counter()
        self._cost_s = self._written_s - begin

    @contextlib.contextmanager
    def kept_on_failure(self, bench: Bench) -> Iterator[None]:
        """Where the run stops before its end everything is written, the values of the replicate that was cut too."""
        try:
            yield
        except BaseException as error:
            if self.path is not None and self._answers is not None:
                why = str(error) if isinstance(error, StepprofError) else type(error).__name__
                stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else why
                with contextlib.suppress(
                    StepprofError
                ):  # the disk may be why it stopped, and that is what has to be told
                    write_anew(self.path, self._state(bench, self._answers, stopped), "partial result")
            raise

    def _state(self, bench: Bench, answers: Answers, stopped: str | None) -> bytes:
        return msgspec.json.encode(
            Partial(
                partial=True,
                asked=self.asked,
                plan=self._plan,
                outputs=answers.outputs,
                ends=answers.ends,
                remarks=answers.remarks,
                began_s=self._began_s,
                replicates_done=bench.done,
                blocks=bench.blocks,
                warm_up=[one for one in bench.warm_ups if one.replicate < bench.done],
                sessions=self.sessions,
                trials_planned=self.trials_planned,
                trials=self.trials,
                stopped=stopped,
            )
        )


def _ended(earlier: Partial) -> list[Session]:
    """The sessions until now, with what was left of the last one's cut replicate."""
    *before, last = earlier.sessions
    cut = [block for block in earlier.blocks if block.replicate >= earlier.replicates_done]
    return [*before, msgspec.structs.replace(last, ended=earlier.stopped or "it was killed", cut_blocks=cut)]


def _plan_of(plan: dict[str, Any]) -> PairsPlan | WholePlan:
    if "pairs" in plan:
        return msgspec.convert(plan, PairsPlan)
    return msgspec.convert(plan, WholePlan)
