"""Lab 10, validate outside: two versions, one of which only looks faster.

The learner's harness is run on pairs of arms (`arms`). Each logs what was done with it, so that a harness is judged by
the very steps that it timed. The colleague's note at the end is constructed.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from stepprof_lab.grading import arms, catalogue, choices, ideas, judging, plain
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import call

MARGIN = 0.15
"""Differences within it are not called differences; the lab says so."""
FEWEST_RUNS = 4
"""Fresh arms of each kind in one comparison; the lab asks for at least 5 pairs."""
FEWEST_TURNS = 4
"""So often at least the arm changes from one step to the next in a comparison that takes turns."""
NEAR = 0.12
"""Relative. A ratio is compared with what the logged steps give by medians, by means and pair by pair."""
DISTURBED = 0.25
"""Where the ratios of an arm's runs are spread as far around their median, or their means are as far above their
medians, a verdict that does not hold is put down to the machine."""

Seen = Mapping[str, Any]


# ---- what the harness is run on ----


def _draw(kinds: Sequence[arms.Kind]) -> Any:
    def draw(chance: random.Random) -> Case:
        pairs = [arms.plan(chance, kind) for kind in kinds]
        chance.shuffle(pairs)
        return {"pairs": pairs}

    return draw


def _probe(answer: Any, case: Case) -> Evidence:
    return Evidence(data={"pairs": [_seen(answer, planned) for planned in case["pairs"]]})


def _seen(answer: Any, planned: arms.Plan) -> dict[str, Any]:
    pair = arms.Pair(planned)
    found = plain.data(call(answer, pair.before, pair.after))
    if not isinstance(found, dict):
        raise TypeError(f"a dict with ratio, interval and verdict was expected, not a {type(found).__name__}")
    runs = [{"arm": one.arm, "steps_ms": [took for _, took in one.steps]} for one in pair.log]
    in_order = sorted((number, one.arm) for one in pair.log for number, _ in one.steps)
    turns = sum(one != other for (_, one), (_, other) in itertools.pairwise(in_order))
    return {"answer": found, "runs": runs, "turns": turns}


# ---- what an answer says ----

_WORDS = {
    "faster": ("faster",),
    "slower": ("slower",),
    "no difference shown": ("no difference", "equivalent", "equal", "same", "no change", "inconclusive"),
    "not comparable": ("not comparable", "incomparable", "uncomparable", "not compare"),
}


def verdict_meant(value: Any) -> str | None:
    """Which of the four verdicts a text means; None where it means none."""
    if not isinstance(value, str):
        return None
    said = " ".join(value.lower().replace("_", " ").replace("-", " ").split())
    return next((name for name, words in _WORDS.items() if said.startswith(words)), None)


def by_interval(low: float, high: float) -> str:
    """The verdict that an interval gives by the lab's rule."""
    if high < 1 - MARGIN:
        return "faster"
    return "slower" if low > 1 + MARGIN else "no difference shown"


