"""Items that ask to sort things, each under a letter, into a few words ("once", "each step")."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stepprof_lab.grading import catalogue, choices, judging, plain
from stepprof_lab.grading.items import Item
from stepprof_lab.grading.model import Case, Evidence, Origin, Part, Said, Verdict
from stepprof_lab.grading.probing import Unanswered

Words = Mapping[str, Sequence[str]]
"""Each word, and how else it may begin in an answer; all in small letters."""


class Thing(NamedTuple):
    """One of the things.

    Args:
        right: the word that it belongs to.
        ideas: other words, and the misconception that each shows; None where it shows none.
    """

    right: str
    ideas: Mapping[str, str | None] = {}


def meant(value: Any, words: Words) -> str | None:
    """The word that a plain value means, whatever its case and spaces; None where it means none."""
    if not isinstance(value, str):
        return None
    said = " ".join(value.lower().replace("_", " ").replace("-", " ").split()).strip(" .!`'\"()")
    beginnings = [(begin, word) for word, others in words.items() for begin in (word, *others)]
    longest_first = sorted(beginnings, key=lambda one: -len(one[0]))
    return next((word for begin, word in longest_first if said.startswith(begin)), None)


def asked(case: Case, prefix: str) -> dict[str, str]:
    """The things in words, by letter, as a lab shows them.

    Args:
        case: from the item's `draw`.
        prefix: of the keys in the catalogue: "06.say.copies".
    """
    return {letter: catalogue.text(f"{prefix}.{name}", **case["values"]) for letter, name in case["letters"].items()}


def drawn(things: Mapping[str, Thing], values: Callable[[random.Random], dict[str, Any]]) -> Callable[..., Case]:
    """What draws a case: the values that stand in the texts, and the things in an order of the learner's own."""

    def draw(chance: random.Random) -> Case:
        found = values(chance)
        return {"values": found, "letters": choices.shuffled(chance, sorted(things))}

    return draw


def item(
    ident: str,
    things: Mapping[str, Thing],
    words: Words,
    *,
    values: Callable[[random.Random], dict[str, Any]] = lambda _: {},
    each: float = 0.5,
    origin: Origin = "constructed",
) -> Item:
    """An item that is answered by a dict from letter to word.

    Args:
        ident: its id.
        things: by name; where several are wrong, the first one's misconception is named.
        words: what they are sorted into.
        values: what stands in the texts, drawn for each learner.
        each: points for each.
        origin: of what is sorted.
    """
    of = each * len(things)

    def probe(answer: Any, _: Case) -> Evidence:
        if answer is None or answer is ...:
            raise Unanswered
        found = plain.data(answer)
        if not isinstance(found, dict):
            raise TypeError(f"a dict from letter to word was expected, not a {type(answer).__name__}")
        if all(value is None for value in found.values()):
            raise Unanswered
        return Evidence(data={"answer": {key.strip().lower(): one for key, one in found.items()}}, origin=origin)

    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        letter_of = {name: letter for letter, name in cases[0]["letters"].items()}
        given = {name: meant(evidence[0].data["answer"].get(letter), words) for name, letter in letter_of.items()}
        missed = [name for name, thing in things.items() if given[name] != thing.right]
        if not missed:
            return judging.right(ident, of, evidence, Said(key=ident.replace("/", ".right.")))
        shown = [things[name].ideas.get(given[name] or "") for name in missed]
        wrong = {letter_of[name] for name in missed}
        parts = [
            Part(id=letter, points=0 if letter in wrong else each, of=each) for letter in sorted(cases[0]["letters"])
        ]
        return judging.wrong(
            ident,
            of,
            evidence,
            idea=next((idea for idea in shown if idea), None),
            values={"letters": ", ".join(sorted(wrong))},
            points=sum(part.points for part in parts),
            parts=parts,
        )

    return Item(id=ident, points=of, draw=drawn(things, values), probe=probe, judge=judge)
