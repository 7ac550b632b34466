"""Labs 05 and 10: what their loops and arms do, and judges on evidence that is made by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.grading import arms, feeding, items
from stepprof_lab.grading.labs import lab05, lab10
from stepprof_lab.grading.model import Evidence, Verdict

pytest.importorskip("torch", reason="labs 05 and 10 need torch")

FAST = {
    "batch_size": 4,
    "samples": 10,
    "fetch_ms": 0.0,
    "decode_ms": 0.0,
    "open_ms": 0.0,
    "train_ms": 0.0,
}


def test_batches_hold_every_sample_in_order() -> None:
    loop = feeding.Loop(FAST)
    batches = loop.batches()
    held = [feeding.samples_of(next(batches)) for _ in range(4)]
    assert held == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]


def test_the_log_says_what_happened_once() -> None:
    loop = feeding.Loop(FAST)
    batches = loop.batches()
    for _ in range(3):
        loop.train(next(batches))
    trains, fetches = ([one for one in log if one.what == what] for log, what in _logs(loop))
    assert [one.first for one in trains] == [True, False, False]
    assert [one.first for one in fetches] == [True, *[False] * 9]
    assert feeding.overlap_s(trains, fetches) == 0


def _logs(loop: feeding.Loop) -> list[tuple[list[feeding.Did], str]]:
    return [(loop.log, "train"), (loop.dataset.log, "fetch")]


def test_overlap_is_counted_for_the_time_that_both_were_at_work() -> None:
    trains = [feeding.Did("train", 0.0, 2.0), feeding.Did("train", 3.0, 4.0)]
    reads = [feeding.Did("fetch", 1.0, 3.5)]
    assert feeding.overlap_s(trains, reads) == pytest.approx(1.5)


def test_the_tally_counts_fetches(tmp_path: Path) -> None:
    tally = tmp_path / "fetched"
    dataset = feeding.Dataset(FAST, tally)
    assert [int(dataset[index][0]) for index in (3, 5)] == [3, 5]
    assert tally.stat().st_size == 2
    with pytest.raises(IndexError):
        dataset.fetch(10)


def compute(value: float, **changed: Any) -> str | None:
    data: dict[str, Any] = {
        "value": value,
        "train": {"first_ms": [270.0], "ms": [10.0] * 20},
        "read": {"first_ms": [220.0], "ms": [20.0] * 19},
        "read_while_training": 0.0,
        "read_elsewhere": False,
    }
    found = items.item("05/compute_only_ms").judge([{}], [Evidence(data={**data, **changed})])
    return "right" if found.passed else "undecided" if found.undecided else found.misconception


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (10.0, "right"),
        (10.4, "right"),
        (0.01, "units-mixed"),
        (30.0, "reading-counted"),
        (20.0, "wait-for-compute"),
        (200.0, "sum-for-step"),
        (470.0 / 21, "start-counted"),
        (3.0, None),
    ],
)
def test_the_held_batch_is_judged_by_the_logged_calls(value: float, shown: str | None) -> None:
    assert compute(value) == shown


def test_a_changed_loop_is_no_check_even_where_its_number_is_right() -> None:
    assert compute(10.0, read_while_training=0.9) == "fix-before-check"
    assert compute(10.0, read_elsewhere=True) == "fix-before-check"


def test_a_number_of_few_steps_is_none() -> None:
    assert compute(10.0, train={"first_ms": [270.0], "ms": [10.0, 10.0]}) == "few-steps"


def test_a_stalled_machine_gives_no_verdict_on_an_unknown_number() -> None:
    steady = {"first_ms": [270.0], "ms": [10.0] * 19 + [90.0]}
    assert compute(3.0, train=steady) == "undecided"
    assert compute(14.0, train=steady) == "right", "the mean of the very same calls"


WANTED = feeding.in_batches(10, 4)


def loader(batches: list[list[int]], *, wait: float, first: int = 4, beside: int = 0) -> str | None:
    plan = {"samples": 10, "batch_size": 4}
    data = {
        "batches": batches,
        "waits_ms": [50.0] * lab05.SKIPPED + [wait] * 5,
        "fetched_first": first,
        "fetched_beside": beside,
        "unrepaired_ms": [20.0] * 8,
    }
    found = items.item("05/repaired_loader").judge([{"plan": plan}], [Evidence(data=data)])
    return "right" if found.passed else found.misconception


def test_a_loader_is_judged_by_its_work_first() -> None:
    assert loader(WANTED, wait=1) == "right"
    assert loader(WANTED[::-1], wait=1) == "batch-size-changed", "the smallest batch came first"
    assert loader([[4, 5, 6, 7], [0, 1, 2, 3], [8, 9]], wait=1) == "order-changed"
    assert loader(WANTED[:-1], wait=1) == "batches-missing"
    assert loader([], wait=1) == "batches-missing"
    assert loader([WANTED[0]] * 3, wait=1) == "check-kept-as-fix"
    assert loader([[0, 1, -1, 3], *WANTED[1:]], wait=1) == "other-batches"


def test_a_loader_is_judged_by_where_its_wait_went() -> None:
    assert loader(WANTED, wait=0, first=10) == "moved-to-start"
    assert loader(WANTED, wait=20) == "not-repaired"
    assert loader(WANTED, wait=13, beside=30) == "too-few-workers"


@pytest.mark.parametrize("seed", range(20))
def test_two_quiet_steps_lie_in_every_series(seed: int) -> None:
    case = lab05.make_bursts(random.Random(seed))
    assert max(case["waits_ms"][2:4]) < lab05.QUIET_MS
    assert lab05.steady_wait(case) > 20 * lab05.QUIET_MS
    assert (len(case["waits_ms"]) - 2 * case["workers"]) % case["workers"] == 0


# ---- arms ----


def planned(kind: arms.Kind) -> arms.Plan:
    return {**arms.plan(random.Random(3), kind), "step_ms": 0.0, "start_up_ms": 0.0}


def outputs(make: Callable[[], arms.Arm], steps: int) -> list[list[float]]:
    arm = make()
    return [arm.step() for _ in range(steps)]


@pytest.mark.parametrize("kind", arms.HONEST)
def test_honest_arms_start_alike_and_answer_alike(kind: arms.Kind) -> None:
    pair = arms.Pair(planned(kind))
    assert pair.before().state() == pair.after().state()
    assert outputs(pair.before, 8) == outputs(pair.after, 8)


def test_each_arm_that_only_looks_faster_differs_where_it_should() -> None:
    less, moved, stored = (arms.Pair(planned(kind)) for kind in ("less-work", "moved-on", "stored"))
    assert less.before().state() == less.after().state()
    assert outputs(less.before, 1) != outputs(less.after, 1)
    assert moved.before().state() != moved.after().state()
    assert outputs(stored.before, arms.BATCHES) == outputs(stored.after, arms.BATCHES)
    assert outputs(stored.before, 5) != outputs(stored.after, 5)


def harness(answer: dict[str, Any], *, kind: arms.Kind = "equal", pairs: int = 6, turns: int = 11) -> str:
    after = {"slower": 17.0, "faster": 5.0}.get(kind, 10.0)
    runs = [
        {"arm": arm, "steps_ms": [30.0, 30.0, *[took] * 8]}
        for _ in range(pairs)
        for arm, took in (("before", 10.0), ("after", after))
    ]
    plan = {"kind": kind, "inside": [0.6, 0.3], "factor": after / 10}
    return lab10.judged(plan, {"answer": answer, "runs": runs, "turns": turns})


def said(verdict: str, ratio: float = 1.0, interval: Any = (0.95, 1.06)) -> dict[str, Any]:
    return {"verdict": verdict, "ratio": ratio, "interval": list(interval) if interval else None}


def test_a_harness_is_judged_by_its_numbers() -> None:
    assert harness(said("No difference shown.")) == lab10.RIGHT
    assert harness(said("slower", 1.7, (1.6, 1.8)), kind="slower") == lab10.RIGHT
    assert harness(said("faster", 0.5, (0.45, 0.6)), kind="faster") == lab10.RIGHT
    assert harness(said("faster", 1 / 1.7, (0.5, 0.7)), kind="slower") == "upside-down"
    assert harness(said("faster", 0.5, (0.4, 0.6)), kind="inside") == "inside-for-outside"
    assert harness(said("faster", interval=(0.9, 1.1))) == "margin-ignored"
    assert harness(said("no difference shown", interval=(1.0, 1.0))) == "spread-not-reported"
    assert harness(said("no difference shown", interval=None)) == "spread-not-reported"
    assert harness(said("not comparable")) == "everything-doubted"
    assert harness(said("slower", 1.4, (1.3, 1.5)), kind="slower") == "start-up-counted"


def test_a_harness_is_judged_by_its_design() -> None:
    assert harness(said("equivalent"), pairs=1, turns=1) == "one-run-each"
    assert harness(said("equivalent"), pairs=1, turns=13) == "state-moved-on"
    assert harness(said("equivalent"), turns=1) == "one-after-the-other"


@pytest.mark.parametrize(("kind", "idea"), lab10.MISSED.items())
def test_arms_that_cannot_be_compared_have_to_be_told(kind: arms.Kind, idea: str) -> None:
    assert harness(said("faster", 0.5, (0.4, 0.6)), kind=kind) == idea
    assert harness({"verdict": "not_comparable"}, kind=kind) == lab10.RIGHT


def test_doubting_everything_earns_nothing() -> None:
    item = items.item("10/comparable")
    case = item.draw(random.Random(1))
    seen = [{"answer": {"verdict": "not comparable"}, "runs": [], "turns": 0} for _ in case["pairs"]]
    found: Verdict = item.judge([case], [Evidence(data={"pairs": seen})])
    assert found.misconception == "everything-doubted"
    assert found.points == 0
