"""What was handed in: nbgrader's ``submitted/STUDENT/ASSIGNMENT/``, or a folder of files named by student.

A file is read once and whole; links are not followed. What cannot be read is refused with one line, and the others are
graded.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import cells
from stepprof_lab.grading.cells import MOST_BYTES, Cell
from stepprof_lab.grading.marking import matching, result
from stepprof_lab.grading.marking.matching import Release

TIMESTAMP = "timestamp.txt"
"""Where nbgrader keeps when it was handed in."""

ENDINGS = (".ipynb", ".py", ".zip")
"""What may be handed in, what counts first where there are several."""

MOST_CELLS = 1000
NEWEST_FORMAT = 4
"""Of notebooks, that this version can read."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """One file of one student for one assignment.

    Args:
        student: as the folder or the file is named.
        assignment: the release's name.
        file: that counts.
        key: of its bytes, the release's version and the secret.
        submitted: the time stamp's text; None where there is none.
        notes: what a person should know.
    """

    student: str
    assignment: str
    file: Path
    key: str
    submitted: str | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Refused:
    """What cannot be graded, and why, in one line."""

    student: str
    assignment: str
    why: str


def find(root: Path, release: Release, secret: bytes) -> list[Submission | Refused]:
    """All submissions of an assignment, by student.

    Args:
        root: nbgrader's ``submitted`` folder, or a folder of files named by student.
        release: of the assignment.
        secret: the course's key.

    Raises:
        StepprofError: there is no such folder, or nothing in it.
    """
    try:
        entries = sorted(one for one in root.iterdir() if not one.name.startswith("."))
    except OSError as error:
        raise StepprofError(
            f"folder {str(root)!r} ({error.strerror or error})", "a folder of submissions", "check the path"
        ) from error
    flat = not any(one.is_dir() for one in entries)
    found = list(_flat(entries, release, secret) if flat else _tree(entries, release, secret))
    if not found:
        raise StepprofError(
            f"no submission of {release.name!r} in {str(root)!r}",
            f"STUDENT/{release.name}/{release.name}.ipynb, or files named by student",
            "collect it first, or check the path",
        )
    return found


def _tree(entries: list[Path], release: Release, secret: bytes) -> Iterator[Submission | Refused]:
    for entry in entries:
        folder = entry / release.name
        if entry.is_symlink() or folder.is_symlink():
            yield Refused(
                entry.name, release.name, f"{folder.name!r} is a link; expected a folder of the student's own"
            )
        elif folder.is_dir():
            yield _one(entry.name, release, secret, folder)


def _flat(entries: list[Path], release: Release, secret: bytes) -> Iterator[Submission | Refused]:
    seen: dict[str, str] = {}
    for entry in entries:
        if entry.suffix.lower() not in ENDINGS:
            continue
        if entry.stem in seen:
            yield Refused(entry.stem, release.name, f"{entry.name!r} beside {seen[entry.stem]!r}; expected one file")
            continue
        seen[entry.stem] = entry.name
        yield _one(entry.stem, release, secret, entry)


def _one(student: str, release: Release, secret: bytes, where: Path) -> Submission | Refused:
    try:
        if not student.isprintable():
            raise StepprofError(f"the name {student!r}", "a name that can be printed", "rename it")
        file, notes = _chosen(where, release.name) if where.is_dir() else (where, [])
        data, ending = read(file, release.name)
        matching.match(cells_of(data, ending), release)  # or there is nothing to grade
        submitted = _time_stamp(where / TIMESTAMP) if where.is_dir() else None
    except StepprofError as error:
        return Refused(student, release.name, f"{error.given}; expected {error.expected}")
    key = result.key_of(data, release.version, secret)
    return Submission(student, release.name, file, key, submitted, tuple(notes))


def _chosen(folder: Path, name: str) -> tuple[Path, list[str]]:
    """The file that counts: the one with the assignment's name, or the only one."""
    try:
        there = sorted(one for one in folder.iterdir() if one.suffix.lower() in ENDINGS)
    except OSError as error:
        raise StepprofError(f"a folder that cannot be read ({error.strerror})", "a folder", "check it") from error
    for ending in ENDINGS:
        alike = [one for one in there if one.suffix.lower() == ending]
        exact = [one for one in alike if one.stem == name]
        if len(alike) > 1 and not exact:
            names = ", ".join(repr(one.name) for one in alike[:3])
            raise StepprofError(f"{len(alike)} files ({names})", f"one, {name + ending!r}", "ask which one counts")
        if alike:
            file = (exact or alike)[0]
            return file, [f"{one.name!r} was handed in too and not read" for one in alike if one != file]
    raise StepprofError(f"no {name}.ipynb", "a notebook", "ask for it")


