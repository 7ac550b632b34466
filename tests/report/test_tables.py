"""The tables hold the raw cells; what was not observed is a cell of its own."""

from __future__ import annotations

import statistics
from typing import Any

import msgspec
import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.report import tables
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Approach


def rows(table: tables.Table) -> dict[Any, list[Any]]:
    return {row[0]: list(row[1:]) for row in table.rows}


def test_the_first_steps_do_not_count_in_the_mean_of_the_approach() -> None:
    approach = Approach(
        steps_ms=[9000.0, 10.0, 20.0, 30.0],
        labels_ms={"read_batch": [8990.0, 1.0, 2.0, 3.0]},
        loader_workers=0,
        wanted_steps=4,
    )
    summary = tables.approach_summary(approach)
    assert rows(summary)["step"] == [9e6, 10e3, 20e3, 20e3, 30e3]
    assert rows(summary)["read_batch"] == [8.99e6, 1e3, 2e3, 2e3, 3e3]
    assert "steps 2 to 4, without the first ones" in str(summary.note)


def test_behind_workers_the_mean_is_over_whole_periods(samples: Any) -> None:
    approach = samples.approach()
    summary = tables.approach_summary(approach)
    assert rows(summary)["step"][3] == pytest.approx(1e3 * statistics.fmean(approach.steps_ms[8:]))
    assert "steps 9 to 24, whole periods" in str(summary.note)


def test_too_few_steps_are_all_used_and_said() -> None:
    approach = Approach(
        steps_ms=[3.0], labels_ms={}, loader_workers=8, wanted_steps=32, cut=True, cut_reason="30 s passed"
    )
    assert rows(tables.approach_summary(approach))["step"] == [3e3] * 5
    assert "all 1 step, too few" in str(tables.approach_summary(approach).note)
    assert tables.approach_words(approach) == "1 unprofiled step of 32 wanted (30 s passed); 8 loader workers"


def test_a_condition_says_how_it_is_known(samples: Any) -> None:
    scenario = samples.scenario()
    known = rows(tables.conditions(scenario, {"batch": 32, "mode": "train", "shapes": ["64x1"], "device": "cpu"}))
    assert known["batch"] == ["64", "observed; during the capture: 32"]
    assert known["mode"] == ["train", "observed"]
    assert known["precision"] == ["float32", "stated"]
    assert known["shapes"] == ["64x1", "observed"]
    assert known["compiled"] == ["not known", tables.NOT_KNOWN]
    assert known["device"] == ["cpu", "observed"]


def test_a_gpu_cell_that_is_unset_is_not_observed_not_zero(samples: Any) -> None:
    analysis = samples.gpu_analysis()
    step = msgspec.structs.replace(analysis.steps[0], gpu_tail_us=msgspec.UNSET)
    table = tables.steps(msgspec.structs.replace(analysis, steps=[step]))
    assert table.rows[0][-1] is None
    assert tables.shown(table)[1][0][-1] == "not observed"
    assert tables.shown(table)[1][0][-2] == "0.000"


def test_a_label_that_ran_in_few_steps_leaves_cells_unobserved() -> None:
    approach = Approach(steps_ms=[1.0, 2.0], labels_ms={"late": [0.5]}, loader_workers=None, wanted_steps=2)
    assert [row[2] for row in tables.approach(approach).rows] == [500.0, None]
    assert tables.approach_words(approach).endswith("loader workers: not observed")


def test_blocks_stand_in_the_order_of_measuring(samples: Any) -> None:
    validation = samples.validation()
    shuffled = msgspec.structs.replace(validation, blocks=validation.blocks[::-1])
    assert tables.blocks(shuffled).rows == tables.blocks(validation).rows
    assert [row[0] for row in tables.blocks(shuffled).rows] == [str(n) for n in range(16)]


def test_lanes_count_what_was_left_out(samples: Any) -> None:
    lanes = rows(tables.timeline_lanes(samples.timeline(gpu=True)))
    assert lanes["CPU thread 4242"][:2] == ["calls of a thread", 372]
    assert lanes["GPU 0 stream 20"] == [
        "device work", 4, 1250.0, 7600.0, 90.0, "Memcpy HtoD (Pageable -> Device)"
    ]  # fmt: skip
    regions = tables.timeline_regions(samples.timeline(), limit=3)
    assert [row[1] for row in regions.rows] == ["ProfilerStep#26", "read_batch", "train"]
    assert regions.note == "5 further regions not listed."


def test_labels_count_over_the_whole_record_and_say_so(tmp_path: Any) -> None:
    made = Construct("cpu")
    with made.label("sum"):
        made.cpu(5.0)
    with made.step(), made.label("sum"):
        made.cpu(1.0)
    analysis = interpret(made.save(tmp_path / "t.json")).analysis
    table = tables.labels(analysis)
    assert rows(table)["sum"] == [2, 6000.0]
    assert "Over the whole record, not the steps alone." in str(table.note)
