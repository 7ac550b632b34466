"""Lab 08: the capture is what its texts say, the operator logs what it should, the judge names each wrong number."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from stepprof_lab import devices
from stepprof_lab.grading import isolating, items, sorting
from stepprof_lab.grading.labs import lab08
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.grading.probing import evidence_of

SEEDS = range(4)

LARGE = {
    "calls": 2,
    "seen": 11,
    "first_ms": 17.0,
    "fastest_ms": 1.0,
    "median_ms": 1.02,
    "mean_ms": 1.05,
}
SMALL = {**LARGE, "calls": 9, "first_ms": 3.4, "fastest_ms": 0.2, "median_ms": 0.204, "mean_ms": 0.21}
LOW, HIGH = 3.8, 3.99
"""Of a step: 2 calls of the large one and 9 of the small one, at their fastest and on average."""


def isolated_verdict(value: float, *, large: Any = (), small: Any = (), gpu: bool = False, **more: Any) -> Verdict:
    """The verdict on a number beside the calls above, with something changed."""
    turn = {"value": value, "calls": 22, "fresh": 2, "other": None, "reference": LOW, "kind": "float", **more}
    turn["rows"] = [{**LARGE, **dict(large)}, {**SMALL, **dict(small)}]
    data = {"rounds": [turn] * 3, "value": value, "kind": "float", "gpu": gpu}
    return items.item("08/isolated_ms").judge([{"recorded": []}], [Evidence(data=data)])


@pytest.mark.parametrize("seed", SEEDS)
def test_most_calls_most_self_time_and_the_largest_sum_are_three_operators(seed: int) -> None:
    case = lab08.draw_found(random.Random(seed))
    operators = case["operators"]

    def most(what: str) -> str:
        return str(max(operators, key=lambda name: operators[name][what]))

    assert [most(what) for what in ("calls", "self_ms", "total_ms")] == [lab08.BUSIEST, lab08.DOMINANT, lab08.WRAPPER]
    analysis, report = lab08.read(case)
    assert [one["id"] for one in analysis["findings"]] == ["dominant-operator"]
    assert analysis["findings"][0]["evidence"]["operators"] == [lab08.DOMINANT]
    assert analysis["origin"] == "constructed"
    assert "Next check" in report


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_say_what_explains_the_step(seed: int) -> None:
    case = items.item("08/explained").draw(random.Random(seed))
    told = sorting.asked(case, "08.say.rows")
    for letter, name in case["letters"].items():
        own = float(re.search(r"self time ([\d.]+)", told[letter])[1])  # type: ignore[index]
        if name == "inputs":
            short, many, long, few = map(float, re.findall(r"[\d.]*\d", told[letter].split("Alone: ")[1]))
            alone = many * short + few * long
        else:
            one = re.search(r"([\d.]+) \([\d.]+ to [\d.]+\) ms a call", told[letter])
            alone = int(re.search(r"(\d+) calls, self", told[letter])[1]) * float(one[1])  # type: ignore[index]
        explains = alone / own
        assert explains > 0.93 or explains < 0.45
        assert ("explained" if explains >= lab08.EXPLAINS else "not explained") == lab08.ROWS[name].right


@pytest.mark.parametrize("seed", range(10))
def test_recorded_inputs_differ_in_shape_layout_type_and_calls(seed: int) -> None:
    recorded = isolating.plan(random.Random(seed))
    assert len({isolating.signature(one) for one in recorded}) == 2
    assert {one["dtype"] for one in recorded} == {"float32", "float64"}
    large, small = sorted(recorded, key=lambda one: -one["shape"][0])
    assert large["calls"] < small["calls"]
    assert (large["strides"][0], small["strides"][1]) == (1, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_input_is_made_as_recorded_on_a_gpu_too(seed: int) -> None:
    pytest.importorskip("torch")
    recorded = isolating.plan(random.Random(seed))
    gpu = devices.Device("cuda", "cuda:0", "a GPU")
    for one, larger in zip(recorded, isolating.on_device(recorded, gpu), strict=True):
        made = isolating.make_input(one, devices.choose("cpu"))
        assert isolating.signature(one) == (tuple(made.shape), made.stride(), str(made.dtype)[6:])
        assert larger["shape"] == [isolating.GPU_FACTOR * side for side in one["shape"]]
        rows, columns = larger["shape"]
        assert larger["strides"] in ([1, rows], [columns, 1])


def test_the_operator_logs_each_call_and_tries_each_kind_of_input_once() -> None:
    torch = pytest.importorskip("torch")
    computed = 0

    def compute(x: Any, dim: int) -> Any:
        nonlocal computed
        computed += 1
        return torch.cumsum(x, dim)

    operator = isolating.Operator()
    operator._compute = compute  # type: ignore[assignment]
    x = torch.ones(2, 3)
    assert torch.equal(operator(x), torch.tensor([[1.0, 2.0, 3.0]] * 2))
    operator(x)
    assert computed == 2 + isolating.TRIES
    operator(torch.ones(3, 2).t())
    assert computed == 3 + 2 * isolating.TRIES
    assert operator.fresh == 2
    same = isolating.Signature((2, 3), (3, 1), "float32")
    assert len(operator.calls(same)) == 2
    assert len(operator.log) == 3


def test_the_first_call_is_kept_apart_from_the_later_ones() -> None:
    assert isolating.of_calls([9.0, 1.0, 2.0, 6.0]) == {
        "first_ms": 9.0,
        "fastest_ms": 1.0,
        "median_ms": 2.0,
        "mean_ms": 3.0,
    }
    assert isolating.of_calls([9.0])["fastest_ms"] == 9.0


@pytest.mark.parametrize("value", [LOW, HIGH, 3.9, 0.89 * LOW, 1.11 * HIGH])
def test_the_fastest_the_median_and_the_mean_are_right(value: float) -> None:
    assert isolated_verdict(value).passed


@pytest.mark.parametrize(
    ("value", "misconception"),
    [
        (1e3 * LOW, "units-mixed"),
        (HIGH / 1e3, "units-mixed"),
        (2 * 17 + 9 * 3.4, "first-call-counted"),
        ((2 * (17 + 10 * 1.05) + 9 * (3.4 + 10 * 0.21)) / 11, "first-call-counted"),
        (17 + 1.05 + 3.4 + 8 * 0.21, "first-call-counted"),
        (10 * HIGH, "runs-added"),
        (1.2, "one-call-for-all"),
        (1.05, "one-call-for-all"),
        (LOW / 11, "one-call-for-all"),
        (11 * 0.6, "calls-mixed"),
        (97.0, None),
        (0.01, None),
        (-3.8, None),
    ],
)
def test_each_wrong_number_shows_its_idea(value: float, misconception: str | None) -> None:
    verdict = isolated_verdict(value)
    assert verdict.misconception == misconception
    assert (verdict.points, verdict.of) == (2, 5)


@pytest.mark.parametrize(
    ("changed", "misconception", "points"),
    [
        ({"calls": 0, "large": {"seen": 0}, "small": {"seen": 0}}, "not-isolated", 0),
        ({"large": {"seen": 0}, "other": "layout"}, "other-inputs", 0),
        ({"large": {"seen": 0}}, "one-input-for-all", 0),
    ],
)
def test_a_right_number_on_other_inputs_earns_nothing(changed: Any, misconception: str, points: float) -> None:
    verdict = isolated_verdict(LOW, **changed)
    assert verdict.misconception == misconception
    assert verdict.points == points


def test_a_step_whose_calls_ran_once_holds_its_first_calls() -> None:
    ran = 17 + 1.05 + 3.4 + 8 * 0.21
    assert isolated_verdict(ran, large={"seen": 2}, small={"seen": 9}).misconception == "first-call-counted"


def test_the_calls_of_another_input_are_mixed_up() -> None:
    few = {"seen": 6}  # with eleven calls, the mean with the first among them would give the same number
    assert isolated_verdict(9 * 1.0 + 2 * 0.2, large=few, small=few).misconception == "calls-mixed"


def test_inputs_made_while_the_clock_runs_are_seen_by_their_number() -> None:
    assert isolated_verdict(97.0, fresh=22).misconception == "inputs-timed"
    assert isolated_verdict(LOW, fresh=22).passed


def test_a_number_far_too_small_on_a_gpu_is_a_launch() -> None:
    assert isolated_verdict(0.04, gpu=True).misconception == "no-wait"
    assert isolated_verdict(0.04).misconception is None


def test_a_busy_machine_gives_no_verdict_on_a_number_that_may_be_right() -> None:
    stalled: dict[str, Any] = {"large": {"mean_ms": 2.0}, "small": {"mean_ms": 0.5}}
    assert isolated_verdict(1.2 * 8.5, **stalled).undecided
    assert isolated_verdict(6.0, **stalled).undecided
    assert isolated_verdict(97.0, **stalled).undecided
    assert isolated_verdict(97.0, fresh=22, **stalled).undecided
    assert isolated_verdict(1e3 * LOW, **stalled).misconception == "units-mixed"
    assert isolated_verdict(LOW, **stalled).passed
    assert isolated_verdict(8.5, **stalled).passed


def test_the_nearest_of_the_differences_is_told() -> None:
    torch = pytest.importorskip("torch")
    recorded = [{"shape": [4, 6], "strides": [1, 4], "dtype": "float32", "calls": 2}]
    for x, wanted in (
        (torch.ones(6, 4).t(), None),
        (torch.ones(4, 6), "layout"),
        (torch.ones(6, 4, dtype=torch.float64).t(), "type"),
        (torch.ones(5, 5), "shape"),
    ):
        operator = isolating.Operator()
        operator(x)
        assert lab08._other(operator, recorded) == wanted


@pytest.mark.parametrize("name", ["aten::cumsum", "cumsum", " Aten::CumSum", "`cumsum`"])
def test_an_operator_may_be_written_in_several_ways(name: str) -> None:
    assert lab08._name(name) == "aten::cumsum"


def test_an_error_is_told_and_an_empty_answer_is_unanswered() -> None:
    item = items.item("08/isolated_ms")
    case = {"recorded": [{"shape": [4, 6], "strides": [1, 4], "dtype": "float32", "calls": 2}]}

    def broken(operator: Any, recorded: Any, device: Any) -> float:
        raise KeyError(len(recorded))

    assert "KeyError" in str(evidence_of(lambda: item.probe(broken, case)).error)
    assert evidence_of(lambda: item.probe(lambda operator, recorded, device: None, case)).unanswered
    text = evidence_of(lambda: item.probe(lambda operator, recorded, device: "3 ms", case))
    assert item.judge([case], [text]).said[0].key == "common.not_a_number"


def test_a_live_step_holds_its_operator() -> None:
    pytest.importorskip("torch")
    recorded = [{"shape": [4, 6], "strides": [1, 4], "dtype": "float32", "calls": 2}]
    found = isolating.in_step(recorded, devices.choose("cpu"), steps=2)
    assert 0 < found["operator_ms"] < found["step_ms"]
