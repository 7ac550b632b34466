"""What can be seen of a step's conditions while it runs, and where that contradicts what was stated.

What could not be seen is left out: a missing key says "not observed".
"""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepprof_lab.labels import Step
    from stepprof_lab.scenario import Scenario

_DTYPE_WORDS = {
    "fp32": "float32",
    "single": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}
_KNOWN_DTYPES = {"float64", "float32", "float16", "bfloat16"}


@contextlib.contextmanager
def observing(step: Step | None = None) -> Iterator[dict[str, Any]]:
    """See one or a few unprofiled steps: the yielded dict fills as they run and is complete at the end.

    Keys, each only where it was seen: ``shapes`` and ``batch`` of the model's inputs, ``precision``, ``mode``,
    ``compiled``, ``device`` of the parameters, ``forward_calls`` (of the model, in all the steps seen), ``backward``
    and ``update`` (whether one ran), ``samples`` (as the step states them).

    The model is the first ``torch.nn.Module`` of the step's state; without one, the first module that is called. Hooks
    that would make a compiled model compile again are not set: its inputs are then not observed. All hooks are removed
    at the end, whatever happens.

    Args:
        step: the step whose state is looked at; None for a loop that was not handed over as a `Step`.
    """
    seen: dict[str, Any] = {}
    if step is not None and step.samples is not None:
        seen["samples"] = step.samples
    models = _modules(step.state if step is not None else {})
    with contextlib.ExitStack() as hooks:
        watcher = _Watcher(seen)
        _watch_forward(models, watcher, hooks)
        _watch_update(watcher, hooks)
        _watch_backward(watcher, hooks)
        try:
            yield seen
        finally:
            model = watcher.model if watcher.model is not None else (models[0] if models else None)
            if model is not None:
                _describe(model, seen)


class _Watcher:
    """What the hooks tell."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.seen = seen
        self.model: Any = None

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.model is None:
            self.model = module
            self._first_call(module, [*args, *kwargs.values()])
        if module is self.model:
            self.seen["forward_calls"] = self.seen.get("forward_calls", 0) + 1

    def _first_call(self, module: Any, inputs: list[Any]) -> None:
        self.seen["mode"] = "train" if module.training else "eval"
        tensors = list(_tensors(inputs))
        if tensors:
            self.seen["shapes"] = ["x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors]
            if tensors[0].dim():
                self.seen["batch"] = int(tensors[0].shape[0])
        if (mixed := _autocast(module, tensors)) is not None:
            self.seen["precision"] = mixed


def _watch_forward(models: list[Any], watcher: _Watcher, hooks: contextlib.ExitStack) -> None:
    for model in models:
        if not _compiled_in_place(model):
            hooks.callback(model.register_forward_pre_hook(watcher.forward, with_kwargs=True).remove)
    if models or _anything_compiled():
        return
    import torch

    def first_module(module: Any, args: tuple[Any, ...]) -> None:
        watcher.forward(module, args, {})

    hooks.callback(torch.nn.modules.module.register_module_forward_pre_hook(first_module).remove)


def _watch_update(watcher: _Watcher, hooks: contextlib.ExitStack) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    watcher.seen["update"] = False

    def updated(*_: Any) -> None:
        watcher.seen["update"] = True

    hooks.callback(register_optimizer_step_post_hook(updated).remove)


def _watch_backward(watcher: _Watcher, hooks: contextlib.ExitStack) -> None:
    """``Tensor.backward`` calls ``torch.autograd.backward``; torch has no hook for "a backward pass ran"."""
    import torch

    watcher.seen["backward"] = False
    backward: Callable[..., Any] = torch.autograd.backward

    def noted(*args: Any, **kwargs: Any) -> Any:
        watcher.seen["backward"] = True
        return backward(*args, **kwargs)

    hooks.callback(setattr, torch.autograd, "backward", backward)
    torch.autograd.backward = noted


def _describe(model: Any, seen: dict[str, Any]) -> None:
    """What a model tells without running."""
    seen.setdefault("mode", "train" if model.training else "eval")
    seen["compiled"] = _is_compiled(model)
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    if parameter is not None:
        seen["device"] = str(parameter.device)
        seen.setdefault("precision", _dtype_word(parameter.dtype))


def _modules(state: Mapping[str, Any]) -> list[Any]:
    import torch

    return [value for value in state.values() if isinstance(value, torch.nn.Module)]


def _tensors(values: list[Any]) -> Iterator[Any]:
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(list(value))
        elif isinstance(value, dict):
            yield from _tensors(list(value.values()))


def _autocast(module: Any, tensors: list[Any]) -> str | None:
    """Autocast's type ("mixed bfloat16") where it is on for the device that the model computes on."""
    import torch

    where = next((value.device.type for value in [*module.parameters(), *tensors]), "cpu")
    if not torch.is_autocast_enabled(where):
        return None
    return f"mixed {_dtype_word(torch.get_autocast_dtype(where))}"


