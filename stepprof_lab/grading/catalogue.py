"""What a learner reads, by key; one TOML file a lab and language, beside this module under ``texts/``.

Keys are ``<lab>.<group>.<name>``: ``03.idea.streams-added``, ``03.said.right``, ``common.unanswered``. Values stand in
braces, as in `str.format`. The ids in JSON stay as they are in every language.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any

from stepprof_lab.grading.model import Said

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGE = "en"


@functools.cache
def _texts(part: str, language: str) -> Mapping[str, Any]:
    path = resources.files("stepprof_lab.grading") / "texts" / language / f"{part}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def find(key: str, language: str = LANGUAGE) -> str | None:
    """The text of a key; None where there is none."""
    part, *rest = key.split(".")
    found: Any = _texts(part, language)
    for name in rest:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def text(key: str, language: str = LANGUAGE, **values: Any) -> str:
    """The text of a key with its values.

    Raises:
        KeyError: there is no such text, or a value is missing in it.
    """
    found = find(key, language)
    if found is None:
        raise KeyError(key)
    return found.format(**values)


def sentence(said: Said, language: str = LANGUAGE) -> str:
    """A verdict's sentence in words."""
    return text(said.key, language, **said.values)


def keys(part: str, language: str = LANGUAGE) -> list[str]:
    """Every key of a part ("03", "common"), for the tests."""

    def walk(found: Mapping[str, Any], before: str) -> list[str]:
        return [
            key
            for name, value in found.items()
            for key in (walk(value, f"{before}.{name}") if isinstance(value, Mapping) else [f"{before}.{name}"])
        ]

    return walk(_texts(part, language), part)
