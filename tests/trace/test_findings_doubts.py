"""A trace from which device work is missing: what looks idle in it is not judged, and the first line says why."""

from __future__ import annotations

import gzip
import io
import json

import pytest
from rich.console import Console

from stepprof_lab.construct import Construct
from stepprof_lab.report.brief import brief
from stepprof_lab.report.text import show_analysis
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Approach, Context
from stepprof_lab.trace.redact import redact

IDLE = {
    "input-wait",
    "small-launches",
    "dominant-operator",
    "host-sync",
    "host-bound",
    "pageable-copy",
    "exposed-communication",
}
"""Findings that read idle time, or the own time of an operator whose calls may be missing."""


def loop(*, python=1.0, reading=0.0):
    """Three steps in which the device waits for the host or for a batch; all of it is in the trace."""
    t = Construct("cuda")
    for _ in range(3):
        with t.step():
            if reading:
                with t.label("read_batch"):
                    t.cpu(reading)
            with t.label("train"):
                for i in range(10):
                    with t.operator(f"aten::op{i}"):
                        t.cpu(python)
                        t.launch(f"kernel{i}", device=0.5)
    return t


def analysis_of(tmp_path, text, **context):
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    return interpret(path, Context(**context)).analysis


def cut_short(text):
    """The text up to the inside of its last event."""
    return text[: text.rindex(b'"ph"')]


def ids(analysis):
    return {finding.id for finding in analysis.findings}


def changed(made, change):
    """The trace with each event as `change` gives it back; those for which it gives None are left out."""
    file = json.loads(made.to_bytes())
    events = [change(dict(event)) for event in file["traceEvents"]]
    return json.dumps({**file, "traceEvents": [event for event in events if event is not None]}).encode()


def is_kernel(event, name=""):
    return event.get("cat") == "kernel" and event["name"].startswith(name)


# ---- cut ----


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("cuda_v100_dlrm_diff_test.json.gz", 0.5),
        ("cuda_h100_qwen05b_infer_stack_mem.json.gz", 0.8),
        ("cuda_v100_tbplugin_resnet50_workers0.json.gz", 0.8),
    ],
)
def test_a_real_trace_that_was_cut_gives_no_finding_about_idle_time(tmp_path, traces, name, part):
    # Whole, these three are idle for the host for 0.0, 2.8 and 9.0 % of their steps; cut, for 79, 53 and 40 %.
    text = gzip.decompress((traces / name).read_bytes())
    analysis = analysis_of(tmp_path, text[: int(len(text) * part)])
    assert not ids(analysis) & IDLE
    assert analysis.regime == "undecided"
    assert analysis.regime_reason.startswith("the file is cut short")
    assert "need not be idle" in analysis.regime_reason
    said = "cannot be decided from this trace: the file is cut short"
    assert brief(analysis).splitlines()[0] == f"**Regime: {said}**"
    console = Console(file=io.StringIO(), width=200)
    show_analysis(analysis, console)
    assert console.file.getvalue().splitlines()[0].split(maxsplit=1) == ["Regime", said]


@pytest.mark.parametrize("name", ["truncated_mid_event.json", "truncated_gzip.json.gz"])
def test_a_malformed_trace_that_was_cut_gives_none_either(traces, name):
    analysis = interpret(traces / "malformed" / name).analysis
    assert not ids(analysis) & IDLE
    assert analysis.regime_reason.startswith("the file is cut short")


def test_what_stands_on_what_is_there_is_still_found(traces):
    analysis = interpret(traces / "malformed" / "truncated_mid_event.json").analysis
    assert ids(analysis) == {"unsteady-window", "gpu-partly-observed"}


def test_a_cut_file_without_device_work_is_no_run_on_the_cpu(tmp_path, traces):
    analysis = interpret(traces / "malformed" / "truncated_gzip.json.gz").analysis
    assert analysis.gpu.reason == "no device event is in what could be read of the file: the file is cut short"
    (finding,) = [one for one in analysis.findings if one.id == "gpu-not-observed"]
    assert "the file is cut short" in finding.hypothesis
    assert "on the CPU" not in finding.hypothesis


@pytest.mark.parametrize("made", [loop(), loop(python=0.1, reading=20.0)], ids=["host", "input"])
def test_the_same_trace_is_judged_whole_and_not_cut(tmp_path, made):
    text = made.to_bytes()
    assert ids(analysis_of(tmp_path, text)) & IDLE
    cut = analysis_of(tmp_path, cut_short(text))
    assert not ids(cut) & IDLE
    assert cut.regime == "undecided"
    assert cut.not_worth == []
    assert not any("waiting for input" in note for note in cut.notes)


