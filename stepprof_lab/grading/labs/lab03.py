"""Lab 03, nested sums: elapsed, self, total and busy, and a table that adds up to three times the wall.

The cases are constructed steps (`stepprof_lab.grading.spans`), drawn so that every wrong idea gives another number
than the right one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepprof_lab.grading import choices, ideas, judging, plain, spans
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call
from stepprof_lab.grading.spans import STREAMS, WORK, Span, busy, elapsed, length, own, total, union

TOLERANCE = 0.002
"""Relative. The numbers are arithmetic on exact spans: only rounding may differ."""
ROUNDING_MS = 0.051
"""An answer may be rounded to a tenth of a millisecond."""


# ---- what wrong ideas give ----


def _each(case: Case, take: Callable[[Sequence[Span]], float]) -> float:
    """One number for each call of the case's operator, with that call's children, put together by ``take``."""
    return take(spans.named(case["spans"], case["name"]))


def _without(case: Case, of: Callable[[Span], Sequence[Span]]) -> float:
    """The operator's total less what each of its calls has in it by some idea."""
    calls = spans.named(case["spans"], case["name"])
    return sum(length(one) - sum(map(length, of(one))) for one in calls)


def _sum(case: Case, *kinds: str) -> float:
    return sum(length(one) for one in case["spans"] if one["kind"] in kinds)


def _main(case: Case) -> list[Span]:
    return [one for one in case["spans"] if one["lane"] == spans.MAIN]


def _range(found: Sequence[Span]) -> float:
    return float(max(one["end_ms"] for one in found) - min(one["start_ms"] for one in found))


ELAPSED_IDEAS: Mapping[str, ideas.Idea] = {
    "totals-summed": lambda case: _sum(case, "operator"),
    "totals-summed, with launches": lambda case: _sum(case, "operator", "launch"),
    "totals-summed, the host": lambda case: _sum(case, *spans.HOST),
    "totals-summed, without the step": lambda case: _sum(case, "label", "operator", "launch"),
    "totals-summed, of the thread": lambda case: sum(map(length, _main(case))),
    "totals-summed, of the thread without the step": lambda case: (
        sum(map(length, _main(case))) - elapsed(case["spans"])
    ),
    "totals-summed, the thread's operators": lambda case: sum(
        length(one) for one in _main(case) if one["kind"] == "operator"
    ),
    "totals-summed, everything": lambda case: sum(map(length, case["spans"])),
    "other-window": lambda case: _range(case["spans"]),
    "other-window, with the tail": lambda case: (
        max(one["end_ms"] for one in case["spans"]) - spans.step_of(case["spans"])["start_ms"]
    ),
    "other-window, with the head": lambda case: (
        spans.step_of(case["spans"])["end_ms"] - min(one["start_ms"] for one in case["spans"])
    ),
    "other-window, the work": lambda case: _range([one for one in case["spans"] if one["kind"] in WORK]),
    "label-for-step": lambda case: max(length(one) for one in case["spans"] if one["kind"] == "label"),
    "label-for-step, all labels": lambda case: _sum(case, "label"),
    "label-for-step, operators": lambda case: _range([one for one in case["spans"] if one["kind"] == "operator"]),
    "busy-for-elapsed": lambda case: busy(case["spans"]),
    "cpu-and-gpu-added": lambda case: elapsed(case["spans"]) + busy(case["spans"]),
}
"""What stands before a comma is the misconception, what follows is how it came about."""

TOTAL_IDEAS: Mapping[str, ideas.Idea] = {
    "self-for-total": lambda case: own(case["spans"], case["name"]),
    "children-added": lambda case: (
        total(case["spans"], case["name"])
        + sum(map(length, itertools.chain(*(spans.inside(case["spans"], one) for one in _calls(case)))))
    ),
    "children-added, direct ones": lambda case: (
        total(case["spans"], case["name"])
        + sum(map(length, itertools.chain(*(spans.children(case["spans"], one) for one in _calls(case)))))
    ),
    "one-call": lambda case: total(case["spans"], case["name"]) / len(_calls(case)),
    "one-call, the first": lambda case: length(_calls(case)[0]),
    "one-call, the last": lambda case: length(_calls(case)[-1]),
    "one-call, the longest": lambda case: max(map(length, _calls(case))),
    "first-to-last": lambda case: _range(_calls(case)),
}

