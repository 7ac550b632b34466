"""Durations, shares and names in words."""

from __future__ import annotations

import typing
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepprof_lab.report import words
from stepprof_lab.trace.model import Origin, Regime
from stepprof_lab.validate.model import Verdict


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.0, "0.0 µs"),
        (0.001, "0.001 µs"),
        (0.04, "0.04 µs"),
        (87.25, "87.2 µs"),
        (999.0, "999.0 µs"),
        (1000.0, "1.000 ms"),
        (20412.3456, "20.412 ms"),
        (2e6, "2000.000 ms"),
        (250e6, "250.000 s"),
    ],
)
def test_a_duration_names_its_unit(us: float, text: str) -> None:
    assert words.duration(us) == text


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_what_took_time_is_never_shown_as_zero(us: float) -> None:
    for unit in (words.MICROSECONDS, words.MILLISECONDS, words.SECONDS):
        assert float(unit.number(us)) > 0


def test_durations_that_are_read_together_share_a_unit() -> None:
    unit = words.unit_for([0.4, 20000.0])
    assert [unit.text(us) for us in (0.4, 20000.0)] == ["0.0004 ms", "20.000 ms"]
    assert words.unit_for([]).name == "µs"


def test_a_small_share_is_not_zero_and_an_unknown_one_is_said() -> None:
    assert words.percent(0.756) == "75.6 %"
    assert words.percent(0.0) == "0.0 %"
    assert words.percent(0.00001) == "0.001 %"
    assert words.explains(0.5) == "could explain at most 50.0 % of the step"
    assert "cannot be said" in words.explains(None)


def test_every_word_of_the_contract_has_its_words() -> None:
    assert set(words.REGIME_WORDS) == set(typing.get_args(Regime))
    assert set(words.ORIGIN_WORDS) == set(typing.get_args(Origin))
    assert set(words.VERDICT_WORDS) == set(words.VERDICT_MARKS) == set(typing.get_args(Verdict))
    for origin, text in words.ORIGIN_WORDS.items():
        assert text.startswith(origin)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("lecture_batch (étape) 读取", "lecture_batch (étape) 读取"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc\x00", "a\\x0ab\\x09c\\x00"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("a\ud800b", "a\\ud800b"),
        ("a\uffffb\u2028", "a\\uffffb\\u2028"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)
def test_a_name_is_shown_as_data(name: str, shown: str) -> None:
    assert words.visible(name) == shown


@given(st.text(alphabet=st.characters(codec=None, categories=None)))
def test_any_text_made_visible_is_utf8_and_xml(text: str) -> None:
    seen = words.visible(text)
    seen.encode("utf-8")
    escaped = seen.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert (ET.fromstring(f"<a>{escaped}</a>").text or "") == seen
    assert words.visible(seen) == seen


def test_prose_stands_on_one_line() -> None:
    assert words.prose(" a\n\n b\tc ") == "a b c"


def test_nested_values_become_rows() -> None:
    rows = words.flat({"a": {"b": 1, "c": None}, "d": [1.5, 2], "e": [{"f": True}], "g": {}, "h": []})
    assert rows == [
        ("a.b", "1"),
        ("a.c", "not observed"),
        ("d", "1.5, 2"),
        ("e.1.f", "yes"),
        ("g", "none"),
        ("h", "none"),
    ]


def test_a_large_number_has_no_exponent() -> None:
    assert words.value(16172052.3004) == "16172052.3"
    assert words.value(1e6) == "1000000"
    assert words.value(0.412104123) == "0.412104"
    assert words.value(1e-7) == "1e-07"


def test_what_a_missing_value_means_depends_on_the_part() -> None:
    assert words.flat({"a": {"b": None}, "c": [None]}, missing="none") == [("a.b", "none"), ("c", "none")]


def test_shortening_keeps_the_beginning_and_shows_the_cut() -> None:
    assert words.shorten("abcdef", 6) == "abcdef"
    assert words.shorten("abcdefg", 6) == "abc..."


def test_names_that_would_be_cut_alike_stay_apart() -> None:
    long = [f"<class 'package.modules.low_level.{name}'>" for name in ("first", "second", "second", "third" * 9)]
    made = words.shortened([*long, "train"], 30)
    assert made["train"] == "train"
    assert len(set(made.values())) == 4
    assert max(map(len, made.values())) <= 30
    assert made[long[0]].startswith("<class 'pack")
    assert made[long[0]].endswith("first'>")
    only = words.shortened(["x" * 90], 30)
    assert list(only.values()) == ["x" * 27 + "..."]


@given(st.lists(st.text(alphabet="ab", max_size=60)), st.integers(16, 40))
def test_different_names_never_become_one(names: list[str], length: int) -> None:
    made = words.shortened(names, length)
    assert len(set(made.values())) == len(set(names))
    assert all(len(text) <= length for text in made.values())