def test_the_copies_of_a_cut_trace_are_seen_and_their_cost_is_not_said(tmp_path):
    t = Construct("cuda")
    for _ in range(3):
        with t.step():
            with t.label("transfer"):
                t.copy("HtoD", device=0.1, bytes=4096, pinned=True)
            with t.label("train"):
                with t.operator("aten::copy_"):
                    t.copy("HtoD", device=1.0, bytes=512, pinned=True)
                t.launch("kernel", device=3.0)
                t.wait()
    text = t.to_bytes()
    (whole,) = [one for one in analysis_of(tmp_path, text).findings if one.id == "repeated-copy"]
    assert whole.share_of_step is not None
    (cut,) = [one for one in analysis_of(tmp_path, cut_short(text)).findings if one.id == "repeated-copy"]
    assert cut.share_of_step is None
    assert "What they cost cannot be said" in cut.observation
    assert " ms" not in cut.observation


# ---- set aside, lost, or at a wrong time ----


def negative(event):
    return {**event, "dur": -event["dur"]} if is_kernel(event, "kernel3") else event


def misspelt(event):
    return {**event, "cat": "kernal"} if is_kernel(event, "kernel3") else event


def strange(event):
    return {**event, "cat": "mtia_ccp_events"} if is_kernel(event, "kernel3") else event


def gone(event):
    return None if is_kernel(event, "kernel3") else event


def early(event):
    return {**event, "ts": event["ts"] - 5000} if is_kernel(event, "kernel3") else event


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (negative, "3 device events could not be used"),
        (misspelt, "3 of 30 calls that queue device work have no device work linked to them"),
        (gone, "3 of 30 calls that queue device work have no device work linked to them"),
        (early, "3 of 30 device events start before their launch"),
    ],
)
def test_device_work_that_is_missing_or_at_a_wrong_time(tmp_path, change, said):
    analysis = analysis_of(tmp_path, changed(loop(), change))
    assert not ids(analysis) & IDLE
    assert analysis.regime == "undecided"
    assert said in analysis.regime_reason


def test_a_broken_label_is_no_doubt_about_the_device(tmp_path):
    def broken(event):
        return {**event, "dur": -1} if event["name"] == "train" else event

    assert "host-bound" in ids(analysis_of(tmp_path, changed(loop(), broken)))


def test_the_approach_of_a_trace_with_missing_work_decides_nothing(tmp_path):
    approach = Approach(steps_ms=[20.0] * 20, labels_ms={"read_batch": [15.0] * 20}, loader_workers=0, wanted_steps=20)
    text = loop(python=0.1, reading=20.0).to_bytes()
    assert analysis_of(tmp_path, text, approach=approach).regime == "input"
    assert analysis_of(tmp_path, cut_short(text), approach=approach).regime == "undecided"


# ---- a copy for sharing is a sound file, and still says what its original lacks ----


@pytest.mark.parametrize(
    ("name", "part"),
    [("cuda_h100_qwen05b_infer_stack_mem.json.gz", 0.8), ("cuda_v100_tbplugin_resnet50_workers0.json.gz", 0.3)],
)
def test_the_copy_of_a_cut_trace_says_that_it_was_cut(tmp_path, traces, name, part):
    text = gzip.decompress((traces / name).read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: int(len(text) * part)])
    assert_the_copy_concludes_the_same(tmp_path, path)


@pytest.mark.parametrize("change", [negative, misspelt, strange, gone, early])
def test_the_copy_of_a_damaged_trace_concludes_the_same(tmp_path, change):
    path = tmp_path / "damaged.json"
    path.write_bytes(changed(loop(), change))
    assert_the_copy_concludes_the_same(tmp_path, path)


def assert_the_copy_concludes_the_same(tmp_path, path):
    copy, again = tmp_path / "copy.json", tmp_path / "again.json"
    copy.write_bytes(redact(path).data)
    again.write_bytes(redact(copy).data)
    first, *others = (interpret(one).analysis for one in (path, copy, again))
    for other in others:
        assert other.doubts == first.doubts
        assert other.regime_reason == first.regime_reason
        assert [finding.id for finding in other.findings] == [finding.id for finding in first.findings]
        assert [finding.share_of_step for finding in other.findings] == [f.share_of_step for f in first.findings]


@pytest.mark.parametrize("said", [{"missing": 7, "unusable": "x"}, {"missing": [None, {}], "unusable": -1}, [], "cut"])
def test_what_a_file_says_of_its_original_in_no_usable_form_is_passed_over(tmp_path, said):
    file = json.loads(loop().to_bytes())
    analysis = analysis_of(tmp_path, json.dumps({**file, "stepprof_lab": said}).encode())
    assert "host-bound" in ids(analysis)
