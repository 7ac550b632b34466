"""The one writer of nbgrader's gradebook, with nbgrader's own tables."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.grading.marking import database, gradebook, release
from stepprof_lab.grading.marking.gradebook import Imported
from stepprof_lab.grading.model import Said
from tests.marking.some_results import COURSE, EXERCISES, LAB, ROOT, keep, make, marked, wrong

pytest.importorskip("nbgrader", reason="it is what this is about")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook with nothing in it: nbgrader takes seconds to make one."""
    path = tmp_path_factory.mktemp("empty") / "gradebook.db"
    with database.opened(f"sqlite:///{path}", COURSE, patience_s=5):
        pass
    return path


@pytest.fixture
def book(empty: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(empty, tmp_path / "gradebook.db"))


def put(book: Path, *results: Any, **options: Any) -> Imported:
    """Import results into a gradebook."""
    files = keep(book.parent / "results", *results)
    options = {"course": COURSE, "patience_s": 5.0, **options}
    return gradebook.import_results(files, f"sqlite:///{book}", EXERCISES, **options)


def content(book: Path) -> list[str]:
    """Everything that is in it."""
    with sqlite3.connect(book) as connection:
        return list(connection.iterdump())


def without_ids(book: Path) -> list[str]:
    """Everything but nbgrader's random ids, in an order that does not hang on them."""
    return sorted(re.sub(r"'[0-9a-f]{32}'", "ID", line) for line in content(book))


@pytest.fixture
def opened(book: Path) -> Iterator[Callable[[], Any]]:
    """nbgrader's own view of the gradebook; each call is a fresh one."""
    from nbgrader.api import Gradebook

    views: list[Any] = []

    def view() -> Any:
        views.append(Gradebook(f"sqlite:///{book}", COURSE))
        return views[-1]

    yield view
    for one in views:
        one.close()


View = Callable[[], Any]


def grade(view: Any, cell: str, student: str = "ada") -> Any:
    return view.find_grade(cell, LAB, LAB, student)


# ---- what a release says ----


@pytest.mark.parametrize("lab", sorted(path.name for path in EXERCISES.iterdir() if path.is_dir()))
def test_every_lab_says_which_cell_checks_what(lab: str) -> None:
    from stepprof_lab.grading import items

    found = release.read(EXERCISES, lab)
    checks = {cell.item: cell.points for cell in found.graded if cell.item}
    assert checks == {item.id: item.points for item in items.lab(lab).items}
    assert {item for said in found.commented().values() for item in said} == set(checks)


@pytest.mark.parametrize("source", ["", "check(name, 1)", "check('a', 1); check('b', 2)", "a = (", "print('check')"])
def test_a_check_cell_names_one_item(source: str) -> None:
    with pytest.raises(StepprofError, match="one, that names its item"):
        release.item_of(source, "busy-check")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [{"metadata": {"nbgrader": {"grade_id": "a"}}}]}'])
def test_what_is_no_release_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(StepprofError, match="make labs"):
        release.read(tmp_path, LAB)
    (tmp_path / LAB).mkdir()
    (tmp_path / LAB / f"{LAB}.ipynb").write_text(text)
    with pytest.raises(StepprofError, match="make labs"):
        release.read(tmp_path, LAB)


# ---- points ----


def test_points_stand_in_the_gradebook(book: Path, opened: View) -> None:
    found = put(book, make("ada"), make("bob", wrong("03/busy_ms"), marked("03/table", points=1.5)))
    assert found.written == [f"{LAB}/ada", f"{LAB}/bob"]
    assert not found.for_a_person  # what a person reads in this lab is worth nothing
    view = opened()
    assert view.find_submission(LAB, "ada").score == view.find_submission(LAB, "ada").max_score == 15
    assert view.find_submission(LAB, "bob").score == 9.5
    assert grade(view, "busy-check", "bob").auto_score == 0
    assert view.find_submission(LAB, "ada").timestamp.isoformat() == "2026-03-01T12:00:00"
    assert grade(view, "record-text").needs_manual_grade
    assert not grade(view, "busy-check").needs_manual_grade


