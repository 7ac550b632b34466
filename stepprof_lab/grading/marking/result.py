"""What grading one submission gives: one JSON file, written whole or not at all, and all that the gradebook is told."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from stepprof_lab import files
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.model import Verdict

VERSION = 1

How = Literal["graded", "cell failed", "crashed", "timed out", "out of memory", "not reached", "no check", "unreadable"]
"""How it ended for one item, or for the whole submission.

graded: there is a verdict. cell failed: a cell raised, so that there was nothing to check. crashed, timed out, out of
memory: the process ended, or was ended, in the item's cells. not reached: it ended before them. no check: the answer
was never given. unreadable: the submission could not be read.
"""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Where something went wrong, in words that the learner may read."""

    how: How
    where: str = ""
    """The cell's id or number."""
    why: str = ""
    """One line."""


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a submission."""

    item: str
    of: float
    ending: Ending
    verdict: Verdict | None = None
    """None where there is nothing to judge: no points, for the reason in `ending`."""

    @property
    def points(self) -> float | None:
        """What it earned; None where this machine could not hold what the check needs, so that a person must look."""
        if self.verdict is None:
            return 0.0
        return None if self.verdict.undecided else self.verdict.points


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What grading one submission gave."""

    version: int = VERSION
    student: str
    assignment: str
    """The folder's name: "03-nested-sums"."""
    key: str
    """Of the submission's bytes, the lab's version and the secret: a file of this key is never made again."""
    submitted: str | None = None
    """When it was handed in, as nbgrader's time stamp has it."""
    items: list[Marked]
    """Every item of the lab, in its order."""
    ending: Ending
    """Of the whole submission."""
    notes: list[str] = []
    """What a person should know: cells that were put back, a sandbox that was not there."""
    sandbox: str
    """"bubblewrap", or "none"."""
    seconds: float
    made: str
    """When, in UTC, ISO 8601."""


def key_of(submission: bytes, lab_version: str, secret: bytes) -> str:
    """The key of a result: 16 hexadecimal digits.

    Args:
        submission: the file as it was handed in.
        lab_version: of the lab's release.
        secret: the course's key; hidden cases are drawn from it.
    """
    told = hashlib.sha256(secret).digest() + lab_version.encode() + b"\0" + submission
    return hashlib.sha256(told).hexdigest()[:16]


def path_of(folder: Path, student: str, assignment: str, key: str) -> Path:
    """Where the result of a submission lies: ``folder/ASSIGNMENT/STUDENT/KEY.json``."""
    return folder / assignment / student / f"{key}.json"


def keep(result: Result, folder: Path) -> Path:
    """Write a result, whole or not at all; where another worker was faster, its file stays."""
    path = path_of(folder, result.student, result.assignment, result.key)
    try:
        files.write_new(path, msgspec.json.format(msgspec.json.encode(result)), "result")
    except StepprofError:
        if not path.exists():
            raise
    return path


def read(path: Path) -> Result:
    """Read a result.

    Raises:
        StepprofError: it is damaged, or of a version that this one does not know.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StepprofError(
            f"{path.name}: {str(error).splitlines()[0]}", "a result of `stepprof grade`", "remove it and grade again"
        ) from error
    if found.version != VERSION:
        raise StepprofError(f"{path.name} of version {found.version}", f"version {VERSION}", "grade it again")
    return found
