"""What every test on real hardware needs: a GPU, or the reason why there is none; and a place for the evidence.

``make hardware`` runs these tests. What each command printed, and the traces, stay under ``evidence/`` (or where
STEPPROF_EVIDENCE says), so that one visit to a machine leaves something to look at.
"""

from __future__ import annotations

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
def evidence() -> Path:
    """A directory of this run, kept."""
    folder = os.environ.get("STEPPROF_EVIDENCE") or ROOT / "evidence" / time.strftime("%Y%m%d-%H%M%S")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


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
