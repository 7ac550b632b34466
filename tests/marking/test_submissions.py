"""Which file counts, and what is refused with one line while the others are graded."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import submissions
from stepprof_lab.grading.marking.submissions import Refused, Submission
from tests.marking.handed import LAB, ROOT, SECRET, notebook, release

FILE = f"{LAB}.ipynb"
GOOD = json.dumps(notebook())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A submitted folder with one good submission."""
    put(tmp_path, "ann", GOOD)
    return tmp_path


def put(tree: Path, student: str, content: str | bytes, name: str = FILE) -> Path:
    path = tree / student / LAB / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found(tree: Path) -> dict[str, Submission | Refused]:
    return {one.student: one for one in submissions.find(tree, release(), SECRET)}


def packed(**files: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_nbgrader_s_tree_is_taken_as_it_is(tree: Path) -> None:
    (tree / "ann" / LAB / "timestamp.txt").write_text("2026-11-30 15:58:23.948203 UTC\n", encoding="utf-8")
    put(tree, "bob", GOOD, "other.ipynb").parent.rename(tree / "bob" / "05-input-wait")
    (one,) = found(tree).values()
    assert isinstance(one, Submission)
    assert one.file == tree / "ann" / LAB / FILE
    assert (one.submitted, one.notes, len(one.key)) == ("2026-11-30 15:58:23.948203 UTC", (), 16)


@pytest.mark.parametrize("student", ["Ann Lee", "Zoë Müller", "李雷", "محمد", "o'neil; rm -rf ~", "-rf"])
def test_names_may_be_of_any_script(student: str, tree: Path) -> None:
    put(tree, student, GOOD)
    assert isinstance(found(tree)[student], Submission)


def test_the_key_is_of_the_bytes_the_release_and_the_secret(tree: Path) -> None:
    put(tree, "bob", GOOD)
    put(tree, "eve", GOOD + " ")
    keys = {name: one.key for name, one in found(tree).items() if isinstance(one, Submission)}
    assert keys["ann"] == keys["bob"] != keys["eve"]
    other = submissions.find(tree, release(), b"another")[0]
    assert isinstance(other, Submission)
    assert other.key != keys["ann"]


NOTEBOOK = notebook()
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "no notebook": ("hello", "no notebook"),
    "no cells": ("{}", "no notebook"),
    "cells of another kind": ('{"cells": [1]}', "no notebook"),
    "nested": ('{"cells": ' + "[" * 100_000, "no notebook"),
    "empty": ("", "which is empty"),
    "blank": (" \n", "which is empty"),
    "no text": (b"\xff\xfe\x00", "no UTF-8 text"),
    "too large": (b" " * 20_000_001, "more than 20,000,000 bytes"),
    "many cells": (json.dumps({"cells": NOTEBOOK["cells"] * 40}), "cells; expected at most 1,000"),
    "another lab's": ((ROOT / "exercises/01-ask-first/01-ask-first.ipynb").read_bytes(), "cells of lab 01"),
    "a newer format": (json.dumps({**NOTEBOOK, "nbformat": 5}), "a notebook of format 5"),
    "a newer release": (GOOD.replace("03/busy_ms", "03/idle_ms"), "a check of '03/idle_ms'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_graded_is_refused_in_one_line(name: str, tree: Path) -> None:
    content, why = REFUSED[name]
    put(tree, "bob", content)
    told = found(tree)
    assert isinstance(told["ann"], Submission)
    refused = told["bob"]
    assert isinstance(refused, Refused)
    assert why in refused.why
    assert "\n" not in refused.why


def refusal(tree: Path) -> str:
    refused = found(tree)["bob"]
    assert isinstance(refused, Refused)
    return refused.why


def test_a_link_is_never_followed(tree: Path) -> None:
    folder = tree / "bob" / LAB
    folder.mkdir(parents=True)
    (folder / FILE).symlink_to("/etc/passwd")
    assert "a link" in refusal(tree)
    (folder / FILE).unlink()
    folder.rmdir()
    folder.symlink_to(tree / "ann" / LAB)
    assert "is a link" in refusal(tree)


def test_a_pipe_is_no_file(tree: Path) -> None:
    folder = tree / "bob" / LAB
    folder.mkdir(parents=True)
    os.mkfifo(folder / FILE)
    assert "no file" in refusal(tree)


def test_the_one_with_the_assignment_s_name_counts(tree: Path) -> None:
    put(tree, "ann", "{}", "scratch.ipynb")
    one = found(tree)["ann"]
    assert isinstance(one, Submission)
    assert one.notes == ("'scratch.ipynb' was handed in too and not read",)


def test_two_notebooks_of_other_names_are_refused_and_one_is_taken(tree: Path) -> None:
    put(tree, "bob", GOOD, "mine.ipynb")
    assert isinstance(found(tree)["bob"], Submission)
    put(tree, "bob", GOOD, "mine (1).ipynb")
    assert "2 files ('mine (1).ipynb', 'mine.ipynb')" in refusal(tree)


def test_a_folder_without_a_notebook_is_told(tree: Path) -> None:
    put(tree, "bob", "x", "readme.txt")
    assert "no 03-nested-sums.ipynb" in refusal(tree)


def test_a_script_may_be_handed_in(tree: Path) -> None:
    put(tree, "bob", (ROOT / "exercises" / LAB / f"{LAB}.py").read_bytes(), f"{LAB}.py")
    assert isinstance(found(tree)["bob"], Submission)


def test_an_archive_may_be_handed_in(tree: Path) -> None:
    put(tree, "bob", packed(**{"work/mine.ipynb": GOOD, "__MACOSX/x.ipynb": "1", "data.csv": "1"}), "all.zip")
    one = found(tree)["bob"]
    assert isinstance(one, Submission)
    assert submissions.read(one.file, LAB) == (GOOD.encode(), ".ipynb")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"../../evil.ipynb": GOOD}, "the path '../../evil.ipynb'"),
        ({"/etc/cron.ipynb": GOOD}, "the path '/etc/cron.ipynb'"),
        ({"a\\..\\b.ipynb": GOOD}, "an archive with the path"),
        ({"C:/x.ipynb": GOOD}, "an archive with the path"),
        ({"a.ipynb": GOOD, "b.ipynb": GOOD}, "2 .ipynb files"),
        ({"a.txt": "x"}, "without a notebook"),
        ({"a.ipynb": " " * 30_000_000}, "over 20,000,000 bytes"),
    ],
    ids=["up", "absolute", "windows", "drive", "two", "none", "bomb"],
)
def test_an_archive_that_holds_what_it_should_not_is_refused(files: dict[str, Any], why: str, tree: Path) -> None:
    put(tree, "bob", packed(**files), "all.zip")
    assert why in refusal(tree)


