"""Each finding that has a place in the program names the user's own line, or says how to get it."""

from __future__ import annotations

import contextlib

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.trace import interpret

HOW = "stepprof profile --stacks"
LINE = "/home/me/lab/train.py"


def reading(stacks):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), at(t, stacks, 3):
            with at(t, stacks, 4), t.label("read_batch"):
                t.cpu(5.0)
            t.launch("gemm", device=1.0)
            t.wait()
    return t


def communicating(stacks):
    t = Construct("cuda", rank=0, world_size=2)
    for _ in range(2):
        with t.step(), at(t, stacks, 3):
            t.launch("gemm", device=2.0)
            with at(t, stacks, 5):
                t.collective("all_reduce", ms=3.0)
            t.wait()
    return t


def compiling(stacks):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), at(t, stacks, 3):
            with at(t, stacks, 6), t.label("compile_fx.<locals>.fw_compiler_base (dynamo_timed)"):
                t.cpu(2.0)
            t.launch("gemm", device=1.0)
            t.wait()
    return t


def unsteady(stacks):
    t = Construct("cuda")
    for n in range(2):
        with t.step(), at(t, stacks, 3), at(t, stacks, 7), t.label("evaluate"):
            t.cpu(2.0 + 10 * n)
            t.launch("gemm", device=1.0)
            t.wait()
    return t


def at(t, stacks, line):
    return t.frame(f"{LINE}({line}): f") if stacks else contextlib.nullcontext()


CASES = [
    ("input-wait", reading, 4),
    ("exposed-communication", communicating, 5),
    ("compile-in-window", compiling, 6),
    ("unsteady-window", unsteady, 7),
]


@pytest.mark.parametrize(("ident", "make", "line"), CASES)
def test_the_line_is_named_where_the_trace_has_stacks(analyse, ident, make, line):
    (finding,) = [finding for finding in analyse(make(stacks=True)).findings if finding.id == ident]
    assert finding.evidence["lines"] == [f"{LINE}:{line}"]
    assert f"In your own code: {LINE}:{line}." in finding.observation
    assert HOW not in finding.next_check


@pytest.mark.parametrize(("ident", "make", "_line"), CASES)
def test_how_to_get_it_is_said_where_it_has_none(analyse, ident, make, _line):
    (finding,) = [finding for finding in analyse(make(stacks=False)).findings if finding.id == ident]
    assert finding.evidence["lines"] == []
    assert "In your own code" not in finding.observation
    assert HOW in finding.next_check


@pytest.mark.parametrize(
    ("trace", "ident", "line"),
    [
        ("cuda_h100_owlv2_56MB", "input-wait", "pipeline/model.py:40"),
        ("rocm_mi300_owlv2_61MB", "input-wait", "pipeline/model.py:40"),
        # Launched by the thread of the backward pass, which has no line of the user's: where the step stood then.
        ("rocm_mi300_resnet_train_3steps_ddp", "exposed-communication", "train_ddp.py:82"),
    ],
)
def test_the_lines_of_real_loops(traces, trace, ident, line):
    found = interpret(traces / f"{trace}.json.gz").analysis.findings
    (finding,) = [finding for finding in found if finding.id == ident]
    assert [place.endswith(line) for place in finding.evidence["lines"]] == [True]
