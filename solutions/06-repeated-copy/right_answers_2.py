"""A second set of right answers to lab 06, written from the lab's text alone."""

import re

import numpy as np
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
def a_quarter_of_the_window(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": copies // 4, "bytes": size, "at_most_ms": ms / 4}


@from_material
def share_of_a_step(lab):
    size, copies, _, whole, percent = finding(lab)
    return {"copies_a_step": copies / 4, "bytes": float(size), "at_most_ms": round(percent / 100 * whole / 4, 2)}


@from_material
def in_numpy(lab):
    size, copies, ms, _, _ = finding(lab)
    return {"copies_a_step": np.int64(copies // 4), "bytes": np.int64(size), "at_most_ms": np.round(ms / 4, 3)}


@from_material
def by_the_words(lab):
    once = ("torch.ones", "CLASS_WEIGHTS")
    return {
        letter: "once" if any(word in line for word in once) else "each step" for letter, line in lab.copies.items()
    }


@from_material
def line_by_line(lab):
    answer = {}
    for letter, line in lab.copies.items():
        answer[letter] = "once"
        for new in ("loss", "batch", "schedule[n]"):
            if new in line:
                answer[letter] = "each step"
    return answer


@from_material
def pinned_and_asked(lab):
    return {
        letter: "goes on" if "pin_memory" in line and "non_blocking=True" in line else "waits"
        for letter, line in lab.lines.items()
    }


@from_material
def by_exclusion(lab):
    answer = dict.fromkeys(lab.lines, "goes on")
    for letter in lab.lines:
        if "pageable" in lab.lines[letter] or "non_blocking" not in lab.lines[letter]:
            answer[letter] = "waits"
    return answer


def equal_in_a_list(before, after, batches):
    return all([torch.equal(before(batch), after(batch)) for batch in batches])


def bytes_of_numpy(before, after, batches):
    same = True
    for batch in batches:
        old = before(batch).numpy()
        new = after(batch).numpy()
        if old.shape != new.shape or old.dtype != new.dtype or old.tobytes() != new.tobytes():
            same = False
    return same


def counted(before, after, batches):
    different = 0
    for batch in batches:
        a = before(batch)
        b = after(batch)
        if a.shape != b.shape or (a != b).any():
            different += 1
    return different == 0


def stops_at_the_first_difference(before, after, batches):
    return all(torch.equal(before(batch), after(batch)) for batch in batches)


def new_product_each_time(tools):
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        return x * (table * x.max())

    return step


def cloned_each_time(tools):
    constant = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        table = constant.clone()
        table *= x.max()
        return x * table

    return step


class ModuleLike:
    def __init__(self, tools):
        self.tools = tools
        self.table = tools.to_device(tools.build_table())
        self.scaled = torch.empty_like(self.table)

    def __call__(self, batch):
        x = self.tools.to_device(batch)
        torch.mul(self.table, x.max(), out=self.scaled)
        return x * self.scaled


def option(words):
    return from_material(lambda lab: [letter for letter, text in lab.options.items() if words in text][0])


RIGHT = {
    "06/prediction": {"trace_does_not_say": "d", "larger": "b"},
    "06/found": {
        "a_quarter_of_the_window": a_quarter_of_the_window,
        "share_of_a_step": share_of_a_step,
        "in_numpy": in_numpy,
    },
    "06/copies": {"by_the_words": by_the_words, "line_by_line": line_by_line},
    "06/waits": {"pinned_and_asked": pinned_and_asked, "by_exclusion": by_exclusion},
    "06/same_outputs": {
        "equal_in_a_list": equal_in_a_list,
        "bytes_of_numpy": bytes_of_numpy,
        "counted": counted,
        "stops_at_the_first_difference": stops_at_the_first_difference,
    },
    "06/make_step": {
        "new_product_each_time": new_product_each_time,
        "cloned_each_time": cloned_each_time,
        "module_like": ModuleLike,
    },
    "06/decide": {
        "compared_and_measured": option("equal bit by bit"),
        "batch_copied": option("keep the copy of the batch"),
    },
}
