"""Right answers to lab 02, second set: written from the lab's text alone."""

import statistics
import time

from stepprof_lab.grading.answers import from_material


def clock_around_a_second_run(work, device):
    work()
    device.synchronize()
    started = time.perf_counter()
    work()
    device.synchronize()
    stopped = time.perf_counter()
    return (stopped - started) * 1000


def clock_until_an_event(work, device):
    for operation in work:
        operation()
    device.synchronize()
    last = device.event()
    t0 = time.perf_counter_ns()
    work()
    last.record()
    last.synchronize()
    return (time.perf_counter_ns() - t0) / 1e6


def shortest_of_three(work, device):
    work()
    times = []
    for _ in range(3):
        device.synchronize()
        begun = time.perf_counter()
        work()
        device.synchronize()
        times.append(time.perf_counter() - begun)
    return round(1e3 * min(times), 3)


def events_after_a_wait(work, device):
    work()
    device.synchronize()
    before, after = device.event(), device.event()
    before.record()
    work()
    after.record()
    after.synchronize()
    return before.elapsed_time(after)


def events_behind_the_first_run(work, device):
    work()
    first = device.event()
    second = device.event()
    first.record()
    work()
    second.record()
    device.synchronize()
    return float(first.elapsed_time(second))


def median_of_events(work, device):
    stream = device.current_stream()
    work()
    numbers = []
    for _ in range(3):
        a, b = device.event(), device.event()
        a.record(stream)
        work()
        b.record(stream)
        b.synchronize()
        numbers.append(a.elapsed_time(b))
    return statistics.median(numbers)


ELAPSED = ("in a minute", "does a person wait", "How much sooner")
DEVICE = ("the device's work get shorter", "does the device need", "do it equally fast")


def kind_of(question):
    if any(words in question for words in ELAPSED):
        return "elapsed"
    return "device" if any(words in question for words in DEVICE) else "neither"


@from_material
def by_what_is_asked(lab):
    return {letter: kind_of(question) for letter, question in lab.questions.items()}


@from_material
def from_last_to_first(lab):
    answer = {}
    for letter in sorted(lab.questions, reverse=True):
        answer[letter] = kind_of(lab.questions[letter])
    return answer


RIGHT = {
    "02/prediction": {"far less": "c", "the same in upper case": "C"},
    "02/elapsed_ms": {
        "clock around a second run": clock_around_a_second_run,
        "clock until an event": clock_until_an_event,
        "shortest of three": shortest_of_three,
    },
    "02/device_ms": {
        "events after a wait": events_after_a_wait,
        "events behind the first run": events_behind_the_first_run,
        "median of three": median_of_events,
    },
    "02/questions": {"by what is asked": by_what_is_asked, "from last to first": from_last_to_first},
}
