"""Wrong answers, each with the misconception that the judge must name."""

import statistics
import time

from stepprof_lab.grading.answers import from_material


def _steady(times_ms):
    level = statistics.median(times_ms[len(times_ms) // 2 :])
    return next(n for n in range(len(times_ms)) if statistics.median(times_ms[n : n + 7]) < 1.04 * level)


# ---- from where on it is steady ----


def after_the_last_slow_step(times_ms):
    level = statistics.median(times_ms)
    return max((n + 1 for n, ms in enumerate(times_ms) if ms > 1.06 * level), default=0)


def where_two_steps_agree(times_ms):
    return next(
        n for n in range(6, len(times_ms)) if abs(statistics.median(times_ms[n - 3 : n]) / times_ms[n] - 1) < 0.015
    )


def below_the_mean(times_ms):
    mean = statistics.fmean(times_ms)
    return next((n for n, ms in enumerate(times_ms) if ms < 1.2 * mean), 0)


def stands_still(times_ms):
    """Where medians of three pieces of five agree, at whatever level."""
    for n in range(len(times_ms) - 15):
        medians = [statistics.median(times_ms[at : at + 5]) for at in (n, n + 5, n + 10)]
        if max(medians) < 1.015 * min(medians):
            return n
    return len(times_ms)


# ---- reports ----


def _report(times_ms, **changed):
    after = _steady(times_ms)
    usual = statistics.median(times_ms[after:])
    slow = [n for n in range(after, len(times_ms)) if times_ms[n] >= 2 * usual]
    return {"first_ms": times_ms[0], "steady_after": after, "steady_ms": usual, "slow_steps": slow, **changed}


def report_of_all(times_ms):
    return _report(times_ms, steady_ms=statistics.fmean(times_ms), steady_after=0)


def report_but_the_first(times_ms):
    return _report(times_ms, steady_ms=statistics.fmean(times_ms[1:]), steady_after=1)


def report_of_active_steps(times_ms):
    """Wait 1, warm-up 1, active 2."""
    return _report(times_ms, steady_ms=statistics.fmean(times_ms[2:4]), steady_after=2)


def report_without_a_start(times_ms):
    return _report(times_ms, first_ms=None)


def report_with_a_late_first(times_ms):
    return _report(times_ms, first_ms=times_ms[_steady(times_ms)])


def report_without_shapes(times_ms):
    return _report(times_ms, slow_steps=[])


def report_with_shapes_in_the_mean(times_ms):
    return _report(times_ms, steady_ms=statistics.fmean(times_ms[_steady(times_ms) :]), slow_steps=[])


def report_from_one(times_ms):
    return _report(times_ms, slow_steps=[n + 1 for n in _report(times_ms)["slow_steps"]])


def report_with_the_start_among_slow(times_ms):
    return _report(times_ms, slow_steps=[0, *_report(times_ms)["slow_steps"]])


def report_counted_later(times_ms):
    found = _report(times_ms)
    return _report(times_ms, slow_steps=[n - found["steady_after"] for n in found["slow_steps"]])


def report_in_seconds(times_ms):
    return _report(times_ms, steady_ms=_report(times_ms)["steady_ms"] / 1000)


# ---- live ----


def _timed(step, calls):
    found = []
    for _ in range(calls):
        begin = time.perf_counter()
        step()
        found.append(1e3 * (time.perf_counter() - begin))
    return found


def _measured(times, **changed):
    usual = statistics.median(times[25:])
    slow = [n for n in range(25, len(times)) if times[n] >= 2 * usual]
    return {"first_ms": times[0], "steady_ms": usual, "slow_steps": slow, **changed}


def measure_all(step, calls):
    times = _timed(step, calls)
    return _measured(times, steady_ms=statistics.fmean(times))


def measure_but_the_first(step, calls):
    times = _timed(step, calls)
    return _measured(times, steady_ms=statistics.fmean(times[1:]))


def measure_active_steps(step, calls):
    times = _timed(step, calls)
    return _measured(times, steady_ms=statistics.fmean(times[2:4]))


def measure_four(step, calls):
    times = _timed(step, 4)
    return {"first_ms": times[0], "steady_ms": statistics.fmean(times[2:4]), "slow_steps": []}


def measure_half(step, calls):
    times = _timed(step, calls // 3)
    return {"first_ms": times[0], "steady_ms": statistics.median(times[25:]), "slow_steps": []}


def measure_warm(step, calls):
    """A warm-up that is thrown away."""
    warm = 25
    for _ in range(warm):
        step()
    times = _timed(step, calls - warm)
    usual = statistics.median(times)
    slow = [n + warm for n, ms in enumerate(times) if ms >= 2 * usual]
    return {"first_ms": times[0], "steady_ms": usual, "slow_steps": slow}


def measure_without_shapes(step, calls):
    return _measured(_timed(step, calls), slow_steps=[])


def measure_with_shapes_in_the_mean(step, calls):
    times = _timed(step, calls)
    return _measured(times, steady_ms=statistics.fmean(times[22:]), slow_steps=[])


def measure_in_seconds(step, calls):
    times = _timed(step, calls)
    return _measured(times, steady_ms=statistics.median(times[25:]) / 1000)


# ---- by eye, and decisions ----


def _behaviour(times_ms):
    pieces = [statistics.median(times_ms[at : at + 15]) for at in range(15, 150, 15)]
    if max(times_ms[15:]) > 3 * statistics.median(times_ms):
        return "c"
    if pieces[-1] < 1.05 * pieces[0]:
        return "a"
    rises = [later - before for before, later in zip(pieces, pieces[1:])]
    return "b" if max(rises) > 0.4 * (pieces[-1] - pieces[0]) else "d"


def _seen_as(**instead):
    @from_material
    def answer(lab):
        seen = {name: _behaviour(times) for name, times in lab.four.items()}
        return {name: instead.get(letter, letter) for name, letter in seen.items()}

    return answer


def _decided(**changed):
    @from_material
    def answer(lab):
        after = _steady(lab.window)
        slow = [n for n in range(after, len(lab.window)) if lab.window[n] > 2 * lab.window[-1]]
        wait = next(n for n in range(after + 3, len(lab.window)) if not {n + 1, n + 2} & set(slow))
        own = {name: make(after, slow) if callable(make) else make for name, make in changed.items()}
        return {"warm_up_proves": "b", "wait": wait, "report": "c", **own}

    return answer


WRONG = {
    "04/kinds": {
        "shapes overlooked": ("new-shape-unnoticed", _seen_as(c="a")),
        "level overlooked": ("level-unnoticed", _seen_as(b="a")),
        "drift overlooked": ("drift-unnoticed", _seen_as(d="a")),
        "drift and level swapped": ("shift-and-drift-confused", _seen_as(b="d", d="b")),
        "noise": ("noise-taken-for-more", _seen_as(a="d")),
    },
    "04/steady_from": {
        "nothing left out": ("mean-of-everything", lambda times_ms: 0),
        "first left out": ("only-first-dropped", lambda times_ms: 1),
        "below the mean": ("start-up-cut-short", below_the_mean),
        "schedule": ("profiler-warm-up", lambda times_ms: 2),
        "ten": ("fixed-number", lambda times_ms: 10),
        "last slow step": ("slow-step-taken-for-start-up", after_the_last_slow_step),
        "two steps agree": ("start-up-cut-short", where_two_steps_agree),
        "stands still": ("plateau-taken-for-steady", stands_still),
    },
    "04/report": {
        "all": ("mean-of-everything", report_of_all),
        "but the first": ("only-first-dropped", report_but_the_first),
        "active steps": ("profiler-warm-up", report_of_active_steps),
        "no start": ("start-up-erased", report_without_a_start),
        "late first": ("start-up-erased", report_with_a_late_first),
        "no shapes": ("new-shape-unnoticed", report_without_shapes),
        "shapes in the mean": ("new-shape-unnoticed", report_with_shapes_in_the_mean),
        "from one": ("counted-from-one", report_from_one),
        "start among slow": ("start-up-among-slow", report_with_the_start_among_slow),
        "counted later": ("counted-from-the-steady-part", report_counted_later),
        "seconds": ("units-mixed", report_in_seconds),
    },
    "04/samples_per_s": {
        "cumulative": ("cumulative-throughput", lambda t, batch: 1000 * batch * len(t) / sum(t)),
        "mean of all rates": (
            "cumulative-throughput",
            lambda t, batch: statistics.fmean(1000 * batch / ms for ms in t),
        ),
        "but the first": ("only-first-dropped", lambda t, batch: 1000 * batch * len(t[1:]) / sum(t[1:])),
        "active steps": ("profiler-warm-up", lambda t, batch: 2000 * batch / sum(t[2:4])),
        "per ms": ("units-mixed", lambda t, batch: batch / statistics.median(t[60:])),
        "steps": ("batch-left-out", lambda t, batch: 1000 / statistics.median(t[60:])),
        "ms a sample": ("time-for-rate", lambda t, batch: statistics.fmean(t[60:]) / batch),
    },
    "04/measure": {
        "all": ("mean-of-everything", measure_all),
        "but the first": ("only-first-dropped", measure_but_the_first),
        "active steps": ("profiler-warm-up", measure_active_steps),
        "four calls": ("profiler-warm-up", measure_four),
        "a third": ("too-few-calls", measure_half),
        "warm": ("start-up-erased", measure_warm),
        "no shapes": ("new-shape-unnoticed", measure_without_shapes),
        "shapes in the mean": ("new-shape-unnoticed", measure_with_shapes_in_the_mean),
        "seconds": ("units-mixed", measure_in_seconds),
    },
    "04/decide": {
        "schedule": ("profiler-warm-up", _decided(wait=1)),
        "proves steady": ("profiler-warm-up", _decided(warm_up_proves="a")),
        "proves it is over": ("profiler-warm-up", _decided(warm_up_proves="c")),
        "proves all": ("four-steps-a-distribution", _decided(warm_up_proves="d")),
        "too early": ("start-up-in-window", _decided(wait=lambda after, slow: after - 9)),
        "new shape": ("new-shape-in-window", _decided(wait=lambda after, slow: slow[1] - 2)),
        "never": ("window-never-comes", _decided(wait=1000)),
        "mean": ("mean-of-everything", _decided(report="a")),
        "start erased": ("start-up-erased", _decided(report="b")),
        "fastest": ("fastest-reported", _decided(report="d")),
    },
}
