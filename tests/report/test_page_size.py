"""A page stays below its bound whatever a trace holds, and says in words what it leaves out for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.report.html import LARGEST, page
from stepprof_lab.report.svg import timeline_svg
from stepprof_lab.trace import interpret

Events = Iterator[dict[str, Any]]


def span(category: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    device = category == "kernel"
    placed = {"device": 0, "stream": tid} if device else {}
    where = {"pid": 0 if device else 1, "tid": tid}
    return {"ph": "X", "cat": category, "name": name, **where, "ts": ts, "dur": dur, "args": {**placed, **args}}


def steps(duration: float) -> Events:
    for n in range(2):
        yield span("user_annotation", f"ProfilerStep#{n}", 1, duration / 2 * n, duration / 2)


def many_labels(n: int) -> Events:
    """Each label once, each with a name of its own."""
    yield from steps(10.0 * n)
    for i in range(n):
        yield span("user_annotation", f"batch {i:06x} of {i * 7919 % 99991}", 1, 10.0 * i, 9.5)


def many_operators(n: int) -> Events:
    """Each with its own name and its own shapes."""
    yield from steps(10.0 * n)
    for i in range(n):
        yield span("cpu_op", f"custom::op{i * 7919:x}", 1, 10.0 * i, 9.0, **{"Input Dims": [[i, i + 1], [i, 3, 4, 5]]})


def long_names(n: int) -> Events:
    """Names of five thousand characters that nothing makes shorter."""
    yield from steps(10.0 * n)
    for i in range(n):
        name = "".join(f"{(i + 1) * (k + 3) * 2654435761 % 2**32:08x}" for k in range(625))
        kind = ("cpu_op", "user_annotation", "kernel")[i % 3]
        yield span(kind, name, 7 if kind == "kernel" else 1, 10.0 * i, 9.0)


def many_lanes(n: int) -> Events:
    """Threads and streams by the dozen, each with work at every pixel, in twelve levels."""
    yield from steps(12.0 * max(n // 240, 1))
    for i in range(n):
        lane, place = i % 20, i // 20
        at, level = 12.0 * (place // 12), place % 12
        yield span("cpu_op", f"op {i}", lane, at + 0.1 * level, 11.9 - 0.2 * level)
        yield span("kernel", f"kernel {i}", 1000 + lane, at + 0.1 * level, 11.5, correlation=i + 1)


def many_steps(n: int) -> Events:
    """No step is long, and each reads its batch."""
    for i in range(n):
        yield span("user_annotation", f"ProfilerStep#{i}", 1, 10.0 * i, 9.9)
        yield span("user_annotation", "read_batch", 1, 10.0 * i + 1, 8)
        yield span("cuda_runtime", "cudaLaunchKernel", 1, 10.0 * i + 9.1, 0.5, correlation=i + 1)
        yield span("kernel", "gemm", 7, 10.0 * i + 9.4, 0.5, correlation=i + 1)


def written(path: Path, events: Events) -> Path:
    text = ",\n".join(map(json.dumps, events))
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{text}]}}', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("make", "count", "said"),
    [
        (many_labels, 4_000, "further label"),
        (many_operators, 3_000, "further operator"),
        (long_names, 600, "characters cut here"),
        (many_lanes, 6_000, "with fewer spans are left out"),
        (many_steps, 2_000, "further step"),
        *(
            pytest.param(*given, marks=pytest.mark.slow)
            for given in (
                (many_labels, 60_000, "further label"),
                (many_operators, 200_000, "further operator"),
                (long_names, 3_000, "characters cut here"),
                (many_lanes, 100_000, "with fewer spans are left out"),
                (many_steps, 20_000, "further step"),
            )
        ),
    ],
)
def test_a_page_stays_small(tmp_path: Path, make: Callable[[int], Events], count: int, said: str) -> None:
    read = interpret(written(tmp_path / "trace.json", make(count)))
    made = page(interpretation=read)
    assert len(made.encode()) <= LARGEST
    assert said in re.sub(r"<[^>]*>", "", made)
    assert len(timeline_svg(read.timeline, read.analysis.findings).encode()) <= 2_000_000


@pytest.mark.slow
def test_a_still_picture_of_very_many_bars_says_what_it_does_not_show(tmp_path: Path) -> None:
    read = interpret(written(tmp_path / "trace.json", many_lanes(60_000)))
    picture = timeline_svg(read.timeline)
    assert picture.count("<rect") < 6_000
    assert re.search(r"A gap shorter than \d+ pixels is not seen", picture)
