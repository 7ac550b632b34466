"""Switches of the process: each arm has its own, the caller gets theirs back, and the result says who set what."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepprof_lab import scenario
from stepprof_lab.labels import Step
from stepprof_lab.validate import compare
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.settings import Settings, stays_on

torch = pytest.importorskip("torch")

VARIABLE = "STEPPROF_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def the_callers_own() -> Iterator[None]:
    """Whatever a test breaks, the next one finds as it was."""
    before = Settings.now()
    yield
    before.restore()


@pytest.fixture
def judge(world: Any, cpu: Any, meter: Any, ask: Any) -> Callable[..., Validation]:
    def run(before: Any, after: Any, **outputs: Any) -> Validation:
        return compare(before, after, ask(**outputs), device=cpu, clock=world.clock, meter=meter, replicates=2)

    return run


CUDNN, MATMUL, CUDA = torch.backends.cudnn, torch.backends.cuda.matmul, torch.backends.cuda

SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "torch threads": (lambda: torch.set_num_threads(torch.get_num_threads() + 1), torch.get_num_threads),
    "float32 matmul precision": (
        lambda: torch.set_float32_matmul_precision("high"),
        torch.get_float32_matmul_precision,
    ),
    "cudnn.benchmark": (lambda: setattr(CUDNN, "benchmark", True), lambda: CUDNN.benchmark),
    "cudnn.allow_tf32": (lambda: setattr(CUDNN, "allow_tf32", False), lambda: CUDNN.allow_tf32),
    "cuda.matmul.allow_tf32": (lambda: setattr(MATMUL, "allow_tf32", True), lambda: MATMUL.allow_tf32),
    "deterministic algorithms": (
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        torch.are_deterministic_algorithms_enabled,
    ),
    "default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "default device": (lambda: torch.set_default_device("meta"), lambda: str(torch.get_default_device())),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "anomaly detection": (lambda: torch.set_anomaly_enabled(True), torch.is_anomaly_enabled),
    "autocast on cpu": (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.is_autocast_enabled("cpu")),
    "autocast dtype on cpu": (
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.get_autocast_dtype("cpu"),
    ),
    "mkldnn": (lambda: torch._C._set_mkldnn_enabled(False), torch._C._get_mkldnn_enabled),
    "math attention": (lambda: CUDA.enable_math_sdp(False), CUDA.math_sdp_enabled),
    "automatic garbage collection": (gc.disable, gc.isenabled),
    "garbage collection thresholds": (lambda: gc.set_threshold(9999, 5, 5), gc.get_threshold),
    "numpy error handling": (lambda: np.seterr(all="ignore"), np.geterr),
    f"environment variable {VARIABLE}": (
        lambda: os.environ.update({VARIABLE: "a secret"}),
        lambda: os.environ.get(VARIABLE),
    ),
}


@pytest.mark.parametrize(
    ("when", "name"),
    [
        *(("build", name) for name in SWITCHES),
        *(("step", name) for name in ("torch threads", "gradients", "cudnn.benchmark")),
    ],
)
def test_what_one_arm_switches_is_its_own(world: Any, judge: Any, name: str, when: str) -> None:
    switch, read = SWITCHES[name]
    usual = read()
    seen: dict[str, list[Any]] = {"before": [], "after": []}

    def arm(which: str) -> Callable[[str], Step]:
        def build(_device: str) -> Step:
            seen[which].append(read())  # each instance is built from what the caller had
            switched = which == "after" and when == "build"
            if switched:
                switch()
            ran = 0

            def step() -> float:
                nonlocal ran
                world.now += 0.002
                if which == "before":
                    seen["before"].append(read())
                elif ran or switched:
                    seen["steps of after"] = [*seen.get("steps of after", []), read()]
                elif when == "step":
                    switch()
                ran += 1
                return 1.0

            return Step(step)

        return build

    found = judge(arm("before"), arm("after"))
    assert found.verdict == "equivalent"
    assert all(one == usual for one in seen["before"])
    assert all(one == usual for one in seen["after"])
    assert all(one != usual for one in seen["steps of after"])
    assert read() == usual
    assert name in found.settings["after"]
    assert "before" not in found.settings
    told = next(one for one in found.reasons if one.startswith("arm after sets"))
    assert told.endswith("that was so in its own turns alone")
    assert "secret" not in f"{found.settings}{found.reasons}"


def test_the_value_is_in_the_reason(world: Any, judge: Any) -> None:
    def build(device: str) -> Step:
        torch.set_num_threads(7)
        return world.arm(2.0)(device)  # type: ignore[no-any-return]

    found = judge(world.arm(2.0), build)
    assert "arm after sets torch threads = 7: that was so in its own turns alone" in found.reasons
    assert found.settings == {"after": {"torch threads": 7}}
    both = judge(build, build)
    assert both.settings == {arm: {"torch threads": 7} for arm in ("before", "after")}
    assert not any("torch threads" in one for one in both.reasons)  # no difference between the arms


def test_arms_that_are_not_comparable_name_the_switch_too(world: Any, judge: Any) -> None:
    def build(_device: str) -> Step:
        torch.set_default_dtype(torch.float64)
        return other(_device)

    def other(_device: str) -> Step:
        model = torch.nn.Linear(2, 2)
        return Step(lambda: model(torch.ones(2)).sum(), state={"model": model})

    found = judge(other, build)
    assert found.verdict == "not comparable"
    assert found.reasons[1] == "arm after sets default dtype = torch.float64: that was so in its own turns alone"


def test_the_callers_switches_come_back_after_an_error(world: Any, judge: Any) -> None:
    def build(_device: str) -> Step:
        torch.set_grad_enabled(False)
        raise ZeroDivisionError

    with pytest.raises(Exception, match="ZeroDivisionError"):
        judge(world.arm(2.0), build)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("needed", [False, True])
def test_what_an_import_sets_once_holds_for_both(world: Any, judge: Any, needed: bool) -> None:
    """The second arm imports what the first one has imported already: its switch is of the process."""
    imported: list[int] = []
    threads: list[int] = []
    held: list[str | None] = []

    def build(device: str) -> Step:
        if not imported:
            imported.append(1)
            torch.set_num_threads(5)
            os.environ[VARIABLE] = "x"
        inner = world.arm(2.0)(device)

        def step() -> Any:
            threads.append(torch.get_num_threads())
            held.append(os.environ[VARIABLE] if needed else os.environ.get(VARIABLE))
            return inner.run()

        return Step(step, state=inner.state, samples=inner.samples)

    found = judge(build, build)
    assert found.verdict == "equivalent"
    assert ({5}, {"x"}) == (set(threads[2:]), set(held[2:]))
    assert found.settings == {}
    told = next(one for one in found.reasons if "an import does it" in one)
    assert told.startswith("the first build of arm before sets")
    assert "torch threads = 5" in told
    assert VARIABLE not in told  # an import's own business


@pytest.mark.slow
def test_what_a_file_switches_when_it_is_loaded_is_told(tmp_path: Path) -> None:
    text = "from stepprof_lab import Step\nimport torch\n{}\ndef build(device):\n    return Step(lambda: 1.0)\n"
    plain, switching = tmp_path / "plain_arm.py", tmp_path / "switching_arm.py"
    plain.write_text(text.format(""), encoding="utf-8")
    switching.write_text(text.format("torch.set_num_threads(6)"), encoding="utf-8")
    asked = scenario.inline("Is it faster?", boundary="forward", unit="ms/step", seed=3)
    found = compare(str(plain), str(switching), asked, device="cpu", replicates=2, budget_s=60)
    told = "loading the file of arm after sets torch threads = 6, and both arms ran with it"
    assert any(one.startswith(told) for one in found.reasons)


@pytest.mark.skipif(not hasattr(torch._C, "_get_fp32_precision_getter"), reason="torch before 2.9 has one name for it")
@pytest.mark.parametrize("first", ["old", "new"])
def test_old_and_new_names_of_a_precision_come_back_together(first: str) -> None:
    """With both in use, torch refuses to tell the old one: it must be readable again afterwards."""
    before = Settings.now()
    old = torch.get_float32_matmul_precision()
    for how in (first, "new" if first == "old" else "old"):
        if how == "old":
            torch.set_float32_matmul_precision("medium")
        else:
            torch.backends.cuda.matmul.fp32_precision = "tf32"
            torch.backends.fp32_precision = "tf32"
    assert Settings.now() != before
    before.restore()
    assert Settings.now() == before
    assert torch.get_float32_matmul_precision() == old


def test_a_switch_that_cannot_be_taken_back_is_known() -> None:
    assert stays_on("torch threads between operators")
    assert not stays_on("torch threads")


def test_only_what_stands_elsewhere_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Settings.now()
    monkeypatch.setattr(torch, "set_grad_enabled", lambda _on: pytest.fail("it stood right"))
    now.restore()