def _interval(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != 2 or not all(type(one) in {int, float} for one in value):
        return None
    return min(value), max(value)


# ---- what the log says ----


def _steps(seen: Seen, arm: str, first: int = arms.START_UP_STEPS) -> list[list[float]]:
    """For each run of an arm, its steps from one on; runs without such a step are left out."""
    return [one["steps_ms"][first:] for one in seen["runs"] if one["arm"] == arm and len(one["steps_ms"]) > first]


_ROBUST = (statistics.median, min)
_WAYS = (*_ROBUST, statistics.fmean)
"""Honest ways to put the steps of a run together; a stall of the machine is in the last one alone."""


def _ratios(seen: Seen, ways: Sequence[Any] = _WAYS, first: int = arms.START_UP_STEPS) -> list[float]:
    """After over before, pair by pair and of all steps, for each way to put steps together."""
    before, after = (_steps(seen, arm, first) for arm in ("before", "after"))
    if not before or not after:
        return []
    found = []
    for way in ways:
        pairs = [way(new) / way(old) for old, new in zip(before, after, strict=False)]
        found += [statistics.geometric_mean(pairs), statistics.median(pairs)]
        found.append(way(list(itertools.chain(*after))) / way(list(itertools.chain(*before))))
    return found


def _is_disturbed(seen: Seen) -> bool:
    """Whether this machine could not hold the steps' durations while they were timed."""
    for arm in ("before", "after"):
        runs = _steps(seen, arm)
        medians = [statistics.median(one) for one in runs]
        if not runs or max(medians) > (1 + DISTURBED) * min(medians):
            return True
        steps = list(itertools.chain(*runs))
        if statistics.fmean(steps) > (1 + DISTURBED) * statistics.median(steps):
            return True
    return False


def _near_any(value: float, wanted: Sequence[float], tolerance: float = NEAR) -> bool:
    return any(ideas.is_near(value, one, tolerance) for one in wanted)


# ---- one pair ----

TRUE: Mapping[str, str] = {
    "equal": "no difference shown",
    "inside": "no difference shown",
    "slower": "slower",
    "faster": "faster",
    "less-work": "not comparable",
    "moved-on": "not comparable",
    "stored": "not comparable",
}
"""The verdict on each kind of pair."""

MISSED: Mapping[str, str] = {
    "less-work": "different-work",
    "moved-on": "state-moved-on",
    "stored": "stored-results",
}
"""The misconception that a verdict on arms shows that cannot be compared."""

RIGHT, UNDECIDED, UNKNOWN = "right", "undecided", "unknown"


def judged(planned: arms.Plan, seen: Seen) -> str:
    """What an answer on one pair shows: `RIGHT`, `UNDECIDED`, `UNKNOWN` or a misconception."""
    kind, verdict = planned["kind"], verdict_meant(seen["answer"].get("verdict"))
    if TRUE[kind] == "not comparable":
        return RIGHT if verdict == "not comparable" else MISSED[kind]
    if verdict == "not comparable":
        return "everything-doubted"
    return _judged_design(seen) or _judged_numbers(planned, seen, verdict)


def _judged_design(seen: Seen) -> str | None:
    """How the timing was done, by the log alone; None where it was done well."""
    runs = [sum(one["arm"] == arm for one in seen["runs"]) for arm in ("before", "after")]
    if min(runs) < FEWEST_RUNS:
        return "state-moved-on" if seen["turns"] >= FEWEST_TURNS else "one-run-each"
    return "one-after-the-other" if seen["turns"] < FEWEST_TURNS else None


def _judged_numbers(planned: arms.Plan, seen: Seen, verdict: str | None) -> str:
    ratio, interval = seen["answer"].get("ratio"), _interval(seen["answer"].get("interval"))
    if type(ratio) not in {int, float} or ratio <= 0:
        return UNKNOWN
    if interval is None or interval[1] - interval[0] <= 1e-6 * ratio:
        return "spread-not-reported"
    if (idea := _of_another_ratio(planned, seen, ratio)) is not None:
        return idea
    if verdict != by_interval(*interval):
        return "margin-ignored" if verdict in {"faster", "slower"} else UNKNOWN
    if verdict == TRUE[planned["kind"]] and interval[0] * 0.95 <= ratio <= interval[1] * 1.05:
        return RIGHT
    return UNDECIDED if _is_disturbed(seen) else UNKNOWN


def _of_another_ratio(planned: arms.Plan, seen: Seen, ratio: float) -> str | None:
    """The wrong idea that gives this ratio, `UNKNOWN` where none does; None where the ratio is right."""
    robust = _ratios(seen, _ROBUST)
    if not robust:
        return "start-up-counted"
    if _near_any(ratio, [planned["factor"], *robust]):
        return None
    old, new = planned["inside"]
    if planned["kind"] == "inside" and _near_any(ratio, [new / old, statistics.median(robust) * new / old]):
        return "inside-for-outside"
    if planned["factor"] != 1 and _near_any(1 / ratio, [planned["factor"], *robust]):
        return "upside-down"
    if _near_any(ratio, [one - 1 for one in robust]) or _near_any(ratio, [100 * one for one in robust]):
        return "units-mixed"
    if _near_any(ratio, _ratios(seen)):
        return None
    if _near_any(ratio, _ratios(seen, first=0), NEAR / 2):
        return "start-up-counted"
    return UNDECIDED if _is_disturbed(seen) else UNKNOWN


# ---- a check: several pairs ----

ORDER: Sequence[str] = (
    "one-run-each",
    "state-moved-on",
    "different-work",
    "stored-results",
    "everything-doubted",
    "one-after-the-other",
    "spread-not-reported",
    "inside-for-outside",
    "upside-down",
    "units-mixed",
    "start-up-counted",
    "margin-ignored",
)
"""Of several misconceptions the first that matters."""

POINTS = 2.0
"""For each pair."""


def _judge(ident: str, kinds: Sequence[arms.Kind], unpaid: Sequence[arms.Kind] = ()) -> Any:
    """A judge over several pairs; what is said of an ``unpaid`` one has to hold as well, and earns nothing."""
    of = POINTS * (len(kinds) - len(unpaid))

    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence)) is not None:
            return early
        found = [
            (planned, seen, judged(planned, seen))
            for case, one in zip(cases, evidence, strict=True)
            for planned, seen in zip(case["pairs"], one.data["pairs"], strict=True)
        ]
        missed = [(planned, seen, shown) for planned, seen, shown in found if shown != RIGHT]
        if not missed:
            return judging.right(ident, of, evidence, Said(key=f"10.right.{ident[3:]}"))
        known = [shown for shown in ORDER if shown in {one for _, _, one in missed}]
        if not known and any(shown == UNDECIDED for _, _, shown in missed):
            return judging.undecided(ident, of, evidence, Said(key="10.said.disturbed"))
        wanted = known[0] if known else UNKNOWN
        planned, seen, _ = next(one for one in missed if one[2] == wanted)
        kinds_missed = {one["kind"] for one, _, _ in missed}
        failed = bool(kinds_missed.intersection(unpaid))
        parts = [
            Part(id=kind, points=0 if failed or kind in kinds_missed else POINTS, of=POINTS)
            for kind in kinds
            if kind not in unpaid
        ]
        return judging.wrong(
            ident,
            of,
            evidence,
            idea=known[0] if known else None,
            values=_values(planned, seen),
            points=sum(part.points for part in parts),
            parts=parts,
            picture=_picture(seen),
        )

    return judge


