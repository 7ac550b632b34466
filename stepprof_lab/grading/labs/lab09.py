"""Lab 09, cost and privacy: what shapes, memory and stacks cost, and a trace made fit to share.

The cost is measured live: the learner's function times a step that logs itself (`stepprof_lab.grading.tracing`), inside
profilers with different options and outside of any. The trace that is to be shared is constructed, with secrets planted
in it (`planted`); a copy is judged by what it still gives away and by what it still says.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from stepprof_lab.grading import catalogue, choices, judging, plain, sorting, tracing
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.labs import planted
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import call
from stepprof_lab.grading.sorting import Thing

# ---- which option a question needs ----

NEEDS: sorting.Words = {
    "none": ("no option", "nothing", "no"),
    "shapes": ("shape", "record shapes"),
    "memory": ("mem", "profile memory"),
    "stacks": ("stack", "with stack"),
    "all": ("everything", "all three"),
}
_FOR_NOTHING = dict.fromkeys(("shapes", "memory", "stacks", "all"), "options-are-free")


def _needing(word: str) -> Thing:
    others = {other: "option-confused" for other in ("shapes", "memory", "stacks") if other != word}
    return Thing(word, {"all": "options-are-free", "none": "option-missing", **others})


QUESTIONS: Mapping[str, Thing] = {
    "wait": Thing("none", _FOR_NOTHING),
    "launches": Thing("none", _FOR_NOTHING),
    "sizes": _needing("shapes"),
    "line": _needing("stacks"),
    "allocations": _needing("memory"),
}

# ---- what an option costs ----

FEWEST = 8
"""Steps inside and steps outside, each without the very first one; the lab asks for at least 20."""
NEAR = 0.1
"""Relative. A ratio is compared with what honest ways give for the logged steps; the step's own clock leaves out the
call itself, which is some microseconds of a millisecond."""
SAME = 0.03
"""Relative. So near a number that an idea gives for the logged steps, an answer may be made by this idea: on two cores
under a load of 8 nine wrong answers were within 0.01 of their idea's numbers, but for one (0.034)."""
FAR = 0.25
"""Relative. Outside of all that is honest, an idea's numbers show it within this. On a disturbed machine this is so for
numbers that are `CLEAR` of it alone, and `NEAR` counts for the others."""
SPREAD = 1.6
"""Where honest ways differ by more than this factor, the machine was disturbed while the learner timed."""
CLEAR = 2.0
"""By this factor outside of all that is honest, a number is surely no honest one, whatever the machine did."""
AGREES = 2.5
"""By this factor at most the logged steps' ratio may differ from the library's own, both in processor time. On two
cores under a load of 7 they differed by 2.2 at the most (24 pairs), and by less than 1.6 in 21 of them."""

COST_POINTS = 4.0
RIGHT, UNDECIDED, UNKNOWN = "right", "undecided", "unknown"

Seen = Mapping[str, Any]


def _draw_cost(chance: random.Random) -> Case:
    return {"plan": tracing.plan(chance), "asked": ["none", *chance.sample(["shapes", "memory", "stacks"], 2)]}


def _probe_cost(answer: Any, case: Case) -> Evidence:
    tracing.ready()
    return Evidence(data={"seen": [_measured(answer, case["plan"], name) for name in case["asked"]]})


def _measured(answer: Any, planned: tracing.Plan, name: str) -> dict[str, Any]:
    """One call of the learner's function: its number, the log of the step, and the library's own ratio."""
    sessions = tracing.Sessions()
    step = tracing.Step(planned, sessions)
    with sessions.watching():
        found = call(answer, step, dict(tracing.OPTIONS[name]))
    return {
        "asked": name,
        "value": plain.number(found),
        "kind": type(found).__name__[:60],
        "log": step.log[: plain.MOST_VALUES],
        "left_on": sessions.left_on,
        "sessions": [{"options": one["options"], "ms": one["ms"]} for one in sessions.seen[:1000]],
        "reference": tracing.reference(planned, name),
    }


