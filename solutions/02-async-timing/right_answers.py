"""Honest answers in different styles; each must earn every point."""

import statistics
import time

import numpy as np

from stepprof_lab.devices import EventTimer
from stepprof_lab.grading.answers import from_material


def elapsed_plain(work, device):
    work()
    device.synchronize()
    started = time.perf_counter()
    work()
    device.synchronize()
    return (time.perf_counter() - started) * 1000


def elapsed_in_nanoseconds(work, device):
    for operation in work:
        operation()
    device.synchronize()
    started = time.perf_counter_ns()
    for operation in work:
        operation()
    device.synchronize()
    return (time.perf_counter_ns() - started) / 1e6


def elapsed_waiting_for_the_stream(work, device):
    stream = device.current_stream()
    work()
    stream.synchronize()
    started = time.monotonic()
    work()
    stream.synchronize()
    return np.float64(1e3 * (time.monotonic() - started))


def elapsed_waiting_for_an_event(work, device):
    work()
    device.synchronize()
    done = device.event()
    started = time.perf_counter()
    work()
    done.record()
    done.synchronize()
    return 1e3 * (time.perf_counter() - started)


def elapsed_waiting_for_results(work, device):
    def run():
        for handle in work():
            handle.value()

    run()
    device.synchronize()
    started = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - started)


def elapsed_median_of_three(work, device):
    times = []
    for _ in range(4):
        device.synchronize()
        started = time.perf_counter()
        work()
        device.synchronize()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times[1:])


def elapsed_by_asking(work, device):
    """Asks again and again instead of waiting."""

    def run():
        started = time.perf_counter()
        work()
        while not device.current_stream().query():
            time.sleep(0.0001)
        return time.perf_counter() - started

    while not device.current_stream().query():
        pass
    run()
    return round(1e3 * run(), 1)


def device_plain(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def device_with_waits(work, device):
    work()
    device.synchronize()
    stream = device.current_stream()
    begin = stream.record_event(device.event())
    work()
    end = stream.record_event(device.event())
    device.synchronize()
    return round(begin.elapsed_time(end), 1)


def device_with_the_timer(work, device):
    work()
    timer = EventTimer(device)
    timer.start()
    for operation in work:
        operation()
    timer.stop()
    return np.float32(timer.elapsed_ms())


def device_mean_of_four(work, device):
    work()
    begin, end = device.event(), device.event()
    begin.record(device.current_stream())
    for _ in range(4):
        work()
    end.record(device.current_stream())
    end.synchronize()
    return begin.elapsed_time(end) / 4


def device_in_a_stream_of_its_own(work, device):
    with device.stream(device.new_stream()):
        work()
        begin, end = device.event(), device.event()
        begin.record()
        work()
        end.record()
    while not end.query():
        time.sleep(0.0005)
    return begin.elapsed_time(end)


ANSWERS = {
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


def _questions(lab):
    return {
        letter: next(number for text, number in ANSWERS.items() if text in question)
        for letter, question in lab.questions.items()
    }


@from_material
def questions_plain(lab):
    return _questions(lab)


@from_material
def questions_by_function(lab):
    return {letter.upper(): f" {one}_ms " if one != "neither" else "Neither" for letter, one in _questions(lab).items()}


@from_material
def questions_in_words(lab):
    return {letter: f"{one.title()}." for letter, one in reversed(_questions(lab).items())}


RIGHT = {
    "02/prediction": {"c": "c", "any": "A", "with words": "b, I think"},
    "02/elapsed_ms": {
        "plain": elapsed_plain,
        "nanoseconds": elapsed_in_nanoseconds,
        "stream": elapsed_waiting_for_the_stream,
        "event": elapsed_waiting_for_an_event,
        "results": elapsed_waiting_for_results,
        "median": elapsed_median_of_three,
        "asking": elapsed_by_asking,
    },
    "02/device_ms": {
        "plain": device_plain,
        "waits": device_with_waits,
        "timer": device_with_the_timer,
        "mean": device_mean_of_four,
        "own stream": device_in_a_stream_of_its_own,
    },
    "02/questions": {
        "plain": questions_plain,
        "functions": questions_by_function,
        "words": questions_in_words,
    },
}
