"""`stepprof grade` on a small course: table, gradebook, pages for learners; ended at any moment and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.grading.marking import result, sandbox
from stepprof_lab.grading.marking.job import Limits
from stepprof_lab.grading.marking.run import KEY_FILE

ROOT = Path(__file__).resolve().parents[2]
LAB = "03-nested-sums"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with an honest submission, an unsolved one, one that ends its process, and one that is no notebook."""
    course = tmp_path_factory.mktemp("handed in")
    shutil.copytree(ROOT / "exercises" / LAB, course / "exercises" / LAB)
    solved = (ROOT / "solutions" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8")
    release = (ROOT / "exercises" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8")
    ended = json.loads(solved)
    answers = [one for one in ended["cells"] if one["cell_type"] == "code" and one["metadata"]["nbgrader"]["solution"]]
    answers[-1]["source"] = "import os\nos.kill(os.getpid(), 9)"
    for student, text in {
        "ada": solved,
        "Zoë B": release,
        "eve": json.dumps(ended),
        "nobody": "no notebook",
    }.items():
        folder = course / "submitted" / student / LAB
        folder.mkdir(parents=True)
        (folder / f"{LAB}.ipynb").write_text(text, encoding="utf-8")
        (folder / "timestamp.txt").write_text("2026-01-02 03:04:05.000000 UTC", encoding="utf-8")
    return course


@pytest.fixture
def course(handed_in: Path, tmp_path: Path) -> Path:
    if (why := sandbox.Bubblewrap().works(Limits())) is not None:
        pytest.skip(f"no bubblewrap here: {why}")
    shutil.copytree(handed_in, tmp_path / "course")
    return tmp_path / "course"


def command(course: Path, *more: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "stepprof_lab", "grade", LAB, "--course", str(course), *more]


def environment(course: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(course)}


def grade(course: Path, *more: str, code: int = 0) -> str:
    done = subprocess.run(
        command(course, *more), env=environment(course), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    return done.stdout


def points(course: Path) -> dict[str, tuple[str, float]]:
    """What nbgrader's own reader says of the course: for each student the score."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", course_id="stepprof_lab") as book:
        return {one.student.id: (one.assignment.name, one.score) for one in book.assignment_submissions(LAB)}


def test_a_class_is_graded_once_and_a_second_run_has_nothing_to_do(course: Path) -> None:
    pytest.importorskip("nbgrader", reason="it keeps the gradebook")
    plan = grade(course, "--dry-run")
    assert "3 submissions" in plan
    assert not (course / "marked").exists()
    told = json.loads(grade(course, "--json", "--csv", str(course / "grades.csv")))
    rows: dict[str, Any] = {row["student"]: row for row in told["rows"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "Zoë B": "graded",
        "ada": "graded",
        "eve": "graded",
        "nobody": "cannot be read",
    }
    assert rows["ada"]["points"] == rows["ada"]["of"]
    assert rows["Zoë B"]["points"] == 0
    assert 0 < rows["eve"]["points"] < rows["eve"]["of"], "what came before the crash keeps its points"
    assert "crashed" in rows["eve"]["why"]
    assert "no notebook" in rows["nobody"]["why"]
    assert points(course)["ada"] == (LAB, rows["ada"]["points"])
    assert (course / "feedback" / "ada" / LAB / f"{LAB}.html").exists()
    assert (course / "autograded" / "eve" / LAB / f"{LAB}.ipynb").exists()
    assert "nobody" in (course / "feedback" / "nobody" / LAB / f"{LAB}.html").read_text(encoding="utf-8")
    assert points(course)["nobody"] == (LAB, 0)
    table = (course / "grades.csv").read_text(encoding="utf-8-sig").splitlines()
    assert next(line for line in table if "ada" in line).endswith(f"{rows['ada']['points']:g}")
    assert (course / KEY_FILE).stat().st_mode & 0o077 == 0

    made = {path: path.stat().st_mtime_ns for path in (course / "marked").rglob("*.json")}
    again = json.loads(grade(course, "--json"))
    assert again["rows"] == told["rows"]
    assert again["gradebook"]["written"] == []
    assert {path: path.stat().st_mtime_ns for path in (course / "marked").rglob("*.json")} == made
    assert "nothing is left to do" in grade(course, "--dry-run")
    assert "ada: graded" in grade(course, "--plain", "--regrade", "--student", "ada")
    assert {path for path in made if path.stat().st_mtime_ns != made[path]} == {
        path for path in made if "ada" in path.parts
    }


@pytest.mark.parametrize("moment", [0.3, 1.5, 4.0])
def test_a_run_that_is_killed_is_finished_by_the_next_one(course: Path, moment: float) -> None:
    """Whatever moment it is: each file is whole or not there, and what is done is not done again."""
    pytest.importorskip("nbgrader", reason="it keeps the gradebook")
    run = subprocess.Popen(
        command(course), env=environment(course), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(moment)
    run.send_signal(signal.SIGKILL)
    run.wait(30)
    done = [result.read(path).student for path in (course / "marked").rglob("[!.]*.json")]
    told = json.loads(grade(course, "--json"))
    assert {row["student"] for row in told["rows"] if row["state"] == "graded"} == {"ada", "eve", "Zoë B"}
    assert len(done) == len(set(done))
    assert points(course)["ada"][1] == next(row["of"] for row in told["rows"] if row["student"] == "ada")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--student", "who"], "student 'who', who handed in nothing"),
        (["--gradebook", "nonsense"], "a gradebook's URL"),
        (["--executor", "slurm", "--sbatch", "a b"], "KEY=VALUE"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(course: Path, arguments: list[str], line: str) -> None:
    done = subprocess.run(
        command(course, *arguments), env=environment(course), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2
    assert line in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
