"""Lab 11, not observed: reading captures without GPU events, and saying what can and cannot be said.

The captures (`captures`) are constructed and read by the interpreter, with numbers of the learner's own.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stepprof_lab.grading import catalogue, choices, ideas, judging, plain
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.labs import captures
from stepprof_lab.grading.model import Case, Evidence, Part, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call

# ---- sentences about a capture ----


class Sentence(NamedTuple):
    """What the trace says of a sentence.

    Args:
        holds: "can" (an event shows it), "false" (an event contradicts it), "cannot" (there is neither).
        ideas: for each other answer the misconception that it shows; None where it shows none.
    """

    holds: str
    ideas: Mapping[str, str | None]


_SHOWN = {"cannot": "everything-doubted", "false": "everything-doubted"}

SENTENCES: Mapping[str, Mapping[str, Sentence]] = {
    "no_events": {
        "zero": Sentence("false", {"can": "zero-for-missing", "cannot": None}),
        "idle": Sentence("cannot", {"can": "no-event-no-work", "false": "certainty-without-events"}),
        "launched": Sentence("can", _SHOWN),
        "read": Sentence("can", _SHOWN),
    },
    "cpu_alone": {
        "looked": Sentence("false", {"can": "cpu-record-as-gpu-analysis", "cannot": None}),
        "same_on_gpu": Sentence("cannot", {"can": "cpu-record-as-gpu-analysis", "false": "certainty-without-events"}),
        "no_gpu": Sentence("cannot", {"can": "no-event-no-work", "false": "certainty-without-events"}),
        "longest": Sentence("can", _SHOWN),
    },
    "some_events": {
        "whole": Sentence("false", {"can": "part-for-whole", "cannot": None}),
        "idle": Sentence("cannot", {"can": "no-event-no-work", "false": "certainty-without-events"}),
        "missing": Sentence("can", {"cannot": "everything-doubted", "false": "part-for-whole"}),
        "at_least": Sentence("can", _SHOWN),
    },
    "all_events": {
        "no_work": Sentence("can", {"cannot": "observed-zero-doubted", "false": None}),
        "cause": Sentence("cannot", {"can": "cause-from-observation", "false": "certainty-without-events"}),
        "share": Sentence("can", _SHOWN),
        "missing": Sentence("false", {"can": "wrong-way-round", "cannot": "observed-zero-doubted"}),
    },
}
"""By kind of capture; the order is that in which misconceptions are named."""

SENTENCE_POINTS = 0.5


def _draw_sentences(kind: str) -> Callable[[random.Random], Case]:
    def draw(chance: random.Random) -> Case:
        values = _values(captures.as_data(captures.analysis(kind, chance)))
        return {"letters": choices.shuffled(chance, sorted(SENTENCES[kind])), "values": values}

    return draw


def _values(analysis: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that sentences quote, as far as the analysis has them."""
    steps, evidence = analysis["steps"], {one["id"]: one["evidence"] for one in analysis["findings"]}
    found: dict[str, Any] = {
        "read_ms": f"{analysis['labels']['read_batch']['cpu_us'] / 1000:.2f}",
        "longest_ms": f"{max(step['cpu_us'] for step in steps) / 1000:.2f}",
    }
    if (none_seen := evidence.get("gpu-not-observed")) is not None:
        found["launches"] = sum(none_seen["launch_calls"].values())
    if analysis["gpu"]["observed"]:
        busy = sum(step["gpu_busy_in_window_us"] for step in steps)
        found["busy_ms"] = f"{int(busy / 100) / 10:.1f}"
        found["percent"] = round(100 * busy / sum(step["cpu_us"] for step in steps))
        found["step"] = next(step["name"] for step in steps if step["gpu_events_launched"] == 0)
    if (partly := evidence.get("gpu-partly-observed")) is not None:
        found |= {"lost": partly["launches_without_work"], "launches": partly["launches"]}
    return found


def _in_words(kind: str, case: Case) -> dict[str, str]:
    return {
        letter: catalogue.text(f"11.say.{kind}.{name}", **case["values"]) for letter, name in case["letters"].items()
    }