def test_the_same_results_again_change_nothing(book: Path) -> None:
    several = [make("ada"), make("bob", wrong("03/busy_ms")), make("eve", marked("03/table", "crashed"))]
    put(book, *several)
    before = content(book)
    found = put(book, *several)
    assert content(book) == before
    assert found.same == [f"{LAB}/{name}" for name in ("ada", "bob", "eve")]
    assert not found.written
    assert found.for_a_person == [f"{LAB}/eve"]


@pytest.mark.parametrize("how", sorted(gradebook.NOT_RUN - {"unreadable"}))
def test_what_could_not_be_run_keeps_earlier_points_and_needs_a_person(book: Path, opened: View, how: str) -> None:
    found = put(book, make("ada", marked("03/table", how, where="table")))
    assert found.for_a_person == [f"{LAB}/ada"]
    view = opened()
    assert grade(view, "table-check").auto_score == 0
    assert grade(view, "table-check").needs_manual_grade
    assert view.find_submission(LAB, "ada").score == 12
    assert "(cell `table`)" in view.find_comment("table", LAB, LAB, "ada").auto_comment


@pytest.mark.parametrize("how", ["cell failed", "no check"])
def test_a_learners_own_error_is_no_points_and_needs_nobody(book: Path, opened: View, how: str) -> None:
    assert not put(book, make("ada", marked("03/table", how))).for_a_person
    assert grade(opened(), "table-check").auto_score == 0


def test_an_undecided_item_has_no_points_and_waits_for_a_person(book: Path, opened: View) -> None:
    found = put(book, make("ada", marked("03/table", points=0.0, undecided=True)))
    assert found.for_a_person == [f"{LAB}/ada"]
    assert grade(opened(), "table-check").auto_score is None
    assert grade(opened(), "table-check").needs_manual_grade


@pytest.mark.parametrize("given", [[], "all"])
def test_an_unreadable_submission_has_its_row(book: Path, opened: View, given: Any) -> None:
    from stepprof_lab.grading.marking.result import Ending

    listed = [marked(one.item, "unreadable") for one in make().items] if given else []
    found = put(book, make("ada", items=listed, ending=Ending(how="unreadable", why="no notebook")))
    assert found.for_a_person == [f"{LAB}/ada"]
    view = opened()
    assert view.find_submission(LAB, "ada").score == 0
    assert grade(view, "busy-check").needs_manual_grade
    assert "could not be read" in view.find_comment("busy", LAB, LAB, "ada").auto_comment


def test_grades_say_that_there_was_no_sandbox(book: Path, opened: View) -> None:
    put(book, make("ada", sandbox="none"))
    assert "graded without a sandbox" in opened().find_comment("busy", LAB, LAB, "ada").auto_comment


def test_comments_hold_no_markup_of_a_learners(book: Path, opened: View) -> None:
    said = [Said(key="common.not_a_number", values={"kind": "<img src=x onerror=alert(1)> & more"})]
    put(book, make("ada", marked("03/busy_ms", points=0.0, said=said)))
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; more" in opened().find_comment("busy", LAB, LAB, "ada").comment


def test_the_newest_submission_counts(book: Path, opened: View) -> None:
    old = make("ada", wrong("03/busy_ms"), key="1" * 16, submitted="2026-03-01 12:00:00 UTC")
    new = make("ada", key="2" * 16, submitted="2026-03-01 12:30:00 +0000")
    put(book, new, old)
    assert opened().find_submission(LAB, "ada").score == 15
    before = content(book)
    (only,) = keep(book.parent / "older", old)
    found = gradebook.import_results([only], f"sqlite:///{book}", EXERCISES, course=COURSE)
    assert found.older == [f"{LAB}/ada"]
    assert content(book) == before


def test_of_two_without_a_time_stamp_the_later_result_counts(book: Path, opened: View) -> None:
    early = make("ada", wrong("03/busy_ms"), key="2" * 16, submitted=None)
    late = make("ada", key="1" * 16, submitted=None, made="2026-03-03T00:00:00Z")
    put(book, late, early)
    assert opened().find_submission(LAB, "ada").score == 15
    assert opened().find_submission(LAB, "ada").timestamp is None


# ---- what a person has entered ----


