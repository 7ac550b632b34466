"""Several processes that train together: which one this is, and how they agree.

A process that stops while the others go on leaves them waiting in a collective. So whatever could stop one of them is
told to all of them first, and all of them stop with the same line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepprof_lab import errors
from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


class Place(NamedTuple):
    """Which of several processes this is."""

    rank: int
    world_size: int


def place() -> Place | None:
    """This process's place, from ``torch.distributed`` or else from what ``torchrun`` sets; None where it is alone."""
    if (group := _group()) is not None:
        return Place(group.get_rank(), group.get_world_size())
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and size.isdecimal():
        return Place(int(rank), int(size))
    return None


def with_rank(trace: Path, where: Place | None) -> Path:
    """The trace's name with the rank in it: ``trace.json.gz`` becomes ``trace.rank0.json.gz``."""
    if where is None:
        return trace
    from stepprof_lab.record import stem_of

    stem = stem_of(trace)
    return trace.with_name(f"{stem}.rank{where.rank}{trace.name[len(stem) :]}")


def can_talk() -> bool:
    """Whether there are others, and a process group to reach them."""
    group = _group()
    return group is not None and group.get_world_size() > 1


def gather(value: T) -> list[T]:
    """Every rank's value, in the order of the ranks; all of them have to call it. Alone: one's own."""
    group = _group()
    if group is None or not can_talk():
        return [value]
    values: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(values, value)
    return values


def agree(error: StepprofError | None) -> None:
    """Raise the first rank's error on every rank, or on none; all of them have to call it.

    Args:
        error: why this rank cannot go on; None where it can.
    """
    if not can_talk():
        if error is not None:
            raise error
        return
    told = None if error is None else (type(error).__name__, error.given, error.expected, error.todo, error.detail)
    for rank, other in enumerate(gather(told)):
        if other is None:
            continue
        name, given, expected, todo, detail = other
        kind = getattr(errors, name, StepprofError)
        raise kind(f"rank {rank}: {given}", expected, todo, detail=detail) from error


def _group() -> Any | None:
    """``torch.distributed`` where a process group exists."""
    try:
        import torch.distributed as group
    except ImportError:
        return None
    return group if group.is_available() and group.is_initialized() else None