OWN_IDEAS: Mapping[str, ideas.Idea] = {
    "total-for-self": lambda case: total(case["spans"], case["name"]),
    "descendants-taken-twice": lambda case: _without(case, lambda one: spans.inside(case["spans"], one)),
    "lanes-mixed": lambda case: _without(
        case,
        lambda one: spans.children(case["spans"], one, kinds=("operator", "launch", "kernel", "copy"), any_lane=True),
    ),
    "lanes-mixed, all below": lambda case: _without(
        case,
        lambda one: spans.inside(case["spans"], one, kinds=("operator", "launch", "kernel", "copy"), any_lane=True),
    ),
    "launches-left-in": lambda case: _without(
        case, lambda one: spans.children(case["spans"], one, kinds=("operator",))
    ),
    "one-call": lambda case: own(case["spans"], case["name"]) / len(_calls(case)),
    "one-call, the first": lambda case: own(_only(case, 0), case["name"]),
    "one-call, the last": lambda case: own(_only(case, -1), case["name"]),
    "children-for-self": lambda case: total(case["spans"], case["name"]) - own(case["spans"], case["name"]),
}


def _calls(case: Case) -> list[Span]:
    return spans.named(case["spans"], case["name"])


def _only(case: Case, number: int) -> list[Span]:
    """The spans with one call of the operator alone."""
    kept = _calls(case)[number]
    return [one for one in case["spans"] if one is kept or one["name"] != case["name"]]


_KINDS = {
    "work": WORK,
    "with projections": (*WORK, "label on the GPU"),
    "projections alone": ("label on the GPU",),
    "kernels": ("kernel",),
    "copies": ("copy",),
}
_LANES = {"both": STREAMS, STREAMS[0]: STREAMS[:1], STREAMS[1]: STREAMS[1:]}


def _clip(step: Span, one: Span) -> tuple[float, float]:
    return max(one["start_ms"], step["start_ms"]), min(one["end_ms"], step["end_ms"])


def _whole(_: Span, one: Span) -> tuple[float, float]:
    return one["start_ms"], one["end_ms"]


def _if_inside(step: Span, one: Span) -> tuple[float, float]:
    kept = step["start_ms"] <= one["start_ms"] and one["end_ms"] <= step["end_ms"]
    return _whole(step, one) if kept else (0.0, 0.0)


def _if_begun(step: Span, one: Span) -> tuple[float, float]:
    kept = step["start_ms"] <= one["start_ms"] < step["end_ms"]
    return _whole(step, one) if kept else (0.0, 0.0)


_WINDOWS = {"clipped": _clip, "whole": _whole, "inside": _if_inside, "begun": _if_begun}


def _added(parts: Sequence[tuple[float, float]]) -> float:
    return sum(max(0.0, end - start) for start, end in parts)


_WAYS = {"union": union, "sum": _added}


def _counted(case: Case, kinds: str, way: str, window: str, lanes: str) -> float:
    """The GPU's time, counted in some way."""
    step = spans.step_of(case["spans"])
    chosen = [one for one in case["spans"] if one["kind"] in _KINDS[kinds] and one["lane"] in _LANES[lanes]]
    return _WAYS[way]([_WINDOWS[window](step, one) for one in chosen])


def _misconception(kinds: str, way: str, window: str, lanes: str) -> str:
    """The first that matters of several mistakes: what counts as work, then how it is put together, then where."""
    if "projections" in kinds:
        return "annotations-counted"
    if way == "sum" and lanes == "both":
        return "streams-added"
    if window != "clipped":
        return "other-window"
    return "one-stream" if lanes != "both" else "copies-left-out" if kinds == "kernels" else "copies-alone"


