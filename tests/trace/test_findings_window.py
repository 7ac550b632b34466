"""Windows that do not stand for the loop, dominant operators, and communication that runs alone."""

from __future__ import annotations

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.trace import interpret


def ids(analysis):
    return {finding.id for finding in analysis.findings}


def only(analysis, ident):
    (finding,) = [finding for finding in analysis.findings if finding.id == ident]
    return finding


# ---- unsteady-window ----


def steps(times, vendor="cpu"):
    t = Construct(vendor)
    for ms in times:
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.2)
            with t.label("train"):
                for i in range(4):
                    t.cpu((ms - 0.2) / 4, f"aten::op{i}")
    return t


def test_steps_that_differ_are_found(analyse):
    finding = only(analyse(steps([10.0, 10.0, 30.0])), "unsteady-window")
    assert finding.share_of_step == pytest.approx(20 / 50)
    assert finding.evidence["ratio"] == pytest.approx(3.0)
    assert finding.evidence["labels"] == ["train"]
    assert "10.0, 10.0, 30.0 ms" in finding.observation
    assert "'train' differs the most (29.8 against 9.8 ms" in finding.observation


@pytest.mark.parametrize("times", [[10.0, 14.0], [1.0, 1.9], [30.0]], ids=["alike", "short steps", "one step"])
def test_near_misses_of_an_unsteady_window(analyse, times):
    assert "unsteady-window" not in ids(analyse(steps(times)))


def test_many_steps_are_not_all_listed(analyse):
    assert ", ... ms" in only(analyse(steps([10.0] * 9 + [30.0])), "unsteady-window").observation


@pytest.mark.parametrize(("part", "named"), [(0.4, False), (0.6, True)])
def test_a_label_is_named_where_it_has_most_of_the_difference(analyse, part, named):
    t = Construct("cpu")
    for more in (0.0, 20.0):
        with t.step():
            with t.label("changed"):
                t.cpu(1 + more * part, "aten::x")
            t.cpu(10 + more * (1 - part), "aten::y")
    finding = only(analyse(t), "unsteady-window")
    assert ("'changed' differs the most" in finding.observation) is named
    assert finding.evidence["labels"] == (["changed"] if named else [])


def test_a_step_that_holds_nothing_is_said_to_be_no_turn(traces):
    finding = only(interpret(traces / "rocm_mi250_minitoy_train_rocm62.json.gz").analysis, "unsteady-window")
    assert "took 9.288, 0.049 ms: the longest 189.27 times the shortest." in finding.observation
    assert "'ProfilerStep#2' holds no operator, no label and no call" in finding.observation
    assert "differs the most" not in finding.observation


# ---- compile-in-window ----


def compiling(name, ms, *, vendor="cpu", kind="operator"):
    t = Construct(vendor)
    for n in range(2):
        with t.step(), t.label("train"):
            if n == 0 and ms:
                if kind == "operator":
                    t.cpu(ms, name)
                elif kind == "call":
                    t.call(name, ms)
                else:
                    t.event("overhead", name, t.now, ms, pid=-1)
                    t.cpu(ms)
            for i in range(4):
                t.cpu(5.0, f"aten::op{i}")
    return t


@pytest.mark.parametrize(
    ("name", "vendor", "kind"),
    [
        ("_compile.compile_inner (dynamo_timed)", "cpu", "operator"),
        ("cuLibraryLoadData", "cuda", "call"),
        ("hipModuleLoadData", "rocm", "call"),
        ("Lazy Function Loading", "cuda", "overhead"),
    ],
)
def test_compilation_in_an_active_step_is_found(analyse, name, vendor, kind):
    finding = only(analyse(compiling(name, 5.0, vendor=vendor, kind=kind)), "compile-in-window")
    assert finding.share_of_step == pytest.approx(5 / 45, abs=0.001)
    assert finding.evidence["names"] == [name]
    assert [step["name"] for step in finding.evidence["steps"]] == ["ProfilerStep#2"]
    assert "do not stand for the steady loop" in finding.hypothesis


