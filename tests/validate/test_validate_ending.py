"""After the timed steps: an arm that stopped to work, turned to NaN or hands out stored results is no faster arm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepprof_lab.labels import Step
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.start import multiply

torch = pytest.importorskip("torch")

TOLERANCE = {"relative_tolerance": 1e-3, "absolute_tolerance": 1e-5, "reason": "sums in another order"}

STOPS = 12
"""More steps than the comparison of outputs does, fewer than any warm-up."""


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Callable[..., Validation]:
    def run(before: Any, after: Any, *, tolerant: bool = True, read: bool = False) -> Validation:
        asked = ask(read=read, **(TOLERANCE if tolerant else {}))
        return compare(before, after, asked, device=cpu, clock=world.clock, meter=meter, replicates=2)

    return run


def learner(
    world: Any, ms: float, wrong: Callable[[int, Any, Any], Any] | None = None, *, rounding: float = 0.0
) -> Any:
    """Two weights that learn; ``wrong(step number, weights, loss)`` may spoil them and gives what is returned."""

    def build(_device: str) -> Step:
        weights = {"one": np.ones(4), "two": np.ones(4)}
        numbers = itertools.count(1)

        def step() -> Any:
            number = next(numbers)
            world.now += ms / 1e3
            before = {name: weight.copy() for name, weight in weights.items()}
            for weight in weights.values():
                weight[:] = weight * (0.999 + rounding)
            loss = float(weights["one"][0])
            return loss if wrong is None else wrong(number, (weights, before), loss)

        return Step(step, state=weights, samples=1)

    return build


def refused(found: Validation) -> str:
    assert found.verdict == "not comparable"
    assert found.ratio is None
    return found.reasons[0]


def stops(number: int, weights: Any, loss: float) -> float:
    now, before = weights
    if number > STOPS:
        for name in now:
            now[name][:] = before[name]
        return float(before["one"][0])
    return loss


def nan_loss(number: int, _weights: Any, loss: float) -> float:
    return math.nan if number > STOPS else loss


def infinite_weight(number: int, weights: Any, loss: float) -> float:
    if number > STOPS:
        weights[0]["two"][1] = math.inf
    return loss


def stale_loss(number: int, _weights: Any, loss: float) -> float:
    return 0.5 * 0.999**STOPS if number > STOPS else loss


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (stops, "the state of arm after no longer changes, and that of arm before does (one)"),
        (nan_loss, "the returned value holds NaN in arm after alone"),
        (infinite_weight, "the state (two) holds an infinity in arm after alone"),
        (stale_loss, "arm after returns the same numbers again and again, and arm before does not"),
    ],
    ids=["stops", "nan", "infinity", "stale"],
)
def test_with_a_tolerance_a_broken_arm_is_not_faster(world: Any, judge: Any, wrong: Any, told: str, read: bool) -> None:
    broken = learner(world, 0.1, wrong, rounding=1e-8)
    assert told in refused(judge(learner(world, 2.0), broken, read=read))
    # The other way round too: the arm that is compared with must work as well.
    assert told.replace("after", "x").replace("before", "after").replace("x", "before") in refused(
        judge(broken, learner(world, 2.0), read=read)
    )


def test_nan_in_the_state_of_both_proves_nothing(world: Any, judge: Any) -> None:
    def both(number: int, weights: Any, loss: float) -> float:
        if number > STOPS:
            weights[0]["two"][1] = math.nan
        return loss

    found = judge(learner(world, 2.0, both), learner(world, 1.0, both, rounding=1e-8))
    assert "both arms hold NaN in the state (two): equal NaN prove nothing" in refused(found)


def test_drift_beyond_the_tolerance_is_told_with_its_size_and_not_judged(world: Any, judge: Any) -> None:
    found = judge(learner(world, 2.0), learner(world, 1.0, rounding=2e-5))
    assert found.verdict == "faster"
    end = found.outputs["after_timed_steps"]
    assert (end["agreement"], end["judged"]) == ("different", False)
    assert end["largest_relative_difference"] == pytest.approx(2e-5 * end["steps"], rel=0.1)
    told = next(one for one in found.reasons if "rounding differences grow" in one)
    assert f"after {end['steps']} steps the arms differ by more than the tolerance" in told
    assert "largest difference" in told
    assert "was judged over the first 5 steps and not there" in told


def test_what_stays_within_the_tolerance_is_judged_to_the_end(world: Any, judge: Any) -> None:
    found = judge(learner(world, 2.0), learner(world, 1.0, rounding=1e-9))
    end = found.outputs["after_timed_steps"]
    assert (found.verdict, end["agreement"], end["judged"]) == ("faster", "within tolerance", True)
    assert not any("tolerance" in one for one in found.reasons)


def test_a_part_that_stops_to_learn_is_told(world: Any, judge: Any) -> None:
    def half(number: int, weights: Any, loss: float) -> float:
        if number > STOPS:
            weights[0]["two"][:] = weights[1]["two"]
        return loss

    found = judge(learner(world, 2.0), learner(world, 1.0, half, rounding=1e-8))
    assert any("two did not change in arm after and did in the other" in one for one in found.reasons)


def test_where_nothing_is_learned_the_tolerance_holds_to_the_end(world: Any, judge: Any) -> None:
    def answering(factor: Callable[[int], float]) -> Any:
        def build(_device: str) -> Step:
            numbers, weight = itertools.count(1), np.ones(3)

            def step() -> float:
                world.now += 0.002
                number = next(numbers)
                return float(weight[0]) * (1 + number % 3) * factor(number)

            return Step(step, state={"weight": weight})

        return build

    late = answering(lambda number: 1.01 if number > STOPS else 1 + 1e-7)
    told = refused(judge(answering(lambda _n: 1.0), late))
    assert "nothing is learned, so that rounding differences cannot have grown" in told
    assert judge(answering(lambda _n: 1.0), answering(lambda _n: 1 + 1e-7)).verdict == "equivalent"


def test_an_optimizer_in_one_kernel_that_stops_to_work_is_not_faster(cpu: Any, ask: Any) -> None:
    """The reviewers' own case: Adam before, fused Adam after, which stops after the steps that are compared."""

    def training(*, fused: bool) -> Any:
        def build(device: str) -> Step:
            model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(device)
            adam = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
            x, y = torch.randn(8, 16, device=device), torch.randint(4, (8,), device=device)
            numbers, last = itertools.count(1), None

            def step() -> Any:
                nonlocal last
                if fused and next(numbers) > STOPS:
                    return last
                adam.zero_grad(set_to_none=True)
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                adam.step()
                last = loss.detach()
                return last

            return Step(step, state={"model": model, "optimizer": adam})

        return build

    found = compare(
        training(fused=False), training(fused=True), ask(**TOLERANCE), device=cpu, replicates=2, budget_s=20
    )
    assert found.verdict == "not comparable"


