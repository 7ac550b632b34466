"""Honest answers in different styles; each must earn every point."""

import heapq

import numpy as np

from stepprof_lab.grading.answers import from_material


def _step(spans):
    return [span for span in spans if span["kind"] == "step"][0]


def elapsed_by_lookup(spans):
    return _step(spans)["end_ms"] - _step(spans)["start_ms"]


def elapsed_by_loop(spans):
    for span in spans:
        if span["name"] == "step":
            return round(span["end_ms"] - span["start_ms"], 3)
    return None


def elapsed_with_numpy(spans):
    times = np.array([(s["start_ms"], s["end_ms"]) for s in spans if s["kind"] == "step"])
    return np.diff(times)[0, 0]


def elapsed_in_tenths(spans):
    return round(elapsed_by_lookup(spans), 1)


def total_by_sum(spans, name):
    return sum(s["end_ms"] - s["start_ms"] for s in spans if s["name"] == name)


def total_by_loop(spans, name):
    found = 0
    for span in spans:
        if span["kind"] == "operator" and span["name"] == name:
            found += span["end_ms"] - span["start_ms"]
    return found


def total_with_numpy(spans, name):
    calls = [s for s in spans if s["name"] == name]
    return np.sum([s["end_ms"] for s in calls]) - np.sum([s["start_ms"] for s in calls])


def self_by_stack(spans, name):
    host = [s for s in spans if s["lane"] == "thread 1" and s["kind"] in ("operator", "launch")]
    host.sort(key=lambda s: (s["start_ms"], -s["end_ms"]))
    own = {}
    stack = []
    for number, span in enumerate(host):
        while stack and host[stack[-1]]["end_ms"] <= span["start_ms"]:
            stack.pop()
        length = span["end_ms"] - span["start_ms"]
        own[number] = length
        if stack:
            own[stack[-1]] -= length
        stack.append(number)
    return sum(value for number, value in own.items() if host[number]["name"] == name)


def self_by_innermost(spans, name):
    """Cut the thread at every boundary and give each piece to the innermost span."""
    host = [s for s in spans if s["lane"] == "thread 1" and s["kind"] in ("operator", "launch")]
    edges = sorted({time for s in host for time in (s["start_ms"], s["end_ms"])})
    found = 0.0
    for start, end in zip(edges, edges[1:]):
        open_now = [s for s in host if s["start_ms"] <= start and s["end_ms"] >= end]
        if open_now and min(open_now, key=lambda s: s["end_ms"] - s["start_ms"])["name"] == name:
            found += end - start
    return found


def self_by_direct_children(spans, name):
    found = 0.0
    for call in [s for s in spans if s["kind"] == "operator" and s["name"] == name]:
        reached = call["start_ms"]
        found += call["end_ms"] - call["start_ms"]
        for child in sorted(spans, key=lambda s: (s["start_ms"], -s["end_ms"])):
            inside = call["start_ms"] <= child["start_ms"] and child["end_ms"] <= call["end_ms"]
            if child is call or not inside or child["lane"] != call["lane"]:
                continue
            if child["kind"] in ("operator", "launch") and child["start_ms"] >= reached:
                found -= child["end_ms"] - child["start_ms"]
                reached = child["end_ms"]
    return found


def self_with_numpy(spans, name):
    """The parent of each span is the last one that holds it, in order of start."""
    host = sorted(
        (s for s in spans if s["lane"].startswith("thread") and s["kind"] not in ("step", "label")),
        key=lambda s: (s["lane"], s["start_ms"], -s["end_ms"]),
    )
    lengths = np.array([s["end_ms"] - s["start_ms"] for s in host])
    own = lengths.copy()
    for at, span in enumerate(host):
        for before in range(at - 1, -1, -1):
            if host[before]["lane"] == span["lane"] and host[before]["end_ms"] >= span["end_ms"]:
                own[before] -= lengths[at]
                break
    return own[[s["name"] == name for s in host]].sum()


def _clipped(spans):
    step = _step(spans)
    for span in spans:
        if span["kind"] in ("kernel", "copy"):
            start, end = max(span["start_ms"], step["start_ms"]), min(span["end_ms"], step["end_ms"])
            if end > start:
                yield start, end


def busy_by_sweep(spans):
    merged = []
    for start, end in sorted(_clipped(spans)):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return sum(end - start for start, end in merged)


def busy_by_counting(spans):
    edges = []
    for start, end in _clipped(spans):
        heapq.heappush(edges, (start, 1))
        heapq.heappush(edges, (end, -1))
    found, depth, before = 0.0, 0, None
    while edges:
        time, change = heapq.heappop(edges)
        if depth > 0:
            found += time - before
        depth, before = depth + change, time
    return found


def busy_on_a_grid(spans):
    step = _step(spans)
    grid = np.zeros(round((step["end_ms"] - step["start_ms"]) * 1000), dtype=bool)
    for start, end in _clipped(spans):
        grid[round((start - step["start_ms"]) * 1000) : round((end - step["start_ms"]) * 1000)] = True
    return grid.sum() / 1000


def busy_as_what_is_not_idle(spans):
    """The step less its gaps, rounded to a tenth."""
    step = _step(spans)
    idle, reached = 0.0, step["start_ms"]
    for start, end in sorted(_clipped(spans)):
        idle += max(0.0, start - reached)
        reached = max(reached, end)
    idle += max(0.0, step["end_ms"] - reached)
    return round(step["end_ms"] - step["start_ms"] - idle, 1)


def _table(lab):
    rows, wall = lab.table["rows"], lab.table["traced_step_ms"]
    return {
        "sum_of_totals_ms": sum(row["total_ms"] for row in rows),
        "sum_of_selfs_ms": sum(row["self_ms"] for row in rows),
        "why": "b",
        "gpu_busy_percent": 100 * lab.table["gpu_busy_ms"] / wall,
    }


@from_material
def table_exact(lab):
    return _table(lab)


@from_material
def table_rounded(lab):
    return {key: value if key == "why" else round(value, 1) for key, value in _table(lab).items()}


@from_material
def table_in_numpy(lab):
    return {key: "B" if key == "why" else np.float64(value) for key, value in _table(lab).items()}


@from_material
def table_by_words(lab):
    found = _table(lab)
    return {
        "why": "(b) a row holds the rows below it",
        "gpu_busy_percent": round(found["gpu_busy_percent"]),
        "sum_of_selfs_ms": lab.table["traced_step_ms"],
        "sum_of_totals_ms": found["sum_of_totals_ms"],
    }


RIGHT = {
    "03/prediction": {"b": "b", "any": "a", "with words": "d, I think"},
    "03/elapsed_ms": {
        "lookup": elapsed_by_lookup,
        "loop": elapsed_by_loop,
        "numpy": elapsed_with_numpy,
        "tenths": elapsed_in_tenths,
    },
    "03/total_ms": {"sum": total_by_sum, "loop": total_by_loop, "numpy": total_with_numpy},
    "03/self_ms": {
        "stack": self_by_stack,
        "innermost": self_by_innermost,
        "direct children": self_by_direct_children,
        "numpy": self_with_numpy,
    },
    "03/busy_ms": {
        "sweep": busy_by_sweep,
        "counting": busy_by_counting,
        "grid": busy_on_a_grid,
        "gaps": busy_as_what_is_not_idle,
    },
    "03/table": {"exact": table_exact, "rounded": table_rounded, "numpy": table_in_numpy, "words": table_by_words},
}
