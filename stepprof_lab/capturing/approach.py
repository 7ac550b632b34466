"""The approach: unprofiled steps before the window, timed by the host's clock.

A loader's workers deliver in bursts with a period of as many steps as there are workers, and the queue that they
filled before the window hides the wait. Measured with 4 workers: the two active steps waited 0.2 ms (3 %) where the
steady loop waited 15.3 ms (75 %). So a window is preceded by at least `LEAST_STEPS` steps and `PERIODS` such periods,
and their times are kept. Where the workers' queue still hides what the steady loop does (`stepprof_lab.trace.ahead`),
the approach goes on, as long as the time limit and the loader's batches allow it.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING

import msgspec

from stepprof_lab.trace import ahead, waiting
from stepprof_lab.trace.model import Approach

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepprof_lab.capturing.loaders import LoaderWatch
    from stepprof_lab.capturing.names import LabelNames
    from stepprof_lab.labels import Role

LEAST_STEPS = 20
PERIODS = 4
LIMIT_S = 30.0
KEPT_STEPS = 1000
"""Where a window begins late in a long training, only this many steps before it are timed."""
SETTLING_STEPS = 10
"""So many steady steps that wait, and two periods of the workers, settle that the loop waits."""
SPARED_STEPS = 6
"""An approach that goes on leaves the loader's batches for this many steps: the window, and a little more."""


def wanted_steps(workers: int | None) -> int:
    """How many steps an approach should have: enough, and several periods of the loader's workers."""
    return max(LEAST_STEPS, PERIODS * (workers or 0))


@dataclasses.dataclass
class _Open:
    """A label that is open now: how often (it may be entered within itself), and since when it counts."""

    depth: int
    since_ns: int


