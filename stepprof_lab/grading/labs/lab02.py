"""Lab 02, asynchronous timing: end to end by the host's clock, device work by events, and which question each answers.

The learner's functions time hidden work (`hidden_work`) on the GPU or on the practice device. Their numbers are judged
by the ratio to the library's own measurement of the same work, taken in turns with theirs. Where two wrong ideas give
the same number, the order of launches and waits tells which it was.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepprof_lab import devices, practice
from stepprof_lab.errors import NotAvailable
from stepprof_lab.grading import catalogue, choices, judging, plain
from stepprof_lab.grading.items import Item, Judge, Lab, OwnNumbers, Probe
from stepprof_lab.grading.labs import hidden_work
from stepprof_lab.grading.labs.hidden_work import Plan
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered
from stepprof_lab.grading.watching import LAUNCH, WAIT

REPETITIONS = 7
"""The shortest of so many is judged: what comes between makes a time longer, never shorter."""
FEWEST_REPETITIONS, MOST_REPETITIONS = 3, 14
BUDGET_S = 3.5
"""No further repetition begins after this time; a verdict is due within 5 s."""
SETTLED = 0.04
"""Times are settled once the three shortest are so close together; until then they are repeated, within the budget."""
LOW, HIGH = 0.06, 0.08
"""A right number is so much below or above the library's own at the most, relative to it. Measured on two shared cores
with two busy processes and more beside it: right answers that got a verdict were 0.99 to 1.04 of it in most runs."""
LATE = 0.02
"""What the library's own number is above the planned one counts so far at the most, where there is a plan."""
SCALES = (1.0, 1.6)
"""A case has one work of each size: a constant, and a number in another unit, fit one of them at the most."""

_now_ns = time.perf_counter_ns


# ---- timing hidden work ----


def _draw(*, host: bool, late: bool) -> Callable[[random.Random], Case]:
    def draw(chance: random.Random) -> Case:
        return {"works": [hidden_work.draw(chance, scale=scale, host=host, late=late) for scale in SCALES]}

    return draw


def _probe(measure: Callable[[hidden_work.Reference], float]) -> Probe:
    def probe(answer: Any, case: Case) -> Evidence:
        device = devices.gpu_or_practice()
        where: dict[str, Any] = {"device": device.sentence, "origin": device.origin}
        if not callable(answer) and (answer is None or answer is ...):
            raise Unanswered
        try:
            references = [hidden_work.Reference(plan, device) for plan in case["works"]]
        except NotAvailable as error:
            return Evidence(data={"refused": error.given}, **where)
        refused = _refusal(case) if device.vendor == "practice" else {}
        try:
            return Evidence(data=_repeated(answer, case["works"], device, references, measure) | refused, **where)
        except RuntimeError as error:
            if _is_read_early(error):
                return Evidence(data={"raised": "event-not-reached"}, **where)
            raise

    return probe


def _refusal(case: Case) -> dict[str, str]:
    """Why the practice device cannot hold the case's durations now; nothing where it can."""
    shortest = min(hidden_work.device_ms(plan) for plan in case["works"])
    try:
        practice.calibrate(shortest, tolerance=HIGH, samples=20)
    except NotAvailable as error:
        return {"refused": error.given}
    return {}


def _repeated(
    answer: Any,
    plans: Sequence[Plan],
    device: devices.Device,
    references: Sequence[hidden_work.Reference],
    measure: Callable[[hidden_work.Reference], float],
) -> dict[str, Any]:
    """The learner's function and the library in turns, one work after the other; stops at what is no number."""
    seen: list[dict[str, list[Any]]] = [
        {"values": [], "outside_ms": [], "left_ms": [], "calls": [], "reads": [], "references": []} for _ in plans
    ]
    begun = _now_ns()
    for turn in range(MOST_REPETITIONS):
        if turn >= FEWEST_REPETITIONS and _now_ns() - begun > 1e9 * BUDGET_S:
            break
        if turn >= REPETITIONS and all(map(_are_settled, seen)):
            break
        for plan, reference, into in zip(plans, references, seen, strict=True):
            ran = hidden_work.once(answer, plan, device)
            found = ran.pop("found")
            value = plain.number(found)
            if value is None:
                return {"value": None, "kind": type(found).__name__}
            for name, one in {**ran, "values": value, "references": measure(reference)}.items():
                into[name].append(one)
    return {"value": seen[0]["values"][0], "works": seen}


