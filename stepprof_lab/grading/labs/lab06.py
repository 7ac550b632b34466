"""Lab 06, repeated copy: a constant that is rebuilt and copied in every step is moved once, and outputs are compared.

The trace is constructed and read by the interpreter. The live step runs on a GPU, or on the practice device
(`stepprof_lab.grading.copying`), and is judged by what it builds and copies, by its outputs bit by bit, and by its time
beside the library's own answer.
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
from stepprof_lab.grading import choices, copying, ideas, judging, plain, sorting
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Case, Evidence, Part, Said, Verdict
from stepprof_lab.grading.probing import Unanswered, call, waits_held
from stepprof_lab.grading.sorting import Thing
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Context

# ---- the capture ----

STEPS = 4
QUESTION = "Is a copy to the device repeated that could be made once?"
WIDTH = 100


def draw_capture(chance: random.Random) -> Case:
    """Numbers of a capture: a batch and a table go to the device in every step."""
    return {
        "batch_bytes": 4 * chance.randint(300, 900) * 1000,
        "batch_ms": round(chance.uniform(0.4, 0.9), 2),
        "table_bytes": 4 * chance.randint(1200, 2400) * 1000,
        "table_ms": round(chance.uniform(1.2, 2.2), 2),
        "copies": chance.randint(2, 3),
        "kernel_ms": round(chance.uniform(0.5, 0.9), 2),
        "kernels": chance.randint(7, 10),
    }


def _write(case: Case) -> Construct:
    t = Construct("cuda")
    for _ in range(STEPS):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.4)
            with t.label("transfer"), t.operator("aten::to"), t.operator("aten::copy_"):
                t.copy("HtoD", device=case["batch_ms"], bytes=case["batch_bytes"], pinned=True)
            with t.label("train"):
                for _ in range(case["copies"]):
                    t.cpu(0.2, "aten::hann_window")
                    with t.operator("aten::to"), t.operator("aten::copy_"):
                        t.copy("HtoD", device=case["table_ms"], bytes=case["table_bytes"])
                for _ in range(case["kernels"]):
                    with t.operator("aten::mm"):
                        t.cpu(0.03)
                        t.launch("gemm", device=case["kernel_ms"])
            with t.label("update"):
                t.wait()
    return t


def read(case: Case) -> tuple[dict[str, Any], str]:
    """What the interpreter says of a capture: the JSON of ``stepprof read`` as a dict, and its report."""
    from rich.console import Console

    from stepprof_lab.report import text

    roles = {"read_batch": "read", "transfer": "transfer", "train": "compute", "update": "update"}
    context = Context(gpu_requested=True, origin="constructed", question=QUESTION, roles=roles)
    with tempfile.TemporaryDirectory(prefix="stepprof-lab06-") as directory:
        found = interpret(_write(case).save(Path(directory) / "steps.json"), context).analysis
    out = io.StringIO()
    text.show_analysis(found, Console(file=out, width=WIDTH, color_system=None))
    return msgspec.to_builtins(found), out.getvalue().rpartition("\nMore ")[0]


# ---- what the finding says ----

FOUND_PARTS: Mapping[str, float] = {"copies_a_step": 1, "bytes": 1, "at_most_ms": 1}
TOLERANCE = 0.01
"""Relative. The report rounds shares to a tenth of a percent and times to a thousandth of a millisecond."""
MB = 1e6

Told = Callable[[Case], float]
WRONG_COPIES: Mapping[str, Told] = {
    "window-for-step": lambda case: STEPS * case["copies"],
    "every-copy-is-bad": lambda case: 1 + case["copies"],
    "every-copy-is-bad, in the window": lambda case: STEPS * (1 + case["copies"]),
}
WRONG_BYTES: Mapping[str, Told] = {
    "every-copy-is-bad": lambda case: case["batch_bytes"],
    "every-copy-is-bad, both": lambda case: case["batch_bytes"] + case["table_bytes"],
    "every-copy-is-bad, all": lambda case: case["batch_bytes"] + case["copies"] * case["table_bytes"],
    "one-copy-asked": lambda case: case["copies"] * case["table_bytes"],
    "one-copy-asked, in the window": lambda case: STEPS * case["copies"] * case["table_bytes"],
}
WRONG_MS: Mapping[str, Told] = {
    "window-for-step": lambda case: STEPS * case["at_most_ms"],
    "step-for-copies": lambda case: case["step_ms"],
    "step-for-copies, the window": lambda case: STEPS * case["step_ms"],
    "every-copy-is-bad": lambda case: case["at_most_ms"] + case["batch_ms"],
    "share-for-time": lambda case: 100 * case["at_most_ms"] / case["step_ms"],
    "share-for-time, a fraction": lambda case: case["at_most_ms"] / case["step_ms"],
}


def _draw_found(chance: random.Random) -> Case:
    while True:
        case = draw_capture(chance)
        analysis, _ = read(case)
        copied = next(one for one in analysis["findings"] if one["id"] == "repeated-copy")
        case["step_ms"] = sum(step["cpu_us"] for step in analysis["steps"]) / STEPS / 1000
        case["at_most_ms"] = copied["share_of_step"] * case["step_ms"]
        if ideas.tell_apart(case, {"right": lambda one: one["at_most_ms"], **WRONG_MS}, TOLERANCE):
            return case


def _probe_found(answer: Any, _: Case) -> Evidence:
    if answer is None or answer is ...:
        raise Unanswered
    found = plain.data(answer)
    if not isinstance(found, dict):
        raise TypeError(f"a dict with {', '.join(FOUND_PARTS)} was expected, not a {type(answer).__name__}")
    if all(value is None for value in found.values()):
        raise Unanswered
    numbers = {name: plain.number(answer.get(name)) for name in FOUND_PARTS} if type(answer) is dict else {}
    return Evidence(data={"answer": numbers}, origin="constructed")


def _judge_found(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "06/found", sum(FOUND_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    case, given = cases[0], evidence[0].data["answer"]
    right = {"copies_a_step": case["copies"], "bytes": case["table_bytes"], "at_most_ms": case["at_most_ms"]}
    wrong = {"copies_a_step": WRONG_COPIES, "bytes": WRONG_BYTES, "at_most_ms": WRONG_MS}
    missed = [name for name in FOUND_PARTS if not _is(given.get(name), right[name])]
    if not missed:
        return judging.right(ident, of, evidence, Said(key="06.right.found"))
    shown = [
        name.split(",")[0]
        for part in missed
        for name, idea in wrong[part].items()
        if _is(given.get(part), idea(case)) or (part == "bytes" and _is(given.get(part), idea(case) / MB))
    ]
    parts = [Part(id=name, points=0 if name in missed else of_, of=of_) for name, of_ in FOUND_PARTS.items()]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=_units(given, right, missed) or next(iter(shown), None),
        values={"names": ", ".join(missed)},
        points=sum(part.points for part in parts),
        parts=parts,
    )


def _units(given: Mapping[str, Any], right: Mapping[str, float], missed: Sequence[str]) -> str | None:
    times = any(_is(given.get("at_most_ms"), factor * right["at_most_ms"]) for factor in (1e3, 1e-3))
    sizes = any(_is(given.get("bytes"), right["bytes"] / factor) for factor in (1e3, 1e6, 1024, 1024**2))
    return "units-mixed" if ("at_most_ms" in missed and times) or ("bytes" in missed and sizes) else None


def _is(given: Any, wanted: float) -> bool:
    return type(given) in {int, float} and ideas.is_near(given, wanted, TOLERANCE)


# ---- which copies can be made once ----

ONCE: sorting.Words = {
    "once": ("one time", "before the loop", "move"),
    "each step": ("every step", "in each step", "in every step", "keep", "each"),
}
NEEDED = {"once": "every-copy-is-bad"}
MISSED = {"each step": "constant-kept"}

COPIES: Mapping[str, Thing] = {
    "batch": Thing("each step", NEEDED),
    "loss": Thing("each step", NEEDED),
    "rate": Thing("each step", {"once": "same-size-same-value"}),
    "mask": Thing("once", MISSED),
    "weights": Thing("once", MISSED),
}


def _draw_sizes(chance: random.Random) -> dict[str, Any]:
    batch, classes = chance.choice([64, 128, 256]), chance.randint(10, 40)
    return {
        "batch": batch,
        "batch_kb": batch * 4,
        "classes": classes,
        "class_bytes": 4 * classes,
        "side": (side := chance.choice([128, 256, 512])),
        "mask_kb": side * side // 1000,
    }


# ---- does the host wait? ----

WAITS: sorting.Words = {
    "waits": ("wait", "the host waits", "blocks"),
    "goes on": ("go on", "the host goes on", "does not wait", "continues"),
}
LINES: Mapping[str, Thing] = {
    "pageable_flag": Thing("waits", {"goes on": "non-blocking-from-pageable"}),
    "pinned": Thing("waits", {"goes on": "pinned-is-enough"}),
    "pageable": Thing("waits", {"goes on": "pageable-goes-on"}),
    "pinned_flag": Thing("goes on", {"waits": "nothing-goes-on"}),
}


def copy_rows(chance: random.Random) -> list[dict[str, Any]]:
    """What the trace shows of the four lines, in an order of the learner's own: copy, its call, a wait after it."""
    rows = []
    for memory, flag in (("Pageable", True), ("Pinned", False), ("Pageable", False), ("Pinned", True)):
        copied = round(chance.uniform(1.5, 4.0) * (2.0 if memory == "Pageable" else 1.0), 3)
        held = memory == "Pageable"
        rows.append(
            {
                "copy": f"Memcpy HtoD ({memory} -> Device)",
                "copy_ms": copied,
                "call_ms": round(copied + 0.02, 3) if held else round(chance.uniform(0.008, 0.02), 3),
                "wait_after_ms": None if flag else round(copied if not held else chance.uniform(0.003, 0.009), 3),
            }
        )
    chance.shuffle(rows)
    return rows


