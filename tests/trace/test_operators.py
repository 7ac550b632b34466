"""Self, total and launched time of operators; times in microseconds."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from stepprof_lab.trace import operators


def by_name(analysis):
    return {operator.name: operator for operator in analysis.operators}


def test_self_time_takes_away_direct_children_only(build, read):
    built = build().step(1, 0, 100).operator("outer", 0, 100).operator("inner", 10, 50).launch(1, 20, 5)
    built.label("note", 70, 10).operator("deep", 72, 3)
    found = by_name(read(built).analysis)
    assert found["outer"].cpu_self_us == 100 - 50 - 10
    assert found["inner"].cpu_self_us == 50 - 5
    assert found["deep"].cpu_self_us == 3
    assert [found[name].cpu_sum_us for name in ("outer", "inner", "deep")] == [100, 50, 3]
    assert [operator.name for operator in read(built).analysis.operators] == ["inner", "outer", "deep"]


def test_a_child_that_ends_later_counts_up_to_its_parents_end(build, read):
    found = by_name(read(build().operator("outer", 0, 100).operator("late", 90, 30).operator("next", 105, 5)).analysis)
    assert found["outer"].cpu_self_us == 90
    # "next" starts after its thread's outer span ended, but inside the late one.
    assert found["late"].cpu_self_us == 25


def test_of_two_that_start_together_the_longer_is_the_parent(build, read):
    found = by_name(read(build().operator("short", 0, 10).operator("long", 0, 30)).analysis)
    assert (found["long"].cpu_self_us, found["short"].cpu_self_us) == (20, 10)
    same = by_name(read(build().operator("first", 0, 10).operator("second", 0, 10)).analysis)
    assert (same["first"].cpu_self_us, same["second"].cpu_self_us) == (0, 10)


def test_threads_do_not_nest_in_each_other(build, read):
    found = by_name(read(build().operator("a", 0, 100).operator("b", 10, 20, tid=7)).analysis)
    assert found["a"].cpu_self_us == 100


def test_python_functions_and_steps_are_no_children_and_no_operators(build, read):
    built = build().add("Operator", "ProfilerStep#1", 0, 50).add("Operator", "aten::mm", 5, 20)
    built.add("python_function", "f", 6, 10)
    found = by_name(read(built).analysis)
    assert set(found) == {"aten::mm"}
    assert found["aten::mm"].cpu_self_us == 20


def test_device_time_counts_launches_inside_the_call_on_its_thread(build, read):
    built = build().operator("wrapper", 0, 50).operator("inner", 5, 10).operator("other", 0, 50, tid=7)
    built.launch(1, 6).kernel(1, 100, 30).launch(2, 20).kernel(2, 130, 8).launch(3, 50).kernel(3, 140, 99)
    built.operator("inner", 60, 10).launch(4, 60).kernel(4, 300, 1).kernel(4, 301, 2).kernel(9, 310, 5)
    found = by_name(read(built).analysis)
    assert found["inner"].gpu_sum_us == 30 + 1 + 2
    assert found["wrapper"].gpu_sum_us == 30 + 8
    assert found["other"].gpu_sum_us == 0
    assert found["inner"].calls == 2


def test_shapes_are_listed_once_and_the_most_frequent_first(build, read):
    built = build().operator("mm", 0, 1, dims=[[2, 3], [3, 4]]).operator("mm", 2, 1, dims=[[], [5]])
    built.operator("mm", 4, 1, dims=[[], [5]]).operator("plain", 6, 1)
    found = by_name(read(built).analysis)
    assert found["mm"].shapes == ["[[], [5]]", "[[2, 3], [3, 4]]"]
    assert found["plain"].shapes is UNSET


def test_many_shapes_are_cut_and_counted(build, read):
    built = build()
    for size in range(operators.MAX_SHAPES + 5):
        built.operator("mm", size * 2, 1, dims=[[size]])
    shapes = by_name(read(built).analysis)["mm"].shapes
    assert len(shapes) == operators.MAX_SHAPES + 1
    assert shapes[-1] == "and 5 more"


@pytest.mark.parametrize("origin", [0.0, 1.6e15])
def test_sums_are_exact_however_late_the_clock(build, read, origin):
    built = build(origin)
    for n in range(1000):
        built.operator("mm", 10 * n, 0.001 if origin == 0 else 1)
    assert by_name(read(built).analysis)["mm"].cpu_sum_us == (1.0 if origin == 0 else 1000.0)
