"""What disturbed the run is marked and told; what was not observed is said to be so."""

from __future__ import annotations

from typing import Any

import pytest

from stepprof_lab.validate import noise
from stepprof_lab.validate.model import ArmName, Block
from stepprof_lab.validate.noise import Meter, report
from stepprof_lab.validate.statistics import PAIRS, WHOLE_ARMS


def blocks(
    *,
    count: int = 20,
    cpu: float | None = 10.0,
    pressure_us: int | None = 0,
    trend: float = 0.0,
    slow: int | None = None,
) -> list[Block]:
    """Blocks of 10 ms of each arm in turn."""
    names: tuple[ArmName, ArmName] = ("before", "after")
    wiggle = [0.0, 0.3, -0.2, 0.1, -0.3, 0.2]
    return [
        Block(
            replicate=0,
            pair=order // 2,
            arm=names[order % 2],
            order=order,
            steps_ms=[(5.0 + wiggle[order % 6] / 10 + trend * order) * (10 if order == slow else 1)] * 2,
            steps=2,
            wall_ms=10.0,
            cpu_ms=cpu,
            cpu_pressure_us=pressure_us,
            involuntary_switches=None if cpu is None else 1,
        )
        for order in range(count)
    ]


class Quiet(Meter):
    def threads(self) -> int:
        return 1

    def load(self) -> list[float]:
        return [0.1, 0.1, 0.1]


def reported(found: list[Block], *, meter: Meter | None = None, design: str = PAIRS, **more: Any) -> dict[str, Any]:
    options = {"on_gpu": False, "load_at_start": [0.0, 0.0, 0.0]} | more
    return report(found, design, meter or Quiet(), **options)


def test_a_quiet_run_has_nothing_to_tell() -> None:
    found = reported(blocks())
    assert found["sentences"] == []
    assert found["cpu_pressure_share"] == 0
    assert found["wall_over_cpu"] == 1
    assert found["involuntary_switches"] == 20
    assert found["slow_blocks"] == []
    assert found["not_observed"] == {}


def test_tasks_that_waited_for_a_processor_are_told() -> None:
    found = reported(blocks(pressure_us=4000))
    assert found["cpu_pressure_share"] == 0.4
    assert found["sentences"][0].startswith(
        "the result may be unstable: some task waited for a processor in 40 % of the time; try"
    )
    own = reported(blocks(pressure_us=4000), design=WHOLE_ARMS)["sentences"][0]
    assert "the loader's own workers count too" in own


def test_steps_that_were_kept_from_the_processor_are_told_where_the_system_tells_no_pressure() -> None:
    found = reported(blocks(cpu=4.0, pressure_us=None))
    assert found["wall_over_cpu"] == 2.5
    assert "took 2.5 times the processor time" in found["sentences"][0]


def test_waiting_for_data_or_for_a_gpu_is_not_contention() -> None:
    for more in ({"design": WHOLE_ARMS}, {"on_gpu": True}):
        found = reported(blocks(cpu=1.0), **more)
        assert found["wall_over_cpu"] is None
        assert found["sentences"] == []


def test_what_was_not_observed_is_no_zero() -> None:
    class Blind(Meter):
        def threads(self) -> None:
            return None

        def load(self) -> None:
            return None

    found = reported(blocks(cpu=None, pressure_us=None), meter=Blind(), load_at_start=None)
    for name in ("cpu_pressure_share", "involuntary_switches", "load_at_start", "torch_threads"):
        assert found[name] is None
        assert found["not_observed"][name]
    assert found["sentences"] == []


def test_more_threads_than_processors_are_told() -> None:
    class Crowded(Quiet):
        def threads(self) -> int:
            return 8

        def processors(self) -> int:
            return 2

    told = reported(blocks(), meter=Crowded())["sentences"]
    assert len(told) == 1
    assert "torch computes with 8 threads and may use 2 processors; try torch.set_num_threads(2)" in told[0]


def test_a_drift_is_told_and_nothing_is_deleted() -> None:
    found = reported(blocks(count=60, trend=0.05))
    assert found["drift"]["before"]["drifts"]
    assert found["drift"]["before"]["spearman"] > 0.9
    assert "arm before and of arm after drift" in found["sentences"][0]
    assert not reported(blocks(count=60))["drift"]["before"]["drifts"]


def test_slow_blocks_are_marked_by_their_order() -> None:
    assert reported(blocks(slow=7))["slow_blocks"] == [7]


def test_a_system_without_these_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(noise, "resource", None)
    monkeypatch.setattr(noise, "PRESSURE", tmp_path / "none")
    monkeypatch.delattr("os.getloadavg", raising=False)
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    meter = Meter()
    assert meter.involuntary_switches() is None
    assert meter.pressure_us() is None
    assert meter.load() is None
    assert (meter.processors() or 0) >= 1
    (tmp_path / "none").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0 total=5\n")
    assert meter.pressure_us() == 1234
    (tmp_path / "none").write_text("")
    assert meter.pressure_us() is None
