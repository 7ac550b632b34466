"""What makes a window a capture: each check fails for what it is there for, on traces written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepprof_lab.capturing.checks import Seen, examine
from stepprof_lab.record import Check

Event = dict[str, Any]


def span(name: str, ts: float, dur: float, **more: Any) -> Event:
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, **more}


def good_events() -> list[Event]:
    events = [{"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}}]
    for number, start in ((2, 1000.0), (3, 3000.0)):
        events += [
            span(f"ProfilerStep#{number}", start, 1900.0),
            span("read", start + 10, 500.0),
            span("train", start + 600, 1000.0),
        ]
    return events


def seen(**changes: Any) -> Seen:
    calls = {"read": 1, "train": 1}
    values: dict[str, Any] = {
        "handler_calls": 1,
        "turns_ns": [2_000_000] * 4,
        "label_calls": [calls] * 4,
        "always": ["read", "train"],
        "gpu_collected": False,
        "gpu_required": False,
    }
    return Seen(**{**values, **changes})


def failed(events: list[Event], about: Seen | None = None) -> dict[str, str]:
    text = json.dumps({"traceEvents": events}).encode()
    return {check.name: check.detail for check in examine(text, about or seen()) if not check.passed}


def test_a_whole_window_passes_every_check() -> None:
    checks = examine(json.dumps({"traceEvents": good_events()}).encode(), seen())
    assert all(check.passed for check in checks)
    assert [check.name for check in checks] == [
        "handler",
        "turns",
        "file",
        "step spans",
        "no phantom step",
        "labels",
        "device events",
    ]
    assert checks[5].detail == "in each active step, inside it: read once, train once"


def test_without_labels_there_is_nothing_to_miss() -> None:
    events = [event for event in good_events() if event["name"] not in {"read", "train"}]
    checks = examine(json.dumps({"traceEvents": events}).encode(), seen(label_calls=[{}] * 4, always=[]))
    assert all(check.passed for check in checks)
    assert Check(name="labels", passed=True, detail="the workload has no labels") in checks


@pytest.mark.parametrize("calls", [0, 2])
def test_the_profiler_hands_over_once(calls: int) -> None:
    assert "handler" in failed(good_events(), seen(handler_calls=calls))


def test_two_perfect_spans_after_three_turns_are_no_capture() -> None:
    assert failed(good_events(), seen(turns_ns=[2_000_000] * 3)) == {"turns": "3 of 4 turns were run to their end"}


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"traceEvents": 3}', b"[]", b"\xff\xfe", b'{"traceEvents": [{"ts": "x"}]}']
)
def test_a_file_that_does_not_parse_is_said(text: bytes) -> None:
    checks = {check.name: check for check in examine(text, seen())}
    assert not checks["file"].passed
    assert "step spans" not in checks


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_are_exactly_two_step_spans(count: int) -> None:
    events = [span(f"ProfilerStep#{2 + i}", 1000.0 * i, 900.0) for i in range(count)]
    assert "step spans" in failed(events)


def test_the_devices_mirror_of_a_span_is_no_second_one() -> None:
    mirror = [{**event, "cat": "gpu_user_annotation", "tid": 7} for event in good_events() if event["ph"] == "X"]
    assert failed(good_events() + mirror) == {}


def test_a_span_much_shorter_than_its_turn_is_a_phantom() -> None:
    events = good_events()
    events[4]["dur"] = 9.0
    found = failed(events, seen(always=[], label_calls=[{}] * 4))
    assert list(found) == ["no phantom step"]
    assert found["no phantom step"].startswith("ProfilerStep#3 lasts 9.0 µs, its turn lasted 2000.0 µs")


def test_a_span_shorter_than_its_labels_is_a_phantom() -> None:
    events = good_events()
    events[4]["dur"] = 400.0
    assert "no phantom step" in failed(events, seen(turns_ns=[400_000] * 4))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda events: events.pop(5), "label 'read' is in the two active steps once and 0 times"),
        (
            lambda events: events.append(span("read", 3600.0, 10.0)),
            "label 'read' is in the two active steps once and twice",
        ),
        (lambda events: events[5].update(ts=4800.0), "label 'read' is not inside one step"),
        (lambda events: events[5].update(ts=2950.0), "label 'read' is not inside one step"),
        (lambda events: events[5].update(tid=2), "label 'read' is not inside one step"),
        (lambda events: [events.pop(5), events.pop(2)], "label 'read' is in the two active steps 0 times and 0 times"),
    ],
    ids=["missing once", "twice in one", "across the end", "between", "other thread", "missing"],
)
def test_labels_are_equally_often_in_both_steps_and_inside_them(change: Any, said: str) -> None:
    events = good_events()
    change(events)
    assert failed(events)["labels"].startswith(said)


def test_a_label_that_did_not_reach_the_trace_is_missed() -> None:
    calls = {"read": 1, "train": 2}
    assert "was entered [2, 2] times" in failed(good_events(), seen(label_calls=[calls] * 4))["labels"]


def test_a_label_that_runs_now_and_then_is_not_missed() -> None:
    # In the approach it ran in some steps only, and in none of the active ones.
    assert (
        failed(good_events(), seen(label_calls=[{"save": 1}, {}, {"read": 1, "train": 1}, {"read": 1, "train": 1}]))
        == {}
    )


KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1500.0, "dur": 10.0, "pid": 0, "tid": 7}


@pytest.mark.parametrize(
    ("events", "about", "passes", "said"),
    [
        ([], {}, True, "none was asked for"),
        ([], {"gpu_collected": True}, True, "on the CPU"),
        ([], {"gpu_collected": True, "gpu_required": True}, False, "no GPU event was observed"),
        ([KERNEL], {"gpu_collected": True, "gpu_required": True}, True, "1 device events"),
        ([{**KERNEL, "cat": "cuda_runtime"}], {"gpu_required": True}, False, "no GPU event was observed"),
    ],
)
def test_device_events_are_there_where_a_gpu_was_asked_for(
    events: list[Event], about: dict[str, Any], passes: bool, said: str
) -> None:
    text = json.dumps({"traceEvents": good_events() + events}).encode()
    check = examine(text, seen(**about))[-1]
    assert (check.name, check.passed) == ("device events", passes)
    assert said in check.detail
