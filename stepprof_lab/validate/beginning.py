"""Do both arms start from the same state, and may they be compared at all?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from stepprof_lab.validate import start
from stepprof_lab.validate.arms import RunningArm


class NotComparable(Exception):
    """The arms cannot be compared.

    Args:
        reason: why, in a sentence that names what differs.
        found: what was learned of the outputs.
    """

    def __init__(self, reason: str, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = dict(found or {})


@dataclasses.dataclass(frozen=True)
class Start:
    """What an arm starts from; the memory of its tensors and arrays is held, and nothing else of it."""

    fingerprint: dict[str, str]
    samples: int | None
    tensors: Mapping[str, Any]

    @classmethod
    def of(cls, arm: RunningArm) -> Start:
        """Look at an instance that has done no step yet."""
        return cls(start.fingerprint(arm.step.state), arm.step.samples, start.tensors_of(arm.step.state))


def same_start(before: Start, after: Start) -> None:
    """Raise `NotComparable` unless both start from equal values in memory of their own, with equal samples.

    Shared memory comes first: where the one that ran first has changed it, the values differ too.
    """
    if before.samples != after.samples:
        raise NotComparable(
            f"the arms do not do the same work: a step of before processes {_count(before.samples)}, "
            f"a step of after {_count(after.samples)}"
        )
    if names := start.shared_names(before.tensors, after.tensors):
        raise NotComparable(
            f"the arms share their state ({', '.join(names[:3])}): a step of one changes the other; "
            "make model and optimizer inside build"
        )
    if names := start.differing(before.fingerprint, after.fingerprint):
        told = start.difference_in_words(names, before.fingerprint, after.fingerprint)
        advice = start.advice_on(names, before.fingerprint, after.fingerprint)
        raise NotComparable(f"the arms do not start from the same state: {told}; {advice}")


def _count(samples: int | None) -> str:
    return "samples that it does not state" if samples is None else f"{samples} samples"