class StepClock:
    """Times steps, and the labels inside them, by the host's clock: a `stepprof_lab.labels.Recorder`.

    A label's time in a step is the sum of its calls; a label inside itself counts once, and one that is open across
    the end of a step counts in each of the two for its part. Only labels of the thread that runs the steps count, as
    the profiler records only that thread: another thread's time would not add up to the step's.
    """

    def __init__(self, names: LabelNames, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._names = names
        self._clock = clock
        self._thread = threading.get_ident()
        self._open: dict[str, _Open] = {}
        self._this_step: dict[str, int] = {}
        self._started_ns = 0
        self.steps_ns: list[int] = []
        self.labels_ns: dict[str, list[int]] = {}
        self.steps_with: dict[str, int] = {}
        """In how many steps each label ran."""

    def begin_step(self) -> None:
        """A step begins now."""
        self._thread = threading.get_ident()
        self._started_ns = self._clock()
        for region in self._open.values():
            region.since_ns = self._started_ns

    def end_step(self) -> None:
        """A step ends now; what runs until the next one begins counts for neither."""
        now = self._clock()
        for name, region in self._open.items():
            self._add(name, now - region.since_ns)
        self._keep(now - self._started_ns)

    def enter(self, name: str, role: Role | None) -> object:
        """A label begins."""
        if threading.get_ident() != self._thread:
            self._names.see_elsewhere(name)
            return None
        self._names.see(name, role)
        return self.enter_range(name)

    def enter_range(self, name: str) -> object:
        """A region begins whose name is not a label of the user's."""
        if threading.get_ident() != self._thread:
            return None
        region = self._open.get(name)
        if region is None:
            self._open[name] = _Open(1, self._clock())
        else:
            region.depth += 1
        return name

    @property
    def open_names(self) -> list[str]:
        """The regions that are open now."""
        return list(self._open)

    @property
    def reading_names(self) -> set[str]:
        """The labels that ran so far and that read the batch."""
        return self._names.reading() & set(self.labels_ns)

    def exit(self, token: object) -> None:
        """A region ends."""
        if token is None:
            return
        name = str(token)
        region = self._open.get(name)
        if region is None:
            return
        region.depth -= 1
        if region.depth == 0:
            del self._open[name]
            self._add(name, self._clock() - region.since_ns)

    def _add(self, name: str, ns: int) -> None:
        self._this_step[name] = self._this_step.get(name, 0) + ns

    def _keep(self, step_ns: int) -> None:
        for name, ns in self._this_step.items():
            series = self.labels_ns.setdefault(name, [0] * len(self.steps_ns))
            series.append(ns)
            self.steps_with[name] = self.steps_with.get(name, 0) + 1
        self.steps_ns.append(step_ns)
        for series in self.labels_ns.values():
            # A label that did not run in this step took none of its time.
            if len(series) < len(self.steps_ns):
                series.append(0)
        self._this_step = {}


class ApproachRun:
    """The approach while it runs: counts, and says when it is over.

    On a GPU nothing waits for the device between the steps, as that would change the program: the times of labels
    are host times, and a label that only queues work is short.

    Args:
        clock: times the steps.
        watch: knows the loader's workers once a batch was read.
        stated_workers: the workers that the scenario states; used while none were seen.
        begin: the window begins at this step, so the approach is the steps before it.
        limit_s: the approach is cut after this many seconds; at least one step runs. Not used with ``begin``.
    """

    def __init__(
        self,
        clock: StepClock,
        watch: LoaderWatch,
        *,
        stated_workers: int | None = None,
        begin: int | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.clock = clock
        self._watch = watch
        self._stated_workers = stated_workers
        self._begin = begin
        self._limit_ns = int(limit_s * 1e9)
        self._limit_s = limit_s
        self._agreed: int | None = None
        self._ready: list[int] = []
        self._settled = True
        self.skipped = max(0, (begin or 0) - KEPT_STEPS)
        """Steps that run before the first one that is timed."""

    @property
    def workers(self) -> int | None:
        """The workers of the loader that the step reads from, as seen or else as stated; None where it is not known.

        What another thread reads, or what is read outside the labels that read, is not what the step may wait for.
        """
        watch = self._watch
        if watch.workers is None:
            return None if watch.read_elsewhere else self._stated_workers
        surely = not watch.read_elsewhere and self.clock.reading_names <= watch.read_inside
        return watch.workers if surely else None

    @property
    def least(self) -> int:
        """How many steps it should have at the least."""
        return wanted_steps(self.workers)

    @property
    def most(self) -> int:
        """Steps after which a queue that was full before can hide no wait that would be reported."""
        workers, prefetch = self.workers, self._watch.prefetch
        if not workers or prefetch is None:
            return self.least
        return max(self.least, ahead.most_steps(workers * prefetch, waiting.INPUT_WAIT_SHARE / 2))

    @property
    def wanted(self) -> int:
        """How many steps it should have by what is known now."""
        return self.least if self._settled or len(self.clock.steps_ns) < self.least else self.most

    @property
    def total(self) -> int:
        """How many steps will run before the window, by what is known now."""
        if self._begin is not None:
            return self._begin
        return self._agreed or self.wanted

    def end_step(self) -> None:
        """A step ends now: it is timed, and the loader is looked at."""
        self.clock.end_step()
        ready = self._watch.ready()
        if ready is not None:
            self._ready.append(ready)
        if len(self.clock.steps_ns) >= self.least:
            self._settled = self._is_settled()

    def _is_settled(self) -> bool:
        """Whether these steps tell if the loop waits for its loader, or more of them would tell no more."""
        workers = self.workers
        if not workers or self._watch.prefetch is None:
            return True
        read = waiting.Reading(self._watch.ranges, "loader")
        mean, _ = waiting.approach_wait(self._so_far(), read, workers, None)
        if mean is None or mean.at_most is None:
            return False
        if mean.share >= waiting.INPUT_WAIT_SHARE:
            return mean.steps >= max(2 * workers, SETTLING_STEPS)
        return mean.at_most < waiting.INPUT_WAIT_SHARE

    def affordable(self) -> int:
        """How many steps fit into the time limit at the pace so far (at least one), and have batches."""
        done, spent_ns = len(self.clock.steps_ns), sum(self.clock.steps_ns)
        # The first step carries what happens once, so the pace is taken from the later ones.
        pace = sum(self.clock.steps_ns[1:]) / (done - 1) if done > 1 else max(spent_ns, 1)
        in_time = done + max(0, int((self._limit_ns - spent_ns) / max(pace, 1)))
        return min(in_time, max(self.least, done + self._spare_steps()))

    def agree(self, total: int) -> None:
        """Run exactly this many steps: under several ranks all run as many, or a collective would wait for ever."""
        self._agreed = max(total, len(self.clock.steps_ns))

    def is_over(self, steps_run: int) -> bool:
        """Whether the window begins after this many steps."""
        if self._begin is not None:
            return steps_run >= self._begin
        if self._agreed is not None:
            return steps_run >= self._agreed
        if steps_run >= self.wanted or (steps_run > 0 and self._out_of_time()):
            return True
        return steps_run >= self.least and not self._spare_steps()

    def _out_of_time(self) -> bool:
        return sum(self.clock.steps_ns) >= self._limit_ns

    def _spare_steps(self) -> int:
        """Steps for which the loader has batches beside those that the window needs; 0 where it does not say."""
        left, done = self._watch.batches_left(), len(self.clock.steps_ns)
        if left is None or not done:
            return 0
        return max(0, int(left / max(self._watch.reads / done, 1.0)) - SPARED_STEPS)

    def result(self) -> Approach:
        """What was measured."""
        done, wanted = len(self.clock.steps_ns), self.wanted
        reason = self._why_cut(done, wanted) if done < wanted else None
        return msgspec.structs.replace(self._so_far(), wanted_steps=wanted, cut=reason is not None, cut_reason=reason)

    def _why_cut(self, done: int, wanted: int) -> str:
        if self._begin is not None:
            return f"the window was asked to begin at step {self._begin}"
        if self._out_of_time() or done < self.least or self._agreed is not None:
            return f"{self._limit_s:g} s were over after {done} of {wanted} steps"
        return f"after {done} of {wanted} steps the loader had no more batches to spare, or did not say how many"

    def _so_far(self) -> Approach:
        clock, watch = self.clock, self._watch
        steps, workers = len(clock.steps_ns), self.workers
        return Approach(
            steps_ms=[ns / 1e6 for ns in clock.steps_ns],
            labels_ms={name: [ns / 1e6 for ns in series] for name, series in clock.labels_ns.items()},
            loader_workers=workers,
            wanted_steps=self.least,
            loader_prefetch=watch.prefetch if workers else None,
            loader_ready=self._ready if workers and len(self._ready) == steps else [],
            loader_reads=watch.reads or None,
        )
