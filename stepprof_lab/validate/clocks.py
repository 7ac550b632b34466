"""Two clocks on a GPU: the device's events on one stream, and the host's clock until the whole device is done.

Events see the stream on which they are recorded. Work that an arm moves to another stream, and does not wait for, is
not between them. It is still at work when the last event is reached: the host's clock has how long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from stepprof_lab.validate.model import Block

CLEARLY = 1.05
"""The clocks disagree where their ratios are further apart than this factor, and their intervals do not touch."""

Ratio = tuple[float, tuple[float, float]]
"""After over before, and its interval."""


def by_host(blocks: Sequence[Block]) -> list[Block] | None:
    """The same blocks until the whole device was done; None where there is no such view of them.

    That is where each step was timed by the host's clock anyway, the end was not kept, or a block has more in it than
    the label of which it was timed.
    """
    if any(one.per_step or one.tail_ms is None or not one.steps or one.label is not None for one in blocks):
        return None
    # All steps of a block have left their share of what is still at work, the one before the first event too.
    return [msgspec.structs.replace(one, steps_ms=[one.steps_ms[0] + (one.tail_ms or 0.0) / one.ran]) for one in blocks]


def disagree(events: Ratio, host: Ratio) -> bool:
    """Whether the two clocks tell clearly different ratios."""
    apart = abs(math.log(host[0] / events[0])) > math.log(CLEARLY)
    return apart and (host[1][1] < events[1][0] or events[1][1] < host[1][0])


def sentence(events: Ratio, host: Ratio) -> str:
    """What the two clocks say."""
    return (
        f"the two clocks disagree: by the device's events a step of after takes {events[0]:.4g} of before's time, by "
        f"the host's clock until the whole device is done {host[0]:.4g} ({host[1][0]:.4g} to {host[1][1]:.4g}); the "
        "events see one stream, and work on another one that the step does not wait for is in the host's clock alone, "
        "so the verdict is by the host's clock"
    )
