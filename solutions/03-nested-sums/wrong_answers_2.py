"""Wrong answers to lab 03, second set: written from the lab's text alone."""

from stepprof_lab.grading.answers import from_material


def length(span):
    return span["end_ms"] - span["start_ms"]


def step_of(spans):
    return next(s for s in spans if s["kind"] == "step")


def union(pieces):
    total, here = 0.0, float("-inf")
    for start, end in sorted(pieces):
        total += max(0.0, end - max(start, here))
        here = max(here, end)
    return total


def clipped(spans, kinds):
    step = step_of(spans)
    pieces = []
    for s in spans:
        start, end = max(s["start_ms"], step["start_ms"]), min(s["end_ms"], step["end_ms"])
        if s["kind"] in kinds and end > start:
            pieces.append((start, end))
    return pieces


def everything_on_the_thread(spans):
    thread = step_of(spans)["lane"]
    return sum(length(s) for s in spans if s["lane"] == thread)


def from_the_first_span_to_the_last(spans):
    return max(s["end_ms"] for s in spans) - min(s["start_ms"] for s in spans)


def the_train_label(spans):
    for s in spans:
        if s["kind"] == "label" and s["name"] == "train":
            return length(s)
    return None


def gpu_at_work(spans):
    return union(clipped(spans, ("kernel", "copy")))


def mean_of_the_calls(spans, name):
    calls = [length(s) for s in spans if s["name"] == name and s["kind"] == "operator"]
    return sum(calls) / len(calls)


def first_call_to_last(spans, name):
    calls = [s for s in spans if s["name"] == name and s["kind"] == "operator"]
    return calls[-1]["end_ms"] - calls[0]["start_ms"]


def inside(call, spans, kinds=("operator", "launch"), any_lane=False):
    return [
        s
        for s in spans
        if s is not call
        and s["kind"] in kinds
        and (any_lane or s["lane"] == call["lane"])
        and call["start_ms"] <= s["start_ms"]
        and s["end_ms"] <= call["end_ms"]
    ]


def direct(call, spans, **how):
    below = inside(call, spans, **how)
    return [s for s in below if not any(s in inside(other, below, any_lane=True) for other in below)]


def calls_of(spans, name):
    return [s for s in spans if s["kind"] == "operator" and s["name"] == name]


def calls_and_children(spans, name):
    total = 0.0
    for call in calls_of(spans, name):
        total += length(call) + sum(length(s) for s in direct(call, spans))
    return total


def without_what_it_calls(spans, name):
    return sum(length(c) - sum(length(s) for s in direct(c, spans)) for c in calls_of(spans, name))


def nothing_taken_away(spans, name):
    return sum(length(call) for call in calls_of(spans, name))


def operators_taken_away(spans, name):
    own = 0.0
    for call in calls_of(spans, name):
        own += length(call) - sum(length(s) for s in direct(call, spans, kinds=("operator",)))
    return own


def everything_inside_taken_away(spans, name):
    own = 0.0
    for call in calls_of(spans, name):
        own += length(call)
        for s in inside(call, spans):
            own -= length(s)
    return own


def the_children_themselves(spans, name):
    return sum(length(s) for call in calls_of(spans, name) for s in direct(call, spans))


def streams_one_by_one(spans):
    return sum(end - start for start, end in clipped(spans, ("kernel", "copy")))


def all_that_lies_in_a_stream(spans):
    return union(clipped(spans, {s["kind"] for s in spans if s["lane"].startswith("stream")}))


def kernels_alone(spans):
    return union(clipped(spans, ("kernel",)))


def not_cut_at_the_step(spans):
    return union([(s["start_ms"], s["end_ms"]) for s in spans if s["kind"] in ("kernel", "copy")])


def table(lab, **changed):
    rows = lab.table["rows"]
    return {
        "sum_of_totals_ms": sum(row["total_ms"] for row in rows),
        "sum_of_selfs_ms": sum(row["self_ms"] for row in rows),
        "why": "b",
        "gpu_busy_percent": 100 * lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"],
        **changed,
    }


@from_material
def share_as_a_fraction(lab):
    return table(lab, gpu_busy_percent=round(lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"], 3))


@from_material
def step_without_the_profiler(lab):
    return table(lab, gpu_busy_percent=100 * lab.table["gpu_busy_ms"] / lab.table["untraced_step_ms"])


@from_material
def streams_together(lab):
    return table(lab, gpu_busy_percent=100 * lab.table["gpu_sum_ms"] / lab.table["traced_step_ms"])


@from_material
def slowed_by_the_profiler(lab):
    return table(lab, why="c")


WRONG = {
    "03/elapsed_ms": {
        "everything on the step's thread": ("totals-summed", everything_on_the_thread),
        "first span to last": ("other-window", from_the_first_span_to_the_last),
        "the label train": ("label-for-step", the_train_label),
        "the GPU's time": ("busy-for-elapsed", gpu_at_work),
    },
    "03/total_ms": {
        "mean of the calls": ("one-call", mean_of_the_calls),
        "first call to last": ("first-to-last", first_call_to_last),
        "calls and children": ("children-added", calls_and_children),
        "without what it calls": ("self-for-total", without_what_it_calls),
    },
    "03/self_ms": {
        "nothing taken away": ("total-for-self", nothing_taken_away),
        "operators taken away": ("launches-left-in", operators_taken_away),
        "everything inside taken away": ("descendants-taken-twice", everything_inside_taken_away),
        "the children themselves": ("children-for-self", the_children_themselves),
    },
    "03/busy_ms": {
        "streams one by one": ("streams-added", streams_one_by_one),
        "all that lies in a stream": ("annotations-counted", all_that_lies_in_a_stream),
        "kernels alone": ("copies-left-out", kernels_alone),
        "not cut at the step": ("other-window", not_cut_at_the_step),
    },
    "03/table": {
        "share as a fraction": ("fraction-for-percent", share_as_a_fraction),
        "the step without the profiler": ("two-runs", step_without_the_profiler),
        "streams together": ("streams-added", streams_together),
        "slowed by the profiler": ("profiler-blamed", slowed_by_the_profiler),
    },
}
