"""Items that ask for one letter: predictions, and choices among sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepprof_lab.grading import judging, plain
from stepprof_lab.grading.items import Draw, Item, Judge
from stepprof_lab.grading.model import Case, Evidence, Said, Verdict
from stepprof_lab.grading.probing import Unanswered

LETTERS = "abcdefgh"


def letter(value: Any, letters: str) -> str | None:
    """The letter that a plain value means: "b", "B)", "(b)", "b, because ..."; None where it means none.

    Args:
        value: plain data.
        letters: those that may be chosen.
    """
    if not isinstance(value, str):
        return None
    alone = [one for one in re.findall(r"(?<![\w'])[a-z](?![\w'])", value.lower()) if one in letters]
    begins = re.match(r"\W*([a-z])(?![\w'])", value.lower())
    if begins and begins[1] in letters:
        return begins[1]
    return alone[0] if len(set(alone)) == 1 else None


def shuffled(chance: random.Random, options: Sequence[str]) -> dict[str, str]:
    """Options under letters, in an order of the learner's own: letter to option."""
    order = list(options)
    chance.shuffle(order)
    return dict(zip(LETTERS, order, strict=False))


def probe_letter(answer: Any, case: Case) -> Evidence:
    """The letter that was chosen; a case has ``options``, a dict by letter."""
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if found == "":
        raise Unanswered
    return Evidence(data={"choice": letter(found, "".join(case["options"]))}, origin="constructed")


def not_chosen(item: str, of: float, cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict | None:
    """The verdict where nothing was chosen that can be judged; else None."""
    if (early := judging.not_run(item, of, evidence)) is not None:
        return early
    if any(one.data["choice"] is None for one in evidence):
        said = Said(key="common.not_a_choice", values={"letters": ", ".join(cases[0]["options"])})
        return Verdict(item=item, points=0, of=of, said=[said], origin=evidence[0].origin)
    return None


def prediction(item: str, letters: str) -> Item:
    """A prediction: one point for any of the letters. It is kept, and shown again at the lab's end."""

    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        early = not_chosen(item, 1, cases, evidence)
        return early or judging.right(item, 1, evidence, Said(key=f"{item.replace('/', '.right.')}"))

    return Item(id=item, points=1, draw=lambda _: {"options": dict.fromkeys(letters)}, probe=probe_letter, judge=judge)


def one_of(item: str, points: float, draw: Draw, ideas: Mapping[str, str | None]) -> Item:
    """A choice among options of which the case's ``right`` one is asked for.

    Args:
        item: its id.
        points: for the right letter.
        draw: makes a case with ``options`` (letter to option) and ``right`` (an option).
        ideas: option to the misconception that choosing it shows.
    """
    return Item(id=item, points=points, draw=draw, probe=probe_letter, judge=_judge_of(item, points, ideas))


def _judge_of(item: str, points: float, ideas: Mapping[str, str | None]) -> Judge:
    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := not_chosen(item, points, cases, evidence)) is not None:
            return early
        for case, one in zip(cases, evidence, strict=True):
            chosen = case["options"][one.data["choice"]]
            if chosen != case["right"]:
                return judging.wrong(item, points, evidence, idea=ideas.get(chosen))
        return judging.right(item, points, evidence, Said(key=f"{item.replace('/', '.right.')}"))

    return judge
