"""What every test on real hardware needs: a GPU, or the reason why there is none; and a place for the evidence.

``make hardware`` runs these tests. What each command printed, and the traces, stay in a new folder of each run under
``evidence/`` (or under what STEPPROF_EVIDENCE names), so that one visit to a machine leaves something to look at.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepprof_lab import devices
from stepprof_lab.errors import StepprofError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def gpu() -> devices.Device:
    """The GPU that ``--device gpu`` takes; without one the test is skipped with the reason."""
    try:
        return devices.choose("gpu")
    except StepprofError as error:
        pytest.skip(f"no GPU: {error}")


@pytest.fixture(scope="session")
def new_folder() -> Callable[[Path], Path]:
    """Make a folder below another one that no run has used: what a run writes never meets what an earlier one left."""

    def make(below: Path) -> Path:
        base = below / time.strftime("%Y%m%d-%H%M%S")
        for number in itertools.count(1):
            path = base if number == 1 else base.with_name(f"{base.name}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir(parents=True)
                return path
        raise AssertionError

    return make


@pytest.fixture(scope="session")
def evidence(new_folder: Callable[[Path], Path]) -> Path:
    """A folder of this run, kept."""
    return new_folder(Path(os.environ.get("STEPPROF_EVIDENCE") or ROOT / "evidence"))


@pytest.fixture(scope="session")
def lists() -> Callable[[str, str], bool]:
    """Whether a vendor's tool lists the device that torch names.

    torch names a slice of a divided GPU by both parts ("NVIDIA H200 MIG 1g.18gb"), nvidia-smi on two lines.
    """

    def listed(said: str, name: str) -> bool:
        gpu, _, part = name.partition(" MIG ")
        return gpu in said and (not part or f"MIG {part}" in " ".join(said.split()))

    return listed


@pytest.fixture
def stepprof(evidence: Path, request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a user does; what it printed goes to the evidence under the test's name."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "stepprof_lab", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            cwd=evidence,
            timeout=240,
        )
        said = f"$ stepprof {' '.join(arguments)}\nrc {done.returncode}\n{done.stdout}\n--- stderr\n{done.stderr}\n"
        with (evidence / f"{request.node.name}.txt").open("a", encoding="utf-8") as stream:
            stream.write(said)
        return done

    return run
