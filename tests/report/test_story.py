"""The demo in one screen: every part of the way of working, and nothing about a GPU that was not observed."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from stepprof_lab.demo.run import Demo, Summary
from stepprof_lab.report import text


def made(samples: Any) -> Demo:
    analysis, validation = samples.cpu_analysis(), samples.validation()
    summary = Summary(
        device="CPU, no GPU observed",
        regime=analysis.regime,
        findings=[finding.id for finding in analysis.findings],
        verdict=validation.verdict,
        ratio=validation.ratio,
        interval=validation.interval,
        trace="runs/x/trace.json.gz",
        record="runs/x/trace.record.json",
        validation="runs/x/validation.json",
        report="runs/x/report.html",
    )
    return Demo(summary, samples.record(), analysis, validation)


def drawn(samples: Any, *, plain: bool) -> str:
    out = io.StringIO()
    text.show_demo(made(samples), Console(file=out, width=120), plain=plain)
    return out.getvalue()


def test_the_parts_stand_in_the_order_of_the_way_of_working(samples: Any) -> None:
    said = drawn(samples, plain=False)
    heads = ["1 Ask", "2 Capture", "3 Interpret", "4 Change one thing", "5 Validate outside the profiler", "6 Report"]
    places = [said.index(head) for head in heads]
    assert places == sorted(places)
    assert "Is compute waiting for data?" in said
    assert "input-wait" in said
    assert "0.270 after / before" in said
    assert "runs/x/report.html" in said


def test_without_a_gpu_its_one_line_says_so(samples: Any) -> None:
    facts = [line for line in drawn(samples, plain=True).splitlines() if ".gpu" in line]
    assert len(facts) == 1
    assert "not observed" in facts[0]
