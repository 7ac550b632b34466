"""Lab 09: the step notes what is recorded of it, numbers follow from its log, copies are judged by what they hold."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from stepprof_lab.grading import items, sorting, tracing
from stepprof_lab.grading.labs import lab09, planted
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.grading.probing import evidence_of
from stepprof_lab.trace.redact import redact

SEEDS = range(4)
PLAIN_MS, TRACED_MS, FIRST_MS = 1.0, 2.5, 151.0
RATIO = TRACED_MS / PLAIN_MS
SESSION_MS = 300.0


def step(options: list[str] | None, ms: float, *, first: bool = False) -> dict[str, Any]:
    return {"ms": ms, "cpu_ms": 1.0 if first else ms, "options": options, "first": first}


def seen(value: float | None, **changed: Any) -> dict[str, Any]:
    """One call of a learner's function on a machine without noise: 20 steps outside, 20 inside with shapes."""
    count, on = changed.get("count", 20), changed.get("on", ["record_shapes"])
    log = [step(None, FIRST_MS, first=True)]
    log += [step(changed.get("outside"), PLAIN_MS)] * count
    log += [step(on, TRACED_MS)] * count
    return {
        "asked": "shapes",
        "value": value,
        "kind": "list",
        "left_on": changed.get("left_on", False),
        "log": changed.get("log", log),
        "sessions": [{"options": on, "ms": SESSION_MS}],
        "reference": changed.get("reference", RATIO),
    }


def cost_verdict(*calls: dict[str, Any]) -> Verdict:
    return items.item("09/cost").judge([{}], [Evidence(data={"seen": list(calls)})])


@pytest.mark.parametrize(
    ("value", "misconception"),
    [
        (RATIO, None),
        (1 / RATIO, "upside-down"),
        (100 * RATIO, "units-mixed"),
        (RATIO - 1, "units-mixed"),
        (TRACED_MS / 1e3, "units-mixed"),
        (SESSION_MS / 20 / PLAIN_MS, "session-counted"),
        (20 * RATIO, "sum-for-step"),
        (20 * TRACED_MS / (FIRST_MS + 20 * PLAIN_MS), "first-step-counted"),
    ],
)
def test_a_number_shows_what_it_was_made_of(value: float, misconception: str | None) -> None:
    verdict = cost_verdict(seen(value), seen(value))
    assert verdict.misconception == misconception
    assert verdict.passed is (misconception is None)


@pytest.mark.parametrize(
    ("changed", "misconception"),
    [
        ({"log": []}, "not-measured"),
        ({"on": None}, "never-traced"),
        ({"on": []}, "option-not-on"),
        ({"on": ["with_stack"]}, "option-not-on"),
        ({"on": ["record_shapes", "with_stack"]}, "more-options-on"),
        ({"left_on": True}, "profiler-left-on"),
        ({"outside": []}, "baseline-inside"),
        ({"count": 4}, "few-steps"),
    ],
)
def test_a_log_shows_how_it_was_timed(changed: dict[str, Any], misconception: str) -> None:
    verdict = cost_verdict(seen(RATIO), seen(RATIO, **changed))
    assert verdict.misconception == misconception
    assert verdict.points == 0


def test_an_idea_has_to_give_all_numbers() -> None:
    assert cost_verdict(seen(1 / RATIO), seen(100 * RATIO)).misconception is None
    assert not cost_verdict(seen(1 / RATIO), seen(100 * RATIO)).passed
    assert not cost_verdict(seen(-1.0)).passed
    assert not cost_verdict(seen(None)).passed


def test_a_disturbed_machine_gives_no_verdict() -> None:
    noisy = [step(None, FIRST_MS, first=True)]
    noisy += [step(None, ms) for ms in (1.0, 1.0, 4.0, 9.0) * 5] + [step(["record_shapes"], 2.5)] * 20
    assert cost_verdict(seen(RATIO, log=noisy)).passed
    assert cost_verdict(seen(5.0, log=noisy)).undecided
    assert cost_verdict(seen(1 / RATIO, log=noisy)).misconception == "upside-down"
    assert cost_verdict(seen(RATIO, reference=lab09.AGREES * RATIO * 1.1)).undecided
    assert cost_verdict(seen(RATIO, reference=lab09.AGREES * RATIO * 0.9)).passed


def test_the_step_notes_which_options_are_on() -> None:
    from torch.profiler import ProfilerActivity, profile

    sessions = tracing.Sessions()
    small = tracing.Step({"operations": 4, "elements": 4}, sessions)
    with sessions.watching():
        small()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True):
            small()
        with profile(activities=[ProfilerActivity.CPU], with_stack=True, profile_memory=True):
            small()
        small()
    assert [one["options"] for one in small.log] == [None, ["record_shapes"], ["profile_memory", "with_stack"], None]
    assert [one["first"] for one in small.log] == [True, False, False, False]
    assert small.log[0]["ms"] >= tracing.FIRST_MS
    assert all(one["ms"] > 0 for one in sessions.seen)


def test_watching_leaves_the_profiler_as_it_was() -> None:
    import torch

    before = vars(torch.autograd.profiler.profile).copy()
    with pytest.raises(KeyError), tracing.Sessions().watching():
        raise KeyError
    assert dict(vars(torch.autograd.profiler.profile)) == before


