"""What ``stepprof new`` asks: one table that drives the questions at a terminal and the flags without one.

The table knows neither the terminal nor the command line. Whoever owns those passes what flags gave as texts, and a
function that asks; every answer is checked when it is given, with the reason told, so that nothing typed is lost.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from stepprof_lab import asking, scenario
from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import UNITS_OF, Kind, Scenario

Answers = Literal["text", "choice", "yes or no", "whole number", "number", "shapes", "amounts"]
"""How an answer is read."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One thing that a scenario states.

    Args:
        name: its name among the answers; the flag is made of it.
        field: the scenario's field, by its path: ``conditions.batch``.
        asks: the question as asked.
        help: one sentence for ``--help``.
        answers: how the answer is read.
        choices: the texts that are answers, where `answers` is "choice".
        default: what an empty answer at a terminal means; None: that it is not stated.
        required: whether it must be stated. Without a terminal a required answer has no default.
        kinds: the kinds of scenario that have it.
        after: names of other answers; it is asked only where one of them was given.
        examples: answers to begin from.
    """

    name: str
    field: str
    asks: str
    help: str
    answers: Answers = "text"
    choices: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False
    kinds: tuple[Kind, ...] = ("training", "inference")
    after: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The flag as it is typed: ``--loader-workers``, ``--read/--no-read``."""
        word = self.name.replace("_", "-")
        return f"--{word}/--no-{word}" if self.answers == "yes or no" else f"--{word}"


Ask = Callable[[Question, "str | None"], str]
"""Called as ``ask(question, reason)``; the reason says why the answer before was refused, None the first time."""


def _part(name: str, asks: str, default: str = "yes", kinds: tuple[Kind, ...] = ("training", "inference")) -> Question:
    return Question(
        name,
        f"boundary.{name}",
        asks,
        f"Whether a step includes {scenario.PARTS[name]}.",
        answers="yes or no",
        default=default,
        required=True,
        kinds=kinds,
    )


QUESTIONS: tuple[Question, ...] = (
    Question(
        "question",
        "question",
        "Which one question is the trace to answer?",
        "The one question that the trace is to answer.",
        required=True,
        examples=(
            "Is compute waiting for data?",
            "Is the same data copied to the device more than once a step?",
            "Is a small operation called too often?",
        ),
    ),
    Question(
        "kind",
        "kind",
        "Is a step part of a training, or a request to a trained model?",
        "Whether a step is part of a training or a request (inference).",
        answers="choice",
        choices=("training", "inference"),
        default="training",
        required=True,
    ),
    _part("read", "Does a step include reading the batch?"),
    _part("transfer", "Does it include the transfer of the batch to the device?"),
    _part("forward", "Does it include the forward pass?"),
    _part("backward", "Does it include the backward pass?", kinds=("training",)),
    _part("update", "Does it include the optimizer's update?", kinds=("training",)),
    _part("model_load", "Does it include loading the model?", default="no"),
    Question(
        "unit",
        "unit",
        "In which unit is the answer?",
        "The unit of the answer.",
        answers="choice",
        choices=("ms/step", "ms/request", "samples/s"),
        required=True,
    ),
    Question(
        "seed",
        "seed",
        "Which seed do random numbers start from?",
        "The seed that random numbers start from.",
        answers="whole number",
        default="0",
    ),
    Question(
        "change",
        "change",
        "Which one change is to be tried, if it is known already?",
        "The one change that is to be tried.",
    ),
    Question(
        "batch",
        "conditions.batch",
        "How many samples does one step process?",
        "Samples that one step processes.",
        answers="whole number",
    ),
    Question(
        "shapes",
        "conditions.shapes",
        "Which shapes have the step's inputs?",
        "Shapes of the step's inputs, with commas between them.",
        answers="shapes",
        examples=("64x1x8x8, 64",),
    ),
    Question(
        "precision",
        "conditions.precision",
        "In which precision does the model compute?",
        "The precision that the model computes in.",
        examples=("float32", "bfloat16", "mixed bfloat16"),
    ),
    Question(
        "mode",
        "conditions.mode",
        "Is the model in train or in eval mode?",
        "The model's mode: dropout and batch norm differ.",
        answers="choice",
        choices=("train", "eval"),
    ),
    Question(
        "compiled",
        "conditions.compiled",
        "Is the model compiled (torch.compile)?",
        "Whether the model is compiled (torch.compile).",
        answers="yes or no",
    ),
    Question(
        "data_source",
        "conditions.data_source",
        "Where does the data come from, and in which form?",
        "Where the data comes from, and in which form.",
        examples=("JPEG files on a local disk", "random tensors, made once"),
    ),
    Question(
        "loader_workers",
        "conditions.loader_workers",
        "How many worker processes has the data loader?",
        "Worker processes of the data loader; 0: it reads in the main process.",
        answers="whole number",
    ),
    Question(
        "differs_from_full_load",
        "conditions.differs_from_full_load",
        "How does this scene differ from the full load that it stands for?",
        "How this scene differs from the full load that it stands for.",
        examples=("one GPU for eight", "a hundredth of the data, already in the page cache"),
    ),
    Question(
        "relative_tolerance",
        "outputs.relative_tolerance",
        "By which share may outputs differ after a change?",
        "The share by which outputs may differ after a change; 0: not at all.",
        answers="number",
        default="0",
    ),
    Question(
        "absolute_tolerance",
        "outputs.absolute_tolerance",
        "By which amount may outputs differ after a change?",
        "The amount by which outputs may differ after a change; 0: not at all.",
        answers="number",
        default="0",
    ),
    Question(
        "metric_tolerance",
        "outputs.metrics",
        "By which amount may each quality metric differ after a change?",
        "The amount by which each quality metric of the step may differ, with commas between them.",
        answers="amounts",
        examples=("accuracy=0.01", "accuracy=0.01, f1=0.02"),
    ),
    Question(
        "tolerance_reason",
        "outputs.reason",
        "Why is that tolerance right?",
        "Why the tolerances are right.",
        required=True,
        after=("relative_tolerance", "absolute_tolerance", "metric_tolerance"),
        examples=("the sum is taken in another order",),
    ),
)

