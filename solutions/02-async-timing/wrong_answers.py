"""Wrong answers, each with the misconception that the judge must name."""

import time

from stepprof_lab.grading.answers import from_material


def _clock():
    return 1e3 * time.perf_counter()


# ---- end to end ----


def no_wait(work, device):
    started = _clock()
    work()
    return _clock() - started


def no_wait_after_a_first_call(work, device):
    work()
    started = _clock()
    for operation in work:
        operation()
    return _clock() - started


def stops_the_clock_before_it_waits(work, device):
    work()
    device.synchronize()
    started = _clock()
    work()
    stopped = _clock()
    device.synchronize()
    return stopped - started


def waits_only_before(work, device):
    device.synchronize()
    started = _clock()
    work()
    return _clock() - started


def waits_only_before_after_a_first_call(work, device):
    work()
    device.synchronize()
    started = _clock()
    work()
    return _clock() - started


def waits_after_every(work, device):
    work()
    device.synchronize()
    started = _clock()
    for operation in work:
        operation()
        device.synchronize()
    return _clock() - started


def waits_for_every_result(work, device):
    for operation in work:
        operation()
    device.synchronize()
    started = _clock()
    for operation in work:
        operation().value()
    return _clock() - started


def waits_after_every_and_counts_the_first_call(work, device):
    started = _clock()
    for operation in work:
        operation()
        device.synchronize()
    return _clock() - started


def waits_for_another_stream(work, device):
    work()
    device.synchronize()
    other = device.new_stream()
    started = _clock()
    work()
    other.synchronize()
    return _clock() - started


def waits_for_an_event_of_another_stream(work, device):
    work()
    device.synchronize()
    end = device.event()
    started = _clock()
    work()
    end.record(device.new_stream())
    end.synchronize()
    return _clock() - started


def counts_the_first_call(work, device):
    device.synchronize()
    started = _clock()
    work()
    device.synchronize()
    return _clock() - started


def counts_the_first_call_and_the_queue(work, device):
    started = _clock()
    work()
    device.synchronize()
    return _clock() - started


def mean_with_the_first_call(work, device, count=5):
    device.synchronize()
    total = 0.0
    for _ in range(count):
        started = _clock()
        work()
        device.synchronize()
        total += _clock() - started
    return total / count


def seconds(work, device):
    work()
    device.synchronize()
    started = time.perf_counter()
    work()
    device.synchronize()
    return time.perf_counter() - started


def microseconds(work, device):
    return 1e6 * seconds(work, device)


def nanoseconds(work, device):
    return round(1e9 * seconds(work, device))


def seconds_of_a_first_call(work, device):
    return counts_the_first_call_and_the_queue(work, device) / 1e3


def its_own_first_call_is_still_going_on(work, device):
    work()
    started = _clock()
    work()
    device.synchronize()
    return _clock() - started


def several_runs_together(work, device, count=3):
    work()
    device.synchronize()
    started = _clock()
    for _ in range(count):
        work()
        device.synchronize()
    return _clock() - started


def runs_that_overlap(work, device, count=5):
    work()
    device.synchronize()
    started = _clock()
    for _ in range(count):
        work()
    device.synchronize()
    return (_clock() - started) / count


def times_the_wait_alone(work, device):
    work()
    device.synchronize()
    work()
    started = _clock()
    device.synchronize()
    return _clock() - started


def does_not_run_it(work, device):
    return 17.5


# ---- on the device ----


def host_clock(work, device):
    return 1e3 * seconds(work, device)


def host_clock_and_the_stream(work, device):
    stream = device.current_stream()
    work()
    stream.synchronize()
    started = _clock()
    work()
    stream.synchronize()
    return _clock() - started


def host_clock_behind_the_queue(work, device):
    work()
    started = _clock()
    work()
    device.synchronize()
    return _clock() - started


def host_clock_without_a_first_call(work, device):
    return counts_the_first_call_and_the_queue(work, device)


def host_clock_around_an_event(work, device):
    work()
    device.synchronize()
    end = device.event()
    started = _clock()
    work()
    end.record()
    end.synchronize()
    return _clock() - started


def host_clock_that_asks(work, device):
    work()
    device.synchronize()
    started = _clock()
    work()
    while not device.current_stream().query():
        time.sleep(0.0001)
    return _clock() - started


