"""Times, links, kinds and metadata that cannot be true: set aside or counted once, with a note that says so."""

from __future__ import annotations

import gzip
import json

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret, reader

MI250 = "rocm_mi250_minitoy_train_rocm62.json.gz"
KERNEL, COPY = "kernel", "gpu_memcpy"


@pytest.fixture
def toy(traces, tmp_path):
    """Interpret the small real trace after its object was changed in place."""

    def changed(change):
        data = json.loads(gzip.decompress((traces / MI250).read_bytes()))
        change(data)
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        return interpret(path).analysis

    return changed


def kernels(data):
    return [event for event in data["traceEvents"] if event.get("cat") == KERNEL]


def said(analysis, text):
    return any(text in note for note in analysis.notes)


def found(analysis, ident):
    return [finding for finding in analysis.findings if finding.id == ident]


# ---- times ----


def test_a_kernel_of_hours_is_set_aside_and_nothing_is_said_about_idle_time(toy):
    analysis = toy(lambda data: kernels(data)[0].update(dur=5 * 3600e6))
    assert said(analysis, "set aside: 1 event of the device, more than a minute before or after all that the host")
    assert (analysis.gpu.events, analysis.regime) == (15, "undecided")
    assert max(step.gpu_tail_us for step in analysis.steps) == 0
    assert not found(analysis, "host-bound")
    assert "1 device event could not be used" in analysis.regime_reason


@pytest.mark.parametrize("hours", [1, -1])
def test_kernels_an_hour_off_are_set_aside(toy, hours):
    def change(data):
        for event in kernels(data):
            event["ts"] += hours * 3600e6

    analysis = toy(change)
    assert (analysis.gpu.events, analysis.gpu.span_us < 1e6) == (2, True)
    assert said(analysis, "set aside: 14 events of the device, more than a minute")


@pytest.mark.parametrize(("late", "events"), [(59, 16), (61, 15)])
def test_a_minute_after_the_record_is_the_limit(toy, late, events):
    def change(data):
        last = max(float(e["ts"]) + float(e["dur"]) for e in data["traceEvents"] if e.get("cat") == "cuda_runtime")
        kernels(data)[0].update(ts=last + late * 1e6, dur=0.5)

    assert toy(change).gpu.events == events


def test_a_trace_of_the_device_alone_has_no_record_of_the_host_to_be_far_from(tmp_path, build):
    built = build().kernel(1, 0, 10).kernel(2, 3600e6, 10)
    assert interpret(built.write(tmp_path / "t.json")).analysis.gpu.events == 2


def test_work_that_goes_on_for_longer_than_the_whole_record_is_said(toy):
    analysis = toy(lambda data: kernels(data)[0].update(dur=500_000))
    assert said(analysis, "device work ends 491.001 ms after all that the host recorded in 9.58")
    assert not said(toy(lambda data: None), "after all that the host recorded")


def test_durations_that_were_all_lost_are_said(toy):
    def change(data):
        for event in data["traceEvents"]:
            if "dur" in event:
                event["dur"] = 0

    analysis = toy(change)
    assert said(analysis, "no event has a duration (112 events, all of 0 us): no time can be read here")
    assert not said(analysis, "outside the marked steps")
    assert "the durations of all events are 0" in analysis.regime_reason


def test_steps_without_a_duration_are_said(toy):
    def change(data):
        for event in data["traceEvents"]:
            if event["name"] == "ProfilerStep#1" and event["cat"] == "user_annotation":
                event["dur"] = 0

    assert said(toy(change), "1 of 2 steps have a duration of 0 us, which no step has")


# ---- written more than once ----


def test_events_written_twice_count_once(toy):
    right = toy(lambda data: None)
    doubled = toy(lambda data: data.update(traceEvents=data["traceEvents"] * 2))
    assert said(doubled, "repaired: 112 events written more than once")
    assert (doubled.gpu, doubled.steps, doubled.labels) == (right.gpu, right.steps, right.labels)
    assert doubled.operators == right.operators


def test_a_step_written_again_counts_once_and_others_stay(toy):
    right = toy(lambda data: None)

    def change(data):
        step = next(event for event in data["traceEvents"] if event["name"] == "ProfilerStep#1")
        data["traceEvents"] += [dict(step) for _ in range(3)]

    again = toy(change)
    assert said(again, "repaired: 3 events written more than once")
    assert (again.steps, again.operators) == (right.steps, right.operators)


