"""A capture while the practice device is used: lanes from its own log, never a GPU number, simulated everywhere."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import msgspec
import pytest

torch = pytest.importorskip("torch")

from stepprof_lab import record, scenario, sharing  # noqa: E402
from stepprof_lab.capturing import capture, profile_workload  # noqa: E402
from stepprof_lab.practice import OperationFailed, log  # noqa: E402
from stepprof_lab.practice.lanes import FIRST_CORRELATION, Lanes, wall_minus_monotonic  # noqa: E402

WORKLOAD = """
    import torch
    from stepprof_lab import Step, devices, label
    from stepprof_lab.practice import Part, Work

    def build(torch_device):
        device = devices.choose("practice")
        work = Work(device, [Part(2), Part(3, 1), Part(3, 2)], name="gemm", first_ms=5)
        x = torch.ones(4, 4)

        def step():
            with label("train"):
                work()
                out = device.launch(torch.matmul, x, x, ms=1, name="head")
            with label("update"):
                return out.value().sum()

        return Step(step)

    def build_broken(torch_device):
        device = devices.choose("practice")
        turns = iter(range(1000))

        def step():
            device.synchronize()
            if next(turns) == 23:  # the last turn of the window, after an approach of 20 steps
                device.launch(lambda: 1 / 0, ms=1, name="broken")

        return Step(step)
