"""A second set of wrong answers to lab 11, written from the lab's text alone."""

import statistics

from stepprof_lab.grading.answers import from_material

VERDICTS = {
    "no_events": {
        "idle for more than half": "cannot",
        "calls that queue": "can",
        "reading the batch": "can",
        "measured time": "false",
    },
    "cpu_alone": {"longest": "can", "No GPU": "cannot", "aten::mm": "cannot", "collected": "false"},
    "some_events": {"All GPU work": "false", "idle": "cannot", "at least": "can", "no GPU event": "can"},
    "all_events": {"disk": "cannot", "Some calls": "false", "busy for about": "can", "launched no": "can"},
}


def but(capture, **changes):
    def answer(lab):
        verdicts = VERDICTS[capture] | {words.replace("_", " "): verdict for words, verdict in changes.items()}
        return {
            letter: next(verdict for words, verdict in verdicts.items() if words in text)
            for letter, text in getattr(lab, capture)["sentences"].items()
        }

    return from_material(answer)


def busy_and_elapsed(analysis):
    busy = sum(step.get("gpu_busy_in_window_us", 0) for step in analysis["steps"])
    return busy, sum(step["cpu_us"] for step in analysis["steps"])


def is_whole(analysis):
    ids = [finding["id"] for finding in analysis["findings"]]
    return analysis["gpu"]["observed"] and "gpu-partly-observed" not in ids


def nothing_is_zero(analysis):
    if "gpu-partly-observed" in [finding["id"] for finding in analysis["findings"]]:
        return None
    busy, elapsed = busy_and_elapsed(analysis)
    return busy / elapsed


def findings_unread(analysis):
    if not analysis["gpu"]["observed"]:
        return None
    busy, elapsed = busy_and_elapsed(analysis)
    return busy / elapsed


def falsy(analysis):
    busy, elapsed = busy_and_elapsed(analysis)
    if not is_whole(analysis) or not busy:
        return None
    return busy / elapsed


def mean_of_shares(analysis):
    if not is_whole(analysis):
        return None
    return statistics.mean(step["gpu_busy_in_window_us"] / step["cpu_us"] for step in analysis["steps"])


def by_its_launches(analysis):
    if not is_whole(analysis):
        return None
    return sum(step["gpu_launched_us"] for step in analysis["steps"]) / busy_and_elapsed(analysis)[1]


def without_the_foreign(analysis):
    if not is_whole(analysis):
        return None
    busy, elapsed = busy_and_elapsed(analysis)
    return (busy - sum(step["gpu_foreign_in_window_us"] for step in analysis["steps"])) / elapsed


def sum_of_events(analysis):
    if not is_whole(analysis):
        return None
    return analysis["gpu"]["sum_us"] / busy_and_elapsed(analysis)[1]


def busy_of_the_trace(analysis):
    if not is_whole(analysis):
        return None
    return analysis["gpu"]["busy_us"] / busy_and_elapsed(analysis)[1]


def share_of_the_span(analysis):
    if not is_whole(analysis):
        return None
    return analysis["gpu"]["busy_us"] / analysis["gpu"]["span_us"]


def percent(analysis):
    if not is_whole(analysis):
        return None
    busy, elapsed = busy_and_elapsed(analysis)
    return round(100 * busy / elapsed, 1)


def any_finding(analysis):
    if not analysis["gpu"]["observed"] or analysis["findings"]:
        return None
    busy, elapsed = busy_and_elapsed(analysis)
    return busy / elapsed


CHECKS = {
    "no_events": "stepprof doctor",
    "cpu_alone": "ask for GPU activity",
    "no_launches": "on which device",
    "some_events": "longer warm-up",
}


def checks_but(**changes):
    def answer(lab):
        return {
            capture: next(letter for letter, text in lab.checks.items() if words in text)
            for capture, words in (CHECKS | changes).items()
        }

    return from_material(answer)


def line(words):
    return from_material(lambda lab: next(letter for letter, text in lab.reports.items() if words in text))


WRONG = {
    "11/no_events": {
        "idle": ("no-event-no-work", but("no_events", idle_for_more_than_half="can")),
        "measured_zero": ("zero-for-missing", but("no_events", measured_time="can")),
        "calls_doubted": ("everything-doubted", but("no_events", calls_that_queue="cannot")),
        "reading_doubted": ("everything-doubted", but("no_events", reading_the_batch="cannot")),
        "surely_busy": ("certainty-without-events", but("no_events", idle_for_more_than_half="false")),
    },
    "11/cpu_alone": {
        "no_gpu": ("no-event-no-work", but("cpu_alone", No_GPU="can")),
        "same_order_on_the_gpu": ("cpu-record-as-gpu-analysis", but("cpu_alone", **{"aten::mm": "can"})),
        "clock_doubted": ("everything-doubted", but("cpu_alone", longest="cannot")),
        "surely_a_gpu": ("certainty-without-events", but("cpu_alone", No_GPU="false")),
        "looked_and_found_none": ("cpu-record-as-gpu-analysis", but("cpu_alone", collected="can")),
    },
    "11/some_events": {
        "taken_as_complete": ("part-for-whole", but("some_events", All_GPU_work="can")),
        "idle_step": ("no-event-no-work", but("some_events", idle="can")),
        "lower_bound_doubted": ("everything-doubted", but("some_events", at_least="cannot")),
        "lost_calls_denied": ("part-for-whole", but("some_events", no_GPU_event="false")),
        "surely_busy": ("certainty-without-events", but("some_events", idle="false")),
    },
    "11/all_events": {
        "slow_disk": ("cause-from-observation", but("all_events", disk="can")),
        "zero_doubted": ("observed-zero-doubted", but("all_events", launched_no="cannot")),
        "share_doubted": ("everything-doubted", but("all_events", busy_for_about="cannot")),
        "calls_missing": ("wrong-way-round", but("all_events", Some_calls="can")),
        "disk_is_fine": ("certainty-without-events", but("all_events", disk="false")),
    },
    "11/gpu_share": {
        "nothing_is_zero": ("zero-for-missing", nothing_is_zero),
        "findings_unread": ("part-for-whole", findings_unread),
        "falsy": ("observed-zero-doubted", falsy),
        "mean_of_shares": ("shares-averaged", mean_of_shares),
        "by_its_launches": ("launched-for-busy", by_its_launches),
        "without_the_foreign": ("launched-for-busy", without_the_foreign),
        "sum_of_events": ("sum-for-busy", sum_of_events),
        "busy_of_the_trace": ("other-window", busy_of_the_trace),
        "share_of_the_span": ("other-window", share_of_the_span),
        "percent": ("units-mixed", percent),
        "any_finding": (None, any_finding),
    },
    "11/next_check": {
        "faster_gpu": ("cure-before-check", checks_but(no_events="faster GPU")),
        "write_zero": ("zero-for-missing", checks_but(no_events="Write 0 ms")),
        "cpu_times": ("cpu-record-as-gpu-analysis", checks_but(cpu_alone="operators' times")),
        "zero_where_nothing_was_launched": ("zero-for-missing", checks_but(no_launches="Write 0 ms")),
    },
    "11/report": {
        "bound_by_cpu": ("no-event-no-work", line("bound by the CPU")),
        "nothing_can_be_said": ("everything-doubted", line("nothing can be said")),
        "zero": ("zero-for-missing", line("0 ms a step")),
        "in_mm": ("cpu-record-as-gpu-analysis", line("aten::mm")),
    },
}
