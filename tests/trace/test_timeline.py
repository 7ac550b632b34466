"""Lanes, spans and arrows of the window; times in microseconds from its beginning."""

from __future__ import annotations

import json

import pytest

from stepprof_lab.trace import reader, timeline
from stepprof_lab.trace import steps as stepping
from stepprof_lab.trace.model import Finding


@pytest.fixture
def drawn(tmp_path):
    """The timeline of a built trace, with metadata events of its own and with findings."""

    def made(built, *, events=(), findings=()):
        path = built.write(tmp_path / "trace.json")
        whole = json.loads(path.read_text())
        whole["traceEvents"] += events
        path.write_text(json.dumps(whole))
        trace = reader.read(path)
        return timeline.build(trace, stepping.find_steps(trace), stepping.find_device_work(trace), findings)

    return made


def spans(lane):
    return [(span.name, span.start_us, span.duration_us, span.depth, span.kind) for span in lane.spans]


def test_lanes_spans_and_arrows(build, drawn):
    built = build().step(3, 0, 100).step(4, 100, 100).label("read", 0, 20).label("train", 20, 70).label("back", 30, 20)
    built.operator("mm", 25, 30).launch(1, 30, 4).kernel(1, 50, 30).launch(2, 150).kernel(2, 180, 50, stream=20)
    built.operator("bwd", 40, 5, tid=9)
    steps, labels, main, seven, twenty, other = drawn(built).lanes
    assert drawn(built).duration_us == 230  # up to the end of what the steps launched
    assert (steps.kind, spans(steps)) == (
        "steps",
        [("ProfilerStep#3", 0, 100, 0, "step"), ("ProfilerStep#4", 100, 100, 0, "step")],
    )
    assert (labels.title, labels.kind) == ("labels", "labels")
    assert spans(labels) == [("read", 0, 20, 0, "label"), ("train", 20, 70, 0, "label"), ("back", 30, 20, 1, "label")]
    assert main.kind == "cpu"
    assert spans(main) == [
        ("mm", 25, 30, 0, "operator"),
        ("cudaLaunchKernel", 30, 4, 1, "runtime"),
        ("cudaLaunchKernel", 150, 1, 0, "runtime"),
    ]
    assert spans(other) == [("bwd", 40, 5, 0, "operator")]
    assert (seven.title, twenty.title) == ("device 0 stream 7", "device 0 stream 20")
    assert [lane.note for lane in (main, seven, twenty, other)] == [
        "runs the steps",
        "from thread 100",
        "from thread 100",
        "",
    ]
    assert spans(twenty) == [("gemm", 180, 50, 0, "kernel")]
    arrows = [(a.from_lane, a.from_us, a.to_lane, a.to_us, a.from_depth) for a in drawn(built).arrows]
    assert arrows == [(2, 30, 3, 50, 1), (2, 150, 4, 180, 0)]
    assert drawn(built).note is None


def test_what_lies_outside_the_window_is_left_out_and_what_crosses_is_cut(build, drawn):
    built = build().operator("before", 0, 50).operator("across", 90, 20).step(1, 100, 100).operator("after", 300, 5)
    steps, lane = drawn(built).lanes
    assert spans(steps) == [("ProfilerStep#1", 0, 100, 0, "step")]
    assert spans(lane) == [("across", 0, 10, 0, "operator")]


def test_without_steps_the_whole_record_is_shown(build, drawn):
    shown = drawn(build().operator("a", 5, 10).operator("b", 50, 10))
    assert shown.duration_us == 55
    assert "No step is marked" in shown.note


def test_a_stream_stands_under_the_last_thread_that_launches_to_it(build, drawn):
    built = build().step(1, 0, 1000).operator("before", 0, 1, tid=5)
    built.launch(1, 10, tid=9).kernel(1, 20, 5, stream=20).launch(2, 12, tid=100).kernel(2, 30, 5, stream=7)
    built.launch(3, 14, tid=9).kernel(3, 40, 5, stream=7).kernel(99, 60, 5, stream=30)
    for n in range(100):  # one of a hundred does not draw a stream under a thread
        built.launch(200 + n, 100 + n, tid=9).kernel(200 + n, 300 + 2 * n, 1, stream=20)
    built.launch(400, 60, tid=5).kernel(400, 70, 1, stream=20)
    assert [(lane.title, lane.note) for lane in drawn(built).lanes] == [
        ("steps", ""),
        ("thread 100", "runs the steps"),
        ("thread 9", ""),
        ("device 0 stream 20", "from threads 9, 5"),
        ("device 0 stream 7", "from threads 100, 9"),
        ("thread 5", ""),
        ("device 0 stream 30", "launches not in the trace"),
    ]


