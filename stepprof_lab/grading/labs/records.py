"""Holding a scenario record against a story's facts (lab 01).

A record is judged as the plain values that its TOML holds, so that a record which the library refuses is still told
which wrong idea made it so. Free text is judged only for what can be seen in its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from stepprof_lab import asking, scenario

PARTS: Mapping[str, float] = {"record": 1, "question": 1, "boundary": 2, "unit": 1, "conditions": 1, "difference": 1}
"""What a record earns points for."""


class Fault(NamedTuple):
    """One thing in which a record does not hold.

    Args:
        part: of `PARTS`.
        idea: the misconception; None where it is only a slip.
        values: for the texts.
    """

    part: str
    idea: str | None
    values: dict[str, Any]


def faults(record: Mapping[str, Any], problems: list[str], kind: str, facts: Mapping[str, Any]) -> list[Fault]:
    """All in which a record does not hold, what matters most first.

    Args:
        record: its plain values, checked for nothing.
        problems: why the library does not take it; empty where it does.
        kind: of the story.
        facts: of the story.
    """
    return [
        *_kind(record, kind),
        *_question(record),
        *_boundary(_table(record, "boundary"), facts["boundary"]),
        *_unit(record, facts),
        *_difference(_table(record, "conditions"), facts),
        *_conditions(_table(record, "conditions"), facts),
        *([Fault("record", None, {"problem": problems[0]})] if problems else []),
    ]


def _table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _kind(record: Mapping[str, Any], kind: str) -> Iterator[Fault]:
    given = record.get("kind")
    if given in ("training", "inference") and given != kind:
        yield Fault("boundary", "wrong-kind", {"given": given})


_FORMS = {"wish": "wish-as-question", "vague": "vague-question", "several": "several-questions"}


def _question(record: Mapping[str, Any]) -> Iterator[Fault]:
    asked = record.get("question")
    if not isinstance(asked, str) or not asked.strip():
        yield Fault("question", None, {"problem": "there is no question in it"})
    elif (form := asking.form_of(asked)) != "question":
        yield Fault("question", _FORMS[form], {})


def _boundary(stated: Mapping[str, Any], wanted: Mapping[str, bool]) -> Iterator[Fault]:
    left_out = [part for part in wanted if wanted[part] and stated.get(part) is not True]
    counted = [part for part in wanted if not wanted[part] and stated.get(part) is True]
    if "model_load" in counted:
        yield Fault("boundary", "model-load-in-request", {})
    if "update" in left_out:
        yield Fault("boundary", "update-left-out", {})
    if "read" in left_out:
        yield Fault("boundary", "reading-left-out", {})
    if {"backward", "update"} & set(counted):
        yield Fault("boundary", "training-parts-in-request", {})
    for idea, parts in (("part-left-out", left_out), ("outside-counted", counted)):
        if parts:
            yield Fault("boundary", idea, {"parts": " and ".join(scenario.PARTS[part] for part in parts)})


def _unit(record: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Fault]:
    given = record.get("unit")
    if given != facts["unit"]:
        known = isinstance(given, str)
        yield Fault(
            "unit", "unit-cannot-answer" if known else None, {"unit": given, "problem": "there is no unit in it"}
        )


_DENIAL = re.compile(
    r"(no|none|nothing|not at all|no(thing)? (difference|differences|different)|(it )?(does not|doesn't)( differ)?"
    r"|(it is )?(the )?(same|identical)( (?!but|except|only|with)\w+){0,4}|(it is )?(the )?full load|n/?a"
    r"|unknown|todo.*|\W*)\W*"
)
"""What stands in the field and states no difference."""


def states_a_difference(text: Any) -> bool:
    """Whether a text says in what a scene differs; a text with a number in it is never taken for a denial."""
    if not isinstance(text, str):
        return False
    said = " ".join(text.lower().split())
    return any(character.isdigit() for character in said) or not _DENIAL.fullmatch(said)


def _difference(conditions: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Fault]:
    of_the_full_load = conditions.get("batch") == facts["full_batch"]
    if of_the_full_load or not states_a_difference(conditions.get("differs_from_full_load")):
        yield Fault("difference", "scene-as-full-load", {})


def _conditions(stated: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Fault]:
    holds: dict[str, Callable[[Any], bool]] = {
        "shapes": lambda given: shapes_hold(given, facts["shapes"]),
        "batch": lambda given: given == facts["batch"],
        "precision": lambda given: precision_of(given) == {facts["precision"]},
        "mode": lambda given: given == facts["mode"],
        "compiled": lambda given: given is facts["compiled"],
        "data_source": lambda _: True,
    }
    if facts["loader_workers"] is not None:
        holds["loader_workers"] = lambda given: given == facts["loader_workers"]
    missing = [name for name in holds if stated.get(name) in (None, "", [])]
    wrong = [name for name in holds if name not in missing and not holds[name](stated[name])]
    for idea, names in (("conditions-contradict", wrong), ("conditions-not-stated", missing)):
        if names:
            yield Fault("conditions", idea, {"names": ", ".join(names)})


def shapes_hold(given: Any, wanted: list[list[int]]) -> bool:
    """Whether stated shapes are the scene's: its first input is among them, and nothing that is no input of it.

    However they are written ("48x3x96x96", "[48, 3, 96, 96]", "images 48 x 96 x 96 x 3"), in any order of dimensions,
    with the batch or without.
    """
    main = wanted[0]
    allowed = [sorted(one) for one in [*wanted, main[1:]]]
    stated = [sorted(shape) for text in (given if isinstance(given, list) else [given]) for shape in _shapes_in(text)]
    return any(one in (allowed[0], allowed[-1]) for one in stated) and all(one in allowed for one in stated)


def _shapes_in(text: Any) -> list[list[int]]:
    bare = re.sub(r"(?<![a-z0-9])[a-z]*(float|bfloat|bf|fp|int|uint)\d+", " ", str(text).lower())
    joined = re.findall(r"\d+(?:\s*[x\u00d7*]\s*\d+)+", bare) or [bare]
    found = [[int(number) for number in re.findall(r"\d+", one)] for one in joined]
    return [one for one in found if one]


_PRECISIONS = {
    "float32": {"float32", "fp32", "f32", "single"},
    "bfloat16": {"bfloat16", "bf16"},
    "float16": {"float16", "fp16", "f16", "half"},
}


def precision_of(text: Any) -> set[str]:
    """Which precisions a text names."""
    words = set(re.findall(r"[a-z]+\d*", str(text).lower()))
    return {name for name, written in _PRECISIONS.items() if words & written}
