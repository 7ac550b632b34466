"""Lab 01, ask first: choosing a question that one trace can answer, and writing the record that it belongs to.

The stories (`stories`) are drawn for the learner; a record is held against a story's facts (`records`).
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stepprof_lab import scenario
from stepprof_lab.grading import catalogue, choices, judging, plain
from stepprof_lab.grading.items import Item, Judge, Lab, OwnNumbers
from stepprof_lab.grading.labs import records, stories
from stepprof_lab.grading.model import Case, Evidence, Part, Said, Verdict
from stepprof_lab.grading.probing import Unanswered

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# ---- which question one trace answers ----

ANSWERABLE = {"training": ("waiting", "constant", "tiny"), "inference": ("copying", "longest", "launches")}

NOT_ANSWERABLE: Mapping[str, str | None] = {
    "wish": "wish-as-question",
    "vague": "vague-question",
    "several": "several-questions",
    "versions": "comparison-inside-profiler",
    "day": "distribution-from-four-steps",
    "rent": "offers-ranked",
}


def _draw_question(kind: str) -> Any:
    def draw(chance: random.Random) -> Case:
        right = chance.choice(ANSWERABLE[kind])
        options = [right, "wish", *chance.sample(sorted(set(NOT_ANSWERABLE) - {"wish"}), 4)]
        return {"options": choices.shuffled(chance, options), "right": right}

    return draw


def _question_item(kind: str) -> Item:
    return choices.one_of(f"01/{kind}_question", 1, _draw_question(kind), NOT_ANSWERABLE)


# ---- the records ----


def probe_record(answer: Any, _: Case) -> Evidence:
    """The record's plain values, and why the library would not take it."""
    if answer is None or answer is ... or (type(answer) is str and not answer.strip()):
        raise Unanswered
    try:
        record = _values_of(answer)
    except (ValueError, TypeError, RecursionError) as error:
        return Evidence(data={"record": None, "problems": [" ".join(str(error).split())[:300]]}, origin="constructed")
    return Evidence(data={"record": record, "problems": scenario.problems_of(record)}, origin="constructed")


def _values_of(answer: Any) -> dict[str, Any]:
    """TOML text, a Scenario, or a dict as the TOML would give it.

    Raises:
        ValueError: the text is no TOML.
        TypeError: it is none of these.
    """
    if type(answer) is str:
        answer = tomllib.loads(answer)
    elif type(answer) is scenario.Scenario:
        answer = msgspec.to_builtins(answer)
    found = plain.data(answer)
    if not isinstance(found, dict):
        raise TypeError(
            f"{found if isinstance(found, str) else type(answer).__name__} is neither TOML text nor a Scenario"
        )
    return found


def judge_record(ident: str, kind: str) -> Judge:
    """The judge of an item that asks for a scenario record; a case has the ``facts`` of its story."""
    of = sum(records.PARTS.values())

    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        record, problems = evidence[0].data["record"], evidence[0].data["problems"]
        if record is None:
            return judging.wrong(ident, of, evidence, idea=None, values={"problem": problems[0]})
        found = records.faults(record, problems, kind, cases[0]["facts"])
        if not found:
            return judging.right(ident, of, evidence, Said(key=ident.replace("/", ".right.")))
        failed = {fault.part for fault in found}
        parts = [Part(id=name, points=0 if name in failed else of_, of=of_) for name, of_ in records.PARTS.items()]
        points = sum(part.points for part in parts)
        first = next((fault for fault in found if fault.idea is not None), found[0])
        return judging.wrong(ident, of, evidence, idea=first.idea, values=first.values, points=points, parts=parts)

    return judge


def _record_item(kind: str) -> Item:
    return Item(
        id=f"01/{kind}",
        points=sum(records.PARTS.values()),
        draw={"training": stories.training, "inference": stories.inference}[kind],
        probe=probe_record,
        judge=judge_record(f"01/{kind}", kind),
    )


# ---- which results may stand side by side ----


