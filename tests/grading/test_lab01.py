"""Lab 01: records held against stories, for every kind of story."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepprof_lab import scenario
from stepprof_lab.grading import items
from stepprof_lab.grading.labs import lab01, records, stories
from stepprof_lab.grading.model import Verdict
from stepprof_lab.grading.probing import Unanswered

SEEDS = range(30)


def record_of(story: stories.Story) -> dict[str, Any]:
    """A record that states the story's facts."""
    facts = story["facts"]
    workers = {} if facts["loader_workers"] is None else {"loader_workers": facts["loader_workers"]}
    return {
        "question": "Is compute waiting for data?",
        "kind": story["kind"],
        "unit": facts["unit"],
        "boundary": dict(facts["boundary"]),
        "conditions": {
            "shapes": ["x".join(map(str, shape)) for shape in facts["shapes"]],
            "data_source": "files",
            "differs_from_full_load": "one GPU for eight",
            **{name: facts[name] for name in ("batch", "precision", "mode", "compiled")},
            **workers,
        },
    }


def judged(kind: str, record: Any, story: stories.Story) -> Verdict:
    item = items.item(f"01/{kind}")
    return item.judge([story], [item.probe(record, story)])


@pytest.mark.parametrize("kind", ["training", "inference"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_story_has_a_record_that_the_library_takes_and_the_judge_passes(kind: str, seed: int) -> None:
    story = getattr(stories, kind)(random.Random(seed))
    record = record_of(story)
    assert scenario.problems_of(record) == []
    assert judged(kind, record, story).passed
    assert judged(kind, scenario.dumps(scenario.from_mapping(record)), story).passed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_story_says_every_number_that_its_record_needs(seed: int) -> None:
    for story in (stories.training(random.Random(seed)), stories.inference(random.Random(seed))):
        said, facts = stories.in_words(story), story["facts"]
        for number in (facts["batch"], facts["full_batch"], facts["precision"], *facts["shapes"][0]):
            assert str(number) in said.replace("three", "3")


def test_stories_cover_every_boundary_unit_and_simplification() -> None:
    training = [stories.training(random.Random(seed)) for seed in SEEDS]
    inference = [stories.inference(random.Random(seed)) for seed in SEEDS]
    assert {one["simpler"] for one in training} == set(stories.BLIND_TO)
    assert {one["facts"]["unit"] for one in training} == {"ms/step", "samples/s"}
    assert {(one["facts"]["boundary"]["read"], one["facts"]["unit"]) for one in inference} == {
        (read, unit) for read in (True, False) for unit in ("ms/request", "samples/s")
    }


@pytest.mark.parametrize(("read", "idea"), [(True, "reading-left-out"), (False, "outside-counted")])
def test_a_request_begins_where_its_story_says(read: bool, idea: str) -> None:
    found = [stories.inference(random.Random(seed)) for seed in SEEDS]
    story = next(one for one in found if one["facts"]["boundary"]["read"] is read)
    record = record_of(story)
    record["boundary"]["read"] = not read
    assert judged("inference", record, story).misconception == idea


def test_points_are_earned_by_part() -> None:
    story = stories.training(random.Random(1))
    record = record_of(story)
    record["question"] = "Make it faster"
    del record["conditions"]["compiled"]
    verdict = judged("training", record, story)
    assert {part.id for part in verdict.parts if not part.points} == {"question", "conditions"}
    assert verdict.points == verdict.of - 2
    assert verdict.misconception == "wish-as-question"


def test_a_refused_record_is_told_in_the_librarys_words() -> None:
    story = stories.training(random.Random(1))
    record = record_of(story) | {"sed": 3}
    verdict = judged("training", record, story)
    assert verdict.misconception is None
    assert "unknown key 'sed'" in verdict.said[0].values["problem"]
    assert verdict.points == verdict.of - 1


@pytest.mark.parametrize("answer", ["question = ", "[[[", 7, object(), ["a"], "no TOML at all"])
def test_what_is_no_record_is_told_and_loses_nothing_else(answer: Any) -> None:
    verdict = judged("training", answer, stories.training(random.Random(1)))
    assert verdict.points == 0
    assert verdict.misconception is None
    assert verdict.said[0].values["problem"]


@pytest.mark.parametrize("answer", [None, ..., "", "   "])
def test_nothing_is_an_open_answer(answer: Any) -> None:
    item = items.item("01/training")
    with pytest.raises(Unanswered):
        item.probe(answer, {})


ODD_VALUES: list[Any] = [3, [], {}, None, True, "text"]
WRONG_TYPES = [
    (key, value)
    for key in ("question", "kind", "unit", "boundary", "conditions")
    for value in ODD_VALUES
    if (key, value) != ("question", "text")  # which is a question, as far as its form tells
]


@pytest.mark.parametrize(("key", "value"), WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_judged_and_does_not_pass(key: str, value: Any) -> None:
    story = stories.training(random.Random(1))
    assert not judged("training", record_of(story) | {key: value}, story).passed


@pytest.mark.parametrize(
    "text",
    [
        "2000 of 3 million pictures",
        "one GPU instead of eight",
        "the same pictures again and again, all in memory",
        "Not all pictures are used",
        "no other service runs on the GPU",
        "same as the real one but with a small batch",
        "nothing is read from disk: it is all cached",
    ],
)
def test_a_stated_difference_is_taken_in_any_words(text: str) -> None:
    assert records.states_a_difference(text)


@pytest.mark.parametrize(
    "text",
    [None, "", " - ", "none", "No.", "nothing", "It does not differ.", "the same", "same as the full load", "n/a"],
)
def test_a_denial_states_no_difference(text: Any) -> None:
    assert not records.states_a_difference(text)


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (["24x3x96x96", "24"], True),
        (["[24, 3, 96, 96]"], True),
        (["images: (24, 96, 96, 3) float32", "labels: 24 int64"], True),
        (["3 \u00d7 96 \u00d7 96"], True),
        (["N=24 C=3 H=96 W=96"], True),
        (["24x3x96x96, 24"], True),
        (["24"], False),
        (["256x3x96x96"], False),
        (["24x3x96x96", "24x1000"], False),
        ([], False),
        ("24x3x96x96", True),
        (3, False),
    ],
)
def test_shapes_hold_however_they_are_written(given: Any, holds: bool) -> None:
    assert records.shapes_hold(given, [[24, 3, 96, 96], [24]]) is holds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("float32", {"float32"}),
        ("torch.bfloat16", {"bfloat16"}),
        ("FP16 (half)", {"float16"}),
        ("mixed bf16 and fp32", {"bfloat16", "float32"}),
        ("low", set()),
    ],
)
def test_precisions_are_named_in_many_ways(text: str, named: set[str]) -> None:
    assert records.precision_of(text) == named


