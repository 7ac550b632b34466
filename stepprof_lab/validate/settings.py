"""The switches of the process that a step obeys: read, put back, and told in words.

Threads, precision, gradients, autocast and the rest belong to the process, not to an arm. What one arm switches would
be timed in the other too, and would stay on after the comparison; so each arm has its own while the arms take turns,
as it has its own random numbers.
"""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stepprof_lab.devices import import_torch


@dataclasses.dataclass(frozen=True)
class Switch:
    """One setting of the process.

    Args:
        name: in words, as it stands in a reason.
        read: its value; raises where this system or this build of torch has no such setting.
        put: sets it; None where it cannot be taken back.
        secret: whether its values may be private and stay out of every text.
    """

    name: str
    read: Callable[[], Any]
    put: Callable[[Any], object] | None
    secret: bool = False


@dataclasses.dataclass(frozen=True)
class Settings:
    """The values of all switches at one moment, by name."""

    values: Mapping[str, Any]

    @classmethod
    def now(cls) -> Settings:
        """Read every switch that this system has."""
        found = {}
        for switch in _switches():
            value = _read(switch)
            if value is not _ABSENT:
                found[switch.name] = value
        return cls(found)

    def restore(self) -> None:
        """Put back every switch that stands elsewhere now; those that are right are not touched."""
        for switch in _switches():
            wanted = self.values.get(switch.name, _ABSENT)
            if switch.put is None or wanted is _ABSENT or _read(switch) == wanted:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an old name of a setting is still the one to put back
                switch.put(wanted)

    def changed_in(self, later: Settings) -> dict[str, Any]:
        """Switches that stand elsewhere in ``later``, with the value there; secrets without it."""
        secret = {switch.name for switch in _switches() if switch.secret}
        found: dict[str, Any] = {}
        for name, value in later.values.items():
            was = self.values.get(name, _ABSENT)
            if was is _ABSENT or was == value:
                continue
            if name in secret:
                found |= {f"{name} {os.fsdecode(key)}": "another value" for key in sorted(_keys_apart(was, value))}
            else:
                found[name] = value
        return found

    def with_values(self, names: set[str], later: Settings) -> Settings:
        """The same with the values that some switches, by the names of `changed_in`, have in ``later``."""
        values = dict(self.values)
        for name, value in later.values.items():
            if name in names:
                values[name] = value
            elif isinstance(value, Mapping):
                own = dict(values.get(name, {}))
                for key in _keys_apart(own, value):
                    if f"{name} {os.fsdecode(key)}" in names:
                        own.pop(key, None)
                        own |= {key: value[key]} if key in value else {}
                values[name] = own
        return Settings(values)


def stays_on(name: str) -> bool:
    """Whether a switch, by its name in words, cannot be put back once it was set."""
    return any(switch.name == name and switch.put is None for switch in _switches())


_ABSENT = object()


def _read(switch: Switch) -> Any:
    try:
        return switch.read()
    except Exception:  # absent in this build, or unreadable as it stands now: not observed
        return _ABSENT


