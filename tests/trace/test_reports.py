"""What people reported about profiler traces and their readers, one test each, numbered as in the facts' list.

The kind of thing is tested, not the one file in which it was seen: each has a trace constructed for it or a real one
damaged for it, in several forms where there are several.
"""

from __future__ import annotations

import gzip
import json
import re

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret, reader, source

DEVICE_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def training(vendor="cuda", steps=2, **options):
    """A healthy loop: reading, copying, a forward and a backward on another thread, an update."""
    t = Construct(vendor, **options)
    for _ in range(steps):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.3)
            with t.label("transfer"):
                t.copy("HtoD", device=0.1)
            with t.label("train"):
                with t.operator("aten::conv2d", [[8, 3, 32, 32]]):
                    for _ in range(4):
                        t.launch("conv", device=2.0)
                with t.thread("backward"), t.operator("ConvolutionBackward0"):
                    for _ in range(4):
                        t.launch("conv_backward", device=2.0)
                t.wait()
    return t


def put(folder, trace, name="t.json"):
    path = folder / name
    path.write_bytes(trace if isinstance(trace, bytes) else trace.to_bytes())
    return path


def without(trace, keep):
    """The text of a trace without the events that `keep` refuses."""
    whole = json.loads(trace.to_bytes())
    whole["traceEvents"] = [event for event in whole["traceEvents"] if keep(event)]
    return json.dumps(whole).encode()


def changed(trace, change):
    """The text of a trace with every event changed."""
    whole = json.loads(trace.to_bytes())
    for event in whole["traceEvents"]:
        change(event)
    return json.dumps(whole).encode()


def analysis(folder, trace):
    return interpret(put(folder, trace)).analysis


def found(said):
    return [finding.id for finding in said.findings]


def about(said, words):
    return any(re.search(words, note) for note in said.notes)


def has_gpu_number(said):
    import msgspec

    return '"gpu_' in msgspec.json.encode(said).decode()


# ---- A. GPU events missing or partial ----


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
@pytest.mark.parametrize("gzipped", [False, True])
def test_1_all_device_records_lost_is_a_failed_collection_never_an_idle_gpu(tmp_path, vendor, gzipped):
    data = without(training(vendor), lambda event: event.get("cat") not in DEVICE_WORK)
    said = analysis(tmp_path, gzip.compress(data) if gzipped else data)
    assert not said.gpu.observed
    assert re.search(r"made \d+ calls that queue device work.*collection failed on the device side", said.gpu.reason)
    assert "gpu-not-observed" in found(said)
    assert not has_gpu_number(said)
    assert said.regime != "device"
    assert "0.0 %" not in said.gpu.reason


@pytest.mark.parametrize(
    ("call", "category"),
    [
        ("cudaGraphLaunch", "cuda_runtime"),
        ("cudaLaunchKernelExC", "cuda_runtime"),
        ("cuLaunchKernelEx", "cuda_driver"),
        ("hipExtModuleLaunchKernel", "cuda_runtime"),
        ("urEnqueueKernelLaunch", "xpu_runtime"),
    ],
)
def test_1_5_it_is_known_by_any_launch_graphs_too(tmp_path, build, read, call, category):
    built = build().step(1, 0, 100).add(category, call, 10, 5, args={"correlation": 3})
    said = read(built).analysis
    assert not said.gpu.observed
    assert "made 1 call that queue device work" in said.gpu.reason
    assert not has_gpu_number(said)


@pytest.mark.parametrize("lost", [1, 3])
def test_2_7_33_lost_records_are_counted_and_the_steps_named(tmp_path, lost):
    """Records lost at the start of a session, by a faulty library, or before the trace begins."""
    seen = []

    def keep(event):
        if event.get("cat") == "kernel":
            seen.append(event)
            return len(seen) > lost
        return True

    said = analysis(tmp_path, without(training(), keep))
    (finding,) = [finding for finding in said.findings if finding.id == "gpu-partly-observed"]
    assert finding.evidence["launches_without_work"] == lost
    assert finding.evidence["steps"] == [{"name": "ProfilerStep#2", "launches_without_work": lost}]
    assert finding.share_of_step is None
    assert f"{lost} of 18 calls" in finding.observation


def test_33_a_step_whose_every_kernel_is_missing_shows_no_idle_gpu(tmp_path):
    t = training()
    second = next(event for event in t.events if event.name == "ProfilerStep#3")
    late = second.start / 1000
    data = without(t, lambda event: event.get("cat") not in DEVICE_WORK or event["ts"] < late)
    said = analysis(tmp_path, data)
    (finding,) = [finding for finding in said.findings if finding.id == "gpu-partly-observed"]
    assert finding.evidence["steps"] == [{"name": "ProfilerStep#3", "launches_without_work": 9}]
    assert "Do not read idle time from this trace" in finding.next_check