@pytest.mark.parametrize(
    ("name", "ms"),
    [("_compile.compile_inner (dynamo_timed)", 0.3), ("Torch-Compiled Region: 0/0", 5.0), ("aten::compile", 5.0)],
)
def test_near_misses_of_compilation(analyse, name, ms):
    assert "compile-in-window" not in ids(analyse(compiling(name, ms)))


def test_compilation_is_no_dominant_operator(analyse):
    found = ids(analyse(compiling("_compile.compile_inner (dynamo_timed)", 400.0)))
    assert found == {"compile-in-window", "unsteady-window"}


# ---- dominant-operator ----


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_an_operator_with_most_of_the_device_is_found(analyse, vendor):
    t = Construct(vendor)
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(4):
                with t.operator("aten::linear"):
                    with t.operator("aten::mm", shapes=[[4096, 4096], [4096, 4096]]):
                        t.launch("gemm", device=3.0)
                    t.launch(f"bias{i}", device=0.2)
                t.launch(f"other{i}", device=1.0)
            t.wait()
    finding = only(analyse(t), "dominant-operator")
    # aten::linear wraps more, but mm has it of its own.
    assert finding.evidence["operators"] == ["aten::mm"]
    assert finding.share_of_step == pytest.approx(3 / 4.2, abs=0.01)
    assert finding.evidence["shapes"] == ["[[4096, 4096], [4096, 4096]]"]
    assert {"cuda": "ncu", "rocm": "rocprof-compute"}[vendor] in finding.next_check
    assert "does not show that it takes longer than it needs" in finding.hypothesis


