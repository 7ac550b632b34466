"""Results as one JSON object: the contract that other programs read."""

from __future__ import annotations

import math
from typing import Any

import msgspec


def to_json(value: Any) -> str:
    """One JSON object on one line, with a line break at the end.

    Names that cannot be encoded (lone surrogates from a damaged trace) become visible escapes.

    Raises:
        ValueError: a number is not finite. JSON has no word for it, and null would read as "not observed".
    """
    plain = _checked(msgspec.to_builtins(value), type(value).__name__)
    return msgspec.json.encode(plain).decode() + "\n"


def _checked(item: Any, where: str) -> Any:
    if isinstance(item, dict):
        return {_encodable(str(key)): _checked(part, f"{where}.{key}") for key, part in item.items()}
    if isinstance(item, (list, tuple)):
        return [_checked(part, f"{where}[{n}]") for n, part in enumerate(item)]
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError(f"{where} is {item}: a result holds finite numbers only")
    return _encodable(item) if isinstance(item, str) else item


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
