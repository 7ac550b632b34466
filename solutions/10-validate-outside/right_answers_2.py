"""A second set of right answers to lab 10, written from the lab's text alone."""

import statistics
import time

import numpy as np

from stepprof_lab.grading.answers import from_material

NOT_COMPARABLE = {"verdict": "not comparable", "ratio": None, "interval": None}


def run(build):
    arm = build()
    start = list(arm.state())
    outputs, times = [], []
    for _ in range(10):
        began = time.perf_counter()
        output = arm.step()
        times.append(time.perf_counter() - began)
        outputs.append(list(output))
    return start, outputs, times[2:]


def medians_and_range(before, after):
    ratios = []
    for number in range(6):
        if number % 2 == 0:
            old, new = run(before), run(after)
        else:
            new, old = run(after), run(before)
        if old[:2] != new[:2]:
            return {"verdict": "not comparable", "ratio": None, "interval": None}
        ratios.append(statistics.median(new[2]) / statistics.median(old[2]))
    low, high = min(ratios), max(ratios)
    verdict = "faster" if high < 0.85 else "slower" if low > 1.15 else "no difference shown"
    return {"verdict": verdict, "ratio": statistics.median(ratios), "interval": (low, high)}


def numpy_student(before, after):
    a, b = before(), after()
    if not np.array_equal(a.state(), b.state()):
        return dict(NOT_COMPARABLE)
    if not np.array_equal([a.step() for _ in range(10)], [b.step() for _ in range(10)]):
        return dict(NOT_COMPARABLE)
    logs = []
    for pair in range(5):
        medians = {}
        for name, build in [("before", before), ("after", after)][:: 1 if pair % 2 else -1]:
            arm = build()
            arm.step()
            arm.step()
            times = np.empty(8)
            for k in range(8):
                t = time.perf_counter_ns()
                arm.step()
                times[k] = time.perf_counter_ns() - t
            medians[name] = np.median(times)
        logs.append(np.log(medians["after"] / medians["before"]))
    middle = np.mean(logs)
    half = 2.776 * np.std(logs, ddof=1) / np.sqrt(len(logs))
    low, high = np.exp(middle - half), np.exp(middle + half)
    if high < 0.85:
        verdict = "faster"
    elif low > 1.15:
        verdict = "slower"
    else:
        verdict = "no difference shown"
    return {"verdict": verdict, "ratio": np.exp(middle), "interval": [low, high]}


def step_by_step_in_turns(before, after):
    ratios = []
    for _ in range(5):
        arms = [before(), after()]
        if arms[0].state() != arms[1].state():
            return NOT_COMPARABLE.copy()
        times = [[], []]
        for step in range(11):
            outputs = []
            for arm, kept in zip(arms, times):
                began = time.perf_counter()
                outputs.append(arm.step())
                if step > 1:
                    kept.append(time.perf_counter() - began)
            if outputs[0] != outputs[1]:
                return NOT_COMPARABLE.copy()
        ratios.append(min(times[1]) / min(times[0]))
    ratio = statistics.mean(ratios)
    spread = 2 * statistics.stdev(ratios)
    interval = (round(ratio - spread, 3), round(ratio + spread, 3))
    verdict = "no difference shown"
    if interval[1] < 0.85:
        verdict = "faster"
    if interval[0] > 1.15:
        verdict = "slower"
    return {"verdict": verdict, "ratio": round(ratio, 3), "interval": interval}


COMPARISONS = {
    "medians_and_range": medians_and_range,
    "numpy_student": numpy_student,
    "step_by_step_in_turns": step_by_step_in_turns,
}

RIGHT = {
    "10/prediction": {"not_shown": "c", "by_half": "a"},
    "10/timed": COMPARISONS,
    "10/comparable": COMPARISONS,
    "10/decide": {
        "not_shown": from_material(
            lambda lab: [letter for letter, text in lab.sentences.items() if text.startswith("No difference")][0]
        ),
        "pair_to_pair": from_material(
            lambda lab: next(letter for letter in lab.sentences if "from pair to pair" in lab.sentences[letter])
        ),
    },
}
