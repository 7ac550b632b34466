"""The practice device: the order and the times of its operations, what waits, what is raised and when."""

from __future__ import annotations

import operator
import threading

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.practice import Engine, EventNotReady, OperationFailed, simulator, streams
from stepprof_lab.practice import engine as engine_of_process


def at_ms(operation) -> tuple[float, float]:
    return operation.start_ns / 1e6, operation.end_ns / 1e6


def fails() -> None:
    raise ValueError("no such shape")


# ---- asynchrony ----


def test_a_launch_returns_before_the_result_exists_and_a_wait_makes_it(engine, clock):
    gate = threading.Event()

    def add(a, b):
        assert gate.wait(20)
        return a + b

    made = engine.launch(add, 2, 3, ms=10)
    clock.advance(100)
    assert engine.pending() == 1, "the time is over, the function has not returned"
    assert not engine.current_stream().query()
    gate.set()
    engine.synchronize()
    assert (made.value(), engine.pending()) == (5, 0)


def test_a_result_does_not_exist_before_its_modelled_end(engine, clock):
    made = engine.launch(operator.add, 2, 3, ms=10)
    assert made.returned.wait(20), "started at once, so its function may return"
    clock.advance(9.999)
    assert engine.pending() == 1
    clock.advance(0.001)
    assert engine.pending() == 0


def test_functions_run_in_another_thread_and_their_results_are_the_real_ones(engine):
    torch = pytest.importorskip("torch")
    a = torch.arange(12.0, requires_grad=True).reshape(3, 4)
    product = engine.launch(torch.matmul, a, a.T, ms=5)
    twice = engine.launch(torch.add, product, product, ms=5)
    where = engine.launch(threading.get_ident, ms=0)
    assert torch.equal(twice.value(), 2 * (a @ a.T))
    assert not twice.value().requires_grad
    assert where.value() != threading.get_ident()


def test_on_the_real_clock_no_wait_ends_before_the_modelled_end():
    engine = Engine()
    try:
        made = [engine.launch(operator.add, n, n, ms=2) for n in range(5)]
        engine.synchronize()
        assert engine.clock.now_ns() >= made[-1].end_ns
        assert [one.value() for one in made] == [0, 2, 4, 6, 8]
        assert all(late >= 0 for late in engine.lateness_ns)
    finally:
        engine.close()


# ---- the timeline ----


def test_a_stream_is_in_order_and_starts_when_it_is_launched_or_when_the_one_before_has_ended(engine, clock):
    seen: list[str] = []
    first = engine.launch(seen.append, "first", ms=10)
    clock.advance(4)
    second = engine.launch(seen.append, "second", ms=5)
    clock.advance(26)
    third = engine.launch(seen.append, "third", ms=1)
    engine.synchronize()
    assert [at_ms(one) for one in (first, second, third)] == [(0, 10), (10, 15), (30, 31)]
    assert seen == ["first", "second", "third"]


def test_two_streams_of_20_ms_end_after_20_ms(engine, clock):
    side = engine.new_stream()
    here = engine.occupy(20)
    with engine.stream(side):
        there = engine.occupy(20)
    engine.synchronize()
    assert (at_ms(here), at_ms(there), clock.now_ns() / 1e6) == ((0, 20), (0, 20), 20)


def test_a_late_wake_up_shifts_nothing_that_comes_after_it(engine, clock):
    begin, end = engine.event(), engine.event()
    begin.record()
    first, second = engine.occupy(10), engine.occupy(10)
    end.record()
    clock.late_ms = lambda: 3.0
    first.value()
    assert clock.now_ns() == 13_000_000
    assert at_ms(second) == (10, 20)
    end.synchronize()
    assert begin.elapsed_time(end) == 20.0
    assert list(engine.lateness_ns) == [3_000_000, 3_000_000]


def test_a_stream_waits_for_another_one_or_for_an_event_of_it(engine):
    one, two, three = engine.new_stream(), engine.new_stream(), engine.new_stream()
    with engine.stream(one):
        engine.occupy(10)
        reached = one.record_event()
        engine.occupy(10)
    two.wait_event(reached)
    three.wait_stream(one)
    with engine.stream(two):
        after_event = engine.occupy(1)
    with engine.stream(three):
        after_stream = engine.occupy(1)
    assert (at_ms(after_event), at_ms(after_stream)) == ((10, 11), (20, 21))


def test_what_waits_for_another_stream_runs_after_its_functions_too(engine, clock):
    gate, seen = threading.Event(), []
    side = engine.new_stream()
    with engine.stream(side):
        engine.launch(lambda: (gate.wait(20), seen.append("side")), ms=1)
    engine.current_stream().wait_stream(side)
    engine.launch(seen.append, "here", ms=1)
    clock.advance(50)
    gate.set()
    engine.synchronize()
    assert seen == ["side", "here"]


