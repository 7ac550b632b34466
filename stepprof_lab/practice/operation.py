"""One launched operation: what it computes, when the model says that it runs, and its result."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepprof_lab.practice.simulator import Engine


class OperationFailed(StepprofError, RuntimeError):
    """An operation of the practice device raised; told at the next wait, not where it was launched."""


class Operation:
    """A launched operation, and the handle of its result.

    Its times are known when it is launched: it starts when it was launched, or when what it has to wait for has ended,
    and lasts as long as the model says. It is done once its function has returned *and* the clock has passed its end.

    Args:
        engine: the device.
        name: what it is called in a trace.
        call: the function and its arguments; arguments that are operations stand for their results.
        start_ns: start on the device's timeline.
        end_ns: end on it.
        after: operations of other streams whose functions must have returned before this one is called.
    """

    __slots__ = ("_call", "_engine", "_result", "after", "end_ns", "error", "name", "returned", "start_ns")

    def __init__(
        self,
        engine: Engine,
        name: str,
        call: tuple[Callable[..., Any], Sequence[Any]],
        start_ns: int,
        end_ns: int,
        after: Sequence[Operation],
    ) -> None:
        self._engine = engine
        self._call: tuple[Callable[..., Any], Sequence[Any]] | None = call
        self._result: Any = None
        self.name = name
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.after: Sequence[Operation] = after
        self.error: BaseException | None = None
        self.returned = threading.Event()
        """Set once the function has returned or raised."""

    def is_done(self, now_ns: int) -> bool:
        """Whether its result exists at this time."""
        return now_ns >= self.end_ns and self.returned.is_set()

    def value(self) -> Any:
        """Its result; waits for it.

        Raises:
            OperationFailed: its function raised. This stays so, however often the result is asked for.
        """
        self._engine.wait_for("practiceResult", self.end_ns, [self])
        if self.error is not None:
            raise failed(self)
        return self._result

    def run(self, *, closing: bool) -> None:
        """Call the function; in the worker of the stream, at `start_ns` or later."""
        call, after, self._call, self.after = self._call, self.after, None, ()
        try:
            for earlier in after:
                earlier.returned.wait()
            if closing or call is None:
                self.error = RuntimeError("the practice device was closed before this operation ran")
            else:
                self._result = _computed(*call)
        except BaseException as error:  # told at the next wait, as a device does
            self.error = error
        finally:
            # Before it counts as returned, so that the wait that it ends can tell.
            if self.error is not None:
                self._engine.note_failed(self)
            self.returned.set()


def _computed(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    values = [_value_of(one) if isinstance(one, Operation) else one for one in arguments]
    # What runs in another thread has no part in the caller's graph; a graph half recorded would be worse than none.
    no_grad = getattr(sys.modules.get("torch"), "no_grad", contextlib.nullcontext)
    with no_grad():
        return function(*values)


def _value_of(earlier: Operation) -> Any:
    if earlier.error is not None:
        raise RuntimeError(f"its argument, the result of {earlier.name!r}, does not exist") from earlier.error
    return earlier._result  # noqa: SLF001 - of another one of the same class


def failed(operation: Operation) -> OperationFailed:
    """The error of an operation that raised."""
    cause = operation.error
    made = OperationFailed(
        f"operation {operation.name!r} on the practice device raised {type(cause).__name__}: {cause}",
        "a function that returns",
        "mend it: it was launched earlier, and only this wait could tell",
    )
    made.__cause__ = cause
    return made
