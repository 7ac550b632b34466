"""Names of the arms' own modules that one arm changes and the other sees: both live in one process.

A flag that the build of one arm sets in a module is set for the other arm too, and the comparison would be of one arm
with itself. Nothing here is put back while steps run, because what belongs together in a user's module is not known;
it is noticed and told.

Seen are plain values (numbers, texts, None, and lists, tuples, sets and dicts of few of them), functions that are
replaced, and one level inside dicts, classes and namespaces; in the modules of the workload and those that lie beside
it. An attribute of a larger object, or a function of a library that is replaced, is not seen.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepprof_lab.validate.model import ArmName

Name = tuple[str, ...]
"""Module, name in it, and for the inside of a dict, class or namespace the key."""

MOST_ITEMS = 64
"""Larger containers hold data, not settings."""

LONGEST = 200
"""So do longer texts."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_SHOWN = (bool, int, float, type(None))
_MISSING = object()


@dataclasses.dataclass(frozen=True)
class Leak:
    """A name that one arm changes and the other sees.

    Args:
        name: module and name, as one writes it ("loop.FAST").
        arm: which arm changes it.
        is_setting: whether the other arm runs with it and it is always left with the same value, as a setting is and a
            counter is not.
        value: the value in words; None where it may be private or is long.
    """

    name: str
    arm: ArmName
    is_setting: bool
    value: str | None

    @property
    def sentence(self) -> str:
        """What was seen."""
        given = f" (to {self.value})" if self.is_setting and self.value is not None else ""
        other = "after" if self.arm == "before" else "before"
        return f"arm {self.arm} changes {self.name}{given} while it is built or runs, and arm {other} sees it"


class SharedNames:
    """Watches the modules that the arms come from, turn by turn.

    Args:
        builds: the builders of both arms.
    """

    def __init__(self, *builds: Callable[..., Any]) -> None:
        self._homes: dict[str, types.ModuleType] = {}
        self._looked_at: dict[Path, set[str]] = {}
        self._still: dict[str, dict[str, _Still]] = {}
        self._last: dict[ArmName, dict[Name, str]] = {}
        self._current: dict[Name, str] = {}
        self._left: dict[tuple[Name, ArmName], set[str]] = {}
        self._at_begin: dict[Name, str] = {}
        self._mixed: dict[Name, None] = {}
        self._forced: set[Name] = set()
        for build in builds:
            self.add(build)

    def add(self, function: Callable[..., Any]) -> None:
        """Watch the module of a function too, and all that lie beside it or below."""
        home = _home_of(function)
        if home is None:
            return
        self._homes[home.__name__] = home
        file = getattr(home, "__file__", None)
        folder = Path(file).resolve().parent if isinstance(file, str) else None
        if folder is not None:
            self._add_below(folder)
        self._current = {**self._now(), **self._current}

    def _add_below(self, folder: Path) -> None:
        """Watch the modules of a folder; each instance asks again, and few modules are new then."""
        looked_at = self._looked_at.setdefault(folder, set())
        for name in sys.modules.keys() - looked_at:
            if name not in self._homes and _lies_below(module := sys.modules[name], folder):
                self._homes[name] = module
            looked_at.add(name)

    def begin(self, arm: ArmName) -> None:
        """The turn of an arm begins: what changed since its last turn, the other arm changed."""
        self._at_begin = self._current
        for name in self._changed_since_last(arm, self._current):
            self._mixed[name] = None

    def end(self, arm: ArmName) -> None:
        """The turn ends: what changed in it, this arm changed; what did not, and is new to it, it ran with."""
        now = self._now()
        for name in _changed(self._at_begin, now):
            left = self._left.setdefault((name, arm), set())
            if len(left) < 2:  # two are enough to tell a counter from a setting
                left.add(now[name])
        self._forced |= {name for name in self._changed_since_last(arm, now) if now[name] == self._at_begin.get(name)}
        self._last[arm] = self._current = now

    def _changed_since_last(self, arm: ArmName, now: Mapping[Name, str]) -> list[Name]:
        return _changed(self._last.get(arm, {}), now)

    def held(self) -> dict[Name, Any]:
        """All plain values as they are now, for `put_back`."""
        return {name: self._value(name) for name in self._now()}

    def put_back(self, held: Mapping[Name, Any]) -> bool:
        """Put plain values that changed back, as if no arm had run yet; whether there were any."""
        changed = False
        for name, value in held.items():
            now = self._value(name)
            if isinstance(value, _PLAIN) and isinstance(now, _PLAIN) and repr(now) != repr(value):
                _set(self._owner(name), name[-1], value)
                changed = True
        self._current = self._now()
        return changed

    def leaks(self) -> list[Leak]:
        """What one arm changed and the other saw, in the order of seeing."""
        found = []
        for name in self._mixed:
            arms: list[ArmName] = [arm for arm in ("before", "after") if (name, arm) in self._left]
            left = [self._left[name, arm] for arm in arms]
            steady = name in self._forced and all(len(one) == 1 and not _collects(next(iter(one))) for one in left)
            found += [
                Leak(
                    name=".".join(name),
                    arm=arm,
                    is_setting=steady,
                    value=_shown(next(iter(self._left[name, arm]))),
                )
                for arm in arms[-1:]
            ]
        return found

    def _now(self) -> dict[Name, str]:
        return {
            name: told
            for key, home in self._homes.items()
            for name, told in _told_of(home, self._still.setdefault(key, {}))
        }

    def _owner(self, name: Name) -> Any:
        module = self._homes[name[0]]
        return module if len(name) == 2 else vars(module).get(name[1])

    def _value(self, name: Name) -> Any:
        owner = self._owner(name)
        if isinstance(owner, dict):
            return owner.get(name[-1], _MISSING)
        return getattr(owner, "__dict__", {}).get(name[-1], _MISSING)


