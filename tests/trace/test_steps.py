"""Launched, busy, foreign and tail on traces small enough to add up by hand; times in microseconds."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from stepprof_lab.trace import intervals, reader, steps


def two_steps(build):
    """Two steps of 100; the first launches work that runs into the second and beyond."""
    return (
        build()
        .step(3, 0, 100)
        .step(4, 100, 100)
        .launch(1, 10)
        .kernel(1, 20, 30)
        .launch(2, 50)
        .kernel(2, 90, 40)
        .launch(3, 110)
        .kernel(3, 150, 80)
        .launch(4, 120)
        .kernel(4, 160, 10, stream=20)
    )


def test_step_times(build, read):
    first, second = read(two_steps(build)).analysis.steps
    assert (first.name, first.cpu_us) == ("ProfilerStep#3", 100)
    assert first.gpu_events_launched == 2
    assert first.gpu_launched_us == 30 + 40
    assert first.gpu_busy_in_window_us == 30 + 10
    assert first.gpu_foreign_in_window_us == 0
    assert first.gpu_tail_us == 30  # the second kernel ends at 130
    assert second.gpu_events_launched == 2
    assert second.gpu_launched_us == 80  # a union: the copy on stream 20 runs under the kernel
    assert second.gpu_busy_in_window_us == 30 + 50
    assert second.gpu_foreign_in_window_us == 30
    assert second.gpu_tail_us == 30


def test_whole_trace(build, read):
    gpu = read(two_steps(build)).analysis.gpu
    assert (gpu.events, gpu.events_unlinked) == (4, 0)
    assert gpu.busy_us == 30 + 40 + 80
    assert gpu.sum_us == 30 + 40 + 80 + 10
    assert gpu.span_us == 230 - 20


def test_launches_of_any_thread_count_and_the_window_is_half_open(build, read):
    built = build().step(1, 0, 100).launch(1, 0, tid=555).kernel(1, 5, 1).launch(2, 100).kernel(2, 150, 1)
    (step,) = read(built).analysis.steps
    assert (step.gpu_events_launched, step.gpu_launched_us, step.gpu_tail_us) == (1, 1, 0)


def test_work_without_a_launch_is_busy_and_foreign(build, read):
    built = build().step(1, 0, 100).kernel(0, 10, 20).kernel(77, 40, 20).launch(0, 5)
    analysis = read(built).analysis
    (step,) = analysis.steps
    assert (step.gpu_events_launched, step.gpu_launched_us) == (0, 0)
    assert (step.gpu_busy_in_window_us, step.gpu_foreign_in_window_us) == (40, 40)
    assert analysis.gpu.events_unlinked == 2
    assert any("1 of 2 device events have no launch" in note for note in analysis.notes)
    assert any("1 of 2 device events carry no number" in note for note in analysis.notes)


def test_a_graph_launch_stands_for_all_its_work(build, read):
    built = build().step(1, 0, 100).launch(1, 0, name="cudaGraphLaunch").kernel(1, 5, 10).kernel(1, 20, 10)
    analysis = read(built).analysis
    assert analysis.steps[0].gpu_events_launched == 2
    assert any("launched as a graph" in note for note in analysis.notes)


def test_work_before_its_launch_is_said_to_be_impossible(build, read):
    built = build().step(1, 0, 100).launch(1, 50).kernel(1, 5, 10)
    assert any("1 device events start before their launch" in note for note in read(built).analysis.notes)


def test_labels_are_unions_of_elapsed_time(build, read):
    built = build().step(1, 0, 100).label("a", 0, 30).label("a", 10, 10).label("a", 50, 10).label("b", 60, 5)
    built.launch(1, 55).kernel(1, 70, 9).launch(2, 56, tid=9).kernel(2, 79, 1).launch(3, 62).kernel(3, 90, 1)
    labels = read(built).analysis.labels
    assert list(labels) == ["a", "b"]
    assert (labels["a"].calls, labels["a"].cpu_us, labels["a"].gpu_launched_us) == (3, 40, 10)
    assert labels["b"].gpu_launched_us == 1


def test_a_label_projected_onto_a_stream_is_no_work_and_no_second_step(build, read):
    built = build().step(1, 0, 100).add("gpu_user_annotation", "ProfilerStep#1", 5, 90, pid=0, tid=7)
    analysis = read(built).analysis
    assert len(analysis.steps) == 1
    assert not analysis.gpu.observed
    assert analysis.labels == {}


def test_without_device_events_no_device_number_is_given(build, read):
    analysis = read(build().step(1, 0, 100).label("a", 1, 2).operator("aten::mm", 1, 1)).analysis
    (step,) = analysis.steps
    given = [step.gpu_events_launched, step.gpu_launched_us, step.gpu_busy_in_window_us, step.gpu_tail_us]
    given += [step.gpu_foreign_in_window_us, analysis.labels["a"].gpu_launched_us, analysis.operators[0].gpu_sum_us]
    assert all(value is UNSET for value in given)


def test_steps_are_in_order_of_time(build, read):
    analysis = read(build().step(5, 200, 10).step(4, 100, 10).step(4, 300, 10)).analysis
    assert [step.name for step in analysis.steps] == ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#4"]
    assert any("same name" in note for note in analysis.notes)


@pytest.mark.parametrize("ns", [0, 1, 999, 1000, 1_234_567, 2**43 * 1000 - 1])
def test_microseconds_keep_their_nanoseconds(ns):
    assert f"{steps.us(ns):.3f}" == f"{ns // 1000}.{ns % 1000:03d}"


DEVICES = [{"id": 0, "name": "CPU of old"}, {"id": 1, "name": "NVIDIA H200"}]


@pytest.mark.parametrize(
    ("call", "around", "vendor", "device"),
    [
        ("cudaLaunchKernel", {"deviceProperties": DEVICES}, "cuda", "device 0 (CPU of old)"),
        ("cuLaunchKernelEx", {}, "cuda", "device 0"),
        # On ROCm the number in the events counts the CPU sockets, so a list of several names names nothing.
        ("hipLaunchKernel", {"deviceProperties": DEVICES}, "rocm", "device 0"),
        ("hipLaunchKernel", {"deviceProperties": DEVICES[1:]}, "rocm", "device 0 (NVIDIA H200)"),
        ("other", {"roctracer_version": 4.1}, "rocm", "device 0"),
        ("other", {"cupti_version": 18}, "cuda", "device 0"),
        ("other", {"deviceProperties": "x"}, "unknown", "device 0"),
        ("other", {"deviceProperties": [1, {"id": "x"}, {"id": [1], "name": 5}]}, "unknown", "device 0"),
    ],
)
def test_vendor_and_device(build, read, call, around, vendor, device):
    gpu = read(build(**around).step(1, 0, 10).launch(1, 0, name=call).kernel(1, 2, 3)).analysis.gpu
    assert (gpu.vendor, gpu.devices) == (vendor, [device])


def test_an_xpu_is_known_by_its_categories(build, read):
    built = build().add("xpu_runtime", "urEnqueueKernelLaunch", 0, 1, args={"correlation": 1}).kernel(1, 2, 3)
    gpu = read(built).analysis.gpu
    assert (gpu.vendor, gpu.events_unlinked) == ("xpu", 0)


# ---- many steps and labels ----


def crossing(build):
    """Steps and labels that hold each other's work, on several threads."""
    built = build()
    for n in range(12):
        built.step(n, n * 100, 100 if n % 3 else 140)
        built.label(f"l{n % 5}", n * 100 + 10, 60).label("all", n * 100 + 5, 90, tid=7)
        for k in range(3):
            built.launch(10 * n + k + 1, n * 100 + 20 * k).kernel(10 * n + k + 1, n * 100 + 30 * k + 15, 40 + n * k)
    return built


