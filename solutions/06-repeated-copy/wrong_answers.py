"""Wrong answers, each with the misconception that the judge must name."""

import re
import time

import torch

from stepprof_lab.grading.answers import from_material

STEPS = 4


def _numbers(lab):
    text = " ".join(lab.report.split())
    return {
        "copies": int(re.search(r"(\d+) copies, which", text)[1]),
        "bytes": int(re.search(r"\(([\d,]+) bytes\)", text)[1].replace(",", "")),
        "alone_ms": float(re.search(r"alone ([\d.]+) ms of", text)[1]),
        "all_ms": float(re.search(r"ms of ([\d.]+) ms \(", text)[1]),
        "percent": float(re.search(r"repeated-copy.*?at most ([\d.]+) %", text)[1]),
    }


def found(change):
    """The right answer with what `change` makes of the report's numbers."""

    @from_material
    def answer(lab):
        n = _numbers(lab)
        right = {"copies_a_step": n["copies"] / STEPS, "bytes": n["bytes"], "at_most_ms": n["alone_ms"] / STEPS}
        return {**right, **change(n)}

    return answer


def sorted_lines(name, first, second, *parts):
    """`first` for lines with one of these parts, `second` for the others."""

    @from_material
    def answer(lab):
        lines = getattr(lab, name).items()
        return {letter: first if any(part in line for part in parts) else second for letter, line in lines}

    return answer


def once(*parts):
    return sorted_lines("copies", "once", "each step", *parts)


def waits_by(test):
    @from_material
    def answer(lab):
        return {letter: "goes on" if test(line) else "waits" for letter, line in lab.lines.items()}

    return answer


def chosen(part):
    @from_material
    def answer(lab):
        return next(letter for letter, text in lab.options.items() if part in text)

    return answer


def always_the_same(before, after, batches):
    for batch in batches:
        before(batch)
        after(batch)
    return True


def shapes_alone(before, after, batches):
    return all([before(b).shape == after(b).shape for b in batches])


def the_first(before, after, batches):
    return torch.equal(before(batches[0]), after(batches[0]))


def the_first_of_a_loop(before, after, batches):
    for batch in batches:
        return torch.equal(before(batch), after(batch))
    return True


def the_last(before, after, batches):
    for batch in batches:
        same = torch.equal(before(batch), after(batch))
    return same


def any_batch(before, after, batches):
    return any([torch.equal(before(b), after(b)) for b in batches])


def sums(before, after, batches):
    return all([torch.equal(before(b).sort().values.sum(), after(b).sort().values.sum()) for b in batches])


def nearly(before, after, batches):
    return all([torch.allclose(before(b), after(b)) for b in batches])


def rounded(before, after, batches):
    return all([torch.equal(before(b).round(decimals=3), after(b).round(decimals=3)) for b in batches])


def nearly_the_first(before, after, batches):
    return torch.allclose(before(batches[0]), after(batches[0]))


def by_identity(before, after, batches):
    return all([before(b) is after(b) for b in batches])


def a_tensor_of_truths(before, after, batches):
    return before(batches[0]) == after(batches[0])


def unchanged(tools):
    def step(batch):
        x = tools.to_device(batch)
        table = tools.to_device(tools.build_table())
        table *= x.max()
        return x * table

    return step


def not_in_place_and_still_inside(tools):
    def step(batch):
        x = tools.to_device(batch)
        return x * (tools.to_device(tools.build_table()) * x.max())

    return step


def built_once_copied_each_time(tools):
    table = tools.build_table()

    def step(batch):
        x = tools.to_device(batch)
        return x * (tools.to_device(table) * x.max())

    return step


