"""Work of known shape: what a lab measures, and what a judge measures beside it, on any device with queues."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from stepprof_lab.devices import Device


@dataclasses.dataclass(frozen=True)
class Part:
    """One operation of some work.

    Args:
        ms: how long it lasts.
        stream: 0 for the stream that is current when the work is called; other numbers are side streams of the work.
    """

    ms: float
    stream: int = 0


class Work:
    """Operations that are launched by one call, or one by one: ``work()``, or ``for operation in work: operation()``.

    Both queue the same work in the same order. A side stream begins after what the current stream had been given by
    then, and joins the current stream after the last operation.

    Args:
        device: a GPU or the practice device.
        parts: its operations, in the order in which they are launched.
        name: what its operations are called; its first call belongs to this name.
        first_ms: what the first operation of the first call takes more.
    """

    def __init__(self, device: Device, parts: Sequence[Part], *, name: str = "work", first_ms: float = 0.0) -> None:
        if not parts:
            raise StepprofError("work without operations", "at least one", "give it a part")
        self.device = device
        self.parts = tuple(parts)
        self.name = name
        self.first_ms = first_ms
        self._sides = {number: device.new_stream() for number in sorted({p.stream for p in parts} - {0})}

    def __call__(self) -> list[Any]:
        """Launch everything; returns the handles of the results, in order."""
        return [operation() for operation in self]

    def __iter__(self) -> Iterator[Callable[[], Any]]:
        """The operations in order; each launches when it is called."""
        return (functools.partial(self._launch, place) for place in range(len(self.parts)))

    def __len__(self) -> int:
        """How many operations it has."""
        return len(self.parts)

    @property
    def serial_ms(self) -> float:
        """The sum of its operations, without the first call: what it takes where nothing overlaps."""
        return sum(part.ms for part in self.parts)

    @property
    def overlapped_ms(self) -> float:
        """What it takes where streams overlap and no launch takes time, without the first call."""
        ends: dict[int, float] = {0: 0.0}
        for part in self.parts:
            ends[part.stream] = ends.get(part.stream, ends[0]) + part.ms
        return max(ends.values())

    def _launch(self, place: int) -> Any:
        part, current = self.parts[place], self.device.current_stream()
        if part.stream == 0:
            made = self._occupy(part)
        else:
            side = self._sides[part.stream]
            if part.stream not in {before.stream for before in self.parts[:place]}:
                side.wait_stream(current)
            with self.device.stream(side):
                made = self._occupy(part)
        if place == len(self.parts) - 1:
            for side in self._sides.values():
                current.wait_stream(side)
        return made

    def _occupy(self, part: Part) -> Any:
        return self.device.occupy(part.ms, name=self.name, first_ms=self.first_ms)
