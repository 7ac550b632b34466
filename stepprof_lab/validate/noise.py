"""What disturbed the run: marked and told, never used to delete a value."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepprof_lab.validate import changes
from stepprof_lab.validate.model import ArmName, Block
from stepprof_lab.validate.statistics import PAIRS, drifts, spearman

try:  # Windows has no such module
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

PRESSURE = Path("/proc/pressure/cpu")

BUSY_PRESSURE = 0.10
"""Share of the time in which some task waited for a processor, from which a machine counts as shared. Measured: 0.01
to 0.1 on a quiet machine, 0.05 to 0.9 on a busy one."""

BUSY_WALL_OVER_CPU = 1.2
"""Elapsed over processor time from which a step that only computes was kept waiting. Measured: 1.00 on a quiet
machine, 2.8 with two other programs on two processors."""

UNSTABLE = "the result may be unstable"

ARMS: tuple[ArmName, ...] = ("before", "after")

SLOW_BLOCK = 2.0
"""A block is marked where its mean is this many times the arm's median step."""


class Meter:
    """Reads what this process and the machine used; what cannot be read here is None."""

    def cpu_ms(self) -> float | None:
        """Processor time of this process in ms, all threads."""
        return time.process_time() * 1e3

    def involuntary_switches(self) -> int | None:
        """How often the system took the processor from this process."""
        return None if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    def pressure_us(self) -> int | None:
        """Microseconds since boot in which some task waited for a processor (Linux pressure stall information)."""
        try:
            with PRESSURE.open("rb", buffering=0) as file:  # read twice for each block: no buffer and no decoding
                first = file.readline()
            return int(first.rpartition(b"total=")[2])
        except (OSError, ValueError):
            return None

    def load(self) -> list[float] | None:
        """Load averages over 1, 5 and 15 minutes."""
        try:
            return [round(one, 2) for one in os.getloadavg()] if hasattr(os, "getloadavg") else None
        except OSError:
            return None

    def processors(self) -> int | None:
        """Processors that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count()

    def threads(self) -> int | None:
        """Threads that torch computes with; None where torch is not loaded."""
        torch = sys.modules.get("torch")
        return None if torch is None else int(torch.get_num_threads())

    def compilations(self) -> int | None:
        """Graphs that torch.compile has compiled in this process; None where it was not used."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        return None if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def report(
    blocks: Sequence[Block],
    design: str,
    meter: Meter,
    *,
    on_gpu: bool,
    load_at_start: list[float] | None,
) -> dict[str, Any]:
    """What was seen while blocks were timed, with sentences for what may have made the result unstable.

    Args:
        blocks: the timed blocks in measured order.
        design: decides whether waiting for a processor can be told from waiting for data.
        meter: the meter that the blocks were measured with.
        on_gpu: whether the host mostly waits for a device.
        load_at_start: load averages before the first block.
    """
    changed = changes.of(blocks)
    found: dict[str, Any] = {
        "cpu_pressure_share": _pressure_share(blocks),
        "wall_over_cpu": None if on_gpu or design != PAIRS else _wall_over_cpu(blocks),
        "involuntary_switches": _total([block.involuntary_switches for block in blocks]),
        "load_at_start": load_at_start,
        "load_at_end": meter.load(),
        "processors": meter.processors(),
        "torch_threads": meter.threads(),
        "compilations_while_timed": _total([block.compilations for block in blocks]),
        "drift": {arm: _drift(blocks, arm) for arm in ARMS},
        "changes": msgspec.to_builtins(changed),
        "slow_blocks": sorted(block.order for arm in ARMS for block in _slow(blocks, arm)),
    }
    found["not_observed"] = {name: why for name, why in _REASONS.items() if found[name] is None}
    found["sentences"] = [*_sentences(found, design), *changes.sentences(changed)]
    return found


_REASONS = {
    "cpu_pressure_share": "this system tells no pressure stall information",
    "involuntary_switches": "this system tells no context switches of a process",
    "load_at_start": "this system tells no load average",
    "torch_threads": "torch is not loaded",
}


def _wall_over_cpu(blocks: Sequence[Block]) -> float | None:
    wall = [block.wall_ms for block in blocks if block.wall_ms is not None and block.cpu_ms is not None]
    cpu = [block.cpu_ms for block in blocks if block.wall_ms is not None and block.cpu_ms is not None]
    return round(sum(wall) / sum(cpu), 3) if cpu and sum(cpu) > 0 else None


def _pressure_share(blocks: Sequence[Block]) -> float | None:
    """Share of the timed blocks in which some task waited for a processor."""
    seen = [block for block in blocks if block.cpu_pressure_us is not None and block.wall_ms is not None]
    wall_us = sum(1e3 * (block.wall_ms or 0) for block in seen)
    return round(min(1.0, sum(block.cpu_pressure_us or 0 for block in seen) / wall_us), 4) if wall_us > 0 else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def _drift(blocks: Sequence[Block], arm: ArmName) -> dict[str, Any]:
    """Rank correlation of a block's median step with its order."""
    medians = [float(np.median(block.steps_ms)) for block in blocks if block.arm == arm]
    rho = spearman(medians)
    return {
        "spearman": None if rho is None else round(rho, 3),
        "blocks": len(medians),
        "drifts": drifts(rho, len(medians)),
    }


def _slow(blocks: Sequence[Block], arm: ArmName) -> list[Block]:
    own = [block for block in blocks if block.arm == arm]
    if not own:
        return []
    usual = float(np.median([value for block in own for value in block.steps_ms]))
    return [block for block in own if float(np.mean(block.steps_ms)) > SLOW_BLOCK * usual]


def _sentences(found: dict[str, Any], design: str) -> list[str]:
    told = (
        _contention(found, design),
        _too_many_threads(found["torch_threads"], found["processors"]),
        _drifting([arm for arm in ARMS if found["drift"][arm]["drifts"]]),
    )
    return [one for one in told if one is not None]


def _contention(found: dict[str, Any], design: str) -> str | None:
    pressure, stretched = found["cpu_pressure_share"], found["wall_over_cpu"]
    if pressure is not None and pressure > BUSY_PRESSURE:
        own = "" if design == PAIRS else " (the loader's own workers count too)"
        seen = f"some task waited for a processor in {100 * pressure:.0f} % of the time{own}"
    elif stretched is not None and stretched > BUSY_WALL_OVER_CPU:
        seen = f"the steps took {stretched:.2g} times the processor time that they used"
    else:
        return None
    return f"{UNSTABLE}: {seen}; try again when less runs on this machine, or with more replicates"


def _too_many_threads(threads: int | None, processors: int | None) -> str | None:
    if threads is None or processors is None or threads <= processors:
        return None
    return (
        f"{UNSTABLE}: torch computes with {threads} threads and may use {processors} processors; "
        f"try torch.set_num_threads({processors})"
    )


def _drifting(arms: list[ArmName]) -> str | None:
    if not arms:
        return None
    named = " and of arm ".join(arms)
    return (
        f"{UNSTABLE}: the times of arm {named} drift over the run; "
        "try again with a machine that is warm, and look for other work on it"
    )
