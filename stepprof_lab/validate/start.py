"""One starting state for both arms: seeds, random states, fingerprints, and that nothing is shared."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stepprof_lab.devices import import_torch
from stepprof_lab.validate import values

IMPLEMENTATION_SWITCHES = ("foreach", "fused", "capturable", "differentiable")
"""Settings of an optimizer that say how it computes, not what; two arms may differ in them."""


def derived_seed(seed: int, *parts: object) -> int:
    """A seed of 63 bits for one purpose: the same for the same parts, unrelated for others."""
    text = ":".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def sow(seed: int) -> None:
    """Seed the random generators of Python, numpy and torch (CPU and every device of it)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = import_torch()
    if torch is not None:
        torch.manual_seed(seed)


@dataclasses.dataclass(frozen=True)
class RandomStates:
    """Where the global random generators stand; each arm has its own while the arms take turns."""

    python: Any
    numpy: Any
    torch: Any
    device: Any
    torch_device: str

    @classmethod
    def now(cls, torch_device: str = "cpu") -> RandomStates:
        """Read the generators of Python, numpy, torch and, on a GPU, of the device."""
        torch = import_torch()
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(),
            torch=None if torch is None else torch.get_rng_state(),
            device=None if torch is None or torch_device == "cpu" else _generator_state(torch, torch_device),
            torch_device=torch_device,
        )

    def differing(self, other: RandomStates) -> list[str]:
        """The generators that stand at another place in ``other``, by name."""
        mine, others = (
            {
                "Python": one.python,
                "NumPy": [part.tobytes() if isinstance(part, np.ndarray) else part for part in one.numpy],
                "torch": _bytes_of(one.torch),
                f"torch on {self.torch_device}": _bytes_of(one.device),
            }
            for one in (self, other)
        )
        return [name for name, place in mine.items() if place != others[name]]

    def restore(self) -> None:
        """Put the generators back where they stood."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch = import_torch()
        if torch is not None and self.torch is not None:
            torch.set_rng_state(self.torch)
            if self.device is not None:
                torch.get_device_module(self.torch_device).set_rng_state(self.device, self.torch_device)


@contextlib.contextmanager
def random_states_kept(torch_device: str) -> Iterator[None]:
    """Leave the caller's random generators as they were."""
    before = RandomStates.now(torch_device)
    try:
        yield
    finally:
        before.restore()


def fingerprint(state: Mapping[str, Any]) -> dict[str, str]:
    """Type, shape and SHA-256 of everything in a step's state, by name.

    Args:
        state: `Step.state`: models, optimizers and whatever else has ``state_dict()``, tensors, numbers.

    Returns:
        name of each leaf -> digest. Leaves of unknown classes are left out; `not_comparable` names them.
    """
    return {name: values.digest(leaf) for name, leaf in _state_leaves(state) if values.is_comparable(leaf)}


def held_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of everything in a step's state on the host, by name."""
    return {name: values.held(leaf) for name, leaf in _state_leaves(state) if values.is_comparable(leaf)}


def not_comparable(state: Mapping[str, Any]) -> list[str]:
    """Names in a step's state whose class is unknown and that have no ``state_dict()``."""
    return [name for name, leaf in _state_leaves(state) if not values.is_comparable(leaf)]


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names whose fingerprints differ or that only one side has, in the order of the model."""
    names = [*before, *(name for name in after if name not in before)]
    return [name for name in names if before.get(name) != after.get(name)]


def difference_in_words(names: list[str], before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Name the first few of the differing names and say how they differ."""
    told = []
    for name in names[:3]:
        if name not in before or name not in after:
            told.append(f"{name} (only in {'before' if name in before else 'after'})")
        elif (kinds := (before[name].rpartition(" ")[0], after[name].rpartition(" ")[0]))[0] != kinds[1]:
            told.append(f"{name} ({kinds[0]} before, {kinds[1]} after)")
        else:
            told.append(name)
    return ", ".join(told) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def advice_on(names: list[str], before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What to do about differences in the start, by their kind: values drawn, settings, or another model."""
    drawn: list[str] = []
    settings: list[str] = []
    shapes: list[str] = []
    for name in names:
        kinds = [side[name].rpartition(" ")[0] for side in (before, after) if name in side]
        if len(kinds) < 2 or kinds[0] != kinds[1]:
            (settings if _is_setting(name) else shapes).append(name)
        else:
            (drawn if " of shape " in kinds[0] and not _is_setting(name) else settings).append(name)
    told = []
    if shapes:
        told.append("give both the same model and optimizer: one that is built otherwise does other work")
    if settings:
        told.append(
            f"give both the same settings ({', '.join(settings[:3])}): an arm that trains otherwise does other work"
        )
    if drawn and not shapes:
        told.append(
            "both are built from the same random numbers, so make the model first in both, before a loader or anything "
            "else draws from them"
        )
    return "; ".join(told)


def _is_setting(name: str) -> bool:
    return ".param_groups." in f".{name}"


def tensors_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors and arrays of a step's state by name: their memory, without the model or loader that they belong to."""
    return {name: leaf for name, leaf in _state_leaves(state) if values.is_tensor(leaf) or isinstance(leaf, np.ndarray)}


def shared_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names in ``after`` whose tensor or array lies in the same memory as one of ``before``."""
    taken = {place for _, leaf in _state_leaves(before) if (place := _place(leaf)) is not None}
    return [name for name, leaf in _state_leaves(after) if _place(leaf) in taken]


def multiply(state: Mapping[str, Any], factor: float) -> bool:
    """Multiply every floating tensor and array of a state in place; False where there is none that can be written.

    Memory that several names share is multiplied once.
    """
    torch = import_torch()
    done: set[tuple[Any, ...]] = set()
    for _, leaf in _state_leaves(state):
        place: tuple[Any, ...] | None = None
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and leaf.flags.writeable:
            place = ("host", id(leaf))
        elif values.is_tensor(leaf) and leaf.is_floating_point() and (where := _place(leaf)) is not None:
            place = (*where, tuple(leaf.shape))
        if place is None or place in done:
            continue
        done.add(place)
        with contextlib.nullcontext() if torch is None else torch.inference_mode():
            leaf.__imul__(factor)
    return bool(done)


def _bytes_of(state: Any) -> bytes | None:
    return None if state is None else bytes(state.numpy())


def _generator_state(torch: Any, torch_device: str) -> Any:
    return torch.get_device_module(torch_device).get_rng_state(torch_device)


def _state_leaves(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, leaf in values.leaves(state):
        if not (".param_groups." in name and name.rpartition(".")[2] in IMPLEMENTATION_SWITCHES):
            yield name, leaf


def _place(leaf: Any) -> tuple[str, int] | None:
    """Device and address of the memory of a tensor or array, where it has any."""
    if isinstance(leaf, np.ndarray):
        while isinstance(leaf.base, np.ndarray):
            leaf = leaf.base
        return ("cpu", leaf.__array_interface__["data"][0]) if leaf.nbytes else None
    if not values.is_tensor(leaf) or str(leaf.layout) != "torch.strided":
        return None
    address = leaf.untyped_storage().data_ptr()
    return (str(leaf.device), address) if address else None