def test_a_thread_says_its_name_and_what_runs_on_it(build, drawn):
    built = build().step(1, 0, 100).operator("autograd::engine::evaluate_function: MulBackward0", 5, 10, tid=9)
    built.operator("a", 1, 1)
    names = {100: "thread 100 (python)", 9: "pt_autograd_0"}
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}} for tid, name in names.items()
    ]
    lanes = drawn(built, events=events).lanes[1:]
    assert [(lane.title, lane.note) for lane in lanes] == [
        ("thread 100", "python, runs the steps"),
        ("pt_autograd_0", "runs backward"),
    ]


def test_threads_of_several_processes_name_them(build, drawn):
    built = build().step(1, 0, 100).operator("a", 1, 1).add("cpu_op", "b", 2, 1, pid=2, tid=100)
    titles = [lane.title for lane in drawn(built).lanes]
    assert titles == ["steps", "process 1, thread 100", "process 2, thread 100"]


def test_no_short_span_is_left_out_it_goes_into_a_bundle(build, drawn, monkeypatch):
    monkeypatch.setattr(timeline, "SPANS_A_LANE", 4)
    built = build().step(1, 0, 1000).label("found", 0, 1000)
    for n in range(40):
        built.operator(f"op{n}", n * 10, 3 if n == 20 else 1)
    built.operator("long", 500, 200).operator("also", 800, 100)
    lane = drawn(built).lanes[2]
    assert len(lane.spans) <= 4
    assert sum(span.count for span in lane.spans) == 42
    assert lane.omitted == 0
    assert [(span.name, span.count) for span in lane.spans if span.duration_us >= 100 and span.count == 1] == [
        ("long", 1),
        ("also", 1),
    ]
    bundles = [span for span in lane.spans if span.count > 1]
    assert bundles[0].start_us == 0
    assert bundles[-1].start_us + bundles[-1].duration_us == 391
    longest = max(bundles, key=lambda span: span.longest_us)
    assert (longest.name, longest.longest_us) == ("op20", 3)


def test_a_bundle_keeps_the_evidence_that_is_in_it(build, drawn, monkeypatch):
    monkeypatch.setattr(timeline, "SPANS_A_LANE", 4)
    monkeypatch.setattr(timeline, "SPANS_IN_DETAIL", 8)
    built = build().step(1, 0, 1000).label("read_batch", 0, 1).label("x", 1, 2).label("train", 3, 900)
    built.label("y", 950, 2).label("read_batch", 960, 1)
    finding = Finding(
        id="input-wait",
        observation="",
        hypothesis="",
        next_check="",
        share_of_step=None,
        evidence={"labels": [{"name": "read_batch"}], "steps": ["ProfilerStep#1"]},
    )
    made = drawn(built, findings=[finding])
    held = [(span.name, span.count, span.evidence) for span in made.lanes[1].spans]
    assert held[0] == ("x", 2, ("input-wait",))
    assert ("train", 1, ()) in held
    assert made.lanes[0].spans[0].evidence == ()
    assert made.detail.evidence.any()


def test_arrows_go_to_the_longest_work_and_all_are_counted(build, drawn, monkeypatch):
    monkeypatch.setattr(timeline, "ARROWS", 1)
    built = build().step(1, 0, 100).launch(1, 5).kernel(1, 10, 2).launch(2, 6).kernel(2, 20, 30)
    shown = drawn(built)
    assert [(arrow.from_us, arrow.to_us) for arrow in shown.arrows] == [(6, 20)]
    assert shown.launched == 2


