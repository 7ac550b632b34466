"""Files appear whole or not at all, and never replace one that exists.

A file is written under a temporary name in its own directory and takes its name only when it is whole. Taking the
name is one atomic step that fails where the name is taken, so that two writers cannot both win.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Iterator


def name_is_taken(path: Path, what: str) -> StepprofError:
    """The error for an existing file: nothing is ever overwritten."""
    if path.is_dir():
        return StepprofError(f"{what} {str(path)!r}, which is a directory", "a file's name", "add a name to it")
    return StepprofError(
        f"{what} {str(path)!r} exists already",
        "a name that is not taken (nothing is overwritten)",
        "choose another name, or move the old file away",
    )


def make_directory(path: Path) -> Path:
    """Make a directory and its parents, or say in one line why that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(path, error) from error
    return path


def _cannot_be_made(directory: Path, error: OSError) -> StepprofError:
    return StepprofError(
        f"directory {str(directory)!r} cannot be made ({error.strerror or error})",
        "a directory that can be written",
        "choose another directory",
    )


def run_directory(words: str) -> Path:
    """A name for a new directory below ``runs/``: words and the time; nothing is made yet."""
    slug = "-".join(re.findall(r"[a-z0-9]+", words.lower()))[:40].strip("-") or "run"
    return free_directory(Path("runs"), f"{slug}-")


def free_directory(parent: Path, begins: str = "") -> Path:
    """A name for a new directory in another one, with the time in it; nothing is made yet."""
    base = parent / f"{begins}{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def take_name(temporary: Path, path: Path, what: str) -> None:
    """Give a finished temporary file its name, unless the name is taken; the temporary name is gone after it.

    A hard link fails where the name exists, on every system that has hard links. Where there are none (FAT, some
    network shares) the name is claimed by an exclusive empty file, which is then replaced.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise name_is_taken(path, what) from None
    except OSError:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise name_is_taken(path, what) from None
        temporary.replace(path)
    finally:
        _remove(temporary)


def _remove(temporary: Path) -> None:
    """Remove it if it is there; that it cannot be (a read-only disk) must not hide why it came to this."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def demand_new_name(path: Path, what: str) -> None:
    """Refuse a name that is taken, or in a directory that cannot be made or written; nothing stays behind.

    For work that takes long: what can be known to fail is refused before it. A missing directory is not made for it,
    not even for a moment: another process (the next rank of a job) may be about to write there.
    """
    directory = path.absolute().parent
    try:
        if not directory.exists():
            _probe_for_room(directory)
            return
        with new_file(path, what) as probe:
            raise _Probed(probe)
    except _Probed:
        pass
    except OSError as error:
        raise _cannot_be_made(directory, error) from error


def _probe_for_room(directory: Path) -> None:
    """Fail where a missing directory could not be made: its first parent that exists has to take a new entry."""
    first = next(parent for parent in directory.parents if parent.exists())
    probe = first / f".{os.urandom(8).hex()}.part"
    probe.mkdir()
    probe.rmdir()


class _Probed(Exception):
    """The name could be written."""


@contextlib.contextmanager
def new_file(path: Path, what: str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``, on any error nothing is left.

    Args:
        path: the final name. Its directory is made if it is missing.
        what: what the file is, for the error line ("trace", "record", "report").

    Raises:
        StepprofError: the name is taken, the directory cannot be made or written, the disk is full.
    """
    temporary: Path | None = None
    try:
        if path.exists():
            raise name_is_taken(path, what)
        make_directory(path.parent)
        # Not tempfile.mkstemp: its files are readable by their owner alone, a result should be as any new file.
        # Not made of its name either: a name may be as long as names may be.
        temporary = path.parent / f".{os.urandom(8).hex()}.part"
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        take_name(temporary, path, what)
    except OSError as error:
        raise StepprofError(
            f"{what} {str(path)!r} cannot be written ({error.strerror or error})",
            "a directory with room that can be written",
            "free some room, or choose another directory; no half file was left",
        ) from error
    finally:
        if temporary is not None:
            _remove(temporary)


def write_new(path: Path, data: bytes, what: str) -> None:
    """Write a whole new file, or none; see `new_file`."""
    with new_file(path, what) as temporary, temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_anew(path: Path, data: bytes, what: str) -> None:
    """Write a file of our own whole, in the place of the one that an earlier run left, in one step.

    It is not forced to the disk: it can be made again, and has to outlive this process, not the machine.

    Raises:
        StepprofError: it cannot be written; what was there stays.
    """
    temporary = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        make_directory(path.parent)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise StepprofError(
            f"{what} {str(path)!r} cannot be written ({error.strerror or error})",
            "a directory with room that can be written",
            "free some room, or choose another directory",
        ) from error
    finally:
        _remove(temporary)
