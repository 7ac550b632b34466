"""Lab 04: its series beside the library's search for the steady part, and the judge of its live part on given times."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepprof_lab.grading import series, warming
from stepprof_lab.grading.labs import lab04
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.validate import steady

SEEDS = range(20)


@pytest.mark.parametrize("start_up", ["falling", "plateau", "none"])
def test_the_library_finds_the_start_up_of_the_series(start_up: series.StartUp) -> None:
    found = [series.make(random.Random(seed), start_up=start_up, slow=2) for seed in SEEDS]
    off = [(steady.find(one["times_ms"]).after or 0) - one["start_up"] for one in found]
    assert sum(abs(one) <= lab04.STEPS_OFF for one in off) >= len(off) - 1


def test_the_library_finds_the_new_shapes_the_shift_and_the_drift() -> None:
    for seed in SEEDS:
        four = lab04.make_four(random.Random(seed))
        for name, letter in four["right"].items():
            found = steady.find(four["series"][name])
            assert (found.after is None) == (letter == "d"), found
            assert (len(found.shifts) == 1) == (letter == "b"), found
            assert (len(found.slow_steps) == 4) == (letter == "c"), found


def test_every_call_of_a_plan_s_start_up_meets_a_new_kind_and_one_later() -> None:
    for seed in SEEDS:
        planned = warming.plan(random.Random(seed))
        first_met = [at for at, kind in enumerate(planned["kinds"]) if kind not in planned["kinds"][:at]]
        assert first_met == [*range(planned["start_up"]), planned["new_at"]]
        assert len(planned["costs"]) == planned["start_up"] + 1


def test_a_live_step_prepares_each_kind_once() -> None:
    pytest.importorskip("torch", reason="the step is torch's")
    planned = warming.plan(random.Random(0))
    times: list[float] = []
    step = warming.recorded(warming.new_step(planned), times)
    results = [step() for _ in range(planned["calls"] + 5)]
    assert len(times) == len(results)
    assert all(ms > 0 for ms in times)
    assert len(set(results)) <= len(planned["costs"])


PLAN = {"calls": 120, "start_up": 16, "new_at": 70}
QUIET = [8.0, *[2.0] * 15, *[0.5 + 0.001 * (at % 5) for at in range(104)]]
QUIET[70] = 20.0
RIGHT: dict[str, Any] = {"first_ms": 8.0, "steady_ms": 0.502, "slow_steps": [70]}


def judged(answer: dict[str, Any], times: list[float] = QUIET) -> Verdict:
    evidence = [Evidence(data={"answer": answer, "recorded_ms": times})]
    return lab04._judge_live([{"plan": PLAN}], evidence)


@pytest.mark.parametrize(
    ("changed", "idea"),
    [
        ({}, None),
        ({"steady_ms": 0.55, "first_ms": 8.2}, None),
        ({"steady_ms": sum(QUIET) / 120}, "mean-of-everything"),
        ({"steady_ms": sum(QUIET[1:]) / 119}, "only-first-dropped"),
        ({"steady_ms": 2.0}, "profiler-warm-up"),
        ({"steady_ms": sum(QUIET[20:]) / 100}, "new-shape-unnoticed"),
        ({"steady_ms": 0.000502}, "units-mixed"),
        ({"steady_ms": -0.5}, None),
        ({"first_ms": 0.5}, "start-up-erased"),
        ({"slow_steps": []}, "new-shape-unnoticed"),
        ({"slow_steps": None}, "new-shape-unnoticed"),
        ({"slow_steps": [71]}, "counted-from-one"),
        ({"slow_steps": list(range(120))}, "start-up-among-slow"),
    ],
)
def test_the_live_judge_on_a_quiet_machine(changed: dict[str, Any], idea: str | None) -> None:
    verdict = judged({**RIGHT, **changed})
    assert verdict.misconception == idea
    assert verdict.passed == (not changed or changed.get("steady_ms") == 0.55)


def test_calls_that_the_machine_made_slow_may_be_listed() -> None:
    times = list(QUIET)
    times[33] = times[90] = 9.0
    for slow in ([70], [33, 70, 90], [70, 90], [70, 40]):
        assert judged({**RIGHT, "slow_steps": slow}, times).passed
    assert not judged({**RIGHT, "slow_steps": [33, 90]}, times).passed


def test_a_machine_that_waits_at_every_second_call_gets_no_verdict() -> None:
    times = [ms if at % 2 else ms + 25.0 for at, ms in enumerate(QUIET)]
    verdict = judged(RIGHT, times)
    assert verdict.undecided
    assert verdict.misconception is None


def test_too_few_calls_are_told() -> None:
    assert judged(RIGHT, QUIET[:40]).misconception == "too-few-calls"
    assert judged({**RIGHT, "steady_ms": 2.0}, QUIET[:4]).misconception == "profiler-warm-up"


@pytest.mark.parametrize("wait", [0, 2.5, -1, "3", None, 10**6])
def test_a_window_that_holds_no_usual_steps_earns_nothing(wait: Any) -> None:
    case = lab04.make_window(random.Random(0))
    given = {"warm_up_proves": "b", "report": "c", "wait": wait}
    verdict = lab04._judge_decide([case], [Evidence(data={"answer": given})])
    assert verdict.points == 2


def test_what_is_no_report_is_told() -> None:
    case = lab04._draw_report(random.Random(0))
    with pytest.raises(TypeError, match="a dict with steady_ms"):
        lab04._probe_report(lambda times: 3.0, case)
