"""Lab 06: the capture is what its texts say, the tools count what they should, the judge names each wrong run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepprof_lab.grading import copying, items, sorting
from stepprof_lab.grading.labs import lab06
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.grading.probing import evidence_of

SEEDS = range(6)


def step_verdict(**changed: Any) -> Verdict:
    """The verdict on a run as it should be, with something changed: of the last run, or of the times."""
    run = {"built": 1, "batch_copies": 4, "other_copies": 1, "outputs": list("abcd"), "wanted": list("abcd")}
    times = {"yours": 3.0, "reference": 3.0, "before": 15.0}
    times |= {name: value for name, value in changed.items() if name in times}
    runs = [run, {**run, **{name: value for name, value in changed.items() if name in run}}]
    evidence = Evidence(data={"runs": runs, "times_ms": times, "held": changed.get("held", True)}, origin="simulated")
    return items.item("06/make_step").judge([{"seeds": [1, 2]}], [evidence])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_finding_is_of_the_table_and_not_of_the_batch(seed: int) -> None:
    case = lab06.draw_capture(random.Random(seed))
    analysis, report = lab06.read(case)
    found = {one["id"]: one for one in analysis["findings"]}["repeated-copy"]
    assert found["evidence"]["copies"] == lab06.STEPS * case["copies"]
    assert found["evidence"]["bytes"] == [case["table_bytes"]]
    assert f"{case['table_bytes']:,} bytes" in " ".join(report.split())
    assert found["share_of_step"] < 1
    assert analysis["origin"] == "constructed"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rows_show_who_waits(seed: int) -> None:
    rows = lab06.copy_rows(random.Random(seed))
    goes_on = [row for row in rows if row["call_ms"] < row["copy_ms"] / 10 and row["wait_after_ms"] is None]
    assert [row["copy"] for row in goes_on] == ["Memcpy HtoD (Pinned -> Device)"]
    assert len(rows) == len(lab06.LINES)


def test_tools_count_the_original_and_the_library_own_answer() -> None:
    for make, built, other in ((copying.original, 3, 3), (copying.moved_once, 1, 1)):
        tools = copying.Tools(1)
        step = make(tools)
        for batch in tools.batches(3, seed=2):
            step(batch)
        assert (tools.built, tools.batch_copies, tools.other_copies) == (built, 3, other)


def test_a_digest_looks_at_every_value_and_at_the_shape() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0)
    changed = x.clone()
    changed[5] += 1
    digests = [copying.digest(one) for one in (x, x.numpy(), x.double(), changed, x.reshape(2, 3), x.flip(0))]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests)) == 4
    assert copying.digest([1.0]) == "<list>"


def test_a_step_that_is_right_in_all_passes() -> None:
    assert step_verdict().passed
    assert step_verdict(yours=lab06.SLOWER * 3.0 - 0.1).passed


@pytest.mark.parametrize(
    ("changed", "misconception", "points"),
    [
        ({"built": 4, "other_copies": 4}, "still-every-step", 3),
        ({"built": 4, "other_copies": 4, "outputs": list("abxx")}, "still-every-step", 1),
        ({"other_copies": 4}, "copied-every-step", 3),
        ({"built": 4}, "rebuilt-every-step", 3),
        ({"outputs": list("abxx")}, "outputs-not-compared", 3),
        ({"outputs": list("xxxx"), "yours": 15.0}, "outputs-not-compared", 2),
        ({"batch_copies": 1, "outputs": list("aaaa")}, "every-copy-is-bad", 1),
        ({"batch_copies": 0}, "left-on-the-host", 3),
        ({"built": 0, "other_copies": 0, "outputs": list("xxxx")}, "lives-too-long", 1),
        ({"yours": 15.0}, "slower-as-a-whole", 4),
    ],
)
def test_each_wrong_run_shows_its_idea(changed: dict[str, Any], misconception: str, points: float) -> None:
    verdict = step_verdict(**changed)
    assert verdict.misconception == misconception
    assert verdict.points == points


def test_a_machine_that_cannot_show_the_difference_gives_no_verdict_on_the_time() -> None:
    assert step_verdict(yours=9.0, before=5.0).undecided
    assert step_verdict(yours=9.0, held=False).undecided
    assert step_verdict(held=False).passed
    assert not step_verdict(yours=9.0, before=5.0, outputs=list("abxx")).undecided


def test_an_error_in_the_step_is_told_and_an_empty_one_is_unanswered() -> None:
    item = items.item("06/make_step")
    case = item.draw(random.Random(0))

    def broken(tools: Any) -> Any:
        raise KeyError(tools.built)

    assert "KeyError" in str(evidence_of(lambda: item.probe(broken, case)).error)
    assert evidence_of(lambda: item.probe(lambda tools: None, case)).unanswered


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("once", "once"),
        (" ONCE. ", "once"),
        ("each_step", "each step"),
        ("Every step", "each step"),
        ("sometimes", None),
        (None, None),
        (1, None),
    ],
)
def test_words_are_meant_whatever_their_form(said: Any, meant: str | None) -> None:
    assert sorting.meant(said, lab06.ONCE) == meant
