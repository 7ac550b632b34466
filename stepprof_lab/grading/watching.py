"""What a learner's function does with a device while it runs: launches, waits of the host, times read from events.

The order of these tells apart what gives the same number: no wait, a wait in the wrong place, a wait for the wrong
stream. It names a mistake; whether an answer is right is told by its number. Works the same on a GPU and on the
practice device, however the learner reaches them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

_sleep = time.sleep

LAUNCH, WAIT = "L", "W"


@dataclasses.dataclass
class Watch:
    """What was seen, in order.

    Args:
        calls: ``L`` for each launch that was noted, ``W`` for each wait of the host.
        reads: how often a time between two events was read.
    """

    calls: str = ""
    reads: int = 0

    def launched(self) -> None:
        """An operation was launched; told by the work itself."""
        self.calls += LAUNCH


@contextlib.contextmanager
def watching(device: Device, watch: Watch, *, late_ms: float = 0.0) -> Iterator[None]:
    """Note waits and times read inside the block.

    Args:
        device: a GPU or the practice device.
        watch: takes what is seen.
        late_ms: the host goes on so much later after a wait for work that was not done, as one that is busy with
            something else. A time between events does not hold it.
    """

    def around_wait(wait: Callable[..., Any]) -> Callable[..., Any]:
        def waited(*arguments: Any, **named: Any) -> Any:
            had_to_wait = device.pending() != 0
            found = wait(*arguments, **named)
            watch.calls += WAIT
            if had_to_wait and late_ms:
                _sleep(late_ms / 1e3)
            return found

        return waited

    def around_read(read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            watch.reads += 1
            return read(*arguments, **named)

        return counted

    waits, reads = _places(device)
    with contextlib.ExitStack() as stack:
        for place in waits:
            stack.enter_context(_replaced(*place, around_wait))
        for place in reads:
            stack.enter_context(_replaced(*place, around_read))
        yield


def _places(device: Device) -> tuple[list[tuple[Any, str]], list[tuple[Any, str]]]:
    """Where the host waits for a device, and where the time between two events is read."""
    if device.vendor == "practice":
        from stepprof_lab import practice

        return [(practice.engine(), "wait_for")], [(practice.Event, "elapsed_time")]
    module = importlib.import_module(f"torch.{device.torch_device.split(':')[0]}")
    waits = [(module, "synchronize"), (module.Stream, "synchronize"), (module.Event, "synchronize")]
    return waits, [(module.Event, "elapsed_time")]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, around: Callable[[Any], Any]) -> Iterator[None]:
    was_own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, around(before))
    try:
        yield
    finally:
        if was_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