def test_a_damaged_archive_is_refused(tree: Path) -> None:
    put(tree, "bob", packed(**{"a.ipynb": GOOD})[:-40], "all.zip")
    assert "an archive that cannot be read" in refusal(tree)


def test_a_folder_of_files_named_by_student(tmp_path: Path) -> None:
    for name in ("Ann Lee.ipynb", "李雷.ipynb", "notes.txt", ".hidden.ipynb"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    (tmp_path / "bob.zip").write_bytes(packed(**{"a.ipynb": GOOD}))
    (tmp_path / "eve.ipynb").symlink_to("Ann Lee.ipynb")
    told = found(tmp_path)
    assert {name for name, one in told.items() if isinstance(one, Submission)} == {"Ann Lee", "李雷", "bob"}
    assert isinstance(told["eve"], Refused)


def test_a_name_that_cannot_be_printed_is_refused(tree: Path) -> None:
    put(tree, "new\nline", GOOD)
    refused = found(tree)["new\nline"]
    assert isinstance(refused, Refused)
    assert r"'new\nline'" in refused.why


def test_a_folder_that_is_not_there_or_holds_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match="No such file"):
        found(tmp_path / "nowhere")
    with pytest.raises(StepprofError, match="no submission of '03-nested-sums'"):
        found(tmp_path)


@pytest.mark.parametrize("text", [b"", b"\xff", b"\n", b"2026 \x00 UTC"])
def test_a_time_stamp_that_is_none_is_left_out(text: bytes, tree: Path) -> None:
    put(tree, "ann", text, "timestamp.txt")
    one = found(tree)["ann"]
    assert isinstance(one, Submission)
    assert one.submitted is None
