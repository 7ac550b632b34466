"""Honest answers in different styles; each must earn every point."""

import re

import numpy as np
import torch

from stepprof_lab.grading.answers import from_material


def _counts(lab):
    found = {}
    for name, report in lab.reports.items():
        row = re.search(r"ProfilerStep#2 +([\d.]+) +(\d+) +[\d.]+ +([\d.]+)", report)
        found[f"launches_{name}"] = int(row[2])
        found[f"idle_ms_{name}"] = float(row[1]) - float(row[3])
    found["can_gain"] = max("ab", key=lambda name: found[f"idle_ms_{name}"])
    return found


@from_material
def counts_read(lab):
    return _counts(lab)


@from_material
def counts_rounded(lab):
    found = _counts(lab)
    return {
        key: round(value, 2) if key.startswith("idle") else value.upper() if key == "can_gain" else float(value)
        for key, value in reversed(list(found.items()))
    }


@from_material
def counts_in_numpy(lab):
    found = _counts(lab)
    return {
        key: f"{value}, because its GPU waits"
        if key == "can_gain"
        else np.int64(value)
        if key.startswith("launches")
        else torch.tensor(value)
        for key, value in found.items()
    }


def changes(faster="faster", same="same", slower="slower", keys=str):
    @from_material
    def answer(lab):
        found = {}
        for letter, line in lab.changes.items():
            whole = line.split("whole step")[1]
            (low, high), (low_after, high_after) = re.findall(r"\(([\d.]+) to ([\d.]+)\)", whole)
            shorter, longer = float(high_after) < float(low), float(low_after) > float(high)
            found[keys(letter)] = faster if shorter else slower if longer else same
        return found

    return answer


def step_with_foreach(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        torch._foreach_sub_(params, moments)
        return params

    return step


def step_with_new_lists(params):
    kept = {"p": list(params), "m": [torch.zeros_like(p) for p in params]}

    def step(grads):
        kept["m"] = torch._foreach_add(grads, kept["m"], alpha=0.5)  # noqa: SLF001 - torch has no other name for it
        kept["p"] = torch._foreach_sub(kept["p"], kept["m"])  # noqa: SLF001
        return kept["p"]

    return step


class StepOnFlatTensors:
    def __init__(self, params):
        self.sizes = [p.numel() for p in params]
        self.params = torch.cat(params)
        self.moments = torch.zeros_like(self.params)

    def __call__(self, grads):
        self.moments.mul_(0.5).add_(torch.cat(grads))
        self.params.sub_(self.moments)
        return self.params.split(self.sizes)


def step_in_two_groups(params):
    """The large tensor by itself, the small ones in one piece."""
    large = max(range(len(params)), key=lambda at: params[at].numel())
    small = [at for at in range(len(params)) if at != large]
    p_small = torch.cat([params[at] for at in small])
    m_small, p_large, m_large = torch.zeros_like(p_small), params[large], torch.zeros_like(params[large])
    sizes = [params[at].numel() for at in small]

    def step(grads):
        m_small.mul_(0.5).add_(torch.cat([grads[at] for at in small]))
        p_small.sub_(m_small)
        m_large.mul_(0.5).add_(grads[large])
        p_large.sub_(m_large)
        found = dict(zip(small, p_small.split(sizes), strict=True))
        return [p_large if at == large else found[at] for at in range(len(params))]

    return step


@from_material
def decide(lab):
    return next(letter for letter, text in lab.options.items() if "without the profiler" in text)


@from_material
def decide_with_words(lab):
    return f"({decide(lab).upper()}) the whole step"


@from_material
def decide_with_dot(lab):
    return f" {decide(lab)}."


RIGHT = {
    "07/prediction": {"d": "d", "any": "a", "with words": "B, I think"},
    "07/counts": {"read": counts_read, "rounded": counts_rounded, "numpy": counts_in_numpy},
    "07/changes": {
        "words": changes(),
        "capitals": changes("FASTER", "Same", "Slower.", str.upper),
        "other words": changes("a gain", "no difference", "a loss"),
    },
    "07/make_step": {
        "foreach": step_with_foreach,
        "new lists": step_with_new_lists,
        "flat": StepOnFlatTensors,
        "two groups": step_in_two_groups,
    },
    "07/decide": {"letter": decide, "words": decide_with_words, "dot": decide_with_dot},
}
