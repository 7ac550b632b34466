"""When the interpreter speaks of waiting, when it stays silent, and when it says that it cannot tell."""

from __future__ import annotations

import msgspec
import pytest

from stepprof_lab.trace import findings, waiting
from stepprof_lab.trace.model import FINDING_IDS, Approach

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MULTI = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def window(build, read_us, name="read_batch", *, gpu_us=0, step_us=1000):
    """Two steps that read for a while; device work starts when the reading has ended."""
    built = build()
    for n in (0, 1):
        start = n * step_us
        built.step(n + 2, start, step_us).label(name, start, read_us).operator("aten::mm", start + read_us, 5)
        if gpu_us:
            built.launch(n + 1, start + read_us, 1).kernel(n + 1, start + read_us + 1, gpu_us)
    return built


def approach(read_ms, step_ms=1.0, *, workers, steps=None, name="read_batch", **more):
    """An approach whose reading times repeat."""
    count = steps or max(20, 4 * (workers or 0))
    reads = [read_ms[i % len(read_ms)] for i in range(count)]
    labels = {name: reads} if name else {}
    times = [step_ms + read for read in reads]
    if workers:
        more = {"loader_prefetch": 2, "loader_ready": [2 * workers] * count, **more}
    return Approach(steps_ms=times, labels_ms=labels, loader_workers=workers, wanted_steps=count, **more)


def only(analysis):
    (finding,) = [finding for finding in analysis.findings if finding.id == "input-wait"]
    return finding


# ---- which label reads ----


def test_without_a_label_that_reads_nothing_is_concluded(build, read):
    analysis = read(window(build, 900, "lecture_batch_cpu")).analysis
    assert analysis.findings == []
    assert analysis.regime == "undecided"
    (note,) = [note for note in analysis.notes if "no label is known to read" in note]
    assert 'role="read"' in note


@pytest.mark.parametrize("name", ["lecture_batch_cpu", "读取一批数据", "قراءة الدفعة", "a" * 5000, "x\n'y'"])
def test_a_role_makes_any_name_a_reading_label(build, read, name):
    analysis = read(window(build, 400, name), roles={name: "read"}, approach=approach([0.4], 0.6, workers=0, name=name))
    finding = only(analysis.analysis)
    assert finding.evidence["labels"] == [name]
    assert finding.evidence["labels_known_from"] == "role"
    assert len(finding.observation) < 1000


def test_a_role_overrules_the_usual_name(build, read):
    analysis = read(window(build, 900, "read_batch"), roles={"read_batch": "other"}).analysis
    assert analysis.findings == []
    assert any("no label is known to read" in note for note in analysis.notes)


def test_the_loaders_own_range_serves_where_no_label_reads(build, read):
    finding = only(read(window(build, 400, SINGLE)).analysis)
    assert finding.evidence["labels"] == [SINGLE]
    assert finding.evidence["labels_known_from"] == "loader"
    assert finding.evidence["loader_workers"] == 0


def test_a_range_inside_the_label_is_not_counted_twice(build, read):
    built = window(build, 400)
    for n in (0, 1):
        built.label(SINGLE, n * 1000 + 10, 380)
    finding = only(read(built).analysis)
    assert finding.share_of_step == pytest.approx(0.4)
    assert finding.evidence["labels"] == ["read_batch"]


def test_the_loader_was_an_operator_in_2021(build, read):
    built = build()
    for n in (0, 1):
        built.add("Operator", f"ProfilerStep#{n}", n * 100, 100).add("Operator", SINGLE, n * 100 + 5, 50)
    assert only(read(built).analysis).share_of_step == pytest.approx(0.5)


def test_reading_ahead_in_another_thread_is_no_wait(build, read):
    built = build().step(1, 0, 1000).label("read_batch", 0, 900, tid=77)
    analysis = read(built).analysis
    assert analysis.findings == []
    assert any("not on the step's own thread" in note for note in analysis.notes)


# ---- active steps ----


