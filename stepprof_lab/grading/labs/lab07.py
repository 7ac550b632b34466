"""Lab 07, small launches: tiny operations are counted and grouped, and the whole step says whether it was worth it.

The traces are constructed and read by the interpreter: one has many launches and a GPU that is busy all the time, the
other has fewer and a GPU that waits for them. The live update (`stepprof_lab.grading.grouping`) is judged by its
outputs and by the time of whole steps beside the library's own version; how often it launches decides no point.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import devices
from stepprof_lab.construct import Construct
from stepprof_lab.grading import choices, grouping, ideas, judging, plain, sorting
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Case, Evidence, Part, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call, waits_held
from stepprof_lab.grading.sorting import Thing
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Context

# ---- two captures ----

STEPS = 4
QUESTION = "Does the GPU wait for the launches of small operations?"
WIDTH = 100
CAPTURES = ("a", "b")


def _draw_capture(chance: random.Random, *, busy: bool) -> dict[str, Any]:
    """The busy one has more launches, each with work enough; the idle one fewer, each with hardly any."""
    if busy:
        return {"launches": chance.randint(300, 420), "kernel_ms": chance.uniform(0.04, 0.06), "host_ms": 0.012}
    return {"launches": chance.randint(130, 210), "kernel_ms": 0.003, "host_ms": round(chance.uniform(0.02, 0.03), 4)}


def _write(case: Mapping[str, Any]) -> Construct:
    t = Construct("cuda")
    for _ in range(STEPS):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.1)
            with t.label("update"):
                for number in range(case["launches"]):
                    with t.operator("aten::add_" if number % 2 else "aten::mul_"):
                        t.launch("elementwise", device=case["kernel_ms"], host=case["host_ms"])
                t.wait()
    return t


def read(case: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What the interpreter says of a capture: the JSON of ``stepprof read`` as a dict, and its report."""
    from rich.console import Console

    from stepprof_lab.report import text

    roles = {"read_batch": "read", "update": "update"}
    context = Context(gpu_requested=True, origin="constructed", question=QUESTION, roles=roles)
    with tempfile.TemporaryDirectory(prefix="stepprof-lab07-") as directory:
        found = interpret(_write(case).save(Path(directory) / "steps.json"), context).analysis
    out = io.StringIO()
    text.show_analysis(found, Console(file=out, width=WIDTH, color_system=None))
    return msgspec.to_builtins(found), out.getvalue().rpartition("\nMore ")[0]


def draw_counts(chance: random.Random) -> Case:
    """Two captures, a and b: their numbers, and for one step of each the launches, the time and the idle time."""
    idle = chance.choice(CAPTURES)
    case: Case = {"idle": idle}
    for name in CAPTURES:
        numbers = _draw_capture(chance, busy=name != idle)
        analysis, _ = read(numbers)
        step_ms = sum(step["cpu_us"] for step in analysis["steps"]) / STEPS / 1000
        busy_ms = sum(step["gpu_busy_in_window_us"] for step in analysis["steps"]) / STEPS / 1000
        case[name] = {**numbers, "step_ms": step_ms, "busy_ms": busy_ms}
    return case


# ---- what they say ----

COUNT_PARTS: Mapping[str, float] = {
    "launches_a": 0.5,
    "launches_b": 0.5,
    "idle_ms_a": 0.5,
    "idle_ms_b": 0.5,
    "can_gain": 1,
}
TOLERANCE = 0.01
ROUNDING_MS = 0.011
"""The report has three decimals; an answer may be rounded to a hundredth of a millisecond."""

Of = Callable[[Mapping[str, Any]], float]
WRONG_LAUNCHES: Mapping[str, Of] = {
    "window-for-step": lambda one: STEPS * one["launches"],
    "one-operator": lambda one: one["launches"] // 2,
}
WRONG_IDLE: Mapping[str, Of] = {
    "busy-for-idle": lambda one: one["busy_ms"],
    "window-for-step": lambda one: STEPS * (one["step_ms"] - one["busy_ms"]),
    "step-for-idle": lambda one: one["step_ms"],
    "launches-for-cost": lambda one: one["launches"] * one["host_ms"],
}


