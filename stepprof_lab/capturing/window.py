"""A capture while it is made: approach, window, checks, record.

One object is told when a step has ended, and does what is due between two steps. The forms in which a loop tells it are
in `stepprof_lab.capturing` and `stepprof_lab.capturing.turns`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime as dt
import gzip
import hashlib
import itertools
import os
import secrets
import shlex
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from stepprof_lab import __version__, environment, record
from stepprof_lab.capturing import observe, ranks
from stepprof_lab.capturing.approach import ApproachRun, StepClock
from stepprof_lab.capturing.checks import Seen, examine
from stepprof_lab.capturing.loaders import LoaderWatch, watching_loaders
from stepprof_lab.capturing.names import LabelNames
from stepprof_lab.capturing.plan import OPTIONS, Plan, is_traced, refuse, rejected_name
from stepprof_lab.capturing.session import FIRST_ACTIVE, SCHEDULE, TURNS, Session
from stepprof_lab.capturing.turns import Turns
from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.labels import set_recorder
from stepprof_lab.practice.lanes import Lanes
from stepprof_lab.progress import Progress, silent

if TYPE_CHECKING:
    from stepprof_lab.labels import Role, Step
    from stepprof_lab.record import Check, Record
    from stepprof_lab.trace.model import Approach

T = TypeVar("T")

_one_at_a_time = threading.Lock()
_being_made: weakref.ref[Window] | None = None
"""The window that holds the lock."""


@dataclasses.dataclass(frozen=True)
class Captured:
    """A valid capture."""

    trace: Path
    record_path: Path
    record: Record


class WindowLabels:
    """Labels inside the window: each opens a range of the profiler, and is counted."""

    def __init__(self, names: LabelNames) -> None:
        from torch.profiler import record_function

        self._range: Any = record_function
        self._names = names
        self._thread = threading.get_ident()
        self._turn = 0
        self.calls: list[dict[str, int]] = [{} for _ in range(TURNS)]

    def next_turn(self) -> None:
        """The labels that come belong to the next turn."""
        self._turn += 1

    def enter(self, name: str, role: Role | None) -> object:
        """A label begins; those of other threads are not recorded, as the profiler does not record them."""
        if threading.get_ident() != self._thread:
            self._names.see_elsewhere(name)
            return None
        region = self._range(self._names.see(name, role))
        if self._turn < TURNS:
            calls = self.calls[self._turn]
            calls[name] = calls.get(name, 0) + 1
        region.__enter__()
        return region

    def exit(self, token: Any) -> None:
        """A label ends."""
        if token is not None:
            token.__exit__(None, None, None)


class Window:
    """A capture while it is made. Made by `capture`; one at a time in a process, used by one thread.

    Args:
        plan: what is captured.
        step: the workload's step where there is one: its state is looked at.
        progress: is told how far it is.
    """

    def __init__(self, plan: Plan, *, step: Step | None = None, progress: Progress = silent) -> None:
        self.plan = plan
        self.done = False
        """Whether all is captured; further steps are not observed and cost nothing."""
        self.closed = False
        self.captured: Captured | None = None
        """The capture, once it is done; None on a rank that is not traced."""
        self.steps_run = 0
        self._step = step
        self._progress = progress
        self._place = ranks.place()
        self._traced = is_traced(plan, self._place)
        self._trace = ranks.with_rank(plan.trace, self._place)
        self.in_with = False
        self.started = False
        self.process = os.getpid()
        self._thread = threading.get_ident()
        self._driver: weakref.ref[Turns[Any]] | None = None
        self._undo = contextlib.ExitStack()
        self._looking = contextlib.ExitStack()
        self._names = LabelNames()
        self._watch = LoaderWatch()
        self._clock: StepClock | None = None
        self._approach: ApproachRun | None = None
        self._approach_result: Approach | None = None
        self._labels: WindowLabels | None = None
        self._session: Session | None = None
        self._lanes: Lanes | None = None
        self._observed: dict[str, Any] = {}
        self._turns_ns: list[int] = []
        self._turn_started_ns = 0
        self._iterators_before = 0
        self._capture_id = secrets.token_hex(8)
        self._raw = self._trace.with_name(f".{self._trace.name}.{self._capture_id}.export.json")

    # --- the three forms ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Turns[int]:
        """Steps, numbered from 0: each turn of the loop is one, and the loop ends with the capture."""
        return Turns(self, itertools.count(), ends_with_window=True)

    def over(self, batches: Iterable[T]) -> Turns[T]:
        """The batches of a loader, reading each being part of its step; goes on to the loader's end.

        Where this iterator gets a name or goes into a wrapper (``tqdm(window.over(loader))``), use the window by
        ``with``: only that knows when such a loop has been left, and how.
        """
        return Turns(self, iter(batches), ends_with_window=False)

    def __enter__(self) -> Window:
        self.in_with = True
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    # --- start, step, close ------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Steps from the first to the end of the window, by what is known now."""
        return TURNS + (self._approach.total if self._approach is not None else 0)

    def start(self) -> None:
        """Refuse what has to be refused, then begin the first step.

        Raises:
            StepprofError: as `refuse`; under several ranks all of them raise the same.
        """
        if self.started:
            raise StepprofError("a capture that was started already", "one start", "make a new capture for another one")
        self.started = True
        with self._cleaned_up():
            problem: StepprofError | None = None
            try:
                self._claim()
                self._device = refuse(self.plan)
            except StepprofError as error:
                problem = error
            ranks.agree(problem)
            self._thread = threading.get_ident()
            atexit.register(self._close_at_exit)
            self._prepare()

    def step(self) -> None:
        """A step has ended. Once the capture is done this does nothing.

        Raises:
            StepprofError: a loop over the window counts the steps already, or the window is complete and not valid (it
                is kept as ``.rejected``), or the trace cannot be written.
        """
        if not self.closed and self._driving() is not None:
            raise StepprofError(
                "step() inside a loop over the window, which would count each step twice",
                "one count a step: each turn of such a loop is a step",
                "leave step() out, or loop over something else than the window",
            )
        self.advance()

    def drive(self, turns: Turns[Any]) -> None:
        """A loop over the window takes its next turn.

        Raises:
            StepprofError: another loop over the window is in a step; both would count it.
        """
        if not self.closed and self._driving() not in (None, turns):
            raise StepprofError(
                "a loop over the window inside another one, which would count each step twice",
                "one loop over the window at a time",
                "let the inner loop go over something else, or end the outer one first",
            )
        self._driver = weakref.ref(turns)

    def _driving(self) -> Turns[Any] | None:
        """The loop over the window that is in a step."""
        turns = None if self._driver is None else self._driver()
        return turns if turns is not None and turns.in_step else None

    def advance(self) -> None:
        """A step has ended, as `step` and the loops over the window tell it."""
        if self.closed:
            return
        if not self.started:
            raise StepprofError(
                "a step before the capture was started", "start() first", "use it as `with capture(...)`"
            )
        if threading.get_ident() != self._thread:
            raise StepprofError(
                "a step that ended in another thread than the capture was started in",
                "all steps in one thread, the only one that the profiler records",
                "call start() and step() from the thread that trains",
            )
        with self._cleaned_up():
            if not self._turns_begun():
                self._end_approach_step()
            else:
                self._end_turn()

    def close(self) -> None:
        """The loop has ended; a capture that is not done by then is none, and a warning says so.

        What the active turns recorded is kept as ``.rejected``; before them there is nothing to keep.
        """
        if self.closed or not self.started:
            return
        said = self._ended_early()
        if self._session is not None and len(self._turns_ns) >= FIRST_ACTIVE:
            with self._cleaned_up():
                self._session.end_early()
                text = self._raw_bytes()
                kept = self._keep_rejected(text, self._checks(text))
            said += f"; kept as {kept.name}, which is not a capture"
        self.abandon()
        warnings.warn(said, RuntimeWarning, stacklevel=3)

    def drop(self, why: str) -> None:
        """End where it is not known how the loop was left: nothing is kept, and a warning says why."""
        if self.closed or not self.started:
            return
        said = self._ended_early()
        self.abandon()
        warnings.warn(
            f"{said}; nothing is kept: {why} (`with capture(...) as window` knows)", RuntimeWarning, stacklevel=3
        )

    def _ended_early(self) -> str:
        turn = len(self._turns_ns)
        where = f"in turn {turn + 1} of {TURNS} of the window" if self._turns_begun() else "before the window began"
        return f"no capture: the loop ended after {self.steps_run} of {self.total} steps, {where}"

    def abandon(self) -> None:
        """End after an error or an interrupt: the profiler is stopped and nothing is left."""
        if self._session is not None:
            self._session.abandon()
        self._release()

    # --- how it goes -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _cleaned_up(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def _close_at_exit(self) -> None:
        """A loop that never tells its end: a profiler that still runs when Python ends can crash it."""
        if os.getpid() != self.process:
            return
        if getattr(sys, "last_value", None) is not None:
            # An error or an interrupt that nobody caught has ended the program.
            self.abandon()
        elif self._driving() is not None:
            self.drop("the program ended while something held the iterator of its loop")
        else:
            with contextlib.suppress(StepprofError):
                self.close()

    def _release(self) -> None:
        """Take away everything that was put in place; also the raw export."""
        self.closed = True
        atexit.unregister(self._close_at_exit)
        self._looking.close()
        self._undo.close()
        for leftover in (self._raw, self._raw.with_name(f"{self._raw.name}.tmp")):
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)

    def _claim(self) -> None:
        global _being_made  # noqa: PLW0603 - there is one profiler in a process
        if not _one_at_a_time.acquire(blocking=False):
            other = None if _being_made is None else _being_made()
            raise StepprofError(
                "a capture while another one is made" + (f" ({other.plan.trace.name!r})" if other else ""),
                "one capture at a time in a process",
                "let the other one end; where its loop was left and something still holds its iterator, call close() "
                "on what capture() returned, or use that as `with capture(...) as window`",
            )
        _being_made = weakref.ref(self)
        self._undo.callback(_one_at_a_time.release)

    def _prepare(self) -> None:
        self._watch.this_thread_runs_the_steps()
        self._clock = StepClock(self._names)
        self._approach = ApproachRun(
            self._clock,
            self._watch,
            stated_workers=self.plan.scenario.conditions.loader_workers,
            begin=self.plan.begin,
            limit_s=self.plan.approach_limit_s,
        )
        self._look_from = self._approach.skipped + (0 if self.plan.begin == 0 else 1)
        if self._approach.skipped == 0:
            self._begin_approach()

    def _begin_approach(self) -> None:
        assert self._clock is not None
        assert self._approach is not None
        self._undo.enter_context(watching_loaders(self._watch, lambda: self._clock if self._labels is None else None))
        before = set_recorder(self._clock)
        self._undo.callback(set_recorder, before)
        self._device.synchronize()
        self._look()
        if self._approach.is_over(0):
            self._begin_window()
        else:
            self._clock.begin_step()

    def _end_approach_step(self) -> None:
        assert self._clock is not None
        assert self._approach is not None
        approach = self._approach
        self.steps_run += 1
        if self.steps_run <= approach.skipped:
            if self.steps_run == approach.skipped:
                self._begin_approach()
            return
        approach.end_step()
        self._look()
        if self.plan.begin is None and len(self._clock.steps_ns) == 2 and ranks.can_talk():
            # By now every rank knows its loader and its pace. All have to run as many steps as the others.
            approach.agree(max(ranks.gather(min(approach.most, approach.affordable()))))
        self._progress("approach", min(self.steps_run, approach.total), approach.total)
        if approach.is_over(self.steps_run):
            self._begin_window()
        else:
            self._clock.begin_step()

    def _look(self) -> None:
        """Observe one step's conditions, an unprofiled one."""
        if self.steps_run == self._look_from:
            self._observed = self._looking.enter_context(observe.observing(self._step))
        elif self.steps_run > self._look_from:
            self._looking.close()

    def _turns_begun(self) -> bool:
        return self._approach_result is not None

    def _begin_window(self) -> None:
        assert self._approach is not None
        self._device.synchronize()
        self._approach_result = self._approach.result()
        self._iterators_before = self._watch.iterators_made
        self._progress("window", 0, TURNS)
        self._lanes = Lanes()
        self._undo.callback(self._lanes.stop)
        self._labels = WindowLabels(self._names)
        set_recorder(self._labels)
        if self._traced:
            self._session = Session(
                self._device.activities(),
                {name: self.plan.options.get(name, False) for name in OPTIONS},
                self._raw,
                {"capture": self._capture_id, "version": __version__},
            )
            self._session.start()
        self._turn_started_ns = time.perf_counter_ns()

    def _end_turn(self) -> None:
        assert self._labels is not None
        assert self._lanes is not None
        now = time.perf_counter_ns()
        self._turns_ns.append(now - self._turn_started_ns)
        self.steps_run += 1
        turn = len(self._turns_ns)
        self._look()
        if turn <= FIRST_ACTIVE:
            # Between the active turns nothing of ours runs that is not needed.
            self._progress("window", turn, TURNS)
        self._labels.next_turn()
        if turn == TURNS:
            self._lanes.end_active(now)
        if self._session is not None:
            self._session.turn()
        if turn == TURNS:
            self._finish()
            return
        self._turn_started_ns = time.perf_counter_ns()
        if turn == FIRST_ACTIVE:
            self._lanes.begin_active(self._turn_started_ns)

    def _finish(self) -> None:
        self._progress("window", TURNS, TURNS)
        problem: StepprofError | None = None
        if self._session is not None:
            self._progress("writing", 0, 1)
            try:
                # A GPU is done by now, the profiler has waited for it; the practice device tells its errors here.
                self._device.synchronize()
                self._write()
            except StepprofError as error:
                problem = error
        self._release()
        # A rank that stopped alone would leave the others waiting in their next collective.
        ranks.agree(problem)
        self.done = True
        self._progress("writing", 1, 1)

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        text = self._raw_bytes()
        checks = self._checks(text)
        failed = [check for check in checks if not check.passed]
        if failed:
            kept = self._keep_rejected(text, checks)
            raise _not_valid(self._trace, failed, kept)
        data = _packed(text, self._trace)
        made = self._record(checks, self._trace, data)
        self.captured = Captured(self._trace, record.keep(made, self._trace, data), made)
        if self._step is None:  # somebody's own loop, and nobody else who would say it
            sys.stderr.write(f"captured: {self._trace}; next: stepprof read {shlex.quote(str(self._trace))}\n")

    def _raw_bytes(self) -> bytes:
        """What the profiler exported. It raises nothing where it could not write, so that this has to look."""
        try:
            text = self._raw.read_bytes()
        except OSError:
            text = b""
        if not text:
            raise StepprofError(
                f"the profiler could not write its trace into {str(self._trace.parent)!r} (it does not say why)",
                "a directory with room that can be written",
                "free some room, or choose another directory; nothing was left",
            )
        text = self._names.restore(text)
        return self._lanes.merged(text, self._capture_id) if self._lanes is not None and self._is_simulated() else text

    def _is_simulated(self) -> bool:
        """Whether the practice device took part, whatever was asked for."""
        return self._device.origin == "simulated" or (self._lanes is not None and not self._lanes.is_empty)

    def _checks(self, text: bytes) -> list[Check]:
        assert self._session is not None
        assert self._labels is not None
        assert self._clock is not None
        steps = len(self._clock.steps_ns)
        always = [name for name in self._names if steps and self._clock.steps_with.get(name) == steps]
        return examine(
            text,
            Seen(
                handler_calls=self._session.handler_calls,
                turns_ns=self._turns_ns,
                label_calls=self._labels.calls,
                always=always,
                gpu_collected=self._device.is_gpu,
                gpu_required=self._gpu_required(),
            ),
        )

    def _gpu_required(self) -> bool:
        """A GPU that ``auto`` chose is not asked for where the workload was seen to compute on the CPU."""
        return self._device.is_gpu and not (self.plan.device == "auto" and self._observed.get("device") == "cpu")

    def _keep_rejected(self, text: bytes, checks: list[Check]) -> Path:
        rejected = rejected_name(self._trace)
        data = _packed(text, rejected)
        record.keep(self._record(checks, rejected, data), rejected, data)
        return rejected

    def _record(self, checks: list[Check], trace: Path, data: bytes) -> Record:
        assert self._approach_result is not None
        observed = dict(self._observed)
        if self._watch.workers is not None:
            observed["loader_workers"] = self._watch.workers
        if self._watch.read_elsewhere:
            observed["loader_read_in_another_thread"] = True
        if self._names.elsewhere:
            observed["labels_in_other_threads"] = self._names.elsewhere
        observed["loader_iterators_made_in_window"] = self._watch.iterators_made - self._iterators_before
        return record.Record(
            stepprof_lab=__version__,
            captured_at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            scenario=self.plan.scenario,
            observed=observed,
            contradictions=observe.contradictions(self.plan.scenario, observed),
            environment=msgspec.to_builtins(environment.describe(self._device)),
            device=self._device.sentence,
            gpu_requested=self._gpu_required(),
            schedule=dict(SCHEDULE),
            options={name: self.plan.options.get(name, False) for name in OPTIONS},
            labels=self._names.seen(self._watch.ranges),
            approach=self._approach_result,
            window_steps_ms=[ns / 1e6 for ns in self._turns_ns],
            checks=checks,
            valid=all(check.passed for check in checks),
            trace=trace.name,
            trace_sha256=hashlib.sha256(data).hexdigest(),
            rank=None if self._place is None else self._place.rank,
            world_size=None if self._place is None else self._place.world_size,
            origin="simulated" if self._is_simulated() else "live",
            capture_id=self._capture_id,
        )


def _not_valid(trace: Path, failed: list[Check], kept: Path) -> StepprofError:
    kind = NotAvailable if any(check.name == "device events" for check in failed) else StepprofError
    return kind(
        f"the capture {trace.name!r} is not valid: {'; '.join(check.detail for check in failed)}",
        "two whole steps, each with every label, and GPU events where a GPU was asked for",
        f"see {str(kept)!r}, which is kept for that and is not a capture; then capture again",
    )


def _packed(text: bytes, trace: Path) -> bytes:
    return gzip.compress(text, 6, mtime=0) if trace.name.endswith(".gz") else text