def _keys_apart(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> set[Any]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


_all: list[Switch] = []


def _switches() -> list[Switch]:
    """All switches, torch's only where it can be imported; made once."""
    if not _all:
        torch = import_torch()
        _all.extend([*_of_process(), *([] if torch is None else _of_torch(torch))])
    return _all


def _of_process() -> list[Switch]:
    return [
        Switch("automatic garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        Switch("garbage collection thresholds", gc.get_threshold, lambda three: gc.set_threshold(*three)),
        Switch("numpy error handling", np.geterr, lambda how: np.seterr(**how)),
        Switch(
            "start method of processes",
            lambda: multiprocessing.get_start_method(allow_none=True),
            lambda how: multiprocessing.set_start_method(how, force=True),
        ),
        Switch(
            "processors allowed",
            lambda: sorted(os.sched_getaffinity(0)),
            lambda which: os.sched_setaffinity(0, which),
        ),
        Switch("flushing of denormal numbers", _flushes_denormals, _flush_denormals),
        Switch("environment variable", _environment, _set_environment, secret=True),
    ]


def _of_torch(torch: Any) -> list[Switch]:
    backends, c = torch.backends, torch._C  # noqa: SLF001 - some switches have no public name
    return [
        Switch("torch threads", torch.get_num_threads, torch.set_num_threads),
        Switch("torch threads between operators", torch.get_num_interop_threads, None),
        Switch("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Switch("default device", lambda: _default_device(torch), torch.set_default_device),
        Switch("current GPU", _when_started(torch, torch.cuda.current_device), torch.cuda.set_device),
        Switch("current stream", _when_started(torch, torch.cuda.current_stream), torch.cuda.set_stream),
        Switch("gradients", torch.is_grad_enabled, torch.set_grad_enabled),
        Switch("inference mode", torch.is_inference_mode_enabled, None),
        Switch("anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        Switch(
            "deterministic algorithms",
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            lambda two: torch.use_deterministic_algorithms(two[0], warn_only=two[1]),
        ),
        *_autocast(torch),
        # The name of the whole first: it sets the ones below, which are then put right one by one.
        Switch("float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        _attribute("cuda.matmul.allow_tf32", backends.cuda.matmul, "allow_tf32"),
        _attribute("cudnn.allow_tf32", backends.cudnn, "allow_tf32"),
        *_precisions(c),
        *(
            _attribute(f"cuda.matmul.{name}", backends.cuda.matmul, name)
            for name in (
                "allow_fp16_reduced_precision_reduction",
                "allow_bf16_reduced_precision_reduction",
                "allow_fp16_accumulation",
            )
        ),
        *(_attribute(f"cudnn.{name}", backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")),
        _attribute("cudnn.benchmark_limit", backends.cudnn, "benchmark_limit"),
        _private("mkldnn", c, "_get_mkldnn_enabled", "_set_mkldnn_enabled"),
        *(
            Switch(
                f"{name} attention",
                getattr(backends.cuda, f"{name}_sdp_enabled", _no_such_switch),
                getattr(backends.cuda, f"enable_{name}_sdp", None),
            )
            for name in ("flash", "mem_efficient", "math", "cudnn")
        ),
        _private(
            "sharing of tensors between processes",
            torch.multiprocessing,
            "get_sharing_strategy",
            "set_sharing_strategy",
        ),
    ]


def _autocast(torch: Any) -> list[Switch]:
    found = [Switch("autocast cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)]
    for kind in ("cpu", "cuda", "xpu"):
        found += [
            _private(f"autocast on {kind}", torch, "is_autocast_enabled", "set_autocast_enabled", kind),
            _private(f"autocast dtype on {kind}", torch, "get_autocast_dtype", "set_autocast_dtype", kind),
        ]
    return found


def _precisions(c: Any) -> list[Switch]:
    """The float32 precisions of torch 2.9 and newer, the general ones first: the others inherit from them."""
    places = [
        ("generic", "all"),
        *((on, kind) for on in ("cuda", "mkldnn") for kind in ("all", "matmul", "conv", "rnn")),
    ]
    return [
        _private(
            f"float32 precision of {on} {kind}",
            c,
            "_get_fp32_precision_getter",
            "_set_fp32_precision_setter",
            on,
            kind,
        )
        for on, kind in places
    ]


def _private(name: str, owner: Any, read: str, put: str, *of: str) -> Switch:
    """A switch by the names of its functions, which not every build has."""
    return Switch(name, lambda: getattr(owner, read)(*of), lambda value: getattr(owner, put)(*of, value))


def _attribute(name: str, owner: Any, attribute: str) -> Switch:
    return Switch(name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value))


def _no_such_switch() -> Any:
    raise AttributeError


def _default_device(torch: Any) -> str | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)  # noqa: SLF001 - the public one allocates
    return None if context is None else str(context.device)


def _when_started(torch: Any, read: Callable[[], Any]) -> Callable[[], Any]:
    """Asking for a GPU's current device or stream would start CUDA where nobody uses it."""
    return lambda: read() if torch.cuda.is_initialized() else _no_such_switch()


def _flushes_denormals() -> bool:
    """Whether this thread makes 0 of numbers too small for full precision; torch sets it and does not tell it."""
    smallest = 2.0**-1022
    return smallest / 4 == 0.0


def _flush_denormals(on: bool) -> None:
    torch = import_torch()
    if torch is not None:
        torch.set_flush_denormal(on)


def _environment() -> dict[Any, Any]:
    """The environment as the system holds it: decoding every name would take longer than all other switches."""
    return dict(getattr(os.environ, "_data", os.environ))


def _set_environment(wanted: Mapping[Any, Any]) -> None:
    now = _environment()
    for name in now.keys() - wanted.keys():
        del os.environ[os.fsdecode(name)]
    for name, value in wanted.items():
        if now.get(name) != value:
            os.environ[os.fsdecode(name)] = os.fsdecode(value)
