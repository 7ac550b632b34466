"""nbgrader's own commands work on this course, as `nbgrader_config.py` sets it up."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = "03-nested-sums"

pytestmark = pytest.mark.slow


def nbgrader(course: Path, *arguments: str) -> str:
    """Run one of nbgrader's commands in a course; its output."""
    code = "import sys; from nbgrader.apps.nbgraderapp import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=course,
        env={
            **os.environ,
            # nbgrader calls alembic, and the kernel's python, by their bare names.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(course),
            "IPYTHONDIR": str(course / ".ipython"),
            "JUPYTER_CONFIG_DIR": str(course / ".jupyter"),
            "STEPPROF_HOME": str(course / "home"),
            "STEPPROF_LEARNER": "somebody",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course with lab 03 released by nbgrader itself."""
    pytest.importorskip("nbgrader", reason="it is what this is about")
    made = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", made)
    (made / "solutions" / LAB).mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / LAB / f"{LAB}.ipynb", made / "solutions" / LAB)
    nbgrader(made, "generate_assignment", LAB)
    return made


def test_what_nbgrader_releases_is_what_is_handed_out(course: Path) -> None:
    ours = json.loads((ROOT / "exercises" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8"))
    theirs = json.loads((course / "exercises" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8"))
    assert [cell["source"] for cell in ours["cells"]] == [cell["source"] for cell in theirs["cells"]]
    assert [cell["metadata"] for cell in ours["cells"]] == [cell["metadata"] for cell in theirs["cells"]]


def test_a_submission_is_graded_and_exported(course: Path) -> None:
    for student, source in (("solved", ROOT / "solutions"), ("unsolved", ROOT / "exercises")):
        folder = course / "submitted" / student / LAB
        folder.mkdir(parents=True)
        shutil.copy(source / LAB / f"{LAB}.ipynb", folder)
    nbgrader(course, "autograde", LAB)
    nbgrader(course, "generate_feedback", LAB)
    nbgrader(course, "export")
    with (course / "grades.csv").open(newline="", encoding="utf-8") as stream:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(stream)}
    assert scores == {"solved": 15.0, "unsolved": 0.0}
    feedback = (course / "feedback" / "unsolved" / LAB / f"{LAB}.html").read_text(encoding="utf-8")
    assert "Not answered yet" in feedback
