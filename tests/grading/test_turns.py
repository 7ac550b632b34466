"""Timed checks on one GPU take turns: two processes, one of which is killed, and what the one who waits is told."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepprof_lab import devices
from stepprof_lab.devices import Device
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import items, turns
from stepprof_lab.grading.check import verdict_of

GPU = Device("cuda", "cuda:0", "a GPU")

HOLDER = """
import sys
from pathlib import Path
from stepprof_lab.devices import Device
from stepprof_lab.grading import turns

turns.lock_file = lambda _: Path(sys.argv[1])
with turns.turn(Device("cuda", "cuda:0", "a GPU"), print):
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("filelock", reason="turns are taken where torch is")
    path = tmp_path / "turn.lock"
    monkeypatch.setattr(turns, "lock_file", lambda _: path)
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    return path


def held(lock: Path) -> subprocess.Popen[str]:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "has it\n"
    return other


@pytest.mark.parametrize("end", ["done", "killed"])
def test_one_who_waits_is_told_and_has_it_when_the_other_ends(lock: Path, end: str) -> None:
    with held(lock) as other:
        told: list[str] = []

        def waiting(device: str) -> None:
            told.append(device)
            if end == "killed":
                other.kill()
            assert other.stdin is not None
            other.stdin.close()

        with turns.turn(GPU, waiting):
            assert other.wait(10) == (0 if end == "done" else -9)
        assert told == ["a GPU (cuda:0)"]


def test_a_free_gpu_is_taken_without_a_word_and_let_go_of_after_an_error(lock: Path) -> None:
    def waiting(device: str) -> None:
        raise AssertionError(device)

    with pytest.raises(ZeroDivisionError), turns.turn(GPU, waiting):
        raise ZeroDivisionError
    with turns.turn(GPU, waiting):
        assert lock.exists()


def test_without_a_gpu_nobody_waits(lock: Path) -> None:
    for device in (Device("cpu", "cpu", "a processor"), Device("practice", "cpu", "practice")):
        with turns.turn(device, lambda _: None):
            assert not lock.exists()


def test_a_folder_that_cannot_be_written_is_told_in_one_line(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(turns, "lock_file", lambda _: tmp_path / "file" / "turn.lock")
    with pytest.raises(StepprofError, match="STEPPROF_TURNS"), turns.turn(GPU, lambda _: None):
        pass


def test_the_lock_is_the_gpus_whatever_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(turns.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(turns, "_identity", lambda device: {"cuda:0": "one", "cuda:1": "other"}[device.torch_device])
    first, second = (turns.lock_file(Device("cuda", f"cuda:{n}", "a GPU")) for n in (0, 1))
    assert first.parent == second.parent == tmp_path
    assert first != second


def test_a_timed_check_takes_its_turn_and_another_does_not(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    @contextlib.contextmanager
    def turn(device: Device, _: object) -> Iterator[None]:
        taken.append(device.name)
        raise Stopped
        yield

    monkeypatch.setattr(devices, "gpu_or_practice", lambda: GPU)
    monkeypatch.setattr(turns, "turn", turn)
    verdict_of("03/prediction", "a")
    assert taken == []
    with pytest.raises(Stopped):
        verdict_of("02/elapsed_ms", lambda work, device: 1.0)
    assert taken == ["a GPU"]
    assert {one.id for one in items.lab("02").items if one.timed} == {"02/elapsed_ms", "02/device_ms"}


class Stopped(BaseException):
    """The turn has come; what is timed then is another test's."""
