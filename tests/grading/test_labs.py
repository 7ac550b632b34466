"""Every lab: built from its source, solved by its solution, polite where it is not, and its named answers judged."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from stepprof_lab.grading import answers, build, catalogue, cells, items, running
from stepprof_lab.grading.check import verdict_of
from tests.grading.conftest import LABS, LIVE, ready

ROOT = Path(__file__).resolve().parents[2]

TRIES = 4
"""Of a check that times something: a busy machine may leave it undecided, and a learner would try again too."""


def lab_parameters() -> list[object]:
    """The labs to be run from end to end: one in the fast set, for each starts a process of its own."""
    return [
        pytest.param(source, id=source.name, marks=[] if source.name[:2] == "03" else [pytest.mark.slow])
        for source in LABS
    ]


def answer_parameters() -> list[object]:
    """Every named answer to what is constructed; of what is timed one right answer and two mistakes an item."""
    found: list[object] = []
    for source in LABS:
        taken: Counter[tuple[str, int, bool]] = Counter()
        for one in answers.of_lab(source):
            key = (one.item, one.set_number, one.is_right)
            taken[key] += 1
            if one.item in LIVE and taken[key] > (1 if one.is_right else 2):
                continue
            name = f"{one.item}-{one.set_number}-{'right' if one.is_right else 'wrong'}-{one.name}".replace(" ", "-")
            marks = [] if source.name[:2] == "03" else [pytest.mark.slow]
            found.append(pytest.param(one, id=name, marks=marks))
    return found


@pytest.mark.parametrize("source", LABS, ids=lambda source: source.name)
def test_what_is_handed_out_is_what_the_source_gives(source: Path) -> None:
    if importlib.util.find_spec("nbgrader") is None:
        pytest.skip("nbgrader is not installed, and it is what releases a lab")
    assert build.differing(ROOT, build.build(source)) == [], "run `make labs`"


@pytest.mark.parametrize("source", LABS, ids=lambda source: source.name)
def test_no_solution_is_handed_out(source: Path) -> None:
    for path in (ROOT / "exercises" / source.name).iterdir():
        text = path.read_text(encoding="utf-8")
        assert "SOLUTION" not in text
        assert "HIDDEN" not in text


@pytest.mark.parametrize("source", LABS, ids=lambda source: source.name)
def test_every_item_is_checked_in_the_lab_for_its_points(source: Path) -> None:
    lab = items.lab(source.name)
    assert lab.name == source.name
    assert lab.minutes <= 45
    assert lab.seconds <= 60
    asked = {}
    for cell in cells.read(source / "lab.py"):
        if cell.options.get("grade") == "test":
            call = next(node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call))
            asked[call.args[0].value] = cell.options["points"]  # type: ignore[attr-defined]
    assert asked == {item.id: item.points for item in lab.items}


@pytest.mark.parametrize("source", lab_parameters())
def test_the_solution_earns_every_point(source: Path) -> None:
    for _ in range(TRIES):
        ran = running.run(ROOT / "solutions" / source.name / f"{source.name}.ipynb")
        if not any(one.undecided for one in ran.verdicts):  # this machine was too busy for a verdict, which is none
            break
    assert ran.failed == []
    assert {one.item: one.points for one in ran.verdicts} == {
        one.id: one.points for one in items.lab(source.name).items
    }


@pytest.mark.parametrize("ending", ["ipynb", "py"])
@pytest.mark.parametrize("source", lab_parameters())
def test_the_exercise_runs_to_its_end_unsolved(source: Path, ending: str) -> None:
    ran = running.run(ROOT / "exercises" / source.name / f"{source.name}.{ending}")
    assert ran.failed == [], ran.output
    assert ran.finished
    assert {one.item for one in ran.verdicts} == {one.id for one in items.lab(source.name).items}
    assert sum(one.points for one in ran.verdicts) == 0
    assert "Traceback" not in ran.output


@pytest.mark.parametrize("source", LABS, ids=lambda source: source.name)
def test_there_are_answers_enough(source: Path) -> None:
    found = [one for one in answers.of_lab(source) if one.set_number == 1]
    for item in items.lab(source.name).items:
        assert len([one for one in found if one.item == item.id and one.is_right]) >= 3, item.id
    named = {one.misconception for one in found if not one.is_right}
    known = {key.split(".")[2] for key in catalogue.keys(source.name[:2]) if ".idea." in key}
    assert named <= known


@pytest.mark.parametrize("answer", answer_parameters())
def test_a_named_answer_is_judged_as_it_should_be(answer: answers.Answer) -> None:
    """What is constructed is judged the same every time; for what is timed, `tests/benchmarks/judges.py` has rates."""
    tries = TRIES if answer.item in LIVE else 1
    found = []
    for _ in range(tries):
        verdict = verdict_of(answer.item, ready(answer))
        assert all(catalogue.sentence(one) for one in verdict.said)
        found.append((verdict.passed, verdict.misconception))
        if found[-1] == (answer.is_right, answer.misconception):
            break
    assert found[-1] == (answer.is_right, answer.misconception), found
    assert answer.is_right or not any(passed for passed, _ in found)