def _dtype_word(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _compiled_in_place(model: Any) -> bool:
    return getattr(model, "_compiled_call_impl", None) is not None


def _is_compiled(model: Any) -> bool:
    """Whether the model, or a part of it, was compiled; a compiled function around it is not seen here."""
    dynamo = sys.modules.get("torch._dynamo")
    wrapper = getattr(getattr(dynamo, "eval_frame", None), "OptimizedModule", None)
    return any(
        _compiled_in_place(part) or (wrapper is not None and isinstance(part, wrapper)) for part in model.modules()
    )


def _anything_compiled() -> bool:
    """Whether anything was compiled in this process: a hook on every module would make it compile again."""
    dynamo = sys.modules.get("torch._dynamo")
    counters = getattr(getattr(dynamo, "utils", None), "counters", {})
    return bool(counters.get("frames") or counters.get("stats"))


def contradictions(scenario: Scenario, observed: Mapping[str, Any]) -> list[str]:
    """Where the scenario states one thing and another was seen, one sentence each; what was not seen is left out."""
    stated, found = scenario.conditions, []
    for name in ("mode", "compiled", "loader_workers"):
        said = getattr(stated, name)
        if said is not None and name in observed and observed[name] != said:
            found.append(f"the scenario says {name} = {_word(said)}, seen was {_word(observed[name])}")
    found += _precision(stated.precision, observed.get("precision"))
    found += _batch(stated.batch, observed)
    found += _shapes(stated.shapes, observed.get("shapes"))
    for name, what in (("backward", "a backward pass"), ("update", "an optimizer's update")):
        inside = getattr(scenario.boundary, name)
        if name in observed and observed[name] != inside:
            found.append(
                f"the boundary says {name} = {_word(inside)}, {what} {'ran' if observed[name] else 'did not run'}"
                " in the step that was looked at"
            )
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _precision(said: str | None, seen: str | None) -> list[str]:
    """Compared only where both are understood: a scenario may describe its precision in any words."""
    if said is None or seen is None or _precision_key(said) is None or _precision_key(said) == _precision_key(seen):
        return []
    return [f"the scenario says precision = {said}, seen was {seen}"]


def _precision_key(text: str) -> tuple[bool, str] | None:
    words = [_DTYPE_WORDS.get(word, word) for word in re.findall(r"[a-z]+\d*", text.lower())]
    kinds = [word for word in words if word in _KNOWN_DTYPES]
    if len(set(kinds)) != 1:
        return None
    return (bool({"mixed", "amp", "autocast"} & set(words)), kinds[0])


def _batch(said: int | None, observed: Mapping[str, Any]) -> list[str]:
    if said is None or "batch" not in observed:
        return []
    # Several micro-batches are one step, so that either number may be meant.
    seen = observed["batch"]
    if said in (seen, seen * observed.get("forward_calls", 1), observed.get("samples")):
        return []
    return [f"the scenario says batch = {said}, the model's input had {seen}"]


def _shapes(said: list[str], seen: list[str] | None) -> list[str]:
    stated = [_numbers(text) for text in said]
    if not seen or not stated or not all(stated):
        return []
    strange = [shape for shape in seen if _numbers(shape) and _numbers(shape) not in stated]
    return (
        [f"the scenario says shapes = {', '.join(said)}, the model's input had {', '.join(strange)}"] if strange else []
    )


def _numbers(text: str) -> list[str]:
    # Words such as "float32" or "images" say more than the shape does.
    return re.findall(r"\d+", re.sub(r"[A-Za-z]{2,}\d*", " ", text))
