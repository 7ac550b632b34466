"""Names of the arms' own modules that one arm changes and the other sees."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.shared import SharedNames

WORKLOAD = """
import neighbour_of_arms
from stepprof_lab import Step

SLOW = False
SIZE = 4
WORDS = "plain"
OPTIONS = {{"slow": False}}
calls = 0
ready = False
cache = []

class Config:
    slow = False

def helper():
    return 1.0

def make(slow):
    world = {clock}
    def step():
        global calls
        calls += 0
        {step}
        world.now += 0.004 if slow() else 0.002
        return 1.0
    return Step(step)

def build(device):
    {before}
    return make(lambda: SLOW)

def build_after(device):
    global SLOW, SIZE, WORDS, calls, helper
    {after}
    return make(lambda: SLOW)
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, world: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a workload with lines of its own in the builds and in the step, and a module beside it."""
    (tmp_path / "neighbour_of_arms.py").write_text("FAST = False\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, "clock_of_this_test", world)

    def write_it(*, before: str = "pass", after: str = "pass", step: str = "pass") -> Path:
        path = tmp_path / "shared_arms.py"
        clock = "__import__('sys').modules['clock_of_this_test']"
        path.write_text(WORKLOAD.format(before=before, after=after, step=step, clock=clock), encoding="utf-8")
        return path

    yield write_it
    for name in ("neighbour_of_arms", "shared_arms"):
        sys.modules.pop(name, None)


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Callable[[Path], Validation]:
    def run(path: Path, scenario: Scenario | None = None) -> Validation:
        asked = scenario or ask()
        return compare(
            str(path), f"{path}:build_after", asked, device=cpu, clock=world.clock, meter=meter, replicates=2
        )

    return run


@pytest.mark.parametrize("which", ["before", "after"])
@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("globals().update(SLOW=True)", "shared_arms.SLOW", "True"),
        ("globals().update(SIZE=8)", "shared_arms.SIZE", "8"),
        ("globals().update(WORDS='a secret')", "shared_arms.WORDS", None),
        ("OPTIONS['slow'] = True", "shared_arms.OPTIONS.slow", "True"),
        ("Config.slow = True", "shared_arms.Config.slow", "True"),
        ("neighbour_of_arms.FAST = True", "neighbour_of_arms.FAST", "True"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_flag_that_one_arm_sets_is_not_comparable(
    write: Write, judge: Any, which: str, line: str, name: str, value: str | None
) -> None:
    found = judge(write(**{which: line}))
    assert found.verdict == "not comparable"
    given = f" (to {value})" if value else ""
    other = "before" if which == "after" else "after"
    assert found.reasons[0].startswith(
        f"arm {which} changes {name}{given} while it is built or runs, and arm {other} sees it: both live in one"
    )
    assert found.blocks == []
    assert "secret" not in str(found)


def test_a_function_that_is_replaced_is_found(write: Write, judge: Any) -> None:
    found = judge(write(after="globals().update(helper=lambda: 2.0)"))
    assert found.reasons[0].startswith("arm after changes shared_arms.helper while")


def test_settings_that_both_arms_set_differently_are_found(write: Write, judge: Any) -> None:
    found = judge(write(before="globals().update(SIZE=6)", after="globals().update(SIZE=8)"))
    assert found.verdict == "not comparable"
    assert "shared_arms.SIZE (to 8)" in found.reasons[0]


def test_a_flag_that_a_late_step_sets_is_found(write: Write, judge: Any, world: Any) -> None:
    late = "globals().update(late=globals().get('late', 0) + 1); OPTIONS.update(slow=OPTIONS['slow'] or late > 300)"
    found = judge(write(step=late))
    assert "shared_arms.OPTIONS" in " ".join(found.reasons)


@pytest.mark.parametrize(
    "line",
    [
        "globals().update(SIZE=8)",  # the same in both
        "cache.append(object())",  # data, not a setting
        "globals().update(ready=ready or bool(cache.append(1)) or True)",  # filled once, by whoever comes first
    ],
)
def test_what_both_arms_set_alike_or_fill_once_is_no_difference(write: Write, judge: Any, line: str) -> None:
    found = judge(write(before=line, after=line))
    assert found.verdict == "equivalent"
    assert not any("changes" in one and "cache" not in one for one in found.reasons)


def test_a_counter_of_both_is_told_and_no_obstacle(write: Write, judge: Any) -> None:
    found = judge(write(step="globals().update(calls=calls + 1)"))
    assert found.verdict == "equivalent"
    assert any("changes shared_arms.calls while it is built or runs" in one for one in found.reasons)


def test_what_belongs_together_is_not_torn_apart_for_good(write: Write, judge: Any) -> None:
    """Putting a flag back between the rehearsals may break a module: then it is left as the first arm left it."""
    once = "assert ready or not cache; cache.append(1); globals().update(ready=True)"
    found = judge(write(before=once, after=once))
    assert found.verdict == "equivalent"


def test_libraries_and_this_package_are_not_watched(write: Write, tmp_path: Path) -> None:
    path = write()
    description = importlib.util.spec_from_file_location("shared_arms", path)
    assert description is not None
    assert description.loader is not None
    module = importlib.util.module_from_spec(description)
    sys.modules["shared_arms"] = module
    description.loader.exec_module(module)
    names = SharedNames(module.build).held()
    assert {name[0] for name in names} == {"shared_arms", "neighbour_of_arms"}
    assert SharedNames(compare).held() == {}