def verdict_meant(value: Any) -> str | None:
    """Which of can, cannot and false is meant ("can be said", "Can't", "is false", False); None where it is none."""
    if value is False:
        return "false"
    if not isinstance(value, str):
        return None
    said = " ".join(value.lower().replace("\u2019", "'").split()).strip(" .!`'\"")
    if said.startswith(("cannot", "can not", "can't", "cant", "not observed", "unknown")):
        return "cannot"
    if said.startswith("can"):
        return "can"
    return "false" if said.startswith(("false", "is false", "it is false", "wrong")) else None


def _probe_answers(answer: Any, _: Case) -> Evidence:
    """A dict by letter, or by capture, as plain data with small letters as keys."""
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if not isinstance(found, dict) or all(value is None for value in found.values()):
        raise Unanswered
    return Evidence(data={"answer": {key.strip().lower(): one for key, one in found.items()}}, origin="constructed")


def _judge_sentences(kind: str) -> Callable[[Sequence[Case], Sequence[Evidence]], Verdict]:
    ident, of = f"11/{kind}", SENTENCE_POINTS * len(SENTENCES[kind])

    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        letter_of = {name: letter for letter, name in cases[0]["letters"].items()}
        given = {name: verdict_meant(evidence[0].data["answer"].get(letter)) for name, letter in letter_of.items()}
        missed = [name for name, sentence in SENTENCES[kind].items() if given[name] != sentence.holds]
        if not missed:
            return judging.right(ident, of, evidence, Said(key=f"11.right.{kind}"))
        shown = [SENTENCES[kind][name].ideas.get(given[name] or "") for name in missed]
        parts = [
            Part(id=letter, points=0 if letter in {letter_of[name] for name in missed} else SENTENCE_POINTS, of=0.5)
            for letter in sorted(letter_of.values())
        ]
        return judging.wrong(
            ident,
            of,
            evidence,
            idea=next((idea for idea in shown if idea), None),
            values={"letters": ", ".join(sorted(letter_of[name] for name in missed))},
            points=sum(part.points for part in parts),
            parts=parts,
        )

    return judge


def _sentence_item(kind: str) -> Item:
    return Item(
        id=f"11/{kind}",
        points=SENTENCE_POINTS * len(SENTENCES[kind]),
        draw=_draw_sentences(kind),
        probe=_probe_answers,
        judge=_judge_sentences(kind),
    )


# ---- gpu_share ----

TOLERANCE = 0.002
"""Relative. The shares are arithmetic on exact numbers: only rounding may differ."""

MISSING = ("no_events", "cpu_alone", "no_launches")
OBSERVED = ("all_events", "nothing_in_window", "two_streams")
SHARE_PARTS: Mapping[str, float] = {"not observed": 2, "observed in part": 1, "observed": 1}

Share = Callable[[Mapping[str, Any]], float]


def _over_steps(analysis: Mapping[str, Any], key: str) -> float:
    return float(sum(step[key] for step in analysis["steps"]))


def share(analysis: Mapping[str, Any]) -> float:
    """Of the steps' time, the part in which the GPU was at work; only where it was observed."""
    return _over_steps(analysis, "gpu_busy_in_window_us") / _over_steps(analysis, "cpu_us")


SHARE_IDEAS: Mapping[str, Share] = {
    "launched-for-busy": lambda one: _over_steps(one, "gpu_launched_us") / _over_steps(one, "cpu_us"),
    "foreign-left-out": lambda one: (
        share(one) - _over_steps(one, "gpu_foreign_in_window_us") / _over_steps(one, "cpu_us")
    ),
    "sum-for-busy": lambda one: one["gpu"]["sum_us"] / _over_steps(one, "cpu_us"),
    "whole-trace": lambda one: one["gpu"]["busy_us"] / _over_steps(one, "cpu_us"),
    "span-of-events": lambda one: one["gpu"]["busy_us"] / one["gpu"]["span_us"],
    "shares-averaged": lambda one: (
        sum(step["gpu_busy_in_window_us"] / step["cpu_us"] for step in one["steps"]) / len(one["steps"])
    ),
    "units-mixed": lambda one: 100 * share(one),
}
SAME_IDEA = {"foreign-left-out": "launched-for-busy", "whole-trace": "other-window", "span-of-events": "other-window"}
"""Ideas that give other numbers and are the same misconception."""