def test_an_operator_with_most_of_the_host_is_found_without_a_device(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step(), t.label("train"):
            with t.operator("aten::conv2d"):
                t.cpu(6.0, "aten::mkldnn_convolution")
            t.cpu(2.0, "aten::relu")
    finding = only(analyse(t), "dominant-operator")
    assert finding.evidence["operators"] == ["aten::mkldnn_convolution"]
    assert finding.share_of_step == pytest.approx(0.75)
    assert not any(key.startswith("gpu_") for key in finding.evidence)
    assert "--shapes" in finding.next_check


def test_a_wrapper_is_not_dominant(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step(), t.label("train"), t.operator("aten::everything"):
            for i in range(4):
                t.cpu(2.0, f"aten::op{i}")
    assert analyse(t).findings == []


def test_half_is_the_limit(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step(), t.label("train"):
            t.cpu(4.8, "aten::mm")
            t.cpu(2.6, "aten::relu")
            t.cpu(2.6, "aten::add")
    assert analyse(t).findings == []


def test_an_operator_that_reads_is_the_inputs(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(8.0, "aten::stack")
            t.cpu(2.0, "aten::mm")
    assert ids(analyse(t)) == {"input-wait"}


def test_an_operator_of_the_host_under_a_busy_device_is_not_dominant(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(10):
                t.launch(f"kernel{i}", device=1.0)
            t.cpu(8.0, "aten::slow_on_the_host")
            t.wait()
    assert analyse(t).findings == []


def test_a_compiled_region_is_told_by_its_kernels(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"), t.operator("Torch-Compiled Region: 0/0"):
            t.launch("triton_red_fused_0", device=6.0)
            t.launch("triton_poi_fused_1", device=2.0)
            t.wait()
    assert only(analyse(t), "dominant-operator").evidence["operators"] == ["triton_red_fused_0"]


# ---- exposed-communication ----


def ranks(vendor="cuda", *, ms=2.0, beside=False, **more):
    t = Construct(vendor, rank=0, world_size=2)
    for _ in range(2):
        with t.step(), t.label("train"):
            if beside:
                t.collective(ms=ms, stream=30, **more)
            for i in range(8):
                t.launch(f"kernel{i}", device=1.0)
            t.wait()
            if not beside:
                t.collective(ms=ms, stream=30, **more)
                t.wait()
    return t


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_communication_that_runs_alone_is_found(analyse, vendor):
    analysis = analyse(ranks(vendor))
    finding = only(analysis, "exposed-communication")
    assert finding.share_of_step == pytest.approx(0.2, abs=0.01)
    assert finding.evidence["collectives"] == 2
    assert finding.evidence["known_by_arguments"] == 2
    assert finding.evidence["known_by_name"] == 0
    assert "does not tell a slow network from a slow peer" in finding.hypothesis


@pytest.mark.parametrize("change", [{"beside": True}, {"ms": 0.6}], ids=["overlapped", "short"])
def test_near_misses_of_exposed_communication(analyse, change):
    assert analyse(ranks(**change)).findings == []


def test_communication_is_told_by_name_where_no_argument_says_so(build, read):
    built = build().step(1, 0, 1000).launch(1, 1).launch(2, 2)
    built.kernel(1, 10, 400, name="ncclDevKernel_AllGather_RING_LL").kernel(2, 410, 400, name="gemm")
    finding = only(read(built).analysis, "exposed-communication")
    assert (finding.evidence["known_by_arguments"], finding.evidence["known_by_name"]) == (0, 1)


@pytest.mark.parametrize(("ms", "regime"), [(12.0, "communication"), (4.0, "undecided"), (0.5, "device")])
def test_the_regime_needs_more_where_input_is_not_acquitted(analyse, ms, regime):
    assert analyse(ranks(ms=ms)).regime == regime


# ---- gpu-partly-observed ----


@pytest.mark.parametrize(("lost", "found"), [(0, False), (1, False), (2, True), (60, True)])
def test_launches_without_device_work_are_reported(build, read, lost, found):
    built = build()
    for n in (0, 1):
        built.step(n, n * 20_000, 20_000)
    for i in range(200):
        built.launch(i + 1, i * 200, 5)
        if i >= lost:
            built.kernel(i + 1, i * 200 + 10, 190, name=f"kernel{i % 10}")
    analysis = read(built).analysis
    assert ("gpu-partly-observed" in ids(analysis)) is found
    if found:
        finding = only(analysis, "gpu-partly-observed")
        assert finding.share_of_step is None
        assert finding.evidence["launches_without_work"] == lost
        assert "need not be idle" in finding.hypothesis
        assert finding.evidence["steps"] == [{"name": "ProfilerStep#0", "launches_without_work": lost}]


@pytest.mark.parametrize(
    ("name", "correlation"), [("cudaMemsetAsync", 900), ("cudaLaunchKernel", 0), ("cudaEventRecord", 900)]
)
def test_calls_that_need_not_leave_work_behind(build, read, name, correlation):
    built = build().step(1, 0, 1000)
    for i in range(20):
        built.launch(i + 1, i * 50, 5).kernel(i + 1, i * 50 + 10, 40, name=f"kernel{i % 10}")
    for i in range(20):
        built.launch(correlation and correlation + i, i * 50 + 20, 2, name=name)
    assert "gpu-partly-observed" not in ids(read(built).analysis)


# ---- regime and what to leave ----


def test_a_busy_device_is_said_to_be_busy_with_the_next_tool(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(8):
                t.launch(f"kernel{i}", device=1.0)
            t.wait()
    analysis = analyse(t)
    assert (analysis.regime, analysis.findings) == ("device", [])
    assert "ncu" in analysis.regime_reason


def test_the_reason_of_the_regime_names_the_parts(analyse):
    reason = analyse(ranks(ms=4.0)).regime_reason
    assert "does nothing but communicate" in reason
    assert "whether the loop waits for its input is not known" in reason
    assert analyse(steps([10.0, 10.0])).regime_reason.startswith("no device event was observed")


def test_what_is_not_worth_touching_is_named(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.01)
            with t.label("transfer"):
                t.cpu(0.05)
            with t.label("train"):
                for i in range(4):
                    t.cpu(2.5, f"aten::op{i}")
    (sentence,) = analyse(t).not_worth
    assert sentence.startswith("'transfer': at the most 0.5 % of 2 active steps")


def test_a_label_that_launches_much_is_not_left(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step():
            with t.label("forward"):
                t.launch("kernel", device=8.0)
            with t.label("rest"):
                t.wait()
    assert analyse(t).not_worth == []
