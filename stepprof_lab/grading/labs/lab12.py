"""Lab 12, the whole way: a slow loop from the question to a validated change.

The loop (`slow_loop`) is drawn for the learner and runs on the CPU of any machine. What the learner measured is judged
from its files and raw values; a changed loop is measured anew beside the original (`repaired`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import record as records_of_captures
from stepprof_lab.capturing import Captured
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import catalogue, choices, judging, plain
from stepprof_lab.grading.items import Item, Judge, Lab, OwnNumbers, Probe
from stepprof_lab.grading.labs import lab01, records, repaired, slow_loop
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import Unanswered
from stepprof_lab.validate import keep
from stepprof_lab.validate.model import Block, Validation
from stepprof_lab.validate.statistics import WHOLE_ARMS, Conclusion, arm_of, verdict_from

LOOP = "12/loop"
"""The purpose that all items draw from: they are about one loop."""

# ---- the capture ----


def _probe_capture(answer: Any, _: Case) -> Evidence:
    """What the trace and the record beside it say; the answer is a path, or what `capture` gave."""
    path = _path_of(answer)
    if not path.is_file():
        return Evidence(data={"problem": f"there is no file {path.name!r}"})
    try:
        interpreted, record = records_of_captures.read(path)
    except StepprofError as error:
        return Evidence(data={"problem": " ".join(str(error).split())[:300]})
    labels = [str(name) for name in interpreted.analysis.labels]
    if record is None:
        return Evidence(data={"problem": None, "record": None, "labels": labels})
    kept = msgspec.to_builtins(record.scenario)
    return Evidence(data={"problem": None, "record": kept, "valid": record.valid, "labels": labels})


def _path_of(answer: Any) -> Path:
    if answer is None or answer is ... or answer == "":
        raise Unanswered
    if type(answer) is Captured:
        return answer.trace
    if isinstance(answer, str | Path):
        return Path(str(answer)).expanduser()
    raise TypeError(f"a {type(answer).__name__}, not the path of a trace")


def _judge_capture(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/capture", 3
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    seen, case = evidence[0].data, cases[0]
    if seen["problem"]:
        return judging.wrong(ident, of, evidence, idea=None, values={"problem": seen["problem"]})
    if seen["record"] is None:
        return judging.wrong(ident, of, evidence, idea="trace-without-question")
    if case["label"] not in seen["labels"]:
        return judging.wrong(ident, of, evidence, idea="another-loop", values={"label": case["label"]})
    if not seen["valid"]:
        return judging.wrong(ident, of, evidence, idea="rejected-capture-used")
    for fault in records.faults(seen["record"], [], "training", case["facts"]):
        if fault.part in {"question", "boundary"}:
            return judging.wrong(ident, of, evidence, idea=fault.idea, points=1, values=fault.values)
    return judging.right(ident, of, evidence, Said(key="12.right.capture"))


# ---- the causes, and what is left of them ----


def _letters(value: Any, letters: str) -> list[str] | None:
    """The letters that are meant: "a c", "ac", ["c", "a"], {"a", "c"}; an empty list for "none"."""
    if value is None or value is ... or value == "":
        raise Unanswered
    found = plain.data(sorted(value, key=str) if type(value) in {set, frozenset} else value)
    text = " ".join(str(one) for one in found) if isinstance(found, list) else str(found)
    text = text.lower().strip()
    if text in {"none", "nothing", ""}:
        return []
    if re.fullmatch(rf"[{letters}]+", text):
        return sorted(set(text))
    return sorted(set(re.findall(rf"(?<![\w'])[{letters}](?![\w'])", text))) or None


def _probe_causes(answer: Any, case: Case) -> Evidence:
    return Evidence(data={"letters": _letters(answer, "".join(case["options"]))})


def _not_there(case: Case, chosen: set[str]) -> str | None:
    """The wrong idea of choosing what costs nothing in this loop; None where every choice is planted."""
    false = chosen - set(case["planted"])
    if "constant" in false:
        return "every-copy-is-bad"
    if "sync" in false:
        return "sync-without-queue"
    return "cause-not-there" if false else None


def _judge_causes(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/causes", 4
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    if (letters := evidence[0].data["letters"]) is None:
        return judging.wrong(ident, of, evidence, idea=None)
    case = cases[0]
    chosen, planted = {case["options"][one] for one in letters}, case["planted"]
    if chosen == set(planted):
        return judging.right(ident, of, evidence, Said(key="12.right.causes"))
    # A cause that is found earns its half, and one that is not there takes as much away.
    points = max(0, 2 * (len(chosen & set(planted)) - len(chosen - set(planted))))
    idea = _not_there(case, chosen) or "cause-missed"
    return judging.wrong(ident, of, evidence, idea=idea, points=points)


def _probe_left(answer: Any, case: Case) -> Evidence:
    """The letter, and which causes the changed loop still has."""
    build, letters = _two_of(answer, "build", "left")
    with repaired.one_thread():
        original, other = (repaired.sites_of(_warm(one)) for one in (slow_loop.build_of(case), build))
    gone = repaired.changed_sites(original, other, case["planted"])
    return Evidence(data={"letters": _letters(letters, "".join(case["options"])), "gone": gone})


def _two_of(answer: Any, first: str, second: str) -> tuple[Any, Any]:
    """Two values of a dict.

    Raises:
        Unanswered: one of them is not there yet.
        TypeError: it is no dict with these two.
    """
    if answer is None or answer is ...:
        raise Unanswered
    if type(answer) is not dict or first not in answer or second not in answer:
        raise TypeError(f'a {type(answer).__name__}, not a dict with "{first}" and "{second}"')
    if answer[first] in (None, ...) or answer[second] in (None, ...):
        raise Unanswered
    return answer[first], answer[second]


def _warm(build: slow_loop.Build) -> Any:
    step = repaired.built(build)
    step.run()
    return step


def _judge_left(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/left", 2
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    seen, case = evidence[0].data, cases[0]
    if seen["letters"] is None:
        return judging.wrong(ident, of, evidence, idea=None)
    chosen = {case["options"][one] for one in seen["letters"]}
    left = set(case["planted"]) - set(seen["gone"])
    if chosen == left:
        return judging.right(ident, of, evidence, Said(key="12.right.left"))
    if chosen & set(seen["gone"]):
        return judging.wrong(ident, of, evidence, idea="repaired-still-named")
    return judging.wrong(ident, of, evidence, idea=_not_there(case, chosen) or "nothing-left")


# ---- the change ----

GAIN_SHARE = 0.3
"""A change has to bring at least this share of what the library's own repair of the same cause brings. In 17 runs
of right answers on two cores of an x86 server, beside about nine busy processes, it was 0.84 to 1.31 of that."""
REFERENCE_GAIN = 0.06
"""Where the library's own repair shows less than this share of the step, the machine cannot tell."""
SAME_LOSS = 1e-4
"""Relative difference of losses that another order of the same additions may make."""


