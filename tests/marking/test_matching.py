"""Editors and people change notebooks in many ways: none of them costs a point, and none makes one."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import cells
from stepprof_lab.grading.marking import matching
from stepprof_lab.grading.marking.matching import Matched
from tests.marking.handed import ROOT, name_of, notebook, release, with_cells

LABS = sorted(one.name for one in (ROOT / "exercises").iterdir())
Notebook = dict[str, Any]


def match(made: Notebook, lab: str = "03-nested-sums") -> Matched:
    return matching.match(cells.of_notebook(json.dumps(made)), release(lab))


def text(source: str | list[str]) -> str:
    return "".join(source)


def answers_in_place(made: Matched, solved: Notebook) -> bool:
    """Whether every check runs once, in the release's order, each after its answer, and no stub undoes one."""
    sources = [one.source.strip() for one in made.placed]
    checks = [one.item for one in made.placed if one.item]
    code = [one for one in solved["cells"] if one["cell_type"] == "code"]
    for answer, check in itertools.pairwise(code):
        told = check["metadata"]["nbgrader"]
        if told["grade"] and not told["solution"]:
            before = sources[: sources.index(text(check["source"]).strip())]
            if text(answer["source"]).strip() not in before:
                return False
    stubs = [one for one in sources if "# your code here" in one]
    return checks == [one.id for one in release(solved["lab"]).lab.items] and not stubs


def cell_at(made: Notebook, name: str) -> int:
    return next(n for n, one in enumerate(made["cells"]) if name_of(one) == name)


def stripped(made: Notebook) -> None:
    for one in made["cells"]:
        one["metadata"] = {}


def stripped_of_ids_too(made: Notebook) -> None:
    stripped(made)
    for number, one in enumerate(made["cells"]):
        one["id"] = f"other-{number}"
    made["metadata"] = {}


def no_ids_at_all(made: Notebook) -> None:
    stripped(made)
    made["nbformat_minor"] = 2
    for one in made["cells"]:
        del one["id"]


def checks_deleted(made: Notebook) -> None:
    made["cells"] = [one for one in made["cells"] if not one["metadata"]["nbgrader"]["locked"]]


def everything_pasted_twice(made: Notebook) -> None:
    made["cells"] = [copy.deepcopy(one) for one in made["cells"] for _ in range(2)]


def stubs_left_behind(made: Notebook) -> None:
    unsolved = {name_of(one): one for one in notebook(made["lab"], solved=False)["cells"]}
    made["cells"] = [
        one
        for given in made["cells"]
        for one in ([given, unsolved[name_of(given)]] if given["metadata"]["nbgrader"]["solution"] else [given])
    ]


def own_cells_between(made: Notebook) -> None:
    own = {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "execution_count": None, "source": "1 + 1"}
    made["cells"] = [one for given in made["cells"] for one in (given, copy.deepcopy(own))]


def points_and_locks_edited(made: Notebook) -> None:
    for one in made["cells"]:
        one["metadata"]["nbgrader"] |= {"points": 100, "grade": False, "locked": False, "solution": True}


def shuffled(made: Notebook) -> None:
    random.Random(3).shuffle(made["cells"])


def windows_line_ends(made: Notebook) -> None:
    for one in made["cells"]:
        one["source"] = text(one["source"]).replace("\n", "  \n") if one["cell_type"] != "code" else one["source"]
        one["metadata"]["collapsed"] = True


CHANGES: list[Callable[[Notebook], None]] = [
    lambda _: None,
    stripped,
    stripped_of_ids_too,
    no_ids_at_all,
    checks_deleted,
    everything_pasted_twice,
    stubs_left_behind,
    own_cells_between,
    points_and_locks_edited,
    shuffled,
    windows_line_ends,
]


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__.strip("<>"))
def test_nothing_that_happens_to_a_notebook_costs_its_answers(change: Callable[[Notebook], None], lab: str) -> None:
    solved = {**notebook(lab), "lab": lab}
    changed = copy.deepcopy(solved)
    change(changed)
    assert answers_in_place(match(changed, lab), solved)


def test_what_was_put_back_is_said() -> None:
    made = notebook()
    checks_deleted(made)
    notes = match(made).notes
    assert "the cell 'busy-check' was missing and was put back" in notes
    assert match(notebook()).notes == ()


def test_both_halves_of_a_split_cell_run_before_its_check() -> None:
    made = notebook()
    place = cell_at(made, "busy")
    helper = {**copy.deepcopy(made["cells"][place]), "source": "def helper():\n    return 1\n"}
    made["cells"].insert(place, helper)
    names = [one.source.splitlines()[0] for one in match(made).placed]
    assert names.index("def helper():") < names.index('check("03/busy_ms", busy_ms).points')
    assert names.index("def busy_ms(spans):") < names.index('check("03/busy_ms", busy_ms).points')


def test_merged_answers_are_not_undone_by_a_stub() -> None:
    made = notebook()
    first, second = cell_at(made, "elapsed"), cell_at(made, "total")
    made["cells"][first]["source"] = text(made["cells"][first]["source"]) + "\n" + text(made["cells"][second]["source"])
    del made["cells"][second]
    assert not any("your code here" in one.source for one in match(made).placed)


def test_a_lost_answer_is_as_unanswered() -> None:
    made = notebook()
    del made["cells"][cell_at(made, "busy")]
    found = match(made)
    assert found.notes == ("the cell 'busy' was missing: it is as unanswered",)
    assert any("def busy_ms" in one.source and "your code here" in one.source for one in found.placed)


def test_a_check_is_the_release_s_own_and_what_stood_in_it_runs_before() -> None:
    made = with_cells(notebook(), busy_check="def busy_ms(s): return 1\ncheck('03/busy_ms', busy_ms)")
    found = match(made)
    names = [one.name for one in found.placed]
    assert names.index("busy-check, as changed") == names.index("busy-check") - 1
    assert [one.source for one in found.placed if one.item == "03/busy_ms"] == ['check("03/busy_ms", busy_ms).points']
    assert found.notes == ("the cell 'busy-check' was changed: the release's own ran too",)


def test_a_cell_belongs_to_the_next_check() -> None:
    parts = {one.name: one.part for one in match(notebook()).placed}
    assert (parts["begin"], parts["busy"], parts["prediction-again"]) == ("03/prediction", "03/busy_ms", None)


def test_other_labs_and_newer_releases_are_refused() -> None:
    with pytest.raises(StepprofError, match="cells of lab 01"):
        match(notebook("01-ask-first"))
    with pytest.raises(StepprofError, match="no cell of 03-nested-sums"):
        match({"cells": [{"cell_type": "code", "source": "1", "metadata": {}}]})
    with pytest.raises(StepprofError, match="no cell of code"):
        match({"cells": []})
    with pytest.raises(StepprofError, match="a check of '03/newer'"):
        match(with_cells(notebook(), busy_check='check("03/newer", busy_ms).points'))


def test_a_release_that_lacks_a_check_is_refused(tmp_path: Any) -> None:
    made = notebook(solved=False)
    del made["cells"][cell_at(made, "busy-check")]
    folder = tmp_path / "03-nested-sums"
    folder.mkdir()
    with pytest.raises(StepprofError, match=r"release of .03-nested-sums"):
        matching.read_release(folder)
    (folder / "03-nested-sums.ipynb").write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(StepprofError, match="which checks"):
        matching.read_release(folder)
