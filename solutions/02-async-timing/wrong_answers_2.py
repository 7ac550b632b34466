"""Wrong answers to lab 02, second set: written from the lab's text alone."""

import time

from stepprof_lab.grading.answers import from_material


def clock_around_the_call(work, device):
    work()
    started = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - started)


def quiet_device_then_clock(work, device):
    work()
    device.synchronize()
    started = time.perf_counter()
    work()
    stopped = time.perf_counter()
    return 1e3 * (stopped - started)


def waits_for_each_operation(work, device):
    work()
    device.synchronize()
    started = time.perf_counter()
    for operation in work:
        operation()
        device.synchronize()
    return 1e3 * (time.perf_counter() - started)


def warm_run_still_in_the_queue(work, device):
    work()
    started = time.perf_counter()
    work()
    device.synchronize()
    return 1e3 * (time.perf_counter() - started)


def clock_with_waits(work, device):
    work()
    device.synchronize()
    t0 = time.perf_counter()
    work()
    device.synchronize()
    t1 = time.perf_counter()
    return (t1 - t0) * 1000


def events_without_a_wait(work, device):
    work()
    device.synchronize()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    return begin.elapsed_time(end)


def end_in_a_new_stream(work, device):
    work()
    device.synchronize()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record(device.new_stream())
    device.synchronize()
    return begin.elapsed_time(end)


def events_around_the_first_run(work, device):
    device.synchronize()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


ELAPSED = ("in a minute", "does a person wait", "How much sooner")
DEVICE = ("the device's work get shorter", "does the device need", "do it equally fast")


def kind_of(question):
    if any(words in question for words in ELAPSED):
        return "elapsed"
    return "device" if any(words in question for words in DEVICE) else "neither"


def answered(lab, **instead):
    return {letter: instead.get(kind_of(text), kind_of(text)) for letter, text in lab.questions.items()}


@from_material
def the_device_does_the_work(lab):
    return answered(lab, elapsed="device")


@from_material
def the_user_feels_it_all(lab):
    return answered(lab, device="elapsed")


@from_material
def one_of_the_two_will_do(lab):
    answer = answered(lab)
    unknown = [letter for letter, kind in answer.items() if kind == "neither"]
    for letter in unknown:
        answer[letter] = "device" if "operations" in lab.questions[letter] else "elapsed"
    return answer


@from_material
def only_what_names_the_device(lab):
    return answered(lab, elapsed="neither")


WRONG = {
    "02/elapsed_ms": {
        "clock around the call": ("no-wait", clock_around_the_call),
        "quiet device, then the clock": ("wait-only-before", quiet_device_then_clock),
        "waits for each operation": ("wait-after-every", waits_for_each_operation),
        "warm run still in the queue": ("earlier-work-counted", warm_run_still_in_the_queue),
    },
    "02/device_ms": {
        "clock with waits": ("host-clock", clock_with_waits),
        "events without a wait": ("events-read-early", events_without_a_wait),
        "end in a new stream": ("wrong-stream", end_in_a_new_stream),
        "events around the first run": ("first-call-counted", events_around_the_first_run),
    },
    "02/questions": {
        "the device does the work": ("device-for-latency", the_device_does_the_work),
        "the user feels it all": ("latency-for-device", the_user_feels_it_all),
        "one of the two will do": ("one-number-for-all", one_of_the_two_will_do),
        "only what names the device": ("no-number-for-it", only_what_names_the_device),
    },
}