def _are_settled(seen: Mapping[str, Sequence[Any]], within: float = SETTLED) -> bool:
    """Whether further repetitions would hardly give shorter times."""
    return all(
        abs(third - shortest) <= within * abs(shortest)
        for shortest, _, third, *_ in (sorted(seen["values"]), sorted(seen["references"]))
    )


def _is_read_early(error: RuntimeError) -> bool:
    """Whether the time of an event was asked for before it was reached, on any device."""
    return any(words in str(error) for words in ("is not reached yet", "not ready", "must be completed"))


@dataclasses.dataclass(frozen=True)
class Look:
    """One work of a case, and what was seen of the answer on it."""

    plan: Mapping[str, Any]
    seen: Mapping[str, Any]
    simulated: bool

    @property
    def value(self) -> float:
        """The learner's shortest, in what they took for milliseconds."""
        return float(min(self.seen["values"]))

    @property
    def reference(self) -> float:
        """The library's shortest, ms."""
        return float(min(self.seen["references"]))

    @property
    def device_ms(self) -> float:
        """The work on the device, as planned."""
        return hidden_work.device_ms(self.plan)

    @property
    def host_ms(self) -> float:
        """The host's part, as planned."""
        return float(self.plan["host_ms"])

    @property
    def calls(self) -> str:
        """Launches and waits of the first repetition."""
        return str(self.seen["calls"][0])

    @property
    def last_run(self) -> tuple[str, str, str]:
        """The calls before the last whole work's first launch, from there to its last launch, and after it."""
        places = [place for place, one in enumerate(self.calls) if one == LAUNCH] or [0]
        begin, end = places[-len(self.plan["parts"]) :][0], places[-1] + 1
        return self.calls[:begin], self.calls[begin:end], self.calls[end:]

    @property
    def runs(self) -> int:
        """How often the whole work was launched."""
        return self.calls.count(LAUNCH) // len(self.plan["parts"])

    @property
    def planned(self) -> float:
        """What the plan says of the number that is asked for, ms."""
        return self.host_ms + self.device_ms

    @property
    def is_near(self) -> bool:
        """Whether the value is right. On the practice device it may be what was planned, where the library was late."""
        if not self.simulated:
            return self.near(self.reference)
        low, high = min(self.reference, self.planned), min(self.reference, (1 + LATE) * self.planned)
        return (1 - LOW) * low <= self.value <= (1 + HIGH) * high

    @property
    def goes_on(self) -> bool:
        """Whether work was still going on when the function had returned."""
        return bool(min(self.seen["left_ms"]) > 0.3 * self.device_ms)

    @property
    def was_measured(self) -> bool:
        """Whether the work ran in the call, for as long as the answer says."""
        return self.runs > 0 and all(
            float(outside) > 0.95 * min(value, self.reference)
            for outside, value in zip(self.seen["outside_ms"], self.seen["values"], strict=True)
        )

    @property
    def has_read_events(self) -> bool:
        """Whether a time between events was read. On a GPU there are other ways to it than those that are seen."""
        return bool(min(self.seen["reads"])) or (not self.simulated and self.is_near)

    def near(self, wanted: float) -> bool:
        """Whether the value is this one; a wanted one may be negative."""
        low, high = sorted(((1 - LOW) * wanted, (1 + HIGH) * wanted))
        return low <= self.value <= high

    def near_any(self, of: Callable[[int], float]) -> bool:
        """Whether the value is what 2 runs, or 3, or all but the first would give."""
        return any(self.near(of(count)) for count in range(2, self.runs))

    @property
    def holds_more(self) -> bool:
        """Whether the value has more in it than noise: a good part of a first call at the least."""
        return self.value > self.reference + 0.5 * float(self.plan["first_ms"])