"""


@pytest.fixture
def asked():
    return scenario.inline("Does the host wait?", boundary="transfer forward", unit="ms/step")


@pytest.fixture
def captured(asked, write_workload, tmp_path):
    return profile_workload(asked, str(write_workload(WORKLOAD)), device="practice", out=tmp_path / "out")


def events_of(trace: Path) -> list[dict]:
    data = trace.read_bytes()
    return json.loads(gzip.decompress(data) if trace.name.endswith(".gz") else data)["traceEvents"]


def test_the_interpreter_draws_its_lanes_and_counts_none_of_it(captured):
    interpretation, kept = record.read(captured.trace, origin="live")
    analysis = interpretation.analysis
    assert analysis.origin == "simulated"
    assert not analysis.gpu.observed
    assert "simulated on the CPU" in analysis.gpu.reason
    assert b"gpu_" not in msgspec.json.encode(analysis)
    assert kept is not None
    assert (kept.origin, kept.gpu_requested, kept.device) == (
        "simulated",
        False,
        "practice device (simulated on the CPU)",
    )
    said = next(check.detail for check in kept.checks if check.name == "device events")
    assert said == "no GPU event was observed, and none was asked for; 8 operations of the practice device, simulated"
    assert set(analysis.labels) == {"train", "update"}


def test_the_picture_has_its_streams_marked_with_the_times_of_the_model(captured):
    timeline = record.read(captured.trace)[0].timeline
    lanes = [lane for lane in timeline.lanes if lane.kind == "practice"]
    assert len(lanes) == 3
    assert all(lane.title.startswith("simulated stream ") for lane in lanes)
    assert all(lane.note.startswith("from thread ") for lane in lanes)
    spans = [span for lane in lanes for span in lane.spans]
    assert {(span.name, span.kind, span.duration_us) for span in spans} == {
        ("gemm", "simulated", 2000.0),
        ("gemm", "simulated", 3000.0),
        ("head", "simulated", 1000.0),
    }
    assert len(timeline.arrows) == 8
    assert timeline.note is not None
    assert "model" in timeline.note
    assert not any(lane.kind == "device" for lane in timeline.lanes)


def test_launches_and_waits_lie_inside_the_labels_that_made_them(captured):
    events = [event for event in events_of(captured.trace) if event["ph"] == "X"]

    def inside(inner: dict, outer: dict) -> bool:
        return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]

    for call, label, count in (("practiceLaunch", "train", 8), ("practiceResult", "update", 2)):
        regions = [event for event in events if event["name"] == label]
        calls = [event for event in events if event["name"] == call]
        assert len(calls) == count
        assert all(event["tid"] == regions[0]["tid"] for event in calls)
        assert all(any(inside(event, region) for region in regions) for event in calls)


def test_a_shared_copy_is_as_simulated_as_the_original(captured, tmp_path):
    copy = tmp_path / "copy.json.gz"
    review = sharing.review(captured.trace)
    sharing.write(review, copy)
    interpretation, _ = record.read(copy)
    assert interpretation.analysis.origin == "simulated"
    assert not interpretation.analysis.gpu.observed
    assert sum(lane.kind == "practice" for lane in interpretation.timeline.lanes) == 3


def test_what_used_it_is_simulated_whatever_device_was_asked_for(asked, write_workload, tmp_path):
    made = profile_workload(asked, str(write_workload(WORKLOAD)), device="cpu", out=tmp_path / "out")
    assert made is not None
    interpretation, kept = record.read(made.trace)
    assert kept is not None
    assert (kept.origin, interpretation.analysis.origin) == ("simulated", "simulated")


def test_a_capture_without_it_is_live_and_leaves_nothing_listening(asked, tmp_path):
    for _ in (window := capture(asked, tmp_path / "plain.json", device="cpu", begin=0)):
        torch.ones(4) + 1
    assert window.captured is not None
    assert window.captured.record.origin == "live"
    assert "practice" not in (tmp_path / "plain.json").read_text(encoding="utf-8")
    assert log._listening == []


def test_an_error_of_its_last_operation_is_told_and_nothing_is_kept(asked, write_workload, tmp_path):
    spec = f"{write_workload(WORKLOAD)}:build_broken"
    with pytest.raises(OperationFailed, match=r"'broken'.*division by zero"):
        profile_workload(asked, spec, device="practice", out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.json*"))


def test_the_command_says_simulated_in_text_in_json_and_on_the_page(stepprof, scenario_file, write_workload, tmp_path):
    loop = write_workload(WORKLOAD)
    page = tmp_path / "page.html"
    made = stepprof("profile", scenario_file, loop, "--device", "practice", "--out", "out", "--html", page, "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["record"]["origin"] == "simulated"
    assert "origin simulated" in page.read_text(encoding="utf-8")
    read = stepprof("read", "out/trace.json.gz", "--json")
    assert json.loads(read.out)["origin"] == "simulated"
    assert "simulated: the times of its device come from a model" in " ".join(
        stepprof("read", "out/trace.json.gz", "--plain").out.split()
    )


# ---- the merge itself ----


def work(start: int, end: int, called: int | None = None, stream: int = 0) -> log.Work:
    called = start if called is None else called
    return log.Work("w", stream, called, called + 5, start, end, 42)


@pytest.fixture
def lanes():
    made = Lanes()
    yield made
    made.stop()


def merged(lanes: Lanes, text: str) -> dict:
    return json.loads(lanes.merged(text.encode(), "abc"))


EMPTY = '{"stepprof_lab": {"capture": "abc", "version": "1"}, "baseTimeNanoseconds": 0, "traceEvents": []}'


def test_only_the_active_steps_are_merged_and_work_from_before_them_without_its_launch(lanes):
    lanes._recording.works += [work(100, 200), work(300, 1200), work(1500, 9000, 1400), work(2500, 2600, 2400)]
    lanes._recording.waits += [log.Wait("practiceResult", start, start + 10, 42) for start in (500, 1600, 2500)]
    lanes.begin_active(1000)
    lanes.end_active(2000)
    found = merged(lanes, EMPTY)
    assert found["stepprof_lab"] == {"capture": "abc", "origin": "simulated", "version": "1"}
    kernels = [e for e in found["traceEvents"] if e.get("cat") == "practice_kernel"]
    calls = [e for e in found["traceEvents"] if e.get("cat") == "practice_runtime"]
    assert [e["dur"] for e in kernels] == [0.9, 7.5]
    assert [(e["name"], e["args"]["correlation"] if "args" in e else None) for e in calls] == [
        ("practiceLaunch", kernels[1]["args"]["correlation"]),
        ("practiceResult", None),
    ]
    assert kernels[0]["args"]["correlation"] >= FIRST_CORRELATION


def test_a_first_call_belongs_to_the_launch_that_made_it(lanes):
    lanes._recording.works += [work(10, 20, 10), work(20, 30, 10)]
    found = merged(lanes, EMPTY)["traceEvents"]
    numbers = {e["args"]["correlation"] for e in found if e.get("cat") in {"practice_kernel", "practice_runtime"}}
    assert len(numbers) == 1
    assert sum(e.get("name") == "practiceLaunch" for e in found) == 1


def test_a_trace_that_lost_our_mark_gets_it_all_the_same_and_what_is_no_trace_stays(lanes):
    lanes._recording.works += [work(10, 20)]
    found = merged(lanes, '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "ts": 1}]}')
    assert found["stepprof_lab"] == {"origin": "simulated"}
    assert found["traceEvents"][-1] == {"ph": "X", "ts": 1}
    assert lanes.merged(b"no trace", "abc") == b"no trace"


def test_the_devices_clock_and_the_profilers_agree(tmp_path):
    """Each mark of the profiler must lie between two readings of our clock around it, but for the two clocks' error.

    A busy machine makes the bounds wider and the test weaker, never wrong.
    """
    path, marks = tmp_path / "marks.json", []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        distance = wall_minus_monotonic()
        for n in range(200):
            region = torch.profiler.record_function(f"mark {n}")
            before = time.perf_counter_ns()
            region.__enter__()
            after = time.perf_counter_ns()
            region.__exit__(None, None, None)
            marks.append((before + distance, after + distance))
    profiler.export_chrome_trace(str(path))
    text = json.loads(path.read_text(encoding="utf-8"))
    starts = {e["name"]: round(e["ts"] * 1000) + text["baseTimeNanoseconds"] for e in text["traceEvents"] if "ts" in e}
    errors_at_least = max(before - starts[f"mark {n}"] for n, (before, _) in enumerate(marks))
    errors_at_most = min(after - starts[f"mark {n}"] for n, (_, after) in enumerate(marks))
    assert errors_at_least < 50_000, "our clock is ahead"
    assert errors_at_most > -50_000, "our clock is behind"
