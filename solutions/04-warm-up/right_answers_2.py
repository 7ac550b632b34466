"""Right answers to lab 04, second set: written from the lab's text alone."""

import statistics
import time

import numpy as np

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
    rises = [b / a - 1 for a, b in zip(pieces, pieces[1:])]
    return "d" if min(rises) > 0.008 else "b"


@from_material
def kinds_by_pieces(lab):
    return {name: letter_of(times) for name, times in lab.four.items()}


@from_material
def kinds_in_upper_case(lab):
    return {name: letter_of(times).upper() for name, times in lab.four.items()}


def first_step_at_the_level(times_ms):
    level = statistics.median(times_ms[len(times_ms) // 2 :])
    for number, ms in enumerate(times_ms):
        if abs(ms - level) < 0.05 * level:
            return number
    return len(times_ms)


def last_high_median(times_ms):
    t = np.asarray(times_ms)
    level = np.median(t[-40:])
    smooth = np.array([np.median(t[max(0, i - 2) : i + 3]) for i in range(len(t))])
    high = np.flatnonzero(smooth > 1.06 * level)
    return int(high[-1]) + 1 if len(high) else 0


def first_block_at_the_level(times_ms):
    end = sorted(times_ms[-50:])[len(times_ms[-50:]) // 2]
    for start in range(0, len(times_ms), 5):
        block = sorted(times_ms[start : start + 5])
        if block[len(block) // 2] < end * 1.05:
            return start
    return len(times_ms)


def report_with_statistics(times_ms):
    after = first_step_at_the_level(times_ms)
    usual = statistics.median(times_ms[after:])
    return {
        "first_ms": times_ms[0],
        "steady_after": after,
        "steady_ms": usual,
        "slow_steps": [n for n, ms in enumerate(times_ms) if n >= after and ms >= 2 * usual],
    }


def report_in_numpy(times_ms):
    times = np.array(times_ms)
    after = last_high_median(times_ms)
    usual = np.median(times[after:])
    slow = np.flatnonzero(times[after:] >= 2 * usual) + after
    return {"first_ms": times[0], "steady_after": after, "steady_ms": usual, "slow_steps": list(slow)}


def report_by_a_loop(times_ms):
    after = first_step_at_the_level(times_ms)
    level = statistics.median(times_ms[after:])
    quick, slow = [], []
    for number in range(after, len(times_ms)):
        if times_ms[number] >= 2 * level:
            slow.append(number)
        else:
            quick.append(times_ms[number])
    mean = round(sum(quick) / len(quick), 2)
    return {"slow_steps": slow, "steady_ms": mean, "steady_after": after, "first_ms": round(times_ms[0], 2)}


def rate_of_a_usual_step(times_ms, batch):
    after = first_step_at_the_level(times_ms)
    return batch / statistics.median(times_ms[after:]) * 1000


def rate_of_the_whole_steady_part(times_ms, batch):
    steady = times_ms[last_high_median(times_ms) :]
    seconds = sum(steady) / 1000
    return batch * len(steady) / seconds


def rate_of_the_last_steps(times_ms, batch):
    return round(1e3 * batch / np.mean(times_ms[-30:]))


def measure_and_report(step, calls):
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - begun))
    usual = statistics.median(times[calls // 2 :])
    after = next(n for n in range(calls) if max(times[n], statistics.median(times[n : n + 5])) < 1.5 * usual)
    slow = [n for n in range(after, calls) if times[n] >= 2 * usual]
    return {"first_ms": times[0], "steady_ms": usual, "slow_steps": slow}


def measure_in_numpy(step, calls):
    stamps = np.zeros(calls + 1, dtype=np.int64)
    stamps[0] = time.perf_counter_ns()
    for number in range(calls):
        step()
        stamps[number + 1] = time.perf_counter_ns()
    ms = np.diff(stamps) / 1e6
    level = np.median(ms[-(calls // 2) :])
    start = 0
    while ms[start] > 1.4 * level or np.median(ms[start : start + 7]) > 1.4 * level:
        start += 1
    steady = ms[start:]
    return {
        "first_ms": float(ms[0]),
        "steady_ms": float(np.median(steady)),
        "steady_after": start,
        "slow_steps": [int(n) + start for n in np.where(steady >= 2 * level)[0]],
    }


@from_material
def wait_a_little_longer(lab):
    times = lab.window
    usual = statistics.median(times)
    wait = first_step_at_the_level(times) + 5
    while max(times[wait : wait + 3]) > 1.5 * usual:
        wait += 1
    return {"warm_up_proves": "b", "wait": wait, "report": "c"}


@from_material
def wait_as_short_as_possible(lab):
    usual = statistics.median(lab.window)
    usual_steps = [n for n, ms in enumerate(lab.window) if abs(ms / usual - 1) < 0.04]
    active = next(n for n in usual_steps if n + 1 in usual_steps)
    return {"warm_up_proves": "b", "wait": active - 1, "report": "c"}


@from_material
def wait_until_late(lab):
    times = lab.window
    usual = statistics.median(times)
    wait = len(times) - 3
    while max(times[wait + 1], times[wait + 2]) > 1.5 * usual:
        wait -= 1
    return {"report": "c", "wait": wait, "warm_up_proves": "b"}


RIGHT = {
    "04/prediction": {"ten": 10, "a careful number": 30},
    "04/kinds": {"by medians of pieces": kinds_by_pieces, "in upper case": kinds_in_upper_case},
    "04/steady_from": {
        "first step at the level": first_step_at_the_level,
        "last high running median": last_high_median,
        "first block at the level": first_block_at_the_level,
    },
    "04/report": {
        "with statistics": report_with_statistics,
        "in numpy": report_in_numpy,
        "by a loop, rounded": report_by_a_loop,
    },
    "04/samples_per_s": {
        "of a usual step": rate_of_a_usual_step,
        "of the whole steady part": rate_of_the_whole_steady_part,
        "of the last thirty steps": rate_of_the_last_steps,
    },
    "04/measure": {"in a list": measure_and_report, "from stamps in numpy": measure_in_numpy},
    "04/decide": {
        "a little longer": wait_a_little_longer,
        "as short as possible": wait_as_short_as_possible,
        "late": wait_until_late,
    },
}
