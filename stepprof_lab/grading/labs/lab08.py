"""Lab 08, dominant operator: the one with the most self time is timed alone, on its own inputs, as often as in a step.

The trace is constructed and read by the interpreter. The live operator (`stepprof_lab.grading.isolating`) logs its
calls: an answer is judged by the inputs that it ran the operator on, and by its number beside what the library measured
of the very same calls (on the CPU) or of calls taken in turns with them (on a GPU).
"""

from __future__ import annotations

import io
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepprof_lab import devices
from stepprof_lab.construct import Construct
from stepprof_lab.grading import catalogue, choices, ideas, isolating, judging, plain, sorting
from stepprof_lab.grading.isolating import Signature
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.labs.repaired import one_thread
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call
from stepprof_lab.grading.sorting import Thing
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Context

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

# ---- the capture ----

STEPS = 4
QUESTION = "Does one operator take most of the step by its own time?"
WIDTH = 100
DOMINANT, BUSIEST, WRAPPER = "aten::cumsum", "aten::mul", "aten::cumulative_trapezoid"
"""The most self time; the most calls; the largest sum with children."""


def _draw_capture(chance: random.Random) -> Case:
    return {
        "calls": chance.choice((3, 5, 6)),  # not as many as steps: four times is the window
        "one_ms": round(chance.uniform(2.0, 3.4), 3),
        "shape": [16 * chance.randint(24, 60), 16 * chance.randint(40, 70)],
        "inside": chance.randint(8, 12),
        "small": chance.randint(90, 160),
        "small_ms": round(chance.uniform(0.016, 0.022), 3),
        "products": chance.randint(3, 5),
        "product_ms": round(chance.uniform(0.4, 0.5), 3),
    }


def _write(case: Case) -> Construct:
    t = Construct("cpu")
    for _ in range(STEPS):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.4)
            with t.label("train"):
                for _ in range(case["calls"]):
                    with t.operator(WRAPPER):
                        t.cpu(0.02)
                        for _ in range(case["inside"]):
                            t.cpu(case["small_ms"], BUSIEST)
                        t.cpu(case["one_ms"], DOMINANT, shapes=[case["shape"], []])
                for _ in range(case["products"]):
                    t.cpu(case["product_ms"], "aten::addmm")
                for _ in range(case["small"]):
                    t.cpu(case["small_ms"], BUSIEST)
    return t


def read(case: Case) -> tuple[dict[str, Any], str]:
    """What the interpreter says of a capture: the JSON of ``stepprof read`` as a dict, and its report."""
    from rich.console import Console

    from stepprof_lab.report import text

    context = Context(origin="constructed", question=QUESTION, roles={"read_batch": "read", "train": "compute"})
    with tempfile.TemporaryDirectory(prefix="stepprof-lab08-") as directory:
        found = interpret(_write(case).save(Path(directory) / "steps.json"), context).analysis
    out = io.StringIO()
    text.show_analysis(found, Console(file=out, width=WIDTH, color_system=None))
    return msgspec.to_builtins(found), out.getvalue().rpartition("\nMore ")[0]


def draw_found(chance: random.Random) -> Case:
    """A capture, and of each operator the calls and times of one step; no wrong idea gives what is right."""
    while True:
        case = _draw_capture(chance)
        analysis, _ = read(case)
        case["step_ms"] = sum(step["cpu_us"] for step in analysis["steps"]) / STEPS / 1000
        case["operators"] = {
            one["name"]: {
                "calls": one["calls"] / STEPS,
                "self_ms": one["cpu_self_us"] / STEPS / 1000,
                "total_ms": one["cpu_sum_us"] / STEPS / 1000,
            }
            for one in analysis["operators"]
        }
        if all(ideas.differ_from(right(case), case, WRONG[name], TOLERANCE, ROUNDING) for name, right in RIGHT.items()):
            return case


# ---- what it says ----

FOUND_PARTS: Mapping[str, float] = {"most_called": 0.5, "dominant": 1, "calls": 0.5, "self_ms": 1, "one_call_ms": 0.5}
TOLERANCE = 0.005
ROUNDING = 0.0051
"""An answer may be rounded to a hundredth of a millisecond."""
NAMES: Mapping[str, str] = {"most_called": BUSIEST, "dominant": DOMINANT}