def _draw_results(chance: random.Random) -> Case:
    """Five results of one loop, of which exactly two have the same boundary, batch and kind of number."""
    batch = chance.choice([16, 24, 32, 48])
    wall = round(chance.uniform(60, 120), 1)
    same: dict[str, Any] = {"number": "elapsed", "begins": "reading", "batch": batch}
    rows = [
        {**same, "ms": wall},
        {**same, "ms": round(wall * chance.uniform(0.7, 0.9), 1)},
        {
            **same,
            "ms": round(wall * chance.uniform(0.5, 0.65), 1),
            "begins": chance.choice(["transfer", "forward"]),
        },
        {**same, "ms": round(wall * chance.uniform(2.0, 3.0), 1), "number": "sum"},
        {**same, "ms": round(wall * chance.uniform(1.4, 1.8), 1), "batch": 2 * batch},
    ]
    chance.shuffle(rows)
    return {"rows": dict(zip(choices.LETTERS, rows, strict=False))}


DIFFERENCES = {"number": "sum-for-elapsed", "begins": "boundaries-differ", "batch": "batches-differ"}
"""What two rows can differ in, and the wrong idea that comparing them shows; what weighs most first."""


def _probe_pair(answer: Any, case: Case) -> Evidence:
    """The two letters: "a c", "ac", "a and c", ["c", "a"]."""
    if answer is None or answer is ... or answer == "":
        raise Unanswered
    found = plain.data(answer)
    text = " ".join(str(one) for one in found) if isinstance(found, list) else str(found)
    letters = "".join(case["rows"])
    close = re.fullmatch(rf"\W*([{letters}])\W*([{letters}])\W*", text.lower())
    alone = list(close.groups()) if close else re.findall(rf"(?<![\w'])[{letters}](?![\w'])", text.lower())
    pair = sorted(set(alone))
    return Evidence(data={"pair": pair if len(pair) == 2 else None}, origin="constructed")


def _judge_pair(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "01/comparable", 2
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    pair = evidence[0].data["pair"]
    if pair is None:
        return judging.wrong(ident, of, evidence, idea=None)
    one, other = (cases[0]["rows"][letter] for letter in pair)
    for name, idea in DIFFERENCES.items():
        if one[name] != other[name]:
            return judging.wrong(ident, of, evidence, idea=idea)
    return judging.right(ident, of, evidence, Said(key="01.right.comparable"))


# ---- what the scene cannot say ----

BLIND_IDEAS: Mapping[str, str | None] = {
    **dict.fromkeys(stories.BLIND_TO.values(), "blind-spot-missed"),
    "constant": "mechanism-doubted",
}


def _draw_blind(chance: random.Random) -> Case:
    story = stories.training(chance)
    options = choices.shuffled(chance, sorted(BLIND_IDEAS))
    told = [one for one in story["told"] if one[0].split(".")[3] in {"scene", "simpler"}]
    return {"options": options, "right": stories.BLIND_TO[story["simpler"]], "told": told}


# ---- the lab ----


def _rows_in_words(case: Case) -> dict[str, dict[str, Any]]:
    return {
        letter: row | {name: catalogue.text(f"01.option.{name}.{row[name]}") for name in ("number", "begins")}
        for letter, row in case["rows"].items()
    }


def _in_words(case: Case, group: str) -> dict[str, str]:
    return {letter: catalogue.text(f"01.option.{group}.{option}") for letter, option in case["options"].items()}


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: the stories and the options, in words."""
    blind = _draw_blind(own_numbers("01/blind_spot"))
    return {
        **{
            f"{kind}_questions": _in_words(_draw_question(kind)(own_numbers(f"01/{kind}_question")), kind)
            for kind in ANSWERABLE
        },
        "training": stories.in_words(stories.training(own_numbers("01/training"))),
        "inference": stories.in_words(stories.inference(own_numbers("01/inference"))),
        "results": _rows_in_words(_draw_results(own_numbers("01/comparable"))),
        "scene": stories.in_words(blind),
        "scene_questions": _in_words(blind, "blind"),
    }


LAB = Lab(
    number="01",
    name="01-ask-first",
    minutes=40,
    seconds=5,
    gpu="none",
    gpu_memory_mb=0,
    origins=("constructed",),
    material=material,
    items=(
        choices.prediction("01/prediction", "abcd"),
        _question_item("training"),
        _record_item("training"),
        _question_item("inference"),
        _record_item("inference"),
        Item(id="01/comparable", points=2, draw=_draw_results, probe=_probe_pair, judge=_judge_pair),
        choices.one_of("01/blind_spot", 2, _draw_blind, BLIND_IDEAS),
    ),
)
