"""A loop that is left while something else holds its iterator, and steps that would be counted twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a capture needs torch")

from stepprof_lab import labels, record  # noqa: E402
from stepprof_lab.capturing import Window, capture  # noqa: E402
from stepprof_lab.errors import StepprofError  # noqa: E402
from stepprof_lab.labels import label  # noqa: E402
from stepprof_lab.scenario import inline  # noqa: E402

BEGIN = 2
"""Steps of the approach; the active ones are then 4 and 5."""
REJECTED = ["t.rejected.json.gz", "t.rejected.record.json"]
WHOLE = ["t.json.gz", "t.record.json"]


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    before = base.__next__, base.__init__
    yield
    assert labels._recorder is None
    assert (base.__next__, base.__init__) == before
    assert not torch.autograd._profiler_enabled()


def window(path: Path) -> Window:
    asked = inline("q?", boundary="read transfer forward backward update", unit="ms/step")
    return capture(asked, path / "t.json.gz", device="cpu", begin=BEGIN)


def body() -> None:
    with label("train"):
        torch.ones(8, 8) @ torch.ones(8, 8)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


class Bar:
    """Wraps an iterable as tqdm does: it keeps it, and its own loop over it is a generator."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            try:
                yield item
            finally:
                pass


def generator(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:  # noqa: UP028 - the loop is the point
        yield item


def in_a_name(made: Window) -> Iterator[Any]:
    return iter(made)


def in_a_bar(made: Window) -> Iterable[Any]:
    return Bar(made.over(range(100)))


def in_a_generator(made: Window) -> Iterable[Any]:
    return generator(made.over(range(100)))


HOLDERS = [in_a_name, in_a_bar, in_a_generator]
Holder = Callable[[Window], Iterable[Any]]


def leave(loop: Iterable[Any], at: int, error: type[BaseException] | None = None) -> None:
    for step, _ in enumerate(loop):
        body()
        if step == at:
            if error is not None:
                raise error
            break


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("turn", [4, 5])
def test_an_error_in_a_loop_whose_iterator_is_held_leaves_nothing(
    hold: Holder, error: type[BaseException], turn: int, tmp_path: Path
) -> None:
    def train() -> None:
        loop = hold(window(tmp_path))
        with pytest.raises(error):
            leave(loop, turn, error)
        del loop

    with pytest.warns(RuntimeWarning, match="nothing is kept: something else than the loop held its iterator"):
        train()
    assert names(tmp_path) == []


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
def test_a_break_out_of_a_held_loop_keeps_nothing_and_says_what_to_do(hold: Holder, tmp_path: Path) -> None:
    def train() -> None:
        loop = hold(window(tmp_path))
        leave(loop, 4)
        del loop

    with pytest.warns(RuntimeWarning, match=r"in turn 3 of 4 of the window; nothing is kept.*with capture\(\.\.\.\)"):
        train()
    assert names(tmp_path) == []


def test_an_error_that_was_handled_in_the_same_function_leaves_nothing_of_a_held_loop(tmp_path: Path) -> None:
    def train() -> None:
        loop = iter(window(tmp_path))
        try:
            for step in loop:
                body()
                if step == 5:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        del loop

    with pytest.warns(RuntimeWarning, match="nothing is kept"):
        train()
    assert names(tmp_path) == []


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
def test_a_held_loop_that_runs_to_its_end_is_captured(hold: Holder, tmp_path: Path) -> None:
    loop = hold(window(tmp_path))
    leave(loop, 1000)
    assert names(tmp_path) == WHOLE


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
def test_by_with_a_break_is_known_whoever_holds_the_iterator(hold: Holder, tmp_path: Path) -> None:
    def train() -> None:
        with window(tmp_path) as made:
            loop = hold(made)
            leave(loop, 4)

    with pytest.warns(RuntimeWarning, match="kept as t.rejected.json.gz"):
        train()
    assert names(tmp_path) == REJECTED


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
def test_by_with_an_error_is_known_whoever_holds_the_iterator(hold: Holder, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), window(tmp_path) as made:
        loop = hold(made)
        leave(loop, 4, KeyboardInterrupt)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "wrap", [enumerate, lambda made: zip(made, range(100), strict=False)], ids=["enumerate", "zip"]
)
def test_what_only_passes_the_steps_on_does_not_hide_a_break(wrap: Callable[[Any], Any], tmp_path: Path) -> None:
    def train() -> None:
        for step, _ in wrap(window(tmp_path)):
            body()
            if step == 4:
                break

    with pytest.warns(RuntimeWarning, match="kept as t.rejected.json.gz"):
        train()
    assert names(tmp_path) == REJECTED


def test_a_second_capture_says_how_to_end_the_first(tmp_path: Path) -> None:
    made = window(tmp_path)
    loop = iter(made)
    leave(loop, 4)
    with pytest.raises(StepprofError, match=r"another one is made \('t.json.gz'\)") as caught:
        window(tmp_path / "second").start()
    assert "call close() on what capture() returned" in str(caught.value)
    with pytest.warns(RuntimeWarning, match="kept as"):
        made.close()
    leave(iter(window(tmp_path / "second")), 1000)
    assert names(tmp_path / "second") == WHOLE


# --- steps that would be counted twice -------------------------------------------------------------------------------


@pytest.mark.parametrize("used_by_with", [True, False])
def test_a_step_inside_a_loop_over_the_window_is_refused(used_by_with: bool, tmp_path: Path) -> None:
    def train(made: Window) -> None:
        for _ in made.over(range(100)):
            body()
            made.step()

    made = window(tmp_path)
    with pytest.raises(StepprofError, match="count each step twice"):
        if used_by_with:
            with made:
                train(made)
        else:
            train(made)
    assert names(tmp_path) == []


def test_a_loop_over_the_window_inside_another_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match="a loop over the window inside another one"), window(tmp_path) as made:
        for _ in made:
            for _batch in made.over(range(3)):
                body()
    assert names(tmp_path) == []


def test_steps_may_be_counted_by_hand_after_a_loop_has_ended(tmp_path: Path) -> None:
    with window(tmp_path) as made:
        for _ in made.over(range(3)):
            body()
        while not made.done:
            body()
            made.step()
    assert names(tmp_path) == WHOLE


def test_a_step_after_the_capture_is_done_is_nothing_in_a_loop_too(tmp_path: Path) -> None:
    made = window(tmp_path)
    for _ in made.over(range(BEGIN + 10)):
        body()
        if made.done:
            made.step()
    assert names(tmp_path) == WHOLE


# --- other threads ---------------------------------------------------------------------------------------------------


def test_labels_and_loaders_of_another_thread_are_noted(tmp_path: Path) -> None:
    loader = torch.utils.data.DataLoader(range(1000), batch_size=2)

    def elsewhere(batches: Iterator[Any]) -> None:
        for name in ("prefetch", "train", "ada@example.org"):
            with label(name):
                next(batches)

    made = window(tmp_path)
    batches = iter(loader)
    for _ in made:
        thread = threading.Thread(target=elsewhere, args=(batches,))
        thread.start()
        thread.join()
        with label("read_batch"):
            pass
        body()
    assert made.captured is not None
    kept = made.captured.record
    assert kept.observed["labels_in_other_threads"] == ["prefetch", "train"]
    assert kept.observed["loader_read_in_another_thread"] is True
    assert kept.approach.loader_workers is None
    notes = record.context_of(kept).notes
    assert any("'prefetch', 'train' (there as well)" in note for note in notes)
    assert any("hands batches on by a queue of its own" in note for note in notes)