def _probe_counts(answer: Any, _: Case) -> Evidence:
    if answer is None or answer is ...:
        raise Unanswered
    if type(answer) is not dict:
        raise TypeError(f"a dict with {', '.join(COUNT_PARTS)} was expected, not a {type(answer).__name__}")
    if all(value is None for value in answer.values()):
        raise Unanswered
    found = {name: plain.number(answer.get(name)) for name in COUNT_PARTS if name != "can_gain"}
    return Evidence(data={"numbers": found, "can_gain": plain.data(answer.get("can_gain"))}, origin="constructed")


def _which(value: Any) -> str | None:
    """The capture that is meant: a, b, both or neither."""
    if isinstance(value, str):
        said = value.strip().lower()
        for word, others in {"both": ("both",), "neither": ("neither", "none")}.items():
            if said.startswith(others):
                return word
    return choices.letter(value, "ab")


def _judge_counts(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "07/counts", sum(COUNT_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    case, given = cases[0], evidence[0].data["numbers"]
    held = {"can_gain": _which(evidence[0].data["can_gain"]) == case["idle"]}
    for name in CAPTURES:
        held[f"launches_{name}"] = given[f"launches_{name}"] == case[name]["launches"]
        held[f"idle_ms_{name}"] = _near(given[f"idle_ms_{name}"], case[name]["step_ms"] - case[name]["busy_ms"])
    missed = [name for name in COUNT_PARTS if not held[name]]
    if not missed:
        return judging.right(ident, of, evidence, Said(key="07.right.counts"))
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in COUNT_PARTS.items()]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=_idea_of_counts(case, evidence[0].data, missed),
        values={"names": ", ".join(missed)},
        points=sum(part.points for part in parts),
        parts=parts,
    )


def _idea_of_counts(case: Case, data: Mapping[str, Any], missed: Sequence[str]) -> str | None:
    """The first mistake that matters: a number is named before the choice that follows from it."""
    for kind, wrong in (("launches", WRONG_LAUNCHES), ("idle_ms", WRONG_IDLE)):
        # Idle time that is next to nothing tells no idea from another: the capture that waits is asked first.
        for name in sorted(CAPTURES, key=lambda one: one != case["idle"]):
            if f"{kind}_{name}" not in missed:
                continue
            value = data["numbers"][f"{kind}_{name}"]
            for idea, told in wrong.items():
                if _near(value, told(case[name])):
                    return idea
            if kind == "idle_ms" and _near(value, 1000 * (case[name]["step_ms"] - case[name]["busy_ms"])):
                return "units-mixed"
    if "can_gain" in missed and data["can_gain"] is not None:
        return "idle-unnoticed" if _which(data["can_gain"]) == "neither" else "launches-for-cost"
    return None


def _near(value: Any, wanted: float) -> bool:
    return type(value) in {int, float} and ideas.is_near(value, wanted, TOLERANCE, ROUNDING_MS)


# ---- five changes ----

WORDS: sorting.Words = {
    "faster": ("a gain", "gain", "quicker", "shorter"),
    "same": ("as fast", "no gain", "no difference", "equal", "neither", "unchanged"),
    "slower": ("a loss", "longer", "worse"),
}

CHANGES: Mapping[str, Thing] = {
    "padded": Thing("slower", {"faster": "grouped-but-slower", "same": None}),
    "busy": Thing("same", {"faster": "launches-for-cost"}),
    "hidden": Thing("same", {"faster": "part-for-whole"}),
    "more": Thing("faster", {"slower": "launches-for-cost", "same": "launches-for-cost"}),
    "foreach": Thing("faster", {"same": "grouping-never-pays", "slower": "grouping-never-pays"}),
}