def test_host_events_that_look_alike_are_no_repetition(build, read):
    """Where time stamps are whole microseconds, a child may look like its parent."""
    built = build().step(1, 0, 100).operator("aten::to", 10, 1).operator("aten::to", 10, 1)
    analysis = read(built).analysis
    assert analysis.operators[0].calls == 2
    assert not said(analysis, "more than once")


def test_real_traces_repeat_nothing_and_miss_nothing(traces):
    for path in sorted(traces.glob("*.json*")):
        if path.name != "golden.json":
            trace = reader.read(path)
            assert (trace.missing, trace.unusable, trace.notes) == ([], 0, []), path.name


# ---- steps ----


def test_steps_that_overlap_are_said(build, read):
    analysis = read(build().step(1, 0, 100).step(2, 50, 100).step(3, 150, 10).operator("a", 1, 1)).analysis
    assert said(analysis, "1 of 3 steps begin before the steps before them have ended")
    assert not said(read(build().step(1, 0, 100).step(2, 100, 5).operator("a", 1, 1)).analysis, "have ended")


def test_work_outside_all_steps_is_said(build, read):
    built = build().step(1, 1000, 100)
    for n in range(3):
        built.operator("aten::mm", n * 10, 5).launch(n + 1, n * 10 + 1).kernel(n + 1, n * 10 + 3, 5)
    analysis = read(built).analysis
    assert said(analysis, "all 3 device events lie outside the marked steps")
    assert said(analysis, "all 6 operators and calls of the host lie outside the marked steps")
    inside = read(built.operator("aten::mm", 1010, 5).launch(9, 1011).kernel(9, 1200, 5)).analysis
    assert not said(inside, "outside the marked steps")


# ---- links ----


@pytest.mark.parametrize("number", [2**70, None, 0, "x"], ids=repr)
def test_work_that_lost_its_link_is_not_called_missing(toy, number):
    def change(data):
        for event in kernels(data):
            event["args"]["correlation"] = number

    analysis = toy(change)
    assert said(analysis, "14 of 16 device events carry no number that links them to their launch")
    assert not said(analysis, "queued before the record")
    assert not found(analysis, "gpu-partly-observed")


def test_the_malformed_file_without_links(traces):
    analysis = interpret(traces / "malformed" / "zero_correlation_comm.json").analysis
    assert said(analysis, "14 of 16 device events carry no number that links them to their launch")
    assert not found(analysis, "gpu-partly-observed")


def test_lost_links_do_not_hide_lost_work(build, read):
    built = build().step(1, 0, 1000)
    for n in range(20):
        built.launch(n + 1, n * 50, 5)
        if n >= 8:
            built.kernel(n + 1 if n >= 12 else 0, n * 50 + 10, 20)
    (finding,) = found(read(built).analysis, "gpu-partly-observed")
    assert "12 of 20 calls" in finding.observation
    assert "linked to them in the trace" in finding.observation
    assert "4 device events in it lost the link to a launch" in finding.observation


@pytest.mark.parametrize(("name", "count"), [("negative_kernel_dur.json", 3), ("ts_zero_kernels.json", 2)])
def test_work_that_was_set_aside_is_not_said_to_have_left_no_event(traces, name, count):
    analysis = interpret(traces / "malformed" / name).analysis
    (finding,) = found(analysis, "gpu-partly-observed")
    assert f"{count} of 16 calls" in finding.observation
    assert f"{count} device events of the file could not be used" in finding.observation
    assert "Copy or export it again" in finding.next_check
    assert "buffer" not in finding.hypothesis


def test_a_hole_in_the_file_is_the_reason_for_work_without_a_launch(traces, tmp_path):
    text = json.dumps(json.loads(gzip.decompress((traces / MI250).read_bytes()))).encode()
    path = tmp_path / "hole.json"
    path.write_bytes(text[:20_000] + text[30_000:])
    analysis = interpret(path).analysis
    assert said(analysis, "2 of 16 device events have no launch in the trace (which may be in what could not be read)")
    assert not said(analysis, "queued before the record")
    assert "1 event that may be device work cannot be read" in analysis.regime_reason


