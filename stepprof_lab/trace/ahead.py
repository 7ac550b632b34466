"""What batches that were made ahead hide: which steps of an approach are steady, and what they leave open.

A loop that uses up batches faster than its workers make them does not wait until the queue has run empty. With a queue
of Q batches and a steady wait of the share s that takes Q / s steps: 480 for 48 batches and a tenth. Two things help.
The loader tells how many batches are ready after each step, so that steps are found over which the queue did not
shrink. And what is left open has a limit: n steps that used up n batches, of which at most L were made before, saw
their workers make at least n - L.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stepprof_lab.trace.model import Approach

USUAL_PREFETCH = 2
"""Batches that a worker makes ahead where nothing else is known: ``prefetch_factor``'s default."""


class Steady(NamedTuple):
    """The steps of an approach that stand for the steady loop: all from `start` on."""

    start: int
    lead: float | None
    """How many of them may have lived from batches that were made before; None where that is not known."""


def steady(approach: Approach, workers: int | None) -> Steady:
    """The steady part of an approach.

    Without workers the first step alone is left out (first use of everything). With workers it begins where the queue
    was as full as at the end, or else after the first queue, and then as many steps are left out as leave whole
    periods of the workers. Where the workers are not known half is left out.

    Args:
        approach: the unprofiled steps.
        workers: the loader's workers; None where they are not known.
    """
    count = len(approach.steps_ms)
    if workers is None:
        return Steady(count // 2, None)
    if workers == 0:
        return Steady(min(1, count), 0.0)
    prefetch = approach.loader_prefetch
    queue = workers * (prefetch or USUAL_PREFETCH)
    ready = approach.loader_ready if prefetch and len(approach.loader_ready) == count else []
    begin = _as_full_as_at_the_end(ready, workers) if ready else min(queue, count)
    start = count - (count - begin) // workers * workers
    return Steady(start, _lead(approach, queue, workers, start, ready) if prefetch else None)


def _as_full_as_at_the_end(ready: list[int], workers: int) -> int:
    """The step after the first one from which on, for a period, as many batches were ready as in the last period.

    Before it the queue was being used up, or was being filled for the first time.
    """
    full = max(ready[-workers:])
    return next(step + 1 for step in range(len(ready)) if abs(max(ready[step : step + workers]) - full) <= 1)


def _lead(approach: Approach, queue: int, workers: int, start: int, ready: list[int]) -> float:
    """In steps: what was ready or in work before the first steady one, less what is ready after the last."""
    if not ready or not start:
        batches = queue
    else:
        batches = max(min(queue, ready[start - 1] + workers) - ready[-1], 0)
    reads = approach.loader_reads
    per_step = reads / len(approach.steps_ms) if reads else 1.0
    return batches / per_step


def largest_share(steps: int, lead: float, step_ms: float, rest_ms: float) -> float:
    """The largest share of the steady step that can be waiting.

    Args:
        steps: how many steps were seen; their workers made a batch for at least ``steps - lead`` of them.
        lead: see `Steady`.
        step_ms: mean time of a step.
        rest_ms: mean time of a step's work, during which nothing waits.
    """
    if steps <= lead or not step_ms:
        return 1.0
    slowest_ms = step_ms * steps / (steps - lead)
    return min(max(1.0 - rest_ms / slowest_ms, 0.0), 1.0)


def most_steps(queue: int, share: float) -> int:
    """Steps after which a wait of this share would have used up a queue that was full."""
    return math.ceil(queue / share)