@pytest.mark.parametrize("listed", [False, True])
def test_3_4_a_trace_of_the_cpu_alone_says_why_and_names_likely_causes(tmp_path, build, read, listed):
    around = {"deviceProperties": [{"id": 0, "name": "GPU"}]} if listed else {}
    said = read(build(**around).step(1, 0, 100).operator("aten::mm", 5, 50)).analysis
    assert not said.gpu.observed
    assert "a GPU" in said.gpu.reason if listed else "CPU alone" in said.gpu.reason
    asked = read(build(**around).step(1, 0, 100).operator("aten::mm", 5, 50), gpu_requested=True).analysis
    for cause in ("permission", "another profiler attached (nsys, DCGM)", "library that lost its records"):
        assert cause in asked.gpu.reason
    assert "gpu-not-observed" in found(asked)
    assert not has_gpu_number(asked)


def test_6_a_trace_with_device_work_alone_is_read(tmp_path, traces):
    for path in (
        put(tmp_path, without(training(), lambda event: event.get("cat") in DEVICE_WORK)),
        traces / "rocm_mi210_gpu_only_no_cpu_op.json.gz",
    ):
        said = interpret(path).analysis
        assert said.gpu.observed
        assert said.gpu.events > 0
        assert said.operators == []
        assert about(said, "no step is marked")


