"""Checking an answer while one works: in a notebook, or in a script."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from stepprof_lab import devices
from stepprof_lab.grading import items, kept, turns, variants
from stepprof_lab.grading.model import Verdict
from stepprof_lab.grading.probing import evidence_of

VERDICTS_VARIABLE = "STEPPROF_VERDICTS"
"""A file that takes each verdict as a line of JSON, for ``stepprof check`` and for tests."""

elsewhere: Callable[[str, Any], Verdict | None] | None = None
"""Where an answer is judged in another process, this takes it there; None, or what returns None: as in practice."""


def begin(number: str) -> SimpleNamespace:
    """Begin a lab: says what it runs on and how long it takes, and hands out its material.

    Args:
        number: the lab's number, "03".

    Returns:
        The material, by name (``lab.events``); the same learner gets the same every time.
    """
    from stepprof_lab.report import verdict as shown

    shown.show_beginning(items.lab(number))
    return material_of(number)


def check(ident: str, answer: Any) -> Verdict:
    """Check an answer with cases that may be seen, show the verdict, and keep the points.

    Args:
        ident: the item, "03/busy_ms".
        answer: a function, a number, a text, a dict: what the item asks for.

    Returns:
        The verdict; ``check(...).points`` as a cell's last line is what nbgrader reads.
    """
    from stepprof_lab.report import verdict as shown

    if elsewhere is not None and (handed_over := elsewhere(ident, answer)) is not None:
        return handed_over
    verdict = verdict_of(ident, answer, shown.show_waiting)
    shown.show(verdict)
    if path := os.environ.get(VERDICTS_VARIABLE):
        with Path(path).open("ab") as stream:
            stream.write(msgspec.json.encode(verdict) + b"\n")
    else:
        kept.note(verdict)
    return verdict


def verdict_of(ident: str, answer: Any, waiting: Callable[[str], None] = lambda _: None) -> Verdict:
    """The verdict on an answer, with the cases of practice; nothing is shown and nothing kept.

    Args:
        ident: the item.
        answer: what the learner gives.
        waiting: told the device, in words, where a timed check has to wait for somebody else's.
    """
    item = items.item(ident)
    chance = variants.chance(variants.learner(), item.numbers_of or ident)
    cases = [item.draw(chance) for _ in range(item.visible)]
    with turns.turn(devices.gpu_or_practice(), waiting) if item.timed else contextlib.nullcontext():
        evidence = [evidence_of(lambda case=case: item.probe(answer, case)) for case in cases]  # type: ignore[misc]
    return msgspec.structs.replace(item.judge(cases, evidence), hidden=item.hidden)


def material_of(number: str) -> SimpleNamespace:
    """The material of a lab for this learner, as `begin` hands it out; nothing is shown."""
    who = variants.learner()
    return SimpleNamespace(**items.lab(number).material(lambda purpose: variants.chance(who, purpose)))