Sign = Callable[[Look], bool]


def _holds_first_call(look: Look) -> bool:
    """The only run was the first; or the first is in a mean of all runs, or in their sum."""
    first: float = look.plan["first_ms"]
    if look.runs <= 1:
        return look.holds_more
    return look.near(look.reference + first / look.runs) or look.near(look.runs * look.reference + first)


def _in_another_unit(look: Look) -> bool:
    """The right number in another unit, or what a first call takes, with the work before it or without."""
    first = look.plan["first_ms"]
    behind = max(look.plan["earlier_ms"], look.host_ms) + first + look.device_ms
    return any(
        0.85 * factor * one < look.value < 1.25 * factor * one
        for factor in (1e3, 1e-3, 1e6, 1e-6)
        for one in (look.reference, look.reference + first, behind)
    )


def _wait_between(look: Look) -> bool:
    return WAIT in look.last_run[1] and look.value > (1 + HIGH) * look.reference


ELAPSED_CALLS: Mapping[str, Sign] = {
    "not-measured": lambda look: look.runs == 0,
    "wait-only-before": lambda look: look.goes_on and not look.last_run[2] and WAIT in look.last_run[0],
    "no-wait": lambda look: look.goes_on and not look.last_run[2],
    "wrong-stream": lambda look: look.goes_on,
    "wait-after-every": _wait_between,
}
"""Wrong ideas that the order of launches and waits shows, however busy the machine is; the more specific first."""

ELAPSED_NUMBERS: Mapping[str, Sign] = {
    "units-mixed": _in_another_unit,
    "first-call-counted": _holds_first_call,
    "runs-added": lambda look: (
        look.near_any(lambda count: count * look.reference)
        or look.near_any(lambda count: look.host_ms + count * look.device_ms)
    ),
    "runs-overlapped": lambda look: look.near_any(lambda count: look.device_ms + look.host_ms / count),
    "launch-left-out": lambda look: 0.85 * look.device_ms < look.value < (1 + HIGH) * look.device_ms,
    "no-wait, the clock was read first": lambda look: (
        0.9 * look.host_ms < look.value < look.host_ms + 0.2 * look.device_ms
    ),
    "earlier-work-counted": lambda look: look.holds_more and WAIT not in look.last_run[0],
    "not-measured, another's": lambda look: not look.was_measured,
}
"""Wrong ideas that the number shows; what stands behind a comma is how it came about."""

DEVICE_CALLS: Mapping[str, Sign] = {
    "not-measured": lambda look: look.runs == 0,
    "host-clock": lambda look: not look.has_read_events,
    "wrong-stream": lambda look: look.goes_on,
    "wait-after-every": _wait_between,
}

DEVICE_NUMBERS: Mapping[str, Sign] = {
    "units-mixed": _in_another_unit,
    "end-before-start": lambda look: look.near(-look.reference),
    "wrong-stream, nothing between": lambda look: look.value < 0.5 * look.reference,
    "first-call-counted": _holds_first_call,
    "runs-added": lambda look: look.near_any(lambda count: count * look.reference),
    "wrong-stream, earlier work": lambda look: look.holds_more and WAIT not in look.last_run[0],
    "not-measured, another's": lambda look: not look.was_measured,
}


def _first_sign(signs: Mapping[str, Sign], looks: Sequence[Look]) -> str | None:
    return next((name.split(",")[0] for name, sign in signs.items() if all(map(sign, looks))), None)