def test_6_a_trace_that_is_still_being_written_is_read_up_to_there(tmp_path):
    data = training(steps=4).to_bytes()
    said = analysis(tmp_path, data[: len(data) // 2])
    assert about(said, "cut short inside event")
    assert 0 < len(said.steps) <= 4


@pytest.mark.parametrize(
    ("version", "fault"), [(70253211, True), (70151831, False), (60443483, False), ("x", False), (None, False)]
)
def test_7_the_collector_and_its_version_are_said_where_work_is_missing(tmp_path, version, fault):
    whole = json.loads(training("rocm", roctracer_version=4.1, hip_runtime_version=version).to_bytes())
    for lost in (1, 10**6):
        gone = [event for event in whole["traceEvents"] if event.get("cat") == "kernel"][:lost]
        if lost > 1:
            gone = [event for event in whole["traceEvents"] if event.get("cat") in DEVICE_WORK]
        some = {**whole, "traceEvents": [event for event in whole["traceEvents"] if event not in gone]}
        said = analysis(tmp_path, json.dumps(some).encode())
        text = said.gpu.reason if lost > 1 else said.findings[-1].hypothesis
        assert "collected with roctracer 4.1" in text
        assert ("7.2.1 is known to lose kernels" in text) is fault
    assert "HIP 7.2.53211" in text or version != 70253211


# ---- B. Steps, schedule, labels ----


def test_9_without_steps_the_whole_record_is_used_and_said(tmp_path):
    data = without(training(), lambda event: not str(event.get("name")).startswith("ProfilerStep#"))
    said = analysis(tmp_path, data)
    assert said.steps == []
    assert about(said, "no step is marked.*profile with a schedule and call step")
    assert said.gpu.events == 18
    assert said.labels["train"].calls == 2
    assert interpret(put(tmp_path, data)).timeline.duration_us > 0


def test_10_one_step_alone_is_one_step(tmp_path):
    said = analysis(tmp_path, training(steps=1, first_step=0))
    assert [step.name for step in said.steps] == ["ProfilerStep#0"]


def test_12_work_launched_by_another_step_is_foreign_and_work_that_ends_later_is_a_tail(tmp_path, traces):
    t = Construct("cuda")
    with t.step():
        for _ in range(10):
            t.launch("slow", device=1.0)
    with t.step():
        t.cpu(5.0)
    first, second = analysis(tmp_path, t).steps
    assert first.gpu_launched_us == 10_000
    assert first.gpu_tail_us > 9000
    assert second.gpu_events_launched == 0
    assert second.gpu_busy_in_window_us == second.gpu_foreign_in_window_us == pytest.approx(5000)
    ddp = interpret(traces / "rocm_mi300_resnet_train_3steps_ddp.json.gz").analysis
    assert all(step.gpu_foreign_in_window_us == step.gpu_busy_in_window_us for step in ddp.steps)


def test_13_a_first_step_that_is_far_longer_is_said_to_stand_for_nothing(tmp_path):
    t = Construct("cuda")
    for ms in (200.0, 10.0):
        with t.step():
            t.cpu(ms)
            t.launch("k", device=1.0)
    said = analysis(tmp_path, t)
    assert "unsteady-window" in found(said)


def test_14_a_label_around_backward_has_what_every_thread_launched(tmp_path, traces):
    t = Construct("cuda")
    with t.step(), t.label("## backward ##"):
        t.launch("first", device=0.1)
        with t.thread("autograd"):
            for _ in range(5):
                t.launch("grad", device=2.0)
    said = analysis(tmp_path, t)
    assert said.labels["## backward ##"].gpu_launched_us == pytest.approx(10_100)
    real = interpret(traces / "cuda_a100_nccl_ns_basetime.json.gz").analysis
    # Three steps; the spans that the profiler projects onto the stream are some 0.6 ms each.
    assert real.labels["## backward ##"].gpu_launched_us == pytest.approx(116_653.714)


def test_17_the_last_step_counts(tmp_path, traces):
    said = analysis(tmp_path, training(steps=2))
    assert len(said.steps) == 2
    assert sum(step.gpu_events_launched for step in said.steps) == said.gpu.events
    real = interpret(traces / "cuda_a100_first_two_active_steps.json.gz").analysis
    assert len(real.steps) == 2
    assert real.gpu.busy_us == pytest.approx(99_200, rel=0.01)


# ---- C. Numbers ----


def test_18_labels_projected_onto_a_stream_are_never_summed_with_kernels(tmp_path):
    t = training()
    plain = without(t, lambda event: event.get("cat") != "gpu_user_annotation")
    assert b"gpu_user_annotation" in t.to_bytes()
    projected, bare = analysis(tmp_path, t), analysis(tmp_path, plain)
    assert (projected.gpu, projected.steps, projected.labels) == (bare.gpu, bare.steps, bare.labels)


def test_19_each_device_event_is_counted_once_however_many_wrap_its_launch(tmp_path):
    t = Construct("cuda")
    with t.step(), t.operator("outer"), t.operator("middle"), t.operator("inner"):
        t.launch("k", device=3.0, stream=7)
        t.launch("k", device=3.0, stream=20)
    said = analysis(tmp_path, t)
    assert said.gpu.sum_us == 6000
    assert said.gpu.busy_us < 3100  # two streams at once
    assert said.gpu.busy_us <= said.gpu.span_us
    assert {operator.gpu_sum_us for operator in said.operators} == {6000}


def test_21_kernels_shorter_than_a_microsecond_keep_their_nanoseconds(tmp_path):
    t = Construct("cuda")
    with t.step():
        for _ in range(7):
            t.launch("tiny", device=0.000_301)
    said = analysis(tmp_path, t)
    assert said.gpu.sum_us == pytest.approx(7 * 0.301, abs=1e-9)
    assert said.gpu.busy_us == said.gpu.sum_us
    assert said.steps[0].gpu_launched_us == said.gpu.sum_us


@pytest.mark.parametrize("base", [0, 7_889_238_000_000, 1_682_725_899_305_073])
def test_22_the_clock_may_be_relative_or_absolute_and_written_in_any_way(tmp_path, base):
    t = training()
    right = analysis(tmp_path, t)
    data = t.to_bytes()
    moved = re.sub(rb'"ts": ?(\d+)', lambda m: b'"ts":%d' % (int(m[1]) + base), data)
    whole = re.sub(rb'"(ts|dur)": ?([\d.]+)', rb'"\1":"\2"', moved)
    for written in (moved, whole):
        assert b'"ts":' in written
        said = analysis(tmp_path, written)
        assert (said.steps, said.labels, said.gpu) == (right.steps, right.labels, right.gpu)


def test_25_28_work_of_a_graph_is_linked_to_its_launch_and_said_to_be_of_a_graph(tmp_path, traces):
    t = Construct("cuda")
    with t.step():
        t.graph([(f"k{n}", 0.1) for n in range(50)])
    said = analysis(tmp_path, t)
    assert (said.gpu.events, said.gpu.events_unlinked, said.steps[0].gpu_events_launched) == (50, 0, 50)
    assert about(said, "launched as a graph")
    assert about(interpret(traces / "rocm_mi300_sglang_decode_hipgraph.json.gz").analysis, "launched as a graph")


def test_27_a_collective_is_known_by_its_arguments_whatever_its_kernel_is_called(tmp_path):
    said = []
    for name, args in [("deep_thing", {"Collective name": "alltoall"}), ("deep_thing", {}), ("ncclKernel_x", {})]:
        t = Construct("cuda", rank=0, world_size=2)
        for _ in range(2):
            with t.step():
                t.launch("gemm", device=2.0)
                t.launch(name, device=8.0, args=args)
                t.wait()
        said.append("exposed-communication" in found(analysis(tmp_path, t)))
    assert said == [True, False, True]


@pytest.mark.parametrize("call", ["cudaLaunchKernelExC", "cuLaunchKernel", "hipExtLaunchKernel", "launchOfTomorrow"])
def test_28_no_list_of_launch_names_decides(tmp_path, call):
    t = Construct("cuda")
    with t.step():
        t.launch("k", device=1.0, call=call)
    said = analysis(tmp_path, t)
    assert (said.gpu.events_unlinked, said.steps[0].gpu_events_launched) == (0, 1)


# ---- D. ROCm ----


@pytest.mark.parametrize("none", [0, None, "0", "", "0x0"], ids=repr)
def test_29_a_correlation_of_zero_is_no_link(tmp_path, none):
    def unlink(event):
        if event.get("cat") in {"kernel", "cuda_runtime"}:
            event["args"]["correlation"] = none

    said = analysis(tmp_path, changed(training("rocm"), unlink))
    assert (said.gpu.events, said.gpu.events_unlinked) == (18, 18)
    assert [step.gpu_events_launched for step in said.steps] == [0, 0]


def test_30_streams_and_devices_with_the_number_zero_and_hips_names_count(tmp_path):
    said = analysis(tmp_path, training("rocm"))
    assert said.gpu.vendor == "rocm"
    assert said.gpu.events == 18
    assert any(event.args.get("stream") == 0 for event in training("rocm").events)
    # On ROCm the number of a device counts the CPU sockets.
    far = analysis(tmp_path, training("rocm", first_gpu=9))
    assert far.gpu.devices == ["device 9 (constructed GPU)"]
    assert far.gpu.busy_us == said.gpu.busy_us


def test_32_neither_arrows_nor_graph_ids_are_needed(tmp_path):
    t = training()
    right = analysis(tmp_path, t)
    assert b'"ac2g"' in t.to_bytes()
    data = without(t, lambda event: event["ph"] == "X")
    for event in json.loads(data)["traceEvents"]:
        assert event["ph"] == "X"
    said = analysis(tmp_path, re.sub(rb'"External id": ?\d+', b'"External id": 0', data))
    assert (said.steps, said.gpu, said.labels) == (right.steps, right.gpu, right.labels)


# ---- E. Files ----

PLACES = ["the name of an event", "an argument", "the key of an argument", "the metadata", "a thread's name"]
DAMAGE = [
    (b"C:\\Users\\me\\train.py", "backslashes"),
    (b"a\x01\x1fb", "control characters"),
    (b"two\nlines", "control characters"),
    (b"caf\xe9 \xff\xfe", "not UTF-8"),
    (b'say "hello" now', "unescaped quotes"),
    (b'f("a")\n"b', "control characters"),
    (b"\\ud83d alone", "surrogate"),
    (b"nul\x00byte", "control characters"),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("bad", "what"), DAMAGE, ids=[what + str(n) for n, (_, what) in enumerate(DAMAGE)])
def test_34_damaged_text_is_mended_wherever_it_stands(tmp_path, place, bad, what):
    t = training(about="QQ" if place == PLACES[3] else None)
    data = t.to_bytes()
    if place == PLACES[0]:
        data = data.replace(b'"aten::conv2d"', b'"QQ"', 1)
    elif place == PLACES[1]:
        data = data.replace(b'"External id"', b'"note": "QQ", "External id"', 1)
    elif place == PLACES[2]:
        data = data.replace(b'"External id"', b'"QQ": 1, "External id"', 1)
    elif place == PLACES[4]:
        data = data.replace(b"(backward)", b"QQ", 1)
    assert data.count(b"QQ") == 1
    said = analysis(tmp_path, data.replace(b"QQ", bad))
    right = analysis(tmp_path, t)
    assert (said.steps, said.labels) == (right.steps, right.labels)
    assert (said.gpu.events, said.gpu.busy_us) == (right.gpu.events, right.gpu.busy_us)
    assert len(said.operators) == len(right.operators) + (place == PLACES[0])
    if what == "not UTF-8" and place in PLACES[1:3]:
        assert said.notes == right.notes  # nothing reads it, so nothing is mended
        return
    where = r"^repaired in the metadata: " if place == PLACES[3] else "^repaired: "
    assert about(said, where + f".*{what}")
    assert len(said.notes) > len(right.notes)


@pytest.mark.parametrize("value", ["N/A", "NaN", "-Infinity", "nan", "inf", "undefined", "None"])
def test_34_words_that_are_no_json_are_read_as_missing(tmp_path, value):
    data = training().to_bytes().replace(b'"context": 1', b'"context": ' + value.encode())
    assert value.encode() in data
    said, right = analysis(tmp_path, data), analysis(tmp_path, training())
    assert (said.steps, said.gpu) == (right.steps, right.gpu)
    assert about(said, r"words that are no JSON values.* \(18 events\)")


def test_36_a_file_that_cannot_be_held_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MAX_BYTES", 1000)
    with pytest.raises(StepprofError, match=r"capture fewer steps .*without stacks"):
        interpret(put(tmp_path, training()))
    with pytest.raises(StepprofError, match="capture fewer steps"):
        interpret(put(tmp_path, gzip.compress(training().to_bytes())))


def test_37_a_single_file_needs_no_rank(tmp_path):
    ranked, alone = training(rank=3, world_size=8), training()
    assert b"distributedInfo" not in alone.to_bytes()
    assert analysis(tmp_path, alone).steps == analysis(tmp_path, ranked).steps


KINDS = ["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_user_annotation", "python_function"]
KEYS = ["pid", "tid", "args", "name", "cat", "ph", "ts", "dur"]
ARGS = ["correlation", "device", "stream", "External id", "Input Dims", "bytes"]


@pytest.mark.parametrize("kind", [*KINDS, *KEYS, *ARGS, "deviceProperties", "schemaVersion", "baseTimeNanoseconds"])
def test_39_whatever_is_absent_is_absent_and_nothing_breaks(tmp_path, kind):
    whole = json.loads(training().to_bytes())
    whole.pop(kind, None)
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") != kind]
    for event in whole["traceEvents"]:
        event.pop(kind, None)
        if "args" in event:
            event["args"].pop(kind, None)
    path = put(tmp_path, json.dumps(whole).encode())
    if kind in {"cat", "ph", "ts", "dur"}:
        with pytest.raises(StepprofError, match=r"has \d+ events, none"):
            interpret(path)
        return
    interpretation = interpret(path)
    assert interpretation.timeline.lanes
    assert len(interpretation.analysis.steps) == (0 if kind in {"user_annotation", "name"} else 2)


def test_39_one_kind_alone_is_read(tmp_path):
    for kind in KINDS:
        data = without(training(), lambda event, kind=kind: event.get("cat") == kind)
        if json.loads(data)["traceEvents"]:
            said = analysis(tmp_path, data)
            assert said.gpu.observed is (kind in DEVICE_WORK)


# ---- other devices ----


@pytest.mark.parametrize(
    ("host", "device", "vendor"),
    [
        ("xpu_runtime", "kernel", "xpu"),
        ("mtia_runtime", "kernel", "mtia"),
        ("privateuse1_runtime", "kernel", "privateuse1"),
        ("xpu_driver", "gpu_memcpy", "xpu"),
    ],
)
def test_other_devices_with_the_usual_kinds_are_read(build, read, host, device, vendor):
    built = build().step(1, 0, 100).add(host, "enqueueKernel", 10, 5, args={"correlation": 3})
    built.add(device, "work", 20, 30, pid=0, tid=0, args={"correlation": 3, "device": 0, "stream": 0})
    said = read(built).analysis
    assert (said.gpu.vendor, said.gpu.events, said.gpu.events_unlinked) == (vendor, 1, 0)
    assert said.steps[0].gpu_launched_us == 30


@pytest.mark.parametrize("kind", ["mtia_ccp_events", "hpu_op", "xpu_new_thing", "privateuse1_kernel", "<b>x</b>"])
def test_kinds_that_are_not_known_are_left_out_with_a_word(build, read, kind):
    built = build().step(1, 0, 100).operator("aten::mm", 5, 20)
    for n in range(3):
        built.add(kind, "work", 20 + n, 1, pid=0, tid=0)
    said = read(built).analysis
    assert not said.gpu.observed
    assert about(said, f"kinds that are not known here are in no number: 3 of '{kind}'")


def test_a_trace_of_unknown_kinds_alone_is_refused_and_names_them(tmp_path, build):
    path = build().add("hpu_op", "x", 0, 1).write(tmp_path / "t.json")
    with pytest.raises(StepprofError, match=r"none of them an operator.*1 of 'hpu_op'"):
        interpret(path)


def test_the_kinds_of_real_traces_are_all_known(traces):
    for path in sorted(traces.glob("*.json*")):
        if path.name != "golden.json":
            assert not any("not known here" in note for note in reader.read(path).notes), path.name
