"""Lanes, spans and arrows of the window; times in microseconds from its beginning."""

from __future__ import annotations

import pytest

from stepprof_lab.trace import timeline


def spans(lane):
    return [(span.name, span.start_us, span.duration_us, span.depth, span.kind) for span in lane.spans]


def test_lanes_spans_and_arrows(build, read):
    built = build().step(3, 0, 100).step(4, 100, 100).label("read", 0, 20).label("train", 20, 70).label("back", 30, 20)
    built.operator("mm", 25, 30).launch(1, 30, 4).kernel(1, 50, 30).launch(2, 150).kernel(2, 180, 50, stream=20)
    built.operator("bwd", 40, 5, tid=9)
    steps, labels, main, other, seven, twenty = read(built).timeline.lanes
    assert read(built).timeline.duration_us == 230  # up to the end of what the steps launched
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
    assert spans(twenty) == [("gemm", 180, 50, 0, "kernel")]
    arrows = [(a.from_lane, a.from_us, a.to_lane, a.to_us) for a in read(built).timeline.arrows]
    assert arrows == [(2, 30, 4, 50), (2, 150, 5, 180)]
    assert read(built).timeline.note is None


def test_what_lies_outside_the_window_is_left_out_and_what_crosses_is_cut(build, read):
    built = build().operator("before", 0, 50).operator("across", 90, 20).step(1, 100, 100).operator("after", 300, 5)
    steps, lane = read(built).timeline.lanes
    assert spans(steps) == [("ProfilerStep#1", 0, 100, 0, "step")]
    assert spans(lane) == [("across", 0, 10, 0, "operator")]


def test_without_steps_the_whole_record_is_shown(build, read):
    shown = read(build().operator("a", 5, 10).operator("b", 50, 10)).timeline
    assert shown.duration_us == 55
    assert "No step is marked" in shown.note


def test_the_shortest_spans_are_left_out_and_counted(build, read, monkeypatch):
    monkeypatch.setattr(timeline, "SPANS_A_LANE", 3)
    built = build().step(1, 0, 100)
    for n, length in enumerate([5, 1, 7, 2, 6]):
        built.operator(f"op{length}", n * 10, length)
    shown = read(built).timeline
    lane = shown.lanes[1]
    assert [span.name for span in lane.spans] == ["op5", "op7", "op6"]
    assert lane.omitted == 2
    assert "2 of the shortest spans are left out." in shown.note


def test_arrows_to_the_longest_work_are_kept(build, read, monkeypatch):
    monkeypatch.setattr(timeline, "ARROWS", 1)
    built = build().step(1, 0, 100).launch(1, 5).kernel(1, 10, 2).launch(2, 6).kernel(2, 20, 30)
    shown = read(built).timeline
    assert [(arrow.from_us, arrow.to_us) for arrow in shown.arrows] == [(6, 20)]
    assert "1 arrows to shorter device work are left out." in shown.note


def test_threads_with_few_spans_are_left_out_and_counted(build, read, monkeypatch):
    monkeypatch.setattr(timeline, "LANES_OF_A_KIND", 1)
    built = build().step(1, 0, 100).operator("a", 0, 1).operator("b", 5, 1, tid=9).operator("c", 7, 1, tid=9)
    built.launch(1, 8, tid=100).kernel(1, 20, 1)
    built.operator("d", 9, 1, tid=9)
    shown = read(built).timeline
    assert [lane.title for lane in shown.lanes] == ["steps", "thread 9", "device 0 stream 7"]
    assert shown.arrows == []  # its launch is on a thread that is not shown
    assert "1 CPU threads with fewer spans are left out." in shown.note


def test_labels_of_several_threads_do_not_nest_in_each_other(build, read):
    built = build().step(1, 0, 100).label("a", 0, 50).label("b", 10, 50, tid=9)
    _, one, two = read(built).timeline.lanes
    assert (one.title, two.title) == ("labels, thread 100", "labels, thread 9")
    assert [span.depth for lane in (one, two) for span in lane.spans] == [0, 0]


@pytest.mark.parametrize("kind", ["gpu_memcpy", "gpu_memset", "kernel"])
def test_kinds_of_device_work(build, read, kind):
    built = build().step(1, 0, 100).add(kind, "work", 5, 10, pid=0, tid=7)
    word = {"gpu_memcpy": "copy", "gpu_memset": "memset", "kernel": "kernel"}[kind]
    assert read(built).timeline.lanes[1].spans[0].kind == word