def reads_events_early(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    return begin.elapsed_time(end)


def waits_for_the_first_event(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    begin.synchronize()
    return begin.elapsed_time(end)


def _events(work, device, into_begin=None, into_end=None, *, wait=False, first=True):
    if first:
        work()
    if wait:
        device.synchronize()
    begin, end = device.event(), device.event()
    begin.record(into_begin)
    work()
    end.record(into_end)
    end.synchronize()
    return begin, end


def events_in_another_stream(work, device):
    other = device.new_stream()
    begin, end = _events(work, device, other, other)
    return begin.elapsed_time(end)


def events_in_another_stream_and_a_wait(work, device):
    other = device.new_stream()
    begin, end = _events(work, device, other, other, wait=True)
    device.synchronize()
    return begin.elapsed_time(end)


def end_in_another_stream(work, device):
    begin, end = _events(work, device, None, device.new_stream(), wait=True)
    device.synchronize()
    return begin.elapsed_time(end)


def work_in_another_stream_than_the_events(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    with device.stream(device.new_stream()):
        work()
    end.record()
    device.synchronize()
    return begin.elapsed_time(end)


def begins_in_another_stream(work, device):
    begin, end = _events(work, device, device.new_stream(), None)
    return begin.elapsed_time(end)


def device_first_call(work, device):
    begin, end = _events(work, device, first=False)
    return begin.elapsed_time(end)


def device_mean_with_the_first_call(work, device, count=5):
    begin, end = device.event(), device.event()
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def device_waits_after_every(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    for operation in work:
        operation()
        device.synchronize()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def device_adds_operations(work, device):
    work()
    total = 0.0
    for operation in work:
        begin, end = device.event(), device.event()
        begin.record()
        operation()
        end.record()
        device.synchronize()
        total += begin.elapsed_time(end)
    return total


def takes_milliseconds_for_seconds(work, device):
    begin, end = _events(work, device)
    return 1e3 * begin.elapsed_time(end)


def divides_milliseconds(work, device):
    begin, end = _events(work, device)
    return begin.elapsed_time(end) / 1e3


def turned_round(work, device):
    begin, end = _events(work, device)
    return end.elapsed_time(begin)


def device_runs_added(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    work()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


# ---- questions ----

RIGHT = {
    "person wait": "elapsed",
    "prepares a request": "elapsed",
    "served in a minute": "elapsed",
    "kernel was rewritten": "device",
    "from slow Python": "device",
    "host busy": "device",
    "launching alone": "neither",
    "reading the batch": "neither",
    "at the same time": "neither",
}


def _questions(**instead):
    """The right answers, with one kind of question answered by something else."""

    @from_material
    def answer(lab):
        right = {
            letter: next(number for text, number in RIGHT.items() if text in question)
            for letter, question in lab.questions.items()
        }
        return {letter: instead.get(number, number) for letter, number in right.items()}

    return answer


WRONG = {
    "02/elapsed_ms": {
        "no wait": ("no-wait", no_wait),
        "no wait, warm": ("no-wait", no_wait_after_a_first_call),
        "clock before the wait": ("no-wait", stops_the_clock_before_it_waits),
        "wait before": ("wait-only-before", waits_only_before),
        "wait before, warm": ("wait-only-before", waits_only_before_after_a_first_call),
        "wait after every": ("wait-after-every", waits_after_every),
        "every result": ("wait-after-every", waits_for_every_result),
        "wait after every, cold": ("wait-after-every", waits_after_every_and_counts_the_first_call),
        "another stream": ("wrong-stream", waits_for_another_stream),
        "another stream's event": ("wrong-stream", waits_for_an_event_of_another_stream),
        "first call": ("first-call-counted", counts_the_first_call),
        "first call and queue": ("first-call-counted", counts_the_first_call_and_the_queue),
        "mean of five": ("first-call-counted", mean_with_the_first_call),
        "mean of ten": ("first-call-counted", lambda work, device: mean_with_the_first_call(work, device, 10)),
        "seconds": ("units-mixed", seconds),
        "microseconds": ("units-mixed", microseconds),
        "nanoseconds": ("units-mixed", nanoseconds),
        "seconds, cold": ("units-mixed", seconds_of_a_first_call),
        "own first call": ("earlier-work-counted", its_own_first_call_is_still_going_on),
        "three runs": ("runs-added", several_runs_together),
        "overlapping runs": ("runs-overlapped", runs_that_overlap),
        "two overlapping runs": ("runs-overlapped", lambda work, device: runs_that_overlap(work, device, 2)),
        "wait alone": ("launch-left-out", times_the_wait_alone),
        "constant": ("not-measured", does_not_run_it),
    },
    "02/device_ms": {
        "host clock": ("host-clock", host_clock),
        "host clock, stream": ("host-clock", host_clock_and_the_stream),
        "host clock, queue": ("host-clock", host_clock_behind_the_queue),
        "host clock, cold": ("host-clock", host_clock_without_a_first_call),
        "host clock, event": ("host-clock", host_clock_around_an_event),
        "host clock, asking": ("host-clock", host_clock_that_asks),
        "read early": ("events-read-early", reads_events_early),
        "first event awaited": ("events-read-early", waits_for_the_first_event),
        "another stream": ("wrong-stream", events_in_another_stream),
        "another stream, wait": ("wrong-stream", events_in_another_stream_and_a_wait),
        "end in another stream": ("wrong-stream", end_in_another_stream),
        "work in another stream": ("wrong-stream", work_in_another_stream_than_the_events),
        "begin in another stream": ("wrong-stream", begins_in_another_stream),
        "first call": ("first-call-counted", device_first_call),
        "mean of five": ("first-call-counted", device_mean_with_the_first_call),
        "wait after every": ("wait-after-every", device_waits_after_every),
        "operations added": ("wait-after-every", device_adds_operations),
        "times 1000": ("units-mixed", takes_milliseconds_for_seconds),
        "over 1000": ("units-mixed", divides_milliseconds),
        "turned round": ("end-before-start", turned_round),
        "three runs": ("runs-added", device_runs_added),
        "constant": ("not-measured", does_not_run_it),
    },
    "02/questions": {
        "device for latency": ("device-for-latency", _questions(elapsed="device")),
        "latency for device": ("latency-for-device", _questions(device="elapsed")),
        "elapsed for all": ("latency-for-device", _questions(device="elapsed", neither="elapsed")),
        "device for all": ("device-for-latency", _questions(elapsed="device", neither="device")),
        "elapsed for the rest": ("one-number-for-all", _questions(neither="elapsed")),
        "device for the rest": ("one-number-for-all", _questions(neither="device")),
        "nothing fits": ("no-number-for-it", _questions(elapsed="neither", device="neither")),
    },
}
