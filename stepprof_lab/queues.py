"""Streams, events and launches with one meaning on a GPU and on the practice device.

What a lab writes against `stepprof_lab.devices.Device` runs on both: streams and events are torch's own on a GPU, and
have the same methods on the practice device. torch is not imported here; its module is handed over.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Protocol

from stepprof_lab.errors import NotAvailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

SPIN_CYCLES = 20_000_000
"""What a spinning kernel is calibrated with: some 10 ms on today's GPUs."""


class Result(Protocol):
    """The handle of what was launched."""

    def value(self) -> Any:
        """The result, after waiting for it."""


class Event(Protocol):
    """A place in a stream, with a time: `torch.cuda.Event`."""

    def record(self, stream: Any = None) -> None:
        """Put it into a stream, the current one where none is given."""

    def wait(self, stream: Any = None) -> None:
        """What a stream is given from now on starts after it."""

    def synchronize(self) -> None:
        """Wait until it is reached."""

    def query(self) -> bool:
        """Whether it is reached."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds to another event; both have to be reached."""


class Stream(Protocol):
    """A queue of operations that run in order: `torch.cuda.Stream`."""

    def wait_stream(self, other: Any) -> None:
        """What is launched here from now on starts after what `other` has been given."""

    def wait_event(self, event: Any) -> None:
        """What is launched here from now on starts after the event."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event here."""

    def synchronize(self) -> None:
        """Wait until everything launched here is done."""

    def query(self) -> bool:
        """Whether everything launched here is done."""


class Queues(Protocol):
    """What a device with queues can do; see the methods of the same names of `stepprof_lab.devices.Device`."""

    def new_stream(self) -> Any:
        """A further stream."""

    def current_stream(self) -> Any:
        """Where this thread launches to."""

    def stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Launch to a stream inside the block."""

    def event(self) -> Any:
        """A new event with a time."""

    def launch(
        self, function: Callable[..., Any], *arguments: Any, ms: float, name: str | None = None, first_ms: float = 0.0
    ) -> Result:
        """Queue an operation."""

    def occupy(self, ms: float, *, name: str = "busy", first_ms: float = 0.0) -> Result:
        """Queue an operation that lasts about this long."""

    def pending(self) -> int | None:
        """How many operations are not done; None where some are and the device does not count."""

    def synchronize(self) -> None:
        """Wait until everything that was launched is done."""


@dataclasses.dataclass(frozen=True)
class _Launched:
    """What a function returned that queued its work on a stream."""

    result: Any
    stream: Any

    def value(self) -> Any:
        """The result, once its stream has done what it was given."""
        self.stream.synchronize()
        return self.result


class GpuQueues:
    """A GPU by way of ``torch.cuda`` or ``torch.xpu``.

    Args:
        module: that module of torch.
        torch_device: the device's name in torch ("cuda:0").
    """

    def __init__(self, module: Any, torch_device: str) -> None:
        self._module = module
        self._torch_device = torch_device
        self._called: set[str] = set()

    def new_stream(self) -> Any:
        """A stream of torch's pool for this device."""
        return self._module.Stream(device=self._torch_device)

    def current_stream(self) -> Any:
        """Torch's current stream of this device."""
        return self._module.current_stream(self._torch_device)

    def stream(self, stream: Any) -> Any:
        """Torch's own context of a stream."""
        return self._module.stream(stream)

    def event(self) -> Any:
        """Torch's own event. ``torch.Event`` can be made without a device and then times nothing."""
        return self._module.Event(enable_timing=True)

    def launch(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        ms: float,  # noqa: ARG002 - a real device takes the time that it takes
        name: str | None = None,  # noqa: ARG002 - and names its kernels itself
        first_ms: float = 0.0,  # noqa: ARG002 - and has its own first call
    ) -> Result:
        """Call the function, which queues its work on the current stream."""
        values = [one.result if isinstance(one, _Launched) else one for one in arguments]
        return _Launched(function(*values), self.current_stream())

    def occupy(self, ms: float, *, name: str = "busy", first_ms: float = 0.0) -> Result:
        """Queue one kernel that spins for about this long on a small part of the GPU, so that streams overlap.

        Raises:
            NotAvailable: torch has no such kernel for this device.
        """
        first = first_ms if name not in self._called else 0.0
        self._called.add(name)
        self._spin()(round((ms + first) * self._cycles_per_ms))
        return _Launched(None, self.current_stream())

    def pending(self) -> int | None:
        """0 where the current stream has done everything; None where it has not: a GPU does not count."""
        return 0 if self.current_stream().query() else None

    def synchronize(self) -> None:
        """Wait for the whole device."""
        self._module.synchronize(self._torch_device)

    def _spin(self) -> Callable[[int], None]:
        spin: Callable[[int], None] | None = getattr(self._module, "_sleep", None)
        if spin is None:
            raise NotAvailable(
                f"an operation of a given duration on {self._torch_device}",
                "a device for which torch has a spinning kernel (cuda, rocm)",
                "take --device practice, or a CUDA or ROCm device",
            )
        return spin

    @functools.cached_property
    def _cycles_per_ms(self) -> float:
        """Measured once, with the device's own events; the first turn is its first call and does not count."""
        spin, times = self._spin(), []
        for _ in range(4):
            begin, end = self.event(), self.event()
            begin.record(self.current_stream())
            spin(SPIN_CYCLES)
            end.record(self.current_stream())
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return float(SPIN_CYCLES / min(times[1:]))


@functools.cache
def of_gpu(module: Any, torch_device: str) -> GpuQueues:
    """The queues of a GPU; one object a device, because its first calls and its calibration are its own."""
    return GpuQueues(module, torch_device)
