"""Latency and throughput where a step is a request: two questions, each from its own numbers.

The latency of a request is the time until its answer is there. Throughput is all requests over the whole timed loop.
One request follows the other, so that nothing is said here of a service with several callers or a queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stepprof_lab.validate.model import ArmName, Block, Requests

BEYOND = 10
"""Requests that must be slower than a quantile for it to be told: with fewer it is the time of a handful of them."""

QUANTILES = {"q95_ms": 0.95, "q99_ms": 0.99}


def of_arm(blocks: Sequence[Block], arm: ArmName, samples: int | None) -> Requests:
    """Latency and throughput of one arm over all its timed blocks.

    Args:
        blocks: the timed blocks of both arms.
        arm: which one.
        samples: samples of a request; None where they were not stated.
    """
    own = [block for block in blocks if block.arm == arm]
    count = sum(block.ran for block in own)
    walls = [block.wall_ms for block in own if block.wall_ms is not None]
    rate = count / (sum(walls) / 1e3) if len(walls) == len(own) and sum(walls) > 0 else None
    missing = {} if rate is not None else {"requests_per_s": "the elapsed time of the blocks was not kept"}
    if samples is None:
        missing["samples_per_s"] = "the step states no samples"
    times = [value for block in own for value in block.steps_ms] if all(block.per_step for block in own) else []
    latency, unknown = _latency(times)
    return Requests(
        arm=arm,
        requests=count,
        median_ms=latency.get("median_ms"),
        q95_ms=latency.get("q95_ms"),
        q99_ms=latency.get("q99_ms"),
        requests_per_s=rate,
        samples_per_s=None if rate is None or samples is None else rate * samples,
        not_observed=unknown | missing,
    )


def _latency(times: Sequence[float]) -> tuple[dict[str, float], dict[str, str]]:
    """The quantiles that so many requests can tell, and why not the others."""
    if not times:
        why = 'requests were timed in blocks with one wait at the end; ask for the unit "ms/request" to time each'
        return {}, dict.fromkeys(("median_ms", *QUANTILES), why)
    found, unknown = {"median_ms": float(np.median(times))}, {}
    for name, share in QUANTILES.items():
        needed = math.ceil(BEYOND / (1 - share) - 1e-9)
        if len(times) >= needed:
            found[name] = float(np.quantile(times, share))
        else:
            unknown[name] = f"{len(times)} requests were timed; it takes {needed} for {BEYOND} to be slower"
    return found, unknown
