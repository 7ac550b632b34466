"""Grades for learning management systems; and nbgrader's own commands and form grader see what was imported."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import autograded, database, feedback, gradebook, table
from stepprof_lab.grading.marking.result import Result
from tests.marking.some_results import COURSE, EXERCISES, LAB, ROOT, keep, make, marked, wrong

pytest.importorskip("nbgrader", reason="it is what this is about")

NAMES = ["ada", 'a,b"c', "Zoë Ω", "=HYPERLINK(1)", "-x", "@y"]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with a gradebook, submissions, and what is written beside them."""
    made = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", made)
    for folder, origin in (("exercises", EXERCISES), ("solutions", ROOT / "solutions")):
        (made / folder / LAB).mkdir(parents=True)
        shutil.copy(origin / LAB / f"{LAB}.ipynb", made / folder / LAB)
    several = [make(name) for name in NAMES]
    several += [make("bob", wrong("03/busy_ms")), make("eve", marked("03/table", "crashed", where="table"))]
    several += [make("odd", marked("03/table", points=0.0, undecided=True))]
    for one in several:
        _hand_in(made, one)
    files = keep(made / "marked", *several)
    url = f"sqlite:///{made / 'gradebook.db'}"
    gradebook.import_results(files, url, made / "exercises", course=COURSE)
    with database.opened(url, COURSE, patience_s=5) as book:
        book.update_or_create_student("ada", first_name="Ada", last_name="King, of Lovelace", lms_user_id="4711")
        book.add_student("nothing-handed-in")
    return made


