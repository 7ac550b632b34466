"""Named wrong answers, each with the misconception that it shows."""

import copy
import statistics
import time

from torch.profiler import ProfilerActivity, profile

from stepprof_lab.grading.answers import from_material

CPU = [ProfilerActivity.CPU]

# ---- options, sentences, pieces ----

NEEDS = {"sizes": "shapes", "line of": "stacks", "most memory": "memory"}
PARTS = {"wait": "wait for", "launches": "kernels", "sizes": "sizes", "line": "line of", "allocations": "most memory"}


def options(**changed):
    @from_material
    def answer(lab):
        found = {}
        for letter, text in lab.questions.items():
            name = next(name for name, part in PARTS.items() if part in text)
            right = next((option for part, option in NEEDS.items() if part in text), "none")
            found[letter] = changed.get(name, right)
        return found

    return answer


def everything(word):
    return from_material(lambda lab: dict.fromkeys(lab.questions, word))


def by_part(attribute, right, wrong, parts, standard):
    """Answers of `right` by part of the text, and of `wrong` where it has one of the parts."""

    @from_material
    def answer(lab):
        found = {}
        for letter, text in getattr(lab, attribute).items():
            is_standard = any(part in text for part in standard)
            word = right[0] if is_standard else right[1]
            found[letter] = wrong if any(part in text for part in parts) else word
        return found

    return answer


def quoted(wrong, *parts):
    return by_part("sentences", ("holds", "measure outside"), wrong, parts, ("call",))


def pieces(wrong, *parts):
    return by_part("pieces", ("stays", "goes"), wrong, parts, ("read_batch", '"dur"'))


# ---- cost ----


def times(step, count=24):
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        found.append(time.perf_counter() - begin)
    return found


def sides(step, options, count=24):
    step()
    outside = times(step, count)
    with profile(activities=CPU, **options):
        inside = times(step, count)
    return statistics.median(inside), statistics.median(outside)


def free(step, options):
    return 1.0


def never_inside(step, options):
    step()
    outside = times(step)
    profile(activities=CPU, **options)
    return statistics.median(times(step)) / statistics.median(outside)


def options_forgotten(step, options):
    inside, outside = sides(step, {})
    return inside / outside


def all_on(step, options):
    inside, outside = sides(step, {"record_shapes": True, "profile_memory": True, "with_stack": True})
    return inside / outside


def against_a_profiler(step, options):
    step()
    with profile(activities=CPU):
        outside = times(step)
    with profile(activities=CPU, **options):
        inside = times(step)
    return statistics.median(inside) / statistics.median(outside)


def never_stopped(step, options):
    step()
    outside = times(step)
    profile(activities=CPU, **options).start()
    return statistics.median(times(step)) / statistics.median(outside)


def four_steps(step, options):
    inside, outside = sides(step, options, 4)
    return inside / outside


def one_step(step, options):
    step()
    inside, outside = sides(step, options, 1)
    return inside / outside


def no_warm_up(step, options):
    outside = times(step)
    with profile(activities=CPU, **options):
        inside = times(step)
    return statistics.mean(inside) / statistics.mean(outside)


def total_without_warm_up(step, options):
    begin = time.perf_counter()
    for _ in range(30):
        step()
    outside = time.perf_counter() - begin
    with profile(activities=CPU, **options):
        begin = time.perf_counter()
        for _ in range(30):
            step()
        inside = time.perf_counter() - begin
    return inside / outside


def whole_session(step, options):
    step()
    outside = sum(times(step, 20))
    begin = time.perf_counter()
    with profile(activities=CPU, **options):
        for _ in range(20):
            step()
    return (time.perf_counter() - begin) / outside


def many_for_one(step, options):
    step()
    outside = times(step)
    with profile(activities=CPU, **options):
        inside = times(step)
    return sum(inside) / statistics.median(outside)


def upside_down(step, options):
    inside, outside = sides(step, options)
    return outside / inside


def in_percent(step, options):
    inside, outside = sides(step, options)
    return 100 * inside / outside


def percent_more(step, options):
    inside, outside = sides(step, options)
    return 100 * (inside - outside) / outside


def in_seconds(step, options):
    return sides(step, options)[0]