def _draw_shares(chance: random.Random) -> Case:
    """One capture of each kind, on which the wrong ideas and the right one differ in at least one of the observed."""
    while True:
        kinds = [*MISSING, "some_events", *OBSERVED]
        chance.shuffle(kinds)
        made = {kind: captures.as_data(captures.analysis(kind, chance)) for kind in kinds}
        observed = [made[kind] for kind in OBSERVED]
        found = [[idea(one) for one in observed] for idea in (share, *SHARE_IDEAS.values())]
        if not any(_same(one, other, 3 * TOLERANCE) for one, other in itertools.combinations(found, 2)):
            return {"captures": made}


def _same(one: Sequence[float], other: Sequence[float], tolerance: float) -> bool:
    return all(ideas.is_near(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _probe_share(answer: Any, case: Case) -> Evidence:
    """What the function returns for each capture: a number, or None; ``odd`` where it is neither."""
    values: dict[str, Any] = {}
    odd: dict[str, str] = {}
    for kind, analysis in case["captures"].items():
        try:
            found = call(answer, copy.deepcopy(analysis))
        except Unanswered:  # None is an answer here
            found = None
        values[kind] = plain.number(found)
        if values[kind] is None and found is not None and str(plain.data(found)).strip().lower() != "not observed":
            odd[kind] = str(plain.data(found))[:60]
    if all(value is None for value in values.values()) and not odd:
        raise Unanswered
    return Evidence(data={"values": values, "odd": odd}, origin="constructed")


def _judge_share(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "11/gpu_share", sum(SHARE_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    faults = [fault for case, one in zip(cases, evidence, strict=True) for fault in _faults(case, one.data)]
    if not faults:
        return judging.right(ident, of, evidence, Said(key="11.right.gpu_share"))
    failed = {part for part, _, _ in faults}
    parts = [Part(id=name, points=0 if name in failed else of_, of=of_) for name, of_ in SHARE_PARTS.items()]
    _, idea, values = next((fault for fault in faults if fault[1]), faults[0])
    points = sum(part.points for part in parts)
    return judging.wrong(ident, of, evidence, idea=idea, values=values, points=points, parts=parts)


def _faults(case: Case, data: Mapping[str, Any]) -> list[tuple[str, str | None, dict[str, Any]]]:
    """Part, misconception and values of each thing that does not hold; what matters most first."""
    values: Mapping[str, float | None] = data["values"]
    found: list[tuple[str, str | None, dict[str, Any]]] = []

    def add(part: str, idea: str | None, kind: str, wanted: str) -> None:
        yours = data["odd"].get(kind, values[kind])
        found.append((part, idea, {"capture": kind, "yours": yours, "wanted": wanted}))

    for kind in MISSING:
        value = values[kind]
        if value is not None:
            add("not observed", "zero-for-missing" if value == 0 else "cpu-record-as-gpu-analysis", kind, "None")
        elif kind in data["odd"]:
            add("not observed", None, kind, "None")
    if values["some_events"] is not None:
        add("observed in part", "part-for-whole", "some_events", "None")
    elif "some_events" in data["odd"]:
        add("observed in part", None, "some_events", "None")
    wanted = {kind: share(case["captures"][kind]) for kind in OBSERVED}
    missed = [kind for kind in OBSERVED if values[kind] is None or not _near(values[kind], wanted[kind])]
    for kind in missed:
        add("observed", _idea_of_numbers(case, values, kind), kind, f"{wanted[kind]:.4f}")
    return found


def _near(value: float | None, wanted: float) -> bool:
    """A share may be rounded to three decimals."""
    return value is not None and abs(value - wanted) <= max(0.00051, TOLERANCE * wanted)


def _idea_of_numbers(case: Case, values: Mapping[str, float | None], missed: str) -> str | None:
    if values[missed] is None:
        return "observed-zero-doubted" if missed == "nothing_in_window" else "everything-doubted"
    for name, idea in SHARE_IDEAS.items():
        if all(_near(values[kind], idea(case["captures"][kind])) for kind in OBSERVED):
            return SAME_IDEA.get(name, name)
    return None


# ---- the next check ----

CHECKS: Mapping[str, tuple[str, ...]] = {
    "no_events": ("doctor",),
    "cpu_alone": ("ask",),
    # The interpreter asks for the first; the second finds out the likelier reason.
    "no_launches": ("doctor", "where"),
    "some_events": ("longer",),
}
"""For each kind of capture, the checks that can tell why its events are missing."""

CHECK_IDEAS = {"zero": "zero-for-missing", "cpu_times": "cpu-record-as-gpu-analysis", "bigger": "cure-before-check"}
CHECK_OPTIONS = ("doctor", "ask", "where", "longer", *CHECK_IDEAS)
CHECK_POINTS = 0.5


def _draw_check(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, CHECK_OPTIONS)}


def _judge_check(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "11/next_check", CHECK_POINTS * len(CHECKS)
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    options, answer = cases[0]["options"], evidence[0].data["answer"]
    chosen = {kind: options.get(choices.letter(answer.get(kind), "".join(options))) for kind in CHECKS}
    missed = [kind for kind, right in CHECKS.items() if chosen[kind] not in right]
    if not missed:
        return judging.right(ident, of, evidence, Said(key="11.right.next_check"))
    shown = {chosen[kind] for kind in missed}
    parts = [Part(id=kind, points=0 if kind in missed else CHECK_POINTS, of=CHECK_POINTS) for kind in CHECKS]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=next((idea for option, idea in CHECK_IDEAS.items() if option in shown), None),
        values={"captures": ", ".join(missed)},
        points=sum(part.points for part in parts),
        parts=parts,
    )


# ---- what is handed on ----

REPORT_IDEAS: Mapping[str, str | None] = {
    "zero": "zero-for-missing",
    "idle": "no-event-no-work",
    "cpu": "cpu-record-as-gpu-analysis",
    "nothing": "everything-doubted",
}


def _draw_report(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, ("not_observed", *REPORT_IDEAS)), "right": "not_observed"}


# ---- the lab ----


def _options(case: Case, group: str) -> dict[str, str]:
    return {letter: catalogue.text(f"11.option.{group}.{name}") for letter, name in case["options"].items()}


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: each capture with its report and its sentences, and the options."""
    found: dict[str, Any] = {}
    for kind in SENTENCES:
        case, capture = _draw_sentences(kind)(own_numbers(f"11/{kind}")), captures.make(kind, own_numbers(f"11/{kind}"))
        found[kind] = {**capture, "sentences": _in_words(kind, case)}
    return {
        **found,
        "no_launches": captures.make("no_launches", own_numbers("11/no_launches")),
        "checks": _options(_draw_check(own_numbers("11/next_check")), "next_check"),
        "reports": _options(_draw_report(own_numbers("11/report")), "report"),
    }


LAB = Lab(
    number="11",
    name="11-not-observed",
    minutes=40,
    seconds=10,
    gpu="none",
    gpu_memory_mb=0,
    origins=("constructed",),
    material=material,
    items=(
        choices.prediction("11/prediction", "abcd"),
        *(_sentence_item(kind) for kind in SENTENCES),
        Item(
            id="11/gpu_share",
            points=sum(SHARE_PARTS.values()),
            draw=_draw_shares,
            probe=_probe_share,
            judge=_judge_share,
            hidden=2,
        ),
        Item(
            id="11/next_check",
            points=CHECK_POINTS * len(CHECKS),
            draw=_draw_check,
            probe=_probe_answers,
            judge=_judge_check,
        ),
        choices.one_of("11/report", 1, _draw_report, REPORT_IDEAS),
    ),
)
