"""The benchmark of false alarms and power: its file, its table, and that each rule says what it should."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "validate.py"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_validate", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def line(benchmark: Any, effect: float, number: int, claim: int, ratio: float = 1.0) -> dict[str, Any]:
    """One trial in which every rule claims the same, ours because its replicates say so."""
    shift = {1: 1.04, 0: 1 + effect, -1: 0.96}[claim]
    replicates = [shift * one for one in (0.985, 1.015, 0.985, 1.015, 0.985, 1.015, 0.985, 1.015)]
    return {
        "kind": "trial",
        "workload": "compute",
        "load": 0,
        "effect": effect,
        "number": number,
        "psi": 0.02,
        "true_ratio": 1 + effect,
        "claims": dict.fromkeys(benchmark.RULES, claim),
        "ratios": dict.fromkeys(benchmark.RULES, ratio),
        "took_s": {"ours": 1.5},
        "cpu_s": {"ours": 1.4},
        "ours": {
            "verdict": "what was said then",
            "interval": [0.5, 2.0],
            "replicate_ratios": replicates,
            "steps": 1700,
            "mean_ms": 0.26,
            "first_in_block": 1.1,
        },
    }


def test_the_table_counts_alarms_power_and_wrong_directions(benchmark: Any) -> None:
    lines = [line(benchmark, 0.0, n, claim=1 if n < 3 else 0) for n in range(100)]
    lines += [line(benchmark, 0.03, n, claim=1 if n < 38 else -1) for n in range(40)]
    told = benchmark.report(lines)
    row = next(one for one in told.splitlines() if one.startswith(f"| {benchmark.OURS} "))
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[1:4] == ["3/100", "1.0 to 8.5 %", "38/40, 2"]
    assert "the true ratio is inside our interval in 38 of 40" in told
    assert "what was said then" not in told, "the rule of today judges the ratios of then"
    assert "140 of 140 verdicts took at most 2 s" in told
    assert "Of the 140 whose step took at most 0.27 ms: 1.50 s (median)" in told


def test_loaders_are_counted_together_too(benchmark: Any) -> None:
    lines = [
        line(benchmark, 0.0, n, claim=int(n < 1)) | {"workload": name}
        for name in ("loader0", "loader4")
        for n in range(50)
    ]
    together = benchmark.report(lines).partition("### all loaders, nothing beside it")[2]
    assert "2/100" in together


def test_a_run_goes_on_where_it_was_ended(benchmark: Any, tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    kept = benchmark.Kept(file)
    kept.add(line(benchmark, 0.0, 1, claim=0))
    kept.add(line(benchmark, 0.05, 2, claim=1) | {"error": "no time"})
    with file.open("a", encoding="utf-8") as end:
        end.write('{"kind": "trial", "workl')  # killed while it wrote
    again = benchmark.Kept(file)
    assert again.done == {benchmark.Trial("compute", 0, 0.0, 1)}  # what failed is done again
    again.add(line(benchmark, 0.0, 3, claim=0))
    assert [json.loads(text)["number"] for text in file.read_text().splitlines() if text.endswith("}")] == [1, 2, 3]
    assert "1 trials without a verdict of ours, the last: no time" in benchmark.report(again.lines)


def test_the_order_of_trials_is_the_same_each_time_and_a_part_is_a_fair_part(benchmark: Any) -> None:
    first, second = (benchmark.all_trials(["compute", "loader2"], 0, 50, 10) for _ in range(2))
    assert first == second
    assert len(first) == 2 * (50 + 4 * 10)
    assert len({trial.seed for trial in first}) == len(first)
    head = first[: len(first) // 3]
    assert {trial.effect for trial in head} == {0.0, *benchmark.EFFECTS}
    assert {trial.workload for trial in head} == {"compute", "loader2"}


@pytest.mark.slow
def test_every_rule_judges_a_trial(benchmark: Any, tmp_path: Path) -> None:
    """A slow-down by several times the step: nobody misses it, on any machine."""
    kept = benchmark.Kept(tmp_path / "trials.jsonl")
    runner = benchmark.Runner(kept, {"compute": {0.1: 200_000.0}}, {"compute": {0.1: 10.0}})
    runner.run(benchmark.Trial("compute", 0, 0.1, 0))
    (found,) = kept.lines
    assert found["claims"] == dict.fromkeys(benchmark.RULES, 1)
    assert set(found["took_s"]) == {"ours", "sequential", "torch"}
    assert found["ours"]["interval"][0] > 2
    primitives = benchmark.primitives()
    assert 0 < primitives["bare_step_ns"] < primitives["timed_step_ns"]
