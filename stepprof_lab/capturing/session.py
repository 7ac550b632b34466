"""One profiler session of four turns: wait 1, warm-up 1, active 2, once.

What torch's profiler does without saying so is caught here: two profilers at a time end in lost events or a crash, an
export that fails raises nothing, and a session that is ended by somebody else must not be stopped again.
"""

from __future__ import annotations

import json
import threading
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEDULE = {"wait": 1, "warmup": 1, "active": 2, "repeat": 1}
TURNS = 4
FIRST_ACTIVE = 2
"""Turns before the first active one."""


def refuse_other_profiler() -> None:
    """Refuse to start while a profiler runs in this process, in any thread."""
    torch = import_module("torch")

    # The first tells of this thread, the second (a module variable of torch) of any thread.
    if torch.autograd._profiler_enabled() or getattr(torch.autograd.profiler, "_is_profiler_enabled", False):  # noqa: SLF001
        raise StepprofError(
            "another profiler is active in this process",
            "no other profiler while a window is captured (two of them lose events or crash)",
            "end the other profiler first",
        )


class Session:
    """The profiler while a window lasts. It starts, turns and ends in one thread.

    Args:
        activities: what is collected, as ``torch.profiler`` takes it.
        options: ``record_shapes``, ``profile_memory``, ``with_stack``.
        raw: the file that the trace is exported to, uncompressed.
        metadata: goes into the trace's own text, under ``stepprof_lab``.
    """

    def __init__(
        self, activities: Sequence[Any], options: Mapping[str, bool], raw: Path, metadata: Mapping[str, str]
    ) -> None:
        torch = import_module("torch")

        self._raw = raw
        self._metadata = dict(metadata)
        self._thread = threading.get_ident()
        self._running = False
        self._keeps = True
        self._prepare: Any = None
        self.turns = 0
        self.handler_calls = 0
        self._profile: Any = torch.profiler.profile(
            activities=list(activities),
            schedule=torch.profiler.schedule(**SCHEDULE),
            on_trace_ready=self._export,
            **options,
        )

    def start(self) -> None:
        """Begin the first turn."""
        refuse_other_profiler()
        self._guard()
        self._running = True
        self._profile.__enter__()

    def turn(self) -> None:
        """A turn has ended. After the fourth the trace is exported and the session is over."""
        self._refuse_if_lost()
        self.turns += 1
        try:
            self._profile.step()
        except RuntimeError as error:
            # The profiler that runs now, if any, is not ours: to stop it would crash.
            self._running = False
            self._unguard()
            said = " ".join(str(error).split())[:200]
            raise StepprofError(
                f"torch's profiler, which failed ({said})",
                "no other profiler in this process",
                "take the other profiler away and capture again",
            ) from error
        if self.turns == 1:
            # Only now: the profiler ignores metadata before its warm-up.
            self._profile.add_metadata_json("stepprof_lab", json.dumps(self._metadata))
        elif self.turns == TURNS:
            self._stop()

    def end_early(self) -> None:
        """End before the fourth turn is over; what the active turns recorded is exported."""
        self._refuse_if_lost()
        self._stop()

    def abandon(self) -> None:
        """End now and keep nothing; does nothing where the session is over."""
        self._keeps = False
        if not self._running:
            return
        if self._is_lost() or threading.get_ident() != self._thread:
            # To stop a session that is not there, or from another thread, can crash the process.
            self._running = False
            self._unguard()
            return
        try:
            self._stop()
        except Exception as error:  # the error that led here is the one to show
            warnings.warn(f"torch's profiler could not be stopped cleanly: {error}", RuntimeWarning, stacklevel=2)

    def _stop(self) -> None:
        self._running = False
        try:
            self._profile.__exit__(None, None, None)
        finally:
            self._unguard()

    def _export(self, profile: Any) -> None:
        self.handler_calls += 1
        if self._keeps:
            profile.export_chrome_trace(str(self._raw))

    def _is_lost(self) -> bool:
        """Whether the active part should run and does not: somebody else ended it."""
        torch = import_module("torch")

        return self._running and FIRST_ACTIVE <= self.turns < TURNS and not torch.autograd._profiler_enabled()  # noqa: SLF001

    def _refuse_if_lost(self) -> None:
        if self._is_lost():
            raise StepprofError(
                "the profiler of the window was ended by other code",
                "no other profiler inside the window",
                "take the other profiler out of the step and capture again",
            )

    def _guard(self) -> None:
        """Let no other profiler start while this one runs: torch itself does not refuse it, and crashes later."""
        torch = import_module("torch")

        base = torch.autograd.profiler.profile
        prepare = getattr(base, "_prepare_trace", None)
        if prepare is None:
            return
        ours = self._profile

        def refused(profiler: Any) -> Any:
            if profiler is not ours.profiler:
                raise StepprofError(
                    "another profiler was started inside the window",
                    "no other profiler while a window is captured (two of them lose events or crash)",
                    "take the other profiler out of the step and capture again",
                )
            return prepare(profiler)

        self._prepare = prepare
        base._prepare_trace = refused  # noqa: SLF001

    def _unguard(self) -> None:
        torch = import_module("torch")

        if self._prepare is not None:
            torch.autograd.profiler.profile._prepare_trace = self._prepare  # noqa: SLF001
            self._prepare = None
