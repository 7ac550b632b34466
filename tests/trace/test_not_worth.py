"""What is not worth touching: a bound that holds, and nothing acquitted that was not observed."""

from __future__ import annotations

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.trace import interpret


def names(analysis):
    return [sentence.split("'")[1] for sentence in analysis.not_worth]


def loop(vendor="cuda", steps=2, **labels):
    """Steps of 10 ms in which each label has so many ms on the host, and then so many on the device."""
    t = Construct(vendor)
    for _ in range(steps):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.01)
            for name, (host, device) in labels.items():
                with t.label(name):
                    t.cpu(host, "aten::x")
                    if device:
                        t.launch("k", device=device)
            with t.label("train"):
                t.launch("gemm", device=9.0)
                t.wait()
    return t


def test_host_and_device_work_count_together(analyse):
    """1.5 % on the host and 1.5 % on the device after it are 3 %, more than the limit."""
    assert names(analyse(loop(small=(0.05, 0.05)))) == ["small"]
    assert names(analyse(loop(both=(0.15, 0.15)))) == []
    assert names(analyse(loop(host=(0.15, 0)))) == ["host"]


def test_the_share_is_that_of_the_union(analyse):
    (sentence,) = analyse(loop(small=(0.05, 0.05))).not_worth
    assert sentence == "'small': at the most 1.2 % of 2 active steps, on the host and by its device work together"


@pytest.mark.parametrize(
    ("trace", "more"),
    [
        ("cuda_v100_dlrm_diff_test.json.gz", ["Optimizer.step#FusedAdam.step", "## permute_id_list_features ##"]),
        ("cuda_a100_cudagraph_negative_queue.json.gz", ["## copy_batch_to_gpu ##"]),
        ("cuda_sampled_rank0_no_devprops.json.gz", ["## sdd_preprocess_tensors ##"]),
    ],
)
def test_labels_of_real_traces_above_the_limit_by_both_together_are_not_acquitted(traces, trace, more):
    assert not set(more) & set(names(interpret(traces / trace).analysis))


def test_labels_that_hold_what_reads_are_not_acquitted(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("load"), t.label("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                t.cpu(0.01)
            with t.label("log"):
                t.cpu(0.01)
            with t.label("train"):
                t.cpu(10.0, "aten::mm")
    assert names(analyse(t)) == ["log"]


def test_where_no_label_is_known_to_read_a_label_without_kernels_may(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step():
            with t.label("lecture_batch_cpu"):
                t.cpu(0.01)
            with t.label("Optimizer.zero_grad#SGD.zero_grad"):
                t.cpu(0.01)
            with t.label("small"):
                t.launch("k", device=0.01)
            with t.label("train"):
                t.launch("gemm", device=9.0)
                t.wait()
    assert set(names(analyse(t))) == {"Optimizer.zero_grad#SGD.zero_grad", "small"}
    with_roles = analyse(t, roles={"lecture_batch_cpu": "read", "small": "compute"})
    assert set(names(with_roles)) == {"Optimizer.zero_grad#SGD.zero_grad", "small"}
    stated = analyse(t, roles={"lecture_batch_cpu": "other"})
    assert "lecture_batch_cpu" in names(stated)


def test_nothing_is_acquitted_on_a_device_that_was_not_observed(traces):
    assert interpret(traces / "cpu_rank_non_gpu.json.gz").analysis.not_worth == []
    assert interpret(traces / "malformed" / "no_gpu_events_but_launches.json").analysis.not_worth == []


def test_a_cpu_has_no_device_to_be_asked_about(analyse):
    (sentence,) = analyse(_on_cpu()).not_worth
    assert sentence == "'small': at the most 0.5 % of 2 active steps, on the host (it has no device work)"
    assert analyse(_on_cpu(), gpu_requested=True).not_worth == []


def _on_cpu():
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.01)
            with t.label("small"):
                t.cpu(0.05)
            with t.label("train"):
                t.cpu(10.0, "aten::mm")
    return t


def test_a_label_whose_launch_left_no_work_is_not_acquitted(build, read):
    built = build().step(1, 0, 10_000).label("read_batch", 0, 10)
    built.label("lost", 20, 20).launch(900, 25)
    built.label("there", 60, 20).launch(901, 65).kernel(901, 70, 5)
    for n in range(200):
        built.launch(n + 1, 100 + n * 40).kernel(n + 1, 105 + n * 40, 30)
    assert names(read(built).analysis) == ["there"]


def test_communication_whose_work_is_not_seen_is_not_acquitted(analyse):
    t = Construct("cpu", rank=0, world_size=2)
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.01)
            t.collective("all_reduce", ms=0.05)
            with t.label("train"):
                t.cpu(10.0, "aten::mm")
    assert names(analyse(t)) == []


def test_of_labels_inside_each_other_the_outermost_is_named(analyse):
    t = Construct("cpu")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.01)
            with t.label("outer"):
                t.cpu(0.02)
                with t.label("inner"):
                    t.cpu(0.02)
            with t.label("train"):
                t.cpu(10.0, "aten::mm")
    assert names(analyse(t)) == ["outer"]
