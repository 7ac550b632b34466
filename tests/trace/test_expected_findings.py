"""Each real trace gives what was written down about it before the findings were programmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepprof_lab.trace import interpret

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
EXPECTED = json.loads(Path(__file__).with_name("expected_findings.json").read_text(encoding="utf-8"))["traces"]


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_findings(name):
    if not (TRACES / name).exists():
        pytest.skip("the real traces are not here")
    analysis = interpret(TRACES / name).analysis
    assert {finding.id for finding in analysis.findings} == set(EXPECTED[name]["findings"])
    assert len(analysis.findings) == len(EXPECTED[name]["findings"])
    assert analysis.regime == EXPECTED[name]["regime"]
    for finding in analysis.findings:
        assert finding.share_of_step is None or 0 < finding.share_of_step <= 1
        assert finding.evidence
        assert "%" not in finding.hypothesis


def test_every_real_trace_is_written_down():
    if not TRACES.is_dir():
        pytest.skip("the real traces are not here")
    files = {p.name for p in TRACES.iterdir() if p.name.endswith((".json", ".json.gz"))} - {"golden.json"}
    assert set(EXPECTED) == files