def _of(name: str, what: str) -> ideas.Idea:
    return lambda case: float(case["operators"][name][what])


def _each(name: str, what: str) -> ideas.Idea:
    """A time of one step, for each of its calls."""
    return lambda case: float(case["operators"][name][what] / case["operators"][name]["calls"])


def _window(idea: ideas.Idea) -> ideas.Idea:
    return lambda case: STEPS * idea(case)


RIGHT: Mapping[str, ideas.Idea] = {
    "calls": _of(DOMINANT, "calls"),
    "self_ms": _of(DOMINANT, "self_ms"),
    "one_call_ms": _each(DOMINANT, "self_ms"),
}
WRONG: Mapping[str, Mapping[str, ideas.Idea]] = {
    "calls": {
        "window-for-step": _window(RIGHT["calls"]),
        "calls-for-time": _of(BUSIEST, "calls"),
        "calls-for-time, in the window": _window(_of(BUSIEST, "calls")),
    },
    "self_ms": {
        "window-for-step": _window(RIGHT["self_ms"]),
        "one-call-for-all": RIGHT["one_call_ms"],
        "total-for-self": _of(WRAPPER, "total_ms"),
        "total-for-self, in the window": _window(_of(WRAPPER, "total_ms")),
        "calls-for-time": _of(BUSIEST, "self_ms"),
        "calls-for-time, in the window": _window(_of(BUSIEST, "self_ms")),
        "share-for-time": lambda case: 100 * RIGHT["self_ms"](case) / case["step_ms"],
    },
    "one_call_ms": {
        "window-for-step": _window(RIGHT["one_call_ms"]),
        "window-for-step, by all calls": lambda case: RIGHT["one_call_ms"](case) / STEPS,
        "all-calls-for-one": RIGHT["self_ms"],
        "all-calls-for-one, in the window": _window(RIGHT["self_ms"]),
        "total-for-self": _each(WRAPPER, "total_ms"),
        "calls-for-time": _each(BUSIEST, "self_ms"),
    },
}
"""What stands before a comma is the misconception, what follows is how it came about."""


def _probe_found(answer: Any, _: Case) -> Evidence:
    if answer is None or answer is ...:
        raise Unanswered
    if type(answer) is not dict:
        raise TypeError(f"a dict with {', '.join(FOUND_PARTS)} was expected, not a {type(answer).__name__}")
    if all(value is None for value in answer.values()):
        raise Unanswered
    data: dict[str, Any] = {name: _name(plain.data(answer.get(name))) for name in NAMES}
    data |= {name: plain.number(answer.get(name)) for name in RIGHT}
    return Evidence(data=data, origin="constructed")


def _name(value: Any) -> str | None:
    """An operator as the table writes it: "cumsum" and " Aten::CumSum" too."""
    said = value.strip(" '\"`.").lower() if isinstance(value, str) else ""
    return (said if "::" in said else f"aten::{said}") if said else None


def _judge_found(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "08/found", sum(FOUND_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    case, given = cases[0], evidence[0].data
    held = {name: given[name] == wanted for name, wanted in NAMES.items()}
    held |= {name: _near(given[name], right(case)) for name, right in RIGHT.items()}
    missed = [name for name in FOUND_PARTS if not held[name]]
    if not missed:
        return judging.right(ident, of, evidence, Said(key="08.right.found"))
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in FOUND_PARTS.items()]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=_idea_of_names(given, missed) or _idea_of_numbers(case, given, missed),
        values={"names": ", ".join(missed)},
        points=sum(part.points for part in parts),
        parts=parts,
    )


def _idea_of_names(given: Mapping[str, Any], missed: Sequence[str]) -> str | None:
    """Which operator was taken for another one: that is named before what its numbers are."""
    if "dominant" in missed:
        return {BUSIEST: "calls-for-time", WRAPPER: "total-for-self"}.get(given["dominant"])
    return "calls-for-time" if "most_called" in missed and given["most_called"] == DOMINANT else None


def _idea_of_numbers(case: Case, given: Mapping[str, Any], missed: Sequence[str]) -> str | None:
    for name in (one for one in RIGHT if one in missed):
        for idea, told in WRONG[name].items():
            if _near(given[name], told(case)):
                return idea.split(",")[0]
        if name != "calls" and any(_near(given[name], factor * RIGHT[name](case), factor) for factor in (1e3, 1e-3)):
            return "units-mixed"
    return None