# Stored results ------------------------------------------------------------------------------------------------


def serving(
    world: Any, ms: float, *, how: str = "honest", state: bool = True, inputs: int = 4
) -> Callable[[str], Step]:
    """A model that answers the same few requests again and again."""

    def build(_device: str) -> Step:
        model = torch.nn.Linear(3, 2)
        x = torch.randn(inputs, 5, 3)
        store: dict[int, Any] = {}
        buffer = torch.zeros(5, 2)
        numbers = itertools.count()

        @torch.no_grad()
        def step() -> Any:
            number = next(numbers) % inputs
            world.now += ms / 1e3
            if how == "once":
                return store.setdefault(0, model(x[0]))
            if how in ("stores", "copies"):
                if number not in store:
                    store[number] = model(x[number])
                return store[number] if how == "stores" else store[number].clone()
            if how == "buffer":  # as a CUDA graph does
                return buffer.copy_(model(x[number]))
            return model(x[0 if how == "same" else number])

        return Step(step, state={"model": model} if state else {})

    return build


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize(("honest", "how"), [("honest", "stores"), ("same", "once")])
def test_stored_results_are_no_faster_step(
    world: Any, judge: Any, honest: str, how: str, state: bool, read: bool
) -> None:
    found = judge(
        serving(world, 2.0, how=honest, state=state),
        serving(world, 0.01, how=how, state=state),
        tolerant=False,
        read=read,
    )
    told = refused(found)
    assert "arm after returns again what it returned earlier, without computing it" in told
    assert found.blocks == []  # found before anything is timed


@pytest.mark.parametrize("read", [False, True])
def test_a_store_of_many_inputs_is_found_too(world: Any, judge: Any, read: bool) -> None:
    """No result comes back while the outputs are compared; it does when the arm runs on."""
    found = judge(
        serving(world, 2.0, inputs=90, state=False),
        serving(world, 0.5, how="stores", inputs=90, state=False),
        tolerant=False,
        read=read,
    )
    assert "returns again what it returned earlier" in refused(found)


def test_one_buffer_for_all_results_is_no_store(world: Any, judge: Any) -> None:
    found = judge(serving(world, 2.0), serving(world, 1.0, how="buffer"), tolerant=False)
    assert found.verdict == "faster"
    assert not any("stored" in one for one in found.reasons)


def test_copies_of_stored_results_do_not_follow_the_state(world: Any, judge: Any) -> None:
    found = judge(serving(world, 2.0), serving(world, 1.0, how="copies"), tolerant=False)
    assert any(
        "their results no longer agreed: one of them may return results that it stored" in s for s in found.reasons
    )
    honest = judge(serving(world, 2.0), serving(world, 1.0), tolerant=False)
    assert not any("stored" in one for one in honest.reasons)


def test_a_store_in_both_arms_is_told(world: Any, judge: Any) -> None:
    found = judge(serving(world, 2.0, how="stores"), serving(world, 1.0, how="stores"), tolerant=False)
    assert "both arms return again what they returned earlier, without computing it" in found.reasons


def test_a_gain_that_is_too_good_is_asked_about(world: Any, judge: Any) -> None:
    found = judge(learner(world, 2.0), learner(world, 0.1), tolerant=False)
    assert any(one.startswith("after takes less than 0.1 of before's time: look whether") for one in found.reasons)
    assert not any("look whether" in one for one in judge(learner(world, 2.0), learner(world, 0.5)).reasons)


def test_memory_that_two_names_share_is_changed_once() -> None:
    shared = torch.ones(3)
    state = {"a": shared, "b": shared.detach(), "c": np.ones(2), "d": torch.ones(2, dtype=torch.int64), "e": 3.0}
    assert multiply(state, 2.0)
    assert shared.tolist() == [2.0] * 3
    assert state["c"].tolist() == [2.0, 2.0]  # type: ignore[union-attr]
    assert state["d"].tolist() == [1, 1]  # type: ignore[union-attr]
    assert not multiply({"n": 3.0, "i": torch.ones(2, dtype=torch.int64)}, 2.0)
