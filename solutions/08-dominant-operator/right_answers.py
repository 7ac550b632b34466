"""Honest answers in different styles; each must earn every point."""

import re
import statistics
import time
import timeit

import numpy as np
import torch
from torch.utils import benchmark

from stepprof_lab.grading.answers import from_material


def _found(lab):
    rows = re.findall(r"^ +(aten::\w+) +(\d+) +([\d.]+) +([\d.]+)", lab.report, re.MULTILINE)
    calls = {name: int(count) / 4 for name, count, _, _ in rows}
    own = {name: float(ms) / 4 for name, _, ms, _ in rows}
    dominant = max(own, key=own.get)
    return {
        "most_called": max(calls, key=calls.get),
        "dominant": dominant,
        "calls": calls[dominant],
        "self_ms": own[dominant],
        "one_call_ms": own[dominant] / calls[dominant],
    }


@from_material
def found_read(lab):
    return _found(lab)


@from_material
def found_rounded(lab):
    found = _found(lab)
    return {
        "one_call_ms": round(found["one_call_ms"], 2),
        "self_ms": round(found["self_ms"], 2),
        "calls": int(found["calls"]),
        "dominant": " Cumsum",
        "most_called": "MUL",
    }


@from_material
def found_in_numpy(lab):
    return {
        key: f"`{value}`" if isinstance(value, str) else np.float64(value) if key == "calls" else torch.tensor(value)
        for key, value in _found(lab).items()
    }


def ways(isolates="isolates", not_yet="not yet", keys=str):
    @from_material
    def answer(lab):
        shape, strides = re.search(r"shape (\[.*?\]), float32, strides (\(.*?\))", lab.record).groups()
        found = {}
        for letter, line in lab.ways.items():
            own_inputs = "very tensors" in line or (shape in line and strides in line)
            found[keys(letter)] = isolates if own_inputs and "without a clock" in line else not_yet
        return found

    return answer


def _made(one, device):
    return torch.empty_strided(
        one["shape"], one["strides"], dtype=getattr(torch, one["dtype"]), device=device.torch_device
    ).normal_()


def fastest_of_ten(operator, recorded, device):
    total = 0.0
    for one in recorded:
        x = _made(one, device)
        operator(x)
        times = []
        for _ in range(10):
            device.synchronize()
            begin = time.perf_counter()
            operator(x)
            device.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
        total += one["calls"] * min(times)
    return total


def median_by_nanoseconds(operator, recorded, device):
    def one_ms(x):
        begin = time.perf_counter_ns()
        operator(x)
        device.synchronize()
        return (time.perf_counter_ns() - begin) / 1e6

    inputs = [_made(one, device) for one in recorded]
    for x in inputs:
        one_ms(x)
    return np.sum(
        [
            one["calls"] * statistics.median(one_ms(x) for _ in range(15))
            for one, x in zip(recorded, inputs, strict=True)
        ]
    )


def whole_step_at_once(operator, recorded, device):
    """Every call of a step has an input of its own; the calls follow each other, five times over."""
    inputs = [_made(one, device) for one in recorded for _ in range(one["calls"])]
    for x in inputs:
        operator(x)
    device.synchronize()
    begin = time.perf_counter()
    for _ in range(5):
        for x in inputs:
            operator(x)
    device.synchronize()
    return 1e3 * (time.perf_counter() - begin) / 5


def by_timeit(operator, recorded, device):
    def call(x):
        operator(x)
        device.synchronize()

    total = 0.0
    for one in recorded:
        x = _made(one, device)
        call(x)
        total += one["calls"] * min(timeit.repeat(lambda x=x: call(x), number=3, repeat=5)) / 3
    return torch.tensor(1e3 * total, dtype=torch.float64)


def by_torch_benchmark(operator, recorded, device):
    total = 0.0
    for one in recorded:
        x = _made(one, device)
        operator(x)
        timer = benchmark.Timer("operator(x)", globals={"operator": operator, "x": x})
        total += one["calls"] * timer.timeit(12).mean * 1e3
    return total


def by_the_device_timer(operator, recorded, device):
    """Transposed by hand where the strides say so; a fresh input for each call, made before the timer starts."""
    total = 0.0
    for one in recorded:
        kind, place = getattr(torch, one["dtype"]), device.torch_device
        rows, columns = one["shape"]
        times = []
        for turn in range(8):
            if one["strides"][0] == 1:
                x = torch.rand(columns, rows, dtype=kind, device=place).t()
            else:
                x = torch.rand(rows, columns, dtype=kind, device=place)
            timer = device.timer()
            timer.start()
            operator(x)
            timer.stop()
            if turn > 0:
                times.append(timer.elapsed_ms())
        total += one["calls"] * sum(times) / len(times)
    return total


def explained(yes="explained", no="not explained", keys=str):
    @from_material
    def answer(lab):
        found = {}
        for letter, line in lab.rows.items():
            own = float(re.search(r"self time ([\d.]+)", line)[1])
            if "two kinds" in line:
                short, many, long, few = map(float, re.findall(r"[\d.]*\d", line.split("Alone: ")[1]))
                alone = many * short + few * long
            else:
                one = re.search(r"([\d.]+) \([\d.]+ to [\d.]+\) ms a call", line)[1]
                alone = int(re.search(r"(\d+) calls, self", line)[1]) * float(one)
            found[keys(letter)] = yes if alone >= 0.8 * own else no
        return found

    return answer


@from_material
def decide(lab):
    return next(letter for letter, text in lab.options.items() if "without the profiler" in text)


@from_material
def decide_with_words(lab):
    return f"({decide(lab).upper()}) one change, then the whole step"


@from_material
def decide_with_dot(lab):
    return f" {decide(lab)}."


RIGHT = {
    "08/prediction": {"c": "c", "any": "a", "with words": "B, I think"},
    "08/found": {"read": found_read, "rounded": found_rounded, "numpy": found_in_numpy},
    "08/ways": {
        "words": ways(),
        "capitals": ways("ISOLATES", "Not yet.", str.upper),
        "other words": ways("yes", "no"),
    },
    "08/isolated_ms": {
        "fastest": fastest_of_ten,
        "median": median_by_nanoseconds,
        "whole step": whole_step_at_once,
        "timeit": by_timeit,
        "benchmark": by_torch_benchmark,
        "device timer": by_the_device_timer,
    },
    "08/explained": {
        "words": explained(),
        "capitals": explained("EXPLAINED", "Not explained.", str.upper),
        "other words": explained("yes", "no"),
    },
    "08/decide": {"letter": decide, "words": decide_with_words, "dot": decide_with_dot},
}