def _near(value: Any, wanted: float, factor: float = 1.0) -> bool:
    return type(value) in {int, float} and ideas.is_near(value, wanted, TOLERANCE, ROUNDING * min(1.0, factor))


# ---- seven ways to look closer ----

WAYS_WORDS: sorting.Words = {
    "isolates": ("isolate", "isolated", "yes", "it does"),
    "not yet": ("not", "no", "does not", "doesn't"),
}
WAYS: Mapping[str, Thing] = {
    "swapped": Thing("not yet", {"isolates": "replaced-before-isolated"}),
    "busiest": Thing("not yet", {"isolates": "calls-for-time"}),
    "square": Thing("not yet", {"isolates": "other-inputs"}),
    "layout": Thing("not yet", {"isolates": "other-inputs"}),
    "once": Thing("not yet", {"isolates": "first-call-counted"}),
    "made": Thing("isolates", {"not yet": "nothing-isolates"}),
    "kept": Thing("isolates", {"not yet": "nothing-isolates"}),
}


def _draw_ways(chance: random.Random) -> dict[str, Any]:
    rows, columns = 16 * chance.randint(24, 36), 16 * chance.randint(60, 80)
    return {
        "shape": f"[{rows}, {columns}]",
        "strides": f"(1, {rows})",
        "usual": f"({columns}, 1)",
        "calls": chance.randint(4, 9),
        "many": chance.randint(200, 400),
        "side": round((rows * columns) ** 0.5),
    }


# ---- the live operator ----

MOST_ROUNDS = 20
"""The learner's function and the library take turns so often at the most; the quietest round is judged."""
FEWEST_ROUNDS = 3
BUDGET_S = 2.5
"""No further round begins after this time; a verdict is due within 5 s."""
QUIET = 0.15
"""A round is quiet where its calls took on average so much longer than at their fastest, or less; then no more are
needed."""
NEAR = 0.12
"""A right number is so far at the most, relative, below the calls at their fastest or above what they usually took.
In quiet rounds on two cores a right sum of a whole step was 1.01 to 1.02 times that (6 rounds)."""
SAME = 0.04
"""Relative. A number is taken for a sum of the log where it is so near: what the learner's clock adds around a call."""
NOISY = 0.2
"""Where in the quietest round the calls took on average so much longer than at their fastest, a wrong number may have
become a right one by noise, or a right one a wrong one: one that could be right (`CLOSE`) is right only where over the
rounds it is the sum of the log and nothing else is as near, and gets no verdict otherwise."""
CLOSE = 0.4
"""Relative, as `NEAR`. At a load of 3.5 on two cores a right sum of a whole step was up to 1.12 times what its
calls usually took (18 rounds): a stall between two calls is in no call."""

ISOLATED_PARTS: Mapping[str, float] = {"inputs": 2, "time": 3}

Row = Mapping[str, Any]
"""Of one recorded input: ``calls`` in a step, ``seen`` (how often the answer ran the operator on it), and what
`isolating.of_calls` tells of its calls."""
Turn = Mapping[str, Any]
"""One turn of the learner's function and of the library."""
USUAL = ("fastest_ms", "median_ms", "mean_ms")
"""What an honest answer may take for the time of a call."""


def _probe_isolated(answer: Any, case: Case) -> Evidence:
    device = devices.choose("auto")
    recorded = isolating.on_device(case["recorded"], device)
    rounds: list[dict[str, Any]] = []
    begun = time.perf_counter()
    with one_thread():
        while _goes_on(rounds, time.perf_counter() - begun):
            rounds.append(_round(answer, recorded, device))
    data = {"rounds": rounds, "value": rounds[-1]["value"], "kind": rounds[-1]["kind"], "gpu": device.is_gpu}
    return Evidence(data=data, device=device.sentence, origin="live")


def _goes_on(rounds: Sequence[Turn], seconds: float) -> bool:
    if not rounds:
        return True
    quiet = len(rounds) >= FEWEST_ROUNDS and any(
        _high(one["rows"]) <= (1 + QUIET) * _low(one["rows"]) for one in rounds
    )
    return rounds[-1]["value"] is not None and not quiet and len(rounds) < MOST_ROUNDS and seconds < BUDGET_S


