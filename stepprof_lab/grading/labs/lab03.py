"""Lab 03, nested sums: elapsed, self, total and busy, and a table that adds up to three times the wall.

The cases are lists of spans, as a trace holds them: ``{"name", "kind", "lane", "start_ms", "end_ms"}``. The right
values are the interpreter's (`stepprof_lab.trace`); a test compares both on the same constructed trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepprof_lab.grading import ideas, judging, plain
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call

Span = dict[str, Any]

TOLERANCE = 0.002
"""Relative. The numbers are arithmetic on exact spans: only rounding may differ."""

WORK = ("kernel", "copy")

REASONS = {
    "a": "The step really took that long; the wall clock is wrong.",
    "b": "A row's total contains the totals of what it calls, so the same time is added once a level.",
    "c": "The profiler makes every operator slower.",
    "d": "The GPU's time is added to the CPU's time.",
}


def make_step(chance: random.Random) -> list[Span]:
    """One step of a constructed trace, with work of the step before in it and work that ends after it.

    Three levels of operators on a thread, launches, two streams whose work overlaps, and the labels' projections on
    the streams. Times in ms, whole microseconds.
    """

    def draw(low: float, high: float) -> float:
        return round(chance.uniform(low, high), 3)

    spans: list[Span] = []
    now = draw(100.0, 140.0)
    begin = now

    def span(name: str, kind: str, lane: str, start: float, end: float) -> None:
        spans.append({"name": name, "kind": kind, "lane": lane, "start_ms": round(start, 3), "end_ms": round(end, 3)})

    earlier = draw(1.5, 3.0)
    span("left_over_gemm", "kernel", "stream 7", begin - draw(2.0, 4.0), begin + earlier)
    ready = {"stream 7": begin + earlier + 0.01, "stream 20": begin}
    now += draw(0.6, 1.4)
    label = now
    for number in range(chance.randint(2, 3)):
        outer, now = now, now + draw(0.2, 0.5)
        middle, now = now, now + draw(0.2, 0.4)
        for stream in ("stream 7", "stream 20"):
            inner, now = now, now + draw(0.3, 0.9)
            span("aten::mm", "operator", "thread 1", inner, now)
            span("cudaLaunchKernel", "launch", "thread 1", now - 0.05, now - 0.02)
            start = max(ready[stream], now)
            ready[stream] = start + draw(2.0, 4.0)
            span("gemm", "kernel", stream, start, ready[stream])
            now += draw(0.1, 0.3)
        span("aten::addmm", "operator", "thread 1", middle, now)
        now += draw(0.1, 0.4)
        span("aten::linear", "operator", "thread 1", outer, now)
        now += draw(0.2, 0.6) if number else draw(0.6, 0.9)
    span("Memcpy DtoH", "copy", "stream 7", ready["stream 7"] + 0.02, ready["stream 7"] + draw(0.5, 1.0))
    end = min(ready.values()) - draw(0.3, 0.8)
    end = max(end, now + 0.2)
    span("train", "label", "thread 1", label, end - 0.1)
    for lane in ("stream 7", "stream 20"):
        own = [one for one in spans if one["lane"] == lane and one["start_ms"] > begin]
        first, last = min(one["start_ms"] for one in own), max(one["end_ms"] for one in own)
        span("train", "label on the GPU", lane, first - draw(0.8, 1.2), last + draw(0.8, 1.2))
    span("step", "step", "thread 1", begin, end)
    return sorted(spans, key=lambda one: (one["start_ms"], -one["end_ms"]))


# ---- what is right ----


def elapsed(spans: Sequence[Span]) -> float:
    """The step's time on the host's clock, in ms."""
    step = _step(spans)
    return float(step["end_ms"] - step["start_ms"])


def total(spans: Sequence[Span], name: str) -> float:
    """Sum of an operator's calls with their children, in ms."""
    return sum(_length(one) for one in spans if one["name"] == name and one["kind"] == "operator")


def own(spans: Sequence[Span], name: str) -> float:
    """An operator's time without its direct children, in ms."""
    return total(spans, name) - sum(_length(child) for one in _named(spans, name) for child in _children(spans, one))


