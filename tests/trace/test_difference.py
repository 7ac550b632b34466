"""Two traces of the same thing: means over matched steps, and nothing about what one of them did not observe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from stepprof_lab import trace
from stepprof_lab.construct import Construct
from stepprof_lab.trace.difference import NO_VERDICT, Difference, Pair
from stepprof_lab.trace.model import Context


def loop(vendor: str = "cuda", *, steps: int = 2, read: float = 10.0, copies: int = 1, **options: Any) -> Construct:
    """Reads for ``read`` ms, copies, launches 3 ms of work and waits for it."""
    t = Construct(vendor, **options)
    for _ in range(steps):
        with t.step():
            with t.label("read_batch"):
                t.cpu(read)
            with t.label("train"):
                if vendor == "cpu":
                    t.cpu(3, "aten::mm", shapes=[[2, 3], [3, 4]])
                    continue
                for _ in range(copies):
                    with t.operator("aten::copy_"):
                        t.copy(device=0.5, host=0.25, delay=0.25)
                with t.operator("aten::mm", shapes=[[2, 3], [3, 4]]):
                    t.launch("gemm", device=3, host=0.5, delay=0.5)
                t.wait(host=0.25)
    return t


@pytest.fixture
def compare(tmp_path: Path) -> Any:
    def compared(first: Construct, second: Construct, **options: Any) -> Difference:
        paths = [t.save(tmp_path / name) for t, name in ((first, "a.json"), (second, "b.json.gz"))]
        found = trace.compare((paths[0], Context()), (paths[1], Context()), **options)
        for path in paths:
            path.unlink()
        return found

    return compared


def numbers(pair: Any) -> tuple[Any, Any, Any]:
    return pair.first, pair.second, pair.change


def named(pairs: Any) -> dict[str, Any]:
    return {pair.name: pair for pair in pairs}


def test_a_step_of_each_at_the_same_position(compare: Any) -> None:
    found = compare(loop(), loop(read=4))
    assert found.steps_compared == 2
    # read + (0.25 + 0.25 + 0.5) for the copy + (0.5 + 0.5 + 3) for the launch and the wait
    assert [numbers(step.cpu_us) for step in found.steps] == [(15000, 9000, -6000)] * 2
    assert [step.names for step in found.steps] == [
        ("ProfilerStep#2", "ProfilerStep#2"),
        ("ProfilerStep#3", "ProfilerStep#3"),
    ]
    assert numbers(found.steps[0].gpu_busy_in_window_us) == (3500, 3500, 0)


def test_counts_are_means_a_step(compare: Any) -> None:
    counts = compare(loop(), loop(copies=3)).counts
    assert numbers(counts.operator_calls) == (2, 4, 2)
    assert numbers(counts.runtime_calls) == (3, 5, 2)
    assert numbers(counts.launch_calls) == (2, 4, 2)
    assert numbers(counts.wait_calls) == (1, 1, 0)
    assert numbers(counts.gpu_kernels_launched) == (1, 1, 0)
    assert numbers(counts.gpu_copies_launched) == (1, 3, 2)
    assert numbers(counts.gpu_memsets_launched) == (0, 0, 0)


def test_gaps_of_the_device_and_of_the_host(compare: Any) -> None:
    gaps = compare(loop(), loop(read=4)).gaps
    # Before the copy (read, its call, its delay), and between the copy's end and the kernel (call and delay).
    assert numbers(gaps.gpu_gaps) == (2, 2, 0)
    assert numbers(gaps.gpu_idle_us) == (10500 + 1000, 4500 + 1000, -6000)
    assert numbers(gaps.gpu_longest_gap_us) == (10500, 4500, -6000)
    # Reading is in no operator.
    assert numbers(gaps.host_outside_operators_us) == (10000, 4000, -6000)


def test_labels_with_the_devices_idle_time_in_them(compare: Any) -> None:
    labels = named(compare(loop(), loop(read=4)).labels)
    assert list(labels) == ["read_batch", "train"]
    read = labels["read_batch"]
    assert (read.only_in, numbers(read.calls), numbers(read.cpu_us)) == (None, (1, 1, 0), (10000, 4000, -6000))
    assert numbers(read.gpu_launched_us) == (0, 0, 0)
    assert numbers(read.gpu_idle_us) == (10000, 4000, -6000)
    assert numbers(labels["train"].gpu_launched_us) == (3500, 3500, 0)
    assert numbers(labels["train"].gpu_idle_us) == (500 + 1000, 500 + 1000, 0)


def test_operators_by_the_largest_change(compare: Any) -> None:
    found = compare(loop(), loop(copies=3)).operators
    assert [pair.name for pair in found] == ["aten::copy_", "aten::mm"]
    copy = found[0]
    assert numbers(copy.calls) == (1, 3, 2)
    assert numbers(copy.cpu_sum_us) == (1000, 3000, 2000)
    assert numbers(copy.cpu_self_us) == (0, 0, 0)  # all of it is inside the runtime's call
    assert numbers(copy.gpu_sum_us) == (500, 1500, 1000)
    assert numbers(found[1].cpu_sum_us) == (500, 500, 0)


def test_means_are_over_matched_steps_only(compare: Any) -> None:
    longer = loop()
    with longer.step():
        with longer.label("evaluate"):
            longer.cpu(500, "aten::slow")
    found = compare(longer, loop())
    assert (found.steps_compared, found.first.steps, found.second.steps) == (2, 3, 2)
    assert set(named(found.labels)) == {"read_batch", "train"}
    assert set(named(found.operators)) == {"aten::copy_", "aten::mm"}
    assert numbers(found.gaps.gpu_idle_us)[2] == 0
    assert any("the first trace has 3 steps" in note and "position 3" in note for note in found.notes)
    assert any("the second trace has 3 steps" in note for note in compare(loop(), loop(steps=3)).notes)


def test_what_only_one_has_is_missing_on_the_other_side_and_no_zero(compare: Any) -> None:
    second = loop()
    with second.step(), second.label("log"):
        second.cpu(1, "aten::item")
    first = loop(steps=3)
    found = compare(first, second)
    label, operator = named(found.labels)["log"], named(found.operators)["aten::item"]
    assert label.only_in == operator.only_in == "second"
    assert (label.calls.first, label.cpu_us.first, operator.cpu_self_us.first) == (UNSET, UNSET, UNSET)
    assert operator.calls.second == pytest.approx(1 / 3)
    assert operator.calls.change is UNSET
    back = compare(second, first)
    assert named(back.labels)["log"].only_in == "first"


def test_the_same_trace_differs_in_nothing(compare: Any) -> None:
    found = compare(loop(), loop())
    changes = [value for key, value in walk(msgspec.to_builtins(found)) if key == "change"]
    assert len(changes) > 20
    assert set(changes) == {0}
    assert found.unlike == []


def walk(value: Any) -> Any:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield key, item
        if isinstance(item, (dict, list)):
            yield from walk(item)


@pytest.mark.parametrize("swap", [False, True])
def test_a_device_that_one_side_did_not_observe_is_said_and_not_compared(compare: Any, swap: bool) -> None:
    sides = [loop(), loop("cpu")]
    found = compare(*(reversed(sides) if swap else sides))
    with_device, without = ("second", "first") if swap else ("first", "second")
    (said,) = [text for text in found.unlike if "device work" in text]
    assert f"observed in the {with_device} trace only" in said
    assert f"in the {without} one it was not observed (no device event" in said
    held = json.loads(msgspec.json.encode(found))
    assert not [key for key, _ in walk(held) if str(key).startswith("gpu_")]
    assert not {"runtime_calls", "launch_calls", "wait_calls"} & set(held["counts"])
    assert held[with_device]["devices"] == ["device 0 (constructed GPU)"]
    assert held[without]["devices"] is None
    # What the host did is compared all the same.
    assert numbers(named(found.labels)["read_batch"].cpu_us) == (10000, 10000, 0)


def test_two_traces_of_the_host_alone_are_compared(compare: Any) -> None:
    found = compare(loop("cpu"), loop("cpu", read=4))
    assert found.unlike == []
    assert numbers(found.gaps.host_outside_operators_us) == (10000, 4000, -6000)
    assert found.gaps.gpu_idle_us is UNSET
    assert found.first.device_not_observed


def test_other_devices_origins_and_shapes_are_said(compare: Any) -> None:
    unlike = compare(loop(), loop(gpu_name="another GPU")).unlike
    assert unlike == ["other devices: device 0 (constructed GPU) and device 0 (another GPU)"]
    unlike = compare(loop(), loop(origin="simulated")).unlike
    assert unlike == ["the first trace is constructed, the second is simulated"]
    other = Construct("cpu")
    with other.step():
        other.cpu(1, "aten::mm", shapes=[[20, 30], [30, 40]])
    (said,) = compare(loop("cpu"), other).unlike
    assert said.startswith("other input shapes, of 'aten::mm'")


def test_shapes_of_calls_that_came_or_went_are_not_called_other_work(compare: Any) -> None:
    more = loop("cpu", steps=1)
    with more.step():
        more.cpu(1, "aten::mm", shapes=[[9, 9], [9, 9]])
    assert compare(loop("cpu"), more).unlike == []


def test_without_steps_the_whole_records_are_compared(compare: Any) -> None:
    t = Construct("cpu")
    with t.label("train"):
        t.cpu(2, "aten::mm")
        t.cpu(1)
    found = compare(t, loop("cpu"))
    assert (found.steps_compared, found.steps) == (0, [])
    assert numbers(named(found.operators)["aten::mm"].cpu_self_us) == (2000, 6000, 4000)
    assert numbers(found.gaps.host_outside_operators_us) == (1000, 20000, 19000)
    assert any("no step is marked in the first trace" in note for note in found.notes)
    neither = compare(t, t)
    assert any("the first and the second trace" in note for note in neither.notes)


def test_it_says_that_it_is_no_verdict_and_names_the_command(compare: Any) -> None:
    found = compare(loop(), loop(read=4), unlike=["the question differs"], validate="stepprof validate S A B")
    assert found.no_verdict == NO_VERDICT
    assert "no verdict" in NO_VERDICT
    assert found.validate == "stepprof validate S A B"
    assert found.unlike[0] == "the question differs"
    text = msgspec.json.encode(found).decode().lower()
    assert not any(word in text for word in ("faster", "slower", "speed-up", "speedup"))


def test_findings_and_notes_of_both_are_kept(compare: Any) -> None:
    found = compare(loop(), loop(read=0.25))
    assert "input-wait" in found.first.findings
    assert "input-wait" not in found.second.findings
    assert all(note.startswith(("the ", "first trace: ", "second trace: ", "no step")) for note in found.notes)


REAL = [
    "cuda_v100_tbplugin_resnet50_workers0.json.gz",
    "cuda_v100_tbplugin_resnet50_workers4.json.gz",
    "rocm_mi250_minitoy_train_rocm62.json.gz",
    "cuda_a100_first_two_active_steps.json.gz",
    "cpu_only_small.json.gz",
]


@pytest.mark.parametrize("name", REAL)
def test_on_real_traces_gaps_and_busy_time_fill_the_step(traces: Path, name: str) -> None:
    path = traces / name
    found = trace.compare((path, Context()), (path, Context()))
    analysis = trace.interpret(path).analysis
    assert {value for key, value in walk(msgspec.to_builtins(found)) if key == "change"} == {0}
    assert found.steps_compared == len(analysis.steps)
    if not analysis.gpu.observed:
        assert found.gaps.gpu_idle_us is UNSET
        return
    host = sum(step.cpu_us for step in analysis.steps)
    busy = sum(step.gpu_busy_in_window_us for step in analysis.steps)
    assert found.gaps.gpu_idle_us.first * len(analysis.steps) == pytest.approx(host - busy, abs=0.01)
    launched = sum(step.gpu_events_launched for step in analysis.steps)
    counts = found.counts
    kinds = (counts.gpu_kernels_launched, counts.gpu_copies_launched, counts.gpu_memsets_launched)
    assert sum(pair.first for pair in kinds) * len(analysis.steps) == pytest.approx(launched, abs=0.01)


def test_without_steps_the_gaps_are_those_of_the_report_of_one_trace(compare: Any) -> None:
    """The window ends with the last device work: what the host does after it is no idle time of the device."""
    t = Construct("cuda")
    t.cpu(7.0)
    for _ in range(3):
        t.launch("gemm", device=2.0)
        t.cpu(5.0)
    gaps = compare(t, t).gaps
    assert numbers(gaps.gpu_gaps)[0] == 3, "before each kernel: its launch is in the window"
    spans = [event for event in json.loads(t.to_bytes())["traceEvents"] if event.get("cat") == "kernel"]
    calls = [event["ts"] for event in json.loads(t.to_bytes())["traceEvents"] if event.get("cat") == "cuda_runtime"]
    length = max(span["ts"] + span["dur"] for span in spans) - min(calls)
    assert numbers(gaps.gpu_idle_us)[0] == pytest.approx(length - 6000, abs=0.01)


def test_on_a_real_trace_without_steps_idle_and_busy_time_fill_the_record(traces: Path) -> None:
    path = traces / "rocm_mi210_gpu_only_no_cpu_op.json.gz"
    found = trace.compare((path, Context()), (path, Context()))
    gpu = trace.interpret(path).analysis.gpu
    assert found.steps_compared == 0
    assert found.gaps.gpu_idle_us.first + gpu.busy_us >= gpu.span_us - 0.01
    assert found.gaps.gpu_longest_gap_us.first <= found.gaps.gpu_idle_us.first


def test_a_loader_with_workers_against_one_without_shows_where_it_changed(traces: Path) -> None:
    first, second = (traces / f"cuda_v100_tbplugin_resnet50_workers{n}.json.gz" for n in (0, 4))
    found = trace.compare((first, Context()), (second, Context()))
    top = found.operators[0]
    assert "_SingleProcessDataLoaderIter" in top.name
    assert top.only_in == "first"
    assert found.gaps.gpu_idle_us.change < 0


def test_pairs_have_no_dust() -> None:
    from stepprof_lab.trace import difference

    assert difference._pair(0.1 + 0.2, 0.3) == Pair(first=0.1 + 0.2, second=0.3, change=0.0)
    assert difference._pair(1.0, None) == Pair(first=1.0)
