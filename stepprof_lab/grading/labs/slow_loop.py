"""The slow loop of lab 12: a small training on the CPU with two causes planted in it, as source and as a step.

A loop has a *site* for each cause. There the source holds the slow form where the cause is planted, and else a form
that looks much the same and costs little: so what is slow has to be measured and cannot be guessed from the words. On
two cores of an x86 server, beside about nine busy processes, a planted cause took 22 % to 43 % of the step, and a
harmless form 2 % on average of two runs with a noise of 10 % (``tests/benchmarks/lab12_sites.py``). A slow form and its
repair give the same bits.
"""

from __future__ import annotations

import functools
import random
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from stepprof_lab import scenario
from stepprof_lab.grading import choices
from stepprof_lab.labels import Step

Build = Callable[[str], Step]

LENGTH = 1024
"""Readings of one recording."""


class Form(NamedTuple):
    """How a site is written: lines before the loop, and lines of its body."""

    before: str
    body: str


class Site(NamedTuple):
    """One place of the loop: as it is where the cause is planted, repaired, and where there never was one."""

    slow: Form
    repaired: Form
    harmless: Form


_PACKED = "packed = zlib.compress(recordings.numpy().tobytes(), 1)"
_UNPACK = "torch.frombuffer(bytearray(raw), dtype=torch.uint8)"
_TABLE = "waves = torch.outer(grid, grid).mul_(40).cos_().float().to(device)"
_ENDS = "ends = torch.cat([{0}.topk(8).values, {0}.topk(8, largest=False).values], dim=1)"
_SORTED = "ends = torch.cat([{0}.sort(descending=True).values[:, :8], {0}.sort().values[:, :8]], dim=1)"

SITES: Mapping[str, Site] = {
    "read": Site(
        slow=Form(
            _PACKED,
            f"raw = zlib.decompress(packed)\nx = {_UNPACK}.view(BATCHES, BATCH, LENGTH)[number].float()",
        ),
        repaired=Form(
            f"{_PACKED}\nraw = zlib.decompress(packed)\nunpacked = {_UNPACK}.view(BATCHES, BATCH, LENGTH)",
            "x = unpacked[number].float()",
        ),
        harmless=Form(
            "packed = [zlib.compress(one.numpy().tobytes(), 1) for one in recordings]",
            f"raw = zlib.decompress(packed[number])\nx = {_UNPACK}.view(BATCH, LENGTH).float()",
        ),
    ),
    "constant": Site(
        slow=Form("weights = torch.linspace(0.9, 1.1, CLASSES).to(device)", _TABLE),
        repaired=Form(f"weights = torch.linspace(0.9, 1.1, CLASSES).to(device)\n{_TABLE}", ""),
        harmless=Form(_TABLE, "weights = torch.linspace(0.9, 1.1, CLASSES).to(device)"),
    ),
    "tiny": Site(
        slow=Form("", "x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)"),
        repaired=Form("", "x = (x.view(-1, WIDTH) / x.view(-1, WIDTH).amax(1, keepdim=True)).view(BATCH, LENGTH)"),
        harmless=Form("", "x = torch.cat([one / one.amax() for one in x.split(BATCH // 8)])"),
    ),
    "operator": Site(
        slow=Form("", _SORTED.format("x")),
        repaired=Form("", _ENDS.format("x")),
        harmless=Form("", _SORTED.format("x[:, ::32]")),
    ),
}

CAUSES = (*SITES, "sync")
"""What a learner chooses from. Reading the loss in every step is in each loop: on a CPU nothing is waited for there."""

_SOURCE = """
import zlib

import torch

from stepprof_lab import Step, label

BATCHES, BATCH, LENGTH, WIDTH, CLASSES = {batches}, {batch}, {length}, {width}, {classes}


def build(device):
    recordings = torch.randint(1, 16, (BATCHES, BATCH, LENGTH), dtype=torch.uint8)
    kinds = torch.randint(0, CLASSES, (BATCHES, BATCH))
    grid = torch.linspace(0, 1, LENGTH, dtype=torch.float64)
{before}
    model = torch.nn.Sequential(
        torch.nn.Linear(LENGTH + 16, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    done = {{"steps": 0, "mean_loss": 0.0}}

    def run():
        number = done["steps"] % BATCHES
        done["steps"] += 1
        with label("read_batch"):
{read}
        with label("transfer"):
            x, kind = x.to(device), kinds[number].to(device)
        with label("{label}", role="forward"):
{forward}
            features = torch.cat([x @ waves, ends], dim=1)
            loss = torch.nn.functional.cross_entropy(model(features), kind, weight=weights)
        with label("backward"):
            optimizer.zero_grad()
            loss.backward()
        with label("update"):
            optimizer.step()
        done["mean_loss"] = 0.9 * done["mean_loss"] + 0.1 * loss.item()
        return loss.detach()

    return Step(run=run, state={{"model": model, "optimizer": optimizer}}, samples=BATCH)
"""


def draw(chance: random.Random) -> dict[str, Any]:
    """A loop as plain data: which causes are planted, its numbers, its own label, and what a record of it must say."""
    batch = chance.choice([56, 60, 64])
    full_batch = chance.choice([256, 320, 384])
    return {
        "planted": sorted(chance.sample(sorted(SITES), 2)),
        "options": choices.shuffled(chance, CAUSES),
        "batches": chance.choice([18, 20, 22]),
        "batch": batch,
        "width": 64,
        "classes": chance.randint(5, 12),
        # In every trace of this loop and in no other's: a capture can be told from somebody else's.
        "label": f"forward_{chance.randrange(16**4):04x}",
        "facts": {
            "boundary": dict.fromkeys(scenario.PARTS, True) | {"model_load": False},
            "unit": "ms/step",
            "shapes": [[batch, LENGTH], [batch]],
            "batch": batch,
            "full_batch": full_batch,
            "precision": "float32",
            "mode": "train",
            "compiled": False,
            "loader_workers": None,
        },
    }


def source(plan: Mapping[str, Any], repaired: Collection[str] = ()) -> str:
    """The loop's source, with some of its planted causes repaired."""

    def form(name: str) -> Form:
        site = SITES[name]
        return site.harmless if name not in plan["planted"] else site.repaired if name in repaired else site.slow

    forms = {name: form(name) for name in SITES}
    return _SOURCE.lstrip().format(
        **{name: plan[name] for name in ("batches", "batch", "width", "classes", "label")},
        length=LENGTH,
        before=_lines(4, *(one.before for one in forms.values())),
        read=_lines(12, forms["read"].body),
        forward=_lines(12, *(forms[name].body for name in SITES if name != "read")),
    )


def _lines(spaces: int, *parts: str) -> str:
    return textwrap.indent("\n".join(part for part in parts if part), " " * spaces)


def build_of(plan: Mapping[str, Any], repaired: Collection[str] = ()) -> Build:
    """The ``build(device)`` of that source."""
    return compiled(source(plan, repaired))


@functools.lru_cache(maxsize=64)
def compiled(text: str) -> Build:
    """The function ``build`` of a text of `source`."""
    names: dict[str, Any] = {"__name__": "slow_loop"}
    exec(compile(text, "<the loop of lab 12>", "exec"), names)  # noqa: S102 - a text of this module, never a learner's
    found: Build = names["build"]
    return found