def busy(spans: Sequence[Span], kinds: Sequence[str] = WORK) -> float:
    """How long the GPU was at work inside the step: the union of its work, clipped to the step, in ms."""
    step = _step(spans)
    return _union(
        [
            (max(one["start_ms"], step["start_ms"]), min(one["end_ms"], step["end_ms"]))
            for one in spans
            if one["kind"] in kinds
        ]
    )


def _step(spans: Sequence[Span]) -> Span:
    return next(one for one in spans if one["kind"] == "step")


def _length(one: Span) -> float:
    return float(one["end_ms"] - one["start_ms"])


def _named(spans: Sequence[Span], name: str) -> list[Span]:
    return [one for one in spans if one["name"] == name and one["kind"] == "operator"]


def _inside(spans: Sequence[Span], outer: Span) -> list[Span]:
    return [
        one
        for one in spans
        if one is not outer
        and one["lane"] == outer["lane"]
        and one["kind"] in {"operator", "launch"}
        and outer["start_ms"] <= one["start_ms"]
        and one["end_ms"] <= outer["end_ms"]
    ]


def _children(spans: Sequence[Span], outer: Span) -> list[Span]:
    inside = _inside(spans, outer)
    return [one for one in inside if not any(one in _inside(spans, other) for other in inside)]


def _union(parts: Sequence[tuple[float, float]]) -> float:
    found, reached = 0.0, float("-inf")
    for start, end in sorted(part for part in parts if part[1] > part[0]):
        found += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return found


# ---- what wrong ideas give ----


def _work(case: Case) -> list[Span]:
    return [one for one in case["spans"] if one["kind"] in WORK]


def _clipped(case: Case, spans: Sequence[Span]) -> list[float]:
    step = _step(case["spans"])
    return [max(0.0, min(one["end_ms"], step["end_ms"]) - max(one["start_ms"], step["start_ms"])) for one in spans]


ELAPSED_IDEAS: Mapping[str, ideas.Idea] = {
    "totals-summed": lambda case: sum(_length(one) for one in case["spans"] if one["kind"] == "operator"),
    "everything-summed": lambda case: sum(_length(one) for one in case["spans"]),
    "other-window": lambda case: (
        max(one["end_ms"] for one in case["spans"]) - min(one["start_ms"] for one in case["spans"])
    ),
    "label-for-step": lambda case: next(_length(one) for one in case["spans"] if one["kind"] == "label"),
    "busy-for-elapsed": lambda case: busy(case["spans"]),
}

OWN_IDEAS: Mapping[str, ideas.Idea] = {
    "total-for-self": lambda case: total(case["spans"], case["name"]),
    "descendants-taken-twice": lambda case: (
        total(case["spans"], case["name"])
        - sum(_length(one) for call_ in _named(case["spans"], case["name"]) for one in _inside(case["spans"], call_))
    ),
    "one-call": lambda case: own(case["spans"], case["name"]) / len(_named(case["spans"], case["name"])),
}

TOTAL_IDEAS: Mapping[str, ideas.Idea] = {
    "self-for-total": lambda case: own(case["spans"], case["name"]),
    "children-added": lambda case: (
        total(case["spans"], case["name"])
        + sum(_length(one) for call_ in _named(case["spans"], case["name"]) for one in _inside(case["spans"], call_))
    ),
    "one-call": lambda case: total(case["spans"], case["name"]) / len(_named(case["spans"], case["name"])),
}

BUSY_IDEAS: Mapping[str, ideas.Idea] = {
    "streams-added": lambda case: sum(_clipped(case, _work(case))),
    "streams-added-unclipped": lambda case: sum(_length(one) for one in _work(case)),
    "annotations-counted": lambda case: busy(case["spans"], (*WORK, "label on the GPU")),
    "annotations-summed": lambda case: sum(
        _length(one) for one in case["spans"] if one["kind"] in {*WORK, "label on the GPU"}
    ),
    "other-window": lambda case: _union([(one["start_ms"], one["end_ms"]) for one in _work(case)]),
    "first-to-last": lambda case: (
        max(one["end_ms"] for one in _work(case)) - min(one["start_ms"] for one in _work(case))
    ),
    "one-stream": lambda case: max(
        sum(_clipped(case, [one for one in _work(case) if one["lane"] == lane])) for lane in ("stream 7", "stream 20")
    ),
    "elapsed-for-busy": lambda case: elapsed(case["spans"]),
}

