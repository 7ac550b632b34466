"""What several rooms' tests share: small workload files, a scenario, and the command run in this process."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from stepprof_lab import scenario
from stepprof_lab.cli import main

WORKLOAD = """
import torch
from torch import nn
from stepprof_lab import Step, label

def make(device, scale=1.0, batches=10**9):
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = iter((torch.full((16, 8), float(n % 7)), torch.arange(16) % 4) for n in range(batches))
    loss_fn = nn.CrossEntropyLoss()
    def step():
        with label("read_batch"):
            x, y = next(data)
        with label("transfer"):
            x, y = x.to(device), y.to(device)
        with label("train"):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_fn(model(x) * scale, y)
            loss.backward()
            optimizer.step()
        return loss
    return Step(step, state={"model": model, "optimizer": optimizer}, samples=16)

def build(device):
    return make(device)

def build_same(device):
    return make(device)

def build_other(device):
    return make(device, scale=1.001)

def build_short(device):
    return make(device, batches=9)
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """A workload file with `build`, `build_same`, `build_other` (other outputs) and `build_short` (nine batches)."""
    path = tmp_path / "loop.py"
    path.write_text(WORKLOAD, encoding="utf-8")
    return path


@pytest.fixture
def write_workload(tmp_path: Path) -> Callable[[str], Path]:
    """Write another workload file."""

    def write(text: str, name: str = "other.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """A scenario of a training step that leaves reading out, so that short blocks are compared."""
    path = tmp_path / "scenario.toml"
    asked = scenario.inline(
        "Is compute waiting for data?", boundary="transfer forward backward update", unit="ms/step", seed=3
    )
    scenario.save(asked, path)
    return path


class Said:
    """What one run of the command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def error(self) -> str:
        """The one error line; an assertion where there is not exactly one."""
        lines = [line for line in self.err.splitlines() if line.startswith("stepprof: error:")]
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture
def stepprof(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """Run the command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | os.PathLike[str]) -> Said:
        capfd.readouterr()
        code = main([os.fspath(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return run
