"""One arm at work: built under a seed, run by turns with its own random states, dropped with its loader."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from stepprof_lab.devices import import_torch
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.repeats import Returned
from stepprof_lab.validate.start import RandomStates, derived_seed, sow
from stepprof_lab.validate.surroundings import Surroundings

Build = Callable[[str], Step]
Clock = Callable[[], float]

USUAL_PREFETCH = 2
"""Batches that each worker of a torch DataLoader prepares in advance where nothing else is said."""


@dataclasses.dataclass(frozen=True)
class LoaderSeen:
    """An iterator of a torch DataLoader that was made while somebody watched."""

    iterator: weakref.ref[Any]
    workers: int
    prefetch: int

    @property
    def is_working(self) -> bool:
        """Whether it still has living worker processes."""
        iterator = self.iterator()
        return any(worker.is_alive() for worker in getattr(iterator, "_workers", ()))


@contextlib.contextmanager
def loaders_watched() -> Iterator[list[LoaderSeen]]:
    """Collect every iterator that a torch DataLoader makes, in the order of making."""
    seen: list[LoaderSeen] = []
    if import_torch() is None:
        yield seen
        return
    from torch.utils.data import dataloader

    kind: Any = dataloader._BaseDataLoaderIter  # noqa: SLF001 - the one class all its iterators have in common
    original = kind.__init__

    def init(self: Any, loader: Any) -> None:
        prefetch = getattr(loader, "prefetch_factor", None) or USUAL_PREFETCH
        seen.append(LoaderSeen(weakref.ref(self), loader.num_workers, prefetch))
        original(self, loader)

    kind.__init__ = init
    try:
        yield seen
    finally:
        kind.__init__ = original


class RunningArm:
    """A fresh instance of one arm.

    Args:
        name: "before" or "after".
        build: makes the step; called at once, with the seeds set.
        torch_device: what ``build`` is given.
        seed: the scenario's seed.
        replicate: which pair of instances this one belongs to; both of a pair get the same seeds.
        where: the same in words, for errors ("replicate 3").
        around: the process that the arms share; by default it is this arm's alone.
    """

    def __init__(
        self,
        name: ArmName,
        build: Build,
        torch_device: str,
        *,
        seed: int,
        replicate: int,
        where: str,
        around: Surroundings | None = None,
    ) -> None:
        self.name = name
        self.where = where
        self.done = 0
        self.last: Any = None
        self.returned = Returned()
        self._around = around or Surroundings(build)
        self._torch_device = torch_device
        self._around.begin(name)
        sow(derived_seed(seed, "build", replicate))
        self.step = self._built(build)
        self._around.names.add(self.step.run)
        # Again after the build: one arm may draw more numbers there than the other and still do the same steps.
        sow(derived_seed(seed, "steps", replicate))
        self._random = RandomStates.now(torch_device)
        self.settings = self._around.end(name)

    @property
    def random_states(self) -> RandomStates:
        """Where the random generators stood at the end of the latest turn."""
        return self._random

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """The arm runs now: the process's switches and random generators go on where this arm left them."""
        self._around.begin(self.name, self.settings)
        self._random.restore()
        yield
        self._random = RandomStates.now(self._torch_device)
        self.settings = self._around.end(self.name)

    def stamps(self, steps: int, clock: Clock, wait: Callable[[], None] | None = None) -> list[float]:
        """Run steps in a row and read the clock before the first and after each: ``steps + 1`` readings in seconds.

        What the last step returned is kept in ``last``.

        Args:
            steps: how many, at least 1.
            clock: the clock.
            wait: called after each step, before the clock is read.
        """
        run = self.step.run if wait is None else self._waited(wait)
        times = [clock()]
        note = times.append
        try:
            for _ in range(steps - 1):
                run()
                note(clock())
            value = run()
            note(clock())
        except (Exception, SystemExit) as error:
            self.done += len(times) - 1
            raise self._stopped(error, steps - len(times) + 1) from error
        self.done += steps
        self.last = value
        return times

    def bare(self, steps: int) -> None:
        """Run steps in a row and read no clock; what the last one returned is kept in ``last``."""
        run = self.step.run
        ran = 0
        try:
            for ran in range(steps - 1):  # noqa: B007 - the number of the step that raised
                run()
            ran = steps - 1
            value = run()
        except (Exception, SystemExit) as error:
            self.done += ran
            raise self._stopped(error, steps - ran) from error
        self.done += steps
        self.last = value

    def once(self) -> Any:
        """Run one step and give what it returned."""
        try:
            value = self.step.run()
        except (Exception, SystemExit) as error:
            raise self._stopped(error, 1) from error
        self.done += 1
        return value

    def noted(self) -> Any:
        """Run one step, and remember in which memory lies what it returned."""
        value = self.once()
        self.returned.note(value)
        return value

    def quality(self) -> dict[str, float]:
        """The metrics that the user names, as they are now; asked in the arm's turn."""
        return {name: self._metric(name, metric) for name, metric in self.step.metrics.items()}

    def take_last(self) -> Any:
        """What the last step of the last block returned; it is not kept any longer."""
        value, self.last = self.last, None
        return value

    def drop(self) -> None:
        """Let go of everything that the build made; its loader's workers end with it."""
        self.step = Step(_dropped)
        self.returned = Returned()

    def _metric(self, name: str, metric: Callable[[], float]) -> float:
        try:
            return float(metric())
        except (Exception, SystemExit) as error:
            raise StepprofError(
                f"metric {name!r} of arm {self.name} raised {_in_words(error)} in {self.where}",
                "a function without arguments that returns a number",
                "see the traceback of the workload",
                detail=_users_traceback(error),
            ) from error

    def _waited(self, wait: Callable[[], None]) -> Callable[[], Any]:
        run = self.step.run

        def run_and_wait() -> Any:
            value = run()
            wait()
            return value

        return run_and_wait

    def _built(self, build: Build) -> Step:
        try:
            step = build(self._torch_device)
        except StepprofError:
            raise
        except (Exception, SystemExit) as error:
            raise StepprofError(
                f"building arm {self.name} raised {_in_words(error)} in {self.where}",
                "a build(device) that returns a Step",
                "see the traceback of the workload",
                detail=_users_traceback(error),
            ) from error
        if not isinstance(step, Step):
            raise StepprofError(
                f"building arm {self.name} gave {type(step).__name__}",
                "a Step",
                "end build(device) with: return Step(step, state={...}, samples=...)",
            )
        return step

    def _stopped(self, error: BaseException, wanted: int) -> StepprofError:
        if isinstance(error, StepprofError):
            return error
        if isinstance(error, StopIteration):
            return StepprofError(
                f"arm {self.name} gave {self.done} steps in {self.where} and then its loader ended",
                f"at least {self.done + wanted} steps",
                "read from an endless iterator (def endless(loader): while True: yield from loader)",
            )
        return StepprofError(
            f"arm {self.name}, step {self.done + 1} raised {_in_words(error)} in {self.where}",
            "a step that can be repeated",
            "see the traceback of the workload",
            detail=_users_traceback(error),
        )


@contextlib.contextmanager
def old_objects_set_aside() -> Iterator[None]:
    """Leave what lives already out of garbage collection until the end.

    torch alone makes hundreds of thousands of objects, and each of the many collections of a comparison would look at
    all of them: 0.2 s each. Where the caller has set some aside already, nothing is done, for all of them come back
    together.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()  # what is garbage now would be kept as well
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect_garbage(loaders: list[LoaderSeen], arm: ArmName | None = None) -> None:
    """Free what was dropped, now and not while a block is timed; with an arm, its workers must have ended too.

    Workers that go on would fill the queue of a later instance while the other arm is timed.
    """
    gc.collect()
    if arm is not None and any(loader.is_working for loader in loaders):
        raise StepprofError(
            f"the loader's workers of arm {arm} still run after the arm was dropped",
            "a build(device) that makes its own loader, so that only one works at a time",
            "keep the loader and its iterator inside build, not in a global name",
        )


def _dropped() -> None:
    raise RuntimeError("this arm was dropped")


def _in_words(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _users_traceback(error: BaseException) -> str:
    """The traceback from the user's own code on: the first frame is ours."""
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