def person(view: Any, cell: str, *, manual: float | None = None, extra: float | None = None, said: str = "") -> None:
    """Do what the form grader does when a person saves a cell."""
    row = grade(view, cell)
    row.manual_score, row.extra_credit = manual, extra
    row.needs_manual_grade = row.manual_score is None and row.auto_score is None
    if said:
        view.find_comment(cell.removesuffix("-check"), LAB, LAB, "ada").manual_comment = said
    view.db.commit()


def test_a_regrade_keeps_what_a_person_entered(book: Path, opened: View) -> None:
    put(book, make("ada", wrong("03/busy_ms")))
    view = opened()
    person(view, "busy-check", manual=3.0, extra=0.5, said="The idea was right.")
    person(view, "record-text", manual=0.0)
    view.grant_extension(LAB, "ada", days=2)
    before = content(book)
    put(book, make("ada", wrong("03/busy_ms")))
    assert content(book) == before
    found = put(book, make("ada", key="2" * 16, submitted="2026-03-01 13:00:00 UTC"))
    assert found.for_a_person == [f"{LAB}/ada"]
    view = opened()
    row = grade(view, "busy-check")
    assert (row.auto_score, row.manual_score, row.extra_credit, row.needs_manual_grade) == (4, 3, 0.5, True)
    assert row.score == 3.5
    assert view.find_comment("busy", LAB, LAB, "ada").manual_comment == "The idea was right."
    assert grade(view, "record-text").needs_manual_grade  # another text to read
    assert view.find_submission(LAB, "ada").extension == dt.timedelta(days=2)


def test_what_a_person_has_looked_at_stays_looked_at(book: Path, opened: View) -> None:
    put(book, make("ada", marked("03/table", "timed out")))
    person(opened(), "table-check", extra=1.0)
    before = content(book)
    assert put(book, make("ada", marked("03/table", "timed out"))).for_a_person == []
    assert content(book) == before
    put(book, make("ada", marked("03/table", "crashed")))  # another result file of the same key stays as it is
    newer = make("ada", marked("03/table", "crashed"), key="2" * 16, submitted="2026-03-01 12:10:00 UTC")
    assert put(book, newer).for_a_person == [f"{LAB}/ada"]
    assert opened().find_submission(LAB, "ada").score == 13  # the extra credit counts


def test_extra_credit_counts_beside_automatic_points(book: Path, opened: View) -> None:
    put(book, make("ada"))
    person(opened(), "busy-check", extra=2.0)
    put(book, make("ada"))
    assert opened().find_submission(LAB, "ada").score == 17


# ---- late ----


