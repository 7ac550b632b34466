"""A second set of right answers to lab 11, written from the lab's text alone."""

import numpy as np

from stepprof_lab.grading.answers import from_material


def judged(capture, verdicts):
    def answer(lab):
        sentences = getattr(lab, capture)["sentences"]
        return {
            letter: next(verdict for words, verdict in verdicts.items() if words in text)
            for letter, text in sentences.items()
        }

    return from_material(answer)


def by_kind(capture, can=(), false=()):
    def answer(lab):
        found = {}
        for letter, text in getattr(lab, capture)["sentences"].items():
            found[letter] = "cannot"
            if any(word in text for word in can):
                found[letter] = "can"
            if any(word in text for word in false):
                found[letter] = "false"
        return found

    return from_material(answer)


def plain_loop(analysis):
    if not analysis["gpu"]["observed"]:
        return None
    for finding in analysis["findings"]:
        if finding["id"] == "gpu-partly-observed":
            return None
    busy = 0
    elapsed = 0
    for step in analysis["steps"]:
        busy += step["gpu_busy_in_window_us"]
        elapsed += step["cpu_us"]
    return busy / elapsed


def sums(analysis):
    ids = {finding["id"] for finding in analysis["findings"]}
    if analysis["gpu"]["observed"] is False or "gpu-partly-observed" in ids:
        return None
    steps = analysis["steps"]
    return sum(step["gpu_busy_in_window_us"] for step in steps) / sum(step["cpu_us"] for step in steps)


def with_numpy(analysis):
    is_whole = all(finding["id"] != "gpu-partly-observed" for finding in analysis["findings"])
    if analysis["gpu"]["observed"] and is_whole:
        busy = np.array([step["gpu_busy_in_window_us"] for step in analysis["steps"]])
        elapsed = np.array([step["cpu_us"] for step in analysis["steps"]])
        return np.round(busy.sum() / elapsed.sum(), 4)
    return None


def checks(**words):
    def answer(lab):
        return {
            capture: next(letter for letter, text in lab.checks.items() if part in text)
            for capture, part in words.items()
        }

    return from_material(answer)


def line(words):
    return from_material(lambda lab: [letter for letter, text in lab.reports.items() if words in text][0])


RIGHT = {
    "11/prediction": {"does_not_say": "c", "idle": "a"},
    "11/no_events": {
        "each_sentence": judged(
            "no_events",
            {
                "idle for more than half": "cannot",
                "calls that queue": "can",
                "reading": "can",
                "measured time": "false",
            },
        ),
        "by_kind": by_kind("no_events", can=("host",), false=("it is 0 ms",)),
    },
    "11/cpu_alone": {
        "each_sentence": judged(
            "cpu_alone",
            {"longest": "can", "No GPU was used": "cannot", "aten::mm": "cannot", "collected GPU": "false"},
        ),
        "by_kind": by_kind("cpu_alone", can=("host's clock",), false=("there was none",)),
    },
    "11/some_events": {
        "each_sentence": judged(
            "some_events",
            {"All GPU work": "false", "idle": "cannot", "at least": "can", "no GPU event": "can"},
        ),
        "by_kind": by_kind("some_events", can=("at least", "no GPU event"), false=("All GPU work",)),
    },
    "11/all_events": {
        "each_sentence": judged(
            "all_events",
            {"disk": "cannot", "have no GPU event": "false", "about": "can", "launched no GPU work": "can"},
        ),
        "by_kind": by_kind("all_events", can=("busy for about", "ProfilerStep"), false=("Some calls",)),
    },
    "11/gpu_share": {"plain_loop": plain_loop, "sums": sums, "with_numpy": with_numpy},
    "11/next_check": {
        "one_for_each": checks(
            no_events="stepprof doctor",
            cpu_alone="ask for GPU activity",
            no_launches="on which device",
            some_events="longer warm-up",
        ),
        "in_another_order": checks(
            some_events="loses records",
            no_launches="the model and the batch lie",
            no_events="any kernel at all",
            cpu_alone="Capture again, and ask",
        ),
    },
    "11/report": {"not_observed": line("not observed"), "collection_first": line("collection comes first")},
}
