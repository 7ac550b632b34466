"""What batches made ahead hide: a simulated loop whose steady wait is known, and what is concluded from its start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepprof_lab.trace import ahead, waiting
from stepprof_lab.trace.model import Approach

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MULTI = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def simulate(count, *, workers, prefetch, read_ms, compute_ms, full=True, levels=True, reads_per_step=1):
    """The first steps of a loop behind a loader: batch i is made by worker i modulo their number, and is asked for
    when batch i less the queue is taken. Where it starts full, the first queue is ready at once."""
    queue, now = workers * prefetch, 0.0
    made: list[float] = []
    taken: list[float] = []
    free = [0.0] * workers

    def make(batch):
        asked = 0.0 if batch < queue else taken[batch - queue]
        if full and batch < queue:
            return 0.0
        free[batch % workers] = max(free[batch % workers], asked) + read_ms
        return free[batch % workers]

    steps, waits, ready = [], [], []
    for _ in range(count):
        start = now
        for _ in range(reads_per_step):
            made += [make(batch) for batch in range(len(made), len(taken) + 1)]
            now = max(now, made[len(taken)])
            taken.append(now)
        waits.append(now - start)
        now += compute_ms
        steps.append(now - start)
        made += [make(batch) for batch in range(len(made), len(taken) + queue)]
        ready.append(sum(done <= now for done in made[len(taken) :]))
    return Approach(
        steps_ms=steps,
        labels_ms={"read_batch": waits},
        loader_workers=workers,
        wanted_steps=count,
        loader_prefetch=prefetch,
        loader_ready=ready if levels else [],
        loader_reads=len(taken),
    )


def true_share(*, workers, read_ms, compute_ms, reads_per_step=1):
    """The steady wait: the step lasts as long as its work, or as its workers need for its batches."""
    return 1 - compute_ms / max(compute_ms, reads_per_step * read_ms / workers)


def mean_of(known):
    reading = waiting.Reading(["read_batch"], "usual name")
    return waiting.approach_wait(known, reading, known.loader_workers, None)[0]


def window(build, read_us=3, name="read_batch", *, gpu_us=0):
    built = build()
    for n in (0, 1):
        start = n * 1000
        built.step(n + 2, start, 1000).label(name, start, read_us).operator("aten::mm", start + read_us, 5)
        if gpu_us:
            built.launch(n + 1, start + read_us, 1).kernel(n + 1, start + read_us + 1, gpu_us)
    return built


def waits_of(analysis):
    return "input-wait" in {finding.id for finding in analysis.findings}


def acquitted(build, read, **context):
    """An idle device is blamed on the host only where waiting for input was shown not to be the reason."""
    return read(window(build, gpu_us=100), **context).analysis.regime == "host"


DEEP = {"workers": 2, "prefetch": 24, "read_ms": 120, "compute_ms": 30}
"""The queue of 48 batches lasts for 96 steps; then half of each step is waiting."""


@pytest.mark.parametrize("levels", [True, False])
@pytest.mark.parametrize("count", [20, 48, 52, 60, 100, 110, 400])
def test_a_deep_queue_that_is_used_up_never_acquits_its_loader(build, read, count, levels):
    known = simulate(count, **DEEP, levels=levels)
    assert not acquitted(build, read, approach=known)
    mean = mean_of(known)
    if mean is not None:
        assert mean.at_most is not None
        assert mean.at_most >= 0.5 - 1e-9
    analysis = read(window(build), approach=known).analysis
    if not waits_of(analysis):
        assert any("could hide a wait of up to" in note or "too few" in note for note in analysis.notes)


@pytest.mark.parametrize(("count", "levels"), [(110, True), (400, True), (400, False)])
def test_a_wait_behind_a_deep_queue_is_found_and_its_largest_share_is_not_too_low(build, read, count, levels):
    (finding,) = read(window(build), approach=simulate(count, **DEEP, levels=levels)).analysis.findings
    assert finding.id == "input-wait"
    assert finding.evidence["decided_by"] == "approach"
    assert finding.share_of_step is not None
    assert 0.5 <= finding.share_of_step < 0.6


def test_with_the_levels_the_mean_is_that_of_the_steady_loop():
    assert mean_of(simulate(150, **DEEP)).share == pytest.approx(0.5, abs=0.02)
    # Without them the steps that lived from the queue are in it: too low a mean, and said to be no bound.
    blind = mean_of(simulate(110, **DEEP, levels=False))
    assert blind.share < 0.25
    assert blind.at_most >= 0.5


def test_a_queue_that_stays_full_acquits_after_a_short_approach(build, read):
    known = simulate(20, workers=4, prefetch=2, read_ms=40, compute_ms=30)
    assert mean_of(known).at_most < waiting.INPUT_WAIT_SHARE
    assert acquitted(build, read, approach=known)
    assert not waits_of(read(window(build), approach=known).analysis)


def test_without_the_levels_only_a_long_approach_acquits(build, read):
    keeps_up = {"workers": 4, "prefetch": 2, "read_ms": 40, "compute_ms": 30, "levels": False}
    assert not acquitted(build, read, approach=simulate(20, **keeps_up))
    assert acquitted(build, read, approach=simulate(8 * 20, **keeps_up))


@settings(deadline=None, max_examples=200)
@given(
    workers=st.integers(1, 8),
    prefetch=st.integers(1, 12),
    read_ms=st.floats(1, 500),
    compute_ms=st.floats(1, 100),
    count=st.integers(2, 150),
    full=st.booleans(),
    levels=st.booleans(),
    reads_per_step=st.integers(1, 3),
)
def test_the_largest_share_is_never_below_the_true_one(
    workers, prefetch, read_ms, compute_ms, count, full, levels, reads_per_step
):
    known = simulate(
        count,
        workers=workers,
        prefetch=prefetch,
        read_ms=read_ms,
        compute_ms=compute_ms,
        full=full,
        levels=levels,
        reads_per_step=reads_per_step,
    )
    mean = mean_of(known)
    right = true_share(workers=workers, read_ms=read_ms, compute_ms=compute_ms, reads_per_step=reads_per_step)
    if mean is not None:
        assert mean.at_most >= right - 1e-6


@pytest.mark.parametrize(
    ("count", "workers", "ready", "start", "lead"),
    [
        (20, 0, [], 1, 0.0),
        (1, 0, [], 1, 0.0),
        (0, 0, [], 0, 0.0),
        (20, None, [], 10, None),
        (20, 4, [], 8, 8.0),
        (21, 4, [], 9, 8.0),
        (11, 4, [], 11, 8.0),
        (20, 4, [8] * 20, 4, 0.0),
        (20, 4, [7] * 20, 4, 1.0),
        (20, 4, [8, 8, 7, 6, 5, 4, 3, 2, 1] + [0] * 11, 12, 4.0),
        (20, 4, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7] + [8] * 10, 8, 0.0),
        (20, 4, list(range(40, 0, -2)), 20, 8.0),
        (20, 4, list(range(0, 40, 2)), 20, 0.0),
    ],
)
def test_the_steady_part_begins_where_the_queue_was_as_full_as_at_the_end(count, workers, ready, start, lead):
    known = Approach(
        steps_ms=[1.0] * count,
        labels_ms={},
        loader_workers=workers,
        wanted_steps=count,
        loader_prefetch=2 if workers else None,
        loader_ready=ready,
    )
    found = ahead.steady(known, workers)
    assert found.start == start
    if start < count or not workers:
        assert found.lead == lead
    if workers:
        assert (count - start) % workers == 0


def test_of_a_loader_whose_queue_is_not_known_the_largest_share_is_not_said(build, read):
    known = Approach(steps_ms=[2.0] * 40, labels_ms={"read_batch": [1.0] * 40}, loader_workers=4, wanted_steps=40)
    (finding,) = read(window(build), approach=known).analysis.findings
    assert finding.share_of_step is None
    assert finding.evidence["approach"]["share"] == pytest.approx(0.5)


# ---- nothing is known of who reads ahead ----


def unknown(read_ms=0.001, **more):
    return Approach(
        steps_ms=[1.0 + read_ms] * 40, labels_ms={"read_batch": [read_ms] * 40}, loader_workers=None, wanted_steps=20
    )


def test_a_short_wait_acquits_nobody_where_nothing_is_known_of_the_loader(build, read):
    # A thread of the program's own with a queue of 40: 0.4 % of the approach, 73 % of the steady loop.
    assert not acquitted(build, read, approach=unknown())
    notes = read(window(build), approach=unknown()).analysis.notes
    assert any("state loader_workers = 0 in the scenario" in note for note in notes)


def test_a_scenario_that_states_no_workers_acquits(build, read):
    stated = Approach(steps_ms=[1.0] * 20, labels_ms={"read_batch": [0.001] * 20}, loader_workers=0, wanted_steps=20)
    assert acquitted(build, read, approach=stated)


def test_a_loader_without_workers_inside_what_reads_acquits(build, read):
    inside = window(build, 30, gpu_us=100)
    outside = window(build, 30, gpu_us=100)
    for n in (0, 1):
        inside.label(SINGLE, n * 1000 + 2, 20)
        outside.label(SINGLE, n * 1000 + 40, 20)
    assert read(inside, approach=unknown()).analysis.regime == "host"
    assert read(outside, approach=unknown()).analysis.regime == "undecided"


def test_every_label_that_reads_has_to_hold_the_loader(build, read):
    built = window(build, 30, gpu_us=100)
    for n in (0, 1):
        built.label(SINGLE, n * 1000 + 2, 20).label("from_queue", n * 1000 + 40, 5)
    assert read(built, roles={"read_batch": "read"}).analysis.regime == "host"
    assert read(built, roles={"read_batch": "read", "from_queue": "read"}).analysis.regime == "undecided"


def test_without_workers_a_wait_of_the_approach_is_not_overruled_by_two_lucky_steps(build, read):
    known = Approach(steps_ms=[2.0] * 20, labels_ms={"read_batch": [1.0] * 20}, loader_workers=0, wanted_steps=20)
    (finding,) = read(window(build), approach=known).analysis.findings
    assert (finding.evidence["decided_by"], finding.share_of_step) == ("approach", pytest.approx(0.5))


# ---- what the two say together ----


@pytest.mark.parametrize(
    ("active_us", "approach_share", "said"),
    [
        (25, 0.032, "2.5 % of the active steps, 3.2 % of the approach: neither reaches the 10 %"),
        (400, 0.4, "both show the wait"),
        (90, 0.12, "they differ"),
        (120, 0.09, "they differ"),
        (300, 0.6, "they differ"),
    ],
)
def test_the_note_says_whether_both_show_the_wait(build, read, active_us, approach_share, said):
    known = Approach(
        steps_ms=[1.0] * 20, labels_ms={"read_batch": [approach_share] * 20}, loader_workers=0, wanted_steps=20
    )
    (note,) = [n for n in read(window(build, active_us), approach=known).analysis.notes if "% of the approach" in n]
    assert said in note
