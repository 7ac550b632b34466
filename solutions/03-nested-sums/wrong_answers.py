"""Wrong answers, each with the misconception that the judge must name."""

from stepprof_lab.grading.answers import from_material


def _length(span):
    return span["end_ms"] - span["start_ms"]


def _step(spans):
    return next(span for span in spans if span["kind"] == "step")


def _work(spans):
    return [span for span in spans if span["kind"] in ("kernel", "copy")]


def _union(pairs):
    found, reached = 0.0, float("-inf")
    for start, end in sorted(pairs):
        if end > reached:
            found += end - max(start, reached)
            reached = end
    return found


def _clip(spans, chosen):
    step = _step(spans)
    found = [(max(s["start_ms"], step["start_ms"]), min(s["end_ms"], step["end_ms"])) for s in chosen]
    return [(start, end) for start, end in found if end > start]


def _gpu(spans):
    """Everything on the streams, projections too."""
    return [span for span in spans if span["lane"].startswith("stream")]


def _pairs(chosen):
    return [(s["start_ms"], s["end_ms"]) for s in chosen]


def _add(pairs):
    return sum(end - start for start, end in pairs)


def _of(spans, *kinds):
    return [span for span in spans if span["kind"] in kinds]


def _named(spans, name):
    return [span for span in spans if span["name"] == name]


def _inside(spans, call):
    """Operators and launches inside a call on its own lane, at any depth."""
    return [
        s
        for s in _of(spans, "operator", "launch")
        if s is not call
        and s["lane"] == call["lane"]
        and call["start_ms"] <= s["start_ms"]
        and s["end_ms"] <= call["end_ms"]
    ]


def _inside_on_any_lane(spans, call):
    return [
        s
        for s in _of(spans, "operator", "launch", "kernel", "copy")
        if s is not call and call["start_ms"] <= s["start_ms"] and s["end_ms"] <= call["end_ms"]
    ]


def _direct(spans, call, inside):
    found = inside(spans, call)
    return [s for s in found if not any(s in inside(spans, other) for other in found)]


def self_without_looking_at_lanes(spans, name):
    return sum(
        _length(call) - sum(map(_length, _direct(spans, call, _inside_on_any_lane))) for call in _named(spans, name)
    )


def self_less_all_descendants(spans, name):
    return sum(_length(call) - sum(map(_length, _inside(spans, call))) for call in _named(spans, name))


def self_less_operators_alone(spans, name):
    operators = _of(spans, "operator")
    return sum(_length(call) - sum(map(_length, _direct(operators, call, _inside))) for call in _named(spans, name))


def self_right(spans, name):
    return sum(_length(call) - sum(map(_length, _direct(spans, call, _inside))) for call in _named(spans, name))


def busy_right(spans):
    return _union(_clip(spans, _work(spans)))


def _answer(lab, **changed):
    rows = lab.table["rows"]
    return {
        "sum_of_totals_ms": sum(row["total_ms"] for row in rows),
        "sum_of_selfs_ms": sum(row["self_ms"] for row in rows),
        "why": "b",
        "gpu_busy_percent": 100 * lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"],
        **changed,
    }


@from_material
def wall_of_another_run(lab):
    return _answer(lab, gpu_busy_percent=100 * lab.table["gpu_busy_ms"] / lab.table["untraced_step_ms"])


@from_material
def wall_of_the_whole_trace(lab):
    return _answer(lab, gpu_busy_percent=100 * lab.table["gpu_busy_ms"] / lab.table["whole_trace_ms"])


@from_material
def streams_added_in_percent(lab):
    return _answer(lab, gpu_busy_percent=100 * lab.table["gpu_sum_ms"] / lab.table["traced_step_ms"])


@from_material
def streams_added_and_another_run(lab):
    return _answer(lab, gpu_busy_percent=100 * lab.table["gpu_sum_ms"] / lab.table["untraced_step_ms"])


@from_material
def share_of_the_totals(lab):
    totals = sum(row["total_ms"] for row in lab.table["rows"])
    return _answer(lab, gpu_busy_percent=round(100 * lab.table["gpu_busy_ms"] / totals, 1))