def share_more(step, options):
    inside, outside = sides(step, options)
    return inside / outside - 1


# ---- fit to share ----

LABELS = {"read_batch", "transfer", "train", "update"}
ARGUMENTS = {"External id", "correlation", "device", "stream", "bytes", "context"}
HEAD = {"schemaVersion", "stepprof_lab", "displayTimeUnit"}


def fit(
    trace,
    private,
    *,
    head=HEAD,
    arguments=ARGUMENTS,
    annotations=("user_annotation", "gpu_user_annotation"),
    stacks=False,
    kernels=True,
    digests=True,
    label="label {}",
):
    """A right copy, with one thing done in another way."""
    numbers, events = {}, []
    for event in trace["traceEvents"]:
        category, name = event.get("cat", ""), event.get("name", "")
        if category == "python_function" and not stacks:
            continue
        is_odd = category in annotations and name not in LABELS and not name.startswith("ProfilerStep#")
        if is_odd and (digests or not name.startswith("user ")):
            name = label.format(numbers.setdefault(name, len(numbers)))
        if kernels and category == "kernel" and any(word in name for word in private):
            name = "own kernel"
        kept = {**event, "name": name}
        if event.get("ph") != "M" and "args" in event and arguments is not None:
            kept["args"] = {key: value for key, value in event["args"].items() if key in arguments}
        events.append(kept)
    kept_head = {key: value for key, value in trace.items() if key in head}
    return {**kept_head, "traceEvents": events}


def with_changes(**changes):
    return lambda trace, private: fit(trace, private, **changes)


def unchanged(trace, private):
    return copy.deepcopy(trace)


def private_words_alone(trace, private):
    def clean(value):
        if isinstance(value, str):
            for word in private:
                value = value.replace(word, "xxx")
            return value
        if isinstance(value, list):
            return [clean(one) for one in value]
        return {key: clean(one) for key, one in value.items()} if isinstance(value, dict) else value

    return clean(trace)


def all_but_the_head(trace, private):
    return {**trace, **fit(trace, private, head=())}


def known_keys_taken_out(trace, private):
    return fit(trace, private, head={*HEAD, "started_by"}, arguments={*ARGUMENTS, "run note"})


def identifiers_kept(trace, private):
    return fit(trace, private, head={*HEAD, "trace_id", "baseTimeNanoseconds", "deviceProperties"})


def digest_kept(trace, private):
    return fit(trace, private, digests=False)


def names_hashed(trace, private):
    """Takes every name out, and keeps what numbers the machine and the moment."""
    found = private_words_alone(fit(trace, private), private)
    found["trace_id"] = trace["trace_id"]
    found["recorded"] = trace["baseTimeNanoseconds"]
    return found


def empty(trace, private):
    return {"traceEvents": []}


def no_times(trace, private):
    found = fit(trace, private)
    for event in found["traceEvents"]:
        event.pop("dur", None)
    return found


def suspicious_events_dropped(trace, private):
    found = fit(trace, private)
    found["traceEvents"] = [event for event in found["traceEvents"] if not event["name"].startswith("label ")]
    return found


def operators_dropped(trace, private):
    found = fit(trace, private)
    found["traceEvents"] = [event for event in found["traceEvents"] if event.get("cat") != "cpu_op"]
    return found


def one_name_for_all_labels(trace, private):
    return fit(trace, private, label="label")


def mark_taken_out(trace, private):
    return fit(trace, private, head={"schemaVersion"})


def every_label_numbered(trace, private):
    """The reading label gets a number as well, so that nobody knows any more which one reads."""
    found = fit(trace, private)
    names = {}
    for event in found["traceEvents"]:
        if "user_annotation" in event.get("cat", "") and not event["name"].startswith("ProfilerStep#"):
            event["name"] = f"region {names.setdefault(event['name'], len(names))}"
    return found


def times_rounded(trace, private):
    found = fit(trace, private)
    for event in found["traceEvents"]:
        if "dur" in event:
            event["dur"] = round(event["dur"], -3)
    return found


def choice(words):
    return from_material(lambda lab: next(letter for letter, text in lab.choices.items() if words in text))


