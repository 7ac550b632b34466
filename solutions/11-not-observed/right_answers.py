"""Honest answers in different styles; each must earn every point."""

import numpy as np

from stepprof_lab.grading.answers import from_material

TRUTH = {
    "no_events": {"calls that queue": "can", "it is 0 ms": "false", "idle": "cannot", "reading the batch": "can"},
    "cpu_alone": {"longest": "can", "No GPU": "cannot", "collected GPU activity": "false", "On a GPU": "cannot"},
    "some_events": {"no GPU event": "can", "at least": "can", "idle": "cannot", "All GPU work": "false"},
    "all_events": {"launched no": "can", "was busy": "can", "no GPU event": "false", "because": "cannot"},
}


def by_letter(lab, name, **changed):
    """The verdicts by letter; `changed` by a part of the sentence, with _ for a space."""
    truth = {**TRUTH[name], **{part.replace("_", " "): verdict for part, verdict in changed.items()}}
    return {
        letter: next(verdict for part, verdict in truth.items() if part in sentence)
        for letter, sentence in getattr(lab, name)["sentences"].items()
    }


def sentences(name):
    def written(words, keys=str):
        @from_material
        def answer(lab):
            return {keys(letter): words[verdict] for letter, verdict in by_letter(lab, name).items()}

        return answer

    return {
        "words": written({"can": "can", "cannot": "cannot", "false": "false"}),
        "capitals": written({"can": "CAN", "cannot": "Can not", "false": False}, str.upper),
        "sentences": written({"can": "can be said", "cannot": "can't be said", "false": "is false"}),
    }


def is_partial(analysis):
    return "gpu-partly-observed" in [finding["id"] for finding in analysis["findings"]]


def share_by_loop(analysis):
    if not analysis["gpu"]["observed"]:
        return None
    for finding in analysis["findings"]:
        if finding["id"] == "gpu-partly-observed":
            return None
    busy = total = 0
    for step in analysis["steps"]:
        busy += step["gpu_busy_in_window_us"]
        total += step["cpu_us"]
    return busy / total


def share_by_keys(analysis):
    """Looks for the keys: what was not observed has none."""
    if is_partial(analysis):
        return None
    try:
        busy = [step["gpu_busy_in_window_us"] for step in analysis["steps"]]
    except KeyError:
        return None
    return float(np.sum(busy) / np.sum([step["cpu_us"] for step in analysis["steps"]]))


def share_with_numpy(analysis):
    steps = analysis["steps"]
    found = np.array([step.get("gpu_busy_in_window_us", np.nan) for step in steps])
    if np.isnan(found).any() or is_partial(analysis):
        return None
    weights = np.array([step["cpu_us"] for step in steps])
    return np.average(found / weights, weights=weights)


def share_rounded(analysis):
    value = share_by_loop(analysis)
    return value if value is None else round(value, 3)


def share_in_words(analysis):
    """Says it in words instead of None."""
    value = share_by_loop(analysis)
    return "not observed" if value is None else value


CHECKS = {
    "no_events": "stepprof doctor",
    "cpu_alone": "ask for GPU",
    "no_launches": "on which device",
    "some_events": "longer warm-up",
}


def checks(lab, **changed):
    return {
        name: next(letter for letter, text in lab.checks.items() if part in text)
        for name, part in {**CHECKS, **changed}.items()
    }


@from_material
def checks_by_letter(lab):
    return checks(lab)


@from_material
def checks_in_capitals(lab):
    return {name: f"{letter.upper()})" for name, letter in checks(lab).items()}


@from_material
def checks_as_the_report_says(lab):
    return checks(lab, no_launches="stepprof doctor")


def report(form):
    @from_material
    def answer(lab):
        return form(next(letter for letter, text in lab.reports.items() if "was not observed" in text))

    return answer


RIGHT = {
    "11/prediction": {"c": "c", "any": "a", "with words": "D: it ran on the CPU"},
    **{f"11/{name}": sentences(name) for name in TRUTH},
    "11/gpu_share": {
        "loop": share_by_loop,
        "keys": share_by_keys,
        "numpy": share_with_numpy,
        "rounded": share_rounded,
        "words": share_in_words,
    },
    "11/next_check": {
        "letters": checks_by_letter,
        "capitals": checks_in_capitals,
        "as the report says": checks_as_the_report_says,
    },
    "11/report": {"letter": report(str), "capital": report(str.upper), "bracket": report("{}) not observed".format)},
}