def _hand_in(made: Path, one: Result) -> None:
    place = made / "submitted" / one.student / LAB
    place.mkdir(parents=True)
    notebook = json.loads((EXERCISES / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8"))
    record = next(cell for cell in notebook["cells"] if cell["metadata"]["nbgrader"]["grade_id"] == "record-text")
    record["source"] = [f"written by {one.student}"]
    notebook["cells"].insert(1, {"cell_type": "markdown", "id": "own", "metadata": {}, "source": ["my own note"]})
    (place / f"{LAB}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (place / "timestamp.txt").write_text(str(one.submitted), encoding="utf-8")
    feedback.write(one, made / "feedback")
    autograded.write(one, place / f"{LAB}.ipynb", made / "exercises", made / "autograded")


def url_of(course: Path) -> str:
    return f"sqlite:///{course / 'gradebook.db'}"


def rows(found: table.Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(found.text)))


# ---- the table ----


def test_the_columns_are_those_of_canvas(course: Path) -> None:
    head, *lines = rows(table.of_gradebook(url_of(course), course=COURSE))
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", LAB]
    assert all(len(line) == len(head) for line in lines)
    by_login = {line[3]: line for line in lines}
    assert by_login["ada"] == ["King, of Lovelace, Ada", "4711", "", "ada", "", "15"]
    assert by_login["bob"][5] == "11"


def test_every_line_is_a_student_so_that_moodle_takes_the_file(course: Path) -> None:
    _, *lines = rows(table.of_gradebook(url_of(course), course=COURSE))
    assert all(line[3] for line in lines)
    assert not [line for line in lines if "Points Possible" in line[0]]
    assert len(lines) == len(NAMES) + 4


def test_no_grade_is_no_zero(course: Path) -> None:
    found = table.of_gradebook(url_of(course), course=COURSE)
    by_login = {line[3]: line[5] for line in rows(found)}
    assert by_login["nothing-handed-in"] == by_login["odd"] == by_login["eve"] == table.NO_GRADE
    assert found.left_out == [f"{LAB}/eve", f"{LAB}/odd"]


def test_no_cell_is_a_formula(course: Path) -> None:
    cells = [cell for line in rows(table.of_gradebook(url_of(course), course=COURSE)) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and cell != table.NO_GRADE]
    assert {"'=HYPERLINK(1)", "'-x", "'@y", 'a,b"c'} <= set(cells)


def test_a_late_submission_stands_with_its_penalty(course: Path, tmp_path: Path) -> None:
    class All:
        def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
            return score - 0.125

    copy = tmp_path / "gradebook.db"
    shutil.copy(course / "gradebook.db", copy)
    with database.opened(f"sqlite:///{copy}", COURSE, patience_s=5) as book:
        book.update_or_create_assignment(LAB, duedate="2026-01-01 00:00:00 UTC")
    gradebook.import_results(
        keep(tmp_path / "marked", make("ada")), f"sqlite:///{copy}", EXERCISES, course=COURSE, penalty=All()
    )
    by_login = {line[3]: line[5] for line in rows(table.of_gradebook(f"sqlite:///{copy}", course=COURSE))}
    assert by_login["ada"] == "0.125"


def test_an_assignment_that_is_not_there_is_told_with_those_that_are(course: Path) -> None:
    with pytest.raises(StepprofError, match=f"'99-x'; expected one of {LAB}"):
        table.of_gradebook(url_of(course), course=COURSE, assignments=["99-x"])
    assert rows(table.of_gradebook(url_of(course), course=COURSE, assignments=[LAB]))[0][-1] == LAB


def test_no_gradebook_is_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match=r"no gradebook 'none\.db'"):
        table.of_gradebook(f"sqlite:///{tmp_path / 'none.db'}", course=COURSE)
    assert not list(tmp_path.iterdir())


def test_the_table_is_a_new_file(course: Path, tmp_path: Path) -> None:
    found = table.of_gradebook(url_of(course), course=COURSE)
    table.write(found, tmp_path / "grades.csv")
    assert (tmp_path / "grades.csv").read_bytes().decode("utf-8-sig") == found.text
    with pytest.raises(StepprofError, match="exists already"):
        table.write(found, tmp_path / "grades.csv")


# ---- nbgrader itself ----


def nbgrader(course: Path, *arguments: str) -> str:
    code = "import sys; from nbgrader.apps.nbgraderapp import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=course,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(course),
            "JUPYTER_CONFIG_DIR": str(course / ".jupyter"),
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_nbgraders_own_export_sees_the_grades(course: Path) -> None:
    nbgrader(course, "export", "--to", "own.csv")
    lines = (course / "own.csv").read_text(encoding="utf-8").splitlines()
    # nbgrader does not quote: names with commas are its own affair.
    scores = {line.split(",")[3]: line.split(",")[-2:] for line in lines[1:] if line.count(",") == 10}
    assert scores["bob"] == ["11.0", "15.0"]
    assert scores["eve"] == ["12.0", "15.0"]
    assert scores["Zoë Ω"] == ["15.0", "15.0"]


@pytest.fixture
def api(course: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the form grader's pages ask."""
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    monkeypatch.chdir(course)
    monkeypatch.setenv("HOME", str(course))
    config = Config()
    config.CourseDirectory.root = str(course)
    config.CourseDirectory.course_id = COURSE
    config.CourseDirectory.source_directory = "solutions"
    config.CourseDirectory.release_directory = "exercises"
    return NbGraderAPI(CourseDirectory(config=config), config=config)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own queries
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbgrader")
def test_the_form_grader_sees_graded_submissions(api: Any) -> None:
    found = {one["student"]: one for one in api.get_submissions(LAB)}
    assert found["bob"]["autograded"]
    assert found["bob"]["score"] == 11
    assert found["bob"]["needs_manual_grade"]  # what a person reads
    assert found["Zoë Ω"]["max_score"] == 15
    (notebook,) = api.get_notebooks(LAB)
    assert notebook["max_score"] == 15
    assert len(api.get_notebook_submissions(LAB, LAB)) == len(NAMES) + 3


# ---- what the form grader opens ----


def test_a_person_reads_what_was_written_in_the_releases_own_cells(course: Path) -> None:
    import nbformat

    path = course / "autograded" / "eve" / LAB / f"{LAB}.ipynb"
    found: Any = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    released: Any = nbformat.read(EXERCISES / LAB / f"{LAB}.ipynb", as_version=4)
    own = [cell for cell in found.cells if cell.metadata.get("nbgrader")]
    assert [cell.metadata for cell in own] == [cell.metadata for cell in released.cells]
    by_name = {cell.metadata.nbgrader.grade_id: cell for cell in own}
    assert by_name["record-text"].source == "written by eve"
    assert "no points" in by_name["table-check"].outputs[0].text
    assert "passed" in by_name["busy-check"].outputs[0].text
    assert [cell.source for cell in found.cells if not cell.metadata] == ["my own note"]
    assert (path.parent / "timestamp.txt").read_text() == make().submitted


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"cells": []}'])
def test_what_cannot_be_read_leaves_the_cells_as_they_were_released(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / f"{LAB}.ipynb"
    if content is not None:
        file.write_bytes(content)
    path = autograded.write(make(submitted=None), file if content is not None else None, EXERCISES, tmp_path / "out")
    released = json.loads((EXERCISES / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8"))["cells"]
    made = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell["source"] for cell in made] == [cell["source"] for cell in released]
    assert not (path.parent / "timestamp.txt").exists()
    assert list(path.parent.iterdir()) == [path]


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    for one in (make("../up"), make("ada", assignment="../up")):
        with pytest.raises(StepprofError, match="a name of a folder"):
            autograded.write(one, None, EXERCISES, tmp_path / "out")
    assert not (tmp_path / "out").exists()


PARTS = {
    "assignment": "SELECT name, duedate, course_id FROM assignment",
    "notebook": "SELECT name, kernelspec FROM notebook",
    "cells": "SELECT name, type FROM base_cell",
    "graded": "SELECT name, max_score, cell_type FROM base_cell JOIN grade_cells USING (id)",
    "sources": "SELECT name, cell_type, locked, source, checksum FROM source_cell",
}


def made(book: Path) -> dict[str, list[Any]]:
    """What stands in a gradebook about the assignment itself."""
    with sqlite3.connect(book) as connection:
        return {name: sorted(connection.execute(question), key=repr) for name, question in PARTS.items()}


@pytest.mark.slow
def test_nbgraders_own_commands_go_on_from_there(course: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(course, tmp_path / "course"))
    ours = made(copy / "gradebook.db")
    (copy / "gradebook.db").rename(copy / "ours.db")
    nbgrader(copy, "generate_assignment", LAB, "--force")
    assert made(copy / "gradebook.db") == ours
    again = keep(copy / "marked", make("bob", wrong("03/busy_ms")))
    assert gradebook.import_results(again, url_of(copy), copy / "exercises", course=COURSE).written
    (copy / "ours.db").replace(copy / "gradebook.db")
    nbgrader(copy, "generate_assignment", LAB, "--force")  # the same cells, although there are submissions of them
    nbgrader(copy, "generate_feedback", LAB, "--student", "bob", "--force")
    page = (copy / "feedback" / "bob" / LAB / f"{LAB}.html").read_text(encoding="utf-8")
    assert "03/busy_ms: not yet, 0 of 4 points" in page
    assert "written by bob" in page
