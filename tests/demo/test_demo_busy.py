"""The demo on a machine that is too busy for its usual plan."""

from __future__ import annotations

from typing import Any

import pytest

from stepprof_lab import scenario, validate
from stepprof_lab.demo import run
from stepprof_lab.progress import silent
from stepprof_lab.validate.plan import TooLong


def test_where_the_usual_time_is_too_short_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    def compare(*_: Any, budget_s: float, **__: Any) -> str:
        allowed.append(budget_s)
        if len(allowed) == 1:
            raise TooLong(34, "arms that take 34 s", "at most 25 s", "allow 34 s")
        return "validated"

    monkeypatch.setattr(validate, "compare", compare)
    assert run._validate(scenario.load(run.SCENARIO), "cpu", silent) == "validated"
    assert allowed == [run.BUDGET_S, 34 * run.PATIENCE]


def test_other_refusals_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(validate, "compare", compare)
    with pytest.raises(KeyboardInterrupt):
        run._validate(scenario.load(run.SCENARIO), "cpu", silent)
