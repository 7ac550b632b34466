"""What judges have in common: verdicts in the usual forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepprof_lab.grading.model import Bar, Evidence, Part, Picture, Said, Verdict


def not_run(item: str, of: float, evidence: Sequence[Evidence]) -> Verdict | None:
    """The verdict where there is nothing to judge: not answered yet, or the answer raised; else None."""
    for one in evidence:
        if one.unanswered:
            return _verdict(item, 0, of, evidence, said=[Said(key="common.unanswered")])
        if one.error is not None:
            return _verdict(item, 0, of, evidence, said=[Said(key="common.error", values={"error": one.error})])
    return None


def no_number(item: str, of: float, evidence: Sequence[Evidence]) -> Verdict:
    """No points: a number was asked for, and something else came back (``kind`` of the evidence says what)."""
    kind = next(one.data.get("kind", "something else") for one in evidence if one.data.get("value") is None)
    return _verdict(item, 0, of, evidence, said=[Said(key="common.not_a_number", values={"kind": kind})])


def right(item: str, of: float, evidence: Sequence[Evidence], *said: Said, picture: Picture | None = None) -> Verdict:
    """Full points, and what was right."""
    return _verdict(item, of, of, evidence, said=list(said), picture=picture)


def wrong(
    item: str,
    of: float,
    evidence: Sequence[Evidence],
    *,
    idea: str | None,
    values: dict[str, Any] | None = None,
    points: float = 0,
    parts: Sequence[Part] = (),
    picture: Picture | None = None,
) -> Verdict:
    """What the answer shows, and one hint; both from the catalogue's entry of the idea.

    Args:
        item: its id.
        of: its points.
        evidence: of the check.
        idea: the misconception; None gives the lab's ``unknown`` entry, or the common one.
        values: for the texts.
        points: earned all the same.
        parts: of the item.
        picture: the numbers side by side.
    """
    from stepprof_lab.grading import catalogue

    lab = item.split("/", maxsplit=1)[0]
    name = item.split("/", maxsplit=1)[1]
    # An idea that shows in different items may have words of its own in one of them.
    own = [f"{lab}.idea.{idea}.{name}", f"{lab}.idea.{idea}"]
    candidates = own if idea else [f"{lab}.unknown.{name}", "common.unknown"]
    key = next(one for one in candidates if catalogue.find(f"{one}.seen") is not None)
    said = [Said(key=f"{key}.seen", values=values or {}), Said(key=f"{key}.hint", values=values or {})]
    return _verdict(item, points, of, evidence, misconception=idea, said=said, parts=list(parts), picture=picture)


def three_steps(before: str, times: Mapping[str, float]) -> Picture:
    """The learner's step, the library's own and the one that both began with, in ms a step.

    Args:
        before: key of the third one's name.
        times: by the names "yours", "reference" and "before".
    """
    bars = [
        Bar(name="yours", value=times["yours"], kind="yours"),
        Bar(name="reference", value=times["reference"], kind="reference"),
        Bar(name=before, value=times["before"]),
    ]
    return Picture(unit="ms a step", bars=bars)


def undecided(item: str, of: float, evidence: Sequence[Evidence], reason: Said) -> Verdict:
    """No verdict: the machine cannot hold what the check needs."""
    return _verdict(item, 0, of, evidence, said=[reason], undecided=True)


def _verdict(item: str, points: float, of: float, evidence: Sequence[Evidence], **more: Any) -> Verdict:
    where: dict[str, Any] = {"device": evidence[0].device, "origin": evidence[0].origin} if evidence else {}
    return Verdict(item=item, points=points, of=of, **where, **more)
