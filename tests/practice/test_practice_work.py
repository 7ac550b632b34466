"""Work as labs have it: the right ways to time it, and what each usual mistake gives, on a clock that stands still."""

from __future__ import annotations

import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.practice import Part, Work

PARTS = [Part(10), Part(20, 1), Part(20, 2), Part(15)]


@pytest.fixture
def work(device):
    return Work(device, PARTS, name="mixed")


def host_ms(clock, run) -> float:
    begun = clock.now_ns()
    run()
    return (clock.now_ns() - begun) / 1e6


def device_ms(device, run) -> float:
    begin, end = device.event(), device.event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def all_at_once(work):
    work()


def one_by_one(work):
    for operation in work:
        operation()


@pytest.mark.parametrize("run", [all_at_once, one_by_one])
def test_both_ways_of_launching_overlap_and_join_at_the_end(device, clock, work, run):
    assert (work.overlapped_ms, work.serial_ms, len(work)) == (30, 65, 4)
    assert device_ms(device, lambda: run(work)) == 30
    assert host_ms(clock, lambda: (run(work), device.synchronize())) == 30


def test_without_a_wait_the_call_takes_no_time_and_the_work_is_pending(device, clock, work):
    assert host_ms(clock, work) == 0
    assert device.pending() == 4
    device.synchronize()
    assert device.pending() == 0


def test_a_wait_after_every_operation_destroys_the_overlap(device, clock, work):
    def waiting():
        for operation in work:
            operation()
            device.synchronize()

    assert host_ms(clock, waiting) == work.serial_ms


def test_events_on_the_wrong_stream_see_another_time(device, work):
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record(work._sides[1])
    end.synchronize()
    assert begin.elapsed_time(end) == 30
    side = device.new_stream()
    begin.record(side)
    work()
    end.record(side)
    end.synchronize()
    assert begin.elapsed_time(end) == 0


def test_the_first_call_of_each_work_takes_more(device):
    one, two = (Work(device, [Part(10), Part(10)], name=name, first_ms=50) for name in ("one", "two"))
    assert [device_ms(device, work) for work in (one, one, two, two)] == [70, 20, 70, 20]


def test_a_side_stream_begins_after_what_was_queued_before_the_work(device, work):
    device.occupy(100)
    assert device_ms(device, work) == 30


def test_its_results_are_the_same_each_time(device, work):
    torch = pytest.importorskip("torch")
    results = [made.value() for made in work()]
    device.synchronize()
    assert all(torch.equal(result, results[0]) for result in results)


def test_work_without_operations_is_refused(device):
    with pytest.raises(StepprofError, match="without operations"):
        Work(device, [])
