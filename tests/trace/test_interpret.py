"""The whole path: a file in, the contract out."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Approach, Context

KEYS = [
    *("trace", "origin", "question", "notes", "regime", "gpu", "steps", "labels", "operators", "findings"),
    *("regime_reason", "doubts", "not_worth"),
]


def test_the_json_has_the_contracts_keys(build, read):
    built = build().step(1, 0, 100).label("read_batch", 0, 50).operator("aten::mm", 60, 5, dims=[[2, 3]])
    built.launch(1, 61).kernel(1, 70, 5)
    result = json.loads(msgspec.json.encode(read(built, origin="recorded", question="Why?").analysis))
    assert list(result) == KEYS
    # The file says that it was constructed, which no record outweighs.
    assert (result["trace"], result["origin"], result["question"]) == ("trace.json", "constructed", "Why?")
    assert set(result["gpu"]) == {
        *("observed", "vendor", "devices", "events", "events_unlinked", "busy_us", "sum_us", "span_us")
    }
    assert set(result["steps"][0]) == {
        *("name", "cpu_us", "gpu_events_launched", "gpu_launched_us", "gpu_busy_in_window_us"),
        *("gpu_foreign_in_window_us", "gpu_tail_us"),
    }
    assert set(result["labels"]["read_batch"]) == {"calls", "cpu_us", "gpu_launched_us"}
    operator_keys = {"name", "calls", "cpu_sum_us", "cpu_self_us", "gpu_sum_us", "shapes"}
    assert set(result["operators"][0]) == operator_keys


def test_without_a_device_no_key_of_one_appears(build, read):
    result = json.loads(msgspec.json.encode(read(build().step(1, 0, 9).label("a", 1, 2).operator("b", 1, 1)).analysis))
    assert result["gpu"] == {"observed": False, "reason": result["gpu"]["reason"]}
    assert result["steps"] == [{"name": "ProfilerStep#1", "cpu_us": 9.0}]
    assert result["labels"] == {"a": {"calls": 1, "cpu_us": 2.0}}
    assert result["operators"] == [{"name": "b", "calls": 1, "cpu_sum_us": 1.0, "cpu_self_us": 1.0}]


def test_notes_of_the_record_come_first(build, read):
    notes = read(build().step(1, 0, 9), notes=["rejected: ..."]).analysis.notes
    assert notes[0] == "rejected: ..."
    assert len(notes) == 2


def test_reading_neither_prints_nor_imports_torch(build, tmp_path):
    path = build().step(1, 0, 9).write(tmp_path / "t.json")
    code = (
        "import sys, pathlib; from stepprof_lab.trace import interpret; assert 'numpy' not in sys.modules; "
        f"interpret(pathlib.Path({str(path)!r})); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def plain_trace(tmp_path_factory):
    """What a script of other people leaves: plain torch.profiler, as the field's articles show it."""
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("plain") / "trace_cpu.json"
    script = f"""
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def export(prof):
    prof.export_chrome_trace({str(path)!r})

with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=export,
) as prof:
    for _ in range(4):
        with record_function("lecture_batch_cpu"):
            for _ in range(60):
                x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
        with record_function("transfert"):
            x, y = x.to("cpu"), y.to("cpu")
        with record_function("entrainement"):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        prof.step()
"""
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return path


def test_a_plain_torch_profiler_trace_is_read(plain_trace):
    result = interpret(plain_trace)
    analysis = result.analysis
    assert [step.name for step in analysis.steps] == ["ProfilerStep#2", "ProfilerStep#3"]
    ours = {name: analysis.labels[name].calls for name in ("lecture_batch_cpu", "transfert", "entrainement")}
    assert ours == {"lecture_batch_cpu": 2, "transfert": 2, "entrainement": 2}
    inside = sum(analysis.labels[name].cpu_us for name in ours)
    assert 0 < inside < sum(step.cpu_us for step in analysis.steps)
    assert "aten::addmm" in {operator.name for operator in analysis.operators}
    assert not analysis.gpu.observed
    assert (analysis.origin, analysis.question) == ("unknown", None)
    assert {finding.id for finding in analysis.findings} <= {"unsteady-window", "dominant-operator"}
    assert analysis.regime == "undecided"
    assert any("no label is known to read the batch" in note for note in analysis.notes)
    assert [lane.kind for lane in result.timeline.lanes][:3] == ["steps", "labels", "cpu"]
    assert result.timeline.arrows == []


def test_with_roles_the_same_trace_is_decided(plain_trace):
    roles = {"lecture_batch_cpu": "read", "transfert": "transfer", "entrainement": "compute"}
    read_ms = interpret(plain_trace).analysis.labels["lecture_batch_cpu"].cpu_us / 2000
    known = Approach(
        steps_ms=[read_ms * 1.2] * 20,
        labels_ms={"lecture_batch_cpu": [read_ms] * 20},
        loader_workers=0,
        wanted_steps=20,
    )
    analysis = interpret(plain_trace, Context(roles=roles, approach=known)).analysis
    assert not any("no label is known" in note for note in analysis.notes)
    # 60 batches are made where one is used, so reading is most of the step on any machine.
    (finding,) = [finding for finding in analysis.findings if finding.id == "input-wait"]
    assert 0.1 < finding.share_of_step < 1
    assert finding.evidence["labels"] == ["lecture_batch_cpu"]