def moved_and_changed_in_place(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        nonlocal table
        x = tools.to_device(batch)
        table *= x.max()
        return x * table

    return step


def scaled_once(tools):
    kept = []

    def step(batch):
        x = tools.to_device(batch)
        if not kept:
            kept.append(tools.to_device(tools.build_table()) * x.max())
        return x * kept[0]

    return step


def every_copy_cached(tools):
    kept = {}

    def once(name, make):
        if name not in kept:
            kept[name] = tools.to_device(make())
        return kept[name]

    def step(batch):
        x = once("batch", lambda: batch)
        return x * (once("table", tools.build_table) * x.max())

    return step


def whole_result_cached(tools):
    kept = []

    def step(batch):
        if not kept:
            x = tools.to_device(batch)
            kept.append(x * (tools.to_device(tools.build_table()) * x.max()))
        return kept[0]

    return step


def batch_left_on_the_host(tools):
    table = tools.to_device(tools.build_table())
    return lambda batch: batch * (table.cpu() * batch.max())


def table_left_on_the_host(tools):
    table = tools.build_table()

    def step(batch):
        x = tools.to_device(batch)
        return x * (table.to(x.device) * x.max())

    return step


def built_each_time_copied_once(tools):
    moved = []

    def step(batch):
        x = tools.to_device(batch)
        table = tools.build_table()
        if not moved:
            moved.append(tools.to_device(table))
        return x * (moved[0] * x.max())

    return step


_everywhere = {}


def kept_for_ever(tools):
    if "table" not in _everywhere:
        _everywhere["table"] = tools.to_device(tools.build_table())
    table = _everywhere["table"]

    def step(batch):
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def kept_for_ever_afresh(tools):
    """The same, beginning anew after some time, so that one check of it does not change the next one's."""
    now = time.monotonic()
    if now - _everywhere.get("at", -9) > 2:
        _everywhere.pop("table", None)
    _everywhere["at"] = now
    return kept_for_ever(tools)


def slow_otherwise(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        time.sleep(0.012)
        return x * (table * x.max())

    return step


def nothing_scaled(tools):
    table = tools.to_device(tools.build_table())
    return lambda batch: tools.to_device(batch) * table


WRONG = {
    "06/found": {
        "window's copies": ("window-for-step", found(lambda n: {"copies_a_step": n["copies"]})),
        "window's time": ("window-for-step", found(lambda n: {"at_most_ms": n["alone_ms"]})),
        "all of the window": (
            "window-for-step",
            found(lambda n: {"copies_a_step": n["copies"], "at_most_ms": n["alone_ms"]}),
        ),
        "batch too": ("every-copy-is-bad", found(lambda n: {"copies_a_step": n["copies"] / STEPS + 1})),
        "step": ("step-for-copies", found(lambda n: {"at_most_ms": n["all_ms"] / STEPS})),
        "percent": ("share-for-time", found(lambda n: {"at_most_ms": n["percent"]})),
        "fraction": ("share-for-time", found(lambda n: {"at_most_ms": n["percent"] / 100})),
        "bytes of a step": ("one-copy-asked", found(lambda n: {"bytes": n["bytes"] * n["copies"] / STEPS})),
        "megabytes": ("units-mixed", found(lambda n: {"bytes": n["bytes"] / 1e6})),
        "microseconds": ("units-mixed", found(lambda n: {"at_most_ms": 1000 * n["alone_ms"] / STEPS})),
    },
    "06/copies": {
        "all": ("every-copy-is-bad", once("`")),
        "all to the device": ("every-copy-is-bad", once("mask =", "CLASS_WEIGHTS", "schedule", "batch.to")),
        "back to the host": ("every-copy-is-bad", once("mask =", "CLASS_WEIGHTS", "loss")),
        "same size": ("same-size-same-value", once("mask =", "CLASS_WEIGHTS", "schedule")),
        "small ones kept": ("constant-kept", once("mask =")),
        "none": ("constant-kept", once("nothing")),
    },
    "06/waits": {
        "the flag is enough": ("non-blocking-from-pageable", waits_by(lambda line: "non_blocking" in line)),
        "either is enough": (
            "non-blocking-from-pageable",
            waits_by(lambda line: "non_blocking" in line or "pin_memory" in line),
        ),
        "pinned is enough": ("pinned-is-enough", waits_by(lambda line: "pin_memory" in line)),
        "never": ("nothing-goes-on", waits_by(lambda line: False)),
        "pageable goes on": ("pageable-goes-on", waits_by(lambda line: "where `x` lies" in line and "non" not in line)),
        "always": ("non-blocking-from-pageable", waits_by(lambda line: True)),
    },
    "06/same_outputs": {
        "always": ("outputs-not-compared", always_the_same),
        "shapes": ("outputs-not-compared", shapes_alone),
        "first": ("first-only", the_first),
        "first of a loop": ("first-only", the_first_of_a_loop),
        "first, nearly": ("first-only", nearly_the_first),
        "last": ("last-only", the_last),
        "any": ("any-for-all", any_batch),
        "sums": ("sums-compared", sums),
        "allclose": ("tolerance-hides", nearly),
        "rounded": ("tolerance-hides", rounded),
        "identity": ("nothing-is-equal", by_identity),
        "tensor": ("no-truth", a_tensor_of_truths),
    },
    "06/make_step": {
        "unchanged": ("still-every-step", unchanged),
        "still inside": ("still-every-step", not_in_place_and_still_inside),
        "copied each time": ("copied-every-step", built_once_copied_each_time),
        "in place": ("outputs-not-compared", moved_and_changed_in_place),
        "scaled once": ("outputs-not-compared", scaled_once),
        "every copy cached": ("every-copy-is-bad", every_copy_cached),
        "result cached": ("every-copy-is-bad", whole_result_cached),
        "batch on the host": ("left-on-the-host", batch_left_on_the_host),
        "table on the host": ("left-on-the-host", table_left_on_the_host),
        "built each time": ("rebuilt-every-step", built_each_time_copied_once),
        "kept for ever": ("lives-too-long", kept_for_ever_afresh),
        "slow": ("slower-as-a-whole", slow_otherwise),
        "not scaled": ("outputs-not-compared", nothing_scaled),
    },
    "06/decide": {
        "all": ("every-copy-is-bad", chosen("Remove every copy")),
        "unchecked": ("outputs-not-compared", chosen("no comparison")),
        "flag": ("non-blocking-from-pageable", chosen("non_blocking")),
        "traced": ("proved-in-the-profiler", chosen("new trace")),
    },
}