def _draw_changes(chance: random.Random) -> dict[str, Any]:
    """Numbers of five changes: launches of a step, and ms a step with the range of ten runs."""
    found: dict[str, Any] = {}
    for name, factor in {"padded": 1.6, "busy": 0.998, "hidden": 1.003, "more": 0.8, "foreach": 0.55}.items():
        before = chance.uniform(9.0, 30.0)
        launches = chance.randint(400, 900)
        fewer = launches * chance.randint(2, 3) if name == "more" else launches // chance.randint(8, 14)
        found[name] = {
            "launches": f"{launches} -> {fewer}",
            "step": f"{_range(before)} -> {_range(before * factor)}",
            "part": f"{before * 0.2:.2f} -> {before * 0.06:.2f}",
        }
    return found


def _range(ms: float) -> str:
    return f"{ms:.2f} ({0.985 * ms:.2f} to {1.02 * ms:.2f})"


# ---- the live update ----

CALLS = 4
"""Steps of the run whose outputs are compared, and of a turn of the timing."""
ROUNDS = 7
"""The learner's step, the library's own and the original take turns so often, `CALLS` steps each. The fastest step
counts: under load a wait may end late, and never early."""
FAR = 3.0
"""Where the fastest step of two turns takes so many times the library's own, more would not change the verdict."""
SLOWER = 2.0
"""A step that takes so many times the library's own is slower as a whole. On two cores under a load of 10, right ones
took 0.7 to 1.3 times as long (8 verdicts) and the original 3.0 or more (24)."""
TOLD_APART = 2.5
"""Where the original itself takes less than so many times the library's own, there is no verdict on times here."""
ONE_BY_ONE = 0.9
"""A step with so much of the original's launches groups nothing."""
PARTLY = 0.5
"""A step with more than that has a loop over the tensors left in it."""

STEP_PARTS: Mapping[str, float] = {"outputs": 2, "whole step": 3}


def _probe_step(answer: Any, case: Case) -> Evidence:
    device = devices.gpu_or_practice()

    def make(params: list[Any]) -> Any:
        step = call(answer, params)
        return lambda grads: call(step, grads)

    planned = case["plan"]
    data: dict[str, Any] = {
        "outputs": grouping.outputs(make, planned, steps=CALLS),
        "wanted": grouping.outputs(grouping.one_by_one, planned, steps=CALLS),
        "launches": grouping.launches_a_step(make, planned),
        "launches_before": grouping.launches_a_step(grouping.one_by_one, planned),
        "times_ms": _timed(make, planned),
    }
    data["held"] = waits_held(device, data["times_ms"]["reference"], SLOWER - 1, CALLS * ROUNDS)
    return Evidence(data=data, device=device.sentence, origin=device.origin)


def _timed(make: grouping.MakeStep, planned: dict[str, Any]) -> dict[str, float]:
    """The fastest step of the learner's, of the library's own and of the original, in turns."""
    makers = {"yours": make, "reference": grouping.grouped, "before": grouping.one_by_one}
    steps = {name: grouping.ready(maker, planned) for name, maker in makers.items()}
    found: dict[str, list[float]] = {name: [] for name in makers}
    for number in range(ROUNDS):
        for name, step in steps.items():
            found[name].append(grouping.fastest_step(step, planned, number, CALLS))
        if number >= 1 and min(found["yours"]) > FAR * min(found["reference"]):
            break
    return {name: min(times) for name, times in found.items()}


def _judge_step(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:  # noqa: ARG001 - one form for all
    ident, of = "07/make_step", sum(STEP_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    data = [one.data for one in evidence]
    times = [one["times_ms"] for one in data]
    held = {
        "outputs": all(one["outputs"] == one["wanted"] for one in data),
        "whole step": all(one["yours"] <= SLOWER * one["reference"] for one in times),
    }
    picture = judging.three_steps("07.bar.before", times[0])
    if all(held.values()):
        return judging.right(
            ident, of, evidence, Said(key="07.right.make_step", values=_values(data[0])), picture=picture
        )
    can_tell = all(one["held"] for one in data) and all(t["before"] >= TOLD_APART * t["reference"] for t in times)
    if held["outputs"] and not can_tell:
        return judging.undecided(ident, of, evidence, Said(key="07.undecided.make_step"))
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in STEP_PARTS.items()]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea="outputs-not-compared" if not held["outputs"] else _idea_of_times(data),
        values=_values(next((one for one in data if one["outputs"] != one["wanted"]), data[0])),
        points=sum(part.points for part in parts),
        parts=parts,
        picture=picture,
    )


