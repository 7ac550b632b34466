"""What the sentences around the numbers say: each was once wrong of a real trace."""

from __future__ import annotations

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.report import words as report_words
from stepprof_lab.trace import interpret
from stepprof_lab.trace.findings import words
from stepprof_lab.trace.model import Approach

CUDAGRAPH = "cuda_a100_cudagraph_negative_queue.json.gz"
ONE_KERNEL = "cuda_a100_triton_one_kernel.json.gz"
DLRM = "cuda_v100_dlrm_diff_test.json.gz"
WORKERS = "cuda_v100_tbplugin_resnet50_workers{}.json.gz"


@pytest.fixture
def real(traces):
    """The analysis of a real trace."""
    return lambda name: interpret(traces / name).analysis


def only(analysis, ident):
    (finding,) = [finding for finding in analysis.findings if finding.id == ident]
    return finding


# ---- host-sync: by time, and what was waited for ----


def test_the_few_calls_that_make_the_waiting_come_first(real):
    finding = only(real(CUDAGRAPH), "host-sync")
    assert finding.evidence["names"] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert "for 761.195 ms of the 1074.033 ms of 5 active steps (5 of them for 724.623 ms)" in finding.observation


def test_the_work_before_the_copies_that_end_the_waits_is_named(real):
    finding = only(real(CUDAGRAPH), "host-sync")
    assert finding.evidence["waited_for"][0].startswith("void at::native::reduce_kernel<512, 1, ")


def reading_values(*, gemm=0.5):
    """The device works for long, reduces the result, and copies it back: `item()` in a loop."""
    t = Construct("cuda")
    for _ in range(4):
        with t.step(), t.label("train"):
            for _ in range(19):
                t.launch("big_gemm", device=gemm)
                with t.operator("aten::item"):
                    t.launch("tiny_reduce", device=0.002)
                    t.copy("DtoH", device=0.002, bytes=4)
                t.cpu(0.4)
    return t


def test_a_loop_of_item_names_the_work_and_not_the_copy(analyse):
    finding = only(analyse(reading_values()), "host-sync")
    assert finding.evidence["worked_meanwhile"][0] == "big_gemm"
    assert finding.evidence["waited_for"] == ["tiny_reduce"]
    assert "the longest part in 'big_gemm'" in finding.observation
    assert "ended last before the waits did was 'tiny_reduce'" in finding.observation
    assert "of them for" not in finding.observation


def test_work_that_hardly_fills_a_wait_is_not_what_was_waited_for(real):
    finding = only(real("rocm_mi300_sglang_decode_hipgraph.json.gz"), "host-sync")
    assert finding.evidence["worked_meanwhile"] == finding.evidence["waited_for"] == []


def test_idle_time_around_copies_is_not_told_as_waits_where_no_wait_was_recorded(real):
    reason = real("cuda_sampled_rank0_no_devprops.json.gz").regime_reason
    assert "around copies for which the host waited (the trace has no call that only waits)" in reason
    assert "around waits" not in reason


# ---- host-bound: what follows the last work ----


def test_idle_time_after_the_last_work_is_told_as_such(real):
    analysis = real(ONE_KERNEL)
    finding = only(analysis, "host-bound")
    # The kernel ends 1.4 ms after the step began; within a millisecond of a wait the idle time is the wait's.
    assert finding.evidence["gpu_idle_after_last_work_us"] == pytest.approx(13_334_960, abs=1100)
    assert "follow the last piece of device work" in finding.observation
    assert "after its last launch" in finding.hypothesis
    assert "larger batches" not in finding.next_check
    # What ran while the device still had work to come is no evidence: a picture would mark it there.
    assert finding.names_of_spans() == []
    assert "less than 0.1 % of the time the device works" in analysis.regime_reason