def _probe_improved(answer: Any, case: Case) -> Evidence:
    """Losses and sites of the loop before and after, and how long both take beside the library's own repair."""
    import torch

    if answer is None or answer is ...:
        raise Unanswered
    if not callable(answer):
        raise TypeError(f"a {type(answer).__name__}, not a function build(device)")
    original = slow_loop.build_of(case)
    with repaired.one_thread():
        before, after = repaired.built(original), _built_or_unanswered(answer)
        settings = ["threads"] if torch.get_num_threads() != 1 else []
        torch.set_num_threads(1)
        losses = {"before": repaired.losses(before), "after": repaired.losses(after)}
        sites = [repaired.sites_of(one) for one in (before, after)]
    changed = repaired.changed_sites(sites[0], sites[1], case["planted"])
    data: dict[str, Any] = {"losses": losses, "changed": changed, "settings": settings}
    if len(changed) == 1:
        builds = {"original": original, "yours": answer, "reference": slow_loop.build_of(case, changed)}
        data["ratios"] = repaired.ratios(builds)
    return Evidence(data=data)


def _built_or_unanswered(answer: Any) -> Any:
    """The stub of the exercise gives nothing."""

    def build(device: str) -> Any:
        found = answer(device)
        if found is None or found is ...:
            raise Unanswered
        return found

    try:
        return repaired.built(build)
    except NotImplementedError as error:
        raise Unanswered from error