def _round(answer: Any, recorded: isolating.Recorded, device: Device) -> dict[str, Any]:
    operator = isolating.Operator()
    found = call(answer, operator, [dict(one) for one in recorded], device)
    device.synchronize()
    own = isolating.measured(recorded, device)
    return {
        "value": plain.number(found),
        "kind": type(found).__name__,
        "calls": len(operator.log),
        "fresh": operator.fresh,
        "other": _other(operator, recorded),
        "rows": [_row(one, operator, measured, device) for one, measured in zip(recorded, own, strict=True)],
        "reference": sum(one["calls"] * measured["fastest_ms"] for one, measured in zip(recorded, own, strict=True)),
    }


def _row(one: dict[str, Any], operator: isolating.Operator, own: Mapping[str, float], device: Device) -> dict[str, Any]:
    """The very calls that the learner timed, where the log tells how long they took; else the library's own."""
    ms = operator.calls(isolating.signature(one))
    row: dict[str, Any] = {"calls": one["calls"], "seen": len(ms), **own}
    if ms and not device.is_gpu:
        row |= isolating.of_calls(ms) if len(ms) > 1 else {"first_ms": ms[0]}
    return row


def _other(operator: isolating.Operator, recorded: isolating.Recorded) -> str | None:
    """In what the first input that was not recorded differs from all that were; None where there is none."""
    wanted = [isolating.signature(one) for one in recorded]
    other = next((one for one, _ in operator.log if one not in wanted), None)
    return min((_difference(other, one) for one in wanted), key=_DIFFERENCES.index) if other else None


_DIFFERENCES = ("layout", "type", "shape")
"""From the nearest to the farthest."""


def _difference(one: Signature, wanted: Signature) -> str:
    if one.shape != wanted.shape:
        return "shape"
    return "type" if one.dtype != wanted.dtype else "layout"


def _low(rows: Sequence[Row]) -> float:
    return min(_in_ways(lambda row, ms: row["calls"] * ms)(rows))


def _high(rows: Sequence[Row]) -> float:
    return max(_in_ways(lambda row, ms: row["calls"] * ms)(rows))


def _quietest(data: Mapping[str, Any]) -> Turn:
    found: Turn = min(data["rounds"], key=lambda one: _high(one["rows"]) / _low(one["rows"]))
    return found


def _has_own_inputs(one: Turn) -> bool:
    return all(row["seen"] for row in one["rows"])


def _is_right(one: Turn, evidence: Evidence) -> bool:
    """Whether the quietest turn's number is right, on all inputs."""
    if not _has_own_inputs(one) or _is_cold(one):
        return False
    if _is_noisy(one):
        return _may_be_right(one) and _nearest(evidence.data["rounds"], SAME) == "right"
    return _is_within(one, NEAR)


def _is_within(one: Turn, tolerance: float) -> bool:
    return bool((1 - tolerance) * _low(one["rows"]) <= one["value"] <= (1 + tolerance) * _high(one["rows"]))


def _is_noisy(one: Turn) -> bool:
    return _high(one["rows"]) > (1 + NOISY) * _low(one["rows"])


def _may_be_right(one: Turn) -> bool:
    return _is_within(one, CLOSE) and not _is_cold(one)


def _is_cold(one: Turn) -> bool:
    """Whether some recorded input was met once alone: there is no later call whose time it could be."""
    return any(row["seen"] == 1 for row in one["rows"])


