"""Lab 12: the loops that are drawn, what is seen of a changed one, and judges on evidence made by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec
import pytest

from stepprof_lab.grading import catalogue
from stepprof_lab.grading.labs import lab12, repaired, slow_loop
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.validate.model import Block, Validation
from stepprof_lab.validate.statistics import WHOLE_ARMS, verdict_from

PAIRS_OF_CAUSES = list(itertools.combinations(sorted(slow_loop.SITES), 2))


def plan(*planted: str, seed: int = 3) -> dict[str, Any]:
    drawn = slow_loop.draw(random.Random(seed))
    return drawn | {"planted": list(planted)} if planted else drawn


def test_learners_get_different_loops() -> None:
    drawn = [plan(seed=seed) for seed in range(100)]
    assert {tuple(one["planted"]) for one in drawn} == set(PAIRS_OF_CAUSES)
    assert len({one["label"] for one in drawn}) > 90
    assert len({slow_loop.source(one) for one in drawn}) > 90


@pytest.mark.parametrize("planted", PAIRS_OF_CAUSES)
def test_a_repair_changes_no_loss_and_is_seen_as_the_one_change(planted: tuple[str, str]) -> None:
    drawn = plan(*planted)
    with repaired.one_thread():
        original = repaired.built(slow_loop.build_of(drawn))
        losses, sites = repaired.losses(original), repaired.sites_of(original)
        for name in planted:
            other = repaired.built(slow_loop.build_of(drawn, [name]))
            assert repaired.losses(other) == losses
            assert repaired.changed_sites(sites, repaired.sites_of(other), planted) == [name]


def test_the_harmless_forms_are_small_beside_the_slow_ones() -> None:
    with repaired.one_thread():
        for planted, other in (PAIRS_OF_CAUSES[0], PAIRS_OF_CAUSES[-1]), (PAIRS_OF_CAUSES[-1], PAIRS_OF_CAUSES[0]):
            slow, harmless = (lab12._warm(slow_loop.build_of(plan(*one))) for one in (planted, other))
            seen, beside = repaired.sites_of(slow), repaired.sites_of(harmless)
            assert all(beside[name] < 0.3 * seen[name] for name in planted)


def judged(judge: Any, data: dict[str, Any], case: dict[str, Any] | None = None) -> Verdict:
    verdict: Verdict = judge([case or plan("read", "tiny")], [Evidence(data=data)])
    assert all(catalogue.sentence(one) for one in verdict.said)
    return verdict


@pytest.mark.parametrize(
    ("planted", "chosen", "idea", "points"),
    [
        (("read", "tiny"), ["read", "tiny"], None, 4),
        (("read", "tiny"), ["read"], "cause-missed", 2),
        (("read", "tiny"), [], "cause-missed", 0),
        (("read", "tiny"), ["read", "tiny", "constant"], "every-copy-is-bad", 2),
        (("constant", "tiny"), ["constant", "read"], "cause-not-there", 0),
        (("constant", "tiny"), ["constant", "tiny", "sync"], "sync-without-queue", 2),
        (("constant", "tiny"), [*slow_loop.CAUSES], "sync-without-queue", 0),
    ],
)
def test_causes(planted: tuple[str, str], chosen: list[str], idea: str | None, points: float) -> None:
    case = plan(*planted)
    letters = [letter for letter, cause in case["options"].items() if cause in chosen]
    verdict = judged(lab12._judge_causes, {"letters": letters}, case)
    assert (verdict.misconception, verdict.points) == (idea, points)


def change(yours: float, reference: float, **data: Any) -> dict[str, Any]:
    same = {"before": [1.0, 0.9], "after": [1.0, 0.9]}
    ratios = {"original": 1.0, "yours": yours, "reference": reference}
    return {"losses": same, "changed": ["read"], "settings": [], "ratios": ratios} | data


@pytest.mark.parametrize(
    ("data", "idea", "points"),
    [
        (change(0.7, 0.7), None, 5),
        (change(0.85, 0.7), None, 5),
        (change(1.05, 0.7), "repaired-but-not-faster", 3),
        (change(0.7, 0.7, settings=["threads"]), "two-things-changed", 2),
        (change(0.7, 0.7, changed=["read", "tiny"]), "two-things-changed", 2),
        (change(0.7, 0.7, changed=[]), "another-place-changed", 0),
        (change(0.7, 0.7, losses={"before": [1.0, 0.9], "after": [1.0, 0.91]}), "outputs-not-compared", 0),
        (change(0.7, 0.7, losses={"before": [1.0, 0.9], "after": [1.0, None]}), "outputs-not-compared", 0),
    ],
)
def test_a_change(data: dict[str, Any], idea: str | None, points: float) -> None:
    verdict = judged(lab12._judge_improved, data)
    assert (verdict.misconception, verdict.points) == (idea, points)
    assert not verdict.undecided


def test_where_the_librarys_own_repair_does_not_show_there_is_no_verdict_on_a_change() -> None:
    assert judged(lab12._judge_improved, change(1.0, 0.99)).undecided


def validation(ratios: list[float]) -> dict[str, Any]:
    """A kept validation as plain data: a step of before takes 20 ms, and after's a ratio of it in each replicate."""
    times = [(number, arm, 20 * (ratio if arm == "after" else 1)) for number, ratio in enumerate(ratios)
             for arm in ("before", "after")]  # fmt: skip
    blocks = [
        Block(replicate=number, pair=0, arm=arm, order=order, steps_ms=[ms] * 8)  # type: ignore[arg-type]
        for order, (number, arm, ms) in enumerate(times)
    ]
    found = Validation(
        verdict=verdict_from(blocks, WHOLE_ARMS, 0.01).verdict,
        design=WHOLE_ARMS,
        margin=0.01,
        outputs={},
        startup={},
        reasons=[],
        noise={},
        blocks=blocks,
    )
    return {"kind": "validation", "validation": msgspec.to_builtins(found), "all_repaired": 0.4}


