"""Lab 07: the captures are what its texts say, launches are counted as such, and the whole step decides the verdict."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from stepprof_lab.grading import grouping, items, sorting
from stepprof_lab.grading.labs import lab07
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.grading.probing import evidence_of

SEEDS = range(3)
SMALL = {"sizes": [5, 40, 7], "seed": 3}


def step_verdict(**changed: Any) -> Verdict:
    """The verdict on a step that is right, fast and grouped, with something changed."""
    times = {"yours": 6.0, "reference": 6.0, "before": 29.0}
    data: dict[str, Any] = {"outputs": list("abcd"), "wanted": list("abcd"), "launches": 3.0, "launches_before": 144.0}
    data["held"] = True
    data |= {name: value for name, value in changed.items() if name in data}
    data["times_ms"] = times | {name: value for name, value in changed.items() if name in times}
    return items.item("07/make_step").judge([{"plan": SMALL}], [Evidence(data=data, origin="simulated")])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_capture_with_fewer_launches_is_the_one_that_waits_for_them(seed: int) -> None:
    case = lab07.draw_counts(random.Random(seed))
    waits, busy = case[case["idle"]], case["b" if case["idle"] == "a" else "a"]
    assert waits["launches"] < busy["launches"]
    assert waits["busy_ms"] < 0.3 * waits["step_ms"]
    assert busy["busy_ms"] > 0.97 * busy["step_ms"]
    ids = {name: {one["id"] for one in lab07.read(one)[0]["findings"]} for name, one in (("w", waits), ("b", busy))}
    assert "small-launches" in ids["w"]
    assert "small-launches" not in ids["b"]


@pytest.mark.parametrize("seed", range(20))
def test_the_ranges_of_the_whole_step_show_what_each_change_did(seed: int) -> None:
    case = items.item("07/changes").draw(random.Random(seed))
    told = sorting.asked(case, "07.say.changes")
    for letter, name in case["letters"].items():
        whole = told[letter].split("whole step")[1]
        (low, high), (low_after, high_after) = re.findall(r"\(([\d.]+) to ([\d.]+)\)", whole)
        shorter, longer = float(high_after) < float(low), float(low_after) > float(high)
        assert ("faster" if shorter else "slower" if longer else "same") == lab07.CHANGES[name].right


def test_a_list_is_one_launch_and_a_view_is_none() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.ones(4) for _ in range(3)]
    launches = grouping.Launches(paced=False)
    with launches.watching():
        torch._foreach_add_(tensors, 1.0)
        tensors[0].view(2, 2)[0].mul_(2.0)
        torch.empty(3)
        torch.cat(tensors).split([4, 4, 4])
    assert launches.count == 3


def test_the_library_own_versions_agree_and_differ_in_launches() -> None:
    versions = (grouping.one_by_one, grouping.grouped)
    first, second = (grouping.outputs(one, SMALL, steps=3) for one in versions)
    assert first == second
    assert len(set(first)) == 3
    assert [grouping.launches_a_step(one, SMALL) for one in versions] == [9.0, 3.0]


def test_what_a_step_returns_is_compared_in_full() -> None:
    wanted = grouping.outputs(grouping.grouped, SMALL, steps=2)
    assert grouping.outputs(lambda params: lambda grads: params[:2], SMALL, steps=2) != wanted
    assert grouping.outputs(lambda params: lambda grads: None, SMALL, steps=1) == ["<NoneType>"]


def test_few_launches_earn_nothing_by_themselves() -> None:
    assert step_verdict().passed
    assert step_verdict(launches=144.0).passed
    assert not step_verdict(launches=1.0, yours=40.0).passed


@pytest.mark.parametrize(
    ("changed", "misconception", "points"),
    [
        ({"launches": 144.0, "yours": 29.0}, "still-one-by-one", 2),
        ({"launches": 52.0, "yours": 80.0}, "grouped-but-slower", 2),
        ({"launches": 5.0, "yours": 20.0}, "grouped-but-slower", 2),
        ({"launches": 97.0, "yours": 20.0}, "partly-grouped", 2),
        ({"outputs": list("axxx")}, "outputs-not-compared", 3),
        ({"outputs": list("axxx"), "launches": 144.0, "yours": 29.0}, "outputs-not-compared", 0),
    ],
)
def test_each_wrong_step_shows_its_idea(changed: dict[str, Any], misconception: str, points: float) -> None:
    verdict = step_verdict(**changed)
    assert verdict.misconception == misconception
    assert verdict.points == points


def test_a_machine_that_cannot_show_the_difference_gives_no_verdict_on_the_time() -> None:
    assert step_verdict(yours=13.0, before=10.0).undecided
    assert step_verdict(yours=13.0, held=False).undecided
    assert step_verdict(held=False).passed
    assert not step_verdict(yours=13.0, before=10.0, outputs=list("axxx")).undecided


def test_an_error_in_the_step_is_told_and_an_empty_one_is_unanswered() -> None:
    item = items.item("07/make_step")

    def broken(params: Any) -> Any:
        raise KeyError(len(params))

    assert "KeyError" in str(evidence_of(lambda: item.probe(broken, {"plan": SMALL})).error)
    assert evidence_of(lambda: item.probe(lambda params: None, {"plan": SMALL})).unanswered
    assert evidence_of(lambda: item.probe(lambda params: lambda grads: None, {"plan": SMALL})).unanswered