@pytest.mark.parametrize("at_once", [1, 4, 7])
def test_portions_change_no_number(build, read, monkeypatch, at_once):
    whole = read(crossing(build)).analysis
    monkeypatch.setattr(steps, "AT_ONCE", at_once)
    portions = read(crossing(build)).analysis
    assert (portions.steps, portions.labels) == (whole.steps, whole.labels)


@pytest.mark.parametrize("kind", ["step", "label"])
def test_the_number_of_unions_does_not_grow_with_steps_and_labels(build, tmp_path, monkeypatch, kind):
    counts = []
    real = intervals.union_by
    for many in (10, 500):
        built = build()
        for n in range(many):
            built.step(n, n * 10, 10) if kind == "step" else built.label(f"l{n}", n * 10, 10)
            built.launch(n + 1, n * 10 + 1).kernel(n + 1, n * 10 + 3, 5)
        trace = reader.read(built.write(tmp_path / f"{many}.json"))
        calls = []
        monkeypatch.setattr(intervals, "union_by", lambda *given, calls=calls: calls.append(1) or real(*given))
        work = steps.find_device_work(trace)
        steps.step_times(steps.find_steps(trace), work)
        times = steps.label_times(trace, steps.label_rows(trace), work)
        assert len(times) == (0 if kind == "step" else many)
        counts.append(len(calls))
    assert counts[0] == counts[1]