_NONE = {"", "0", "0.0"}
"""Answers to a question for a tolerance that allow nothing."""

WISH = (
    "`question` is a wish: ask what is to be seen (is compute waiting for data? is a copy repeated?), not what the "
    "step should become"
)

BY_NAME: dict[str, Question] = {question.name: question for question in QUESTIONS}


def answer(given: Mapping[str, str], ask: Ask | None = None, *, observed: Mapping[str, str] | None = None) -> Scenario:
    """A scenario from what flags gave, what was observed, and what is asked.

    Args:
        given: answers by the questions' names, as texts ("yes" and "no" for parts of the boundary). They are not
            asked, and are refused at once where they cannot be used.
        ask: asks one question and returns what was typed; the question that it gets has the choices and the default
            that fit the kind. None: there is no terminal.
        observed: conditions seen on a running workload, by the questions' names. They are not asked, and their names
            are kept in ``conditions.observed``. Where a condition is given too, the given one counts.

    Raises:
        StepprofError: a given answer cannot be used; or, without `ask`, required ones are missing (all are named).
    """
    answers = _known(given, "answer")
    seen = {name: value for name, value in _known(observed or {}, "observation").items() if name not in answers}
    for name in seen:
        if not BY_NAME[name].field.startswith("conditions."):
            raise StepprofError(f"{name!r} is said to be observed", "a condition, such as 'batch'", "state it instead")
    answers.update(seen)
    reason = _reason_against(answers)
    if reason:
        raise StepprofError(reason, "answers that can be used", "correct that flag, see `stepprof new --help`")
    if ask is None:
        _refuse_missing(answers)
    else:
        _ask_the_rest(answers, ask)
    return scenario.from_mapping(_data(answers, tuple(seen)))


def from_observation(seen: Mapping[str, Any]) -> dict[str, str]:
    """What `stepprof_lab.capturing.observe.observing` saw, as the answers that `answer` takes as observed."""
    conditions = {name for name, question in BY_NAME.items() if question.field.startswith("conditions.")}
    return {name: _as_text(value) for name, value in seen.items() if name in conditions and value is not None}


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(part) for part in value)
    return str(value)


def _known(given: Mapping[str, str], what: str) -> dict[str, str]:
    """The answers by their questions' names; an unknown name is refused, an empty answer is none."""
    answers = {}
    for name, text in given.items():
        known = name.replace("-", "_")
        if known not in BY_NAME:
            near = difflib.get_close_matches(known, list(BY_NAME), n=1)
            raise StepprofError(
                f"{what} {name!r} belongs to no question",
                f"the name of one{f', such as {near[0]!r}' if near else ''}",
                "see `stepprof new --help`",
            )
        if text.strip():
            answers[known] = text.strip()
    return answers


def _refuse_missing(answers: Mapping[str, str]) -> None:
    missing = [question for question in QUESTIONS if question.required and _is_open(question, answers)]
    if missing:
        flags = [
            question.flag if "kind" in answers or len(question.kinds) > 1 else f"{question.flag} (for a training)"
            for question in missing
        ]
        raise StepprofError(
            f"a scenario without {', '.join(flags)}",
            "these flags, as there is no terminal to ask at",
            "add them, or run `stepprof new` in a terminal",
        )


