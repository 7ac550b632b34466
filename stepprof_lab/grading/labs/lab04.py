"""Lab 04, warm-up: where a series of step times is steady, and what is reported of the steps before.

The series are constructed (`stepprof_lab.grading.series`); the live part is a real step that is slow at first
(`stepprof_lab.grading.warming`), judged against the library's own times of the very same calls.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepprof_lab.grading import choices, ideas, judging, plain, series, warming
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call
from stepprof_lab.grading.series import Series, StartUp
from stepprof_lab.validate import steady

STEPS_OFF = 5
"""A start-up may be found so many steps too long or too short: windows of different lengths see its end there."""
LEVEL = 0.015
"""Relative. The mean, the median and a window's mean of a constructed steady part are closer than 1 % to each other."""

Told = Mapping[str, Any]
"""What a learner's report says."""


def _is(given: Any, wanted: float, tolerance: float = LEVEL, absolute: float = 0.0) -> bool:
    return type(given) in {int, float} and ideas.is_near(given, wanted, tolerance, absolute)


def _dict(answer: Any, names: Sequence[str]) -> dict[str, Any]:
    """A learner's dict as plain data.

    Raises:
        Unanswered: it is still empty.
        TypeError: it is none.
    """
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if not isinstance(found, dict):
        raise TypeError(f"a dict with {', '.join(names)} was expected, not a {type(answer).__name__}")
    if all(value is None or value == {} for value in found.values()):
        raise Unanswered
    return found


def _by_parts(
    ident: str,
    worth: Mapping[str, float],
    held: Mapping[str, bool],
    evidence: Sequence[Evidence],
    find: Callable[[str], str | None],
    *,
    values: dict[str, Any] | None = None,
    picture: Picture | None = None,
) -> Verdict:
    """The verdict on an item of several parts: points for each, and the idea of the first wrong one that shows one."""
    parts = [Part(id=name, points=of if held[name] else 0, of=of) for name, of in worth.items()]
    points, of = sum(part.points for part in parts), sum(worth.values())
    if all(held.values()):
        return judging.right(ident, of, evidence, Said(key=ident.replace("/", ".right.")), picture=picture)
    idea = next((shown for name in worth if not held[name] and (shown := find(name)) is not None), None)
    return judging.wrong(ident, of, evidence, idea=idea, values=values, points=points, parts=parts, picture=picture)


# ---- prediction ----


def _probe_prediction(answer: Any, _: Case) -> Evidence:
    found = plain.number(answer)
    if found is None or not 0 <= found <= 1000:
        raise Unanswered
    return Evidence(data={"value": found}, origin="constructed")