SAME_IDEA = {
    "everything-summed": "totals-summed",
    "streams-added-unclipped": "streams-added",
    "annotations-summed": "annotations-counted",
}
"""Ideas that give other numbers and are the same misconception."""


# ---- the items ----


def _draw_step(wrong: Mapping[str, ideas.Idea], right: ideas.Idea, names: Sequence[str] = ()) -> Any:
    """A function that draws a case on which the wrong ideas and the right one all give different numbers."""

    def draw(chance: random.Random) -> Case:
        while True:
            case: Case = {"spans": make_step(chance)}
            if names:
                case["name"] = chance.choice(names)
            if ideas.tell_apart(case, {**wrong, "right": right}, TOLERANCE):
                return case

    return draw


def _probe_number(answer: Any, case: Case) -> Evidence:
    arguments = [[dict(one) for one in case["spans"]], *([case["name"]] if "name" in case else [])]
    found = call(answer, *arguments)
    return Evidence(data={"value": plain.number(found), "kind": type(found).__name__}, origin="constructed")


def _judge_number(ident: str, of: float, right: ideas.Idea, wrong: Mapping[str, ideas.Idea]) -> Any:
    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        answers = [one.data.get("value") for one in evidence]
        wanted = [right(case) for case in cases]
        picture = _picture(answers[0], wanted[0])
        if all(a is not None and ideas.is_near(a, w, TOLERANCE) for a, w in zip(answers, wanted, strict=True)):
            name = ident.split("/")[1]
            return judging.right(ident, of, evidence, Said(key=f"03.right.{name}"), picture=picture)
        if any(answer is None for answer in answers):
            return judging.no_number(ident, of, evidence)
        idea = ideas.shown_by(answers, cases, wrong, TOLERANCE) or _thousand(answers, wanted)
        return judging.wrong(
            ident, of, evidence, idea=SAME_IDEA.get(idea or "", idea), values=_values(answers, wanted), picture=picture
        )

    return judge


def _thousand(answers: Sequence[Any], wanted: Sequence[float]) -> str | None:
    """Another unit gives the right number a thousand times."""
    for factor in (1e3, 1e-3, 1e6):
        if all(ideas.is_near(a, w * factor, TOLERANCE) for a, w in zip(answers, wanted, strict=True)):
            return "units-mixed"
    return None


def _values(answers: Sequence[Any], wanted: Sequence[float]) -> dict[str, Any]:
    return {"yours": f"{answers[0]:.3f} ms", "reference": f"{wanted[0]:.3f} ms"}


def _picture(answer: float | None, wanted: float) -> Picture | None:
    if answer is None:
        return None
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
        draw=_draw_step(wrong, right, names),
        probe=_probe_number,
        judge=_judge_number(ident, points, right, wrong),
        visible=2,
        hidden=5,
    )


# ---- the table ----


def make_table(chance: random.Random) -> dict[str, Any]:
    """A step's operator table as a profiler prints it, with the walls of two runs beside it.

    The busy time and one wall are of the traced run; another wall is of a run without the profiler, and a third
    window holds the warm-up step too.
    """
    while True:
        spans = make_step(chance)
        wall, at_work = elapsed(spans), busy(spans)
        rows = [_row(spans, name) for name in ("aten::linear", "aten::addmm", "aten::mm")]
        windows = {
            "traced_step_ms": wall,
            "untraced_step_ms": wall * chance.uniform(0.6, 0.8),
            "whole_trace_ms": wall * chance.uniform(2.2, 2.8),
        }
        work = [one for one in spans if one["kind"] in WORK]
        counted = {"gpu_busy_ms": at_work, "gpu_sum_ms": sum(_clipped({"spans": spans}, work))}
        if counted["gpu_sum_ms"] > 1.05 * at_work and sum(row["total_ms"] for row in rows) > 1.2 * wall:
            return {"rows": rows, **{name: round(value, 3) for name, value in {**windows, **counted}.items()}}