def read(file: Path, assignment: str) -> tuple[bytes, str]:
    """The bytes of a submission's notebook or script, and which it is: ".ipynb" or ".py".

    Raises:
        StepprofError: it is a link, no file, empty or too large; or an archive that is damaged or holds what it should
            not.
    """
    data = _bytes_of(file)
    ending = file.suffix.lower()
    return _unpacked(data, assignment) if ending == ".zip" else (data, ending)


def _bytes_of(file: Path) -> bytes:
    """What a file holds; never of a link, a pipe or a device, and never more than may be."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        what = "a link" if file.is_symlink() else error.strerror
        raise StepprofError(f"{file.name!r} ({what})", "a file of its own", "ask for the file itself") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StepprofError(f"{file.name!r} (no file)", "a file", "ask for the file itself")
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise StepprofError(f"{file.name!r} with more than {MOST_BYTES:,} bytes", "a lab's notebook", "have it cleared")
    if not data.strip():
        raise StepprofError(f"{file.name!r}, which is empty", "a lab's notebook", "ask for it")
    return data


def _unpacked(data: bytes, assignment: str) -> tuple[bytes, str]:
    """The one notebook or script of an archive; nothing is written to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = {one.filename: one for one in archive.infolist() if not one.is_dir()}
            for name in names:
                path = PurePosixPath(name.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                    raise StepprofError(f"an archive with the path {name[:100]!r}", "paths below it", "pack it again")
            chosen = _chosen_name([one for one in names if not one.startswith("__MACOSX/")], assignment)
            with archive.open(names[chosen]) as stream:
                found = stream.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise StepprofError(f"an archive that cannot be read ({error})", "a zip", "pack it again") from error
    if len(found) > MOST_BYTES or not found.strip():
        raise StepprofError(f"{chosen!r}, empty or over {MOST_BYTES:,} bytes", "a lab's notebook", "have it cleared")
    return found, PurePosixPath(chosen).suffix.lower()


def _chosen_name(names: list[str], assignment: str) -> str:
    for ending in ENDINGS[:2]:
        alike = [
            one
            for one in names
            if one.lower().endswith(ending) and ".ipynb_checkpoints" not in PurePosixPath(one).parts
        ]
        exact = [one for one in alike if PurePosixPath(one).stem == assignment]
        if len(exact or alike) > 1:
            raise StepprofError(f"an archive with {len(alike)} {ending} files", "one", "ask which one counts")
        if alike:
            return (exact or alike)[0]
    raise StepprofError("an archive without a notebook", "one", "ask for it")


def cells_of(data: bytes, ending: str) -> list[Cell]:
    """The cells of a notebook or a script.

    Raises:
        StepprofError: it is none, of a newer format, or with more cells than anybody writes.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StepprofError("no UTF-8 text", "a notebook or a script", "ask for it") from error
    found = cells.of_script(text) if ending == ".py" else _of_notebook(text)
    if len(found) > MOST_CELLS:
        raise StepprofError(f"{len(found):,} cells", f"at most {MOST_CELLS:,}", "have it cleared")
    return found


def _of_notebook(text: str) -> list[Cell]:
    try:
        found = cells.of_notebook(text)
    except StepprofError as error:
        raise StepprofError("what is no notebook", error.expected, error.todo) from error
    version = json.loads(text).get("nbformat")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        raise StepprofError(f"a notebook of format {version}", f"format {NEWEST_FORMAT}", "save it in the older format")
    return found


def _time_stamp(path: Path) -> str | None:
    """The text of nbgrader's time stamp, one line; None where there is none that can be read."""
    try:
        text = _bytes_of(path)[:200].decode("utf-8").strip()
    except (StepprofError, UnicodeDecodeError):
        return None
    line = text.splitlines()[0][:100] if text else ""
    return line if line.isprintable() and line else None
