"""Wrong answers, each with the misconception that the judge must name."""

import statistics
import time

from stepprof_lab.grading.answers import from_material

NOT_COMPARABLE = {"ratio": None, "interval": None, "verdict": "not comparable"}


def _verdict(low, high):
    return "faster" if high < 0.85 else "slower" if low > 1.15 else "no difference shown"


def _times(arm, steps=10, first=2):
    found = []
    for _ in range(steps):
        began = time.perf_counter()
        arm.step()
        found.append(1e3 * (time.perf_counter() - began))
    return found[first:]


def _same(before, after, steps=12):
    old, new = before(), after()
    return old.state() == new.state() and [old.step() for _ in range(steps)] == [new.step() for _ in range(steps)]


def _ratios(before, after, pairs=7, **how):
    found = []
    for _ in range(pairs):
        old = statistics.median(_times(before(), **how))
        found.append(statistics.median(_times(after(), **how)) / old)
    return sorted(found)


def _told(ratios):
    low, high = ratios[1], ratios[-2]
    return {"ratio": statistics.median(ratios), "interval": (low, high), "verdict": _verdict(low, high)}


def one_run_each(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    old, new = _times(before(), 40), _times(after(), 40)
    ratio = statistics.median(new) / statistics.median(old)
    return {"ratio": ratio, "interval": (0.95 * ratio, 1.05 * ratio), "verdict": _verdict(ratio, ratio)}


def arms_that_go_on(before, after):
    """Built once; the blocks of steps are taken for replicates."""
    if not _same(before, after):
        return NOT_COMPARABLE
    old, new = before(), after()
    ratios = []
    for _ in range(7):
        of_old = statistics.median(_times(old))
        ratios.append(statistics.median(_times(new)) / of_old)
    return _told(sorted(ratios))


def one_after_the_other(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    old = [statistics.median(_times(before())) for _ in range(7)]
    new = [statistics.median(_times(after())) for _ in range(7)]
    return _told(sorted(b / a for a, b in zip(old, new)))


def without_spread(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    ratio = statistics.median(_ratios(before, after))
    return {"ratio": ratio, "interval": None, "verdict": _verdict(ratio, ratio)}


def with_a_point_for_an_interval(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    ratio = statistics.median(_ratios(before, after))
    return {"ratio": ratio, "interval": (ratio, ratio), "verdict": _verdict(ratio, ratio)}


def what_the_profiler_says(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE

    def inside(make):
        arm, found = make(), []
        for _ in range(10):
            arm.step()
            found.append(arm.inside_ms)
        return statistics.median(found[2:])

    ratios = []
    for _ in range(7):
        old = inside(before)
        ratios.append(inside(after) / old)
    return _told(sorted(ratios))


def upside_down(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    return _told(_ratios(after, before))


def in_percent(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    ratios = _ratios(before, after)
    return {
        "ratio": 100 * statistics.median(ratios),
        "interval": (100 * ratios[1], 100 * ratios[-2]),
        "verdict": _verdict(ratios[1], ratios[-2]),
    }


def start_up_counted(before, after):
    if not _same(before, after):
        return NOT_COMPARABLE
    ratios = []
    for _ in range(7):
        old = statistics.fmean(_times(before(), 8, 0))
        ratios.append(statistics.fmean(_times(after(), 8, 0)) / old)
    return _told(sorted(ratios))


def never_comparable(before, after):
    found = _told(_ratios(before, after, 5))
    return {**found, "verdict": "not comparable"}


def not_checked(before, after):
    return _told(_ratios(before, after))


def start_checked(before, after):
    return _told(_ratios(before, after)) if before().state() == after().state() else NOT_COMPARABLE


def end_checked_by_size(before, after):
    """Looks at how many outputs there are."""
    if len(before().step()) != len(after().step()):
        return NOT_COMPARABLE
    return _told(_ratios(before, after))


def first_outputs_checked(before, after):
    return _told(_ratios(before, after)) if _same(before, after, 3) else NOT_COMPARABLE


def one_output_checked(before, after):
    return _told(_ratios(before, after)) if before().step() == after().step() else NOT_COMPARABLE


def weights_not_compared(before, after):
    """Loads nothing, and compares only how the outputs change from step to step in sign."""

    def signs(make):
        arm = make()
        return [len(arm.step()) for _ in range(4)]

    return _told(_ratios(before, after)) if signs(before) == signs(after) else NOT_COMPARABLE


def _sentence(word):
    @from_material
    def answer(lab):
        return next(letter for letter, sentence in lab.sentences.items() if word in sentence)

    return answer


WRONG = {
    "10/timed": {
        "one run": ("one-run-each", one_run_each),
        "arms go on": ("state-moved-on", arms_that_go_on),
        "one after the other": ("one-after-the-other", one_after_the_other),
        "no spread": ("spread-not-reported", without_spread),
        "a point": ("spread-not-reported", with_a_point_for_an_interval),
        "inside": ("inside-for-outside", what_the_profiler_says),
        "upside down": ("upside-down", upside_down),
        "percent": ("units-mixed", in_percent),
        "start-up": ("start-up-counted", start_up_counted),
        "never comparable": ("everything-doubted", never_comparable),
    },
    "10/comparable": {
        "not checked": ("state-moved-on", not_checked),
        "start checked": ("different-work", start_checked),
        "sizes checked": ("state-moved-on", end_checked_by_size),
        "first outputs checked": ("stored-results", first_outputs_checked),
        "one output checked": ("stored-results", one_output_checked),
        "lengths compared": ("state-moved-on", weights_not_compared),
        "never comparable": ("everything-doubted", never_comparable),
    },
    "10/decide": {
        "first pair": ("one-run-each", _sentence("quiet machine")),
        "inside": ("inside-for-outside", _sentence("profiler")),
        "mean": ("spread-not-reported", _sentence("The mean")),
    },
}