def _ways_to_count() -> dict[str, ideas.Idea]:
    """Every combination of mistakes, those with one mistake first; a ``+`` stands for each further one."""
    found = []
    right = ("work", "union", "clipped", "both")
    for how in itertools.product(_KINDS, _WAYS, _WINDOWS, _LANES):
        mistakes = sum(one != other for one, other in zip(how, right, strict=True))
        name = f"{_misconception(*how)}, {'/'.join(how)}{'+' * (mistakes - 1)}"
        if mistakes:
            found.append((mistakes, name, lambda case, how=how: _counted(case, *how)))
    return {name: idea for _, name, idea in sorted(found, key=lambda one: one[0])}


_OTHER_THAN_COUNTED: Mapping[str, ideas.Idea] = {
    "elapsed-for-busy": lambda case: elapsed(case["spans"]),
    "first-to-last": lambda case: _range([one for one in case["spans"] if one["kind"] in WORK]),
    "first-to-last, with projections": lambda case: _range([one for one in case["spans"] if one["lane"] in STREAMS]),
    "idle-for-busy": lambda case: elapsed(case["spans"]) - busy(case["spans"]),
    "percent-for-time": lambda case: 100 * busy(case["spans"]) / elapsed(case["spans"]),
    "percent-for-time, a fraction": lambda case: busy(case["spans"]) / elapsed(case["spans"]),
}

BUSY_IDEAS: Mapping[str, ideas.Idea] = {**_OTHER_THAN_COUNTED, **_ways_to_count()}


# ---- the items that ask for one number ----


def _draw_step(right: ideas.Idea, wrong: Mapping[str, ideas.Idea], names: Sequence[str] = ()) -> Any:
    """A function that draws a case on which no wrong idea gives the right number, nor another one's."""

    def draw(chance: random.Random) -> Case:
        while True:
            case: Case = {"spans": spans.make_step(chance)}
            if names:
                case["name"] = chance.choice(names)
            wanted = right(case)
            if (
                abs(wanted - round(wanted)) > 3 * ROUNDING_MS
                and ideas.differ_from(wanted, case, wrong, TOLERANCE, ROUNDING_MS)
                and _told_apart(case, wrong)
            ):
                return case

    return draw


def _told_apart(case: Case, wrong: Mapping[str, ideas.Idea]) -> bool:
    """Whether single mistakes give other numbers than those that are another misconception."""
    single = sorted((idea(case), name.split(",")[0]) for name, idea in wrong.items() if not name.endswith("+"))
    return all(
        one == other or not ideas.is_near(low, high, TOLERANCE, ROUNDING_MS)
        for (low, one), (high, other) in itertools.pairwise(single)
    )


def _probe_number(answer: Any, case: Case) -> Evidence:
    arguments = [[dict(one) for one in case["spans"]], *([case["name"]] if "name" in case else [])]
    found = call(answer, *arguments)
    return Evidence(data={"value": plain.number(found), "kind": type(found).__name__}, origin="constructed")


def _judge_number(ident: str, of: float, right: ideas.Idea, wrong: Mapping[str, ideas.Idea]) -> Any:
    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        answers = [one.data["value"] for one in evidence]
        if any(answer is None for answer in answers):
            return judging.no_number(ident, of, evidence)
        wanted = [right(case) for case in cases]
        picture = _picture(answers[0], wanted[0])
        if _all_near(answers, wanted):
            name = ident.split("/")[1]
            return judging.right(ident, of, evidence, Said(key=f"03.right.{name}"), picture=picture)
        idea = _as_given_otherwise(answers, wanted) or ideas.shown_by(answers, cases, wrong, TOLERANCE, ROUNDING_MS)
        values = {"yours": f"{answers[0]:.3f} ms", "reference": f"{wanted[0]:.3f} ms"}
        return judging.wrong(ident, of, evidence, idea=idea and idea.split(",")[0], values=values, picture=picture)

    return judge


