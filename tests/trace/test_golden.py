"""The right values of the real traces, to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from stepprof_lab.trace import interpret

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
GOLDEN = json.loads((TRACES / "golden.json").read_text()) if (TRACES / "golden.json").exists() else {}
GPU = {
    "events": "gpu_events",
    "events_unlinked": "gpu_events_unlinked",
    "busy_us": "gpu_busy_us",
    "sum_us": "gpu_sum_us",
    "span_us": "gpu_span_us",
}


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_of(item)}
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    return set()


@pytest.mark.skipif(not GOLDEN, reason="the real traces are not here")
def test_every_real_trace_has_golden_values():
    files = {p.name for p in TRACES.iterdir() if p.name.endswith((".json", ".json.gz"))} - {"golden.json"}
    assert set(GOLDEN) == files


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    right = GOLDEN[name]
    analysis = msgspec.to_builtins(interpret(TRACES / name).analysis)

    assert analysis["steps"] == right["steps"]
    assert analysis["labels"] == right["labels"]
    for operator in analysis["operators"]:
        operator.pop("shapes", None)
    found = {operator.pop("name"): operator for operator in analysis["operators"]}
    assert {key: found.get(key) for key in right["operators"]} == right["operators"]
    assert list(found)[: len(right["operators"])] == list(right["operators"])  # by self time
    assert analysis["gpu"]["observed"] is right["gpu_observed"]
    if right["gpu_observed"]:
        assert {ours: analysis["gpu"][ours] for ours in GPU} == {ours: right[theirs] for ours, theirs in GPU.items()}
        assert analysis["gpu"]["vendor"] == name.split("_")[0]
    else:
        assert not {key for key in keys_of(analysis) if key.startswith("gpu_")}
        assert analysis["gpu"]["reason"]


@pytest.mark.skipif(not GOLDEN, reason="the real traces are not here")
def test_the_loader_without_workers_is_found_and_the_one_with_four_is_not():
    slow = interpret(TRACES / "cuda_v100_tbplugin_resnet50_workers0.json.gz").analysis
    fast = interpret(TRACES / "cuda_v100_tbplugin_resnet50_workers4.json.gz").analysis
    assert [finding.id for finding in slow.findings] == ["input-wait"]
    assert slow.regime == "input"
    # 415.8 ms of host time in the loader, of which the device worked for 60 ms, in 1049 ms of steps.
    assert slow.findings[0].share_of_step == pytest.approx(0.339, abs=0.001)
    assert "39.6 %" in slow.findings[0].observation
    assert "input-wait" not in {finding.id for finding in fast.findings}
    assert fast.regime == "undecided"
    assert any("does not show that the loop does not wait" in note for note in fast.notes)
