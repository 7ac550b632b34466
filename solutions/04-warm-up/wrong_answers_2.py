"""Wrong answers to lab 04, second set: written from the lab's text alone."""

import statistics
import time

from stepprof_lab.grading.answers import from_material


def letter_of(times):
    settled = times[40:]
    usual = statistics.median(settled)
    if max(settled) > 2 * usual:
        return "c"
    size = len(settled) // 6
    pieces = [statistics.median(settled[i * size : (i + 1) * size]) for i in range(6)]
    if pieces[-1] < 1.04 * pieces[0]:
        return "a"
    return "d" if min(b / a - 1 for a, b in zip(pieces, pieces[1:])) > 0.008 else "b"


def kinds(lab, **instead):
    return {name: instead.get(letter_of(times), letter_of(times)) for name, times in lab.four.items()}


@from_material
def medians_see_no_new_shape(lab):
    return kinds(lab, c="a")


@from_material
def the_beginning_alone(lab):
    return kinds(lab, b="a")


@from_material
def rising_is_rising(lab):
    return kinds(lab, b="d", d="b")


@from_material
def a_rise_within_the_noise(lab):
    return kinds(lab, d="a")


def steady(times_ms):
    level = statistics.median(times_ms[len(times_ms) // 2 :])
    return next(n for n, ms in enumerate(times_ms) if abs(ms / level - 1) < 0.05)


def all_but_the_first(times_ms):
    return 1


def always_twenty(times_ms):
    return 20


def ten_alike(times_ms):
    for number in range(len(times_ms) - 10):
        ten = times_ms[number : number + 10]
        if max(ten) - min(ten) < 0.045 * min(ten):
            return number
    return len(times_ms)


def behind_the_last_high_step(times_ms):
    level = statistics.median(times_ms[-30:])
    high = [n for n, ms in enumerate(times_ms) if ms > 1.1 * level]
    return high[-1] + 1 if high else 0


def report(times_ms):
    after = steady(times_ms)
    usual = statistics.median(times_ms[after:])
    slow = [n for n in range(after, len(times_ms)) if times_ms[n] >= 2 * usual]
    return {"first_ms": times_ms[0], "steady_after": after, "steady_ms": usual, "slow_steps": slow}


def first_of_the_steady_part(times_ms):
    after = steady(times_ms)
    return {**report(times_ms), "first_ms": times_ms[after]}


def slow_ones_in_the_list(times_ms):
    after = steady(times_ms)
    slow = [n - after for n in report(times_ms)["slow_steps"]]
    return {**report(times_ms), "slow_steps": slow}


def slow_ones_from_the_beginning(times_ms):
    usual = report(times_ms)["steady_ms"]
    return {**report(times_ms), "slow_steps": [n for n, ms in enumerate(times_ms) if ms >= 2 * usual]}


def slow_ones_dropped_as_outliers(times_ms):
    return {**report(times_ms), "slow_steps": []}


def since_the_start(times_ms, batch):
    return 1000 * batch * len(times_ms) / sum(times_ms)


def steps_a_second(times_ms, batch):
    return 1000 / statistics.median(times_ms[steady(times_ms) :])


def per_millisecond(times_ms, batch):
    return batch / statistics.median(times_ms[steady(times_ms) :])


def time_of_a_sample(times_ms, batch):
    return statistics.median(times_ms[steady(times_ms) :]) / batch


def timed(step, calls):
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begun))
    return times


def measured(times):
    usual = statistics.median(times[len(times) // 2 :])
    after = next(n for n in range(len(times)) if max(times[n], statistics.median(times[n : n + 5])) < 1.5 * usual)
    slow = [n for n in range(after, len(times)) if times[n] >= 2 * usual]
    return {"first_ms": times[0], "steady_ms": usual, "slow_steps": slow}


def a_third_of_the_calls(step, calls):
    return measured(timed(step, calls // 3))


def warm_before_the_clock(step, calls):
    warm = 30
    for _ in range(warm):
        step()
    found = measured(timed(step, calls - warm))
    return {**found, "slow_steps": [n + warm for n in found["slow_steps"]]}


def mean_of_the_calls(step, calls):
    times = timed(step, calls)
    return {**measured(times), "steady_ms": sum(times) / len(times)}


def in_seconds(step, calls):
    found = measured(timed(step, calls))
    return {**found, "first_ms": found["first_ms"] / 1000, "steady_ms": found["steady_ms"] / 1000}


def decision(lab, **changed):
    times = lab.window
    usual = statistics.median(times)
    wait = steady(times) + 4
    while max(times[wait : wait + 3]) > 1.5 * usual:
        wait += 1
    return {"warm_up_proves": "b", "wait": wait, "report": "c", **changed}


@from_material
def trusts_the_schedule(lab):
    return decision(lab, warm_up_proves="a")


@from_material
def waits_for_one_step(lab):
    return decision(lab, wait=1)


@from_material
def records_the_new_shape(lab):
    usual = statistics.median(lab.window)
    slow = [n for n in range(40, len(lab.window)) if lab.window[n] > 2 * usual]
    return decision(lab, wait=slow[-1] - 1)


@from_material
def says_the_mean(lab):
    return decision(lab, report="a")


WRONG = {
    "04/kinds": {
        "medians see no new shape": ("new-shape-unnoticed", medians_see_no_new_shape),
        "the beginning alone": ("level-unnoticed", the_beginning_alone),
        "rising is rising": ("shift-and-drift-confused", rising_is_rising),
        "a rise within the noise": ("drift-unnoticed", a_rise_within_the_noise),
    },
    "04/steady_from": {
        "all but the first": ("only-first-dropped", all_but_the_first),
        "always twenty": ("fixed-number", always_twenty),
        "ten alike": ("plateau-taken-for-steady", ten_alike),
        "behind the last high step": ("slow-step-taken-for-start-up", behind_the_last_high_step),
    },
    "04/report": {
        "first of the steady part": ("start-up-erased", first_of_the_steady_part),
        "slow ones counted in a cut list": ("counted-from-the-steady-part", slow_ones_in_the_list),
        "slow ones from the beginning": ("start-up-among-slow", slow_ones_from_the_beginning),
        "slow ones dropped as outliers": ("new-shape-unnoticed", slow_ones_dropped_as_outliers),
    },
    "04/samples_per_s": {
        "since the start": ("cumulative-throughput", since_the_start),
        "steps a second": ("batch-left-out", steps_a_second),
        "per millisecond": ("units-mixed", per_millisecond),
        "time of a sample": ("time-for-rate", time_of_a_sample),
    },
    "04/measure": {
        "a third of the calls": ("too-few-calls", a_third_of_the_calls),
        "warm before the clock": ("start-up-erased", warm_before_the_clock),
        "mean of the calls": ("mean-of-everything", mean_of_the_calls),
        "in seconds": ("units-mixed", in_seconds),
    },
    "04/decide": {
        "trusts the schedule": ("profiler-warm-up", trusts_the_schedule),
        "waits for one step": ("profiler-warm-up", waits_for_one_step),
        "records the new shape": ("new-shape-in-window", records_the_new_shape),
        "says the mean": ("mean-of-everything", says_the_mean),
    },
}
