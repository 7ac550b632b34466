"""`check` and ``stepprof check``: what is shown, kept, and returned to a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepprof_lab.cli import main
from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import build, catalogue, cells, check, items, kept, running, variants
from stepprof_lab.grading.model import Bar, Picture, Said, Verdict
from stepprof_lab.report import verdict as shown

ROOT = Path(__file__).resolve().parents[2]
EXERCISE = ROOT / "exercises" / "03-nested-sums"


def a_lab(path: Path, *sources: str) -> Path:
    """A notebook with cells of code."""
    found = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    path.write_text(json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


SOLVED = (
    "from stepprof_lab.grading import check",
    "def elapsed_ms(spans):\n    return [s['end_ms'] - s['start_ms'] for s in spans if s['kind'] == 'step'][0]",
    "check('03/elapsed_ms', elapsed_ms).points",
)


def test_every_learner_has_numbers_of_their_own_and_the_same_every_time() -> None:
    one, same, other = (variants.chance(who, "03/table").random() for who in ("ann", "ann", "bob"))
    assert one == same != other
    assert variants.chance("ann", "03/table", key=b"secret").random() != one


def test_progress_keeps_the_best_and_survives_a_damaged_file(capsys: pytest.CaptureFixture[str]) -> None:
    check("03/prediction", "b")
    check("03/prediction", None)
    assert kept.best() == {"03/prediction": (1.0, 1.0)}
    (kept.directory() / "progress.json").write_text("[")
    assert kept.best() == {}
    check("03/prediction", "b")
    assert kept.best() == {"03/prediction": (1.0, 1.0)}
    assert "03/prediction: passed, 1 of 1 points" in capsys.readouterr().out


def test_the_first_cell_tells_how_long_and_what_on(capsys: pytest.CaptureFixture[str]) -> None:
    check("03/prediction", "b")
    shown.show_beginning(items.lab("03"))
    said = capsys.readouterr().out
    assert "about 40 minutes" in said
    assert "1 of 15 points" in said
    assert "constructed" in said


@pytest.mark.parametrize("number", ["99", "", "03x"])
def test_a_lab_that_there_is_not_is_one_line(number: str) -> None:
    with pytest.raises(StepprofError, match="03"):
        items.lab(number)
    with pytest.raises(StepprofError, match="03/busy_ms"):
        items.item("03/nothing")


def test_hidden_checks_are_announced() -> None:
    said = shown.lines(check("03/busy_ms", lambda spans: 0))
    assert "  5 more run when this is graded." in said


def test_names_of_the_learner_are_no_markup() -> None:
    verdict = Verdict(
        item="03/busy_ms",
        points=0,
        of=1,
        said=[Said(key="common.error", values={"error": "<script>alert(1)</script>"})],
        picture=Picture(unit="<b>", bars=[Bar(name="<i>", value=1.0)]),
    )
    drawn = shown.as_html(verdict)
    assert not any(tag in drawn for tag in ("<script", "<b>", "<i>"))


def test_a_solved_notebook_and_the_same_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "solutions" / "03-nested-sums" / "03-nested-sums.ipynb")]) == 0
    script = tmp_path / "a.py"
    script.write_text(build.as_script(cells.read(ROOT / "solutions" / "03-nested-sums" / "03-nested-sums.ipynb")))
    assert main(["check", str(script), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["points"], found["of"], found["finished"]) == (15.0, 15.0, True)


def test_a_check_that_an_editor_lost_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(a_lab(tmp_path / "a.ipynb", *SOLVED))]) == 4
    seen = capsys.readouterr()
    assert "no check ran for 03/prediction, 03/total_ms" in seen.err
    assert "03/busy_ms     not checked: its cell is missing" in seen.out
    assert "2 of 15 points" in seen.out


def test_points_missing_are_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(EXERCISE / "03-nested-sums.py")]) == 4
    assert "6 of 6 checks not passed" in capsys.readouterr().err


def test_a_cell_that_stops_is_told_and_the_rest_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_lab(tmp_path / "a.ipynb", "1 / 0", "import sys; sys.exit(1)", *SOLVED)
    assert main(["check", str(path)]) == 4
    seen = capsys.readouterr()
    assert "stopped: cell 1: ZeroDivisionError: division by zero" in seen.out
    assert "03/elapsed_ms  passed" in seen.out


def test_magics_and_await_work(tmp_path: Path) -> None:
    pytest.importorskip("IPython", reason="magics are IPython's")
    ran = running.run(a_lab(tmp_path / "a.ipynb", "%time 1 + 1", "import asyncio\nawait asyncio.sleep(0)", *SOLVED))
    assert ran.failed == []
    assert [one.passed for one in ran.verdicts] == [True]


def test_a_process_that_dies_keeps_the_verdicts_before(tmp_path: Path) -> None:
    ran = running.run(a_lab(tmp_path / "a.ipynb", *SOLVED, "import os; os._exit(0)"))
    assert [one.item for one in ran.verdicts] == ["03/elapsed_ms"]
    assert not ran.finished
    assert "ended before the last cell" in ran.failed[-1].error


def test_a_file_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    ran = running.run(a_lab(tmp_path / "a.ipynb", "import time; time.sleep(600)"), timeout_s=3)
    assert "stopped after 3 s" in ran.failed[-1].error


def test_a_cell_that_takes_too_long_is_stopped_alone(tmp_path: Path) -> None:
    path = a_lab(tmp_path / "a.ipynb", "import time; time.sleep(600)", *SOLVED)
    ran = running.run(path, cell_timeout_s=2)
    assert "more than 2 s" in ran.failed[0].error
    assert [one.passed for one in ran.verdicts] == [True]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"x", "a notebook (.ipynb) or a script (.py)"),
        ("a.ipynb", b"", "no notebook"),
        ("a.ipynb", b"[1, 2]", "no notebook"),
        ("a.ipynb", b'{"cells": 3}', "no notebook"),
        ("a.ipynb", b"\xff\xfe\x00", "no UTF-8"),
        ("a.ipynb", b'{"cells": []}', "without a cell of code"),
        ("a.py", b"", "without a cell of code"),
        ("missing.py", None, "No such file"),
    ],
)
def test_what_is_no_lab_is_one_line(
    name: str, content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["check", str(tmp_path / name)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_script_s_cells_come_back(tmp_path: Path) -> None:
    found = [
        cells.Cell("markdown", "# title\n\ntext", "title", 1),
        cells.Cell("code", "x = 1\n\n\ndef f():\n    return x", "code", 6),
    ]
    back = cells.of_script(build.as_script(found))
    assert [(one.kind, one.source, one.id) for one in back] == [(one.kind, one.source, one.id) for one in found]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("# %%\nx = 1\n", "an id of its own"),
        ('# %% id="a"\nx = 1\n\n# %% id="a"\ny = 1\n', "an id of its own"),
        ('# %% id="a" grade="maybe"\nx = 1\n', "grade = solution, test or manual"),
        ('# %% id="a" grade="test"\nx = 1\n', "points for what is graded"),
    ],
)
def test_a_source_that_cannot_be_built_names_its_cell(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(source)
    with pytest.raises(StepprofError, match=said) as caught:
        build.build(tmp_path)
    assert "line" in str(caught.value)


@pytest.mark.parametrize("number", items.numbers())
def test_every_idea_has_what_was_seen_and_a_hint(number: str) -> None:
    keys = catalogue.keys(number)
    assert {f"{number}.title", f"{number}.question"} <= set(keys)
    seen = {key.removesuffix(".seen") for key in keys if key.endswith(".seen")}
    assert seen == {key.removesuffix(".hint") for key in keys if key.endswith(".hint")}
