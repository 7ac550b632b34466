"""Which events are collectives, and how that is known: on real traces, and by names that must and must not match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.trace import communication, intervals, reader
from stepprof_lab.trace import steps as stepping
from stepprof_lab.trace.communication import operation_of


def found_in(path: Path) -> communication.Collectives:
    trace = reader.read(path)
    return communication.find(trace, stepping.find_device_work(trace))


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send or receive"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
        ("multimem_all_reduce_kernel<c10::BFloat16, 16>", "all_reduce"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ""),
        ("void at::native::reduce_kernel<512, 1>", ""),
        ("void at::native::vectorized_gather_kernel<16, long>", ""),
    ],
)
def test_operations_are_told_by_names(name: str, operation: str) -> None:
    assert operation_of(name) == operation


@pytest.mark.parametrize(("name", "operation"), [("reduce", "reduce"), ("gather", "gather"), ("scatter", "scatter")])
def test_rooted_operations_count_in_arguments_alone(name: str, operation: str) -> None:
    assert operation_of(name) == ""
    assert operation_of(name, *communication.ROOTED) == operation


@pytest.mark.parametrize(
    ("file", "known"),
    [
        ("cuda_v100_dlrm_rank0of8.json", {("all_to_all", "name"): 5, ("all_reduce", "name"): 3}),
        ("cuda_a100_nccl_ns_basetime.json.gz", {("all_reduce", "arguments"): 15, ("broadcast", "arguments"): 6}),
        (
            "rocm_mi300_resnet_train_3steps_ddp.json.gz",
            {("all_reduce", "arguments"): 6, ("broadcast", "arguments"): 6, ("unclassified", "unclassified"): 5},
        ),
        ("cuda_b200_eager.json.gz", {("all_reduce", "name"): 73, ("all_gather", "arguments"): 1}),
        ("cuda_2080ti_resnet_train_labels.json.gz", {}),
    ],
)
def test_collectives_of_real_traces(traces: Path, file: str, known: dict[tuple[str, str], int]) -> None:
    found = found_in(traces / file)
    assert Counter(zip(found.operation, found.known_by, strict=True)) == known
    assert found.on_device.all()


def test_the_arguments_of_a_real_collective_are_kept(traces: Path) -> None:
    found = found_in(traces / "cuda_a100_nccl_ns_basetime.json.gz")
    first = found.operation.index("all_reduce")
    assert (found.group[first], found.payload[first].split()[0]) == ("0 [0, 1]", "Float")
    assert (np.diff(found.issued) >= 0).all(), "in the order of the program"


def test_gloo_runs_on_the_host_and_lasts_as_long_as_its_annotation(traces: Path) -> None:
    found = found_in(traces / "cpu_only_small.json.gz")
    assert set(found.operation) == {"all_reduce"}
    assert len(found) == 10
    assert not found.on_device.any()


def test_what_was_given_to_an_unseen_device_is_no_host_collective(traces: Path) -> None:
    trace = reader.read(traces / "cpu_rank_non_gpu.json.gz")
    assert len(communication.find(trace, stepping.find_device_work(trace))) == 0
    assert communication.issued_unseen(trace) == 6


def test_a_label_around_the_launch_tells_the_operation(tmp_path: Path) -> None:
    t = Construct("cuda")
    with t.step():
        with t.label("nccl:_all_gather_base"):
            t.launch("ncclDevKernel_Generic(x)", device=1.0)
        t.launch("ncclDevKernel_Generic(x)", device=1.0)
        t.launch("gemm", device=1.0)
    found = found_in(t.save(tmp_path / "t.json"))
    assert list(zip(found.operation, found.known_by, strict=True)) == [
        ("all_gather", "name"),
        ("unclassified", "unclassified"),
    ]


def test_what_carries_a_collective_is_no_work_of_the_host(build: Callable[..., Any], tmp_path: Path) -> None:
    built = build()
    built.operator("autograd::engine::evaluate_function: X", 0, 100).operator("aten::mm", 10, 20)
    built.operator("c10d::allreduce_", 40, 30).label("gloo:all_reduce", 45, 80, tid=7)
    built.operator("aten::add", 90, 20, tid=8)
    trace = reader.read(built.write(tmp_path / "t.json"))
    start, end = communication.host_work(trace)
    first = int(trace.start.min())
    assert [(int(a - first) / 1000, int(b - first) / 1000) for a, b in zip(start, end, strict=True)] == [
        (0.0, 40.0),
        (70.0, 110.0),
    ]
    assert intervals.total(start, end) == 80_000
