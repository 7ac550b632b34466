"""From a learner's object to plain data: the one place where their objects are touched.

A judge must never call a method of a learner's object: its ``==``, its ``float()`` and its ``isinstance`` may lie. So
each value is taken by its exact type, or through a conversion that ends in a built-in type.
"""

from __future__ import annotations

import math
import sys
from typing import Any

LONGEST_TEXT = 10_000
MOST_VALUES = 10_000
DEEPEST = 8

_SIMPLE = (bool, int, float, str, type(None))


def number(value: Any) -> float | None:
    """A finite number as a float; None where it is none. NumPy scalars and torch tensors of one element count."""
    if type(value) in {int, float}:
        found = value
    elif is_array(value) and hasattr(value, "item") and _size(value) == 1:
        found = value.item()
    else:
        return None
    if type(found) not in {int, float} or abs(found) > sys.float_info.max or not math.isfinite(found):
        return None
    return float(found)


def is_array(value: Any) -> bool:
    """Whether its type is NumPy's or torch's own; a subclass of the learner's is not."""
    return type(value).__module__.split(".")[0] in {"numpy", "torch"}


def _size(value: Any) -> int:
    size = getattr(value, "numel", None)
    return int(size()) if callable(size) else int(getattr(value, "size", 1))


def data(value: Any, depth: int = 0) -> Any:
    """A value as plain data; what is none becomes the text ``<its type>``. An array of one dimension is a list.

    Texts are cut at `LONGEST_TEXT` characters and lists and dicts at `MOST_VALUES` entries.
    """
    if type(value) in _SIMPLE:
        if type(value) is str:
            return value[:LONGEST_TEXT]
        if type(value) is float and not math.isfinite(value):
            return repr(value)
        if type(value) is int and value.bit_length() > 63:
            return "<int beyond 64 bits>"
        return value
    if depth < DEEPEST:
        if type(value) in {list, tuple}:
            return [data(one, depth + 1) for one in value[:MOST_VALUES]]
        if type(value) is dict:
            pairs = list(dict.items(value))[:MOST_VALUES]
            return {key[:LONGEST_TEXT]: data(one, depth + 1) for key, one in pairs if type(key) is str}
        if is_array(value) and hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:
            return data(value[:MOST_VALUES].tolist(), depth + 1)
    if (found := number(value)) is not None:
        return found
    return f"<{type(value).__name__[:100]}>"