@pytest.mark.parametrize(
    ("ratios", "idea", "undecided"),
    [
        ([0.7, 0.72, 0.69, 0.71], None, False),
        ([0.7, 0.72, 0.69], "one-run-each", False),
        ([1.0, 1.001, 0.999, 1.0], "gain-not-shown", False),
        ([0.99, 1.02, 0.97, 1.03], "gain-not-shown", False),
        ([0.5, 1.6, 0.7, 1.1], None, True),
        ([0.1, 0.11, 0.1, 0.11], "another-loop", False),
    ],
)
def test_a_validation(ratios: list[float], idea: str | None, undecided: bool) -> None:
    verdict = judged(lab12._judge_validation, validation(ratios))
    assert (verdict.misconception, verdict.undecided) == (idea, undecided)
    assert verdict.passed == (idea is None and not undecided)


def test_a_verdict_that_the_blocks_do_not_give() -> None:
    data = validation([0.7, 0.72, 0.69, 0.71])
    data["validation"]["verdict"] = "equivalent"
    verdict = judged(lab12._judge_validation, data)
    assert not verdict.passed
    assert "'faster'" in catalogue.sentence(verdict.said[0])


@pytest.mark.parametrize(
    ("ms", "ends", "idea"),
    [
        (6.0, [5.7, 6.3], None),
        (5.9, [6.2, 5.8], None),
        (30.0, [5.7, 6.3], "percent-for-ms"),
        (0.7, [5.7, 6.3], "percent-for-ms"),
        (14.0, [5.7, 6.3], "step-for-gain"),
        (192.0, [5.7, 6.3], "sum-for-elapsed"),
        (6.0, [], "spread-not-reported"),
        (6.0, [6.0, 6.0], "spread-not-reported"),
        (6.0, [0.68, 0.72], "another-spread"),
        (9.0, [8.0, 10.0], None),
    ],
)
def test_a_gain(ms: float, ends: list[float], idea: str | None) -> None:
    data = validation([0.7, 0.71, 0.69, 0.7]) | {"value": ms, "ends": ends}
    verdict = judged(lab12._judge_gain, data)
    assert verdict.misconception == idea
    assert verdict.passed == (idea is None and ms < 9)


@pytest.mark.parametrize("said", ["a c", "ca", "A, C", ["c", "a"], {"a", "c"}, "(a) and (c)"])
def test_letters_in_any_form(said: Any) -> None:
    assert lab12._letters(said, "abcde") == ["a", "c"]


def test_no_letter_at_all() -> None:
    assert lab12._letters("none", "abcde") == []
    assert lab12._letters("the tables", "abcde") is None