WRONG = {
    "09/options": {
        "all everywhere": ("options-are-free", everything("all")),
        "all, just in case": ("options-are-free", options(wait="all", launches="all")),
        "stacks to be safe": ("options-are-free", options(launches="stacks")),
        "nothing ever": ("option-missing", everything("none")),
        "lines without stacks": ("option-missing", options(line="none")),
        "shapes for memory": ("option-confused", options(allocations="shapes")),
        "stacks for sizes": ("option-confused", options(sizes="stacks", line="shapes")),
    },
    "09/cost": {
        "free": ("not-measured", free),
        "never inside": ("never-traced", never_inside),
        "options forgotten": ("option-not-on", options_forgotten),
        "all on": ("more-options-on", all_on),
        "against a profiler": ("baseline-inside", against_a_profiler),
        "never stopped": ("profiler-left-on", never_stopped),
        "four steps": ("few-steps", four_steps),
        "one step": ("few-steps", one_step),
        "no warm-up": ("first-step-counted", no_warm_up),
        "total without warm-up": ("first-step-counted", total_without_warm_up),
        "whole session": ("session-counted", whole_session),
        "many for one": ("sum-for-step", many_for_one),
        "upside down": ("upside-down", upside_down),
        "percent": ("units-mixed", in_percent),
        "percent more": ("units-mixed", percent_more),
        "share more": ("units-mixed", share_more),
        "seconds": ("units-mixed", in_seconds),
    },
    "09/quoted": {
        "time": ("traced-time-quoted", quoted("holds", "A step takes", "Version B")),
        "all hold": ("traced-time-quoted", quoted("holds", "a")),
        "faster": ("compared-inside", quoted("holds", "Version B")),
        "divided": ("one-factor-for-all", quoted("holds", "so I divided")),
        "nothing holds": ("nothing-holds", quoted("measure outside", "call")),
    },
    "09/gives_away": {
        "label kept": ("secrets-in-labels", pieces("stays", "answer to")),
        "labels kept": ("secrets-in-labels", pieces("stays", "a label")),
        "head kept": ("head-forgotten", pieces("stays", "beside the events")),
        "host kept": ("head-forgotten", pieces("stays", "host_name")),
        "frame kept": ("paths-in-stacks", pieces("stays", "train.py")),
        "digest kept": ("no-names-so-anonymous", pieces("stays", "digest")),
        "names alone": ("no-names-so-anonymous", pieces("stays", "digest", "uuid", "baseTime")),
        "all goes": ("everything-hidden", pieces("goes", "a")),
        "times go": ("everything-hidden", pieces("goes", "dur")),
    },
    "09/fit": {
        "unchanged": ("nothing-removed", unchanged),
        "private words alone": ("secrets-in-labels", private_words_alone),
        "labels kept": ("secrets-in-labels", with_changes(annotations=())),
        "labels of the host alone": ("label-on-gpu-forgotten", with_changes(annotations=("user_annotation",))),
        "head kept": ("head-forgotten", all_but_the_head),
        "stacks kept": ("paths-in-stacks", with_changes(stacks=True)),
        "kernels kept": ("kernel-name-kept", with_changes(kernels=False)),
        "arguments kept": ("unknown-keys-kept", with_changes(arguments=None)),
        "known keys taken out": ("unknown-keys-kept", known_keys_taken_out),
        "identifiers kept": ("no-names-so-anonymous", identifiers_kept),
        "digest kept": ("no-names-so-anonymous", digest_kept),
        "names hashed": ("no-names-so-anonymous", names_hashed),
        "empty": ("no-trace-left", empty),
        "no times": ("no-trace-left", no_times),
        "suspicious events dropped": ("events-thrown-away", suspicious_events_dropped),
        "operators dropped": ("events-thrown-away", operators_dropped),
        "one name for all": ("labels-merged", one_name_for_all_labels),
        "mark taken out": ("origin-lost", mark_taken_out),
        "every label numbered": ("numbers-changed", every_label_numbered),
        "times rounded": ("numbers-changed", times_rounded),
    },
    "09/decide": {
        "all options": ("options-are-free", choice("so that nobody has to ask")),
        "traced time": ("traced-time-quoted", choice("as long as the trace says")),
        "renamed": ("no-names-so-anonymous", choice("replaced everywhere")),
        "emptied": ("everything-hidden", choice("surely gives nothing")),
    },
}
