"""Honest answers in different styles; each must earn every point."""

import json
import re
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, schedule

from stepprof_lab.grading.answers import from_material
from stepprof_lab.trace.redact import redact

# ---- options, sentences, pieces ----


def options(words, keys=str):
    @from_material
    def answer(lab):
        needs = {"sizes": "shapes", "line of": "stacks", "most memory": "memory"}
        return {
            keys(letter): words[next((option for part, option in needs.items() if part in text), "none")]
            for letter, text in lab.questions.items()
        }

    return answer


def quoted(holds, outside, keys=str):
    @from_material
    def answer(lab):
        return {keys(letter): holds if "call" in text else outside for letter, text in lab.sentences.items()}

    return answer


def gives_away(goes, stays, keys=str):
    @from_material
    def answer(lab):
        needed = re.compile(r'read_batch|"dur"')
        return {keys(letter): stays if needed.search(text) else goes for letter, text in lab.pieces.items()}

    return answer


# ---- cost ----


def cost_by_medians(step, options):
    step()
    outside, inside = [], []
    for _ in range(30):
        begin = time.perf_counter()
        step()
        outside.append(time.perf_counter() - begin)
    with profile(activities=[ProfilerActivity.CPU], **options):
        for _ in range(30):
            begin = time.perf_counter()
            step()
            inside.append(time.perf_counter() - begin)
    return statistics.median(inside) / statistics.median(outside)


def cost_by_fastest(step, options):
    def fastest(count):
        times = np.empty(count)
        for number in range(count):
            begin = time.perf_counter_ns()
            step()
            times[number] = time.perf_counter_ns() - begin
        return times[2:].min()

    for _ in range(3):
        step()
    outside = fastest(24)
    with profile(activities=[ProfilerActivity.CPU], **options):
        inside = fastest(24)
    return inside / outside


def cost_of_blocks(step, options):
    """One clock around many steps, the profiler's beginning and end outside of it."""

    def block():
        begin = time.perf_counter()
        for _ in range(25):
            step()
        return time.perf_counter() - begin

    step()
    step()
    outside = block()
    with profile(activities=[ProfilerActivity.CPU], **options):
        step()
        inside = block()
    return torch.tensor(inside / outside)


def cost_by_schedule(step, options):
    """Steps before the active ones are outside, as far as the record goes; those timed outside come first."""
    step()
    times = {"outside": [], "inside": []}

    def timed(side):
        begin = time.perf_counter()
        step()
        times[side].append(time.perf_counter() - begin)

    for _ in range(22):
        timed("outside")
    planned = schedule(wait=0, warmup=1, active=23, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=planned, **options) as profiler:
        step()
        profiler.step()
        for _ in range(22):
            timed("inside")
            profiler.step()
    return round(statistics.median(times["inside"]) / statistics.median(times["outside"]), 2)


def cost_in_turns(step, options):
    """Sides take turns, so that a change of the machine meets both."""
    step()

    def median_of(count):
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        return times

    outside, inside = [], []
    for _ in range(3):
        outside += median_of(8)
        with profile(activities=[ProfilerActivity.CPU], **options):
            step()
            inside += median_of(8)
    return float(np.median(inside) / np.median(outside))


def cost_with_start_and_stop(step, options):
    step()
    clock = time.perf_counter

    def times():
        found = []
        for _ in range(26):
            begin = clock()
            step()
            found.append(1e3 * (clock() - begin))
        return sorted(found)[len(found) // 2]

    plain = times()
    profiler = profile(activities=[ProfilerActivity.CPU], **options)
    profiler.start()
    traced = times()
    profiler.stop()
    return traced / plain


# ---- fit to share ----


def fit_by_allow_list(trace, private):
    labels, made = {"read_batch", "transfer", "train", "update"}, {}
    allowed = {"External id", "correlation", "device", "stream", "bytes", "context"}
    events = []
    for event in trace["traceEvents"]:
        category, name = event.get("cat"), str(event.get("name"))
        if category == "python_function":
            continue
        if category in ("user_annotation", "gpu_user_annotation") and name not in labels and "#" not in name:
            name = made.setdefault(name, f"label {len(made)}")
        if category == "kernel" and any(word in name for word in private):
            name = made.setdefault(name, f"kernel {len(made)}")
        kept = {key: event[key] for key in ("ph", "cat", "pid", "tid", "ts", "dur", "id", "bp", "s") if key in event}
        if event.get("ph") == "M":
            kept["args"] = event["args"]
        else:
            kept["args"] = {key: value for key, value in event.get("args", {}).items() if key in allowed}
        events.append({**kept, "name": name})
    return {"schemaVersion": 1, "stepprof_lab": trace["stepprof_lab"], "traceEvents": events}


def fit_with_the_library(trace, private):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(trace), encoding="utf-8")
        return json.loads(redact(path).data)


