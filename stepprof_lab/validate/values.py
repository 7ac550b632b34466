"""Any value as named leaves, and leaves as bytes: what fingerprints and comparisons are made of."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stepprof_lab.devices import import_torch

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Leaves that are compared by their value."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested containers with their names, in an order that does not depend on the container's.

    What has a ``state_dict()`` is its state dict. The prefix ``_orig_mod.``, which `torch.compile` puts before a
    parameter's name, is dropped: compiling is a change of how, not of what.

    Args:
        value: tensors, arrays, numbers, text, and mappings, sequences and dataclasses of them, nested as they like.
        path: name of the value itself; empty for the root.
    """
    if hasattr(value, "state_dict") and not isinstance(value, type):
        value = value.state_dict()
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from leaves(value[key], _joined(path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, _joined(path, str(index)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), _joined(path, field.name))
    else:
        yield path.replace("_orig_mod.", ""), value


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor that has values."""
    torch = sys.modules.get("torch")  # asked for every leaf of every step; where nobody loaded it there is none
    return torch is not None and isinstance(value, torch.Tensor) and not value.is_meta


def is_comparable(value: Any) -> bool:
    """Whether a leaf can be compared at all; an object of an unknown class cannot."""
    return isinstance(value, (*PLAIN, np.ndarray, np.generic)) or is_tensor(value)


def held(value: Any) -> Any:
    """A copy of a leaf on the host that later steps cannot change."""
    if is_tensor(value):
        return _dense(value).to("cpu", copy=True)
    return value.copy() if isinstance(value, np.ndarray) else value


def kind_of(value: Any) -> str:
    """Type and shape of a leaf in words: "float32 of shape 64x10", "float"."""
    if is_tensor(value) or isinstance(value, (np.ndarray, np.generic)):
        shape = "x".join(str(size) for size in value.shape)
        return f"{str(value.dtype).removeprefix('torch.')} of shape {shape or 'scalar'}"
    return type(value).__name__


def raw_bytes(value: Any) -> bytes:
    """The bytes of a leaf in logical order, so that a memory format (channels last) makes no difference."""
    if is_tensor(value):
        torch = import_torch()
        assert torch is not None
        flat = _dense(value).to("cpu").contiguous().reshape(-1)
        return bytes(flat.view(torch.uint8).numpy().tobytes())
    if isinstance(value, (np.ndarray, np.generic)):
        return np.ascontiguousarray(value).tobytes()
    return value if isinstance(value, bytes) else repr(value).encode()


def digest(value: Any) -> str:
    """Type, shape and SHA-256 of a leaf: equal where the leaf is bitwise equal."""
    return f"{kind_of(value)} {hashlib.sha256(raw_bytes(value)).hexdigest()}"


def numbers(value: Any) -> Any | None:
    """A leaf's numbers as a flat float64 (or complex128) array, or None where it holds no numbers."""
    if is_tensor(value):
        torch = import_torch()
        assert torch is not None
        wide = torch.complex128 if value.is_complex() else torch.float64
        return _dense(value).to("cpu").to(wide).numpy().reshape(-1)
    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "biufc":
            return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).reshape(-1)
    return None


def _dense(tensor: Any) -> Any:
    tensor = tensor.detach()
    if tensor.is_quantized:
        return tensor.dequantize()
    return (tensor if str(tensor.layout) == "torch.strided" else tensor.to_dense()).resolve_conj().resolve_neg()


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
