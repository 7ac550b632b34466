"""Which letter is meant."""

from __future__ import annotations

from typing import Any

import pytest

from stepprof_lab.grading import choices
from stepprof_lab.grading.check import verdict_of
from stepprof_lab.grading.model import Case


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("b", "b"),
        (" B) ", "b"),
        ("(b)", "b"),
        ("b: because a trace shows it", "b"),
        ("d, I think", "d"),
        ("I think c", "c"),
        ("because", None),
        ("it's d", "d"),
        ("either b or c", None),
        ("z", None),
        ("", None),
        (2, None),
        (None, None),
        (["b"], None),
    ],
)
def test_a_letter_is_read_as_it_was_meant(value: Any, meant: str | None) -> None:
    assert choices.letter(value, "abcd") == meant


def test_what_is_no_letter_is_told_and_nothing_is_an_open_answer() -> None:
    assert [one.key for one in verdict_of("01/blind_spot", "because").said] == ["common.not_a_choice"]
    assert [one.key for one in verdict_of("01/blind_spot", None).said] == ["common.unanswered"]
    assert [one.key for one in verdict_of("01/prediction", 7).said] == ["common.not_a_choice"]


def test_each_option_shows_its_own_idea() -> None:
    item = choices.one_of("11/report", 1, lambda _: {}, {"zero": "zero-for-missing"})
    case: Case = {"options": {"a": "zero", "b": "not_observed"}, "right": "not_observed"}

    def judged(letter: str) -> str | None:
        return item.judge([case], [item.probe(letter, case)]).misconception

    assert judged("a") == "zero-for-missing"
    assert item.judge([case], [item.probe("b", case)]).passed
