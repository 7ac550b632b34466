"""What a workload file imports: `label` names a region of the step, `Step` hands the step over.

A label records only while a capture runs. Otherwise it tests one module variable and does nothing, so that it may
stay in a training loop for good.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

Role = Literal["read", "transfer", "forward", "backward", "compute", "update", "other"]
"""What a label's region does, whatever the label is called."""

ROLES: tuple[Role, ...] = ("read", "transfer", "forward", "backward", "compute", "update", "other")

ROLE_OF_USUAL_NAME: Mapping[str, Role] = {
    "read_batch": "read",
    "transfer": "transfer",
    "forward": "forward",
    "backward": "backward",
    "train": "compute",
    "infer": "compute",
    "update": "update",
}
"""The names that this project's own texts use; any other label states its role or has none."""


class Recorder(Protocol):
    """What listens to labels while a capture runs."""

    def enter(self, name: str, role: Role | None) -> object:
        """A region begins; what is returned is handed back to `exit`."""

    def exit(self, token: object) -> None:
        """The region that `enter` gave this token for has ended."""


_recorder: Recorder | None = None
_only: str | None = None

_OpenRegions: TypeAlias = "dict[int, list[tuple[Recorder | None, object]]]"
"""For each thread, the regions of one label object that are open: who listens, and its token; the newest last."""

_opening = threading.Lock()


def set_recorder(recorder: Recorder | None, only: str | None = None) -> Recorder | None:
    """Let a recorder listen from now on; returns the one before it.

    Args:
        recorder: told of each region; None: nobody listens.
        only: it listens to labels of this name alone, and the others stay as cheap as without it.
    """
    global _recorder, _only  # the one switch that every label tests, and what belongs to it
    before = _recorder
    _recorder, _only = recorder, only
    return before


class label:  # noqa: N801 - reads as a word of the language: with label("read_batch")
    """Name a region of the step: ``with label("read_batch"): ...``.

    Args:
        name: any text in any script. It must hold no e-mail address, token or private path: traces are shared.
        role: what the region does, for names that do not say so themselves
            (``label("lecture_batch_cpu", role="read")``).
    """

    __slots__ = ("_open", "name", "role")

    def __init__(self, name: str, role: Role | None = None) -> None:
        self.name = name
        self.role = role
        self._open: _OpenRegions | None = None

    def __enter__(self) -> label:
        recorder = _recorder
        if recorder is not None or self._open is not None:
            self._begin(recorder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open is not None:
            self._end(self._open)

    def _begin(self, recorder: Recorder | None) -> None:
        if _only is not None and self.name != _only:
            recorder = None
            if self._open is None:
                return
        # One object may be open several times: inside itself, and in several threads.
        token = None if recorder is None else recorder.enter(self.name, self.role)
        with _opening:
            if self._open is None:
                self._open = {}
            self._open.setdefault(threading.get_ident(), []).append((recorder, token))

    def _end(self, regions: _OpenRegions) -> None:
        mine = regions.get(threading.get_ident())
        if not mine:
            return
        # The recorder that saw the beginning sees the end, even where another one took over in between.
        recorder, token = mine.pop()
        if not mine:
            with _opening:
                del regions[threading.get_ident()]
                if not regions:
                    self._open = None
        if recorder is not None:
            recorder.exit(token)


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a workload, as its ``build(device)`` returns it.

    Args:
        run: does one step, from reading the batch to the end of the update, and returns what the step is judged by
            (the loss of a training step, the output of a request).
        state: what the step changes or starts from, by name: model, optimizer, scheduler, scaler, anything with
            ``state_dict()``. Validation restores and compares it.
        samples: samples that one step processes, for the unit ``samples/s``; None where that has no meaning.
        metrics: quality metrics by name (``{"accuracy": accuracy}``): functions without arguments that return a number
            for the state as it is, and change nothing. Validation compares them after the steps, outside the timing.
    """

    run: Callable[[], Any]
    state: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    samples: int | None = None
    metrics: Mapping[str, Callable[[], float]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a number of samples that no rate can be made of."""
        if self.samples is not None and self.samples < 1:
            raise StepprofError(f"Step(samples={self.samples!r})", "1 or more, or None", "give the samples of a step")
