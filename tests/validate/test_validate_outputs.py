"""Do two values agree: bitwise, within a tolerance, or not."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from stepprof_lab.scenario import Outputs
from stepprof_lab.validate.outputs import Comparison, compare, held_value

torch = pytest.importorskip("torch")

NONE = Outputs()


def compared(before: Any, after: Any, **allowed: float) -> Comparison:
    return compare(held_value(before), held_value(after), Outputs(**allowed))


@dataclasses.dataclass
class Reply:
    logits: Any
    text: str


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([1.0, -0.0, math.inf]),
        lambda: 0.1,
        lambda: [torch.ones(2), {"b": 1, "a": np.arange(3)}],
        lambda: Reply(torch.ones(2), "yes"),
        lambda: (torch.tensor([1.0], dtype=torch.float16), "text", b"x", True),
    ],
    ids=["tensor", "number", "containers", "dataclass", "mixed"],
)
def test_equal_values_are_bitwise_equal(make: Any) -> None:
    found = compared(make(), make())
    assert (found.agreement, found.agrees) == ("bitwise", True)


def test_none_is_nothing_to_compare() -> None:
    assert compared(None, None).agreement == "nothing to compare"
    assert compared((None, []), (None, [])).agreement == "nothing to compare"
    assert compared(None, 1.0).agreement == "different"


def test_the_smallest_difference_is_one_unless_a_tolerance_is_given() -> None:
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000002])
    found = compared(one, other)
    assert (found.agreement, found.why) == ("different", "the values differ")
    assert found.absolute == pytest.approx(2.384e-7, rel=1e-3)
    assert found.relative == pytest.approx(1.192e-7, rel=1e-3)
    assert compared(one, other, relative_tolerance=2e-7).agreement == "within tolerance"
    assert compared(one, other, relative_tolerance=1e-7).agreement == "different"
    assert compared(one, other, absolute_tolerance=3e-7).agreement == "within tolerance"


def test_the_tolerance_is_a_share_of_befores_value() -> None:
    assert compared([100.0], [101.0], relative_tolerance=0.01).agrees
    assert not compared([99.0], [100.0], relative_tolerance=0.01).agrees


def test_the_worst_leaf_decides_and_the_largest_difference_is_told() -> None:
    found = compared({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.5, "b": 2.0, "c": 3.1}, absolute_tolerance=0.2)
    assert (found.agreement, found.where) == ("different", "a")
    assert found.absolute == pytest.approx(0.5)


def test_nan_in_both_is_no_agreement() -> None:
    found = compared(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]))
    assert (found.agreement, found.agrees) == ("not a number", False)
    one_sided = compared(1.0, math.nan, absolute_tolerance=1e9)
    assert (one_sided.agreement, one_sided.why) == ("different", "only arm after gives NaN")


def test_infinity_is_not_within_any_tolerance_of_a_number() -> None:
    assert not compared(math.inf, 1.0, relative_tolerance=0.5, absolute_tolerance=1.0).agrees
    assert not compared(1.0, math.inf, relative_tolerance=0.5, absolute_tolerance=1.0).agrees
    assert not compared(math.inf, -math.inf, relative_tolerance=0.5).agrees
    assert compared([math.inf, 1.0], [math.inf, 1.0 + 1e-9], relative_tolerance=1e-6).agrees


def test_shapes_types_and_names_are_part_of_the_answer() -> None:
    assert "of shape 2x1 after" in compared(torch.ones(2), torch.ones(2, 1), absolute_tolerance=1.0).why
    assert "bfloat16" in compared(torch.ones(2), torch.ones(2).bfloat16()).why
    assert compared(torch.ones(2), torch.ones(2).bfloat16(), absolute_tolerance=1e-3).agrees
    assert compared({"a": 1}, {"b": 1}).why == "only arm before has it"
    assert not compared("yes", "no").agrees
    assert not compared(1.0, "1.0", absolute_tolerance=1.0).agrees


def test_large_integers_are_told_apart() -> None:
    assert not compared(torch.tensor([2**60]), torch.tensor([2**60 + 1])).agrees


def test_zero_has_no_relative_difference() -> None:
    found = compared([0.0], [1e-9], absolute_tolerance=1e-6)
    assert (found.agrees, found.absolute, found.relative) == (True, 1e-9, None)


def test_a_held_value_does_not_follow_the_tensor() -> None:
    tensor = torch.ones(2)
    held = held_value(tensor)
    tensor += 1
    assert compare(held, held_value(torch.ones(2)), NONE).agrees
