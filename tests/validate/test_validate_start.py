"""One starting state: seeds, random states, fingerprints, and memory that is not shared."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stepprof_lab.validate.start import (
    RandomStates,
    advice_on,
    derived_seed,
    difference_in_words,
    differing,
    fingerprint,
    held_state,
    not_comparable,
    random_states_kept,
    shared_names,
    sow,
)

torch = pytest.importorskip("torch")


def draws() -> tuple[Any, ...]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def net(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def test_seeds_are_the_same_for_the_same_purpose_only() -> None:
    assert derived_seed(1, "build", 2) == derived_seed(1, "build", 2)
    assert len({derived_seed(s, p, r) for s in (0, 1) for p in ("build", "steps") for r in range(50)}) == 200
    assert 0 <= derived_seed(2**63 - 1, "build", -1) < 2**63


def test_all_generators_follow_the_seed() -> None:
    with random_states_kept("cpu"):
        sow(5)
        first = draws()
        sow(5)
        assert draws() == first
        sow(6)
        assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_random_states_are_put_back() -> None:
    with random_states_kept("cpu"):
        states = RandomStates.now()
        first = draws()
        states.restore()
        assert draws() == first


def test_the_callers_random_numbers_are_left_as_they_were() -> None:
    before = RandomStates.now()
    with random_states_kept("cpu"):
        sow(1)
        draws()
    expected = draws()
    before.restore()
    assert draws() == expected


def test_equal_models_have_equal_fingerprints_and_one_changed_bit_shows() -> None:
    one, other = {"model": net()}, {"model": net()}
    assert differing(fingerprint(one), fingerprint(other)) == []
    with torch.no_grad():
        other["model"][2].weight.view(torch.int32)[0, 1] ^= 1
    assert differing(fingerprint(one), fingerprint(other)) == ["model.2.weight"]


def test_buffers_optimizers_and_numbers_belong_to_the_fingerprint() -> None:
    def state(lr: float = 0.1, running: float = 0.0, epoch: int = 0) -> dict[str, Any]:
        model = net()
        model[1].running_mean += running
        return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=lr), "epoch": epoch}

    base = fingerprint(state())
    assert differing(base, fingerprint(state(running=1.0))) == ["model.1.running_mean"]
    assert differing(base, fingerprint(state(lr=0.2))) == ["optimizer.param_groups.0.lr"]
    assert differing(base, fingerprint(state(epoch=1))) == ["epoch"]


def test_how_an_optimizer_computes_is_no_difference_of_state() -> None:
    def state(**how: bool) -> dict[str, Any]:
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), **how)
        model(torch.ones(5, 3)).sum().backward()
        return {"model": model, "optimizer": optimizer}

    assert differing(fingerprint(state(foreach=True)), fingerprint(state(foreach=False))) == []


def test_the_prefix_of_a_compiled_model_is_no_difference() -> None:
    class Compiled:
        def state_dict(self) -> dict[str, Any]:
            return {f"_orig_mod.{name}": value for name, value in net().state_dict().items()}

    assert differing(fingerprint({"model": net()}), fingerprint({"model": Compiled()})) == []


def test_a_memory_format_is_no_difference_and_a_type_is() -> None:
    image = torch.arange(120.0).reshape(2, 3, 4, 5)
    last = image.to(memory_format=torch.channels_last)
    assert last.stride() != image.stride()
    assert fingerprint({"x": image}) == fingerprint({"x": last})
    half = fingerprint({"x": image.bfloat16()})
    names = differing(fingerprint({"x": image}), half)
    told = difference_in_words(names, fingerprint({"x": image}), half)
    assert told == "x (float32 of shape 2x3x4x5 before, bfloat16 of shape 2x3x4x5 after)"


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(3.0),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.tensor([1.5], dtype=torch.bfloat16),
        torch.tensor([1, 2], dtype=torch.uint8),
        torch.zeros(0, 3),
        torch.eye(3).to_sparse(),
        torch.tensor([1 + 2j]).conj(),
        np.float32(2.0),
        np.arange(6).reshape(2, 3).T,
        b"bytes",
        None,
        "text",
    ],
    ids=repr,
)
def test_every_kind_of_value_has_a_fingerprint(value: Any) -> None:
    assert list(fingerprint({"v": value})) == ["v"]
    assert held_state({"v": value})


def test_what_cannot_be_compared_is_named() -> None:
    state = {"model": net(), "loader": object(), "meta": torch.empty(2, device="meta")}
    assert not_comparable(state) == ["loader", "meta"]
    assert not any(name.startswith(("loader", "meta")) for name in fingerprint(state))


def test_names_on_one_side_only_are_differences() -> None:
    before, after = fingerprint({"a": 1, "b": 2, "c": 3, "d": 4}), fingerprint({"e": 1})
    names = differing(before, after)
    assert names == ["a", "b", "c", "d", "e"]
    told = difference_in_words(names, before, after)
    assert told == "a (only in before), b (only in before), c (only in before) and 2 more"


def test_memory_that_both_use_is_found() -> None:
    model = net()
    assert shared_names({"model": model}, {"model": net()}) == []
    assert shared_names({"model": model}, {"net": model})[0] == "net.0.bias"
    tensor = torch.arange(6.0)
    assert shared_names({"a": tensor}, {"b": tensor[2:4]}) == ["b"]
    assert shared_names({"a": torch.zeros(0)}, {"b": torch.zeros(0)}) == []


def test_a_held_state_does_not_follow_later_steps() -> None:
    model = net()
    held = held_state({"model": model})
    with torch.no_grad():
        model[0].bias += 1
    assert not torch.equal(held["model.0.bias"], model[0].bias)


def advice(before: dict[str, Any], after: dict[str, Any]) -> str:
    one, other = fingerprint(before), fingerprint(after)
    return advice_on(differing(one, other), one, other)


def trained(lr: float = 0.1, seed: int = 0, **more: Any) -> dict[str, Any]:
    model = net(seed)
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=lr), **more}


def test_the_advice_fits_the_difference() -> None:
    setting = advice(trained(), trained(lr=0.2))
    assert setting.startswith("give both the same settings (optimizer.param_groups.0.lr)")
    assert "random numbers" not in setting
    assert advice(trained(epoch=1), trained(epoch=2)).startswith("give both the same settings (epoch)")
    drawn = advice(trained(), trained(seed=1))
    assert drawn.startswith("both are built from the same random numbers, so make the model first in both")
    other = advice(trained(), {"model": torch.nn.Linear(3, 2)})
    assert other.startswith("give both the same model and optimizer")
    assert "random numbers" not in other
    both = advice(trained(), trained(lr=0.2, seed=1))
    assert "the same settings" in both
    assert "random numbers" in both
