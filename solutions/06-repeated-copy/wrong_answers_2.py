"""A second set of wrong answers to lab 06, written from the lab's text alone."""

import re

import torch

from stepprof_lab.grading.answers import from_material


def finding(lab):
    words = " ".join(lab.report.split())
    observed = re.search(
        r"active steps the same amount \(([\d,]+) bytes\).*?: (\d+) copies, .*? alone ([\d.]+) ms of ([\d.]+) ms "
        r"\(([\d.]+) %\)",
        words,
    )
    size, copies, ms, whole, percent = (float(one.replace(",", "")) for one in observed.groups())
    return int(size), int(copies), ms, whole, percent


@from_material
def calls_of_copy(lab):
    size, _, ms, _, _ = finding(lab)
    calls = int(re.search(r"aten::copy_ +(\d+)", lab.report).group(1))
    return {"copies_a_step": calls // 4, "bytes": size, "at_most_ms": ms / 4}


@from_material
def time_of_copy(lab):
    size, copies, _, _, _ = finding(lab)
    total = float(re.search(r"aten::copy_ +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", lab.report).group(1))
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": total / 4}


@from_material
def as_it_stands_there(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies, "bytes": size, "at_most_ms": ms}


@from_material
def copies_divided_alone(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": ms}


@from_material
def elapsed_of_the_step(lab):
    size, copies, _, _, _ = finding(lab)
    elapsed = float(re.search(r"ProfilerStep#2 +([\d.]+)", lab.report).group(1))
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": elapsed}


@from_material
def percent(lab):
    size, copies, _, _, share = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": share}


@from_material
def bytes_of_a_step(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size * copies // 4, "at_most_ms": ms / 4}


@from_material
def megabytes(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size / 1e6, "at_most_ms": ms / 4}


@from_material
def microseconds(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": 250 * ms}


def sorted_by(*once):
    return from_material(
        lambda lab: {
            letter: "once" if any(word in line for word in once) else "each step" for letter, line in lab.copies.items()
        }
    )


def going_on(is_going_on):
    return from_material(
        lambda lab: {letter: "goes on" if is_going_on(line) else "waits" for letter, line in lab.lines.items()}
    )


def run_and_trusted(before, after, batches):
    for batch in batches:
        before(batch)
        after(batch)
    return True


def shapes(before, after, batches):
    return all([before(batch).shape == after(batch).shape for batch in batches])


def first_batch(before, after, batches):
    outputs = [(before(batch), after(batch)) for batch in batches]
    old, new = outputs[0]
    return torch.equal(old, new)


def overwritten(before, after, batches):
    for batch in batches:
        same = torch.equal(before(batch), after(batch))
    return same


def any_batch(before, after, batches):
    return any([torch.equal(before(batch), after(batch)) for batch in batches])


def sums(before, after, batches):
    return all([before(batch).sum().item() == after(batch).sum().item() for batch in batches])


def sorted_values(before, after, batches):
    same = True
    for batch in batches:
        same &= sorted(before(batch).flatten().tolist()) == sorted(after(batch).flatten().tolist())
    return same


def allclose(before, after, batches):
    return all([torch.allclose(before(batch), after(batch)) for batch in batches])


def largest_difference(before, after, batches):
    worst = max([(before(batch) - after(batch)).abs().max().item() for batch in batches])
    return worst < 1e-5


def identity(before, after, batches):
    return all([before(batch) is after(batch) for batch in batches])


def sets_of_tensors(before, after, batches):
    return {before(batch) for batch in batches} == {after(batch) for batch in batches}


def printed(before, after, batches):
    for batch in batches:
        print(torch.equal(before(batch), after(batch)))


def one_for_each(before, after, batches):
    return [torch.equal(before(batch), after(batch)) for batch in batches]


def helper_called_inside(tools):
    def constant():
        return tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        return x * (constant() * x.max())

    return step


def built_once_copied_always(tools):
    host_table = tools.build_table()

    def step(batch):
        x = tools.to_device(batch)
        table = tools.to_device(host_table)
        table *= x.max()
        return x * table

    return step


def checked_against_a_new_one(tools):
    known = tools.build_table()
    table = tools.to_device(known)

    def step(batch):
        nonlocal known, table
        x = tools.to_device(batch)
        now = tools.build_table()
        if not torch.equal(now, known):
            known, table = now, tools.to_device(now)
        return x * (table * x.max())

    return step


def never_copied(tools):
    table = tools.build_table()

    def step(batch):
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def batch_where_it_is(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        return batch * (table * batch.max())

    return step


def first_batch_kept(tools):
    table = tools.to_device(tools.build_table())
    x = None

    def step(batch):
        nonlocal x
        if x is None:
            x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def scaled_in_place(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        nonlocal table
        x = tools.to_device(batch)
        table *= x.max()
        return x * table

    return step


CACHE = {}


def module_wide_cache(tools):
    if "table" not in CACHE:
        CACHE["table"] = tools.to_device(tools.build_table())
    table = CACHE["table"]

    def step(batch):
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def element_by_element(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        largest = max(x.tolist())
        columns = [x[i] * (table[..., i] * largest) for i in range(len(x))]
        return torch.stack(columns, dim=-1)

    return step


def option(words):
    return from_material(lambda lab: next(letter for letter, text in lab.options.items() if words in text))


WRONG = {
    "06/found": {
        "calls_of_copy": ("every-copy-is-bad", calls_of_copy),
        "time_of_copy": ("every-copy-is-bad", time_of_copy),
        "as_it_stands_there": ("window-for-step", as_it_stands_there),
        "copies_divided_alone": ("window-for-step", copies_divided_alone),
        "elapsed_of_the_step": ("step-for-copies", elapsed_of_the_step),
        "percent": ("share-for-time", percent),
        "bytes_of_a_step": ("one-copy-asked", bytes_of_a_step),
        "megabytes": ("units-mixed", megabytes),
        "microseconds": ("units-mixed", microseconds),
    },
    "06/copies": {
        "all_of_them": ("every-copy-is-bad", sorted_by("`")),
        "batch_too": ("every-copy-is-bad", sorted_by("torch.ones", "CLASS_WEIGHTS", "batch.to")),
        "same_forty_bytes": ("same-size-same-value", sorted_by("torch.ones", "CLASS_WEIGHTS", "schedule[n]")),
        "mask_is_computed": ("constant-kept", sorted_by("CLASS_WEIGHTS")),
        "weights_are_small": ("constant-kept", sorted_by("torch.ones")),
    },
    "06/waits": {
        "flag": ("non-blocking-from-pageable", going_on(lambda line: "non_blocking" in line)),
        "pinned": ("pinned-is-enough", going_on(lambda line: "pin_memory" in line)),
        "short_wait_after": (
            "non-blocking-from-pageable",
            going_on(lambda line: "pageable" in line or "non_blocking" in line),
        ),
        "always": ("nothing-goes-on", going_on(lambda line: False)),
    },
    "06/same_outputs": {
        "run_and_trusted": ("outputs-not-compared", run_and_trusted),
        "shapes": ("outputs-not-compared", shapes),
        "first_batch": ("first-only", first_batch),
        "overwritten": ("last-only", overwritten),
        "any_batch": ("any-for-all", any_batch),
        "sums": ("sums-compared", sums),
        "sorted_values": ("sums-compared", sorted_values),
        "allclose": ("tolerance-hides", allclose),
        "largest_difference": ("tolerance-hides", largest_difference),
        "identity": ("nothing-is-equal", identity),
        "sets_of_tensors": ("nothing-is-equal", sets_of_tensors),
        "printed": (None, printed),
        "one_for_each": ("no-truth", one_for_each),
    },
    "06/make_step": {
        "helper_called_inside": ("still-every-step", helper_called_inside),
        "built_once_copied_always": ("copied-every-step", built_once_copied_always),
        "checked_against_a_new_one": ("rebuilt-every-step", checked_against_a_new_one),
        "never_copied": ("left-on-the-host", never_copied),
        "batch_where_it_is": ("left-on-the-host", batch_where_it_is),
        "first_batch_kept": ("every-copy-is-bad", first_batch_kept),
        "scaled_in_place": ("outputs-not-compared", scaled_in_place),
        "module_wide_cache": ("lives-too-long", module_wide_cache),
        "element_by_element": ("slower-as-a-whole", element_by_element),
    },
    "06/decide": {
        "no_copies": ("every-copy-is-bad", option("Remove every copy")),
        "too_small_to_compare": ("outputs-not-compared", option("need no comparison")),
        "finding_is_gone": ("proved-in-the-profiler", option("has no finding")),
        "flag": ("non-blocking-from-pageable", option("add `non_blocking=True`")),
    },
}
