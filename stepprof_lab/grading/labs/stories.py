"""The stories of lab 01: a training and a service, told in words, with the facts that a record of them must state.

A story is plain data: ``{"kind", "told": [[key, values], ...], "facts": {...}}``. The words stand in the catalogue.
"""

from __future__ import annotations

import random
import textwrap
from typing import Any

from stepprof_lab import scenario
from stepprof_lab.grading import catalogue

Story = dict[str, Any]

BLIND_TO = {"page_cache": "disk", "one_gpu": "others", "no_dashboard": "dashboard"}
"""What a training scene cannot answer, by what was made simpler in it; ids of ``01.option.blind``."""

WIDTH = 100


def training(chance: random.Random) -> Story:
    """A training's story."""
    simpler = chance.choice(sorted(BLIND_TO))
    purpose = chance.choice(["compare", "limit"])
    compiled = chance.choice([True, False])
    numbers: dict[str, Any] = {
        "classes": chance.randint(5, 40),
        "load": chance.randint(3, 9),
        "batch": chance.choice([24, 32, 40, 48, 56]),
        "side": chance.choice([96, 112, 128, 160, 192]),
        "precision": chance.choice(["float32", "bfloat16", "float16"]),
        "workers": chance.choice([2, 3, 4, 6]),
        "full_batch": chance.choice([192, 256, 320, 384]),
        "millions": chance.randint(2, 12),
        "few": chance.choice([1500, 1800, 2000, 2400]),
        "gpus": chance.choice([4, 8, 16]),
        "other_batch": chance.choice([72, 80, 88, 104]),
        "limit": chance.choice([60, 75, 90, 120]),
    }
    words = {
        "what": catalogue.text(f"01.story.what.{chance.choice(['leaves', 'signs', 'mushrooms', 'tiles'])}"),
        "source": catalogue.text(f"01.story.source.{chance.choice(['jpeg', 'png', 'lmdb'])}"),
        "compiled": catalogue.text(f"01.story.compiled.{'yes' if compiled else 'no'}"),
    }
    keys = ["goal", "loop", "scene", "full", f"simpler.{simpler}", f"purpose.{purpose}"]
    batch, side = numbers["batch"], numbers["side"]
    facts = {
        "boundary": dict.fromkeys(scenario.PARTS, True) | {"model_load": False},
        "unit": {"compare": "samples/s", "limit": "ms/step"}[purpose],
        "shapes": [[batch, 3, side, side], [batch]],
        "mode": "train",
        "compiled": compiled,
        "loader_workers": numbers["workers"],
        **{name: numbers[name] for name in ("batch", "full_batch", "precision")},
    }
    told = [[f"01.story.training.{key}", numbers | words] for key in keys]
    return {"kind": "training", "told": told, "simpler": simpler, "facts": facts}


def inference(chance: random.Random) -> Story:
    """A service's story: photos or messages, from a file or from memory, held against a promise or against a night."""
    what = chance.choice(["photos", "messages"])
    begins = chance.choice(["file", "memory"])
    purpose = chance.choice(["promise", "night"])
    compiled = chance.choice([True, False])
    numbers: dict[str, Any] = {
        "load": chance.randint(11, 48),
        "batch": chance.choice([2, 3, 4, 6]) if purpose == "promise" else chance.choice([24, 32, 48]),
        "side": chance.choice([160, 192, 224, 256]),
        "tokens": chance.choice([80, 96, 112, 144]),
        "precision": chance.choice(["float32", "bfloat16", "float16"]),
        "days": chance.randint(2, 9),
        "full_batch": chance.choice([64, 80, 96]),
        "several": chance.choice([5, 7, 9]),
        "limit": chance.choice([30, 40, 55, 70]),
        "thousands": chance.choice([300, 450, 600]),
    }
    words = {"compiled": catalogue.text(f"01.story.compiled.{'yes' if compiled else 'no'}")}
    keys = [f"goal_{what}", "load", f"{begins}_{what}", f"scene_{what}", "full"]
    keys += [f"simpler.{chance.choice(['one_at_a_time', 'alone'])}", f"purpose.{purpose}"]
    batch, side = numbers["batch"], numbers["side"]
    included = {"read": begins == "file", "transfer": True, "forward": True}
    facts = {
        "boundary": dict.fromkeys(scenario.PARTS, False) | included,
        "unit": {"promise": "ms/request", "night": "samples/s"}[purpose],
        "shapes": [[batch, 3, side, side] if what == "photos" else [batch, numbers["tokens"]]],
        "mode": "eval",
        "compiled": compiled,
        "loader_workers": None,
        **{name: numbers[name] for name in ("batch", "full_batch", "precision")},
    }
    return {
        "kind": "inference",
        "told": [[f"01.story.inference.{key}", numbers | words] for key in keys],
        "facts": facts,
    }


def in_words(story: Story) -> str:
    """The story as a learner reads it: one paragraph a sentence group."""
    said = [catalogue.text(key, **values) for key, values in story["told"]]
    return "\n\n".join(textwrap.fill(one, WIDTH) for one in said)