def fit_in_place(trace, private):
    """Changes what it was given, keeps shapes and stacks, and numbers every path."""
    for key in list(trace):
        if key not in ("traceEvents", "stepprof_lab", "schemaVersion", "deviceProperties"):
            del trace[key]
    for device in trace["deviceProperties"]:
        device.pop("uuid", None)
    seen = {}
    for event in trace["traceEvents"]:
        name = event.get("name", "")
        is_odd = " " in name and "annotation" in str(event.get("cat"))
        if event.get("cat") == "python_function":
            event["name"] = "file.py" + name[name.index("(") :]
        elif is_odd or any(word.lower() in name.lower() for word in private):
            event["name"] = seen.setdefault(name, f"replaced_{len(seen)}")
        for key in list(event.get("args", {})):
            if key in ("Concrete Inputs", "run note"):
                del event["args"][key]
    return trace


def fit_by_words(trace, private):
    """Names stay where every word of them is known to be harmless."""
    harmless = {"read", "batch", "transfer", "train", "update", "evaluate", "upload", "user", "for"}
    made = {}

    def word(match):
        text = match[0]
        return text if text.lower() in harmless else made.setdefault(text, f"w{len(made)}")

    def label(name):
        if name.startswith("ProfilerStep"):
            return name
        return " ".join(part if part in ("read_batch",) else re.sub(r"\S+", word, part) for part in name.split(" "))

    out = {"stepprof_lab": dict(trace["stepprof_lab"]), "displayTimeUnit": "ms", "traceEvents": []}
    for event in trace["traceEvents"]:
        if event.get("cat") in ("python_function", "Trace") or event["ph"] == "M":
            continue
        copy = dict(event)
        if "user_annotation" in copy.get("cat", ""):
            copy["name"] = label(copy["name"])
        for secret in private:
            copy["name"] = copy["name"].replace(secret, "own")
        copy["args"] = {k: v for k, v in event.get("args", {}).items() if isinstance(v, int)}
        out["traceEvents"].append(copy)
    return out


@from_material
def decision(lab):
    return next(letter for letter, text in lab.choices.items() if "without a profiler" in text)


def written(change):
    @from_material
    def answer(lab):
        return change(decision(lab))

    return answer


PLAIN = {one: one for one in ("none", "shapes", "memory", "stacks")}

RIGHT = {
    "09/prediction": {"a": "a", "capital": "C", "with a reason": "d) look it up"},
    "09/options": {
        "words": options(PLAIN),
        "capitals": options({one: one.upper() for one in PLAIN}, str.upper),
        "arguments": options(
            {"none": "no option", "shapes": "record_shapes", "memory": "profile_memory", "stacks": "with_stack"}
        ),
    },
    "09/cost": {
        "medians": cost_by_medians,
        "fastest": cost_by_fastest,
        "blocks": cost_of_blocks,
        "schedule": cost_by_schedule,
        "in turns": cost_in_turns,
        "start and stop": cost_with_start_and_stop,
    },
    "09/quoted": {
        "words": quoted("holds", "measure outside"),
        "capitals": quoted("Holds.", "Measure_Outside", str.upper),
        "short": quoted("it holds"[3:], "outside"),
    },
    "09/gives_away": {
        "words": gives_away("goes", "stays"),
        "capitals": gives_away("GOES", "Stays ", str.upper),
        "other words": gives_away("go", "keep"),
    },
    "09/fit": {
        "allow list": fit_by_allow_list,
        "library": fit_with_the_library,
        "in place": fit_in_place,
        "by words": fit_by_words,
    },
    "09/decide": {
        "letter": decision,
        "capital": written(str.upper),
        "with a bracket": written(lambda letter: f" {letter})"),
    },
}
