"""nbgrader's gradebook as a database: opened by one writer at a time, waited for, and every refusal in one line."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stepprof_lab import files
from stepprof_lab.errors import NotAvailable, StepprofError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

LOCK_SUFFIX = ".importing"
"""Of the lock file beside a SQLite gradebook."""

ATTEMPT_S = 1.0
"""The database itself waits so long for a lock; then the transaction is tried again, until the patience is over."""

PAUSE_S = 0.1

_BUSY = ("locked", "busy", "lock timeout", "deadlock detected", "could not serialize")
"""What databases say where somebody else's transaction stands in the way."""

_OURS = "2a86f1f1"

Done = TypeVar("Done")


@contextlib.contextmanager
def opened(url: str, course: str, *, patience_s: float, make: bool = True) -> Iterator[Any]:
    """A gradebook (`nbgrader.api.Gradebook`), and with it the right to be its one writer.

    Args:
        url: any SQLAlchemy URL.
        course: nbgrader's ``CourseDirectory.course_id``.
        patience_s: how long to wait for another importer, and for a locked database.
        make: make it where there is none.

    Raises:
        NotAvailable: nbgrader or the database's driver is not installed.
        StepprofError: the URL is none, the gradebook is of another course or another nbgrader, somebody else has it for
            too long, or it cannot be opened.
    """
    where = _parsed(url)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_told_in_one_line(where))
        path = Path(where.database) if where.get_backend_name() == "sqlite" and where.database else None
        if not make and path is not None and not path.exists():
            raise StepprofError(f"no gradebook {path.name!r}", "one with grades", "check the URL, or import results")
        stack.enter_context(_alone(path, where, patience_s))
        if path is not None and not path.exists():
            _make(path, course)
        gradebook = _patiently(lambda: _open(_impatient(where), course), patience_s)
        stack.callback(gradebook.close)
        yield gradebook


def in_one_transaction(gradebook: Any, work: Callable[[], Done], *, patience_s: float) -> Done:
    """Do ``work`` in one transaction: all of it is kept, or nothing.

    Where the database is locked it is rolled back and done again, until the patience is over; so ``work`` has to find
    its objects by itself.
    """

    def attempt() -> Done:
        try:
            done = work()
            gradebook.db.commit()
        except BaseException:
            gradebook.db.rollback()
            raise
        return done

    return _patiently(attempt, patience_s)


def _patiently(attempt: Callable[[], Done], patience_s: float) -> Done:
    from sqlalchemy.exc import DBAPIError

    until = time.monotonic() + patience_s
    while True:
        try:
            return attempt()
        except DBAPIError as error:
            if not any(word in str(error.orig).lower() for word in _BUSY) or time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def _parsed(url: str) -> URL:
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError as error:
        raise NotAvailable("no nbgrader here", "nbgrader", "install stepprof-lab[lab]") from error
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StepprofError(
            "a gradebook's URL that cannot be read", "sqlite:///gradebook.db, or another of SQLAlchemy's", "mend it"
        ) from error


def _impatient(where: URL) -> URL:
    """The URL of a database that gives up by itself after `ATTEMPT_S`: SQLite's default is 5 s, PostgreSQL's never."""
    if where.get_backend_name() == "sqlite":
        return where.update_query_dict({"timeout": f"{ATTEMPT_S:g}"})
    if where.get_driver_name().startswith("psycopg"):
        given = where.query.get("options", "")
        own = given if isinstance(given, str) else " ".join(given)
        return where.update_query_dict({"options": f"{own} -c lock_timeout={ATTEMPT_S * 1000:.0f}".strip()})
    return where


