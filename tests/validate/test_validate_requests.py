"""Where a step is a request: loading outside, latency and throughput apart, each said only where it was seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stepprof_lab.labels import Step
from stepprof_lab.report.html import page
from stepprof_lab.scenario import Boundary, Conditions, Scenario
from stepprof_lab.validate import compare, requests
from stepprof_lab.validate.model import ArmName, Block


def service(*, unit: Any = "ms/request", read: bool = False) -> Scenario:
    return Scenario(
        question="is a request answered sooner?",
        kind="inference",
        unit=unit,
        boundary=Boundary(read=read, transfer=True, forward=True, backward=False, update=False, model_load=False),
        conditions=Conditions(loader_workers=0),
    )


def timed(times: list[float], *, arm: ArmName = "before", wall_ms: float | None = None, per_step: bool = True) -> Block:
    return Block(
        replicate=0,
        pair=0,
        arm=arm,
        order=0,
        steps_ms=times,
        per_step=per_step,
        steps=len(times) if per_step else 10,
        wall_ms=sum(times) if wall_ms is None else wall_ms,
    )


def test_quantiles_need_enough_requests() -> None:
    few = requests.of_arm([timed([1.0] * 199)], "before", 4)
    assert (few.median_ms, few.q95_ms, few.q99_ms) == (1.0, None, None)
    assert few.not_observed["q95_ms"] == "199 requests were timed; it takes 200 for 10 to be slower"
    some = requests.of_arm([timed([1.0] * 180 + [9.0] * 20)], "before", 4)
    assert (some.q95_ms, some.q99_ms) == (9.0, None)
    assert "it takes 1000" in some.not_observed["q99_ms"]
    many = requests.of_arm([timed([1.0] * 980 + [9.0] * 20)], "before", 4)
    assert (many.q95_ms, many.q99_ms, many.not_observed) == (1.0, 9.0, {})


def test_throughput_is_over_the_whole_loop_and_not_one_over_the_latency() -> None:
    found = requests.of_arm([timed([1.0] * 50, wall_ms=100.0), timed([1.0] * 50, wall_ms=100.0)], "before", 4)
    assert found.median_ms == 1.0
    assert (found.requests_per_s, found.samples_per_s) == (500.0, 2000.0)


def test_what_was_not_seen_is_said() -> None:
    blocks = [timed([2.0], per_step=False, wall_ms=25.0)]
    found = requests.of_arm(blocks, "before", None)
    assert (found.requests, found.requests_per_s, found.samples_per_s, found.median_ms) == (10, 400.0, None, None)
    assert 'ask for the unit "ms/request" to time each' in found.not_observed["median_ms"]
    assert found.not_observed["samples_per_s"] == "the step states no samples"


def test_loading_is_in_the_start_up_and_in_no_request(world: Any, cpu: Any, meter: Any) -> None:
    arms = [world.arm(ms, build_ms=800.0, samples=3) for ms in (2.0, 1.0)]
    found = compare(*arms, service(), device=cpu, clock=world.clock, meter=meter, replicates=3, budget_s=120)
    assert (found.verdict, found.unit) == ("faster", "ms/request")
    assert found.startup["before"]["load_ms"] == pytest.approx(800.0)
    before, after = found.requests
    assert (before.median_ms, after.median_ms) == (pytest.approx(2.0), pytest.approx(1.0))
    assert (before.requests_per_s, before.samples_per_s) == (pytest.approx(500.0), pytest.approx(1500.0))
    assert before.requests == sum(len(block.steps_ms) for block in found.blocks if block.arm == "before")
    shown = page(validation=found)
    assert "Latency: the time until a request is answered" in shown
    assert "Throughput: over the whole timed loop" in shown
    assert "building, with loading the model" in shown


def test_training_has_no_requests(world: Any, cpu: Any, meter: Any, ask: Any) -> None:
    found = compare(world.arm(2.0), world.arm(2.0), ask(), device=cpu, clock=world.clock, meter=meter, replicates=2)
    assert found.requests == []
    assert "load_ms" not in found.startup["before"]
    assert "Latency" not in page(validation=found)


@pytest.mark.parametrize("read", [False, True])
def test_on_a_queue_each_request_is_waited_for_where_its_latency_is_asked_for(
    world: Any, meter: Any, read: bool
) -> None:
    device = world.queue_device()

    def build(name: str) -> Step:
        inner = world.arm(0.5)(name)

        def answer() -> Any:
            device.launch(3.0)
            return inner.run()

        return Step(answer, state=inner.state, samples=2)

    options = {"device": device, "clock": world.clock, "meter": meter, "replicates": 2}
    latency = compare(build, build, service(read=read), **options)
    assert all(block.per_step for block in latency.blocks)
    assert latency.requests[0].median_ms == pytest.approx(3.0)
    throughput = compare(build, build, service(unit="samples/s", read=read), **options)
    assert not any(block.per_step for block in throughput.blocks)
    assert throughput.requests[0].median_ms is None
    assert throughput.requests[0].samples_per_s == pytest.approx(2 * 1e3 / 3.0, rel=0.05)


@pytest.mark.slow
def test_the_shipped_service(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from stepprof_lab.cli import stepprof

    demo = Path(requests.__file__).parent.parent / "demo"
    given = ["validate", str(demo / "service.toml"), str(demo / "service.py"), str(demo / "service.py")]
    more = ["--replicates", "4", "--budget", "60s", "--device", "cpu", "--json", "--out", str(tmp_path / "v.json")]
    ran = CliRunner().invoke(stepprof, [*given, *more])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["unit"] == "ms/request"
    assert found["startup"]["before"]["load_ms"] > 0
    for one in found["requests"]:
        assert one["median_ms"] > 0
        assert one["requests_per_s"] == pytest.approx(one["samples_per_s"])
        assert one["q99_ms"] is None
        assert "q99_ms" in one["not_observed"]
