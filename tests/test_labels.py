"""Labels: they tell whoever listens, and cost nothing where nobody does."""

from __future__ import annotations

import itertools
import threading
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


def test_a_label_object_inside_itself_ends_each_region_with_its_own_token(listener: Listener) -> None:
    numbers = itertools.count()
    listener.enter = lambda name, role: next(numbers)  # type: ignore[method-assign]
    region = label("same")
    with region, region:
        with region:
            pass
    with region:
        pass
    assert listener.heard == [("exit", token) for token in (2, 1, 0, 3)]


def test_a_label_object_in_two_threads_ends_the_region_of_each(listener: Listener) -> None:
    listener.enter = lambda name, role: threading.get_ident()  # type: ignore[method-assign]
    listener.exit = lambda token: listener.heard.append(token == threading.get_ident())  # type: ignore[method-assign]
    region, inside, leave = label("same"), threading.Event(), threading.Event()

    def elsewhere() -> None:
        with region:
            inside.set()
            assert leave.wait(20)

    thread = threading.Thread(target=elsewhere)
    with region:
        thread.start()
        assert inside.wait(20)
    leave.set()
    thread.join()
    assert listener.heard == [True, True]
    assert region._open is None


@pytest.mark.parametrize("outer_is_heard", [True, False])
def test_a_region_that_nobody_heard_begin_ends_no_other(listener: Listener, outer_is_heard: bool) -> None:
    """A capture begins or ends between the two."""
    region = label("same")
    set_recorder(listener if outer_is_heard else None)
    with region:
        set_recorder(None if outer_is_heard else listener)
        with region:
            pass
        listener.heard.append("after the inner one")
    inner = [("enter", "same", None), ("exit", "same"), "after the inner one"]
    outer = [("enter", "same", None), "after the inner one", ("exit", "same")]
    assert listener.heard == (outer if outer_is_heard else inner)


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
