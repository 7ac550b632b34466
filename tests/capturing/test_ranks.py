"""Several processes that train together: their names, and that none is left waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stepprof_lab.capturing import ranks
from stepprof_lab.capturing.ranks import Place
from stepprof_lab.errors import StepprofError


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, Place(1, 4)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Place(0, 1)),
        ({"RANK": "1"}, None),
        ({"RANK": "x", "WORLD_SIZE": "4"}, None),
    ],
)
def test_the_place_is_what_torchrun_sets(
    environment: dict[str, str], place: Place | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ranks.place() == place


@pytest.mark.parametrize(
    ("name", "ranked"),
    [
        ("trace.json.gz", "trace.rank3.json.gz"),
        ("a.b.json", "a.b.rank3.json"),
    ],
)
def test_names_carry_the_rank(name: str, ranked: str) -> None:
    assert ranks.with_rank(Path("out") / name, Place(3, 8)) == Path("out") / ranked
    assert ranks.with_rank(Path("out") / name, None) == Path("out") / name


def test_alone_there_is_nobody_to_agree_with() -> None:
    assert not ranks.can_talk()
    assert ranks.gather(5) == [5]
    ranks.agree(None)
    with pytest.raises(StepprofError, match="mine"):
        ranks.agree(StepprofError("mine", "b", "c"))


JOB = """
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from stepprof_lab import Step, label
from stepprof_lab.capturing import profile_workload
from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import inline

RANK = int(os.environ["RANK"])
FAILS, OUT = sys.argv[1], Path(sys.argv[2])

WORKLOAD = OUT / "w.py"
question = inline("who waits?", boundary="read transfer forward backward update", unit="ms/step")
try:
    captured = profile_workload(
        question, str(WORKLOAD), device="cpu", out=OUT / "run", approach_limit_s=0.4 if FAILS == "slow" else 30.0,
        traced_ranks=[0] if FAILS == "rank 0" else None,
    )
    said = "nothing" if captured is None else f"{captured.trace.name} {len(captured.record.approach.steps_ms)}"
except StepprofError as error:
    said = f"error {error}"
(OUT / f"said{RANK}").write_text(said)
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
# Gloo's own threads can abort a process while its interpreter is taken down (pytorch/pytorch#179291): not ours to test.
os._exit(0)
"""

WORKLOAD = """
import os, time
import torch
import torch.distributed as dist
from stepprof_lab.labels import Step, label

def build(device):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if FAILS == "build" and rank == 1:
        raise ValueError("no data on this rank")
    total = torch.zeros(1)

    def step():
        with label("train"):
            if FAILS == "slow" and rank == 1:
                time.sleep(0.05)
            total.add_(1)
            dist.all_reduce(total)
    return Step(step)
"""


def run_two(tmp_path: Path, fails: str) -> list[str]:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "w.py").write_text(f"FAILS = {fails!r}\n{textwrap.dedent(WORKLOAD)}")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "job.py", fails, "."],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(tmp_path / f"said{rank}").read_text() for rank in (0, 1)]


def files(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir()) if path.exists() else []


BOTH = ["trace.rank0.json.gz", "trace.rank0.record.json", "trace.rank1.json.gz", "trace.rank1.record.json"]


@pytest.mark.slow
def test_two_ranks_are_captured_under_their_names(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="ranks are torch's")
    assert run_two(tmp_path, "nothing") == ["trace.rank0.json.gz 20", "trace.rank1.json.gz 20"]
    assert files(tmp_path / "run") == BOTH


@pytest.mark.slow
def test_some_ranks_can_be_traced_and_all_run(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="ranks are torch's")
    assert run_two(tmp_path, "rank 0") == ["trace.rank0.json.gz 20", "nothing"]
    assert files(tmp_path / "run") == BOTH[:2]


@pytest.mark.slow
def test_ranks_of_different_pace_run_as_many_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="ranks are torch's")
    said = [text.split() for text in run_two(tmp_path, "slow")]
    assert said[0][0] == "trace.rank0.json.gz"
    assert said[0][1] == said[1][1]
    assert 2 <= int(said[0][1]) < 20, "the time limit cut the approach"


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["build", "name"])
def test_what_stops_one_rank_stops_all_with_the_same_line(fails: str, tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="ranks are torch's")
    if fails == "name":
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "trace.rank1.json.gz").write_text("old")
    said = run_two(tmp_path, fails)
    assert said[0] == said[1]
    assert said[0].startswith("error rank 1: ")
    assert ("no data on this rank" if fails == "build" else "exists already") in said[0]
    assert files(tmp_path / "run") == (["trace.rank1.json.gz"] if fails == "name" else [])