def test_a_profiler_that_was_left_on_is_ended() -> None:
    from torch.profiler import ProfilerActivity, profile

    sessions = tracing.Sessions()
    with sessions.watching():
        profile(activities=[ProfilerActivity.CPU]).start()
    assert sessions.left_on
    assert sessions.options() is None


def test_an_error_is_told_and_a_stub_is_unanswered() -> None:
    item = items.item("09/cost")
    case = item.draw(random.Random(0))

    def broken(step: Any, options: Any) -> Any:
        raise KeyError(len(options))

    assert "KeyError" in str(evidence_of(lambda: item.probe(broken, case)).error)
    assert evidence_of(lambda: item.probe(lambda step, options: None, case)).unanswered


@pytest.mark.parametrize("seed", SEEDS)
def test_every_secret_is_planted_and_the_library_takes_it_out(seed: int, tmp_path: Path) -> None:
    words = planted.draw(random.Random(seed))
    original = planted.trace(words)
    assert {name for name, _ in planted.left(words, original)} == set(planted.SECRETS)
    assert "input-wait" in [one["id"] for one in planted.read(original)["findings"]]
    assert planted.analysis(original).origin == "constructed"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(original), encoding="utf-8")
    shared = json.loads(redact(path).data)
    assert planted.left(words, shared) == []
    assert planted.compared(original, shared)["differs"] == []


def test_two_learners_have_other_secrets_but_for_words_by_chance() -> None:
    one, other = (planted.draw(random.Random(seed)) for seed in (1, 2))
    assert {name for name, _ in planted.left(one, planted.trace(other))} <= {"account", "project", "host"}


@pytest.mark.parametrize(
    ("secret", "written"),
    [("uuid", str.upper), ("uuid", lambda text: text[4:12] + "-" + text[12:]), ("host", str.upper)],
    ids=["capitals", "in groups", "a name in capitals"],
)
def test_a_secret_in_another_form_is_the_same_secret(secret: str, written: Any) -> None:
    words = planted.draw(random.Random(3))
    assert planted.left(words, {"traceEvents": [], "x": {"y": [written(words[secret])]}}) == [[secret, "head"]]


def test_a_secret_is_found_in_keys_and_in_numbers() -> None:
    words = planted.draw(random.Random(4))
    assert planted.left(words, {words["host"]: 1, "base": words["moment"]}) == [["host", "head"], ["moment", "head"]]


@pytest.mark.parametrize("given", [{}, {"traceEvents": None}, {"traceEvents": [1, None]}, {"traceEvents": []}])
def test_what_is_no_trace_is_refused(given: dict[str, Any]) -> None:
    words = planted.draw(random.Random(5))
    assert planted.compared(planted.trace(words), given)["refused"]
    assert fit_verdict(lambda trace, private: given).misconception == "no-trace-left"


def fit_verdict(answer: Any) -> Verdict:
    item = items.item("09/fit")
    case = item.draw(random.Random(6))
    return item.judge([case], [evidence_of(lambda: item.probe(answer, case))])


def test_a_copy_that_hides_nothing_or_everything_earns_nothing() -> None:
    assert fit_verdict(lambda trace, private: trace).points == 0
    assert fit_verdict(lambda trace, private: {"traceEvents": []}).points == 0


def test_either_half_of_a_copy_earns_its_points() -> None:
    def head_alone(trace: Any, private: Any) -> Any:
        return {"stepprof_lab": trace["stepprof_lab"], "traceEvents": trace["traceEvents"]}

    def times_alone(trace: Any, private: Any) -> Any:
        kept = ("ph", "cat", "ts", "dur", "pid", "tid")
        bare = [{key: event[key] for key in kept if key in event} for event in trace["traceEvents"]]
        return {"traceEvents": [{**event, "name": "x"} for event in bare]}

    kept, bared = fit_verdict(head_alone), fit_verdict(times_alone)
    assert (kept.points, kept.misconception) == (2, "secrets-in-labels")
    assert bared.points == 3


def test_a_learner_may_change_the_trace_in_place() -> None:
    words = planted.draw(random.Random(7))
    item, case = items.item("09/fit"), {"words": words}
    before = copy.deepcopy(case)

    def emptied(trace: Any, private: Any) -> Any:
        trace["traceEvents"].clear()
        private.clear()
        return trace

    assert evidence_of(lambda: item.probe(emptied, case)).data["compared"]["refused"]
    assert case == before


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_are_of_the_very_trace(seed: int) -> None:
    case = items.item("09/gives_away").draw(random.Random(seed))
    words = items.item("09/fit").draw(random.Random(seed))["words"]
    told = " ".join(sorting.asked(case, "09.say.gives_away").values())
    assert all(str(words[name]) in told for name in ("host", "uuid", "moment", "digest", "account", "project"))


@pytest.mark.parametrize(
    ("said", "words", "meant"),
    [
        ("record_shapes", lab09.NEEDS, "shapes"),
        ("No option", lab09.NEEDS, "none"),
        ("outside", lab09.QUOTED, "measure outside"),
        ("HOLDS", lab09.QUOTED, "holds"),
        ("keep", lab09.GOES, "stays"),
        ("maybe", lab09.GOES, None),
    ],
)
def test_words_are_meant_whatever_their_form(said: str, words: sorting.Words, meant: str | None) -> None:
    assert sorting.meant(said, words) == meant