def test_without_workers_the_active_steps_decide(build, read):
    known = approach([0.4], 0.6, workers=0)
    finding = only(read(window(build, 400), approach=known).analysis)
    assert finding.share_of_step == pytest.approx(0.4)
    assert finding.evidence["decided_by"] == "active steps"
    assert finding.evidence["steps"] == [
        {"name": "ProfilerStep#2", "cpu_us": 1000.0, "read_us": 400.0},
        {"name": "ProfilerStep#3", "cpu_us": 1000.0, "read_us": 400.0},
    ]
    assert "0.800 ms of the 2.000 ms of 2 active steps" in finding.observation
    assert "No device event was observed" in finding.observation
    assert "may not keep up" in finding.hypothesis
    assert "does not measure the storage" in finding.hypothesis
    assert "outside the profiler" in finding.next_check
    assert "ready in memory" in finding.next_check


def test_agreement_of_the_approach_is_said(build, read):
    agreeing = read(window(build, 400), approach=approach([0.4], 0.6, workers=0)).analysis
    assert any(
        "40.0 % of the active steps, 40.0 % of the approach: both show the wait" in note for note in agreeing.notes
    )
    differing = read(window(build, 400), approach=approach([0.01], 0.99, workers=0)).analysis
    assert any("they differ" in note for note in differing.notes)
    assert only(differing).evidence["decided_by"] == "active steps"


def test_below_the_threshold_nothing_is_found(build, read):
    just = int(waiting.INPUT_WAIT_SHARE * 1000)
    assert read(window(build, just - 1, SINGLE)).analysis.findings == []
    assert len(read(window(build, just, SINGLE)).analysis.findings) == 1


def test_reading_while_the_device_works_is_no_wait(build, read):
    # The device is busy in all of the first reading and in 100 us of the second.
    built = window(build, 400).launch(5, 0).kernel(5, 0, 1100)
    finding = only(read(built, approach=approach([0.4], 0.6, workers=0)).analysis)
    assert finding.share_of_step == pytest.approx(300 / 2000)
    assert [step["gpu_busy_during_read_us"] for step in finding.evidence["steps"]] == [400.0, 100.0]
    assert "took 0.800 ms of the 2.000 ms" in finding.observation
    assert "did nothing during 0.300 ms of it (15.0 % of the steps)" in finding.observation
    busy = window(build, 400).launch(5, 0).kernel(5, 0, 2000)
    found = read(busy, approach=approach([0.4], 0.6, workers=0)).analysis.findings
    assert "input-wait" not in {finding.id for finding in found}


def test_without_steps_a_share_of_the_record_is_given_and_none_of_a_step(build, read):
    built = build().label(SINGLE, 0, 600).operator("aten::mm", 600, 400)
    analysis = read(built).analysis
    finding = only(analysis)
    assert finding.share_of_step is None
    assert finding.evidence["share_of_record"] == pytest.approx(0.6)
    assert "the whole record (no step is marked)" in finding.observation
    assert analysis.regime == "undecided"


# ---- loaders with workers ----


def test_two_active_steps_never_acquit_a_loader_with_workers(build, read):
    for context in ({}, {"approach": approach([0.0], workers=None, name=MULTI)}):
        analysis = read(window(build, 3, MULTI), **context).analysis
        assert analysis.findings == []
        assert analysis.regime == "undecided"
        assert any("workers deliver in bursts" in note for note in analysis.notes)


def test_nor_a_loader_that_nothing_is_known_of(build, read):
    analysis = read(window(build, 3)).analysis
    assert analysis.findings == []
    assert any("whether a loader with workers stands behind it is not known" in note for note in analysis.notes)


def test_the_approach_finds_the_wait_that_the_window_hides(build, read):
    # As measured: 4 workers, waits of 50, 11, 0, 0 ms and 5 ms of compute, a window that waited 0.2 ms.
    known = approach([50.0, 11.0, 0.0, 0.0], 5.0, workers=4, loader_ready=[])
    finding = only(read(window(build, 30), approach=known).analysis)
    assert finding.evidence["approach"]["share"] == pytest.approx(15.25 / 20.25)
    # At the most: eight of the twelve batches may have been there before.
    assert finding.share_of_step == pytest.approx(1 - 5.0 / (20.25 * 12 / 4))
    assert finding.evidence["decided_by"] == "approach"
    assert finding.evidence["approach"]["steps_used"] == 12
    assert finding.evidence["approach"]["steps_skipped"] == 8
    assert "3 whole periods of 4 workers" in finding.observation


