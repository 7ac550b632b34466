"""Right answers to lab 03, second set: written from the lab's text alone."""

import numpy as np

from stepprof_lab.grading.answers import from_material


def end_less_start(spans):
    for span in spans:
        if span["kind"] == "step":
            return span["end_ms"] - span["start_ms"]
    return None


def only_one_is_the_step(spans):
    (step,) = [s for s in spans if s["kind"] == "step"]
    return round(step["end_ms"] - step["start_ms"], 3)


def elapsed_in_numpy(spans):
    kinds = np.array([s["kind"] for s in spans])
    starts = np.array([s["start_ms"] for s in spans])
    ends = np.array([s["end_ms"] for s in spans])
    return (ends - starts)[kinds == "step"].sum()


def sum_of_the_calls(spans, name):
    return sum(s["end_ms"] - s["start_ms"] for s in spans if s["kind"] == "operator" and s["name"] == name)


def total_within_the_step(spans, name):
    step = next(s for s in spans if s["kind"] == "step")
    total = 0.0
    for span in spans:
        inside = step["start_ms"] <= span["start_ms"] and span["end_ms"] <= step["end_ms"]
        if inside and span["kind"] == "operator" and span["name"] == name:
            total += span["end_ms"] - span["start_ms"]
    return round(total, 3)


def self_by_a_stack(spans, name):
    total = 0.0
    lanes = {}
    on_cpu = [s for s in spans if s["kind"] in ("operator", "launch")]
    for span in sorted(on_cpu, key=lambda s: (s["start_ms"], -s["end_ms"])):
        stack = lanes.setdefault(span["lane"], [])
        while stack and stack[-1]["end_ms"] <= span["start_ms"]:
            stack.pop()
        length = span["end_ms"] - span["start_ms"]
        if stack and stack[-1]["name"] == name and stack[-1]["kind"] == "operator":
            total -= length
        if span["name"] == name and span["kind"] == "operator":
            total += length
        stack.append(span)
    return total


def self_by_the_smallest_parent(spans, name):
    def holds(outer, inner):
        return (
            outer is not inner
            and outer["lane"] == inner["lane"]
            and outer["start_ms"] <= inner["start_ms"]
            and inner["end_ms"] <= outer["end_ms"]
        )

    def length(span):
        return span["end_ms"] - span["start_ms"]

    operators = [s for s in spans if s["kind"] == "operator"]
    own = sum(length(s) for s in operators if s["name"] == name)
    for child in [s for s in spans if s["kind"] in {"operator", "launch"}]:
        parents = [s for s in operators if holds(s, child)]
        if parents and min(parents, key=length)["name"] == name:
            own -= length(child)
    return own


def self_by_the_uncovered_time(spans, name):
    calls = [s for s in spans if s["kind"] == "operator" and s["name"] == name]
    result = 0.0
    for call in calls:
        inner = [
            (s["start_ms"], s["end_ms"])
            for s in spans
            if s is not call
            and s["lane"] == call["lane"]
            and s["kind"] in ("operator", "launch")
            and s["start_ms"] >= call["start_ms"]
            and s["end_ms"] <= call["end_ms"]
        ]
        here = call["start_ms"]
        for start, end in sorted(inner):
            result += max(0.0, start - here)
            here = max(here, end)
        result += call["end_ms"] - here
    return round(result, 4)


def busy_by_merging(spans):
    step = [s for s in spans if s["kind"] == "step"][0]
    pieces = []
    for s in spans:
        if s["kind"] in ("kernel", "copy"):
            start = max(s["start_ms"], step["start_ms"])
            end = min(s["end_ms"], step["end_ms"])
            if end > start:
                pieces.append([start, end])
    pieces.sort()
    merged = []
    for start, end in pieces:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return sum(end - start for start, end in merged)


def busy_by_counting(spans):
    step = next(s for s in spans if s["kind"] == "step")
    marks = []
    for s in spans:
        if s["kind"] == "kernel" or s["kind"] == "copy":
            low, high = np.clip([s["start_ms"], s["end_ms"]], step["start_ms"], step["end_ms"])
            marks += [(low, 1), (high, -1)]
    busy, running, before = 0.0, 0, None
    for at, change in sorted(marks):
        if running > 0:
            busy += at - before
        running += change
        before = at
    return busy


def busy_on_a_grid(spans):
    step = next(s for s in spans if s["kind"] == "step")
    begin = round(step["start_ms"] * 1000)
    at_work = np.zeros(round(step["end_ms"] * 1000) - begin, dtype=bool)
    for s in spans:
        if s["kind"] in ["kernel", "copy"]:
            first, last = round(s["start_ms"] * 1000) - begin, round(s["end_ms"] * 1000) - begin
            at_work[max(first, 0) : max(last, 0)] = True
    return at_work.sum() / 1000


@from_material
def table_as_it_says(lab):
    rows = lab.table["rows"]
    return {
        "sum_of_totals_ms": sum(row["total_ms"] for row in rows),
        "sum_of_selfs_ms": sum(row["self_ms"] for row in rows),
        "why": "b",
        "gpu_busy_percent": 100 * lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"],
    }


@from_material
def table_rounded(lab):
    totals = selfs = 0
    for row in lab.table["rows"]:
        totals += row["total_ms"]
        selfs += row["self_ms"]
    percent = lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"] * 100
    return dict(
        sum_of_totals_ms=round(totals, 2),
        sum_of_selfs_ms=round(selfs, 2),
        why="b",
        gpu_busy_percent=round(percent, 1),
    )


@from_material
def table_in_numpy(lab):
    columns = np.array([[row["total_ms"], row["self_ms"]] for row in lab.table["rows"]])
    totals, selfs = columns.sum(axis=0)
    share = np.float64(lab.table["gpu_busy_ms"]) / lab.table["traced_step_ms"]
    return {"sum_of_totals_ms": totals, "sum_of_selfs_ms": selfs, "why": "b", "gpu_busy_percent": share * 100}


RIGHT = {
    "03/prediction": {"once a level": "b", "the same in upper case": "B"},
    "03/elapsed_ms": {
        "end less start": end_less_start,
        "unpacked and rounded": only_one_is_the_step,
        "in numpy": elapsed_in_numpy,
    },
    "03/total_ms": {"a sum of the calls": sum_of_the_calls, "within the step": total_within_the_step},
    "03/self_ms": {
        "by a stack": self_by_a_stack,
        "by the smallest parent": self_by_the_smallest_parent,
        "by the uncovered time": self_by_the_uncovered_time,
    },
    "03/busy_ms": {
        "by merging": busy_by_merging,
        "by counting what runs": busy_by_counting,
        "on a grid of microseconds": busy_on_a_grid,
    },
    "03/table": {"as it says": table_as_it_says, "rounded": table_rounded, "in numpy": table_in_numpy},
}
