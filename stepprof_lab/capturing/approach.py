"""The approach: unprofiled steps before the window, timed by the host's clock.

A loader's workers deliver in bursts with a period of as many steps as there are workers, and the queue that they
filled before the window hides the wait. Measured with 4 workers: the two active steps waited 0.2 ms (3 %) where the
steady loop waited 15.3 ms (75 %). So a window is preceded by at least `LEAST_STEPS` steps and `PERIODS` such periods,
and their times are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepprof_lab.trace.model import Approach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepprof_lab.capturing.names import LabelNames
    from stepprof_lab.labels import Role

LEAST_STEPS = 20
PERIODS = 4
LIMIT_S = 30.0
KEPT_STEPS = 1000
"""Where a window begins late in a long training, only this many steps before it are timed."""


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


class LoaderWatch:
    """What is seen of torch's loaders: their ranges, their workers, and iterators that are made."""

    def __init__(self) -> None:
        self.ranges: list[str] = []
        self.workers: int | None = None
        self.iterators_made = 0

    def read_from(self, iterator: Any) -> str:
        """An iterator is read from: note it; returns the name that the profiler gives to this range."""
        workers = getattr(iterator, "_num_workers", None)
        if isinstance(workers, int):
            self.workers = max(workers, self.workers or 0)
        name = getattr(iterator, "_profile_name", None) or f"enumerate(DataLoader)#{type(iterator).__name__}.__next__"
        if name not in self.ranges:
            self.ranges.append(name)
        return str(name)


@contextlib.contextmanager
def watching_loaders(watch: LoaderWatch, clock: Callable[[], StepClock | None]) -> Iterator[None]:
    """Let every iterator of a torch ``DataLoader`` tell `watch` what it does, and time its reading by `clock`.

    Reading is so timed without any label. torch has no hook for this: the method is replaced while it lasts.

    Args:
        watch: is told.
        clock: gives the clock that runs now; None where the profiler times the reading itself.
    """
    # torch has no public name for "a loader's iterator"
    base: Any = import_module("torch.utils.data.dataloader")._BaseDataLoaderIter  # noqa: SLF001
    read, make = base.__next__, base.__init__

    def timed_next(iterator: Any) -> Any:
        name = watch.read_from(iterator)
        running = clock()
        if running is None:
            return read(iterator)
        token = running.enter_range(name)
        try:
            return read(iterator)
        finally:
            running.exit(token)

    def counted_init(iterator: Any, *args: Any, **kwargs: Any) -> None:
        watch.iterators_made += 1
        make(iterator, *args, **kwargs)

    base.__next__, base.__init__ = timed_next, counted_init
    try:
        yield
    finally:
        base.__next__, base.__init__ = read, make


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
        self._cut_reason: str | None = None
        self.skipped = max(0, (begin or 0) - KEPT_STEPS)
        """Steps that run before the first one that is timed."""

    @property
    def workers(self) -> int | None:
        """The loader's workers as seen, or else as stated."""
        return self._stated_workers if self._watch.workers is None else self._watch.workers

    @property
    def wanted(self) -> int:
        """How many steps it should have by what is known now."""
        return wanted_steps(self.workers)

    @property
    def total(self) -> int:
        """How many steps will run before the window, by what is known now."""
        if self._begin is not None:
            return self._begin
        return self._agreed or self.wanted

    def affordable(self) -> int:
        """How many steps fit into the time limit at the pace so far (at least one)."""
        done, spent_ns = len(self.clock.steps_ns), sum(self.clock.steps_ns)
        # The first step carries what happens once, so the pace is taken from the later ones.
        pace = sum(self.clock.steps_ns[1:]) / (done - 1) if done > 1 else max(spent_ns, 1)
        return done + max(0, int((self._limit_ns - spent_ns) / max(pace, 1)))

    def agree(self, total: int) -> None:
        """Run exactly this many steps: under several ranks all run as many, or a collective would wait for ever."""
        self._agreed = max(total, len(self.clock.steps_ns))

    def is_over(self, steps_run: int) -> bool:
        """Whether the window begins after this many steps."""
        if self._begin is not None:
            return steps_run >= self._begin
        if self._agreed is not None:
            return steps_run >= self._agreed
        return steps_run >= self.wanted or (steps_run > 0 and self._out_of_time())

    def _out_of_time(self) -> bool:
        return sum(self.clock.steps_ns) >= self._limit_ns

    def result(self) -> Approach:
        """What was measured."""
        clock = self.clock
        done, wanted = len(clock.steps_ns), self.wanted
        reason = None
        if done < wanted:
            reason = (
                f"the window was asked to begin at step {self._begin}"
                if self._begin is not None
                else f"{self._limit_s:g} s were over after {done} of {wanted} steps"
            )
        return Approach(
            steps_ms=[ns / 1e6 for ns in clock.steps_ns],
            labels_ms={name: [ns / 1e6 for ns in series] for name, series in clock.labels_ns.items()},
            loader_workers=self.workers,
            wanted_steps=wanted,
            cut=reason is not None,
            cut_reason=reason,
        )
