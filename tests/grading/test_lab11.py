"""Lab 11: what is said of each kind of capture agrees with the interpreter, for many numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from stepprof_lab.grading import items, probing
from stepprof_lab.grading.labs import captures, lab11
from stepprof_lab.grading.model import Case, Verdict

SEEDS = range(6)


def analysis(kind: str, seed: int) -> dict[str, Any]:
    return captures.as_data(captures.analysis(kind, random.Random(seed)))


def ids(found: Mapping[str, Any]) -> set[str]:
    return {one["id"] for one in found["findings"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_captures_without_events_are_read_as_not_observed(seed: int) -> None:
    for kind in lab11.MISSING:
        found = analysis(kind, seed)
        assert found["gpu"]["observed"] is False
        assert "gpu_busy_in_window_us" not in found["steps"][0]
        assert ("gpu-not-observed" in ids(found)) is (kind != "cpu_alone")


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_partial_capture_misses_a_part(seed: int) -> None:
    for kind in ("some_events", *lab11.OBSERVED):
        found = analysis(kind, seed)
        assert found["gpu"]["observed"] is True
        assert ("gpu-partly-observed" in ids(found)) is (kind == "some_events")


@pytest.mark.parametrize("seed", SEEDS)
def test_sentences_hold_as_the_interpreter_has_it(seed: int) -> None:
    none, some, whole = (analysis(kind, seed) for kind in ("no_events", "some_events", "all_events"))
    # No wait of the host bounds what the GPU did, and reading leaves most of the step open.
    assert none["labels"]["read_batch"]["cpu_us"] < 0.5 * sum(step["cpu_us"] for step in none["steps"])
    assert not any("ynchronize" in one["name"] for one in none["operators"])
    first = some["steps"][0]
    assert first["gpu_events_launched"] == first["gpu_busy_in_window_us"] == 0
    skipped = whole["steps"][captures.SKIPPED]
    assert skipped["gpu_busy_in_window_us"] == 0
    assert all(step["gpu_events_launched"] for step in whole["steps"] if step is not skipped)
    cpu = analysis("cpu_alone", seed)
    assert cpu["operators"][0]["name"] == "aten::mm"


@pytest.mark.parametrize("kind", list(lab11.SENTENCES))
def test_every_set_of_sentences_has_all_three_verdicts_or_says_why(kind: str) -> None:
    assert {one.holds for one in lab11.SENTENCES[kind].values()} == {"can", "cannot", "false"}
    for sentence in lab11.SENTENCES[kind].values():
        assert set(sentence.ideas) == {"can", "cannot", "false"} - {sentence.holds}


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("can", "can"),
        ("Can be said.", "can"),
        ("cannot", "cannot"),
        ("can not be said", "cannot"),
        ("can't", "cannot"),
        ("can\u2019t be said", "cannot"),
        ("FALSE", "false"),
        (" is false ", "false"),
        (False, "false"),
        (True, None),
        ("maybe", None),
        (0, None),
        (None, None),
    ],
)
def test_a_verdict_is_read_however_it_is_written(value: Any, meant: str | None) -> None:
    assert lab11.verdict_meant(value) == meant


def test_sentences_earn_points_one_by_one() -> None:
    item = items.item("11/no_events")
    case = item.draw(random.Random(3))
    answer = {letter: lab11.SENTENCES["no_events"][name].holds for letter, name in case["letters"].items()}
    assert judged(item, case, answer).passed
    assert judged(item, case, {letter.upper(): one for letter, one in answer.items()}).passed
    verdict = judged(item, case, {letter: answer[letter] for letter in "ab"})
    assert verdict.points == 1
    assert verdict.misconception is None


def judged(item: items.Item, case: Case, answer: Any) -> Verdict:
    return item.judge([case], [probing.evidence_of(lambda: item.probe(answer, case))])


@pytest.fixture(scope="module")
def shares() -> Case:
    return items.item("11/gpu_share").draw(random.Random(7))


def right(found: Mapping[str, Any]) -> float | None:
    if not found["gpu"]["observed"] or "gpu-partly-observed" in ids(found):
        return None
    return lab11.share(found)


def test_an_observed_zero_is_a_number_and_a_missing_one_is_none(shares: Case) -> None:
    assert right(shares["captures"]["nothing_in_window"]) == 0
    item = items.item("11/gpu_share")
    assert judged(item, shares, right).passed
    assert judged(item, shares, lambda one: right(one) or None).misconception == "observed-zero-doubted"
    assert judged(item, shares, lambda one: right(one) or 0.0).misconception == "zero-for-missing"


def test_parts_of_the_share_are_earned_one_by_one(shares: Case) -> None:
    item = items.item("11/gpu_share")
    halved = judged(item, shares, lambda one: None if right(one) is None else 0.5)
    assert (halved.points, halved.misconception) == (3, None)
    whole = judged(item, shares, lambda one: lab11.share(one) if one["gpu"]["observed"] else None)
    assert (whole.points, whole.misconception) == (3, "part-for-whole")


@pytest.mark.parametrize("odd", [float("nan"), "idle", [], {"share": 0.5}])
def test_what_is_neither_a_number_nor_none_is_told(shares: Case, odd: Any) -> None:
    verdict = judged(items.item("11/gpu_share"), shares, lambda one: odd if right(one) is None else right(one))
    assert verdict.points == 1
    assert verdict.misconception is None
    assert verdict.said[0].values["wanted"] == "None"


def test_a_function_that_answers_nothing_is_unanswered_and_one_that_stops_is_told(shares: Case) -> None:
    item = items.item("11/gpu_share")
    assert [one.key for one in judged(item, shares, lambda _: None).said] == ["common.unanswered"]
    assert [one.key for one in judged(item, shares, None).said] == ["common.unanswered"]
    stopped = judged(item, shares, lambda one: [step["gpu_busy_in_window_us"] for step in one["steps"]])
    assert "KeyError" in stopped.said[0].values["error"]


def test_a_function_cannot_change_the_case(shares: Case) -> None:
    before = captures.as_data(captures.analysis("all_events", random.Random(1)))
    case = {"captures": {kind: dict(before) for kind in shares["captures"]}}
    items.item("11/gpu_share").probe(lambda one: one.clear() or 1.0, case)
    assert case["captures"]["all_events"] == before


@pytest.mark.parametrize("choice", ["doctor", "where"])
def test_both_checks_on_a_capture_without_launches_are_right(choice: str) -> None:
    item = items.item("11/next_check")
    case = item.draw(random.Random(2))
    letter_of = {option: letter for letter, option in case["options"].items()}
    answer = {kind: letter_of[right[0]] for kind, right in lab11.CHECKS.items()}
    assert judged(item, case, answer | {"no_launches": letter_of[choice]}).passed
    assert judged(item, case, answer | {"no_launches": letter_of["longer"]}).points == 1.5
