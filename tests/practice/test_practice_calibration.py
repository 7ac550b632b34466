"""When a machine can hold the modelled durations, and what is said where it cannot."""

from __future__ import annotations

import itertools

import pytest

from stepprof_lab.errors import NotAvailable
from stepprof_lab.practice import calibrate, measure, of_lateness


def test_lateness_is_from_the_modelled_end_to_when_the_program_went_on(engine, clock):
    late = itertools.cycle([0.1, 0.2, 0.3, 1.5])
    clock.late_ms = lambda: next(late)
    found = measure(engine, samples=40)
    assert (found.median_us, found.p95_us, found.worst_us) == (200, 1500, 1500)
    assert found.share_late(1000) == 0.25
    assert "200 µs late in the median, 1500 µs in 95 % of 40, 1500 µs at the worst" in found.sentence


def test_a_punctual_machine_is_taken(engine):
    assert calibrate(10, engine).worst_us == 0


def test_a_late_machine_is_refused_with_its_numbers(engine, clock):
    clock.late_ms = lambda: 2.5
    with pytest.raises(
        NotAvailable, match=r"times of 10 ms, while .*2500 µs.*expected at most 1000 µs late"
    ) as refused:
        calibrate(10, engine)
    assert refused.value.exit_code == 3
    assert calibrate(50, engine).median_us == 2500, "long enough for that lateness"


def test_the_shortest_of_several_repetitions_bears_waits_that_are_late_now_and_then():
    found = of_lateness([100_000] * 12 + [4_000_000] * 8)
    assert not found.holds(10, repetitions=1)
    assert not found.holds(10, repetitions=3)
    assert found.holds(10, repetitions=7)
    assert not of_lateness([4_000_000] * 20).holds(10, repetitions=7)


def test_without_a_wait_nothing_is_known():
    with pytest.raises(NotAvailable, match="no wait"):
        of_lateness([])
