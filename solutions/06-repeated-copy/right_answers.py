"""Honest answers in different styles; each must earn every point."""

import functools
import re

import numpy as np
import torch

from stepprof_lab.grading.answers import from_material

STEPS = 4


def _numbers(lab):
    text = " ".join(lab.report.split())
    return {
        "copies": int(re.search(r"(\d+) copies, which", text)[1]),
        "bytes": int(re.search(r"\(([\d,]+) bytes\)", text)[1].replace(",", "")),
        "alone_ms": float(re.search(r"alone ([\d.]+) ms of", text)[1]),
        "all_ms": float(re.search(r"ms of ([\d.]+) ms \(", text)[1]),
        "percent": float(re.search(r"repeated-copy.*?at most ([\d.]+) %", text)[1]),
    }


@from_material
def found_by_division(lab):
    n = _numbers(lab)
    return {"copies_a_step": n["copies"] // STEPS, "bytes": n["bytes"], "at_most_ms": n["alone_ms"] / STEPS}


@from_material
def found_by_share(lab):
    n = _numbers(lab)
    at_most = round(n["percent"] / 100 * n["all_ms"] / STEPS, 2)
    return {"at_most_ms": at_most, "bytes": float(n["bytes"]), "copies_a_step": float(n["copies"] / STEPS)}


@from_material
def found_in_numpy(lab):
    n = _numbers(lab)
    return {
        "copies_a_step": np.int64(n["copies"]) // STEPS,
        "bytes": torch.tensor(n["bytes"]),
        "at_most_ms": np.float64(n["alone_ms"]) / STEPS,
    }


def copies(once="once", each="each step", keys=str):
    @from_material
    def answer(lab):
        constant = ("mask =", "CLASS_WEIGHTS")
        return {
            keys(letter): once if any(part in line for part in constant) else each
            for letter, line in lab.copies.items()
        }

    return answer


def waits(wait="waits", go="goes on", keys=str):
    @from_material
    def answer(lab):
        return {
            keys(letter): go if "pin_memory" in line and "non_blocking" in line else wait
            for letter, line in lab.lines.items()
        }

    return answer


def same_by_loop(before, after, batches):
    differing = 0
    for batch in batches:
        if not torch.equal(before(batch), after(batch)):
            differing += 1
    return differing == 0


def same_in_numpy(before, after, batches):
    return np.all([np.array_equal(before(b).numpy(), after(b).numpy()) for b in batches])


def same_by_bytes(before, after, batches):
    olds = [before(b).numpy().tobytes() for b in batches]
    news = [after(b).numpy().tobytes() for b in batches]
    return olds == news


def same_in_torch(before, after, batches):
    return torch.all(torch.stack([(before(b) == after(b)).all() for b in batches]))


def same_by_difference(before, after, batches):
    return sum(float((before(b) - after(b)).abs().sum()) for b in batches) == 0.0


def step_in_closure(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


class StepAsClass:
    def __init__(self, tools):
        self.tools = tools
        self.table = tools.to_device(tools.build_table())

    def __call__(self, batch):
        x = self.tools.to_device(batch)
        scaled = self.table.clone()
        scaled *= x.max()
        return x.mul(scaled)


def step_with_cache(tools):
    @functools.cache
    def table():
        return tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        return table().mul(x.max()).mul(x)

    return step


def step_when_first_needed(tools):
    kept = {}

    def step(batch):
        x = tools.to_device(batch)
        if "table" not in kept:
            kept["table"] = tools.to_device(tools.build_table())
        return torch.mul(kept["table"], x) * torch.max(x)

    return step


def step_that_undoes(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        most = x.max()
        table.mul_(most)
        out = x * table
        table.div_(most)
        return out

    return step


class StepAsModule(torch.nn.Module):
    def __init__(self, tools):
        super().__init__()
        self.tools = tools
        self.register_buffer("table", tools.to_device(tools.build_table()))

    @torch.no_grad()
    def forward(self, batch):
        x = self.tools.to_device(batch)
        return x * (x.max() * self.table)


@from_material
def decide(lab):
    return next(letter for letter, text in lab.options.items() if "ms a step before and after" in text)


@from_material
def decide_with_words(lab):
    return f"({decide(lab).upper()}) because it was measured"


@from_material
def decide_with_dot(lab):
    return f" {decide(lab)}."


RIGHT = {
    "06/prediction": {"d": "d", "any": "a", "with words": "C, both are constants"},
    "06/found": {"division": found_by_division, "share": found_by_share, "numpy": found_in_numpy},
    "06/copies": {
        "words": copies(),
        "capitals": copies("ONCE", "Each Step", str.upper),
        "other words": copies("before the loop", "every step"),
    },
    "06/waits": {
        "words": waits(),
        "capitals": waits("WAITS", "Goes on.", str.upper),
        "sentences": waits("the host waits", "the host goes on"),
    },
    "06/same_outputs": {
        "loop": same_by_loop,
        "numpy": same_in_numpy,
        "bytes": same_by_bytes,
        "torch": same_in_torch,
        "difference": same_by_difference,
    },
    "06/make_step": {
        "closure": step_in_closure,
        "class": StepAsClass,
        "cache": step_with_cache,
        "first needed": step_when_first_needed,
        "undone": step_that_undoes,
        "module": StepAsModule,
    },
    "06/decide": {"letter": decide, "words": decide_with_words, "dot": decide_with_dot},
}