def _judge(
    ident: str, of: float, by_calls: Mapping[str, Sign], by_numbers: Mapping[str, Sign], *, by_events: bool
) -> Judge:
    def judge(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
        if (early := judging.not_run(ident, of, evidence) or _not_judged(ident, of, evidence)) is not None:
            return early
        looks = [
            Look(plan, seen, one.origin == "simulated")
            for case, one in zip(cases, evidence, strict=True)
            for plan, seen in zip(case["works"], one.data["works"], strict=True)
        ]
        picture = _picture(looks[0])
        if all(_is_right(one, by_events=by_events) for one in looks):
            # A wrong number that is too small may have become a right one by noise.
            if not all(_are_settled(one.seen, 2 * SETTLED) for one in looks):
                return judging.undecided(ident, of, evidence, Said(key="02.undecided.unsettled"))
            name = ident.split("/")[1]
            return judging.right(ident, of, evidence, Said(key=f"02.right.{name}"), picture=picture)
        idea = _first_sign(by_calls, looks)
        if idea is None and (why := _too_busy(looks, evidence)) is not None:
            return judging.undecided(ident, of, evidence, why)
        idea = idea or _first_sign(by_numbers, looks)
        if idea is None and not all(map(_is_quiet, looks)):
            return judging.undecided(ident, of, evidence, Said(key="02.undecided.unsettled"))
        values = {"yours": f"{looks[0].value:.4g}", "reference": f"{looks[0].reference:.1f} ms"}
        return judging.wrong(ident, of, evidence, idea=idea, values=values, picture=picture)

    return judge


def _not_judged(ident: str, of: float, evidence: Sequence[Evidence]) -> Verdict | None:
    """The verdict where there are no numbers to compare; else None."""
    for one in evidence:
        if "raised" in one.data:
            return judging.wrong(ident, of, evidence, idea="events-read-early")
        if one.data.get("value", 0.0) is None:
            return judging.no_number(ident, of, evidence)
        if "works" not in one.data:
            return judging.undecided(ident, of, evidence, _refused(one))
    return None


def _is_right(look: Look, *, by_events: bool) -> bool:
    return look.is_near and look.was_measured and not look.goes_on and (look.has_read_events or not by_events)


def _too_busy(looks: Sequence[Look], evidence: Sequence[Evidence]) -> Said | None:
    """Why no number can be judged here and now: nobody's could be right, or the device was too late; else None."""
    refused = next((_refused(one) for one in evidence if "refused" in one.data), None)
    return refused or next((_late(look) for look in looks if _is_late(look)), None)


def _is_late(look: Look) -> bool:
    """Whether the library's own number is not what the practice device's model says."""
    return look.simulated and not (1 - LOW) < look.reference / look.planned < 1 + HIGH


def _is_quiet(look: Look) -> bool:
    """Whether most times were as short as the shortest: only then is a number that fits no idea called wrong."""
    shortest = min(look.reference, look.planned) if look.simulated else look.reference
    values = look.seen["values"]
    return bool(
        statistics.median(look.seen["references"]) <= (1 + SETTLED) * shortest
        and abs(statistics.median(values) - min(values)) <= SETTLED * abs(min(values))
    )


def _late(look: Look) -> Said:
    values = {"planned": f"{look.planned:.1f} ms", "reference": f"{look.reference:.1f} ms"}
    return Said(key="02.undecided.late", values=values)


def _refused(one: Evidence) -> Said:
    return Said(key="02.undecided.refused", values={"why": one.data["refused"]})


def _picture(look: Look) -> Picture:
    return Picture(
        unit="ms",
        bars=[
            Bar(name="yours", value=look.value, kind="yours"),
            Bar(name="reference", value=look.reference, kind="reference"),
            Bar(name="02.bar.serial", value=sum(ms for ms, _ in look.plan["parts"])),
        ],
    )


# ---- which number answers which question ----

QUESTIONS: Mapping[str, str] = {
    "answer-to-a-person": "elapsed",
    "after-a-faster-loader": "elapsed",
    "one-after-the-other": "elapsed",
    "new-kernel": "device",
    "without-python": "device",
    "busy-host": "device",
    "launching": "neither",
    "reading": "neither",
    "each-operation": "neither",
}
"""Each question, and the number that answers it."""
EACH = 2
"""So many questions of each kind are asked."""
QUESTION_POINTS = 0.5

_SHOWN_BY = {
    ("elapsed", "device"): "device-for-latency",
    ("device", "elapsed"): "latency-for-device",
    ("neither", "elapsed"): "one-number-for-all",
    ("neither", "device"): "one-number-for-all",
    ("elapsed", "neither"): "no-number-for-it",
    ("device", "neither"): "no-number-for-it",
}
"""(what answers it, what was said) to the misconception."""


def _draw_questions(chance: random.Random) -> Case:
    kinds = ("elapsed", "device", "neither")
    asked = [
        name for kind in kinds for name in chance.sample([one for one, by in QUESTIONS.items() if by == kind], EACH)
    ]
    return {"letters": choices.shuffled(chance, asked)}


def _probe_questions(answer: Any, _: Case) -> Evidence:
    found = plain.data(answer) if answer is not ... else None
    if found is None or (isinstance(found, dict) and all(value is None for value in found.values())):
        raise Unanswered
    if not isinstance(found, dict):
        raise TypeError(f"a dict from letters to numbers' names was expected, not a {type(answer).__name__}")
    return Evidence(data={"answer": {key.strip().lower(): one for key, one in found.items()}}, origin="constructed")


def _meant(value: Any) -> str | None:
    """Which of the three a text means: "elapsed", "Device_ms ", "neither of them"."""
    said = str(value).strip().lower() if isinstance(value, str) else ""
    found = [one for one in ("elapsed", "device", "neither") if said.startswith(one)]
    return found[0] if found else None


def _judge_questions(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, letters = "02/questions", cases[0]["letters"]
    of = QUESTION_POINTS * len(letters)
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    given = {letter: _meant(evidence[0].data["answer"].get(letter)) for letter in letters}
    missed = [letter for letter, name in letters.items() if given[letter] != QUESTIONS[name]]
    if not missed:
        return judging.right(ident, of, evidence, Said(key="02.right.questions"))
    parts = [Part(id=one, points=0 if one in missed else QUESTION_POINTS, of=QUESTION_POINTS) for one in letters]
    shown = [_SHOWN_BY.get((QUESTIONS[letters[one]], given[one] or "")) for one in missed]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=next((idea for idea in _SHOWN_BY.values() if idea in shown), None),
        values={"letters": ", ".join(missed)},
        points=sum(part.points for part in parts),
        parts=parts,
    )


# ---- the lab ----


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: the device, some work to try on it, its plan, and the questions at the end."""
    device = devices.gpu_or_practice()
    plan = hidden_work.draw(own_numbers("02/material"), host=False, late=False)
    letters = _draw_questions(own_numbers("02/questions"))["letters"]
    return {
        "device": device,
        "work": hidden_work.hidden(plan, device),
        "new_work": lambda: hidden_work.hidden(plan, device),
        "plan": hidden_work.spans(plan),
        "questions": {letter: catalogue.text(f"02.question_of.{name}") for letter, name in letters.items()},
    }


def _timed(
    name: str,
    by_calls: Mapping[str, Sign],
    by_numbers: Mapping[str, Sign],
    measure: Callable[[hidden_work.Reference], float],
) -> Item:
    ident, points, by_events = f"02/{name}", 4.0, name == "device_ms"
    return Item(
        id=ident,
        points=points,
        draw=_draw(host=not by_events, late=by_events),
        probe=_probe(measure),
        judge=_judge(ident, points, by_calls, by_numbers, by_events=by_events),
        visible=1,
        hidden=2,
        timed=True,
    )


LAB = Lab(
    number="02",
    name="02-async-timing",
    minutes=40,
    seconds=10,
    gpu="optional",
    gpu_memory_mb=600,
    origins=("live", "simulated"),
    material=material,
    items=(
        choices.prediction("02/prediction", "abcd"),
        _timed("elapsed_ms", ELAPSED_CALLS, ELAPSED_NUMBERS, hidden_work.Reference.elapsed_ms),
        _timed("device_ms", DEVICE_CALLS, DEVICE_NUMBERS, hidden_work.Reference.device_ms),
        Item(
            id="02/questions",
            points=QUESTION_POINTS * 3 * EACH,
            draw=_draw_questions,
            probe=_probe_questions,
            judge=_judge_questions,
        ),
    ),
)
