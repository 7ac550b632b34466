"""Lab 02: what is drawn can be told apart, what is watched is what happened, the judge on evidence that is known."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest

from stepprof_lab import devices, practice
from stepprof_lab.errors import NotAvailable
from stepprof_lab.grading import catalogue, items
from stepprof_lab.grading.labs import hidden_work, lab02
from stepprof_lab.grading.labs.hidden_work import Plan
from stepprof_lab.grading.model import Case, Evidence, Verdict
from stepprof_lab.grading.probing import Unanswered
from stepprof_lab.grading.watching import Watch, watching
from stepprof_lab.practice import log

SEEDS = range(40)
RUN = "LLLLLL"


@pytest.fixture
def device() -> devices.Device:
    return devices.choose("practice")


def case_of(name: str, seed: int = 0) -> Case:
    return items.item(f"02/{name}").draw(random.Random(seed))


def seen(plan: Plan, value: float, calls: str, *, reads: int = 0, left_ms: float = 0.0) -> dict[str, Any]:
    """Evidence of one work: the same in every repetition, where the library measures what was planned."""
    planned = plan["host_ms"] + hidden_work.device_ms(plan)
    one = {
        "values": value,
        "outside_ms": 1e3,
        "left_ms": left_ms,
        "calls": calls,
        "reads": reads,
        "references": planned,
    }
    return {name: [each] * lab02.REPETITIONS for name, each in one.items()}


def judged(name: str, value_of: Any, calls: str, **more: Any) -> Verdict:
    item, case = items.item(f"02/{name}"), case_of(name)
    works = [seen(plan, value_of(plan), calls, **more) for plan in case["works"]]
    evidence = Evidence(data={"value": works[0]["values"][0], "works": works}, origin="simulated")
    return item.judge([case], [evidence])


def device_ms(plan: Plan) -> float:
    return hidden_work.device_ms(plan)


def elapsed_ms(plan: Plan) -> float:
    return float(plan["host_ms"] + device_ms(plan))


# ---- what is drawn ----


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["elapsed_ms", "device_ms"])
def test_wrong_ideas_give_other_numbers_than_the_right_one(name: str, seed: int) -> None:
    for plan in case_of(name, seed)["works"]:
        right = elapsed_ms(plan)
        serial = sum(ms for ms, _ in plan["parts"]) + plan["host_ms"]
        # What events around each operation add up to, where each is waited for: the current stream's, and the last one.
        events_of_each = sum(ms for ms, stream in plan["parts"] if stream == 0) + plan["parts"][-1][0]
        assert plan["host_ms"] or events_of_each > (1 + lab02.HIGH) * right
        others = [serial, right + plan["first_ms"], right + plan["first_ms"] / 10, right + plan["late_ms"]]
        if plan["host_ms"]:
            others = [*others[:3], plan["host_ms"], device_ms(plan), device_ms(plan) + plan["host_ms"] / 2]
        assert all(not 1 - lab02.LOW <= other / right <= 1 + lab02.HIGH for other in others)
        assert min(device_ms(plan), right) >= 10
        assert serial > 1.5 * right


@pytest.mark.parametrize("seed", SEEDS)
def test_no_constant_fits_both_works_of_a_case(seed: int) -> None:
    for name in ("elapsed_ms", "device_ms"):
        small, large = (elapsed_ms(plan) for plan in case_of(name, seed)["works"])
        assert large * (1 - lab02.LOW) > small * (1 + lab02.HIGH)


def test_the_host_has_a_part_in_elapsed_time_alone_and_goes_on_late_for_device_time_alone() -> None:
    assert all(plan["host_ms"] > 0 and plan["late_ms"] == 0 for plan in case_of("elapsed_ms")["works"])
    assert all(plan["host_ms"] == 0 and plan["late_ms"] > 0 for plan in case_of("device_ms")["works"])


def test_a_plan_is_what_the_device_does(device: devices.Device) -> None:
    plan = hidden_work.draw(random.Random(1), host=False, late=False)
    work = practice.Work(device, [practice.Part(ms, stream) for ms, stream in plan["parts"]])
    assert device_ms(plan) == pytest.approx(work.overlapped_ms)
    ends = {one["lane"]: one["end_ms"] for one in hidden_work.spans(plan)}
    assert max(ends.values()) == device_ms(plan)


def test_hidden_work_tells_nothing_of_its_durations(device: devices.Device) -> None:
    work = hidden_work.hidden(hidden_work.draw(random.Random(1), host=False, late=False), device)
    public = [name for name in dir(work) if not name.startswith("_")]
    assert public == []
    assert len(work) == len(list(work)) == len(RUN)


# ---- what is watched ----


def test_launches_waits_and_reads_are_noted_in_order(device: devices.Device) -> None:
    watch = Watch()
    plan = hidden_work.draw(random.Random(2), scale=0.05, host=False, late=False)
    work = hidden_work.hidden({**plan, "first_ms": 0.0}, device, watch)
    with watching(device, watch):
        handle = work()[-1]
        device.synchronize()
        begin, end = device.event(), device.event()
        begin.record()
        for operation in work:
            operation()
        end.record()
        end.synchronize()
        device.current_stream().synchronize()
        begin.elapsed_time(end)
        handle.value()
    assert watch.calls == f"{RUN}W{RUN}WWW"
    assert watch.reads == 1


def test_nothing_is_watched_any_more_afterwards(device: devices.Device) -> None:
    before, watch = vars(practice.Event)["elapsed_time"], Watch()
    with pytest.raises(ZeroDivisionError), watching(device, watch):
        raise ZeroDivisionError
    device.synchronize()
    assert watch.calls == ""
    assert "wait_for" not in vars(practice.engine())
    assert vars(practice.Event)["elapsed_time"] is before


def test_a_late_host_is_late_only_where_it_had_to_wait(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[float] = []
    monkeypatch.setattr("stepprof_lab.grading.watching._sleep", late.append)
    with watching(device, Watch(), late_ms=40.0):
        device.occupy(30.0)
        device.synchronize()
        device.synchronize()
    assert late == [0.04]


def test_every_work_has_a_first_call_of_its_own(device: devices.Device) -> None:
    plan = hidden_work.draw(random.Random(3), scale=0.05, host=False, late=False)
    recording = log.start()
    for _ in range(2):
        work = hidden_work.hidden(plan, device)
        work()
        work()
    log.stop(recording)
    device.synchronize()
    first = [one for one in recording.works if one.name.endswith("(first call)")]
    assert [(one.end_ns - one.start_ns) / 1e6 for one in first] == pytest.approx([plan["first_ms"]] * 2)
    assert len(recording.works) == 4 * len(RUN) + 2


def test_the_device_is_idle_again_where_an_answer_raises(device: devices.Device) -> None:
    def answer(work: Any, _: Any) -> None:
        work()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hidden_work.once(answer, case_of("device_ms")["works"][0], device)
    assert device.pending() == 0


# ---- the judge ----


def numbered(rows: list[Any]) -> list[str]:
    return [f"{number}-{row[0]}" for number, row in enumerate(rows)]


ELAPSED: list[Any] = [
    ("no-wait", lambda _: 0.1, RUN, 15.0),
    ("no-wait", lambda plan: plan["host_ms"], f"{RUN}W{RUN}W", 0.0),
    ("wait-only-before", lambda _: 0.1, f"W{RUN}", 15.0),
    ("wait-only-before", lambda _: 0.1, f"{RUN}W{RUN}", 15.0),
    ("wrong-stream", lambda _: 0.1, f"{RUN}W{RUN}W", 15.0),
    ("wait-after-every", lambda plan: 2 * elapsed_ms(plan), f"{RUN}W{'LW' * 6}", 0.0),
    ("first-call-counted", lambda plan: elapsed_ms(plan) + plan["first_ms"], f"W{RUN}W", 0.0),
    ("first-call-counted", lambda plan: elapsed_ms(plan) + plan["first_ms"] / 4, f"{RUN}W" * 4, 0.0),
    ("units-mixed", lambda plan: elapsed_ms(plan) / 1e3, f"{RUN}W{RUN}W", 0.0),
    ("units-mixed", lambda plan: elapsed_ms(plan) * 1e6, f"{RUN}W{RUN}W", 0.0),
    ("runs-added", lambda plan: elapsed_ms(plan) * 3, f"{RUN}W" * 4, 0.0),
    ("runs-overlapped", lambda plan: device_ms(plan) + plan["host_ms"] / 3, f"{RUN}W{RUN * 3}W", 0.0),
    ("launch-left-out", device_ms, f"{RUN}W{RUN}W", 0.0),
    ("not-measured", elapsed_ms, "", 0.0),
    (None, lambda plan: 1.4 * elapsed_ms(plan), f"{RUN}W{RUN}W", 0.0),
]


@pytest.mark.parametrize(("misconception", "value_of", "calls", "left_ms"), ELAPSED, ids=numbered(ELAPSED))
def test_what_an_elapsed_time_shows(misconception: str | None, value_of: Any, calls: str, left_ms: float) -> None:
    verdict = judged("elapsed_ms", value_of, calls, left_ms=left_ms)
    assert (verdict.misconception, verdict.passed) == (misconception, False)
    assert all(catalogue.sentence(one) for one in verdict.said)


DEVICE: list[Any] = [
    ("host-clock", lambda plan: device_ms(plan) + plan["late_ms"], f"{RUN}W{RUN}W", 0, 0.0),
    ("host-clock", device_ms, f"{RUN}{RUN}", 0, 0.0),
    ("wrong-stream", lambda _: 0.1, f"{RUN}{RUN}W", 1, 15.0),
    ("wrong-stream", lambda _: 0.0, f"{RUN}W{RUN}WW", 1, 0.0),
    ("wait-after-every", lambda plan: 2 * device_ms(plan), f"{RUN}{'LW' * 6}W", 1, 0.0),
    ("first-call-counted", lambda plan: device_ms(plan) + plan["first_ms"], f"{RUN}W", 1, 0.0),
    ("units-mixed", lambda plan: device_ms(plan) * 1e3, f"{RUN}{RUN}W", 1, 0.0),
    ("end-before-start", lambda plan: -device_ms(plan), f"{RUN}{RUN}W", 1, 0.0),
    ("runs-added", lambda plan: 2 * device_ms(plan), f"{RUN * 3}W", 1, 0.0),
    ("not-measured", device_ms, "", 0, 0.0),
]


@pytest.mark.parametrize(("misconception", "value_of", "calls", "reads", "left_ms"), DEVICE, ids=numbered(DEVICE))
def test_what_a_device_time_shows(misconception: str, value_of: Any, calls: str, reads: int, left_ms: float) -> None:
    verdict = judged("device_ms", value_of, calls, reads=reads, left_ms=left_ms)
    assert (verdict.misconception, verdict.passed) == (misconception, False)
    assert all(catalogue.sentence(one) for one in verdict.said)


@pytest.mark.parametrize("factor", [0.95, 1.0, 1.07])
def test_right_numbers_pass_within_the_tolerance(factor: float) -> None:
    assert judged("elapsed_ms", lambda plan: factor * elapsed_ms(plan), f"{RUN}W{RUN}W").passed
    assert judged("device_ms", lambda plan: factor * device_ms(plan), f"{RUN}{RUN}W", reads=1).passed


@pytest.mark.parametrize("factor", [0.93, 1.09])
def test_numbers_beyond_the_tolerance_do_not(factor: float) -> None:
    assert not judged("elapsed_ms", lambda plan: factor * elapsed_ms(plan), f"{RUN}W{RUN}W").passed
    assert not judged("device_ms", lambda plan: factor * device_ms(plan), f"{RUN}{RUN}W", reads=1).passed


def test_a_right_number_for_one_of_two_works_is_not_right() -> None:
    first = case_of("elapsed_ms")["works"][0]
    assert not judged("elapsed_ms", lambda _: elapsed_ms(first), f"{RUN}W{RUN}W").passed


def test_work_that_ran_in_part_or_on_one_case_alone_is_judged_too() -> None:
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    for calls in (("", f"{RUN}W{RUN}W"), ("LLW", f"{RUN}W"), ("W", "W")):
        works = [seen(plan, 0.5, one) for plan, one in zip(case["works"], calls, strict=True)]
        assert item.judge([case], [Evidence(data={"value": 0.5, "works": works}, origin="simulated")]).points == 0


def test_a_number_that_no_clock_could_have_seen_is_not_a_measurement() -> None:
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    works = [{**seen(plan, elapsed_ms(plan), f"{RUN}W{RUN}W"), "outside_ms": [1.0] * 7} for plan in case["works"]]
    verdict = item.judge([case], [Evidence(data={"value": 1.0, "works": works}, origin="simulated")])
    assert (verdict.passed, verdict.misconception) == (False, "not-measured")


def test_there_is_no_verdict_where_the_library_itself_measures_too_much() -> None:
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    works = [seen(plan, elapsed_ms(plan), f"{RUN}W{RUN}W") for plan in case["works"]]
    for one in works:
        one["references"] = [1.5 * each for each in one["references"]]
        one["values"] = [1.5 * each for each in one["values"]]
    verdict = item.judge([case], [Evidence(data={"value": 1.0, "works": works}, origin="simulated")])
    assert verdict.undecided
    assert not verdict.passed
    assert "No verdict" in catalogue.sentence(verdict.said[0])


def elapsed_by_the_host(work: Any, device: Any) -> float:
    work()
    device.synchronize()
    started = time.perf_counter()
    work()
    device.synchronize()
    return 1e3 * (time.perf_counter() - started)


def test_the_order_of_calls_is_judged_on_a_busy_machine_too() -> None:
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    works = [seen(plan, 0.1, RUN, left_ms=15.0) for plan in case["works"]]
    evidence = Evidence(data={"value": 0.1, "works": works, "refused": "waits end late"}, origin="simulated")
    assert item.judge([case], [evidence]).misconception == "no-wait"


def test_times_that_differ_too_much_give_no_verdict_where_nothing_else_is_seen() -> None:
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    works = [seen(plan, elapsed_ms(plan), f"{RUN}W{RUN}W") for plan in case["works"]]
    for one in works:
        one["values"] = [(1.15 + 0.05 * turn) * value for turn, value in enumerate(one["values"])]
    verdict = item.judge([case], [Evidence(data={"value": 1.0, "works": works}, origin="simulated")])
    assert verdict.undecided


def test_there_is_no_verdict_where_the_machine_cannot_hold_the_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotAvailable("a verdict on times of 13 ms, while waits end late", "at most 1 ms", "try again")

    monkeypatch.setattr(practice, "calibrate", refuse)
    item, case = items.item("02/elapsed_ms"), case_of("elapsed_ms")
    monkeypatch.setattr(lab02, "REPETITIONS", 1)
    monkeypatch.setattr(lab02, "MOST_REPETITIONS", 1)
    evidence = item.probe(elapsed_by_the_host, case)
    evidence.data["works"][0]["values"] = [50.0]
    verdict = item.judge([case], [evidence])
    assert verdict.undecided
    assert "waits end late" in catalogue.sentence(verdict.said[0])


def test_what_is_no_number_is_said_so_at_once() -> None:
    item, case = items.item("02/device_ms"), case_of("device_ms")
    evidence = item.probe(lambda _work, _device: "12 ms", case)
    assert (evidence.data["value"], evidence.data["kind"]) == (None, "str")
    assert "works" not in evidence.data
    assert "str" in catalogue.sentence(item.judge([case], [evidence]).said[0])


def test_an_error_of_an_answer_stays_its_own(device: devices.Device) -> None:
    def never_recorded(work: Any, device: Any) -> float:
        work()
        return float(device.event().elapsed_time(device.event()))

    item, case = items.item("02/device_ms"), case_of("device_ms")
    with pytest.raises(practice.EventNotReady, match="never recorded"):
        item.probe(never_recorded, case)
    assert device.pending() == 0
    with pytest.raises(Unanswered):
        item.probe(None, case)


# ---- questions ----


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_question_is_asked_and_has_words(seed: int) -> None:
    letters = case_of("questions", seed)["letters"]
    assert list(letters) == list("abcdef")
    assert (
        sorted(lab02.QUESTIONS[name] for name in letters.values()) == ["device"] * 2 + ["elapsed"] * 2 + ["neither"] * 2
    )
    assert all(catalogue.text(f"02.question_of.{name}") for name in letters.values())


def test_every_wrong_answer_to_a_question_has_a_name() -> None:
    kinds = sorted(set(lab02.QUESTIONS.values()))
    assert set(lab02._SHOWN_BY) == set(itertools.permutations(kinds, 2))


def test_questions_earn_points_one_by_one() -> None:
    item, case = items.item("02/questions"), case_of("questions")
    right = {letter: lab02.QUESTIONS[name] for letter, name in case["letters"].items()}
    first = next(iter(right))
    for given, points in ((right, 3.0), ({**right, first: "both"}, 2.5), ({first: right[first]}, 0.5)):
        assert item.judge([case], [item.probe(given, case)]).points == points
