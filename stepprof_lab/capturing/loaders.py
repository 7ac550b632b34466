"""What is seen of torch's loaders while steps run: who reads where, how many workers, what they have ready."""

from __future__ import annotations

import contextlib
import threading
import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepprof_lab.capturing.approach import StepClock


class LoaderWatch:
    """What is seen of torch's loaders, by the thread that runs the steps.

    A loader that another thread reads from is not what the step waits for: that thread hands the batches on by a queue
    of its own, and nobody tells how long that queue is.
    """

    def __init__(self) -> None:
        self.ranges: list[str] = []
        """The profiler's names of these readings."""
        self.workers: int | None = None
        """The most workers of a loader that was read from; None where none was."""
        self.iterators_made = 0
        self.read_elsewhere = False
        """Whether another thread read from a loader."""
        self.read_inside: set[str] = set()
        """The regions in which a loader was read from."""
        self.reads = 0
        """Batches read from a loader with workers."""
        self._thread = threading.get_ident()
        self._current: weakref.ref[Any] | None = None
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._several = False
        self._prefetch: Any = None

    def this_thread_runs_the_steps(self) -> None:
        """The steps run in the thread that calls this."""
        self._thread = threading.get_ident()

    def read_from(self, iterator: Any, open_names: Iterable[str] = ()) -> str:
        """An iterator is read from: note it; returns the name that the profiler gives to this range.

        Args:
            iterator: of a torch ``DataLoader``.
            open_names: the regions that are open now.
        """
        name = str(_of(iterator, "_profile_name") or f"enumerate(DataLoader)#{type(iterator).__name__}.__next__")
        if threading.get_ident() != self._thread:
            self.read_elsewhere = True
            return name
        if isinstance(workers := _of(iterator, "_num_workers"), int):
            self.workers = max(workers, self.workers or 0)
            if workers:
                self._read_with_workers(iterator)
        self.read_inside.update(open_names)
        if name not in self.ranges:
            self.ranges.append(name)
        return name

    def _read_with_workers(self, iterator: Any) -> None:
        self.reads += 1
        if self._current is not None and self._current() is iterator:
            return
        # One after the other is an epoch after the other; one again after another is two loaders in a step.
        self._several = self._several or iterator in self._known
        self._known.add(iterator)
        self._prefetch = _of(iterator, "_prefetch_factor")
        self._current = weakref.ref(iterator)

    @property
    def prefetch(self) -> int | None:
        """Batches that each worker makes ahead; None where there is not one loader with workers that tells it."""
        known = not self._several and isinstance(self._prefetch, int) and self._prefetch > 0
        return int(self._prefetch) if known else None

    def ready(self) -> int | None:
        """Batches that the workers have made and that were not read yet; None where that cannot be seen (macOS)."""
        iterator = self._one()
        if iterator is None:
            # Between two epochs there is none.
            return None if self._several or self._current is None else 0
        try:
            made = _of(iterator, "_data_queue")
            count: int = made.qsize()
            # With pinned memory a thread takes them from the workers' queue first.
            if (raw := _of(iterator, "_worker_result_queue")) is not made:
                count += raw.qsize()
            return count + sum(len(task) == 2 for task in _of(iterator, "_task_info").values())
        except (AttributeError, TypeError, NotImplementedError, OSError, ValueError):
            return None

    def batches_left(self) -> int | None:
        """Batches that are still to come from the loader; None where it does not say."""
        iterator = self._one()
        try:
            return len(iterator) - int(_of(iterator, "_num_yielded"))
        except (TypeError, NotImplementedError):
            return None

    def _one(self) -> Any:
        return None if self._several or self._current is None else self._current()


def _of(iterator: Any, name: str) -> Any:
    """A member of torch's that has no public name; None where this torch has none."""
    return getattr(iterator, name, None)


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
        running = clock()
        name = watch.read_from(iterator, running.open_names if running is not None else ())
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
