"""A device that disappears while steps are timed: one line with its own exit code, and not a mistake of ours.

What the arms' own code raises is told by `stepprof_lab.validate.arms`. What is left is what a comparison itself asks of
the device: to wait, and to time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from stepprof_lab.devices import Timer, first_sentence
from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.validate.timing import TimedDevice


class WatchedDevice:
    """A device whose failures are told in words.

    Args:
        device: the device that was chosen.
    """

    def __init__(self, device: TimedDevice) -> None:
        self._device = device

    @property
    def torch_device(self) -> str:
        """Name of the device in torch."""
        return self._device.torch_device

    @property
    def is_gpu(self) -> bool:
        """Whether device time is another time than the host's; that of the practice device is too, and it is no GPU."""
        return bool(getattr(self._device, "has_queues", self._device.is_gpu))

    @property
    def sentence(self) -> str:
        """The device in words."""
        return self._device.sentence

    def synchronize(self) -> None:
        """Wait until the device has done what was queued."""
        with self._watched():
            self._device.synchronize()

    def timer(self) -> Timer:
        """A new timer of the device."""
        with self._watched():
            return _WatchedTimer(self._device.timer(), self)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # what torch raises where a driver or a device fails
            raise NotAvailable(
                f"device {self.sentence!r} failed while it was timed ({first_sentence(str(error))})",
                "a device that answers to the end",
                "look at the driver's log, and start again",
            ) from error


class _WatchedTimer:
    def __init__(self, timer: Timer, device: WatchedDevice) -> None:
        self._timer = timer
        self._device = device

    def start(self) -> None:
        """Mark the beginning."""
        with self._device._watched():  # noqa: SLF001 - one class in two parts
            self._timer.start()

    def stop(self) -> None:
        """Mark the end."""
        with self._device._watched():  # noqa: SLF001
            self._timer.stop()

    def elapsed_ms(self) -> float:
        """Milliseconds from the beginning to the end."""
        with self._device._watched():  # noqa: SLF001
            return self._timer.elapsed_ms()


@contextlib.contextmanager
def first_failure_told() -> Iterator[None]:
    """Where tidying up after a failure fails as well, the failure is what is told.

    A lost device refuses everything, the random generator that is put back at the end too.
    """
    try:
        yield
    except RuntimeError as error:
        earlier = error.__context__
        while earlier is not None and not isinstance(earlier, StepprofError):
            earlier = earlier.__context__
        if earlier is None:
            raise
        raise earlier from error
