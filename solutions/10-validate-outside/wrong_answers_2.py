"""A second set of wrong answers to lab 10, written from the lab's text alone."""

import statistics
import time

from stepprof_lab.grading.answers import from_material


def timed(arm, steps=10):
    outputs, times = [], []
    for _ in range(steps):
        began = time.perf_counter()
        outputs.append(arm.step())
        times.append(time.perf_counter() - began)
    return outputs, times


def not_comparable():
    return {"verdict": "not comparable", "ratio": None, "interval": None}


def said(ratios):
    low, high = min(ratios), max(ratios)
    verdict = "faster" if high < 0.85 else "slower" if low > 1.15 else "no difference shown"
    return {"verdict": verdict, "ratio": statistics.median(ratios), "interval": (low, high)}


def paired(before, after, one_pair, pairs=5):
    ratios = []
    for number in range(pairs):
        if number % 2:
            new, old = after(), before()
            is_same_start = new.state() == old.state()
            new_outputs, new_times = timed(new)
            old_outputs, old_times = timed(old)
        else:
            old, new = before(), after()
            is_same_start = new.state() == old.state()
            old_outputs, old_times = timed(old)
            new_outputs, new_times = timed(new)
        if not is_same_start or old_outputs != new_outputs:
            return None
        ratios.append(one_pair(old_times, new_times))
    return ratios


def ratio_of_medians(old_times, new_times):
    return statistics.median(new_times[2:]) / statistics.median(old_times[2:])


def one_long_pair(before, after):
    old, new = before(), after()
    if old.state() != new.state():
        return not_comparable()
    old_outputs, old_times = timed(old, 40)
    new_outputs, new_times = timed(new, 40)
    if old_outputs != new_outputs:
        return not_comparable()
    return said(
        [statistics.median(new_times[i : i + 8]) / statistics.median(old_times[i : i + 8]) for i in range(2, 40, 8)]
    )


def same_arms_again(before, after):
    old, new = before(), after()
    if old.state() != new.state():
        return not_comparable()
    timed(old, 2)
    timed(new, 2)
    ratios = []
    for _ in range(5):
        old_outputs, old_times = timed(old, 8)
        new_outputs, new_times = timed(new, 8)
        if old_outputs != new_outputs:
            return not_comparable()
        ratios.append(statistics.median(new_times) / statistics.median(old_times))
    return said(ratios)


def first_all_of_before(before, after):
    starts, runs = [], []
    for build in (before, after):
        for _ in range(5):
            arm = build()
            starts.append(arm.state())
            runs.append(timed(arm))
    if any(start != starts[0] for start in starts) or any(outputs != runs[0][0] for outputs, _ in runs):
        return not_comparable()
    return said([ratio_of_medians(runs[i][1], runs[5 + i][1]) for i in range(5)])


def mean_alone(before, after):
    ratios = paired(before, after, ratio_of_medians)
    if ratios is None:
        return not_comparable()
    ratio = statistics.mean(ratios)
    verdict = "faster" if ratio < 0.85 else "slower" if ratio > 1.15 else "no difference shown"
    return {"verdict": verdict, "ratio": ratio, "interval": (ratio, ratio)}


def replaced_operator(before, after):
    ratios = []
    for number in range(5):
        old, new = before(), after()
        if old.state() != new.state():
            return not_comparable()
        inside = {old: [], new: []}
        for _ in range(10):
            outputs = {}
            for arm in (old, new) if number % 2 else (new, old):
                outputs[arm] = arm.step()
                inside[arm].append(arm.inside_ms)
            if outputs[old] != outputs[new]:
                return not_comparable()
        ratios.append(statistics.median(inside[new][2:]) / statistics.median(inside[old][2:]))
    return said(ratios)


def speed_up(before, after):
    ratios = paired(before, after, lambda old, new: statistics.median(old[2:]) / statistics.median(new[2:]))
    if ratios is None:
        return not_comparable()
    low, high = min(ratios), max(ratios)
    verdict = "faster" if low > 1.15 else "slower" if high < 0.85 else "no difference shown"
    return {"verdict": verdict, "ratio": statistics.median(ratios), "interval": (low, high)}


