"""The same table asks at a terminal and makes the flags; nothing typed is lost."""

from __future__ import annotations

import itertools

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.questions import BY_NAME, QUESTIONS, Question, answer
from stepprof_lab.scenario import Boundary, Conditions, Outputs, Scenario, dumps, loads

FLAGS = {
    "question": "Is compute waiting for data?",
    "kind": "training",
    "read": "yes",
    "transfer": "yes",
    "forward": "yes",
    "backward": "yes",
    "update": "no",
    "model-load": "no",
    "unit": "ms/step",
}


class Person:
    """Types prepared answers, Enter where none is left, and remembers what was asked."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = {name: [typed] if isinstance(typed, str) else list(typed) for name, typed in answers.items()}
        self.asked: list[str] = []
        self.questions: dict[str, Question] = {}
        self.reasons: list[str] = []

    def __call__(self, question: Question, reason: str | None) -> str:
        self.asked.append(question.name)
        self.questions[question.name] = question
        if reason is not None:
            self.reasons.append(reason)
        typed = self.answers.get(question.name, [])
        assert typed or reason is None, f"refused without another answer: {reason}"
        return typed.pop(0) if typed else ""


def refusal(given: dict[str, str], observed: dict[str, str] | None = None) -> str:
    with pytest.raises(StepprofError) as caught:
        answer(given, observed=observed)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_every_field_of_a_scenario_has_one_question() -> None:
    fields = [
        *(name for name in Scenario.__struct_fields__ if name not in ("boundary", "conditions", "outputs")),
        *(f"boundary.{name}" for name in Boundary.__struct_fields__),
        *(f"conditions.{name}" for name in Conditions.__struct_fields__ if name != "observed"),
        *(f"outputs.{name}" for name in Outputs.__struct_fields__),
    ]
    assert sorted(question.field for question in QUESTIONS) == sorted(fields)
    assert len({question.flag for question in QUESTIONS}) == len(QUESTIONS)
    assert all(question.asks.endswith("?") and question.help.endswith(".") for question in QUESTIONS)
    assert BY_NAME["read"].flag == "--read/--no-read"
    assert BY_NAME["loader_workers"].flag == "--loader-workers"


def test_the_examples_are_answers() -> None:
    for question in QUESTIONS:
        for example in question.examples:
            answer({**FLAGS, "relative-tolerance": "1e-6", "tolerance-reason": "r", question.name: example})


def test_flags_alone_make_a_scenario() -> None:
    made = answer(
        {
            **FLAGS,
            "seed": "7",
            "batch": "64",
            "shapes": "64x1x8x8, 64",
            "compiled": "no",
            "mode": "train",
            "relative-tolerance": "1e-6",
            "tolerance-reason": "another order of sums",
        }
    )
    assert made == Scenario(
        question="Is compute waiting for data?",
        kind="training",
        boundary=Boundary(read=True, transfer=True, forward=True, backward=True, update=False, model_load=False),
        unit="ms/step",
        seed=7,
        conditions=Conditions(shapes=["64x1x8x8", "64"], batch=64, mode="train", compiled=False),
        outputs=Outputs(relative_tolerance=1e-6, reason="another order of sums"),
    )
    assert loads(dumps(made)) == made


def test_what_flags_leave_out_is_named_all_at_once() -> None:
    said = refusal({"question": "Why?", "read": "yes"})
    named = ["--kind", "--transfer/--no-transfer", "--forward/--no-forward", "--model-load/--no-model-load", "--unit"]
    assert all(flag in said for flag in named)
    assert "--backward/--no-backward (for a training)" in said
    assert "--question" not in said
    assert "--read" not in said
    assert "--seed" not in said
    assert "tolerance" not in said


def test_a_request_has_no_backward_pass_to_ask_about() -> None:
    said = refusal({"kind": "inference"})
    assert "backward" not in said
    assert "--update" not in said
    given = {name: text for name, text in FLAGS.items() if name not in ("backward", "update")}
    made = answer({**given, "kind": "inference", "unit": "ms/request"})
    assert (made.boundary.backward, made.boundary.update) == (False, False)


def test_a_tolerance_asks_for_its_reason() -> None:
    assert "--tolerance-reason" in refusal({**FLAGS, "absolute-tolerance": "0.1"})
    assert answer({**FLAGS, "absolute-tolerance": "0"}).outputs == Outputs()
    person = Person(tolerance_reason=["", "bfloat16 rounds"])
    assert answer({**FLAGS, "absolute-tolerance": "0.1"}, person).outputs.reason == "bfloat16 rounds"
    assert [one.rpartition(". ")[2] for one in person.reasons] == ["It has to be stated."]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"batch": "many"}, "batch takes a whole number, not 'many'"),
        ({"batch": "0"}, "`conditions.batch` is 0"),
        ({"read": "maybe"}, "read takes yes or no, not 'maybe'"),
        ({"kind": "tuning"}, "kind is one of training, inference, not 'tuning'"),
        ({"unit": "ms/request"}, "'ms/request' is for inference"),
        ({"kind": "inference", "unit": "samples/s"}, "inference has no such part"),
        ({"question": "A? B?"}, "one question a scenario"),
        ({"question": "?"}, "no question"),
        ({"data-source": "/home/alice/data"}, "home directory"),
        ({"shapes": "(64, 1)"}, "a shape is written as 64x1x8x8"),
        ({"relative-tolerance": "nan"}, "is nan"),
        ({"loader_worker": "2"}, "such as 'loader_workers'"),
    ],
)
def test_a_flag_that_cannot_be_used_is_refused_before_anything_is_asked(wrong: dict[str, str], reason: str) -> None:
    assert reason in refusal({**FLAGS, **wrong})
    person = Person()
    with pytest.raises(StepprofError, match="expected"):
        answer({**FLAGS, **wrong}, person)
    assert person.asked == []


def test_a_wrong_flag_is_told_before_what_is_missing() -> None:
    assert "batch takes a whole number" in refusal({"batch": "many"})


def test_enter_takes_what_the_question_offers() -> None:
    person = Person(question="Why so slow?")
    made = answer({}, person)
    assert made == loads(
        'question = "Why so slow?"\nkind = "training"\nunit = "ms/step"\n[boundary]\n'
        "read = true\ntransfer = true\nforward = true\nbackward = true\nupdate = true\nmodel_load = false\n"
    )
    assert person.asked[:2] == ["question", "kind"]
    assert len(person.questions["question"].examples) == 3
    assert person.asked == [question.name for question in QUESTIONS if question.name != "tolerance_reason"]


def test_the_unit_offered_fits_the_kind() -> None:
    person = Person(question="Why so slow?", kind="inference")
    assert answer({}, person).unit == "ms/request"
    assert person.questions["unit"].choices == ("ms/request", "samples/s")
    assert not {"backward", "update"} & set(person.asked)


def test_a_wish_is_refused_as_a_question() -> None:
    assert "is a wish" in refusal({**FLAGS, "question": "Make it faster"})
    person = Person(question=["Speed up the loader", "Is compute waiting for data?"])
    assert answer({name: text for name, text in FLAGS.items() if name != "question"}, person).question.startswith("Is")
    assert "is a wish" in person.reasons[0]


def test_a_wrong_answer_is_asked_again_with_its_reason_and_the_rest_is_kept() -> None:
    person = Person(
        question=["", "?", "A? B?", "Why, says a@example.com?", "Why so slow?"],
        kind=["trainng", "inference"],
        model_load=["perhaps", "yes"],
        unit=["ms/step", "ms/request", "samples/s"],
        batch=["-1", "8"],
    )
    made = answer({}, person)
    assert (made.question, made.kind, made.unit, made.conditions.batch) == ("Why so slow?", "inference", "samples/s", 8)
    expected = [
        "It has to be stated.",
        "no question",
        "one question a scenario",
        "e-mail address",
        "not 'trainng'",
        "yes or no",
        "ms/step",
        "loading the model is not part of a request",
        "`conditions.batch` is -1",
    ]
    assert len(person.reasons) == len(expected)
    for told, words in zip(person.reasons, expected, strict=True):
        assert words in told
    in_a_row = [name for name, _ in itertools.groupby(person.asked)]
    assert len(in_a_row) == len(set(in_a_row)), "only the refused answer is asked again"


def test_what_flags_gave_is_not_asked_and_an_answer_must_fit_it() -> None:
    person = Person(kind=["training", "inference"])
    made = answer({"question": "Why so slow?", "unit": "ms/request", "read": "no"}, person)
    assert (made.kind, made.boundary.read) == ("inference", False)
    assert not {"question", "unit", "read"} & set(person.asked)
    assert "'ms/request' is for inference" in person.reasons[0]


def test_a_step_includes_something() -> None:
    person = Person(model_load=["no", "yes"])
    nothing = dict.fromkeys(("read", "transfer", "forward", "backward", "update"), "no")
    given = {name: text for name, text in FLAGS.items() if name != "model-load"}
    assert answer({**given, **nothing}, person).boundary.model_load is True
    assert "includes nothing" in person.reasons[0]


def test_what_was_observed_is_not_asked_and_is_marked() -> None:
    person = Person()
    observed = {"batch": "64", "mode": "train", "loader-workers": "0"}
    made = answer({**FLAGS, "mode": "eval"}, person, observed=observed)
    assert made.conditions == Conditions(batch=64, mode="eval", loader_workers=0, observed=["batch", "loader_workers"])
    assert not {"batch", "mode", "loader_workers"} & set(person.asked)
    assert answer(FLAGS, observed={"batch": "64"}).conditions.observed == ["batch"]


@pytest.mark.parametrize(
    ("observed", "reason"),
    [({"unit": "ms/step"}, "'unit' is said to be observed"), ({"batch": "x"}, "whole number"), ({"gpu": "1"}, "'gpu'")],
)
def test_what_cannot_be_observed_is_refused(observed: dict[str, str], reason: str) -> None:
    given = {name: text for name, text in FLAGS.items() if name != "unit"}
    assert reason in refusal(given, observed)


def test_leaving_is_left_to_whoever_asks() -> None:
    def leave(question: Question, reason: str | None) -> str:
        raise EOFError

    with pytest.raises(EOFError):
        answer({}, leave)


def test_a_metric_s_tolerance_needs_its_reason() -> None:
    flags = {**FLAGS, "metric-tolerance": "accuracy=0.01, f1 = 0.02"}
    with pytest.raises(StepprofError, match="tolerance-reason"):
        answer(flags)
    made = answer({**flags, "tolerance-reason": "the labels are noisy"})
    assert made.outputs.metrics == {"accuracy": 0.01, "f1": 0.02}


@pytest.mark.parametrize("text", ["accuracy", "=0.1", "accuracy=high"])
def test_a_metric_s_tolerance_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(StepprofError, match=r"written as accuracy=0\.01"):
        answer({**FLAGS, "metric-tolerance": text, "tolerance-reason": "r"})