def _judge_improved(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/improved", 5
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    seen = evidence[0].data
    same = _same_losses(seen["losses"])
    changed = [*seen["changed"], *seen["settings"]]
    earned = {"same": 2 if same else 0, "one": 1 if same and len(changed) == 1 else 0}
    parts = [*(Part(id=name, points=points, of={"same": 2, "one": 1}[name]) for name, points in earned.items())]
    points = sum(earned.values())
    if not same:
        return judging.wrong(ident, of, evidence, idea="outputs-not-compared", parts=parts)
    if len(changed) > 1:
        return judging.wrong(ident, of, evidence, idea="two-things-changed", points=points, parts=parts)
    if not seen["changed"]:
        # Equal losses alone are what the loop had before.
        return judging.wrong(ident, of, evidence, idea="another-place-changed")
    return _judge_gain_of_change(seen["ratios"], evidence, points, parts)


def _same_losses(losses: dict[str, list[float | None]]) -> bool:
    return all(
        one is not None and other is not None and abs(one - other) <= SAME_LOSS * abs(one)
        for one, other in zip(losses["before"], losses["after"], strict=True)
    )


def _judge_gain_of_change(
    ratios: dict[str, float], evidence: Sequence[Evidence], points: float, parts: list[Part]
) -> Verdict:
    ident, of = "12/improved", 5
    gain, reference = 1 - ratios["yours"], 1 - ratios["reference"]
    picture = Picture(
        unit="% of the step before",
        bars=[
            Bar(name="common.yours", value=round(100 * ratios["yours"], 1), kind="yours"),
            Bar(name="common.reference", value=round(100 * ratios["reference"], 1), kind="reference"),
        ],
    )
    if reference < REFERENCE_GAIN:
        return judging.undecided(ident, of, evidence, Said(key="12.undecided.improved"))
    parts = [*parts, Part(id="shorter", points=2 if gain >= GAIN_SHARE * reference else 0, of=2)]
    if gain < GAIN_SHARE * reference:
        idea = "repaired-but-not-faster"
        return judging.wrong(ident, of, evidence, idea=idea, points=points, parts=parts, picture=picture)
    return judging.right(ident, of, evidence, Said(key="12.right.improved"), picture=picture)


# ---- the validation ----

BELIEVABLE = 0.5
"""A step of a validated loop takes at least this share of what the library measures with all causes repaired."""
FEWEST_REPLICATES = 4
SMALLEST_PLANTED = 0.15
"""Less than any planted cause takes of the step (`slow_loop`)."""
WIDEST_TOLERANCE = 1e-3


def _evidence_of_validation(answer: Any) -> dict[str, Any]:
    """The validation as plain data, or what was handed in instead of one."""
    found = _validation_of(answer)
    if isinstance(found, str):
        return {"kind": found}
    return {"kind": "validation", "validation": msgspec.to_builtins(found)}


def _validation_of(answer: Any) -> Validation | str:
    """A validation, or one word for what it is instead: "trace", "numbers", "other".

    Raises:
        StepprofError: a file that cannot be read as one.
    """
    if answer is None or answer is ... or answer == "":
        raise Unanswered
    if type(answer) is Validation:
        return answer
    if type(answer) is Captured:
        return "trace"
    if isinstance(answer, str | Path):
        path = Path(str(answer)).expanduser()
        is_trace = path.name.endswith(".json.gz") or records_of_captures.record_path(path).exists()
        return "trace" if is_trace else keep.load(path)
    if isinstance(answer, dict) and "blocks" in answer:
        return msgspec.convert(plain.data(answer), Validation)
    values = list(answer.values()) if isinstance(answer, dict) else answer
    values = list(values) if isinstance(values, list | tuple) else [values]
    return "numbers" if values and all(plain.number(one) is not None for one in values) else "other"


def _probe_validation(answer: Any, case: Case) -> Evidence:
    found = _evidence_of_validation(answer)
    if found["kind"] == "validation":
        builds = {"original": slow_loop.build_of(case), "all": slow_loop.build_of(case, case["planted"])}
        found["all_repaired"] = repaired.ratios(builds)["all"]
    return Evidence(data=found)


def _recomputed(kept: dict[str, Any]) -> Conclusion | None:
    """The verdict from the raw blocks; None where there are not enough of them for one."""
    try:
        return verdict_from(msgspec.convert(kept["blocks"], list[Block]), kept["design"], kept["margin"])
    except StepprofError:
        return None


def _fault_of(seen: dict[str, Any]) -> tuple[str | None, dict[str, Any]] | None:
    """What is wrong with a validation: the idea, and values for its text; None where nothing is."""
    if seen["kind"] != "validation":
        return {"trace": "inside-the-profiler-quoted", "numbers": "one-run-each"}.get(seen["kind"]), {"problem": ""}
    kept = seen["validation"]
    tolerance = ((kept["scenario"] or {}).get("outputs") or {}).get("relative_tolerance", 0.0)
    if kept["verdict"] == "not comparable":
        return "outputs-not-compared", {}
    if tolerance > WIDEST_TOLERANCE:
        return "outputs-not-compared", {}
    if kept["design"] != WHOLE_ARMS:
        return "part-for-whole", {}
    conclusion = _recomputed(kept)
    if conclusion is None or len(conclusion.replicate_ratios) < FEWEST_REPLICATES:
        return "one-run-each", {}
    if conclusion.verdict != kept["verdict"]:
        return None, {"problem": f"its blocks give the verdict {conclusion.verdict!r}, and it says {kept['verdict']!r}"}
    if conclusion.verdict != "faster":
        return "gain-not-shown", {"verdict": conclusion.verdict}
    if conclusion.ratio < BELIEVABLE * seen["all_repaired"]:
        return "another-loop", {}
    return None


def _too_unsteady(kept: dict[str, Any]) -> bool:
    """Whether the run could not have shown a change as large as the repair of a planted cause makes."""
    conclusion = _recomputed(kept)
    if conclusion is None or conclusion.verdict != "no difference shown":
        return False
    return conclusion.smallest_effect_seen > SMALLEST_PLANTED


def _judge_validation(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/validation", 4
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    if (fault := _fault_of(evidence[0].data)) is not None:
        if fault[0] == "gain-not-shown" and _too_unsteady(evidence[0].data["validation"]):
            return judging.undecided(ident, of, evidence, Said(key="12.undecided.validation"))
        return judging.wrong(ident, of, evidence, idea=fault[0], values=fault[1])
    return judging.right(ident, of, evidence, Said(key="12.right.validation"))


# ---- what was gained ----

ROUNDING = 0.03
"""Share of a gain that rounding, or another honest mean, may take."""
INTERVAL_SLACK = 0.6
"""By how much of its width an end of the interval may be elsewhere: differences and ratios have intervals that differ a
little, and so have medians and means."""


def _probe_gain(answer: Any, _: Case) -> Evidence:
    """The stated numbers, and the validation that they were taken from."""
    if type(answer) is dict and {"ms", "interval_ms"} & set(answer):
        if answer.get("ms") in (None, ...) or answer.get("validation") in (None, ...):
            raise Unanswered
        found = _evidence_of_validation(answer["validation"])
        ends = plain.data(answer.get("interval_ms"))
        ends = [plain.number(one) for one in ends] if isinstance(ends, list) else []
        return Evidence(data=found | {"value": plain.number(answer["ms"]), "ends": ends})
    if answer is None or answer is ...:
        raise Unanswered
    raise TypeError(f'a {type(answer).__name__}, not a dict with "validation", "ms" and "interval_ms"')


def _judge_gain(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    ident, of = "12/gain", 3
    if (early := judging.not_run(ident, of, evidence)) is not None:
        return early
    seen = evidence[0].data
    if seen["kind"] != "validation" or (conclusion := _recomputed(seen["validation"])) is None:
        idea = {"trace": "inside-the-profiler-quoted", "numbers": "one-run-each"}.get(seen["kind"])
        return judging.wrong(ident, of, evidence, idea=idea)
    if seen["value"] is None:
        return judging.no_number(ident, of, [Evidence(data={"kind": "no number in ms"})])
    blocks = msgspec.convert(seen["validation"]["blocks"], list[Block])
    before, after = (arm_of(blocks, name, None) for name in ("before", "after"))
    low, high = (before.mean_ms * (1 - end) for end in reversed(conclusion.interval))
    slack = max(INTERVAL_SLACK * (high - low), ROUNDING * abs(before.mean_ms - after.mean_ms))
    idea = _wrong_gain(seen["value"], conclusion, before.mean_ms, after.mean_ms, blocks)
    if idea is not None or not low - slack <= seen["value"] <= high + slack:
        return judging.wrong(ident, of, evidence, idea=idea)
    ends = seen["ends"]
    if len(ends) != 2 or None in ends or abs(ends[1] - ends[0]) < 1e-9:
        return judging.wrong(ident, of, evidence, idea="spread-not-reported", points=1)
    if any(abs(end - wanted) > slack for end, wanted in zip(sorted(ends), (low, high), strict=True)):
        return judging.wrong(ident, of, evidence, idea="another-spread", points=1)
    return judging.right(ident, of, evidence, Said(key="12.right.gain"))


def _wrong_gain(
    value: float, conclusion: Conclusion, before_ms: float, after_ms: float, blocks: Sequence[Block]
) -> str | None:
    """The idea that gives a stated gain; None where none does, and where a right gain is as near."""
    gain = before_ms - after_ms
    sums = {name: sum(sum(block.steps_ms) for block in blocks if block.arm == name) for name in ("before", "after")}
    ideas = {
        "percent-for-ms": (100 * (1 - conclusion.ratio), 1 - conclusion.ratio, conclusion.ratio, 1 / conclusion.ratio),
        "step-for-gain": (after_ms, before_ms),
        "sum-for-elapsed": (sums["before"] - sums["after"],),
    }
    near = {
        name: min(abs(value - number) / max(abs(number), 1e-9) for number in numbers) for name, numbers in ideas.items()
    }
    name = min(near, key=lambda one: near[one])
    return name if near[name] < ROUNDING and near[name] < abs(value - gain) / abs(gain) else None


# ---- the lab ----


def _item(name: str, points: float, probe: Probe, judge: Judge) -> Item:
    return Item(id=f"12/{name}", points=points, draw=slow_loop.draw, probe=probe, judge=judge, numbers_of=LOOP)


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: the loop as source and as a function, its story, and what may be slow in it."""
    plan = slow_loop.draw(own_numbers(LOOP))
    numbers = {name: plan[name] for name in ("batch", "batches", "classes", "label")}
    return {
        "source": slow_loop.source(plan),
        "build": slow_loop.build_of(plan),
        "story": catalogue.text("12.story", length=slow_loop.LENGTH, full_batch=plan["facts"]["full_batch"], **numbers),
        "candidates": {letter: catalogue.text(f"12.option.{cause}") for letter, cause in plan["options"].items()},
    }


LAB = Lab(
    number="12",
    name="12-whole-way",
    minutes=45,
    seconds=60,
    gpu="none",
    gpu_memory_mb=0,
    origins=("live",),
    material=material,
    items=(
        choices.prediction("12/prediction", "abcde"),
        _item("record", sum(records.PARTS.values()), lab01.probe_record, lab01.judge_record("12/record", "training")),
        _item("capture", 3, _probe_capture, _judge_capture),
        _item("causes", 4, _probe_causes, _judge_causes),
        _item("improved", 5, _probe_improved, _judge_improved),
        _item("validation", 4, _probe_validation, _judge_validation),
        _item("gain", 3, _probe_gain, _judge_gain),
        _item("left", 2, _probe_left, _judge_left),
    ),
)
