"""A second set of right answers to lab 07, written from the lab's text alone."""

import re

import numpy as np
import torch

from stepprof_lab.grading.answers import from_material


def row(report):
    elapsed, launches, _, busy = re.search(r"ProfilerStep#2 +([\d.]+) +(\d+) +([\d.]+) +([\d.]+)", report).groups()
    return int(launches), float(elapsed), float(busy)


@from_material
def from_the_table(lab):
    launches_a, elapsed_a, busy_a = row(lab.reports["a"])
    launches_b, elapsed_b, busy_b = row(lab.reports["b"])
    idle_a = elapsed_a - busy_a
    idle_b = elapsed_b - busy_b
    return {
        "launches_a": launches_a,
        "launches_b": launches_b,
        "idle_ms_a": idle_a,
        "idle_ms_b": idle_b,
        "can_gain": "a" if idle_a / elapsed_a > idle_b / elapsed_b else "b",
    }


@from_material
def mean_of_the_window(lab):
    answer = {}
    for name, report in lab.reports.items():
        rows = re.findall(r"ProfilerStep#\d+ +([\d.]+) +(\d+) +[\d.]+ +([\d.]+)", report)
        elapsed, launches, busy = np.mean(np.array(rows, dtype=float), axis=0)
        answer[f"launches_{name}"] = launches
        answer[f"idle_ms_{name}"] = np.round(elapsed - busy, 3)
    answer["can_gain"] = [name for name, report in lab.reports.items() if "small-launches" in report][0]
    return answer


@from_material
def two_places(lab):
    (launches_a, elapsed_a, busy_a), (launches_b, elapsed_b, busy_b) = (row(lab.reports[name]) for name in "ab")
    return dict(
        launches_a=launches_a,
        launches_b=launches_b,
        idle_ms_a=round(elapsed_a - busy_a, 2),
        idle_ms_b=round(elapsed_b - busy_b, 2),
        can_gain="ab"[busy_b < busy_a],
    )


def ranges(line):
    words = line[line.index("whole step") :]
    return [tuple(map(float, pair)) for pair in re.findall(r"\(([\d.]+) to ([\d.]+)\)", words)]


@from_material
def by_the_ranges(lab):
    answer = {}
    for letter, line in lab.changes.items():
        (low, high), (new_low, new_high) = ranges(line)
        if new_high < low:
            answer[letter] = "faster"
        elif new_low > high:
            answer[letter] = "slower"
        else:
            answer[letter] = "same"
    return answer


@from_material
def by_a_tenth(lab):
    def verdict(line):
        before, after = re.search(r"whole step ([\d.]+) .*-> ([\d.]+) \(", line).groups()
        ratio = float(after) / float(before)
        return "faster" if ratio < 0.9 else "slower" if ratio > 1.1 else "same"

    return {letter: verdict(line) for letter, line in lab.changes.items()}


def three_lists(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        torch._foreach_sub_(params, moments)
        return params

    return step


def large_one_apart(params):
    moments = [torch.zeros_like(p) for p in params]
    large = max(range(len(params)), key=lambda i: params[i].numel())

    def without_large(tensors):
        return [tensor for i, tensor in enumerate(tensors) if i != large]

    small_params, small_moments = without_large(params), without_large(moments)

    def step(grads):
        torch._foreach_mul_(small_moments, 0.5)
        torch._foreach_add_(small_moments, without_large(grads))
        torch._foreach_sub_(small_params, small_moments)
        moments[large].mul_(0.5).add_(grads[large])
        params[large].sub_(moments[large])
        return params

    return step


def one_flat_tensor(params):
    sizes = [len(p) for p in params]
    flat = torch.cat(params)
    moment = torch.zeros_like(flat)

    def step(grads):
        moment.mul_(0.5).add_(torch.cat(grads))
        flat.sub_(moment)
        return list(flat.split(sizes))

    return step


def option(words):
    return from_material(lambda lab: [letter for letter, text in lab.options.items() if words in text][0])


RIGHT = {
    "07/prediction": {"does_not_say": "d", "fewer": "a"},
    "07/counts": {
        "from_the_table": from_the_table,
        "mean_of_the_window": mean_of_the_window,
        "two_places": two_places,
    },
    "07/changes": {"by_the_ranges": by_the_ranges, "by_a_tenth": by_a_tenth},
    "07/make_step": {
        "three_lists": three_lists,
        "large_one_apart": large_one_apart,
        "one_flat_tensor": one_flat_tensor,
    },
    "07/decide": {
        "equal_and_measured": option("equal bit by bit"),
        "without_the_profiler": option("without the profiler"),
    },
}