def test_a_launch_that_is_gone_from_the_middle_is_not_called_earlier(build, read):
    built = build().step(1, 0, 1000)
    for n in range(5):
        if n != 2:
            built.launch(n + 10, n * 50, 5)
        built.kernel(n + 10, n * 50 + 10, 20)
    built.kernel(3, 0, 5)
    analysis = read(built).analysis
    assert said(analysis, "1 of 6 device events have no launch in the trace (usual for work that was queued before")
    assert said(analysis, "1 of 6 device events have no launch in the trace, although earlier launches are in it")


# ---- what is missing ----


@pytest.mark.parametrize(
    ("event", "missing"),
    [
        ({"cat": "cpu_op", "pid": [1]}, []),
        ({"cat": "kernel", "pid": [1]}, ["1 event that may be device work cannot be read"]),
        ({"cat": "cuda_runtime", "pid": [1]}, ["1 event that may be device work cannot be read"]),
        ({"cat": "kernel", "ts": -1e300}, ["1 device event could not be used"]),
        ({"cat": "Kernels"}, ["1 event of kinds that are not known here may be device work"]),
        ({"cat": "my_own"}, []),
    ],
    ids=["host", "kernel", "call", "time", "kind", "other kind"],
)
def test_why_device_work_may_be_missing(tmp_path, event, missing):
    good = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [good, good | {"ts": 20, **event}, good | {"ts": 30}]}))
    assert reader.read(path).missing == missing


def test_a_cut_file_is_said_to_be_cut(traces):
    trace = reader.read(traces / "malformed" / "truncated_mid_event.json")
    assert trace.missing == ["the file is cut short"]


# ---- kinds and metadata ----


def test_a_device_that_is_not_known_is_no_failed_collection(build, read):
    built = build(deviceProperties=[{"id": 0, "name": "x"}]).step(1, 0, 100).operator("aten::mm", 5, 20)
    for n in range(12):
        built.add("mtia_ccp_events", "work", 20 + n, 1, pid=0, tid=0)
    analysis = read(built).analysis
    (finding,) = found(analysis, "gpu-not-observed")
    assert finding.observation.startswith(
        "12 events of kinds that are not known here ('mtia_ccp_events') may be device"
    )
    assert "on the CPU" not in finding.hypothesis
    assert "may be device work" in analysis.gpu.reason


def test_begin_and_end_apart_are_named(traces, tmp_path):
    data = json.loads(gzip.decompress((traces / MI250).read_bytes()))
    whole = [event for event in data["traceEvents"] if event["ph"] == "X"]
    apart = [dict(event, ph=ph) for event in whole for ph in "BE"]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": apart}))
    with pytest.raises(StepprofError, match=r"whose begin and end are written apart \(ph B and E\)") as refused:
        interpret(path)
    assert "none of them an operator" not in str(refused.value)
    path.write_text(json.dumps({"traceEvents": [*whole, *apart[:2]]}))
    assert said(interpret(path).analysis, "set aside: 2 events whose begin and end are written apart")


@pytest.mark.parametrize(
    ("around", "note"),
    [
        ({"distributedInfo": {"rank": "zero", "world_size": -5}}, "distributedInfo"),
        ({"distributedInfo": [0, 1]}, "distributedInfo"),
        ({"deviceProperties": "no"}, "deviceProperties"),
        ({"deviceProperties": [7]}, "deviceProperties"),
        ({"baseTimeNanoseconds": "x"}, "baseTimeNanoseconds"),
        ({"baseTimeNanoseconds": True}, "baseTimeNanoseconds"),
    ],
    ids=repr,
)
def test_metadata_that_cannot_be_used_is_said(build, read, around, note):
    analysis = read(build(**around).step(1, 0, 100).operator("aten::mm", 5, 20)).analysis
    assert said(analysis, f"not used, because it cannot be read: {note}")


def test_sound_metadata_has_no_note(tmp_path):
    t = Construct("cuda", rank=1, world_size=2)
    with t.step():
        t.launch("k", device=1.0)
    assert reader.read(t.save(tmp_path / "t.json")).notes == []


def test_labels_of_2021_are_said_to_be_operators(traces):
    analysis = interpret(traces / "cuda_v100_tbplugin_resnet50_workers0.json.gz").analysis
    assert analysis.labels == {}
    assert said(analysis, "the format of 2021, which writes labels as operators")
    assert not said(interpret(traces / MI250).analysis, "2021")
