"""Labels: they tell whoever listens, and cost nothing where nobody does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepprof_lab.labels import Role, Step, label, set_recorder


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def enter(self, name: str, role: Role | None) -> object:
        self.heard.append(("enter", name, role))
        return name

    def exit(self, token: object) -> None:
        self.heard.append(("exit", token))


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    before = set_recorder(listener)
    yield listener
    set_recorder(before)


def test_a_label_tells_its_name_and_role(listener: Listener) -> None:
    with label("lecture", role="read"):
        listener.heard.append("inside")
    assert listener.heard == [("enter", "lecture", "read"), "inside", ("exit", "lecture")]


def test_nobody_hears_a_label_after_the_recorder_has_gone(listener: Listener) -> None:
    assert set_recorder(None) is listener
    with label("a"):
        pass
    assert listener.heard == []
    set_recorder(listener)


def test_the_recorder_that_saw_the_beginning_sees_the_end(listener: Listener) -> None:
    other = Listener()
    with label("a"):
        set_recorder(other)
    set_recorder(listener)
    assert listener.heard == [("enter", "a", None), ("exit", "a")]
    assert other.heard == []


def test_an_error_inside_a_label_passes_and_ends_it(listener: Listener) -> None:
    with pytest.raises(ValueError, match="x"), label("a"):
        raise ValueError("x")
    assert listener.heard[-1] == ("exit", "a")


def test_one_label_object_may_be_used_again(listener: Listener) -> None:
    region = label("a")
    for _ in range(2):
        with region:
            pass
    assert [entry[0] for entry in listener.heard] == ["enter", "exit"] * 2


def test_a_recorder_that_refuses_a_name_leaves_nothing_open(listener: Listener) -> None:
    def refuse(name: str, role: Role | None) -> object:
        raise ValueError(name)

    listener.enter = refuse  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="a"), label("a"):
        raise AssertionError("the region must not run")
    assert listener.heard == []


def test_a_step_has_no_state_and_no_samples_unless_stated() -> None:
    step = Step(lambda: 1)
    assert (step.run(), dict(step.state), step.samples) == (1, {}, None)
