"""What is seen of a step's conditions, and where it contradicts what was stated."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="steps need torch")

from stepprof_lab.capturing.observe import contradictions, observing  # noqa: E402
from stepprof_lab.labels import Step  # noqa: E402
from stepprof_lab.scenario import Boundary, Conditions, Scenario  # noqa: E402


def training_step(*, micro_batches: int = 1, autocast: bool = False) -> Step:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(micro_batches):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = model(torch.ones(8, 4)).float().sum()
            loss.backward()
        optimizer.step()

    return Step(step, state={"model": model, "optimizer": optimizer}, samples=8 * micro_batches)


def hooks_left() -> int:
    from torch.nn.modules import module
    from torch.optim import optimizer

    return len(module._global_forward_pre_hooks) + len(optimizer._global_optimizer_post_hooks)


def test_a_training_step_is_seen() -> None:
    step = training_step()
    with observing(step) as seen:
        step.run()
    assert seen == {
        "samples": 8,
        "shapes": ["8x4"],
        "batch": 8,
        "forward_calls": 1,
        "mode": "train",
        "precision": "float32",
        "compiled": False,
        "device": "cpu",
        "backward": True,
        "update": True,
    }


def test_inference_in_eval_mode_has_no_backward_and_no_update() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).eval()

    @torch.inference_mode()
    def step() -> Any:
        return model(torch.ones(1, 4))

    with observing(Step(step, state={"model": model})) as seen:
        step()
    assert (seen["mode"], seen["backward"], seen["update"], seen["batch"]) == ("eval", False, False, 1)
    assert seen["forward_calls"] == 1


def test_a_loop_that_hands_over_no_state_is_seen_by_the_first_module_that_is_called() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).double()
    with observing() as seen:
        model(torch.ones(3, 4, dtype=torch.float64))
    assert (seen["shapes"], seen["precision"], seen["forward_calls"]) == (["3x4"], "float64", 1)


def test_autocast_and_micro_batches_are_seen() -> None:
    step = training_step(micro_batches=4, autocast=True)
    with observing(step) as seen:
        step.run()
    assert (seen["precision"], seen["forward_calls"], seen["batch"], seen["samples"]) == ("mixed bfloat16", 4, 8, 32)


def test_inputs_given_by_name_and_inside_containers_are_seen() -> None:
    class Model(torch.nn.Module):
        def forward(self, images: Any, *, parts: Any) -> Any:
            return images

    model = Model()
    with observing(Step(lambda: model(torch.ones(2, 3), parts={"a": [torch.tensor(1.0)]}), {"m": model})) as seen:
        model(torch.ones(2, 3), parts={"a": [torch.tensor(1.0)]})
    assert seen["shapes"] == ["2x3", "scalar"]
    assert "device" not in seen, "a model without parameters has no device of its own"


def test_a_step_that_does_nothing_is_not_described() -> None:
    with observing(Step(lambda: None)) as seen:
        pass
    assert seen == {"update": False, "backward": False}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_hooks_are_removed_whatever_happens(error: type[BaseException]) -> None:
    before, backward, step = hooks_left(), torch.autograd.backward, training_step()
    with pytest.raises(error), observing(step):
        raise error
    with pytest.raises(error), observing():
        raise error
    assert hooks_left() == before
    assert torch.autograd.backward is backward
    assert not step.state["model"]._forward_pre_hooks


def test_a_compiled_model_is_seen_and_not_compiled_again() -> None:
    compiled = 0

    def backend(graph: Any, _inputs: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return graph.forward

    torch._dynamo.reset()
    model = torch.nn.Linear(4, 2).eval()
    wrapper = torch.compile(model, backend=backend)
    in_place = torch.nn.Linear(4, 2).eval()
    in_place.compile(backend=backend)
    with torch.no_grad():
        for subject in (wrapper, in_place):
            for _ in range(2):
                subject(torch.ones(8, 4))
        before = compiled
        with observing(Step(lambda: wrapper(torch.ones(8, 4)), {"model": wrapper})) as seen_wrapper:
            wrapper(torch.ones(8, 4))
        with observing(Step(lambda: in_place(torch.ones(8, 4)), {"model": in_place})) as seen_in_place:
            in_place(torch.ones(8, 4))
        with observing() as seen_loop:
            wrapper(torch.ones(8, 4))
        wrapper(torch.ones(8, 4))
        in_place(torch.ones(8, 4))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    assert compiled == before > 0
    assert (seen_wrapper["compiled"], seen_wrapper["shapes"]) == (True, ["8x4"])
    assert seen_in_place["compiled"] is True
    assert "shapes" not in seen_in_place
    assert "shapes" not in seen_loop


def scenario(**conditions: Any) -> Scenario:
    boundary = Boundary(read=True, transfer=True, forward=True, backward=True, update=True, model_load=False)
    return Scenario(
        question="q?", kind="training", boundary=boundary, unit="ms/step", conditions=Conditions(**conditions)
    )


SEEN = {
    "mode": "train",
    "compiled": False,
    "loader_workers": 4,
    "precision": "mixed bfloat16",
    "batch": 8,
    "forward_calls": 4,
    "samples": 30,
    "shapes": ["8x3x32x32"],
    "backward": True,
    "update": True,
}


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"mode": "eval"}, "the scenario says mode = eval, seen was train"),
        ({"compiled": True}, "the scenario says compiled = true, seen was false"),
        ({"loader_workers": 0}, "the scenario says loader_workers = 0, seen was 4"),
        ({"precision": "float32"}, "the scenario says precision = float32, seen was mixed bfloat16"),
        ({"precision": "bf16"}, "the scenario says precision = bf16, seen was mixed bfloat16"),
        ({"batch": 16}, "the scenario says batch = 16, the model's input had 8"),
        ({"shapes": ["8x1x32x32"]}, "the scenario says shapes = 8x1x32x32, the model's input had 8x3x32x32"),
    ],
)
def test_each_contradiction_is_one_sentence(stated: dict[str, Any], said: str) -> None:
    assert contradictions(scenario(**stated), SEEN) == [said]


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"mode": "train", "compiled": False, "loader_workers": 4},
        {"precision": "AMP (bf16)"},
        {"precision": "as the paper has it"},
        {"batch": 8},
        {"batch": 32},
        {"batch": 30},
        {"shapes": ["(8, 3, 32, 32)", "8"]},
        {"shapes": ["images 8x3x32x32 float32"]},
        {"shapes": ["images of any size"]},
    ],
)
def test_what_agrees_or_cannot_be_compared_is_no_contradiction(stated: dict[str, Any]) -> None:
    assert contradictions(scenario(**stated), SEEN) == []


def test_what_was_not_seen_contradicts_nothing() -> None:
    assert contradictions(scenario(mode="eval", batch=3, precision="float16", shapes=["1"]), {}) == []


def test_a_boundary_that_the_step_does_not_keep_is_said() -> None:
    assert contradictions(scenario(), {"backward": False, "update": True}) == [
        "the boundary says backward = true, a backward pass did not run in the step that was looked at"
    ]