def test_the_approach_acquits_where_the_workers_are_known(build, read):
    analysis = read(window(build, 30, MULTI), approach=approach([0.001], workers=4, name=MULTI)).analysis
    assert analysis.findings == []
    assert not any("bursts" in note for note in analysis.notes)


def test_the_approach_overrules_a_window_that_waited_once(build, read):
    analysis = read(window(build, 500), approach=approach([0.001], workers=4)).analysis
    assert analysis.findings == []
    assert any("they differ" in note for note in analysis.notes)


def test_a_wait_in_the_window_is_reported_where_no_approach_decides(build, read):
    assert only(read(window(build, 500, MULTI)).analysis).evidence["decided_by"] == "active steps"


@pytest.mark.parametrize(("workers", "steps"), [(4, 11), (8, 23), (2, 5), (0, 3), (None, 4)])
def test_a_cut_approach_decides_nothing(build, read, workers, steps):
    known = approach([0.9], 0.1, workers=workers, steps=steps, cut=True, cut_reason="30 s were over")
    known = msgspec.structs.replace(known, loader_ready=[])
    analysis = read(window(build, 3), approach=known).analysis
    assert analysis.findings == []
    assert any(f"the approach has {steps} steps, too few" in note for note in analysis.notes)


def test_a_range_of_workers_contradicts_a_record_without_workers(build, read):
    analysis = read(window(build, 3, MULTI), approach=approach([0.001], workers=0, name=MULTI)).analysis
    assert any("bursts" in note for note in analysis.notes)


def test_batches_in_memory_without_any_loader_are_acquitted_where_the_scenario_states_no_workers(build, read):
    analysis = read(window(build, 3), approach=approach([0.001], workers=0)).analysis
    assert analysis.findings == []
    assert not any("bursts" in note for note in analysis.notes)


def test_an_approach_that_did_not_time_the_label_says_nothing(build, read):
    analysis = read(window(build, 400), approach=approach([0.4], workers=4, name="other")).analysis
    assert any("the approach did not time 'read_batch'" in note for note in analysis.notes)
    assert only(analysis).evidence["decided_by"] == "active steps"


def test_the_devices_own_work_bounds_what_the_approach_can_call_waiting(build, read):
    # The host reads for 0.75 of each ms, but the device needs 0.6 ms a step: at most 0.4 can be waiting.
    known = approach([0.75], 0.25, workers=4)
    finding = only(read(window(build, 5, gpu_us=600), approach=known).analysis)
    assert finding.share_of_step == pytest.approx(0.4)
    assert "at most 40.0 %" in finding.observation


def test_nested_labels_that_read_cannot_exceed_the_step(build, read):
    known = Approach(
        steps_ms=[1.0] * 20, labels_ms={"a": [0.8] * 20, "b": [0.7] * 20}, loader_workers=0, wanted_steps=20
    )
    built = build().step(1, 0, 1000).label("a", 0, 800).label("b", 50, 700)
    finding = only(read(built, roles={"a": "read", "b": "read"}, approach=known).analysis)
    assert finding.share_of_step == pytest.approx(0.8)
    assert finding.evidence["approach"]["mean_read_ms"] == pytest.approx(1.0)


# ---- gpu-not-observed ----


def cpu(build, **around):
    return build(**around).step(1, 0, 1000).operator("aten::mm", 0, 400)


def test_a_capture_of_the_cpu_alone_is_no_finding(build, read):
    for asked in (None, False):
        analysis = read(cpu(build), gpu_requested=asked).analysis
        assert analysis.findings == []
        assert not analysis.gpu.observed
        assert "CPU alone" in analysis.gpu.reason
        assert analysis.regime == "undecided"


