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


def busy_with_projections(spans):
    step = _step(spans)
    gpu = [span for span in spans if span["lane"].startswith("stream")]
    return _union(
        [
            (max(s["start_ms"], step["start_ms"]), min(s["end_ms"], step["end_ms"]))
            for s in gpu
            if s["end_ms"] > step["start_ms"]
        ]
    )


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
def believes_the_sum(lab):
    return _answer(lab, why="a")


WRONG = {
    "03/elapsed_ms": {
        "operators added": ("totals-summed", lambda spans: sum(_length(s) for s in spans if s["kind"] == "operator")),
        "everything added": ("totals-summed", lambda spans: sum(map(_length, spans))),
        "first to last": (
            "other-window",
            lambda spans: max(s["end_ms"] for s in spans) - min(s["start_ms"] for s in spans),
        ),
        "microseconds": ("units-mixed", lambda spans: 1000 * _length(_step(spans))),
    },
    "03/total_ms": {
        "children added": (
            "children-added",
            lambda spans, name: sum(
                _length(s)
                for call in spans
                if call["name"] == name
                for s in spans
                if s["lane"] == call["lane"]
                and s["kind"] in ("operator", "launch")
                and call["start_ms"] <= s["start_ms"]
                and s["end_ms"] <= call["end_ms"]
            ),
        ),
    },
    "03/self_ms": {
        "total": ("total-for-self", lambda spans, name: sum(_length(s) for s in spans if s["name"] == name)),
    },
    "03/busy_ms": {
        "streams added": ("streams-added", lambda spans: sum(map(_length, _work(spans)))),
        "projections counted": ("annotations-counted", busy_with_projections),
        "not clipped": ("other-window", lambda spans: _union([(s["start_ms"], s["end_ms"]) for s in _work(spans)])),
        "first to last": (
            "first-to-last",
            lambda spans: max(s["end_ms"] for s in _work(spans)) - min(s["start_ms"] for s in _work(spans)),
        ),
        "the step itself": ("elapsed-for-busy", lambda spans: _length(_step(spans))),
    },
    "03/table": {
        "two runs": ("two-runs", wall_of_another_run),
        "whole trace": ("other-window", wall_of_the_whole_trace),
        "streams": ("streams-added", streams_added_in_percent),
        "believes it": ("totals-summed", believes_the_sum),
    },
}
