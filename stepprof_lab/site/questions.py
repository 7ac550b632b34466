"""Questions in a page: a number with a tolerance, or a choice, each wrong answer with its own reply.

A lesson's questions stand in a TOML file beside it. The page holds them as a form that works by keyboard and without
a server; ``course/assets/questions.js`` judges there by the same rules as `judge` does here. Without scripts the answer
is folded under the question. They are for oneself: nothing is kept elsewhere, and nothing counts.
"""

from __future__ import annotations

import html
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab.errors import StepprofError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One of the answers to choose from, and what is said to whoever takes it."""

    text: str
    why: str
    right: bool = False


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """A wrong number that is recognised."""

    value: float | str
    """A number, or the name of a value of the lesson's trace."""
    why: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question. It has either choices, or an answer with a tolerance."""

    id: str
    prompt: str
    choices: list[Choice] = []
    answer: float | str | None = None
    unit: str = ""
    tolerance: float = 0.05
    """Share of the answer that one may be off by."""
    right: str = ""
    """What is said to a right number."""
    mistakes: list[Mistake] = []
    otherwise: str = ""
    """What is said to a number that is neither right nor recognised."""
    points: list[int] = []
    """Which of the course's points (instructors/points) it asks for."""


class Reply(msgspec.Struct, frozen=True):
    """Whether an answer is right, and what is said to it."""

    right: bool
    said: str


class _File(msgspec.Struct, frozen=True, kw_only=True):
    question: list[Question]


def read(path: Path, values: Mapping[str, float]) -> list[Question]:
    """A lesson's questions, with the numbers of its trace filled in.

    Raises:
        StepprofError: the file cannot be read, or a question can be answered in no way or in several.
    """
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File, strict=False).question
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise StepprofError(f"{path.name}: {error}", "questions as TOML", "mend the file") from error
    for one in found:
        if (one.answer is None) == (not one.choices) or (one.choices and sum(c.right for c in one.choices) != 1):
            raise StepprofError(
                f"{path.name}, question {one.id!r}", "one answer, or choices of which one is right", "mend the file"
            )
    return [_filled(one, values) for one in found]


def _filled(question: Question, values: Mapping[str, float]) -> Question:
    def number(value: float | str | None) -> float | None:
        return values[value] if isinstance(value, str) else value

    mistakes = [msgspec.structs.replace(one, value=number(one.value)) for one in question.mistakes]
    return msgspec.structs.replace(question, answer=number(question.answer), mistakes=mistakes)


def judge(question: Question, given: float) -> Reply:
    """What is said to an answer: the number of a choice, from 0 on, or a number in the question's unit."""
    if question.choices:
        chosen = question.choices[int(given)]
        return Reply(chosen.right, chosen.why)
    if _close(given, question.answer, question.tolerance):
        return Reply(True, question.right)
    for one in question.mistakes:
        if _close(given, one.value, question.tolerance):
            return Reply(False, one.why)
    return Reply(False, question.otherwise)


def _close(given: float, wanted: Any, tolerance: float) -> bool:
    return math.isfinite(given) and abs(given - float(wanted)) <= tolerance * abs(float(wanted)) + 1e-9


def as_html(question: Question, ident: str) -> str:
    """A question as a form; ``ident`` is its name in the whole course, unique on the page."""
    name = html.escape(ident.replace("/", "-"))
    body = _choices(question, name) if question.choices else _number(question, name)
    data = json.dumps(_data(question), ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<form class="sp-question" id="{name}" data-question="{html.escape(ident)}">\n'
        f"<fieldset><legend>{_text(question.prompt)}</legend>\n{body}\n</fieldset>\n"
        f'<button type="submit" class="md-button">Check</button>\n<p class="sp-reply" role="status"></p>\n'
        f'<details class="sp-answer"><summary>Show the answer</summary><p>{_answer(question)}</p></details>\n'
        f'<script type="application/json">{data}</script>\n</form>'
    )


def _choices(question: Question, name: str) -> str:
    return "\n".join(
        f'<label><input type="radio" name="{name}" value="{number}"> <span>{_text(one.text)}</span></label>'
        for number, one in enumerate(question.choices)
    )


def _number(question: Question, name: str) -> str:
    return (
        f'<label>Your number <input type="text" inputmode="decimal" name="{name}" size="8" autocomplete="off"> '
        f"{_text(question.unit)}</label>"
    )


def _answer(question: Question) -> str:
    if question.choices:
        right = next(one for one in question.choices if one.right)
        return f"{_text(right.text)} {_text(right.why)}"
    return f"{_shown(question)}. {_text(question.right)}"


def _shown(question: Question) -> str:
    return _text(f"{float(question.answer or 0):.3g} {question.unit}".strip())


def _data(question: Question) -> dict[str, Any]:
    """What the script needs."""
    if question.choices:
        return {"choices": [{"right": one.right, "why": _text(one.why)} for one in question.choices]}
    return {
        "answer": question.answer,
        "tolerance": question.tolerance,
        "right": _text(question.right),
        "mistakes": [{"value": one.value, "why": _text(one.why)} for one in question.mistakes],
        "otherwise": _text(question.otherwise),
    }


def _text(text: str) -> str:
    """A sentence as markup: what stands between backticks is code, and nothing else is special."""
    parts = html.escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
