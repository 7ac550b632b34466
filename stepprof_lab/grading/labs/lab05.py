"""Lab 05, input wait: a batch held ready shows that reading is the wait; then the loader is repaired.

The loop and its data set (`feeding`) log each call, so that a number is judged by the library's own measurement of the
very calls that the answer made. The series of waits with bursts is constructed.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepprof_lab.grading import catalogue, choices, feeding, ideas, judging, plain
from stepprof_lab.grading.feeding import Did
from stepprof_lab.grading.items import Item, Lab, OwnNumbers
from stepprof_lab.grading.model import Bar, Case, Evidence, Part, Picture, Said, Verdict
from stepprof_lab.grading.probing import call

NEAR = 0.05
"""Relative. A number is compared with what the logged calls themselves give, so that a stall of the machine is in both.
What is left lies between two calls: see ``SLACK_MS``."""
SLACK_MS = 0.5
"""What a clock around a call may see more than the log in it: at most 0.28 ms in 60 runs of four right answers, on 2
cores beside about ten busy tasks."""
STALL = 2.0
"""A logged call that took so many times the median of its kind was stalled by the machine. Where there is one, a number
that fits no known idea gives no verdict."""
FEWEST = 5
"""Steady steps that a number has to rest on."""
MOST_READ_WHILE_TRAINING = 0.2
"""Of the training's time: where more of it had a read beside it, the loop was changed already."""

DISTURBED = Said(key="05.said.disturbed")


def _draw_plan(chance: random.Random) -> Case:
    return {"plan": feeding.plan(chance)}


def _as_data(log: Sequence[Did], what: str) -> dict[str, list[float]]:
    """The durations of one kind in a log: the first, which holds what happens once, apart from the others."""
    return {
        "first_ms": [one.ms for one in log if one.what == what and one.first],
        "ms": [one.ms for one in log if one.what == what and not one.first],
    }


def _totals(durations: Sequence[float], count: int = 1) -> list[float]:
    """What ``count`` calls took by the log: any that follow each other, and means over repetitions up to the last."""
    ends = len(durations) + 1
    return [
        *(sum(durations[place : place + count]) for place in range(ends - count) if count > 1),
        *(count * statistics.fmean(durations[place:]) for place in range(ends - max(count, FEWEST))),
    ]


def _fits(value: float, durations: Sequence[float], count: int = 1, factor: float = 1.0) -> bool:
    """Whether a number can be what ``count`` calls take, by the durations in the log; ``factor`` is its unit in ms.

    Any quantile up to the median will do, and what totals and means give; a single slow call will not.
    """
    given, usual = value / factor, (count * min(durations), count * statistics.median(durations))
    if (1 - NEAR) * usual[0] <= given <= (1 + NEAR) * usual[1] + SLACK_MS:
        return True
    return any(ideas.is_near(given, one, NEAR, SLACK_MS) for one in _totals(durations, count))


def _is_stalled(*kinds: Sequence[float]) -> bool:
    return any(max(durations) > STALL * statistics.median(durations) for durations in kinds if durations)


def _nearest(value: float, candidates: Sequence[tuple[str, float]], tolerance: float = 0.15) -> str | None:
    """The wrong idea whose number is the nearest; None where none is near."""
    name, number = min(candidates, key=lambda one: abs(value - one[1]))
    return name if ideas.is_near(value, number, tolerance) else None


def _bars(**values: float) -> Picture:
    kinds: dict[str, Any] = {"yours": "yours", "reference": "reference"}
    return Picture(
        unit="ms",
        bars=[
            Bar(name=name.replace("_", " "), value=one, kind=kinds.get(name, "other")) for name, one in values.items()
        ],
    )


# ---- the step with its batch held ready ----

_COMPUTE, _COMPUTE_POINTS = "05/compute_only_ms", 3


def _probe_compute(answer: Any, case: Case) -> Evidence:
    loop = feeding.Loop(case["plan"])
    found = call(answer, loop)
    trains = [one for one in loop.log if one.what == "train"]
    reads = [one for one in loop.dataset.log if one.what in {"fetch", "decode"}]
    trained_s = sum(one.end - one.begin for one in trains if not one.first)
    beside = feeding.overlap_s([one for one in trains if not one.first], reads)
    return Evidence(
        data={
            "value": plain.number(found),
            "kind": type(found).__name__,
            "train": _as_data(loop.log, "train"),
            "read": _as_data(loop.log, "read"),
            "read_while_training": beside / trained_s if trained_s else 0.0,
            "read_elsewhere": not reads and len({one.batch for one in trains}) > 1,
        }
    )


