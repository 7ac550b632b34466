"""What belongs to the process and not to an arm, kept apart for the two of them while they take turns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stepprof_lab.validate.model import ArmName
from stepprof_lab.validate.settings import Settings, stays_on
from stepprof_lab.validate.shared import SharedNames

MOST_TOLD = 4
"""Switches that a sentence names; all of them are in the result."""


class Surroundings:
    """The process around both arms.

    Every instance is built from the same switches, and each has its own while it runs. Names in the arms' modules are
    only watched.

    Args:
        builds: the builders of both arms.
        notes: what is known already that both arms run with.
    """

    def __init__(self, *builds: Callable[..., Any], notes: Sequence[str] = ()) -> None:
        self.base = self._current = Settings.now()
        self.names = SharedNames(*builds)
        self.set_by: dict[ArmName, dict[str, Any]] = {"before": {}, "after": {}}
        self.notes = list(notes)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Leave the caller's switches as they were."""
        try:
            yield
        finally:
            self.base.restore()

    def begin(self, arm: ArmName, own: Settings | None = None) -> None:
        """A turn of an arm begins, with its own switches; without them it is built."""
        wanted = own or self.base
        if wanted != self._current:
            wanted.restore()
        self.names.begin(arm)

    def end(self, arm: ArmName) -> Settings:
        """The turn ends; returns the arm's switches."""
        self.names.end(arm)
        now = self._current = Settings.now()
        if now != self.base:
            self.set_by[arm] |= self.base.changed_in(now)
        return now

    def adopt(self, arm: ArmName, once: set[str], settings: Settings) -> None:
        """Switches that an arm's first build set and no later one: an import did, and imports are of the process.

        Args:
            arm: the arm that was built first.
            once: the names of the switches.
            settings: what they were set to.
        """
        self.base = self.base.with_values(once, settings)
        told = {name: settings.values[name] for name in sorted(once) if name in settings.values}
        if told:  # an environment variable that an import sets for itself is nobody's change
            self.notes.append(
                f"the first build of arm {arm} sets {in_words(told)}, and a later one does not (an import does it, "
                "most likely): both arms ran with it"
            )

    def report(self) -> dict[str, Any]:
        """Which switches each arm set, for the result."""
        return {arm: {name: _plain(value) for name, value in own.items()} for arm, own in self.set_by.items() if own}

    def reasons(self) -> list[str]:
        """What a reader of the verdict has to know of the arms' switches and of names that they share."""
        told = list(self.notes)
        for arm, own in self.set_by.items():
            other = self.set_by["after" if arm == "before" else "before"]
            apart = {name: value for name, value in own.items() if name not in other or other[name] != value}
            back = {name: value for name, value in apart.items() if not stays_on(name)}
            if back:
                told.append(f"arm {arm} sets {in_words(back)}: that was so in its own turns alone")
            if stuck := {name: value for name, value in apart.items() if name not in back}:
                told.append(f"arm {arm} sets {in_words(stuck)}, which cannot be taken back: both arms ran with it")
        told += [leak.sentence for leak in self.names.leaks() if not leak.is_setting]
        return told


def told_of_loading(arm: ArmName, before: Settings) -> list[str]:
    """What loading the file of an arm has switched since ``before``: it holds for both arms."""
    if not (changed := before.changed_in(Settings.now())):
        return []
    told = f"loading the file of arm {arm} sets {in_words(changed)}, and both arms ran with it"
    return [f"{told}: what one arm sets belongs into its build"]


def in_words(switches: Mapping[str, Any]) -> str:
    """Switches and their values: "torch threads = 2, gradients = False"."""
    told = [f"{name} = {_plain(value)}" for name, value in switches.items()]
    return ", ".join(told[:MOST_TOLD]) + (f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else "")


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