def _is_open(question: Question, answers: Mapping[str, str]) -> bool:
    """Whether a question has no answer yet and applies to the answers there are."""
    if question.name in answers or answers.get("kind", "training") not in question.kinds:
        return False
    return not question.after or any(answers.get(name, "0").strip() not in _NONE for name in question.after)


def _ask_the_rest(answers: dict[str, str], ask: Ask) -> None:
    """Ask what is open, in the table's order, each until the answer can be used; `answers` grows."""
    for question in QUESTIONS:
        if not _is_open(question, answers):
            continue
        fitting = _fitted(question, answers)
        reason: str | None = None
        while True:
            text = ask(fitting, reason).strip() or fitting.default or ""
            if not text and not question.required:
                break
            reason = (
                _reason_against({**answers, question.name: text}) if text else f"{question.help} It has to be stated."
            )
            if reason is None:
                answers[question.name] = text
                break


def _fitted(question: Question, answers: Mapping[str, str]) -> Question:
    """The question with the choices and the default that fit the kind."""
    if question.name != "unit":
        return question
    units = UNITS_OF["inference" if answers["kind"] == "inference" else "training"]
    return dataclasses.replace(question, choices=units, default=units[0])


def _reason_against(answers: Mapping[str, str]) -> str | None:
    """Why these answers cannot stand together, whatever the open ones will be; None where they can."""
    kinds = [answers["kind"]] if "kind" in answers else ["training", "inference"]
    reasons = []
    for kind in kinds:
        try:
            data = _data({**answers, "kind": kind})
        except ValueError as error:
            return str(error)
        # What is open is filled so that nothing but an answer can be the reason.
        _fill(data, "question", "Which?")
        _fill(data, "unit", "samples/s")
        _fill(data, "outputs.reason", "not asked yet")
        for part in scenario.PARTS:
            left_out = part == "model_load" and (any(data["boundary"].values()) or data["unit"] == "ms/request")
            _fill(data, f"boundary.{part}", not left_out)
        problems = scenario.problems_of(data)
        if "question" in answers and asking.form_of(answers["question"]) == "wish":
            problems.append(WISH)
        if not problems:
            return None
        reasons.append("; ".join(problems))
    return reasons[0]


def _data(answers: Mapping[str, str], observed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The scenario's plain values; what a kind does not have is left out of its boundary.

    Raises:
        ValueError: an answer is no such value, with the reason.
    """
    data: dict[str, Any] = {}
    for question in QUESTIONS:
        if question.name in answers:
            _fill(data, question.field, _value(question, answers[question.name]))
        elif answers["kind"] not in question.kinds:
            _fill(data, question.field, False)
    if observed:
        _fill(data, "conditions.observed", list(observed))
    return data


def _fill(data: dict[str, Any], field: str, value: object) -> None:
    """Set a field by its path, unless it has a value."""
    table, _, name = field.rpartition(".")
    (data.setdefault(table, {}) if table else data).setdefault(name, value)


def _value(question: Question, text: str) -> object:
    """What a text means as an answer.

    Raises:
        ValueError: it means nothing, with the reason.
    """
    if question.answers == "yes or no":
        value = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}.get(text.lower())
        if value is None:
            raise ValueError(f"{question.name} takes yes or no, not {text!r}")
        return value
    if question.answers in ("whole number", "number"):
        return _number(question, text)
    if question.answers == "choice" and text not in question.choices:
        raise ValueError(f"{question.name} is one of {', '.join(question.choices)}, not {text!r}")
    if question.answers == "shapes":
        if re.search(r"[()\[\]{}]", text):
            raise ValueError(f"a shape is written as 64x1x8x8, with commas between shapes, not {text!r}")
        return [shape.strip() for shape in re.split("[,;]", text) if shape.strip()]
    if question.answers == "amounts":
        return _amounts(question, text)
    return text


def _amounts(question: Question, text: str) -> dict[str, float]:
    found = {}
    for one in filter(None, map(str.strip, re.split("[,;]", text))):
        name, _, amount = (side.strip() for side in one.rpartition("="))
        try:
            found[name] = float(amount)
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"{question.name} is written as accuracy=0.01, with commas between them, not {one[:40]!r}")
    return found


def _number(question: Question, text: str) -> int | float:
    try:
        return int(text) if question.answers == "whole number" else float(text)
    except ValueError:
        raise ValueError(f"{question.name} takes a {question.answers}, not {text[:40]!r}") from None
