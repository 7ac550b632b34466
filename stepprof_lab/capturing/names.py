"""The names of labels on their way through the profiler, and what each of them does.

Measured with torch 2.13: the profiler writes a range whose name is not plain ASCII as "unknown", drops control
characters, turns a backslash round, and a name with a quotation mark makes the whole file invalid JSON. So a name that
is not plain travels under a stand-in and gets its own name back when the trace is written (`restore`).
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import ROLE_OF_USUAL_NAME, ROLES
from stepprof_lab.privacy import refuse_secrets
from stepprof_lab.record import LabelSeen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepprof_lab.labels import Role

LOADER_RANGE = re.compile(r"enumerate\(DataLoader\)#\w+\.__next__")
"""The range that torch's loader records around each batch by itself."""

STEP_PREFIX = "ProfilerStep#"
_STAND_IN = "stepprof-label-"
_PLAIN = re.compile(r"[ !#-\[\]-~]+")
_NEVER = {"Cc": "control characters", "Cs": "half a character (a lone surrogate)"}


class LabelNames:
    """Every label that a workload used, each checked once."""

    def __init__(self) -> None:
        self._roles: dict[str, Role | None] = {}
        self._travels_as: dict[str, str] = {}
        self._elsewhere: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._roles

    def __iter__(self) -> Iterator[str]:
        return iter(self._roles)

    def see(self, name: str, role: Role | None) -> str:
        """Note one use of a label; returns the name under which it goes through the profiler.

        Raises:
            StepprofError: the name cannot be kept or must not be shared, or the role is none.
        """
        if name not in self._roles:
            _check(name)
            self._roles[name] = None
            plain = _PLAIN.fullmatch(name) and name == name.strip()
            self._travels_as[name] = name if plain else f"{_STAND_IN}{len(self._roles)}"
        if role is not None and self._roles[name] is None:
            if role not in ROLES:
                raise StepprofError(
                    f"role {role!r} of label {name!r}", f"one of {', '.join(ROLES)}", "state one of these"
                )
            self._roles[name] = role
        return self._travels_as[name]

    def see_elsewhere(self, name: str) -> None:
        """Note that a label ran in another thread than the steps: neither a clock nor the profiler records it there.

        A name that must not be shared is not kept, and not refused either: it goes nowhere.
        """
        with contextlib.suppress(StepprofError):
            if name not in self._elsewhere:
                _check(name)
                self._elsewhere.add(name)

    @property
    def elsewhere(self) -> list[str]:
        """The labels that ran in other threads."""
        return sorted(self._elsewhere)

    def reading(self) -> set[str]:
        """The labels that read the batch."""
        return {name for name, role in self._roles.items() if (role or ROLE_OF_USUAL_NAME.get(name)) == "read"}

    def restore(self, trace: bytes) -> bytes:
        """Give the names that travelled under a stand-in their own names back in the text of a trace."""
        for name, stand_in in self._travels_as.items():
            if name != stand_in:
                trace = trace.replace(f'"{stand_in}"'.encode(), json.dumps(name, ensure_ascii=False).encode())
        return trace

    def seen(self, loader_ranges: list[str]) -> list[LabelSeen]:
        """The labels with their roles: stated before usual name; the loader's own range reads."""
        labels = [_with_role(name, role) for name, role in self._roles.items()]
        return labels + [LabelSeen(name=name, role="read", role_from="loader") for name in loader_ranges]


def _with_role(name: str, stated: Role | None) -> LabelSeen:
    if stated is not None:
        return LabelSeen(name=name, role=stated, role_from="stated")
    usual = ROLE_OF_USUAL_NAME.get(name)
    if usual is not None:
        return LabelSeen(name=name, role=usual, role_from="usual name")
    return LabelSeen(name=name, role=None, role_from="unknown")


def _check(name: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise StepprofError(f"label {name!r}", "a name", "name the region: with label('read_batch')")
    for character in name:
        if (never := _NEVER.get(unicodedata.category(character))) is not None:
            raise StepprofError(
                f"label {name!r} holds {never}", "a name that can be written and read", "take them out of the name"
            )
    if name.startswith((STEP_PREFIX, _STAND_IN)) or LOADER_RANGE.fullmatch(name):
        raise StepprofError(
            f"label {name!r}", "a name that the profiler does not use itself", "choose another name for the label"
        )
    refuse_secrets(name, "a label")