def _judge_compute(_: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    if (early := judging.not_run(_COMPUTE, _COMPUTE_POINTS, evidence)) is not None:
        return early
    if any(one.data["value"] is None for one in evidence):
        return judging.no_number(_COMPUTE, _COMPUTE_POINTS, evidence)
    for one in evidence:
        if (idea := _idea_of_compute(one.data)) != "right":
            steady = one.data["train"]["ms"]
            if idea is None and _is_stalled(steady, one.data["read"]["ms"]):
                return judging.undecided(_COMPUTE, _COMPUTE_POINTS, evidence, DISTURBED)
            values = {"yours": f"{one.data['value']:.4g} ms", "steps": len(steady)}
            return judging.wrong(
                _COMPUTE, _COMPUTE_POINTS, evidence, idea=idea, values=values, picture=_of_compute(one.data)
            )
    picture = _of_compute(evidence[0].data)
    return judging.right(_COMPUTE, _COMPUTE_POINTS, evidence, Said(key="05.right.compute_only_ms"), picture=picture)


def _of_compute(data: Mapping[str, Any]) -> Picture | None:
    steady = data["train"]["ms"]
    return _bars(yours=data["value"], reference=statistics.fmean(steady)) if steady else None


def _idea_of_compute(data: Mapping[str, Any]) -> str | None:
    """The wrong idea, "right", or None where no known idea gives the number."""
    value, steady, first = data["value"], data["train"]["ms"], data["train"]["first_ms"]
    if data["read_elsewhere"] or data["read_while_training"] > MOST_READ_WHILE_TRAINING:
        return "fix-before-check"
    if len(steady) < FEWEST:
        return "few-steps" if first else None
    if _fits(value, steady):
        return "right"
    if any(_fits(value, steady, factor=factor) for factor in (1e-3, 1e3, 1e6)):
        return "units-mixed"
    whole, reads = [*first, *steady], data["read"]["ms"]
    candidates = [("start-counted", statistics.fmean(whole)), ("start-counted", first[0])]
    candidates += [("sum-for-step", sum(steady)), ("sum-for-step", sum(whole))]
    if reads:
        whole_reads = [*data["read"]["first_ms"], *reads]
        candidates += [("wait-for-compute", usual) for usual in _usual(reads)]
        candidates += [
            ("reading-counted", read + train)
            for read in (*_usual(reads), statistics.fmean(whole_reads))
            for train in (*_usual(steady), statistics.fmean(whole))
        ]
    return _nearest(value, candidates)


def _usual(durations: Sequence[float]) -> tuple[float, float, float]:
    return statistics.fmean(durations), statistics.median(durations), min(durations)


# ---- the parts of the wait ----

_PARTS, _PART_POINTS = "05/parts_ms", {"fetch_ms": 1.5, "decode_ms": 1.5}


def _draw_parts(chance: random.Random) -> Case:
    planned = feeding.plan(chance)
    return {"plan": planned, "samples": sorted(chance.sample(range(planned["samples"]), chance.randint(6, 8)))}


def _probe_parts(answer: Any, case: Case) -> Evidence:
    dataset = feeding.Dataset(case["plan"])
    found = plain.data(call(answer, dataset, list(case["samples"])))
    if not isinstance(found, dict):
        raise TypeError(f"a dict with {', '.join(_PART_POINTS)} was expected, not a {type(found).__name__}")
    given = {name: plain.number(found.get(name)) for name in _PART_POINTS}
    return Evidence(
        data={
            "given": given,
            "fetch": _as_data(dataset.log, "fetch"),
            "decode": _as_data(dataset.log, "decode"),
            "together_ms": [
                one.ms + other.ms
                for one, other in itertools.pairwise(dataset.log)
                if one.what == "fetch" and other.what == "decode" and not one.first
            ],
        }
    )


def _judge_parts(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    of = sum(_PART_POINTS.values())
    if (early := judging.not_run(_PARTS, of, evidence)) is not None:
        return early
    for case, one in zip(cases, evidence, strict=True):
        held = _held_parts(one.data, len(case["samples"]))
        if all(held.values()):
            continue
        parts = [Part(id=name, points=points if held[name] else 0, of=points) for name, points in _PART_POINTS.items()]
        idea = _idea_of_parts(one.data, len(case["samples"]))
        if idea is None and _is_stalled(one.data["fetch"]["ms"], one.data["decode"]["ms"]):
            return judging.undecided(_PARTS, of, evidence, DISTURBED)
        given = {name: "nothing" if value is None else f"{value:.4g} ms" for name, value in one.data["given"].items()}
        points = sum(part.points for part in parts)
        return judging.wrong(_PARTS, of, evidence, idea=idea, values=given, points=points, parts=parts)
    return judging.right(_PARTS, of, evidence, Said(key="05.right.parts_ms"))


def _held_parts(data: Mapping[str, Any], samples: int) -> dict[str, bool]:
    fetch, decode = data["given"]["fetch_ms"], data["given"]["decode_ms"]
    fetches, decodes = data["fetch"]["ms"], data["decode"]["ms"]
    if not fetches or not decodes:
        return dict.fromkeys(_PART_POINTS, False)
    return {
        "fetch_ms": fetch is not None and _fits(fetch, fetches, samples),
        "decode_ms": decode is not None and _is_decoding(decode, data, samples),
    }


def _is_decoding(decode: float, data: Mapping[str, Any], samples: int) -> bool:
    """Whether a number can be the decoding of a batch.

    It may also be the difference of one pass and the fetching of another one; then what disturbed either is in it.
    Where a stall makes the decoding look like fetching and decoding together, the nearer one counts.
    """
    fetches, decodes = data["fetch"]["ms"], data["decode"]["ms"]
    whole = _totals(data["together_ms"], samples)
    wanted = [*_totals(decodes, samples), *(one - other for one in whole for other in _passes(fetches, samples))]
    if not _fits(decode, decodes, samples) and not any(ideas.is_near(decode, one, NEAR, SLACK_MS) for one in wanted):
        return False
    usual = samples * statistics.median(decodes)
    return decode <= usual or _away(decode, [usual, *wanted]) < _away(decode, whole)


def _away(value: float, numbers: Sequence[float]) -> float:
    return min((abs(value - one) for one in numbers), default=math.inf)


def _passes(durations: Sequence[float], count: int) -> list[float]:
    """What each pass over the batch took: whole ones, from the last backwards and from the first forwards."""
    starts = {*range(0, len(durations) - count + 1, count), *range(len(durations) - count, -1, -count)}
    return [sum(durations[start : start + count]) for start in sorted(starts)]


def _idea_of_parts(data: Mapping[str, Any], samples: int) -> str | None:
    fetch, decode = data["given"]["fetch_ms"], data["given"]["decode_ms"]
    fetches, decodes = data["fetch"]["ms"], data["decode"]["ms"]
    if fetch is None or decode is None or not fetches or not decodes:
        return None
    if _fits(fetch, decodes, samples) and _fits(decode, fetches, samples):
        return "parts-swapped"
    if any(_fits(fetch, fetches, samples, k) and _fits(decode, decodes, samples, k) for k in (1e-3, 1e3, 1e6)):
        return "units-mixed"
    if _fits(fetch * samples, fetches, samples) and _fits(decode * samples, decodes, samples):
        return "one-sample"
    whole = _totals(data["together_ms"], samples)
    if _fits(fetch, fetches, samples):
        return "parts-nested" if any(ideas.is_near(decode, one, NEAR, SLACK_MS) for one in whole) else None
    opened = sum(data["fetch"]["first_ms"])
    repeated = (len(fetches) + 1) / samples
    with_opening = [(opened + sum(fetches)) / repeated, opened + sum(fetches[: samples - 1])]
    return _nearest(
        fetch, [*(("start-counted", one) for one in with_opening), *(("storage-blamed", one) for one in whole)], NEAR
    )


# ---- the repaired loader ----

_LOADER, _LOADER_POINTS = "05/repaired_loader", 4
SKIPPED = 8
"""Steps at the beginning that are not judged: workers start, and their queue is full."""
REPAIRED = 0.4
"""Mean wait of a step, at most, as a share of the unrepaired loader's beside it. On 2 cores beside about ten busy
tasks it was 0.00 to 0.24 with three workers or more, and 0.55 to 1.45 with one (8 runs of each of six answers)."""
READ_FIRST = 0.8
"""Where this share of all samples was fetched before the first batch came, the wait was moved to the start."""
LONGEST_S = 4.0
"""After this time no more batches are asked for."""


def _probe_loader(answer: Any, case: Case) -> Evidence:
    planned = case["plan"]
    before = _unrepaired_waits_ms(planned)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner's loader may be noisy; it is judged by what it gives
        tally = Path(folder) / "fetched"
        tally.touch()
        loader = call(answer, feeding.Dataset(planned, tally), planned["batch_size"])
        seen = _consume(loader, planned, tally)
        del loader
    return Evidence(data={**seen, "unrepaired_ms": [*before, *_unrepaired_waits_ms(planned)]})


def _unrepaired_waits_ms(planned: feeding.Plan, steps: int = 8) -> list[float]:
    """The waits of the loop as it is, without its first step."""
    loop = feeding.Loop(planned)
    batches = loop.batches()
    for _ in range(steps):
        next(batches)
        feeding.wait_ms(planned["train_ms"])
    return [one.ms for one in loop.log[1:]]


def _consume(loader: Any, planned: feeding.Plan, tally: Path) -> dict[str, Any]:
    """Run the loop over a loader once.

    Returns:
        Which samples each batch held, the wait for each, how many samples were fetched before the first batch came, and
        how many while the loop trained.
    """
    wanted, began = feeding.in_batches(planned["samples"], planned["batch_size"]), time.perf_counter()
    batches: list[list[int]] = []
    waits: list[float] = []
    fetched_first, fetched_beside = 0, 0
    batches_left = iter(loader)
    while len(waits) < len(wanted) + 2 and time.perf_counter() < began + LONGEST_S:
        asked = time.perf_counter()
        try:
            batch = next(batches_left)
        except StopIteration:
            break
        waits.append(1e3 * (time.perf_counter() - asked))
        batches.append(_samples_of(batch))
        fetched = tally.stat().st_size
        fetched_first = fetched_first or fetched
        feeding.wait_ms(planned["train_ms"])
        fetched_beside += tally.stat().st_size - fetched
    return {"batches": batches, "waits_ms": waits, "fetched_first": fetched_first, "fetched_beside": fetched_beside}


def _samples_of(batch: Any) -> list[int]:
    """Which samples a learner's batch holds, -1 for what is none; one tensor, one array or a list of tensors."""
    if type(batch) not in {list, tuple} and getattr(batch, "ndim", 0) != 2:
        raise TypeError(f"a batch as one tensor of samples was expected, not a {type(batch).__name__}")
    return [_sample_of(plain.data(row)) for row in batch]


def _sample_of(row: Any) -> int:
    if not isinstance(row, list) or len(row) != feeding.WIDTH or not all(type(one) in {int, float} for one in row):
        return -1
    index = int(row[0])
    held = all(abs(one - index - place / feeding.WIDTH) < 1e-3 for place, one in enumerate(row))
    return index if held else -1


def _judge_loader(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    if (early := judging.not_run(_LOADER, _LOADER_POINTS, evidence)) is not None:
        return early
    for case, one in zip(cases, evidence, strict=True):
        wanted = feeding.in_batches(case["plan"]["samples"], case["plan"]["batch_size"])
        if (idea := _idea_of_loader(one.data, wanted)) is not None:
            return judging.wrong(
                _LOADER,
                _LOADER_POINTS,
                evidence,
                idea=idea,
                values=_loader_values(one.data),
                picture=_of_loader(one.data),
            )
    said = Said(key="05.right.repaired_loader", values=_loader_values(evidence[0].data))
    return judging.right(_LOADER, _LOADER_POINTS, evidence, said, picture=_of_loader(evidence[0].data))


def _idea_of_loader(data: Mapping[str, Any], wanted: list[list[int]]) -> str | None:
    """The first that matters: the same work, then where its time went, then how much of the wait is left."""
    if (idea := _other_work(data["batches"], wanted)) is not None:
        return idea
    if data["fetched_first"] >= READ_FIRST * sum(map(len, wanted)):
        return "moved-to-start"
    if _wait_left(data) <= REPAIRED:
        return None
    return "too-few-workers" if data["fetched_beside"] else "not-repaired"


def _other_work(given: list[list[int]], wanted: list[list[int]]) -> str | None:
    """How a loader's batches differ from those of the loop as it is; None where they do not."""
    if given == wanted:
        return None
    if given == wanted[: len(given)]:
        return "batches-missing"
    if len(given) > 1 and all(one == given[0] for one in given):
        return "check-kept-as-fix"
    sizes, sizes_wanted = [len(one) for one in given[:-1]], [len(one) for one in wanted[: len(given) - 1]]
    if sizes != sizes_wanted:
        return "batch-size-changed"
    samples = [one for batch in given for one in batch]
    known = {one for batch in wanted for one in batch}
    return "order-changed" if len(set(samples)) == len(samples) and known.issuperset(samples) else "other-batches"


def _wait_left(data: Mapping[str, Any]) -> float:
    """The mean, because waits may come in bursts; the unrepaired loader waits alike in every step but for stalls."""
    left, unrepaired = statistics.fmean(data["waits_ms"][SKIPPED:]), statistics.median(data["unrepaired_ms"])
    return float(left / unrepaired)


def _loader_values(data: Mapping[str, Any]) -> dict[str, Any]:
    left = data["waits_ms"][SKIPPED:]
    return {
        "yours": f"{statistics.fmean(left):.2f} ms" if left else "not measured",
        "unrepaired": f"{statistics.median(data['unrepaired_ms']):.2f} ms",
        "batches": len(data["batches"]),
    }


def _of_loader(data: Mapping[str, Any]) -> Picture | None:
    left = data["waits_ms"][SKIPPED:]
    return _bars(yours=statistics.fmean(left), unrepaired=statistics.median(data["unrepaired_ms"])) if left else None


# ---- bursts ----

_BURSTS, _BURSTS_POINTS = "05/steady_wait_ms", 3
TOLERANCE = 0.05
"""Relative. A round differs from another one by about 1 %, so it matters little how many rounds are left out."""
ROUNDING_MS = 0.051


def make_bursts(chance: random.Random) -> Case:
    """The waits of a loop whose loader has workers, step by step.

    The workers start within the first step. The next ones find the queue full. Then waits come once a round, one step
    for each worker: two of its steps wait, the others do not.
    """
    workers = chance.choice([5, 6, 8])  # most steps of a round are quiet
    level = chance.uniform(40.0, 90.0)
    waits = [level * chance.uniform(9.0, 12.0), *(chance.uniform(0.02, 0.3) for _ in range(2 * workers - 1))]
    for _ in range(chance.randint(9, 13)):
        long, short = level * chance.uniform(0.98, 1.02), 0.2 * level * chance.uniform(0.95, 1.05)
        waits += [long, short, *(chance.uniform(0.02, 0.3) for _ in range(workers - 2))]
    return {"waits_ms": [round(one, 3) for one in waits], "workers": workers}


def _steady(case: Case) -> list[float]:
    found: list[float] = case["waits_ms"][2 * case["workers"] :]
    return found


def steady_wait(case: Case) -> float:
    """The mean wait of a step in the steady part."""
    return statistics.fmean(_steady(case))


QUIET_MS = 0.31
"""No quiet step waits as long."""

BURST_IDEAS: Mapping[str, ideas.Idea] = {
    "start-counted": lambda case: statistics.fmean(case["waits_ms"]),
    "queue-counted": lambda case: statistics.fmean(case["waits_ms"][1:]),
    "queue-counted, a round": lambda case: statistics.fmean(case["waits_ms"][case["workers"] :]),
    "burst-for-mean": lambda case: max(_steady(case)),
    "burst-for-mean, steps that wait": lambda case: statistics.fmean(x for x in _steady(case) if x > QUIET_MS),
    "burst-for-mean, first steps": lambda case: statistics.fmean(_steady(case)[:: case["workers"]]),
    "sum-for-step": lambda case: sum(_steady(case)),
    "sum-for-step, a round": lambda case: steady_wait(case) * case["workers"],
    "sum-for-step, with the start": lambda case: sum(case["waits_ms"]),
}


def _draw_bursts(chance: random.Random) -> Case:
    while True:
        case = make_bursts(chance)
        if ideas.differ_from(steady_wait(case), case, BURST_IDEAS, TOLERANCE / 3, ROUNDING_MS):
            return case


def _probe_bursts(answer: Any, case: Case) -> Evidence:
    found = call(answer, list(case["waits_ms"]), case["workers"])
    return Evidence(data={"value": plain.number(found), "kind": type(found).__name__}, origin="constructed")


def _judge_bursts(cases: Sequence[Case], evidence: Sequence[Evidence]) -> Verdict:
    if (early := judging.not_run(_BURSTS, _BURSTS_POINTS, evidence)) is not None:
        return early
    answers = [one.data["value"] for one in evidence]
    if any(answer is None for answer in answers):
        return judging.no_number(_BURSTS, _BURSTS_POINTS, evidence)
    wanted = [steady_wait(case) for case in cases]
    picture = _bars(yours=answers[0], reference=wanted[0])
    if _all_near(answers, wanted):
        return judging.right(_BURSTS, _BURSTS_POINTS, evidence, Said(key="05.right.steady_wait_ms"), picture=picture)
    idea = _idea_of_bursts(answers, wanted, cases)
    values = {"yours": f"{answers[0]:.4g} ms", "workers": cases[0]["workers"]}
    return judging.wrong(_BURSTS, _BURSTS_POINTS, evidence, idea=idea, values=values, picture=picture)


def _all_near(answers: Sequence[float], wanted: Sequence[float], factor: float = 1.0) -> bool:
    near = (ideas.is_near(a / factor, w, TOLERANCE, ROUNDING_MS) for a, w in zip(answers, wanted, strict=True))
    return all(near)


def _idea_of_bursts(answers: Sequence[float], wanted: Sequence[float], cases: Sequence[Case]) -> str | None:
    if any(_all_near(answers, wanted, factor) for factor in (1e-3, 1e3)):
        return "units-mixed"
    if all(0 <= answer <= QUIET_MS for answer in answers):
        return "quiet-steps-for-all"
    idea = ideas.shown_by(answers, cases, BURST_IDEAS, 0.01, ROUNDING_MS)
    return idea and idea.split(",")[0]


# ---- what the numbers let one say ----

SENTENCES: Mapping[str, str | None] = {
    "held": None,
    "storage": "storage-blamed",
    "fix": "fix-before-check",
    "quiet": "quiet-steps-for-all",
}
"""What may be chosen at the end, and which misconception it shows."""


def _draw_decision(chance: random.Random) -> Case:
    return {"options": choices.shuffled(chance, sorted(SENTENCES)), "right": "held"}


def material(own_numbers: OwnNumbers) -> dict[str, Any]:
    """What the lab hands out: fresh loops, a series with bursts, and the sentences of the last item."""
    planned = _draw_plan(own_numbers(_COMPUTE))["plan"]
    bursts = _draw_bursts(own_numbers(_BURSTS))
    options = _draw_decision(own_numbers("05/decide"))["options"]
    return {
        "new_loop": lambda: feeding.Loop(planned),
        "batch_size": planned["batch_size"],
        "waits_ms": bursts["waits_ms"],
        "workers": bursts["workers"],
        "sentences": {letter: catalogue.text(f"05.say.{name}") for letter, name in options.items()},
    }


LAB = Lab(
    number="05",
    name="05-input-wait",
    minutes=45,
    seconds=10,
    gpu="none",
    gpu_memory_mb=0,
    origins=("live", "constructed"),
    material=material,
    items=(
        choices.prediction("05/prediction", "abcd"),
        Item(
            id=_COMPUTE, points=_COMPUTE_POINTS, draw=_draw_plan, probe=_probe_compute, judge=_judge_compute, hidden=2
        ),
        Item(
            id=_PARTS,
            points=sum(_PART_POINTS.values()),
            draw=_draw_parts,
            probe=_probe_parts,
            judge=_judge_parts,
            hidden=2,
        ),
        Item(id=_LOADER, points=_LOADER_POINTS, draw=_draw_plan, probe=_probe_loader, judge=_judge_loader, hidden=1),
        Item(
            id=_BURSTS,
            points=_BURSTS_POINTS,
            draw=_draw_bursts,
            probe=_probe_bursts,
            judge=_judge_bursts,
            visible=2,
            hidden=5,
        ),
        choices.one_of("05/decide", 2, _draw_decision, SENTENCES),
    ),
)
