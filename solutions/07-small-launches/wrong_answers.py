"""Wrong answers, each with the misconception that the judge must name."""

import re

import torch

from stepprof_lab.grading.answers import from_material

STEPS = 4


def counts(change):
    """The right answer with what `change` makes of it and of each capture's (elapsed, launches, busy)."""

    @from_material
    def answer(lab):
        rows, found = {}, {}
        for name, report in lab.reports.items():
            row = re.search(r"ProfilerStep#2 +([\d.]+) +(\d+) +[\d.]+ +([\d.]+)", report)
            rows[name] = (float(row[1]), int(row[2]), float(row[3]))
            found |= {f"launches_{name}": rows[name][1], f"idle_ms_{name}": rows[name][0] - rows[name][2]}
        found["can_gain"] = max("ab", key=lambda name: found[f"idle_ms_{name}"])
        return {**found, **change(found, rows)}

    return answer


def idle_as(take):
    return counts(lambda _, rows: {f"idle_ms_{name}": take(*row) for name, row in rows.items()})


def launches_as(take):
    return counts(lambda _, rows: {f"launches_{name}": take(row[1]) for name, row in rows.items()})


def other(found, _):
    return {"can_gain": "b" if found["can_gain"] == "a" else "a"}


def sorted_changes(**by_part):
    """Each change by a part of its text (with _ for a space); what is not named is judged by its whole step."""

    @from_material
    def answer(lab):
        found = {}
        for letter, line in lab.changes.items():
            (low, high), (low_after, high_after) = re.findall(r"\(([\d.]+) to ([\d.]+)\)", line.split("whole step")[1])
            right = (
                "faster" if float(high_after) < float(low) else "slower" if float(low_after) > float(high) else "same"
            )
            named = [word for part, word in by_part.items() if part.replace("_", " ") in line]
            found[letter] = named[0] if named else right
        return found

    return answer


@from_material
def by_launches(lab):
    pairs = {letter: re.search(r"Launches (\d+) -> (\d+)", line) for letter, line in lab.changes.items()}
    return {letter: "faster" if int(pair[2]) < int(pair[1]) else "slower" for letter, pair in pairs.items()}


def chosen(part):
    @from_material
    def answer(lab):
        return next(letter for letter, text in lab.options.items() if part in text)

    return answer


def unchanged(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        for p, m, g in zip(params, moments, grads, strict=True):
            m.mul_(0.5)
            m.add_(g)
            p.sub_(m)
        return params

    return step


def in_one_line(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        return [p.sub_(m.mul_(0.5).add_(g)) for p, m, g in zip(params, moments, grads, strict=True)]

    return step


def padded_by_hand(params):
    longest, sizes = max(map(len, params)), [len(p) for p in params]

    def matrix(tensors):
        return torch.stack([torch.nn.functional.pad(t, (0, longest - len(t))) for t in tensors])

    p, m = matrix(params), matrix([torch.zeros_like(t) for t in params])

    def step(grads):
        m.mul_(0.5)
        m.add_(matrix(grads))
        p.sub_(m)
        return [row[:size] for row, size in zip(p, sizes, strict=True)]

    return step


def padded_by_index(params):
    sizes = torch.tensor([len(p) for p in params], device=params[0].device)
    inside = torch.arange(int(sizes.max()), device=sizes.device)[None, :] < sizes[:, None]

    def matrix(flat):
        found = torch.zeros(inside.shape, device=flat.device)
        found[inside] = flat
        return found

    p, m = matrix(torch.cat(params)), torch.zeros(inside.shape, device=sizes.device)
    lengths = sizes.tolist()

    def step(grads):
        m.mul_(0.5)
        m.add_(matrix(torch.cat(list(grads))))
        p.sub_(m)
        return [row[:size] for row, size in zip(p, lengths, strict=True)]

    return step


def joined_and_copied_back(params):
    """Everything into one piece and back, in every step."""
    moments = [torch.zeros_like(p) for p in params]
    sizes = [len(p) for p in params]

    def step(grads):
        p, m, g = torch.cat(params), torch.cat(moments), torch.cat(list(grads))
        m = m * 0.5 + g
        for to, piece in zip(moments, m.split(sizes), strict=True):
            to.copy_(piece)
        for to, piece in zip(params, (p - m).split(sizes), strict=True):
            to.copy_(piece)
        return params

    return step


def half_grouped(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_mul_(moments, 0.5)
        for p, m, g in zip(params, moments, grads, strict=True):
            m.add_(g)
            p.sub_(m)
        return params

    return step


def wrong_order(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_sub_(params, moments)
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        return params

    return step


def forgotten_moments(params):
    def step(grads):
        torch._foreach_sub_(params, grads)
        return params

    return step


WRONG = {
    "07/counts": {
        "all launches": ("window-for-step", launches_as(lambda count: STEPS * count)),
        "one operator": ("one-operator", launches_as(lambda count: count // 2)),
        "busy": ("busy-for-idle", idle_as(lambda elapsed, count, busy: busy)),
        "all idle": ("window-for-step", idle_as(lambda elapsed, count, busy: STEPS * (elapsed - busy))),
        "elapsed": ("step-for-idle", idle_as(lambda elapsed, count, busy: elapsed)),
        "microseconds": ("units-mixed", idle_as(lambda elapsed, count, busy: 1000 * (elapsed - busy))),
        "the one with more": ("launches-for-cost", counts(other)),
        "both": ("launches-for-cost", counts(lambda found, rows: {"can_gain": "both"})),
        "neither": ("idle-unnoticed", counts(lambda found, rows: {"can_gain": "Neither"})),
        "busy, and the one with more": (
            "busy-for-idle",
            counts(lambda found, rows: {**other(found, rows), **{f"idle_ms_{n}": row[2] for n, row in rows.items()}}),
        ),
    },
    "07/changes": {
        "by launches": ("grouped-but-slower", by_launches),
        "padding": ("grouped-but-slower", sorted_changes(filled_up="faster")),
        "busy": ("launches-for-cost", sorted_changes(matrix_product="faster")),
        "hidden": ("part-for-whole", sorted_changes(another_stream="faster")),
        "more is worse": ("launches-for-cost", sorted_changes(split_into="slower")),
        "never": ("grouping-never-pays", sorted_changes(foreach="same")),
    },
    "07/make_step": {
        "unchanged": ("still-one-by-one", unchanged),
        "one line": ("still-one-by-one", in_one_line),
        "padded": ("grouped-but-slower", padded_by_hand),
        "padded by index": ("grouped-but-slower", padded_by_index),
        "copied back": ("partly-grouped", joined_and_copied_back),
        "half": ("partly-grouped", half_grouped),
        "order": ("outputs-not-compared", wrong_order),
        "no moments": ("outputs-not-compared", forgotten_moments),
    },
    "07/decide": {
        "launches": ("launches-for-cost", chosen("launches a small part")),
        "label": ("part-for-whole", chosen("a third")),
        "traced": ("proved-in-the-profiler", chosen("Two traces")),
        "unchecked": ("outputs-not-compared", chosen("no comparison")),
    },
}