def _changed(earlier: Mapping[Name, str], now: Mapping[Name, str]) -> list[Name]:
    """Names of both that have another value now."""
    if earlier == now:  # nearly always, and much the cheaper question
        return []
    return [name for name, value in now.items() if name in earlier and earlier[name] != value]


def _home_of(function: Callable[..., Any]) -> types.ModuleType | None:
    inner = inspect.unwrap(function)
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    return None if module is None or _is_ours(module.__name__) else module


def _is_ours(name: str) -> bool:
    """Whether a module is this package's own: only the demo's are a user's."""
    return name.partition(".")[0] == "stepprof_lab" and not name.startswith("stepprof_lab.demo")


def _lies_below(module: Any, folder: Path) -> bool:
    file, name = getattr(module, "__file__", None), getattr(module, "__name__", "")
    # Asked of every module of the process for each instance that is built, so the cheapest question comes first.
    if not isinstance(file, str) or not file.startswith(f"{folder}{os.sep}"):
        return False
    if "site-packages" in file or "dist-packages" in file:
        return False
    return name.partition(".")[0] not in sys.stdlib_module_names and not _is_ours(name)


class _Still(NamedTuple):
    """What was told of a name; it holds as long as the name has this very value."""

    value: Any
    code: types.CodeType | None
    """Of a function, which can be given another."""
    name: Name
    told: str | None


def _told_of(home: types.ModuleType, still: dict[str, _Still]) -> Iterator[tuple[Name, str]]:
    """Every name with its value as a text.

    Args:
        home: the module.
        still: values that cannot change in themselves, by name; asked and kept. All names are asked for at every turn
            of an arm, and nearly all of them are such.
    """
    for key, value in list(vars(home).items()):
        known = still.get(key)
        if known is None or known.value is not value or (known.code is not None and known.code is not value.__code__):
            if key.startswith("__"):
                continue
            known = _Still(value, getattr(value, "__code__", None), (home.__name__, key), _told(value))
            if _can_change(value, home.__name__):
                yield from _told_inside(value, known.told, home.__name__, key)
                continue
            still[key] = known
        if known.told is not None:
            yield known.name, known.told


def _told_inside(value: Any, told: str | None, module: str, key: str) -> Iterator[tuple[Name, str]]:
    if told is not None:
        yield (module, key), told
    for inner_key, inner in _inside(value, module):
        inner_told = _told(inner)
        if inner_told is not None:
            yield (module, key, inner_key), inner_told


def _can_change(value: Any, module: str) -> bool:
    """Whether what is told of a value may be another text while it stays the same object."""
    if type(value) in (list, tuple, set, frozenset):  # a tuple may hold what can change
        return True
    return isinstance(value, dict) or _is_own_class(value, module) or _is_namespace(value)


def _inside(value: Any, module: str) -> list[tuple[str, Any]]:
    """One level inside what people keep settings in."""
    if isinstance(value, dict):
        held: Mapping[Any, Any] = value
    elif _is_own_class(value, module) or _is_namespace(value):
        held = vars(value)
    else:
        return []
    if len(held) > MOST_ITEMS:
        return []
    return [(key, inner) for key, inner in list(held.items()) if isinstance(key, str) and not key.startswith("__")]


def _is_own_class(value: Any, module: str) -> bool:
    return isinstance(value, type) and value.__module__ == module


def _is_namespace(value: Any) -> bool:
    if isinstance(value, (types.SimpleNamespace, argparse.Namespace)):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__")


def _told(value: Any) -> str | None:
    """A value as a text that is equal where the value is; None where it is no plain value."""
    if isinstance(value, _PLAIN):
        told = repr(value)
        return told if len(told) <= LONGEST else None
    if isinstance(value, types.FunctionType):
        return f"<function {id(value.__code__)}>"
    if type(value) in (list, tuple, set, frozenset) and len(value) <= MOST_ITEMS:
        inner = [_told(one) if isinstance(one, _PLAIN) else None for one in value]
        if None not in inner:
            ordered = inner if type(value) in (list, tuple) else sorted(one or "" for one in inner)
            return f"{type(value).__name__}{ordered}"
    return None


def _collects(told: str) -> bool:
    """Whether a value is one that code adds to: what it holds is data more often than a setting."""
    return told.startswith(("list[", "set["))


def _shown(told: str) -> str | None:
    """The value of a reason: numbers and switches; a text may be private."""
    return told if told in {repr(one) for one in (True, False, None)} or _is_number(told) else None


def _is_number(told: str) -> bool:
    try:
        float(told)
    except ValueError:
        return False
    return True


def _set(owner: Any, key: str, value: Any) -> None:
    if isinstance(owner, dict):
        owner[key] = value
    else:
        setattr(owner, key, value)
