"""Lab 03's arithmetic beside the interpreter's, on the same constructed steps; and what its cases must have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stepprof_lab.grading import ideas, spans
from stepprof_lab.grading.items import Item
from stepprof_lab.grading.labs import lab03
from stepprof_lab.grading.spans import Span
from stepprof_lab.report import exercise
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Analysis
from tests.trace.build import MAIN, Built

SEEDS = range(12)


def as_trace(found: list[Span], path: Path) -> Path:
    """The same spans as a trace that the interpreter reads."""
    built = Built(origin_us=1_000_000)
    launches = iter(range(1, 1000))
    for one in found:
        start, duration = round(1000 * one["start_ms"]), round(1000 * spans.length(one))
        number = int(one["lane"].split()[1])
        thread = MAIN if one["lane"] == spans.MAIN else MAIN + number
        device = {"pid": 0, "tid": number, "args": {"device": 0, "stream": number}}
        if one["kind"] == "step":
            built.step(1, start, duration)
        elif one["kind"] == "label":
            built.label(one["name"], start, duration, tid=thread)
        elif one["kind"] == "operator":
            built.operator(one["name"], start, duration, tid=thread)
        elif one["kind"] == "launch":
            built.launch(next(launches), start, duration, tid=thread, name=one["name"])
        elif one["kind"] == "kernel":
            built.kernel(900 + next(launches), start, duration, stream=number)
        elif one["kind"] == "copy":
            built.add("gpu_memcpy", one["name"], start, duration, **device)
        else:
            built.add("gpu_user_annotation", one["name"], start, duration, **device)
    return built.write(path)


def analysis_of(found: list[Span], path: Path) -> Analysis:
    return interpret(as_trace(found, path)).analysis


@pytest.mark.parametrize("seed", SEEDS)
def test_the_right_values_are_the_interpreter_s(seed: int, tmp_path: Path) -> None:
    made = spans.make_step(random.Random(seed))
    analysis = analysis_of(made, tmp_path / "a.json")
    (step,) = analysis.steps
    assert step.cpu_us == pytest.approx(1000 * spans.elapsed(made), abs=1e-3)
    assert step.gpu_busy_in_window_us == pytest.approx(1000 * spans.busy(made), abs=1e-3)
    rows = {row.name: row for row in analysis.operators}
    assert set(rows) == {one["name"] for one in made if one["kind"] == "operator"}
    for name, row in rows.items():
        assert row.calls == len(spans.named(made, name))
        assert row.cpu_sum_us == pytest.approx(1000 * spans.total(made, name), abs=1e-3)
        assert row.cpu_self_us == pytest.approx(1000 * spans.own(made, name), abs=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_adds_up_to_three_times_the_wall_and_its_self_times_to_the_wall(seed: int) -> None:
    table = lab03.make_table(random.Random(seed))
    wall = table["traced_step_ms"]
    assert sum(row["total_ms"] for row in table["rows"]) == pytest.approx(3 * wall, rel=0.06)
    assert sum(row["self_ms"] for row in table["rows"]) == pytest.approx(wall, abs=0.002 * len(table["rows"]))
    assert table["gpu_busy_ms"] < min(table["gpu_sum_ms"], wall)


def test_a_step_has_what_the_mistakes_need() -> None:
    made = spans.make_step(random.Random(0))
    step = spans.step_of(made)
    work = [one for one in made if one["kind"] in spans.WORK]
    assert any(one["start_ms"] < step["start_ms"] < one["end_ms"] for one in work)
    assert any(one["end_ms"] > step["end_ms"] for one in work)
    assert {one["lane"] for one in work} == set(spans.STREAMS)
    assert any(one["kind"] == "copy" and one["end_ms"] < step["end_ms"] for one in work)


@pytest.mark.parametrize("item", [one for one in lab03.LAB.items if one.visible > 1], ids=lambda one: one.id)
def test_no_wrong_idea_is_right_on_any_case(item: Item) -> None:
    wrong = {
        "03/elapsed_ms": lab03.ELAPSED_IDEAS,
        "03/total_ms": lab03.TOTAL_IDEAS,
        "03/self_ms": lab03.OWN_IDEAS,
        "03/busy_ms": lab03.BUSY_IDEAS,
    }[item.id]
    for seed in SEEDS:
        case = item.draw(random.Random(seed))
        right = {
            "03/elapsed_ms": lambda one: spans.elapsed(one["spans"]),
            "03/total_ms": lambda one: spans.total(one["spans"], one["name"]),
            "03/self_ms": lambda one: spans.own(one["spans"], one["name"]),
            "03/busy_ms": lambda one: spans.busy(one["spans"]),
        }[item.id](case)
        assert ideas.differ_from(right, case, wrong, lab03.TOLERANCE, lab03.ROUNDING_MS)


def test_the_picture_shows_every_lane_and_every_kind() -> None:
    made = spans.make_step(random.Random(0))
    shown = exercise.spans(made)
    drawn = shown._repr_html_()
    text = repr(shown)
    for lane in {one["lane"] for one in made} - {spans.MAIN}:
        assert lane in drawn
        assert lane in text
    assert text.count("|") == 2 * len(made)
    for kind in ("label train", "kernel", "copy", "runtime", "operator"):
        assert kind in drawn


def test_the_picture_of_step_times_tells_the_slowest() -> None:
    shown = exercise.steps({"a": [24.0, 3.0, *[2.0] * 60, 12.0, *[2.0] * 20], "<b>": [1.0]})
    assert "62 (12.0)" in repr(shown)
    drawn = shown._repr_html_()
    assert "step 62: 12 ms" in drawn
    assert "<b>" not in drawn
