"""How many submissions an hour: `stepprof grade` with its sandbox, and one call of `nbgrader autograde`, side by side.

```
python tests/benchmarks/grade.py --submissions 50 --lab 03-nested-sums
```

Both grade the same submissions of a lab that measures no times, on the same processors: half of them the solution, the
rest with one answer taken out. Each starts from a course without a gradebook. Prints a Markdown table; wall seconds are
of the whole command, with its start and its writing of the gradebook, and processor seconds are of all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NBGRADER = "import sys; from nbgrader.apps.nbgraderapp import main; sys.exit(main())"


class Took(NamedTuple):
    """One command: wall and processor seconds, and each student's points."""

    wall_s: float
    cpu_s: float
    points: dict[str, float]


def course(root: Path, lab: str, count: int) -> None:
    """A course with so many submissions, as nbgrader collects them."""
    for folder in ("exercises", "solutions"):
        shutil.copytree(ROOT / folder / lab, root / folder / lab)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    solved = json.loads((ROOT / "solutions" / lab / f"{lab}.ipynb").read_text(encoding="utf-8"))
    for number in range(count):
        made = json.loads(json.dumps(solved))
        answers = [one for one in made["cells"] if one["metadata"].get("nbgrader", {}).get("solution")]
        if number % 2:
            answers[number // 2 % len(answers)]["source"] = "..."
        folder = root / "submitted" / f"student{number:03}" / lab
        folder.mkdir(parents=True)
        (folder / f"{lab}.ipynb").write_text(json.dumps(made), encoding="utf-8")


def run(root: Path, lab: str, command: list[str]) -> Took:
    """Run one grader over a course."""
    before, begin = _cpu_s(), time.perf_counter()
    call(root, command)
    wall, cpu = time.perf_counter() - begin, _cpu_s() - before
    return Took(wall, cpu, _points(root, lab))


def call(root: Path, command: list[str]) -> None:
    """Run a command in a course of its own home."""
    environment = {
        **os.environ,
        # nbgrader calls alembic, and the kernel's python, by their bare names.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(root),
        "IPYTHONDIR": str(root / ".ipython"),
        "JUPYTER_CONFIG_DIR": str(root / ".jupyter"),
        "STEPPROF_HOME": str(root / "home"),
        "STEPPROF_LEARNER": "somebody",
    }
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def _cpu_s() -> float:
    """Of all processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _points(root: Path, lab: str) -> dict[str, float]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", course_id="stepprof_lab") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(lab)}


def main() -> None:
    """Grade with both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=50)
    parser.add_argument("--lab", default="03-nested-sums")
    parser.add_argument("--without-nbgrader", action="store_true", help="time ours alone")
    asked = parser.parse_args()
    python = [sys.executable, "-W", "ignore"]
    graders = {"stepprof grade": [*python, "-m", "stepprof_lab", "grade", asked.lab, "--plain"]}
    if not asked.without_nbgrader:
        graders["nbgrader autograde"] = [*python, "-c", NBGRADER, "autograde", asked.lab]
    took = {}
    for name, command in graders.items():
        with tempfile.TemporaryDirectory(prefix="stepprof-bench-") as folder:
            course(Path(folder), asked.lab, asked.submissions)
            if name == "nbgrader autograde":  # it grades by the checks that it released itself
                call(Path(folder), [*python, "-c", NBGRADER, "generate_assignment", asked.lab, "--force"])
            took[name] = run(Path(folder), asked.lab, command)
            print(f"{name}: {took[name].wall_s:.1f} s", file=sys.stderr, flush=True)
    _show(took, asked.submissions)


def _show(took: dict[str, Took], count: int) -> None:
    ours = took["stepprof grade"]
    print(f"{count} submissions, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print("| grader | wall s | CPU s | submissions a minute | times as fast |")
    print("| ------ | -----: | ----: | -------------------: | ------------: |")
    slowest = max(one.wall_s for one in took.values())
    for name, one in took.items():
        speed = f"{60 * count / one.wall_s:.0f} | {slowest / one.wall_s:.1f}"
        print(f"| {name} | {one.wall_s:.1f} | {one.cpu_s:.1f} | {speed} |")
    differ = {name for one in took.values() for name in ours.points if one.points.get(name) != ours.points[name]}
    print(f"\nPoints differ for {len(differ)} of {len(ours.points)} submissions.")


if __name__ == "__main__":
    main()
