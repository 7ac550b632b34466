"""A second set of wrong answers to lab 07, written from the lab's text alone."""

import re

import torch

from stepprof_lab.grading.answers import from_material


def row(report):
    elapsed, launches, _, busy = re.search(r"ProfilerStep#2 +([\d.]+) +(\d+) +([\d.]+) +([\d.]+)", report).groups()
    return int(launches), float(elapsed), float(busy)


def right_counts(lab):
    answer = {}
    for name in "ab":
        launches, elapsed, busy = row(lab.reports[name])
        answer[f"launches_{name}"] = launches
        answer[f"idle_ms_{name}"] = elapsed - busy
        if elapsed - busy > busy:
            answer["can_gain"] = name
    return answer


@from_material
def more_launches_more_gain(lab):
    answer = right_counts(lab)
    return {**answer, "can_gain": "a" if answer["launches_a"] > answer["launches_b"] else "b"}


@from_material
def both_launch_a_lot(lab):
    return {**right_counts(lab), "can_gain": "both"}


@from_material
def no_gain_seen(lab):
    return {**right_counts(lab), "can_gain": "neither"}


@from_material
def all_four_steps(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"launches_{name}"] = int(re.search(r"GPU events +(\d+)", lab.reports[name]).group(1))
    return answer


@from_material
def idle_of_the_window(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"idle_ms_{name}"] *= 4
    return answer


@from_material
def calls_of_mul(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"launches_{name}"] = int(re.search(r"aten::mul_ +(\d+)", lab.reports[name]).group(1)) // 4
    return answer


@from_material
def busy_column(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"idle_ms_{name}"] = row(lab.reports[name])[2]
    return answer


@from_material
def elapsed_column(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"idle_ms_{name}"] = row(lab.reports[name])[1]
    return answer


@from_material
def microseconds(lab):
    answer = right_counts(lab)
    for name in "ab":
        answer[f"idle_ms_{name}"] = round(1000 * answer[f"idle_ms_{name}"])
    return answer


def right_changes(lab):
    answer = {}
    for letter, line in lab.changes.items():
        words = line[line.index("whole step") :]
        (low, high), (new_low, new_high) = re.findall(r"\(([\d.]+) to ([\d.]+)\)", words)
        is_faster, is_slower = float(new_high) < float(low), float(new_low) > float(high)
        answer[letter] = "faster" if is_faster else "slower" if is_slower else "same"
    return answer


@from_material
def by_the_launches(lab):
    answer = {}
    for letter, line in lab.changes.items():
        before, after = map(int, re.search(r"Launches (\d+) -> (\d+)", line).groups())
        answer[letter] = "faster" if after < before else "slower"
    return answer


def changed(words, verdict):
    return from_material(
        lambda lab: {
            letter: verdict if words in lab.changes[letter] else given for letter, given in right_changes(lab).items()
        }
    )


def padded_matrix(params):
    longest = max(len(p) for p in params)

    def padded(tensors):
        matrix = torch.zeros(len(tensors), longest, dtype=params[0].dtype, device=params[0].device)
        for line, tensor in zip(matrix, tensors):
            line[: len(tensor)] = tensor
        return matrix

    values = padded(params)
    moments = torch.zeros_like(values)

    def step(grads):
        moments.mul_(0.5)
        moments.add_(padded(grads))
        values.sub_(moments)
        return [line[: len(p)] for line, p in zip(values, params)]

    return step


def padded_by_the_library(params):
    values = torch.nn.utils.rnn.pad_sequence(params, batch_first=True)
    moments = torch.zeros_like(values)

    def step(grads):
        moments.mul_(0.5).add_(torch.nn.utils.rnn.pad_sequence(grads, batch_first=True))
        values.sub_(moments)
        return [values[i, : len(p)] for i, p in enumerate(params)]

    return step


def three_loops(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        for m in moments:
            m.mul_(0.5)
        for m, g in zip(moments, grads):
            m.add_(g)
        for p, m in zip(params, moments):
            p.sub_(m)
        return params

    return step


def decay_grouped_alone(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_mul_(moments, 0.5)
        for p, m, g in zip(params, moments, grads):
            m.add_(g)
            p.sub_(m)
        return params

    return step


def subtracted_too_early(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_sub_(params, moments)
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        return params

    return step


def half_of_the_gradient_too(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_lerp_(moments, grads, 0.5)
        torch._foreach_sub_(params, moments)
        return params

    return step


def option(words):
    return from_material(lambda lab: next(letter for letter, text in lab.options.items() if words in text))


WRONG = {
    "07/counts": {
        "more_launches_more_gain": ("launches-for-cost", more_launches_more_gain),
        "both_launch_a_lot": ("launches-for-cost", both_launch_a_lot),
        "no_gain_seen": ("idle-unnoticed", no_gain_seen),
        "all_four_steps": ("window-for-step", all_four_steps),
        "idle_of_the_window": ("window-for-step", idle_of_the_window),
        "calls_of_mul": ("one-operator", calls_of_mul),
        "busy_column": ("busy-for-idle", busy_column),
        "elapsed_column": ("step-for-idle", elapsed_column),
        "microseconds": ("units-mixed", microseconds),
    },
    "07/changes": {
        "by_the_launches": ("grouped-but-slower", by_the_launches),
        "splitting_must_cost": ("launches-for-cost", changed("split into pieces", "slower")),
        "one_matrix_is_a_gain": ("grouped-but-slower", changed("filled up with zeros", "faster")),
        "update_is_shorter": ("part-for-whole", changed("label `update`", "faster")),
        "foreach_does_nothing": ("grouping-never-pays", changed("foreach=True", "same")),
    },
    "07/make_step": {
        "padded_matrix": ("grouped-but-slower", padded_matrix),
        "padded_by_the_library": ("grouped-but-slower", padded_by_the_library),
        "three_loops": ("still-one-by-one", three_loops),
        "decay_grouped_alone": ("partly-grouped", decay_grouped_alone),
        "subtracted_too_early": ("outputs-not-compared", subtracted_too_early),
        "half_of_the_gradient_too": ("outputs-not-compared", half_of_the_gradient_too),
    },
    "07/decide": {
        "few_launches": ("launches-for-cost", option("small part of what it launched")),
        "two_traces": ("proved-in-the-profiler", option("Two traces")),
        "same_formula": ("outputs-not-compared", option("need no comparison")),
        "shorter_label": ("part-for-whole", option("The label `update`")),
    },
}
