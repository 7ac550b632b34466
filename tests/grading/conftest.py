"""Where the labs' sources lie, and answers made ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.grading import answers
from stepprof_lab.grading.check import material_of

SOURCES = Path(__file__).resolve().parents[2] / "solutions"
LABS = sorted(path.parent for path in SOURCES.glob("*/lab.py"))
LIVE = {
    "02/elapsed_ms",
    "02/device_ms",
    "04/measure",
    "05/compute_only_ms",
    "05/parts_ms",
    "05/repaired_loader",
    "06/make_step",
    "07/make_step",
    "08/isolated_ms",
    "09/cost",
    "10/timed",
    "10/comparable",
    "12/capture",
    "12/improved",
    "12/validation",
    "12/gain",
    "12/left",
}
"""Items that are judged by what runs here: a verdict takes seconds."""


@pytest.fixture(autouse=True)
def a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPPROF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STEPPROF_LEARNER", "somebody")


def ready(answer: answers.Answer) -> Any:
    """The answer itself, made from the lab's material where it asks for it."""
    if getattr(answer.answer, "takes_material", False):
        return answer.answer(material_of(answer.item.split("/")[0]))
    return answer.answer