@pytest.mark.parametrize("seed", SEEDS)
def test_exactly_two_results_may_stand_side_by_side(seed: int) -> None:
    item = items.item("01/comparable")
    case = item.draw(random.Random(seed))
    letters = list(case["rows"])
    pairs = [one + other for one in letters for other in letters if one < other]
    verdicts = [item.judge([case], [item.probe(pair, case)]) for pair in pairs]
    assert sum(one.passed for one in verdicts) == 1
    assert all(one.misconception for one in verdicts if not one.passed)


@pytest.mark.parametrize("answer", ["a", "a b c", "aa", 5, ["a"]])
def test_a_pair_is_two_letters(answer: Any) -> None:
    item = items.item("01/comparable")
    case = item.draw(random.Random(0))
    verdict = item.judge([case], [item.probe(answer, case)])
    assert not verdict.passed
    assert verdict.misconception is None


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_every_question_that_one_trace_cannot_answer_shows_its_own_idea(kind: str) -> None:
    item, seen = items.item(f"01/{kind}_question"), set()
    for seed in SEEDS:
        case = item.draw(random.Random(seed))
        for letter, option in case["options"].items():
            verdict = item.judge([case], [item.probe(letter, case)])
            assert verdict.passed is (option == case["right"])
            assert verdict.misconception == lab01.NOT_ANSWERABLE.get(option)
            seen.add(option)
    assert seen == {*lab01.NOT_ANSWERABLE, *lab01.ANSWERABLE[kind]}
