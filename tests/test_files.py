"""Files appear whole or not at all, and nothing is overwritten."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.files import make_directory, new_file, write_new


def test_a_written_file_is_whole_and_alone(tmp_path: Path) -> None:
    write_new(tmp_path / "deep" / "a.json", b"{}", "record")
    assert (tmp_path / "deep" / "a.json").read_bytes() == b"{}"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["a.json"]


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    with pytest.raises(StepprofError, match="exists already"):
        write_new(path, b"new", "record")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_name_taken_while_writing_is_not_replaced_either(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(StepprofError, match="exists already"), new_file(path, "trace") as temporary:
        temporary.write_bytes(b"new")
        path.write_bytes(b"from another process")
    assert path.read_bytes() == b"from another process"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_file_system_without_hard_links_still_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    write_new(tmp_path / "a", b"1", "record")
    assert (tmp_path / "a").read_bytes() == b"1"
    with pytest.raises(StepprofError, match="exists already"), new_file(tmp_path / "b", "record") as temporary:
        temporary.write_bytes(b"new")
        (tmp_path / "b").write_bytes(b"other")
    assert (tmp_path / "b").read_bytes() == b"other"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "No space left on device")])
def test_whatever_interrupts_writing_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises((KeyboardInterrupt, ValueError, StepprofError)), new_file(tmp_path / "a", "trace") as temporary:
        temporary.write_bytes(b"half")
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to stand for a full disk")
def test_a_full_disk_is_one_line_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match="No space left") as caught, new_file(tmp_path / "a", "trace"):
        with Path("/dev/full").open("wb") as stream:
            stream.write(b"x" * 100_000)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StepprofError, match="cannot be made"):
        make_directory(tmp_path / "file" / "below")


PROBER = """
import sys
from pathlib import Path
from stepprof_lab.files import demand_new_name

for turn in range(400):
    demand_new_name(Path(sys.argv[1]) / "a" / "b" / sys.argv[2], "trace")
"""


def test_processes_that_probe_the_same_new_directory_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The ranks of a job all ask whether their names are free, and take the empty directory away again."""
    started = [
        subprocess.Popen([sys.executable, "-c", PROBER, str(tmp_path / "run"), name], stderr=subprocess.PIPE, text=True)
        for name in ("rank0", "rank1", "rank2")
    ]
    assert [process.communicate(timeout=60)[1] for process in started] == ["", "", ""]
    assert list(tmp_path.iterdir()) == []
