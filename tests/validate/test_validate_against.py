"""Two results side by side only where they are of the same thing; a kept result follows from its raw values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stepprof_lab.errors import AnswerIsNo, StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.scenario import Outputs, Scenario
from stepprof_lab.validate import compare, fingerprint, identity
from stepprof_lab.validate.against import beside, side_by_side
from stepprof_lab.validate.calibrate import summed_up
from stepprof_lab.validate.keep import again, keep, load
from stepprof_lab.validate.model import Trial, Validation
from tests.conftest import Said

Run = Callable[..., Said]
NAMES = ("this result", "other.json")


@pytest.fixture
def measured(world: Any, cpu: Any, meter: Any, ask: Callable[..., Scenario]) -> Callable[..., Validation]:
    def run(ms: float = 1.0, **outputs: Any) -> Validation:
        arms = (world.arm(world.noisy(2.0, 0.02, 1)), world.arm(world.noisy(ms, 0.02, 2)))
        return compare(*arms, ask(**outputs), device=cpu, clock=world.clock, meter=meter, replicates=3)

    return run


def elsewhere(found: Validation, **changes: Any) -> Validation:
    """The same on a machine with another processor."""
    assert found.environment is not None
    environment = msgspec.structs.replace(found.environment, cpu="another processor")
    return msgspec.structs.replace(found, environment=environment, **changes)


def test_the_same_thing_on_two_machines_stands_side_by_side(measured: Callable[..., Validation]) -> None:
    own, other = measured(1.0), elsewhere(measured(1.0))
    found = side_by_side(own, other, NAMES)
    assert [machine.name for machine in found.machines] == list(NAMES)
    assert [machine.ratio for machine in found.machines] == [own.ratio, other.ratio]
    assert [machine.arms for machine in found.machines] == [own.arms, other.arms]
    assert found.machines[1].environment.cpu == "another processor"
    assert found.differences == [f"cpu: {own.environment.cpu} and another processor"]  # type: ignore[union-attr]
    assert found.intervals_overlap
    assert "overlap" in found.reasons[0]
    assert "no proof that it does the same" in found.reasons[0]


@pytest.mark.slow
def test_intervals_that_do_not_overlap_are_told(measured: Callable[..., Validation]) -> None:
    found = side_by_side(measured(1.0), elsewhere(measured(1.9)), NAMES)
    assert not found.intervals_overlap
    assert "do not overlap" in found.reasons[0]
    other = side_by_side(measured(1.0), elsewhere(measured(2.4)), NAMES)
    assert "the verdict is 'faster' in this result and 'slower' in other.json" in other.reasons


def test_two_results_of_one_machine_are_told(measured: Callable[..., Validation]) -> None:
    found = side_by_side(measured(1.0), measured(1.0), NAMES)
    assert found.differences == []
    assert "nothing tells the two machines apart" in found.reasons[-1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scenario": "seed"}, "scenario: seed: 3 and 4"),
        ({"scenario": "batch"}, "scenario: conditions.batch: not known and 32"),
        ({"design": "whole arms in random order"}, "design: blocks in random pairs and whole arms in random order"),
        ({"margin": 0.05}, "margin: 0.01 and 0.05"),
        ({"settings": {"before": {"torch threads": 1}}}, "settings: before.torch threads: not known and 1"),
        ({"made_from": {}}, "arms: before.name: conftest.py:World.arm.<locals>.build and not known"),
        ({"scenario": None}, "the second does not say what it was measured from"),
        ({"verdict": "not comparable", "ratio": None, "interval": None}, "the second has no ratio: not comparable"),
    ],
)
def test_what_is_not_the_same_is_refused(measured: Callable[..., Validation], change: Any, told: str) -> None:
    own = measured()
    assert own.scenario is not None
    if change.get("scenario") == "seed":
        change = {"scenario": msgspec.structs.replace(own.scenario, seed=4)}
    elif change.get("scenario") == "batch":
        conditions = msgspec.structs.replace(own.scenario.conditions, batch=32)
        change = {"scenario": msgspec.structs.replace(own.scenario, conditions=conditions)}
    with pytest.raises(AnswerIsNo) as error:
        side_by_side(own, elsewhere(own, **change), NAMES)
    assert told in str(error.value)
    assert error.value.exit_code == 4
    shown, refused = beside(own, elsewhere(own, **change), NAMES)
    assert shown is own
    assert refused is not None


@pytest.mark.slow
def test_other_outputs_are_refused_unless_the_scenario_allows_them(measured: Callable[..., Validation]) -> None:
    tolerance = {"relative_tolerance": 1e-5, "reason": "machines round differently"}
    for outputs, factor, agrees in (({}, 1 + 1e-9, False), (tolerance, 1 + 1e-9, True), (tolerance, 1.01, False)):
        own = measured(**outputs)
        prints = json.loads(json.dumps(own.outputs["fingerprint"]))
        for one in [*prints["returned"], prints["state"]]:
            one["sha256"] = "0"
            one["values"] = [value * factor for value in one["values"]]
        other = elsewhere(own, outputs={**own.outputs, "fingerprint": prints})
        _, refused = beside(own, other, NAMES)
        assert (refused is None) == agrees
        if refused is not None:
            assert "outputs: the value that step 1 returned (" in str(refused)
            assert "tolerance" in str(refused)


# Fingerprints and identities -----------------------------------------------------------------------------------


def test_a_fingerprint_is_equal_where_the_answer_is() -> None:
    one = fingerprint.of_leaves({"loss": np.float32(0.5), "out": np.arange(100.0)})
    assert one == fingerprint.of_leaves({"out": np.arange(100.0), "loss": np.float32(0.5)})
    assert one["sha256"] != fingerprint.of_leaves({"loss": np.float64(0.5), "out": np.arange(100.0)})["sha256"]
    assert one["values"] == [0.5, 0.0, 33.0, 66.0, 99.0]
    many = fingerprint.of_leaves({f"w{n:02}": np.full(4, n) for n in range(50)})
    assert len(many["values"]) <= fingerprint.MOST_VALUES


def test_what_is_no_number_has_a_digest_and_no_value() -> None:
    assert fingerprint.of_leaves({"a": "text", "b": np.nan, "c": 3 + 4j})["values"] == [None, 5.0]
    assert fingerprint.of_leaves({})["values"] == []
    text = fingerprint.of_leaves({"b": np.array([np.inf, 1.0])})
    assert msgspec.json.decode(msgspec.json.encode(text)) == text


def test_differences_that_the_kept_numbers_do_not_show_are_told() -> None:
    one, other = ({"returned": [fingerprint.of_leaves({"x": x})], "state": fingerprint.of_leaves({})} for x in "ab")
    assert fingerprint.difference(one, one, Outputs()) is None
    assert fingerprint.difference(one, other, Outputs()) == (
        "the value that step 1 returned (in numbers that are not kept)"
    )
    assert fingerprint.difference(one, {**one, "returned": []}, Outputs()) == "1 and 0 steps were compared"


def test_an_arm_is_known_by_its_file_and_function(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text("x = 1\n", encoding="utf-8")
    first = identity.arm_from(f"{path}:build_fast")
    assert first.name == "loop.py:build_fast"
    assert str(tmp_path) not in first.name
    path.write_text("x = 2\n", encoding="utf-8")
    assert identity.arm_from(f"{path}:build_fast").sha256 != first.sha256 is not None
    assert identity.arm_from(str(tmp_path / "none.py")).sha256 is None

    def build(device: str) -> Step:
        raise AssertionError(device)

    mine = identity.arm_from(build)
    assert mine.name.startswith("test_validate_against.py:test_an_arm_is_known")
    assert mine.sha256 is not None

    class Called:
        def __call__(self, device: str) -> Step:
            raise AssertionError(device)

    assert identity.arm_from(Called()).sha256 is None


# A kept result -------------------------------------------------------------------------------------------------


def edited(path: Path, **changes: Any) -> Path:
    whole = json.loads(path.read_bytes())
    path.write_text(json.dumps({**whole, **changes}), encoding="utf-8")
    return path


def test_a_kept_result_is_the_same_again(measured: Callable[..., Validation], tmp_path: Path) -> None:
    found = measured()
    partial = tmp_path / "a.partial.json"
    partial.write_text("{}", encoding="utf-8")
    kept = keep(found, tmp_path / "a.json", instead_of=partial)
    assert again(kept) == load(kept) == found
    assert not partial.exists()
    with pytest.raises(StepprofError, match="exists already"):
        keep(found, kept)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"verdict": "slower"}, "the file says 'slower', the raw values say 'faster'"),
        ({"ratio": 0.25}, "ratio: the file says 0.25, the raw values 0.5"),
        ({"interval": [0.1, 0.6]}, "lower end: the file says 0.1"),
        ({"interval": None}, "lower end: the file says None"),
        ({"margin": 0.7}, "the file says 'faster', the raw values say 'equivalent'"),
        ({"blocks": []}, "0 whole replicates"),
        ({"design": "another"}, "design 'another'"),
        ({"verdict": "not comparable"}, "'not comparable' has no ratio"),
    ],
)
def test_a_file_that_was_edited_is_told(
    measured: Callable[..., Validation], tmp_path: Path, changes: Any, told: str
) -> None:
    path = edited(keep(measured(), tmp_path / "a.json"), **changes)
    with pytest.raises(AnswerIsNo, match="does not follow from its raw values") as error:
        again(path)
    assert told in str(error.value)


def test_one_raw_value_that_was_edited_is_told(measured: Callable[..., Validation], tmp_path: Path) -> None:
    path = keep(measured(), tmp_path / "a.json")
    blocks = json.loads(path.read_bytes())["blocks"]
    for block in blocks:
        if block["replicate"] == 0 and block["arm"] == "after":
            block["steps_ms"] = [value * 0.99 for value in block["steps_ms"]]
    with pytest.raises(AnswerIsNo, match="does not follow"):
        again(edited(path, blocks=blocks))


def test_a_calibration_that_was_edited_is_told(measured: Callable[..., Validation], tmp_path: Path) -> None:
    trials = [
        Trial(ratio=1.0 + n / 100, interval=(0.99 + n / 100, 1.01 + n / 100), replicate_ratios=[]) for n in range(3)
    ]
    whole = summed_up(trials, 0.01, planned=3, budget_s=1, took_s=1)
    found = msgspec.structs.replace(measured(), calibration=whole)
    assert again(keep(found, tmp_path / "a.json")) == found
    for edited_one, told in (
        (msgspec.structs.replace(whole, trials=trials[:1]), "another number of false alarms"),
        (msgspec.structs.replace(whole, spread=0.5), "another spread"),
    ):
        with pytest.raises(AnswerIsNo, match=told):
            again(keep(msgspec.structs.replace(found, calibration=edited_one), tmp_path / f"{told}.json"))


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_a_truncated_file_is_refused_in_one_line(measured: Callable[..., Validation], tmp_path: Path, cut: int) -> None:
    path = keep(measured(), tmp_path / "a.json")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StepprofError, match="is no validation") as error:
        again(path)
    assert error.value.exit_code == 2


# The command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(measured: Callable[..., Validation], tmp_path: Path) -> Path:
    return keep(measured(), tmp_path / "one.json")


def test_a_kept_result_is_shown_again_and_beside_another(stepprof: Run, kept: Path, tmp_path: Path) -> None:
    found = load(kept)
    said = stepprof("validate", "--from", "one.json", "--json", "--html", "one.html")
    assert said.code == 0, said.err
    assert msgspec.json.decode(said.out, type=Validation) == found
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "Where it ran" in page
    assert "<h1>is it faster?</h1>" in page
    other = keep(elsewhere(found), tmp_path / "two.json")
    both = stepprof("validate", "--from", "one.json", "--against", other, "--html", "both.html", "--plain")
    assert both.code == 0, both.err
    assert "differs.1: cpu: " in both.out
    assert f"machine.2.name: {other}" in both.out
    assert "Beside another machine" in (tmp_path / "both.html").read_text(encoding="utf-8")
    shown = json.loads(stepprof("validate", "--from", "one.json", "--against", other, "--json").out)
    assert [machine["name"] for machine in shown["against"]["machines"]] == ["one.json", str(other)]
    assert found.scenario is not None
    scenario = msgspec.structs.replace(found.scenario, seed=9)
    unlike = keep(elsewhere(found, scenario=scenario), tmp_path / "three.json")
    refused = stepprof("validate", "--from", "one.json", "--against", unlike, "--json")
    assert refused.code == 4
    assert "scenario: seed: 3 and 9" in refused.error
    assert json.loads(refused.out)["against"] is None
    changed = stepprof("validate", "--from", edited(kept, ratio=0.1))
    assert changed.code == 4
    assert "does not follow" in changed.error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "SCENARIO, BEFORE and AFTER are needed"),
        (["s.toml", "a.py"], "SCENARIO, BEFORE and AFTER are needed"),
        (["s.toml", "--from", "a.json"], "SCENARIO with --from"),
        (["--from", "a.json", "--replicates", "4"], "--replicates with --from"),
        (["--from", "a.json", "--calibrate"], "--calibrate with --from"),
        (["--from", "a.json", "--resume", "b.json"], "--resume with --from"),
        (["--from", "a.json"], "validation 'a.json' cannot be read"),
        (["s.toml", "a.py", "b.py", "--calibrate-budget", "0s"], "calibrate"),
    ],
)
def test_forms_that_do_not_go_together_are_refused(stepprof: Run, arguments: list[str], told: str) -> None:
    said = stepprof("validate", *arguments)
    assert said.code == 2
    assert told in said.error


def test_several_ranks_are_refused(
    stepprof: Run, scenario_file: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = stepprof("validate", scenario_file, workload, workload, "--out", "a.json")
    assert said.code == 2
    assert "without torchrun" in said.error
    assert "measured so far" not in said.err


def test_a_budget_that_is_too_small_says_what_it_takes(stepprof: Run, scenario_file: Path, workload: Path) -> None:
    said = stepprof("validate", scenario_file, workload, workload, "--replicates", "5000", "--budget", "1s")
    assert said.code == 2
    assert "allow " in said.error
