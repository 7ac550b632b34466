"""Does an arm compute what it returns, or does it hand out again what it computed before?

A tensor that was returned before is no proof: a CUDA graph writes every result into the same memory. So the memory is
filled with a value that nobody computes, and the arm runs on until it returns it again: what is still there was stored.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepprof_lab.devices import import_torch
from stepprof_lab.validate import values

FILL = 1.37 * 2**-14
"""No step returns this by chance, and every floating type can hold something near it. It is small, so that whatever a
step adds to it (a running sum that is returned each time) shows."""

MOST_STEPS = 200
"""Steps after which a result that was returned once is no longer waited for."""

MOST_HELD = 4096
"""Returned results that are remembered; by weak references, so that none is kept alive."""


class Returned:
    """The memory of everything that one instance of an arm returned so far.

    Args:
        steps: how many steps were noted.
        gap: after how many steps memory came back, for the latest that did; None where none did.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.gap: int | None = None
        self._seen: dict[int, tuple[Any, int]] = {}

    def note(self, value: Any) -> None:
        """Take note of what a step returned."""
        self.steps += 1
        for leaf in _arrays(value):
            key, reference = _memory(leaf)
            known = self._seen.get(key)
            if known is not None and known[1] < self.steps and _lives(known[0]):
                self.gap = self.steps - known[1]
            self._seen[key] = (reference, self.steps)
        while len(self._seen) > MOST_HELD:
            del self._seen[next(iter(self._seen))]

    def knows(self, leaf: Any) -> bool:
        """Whether a result lies in memory that was returned before."""
        known = self._seen.get(_memory(leaf)[0])
        return known is not None and _lives(known[0])


def hands_out_stored(run: Any, returned: Returned) -> bool:
    """Whether an arm returns results without computing them. It spoils what the arm returned: nothing may follow.

    Args:
        run: does one step and gives what it returned.
        returned: what the arm returned so far; without memory that came back there is no question.
    """
    if returned.gap is None or returned.gap > MOST_STEPS:
        return False
    held: dict[int, Any] = {}
    for _ in range(2 * returned.gap):
        for leaf in _arrays(run()):
            key, _ = _memory(leaf)
            if key in held and _is_filled(leaf):
                return True
            if key not in held and returned.knows(leaf) and _fill(leaf):
                held[key] = leaf
    return False


def _arrays(value: Any) -> Iterator[Any]:
    """The floating tensors and arrays that a step returned; a number has no memory to look at."""
    for _, leaf in values.leaves(value):
        if values.is_tensor(leaf):
            if leaf.is_floating_point() and leaf.numel() and str(leaf.layout) == "torch.strided":
                yield leaf.detach()
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and leaf.size:
            yield leaf


def _memory(leaf: Any) -> tuple[int, Any]:
    """What memory a leaf lies in, and a weak reference by which to tell that the memory is still that one."""
    if isinstance(leaf, np.ndarray):
        while isinstance(leaf.base, np.ndarray):
            leaf = leaf.base
        return id(leaf), weakref.ref(leaf)
    from torch.multiprocessing.reductions import StorageWeakRef

    weak: Any = StorageWeakRef
    reference = weak(leaf.untyped_storage())  # while it is held, no other storage gets its number
    return reference.cdata, reference


def _lives(reference: Any) -> bool:
    return reference() is not None if isinstance(reference, weakref.ref) else not reference.expired()


def _fill(leaf: Any) -> bool:
    """Fill a result; False where it cannot be written."""
    torch = import_torch()
    try:
        if isinstance(leaf, np.ndarray):
            leaf.fill(FILL)
            return True
        assert torch is not None
        with torch.inference_mode():
            leaf.fill_(FILL)
    except (RuntimeError, ValueError):  # read-only, or several elements in one place
        return False
    return True


def _is_filled(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return bool((leaf == np.array(FILL, leaf.dtype)).all())
    torch = import_torch()
    assert torch is not None
    return bool((leaf == torch.full_like(leaf, FILL)).all())