def test_spans_that_cross_do_not_push_the_rest_down(build, drawn):
    built = build().step(1, 0, 100).operator("first", 0, 10).label("crosses", 5, 80)
    for n in range(3):
        built.operator(f"later{n}", 20 + 10 * n, 5)
    lane = drawn(built).lanes[2]
    assert [span.depth for span in lane.spans] == [0, 0, 0, 0]


def test_the_detail_has_every_span_with_self_time_and_launch(build, drawn):
    built = build().step(1, 0, 100).label("train", 5, 90).operator("outer", 10, 50).operator("inner", 15, 20)
    built.launch(1, 20, 5).kernel(1, 40, 30).operator("across", 90, 20).kernel(7, 80, 5)
    detail = drawn(built).detail
    told = [
        (detail.names[detail.name_id[n]], detail.kinds[detail.kind_id[n]], int(detail.start[n]), int(detail.end[n]))
        for n in range(len(detail))
    ]
    assert told == [
        ("ProfilerStep#1", "step", 0, 100_000),
        ("train", "label", 5_000, 95_000),
        ("outer", "operator", 10_000, 60_000),
        ("across", "operator", 90_000, 100_000),
        ("inner", "operator", 15_000, 35_000),
        ("cudaLaunchKernel", "runtime", 20_000, 25_000),
        ("gemm", "kernel", 40_000, 70_000),
        ("gemm", "kernel", 80_000, 85_000),
    ]
    assert detail.own[[2, 4]].tolist() == [30_000, 15_000]
    assert detail.launch.tolist() == [-1, -1, -1, -1, -1, -1, 5, -1]
    assert detail.count.tolist() == [1] * 8


def test_threads_with_few_spans_are_left_out_and_counted(build, drawn, monkeypatch):
    monkeypatch.setattr(timeline, "LANES_OF_A_KIND", 1)
    built = build().step(1, 0, 100).operator("a", 0, 1).operator("b", 5, 1, tid=9).operator("c", 7, 1, tid=9)
    built.launch(1, 8, tid=100).kernel(1, 20, 1)
    built.operator("d", 9, 1, tid=9)
    shown = drawn(built)
    assert [lane.title for lane in shown.lanes] == ["steps", "thread 9", "device 0 stream 7"]
    assert shown.arrows == []  # its launch is on a thread that is not shown
    assert "1 CPU threads with fewer spans are left out." in shown.note


def test_labels_of_several_threads_do_not_nest_in_each_other(build, drawn):
    built = build().step(1, 0, 100).label("a", 0, 50).label("b", 10, 50, tid=9)
    _, one, two = drawn(built).lanes
    assert (one.title, two.title) == ("labels, thread 100", "labels, thread 9")
    assert [span.depth for lane in (one, two) for span in lane.spans] == [0, 0]


@pytest.mark.parametrize("kind", ["gpu_memcpy", "gpu_memset", "kernel"])
def test_kinds_of_device_work(build, drawn, kind):
    built = build().step(1, 0, 100).add(kind, "work", 5, 10, pid=0, tid=7)
    word = {"gpu_memcpy": "copy", "gpu_memset": "memset", "kernel": "kernel"}[kind]
    assert drawn(built).lanes[1].spans[0].kind == word


def test_overlapping_work_of_one_stream_lies_in_rows_of_its_own(build, drawn):
    built = build().step(1, 0, 300).launch(1, 1).kernel(1, 10, 50).kernel(0, 40, 50, name="early").kernel(0, 70, 5)
    (lane,) = [lane for lane in drawn(built).lanes if lane.kind == "device"]
    assert spans(lane) == [
        ("gemm", 10, 50, 0, "kernel"),
        ("early", 40, 50, 1, "kernel"),
        ("gemm", 70, 5, 0, "kernel"),
    ]


def test_very_much_overlapping_work_ends_in_the_last_row(build, drawn):
    built = build().step(1, 0, 300)
    for n in range(20):
        built.kernel(0, 10 + n, 100)
    (lane,) = [lane for lane in drawn(built).lanes if lane.kind == "device"]
    assert max(span.depth for span in lane.spans) == timeline.DEVICE_ROWS - 1
    assert sum(span.count for span in lane.spans) == 20