def _judge_isolated(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:  # noqa: ARG001 - one form for all
    ident, of = "08/isolated_ms", sum(ISOLATED_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    if any(one.data["value"] is None for one in evidence):
        return judging.no_number(ident, of, evidence)
    found = [_quietest(one.data) for one in evidence]
    wrong = next((one for one, seen in zip(found, evidence, strict=True) if not _is_right(one, seen)), None)
    if wrong is None:
        return judging.right(ident, of, evidence, Said(key="08.right.isolated_ms"), picture=_picture(found[0]))
    has_inputs = all(map(_has_own_inputs, found))
    turns = evidence[found.index(wrong)].data["rounds"]
    idea = _idea_of_isolated(wrong, turns, is_gpu=evidence[0].data["gpu"])
    unsure = idea in {None, "inputs-timed"} or _may_be_right(wrong)
    if has_inputs and _is_noisy(wrong) and unsure:
        return judging.undecided(ident, of, evidence, Said(key="08.undecided.isolated_ms"))
    # A time that was measured on other inputs is no time of these.
    points = {"inputs": ISOLATED_PARTS["inputs"] if has_inputs else 0, "time": 0}
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=idea,
        values=_values(wrong),
        points=sum(points.values()),
        parts=[Part(id=name, points=points[name], of=of_) for name, of_ in ISOLATED_PARTS.items()],
        picture=_picture(wrong),
    )


def _idea_of_isolated(one: Turn, turns: Sequence[Turn], *, is_gpu: bool) -> str | None:
    """The first mistake that matters: whether the operator ran, on which inputs, and what the number holds."""
    if not one["calls"]:
        return "not-isolated"
    if not _has_own_inputs(one):
        return "other-inputs" if one["other"] else "one-input-for-all"
    idea = _nearest(turns, NEAR if is_gpu else SAME)
    if idea == "right":  # in most turns, and not in the quietest
        return None
    if idea is not None or (low := _low(one["rows"])) <= one["value"] <= _high(one["rows"]):
        return idea
    if one["value"] < low:
        return "no-wait" if is_gpu else None
    # A new input for each call, and more time than the calls took.
    return "inputs-timed" if one["fresh"] >= one["calls"] else None


def _nearest(turns: Sequence[Turn], tolerance: float) -> str | None:
    """The idea, or "right", whose number is nearest to the answer over all turns, if it is near enough in most."""
    far = {
        idea: statistics.median(_distance(one["value"], numbers(one["rows"])) for one in turns)
        for idea, numbers in NUMBERS.items()
    }
    far["calls-mixed"] += tolerance  # it gives many numbers: one of them is near by chance
    idea = min(far, key=lambda name: far[name])
    if far[idea] > math.log1p(tolerance) * (2 if idea == "calls-mixed" else 1):
        return None
    # All that ran, where nothing ran before or again, is a step with its first calls in it.
    ran_once = all(row["seen"] == row["calls"] for row in turns[0]["rows"])
    return {"all-that-ran": "first-call-counted" if ran_once else "runs-added"}.get(idea, idea)


def _distance(value: float, numbers: Sequence[float]) -> float:
    """From a number to the nearest of several, as a ratio's logarithm."""
    return min(abs(math.log(value / one)) for one in numbers) if value > 0 else math.inf


Add = Callable[[Row, float], float]
"""From a recorded input, and the time of a call on it, to what it adds to a number."""
Numbers = Callable[[Sequence[Row]], list[float]]


def _in_ways(add: Add, factor: float = 1.0) -> Numbers:
    """A sum over the inputs, once for each way to take the time of a call."""
    return lambda rows: [factor * sum(add(row, row[way]) for row in rows) for way in USUAL]


def _later_ms(row: Row) -> float:
    """All calls but the first, added."""
    return float((row["seen"] - 1) * row["mean_ms"])


def _all_ms(row: Row) -> float:
    return float(row["first_ms"] + _later_ms(row))


def _count(rows: Sequence[Row]) -> int:
    return int(sum(row["calls"] for row in rows))


def _units(rows: Sequence[Row]) -> list[float]:
    return [
        number
        for factor in (1e3, 1e-3, 1e6, 1e-6)
        for number in _in_ways(lambda row, ms: row["calls"] * ms, factor)(rows)
    ]


def _each_once(rows: Sequence[Row]) -> list[float]:
    """Each input once, a mean of them, the longest alone, and a call on average."""
    once, step = _in_ways(lambda _, ms: ms)(rows), _in_ways(lambda row, ms: row["calls"] * ms)(rows)
    longest = [max(row[way] for row in rows) for way in USUAL]
    return [*once, *(one / len(rows) for one in once), *longest, *(one / _count(rows) for one in step)]


def _calls_mixed(rows: Sequence[Row]) -> list[float]:
    """All calls times a mean of the inputs, or times one input; the calls of one input with the time of another."""
    mean = [_count(rows) * one / len(rows) for one in _in_ways(lambda _, ms: ms)(rows)]
    alone = [_count(rows) * row[way] for row in rows for way in USUAL]
    swapped = [sum(one["calls"] * row[way] for one, row in zip(rows[::-1], rows, strict=True)) for way in USUAL]
    return [*mean, *alone, *swapped]


def _first_calls(rows: Sequence[Row]) -> list[float]:
    """First calls alone, in a mean of all calls, or once for each input in the sum of a step."""
    means = [(row["calls"], _all_ms(row) / max(row["seen"], 1)) for row in rows]
    once_each = _in_ways(lambda row, ms: row["first_ms"] + (row["calls"] - 1) * ms)(rows)
    return [
        sum(row["calls"] * row["first_ms"] for row in rows),
        sum(row["first_ms"] for row in rows),
        sum(calls * ms for calls, ms in means),
        sum(ms for _, ms in means),
        *once_each,
    ]


def _runs_added(rows: Sequence[Row]) -> list[float]:
    """What all later calls took, or all calls, for each call of a step; or once."""
    found = [
        sum(row["calls"] * _later_ms(row) for row in rows),
        sum(row["calls"] * _all_ms(row) for row in rows),
        sum(map(_later_ms, rows)),
    ]
    return [one for one in found if one > 0] or [_low(rows)]


NUMBERS: Mapping[str, Numbers] = {
    "right": _in_ways(lambda row, ms: row["calls"] * ms),
    "units-mixed": _units,
    "first-call-counted": _first_calls,
    "all-that-ran": lambda rows: [sum(map(_all_ms, rows))],
    "runs-added": _runs_added,
    "one-call-for-all": _each_once,
    "calls-mixed": _calls_mixed,
}
"""The numbers that are right, and those that each wrong idea gives; ``all-that-ran`` is no misconception's name."""


def _values(one: Turn) -> dict[str, Any]:
    return {
        "yours": f"{one['value']:.4g}",
        "reference": f"{one['reference']:.2f} ms",
        "calls": one["calls"],
        "other": catalogue.text(f"08.other.{one['other'] or 'shape'}"),
        "missing": sum(not row["seen"] for row in one["rows"]),
    }


def _picture(one: Turn) -> Picture:
    bars = [Bar(name="yours", value=one["value"], kind="yours")]
    bars.append(Bar(name="reference", value=one["reference"], kind="reference"))
    return Picture(unit="ms", bars=bars)


# ---- does it explain the step? ----

EXPLAINED_WORDS: sorting.Words = {
    "explained": ("explains", "yes", "it does"),
    "not explained": ("not", "no", "unexplained", "does not", "doesn't"),
}
ROWS: Mapping[str, Thing] = {
    "calls": Thing("explained", {"not explained": "one-call-for-all"}),
    "inputs": Thing("explained", {"not explained": "one-input-for-all"}),
    "share": Thing("not explained", {"explained": "share-for-explanation"}),
    "first": Thing("not explained", {"explained": "first-call-counted"}),
    "other": Thing("not explained", {"explained": "other-inputs"}),
}
EXPLAINS = 0.8
"""An operator is explained where its calls, alone, take at least this share of its self time in the step."""


def _draw_rows(chance: random.Random) -> dict[str, Any]:
    """Numbers of five operators, each in a step of its own; times in ms."""
    return {name: make(chance) for name, make in _ROWS.items()}


def _row_of_calls(chance: random.Random) -> dict[str, Any]:
    calls, one = chance.randint(12, 24), chance.uniform(0.8, 1.6)
    return _told(calls, one, calls * one / chance.uniform(0.95, 1.0), chance.uniform(0.5, 0.7))


def _row_of_inputs(chance: random.Random) -> dict[str, Any]:
    few, many = chance.randint(2, 3), chance.randint(8, 14)
    long, short = chance.uniform(4.0, 6.0), chance.uniform(0.9, 1.4)
    told = _told(few + many, short, (few * long + many * short) / chance.uniform(0.95, 1.0), chance.uniform(0.5, 0.7))
    return {**told, "few": few, "many": many, "long": f"{long:.2f}", "short": f"{short:.2f}"}


def _row_of_share(chance: random.Random) -> dict[str, Any]:
    calls, one = chance.randint(4, 9), chance.uniform(1.0, 2.0)
    return _told(calls, one, calls * one / chance.uniform(0.3, 0.4), chance.uniform(0.75, 0.85))


def _row_of_first(chance: random.Random) -> dict[str, Any]:
    calls, one, times = chance.randint(4, 9), chance.uniform(0.8, 1.6), chance.uniform(3.5, 5.0)
    told = _told(calls, one, calls * one * times / chance.uniform(0.97, 1.0), chance.uniform(0.5, 0.7))
    return {**told, "first": f"{times * one:.2f}"}


def _row_of_other(chance: random.Random) -> dict[str, Any]:
    calls, one, times = chance.randint(4, 9), chance.uniform(0.8, 1.6), chance.uniform(2.5, 3.5)
    told = _told(calls, one, calls * one * times / chance.uniform(0.95, 1.0), chance.uniform(0.5, 0.7))
    return {**told, "square": f"{times * one:.2f}"}


def _told(calls: int, one: float, own: float, share: float) -> dict[str, Any]:
    """Of an operator: its calls, one of them alone with the range of ten, its self time in the step, and the step."""
    return {
        "calls": calls,
        "one": f"{one:.2f} ({0.99 * one:.2f} to {1.02 * one:.2f})",
        "own": f"{own:.1f}",
        "step": f"{own / share:.1f}",
    }


_ROWS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    "calls": _row_of_calls,
    "inputs": _row_of_inputs,
    "share": _row_of_share,
    "first": _row_of_first,
    "other": _row_of_other,
}