def percent(before, after):
    ratios = paired(before, after, ratio_of_medians)
    if ratios is None:
        return not_comparable()
    found = said(ratios)
    found["ratio"] *= 100
    found["interval"] = tuple(100 * end for end in found["interval"])
    return found


def gain(before, after):
    ratios = paired(before, after, ratio_of_medians)
    if ratios is None:
        return not_comparable()
    found = said(ratios)
    low, high = found["interval"]
    return {"verdict": found["verdict"], "ratio": 1 - found["ratio"], "interval": (1 - high, 1 - low)}


def whole_runs(before, after):
    ratios = paired(before, after, lambda old, new: sum(new) / sum(old))
    return not_comparable() if ratios is None else said(ratios)


def anything_below_one(before, after):
    ratios = paired(before, after, ratio_of_medians)
    if ratios is None:
        return not_comparable()
    ratio = statistics.mean(ratios)
    spread = statistics.stdev(ratios) / len(ratios) ** 0.5
    verdict = "faster" if ratio < 1 else "slower"
    return {"verdict": verdict, "ratio": ratio, "interval": (ratio - spread, ratio + spread)}


def start_alone(before, after):
    ratios = []
    for _ in range(5):
        old, new = before(), after()
        if old.state() != new.state():
            return not_comparable()
        ratios.append(ratio_of_medians(timed(old)[1], timed(new)[1]))
    return said(ratios)


def two_outputs_compared(before, after):
    old, new = before(), after()
    if old.state() != new.state() or [old.step(), old.step()] != [new.step(), new.step()]:
        return not_comparable()
    return said([ratio_of_medians(timed(before())[1], timed(after())[1]) for _ in range(5)])


def warm_arm_against_cold(before, after):
    old, new = before(), after()
    if old.state() != new.state():
        return not_comparable()
    old.step()
    old.step()
    ratios = []
    for _ in range(5):
        old_outputs, old_times = timed(old, 10)
        new_outputs, new_times = timed(new, 10)
        if old_outputs != new_outputs:
            return not_comparable()
        ratios.append(ratio_of_medians(old_times, new_times))
        old, new = before(), after()
    return said(ratios)


def states_of_used_arms(before, after):
    ratios = []
    for _ in range(5):
        old = before()
        _, old_times = timed(old)
        new = after()
        if old.state() != new.state():
            return not_comparable()
        _, new_times = timed(new)
        ratios.append(ratio_of_medians(old_times, new_times))
    return said(ratios)


def sentence(words):
    return from_material(lambda lab: next(letter for letter, text in lab.sentences.items() if words in text))


WRONG = {
    "10/timed": {
        "one_long_pair": ("one-run-each", one_long_pair),
        "same_arms_again": ("state-moved-on", same_arms_again),
        "first_all_of_before": ("one-after-the-other", first_all_of_before),
        "mean_alone": ("spread-not-reported", mean_alone),
        "replaced_operator": ("inside-for-outside", replaced_operator),
        "speed_up": ("upside-down", speed_up),
        "percent": ("units-mixed", percent),
        "gain": ("units-mixed", gain),
        "whole_runs": ("start-up-counted", whole_runs),
        "anything_below_one": ("margin-ignored", anything_below_one),
    },
    "10/comparable": {
        "start_alone": ("different-work", start_alone),
        "two_outputs_compared": ("stored-results", two_outputs_compared),
        "warm_arm_against_cold": ("everything-doubted", warm_arm_against_cold),
        "states_of_used_arms": ("everything-doubted", states_of_used_arms),
    },
    "10/decide": {
        "operator": ("inside-for-outside", sentence("The operator takes")),
        "mean": ("spread-not-reported", sentence("mean of the ratios")),
        "first_pair": ("one-run-each", sentence("The first pair")),
    },
}