def _idea_of_times(data: Sequence[Mapping[str, Any]]) -> str:
    """Why a step with right outputs takes too long."""
    if any(one["launches"] >= ONE_BY_ONE * one["launches_before"] for one in data):
        return "still-one-by-one"
    if any(one["launches"] > PARTLY * one["launches_before"] for one in data):
        return "partly-grouped"
    slower = any(one["times_ms"]["yours"] >= one["times_ms"]["before"] for one in data)
    few = any(one["launches"] <= one["launches_before"] / 5 for one in data)
    return "grouped-but-slower" if slower or few else "partly-grouped"


def _values(one: Mapping[str, Any]) -> dict[str, Any]:
    same = sum(given == wanted for given, wanted in zip(one["outputs"], one["wanted"], strict=True))
    return {
        "launches": f"{one['launches']:g}",
        "before": f"{one['launches_before']:g}",
        "calls": CALLS,
        "same": same,
        "yours": f"{one['times_ms']['yours']:.2f} ms",
        "reference": f"{one['times_ms']['reference']:.2f} ms",
        "original": f"{one['times_ms']['before']:.2f} ms",
    }


# ---- what is decided ----

DECIDE_IDEAS: Mapping[str, str | None] = {
    "launches": "launches-for-cost",
    "label": "part-for-whole",
    "traced": "proved-in-the-profiler",
    "unchecked": "outputs-not-compared",
}


def _draw_decide(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, ("whole", *DECIDE_IDEAS)), "right": "whole"}


# ---- the lab ----

_CHANGES = sorting.item("07/changes", CHANGES, WORDS, values=_draw_changes)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: two reports, five changes, and the tensors and meters of the live part."""
    from stepprof_lab.grading import catalogue

    counts = draw_counts(own_numbers("07/counts"))
    decide = _draw_decide(own_numbers("07/decide"))
    planned = grouping.plan(own_numbers("07/material"))
    return {
        "reports": {name: read(counts[name])[1] for name in CAPTURES},
        "changes": sorting.asked(_CHANGES.draw(own_numbers("07/changes")), "07.say.changes"),
        "options": {letter: catalogue.text(f"07.option.{name}") for letter, name in decide["options"].items()},
        "parameters": lambda: grouping.parameters(planned),
        "gradients": lambda steps: grouping.gradients(planned, steps, planned["seed"] + 7),
        "launches_a_step": lambda make_step: grouping.launches_a_step(make_step, planned),
        "ms_a_step": lambda make_step: grouping.ms_a_step(make_step, planned),
    }


LAB = Lab(
    number="07",
    name="07-small-launches",
    minutes=35,
    seconds=15,
    gpu="optional",
    gpu_memory_mb=2000,
    origins=("constructed", "live", "simulated"),
    material=material,
    items=(
        choices.prediction("07/prediction", "abcd"),
        Item(
            id="07/counts", points=sum(COUNT_PARTS.values()), draw=draw_counts, probe=_probe_counts, judge=_judge_counts
        ),
        _CHANGES,
        Item(
            id="07/make_step",
            points=sum(STEP_PARTS.values()),
            draw=lambda chance: {"plan": grouping.plan(chance)},
            probe=_probe_step,
            judge=_judge_step,
            hidden=1,
            timed=True,
        ),
        choices.one_of("07/decide", 1, _draw_decide, DECIDE_IDEAS),
    ),
)