# ---- same outputs ----

SAME_KINDS = ("equal", "first", "middle", "later", "tiny", "moved")
"""Two steps agree, or differ in the first batch, a middle one, all but the first, by one bit, or in order alone."""
SAME_BATCHES = 6

SAME_IDEAS: Mapping[str, Mapping[str, bool]] = {
    "nothing-is-equal": {"equal": False},
    "outputs-not-compared": {"first": True, "middle": True, "later": True, "tiny": True, "moved": True},
    "first-only": {"first": False, "middle": True, "later": True},
    "last-only": {"first": True, "middle": True, "later": False},
    "any-for-all": {"first": True, "middle": True, "later": True, "moved": False},
    "sums-compared": {"moved": True},
    "tolerance-hides": {"tiny": True},
}
"""What answers to the kinds show each wrong idea; asked in this order."""


def _pair(kind: str, seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Two steps of a kind; each remembers only how often it was called."""
    import torch

    odd = random.Random(seed).randrange(2, SAME_BATCHES - 1)  # noqa: S311 - a case, not a secret
    made = 0

    def before(batch: Any) -> Any:
        return batch * 3

    def after(batch: Any) -> Any:
        nonlocal made
        place, made = made % SAME_BATCHES, made + 1
        out = batch * 3
        if kind == "moved":
            return torch.roll(out, 1)
        if kind == "tiny":
            return torch.nextafter(out, out + 1)
        if (kind, place) in {("first", 0), ("middle", odd)} or (kind == "later" and place):
            return out * 2
        return out

    return before, after


def _probe_same(answer: Any, case: Case) -> Evidence:
    import torch

    said: dict[str, Any] = {}
    for number, kind in enumerate(case["order"]):
        chance = torch.Generator().manual_seed(case["seed"] + number)
        # Sums of them are exact in any order: a comparison of sums must not find the order by rounding. And odd
        # numbers of 256ths lie nowhere between two decimals: a comparison of rounded values must not find the bit.
        batches = [(2 * torch.randint(64, 192, (64,), generator=chance) + 1) / 256 for _ in range(SAME_BATCHES)]
        said[kind] = _truth(call(answer, *_pair(kind, case["seed"]), batches))
    return Evidence(data={"said": said}, origin="constructed")


def _truth(found: Any) -> Any:
    """True or False as NumPy and torch have it too; a text where it is neither."""
    if plain.is_array(found) and getattr(found, "ndim", 0) == 0:
        found = found.item()
    return found if type(found) is bool else f"<{type(found).__name__[:60]}>"


def _judge_same(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:  # noqa: ARG001 - one form for all
    ident, of = "06/same_outputs", 2.0
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    told = [one.data["said"] for one in evidence]
    odd = next((value for said in told for value in said.values() if type(value) is not bool), None)
    if odd is not None:
        return judging.wrong(ident, of, evidence, idea="no-truth", values={"yours": odd})
    if all(said[kind] is (kind == "equal") for said in told for kind in SAME_KINDS):
        return judging.right(ident, of, evidence, Said(key="06.right.same_outputs"))
    for name, pattern in SAME_IDEAS.items():
        if all(said[kind] is value for said in told for kind, value in pattern.items()):
            return judging.wrong(ident, of, evidence, idea=name)
    return judging.wrong(ident, of, evidence, idea=None)


# ---- the live step ----

CALLS = 4
"""Steps of the run that is counted and whose outputs are compared."""
ROUNDS = 7
"""The learner's step, the library's own and the original take turns so often, `CALLS` steps each. The fastest step
counts: under load a wait may end late, and never early."""
SLOWER = 2.0
"""A step that takes so many times the library's own is slower as a whole. On two cores under a load of 10, right ones
took 0.99 to 1.05 times as long (18 verdicts) and the original 5.1 or more (57)."""
TOLD_APART = 2.5
"""Where the original itself takes less than so many times the library's own, there is no verdict on times here."""

STEP_PARTS: Mapping[str, float] = {"moved once": 2, "outputs": 2, "time": 1}


def _draw_step(chance: random.Random) -> Case:
    return {"seeds": [chance.randrange(1 << 30) for _ in range(2)]}


def _probe_step(answer: Any, case: Case) -> Evidence:
    device = devices.gpu_or_practice()
    runs = [_counted(answer, seed) for seed in case["seeds"]]
    times = _timed(answer, case["seeds"][0])
    held = waits_held(device, times["reference"], SLOWER - 1, CALLS * ROUNDS)
    data = {"runs": runs, "times_ms": times, "held": held}
    return Evidence(data=data, device=device.sentence, origin=device.origin)


def _counted(make_step: Any, seed: int) -> dict[str, Any]:
    """What a run with tables of its own built, copied and returned, and what it should have returned."""
    tools = copying.Tools(seed)
    batches = tools.batches(CALLS, seed)
    step = call(make_step, tools)
    outputs = [copying.digest(call(step, batch.clone())) for batch in batches]
    own = copying.moved_once(copying.Tools(seed, counts=False))
    return {
        "built": tools.built,
        "batch_copies": tools.batch_copies,
        "other_copies": tools.other_copies,
        "outputs": outputs,
        "wanted": [copying.digest(own(batch)) for batch in batches],
    }


def _timed(make_step: Any, seed: int) -> dict[str, float]:
    """The fastest step of the learner's, of the library's own and of the original, in turns."""
    made = {
        "yours": copying.ready(lambda tools: call(make_step, tools), seed),
        "reference": copying.ready(copying.moved_once, seed),
        "before": copying.ready(copying.original, seed),
    }
    found: dict[str, list[float]] = {name: [] for name in made}
    for number in range(ROUNDS):
        for name, one in made.items():
            found[name].append(copying.fastest_step(one, seed + number, CALLS))
    return {name: min(times) for name, times in found.items()}


def _judge_step(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:  # noqa: ARG001 - one form for all
    ident, of = "06/make_step", sum(STEP_PARTS.values())
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    runs = [run for one in evidence for run in one.data["runs"]]
    times = [one.data["times_ms"] for one in evidence]
    held = {
        "moved once": all(
            run["built"] == 1 and 1 <= run["other_copies"] < CALLS and run["batch_copies"] == CALLS for run in runs
        ),
        "outputs": all(run["outputs"] == run["wanted"] for run in runs),
        "time": all(one["yours"] <= SLOWER * one["reference"] for one in times),
    }
    can_tell = all(one["before"] >= TOLD_APART * one["reference"] for one in times)
    can_tell = can_tell and all(one.data["held"] for one in evidence)
    picture = judging.three_steps("06.bar.before", times[0])
    if all(held.values()):
        return judging.right(ident, of, evidence, Said(key="06.right.make_step"), picture=picture)
    if held["moved once"] and held["outputs"] and not can_tell:
        return judging.undecided(ident, of, evidence, Said(key="06.undecided.make_step"))
    parts = [Part(id=name, points=of_ if held[name] else 0, of=of_) for name, of_ in STEP_PARTS.items()]
    return judging.wrong(
        ident,
        of,
        evidence,
        idea=next((found for run in runs if (found := _idea_of_run(run, runs))), None)
        or ("slower-as-a-whole" if held["moved once"] and held["outputs"] else None),
        values={key: runs[-1][key] for key in ("built", "batch_copies", "other_copies")}
        | {
            "calls": CALLS,
            "same": _same_outputs(runs),
            "yours": f"{times[0]['yours']:.2f} ms",
            "reference": f"{times[0]['reference']:.2f} ms",
        },
        points=sum(part.points for part in parts),
        parts=parts,
        picture=picture,
    )


def _same_outputs(runs: Sequence[Mapping[str, Any]]) -> int:
    """How many outputs of the first run that has a wrong one are right."""
    worst = next((run for run in runs if run["outputs"] != run["wanted"]), runs[0])
    return sum(one == wanted for one, wanted in zip(worst["outputs"], worst["wanted"], strict=True))


def _idea_of_run(run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str | None:
    """The first mistake that matters: what is copied, then what comes out, then what is built."""
    same = run["outputs"] == run["wanted"]
    if run["other_copies"] >= CALLS:
        return "still-every-step" if run["built"] >= CALLS else "copied-every-step"
    if run["other_copies"] == 0:
        return "lives-too-long" if any(other["other_copies"] for other in runs) else "left-on-the-host"
    if run["batch_copies"] < CALLS:
        return "left-on-the-host" if same else "every-copy-is-bad"
    if not same:
        return "outputs-not-compared"
    return "rebuilt-every-step" if run["built"] >= CALLS else None


# ---- what is decided ----

DECIDE_IDEAS: Mapping[str, str | None] = {
    "all": "every-copy-is-bad",
    "unchecked": "outputs-not-compared",
    "flag": "non-blocking-from-pageable",
    "traced": "proved-in-the-profiler",
}


def _draw_decide(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, ("once", *DECIDE_IDEAS)), "right": "once"}


# ---- the lab ----

_COPIES = sorting.item("06/copies", COPIES, ONCE, values=_draw_sizes)
_WAITS = sorting.item("06/waits", LINES, WAITS)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: a report, the copies and lines in words, and the tools of the live part."""
    from stepprof_lab.grading import catalogue

    _, report = read(_draw_found(own_numbers("06/found")))
    decide = _draw_decide(own_numbers("06/decide"))
    seed = own_numbers("06/material").randrange(1 << 30)

    def tools() -> copying.Tools:
        return copying.Tools(seed)

    def ms_a_step(make_step: copying.MakeStep) -> float:
        return copying.ms_a_step(make_step, seed)

    return {
        "report": report,
        "copies": sorting.asked(_COPIES.draw(own_numbers("06/copies")), "06.say.copies"),
        "lines": sorting.asked(_WAITS.draw(own_numbers("06/waits")), "06.say.waits"),
        "rows": copy_rows(own_numbers("06/rows")),
        "options": {letter: catalogue.text(f"06.option.{name}") for letter, name in decide["options"].items()},
        "tools": tools,
        "ms_a_step": ms_a_step,
    }


LAB = Lab(
    number="06",
    name="06-repeated-copy",
    minutes=40,
    seconds=10,
    gpu="optional",
    gpu_memory_mb=400,
    origins=("constructed", "live", "simulated"),
    material=material,
    items=(
        choices.prediction("06/prediction", "abcd"),
        Item(id="06/found", points=sum(FOUND_PARTS.values()), draw=_draw_found, probe=_probe_found, judge=_judge_found),
        _COPIES,
        _WAITS,
        Item(
            id="06/same_outputs",
            points=2,
            draw=lambda chance: {
                "seed": chance.randrange(1 << 30),
                "order": chance.sample(SAME_KINDS, len(SAME_KINDS)),
            },
            probe=_probe_same,
            judge=_judge_same,
            hidden=2,
        ),
        Item(
            id="06/make_step",
            points=sum(STEP_PARTS.values()),
            draw=_draw_step,
            probe=_probe_step,
            judge=_judge_step,
            hidden=1,
            timed=True,
        ),
        choices.one_of("06/decide", 1, _draw_decide, DECIDE_IDEAS),
    ),
)
