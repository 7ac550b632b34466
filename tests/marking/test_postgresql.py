"""The same importer with a real PostgreSQL server as nbgrader's gradebook."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading.marking import database, gradebook, table
from stepprof_lab.grading.marking.gradebook import Imported
from tests.marking.some_results import COURSE, EXERCISES, LAB, keep, make, marked, wrong

pytestmark = pytest.mark.slow


def missing() -> str | None:
    """Why there is no server to be had here."""
    for module in ("nbgrader", "psycopg2"):
        if importlib.util.find_spec(module) is None:
            return f"no {module} here"
    return None if program("initdb").exists() else "no PostgreSQL server is installed here"


def program(name: str) -> Path:
    found = [Path(shutil.which(name) or name), *sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    return next((path.resolve() for path in reversed(found) if path.exists()), Path(name))


def run(user: str, *command: str | Path) -> None:
    """Run one of the server's programs, which refuse to run as root."""
    as_user: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid} if os.getuid() == 0 else {}
    # What the server inherits stays open as long as it runs: nothing may wait for the end of that.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", timeout=120, **as_user)
    assert done.returncode == 0, command


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of an empty database."""
    if (why := missing()) is not None:
        if os.environ.get("STEPPROF_POSTGRESQL"):
            pytest.fail(why)
        pytest.skip(why)
    user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path ends at 107 bytes
    shutil.chown(folder, user)
    data = folder / "data"
    try:
        run(user, program("initdb"), "-D", data, "-U", "grader", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run(user, program("pg_ctl"), "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg2://grader@/postgres?host={folder}"
        finally:
            run(user, program("pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def put(url: str, folder: Path, *results: Any, **options: Any) -> Imported:
    options = {"course": COURSE, "patience_s": 5.0, **options}
    return gradebook.import_results(keep(folder, *results), url, EXERCISES, **options)


def test_grades_in_postgresql_are_those_in_sqlite(url: str, tmp_path: Path) -> None:
    several = [make("Zoë Ω"), make("bob", wrong("03/busy_ms")), make("eve", marked("03/table", "crashed"))]
    first = put(url, tmp_path, *several)
    assert len(first.written) == 3
    again = put(url, tmp_path, *several)
    assert len(again.same) == 3
    assert not again.written
    assert again.for_a_person == first.for_a_person == [f"{LAB}/eve"]
    sqlite = f"sqlite:///{tmp_path / 'gradebook.db'}"
    put(sqlite, tmp_path, *several)
    assert table.of_gradebook(url, course=COURSE) == table.of_gradebook(sqlite, course=COURSE)


def test_a_second_import_into_postgresql_is_refused(url: str, tmp_path: Path) -> None:
    with database.opened(url, COURSE, patience_s=5):
        with pytest.raises(StepprofError, match="another import"):
            put(url, tmp_path, make("ada"), patience_s=0.2)
    assert put(url, tmp_path, make("ada")).written


def test_a_row_that_somebody_else_holds_is_waited_for_no_longer_than_that(url: str, tmp_path: Path) -> None:
    from sqlalchemy import create_engine, text

    put(url, tmp_path, make("max"))
    engine = create_engine(url)
    with engine.connect() as other:
        other.execute(text("LOCK TABLE grade IN EXCLUSIVE MODE"))
        with pytest.raises(StepprofError, match="end what writes to it"):
            put(url, tmp_path, make("max", wrong("03/busy_ms"), key="2" * 16), patience_s=0.2)
        other.rollback()
    engine.dispose()
    newer = make("max", wrong("03/busy_ms"), key="2" * 16, submitted="2026-03-01 12:20:00 UTC")
    assert put(url, tmp_path, newer).written == [f"{LAB}/max"]


def test_a_gradebook_of_another_course_is_refused(url: str, tmp_path: Path) -> None:
    put(url, tmp_path, make("ada"))
    with pytest.raises(StepprofError, match="expected of 'another'"):
        put(url, tmp_path, make("ada"), course="another")


def test_a_server_that_is_not_there_is_one_line_without_the_password(url: str, tmp_path: Path) -> None:
    nowhere = f"postgresql+psycopg2://grader:hidden@/postgres?host={tmp_path}"
    with pytest.raises(StepprofError) as caught:
        put(nowhere, tmp_path, make("ada"))
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)
