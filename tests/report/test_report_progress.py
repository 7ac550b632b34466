"""Progress: a bar on a terminal, few lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from stepprof_lab.report.progress import drawn


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_piped_progress_says_begin_end_and_little_between() -> None:
    stream, clock = io.StringIO(), Clock()
    with drawn(Console(file=stream), clock=clock) as progress:
        for done in range(101):
            progress("approach", done, 100)
            clock.now += 0.1
        progress("window", 1, 4)
        progress("window", 4, 4)
        progress("window", 4, 4)
    said = lines_of(stream)
    assert said[0] == "approach: 0 of 100"
    assert said[-3:] == ["approach: 100 of 100", "window: 1 of 4", "window: 4 of 4"]
    # 10 s of steps: a line about every two seconds.
    assert 5 <= len(said) - 3 <= 7


def test_a_part_that_comes_again_is_said_again() -> None:
    stream, clock = io.StringIO(), Clock()
    with drawn(Console(file=stream), clock=clock) as progress:
        progress("a", 1, 1)
        progress("b", 1, 1)
        progress("a", 1, 1)
    assert lines_of(stream) == ["a: 1 of 1", "b: 1 of 1", "a: 1 of 1"]


def test_plain_on_a_terminal_redraws_nothing() -> None:
    stream = io.StringIO()
    with drawn(Console(file=stream, force_terminal=True), plain=True) as progress:
        progress("approach [bold]", 1, 2)
    assert lines_of(stream) == ["approach [bold]: 1 of 2"]


def test_an_unknown_total_is_not_made_up() -> None:
    stream = io.StringIO()
    with drawn(Console(file=stream)) as progress:
        progress("waiting", 3, 0)
    assert lines_of(stream) == ["waiting: 3"]


def test_quiet_says_nothing() -> None:
    stream = io.StringIO()
    with drawn(Console(file=stream, force_terminal=True), quiet=True) as progress:
        progress("approach", 1, 2)
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)
    with drawn(console) as progress:
        progress("approach [bold]", 1, 20)
        progress("approach [bold]", 20, 20)
    shown = stream.getvalue()
    assert "approach [bold]" in shown
    assert "20/20" in shown


def test_an_error_inside_passes_through_and_ends_the_bar() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)

    def interrupted() -> None:
        with drawn(console) as progress:
            progress("approach", 1, 20)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    # The cursor that the bar hid is back.
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")