def _judge_prediction(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    early = judging.not_run("04/prediction", 1, evidence)
    return early or judging.right("04/prediction", 1, evidence, Said(key="04.right.prediction"))


# ---- what a series does: by eye ----

BEHAVIOURS: Mapping[str, dict[str, Any]] = {
    "a": {},
    "b": {"shift": 0.22},
    "c": {"slow": 4},
    "d": {"drift": 0.25},
}
"""One level; another level for good; new shapes now and then; a drift all along."""
NAMES = ("first", "second", "third", "fourth")


def make_four(chance: random.Random) -> dict[str, Any]:
    """Four series of which each does something else after its start-up; and which does what."""
    order = list(BEHAVIOURS)
    chance.shuffle(order)
    made = {
        name: series.make(chance, longest=(8, 14), **BEHAVIOURS[letter])
        for name, letter in zip(NAMES, order, strict=True)
    }
    return {
        "series": {name: one["times_ms"] for name, one in made.items()},
        "right": dict(zip(NAMES, order, strict=True)),
    }


KINDS_WORTH = dict.fromkeys(NAMES, 0.5)

KINDS_IDEAS: Mapping[tuple[str, str], str] = {
    ("b", "a"): "level-unnoticed",
    ("c", "a"): "new-shape-unnoticed",
    ("d", "a"): "drift-unnoticed",
    ("b", "d"): "shift-and-drift-confused",
    ("d", "b"): "shift-and-drift-confused",
    ("a", "c"): "noise-taken-for-more",
    ("a", "b"): "noise-taken-for-more",
    ("a", "d"): "noise-taken-for-more",
}
"""(what it does, what was answered): the misconception."""


def _probe_kinds(answer: Any, _: Case) -> Evidence:
    return Evidence(data={"answer": _dict(answer, NAMES)}, origin="constructed")


def _judge_kinds(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/kinds", sum(KINDS_WORTH.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    right = cases[0]["right"]
    given = {name: choices.letter(evidence[0].data["answer"].get(name), "abcd") for name in NAMES}
    held = {name: given[name] == right[name] for name in NAMES}
    return _by_parts(ident, KINDS_WORTH, held, evidence, lambda name: KINDS_IDEAS.get((right[name], given[name] or "")))


# ---- from where on it is steady ----


def _drawn(chance: random.Random, **how: Any) -> Series:
    """A series in which the library finds the steady part where it was put."""
    while True:
        made = series.make(chance, **how)
        if _is_start_up(steady.find(made["times_ms"]).after, made):
            return made


def _draw_steady(chance: random.Random) -> Case:
    made = [
        _drawn(chance, start_up="falling"),
        _drawn(chance, start_up="plateau", longest=(18, 24)),
        _drawn(chance, start_up="falling", slow=2),
        _drawn(chance, start_up="none"),
    ]
    kinds = ["falling", "plateau", "new shape", "none"]
    order = list(range(len(made)))
    chance.shuffle(order)
    return {"series": [made[at] for at in order], "kinds": [kinds[at] for at in order]}


def _probe_steady(answer: Any, case: Case) -> Evidence:
    found = [_called(answer, one) for one in case["series"]]
    if all(value is None for value in found):
        raise Unanswered
    values = [plain.number(value) for value in found]
    kinds = [type(one).__name__ for one, value in zip(found, values, strict=True) if value is None]
    value = None if kinds else values[0]
    return Evidence(data={"values": values, "value": value, "kind": (kinds or [""])[0]}, origin="constructed")


def _called(answer: Any, one: Series) -> Any:
    """What the answer gives for a series; None where it gives nothing."""
    try:
        return call(answer, list(one["times_ms"]))
    except Unanswered:
        return None


def _judge_steady(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/steady_from", 3
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    if any(one.data["value"] is None for one in evidence):
        return judging.no_number(ident, of, evidence)
    asked = [
        (kind, one, value)
        for case, seen in zip(cases, evidence, strict=True)
        for kind, one, value in zip(case["kinds"], case["series"], seen.data["values"], strict=True)
    ]
    wrong = [(kind, one, value) for kind, one, value in asked if not _is_start_up(value, one)]
    if not wrong:
        return judging.right(ident, of, evidence, Said(key="04.right.steady_from"))
    _, one, value = wrong[0]
    values = {"yours": f"{value:g}", "steps": len(one["times_ms"])}
    return judging.wrong(ident, of, evidence, idea=_idea_of_steady(asked, wrong), values=values)


def _is_start_up(value: Any, one: Series) -> bool:
    return type(value) in {int, float} and abs(value - one["start_up"]) <= STEPS_OFF


Asked = Sequence[tuple[str, Series, float]]


def _idea_of_steady(asked: Asked, wrong: Asked) -> str | None:
    fixed = _of_a_fixed_number([value for _, _, value in asked])
    if fixed is not None:
        return fixed
    if any(kind == "new shape" and value > one["slow"][0] - STEPS_OFF for kind, one, value in wrong):
        return "slow-step-taken-for-start-up"
    if any(kind == "plateau" and value < one["start_up"] for kind, one, value in wrong) and all(
        kind == "plateau" for kind, _, _ in wrong
    ):
        return "plateau-taken-for-steady"
    early = [value < one["start_up"] for kind, one, value in wrong if kind != "none"]
    return "start-up-cut-short" if early and all(early) else None


def _of_a_fixed_number(values: Sequence[float]) -> str | None:
    """What it shows to leave out the same few steps of every series."""
    most = max(values)
    if most <= 0:
        return "mean-of-everything"
    if most <= 1:
        return "only-first-dropped"
    if most <= 4:
        return "profiler-warm-up"
    return "fixed-number" if len(set(values)) == 1 else None


# ---- the report of a series ----

REPORT_WORTH: Mapping[str, float] = {"steady_ms": 1.5, "first_ms": 0.5, "steady_after": 1, "slow_steps": 1}


_KINDS: tuple[StartUp, ...] = ("falling", "plateau")


def _draw_report(chance: random.Random) -> Case:
    return {"series": _drawn(chance, count=240, start_up=chance.choice(_KINDS), longest=(25, 40), slow=2)}


def _probe_report(answer: Any, case: Case) -> Evidence:
    found = _dict(call(answer, list(case["series"]["times_ms"])), list(REPORT_WORTH))
    return Evidence(data={"answer": found}, origin="constructed")


def _judge_report(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/report", sum(REPORT_WORTH.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    both = [(case["series"], one.data["answer"]) for case, one in zip(cases, evidence, strict=True)]
    held = {name: all(_held_in_report(name, told, one) for one, told in both) for name in REPORT_WORTH}

    def find(name: str) -> str | None:
        found = {_idea_of_report(name, told, one) for one, told in both if not _held_in_report(name, told, one)}
        return found.pop() if len(found) == 1 else None

    one, told = both[0]
    picture = _picture(told.get("steady_ms"), one["level_ms"])
    return _by_parts(ident, REPORT_WORTH, held, evidence, find, picture=picture)


def _held_in_report(name: str, told: Told, one: Series) -> bool:
    given = told.get(name)
    if name == "steady_ms":
        return _is(given, one["level_ms"])
    if name == "first_ms":
        return _is(given, one["times_ms"][0], 0.001, 0.051)
    if name == "steady_after":
        return _is_start_up(given, one)
    slow: list[int] = one["slow"]
    return _numbers(given) == slow


def _numbers(given: Any) -> list[Any] | None:
    """Step numbers in order; a single one, or none in some other way, is a list too."""
    if type(given) in {int, float}:
        return [given]
    if not isinstance(given, list) or any(type(one) not in {int, float} for one in given):
        return None
    return sorted(given)


def _idea_of_report(name: str, told: Told, one: Series) -> str | None:
    times, given = one["times_ms"], told.get(name)
    if name == "steady_ms":
        return _idea_of_level(given, times, one["start_up"], one["slow"])
    if name == "first_ms":
        return _idea_of_first(given, times, one["level_ms"])
    if name == "steady_after":
        return None if given is None or type(given) not in {int, float} else _of_a_fixed_number([given])
    return _idea_of_slow(_numbers(given), one["slow"], one["start_up"])


def _idea_of_level(
    given: Any, times: Sequence[float], start_up: int, slow: Sequence[int], tolerance: float = 0.01
) -> str | None:
    """What a wrong time of a usual step shows, from what it is the mean or the median of."""

    def usual(first: int) -> list[float]:
        return [ms for at, ms in enumerate(times) if at >= first and at not in slow]

    cut_short = range(2, max(2, start_up - STEPS_OFF))
    averages: Mapping[str, Sequence[Sequence[float]]] = {
        "profiler-warm-up": [times[2:4], times[1:3], times[1:4], times[2:6], times[2:3], times[3:4], times[:4]],
        "only-first-dropped": [times[1:], usual(1)],
        "mean-of-everything": [times, usual(0)],
        "new-shape-unnoticed": [times[start_up + off :] for off in range(-STEPS_OFF, 2 * STEPS_OFF)],
        "start-up-cut-short": [*(times[at:] for at in cut_short), *(usual(at) for at in cut_short)],
        "start-up-for-steady": [times[:start_up], times[1:start_up]],
    }
    if type(given) not in {int, float}:
        return None
    off = {
        (abs(given / take(part) - 1), number, idea)
        for number, (idea, parts) in enumerate(averages.items())
        for part in parts
        if part
        for take in (statistics.fmean, statistics.median)
    }
    nearest, _, idea = min(off)
    if nearest <= tolerance:
        return idea
    late = statistics.median(usual(start_up) or times)
    return "units-mixed" if _is(given, 1000 * late, 0.5) or _is(given, late / 1000, 0.5) else None


def _idea_of_first(given: Any, times: Sequence[float], level: float) -> str | None:
    if given is None or any(_is(given, value, 0.001) for value in (*times[1:], level)):
        return "start-up-erased"
    return None


def _idea_of_slow(given: Sequence[Any] | None, slow: Sequence[int], start_up: int) -> str | None:
    if given is None or not given:
        return "new-shape-unnoticed"
    if list(given) == [one + 1 for one in slow]:
        return "counted-from-one"
    if any(one < start_up - STEPS_OFF for one in given) and set(slow) <= set(given):
        return "start-up-among-slow"
    if any(list(given) == [one - start_up - off for one in slow] for off in range(-STEPS_OFF, STEPS_OFF + 1)):
        return "counted-from-the-steady-part"
    return "new-shape-unnoticed" if set(given) < set(slow) else None


def _picture(given: Any, wanted: float) -> Picture | None:
    if type(given) not in {int, float}:
        return None
    return Picture(
        unit="ms a step",
        bars=[Bar(name="yours", value=given, kind="yours"), Bar(name="reference", value=wanted, kind="reference")],
    )


# ---- throughput ----

RATE_APART = 0.03
"""Relative. On a drawn series every wrong idea is further from the right rate than that."""

RATE_IDEAS: Mapping[str, ideas.Idea] = {
    "cumulative-throughput": lambda case: _rate(case, case["series"]["times_ms"]),
    "cumulative-throughput, as a mean of rates": lambda case: statistics.fmean(
        1000 * case["batch"] / ms for ms in case["series"]["times_ms"]
    ),
    "only-first-dropped": lambda case: _rate(case, case["series"]["times_ms"][1:]),
    "profiler-warm-up": lambda case: _rate(case, case["series"]["times_ms"][2:4]),
    "profiler-warm-up, a step later": lambda case: _rate(case, case["series"]["times_ms"][3:5]),
    "start-up-for-steady": lambda case: _rate(case, case["series"]["times_ms"][: case["series"]["start_up"]]),
    "start-up-for-steady, the first step": lambda case: _rate(case, case["series"]["times_ms"][:1]),
    "units-mixed": lambda case: _right_rate(case) / 1000,
    "units-mixed, the other way": lambda case: _right_rate(case) * 1000,
    "units-mixed, twice": lambda case: _right_rate(case) / 1e6,
    "batch-left-out": lambda case: _right_rate(case) / case["batch"],
    "batch-left-out, per ms": lambda case: _right_rate(case) / case["batch"] / 1000,
    "time-for-rate": lambda case: case["series"]["level_ms"] / case["batch"],
    "time-for-rate, a step's": lambda case: case["series"]["level_ms"],
}


def _rate(case: Case, times_ms: Sequence[float]) -> float:
    """Samples a second over some steps in a row."""
    return float(1000 * case["batch"] * len(times_ms) / sum(times_ms))


def _right_rate(case: Case) -> float:
    return _rate(case, case["series"]["times_ms"][case["series"]["start_up"] :])


def _draw_rate(chance: random.Random) -> Case:
    while True:
        made = _drawn(chance, count=220, start_up=chance.choice(_KINDS), longest=(28, 38))
        case: Case = {"series": made, "batch": chance.choice((16, 24, 32, 48, 64, 96, 128))}
        wanted = _right_rate(case)
        others = {name: idea for name, idea in RATE_IDEAS.items() if name.startswith(("units", "batch", "time"))}
        if ideas.differ_from(wanted, case, RATE_IDEAS, RATE_APART / 3) and ideas.tell_apart(case, others, LEVEL):
            return case


def _probe_rate(answer: Any, case: Case) -> Evidence:
    found = call(answer, list(case["series"]["times_ms"]), case["batch"])
    return Evidence(data={"value": plain.number(found), "kind": type(found).__name__}, origin="constructed")


def _judge_rate(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/samples_per_s", 2
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    answers = [one.data["value"] for one in evidence]
    if any(answer is None for answer in answers):
        return judging.no_number(ident, of, evidence)
    wanted = [_right_rate(case) for case in cases]
    bars = [Bar(name="yours", value=answers[0], kind="yours"), Bar(name="reference", value=wanted[0], kind="reference")]
    picture = Picture(unit="samples/s", bars=bars)
    if all(ideas.is_near(a, w, LEVEL) for a, w in zip(answers, wanted, strict=True)):
        return judging.right(ident, of, evidence, Said(key="04.right.samples_per_s"), picture=picture)
    idea = ideas.shown_by(answers, cases, RATE_IDEAS, 0.001) or ideas.shown_by(answers, cases, RATE_IDEAS, 0.01)
    values = {"yours": f"{answers[0]:.4g}"}
    return judging.wrong(ident, of, evidence, idea=idea and idea.split(",")[0], values=values, picture=picture)


# ---- a live step ----

LIVE_WORTH: Mapping[str, float] = {"steady_ms": 2, "first_ms": 1, "slow_steps": 1}

SAME_CALLS = 0.05
"""Relative, and `SAME_CALLS_MS`: how far the learner's time of a call may be from the library's time of the same call.
Both clocks are read within microseconds of each other; what can lie between is the system taking the processor away."""
SAME_CALLS_MS = 0.3
USUAL = (0.9, 1.15)
"""A usual step is from so many times the lower quartile to so many times the mean of the steady part, new shape left
out: median, trimmed mean and mean are all answers, and on a busy machine they differ by a third."""


NOT_SLOW = 3
"""Calls that an answer may list though the library's clock saw nothing: the processor was taken away between the two
clocks (seen once or twice in 120 calls beside nine busy tasks on two cores)."""
SPLIT = 1.5
"""Where 60 % of the calls took up to so many times what 40 % took, or more, a median says nothing: half of the calls
waited for the processor."""


def _draw_live(chance: random.Random) -> Case:
    return {"plan": warming.plan(chance)}


def _probe_live(answer: Any, case: Case) -> Evidence:
    times: list[float] = []
    step = warming.recorded(warming.new_step(case["plan"]), times)
    found = _dict(call(answer, step, case["plan"]["calls"]), list(LIVE_WORTH))
    kept = [round(ms, 4) for ms in times[: plain.MOST_VALUES]]
    return Evidence(data={"answer": found, "recorded_ms": kept}, device=warming.device_in_words())


def _judge_live(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/measure", sum(LIVE_WORTH.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    runs = [
        (one.data["answer"], one.data["recorded_ms"], case["plan"]) for case, one in zip(cases, evidence, strict=True)
    ]
    told, times, plan = runs[0]
    values = {"calls": len(times), "asked": plan["calls"]}
    if len(times) <= plan["new_at"]:
        idea = (
            _idea_of_level(told.get("steady_ms"), times, plan["start_up"], [], SAME_CALLS) if len(times) < 10 else None
        )
        return judging.wrong(ident, of, evidence, idea=idea or "too-few-calls", values=values)
    if any(len(times) > plan["new_at"] and not _can_tell(times, plan) for _, times, plan in runs):
        return judging.undecided(ident, of, evidence, Said(key="04.undecided.busy"))
    held = {name: all(_held_live(name, *run) for run in runs) for name in LIVE_WORTH}

    def find(name: str) -> str | None:
        return next(_idea_of_live(name, *run) for run in runs if not _held_live(name, *run))

    picture = _picture(told.get("steady_ms"), statistics.median(_steady(times, plan)))
    return _by_parts(ident, LIVE_WORTH, held, evidence, find, values=values, picture=picture)


def _steady(times: Sequence[float], plan: Mapping[str, Any]) -> list[float]:
    """The calls of the steady part but for the new shape."""
    return [ms for at, ms in enumerate(times) if at >= plan["start_up"] and at != plan["new_at"]]


def _usual(times: Sequence[float], plan: Mapping[str, Any]) -> tuple[float, float]:
    """From how many to how many ms a usual step takes."""
    late = _steady(times, plan)
    return USUAL[0] * statistics.quantiles(late, n=4)[0], USUAL[1] * statistics.fmean(late)


def _can_tell(times: Sequence[float], plan: Mapping[str, Any]) -> bool:
    """Whether the machine was quiet enough: the middle calls at one speed, and far from the mean of nearly all."""
    tenths = statistics.quantiles(_steady(times, plan), n=10)
    return tenths[5] <= SPLIT * tenths[3] and statistics.fmean(times[1:]) > _usual(times, plan)[1]


def _held_live(name: str, told: Told, times: Sequence[float], plan: Mapping[str, Any]) -> bool:
    if len(times) <= plan["new_at"]:
        return False
    if name == "steady_ms":
        low, high = _usual(times, plan)
        return _is(told.get(name), (low + high) / 2, 0.0, (high - low) / 2)
    if name == "first_ms":
        return _is(told.get(name), times[0], SAME_CALLS, SAME_CALLS_MS)
    given = _numbers(told.get(name))
    return given is not None and _slow_held(given, times, plan)


def _idea_of_live(name: str, told: Told, times: Sequence[float], plan: Mapping[str, Any]) -> str | None:
    given = told.get(name)
    if name == "steady_ms":
        return _idea_of_level(given, times, plan["start_up"], [plan["new_at"]], SAME_CALLS)
    if name == "first_ms":
        return _idea_of_first_call(given, times)
    return _idea_of_slow(_numbers(given), [plan["new_at"]], plan["start_up"])


def _slow_held(given: Sequence[Any], times: Sequence[float], plan: Mapping[str, Any]) -> bool:
    """Whether the new shape is listed (or a call that the machine made slower still), and little that was not slow."""
    first, least = plan["start_up"] - STEPS_OFF, 1.9 * _usual(times, plan)[0]
    slowest = max(range(plan["start_up"], len(times)), key=times.__getitem__)
    if not {plan["new_at"], slowest} & set(given):
        return False
    if any(one != int(one) or not first <= one < len(times) for one in given):
        return False
    return sum(times[int(one)] < least for one in given) <= NOT_SLOW


def _idea_of_first_call(given: Any, times: Sequence[float]) -> str | None:
    """A first call's time that is none, or that of a call after it, shows that the start-up was left out."""
    if given is None or (type(given) in {int, float} and 0 <= given <= 0.6 * times[0]):
        return "start-up-erased"
    return None


# ---- the decision ----

DECIDE_WORTH: Mapping[str, float] = {"warm_up_proves": 1, "wait": 1, "report": 1}
PROVES = {"a": "profiler-warm-up", "c": "profiler-warm-up", "d": "four-steps-a-distribution"}
REPORTS = {"a": "mean-of-everything", "b": "start-up-erased", "d": "fastest-reported"}


def make_window(chance: random.Random) -> dict[str, Any]:
    """The series into which a window of wait, one step of warm-up and two active steps is to be put."""
    return {"series": _drawn(chance, longest=(18, 28), slow=3)}


def _probe_decide(answer: Any, _: Case) -> Evidence:
    return Evidence(data={"answer": _dict(answer, list(DECIDE_WORTH))}, origin="constructed")


def _judge_decide(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "04/decide", sum(DECIDE_WORTH.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    told, one = evidence[0].data["answer"], cases[0]["series"]
    proves, reports = (choices.letter(told.get(name), "abcd") for name in ("warm_up_proves", "report"))
    held = {
        "warm_up_proves": proves == "b",
        "wait": _idea_of_wait(told.get("wait"), one) == "",
        "report": reports == "c",
    }

    def find(name: str) -> str | None:
        if name == "wait":
            return _idea_of_wait(told.get("wait"), one) or None
        return PROVES.get(proves or "") if name == "warm_up_proves" else REPORTS.get(reports or "")

    return _by_parts(ident, DECIDE_WORTH, held, evidence, find)


def _idea_of_wait(wait: Any, one: Series) -> str | None:
    """What a number of steps to wait shows; an empty text where it is right, None where it is no such number."""
    if type(wait) not in {int, float} or wait != int(wait) or wait < 0:
        return None
    active = (int(wait) + 1, int(wait) + 2)
    if active[1] >= len(one["times_ms"]):
        return "window-never-comes"
    if active[0] < one["start_up"] - STEPS_OFF:
        return "start-up-in-window" if wait > 3 else "profiler-warm-up"
    return "new-shape-in-window" if set(active) & set(one["slow"]) else ""


# ---- the lab ----


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: four series to look at, one to put a window into, and a live step."""
    shown = _drawn(own_numbers("04/material"), count=200, longest=(25, 35), slow=2)
    planned = warming.plan(own_numbers("04/step"))
    return {
        "times_ms": shown["times_ms"],
        "four": make_four(own_numbers("04/kinds"))["series"],
        "window": make_window(own_numbers("04/decide"))["series"]["times_ms"],
        "calls": planned["calls"],
        "new_step": lambda: warming.new_step(planned),
    }


def _item(
    name: str, worth: Mapping[str, float], draw: Any, probe: Any, judge: Any, *, visible: int = 1, hidden: int = 0
) -> Item:
    points = sum(worth.values())
    return Item(id=f"04/{name}", points=points, draw=draw, probe=probe, judge=judge, visible=visible, hidden=hidden)


LAB = Lab(
    number="04",
    name="04-warm-up",
    minutes=45,
    seconds=20,
    gpu="optional",
    gpu_memory_mb=300,
    origins=("constructed", "live"),
    material=material,
    items=(
        _item("prediction", {"": 1}, lambda _: {}, _probe_prediction, _judge_prediction),
        _item("kinds", KINDS_WORTH, make_four, _probe_kinds, _judge_kinds),
        _item("steady_from", {"": 3}, _draw_steady, _probe_steady, _judge_steady, hidden=2),
        _item("report", REPORT_WORTH, _draw_report, _probe_report, _judge_report, visible=2, hidden=3),
        _item("samples_per_s", {"": 2}, _draw_rate, _probe_rate, _judge_rate, visible=2, hidden=3),
        _item("measure", LIVE_WORTH, _draw_live, _probe_live, _judge_live, hidden=2),
        _item("decide", DECIDE_WORTH, make_window, _probe_decide, _judge_decide),
    ),
)