@from_material
def a_fraction(lab):
    return _answer(lab, gpu_busy_percent=lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"])


@from_material
def believes_the_sum(lab):
    return _answer(lab, why="a")


@from_material
def blames_the_profiler(lab):
    return _answer(lab, why="c")


@from_material
def adds_two_processors(lab):
    return _answer(lab, why="D.")


WRONG = {
    "03/elapsed_ms": {
        "operators added": ("totals-summed", lambda spans: sum(map(_length, _of(spans, "operator")))),
        "everything added": ("totals-summed", lambda spans: sum(map(_length, spans))),
        "the thread added": (
            "totals-summed",
            lambda spans: sum(_length(s) for s in spans if s["lane"] == "thread 1"),
        ),
        "first to last": (
            "other-window",
            lambda spans: max(s["end_ms"] for s in spans) - min(s["start_ms"] for s in spans),
        ),
        "with the tail": ("other-window", lambda spans: max(s["end_ms"] for s in spans) - _step(spans)["start_ms"]),
        "the label": ("label-for-step", lambda spans: _length(next(s for s in spans if s["name"] == "train"))),
        "busy": ("busy-for-elapsed", busy_right),
        "both added": ("cpu-and-gpu-added", lambda spans: _length(_step(spans)) + busy_right(spans)),
        "microseconds": ("units-mixed", lambda spans: 1000 * _length(_step(spans))),
        "negative": ("end-before-start", lambda spans: -_length(_step(spans))),
        "whole": ("rounded-away", lambda spans: int(_length(_step(spans)))),
    },
    "03/total_ms": {
        "children added": (
            "children-added",
            lambda spans, name: sum(_length(c) + sum(map(_length, _inside(spans, c))) for c in _named(spans, name)),
        ),
        "self": ("self-for-total", self_right),
        "mean call": (
            "one-call",
            lambda spans, name: sum(map(_length, _named(spans, name))) / len(_named(spans, name)),
        ),
        "first call": ("one-call", lambda spans, name: _length(_named(spans, name)[0])),
        "first to last": (
            "first-to-last",
            lambda spans, name: _named(spans, name)[-1]["end_ms"] - _named(spans, name)[0]["start_ms"],
        ),
    },
    "03/self_ms": {
        "total": ("total-for-self", lambda spans, name: sum(map(_length, _named(spans, name)))),
        "all descendants": ("descendants-taken-twice", self_less_all_descendants),
        "lanes mixed": ("lanes-mixed", self_without_looking_at_lanes),
        "launches kept": ("launches-left-in", self_less_operators_alone),
        "children": (
            "children-for-self",
            lambda spans, name: sum(map(_length, _named(spans, name))) - self_right(spans, name),
        ),
        "mean call": ("one-call", lambda spans, name: self_right(spans, name) / len(_named(spans, name))),
    },
    "03/busy_ms": {
        "streams added": ("streams-added", lambda spans: _add(_clip(spans, _work(spans)))),
        "streams added, not clipped": ("streams-added", lambda spans: _add(_pairs(_work(spans)))),
        "streams added, kernels alone": ("streams-added", lambda spans: _add(_clip(spans, _of(spans, "kernel")))),
        "projections counted": ("annotations-counted", lambda spans: _union(_clip(spans, _gpu(spans)))),
        "projections added": ("annotations-counted", lambda spans: _add(_clip(spans, _gpu(spans)))),
        "projections counted, not clipped": ("annotations-counted", lambda spans: _union(_pairs(_gpu(spans)))),
        "projections added, not clipped": ("annotations-counted", lambda spans: _add(_pairs(_gpu(spans)))),
        "not clipped": ("other-window", lambda spans: _union(_pairs(_work(spans)))),
        "kernels, not clipped": ("other-window", lambda spans: _union(_pairs(_of(spans, "kernel")))),
        "kernels alone": ("copies-left-out", lambda spans: _union(_clip(spans, _of(spans, "kernel")))),
        "one stream": (
            "one-stream",
            lambda spans: _union(_clip(spans, [s for s in _work(spans) if s["lane"] == "stream 7"])),
        ),
        "first to last": (
            "first-to-last",
            lambda spans: max(s["end_ms"] for s in _work(spans)) - min(s["start_ms"] for s in _work(spans)),
        ),
        "the step itself": ("elapsed-for-busy", lambda spans: _length(_step(spans))),
        "idle": ("idle-for-busy", lambda spans: _length(_step(spans)) - busy_right(spans)),
        "percent": ("percent-for-time", lambda spans: 100 * busy_right(spans) / _length(_step(spans))),
    },
    "03/table": {
        "two runs": ("two-runs", wall_of_another_run),
        "whole trace": ("other-window", wall_of_the_whole_trace),
        "streams": ("streams-added", streams_added_in_percent),
        "streams and two runs": ("two-runs", streams_added_and_another_run),
        "share of the totals": ("other-window", share_of_the_totals),
        "a fraction": ("fraction-for-percent", a_fraction),
        "believes it": ("totals-summed", believes_the_sum),
        "blames the profiler": ("profiler-blamed", blames_the_profiler),
        "adds two processors": ("cpu-and-gpu-added", adds_two_processors),
    },
}