# ---- what is decided ----

DECIDE_IDEAS: Mapping[str, str | None] = {
    "gain": "isolated-for-whole",
    "busiest": "calls-for-time",
    "another": "replaced-before-isolated",
    "traced": "proved-in-the-profiler",
}


def _draw_decide(chance: random.Random) -> Case:
    calls, one = chance.randint(4, 9), chance.uniform(1.5, 2.5)
    own = calls * one / 0.97
    values = {
        "calls": calls,
        "one": f"{one:.2f}",
        "less": f"{one / 2:.2f}",
        "own": f"{own:.1f}",
        "step": f"{own / 0.6:.1f}",
        "saved": f"{calls * one / 2:.1f}",
        "many": chance.randint(200, 400),
    }
    return {"options": choices.shuffled(chance, ("whole", *DECIDE_IDEAS)), "right": "whole", "values": values}


# ---- the lab ----

_WAYS = sorting.item("08/ways", WAYS, WAYS_WORDS, values=_draw_ways)
_EXPLAINED = sorting.item("08/explained", ROWS, EXPLAINED_WORDS, values=_draw_rows)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: a report, ways to look closer, the operator with its record, rows and options."""
    ways, decide = _WAYS.draw(own_numbers("08/ways")), _draw_decide(own_numbers("08/decide"))
    device = devices.choose("auto")
    recorded = isolating.on_device(isolating.plan(own_numbers("08/material")), device)
    return {
        "report": read(draw_found(own_numbers("08/found")))[1],
        "record": catalogue.text("08.say.record", **ways["values"]),
        "ways": sorting.asked(ways, "08.say.ways"),
        "device": device,
        "recorded": recorded,
        "new_operator": isolating.Operator,
        "in_step": lambda: isolating.in_step(recorded, device),
        "rows": sorting.asked(_EXPLAINED.draw(own_numbers("08/explained")), "08.say.rows"),
        "isolated": catalogue.text("08.say.isolated", **decide["values"]),
        "options": {
            letter: catalogue.text(f"08.option.{name}", **decide["values"])
            for letter, name in decide["options"].items()
        },
    }


LAB = Lab(
    number="08",
    name="08-dominant-operator",
    minutes=40,
    seconds=10,
    gpu="optional",
    gpu_memory_mb=3000,
    origins=("constructed", "live"),
    material=material,
    items=(
        choices.prediction("08/prediction", "abcd"),
        Item(id="08/found", points=sum(FOUND_PARTS.values()), draw=draw_found, probe=_probe_found, judge=_judge_found),
        _WAYS,
        Item(
            id="08/isolated_ms",
            points=sum(ISOLATED_PARTS.values()),
            draw=lambda chance: {"recorded": isolating.plan(chance)},
            probe=_probe_isolated,
            judge=_judge_isolated,
            hidden=2,
            timed=True,
        ),
        _EXPLAINED,
        choices.one_of("08/decide", 1, _draw_decide, DECIDE_IDEAS),
    ),
)
