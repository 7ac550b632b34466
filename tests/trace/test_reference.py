"""The interpreter against `reference.py`, the same definitions the slow way, over traces that hypothesis makes."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepprof_lab.trace import interpret


def _load():
    spec = importlib.util.spec_from_file_location("trace_reference", Path(__file__).with_name("reference.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = _load()

# Few instants, lanes and correlations, so that touching, nesting, crossing and repeating are the rule.
TIMES = st.integers(0, 24)
HOST_NAMES = {
    "cpu_op": ["aten::mm", "aten::add", "ProfilerStep#1"],
    "user_annotation": ["ProfilerStep#1", "ProfilerStep#2", "read_batch", "train"],
    "cuda_runtime": ["cudaLaunchKernel", "hipLaunchKernel", "cudaDeviceSynchronize"],
}


def events_of(category, names, lanes, correlations):
    return st.builds(
        reference.Event,
        st.just(category),
        st.sampled_from(names),
        TIMES,
        TIMES,
        st.sampled_from(lanes),
        st.sampled_from(correlations),
    )


HOST = st.one_of(*(events_of(category, names, [1, 2], [0, 1, 2, 3]) for category, names in HOST_NAMES.items()))
DEVICE = st.one_of(*(events_of(category, ["gemm", "nccl"], [7, 20], [0, 1, 2, 3, 9]) for category in reference.DEVICE))
TRACES = st.lists(HOST | DEVICE, min_size=1, max_size=25)
BASES = st.sampled_from([0, 10**6, 7_889_238 * 10**9, 1_682_725_899_305_073_123, (2**53 - 10**6) * 1000])


@given(TRACES, BASES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
def test_the_interpreter_agrees_with_the_slow_reference(tmp_path, events, base):
    path = tmp_path / "t.json"
    path.write_bytes(reference.text_of(events, base))
    interpretation = interpret(path)
    found = msgspec.to_builtins(interpretation.analysis)
    right = reference.numbers(events)

    assert found["steps"] == right["steps"]
    assert found["labels"] == right["labels"]
    assert list(found["labels"]) == list(right["labels"])
    assert {operator.pop("name"): operator for operator in found["operators"]} == right["operators"]
    assert {key: found["gpu"][key] for key in right["gpu"]} == right["gpu"]
    assert reference.insane(interpretation) == []


@given(TRACES, st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_the_order_in_the_file_matters_only_among_equals(tmp_path, events, chance):
    """Where no two host events begin at once on a thread and no two calls share a link, order changes nothing."""
    starts, calls, kept = set(), set(), []
    for event in events:
        taken = (event.lane, event.start) in starts or (event.category == "cuda_runtime" and event.correlation in calls)
        if event.category in reference.DEVICE or not taken:
            starts.add((event.lane, event.start))
            calls.add(event.correlation)
            kept.append(event)
    shuffled = kept.copy()
    chance.shuffle(shuffled)
    path = tmp_path / "t.json"
    said = []
    for order in (kept, shuffled):
        path.write_bytes(reference.text_of(order))
        analysis = msgspec.to_builtins(interpret(path).analysis)
        steps = sorted(analysis["steps"], key=repr)  # steps of two threads may begin together
        said.append((steps, analysis["labels"], analysis["gpu"], sorted(analysis["operators"], key=repr)))
    assert said[0] == said[1]


def test_the_reference_itself_by_hand():
    """Two kernels, one launched before the step: what `facts/trace-format.md` calls foreign and tail."""
    event = reference.Event
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 2, 1, 5),
        event("user_annotation", "ProfilerStep#1", 10, 20, 1),
        event("cpu_op", "aten::mm", 12, 10, 1),
        event("cuda_runtime", "cudaLaunchKernel", 14, 4, 1, 6),
        event("kernel", "a", 5, 10, 7, 5),
        event("kernel", "b", 13, 30, 7, 6),
    ]
    found = reference.numbers(events)
    assert found["steps"] == [
        {
            "name": "ProfilerStep#1",
            "cpu_us": 0.020,
            "gpu_events_launched": 1,
            "gpu_launched_us": 0.030,
            "gpu_busy_in_window_us": 0.020,
            "gpu_foreign_in_window_us": 0.005,
            "gpu_tail_us": 0.013,
        }
    ]
    assert found["operators"] == {
        "aten::mm": {"calls": 1, "cpu_sum_us": 0.010, "cpu_self_us": 0.006, "gpu_sum_us": 0.030}
    }
    assert found["gpu"]["busy_us"] == 0.038
    assert found["labels"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_larger_traces_agree_too(tmp_path, seed):
    chance = random.Random(seed)
    events = []
    for _ in range(150):
        category = chance.choice([*HOST_NAMES, *reference.DEVICE])
        device = category in reference.DEVICE
        name = chance.choice(["gemm", "nccl"] if device else HOST_NAMES[category])
        lane = chance.choice([7, 20, 84] if device else [1, 2, 3])
        events.append(
            reference.Event(
                category, name, chance.randrange(600), chance.choice([0, 1, 5, 30, 200]), lane, chance.randrange(12)
            )
        )
    path = tmp_path / "t.json"
    path.write_bytes(reference.text_of(events, chance.choice([0, 10**18])))
    interpretation = interpret(path)
    found = msgspec.to_builtins(interpretation.analysis)
    right = reference.numbers(events)
    assert (found["steps"], found["labels"]) == (right["steps"], right["labels"])
    assert {operator.pop("name"): operator for operator in found["operators"]} == right["operators"]
    assert {key: found["gpu"][key] for key in right["gpu"]} == right["gpu"]
    assert reference.insane(interpretation) == []