class Half:
    """A site's own rule: half of the points, and for one student an impossible one."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        assert total_seconds_late == 3600
        return {"much": 1000.0, "less": -5.0, "none": None}.get(student_id, score / 2)


def due(view: Any, when: str) -> None:
    view.update_or_create_assignment(LAB, duedate=when)


def penalty(view: Any, student: str = "ada") -> float | None:
    found: float | None = view.find_submission_notebook(LAB, LAB, student).late_submission_penalty
    return found


def test_a_late_submission_is_penalised_again_when_the_due_date_moves(book: Path, opened: View) -> None:
    students = [make(name) for name in ("ada", "less", "much", "none")]
    put(book, *students, penalty=Half())
    assert penalty(opened()) is None
    due(opened(), "2026-03-01 11:00:00 UTC")
    put(book, *students, penalty=Half())
    view = opened()
    assert [penalty(view, name) for name in ("ada", "less", "much", "none")] == [7.5, 0, 15, None]
    before = content(book)
    assert put(book, *students, penalty=Half()).same
    assert content(book) == before
    due(opened(), "2026-03-02 11:00:00 UTC")
    assert len(put(book, *students, penalty=Half()).written) == 3
    assert penalty(opened()) is None


def test_an_extension_moves_the_due_date_of_one(book: Path, opened: View) -> None:
    put(book, make("ada"), make("bob"))
    due(opened(), "2026-03-01 11:00:00 UTC")
    opened().grant_extension(LAB, "ada", hours=1)
    put(book, make("ada"), make("bob"), penalty=Half())
    assert [penalty(opened(), name) for name in ("ada", "bob")] == [None, 7.5]


def test_an_extension_without_a_due_date_is_no_error(book: Path, opened: View) -> None:
    put(book, make("ada"))
    opened().grant_extension(LAB, "ada", hours=1)
    assert put(book, make("ada"), penalty=Half()).same


def test_the_rule_for_late_submissions_comes_from_the_courses_configuration(tmp_path: Path) -> None:
    config = tmp_path / "nbgrader_config.py"
    config.write_text("c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    assert gradebook.penalty_of(config).late_submission_penalty("ada", 7.0, 60.0) == 7
    assert gradebook.penalty_of(ROOT / "nbgrader_config.py").late_submission_penalty("ada", 7.0, 60.0) is None
    config.write_text("c = get_config()\nc.AssignLatePenalties.plugin_class = 'no.such.module'\n")
    with pytest.raises(StepprofError, match=r"nbgrader_config\.py"):
        gradebook.penalty_of(config)


# ---- what cannot be imported ----


def test_a_gradebook_of_another_course_is_left_alone(book: Path) -> None:
    put(book, make("ada"))
    before = content(book)
    with pytest.raises(StepprofError, match="course 'stepprof_lab'; expected of 'another'"):
        put(book, make("ada"), course="another")
    assert content(book) == before


def test_another_version_of_a_lab_is_refused(book: Path, opened: View) -> None:
    view = opened()
    view.add_assignment(LAB)
    view.add_notebook(LAB, LAB)
    view.add_grade_cell("busy-check", LAB, LAB, max_score=9, cell_type="code")
    with pytest.raises(StepprofError, match="another version of '03-nested-sums'"):
        put(book, make("ada"))
    assert not opened().students


def test_results_of_another_version_are_refused_and_the_others_kept(book: Path) -> None:
    fewer = make("bob", items=make().items[1:])
    richer = make("eve", msgspec.structs.replace(marked("03/table"), of=30.0))
    more = make("max", marked("03/table", points=100.0))
    found = put(book, make("ada"), fewer, richer, more)
    assert found.written == [f"{LAB}/ada"]
    assert {name: "another version" in why for name, why in found.refused.items()} == {
        f"{LAB}/bob": True,
        f"{LAB}/eve": True,
        f"{LAB}/max": False,
    }
    assert "100 points for 03/table; expected 0 to 3" in found.refused[f"{LAB}/max"]


def test_files_that_are_no_results_are_told_by_name(book: Path) -> None:
    broken = book.parent / "broken.json"
    broken.write_text("{")
    files = [broken, *keep(book.parent / "results", make("ada"), make("bob", submitted="yesterday-ish"))]
    found = gradebook.import_results(files, f"sqlite:///{book}", EXERCISES, course=COURSE)
    assert found.written == [f"{LAB}/ada"]
    assert set(found.refused) == {"broken.json", "00000000000000aa.json"}
    assert all("\n" not in why for why in found.refused.values())


NAMES = ["Ada Lovelace", "Zoë <b>", "李小龍", "بهنوش‌احمدی", "a,b\"c';--", "=1+1", "x" * 128, "{0}", "%s"]


def test_students_may_have_any_name(book: Path, opened: View) -> None:
    assert len(put(book, *[make(name) for name in NAMES]).written) == len(NAMES)
    view = opened()
    assert sorted(student.id for student in view.students) == sorted(NAMES)
    assert {view.find_submission(LAB, name).score for name in NAMES} == {15}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\nb", "a\x00b", "x" * 129, "\u202eevil"])
def test_a_name_that_no_folder_has_is_refused(book: Path, name: str) -> None:
    (file,) = keep(book.parent / "results", make("somebody"))
    file.write_bytes(msgspec.json.encode(make(name)))
    found = gradebook.import_results([file], f"sqlite:///{book}", EXERCISES, course=COURSE)
    assert list(found.refused) == [f"{LAB}/{name}"]
    assert "\n" not in found.refused[f"{LAB}/{name}"]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("gradebook", "cannot be read"),
        ("nosuchdatabase://u:secret@host/db", "driver"),
        ("sqlite:////dev/null/gradebook.db", "cannot be made"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(StepprofError, match=why) as caught:
        gradebook.import_results(keep(tmp_path, make()), url, EXERCISES, course=COURSE, patience_s=0)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["text", "other tables", "old"])
def test_what_is_no_gradebook_is_one_line(book: Path, kind: str) -> None:
    book.unlink()
    if kind == "text":
        book.write_text("grades: all good, and long enough to be taken for a database's first page\n" * 20)
    else:
        with sqlite3.connect(book) as connection:
            connection.execute("CREATE TABLE assignment (id TEXT)")
            if kind == "old":
                connection.execute("CREATE TABLE submitted_assignment (id TEXT)")
    before = book.read_bytes()
    with pytest.raises(StepprofError):
        put(book, make("ada"))
    assert book.read_bytes() == before


# ---- others at the same time, and sudden ends ----


@pytest.mark.parametrize("mode", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_locked_gradebook_is_waited_for(book: Path, opened: View, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(book, make("ada"))
    other = sqlite3.connect(book)
    other.execute(f"BEGIN {mode}")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        other.rollback()  # the other one is done

    monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    put(book, make("ada"), make("bob"), patience_s=60)
    other.close()
    assert pauses == [database.PAUSE_S]
    assert opened().find_submission(LAB, "bob").score == 15


@pytest.mark.parametrize("mode", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_gradebook_that_stays_locked_is_told_in_one_line(
    book: Path, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    put(book, make("ada"))
    before = content(book)
    other = sqlite3.connect(book)
    other.execute(f"BEGIN {mode}")
    with pytest.raises(StepprofError, match=r"locked; .*; end what writes to it") as caught:
        put(book, make("ada", key="2" * 16, submitted="2026-03-01 13:00:00 UTC"), patience_s=0)
    other.rollback()
    other.close()
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""
    assert content(book) == before


def test_a_second_import_waits_or_is_refused(book: Path) -> None:
    with database.opened(f"sqlite:///{book}", COURSE, patience_s=5):
        with pytest.raises(StepprofError, match="another import"):
            put(book, make("ada"), patience_s=0.1)
    assert put(book, make("ada")).written


def test_a_second_import_waits_for_the_first(book: Path) -> None:
    found: list[Imported] = []
    second = threading.Thread(target=lambda: found.append(put(book, make("ada"), patience_s=60)))
    with database.opened(f"sqlite:///{book}", COURSE, patience_s=5):
        second.start()
        second.join(timeout=0.5)
        assert second.is_alive()
    second.join(timeout=60)
    assert found[0].written == [f"{LAB}/ada"]


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.orm import Session
from stepprof_lab.grading.marking import gradebook

stage, book, release, *files = sys.argv[1:]
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if stage == "inside":
    left = [4]  # nbgrader's own, the assignment, the first student, and at the end of the second one's
    def before(_):
        left[0] -= 1
        left[0] or kill()
    event.listen(Session, "before_commit", before)
gradebook.import_results(
    map(Path, files), f"sqlite:///{book}", Path(release), course="stepprof_lab",
    told=kill if stage == "between" else lambda _: None,
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["between", "inside"])
def test_an_import_that_was_killed_goes_on(book: Path, empty: Path, stage: str) -> None:
    several = [make("ada"), make("bob", wrong("03/busy_ms")), make("eve", marked("03/table", "crashed"))]
    files = keep(book.parent / "results", *several)
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, stage, str(book), str(EXERCISES), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    found = put(book, *several)
    assert found.same == [f"{LAB}/ada"]
    assert found.written == [f"{LAB}/bob", f"{LAB}/eve"]
    undisturbed = book.with_name("undisturbed.db")
    shutil.copy(empty, undisturbed)
    put(undisturbed, *several)
    assert without_ids(book) == without_ids(undisturbed)


def test_a_gradebook_appears_whole_or_not_at_all(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book.unlink()

    def fails(*_: Any) -> Any:
        raise NotAvailable("alembic", "it", "install it")

    monkeypatch.setattr(database, "_gradebook", fails)
    with pytest.raises(NotAvailable):
        put(book, make("ada"))
    assert not list(book.parent.glob("*.db")) + list(book.parent.glob(".*.part"))