@pytest.mark.parametrize(
    ("change", "around", "asked", "says"),
    [
        (lambda b: b.launch(1, 5).launch(2, 9), {}, None, "made 2 calls that queue device work (cudaLaunchKernel)"),
        (lambda b: b.launch(1, 5, name="hipExtModuleLaunchKernel"), {}, False, "made 1 call that queue"),
        (lambda b: b.launch(1, 5, name="hipMemcpyWithStream"), {}, None, "hipMemcpyWithStream"),
        (lambda b: b, {}, True, "Collection of GPU activity was asked for"),
        (lambda b: b, {"deviceProperties": [{"id": 0, "name": "GPU X"}]}, None, "lists 1 device (GPU X)"),
    ],
)
def test_gpu_not_observed(build, read, change, around, asked, says):
    analysis = read(change(cpu(build, **around)), gpu_requested=asked).analysis
    (finding,) = analysis.findings
    assert finding.id == "gpu-not-observed"
    assert says in finding.observation
    assert "not observed" in finding.observation
    assert "does not show an idle device" in finding.hypothesis
    assert finding.share_of_step is None
    assert analysis.gpu.reason


def test_a_listed_gpu_is_no_finding_where_none_was_asked_for(build, read):
    listed = {"deviceProperties": [{"id": 0, "name": "GPU X"}]}
    assert read(cpu(build, **listed), gpu_requested=False).analysis.findings == []


def test_calls_that_queue_nothing_are_no_launches(build, read):
    built = cpu(build).launch(1, 5, name="cudaDeviceSynchronize").launch(2, 9, name="hipGetDevicePropertiesR0600")
    assert read(built).analysis.findings == []


def test_device_labels_alone_are_said_to_be_no_work(build, read):
    built = cpu(build).add("gpu_user_annotation", "train", 5, 90, pid=0, tid=7)
    assert "labels projected onto a device" in read(built).analysis.gpu.reason


# ---- regime ----


@pytest.mark.parametrize(
    ("read_us", "gpu_us", "regime"),
    [
        (int(findings.INPUT_REGIME_SHARE * 1000), 0, "input"),
        (int(findings.INPUT_REGIME_SHARE * 1000) - 1, 0, "undecided"),  # no device observed: never "host"
        (3, 950, "device"),
        (3, 700, "undecided"),
        (3, 100, "host"),
        (500, 400, "input"),
    ],
)
def test_regime(build, read, read_us, gpu_us, regime):
    built = window(build, read_us, SINGLE, gpu_us=gpu_us)
    assert read(built).analysis.regime == regime


def test_an_idle_device_is_not_blamed_on_the_host_where_input_is_not_acquitted(build, read):
    assert read(window(build, 3, MULTI, gpu_us=100)).analysis.regime == "undecided"
    assert read(window(build, 3, "unknown label", gpu_us=100)).analysis.regime == "undecided"


def test_waiting_for_another_rank_is_not_called_a_busy_device(build, read):
    built = build().step(1, 0, 1000).label(SINGLE, 0, 1).launch(1, 1)
    built.kernel(1, 2, 990, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    analysis = read(built).analysis
    assert analysis.regime == "communication"
    assert [finding.id for finding in analysis.findings] == ["exposed-communication"]


# ---- all findings ----


def test_ids_are_those_of_the_contract_and_findings_come_largest_first(build, read):
    built = window(build, 400).launch(1, 5)
    analysis = read(built, approach=approach([0.4], 0.6, workers=0)).analysis
    assert [finding.id for finding in analysis.findings] == ["input-wait", "gpu-not-observed"]
    assert {finding.id for finding in analysis.findings} <= set(FINDING_IDS)


def test_evidence_without_a_device_has_no_device_numbers(build, read):
    analysis = read(window(build, 400).launch(1, 5), approach=approach([0.4], 0.6, workers=0)).analysis
    assert b'"gpu_' not in msgspec.json.encode(analysis)