def test_a_step_that_only_begins_with_device_work(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            t.launch("kernel", device=1.0)
            t.wait()
            with t.operator("aten::slow"):
                t.cpu(20.0)
    finding = only(analyse(t), "host-bound")
    # Only behind the last step nothing more comes: behind the first one the next launch does.
    assert finding.evidence["gpu_idle_after_last_work_us"] == pytest.approx(19_000, abs=100)
    assert "what came next was not launched yet or nothing more was launched" in finding.observation
    assert finding.evidence["operators"] == ["aten::slow"]


def test_a_loop_that_launches_to_its_end_says_nothing_of_an_end(analyse):
    t = Construct("cuda")
    for _ in range(3):
        with t.step(), t.label("train"):
            for i in range(10):
                t.cpu(1.0)
                t.launch(f"kernel{i}", device=0.5)
    finding = only(analyse(t), "host-bound")
    assert "because what came next was not launched yet, while" in finding.observation
    assert "follow the last" not in finding.observation
    assert "larger batches" in finding.next_check


# ---- dominant-operator: inside the window ----


def test_work_that_runs_after_the_window_is_no_time_of_it(analyse):
    # The host queues 60 ms of work in 6 ms of steps and is done; the device works on after them.
    t = Construct("cuda")
    for _ in range(3):
        with t.step(), t.operator("aten::mm"):
            t.launch("gemm", device=20.0)
            t.cpu(2.0)
    finding = only(analyse(t), "dominant-operator")
    covered = finding.evidence["gpu_launched_us"]
    assert covered < 6100
    assert finding.share_of_step == pytest.approx(covered / 6030, abs=0.01)
    assert "covers 6.0" in finding.observation


# ---- input-wait ----


@pytest.mark.parametrize(
    ("name", "read", "idle"),
    [(WORKERS.format(0), "39.6 %", "33.9 %"), ("cuda_h100_owlv2_56MB.json.gz", "51.1 %", "51.1 %")],
)
def test_reading_and_reading_with_an_idle_device_are_two_numbers(real, name, read, idle):
    analysis = real(name)
    finding = only(analysis, "input-wait")
    assert f"on the host ({read})" in finding.observation
    assert f"of it ({idle} of the steps)" in finding.observation
    assert analysis.regime_reason == f"reading the next batch with an idle device takes {idle} of the active steps"


def test_a_record_without_steps_has_no_share_of_the_steps(real):
    finding = only(real("cuda_2080ti_resnet_train_labels.json.gz"), "input-wait")
    assert "of it (41.2 % of the whole record)" in finding.observation
    assert finding.share_of_step is None
    assert finding.share_seen == pytest.approx(0.412, abs=0.001)


def test_without_a_device_the_reading_is_what_is_said(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"), t.label("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                t.cpu(6.0)
            with t.label("train"):
                t.cpu(4.0, "aten::mm")
    assert analyse(t).regime_reason == "reading the next batch takes 60.0 % of the active steps"


def reading_ms(ms, *, rest=4.0):
    t = Construct("cuda")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(ms)
            with t.label("train"):
                t.launch("kernel", device=rest)
                t.wait()
    return t


def approach(read, step):
    return Approach(steps_ms=[step] * 20, labels_ms={"read_batch": [read] * 20}, loader_workers=2, wanted_steps=20)


def test_what_the_approach_decides_is_told_of_the_approach(analyse):
    # The host's clock does not see the device: 6 of 10 ms reading, of which all may be waiting.
    reason = analyse(reading_ms(6.0), approach=approach(6.0, 10.0)).regime_reason
    assert reason == "waiting for the next batch takes at most 60.0 % of the unprofiled steps before the window"


def test_two_looks_that_differ_are_both_told(analyse):
    reason = analyse(reading_ms(0.1), approach=approach(6.0, 10.0)).regime_reason
    assert reason == (
        "reading the next batch with an idle device takes 2.4 % of the active steps, and waiting for the next batch "
        "takes at most 60.0 % of the unprofiled steps before the window: they differ"
    )


# ---- the order of findings, and their shares ----


def test_findings_of_a_record_without_steps_stand_in_the_order_of_what_was_seen(real):
    found = real("cuda_b200_eager.json.gz").findings
    assert [one.id for one in found] == ["host-bound", "small-launches"]
    assert [one.share_of_step for one in found] == [None, None]
    assert found[0].share_seen > 0.8 > 0.5 > found[1].share_seen


def test_a_wait_whose_most_is_not_known_stands_by_what_was_seen(analyse):
    # Nothing says how many workers the loader has, so the most that the wait can be is not known.
    t = Construct("cuda")
    for _ in range(4):
        with t.step():
            with t.label("read_batch"):
                t.cpu(6.0)
            with t.label("transfer"):
                t.copy("HtoD", device=1.6, bytes=1_000_000, pinned=False)
            with t.label("train"):
                for i in range(4):
                    t.launch(f"kernel{i}", device=0.6)
                t.wait()
    analysis = analyse(t)
    first, second = analysis.findings
    assert (first.id, second.id) == ("input-wait", "pageable-copy")
    assert first.share_of_step is None
    assert first.share_seen == pytest.approx(0.6, abs=0.02)
    assert second.share_of_step == pytest.approx(0.16, abs=0.02)
    said = report_words.explains(first.share_of_step, first.share_seen)
    assert said.startswith(f"seen in {100 * first.share_seen:.1f} % of what was recorded; ")


def test_that_shares_overlap_is_said_where_there_are_several(real):
    # 38.8, 38.3 and 25.4 %: the short pauses are a part of what the host is waited for.
    analysis = real("cuda_v100_dlrm_rank0of8.json")
    assert sum(one.share_of_step for one in analysis.findings) > 1
    assert any("these shares do not add up" in note for note in analysis.notes)
    assert not any("do not add up" in note for note in real(WORKERS.format(0)).notes)


# ---- small-launches, pageable-copy ----


@pytest.mark.parametrize(
    ("name", "pieces", "by_time"),
    [
        ("cuda_a100_first_two_active_steps.json.gz", "58.5 %", "4.5 %"),
        ("cuda_v100_dlrm_rank0of8.json", "91.5 %", "12.6 %"),
        ("cuda_v100_dlrm_rank1of8.json", "91.5 %", "7.0 %"),
        ("cuda_b200_eager.json.gz", "79.9 %", "32.3 %"),
    ],
)
def test_tiny_pieces_are_told_by_number_and_by_time(real, name, pieces, by_time):
    finding = only(real(name), "small-launches")
    assert f"{pieces} of the pieces of device work" in finding.observation
    assert f"make {by_time} of the sum of its time" in finding.observation


def test_one_call_that_makes_most_of_the_copying_is_told(real):
    finding = only(real(WORKERS.format(4)), "pageable-copy")
    assert "One call makes 36.1" in finding.observation
    assert "it took 39.996 ms for a copy of 3.605 ms" in finding.observation


def test_calls_of_one_length_are_not_told_apart(analyse):
    t = Construct("cuda")
    for ms in (1.6, 1.7):
        with t.step():
            with t.label("transfer"):
                t.copy("HtoD", device=ms, bytes=1_000_000, pinned=False)
            with t.label("train"):
                t.launch("kernel", device=6.0)
                t.wait()
    assert "One call" not in only(analyse(t), "pageable-copy").observation


# ---- the first line ----


def test_a_busy_device_names_kernels_that_a_profiler_can_run_again(real):
    analysis = real(DLRM)
    assert analysis.regime == "device"
    assert "works during 96.3 % of the active steps (communication alone 8.8 %)" in analysis.regime_reason
    assert "'void split_embedding_backward_codegen_rowwise_adagrad" in analysis.regime_reason
    assert "nccl" not in analysis.regime_reason.lower()


@pytest.mark.parametrize("name", [CUDAGRAPH, DLRM])
def test_graphs_are_told_beside_every_conclusion(real, name):
    analysis = real(name)
    assert "graphs can be recorded late or in part" in analysis.regime_reason
    for finding in analysis.findings:
        if finding.id in ("host-sync", "exposed-communication"):
            assert "graphs can be recorded late or in part" in finding.hypothesis


def test_the_profilers_own_wait_in_the_step_is_told(real):
    notes = real("cuda_h100_qwen05b_infer_stack_mem.json.gz").notes
    assert any(note.startswith("14.103 ms of 1 active step passed in a wait for the whole device") for note in notes)


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0.0 %"), (0.0001, "less than 0.1 %"), (0.0005, "0.1 %"), (0.9999, "more than 99.9 %"), (1.0, "100.0 %")],
)
def test_no_share_is_rounded_to_nothing_or_to_all(share, said):
    assert words.percent(share) == said