def design(seen: Seen) -> str | None:
    """The misconception in how it was timed for one set of options, by the log alone; None where it was timed well."""
    log, name = seen["log"], seen["asked"]
    traced = [one["options"] for one in log if one["options"] is not None]
    if not log:
        return "not-measured"
    if not traced:
        return "never-traced"
    wanted = set(tracing.OPTIONS[name])
    if not any(set(options) in (wanted, {"unknown"}) for options in traced):
        return "more-options-on" if any(wanted < set(options) for options in traced) else "option-not-on"
    if seen["left_on"]:
        return "profiler-left-on"
    inside, outside = tracing.inside(log, name), tracing.outside(log)
    if not outside:
        return "baseline-inside"
    return "few-steps" if min(len(inside), len(outside)) < FEWEST else None


def number(seen: Sequence[Seen]) -> str:
    """What the numbers show where the timing is as it should be: `RIGHT`, `UNDECIDED`, `UNKNOWN` or a misconception.

    Whoever computes it in a wrong way does so for every set of options: an idea has to give all numbers.
    """
    if any(one["value"] <= 0 for one in seen):
        return UNKNOWN
    honest = [tracing.honest(one["log"], one["asked"]) for one in seen]
    disturbed = any(max(ratios) > SPREAD * min(ratios) for ratios in honest)
    idea, away = _nearest_idea(seen)
    if all(
        min(ratios) * (1 - NEAR) <= one["value"] <= max(ratios) * (1 + NEAR)
        for one, ratios in zip(seen, honest, strict=True)
    ):
        is_open = (disturbed and away <= SAME) or not all(_agrees(one) for one in seen)
        return UNDECIDED if is_open else RIGHT
    is_clear = all(
        not min(ratios) / CLEAR <= one["value"] <= max(ratios) * CLEAR for one, ratios in zip(seen, honest, strict=True)
    )
    if away <= (FAR if is_clear or not disturbed else NEAR):
        return idea or UNKNOWN
    return UNDECIDED if disturbed else UNKNOWN


def _nearest_idea(seen: Sequence[Seen]) -> tuple[str | None, float]:
    """The idea whose numbers are the nearest to all answers, and how far the farthest of them is away."""
    nearest: list[dict[str, float]] = []
    for one in seen:
        away: dict[str, float] = {}
        for idea, wanted in tracing.mistaken(one["log"], one["sessions"], one["asked"]):
            away[idea] = min(away.get(idea, math.inf), tracing.distance(one["value"], wanted))
        nearest.append(away)
    common = set.intersection(*(set(away) for away in nearest))
    found = {idea: max(away[idea] for away in nearest) for idea in common}
    return min(found.items(), key=lambda one: one[1], default=(None, math.inf))


def _agrees(seen: Seen) -> bool:
    """Whether the logged steps give the ratio that the library's own steps give."""
    ratio, reference = tracing.ratio_by_processor(seen["log"], seen["asked"]), seen["reference"]
    if ratio is None or not reference > 0:
        return True
    return tracing.distance(ratio, reference) <= math.log(AGREES)


DESIGN_ORDER: Sequence[str] = (
    "not-measured",
    "never-traced",
    "option-not-on",
    "more-options-on",
    "profiler-left-on",
    "baseline-inside",
    "few-steps",
)
"""Of several misconceptions the first that matters."""


