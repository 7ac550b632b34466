"""A few traces of each planted cause; `tests/benchmarks/findings.py` has many, and real runs on the CPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "findings.py"


@pytest.fixture(scope="module")
def planting():
    spec = importlib.util.spec_from_file_location("benchmark_of_findings", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_same_seed_plants_the_same_traces(planting):
    one, other = (list(planting.planted(1, 3)) for _ in range(2))
    assert one == other
    assert one != list(planting.planted(1, 4))


@pytest.mark.slow
def test_planted_causes_are_found_and_healthy_traces_are_silent(planting):
    score, _, on_healthy = planting.count(planting.planted(10, 11), show=False)
    assert on_healthy == []
    right, false, missed = (sum(counts[i] for counts in score.values()) for i in range(3))
    assert right >= 50
    assert false <= 0.05 * right
    assert missed <= 0.05 * right
