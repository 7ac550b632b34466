"""Honest answers in different styles; each must earn every point."""

import math
import random
import statistics
import time

import numpy as np

from stepprof_lab.grading.answers import from_material

NOT_COMPARABLE = {"ratio": None, "interval": None, "verdict": "not comparable"}


def _verdict(low, high):
    return "faster" if high < 0.85 else "slower" if low > 1.15 else "no difference shown"


def _run(make, steps=10):
    """What a fresh arm did: where it began and ended, its outputs, and the times of the steps that count, in ms."""
    arm = make()
    start, outputs, times = arm.state(), [], []
    for _ in range(steps):
        began = time.perf_counter()
        outputs.append(arm.step())
        times.append(1e3 * (time.perf_counter() - began))
    return {"did": (start, outputs, arm.state()), "times": times[2:]}


def by_sorted_ratios(before, after):
    ratios = []
    for number in range(7):
        order = [before, after] if number % 2 else [after, before]
        ran = [_run(make) for make in order]
        old, new = ran if number % 2 else ran[::-1]
        if old["did"] != new["did"]:
            return NOT_COMPARABLE
        ratios.append(statistics.median(new["times"]) / statistics.median(old["times"]))
    ratios.sort()
    return {
        "ratio": ratios[3],
        "interval": (ratios[1], ratios[5]),
        "verdict": _verdict(ratios[1], ratios[5]),
    }


def by_t_interval_of_logs(before, after):
    """Checks first with arms of its own, then times; the lower quartile of a run, a t interval over pairs."""
    if _run(before, 12)["did"] != _run(after, 12)["did"]:
        return NOT_COMPARABLE
    logs = []
    for _ in range(6):
        old, new = _run(before), _run(after)
        logs.append(math.log(np.quantile(new["times"], 0.25) / np.quantile(old["times"], 0.25)))
    middle, half = np.mean(logs), 2.571 * np.std(logs, ddof=1) / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    return {"ratio": np.exp(middle), "interval": [low, high], "verdict": _verdict(low, high).upper()}


def by_bootstrap(before, after):
    ratios = []
    for _ in range(7):
        ran = {}
        for name, make in random.sample([("before", before), ("after", after)], 2):
            ran[name] = _run(make)
        if ran["before"]["did"] != ran["after"]["did"]:
            return {"verdict": "Not comparable", "ratio": None, "interval": None}
        ratios.append(statistics.median(ran["after"]["times"]) / statistics.median(ran["before"]["times"]))
    drawn = np.sort(np.median(np.random.default_rng(1).choice(ratios, (400, 7)), axis=1))
    low, high = drawn[10], drawn[-11]
    return {"verdict": _verdict(low, high), "interval": np.array([low, high]), "ratio": np.median(ratios)}


def step_by_step(before, after):
    """Both arms of a pair are alive at the same time, and their steps take turns."""
    ratios = []
    for _ in range(6):
        old, new = before(), after()
        if old.state() != new.state():
            return NOT_COMPARABLE
        times = {id(old): [], id(new): []}
        for _ in range(12):
            outputs = {}
            for arm in random.sample([old, new], 2):
                began = time.perf_counter_ns()
                outputs[id(arm)] = arm.step()
                times[id(arm)].append(time.perf_counter_ns() - began)
            if not np.allclose(outputs[id(old)], outputs[id(new)]):
                return NOT_COMPARABLE
        ratios.append(np.median(times[id(new)][2:]) / np.median(times[id(old)][2:]))
    low, high = min(ratios), max(ratios)
    return {"ratio": round(float(np.median(ratios)), 3), "interval": (low, high), "verdict": _verdict(low, high)}


@from_material
def decision_by_text(lab):
    return next(letter for letter, sentence in lab.sentences.items() if "from pair to pair" in sentence)


@from_material
def decision_in_capitals(lab):
    return f"{decision_by_text(lab).upper()})"


@from_material
def decision_with_a_reason(lab):
    return f"{decision_by_text(lab)}: the spread is larger"


HARNESSES = {
    "sorted ratios": by_sorted_ratios,
    "t interval": by_t_interval_of_logs,
    "bootstrap": by_bootstrap,
    "step by step": step_by_step,
}

RIGHT = {
    "10/prediction": {"small": "c", "capital": "A", "bracket": "(d)"},
    "10/timed": HARNESSES,
    "10/comparable": HARNESSES,
    "10/decide": {"letter": decision_by_text, "capital": decision_in_capitals, "reason": decision_with_a_reason},
}