def _all_near(answers: Sequence[Any], wanted: Sequence[float], factor: float = 1.0) -> bool:
    absolute = ROUNDING_MS * min(1.0, abs(factor))
    return all(ideas.is_near(a / factor, w, TOLERANCE, absolute) for a, w in zip(answers, wanted, strict=True))


def _as_given_otherwise(answers: Sequence[Any], wanted: Sequence[float]) -> str | None:
    """The right number in another unit, with the other sign, or rounded so far that it says little."""
    if any(_all_near(answers, wanted, factor) for factor in (1e3, 1e-3, 1e6)):
        return "units-mixed"
    if _all_near(answers, wanted, -1.0):
        return "end-before-start"
    if all(a == int(a) and abs(a - w) < 1 for a, w in zip(answers, wanted, strict=True)):
        return "rounded-away"
    return None


def _picture(answer: float, wanted: float) -> Picture:
    return Picture(
        unit="ms",
        bars=[Bar(name="yours", value=answer, kind="yours"), Bar(name="reference", value=wanted, kind="reference")],
    )


def _number_item(
    name: str, points: float, right: ideas.Idea, wrong: Mapping[str, ideas.Idea], names: Sequence[str] = ()
) -> Item:
    ident = f"03/{name}"
    return Item(
        id=ident,
        points=points,
        draw=_draw_step(right, wrong, names),
        probe=_probe_number,
        judge=_judge_number(ident, points, right, wrong),
        visible=2,
        hidden=5,
    )


# ---- the table ----

TABLE_TIMES_WALL = (2.85, 3.15)
"""The column of totals adds up to so many times the step."""


def make_table(chance: random.Random) -> dict[str, Any]:
    """A step's table as a profiler prints it, with the walls of two runs beside it.

    Its rows are all that the step's thread does, so that the self times add up to the step. The busy time and one wall
    are of the traced run; another wall is of a run without the profiler, and a third window holds the warm-up step too.
    """
    while True:
        made = spans.make_step(chance)
        main = [one for one in made if one["lane"] == spans.MAIN]
        rows = sorted((_row(main, name) for name in {one["name"] for one in main}), key=lambda row: -row["total_ms"])
        wall, at_work = elapsed(made), busy(made)
        added = _counted({"spans": made}, "work", "sum", "clipped", "both")
        low, high = TABLE_TIMES_WALL
        if low <= sum(row["total_ms"] for row in rows) / wall <= high and added > 1.1 * at_work:
            break
    numbers = {
        "traced_step_ms": wall,
        "untraced_step_ms": wall * chance.uniform(0.6, 0.8),
        "whole_trace_ms": wall * chance.uniform(2.2, 2.8),
        "gpu_busy_ms": at_work,
        "gpu_sum_ms": added,
    }
    return {"rows": rows, **{name: round(value, 3) for name, value in numbers.items()}}


def _row(main: Sequence[Span], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "calls": len(spans.named(main, name)),
        "total_ms": round(total(main, name), 3),
        "self_ms": round(own(main, name), 3),
    }


TABLE_PARTS: Mapping[str, float] = {"sum_of_totals_ms": 0.5, "sum_of_selfs_ms": 0.5, "why": 1, "gpu_busy_percent": 1}

WHY = {"a": "totals-summed", "c": "profiler-blamed", "d": "cpu-and-gpu-added"}
"""Which misconception each wrong reason shows."""

PERCENT_IDEAS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "two-runs": lambda table: 100 * table["gpu_busy_ms"] / table["untraced_step_ms"],
    "two-runs, streams added": lambda table: 100 * table["gpu_sum_ms"] / table["untraced_step_ms"],
    "other-window": lambda table: 100 * table["gpu_busy_ms"] / table["whole_trace_ms"],
    "other-window, streams added": lambda table: 100 * table["gpu_sum_ms"] / table["whole_trace_ms"],
    "streams-added": lambda table: 100 * table["gpu_sum_ms"] / table["traced_step_ms"],
    "other-window, of the totals": lambda table: 100 * table["gpu_busy_ms"] / _column(table, "total_ms"),
    "idle-for-busy": lambda table: 100 - 100 * table["gpu_busy_ms"] / table["traced_step_ms"],
}
PERCENT_ROUNDING = 0.51
"""A percentage may be rounded to a whole one."""


