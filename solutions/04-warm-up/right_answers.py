"""Honest answers in different styles; each must earn every point."""

import statistics
import time

import numpy as np

from stepprof_lab.grading.answers import from_material

# ---- from where on it is steady ----


def steady_by_rolling_median(times_ms):
    level = statistics.median(times_ms[len(times_ms) // 2 :])
    for at in range(len(times_ms) - 9):
        if abs(statistics.median(times_ms[at : at + 9]) - level) <= 0.03 * level:
            return at
    return len(times_ms)


def steady_by_runs(times_ms):
    """The first step from which on five in a row are near the median of the last third."""
    level = np.median(times_ms[-len(times_ms) // 3 :])
    near = np.abs(np.array(times_ms) / level - 1) < 0.05
    for at in range(len(near) - 5):
        if near[at : at + 5].all():
            return np.int64(at)
    return len(near)


def steady_from_behind(times_ms):
    """Go back from the end while medians of pieces of five stay at the level."""
    level = statistics.median(times_ms[-60:])
    at = len(times_ms) - 5
    while at > 0 and statistics.median(times_ms[at - 1 : at + 4]) < 1.06 * level:
        at -= 1
    return float(at)


def steady_by_the_library(times_ms):
    from stepprof_lab.validate import steady

    return steady.find(times_ms).after


# ---- reports ----


def report_with_statistics(times_ms):
    after = steady_by_rolling_median(times_ms)
    usual = statistics.median(times_ms[after:])
    return {
        "first_ms": times_ms[0],
        "steady_after": after,
        "steady_ms": usual,
        "slow_steps": [n for n in range(after, len(times_ms)) if times_ms[n] >= 2 * usual],
    }


def report_with_numpy(times_ms):
    times = np.array(times_ms)
    after = steady_by_runs(times_ms)
    late = times[after:]
    usual = late[late < 2 * np.median(late)].mean()
    return {
        "slow_steps": np.flatnonzero((times >= 2 * usual) & (np.arange(len(times)) >= after)),
        "steady_ms": usual,
        "steady_after": after,
        "first_ms": times[0],
    }


def report_rounded(times_ms):
    found = report_with_statistics(times_ms)
    return {
        "first_ms": round(found["first_ms"], 1),
        "steady_ms": round(found["steady_ms"], 1),
        "steady_after": found["steady_after"] + 2,
        "slow_steps": tuple(found["slow_steps"]),
    }


# ---- throughput ----


def rate_of_the_steady_part(times_ms, batch):
    late = times_ms[steady_by_rolling_median(times_ms) :]
    return batch * len(late) / (sum(late) / 1000)


def rate_of_a_window(times_ms, batch):
    return 1000 * batch / np.mean(times_ms[-30:])


def rate_of_the_usual_step(times_ms, batch):
    return round(batch / (statistics.median(times_ms[60:]) / 1000))


# ---- live ----


def measure_by_median(step, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    usual = statistics.median(times[25:])
    slow = [n for n in range(25, calls) if times[n] > 2 * usual]
    return {"first_ms": times[0], "steady_ms": usual, "slow_steps": slow}


def measure_by_mean(step, calls):
    """The mean of the second part without its slowest steps; the slow ones by a wide margin."""
    edges = [time.perf_counter_ns()]
    for _ in range(calls):
        step()
        edges.append(time.perf_counter_ns())
    times = np.diff(edges) / 1e6
    late = times[40:]
    usual = late[late < 8 * np.median(late)].mean()
    return {
        "first_ms": times[0],
        "steady_ms": usual,
        "slow_steps": np.flatnonzero((times > 8 * usual) & (np.arange(calls) > 25)),
    }


def measure_the_slowest(step, calls):
    times = []
    for _ in range(calls):
        begin = time.monotonic()
        step()
        times.append(1000 * (time.monotonic() - begin))
    late = sorted(times[30:])
    slowest = max(range(30, calls), key=times.__getitem__)
    return {"first_ms": round(times[0], 2), "steady_ms": late[len(late) // 2], "slow_steps": [slowest]}


def measure_with_report(step, calls):
    """The same function as for the constructed series, made for noise: medians of 15."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    level = statistics.median(times[-50:])
    after = next(n for n in range(calls) if statistics.median(times[n : n + 15]) < 1.5 * level) + 8
    usual = statistics.median(times[after:])
    return {
        "first_ms": times[0],
        "steady_after": after,
        "steady_ms": usual,
        "slow_steps": [n for n in range(after, calls) if times[n] >= 2 * usual],
    }


# ---- by eye, and decisions ----


def _behaviour(times_ms):
    pieces = [statistics.median(times_ms[at : at + 15]) for at in range(15, 150, 15)]
    if max(times_ms[15:]) > 3 * statistics.median(times_ms):
        return "c"
    if pieces[-1] < 1.05 * pieces[0]:
        return "a"
    rises = [later - before for before, later in zip(pieces, pieces[1:])]
    return "b" if max(rises) > 0.4 * (pieces[-1] - pieces[0]) else "d"


@from_material
def kinds_plain(lab):
    return {name: _behaviour(times) for name, times in lab.four.items()}


@from_material
def kinds_in_capitals(lab):
    return {name: f" {_behaviour(times).upper()} " for name, times in reversed(lab.four.items())}


@from_material
def kinds_with_words(lab):
    words = {"a": "a: one level", "b": "(b) another level", "c": "c, new shapes", "d": "d) drifts"}
    return {name: words[_behaviour(times)] for name, times in lab.four.items()}


def _waits(lab):
    found = report_with_statistics(lab.window)
    usual = [n for n in range(found["steady_after"], len(lab.window) - 3) if not {n, n + 1} & set(found["slow_steps"])]
    return [n - 1 for n in usual]


@from_material
def decided_early(lab):
    return {"warm_up_proves": "b", "wait": _waits(lab)[0], "report": "c"}


@from_material
def decided_late(lab):
    return {"warm_up_proves": "B", "wait": np.int64(_waits(lab)[-1]), "report": "c: both, apart"}


@from_material
def decided_with_room(lab):
    return {"report": "C", "wait": float(_waits(lab)[10]), "warm_up_proves": "(b)"}


RIGHT = {
    "04/prediction": {"few": 3, "none": 0, "many": 50.0},
    "04/kinds": {"plain": kinds_plain, "capitals": kinds_in_capitals, "words": kinds_with_words},
    "04/steady_from": {
        "rolling median": steady_by_rolling_median,
        "runs": steady_by_runs,
        "from behind": steady_from_behind,
        "library": steady_by_the_library,
    },
    "04/report": {"statistics": report_with_statistics, "numpy": report_with_numpy, "rounded": report_rounded},
    "04/samples_per_s": {
        "steady part": rate_of_the_steady_part,
        "window": rate_of_a_window,
        "usual step": rate_of_the_usual_step,
    },
    "04/measure": {
        "median": measure_by_median,
        "mean": measure_by_mean,
        "slowest": measure_the_slowest,
        "report": measure_with_report,
    },
    "04/decide": {"early": decided_early, "late": decided_late, "room": decided_with_room},
}
