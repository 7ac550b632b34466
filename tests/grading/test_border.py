"""From a learner's object to plain data, and what is said when their code fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stepprof_lab.grading import plain, probing
from stepprof_lab.grading.model import Evidence


class Lies(float):
    """A number whose comparisons lie."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (3, 3.0),
        (2.5, 2.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (np.array(1.5), 1.5),
        (True, None),
        ("3", None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
        (Lies(3.0), None),
        (None, None),
    ],
)
def test_a_number_is_taken_by_its_exact_type(given: Any, taken: float | None) -> None:
    found = plain.number(given)
    assert found == taken
    assert type(found) in {float, type(None)}


def test_a_tensor_of_one_element_is_a_number() -> None:
    torch = pytest.importorskip("torch", reason="tensors are torch's")
    assert plain.number(torch.tensor(2.0)) == 2.0


def test_data_keeps_what_is_plain_and_names_what_is_not() -> None:
    given = {
        "a": [1, 2.5, (True, None)],
        "b": np.float64(2),
        "c": Lies(1),
        3: "no text key",
        "d": math.inf,
        "e": object,
    }
    assert plain.data(given) == {"a": [1, 2.5, [True, None]], "b": 2.0, "c": "<Lies>", "d": "inf", "e": "<type>"}


def test_data_has_bounds() -> None:
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    assert "<list>" in str(plain.data(nested))
    assert len(plain.data("x" * 10**6)) == plain.LONGEST_TEXT
    assert len(plain.data(list(range(10**5)))) == plain.MOST_VALUES
    assert plain.data(10**100) == "<int beyond 64 bits>"


def raises() -> None:
    raise ValueError("two\nlines")


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (None, Evidence(unanswered=True)),
        (..., Evidence(unanswered=True)),
        (lambda: None, Evidence(unanswered=True)),
        (lambda: (_ for _ in ()).throw(NotImplementedError), Evidence(unanswered=True)),
    ],
)
def test_what_is_no_answer_yet_is_told_apart_from_an_error(answer: Any, evidence: Evidence) -> None:
    assert probing.evidence_of(lambda: Evidence(data={"value": probing.call(answer)})) == evidence


def test_what_cannot_be_called_is_said() -> None:
    found = probing.evidence_of(lambda: Evidence(data={"value": probing.call(3)}))
    assert str(found.error).startswith("TypeError: a int, not a function")


def test_an_error_is_one_line_with_the_learner_s_own_code() -> None:
    found = probing.evidence_of(lambda: Evidence(data={"value": probing.call(raises)}))
    assert found.error == 'ValueError: two lines, at `raise ValueError("two\\nlines")`'


def test_warnings_of_the_answer_are_no_errors() -> None:
    import warnings

    def answer() -> int:
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
        return 3

    assert probing.call(answer) == 3
