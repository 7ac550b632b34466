"""Wrong answers, each with the misconception that the judge must name."""

import runpy
from pathlib import Path

from stepprof_lab.grading.answers import from_material

_RIGHT = runpy.run_path(str(Path(__file__).with_name("right_answers.py")))
by_letter, checks, is_partial = _RIGHT["by_letter"], _RIGHT["checks"], _RIGHT["is_partial"]


def judged(name, **changed):
    @from_material
    def answer(lab):
        return by_letter(lab, name, **changed)

    return answer


def everything(name, verdict):
    @from_material
    def answer(lab):
        return dict.fromkeys(getattr(lab, name)["sentences"], verdict)

    return answer


def busy(analysis, key="gpu_busy_in_window_us"):
    return sum(step[key] for step in analysis["steps"])


def elapsed(analysis):
    return sum(step["cpu_us"] for step in analysis["steps"])


def can_be_said(analysis):
    return analysis["gpu"]["observed"] and not is_partial(analysis)


def zero_where_missing(analysis):
    return sum(step.get("gpu_busy_in_window_us", 0) for step in analysis["steps"]) / elapsed(analysis)


def zero_where_missing_and_none_in_part(analysis):
    return None if is_partial(analysis) else zero_where_missing(analysis)


def zero_where_it_cannot_be_said(analysis):
    return busy(analysis) / elapsed(analysis) if can_be_said(analysis) else 0


def training_for_gpu(analysis):
    """Where there is no GPU event, what the label took on the CPU."""
    if can_be_said(analysis):
        return busy(analysis) / elapsed(analysis)
    return analysis["labels"]["train"]["cpu_us"] / elapsed(analysis)


def part_for_whole(analysis):
    return busy(analysis) / elapsed(analysis) if analysis["gpu"]["observed"] else None


def truth_of_zero(analysis):
    """`x or None`: an observed zero is lost."""
    return (can_be_said(analysis) and busy(analysis) / elapsed(analysis)) or None


def of_what_can_be_said(share):
    return lambda analysis: share(analysis) if can_be_said(analysis) else None


def check_of(**changed):
    @from_material
    def answer(lab):
        return checks(lab, **changed)

    return answer


def report(part):
    @from_material
    def answer(lab):
        return next(letter for letter, text in lab.reports.items() if part in text)

    return answer


WRONG = {
    "11/no_events": {
        "a measured zero": ("zero-for-missing", judged("no_events", it_is_0_ms="can")),
        "idle": ("no-event-no-work", judged("no_events", idle="can")),
        "surely busy": ("certainty-without-events", judged("no_events", idle="false")),
        "no launches": ("everything-doubted", judged("no_events", calls_that_queue="false")),
        "nothing can be said": (
            "everything-doubted",
            judged("no_events", **dict.fromkeys(("calls_that_queue", "it_is_0_ms", "reading_the_batch"), "cannot")),
        ),
        "everything can": ("zero-for-missing", everything("no_events", "can")),
        "everything false": ("certainty-without-events", everything("no_events", "false")),
        "zero and idle": ("zero-for-missing", judged("no_events", it_is_0_ms="can", idle="can")),
    },
    "11/cpu_alone": {
        "looked for it": ("cpu-record-as-gpu-analysis", judged("cpu_alone", collected_GPU_activity="can")),
        "the same on a GPU": ("cpu-record-as-gpu-analysis", judged("cpu_alone", On_a_GPU="can")),
        "no GPU": ("no-event-no-work", judged("cpu_alone", No_GPU="can")),
        "surely a GPU": ("certainty-without-events", judged("cpu_alone", No_GPU="false")),
        "no time either": ("everything-doubted", judged("cpu_alone", longest="cannot")),
    },
    "11/some_events": {
        "whole": ("part-for-whole", judged("some_events", All_GPU_work="can")),
        "idle": ("no-event-no-work", judged("some_events", idle="can")),
        "no lower bound": ("everything-doubted", judged("some_events", at_least="cannot")),
        "nothing missing": ("part-for-whole", judged("some_events", no_GPU_event="false", All_GPU_work="can")),
    },
    "11/all_events": {
        "doubts the zero": ("observed-zero-doubted", judged("all_events", launched_no="cannot")),
        "blames the disk": ("cause-from-observation", judged("all_events", because="can")),
        "doubts the share": ("everything-doubted", judged("all_events", was_busy="cannot")),
        "misses events": ("wrong-way-round", judged("all_events", no_GPU_event="can")),
    },
    "11/gpu_share": {
        "zero where missing": ("zero-for-missing", zero_where_missing),
        "zero where missing, none in part": ("zero-for-missing", zero_where_missing_and_none_in_part),
        "zero for everything": ("zero-for-missing", zero_where_it_cannot_be_said),
        "always zero": ("zero-for-missing", lambda analysis: 0.0),
        "training for GPU": ("cpu-record-as-gpu-analysis", training_for_gpu),
        "part for whole": ("part-for-whole", part_for_whole),
        "zero is false": ("observed-zero-doubted", truth_of_zero),
        "launched": ("launched-for-busy", of_what_can_be_said(lambda a: busy(a, "gpu_launched_us") / elapsed(a))),
        "without foreign": (
            "launched-for-busy",
            of_what_can_be_said(lambda a: (busy(a) - busy(a, "gpu_foreign_in_window_us")) / elapsed(a)),
        ),
        "sum of events": ("sum-for-busy", of_what_can_be_said(lambda a: a["gpu"]["sum_us"] / elapsed(a))),
        "whole trace": ("other-window", of_what_can_be_said(lambda a: a["gpu"]["busy_us"] / elapsed(a))),
        "its own span": ("other-window", of_what_can_be_said(lambda a: a["gpu"]["busy_us"] / a["gpu"]["span_us"])),
        "mean of shares": (
            "shares-averaged",
            of_what_can_be_said(
                lambda a: sum(s["gpu_busy_in_window_us"] / s["cpu_us"] for s in a["steps"]) / len(a["steps"])
            ),
        ),
        "percent": ("units-mixed", of_what_can_be_said(lambda a: 100 * busy(a) / elapsed(a))),
    },
    "11/next_check": {
        "zero": ("zero-for-missing", check_of(no_events="Write 0 ms")),
        "times of the CPU": ("cpu-record-as-gpu-analysis", check_of(cpu_alone="operators' times")),
        "faster GPU": ("cure-before-check", check_of(some_events="faster GPU")),
    },
    "11/report": {
        "zero": ("zero-for-missing", report("0 ms a step")),
        "idle": ("no-event-no-work", report("nothing to do")),
        "the CPU's operators": ("cpu-record-as-gpu-analysis", report("most of its time")),
        "nothing": ("everything-doubted", report("nothing can be said")),
    },
}
