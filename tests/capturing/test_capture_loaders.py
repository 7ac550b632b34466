"""What is seen of loaders, and how long an approach goes on because of it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from stepprof_lab.capturing.approach import SPARED_STEPS, ApproachRun, StepClock
from stepprof_lab.capturing.loaders import LoaderWatch, watching_loaders
from stepprof_lab.capturing.names import LabelNames
from stepprof_lab.trace import waiting

MS = 1_000_000


class Queue:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def qsize(self) -> int:
        return self._loader.ready()


class Loader:
    """Stands for a torch iterator with workers on a clock that it moves: batch i is made by worker i modulo their
    number, and asked for when batch i less the queue is taken. The first queue is there from the start."""

    _profile_name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

    def __init__(self, workers: int, prefetch: int, read_ms: float, batches: int | None = 10**6) -> None:
        self._num_workers, self._prefetch_factor = workers, prefetch
        self._data_queue = self._worker_result_queue = Queue(self)
        self._task_info: dict[int, tuple[int, ...]] = {}
        self._num_yielded = 0
        self.now = 0
        self._read = int(read_ms * MS)
        self._batches = batches
        self._made = [0] * (workers * prefetch)
        self._free = [0] * workers

    def __len__(self) -> int:
        if self._batches is None:
            raise TypeError("no length")
        return self._batches

    def clock(self) -> int:
        return self.now

    def ready(self) -> int:
        return sum(made <= self.now for made in self._made[self._num_yielded :])

    def take(self) -> None:
        self.now = max(self.now, self._made[self._num_yielded])
        self._num_yielded += 1
        worker = len(self._made) % self._num_workers
        self._free[worker] = max(self._free[worker], self.now) + self._read
        self._made.append(self._free[worker])


def approach_of(loader: Loader, compute_ms: float, **more: Any) -> ApproachRun:
    """Run an approach over this loader to its end."""
    watch, clock = LoaderWatch(), StepClock(LabelNames(), loader.clock)
    run = ApproachRun(clock, watch, **more)
    clock.begin_step()
    steps = 0
    while not run.is_over(steps):
        label = clock.enter("read_batch", None)
        token = clock.enter_range(watch.read_from(loader, clock.open_names))
        loader.take()
        clock.exit(token)
        clock.exit(label)
        loader.now += int(compute_ms * MS)
        run.end_step()
        steps += 1
        clock.begin_step()
    return run


def mean_of(run: ApproachRun) -> waiting.ApproachWait:
    known = run.result()
    mean, notes = waiting.approach_wait(
        known, waiting.Reading(["read_batch"], "usual name"), known.loader_workers, None
    )
    assert mean is not None, notes
    assert mean.at_most is not None
    return mean


def test_the_approach_goes_on_until_a_deep_queue_is_used_up() -> None:
    """2 workers with 24 batches each, 120 ms a batch, 30 ms of compute: the queue lasts for 96 steps."""
    run = approach_of(Loader(2, 24, 120), 30)
    result = run.result()
    assert (result.loader_workers, result.loader_prefetch, result.cut) == (2, 24, False)
    assert 96 < len(result.steps_ms) < 130
    assert (result.loader_ready[0], result.loader_ready[-1]) == (47, 0)
    mean = mean_of(run)
    assert mean.share >= 0.35
    assert mean.at_most >= 0.5


def test_a_queue_that_stays_full_needs_no_longer_approach() -> None:
    run = approach_of(Loader(4, 2, 40), 30)
    assert len(run.result().steps_ms) == 20
    assert not run.result().cut
    assert mean_of(run).at_most < waiting.INPUT_WAIT_SHARE


def test_what_the_time_limit_leaves_open_is_said() -> None:
    run = approach_of(Loader(2, 24, 120), 30, limit_s=2.0)
    result = run.result()
    assert result.cut
    assert result.cut_reason == f"2 s were over after {len(result.steps_ms)} of 960 steps"
    assert result.wanted_steps == 960


@pytest.mark.parametrize(("batches", "steps"), [(60, 60 - SPARED_STEPS), (24, 20), (None, 20)])
def test_a_longer_approach_leaves_the_window_its_batches(batches: int | None, steps: int) -> None:
    result = approach_of(Loader(2, 24, 120, batches=batches), 30).result()
    assert len(result.steps_ms) == steps
    assert result.cut_reason == (
        f"after {steps} of 960 steps the loader had no more batches to spare, or did not say how many"
    )


def test_several_ranks_agree_on_a_length_that_any_queue_needs() -> None:
    loader = Loader(2, 2, 10)
    watch, clock = LoaderWatch(), StepClock(LabelNames(), loader.clock)
    run = ApproachRun(clock, watch)
    for _ in range(2):
        clock.begin_step()
        watch.read_from(loader)
        loader.take()
        loader.now += 5 * MS
        run.end_step()
    assert (run.most, run.affordable()) == (80, 6000 - 1 + 1)


# --- who reads what --------------------------------------------------------------------------------------------------


def read_once(run: ApproachRun, watch: LoaderWatch, *iterators: Any, inside: str | None = "read_batch") -> None:
    run.clock.begin_step()
    token = None if inside is None else run.clock.enter(inside, None)
    for iterator in iterators:
        watch.read_from(iterator, run.clock.open_names)
    if inside is not None:
        run.clock.exit(token)
    run.end_step()


def new_run() -> tuple[ApproachRun, LoaderWatch]:
    watch = LoaderWatch()
    return ApproachRun(StepClock(LabelNames()), watch), watch


class Single:
    _profile_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    _num_workers = 0


def test_a_loader_outside_the_label_that_reads_is_not_what_the_step_waits_for() -> None:
    for iterator, workers in ((Single(), 0), (Loader(2, 2, 10), 2)):
        run, watch = new_run()
        read_once(run, watch, iterator)
        assert run.result().loader_workers == workers
        run, watch = new_run()
        read_once(run, watch, iterator, inside=None)
        assert run.result().loader_workers == workers, "no label reads: the loader's own range does"
        with_label = run.clock.enter("read_batch", None)
        run.clock.exit(with_label)
        run.end_step()
        assert run.result().loader_workers is None
        assert run.result().loader_prefetch is None


def test_a_loader_that_another_thread_reads_tells_nothing_of_the_step() -> None:
    for stated in (None, 0):
        watch = LoaderWatch()
        run = ApproachRun(StepClock(LabelNames()), watch, stated_workers=stated)
        thread = threading.Thread(target=watch.read_from, args=(Single(),))
        thread.start()
        thread.join()
        run.clock.begin_step()
        run.end_step()
        assert watch.read_elsewhere
        assert watch.ranges == []
        assert run.result().loader_workers is None


def test_two_loaders_in_a_step_have_no_one_queue_and_two_epochs_have() -> None:
    first, second = Loader(2, 2, 10), Loader(2, 2, 10)
    run, watch = new_run()
    for iterator in (first, first, second, second):
        read_once(run, watch, iterator)
    assert run.result().loader_prefetch == 2
    run, watch = new_run()
    for _ in range(3):
        read_once(run, watch, first, second)
    assert (run.result().loader_workers, run.result().loader_prefetch) == (2, None)
    assert run.result().loader_ready == []


def test_a_torch_that_hides_its_queue_leaves_the_levels_unseen() -> None:
    class Hiding(Loader):
        def __init__(self) -> None:
            super().__init__(2, 2, 10)
            self._data_queue = self._worker_result_queue = None  # type: ignore[assignment]

    run, watch = new_run()
    iterator = Hiding()
    read_once(run, watch, iterator)
    assert (run.result().loader_prefetch, run.result().loader_ready) == (2, [])


def test_batches_that_wait_to_be_pinned_or_came_too_early_are_ready_too() -> None:
    loader = Loader(2, 2, 10)
    watch = LoaderWatch()
    watch.read_from(loader)
    assert watch.ready() == 4
    loader._worker_result_queue = Queue(loader)
    assert watch.ready() == 8
    loader._task_info = {7: (0,), 8: (1, 99)}
    assert watch.ready() == 9


# --- real loaders ----------------------------------------------------------------------------------------------------


class Sleeping:
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> int:
        time.sleep(0.001)
        return index


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning", "ignore:.*fork:DeprecationWarning")
def test_a_real_loader_tells_its_queue() -> None:
    data = pytest.importorskip("torch.utils.data", reason="loaders are torch's")
    watch, clock = LoaderWatch(), StepClock(LabelNames())
    loader = data.DataLoader(Sleeping(), num_workers=2, prefetch_factor=5)
    with watching_loaders(watch, lambda: clock):
        batches = iter(loader)
        next(batches)
        assert (watch.workers, watch.prefetch, watch.batches_left()) == (2, 5, 9_999)
        deadline = time.monotonic() + 20
        while watch.ready() != 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.ready() == 10, "all that the two workers make ahead"
        next(batches)
        assert watch.ready() in (9, 10)
        del batches
    assert (watch.prefetch, watch.ready(), watch.batches_left()) == (5, 0, None), "between two epochs"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning", "ignore:.*fork:DeprecationWarning")
def test_a_real_deep_queue_that_was_full_before_is_found_to_hide_a_wait() -> None:
    """2 workers with 24 batches each: 100 ms a batch and 25 ms of compute wait for half of each steady step."""
    data = pytest.importorskip("torch.utils.data", reason="loaders are torch's")

    class Slow(Sleeping):
        def __getitem__(self, index: int) -> int:
            time.sleep(0.1)
            return index

    watch, clock = LoaderWatch(), StepClock(LabelNames())
    run = ApproachRun(clock, watch)
    with watching_loaders(watch, lambda: clock):
        batches = iter(data.DataLoader(Slow(), batch_size=1, num_workers=2, prefetch_factor=24))
        next(batches)
        while watch.ready() != 48:
            time.sleep(0.05)
        clock.begin_step()
        steps = 0
        while not run.is_over(steps):
            next(batches)
            time.sleep(0.025)
            run.end_step()
            steps += 1
            clock.begin_step()
        del batches
    mean, _ = waiting.approach_wait(run.result(), waiting.Reading(watch.ranges, "loader"), 2, None)
    assert mean is not None
    assert mean.at_most is not None
    assert mean.share >= waiting.INPUT_WAIT_SHARE
    assert mean.at_most >= 0.4