def test_each_thread_has_a_current_stream_of_its_own(engine):
    side, there = engine.new_stream(), []
    with engine.stream(side):
        other = threading.Thread(target=lambda: there.append(engine.current_stream()))
        other.start()
        other.join()
        with engine.stream(None):
            assert engine.current_stream() is side
    assert there == [engine.current_stream()]
    assert there != [side]


def test_the_first_call_of_a_kind_takes_more_once(engine):
    first = engine.occupy(5, name="gemm", first_ms=40)
    again = engine.occupy(5, name="gemm", first_ms=40)
    other = engine.occupy(5, name="softmax", first_ms=7)
    assert [at_ms(one) for one in (first, again, other)] == [(40, 45), (45, 50), (57, 62)]


# ---- events ----


def test_events_read_the_timeline_with_the_gap_before_the_launch(engine, clock):
    begin, end = engine.event(), engine.event()
    begin.record()
    clock.advance(2)
    engine.occupy(10)
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query()
    assert begin.elapsed_time(end) == 12.0


def test_an_event_that_is_not_reached_or_was_never_recorded_has_no_time(engine):
    begin, end, never = engine.event(), engine.event(), engine.event()
    begin.record()
    engine.occupy(10)
    end.record()
    with pytest.raises(EventNotReady, match="second is not reached yet"):
        begin.elapsed_time(end)
    end.synchronize()
    with pytest.raises(RuntimeError, match="first was never recorded"):  # as torch.cuda's
        never.elapsed_time(end)
    assert never.query()
    never.synchronize()


def test_a_wait_in_the_stream_for_an_event_that_was_never_recorded_changes_nothing(engine):
    engine.event().wait()
    assert at_ms(engine.occupy(1)) == (0, 1)


# ---- errors ----


def test_an_error_is_raised_at_the_next_wait_and_once(engine):
    engine.occupy(1)
    broken = engine.launch(fails, ms=5, name="embedding")
    with pytest.raises(
        OperationFailed, match="'embedding' on the practice device raised ValueError: no such shape"
    ) as e:
        engine.synchronize()
    assert isinstance(e.value.__cause__, ValueError)
    engine.synchronize()
    assert engine.launch(operator.add, 1, 1, ms=1).value() == 2
    with pytest.raises(OperationFailed, match="no such shape"):
        broken.value()


def test_an_event_tells_no_error_of_what_ends_after_it(engine):
    engine.occupy(1)
    reached = engine.current_stream().record_event()
    broken = engine.launch(fails, ms=50)
    reached.synchronize()
    assert broken.returned.wait(20), "it has raised by now, and ends later"
    reached.synchronize()
    with pytest.raises(OperationFailed):
        engine.synchronize()


def test_what_takes_a_result_that_does_not_exist_fails_too_and_the_first_error_is_told(engine):
    broken = engine.launch(fails, ms=1, name="first")
    after = engine.launch(operator.neg, broken, ms=1, name="second")
    with pytest.raises(OperationFailed, match="'first'"):
        engine.synchronize()
    with pytest.raises(OperationFailed, match=r"'second'.*the result of 'first', does not exist"):
        after.value()


def test_a_result_taken_from_another_stream_without_a_wait_is_an_error(engine):
    side = engine.new_stream()
    made = engine.launch(operator.add, 1, 1, ms=10)
    with engine.stream(side):
        engine.launch(operator.neg, made, ms=1)
    with pytest.raises(OperationFailed, match="wait_stream or wait_event is missing"):
        engine.synchronize()
    side.wait_stream(engine.current_stream())
    with engine.stream(side):
        assert engine.launch(operator.neg, made, ms=1).value() == -2


@pytest.mark.parametrize("ms", [-1, float("nan"), float("inf")])
def test_what_is_no_duration_is_refused(engine, ms):
    with pytest.raises(StepprofError, match="expected 0 ms or more"):
        engine.occupy(ms)


# ---- its threads ----


def test_closing_drops_what_has_not_run_and_ends_the_threads(engine):
    ran: list[int] = []
    engine.occupy(1000)
    dropped = engine.launch(ran.append, 1, ms=1)
    engine.close()
    assert dropped.returned.wait(20)
    assert ran == []
    with pytest.raises(StepprofError, match="closed"):
        engine.occupy(1)


def test_an_idle_worker_ends_and_the_next_launch_starts_another_one(engine, monkeypatch):
    monkeypatch.setattr(streams, "IDLE_S", 0.01)
    assert engine.launch(operator.add, 1, 1, ms=1).value() == 2
    worker = engine.current_stream()._worker
    if worker is not None:
        worker.join(20)
        assert not worker.is_alive()
    assert engine._streams == []
    assert engine.launch(operator.add, 2, 2, ms=1).value() == 4


def test_a_process_has_one_device_and_a_forked_child_gets_its_own(monkeypatch):
    before = engine_of_process()
    assert engine_of_process() is before
    monkeypatch.setattr(simulator, "_engine", before)
    monkeypatch.setattr(simulator, "_making", threading.Lock())
    simulator._making.acquire()  # held by a thread that the child does not have
    simulator._forget()
    assert engine_of_process() is not before
