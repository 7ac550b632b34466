"""Two real ranks of one job on real GPUs, counted again microsecond by microsecond, and two live ranks on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab import job
from stepprof_lab.report.ranks_page import page
from stepprof_lab.trace.ranks_model import Ranks

DLRM = ("cuda_v100_dlrm_rank0of8.json", "cuda_v100_dlrm_rank1of8.json")


@pytest.fixture(scope="module")
def dlrm(traces: Path) -> Ranks:
    return job.read([traces / name for name in DLRM], picture=False, processes=1).ranks


class Grid:
    """One real trace, whose times are whole microseconds, as sets of microseconds."""

    def __init__(self, path: Path) -> None:
        events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
        (self.step,) = [event for event in events if event["name"].startswith("ProfilerStep#")]
        low, high = self.step["ts"], self.step["ts"] + self.step["dur"]
        calls: dict[Any, int] = {}
        for event in events:
            if event["cat"] == "cuda_runtime":
                ident = event["args"]["correlation"]
                calls[ident] = min(calls.get(ident, event["ts"]), event["ts"])
        device = [event for event in events if event["cat"] in {"kernel", "gpu_memcpy", "gpu_memset"}]
        mine = [event for event in device if low <= calls.get(event["args"]["correlation"], -1) < high]
        self.collectives = sorted(
            (event for event in mine if "nccl" in event["name"]), key=lambda event: calls[event["args"]["correlation"]]
        )
        self.communication = self.covered(self.collectives)
        self.own = self.covered(event for event in mine if "nccl" not in event["name"])
        self.others = self.covered(event for event in device if "nccl" not in event["name"])

    @staticmethod
    def covered(events: Any) -> set[int]:
        return {us for event in events for us in range(event["ts"], event["ts"] + event["dur"])}


def test_own_work_and_exposed_communication_of_real_ranks(dlrm: Ranks, traces: Path) -> None:
    for one, name in zip(dlrm.ranks, DLRM, strict=True):
        grid = Grid(traces / name)
        assert one.mean.cpu_us == grid.step["dur"]
        assert one.mean.gpu_own_us == len(grid.own)
        assert one.mean.communication_us == len(grid.communication)
        assert one.mean.exposed_communication_us == len(grid.communication - grid.others)


def test_real_devices_leave_a_collective_together(dlrm: Ranks, traces: Path) -> None:
    assert dlrm.arrivals.told
    assert dlrm.arrivals.collectives == 8
    assert dlrm.arrivals.precision_us == 5.0
    first, second = (Grid(traces / name).collectives for name in DLRM)
    apart = [b["ts"] + b["dur"] - a["ts"] - a["dur"] for a, b in zip(first, second, strict=True)]
    assert max(map(abs, apart)) <= 3, "on these two devices of one machine, which had one clock"
    late = [a["ts"] - b["ts"] for a, b in zip(first, second, strict=True)]
    assert dlrm.arrivals.largest_spread_us == pytest.approx(max(map(abs, late)), abs=1)
    assert dlrm.arrivals.last_rank == 0
    waits = [sum(max(sign * us, 0) for us in late) for sign in (-1, 1)]
    assert [one.mean.peers_wait_us for one in dlrm.ranks] == pytest.approx(waits, abs=len(late))


def test_equal_work_on_real_ranks_stands_out_on_none(dlrm: Ranks) -> None:
    assert [one.stands_out for one in dlrm.slowest] == [False, False]
    assert dlrm.missing == [2, 3, 4, 5, 6, 7]
    assert dlrm.doubts == []


def test_the_prose_says_of_both_ranks_how_late_they_are(dlrm: Ranks) -> None:
    """Both are clearly last three times: 5489, 64 and 29 us against 28, 8 and 6 (recomputed from the raw events)."""
    assert [one.arrives_last for one in dlrm.ranks] == [3, 3]
    assert [one.arrives_last_sum_us for one in dlrm.ranks] == pytest.approx([5582, 42], abs=1)
    assert dlrm.ranks[0].arrives_last_longest_us == pytest.approx(5489, abs=1)
    said = dlrm.conclusion.observation
    assert "rank 0 is the last to begin 3 of them, 5.582 ms" in said
    assert "the longest of them 5.489 ms" in said
    assert "rank 1 is the last to begin 3 of them, 0.042 ms" in said
    assert "one collective" in dlrm.conclusion.hypothesis


def test_real_traces_of_other_jobs_are_doubted(traces: Path) -> None:
    found = job.read([traces / DLRM[0], traces / "cuda_v100_dlrm_diff_test.json.gz"], picture=False, processes=1).ranks
    assert any("jobs of different sizes" in doubt for doubt in found.doubts)
    assert any("apart" in doubt for doubt in found.doubts)
    assert found.matched_by == "position"
    assert found.slowest == []
    assert not found.arrivals.told
    assert "their jobs have 2 and 8 ranks; they were recorded 8,942 hours apart" in found.conclusion.observation
    for said in (found.conclusion.observation, found.conclusion.hypothesis):
        assert "more" not in said
        assert "Rank " not in said


def test_ranks_that_cannot_be_of_one_run_are_drawn_without_a_slowest(traces: Path) -> None:
    paths = [traces / "cuda_a100_nccl_ns_basetime.json.gz", traces / DLRM[1]]
    found = job.read(paths, picture=False, processes=1)
    assert found.ranks.slowest == []
    text = page(found)
    assert "stands out" not in text
    assert "not of one run" in text


WORKLOAD = """
import time
import torch
import torch.distributed as dist
from stepprof_lab import Step, label

def build(device):
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step():
        with label("read_batch"):
            x = torch.randn(8, 32)
        with label("prepare"):
            if dist.get_rank() == 1:
                time.sleep(0.08)
        with label("train"):
            model(x).sum().backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
            optimizer.zero_grad()
    return Step(step, state={"model": model, "optimizer": optimizer})
"""


@pytest.mark.slow
def test_two_live_ranks_on_a_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="ranks are torch's")
    from stepprof_lab import scenario

    (tmp_path / "w.py").write_text(WORKLOAD)
    asked = scenario.inline("Who waits?", boundary="read transfer forward backward update", unit="ms/step")
    scenario.save(asked, tmp_path / "s.toml")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"),
            *("stepprof_lab", "profile", "s.toml", "w.py", "--device", "cpu", "--out", "run"),
        ],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = job.read(sorted((tmp_path / "run").glob("*.json.gz"))).ranks
    (host,) = found.slowest
    assert (host.rank, host.stands_out, host.label.name if host.label else "") == (1, True, "prepare")
    assert host.more_us > 40_000
    assert (found.question, found.world_size, found.missing, found.doubts) == ("Who waits?", 2, [], [])
    assert [one.origin for one in found.ranks] == ["recorded", "recorded"]
    assert found.arrivals.told, found.arrivals.why
    assert found.arrivals.last_rank == 1
    waits = found.ranks[0].mean.peers_wait_us
    assert isinstance(waits, float)
    assert waits > 40_000
    assert found.ranks[0].collectives.ran_on == ["cpu"]