@contextlib.contextmanager
def _told_in_one_line(where: URL) -> Iterator[None]:
    """Turn what SQLAlchemy and drivers raise into one line without a password."""
    from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

    name = f"gradebook {where.render_as_string(hide_password=True)!r}"
    try:
        yield
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise NotAvailable(f"{name}: {error}", "a database whose driver is installed", "install its driver") from error
    except DBAPIError as error:
        said = _first_line(error.orig or error)
        if any(word in said.lower() for word in _BUSY):
            todo = "end what writes to it, and run this again: what was written stays, nothing is written twice"
        else:
            todo = "mend that, and run this again: what was written stays, nothing is written twice"
        raise StepprofError(f"{name}: {said}", "a gradebook of nbgrader that can be written", todo) from error
    except SQLAlchemyError as error:
        raise StepprofError(
            f"{name}: {_first_line(error)}", "a gradebook of this nbgrader", "run `nbgrader db upgrade`"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@contextlib.contextmanager
def _alone(path: Path | None, where: URL, patience_s: float) -> Iterator[None]:
    """Be the only importer of a gradebook: a lock file beside SQLite, an advisory lock in PostgreSQL.

    Other databases have their transactions alone; two importers of one of them would each write the same.
    """
    if path is not None:
        with _lock_file(path, patience_s):
            yield
    elif where.get_backend_name() == "postgresql":
        with _advisory_lock(where, patience_s):
            yield
    else:
        yield


def _refused(patience_s: float) -> StepprofError:
    return StepprofError(
        f"a gradebook that another import has been writing for {patience_s:g} s", "one import at a time", "wait for it"
    )


@contextlib.contextmanager
def _lock_file(path: Path, patience_s: float) -> Iterator[None]:
    import filelock

    files.make_directory(path.parent)
    rights = path.stat().st_mode & 0o666 if path.exists() else 0o644  # whoever may write the one may lock the other
    lock = filelock.FileLock(f"{path}{LOCK_SUFFIX}", mode=rights)
    try:
        lock.acquire(timeout=patience_s)
    except filelock.Timeout as error:
        raise _refused(patience_s) from error
    except OSError as error:
        raise StepprofError(
            f"the lock {lock.lock_file}: {error.strerror or error}", "a folder that can be written", "check its rights"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _advisory_lock(where: URL, patience_s: float) -> Iterator[None]:
    from sqlalchemy import create_engine, text

    number = int(hashlib.sha256(f"{_OURS}{where.database}".encode()).hexdigest()[:8], 16)
    engine = create_engine(where)
    until = time.monotonic() + patience_s
    try:
        with engine.connect() as connection:  # the lock goes with its connection, however that ends
            while not connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": number}).scalar():
                if time.monotonic() > until:
                    raise _refused(patience_s)
                time.sleep(PAUSE_S)
            connection.commit()  # the lock is the session's; no transaction stays open meanwhile
            yield
    finally:
        engine.dispose()


def _make(path: Path, course: str) -> None:
    """Make a SQLite gradebook whole or not at all: one without nbgrader's own version could never be upgraded."""
    with files.new_file(path, "gradebook") as temporary:
        _gradebook(f"sqlite:///{temporary}", course).close()


def _open(where: URL, course: str) -> Any:
    from sqlalchemy import create_engine

    engine = create_engine(where)
    try:
        _check_course(engine, course)
    finally:
        engine.dispose()
    return _gradebook(where.render_as_string(hide_password=False), course)


def _check_course(engine: Engine, course: str) -> None:
    """Refuse what is no gradebook, or another course's, before anything is written to it."""
    from sqlalchemy import inspect, text

    found = inspect(engine)
    tables = found.get_table_names()
    if not tables:
        return
    if "assignment" not in tables or "submitted_assignment" not in tables:
        raise StepprofError("a database without nbgrader's tables", "a gradebook of nbgrader", "check the URL")
    if "course_id" not in {column["name"] for column in found.get_columns("assignment")}:
        raise StepprofError("a gradebook of an older nbgrader", "this one's tables", "run `nbgrader db upgrade`")
    with engine.connect() as connection:
        courses = {str(row[0]) for row in connection.execute(text("SELECT DISTINCT course_id FROM assignment"))}
    if courses and course not in courses:
        raise StepprofError(
            f"a gradebook of the course {', '.join(map(repr, sorted(courses)))}",
            f"of {course!r}",
            "check the URL, and course_id in nbgrader_config.py",
        )


def _gradebook(url: str, course: str) -> Any:
    from nbgrader.api import Gradebook, InvalidEntry

    # nbgrader calls alembic by its bare name; and it logs a traceback of what it raises anyway.
    path, log = os.environ.get("PATH", ""), logging.getLogger("tornado.application")
    was = log.disabled
    try:
        log.disabled = True
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
        return Gradebook(url, course)
    except InvalidEntry as error:
        raise error.__context__ or error from None  # what the database said
    finally:
        os.environ["PATH"] = path
        log.disabled = was