def _column(table: Mapping[str, Any], name: str) -> float:
    return float(sum(row[name] for row in table["rows"]))


def _probe_table(answer: Any, _: Case) -> Evidence:
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if isinstance(found, dict) and all(value is None for value in found.values()):
        raise Unanswered
    if not isinstance(found, dict):
        raise TypeError(f"a dict with {', '.join(TABLE_PARTS)} was expected, not a {type(answer).__name__}")
    return Evidence(data={"answer": found}, origin="constructed")


def _judge_table(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "03/table", sum(TABLE_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    table, answer = cases[0]["table"], evidence[0].data["answer"]
    percent = 100 * table["gpu_busy_ms"] / table["traced_step_ms"]
    held = {
        "sum_of_totals_ms": _is(answer.get("sum_of_totals_ms"), _column(table, "total_ms"), ROUNDING_MS),
        "sum_of_selfs_ms": _is(answer.get("sum_of_selfs_ms"), _column(table, "self_ms"), ROUNDING_MS),
        "why": choices.letter(answer.get("why"), "abcd") == "b",
        "gpu_busy_percent": _is(answer.get("gpu_busy_percent"), percent, PERCENT_ROUNDING),
    }
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in TABLE_PARTS.items()]
    points = sum(part.points for part in parts)
    if points == of:
        return judging.right(ident, of, evidence, Said(key="03.right.table"))
    idea = _idea_of_table(answer, table, held)
    return judging.wrong(ident, of, evidence, idea=idea and idea.split(",")[0], points=points, parts=parts)


def _idea_of_table(answer: Mapping[str, Any], table: Mapping[str, Any], held: Mapping[str, bool]) -> str | None:
    given = answer.get("gpu_busy_percent")
    if not held["gpu_busy_percent"]:
        if _is(given, table["gpu_busy_ms"] / table["traced_step_ms"], 0.0051):
            return "fraction-for-percent"
        for name, idea in PERCENT_IDEAS.items():
            if _is(given, idea(table), PERCENT_ROUNDING):
                return name
    if not held["why"]:
        return WHY.get(choices.letter(answer.get("why"), "abcd") or "")
    return None


def _is(given: Any, wanted: float, absolute: float) -> bool:
    return type(given) in {int, float} and ideas.is_near(given, wanted, TOLERANCE, absolute)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: one step's spans, and the table that the last item asks about."""
    return {"spans": spans.make_step(own_numbers("03/material")), "table": make_table(own_numbers("03/table"))}


_OUTER = ("aten::linear", "aten::addmm")

LAB = Lab(
    number="03",
    name="03-nested-sums",
    minutes=40,
    seconds=5,
    gpu="none",
    gpu_memory_mb=0,
    origins=("constructed",),
    material=material,
    items=(
        choices.prediction("03/prediction", "abcd"),
        _number_item("elapsed_ms", 2, lambda case: elapsed(case["spans"]), ELAPSED_IDEAS),
        _number_item("total_ms", 2, lambda case: total(case["spans"], case["name"]), TOTAL_IDEAS, _OUTER),
        _number_item("self_ms", 3, lambda case: own(case["spans"], case["name"]), OWN_IDEAS, _OUTER),
        _number_item("busy_ms", 4, lambda case: busy(case["spans"]), BUSY_IDEAS),
        Item(
            id="03/table",
            points=sum(TABLE_PARTS.values()),
            draw=lambda chance: {"table": make_table(chance)},
            probe=_probe_table,
            judge=_judge_table,
        ),
    ),
)
