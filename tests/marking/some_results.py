"""Results of lab 03 as workers leave them, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepprof_lab.grading import items
from stepprof_lab.grading.marking import result
from stepprof_lab.grading.marking.result import Ending, Marked, Result
from stepprof_lab.grading.model import Bar, Picture, Said, Verdict

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"
LAB = "03-nested-sums"
COURSE = "stepprof_lab"


def marked(item: str, how: Any = "graded", points: float | None = None, **verdict: Any) -> Marked:
    """One item of the lab: all its points unless told otherwise."""
    of = items.item(item).points
    ending = Ending(how=how, where=verdict.pop("where", ""), why=verdict.pop("why", ""))
    if how != "graded":
        return Marked(item=item, of=of, ending=ending)
    earned = of if points is None else points
    return Marked(item=item, of=of, ending=ending, verdict=Verdict(item=item, points=earned, of=of, **verdict))


def wrong(item: str, *, yours: float = 41.5) -> Marked:
    """An answer that shows a known wrong idea, with its picture."""
    return marked(
        item,
        points=0.0,
        misconception="totals-summed",
        said=[Said(key="03.idea.totals-summed.seen", values={"yours": f"{yours} ms"}), hint("totals-summed")],
        picture=Picture(
            unit="ms",
            bars=[Bar(name="yours", value=yours, kind="yours"), Bar(name="reference", value=12.25, kind="reference")],
        ),
    )


def hint(idea: str) -> Said:
    return Said(key=f"03.idea.{idea}.hint")


def make(
    student: str = "ada",
    *changed: Marked,
    key: str = "00000000000000aa",
    submitted: str | None = "2026-03-01 12:00:00 UTC",
    made: str = "2026-03-02T00:00:00Z",
    **fields: Any,
) -> Result:
    """A result with every point but for what is changed."""
    by_item: Mapping[str, Marked] = {one.item: one for one in changed}
    told: dict[str, Any] = {
        "assignment": LAB,
        "ending": Ending(how="graded"),
        "sandbox": "bubblewrap",
        "items": [by_item.get(one.id) or marked(one.id) for one in items.lab(LAB).items],
        **fields,
    }
    return Result(student=student, key=key, submitted=submitted, seconds=1.0, made=made, **told)


def keep(folder: Path, *results: Result) -> list[Path]:
    """Their files."""
    return [result.keep(one, folder) for one in results]
