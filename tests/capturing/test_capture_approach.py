"""The approach: how long it is, what it times, and what it sees of the loader."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from stepprof_lab.capturing.approach import ApproachRun, StepClock, wanted_steps
from stepprof_lab.capturing.loaders import LoaderWatch, watching_loaders
from stepprof_lab.capturing.names import LabelNames
from stepprof_lab.labels import label, set_recorder

MS = 1_000_000


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pass_ms(self, ms: float) -> None:
        self.now += int(ms * MS)


@pytest.fixture
def hands() -> Hands:
    return Hands()


def clock_of(hands: Hands) -> StepClock:
    clock = StepClock(LabelNames(), hands)
    clock.begin_step()
    return clock


def next_step(clock: StepClock) -> None:
    clock.end_step()
    clock.begin_step()


@pytest.mark.parametrize(("workers", "steps"), [(None, 20), (0, 20), (2, 20), (5, 20), (6, 24), (8, 32)])
def test_it_covers_several_periods_of_the_workers(workers: int | None, steps: int) -> None:
    assert wanted_steps(workers) == steps


def test_a_labels_time_is_the_sum_of_its_calls(hands: Hands) -> None:
    clock = clock_of(hands)
    for ms in (2, 3):
        token = clock.enter("read", "read")
        hands.pass_ms(ms)
        clock.exit(token)
        hands.pass_ms(10)
    next_step(clock)
    assert clock.labels_ns == {"read": [5 * MS]}
    assert clock.steps_ns == [25 * MS]


def test_a_label_inside_itself_counts_once_and_inside_another_in_both(hands: Hands) -> None:
    clock = clock_of(hands)
    outer, inner, other = clock.enter("a", None), clock.enter("a", None), clock.enter("b", None)
    hands.pass_ms(4)
    for token in (other, inner, outer):
        clock.exit(token)
    next_step(clock)
    assert clock.labels_ns == {"a": [4 * MS], "b": [4 * MS]}


def test_a_label_object_inside_itself_counts_once_in_every_step(hands: Hands) -> None:
    clock = clock_of(hands)
    same = label("same")
    before = set_recorder(clock)
    try:
        for _ in range(3):
            with same, same:
                hands.pass_ms(2)
            hands.pass_ms(8)
            next_step(clock)
    finally:
        set_recorder(before)
    assert clock.labels_ns == {"same": [2 * MS] * 3}


def test_a_label_that_does_not_run_in_every_step_keeps_its_place(hands: Hands) -> None:
    clock = clock_of(hands)
    next_step(clock)
    token = clock.enter("log", None)
    hands.pass_ms(1)
    clock.exit(token)
    next_step(clock)
    next_step(clock)
    assert clock.labels_ns == {"log": [0, MS, 0]}
    assert clock.steps_with == {"log": 1}


def test_a_label_across_the_end_of_a_step_counts_in_each_for_its_part(hands: Hands) -> None:
    clock = clock_of(hands)
    token = clock.enter("epoch", None)
    hands.pass_ms(3)
    clock.end_step()
    hands.pass_ms(100)
    clock.begin_step()
    hands.pass_ms(5)
    clock.exit(token)
    clock.end_step()
    assert clock.labels_ns == {"epoch": [3 * MS, 5 * MS]}
    assert clock.steps_ns == [3 * MS, 5 * MS]


def test_labels_of_another_thread_do_not_count(hands: Hands) -> None:
    clock = clock_of(hands)

    def elsewhere() -> None:
        token = clock.enter("prefetch", None)
        hands.pass_ms(3)
        clock.exit(token)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    next_step(clock)
    assert clock.labels_ns == {}
    assert clock._names.elsewhere == ["prefetch"]


def run_until_over(run: ApproachRun, hands: Hands, step_ms: float) -> int:
    steps = 0
    run.clock.begin_step()
    while not run.is_over(steps):
        hands.pass_ms(step_ms)
        run.end_step()
        steps += 1
        run.clock.begin_step()
    return steps


def test_stated_workers_count_until_some_were_seen(hands: Hands) -> None:
    watch = LoaderWatch()
    run = ApproachRun(clock_of(hands), watch, stated_workers=8)
    assert (run.wanted, run.workers) == (32, 8)
    watch.workers = 0
    assert (run.wanted, run.workers) == (20, 0)


def test_it_is_cut_by_time_and_says_so(hands: Hands) -> None:
    run = ApproachRun(clock_of(hands), LoaderWatch(), limit_s=1.0)
    assert run_until_over(run, hands, 300) == 4
    result = run.result()
    assert result.cut
    assert result.cut_reason == "1 s were over after 4 of 20 steps"
    assert result.steps_ms == [300.0] * 4
    assert result.loader_workers is None


def test_one_step_runs_however_long_it_takes(hands: Hands) -> None:
    run = ApproachRun(clock_of(hands), LoaderWatch(), limit_s=0.0)
    assert run_until_over(run, hands, 5000) == 1


def test_a_whole_approach_is_not_called_cut(hands: Hands) -> None:
    run = ApproachRun(clock_of(hands), LoaderWatch())
    assert run_until_over(run, hands, 1) == 20
    assert (run.result().cut, run.result().cut_reason) == (False, None)


def test_a_window_that_begins_early_leaves_a_short_approach_and_says_so(hands: Hands) -> None:
    run = ApproachRun(clock_of(hands), LoaderWatch(), begin=5)
    assert run_until_over(run, hands, 1) == 5
    assert run.result().cut_reason == "the window was asked to begin at step 5"


def test_of_a_late_window_only_the_steps_just_before_it_are_timed(hands: Hands) -> None:
    assert ApproachRun(clock_of(hands), LoaderWatch(), begin=100_000).skipped == 99_000


def test_what_several_ranks_agreed_on_counts_before_the_time_limit(hands: Hands) -> None:
    run = ApproachRun(clock_of(hands), LoaderWatch(), limit_s=1.0)
    run.clock.begin_step()
    for _ in range(2):
        hands.pass_ms(100)
        next_step(run.clock)
    assert run.affordable() == 10
    run.agree(12)
    assert [run.is_over(steps) for steps in (2, 11, 12)] == [False, False, True]
    assert run.total == 12


# --- real loaders ----------------------------------------------------------------------------------------------------


class Sleeping:
    """A dataset whose samples take a moment each."""

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> int:
        time.sleep(0.002)
        return index


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning", "ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2, 4, 8])
def test_the_loaders_reading_is_timed_without_labels_and_its_workers_are_seen(workers: int) -> None:
    data = pytest.importorskip("torch.utils.data", reason="loaders are torch's")
    watch, clock = LoaderWatch(), StepClock(LabelNames())
    run = ApproachRun(clock, watch)
    with watching_loaders(watch, lambda: clock):
        batches = iter(data.DataLoader(Sleeping(), batch_size=2, num_workers=workers))
        clock.begin_step()
        steps = 0
        while not run.is_over(steps):
            next(batches)
            run.end_step()
            steps += 1
            clock.begin_step()
        del batches
    assert steps >= max(20, 4 * workers)
    assert steps < 60, "such a wait is soon seen"
    assert watch.workers == workers
    assert watch.iterators_made == 1
    kind = "_MultiProcessing" if workers else "_SingleProcess"
    name = f"enumerate(DataLoader)#{kind}DataLoaderIter.__next__"
    assert watch.ranges == [name]
    result = run.result()
    assert list(result.labels_ms) == [name]
    assert len(result.labels_ms[name]) == steps
    assert all(read <= step for read, step in zip(result.labels_ms[name], result.steps_ms, strict=True))
    # Two samples of 2 ms each cannot be read faster than they sleep. Workers began before the first wait was timed,
    # while others of them were still being started, so that nothing is sure about a wait for them.
    if not workers:
        assert min(result.labels_ms[name]) >= 4.0


def test_the_loader_is_as_before_afterwards() -> None:
    dataloader: Any = pytest.importorskip("torch.utils.data.dataloader", reason="loaders are torch's")
    base = dataloader._BaseDataLoaderIter
    before = base.__next__, base.__init__

    def fail_inside() -> None:
        with watching_loaders(LoaderWatch(), lambda: None):
            assert base.__next__ is not before[0]
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail_inside()
    assert (base.__next__, base.__init__) == before