def _values(planned: arms.Plan, seen: Seen) -> dict[str, Any]:
    ratio = seen["answer"].get("ratio")
    runs = [sum(one["arm"] == arm for one in seen["runs"]) for arm in ("before", "after")]
    return {
        "verdict": str(seen["answer"].get("verdict"))[:40],
        "yours": f"{ratio:.3g}" if type(ratio) in {int, float} else "no number",
        "runs": min(runs),
        "interval": str(seen["answer"].get("interval"))[:60],
        "kind": planned["kind"],
    }


def _picture(seen: Seen) -> Picture | None:
    ratio, wanted = seen["answer"].get("ratio"), _ratios(seen)
    if type(ratio) not in {int, float} or not wanted:
        return None
    bars = [Bar(name="yours", value=ratio, kind="yours"), Bar(name="reference", value=wanted[0], kind="reference")]
    return Picture(unit="after / before", bars=bars)


# ---- the colleague's note ----

SENTENCES: Mapping[str, str | None] = {
    "holds": None,
    "first_runs": "one-run-each",
    "inside": "inside-for-outside",
    "mean": "spread-not-reported",
}
"""What may be chosen at the end, and which misconception it shows."""


def _draw_note(chance: random.Random) -> Case:
    while True:
        ratios = [round(chance.uniform(0.91, 1.08), 3) for _ in range(8)]
        if 0.965 <= statistics.fmean(ratios) <= 0.985 and ratios[0] < 0.94:
            break
    before = round(chance.uniform(30, 60), 1)
    note = {
        "before_ms": before,
        "after_ms": round(before * ratios[0], 1),
        "operator_percent": chance.randint(35, 48),
        "ratios": ratios,
    }
    return {"options": choices.shuffled(chance, sorted(SENTENCES)), "right": "holds", "note": note}


def _sentences(case: Case) -> dict[str, str]:
    note = case["note"]
    values = {
        "first_percent": f"{100 * (1 - note['ratios'][0]):.0f}",
        "mean_percent": f"{100 * (1 - statistics.fmean(note['ratios'])):.1f}",
        "operator_percent": note["operator_percent"],
    }
    return {letter: catalogue.text(f"10.say.{name}", **values) for letter, name in case["options"].items()}


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: pairs of arms to try a harness on, a colleague's note, and sentences about it."""
    chance = own_numbers("10/material")
    decision = _draw_note(own_numbers("10/decide"))
    planned: dict[arms.Kind, arms.Plan] = {kind: arms.plan(chance, kind) for kind in ("equal", "inside", "stored")}
    return {
        "new_pair": lambda name: arms.Pair(planned[name]),
        "as_build": arms.as_build,
        "note": decision["note"],
        "sentences": _sentences(decision),
    }


_TIMED: tuple[arms.Kind, ...] = ("equal", "slower", "inside")
_COMPARED: tuple[arms.Kind, ...] = ("faster", "less-work", "moved-on", "stored")

LAB = Lab(
    number="10",
    name="10-validate-outside",
    minutes=45,
    seconds=20,
    gpu="none",
    gpu_memory_mb=0,
    origins=("live", "constructed"),
    material=material,
    items=(
        choices.prediction("10/prediction", "abcd"),
        Item(id="10/timed", points=6, draw=_draw(_TIMED), probe=_probe, judge=_judge("10/timed", _TIMED), hidden=2),
        Item(
            id="10/comparable",
            points=6,
            draw=_draw(_COMPARED),
            probe=_probe,
            judge=_judge("10/comparable", _COMPARED, unpaid=("faster",)),
            hidden=2,
        ),
        choices.one_of("10/decide", 2, _draw_note, SENTENCES),
    ),
)