def _row(spans: Sequence[Span], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "calls": len(_named(spans, name)),
        "total_ms": round(total(spans, name), 3),
        "self_ms": round(own(spans, name), 3),
    }


TABLE_PARTS: Mapping[str, float] = {"sum_of_totals_ms": 0.5, "sum_of_selfs_ms": 0.5, "why": 1, "gpu_busy_percent": 1}

PERCENT_IDEAS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "two-runs": lambda table: 100 * table["gpu_busy_ms"] / table["untraced_step_ms"],
    "other-window": lambda table: 100 * table["gpu_busy_ms"] / table["whole_trace_ms"],
    "streams-added": lambda table: 100 * table["gpu_sum_ms"] / table["traced_step_ms"],
}


def _probe_table(answer: Any, case: Case) -> Evidence:
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if not isinstance(found, dict) or all(value is None for value in found.values()):
        raise Unanswered
    return Evidence(data={"answer": found, "table": case["table"]}, origin="constructed")


def _judge_table(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "03/table", sum(TABLE_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    table, answer = cases[0]["table"], evidence[0].data["answer"]
    wanted = {
        "sum_of_totals_ms": sum(row["total_ms"] for row in table["rows"]),
        "sum_of_selfs_ms": sum(row["self_ms"] for row in table["rows"]),
        "gpu_busy_percent": 100 * table["gpu_busy_ms"] / table["traced_step_ms"],
    }
    held = {name: _is(answer.get(name), value) for name, value in wanted.items()}
    held["why"] = str(answer.get("why", "")).strip().lower()[:1] == "b"
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in TABLE_PARTS.items()]
    points = sum(part.points for part in parts)
    if points == of:
        return judging.right(ident, of, evidence, Said(key="03.right.table"))
    return judging.wrong(ident, of, evidence, idea=_idea_of_table(answer, table, held), points=points, parts=parts)


def _idea_of_table(answer: Mapping[str, Any], table: Mapping[str, Any], held: Mapping[str, bool]) -> str | None:
    if not held["gpu_busy_percent"]:
        for name, idea in PERCENT_IDEAS.items():
            if _is(answer.get("gpu_busy_percent"), idea(table)):
                return name
    if not held["why"]:
        return {"a": "totals-summed", "c": "profiler-blamed", "d": "cpu-and-gpu-added"}.get(
            str(answer.get("why", "")).strip().lower()[:1]
        )
    return None


def _is(given: Any, wanted: float) -> bool:
    """Percent and milliseconds may be rounded to one decimal."""
    return isinstance(given, int | float) and abs(given - wanted) <= max(0.051, TOLERANCE * abs(wanted))


def _draw_table(chance: random.Random) -> Case:
    return {"table": make_table(chance)}


def _probe_prediction(answer: Any, _: Case) -> Evidence:
    found = plain.data(answer)
    if not isinstance(found, str) or found.strip().lower()[:1] not in REASONS:
        raise Unanswered
    return Evidence(data={"choice": found.strip().lower()[:1]}, origin="constructed")


def _judge_prediction(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    if (early := judging.not_run("03/prediction", 1, evidence)) is not None:
        return early
    return judging.right("03/prediction", 1, evidence, Said(key="03.right.prediction"))


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: one step's spans, and the table that the last item asks about."""
    return {"spans": make_step(own_numbers("03/material")), "table": make_table(own_numbers("03/table"))}


_MIDDLE = ("aten::linear", "aten::addmm")

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
        Item(id="03/prediction", points=1, draw=lambda _: {}, probe=_probe_prediction, judge=_judge_prediction),
        _number_item("elapsed_ms", 2, lambda case: elapsed(case["spans"]), ELAPSED_IDEAS),
        _number_item("total_ms", 2, lambda case: total(case["spans"], case["name"]), TOTAL_IDEAS, _MIDDLE),
        _number_item("self_ms", 3, lambda case: own(case["spans"], case["name"]), OWN_IDEAS, _MIDDLE),
        _number_item("busy_ms", 4, lambda case: busy(case["spans"]), BUSY_IDEAS),
        Item(id="03/table", points=3, draw=_draw_table, probe=_probe_table, judge=_judge_table),
    ),
)
