"""The demo's two arms differ in nothing but when images are decoded; the service answers as it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stepprof_lab import scenario
from stepprof_lab.demo import digits, run, service


def test_the_images_are_real_files_and_hold_the_digits() -> None:
    files = digits.image_files()
    assert len(files) == 1797
    assert {digit for _, digit in files} == set(range(10))
    assert Path(files[0][0]).read_bytes().startswith(b"\x89PNG")
    pixels, digit = digits.DigitFiles()[0]
    assert pixels.shape == (1, digits.SIZE, digits.SIZE)
    assert 0 <= pixels.min() < pixels.max() <= 1
    assert digit.item() == files[0][1]


def test_both_arms_get_the_same_batches_over_more_than_an_epoch() -> None:
    before = digits.endless(digits.make_loader())
    after = digits.endless(list(digits.make_loader()))
    for _ in range(len(digits.make_loader()) + 2):
        (x, y), (x_ready, y_ready) = next(before), next(after)
        assert torch.equal(x, x_ready)
        assert torch.equal(y, y_ready)


@pytest.mark.slow
def test_both_arms_train_to_the_same_loss_and_learn() -> None:
    losses = []
    for build in (digits.build, digits.build_ready):
        torch.manual_seed(1)
        step = build("cpu")
        losses.append([step.run().item() for _ in range(40)])
    assert losses[0] == losses[1]
    assert sum(losses[0][-5:]) < sum(losses[0][:5])


def test_one_request_is_one_image_and_changes_nothing() -> None:
    step = service.build("cpu")
    before = {name: value.clone() for name, value in step.state["model"].state_dict().items()}
    scores = step.run()
    assert scores.shape == (1, 10)
    assert not scores.requires_grad
    assert step.samples == 1
    assert all(torch.equal(value, before[name]) for name, value in step.state["model"].state_dict().items())


@pytest.mark.parametrize("name", ["digits.toml", "service.toml"])
def test_the_scenarios_that_ship_are_valid_and_name_their_question(name: str) -> None:
    asked = scenario.load(run.HERE / name)
    assert asked.question.endswith("?")
    assert asked.conditions.differs_from_full_load


def test_the_demo_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run.NEEDED, "no_such_module_here", "no-such-package")
    with pytest.raises(Exception, match=r"no-such-package.*extra 'demo'"):
        run.demand_packages()
