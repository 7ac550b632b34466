"""What probes have in common: calling a learner's function, and saying in one line how it failed."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepprof_lab.grading.model import Evidence

if TYPE_CHECKING:
    from stepprof_lab.devices import Device

WAITS = 60
"""So many of the newest waits on the practice device say whether its times could be held."""


class Unanswered(Exception):
    """The learner's function is still the stub."""


def call(answer: Any, *arguments: Any) -> Any:
    """Call a learner's function; its warnings are no errors and are not shown.

    Raises:
        Unanswered: it raised NotImplementedError or returned None, as the exercise's own stub does.
        TypeError: it cannot be called.
        Exception: whatever it raised.
    """
    if not callable(answer):
        raise Unanswered if answer is None or answer is ... else TypeError(f"a {type(answer).__name__}, not a function")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = answer(*arguments)
        except NotImplementedError as error:
            raise Unanswered from error
    if found is None or found is ...:
        raise Unanswered
    return found


def evidence_of(run: Callable[[], Evidence]) -> Evidence:
    """What a probe found, or the evidence that the learner's code failed."""
    try:
        return run()
    except Unanswered:
        return Evidence(unanswered=True)
    except Exception as error:  # a learner's code may raise anything; it is told, never passed on
        return Evidence(error=in_words(error))


def in_words(error: BaseException) -> str:
    """An error in one line, with the last line of code outside this package that it came through."""
    said = " ".join(str(error).split())[:300]
    where = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "stepprof_lab" not in frame.filename.replace("\\", "/").split("/")[:-1] and frame.line:
            where = f", at `{frame.line[:120]}`"
            break
    return f"{type(error).__name__}: {said}{where}" if said else f"{type(error).__name__}{where}"


def waits_held(device: Device, shortest_ms: float, tolerance: float, repetitions: int) -> bool:
    """Whether the waits of a check that has just run ended in time often enough for a verdict on times.

    Always true on a GPU, whose times are its own; on the practice device see `practice.Calibration.holds`.

    Args:
        device: that the check ran on.
        shortest_ms: the shortest time that is judged.
        tolerance: the share of it beyond which a wait is late.
        repetitions: of how many the shortest is taken.
    """
    from stepprof_lab import practice

    newest = list(practice.engine().lateness_ns)[-WAITS:] if device.vendor == "practice" else []
    return not newest or practice.of_lateness(newest).holds(shortest_ms, tolerance=tolerance, repetitions=repetitions)
