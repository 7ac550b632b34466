"""What changed while steps were timed: levels that shift, slow steps that come again, graphs that were compiled.

All of it is told with the numbers of the steps and nothing is deleted. What meets both arms at once is the machine's,
and pairs take it out; what meets one arm alone may be what the verdict is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from stepprof_lab.validate import steady
from stepprof_lab.validate.model import ArmName, Block

NEAR_PAIRS = 4
"""Shifts of both arms that are no more pairs apart than this, in the same direction, are one."""

TOLD = 3
"""So many are told one by one; the others are counted, and all are in the JSON."""


class LevelShift(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one instance came to another level while they were timed."""

    replicate: int
    arm: ArmName
    step: int
    """First step of the new level, counted from 1 over the timed steps of this instance."""
    block: int
    """The order of the block that holds it."""
    pair: int
    from_ms: float
    to_ms: float
    both: bool
    """Whether the other arm shifted likewise at about the same time."""


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """Slow steps of one instance that come at one distance."""

    replicate: int
    arm: ArmName
    every: int
    """Steps from one to the next."""
    steps: list[int]
    """Counted from 1 over the timed steps of this instance; other slow steps are among them."""


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """A block during which torch.compile compiled."""

    replicate: int
    arm: ArmName
    block: int
    graphs: int
    step: int | None
    """The longest step of the block, counted from 1 over the timed steps of this instance; None where a block was
    timed as a whole."""
    took_ms: float
    """What that step took, or the mean step of the block."""
    usual_ms: float
    """The arm's median."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """All that changed."""

    shifts: list[LevelShift]
    recurring: list[Recurring]
    compiled: list[Compiled]


class _Instance:
    """The timed steps of one instance in a row, and where its blocks begin in them."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.times = [value for block in blocks for value in block.steps_ms]
        self.begins = np.cumsum([0, *(len(block.steps_ms) for block in blocks)])
        self.counts = np.cumsum([0, *(block.ran for block in blocks)])

    def place(self, value: int) -> tuple[Block, int]:
        """The block that a value (from 1) belongs to, and the number of its step."""
        at = int(np.searchsorted(self.begins, value, side="left")) - 1
        block = self.blocks[at]
        within = value - int(self.begins[at]) if block.per_step else 1
        return block, int(self.counts[at]) + within


def of(blocks: Sequence[Block]) -> Changes:
    """Look at the timed steps of each instance of each arm.

    Args:
        blocks: all timed blocks in measured order.
    """
    instances: dict[tuple[int, ArmName], list[Block]] = {}
    for block in blocks:
        instances.setdefault((block.replicate, block.arm), []).append(block)
    shifts: list[LevelShift] = []
    recurring: list[Recurring] = []
    compiled: list[Compiled] = []
    for (replicate, arm), own in instances.items():
        instance = _Instance(own)
        found = steady.find(instance.times)
        shifts += [_shift(instance, one) for one in found.shifts]
        if found.every is not None:
            steps = [instance.place(one)[1] for one in found.slow_steps]
            recurring.append(Recurring(replicate=replicate, arm=arm, every=found.every, steps=steps))
        compiled += [_compiled(instance, number) for number, block in enumerate(own) if block.compilations]
    return Changes(shifts=_in_both(shifts), recurring=recurring, compiled=compiled)


def sentences(changes: Changes) -> list[str]:
    """What a reader of the verdict has to know, one sentence for each kind."""
    return [
        *_shifts_in_words([one for one in changes.shifts if not one.both]),
        *_both_in_words([one for one in changes.shifts if one.both]),
        *_recurring_in_words(changes.recurring),
        *_compiled_in_words(changes.compiled),
    ]


def _shift(instance: _Instance, one: steady.Shift) -> LevelShift:
    block, step = instance.place(one.step)
    return LevelShift(
        replicate=block.replicate,
        arm=block.arm,
        step=step,
        block=block.order,
        pair=block.pair,
        from_ms=one.from_ms,
        to_ms=one.to_ms,
        both=False,
    )


def _in_both(shifts: Sequence[LevelShift]) -> list[LevelShift]:
    """The same, with those marked that the other arm shows too."""
    return [msgspec.structs.replace(one, both=any(_together(one, other) for other in shifts)) for one in shifts]


def _together(one: LevelShift, other: LevelShift) -> bool:
    return (
        one.arm != other.arm
        and one.replicate == other.replicate
        and abs(one.pair - other.pair) <= NEAR_PAIRS
        and (one.to_ms > one.from_ms) == (other.to_ms > other.from_ms)
    )


def _compiled(instance: _Instance, number: int) -> Compiled:
    block = instance.blocks[number]
    longest = int(np.argmax(block.steps_ms))
    return Compiled(
        replicate=block.replicate,
        arm=block.arm,
        block=block.order,
        graphs=block.compilations or 0,
        step=int(instance.counts[number]) + longest + 1 if block.per_step else None,
        took_ms=block.steps_ms[longest],
        usual_ms=float(np.median(instance.times)),
    )


def _shifts_in_words(shifts: Sequence[LevelShift]) -> list[str]:
    if not shifts:
        return []
    told = [
        f"from its timed step {one.step} on, arm {one.arm} took {one.to_ms:.4g} instead of {one.from_ms:.4g} ms in "
        f"replicate {one.replicate}"
        for one in shifts[:TOLD]
    ]
    seen = "; ".join(told) + _more(shifts)
    return [
        f"a level shifted in one arm alone: {seen}; look at the raw values over time, and whether the machine was busy"
    ]


def _both_in_words(shifts: Sequence[LevelShift]) -> list[str]:
    if not shifts:
        return []
    replicates = sorted({one.replicate for one in shifts})
    named = ", ".join(map(str, replicates))
    where = f"replicate{'s' * (len(replicates) > 1)} {named}"
    return [f"the level of both arms shifted at about the same time in {where}: the machine's, and pairs take it out"]


def _recurring_in_words(recurring: Sequence[Recurring]) -> list[str]:
    if not recurring:
        return []
    told = [f"every {one.every} steps in arm {one.arm}, replicate {one.replicate}" for one in recurring[:TOLD]]
    sentence = (
        f"a step that takes at least {steady.SLOW:g} times as long comes again and again: {'; '.join(told)}"
        f"{_more(recurring)}; a batch of another shape, a report or a collection of garbage may do that, and the mean "
        "has it where a quantile may not"
    )
    return [sentence]


def _compiled_in_words(compiled: Sequence[Compiled]) -> list[str]:
    if not compiled:
        return []
    told = [
        f"{one.graphs} in arm {one.arm}, replicate {one.replicate}, "
        + ("in a block" if one.step is None else f"at its timed step {one.step} or near it")
        + f", which took {one.took_ms:.4g} ms (usual {one.usual_ms:.4g})"
        for one in compiled[:TOLD]
    ]
    seen = "; ".join(told) + _more(compiled)
    return [f"graphs were compiled while steps were timed: {seen}; try batches of one shape"]


def _more(found: Sequence[Any]) -> str:
    return f"; and {len(found) - TOLD} more" if len(found) > TOLD else ""