def _judge_cost(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:  # noqa: ARG001 - one form for all
    ident, of = "09/cost", COST_POINTS
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    seen = [one for each in evidence for one in each.data["seen"]]
    if (odd := next((one for one in seen if one["value"] is None), None)) is not None:
        return judging.no_number(ident, of, [Evidence(data={"value": None, "kind": odd["kind"]})])
    faults = [(design(one), one) for one in seen]
    first = min((DESIGN_ORDER.index(fault) for fault, _ in faults if fault), default=None)
    shown = number(seen) if first is None else DESIGN_ORDER[first]
    if shown == RIGHT:
        return judging.right(ident, of, evidence, Said(key="09.right.cost"), picture=_picture(seen))
    if shown == UNDECIDED:
        return judging.undecided(ident, of, evidence, Said(key="09.undecided.cost"))
    worst = next((one for fault, one in faults if fault == shown), seen[-1])
    idea = None if shown == UNKNOWN else shown
    return judging.wrong(ident, of, evidence, idea=idea, values=_cost_values(worst), picture=_picture([worst]))


def _cost_values(seen: Seen) -> dict[str, Any]:
    on = sorted({", ".join(one["options"]) or "no options" for one in seen["log"] if one["options"] is not None})
    return {
        "yours": f"{seen['value']:.3g}",
        "asked": ", ".join(tracing.OPTIONS[seen["asked"]]) or "no options",
        "on": " and ".join(on),
        "inside": len(tracing.inside(seen["log"], seen["asked"])),
        "outside": len(tracing.outside(seen["log"])),
    }


def _picture(seen: Sequence[Seen]) -> Picture:
    """Of the set of options that costs the most by the library's own measurement."""
    one = max(seen, key=lambda each: each["reference"] if each["reference"] > 0 else 0.0)
    bars = [Bar(name="yours", value=one["value"], kind="yours"), Bar(name="09.bar.outside", value=1.0)]
    if one["reference"] > 0:
        bars.insert(1, Bar(name="reference", value=one["reference"], kind="reference"))
    return Picture(unit="times a step outside", bars=bars)


# ---- what may be quoted from a traced run ----

QUOTED: sorting.Words = {
    "holds": ("hold", "yes", "can be quoted", "quote"),
    "measure outside": ("outside", "no", "measure", "only outside"),
}
_TIME = {"holds": "traced-time-quoted"}
_COUNT = {"measure outside": "nothing-holds"}

SENTENCES: Mapping[str, Thing] = {
    "time": Thing("measure outside", _TIME),
    "faster": Thing("measure outside", {"holds": "compared-inside"}),
    "divided": Thing("measure outside", {"holds": "one-factor-for-all"}),
    "calls": Thing("holds", _COUNT),
    "sizes": Thing("holds", _COUNT),
}


def _draw_quoted(chance: random.Random) -> dict[str, Any]:
    traced = round(chance.uniform(9.0, 16.0), 1)
    return {
        "traced_ms": traced,
        "divided_ms": round(traced / 2.4, 1),
        "other_ms": round(traced * chance.uniform(0.78, 0.88), 1),
        "calls": chance.randint(60, 240),
        "rows": chance.choice([48, 96, 160]),
        "columns": chance.choice([256, 384, 768]),
    }


# ---- what a trace gives away ----

TRACE = "09/trace"
"""The purpose that both items about the trace draw from."""

GOES: sorting.Words = {"goes": ("go", "remove", "out", "replace"), "stays": ("stay", "keep", "kept")}
_HIDDEN = {"goes": "everything-hidden"}
_NAMELESS = {"stays": "no-names-so-anonymous"}

PIECES: Mapping[str, Thing] = {
    "label_input": Thing("goes", {"stays": "secrets-in-labels"}),
    "host": Thing("goes", {"stays": "head-forgotten"}),
    "frame": Thing("goes", {"stays": "paths-in-stacks"}),
    "digest": Thing("goes", _NAMELESS),
    "serial": Thing("goes", _NAMELESS),
    "moment": Thing("goes", _NAMELESS),
    "label_step": Thing("stays", _HIDDEN),
    "duration": Thing("stays", _HIDDEN),
}

# ---- a copy that is fit to share ----

FIT_PARTS: Mapping[str, float] = {"gone": 3, "same": 2}


def _probe_fit(answer: Any, case: Case) -> Evidence:
    words = case["words"]
    original = planted.trace(words)
    found = plain.data(call(answer, copy.deepcopy(original), planted.private(words)))
    if not isinstance(found, dict):
        raise TypeError("a trace (a dict with traceEvents) was expected")
    data = {
        "left": planted.left(words, found),
        "planted": planted.left(words, original),
        "compared": planted.compared(original, found),
    }
    return Evidence(data=data, origin="constructed")


def leak(left: Sequence[Sequence[str]], planted_there: Sequence[Sequence[str]]) -> str | None:
    """The first mistake that matters about what is still in a copy; None where nothing is."""
    if left and len(left) == len(planted_there):
        return "nothing-removed"
    named = {(name, place) for name, place in left if name not in planted.NAMELESS}
    places = {place for _, place in named}
    if "label" in places:
        return "secrets-in-labels"
    if "label on the GPU" in places:
        return "label-on-gpu-forgotten"
    if any(place == "head" and name != "note" for name, place in named):
        return "head-forgotten"
    if "stack" in places:
        return "paths-in-stacks"
    if "name" in places:
        return "kernel-name-kept"
    if named:
        return "unknown-keys-kept"
    return "no-names-so-anonymous" if left else None


def change(compared: Mapping[str, Any]) -> str | None:
    """The mistake that a copy shows which does not say the same any more; None where it does."""
    if compared["refused"] is not None:
        return "no-trace-left"
    if not compared["differs"]:
        return None
    if compared["differs"] == ["origin"]:
        return "origin-lost"
    if compared["missing_events"] > 0:
        return "events-thrown-away"
    before, after = compared["labels"]
    return "labels-merged" if after < before else "numbers-changed"


def _judge_fit(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "09/fit", sum(FIT_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    for case, one in zip(cases, evidence, strict=True):
        left, compared = one.data["left"], one.data["compared"]
        given_away, changed = leak(left, one.data["planted"]), change(compared)
        if given_away is None and changed is None:
            continue
        gone = given_away is None and changed != "no-trace-left"
        same = changed is None and given_away != "nothing-removed"
        parts = [
            Part(id=name, points=of_ if held else 0, of=of_)
            for (name, of_), held in zip(FIT_PARTS.items(), (gone, same), strict=True)
        ]
        # A copy that is no trace at all has lost more than its secrets.
        idea = changed if changed == "no-trace-left" else given_away or changed
        return judging.wrong(
            ident,
            of,
            evidence,
            idea=idea,
            values=_fit_values(left, compared, case),
            points=sum(part.points for part in parts),
            parts=parts,
        )
    return judging.right(ident, of, evidence, Said(key="09.right.fit"))


def _fit_values(left: Sequence[Sequence[str]], compared: Mapping[str, Any], case: Case) -> dict[str, Any]:
    before, after = compared["labels"]
    return {
        "count": len(left),
        "of": len(planted.left(case["words"], planted.trace(case["words"]))),
        "differs": ", ".join(compared["differs"]) or "nothing",
        "missing": max(0, compared["missing_events"]),
        "labels": before,
        "labels_left": after,
        "refused": compared["refused"] or "",
    }


# ---- what is decided ----

DECIDE_IDEAS: Mapping[str, str | None] = {
    "all": "options-are-free",
    "traced": "traced-time-quoted",
    "renamed": "no-names-so-anonymous",
    "emptied": "everything-hidden",
}


def _draw_decide(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, ("fit", *DECIDE_IDEAS)), "right": "fit"}


# ---- the lab ----

_OPTIONS = sorting.item("09/options", QUESTIONS, NEEDS)
_QUOTED = sorting.item("09/quoted", SENTENCES, QUOTED, values=_draw_quoted)
_GIVES_AWAY = dataclasses.replace(sorting.item("09/gives_away", PIECES, GOES, values=planted.draw), numbers_of=TRACE)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: questions, a step to measure, sentences, and a trace with its private words."""
    planned = tracing.plan(own_numbers("09/material"))
    words = planted.draw(own_numbers(TRACE))
    decide = _draw_decide(own_numbers("09/decide"))
    return {
        "questions": sorting.asked(_OPTIONS.draw(own_numbers("09/options")), "09.say.options"),
        "new_step": lambda: tracing.Step(planned),
        "options": {name: dict(on) for name, on in tracing.OPTIONS.items()},
        "sentences": sorting.asked(_QUOTED.draw(own_numbers("09/quoted")), "09.say.quoted"),
        "pieces": sorting.asked(_GIVES_AWAY.draw(own_numbers(TRACE)), "09.say.gives_away"),
        "new_trace": lambda: planted.trace(words),
        "private": planted.private(words),
        "read": planted.read,
        "choices": {letter: catalogue.text(f"09.option.{name}") for letter, name in decide["options"].items()},
    }


LAB = Lab(
    number="09",
    name="09-cost-and-privacy",
    minutes=45,
    seconds=20,
    gpu="none",
    gpu_memory_mb=0,
    origins=("live", "constructed"),
    material=material,
    items=(
        choices.prediction("09/prediction", "abcd"),
        _OPTIONS,
        Item(id="09/cost", points=COST_POINTS, draw=_draw_cost, probe=_probe_cost, judge=_judge_cost, hidden=1),
        _QUOTED,
        _GIVES_AWAY,
        Item(
            id="09/fit",
            points=sum(FIT_PARTS.values()),
            draw=lambda chance: {"words": planted.draw(chance)},
            probe=_probe_fit,
            judge=_judge_fit,
            hidden=2,
            numbers_of=TRACE,
        ),
        choices.one_of("09/decide", 1, _draw_decide, DECIDE_IDEAS),
    ),
)
