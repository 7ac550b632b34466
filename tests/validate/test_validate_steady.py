"""The steady part of a series: series whose answer is known, shaped as measured and as publicly reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.steady import find, is_settled

# A fresh process, as a share of the steady step: the first step, the second, ...
START_UP = [12.0, 1.48, 1.24, 1.17, 1.14, 1.11, 1.10, 1.09, 1.08, 1.07, *[1.05] * 5, *[1.035] * 5]


def series(*levels: tuple[int, float], spread: float = 0.03, seed: int = 0, long_steps: float = 0.01) -> Any:
    """Steps on levels, with noise to one side and single steps that were kept from the processor."""
    chance = np.random.default_rng(seed)
    times = np.concatenate([np.full(count, level) for count, level in levels])
    times *= np.exp(np.abs(chance.normal(0, spread, len(times))))
    late = chance.random(len(times)) < long_steps
    times[late] *= chance.uniform(3, 23, int(late.sum()))
    return times


def test_a_fresh_process_is_steady_after_some_steps() -> None:
    found = find([*START_UP, *[1.0] * 80])
    assert found.after == 20  # the last of them is 3.5 % above the level
    assert found.level_ms == 1.0
    assert (found.shifts, found.slow_steps, found.every) == ([], [], None)
    assert found.reason == "steady after 20 of 100 steps, at 1 ms"


def test_noise_is_neither_start_up_nor_shift() -> None:
    told = [find(series((300, 2.0), seed=seed)) for seed in range(60)]
    assert sum(bool(one.shifts) or one.after is None for one in told) == 0
    # Half of them begin with a step that is a little longer than usual or with a late one.
    assert max(one.after or 0 for one in told) <= 5
    assert any(one.slow_steps for one in told)
    assert all(one.every is None for one in told)


def test_steps_in_a_row_that_are_alike_are_no_level() -> None:
    chance = np.random.default_rng(1)
    shifted = 0
    for _ in range(100):
        held, logs = 0.0, []
        for _ in range(240):
            held = 0.3 * held + chance.normal(0, 0.05)
            logs.append(abs(held))
        shifted += bool(find(np.exp(logs).tolist()).shifts)
    assert shifted <= 3


@pytest.mark.parametrize(("level", "seed"), [(1.06, 0), (1.06, 1), (0.94, 2), (2.0, 3), (1.06, 4)])
def test_a_level_that_shifts_after_300_steps_is_told_with_its_step(level: float, seed: int) -> None:
    found = find(series((300, 1.0), (300, level), seed=seed))
    (shift,) = found.shifts
    assert shift.step == pytest.approx(301, abs=6)
    assert shift.to_ms / shift.from_ms == pytest.approx(level, rel=0.02)
    assert found.after is not None
    assert found.after <= 5
    assert f"from step {shift.step} on at another level" in found.reason


def test_a_shift_there_and_back_is_two() -> None:
    found = find(series((200, 1.0), (150, 1.3), (250, 1.0)))
    assert [one.step for one in found.shifts] == pytest.approx([201, 351], abs=6)


def test_what_is_slow_for_hundreds_of_steps_at_first_is_start_up() -> None:
    # Compilation starts over for the first hundreds of steps, and for 20 forwards of a model that profiles itself.
    assert find(series((250, 100.0), (350, 1.0))).after == pytest.approx(250, abs=3)
    assert find([5.0] * 20 + [1.0] * 60).after == 20
    assert find([5.0] * 20 + [1.0] * 60).shifts == []


def test_a_fast_start_is_a_level_of_its_own() -> None:
    # A loader's queue that was filled before: 60 steps that wait for nothing are not slower, so they are no start-up.
    (shift,) = find([5.0] * 60 + [20.0] * 100).shifts
    assert (shift.step, shift.from_ms, shift.to_ms) == (61, 5.0, 20.0)


@pytest.mark.parametrize("factor", [1.2, 0.5, 3.0])
def test_a_series_that_drifts_has_no_level(factor: float) -> None:
    times = series((400, 2.0)) * np.linspace(1, factor, 400)
    found = find(times)
    assert found.after is None
    assert found.level_ms is None
    assert found.shifts == []
    assert "never steady: the times change from" in found.reason


def test_a_series_that_ends_before_it_settles_is_not_steady() -> None:
    assert find([2.0 * 0.9**number for number in range(40)]).after is None
    assert find([12.0, 3.0]).after is None
    assert "too few" in find([12.0]).reason


def test_a_new_shape_in_the_middle_is_a_slow_step_and_no_level() -> None:
    times = [1.0] * 200
    times[119] = 400.0  # it was compiled for
    found = find(times)
    assert (found.after, found.shifts, found.slow_steps, found.every) == (0, [], [120], None)


def test_slow_steps_that_come_again_are_told_with_their_distance() -> None:
    times = series((400, 1.0), seed=3, long_steps=0.02)
    times[39::40] = 5.0
    found = find(times)
    assert found.every == 40
    assert {40, 80, 400} <= set(found.slow_steps)
    assert "every 40 steps one takes at least 3 times as long" in found.reason


@pytest.mark.parametrize("times", [[], [1.0, -1.0, 1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_what_is_no_series_is_refused(times: Sequence[float]) -> None:
    with pytest.raises(StepprofError, match="a series of"):
        find(times)


def test_the_unit_does_not_matter() -> None:
    times = series((40, 4.0), (200, 1.0), (200, 1.2))
    found, scaled = find(times), find(times * 1e3)
    assert (found.after, [one.step for one in found.shifts]) == (scaled.after, [one.step for one in scaled.shifts])


def test_a_warm_up_is_settled_where_two_windows_agree() -> None:
    falling = [100.0, 12.0, *[10.0] * 10]
    assert is_settled(falling, 5)
    assert not is_settled(falling[:8], 4)
    assert not is_settled([10.0] * 5, 3)
    assert not is_settled([10.0] * 5 + [20.0] * 5, 5)
