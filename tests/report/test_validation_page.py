"""A validation's page: units as the scenario asks for them, and a table after every picture."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest

from stepprof_lab import environment
from stepprof_lab.report import charts, content, plain, quantity, tables, validation_charts, validation_page
from stepprof_lab.report import validation as own
from stepprof_lab.report.html import page
from stepprof_lab.validate.calibrate import summed_up
from stepprof_lab.validate.model import Against, Machine, Session, Trial, Validation, WarmUp

NS = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def full(samples: Any) -> Validation:
    """With all that a validation can have: warm-ups, marks, settings, calibration, sessions, another machine."""
    chance = random.Random(1)
    found: Validation = samples.validation()
    trials = [Trial(ratio=r, interval=(r - 0.02, r + 0.02), replicate_ratios=[r]) for r in (0.97, 0.99, 1.0, 1.01)]
    warm_up = [
        WarmUp(
            replicate=replicate,
            arm=arm,
            build_ms=10.0,
            steps_ms=[180.0, 30.0, *(chance.gauss(20.0, 0.5) for _ in range(9 + replicate))],
            steady_after_steps=2,
        )
        for replicate in range(3)
        for arm in ("before", "after")
    ]
    here = msgspec.structs.replace(environment.describe(), cpu="a processor <of ours>", device="CPU")
    machines = [
        Machine(
            name=name,
            environment=msgspec.structs.replace(here, cpu=name, device=name),
            verdict="faster",
            ratio=ratio,
            interval=(ratio - 0.01, ratio + 0.01),
            arms=found.arms,
        )
        for name, ratio in (("this result", 0.27), ("other.json", 0.41))
    ]
    return msgspec.structs.replace(
        found,
        scenario=samples.scenario(),
        environment=here,
        settings={"after": {"torch threads": 1}},
        warm_up=warm_up,
        startup={
            arm: {"build_ms": 10.0, "first_step_ms": 180.0, "steady_after_steps": 2, "instances": 3, "not_steady": 0}
            for arm in ("before", "after")
        },
        noise={"cpu_pressure_share": 0.04, "slow_blocks": [5], "drift": {"before": {"spearman": 0.1, "drifts": False}}},
        calibration=summed_up(trials, 0.01, planned=4, budget_s=60, took_s=3, reasons=["only 4 trials fit"]),
        sessions=[
            Session(began_at="2026-01-01T10:00:00+00:00", from_replicate=0, load_average=[1.0], ended="interrupted"),
            Session(began_at="2026-01-02T10:00:00+00:00", from_replicate=4, load_average=None),
        ],
        against=Against(machines=machines, intervals_overlap=False, differences=["cpu: a and b"], reasons=["apart"]),
    )


def in_samples(found: Validation, samples_per_step: int = 64) -> Validation:
    """The same, asked in samples a second."""
    arms = [msgspec.structs.replace(arm, samples_per_s=samples_per_step * 1e3 / arm.mean_ms) for arm in found.arms]
    return msgspec.structs.replace(found, unit="samples/s", arms=arms)


def words_of(markup: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", markup, flags=re.DOTALL).split())


def test_every_picture_is_followed_by_a_table(full: Validation) -> None:
    kinds = re.findall(r"<figure>|<table>", "".join(validation_page.parts(full)))
    pictures = [n for n, kind in enumerate(kinds) if kind == "<figure>"]
    assert len(pictures) == 3
    assert all(kinds[n + 1] == "<table>" for n in pictures)


def test_the_page_says_all_that_is_kept(full: Validation) -> None:
    seen = words_of(page(validation=full))
    for told in (
        "Where it ran cpu a processor &lt;of ours&gt;",
        "What each arm sets in torch and in the process",
        "torch threads 1",
        "Shaded: 1 block that took twice the usual time or more; none was left out.",
        "at a margin of 0 % arm before was called faster or slower than itself in 1 of 4 trials",
        "only 4 trials fit",
        "2026-01-02T10:00:00+00:00",
        "interrupted",
        "Beside another machine",
        "other.json",
    ):
        assert told in seen, told


def test_a_result_with_nothing_beside_it_says_so(samples: Any) -> None:
    seen = words_of("".join(validation_page.parts(samples.not_comparable())))
    assert "Not asked for (--calibrate)" in seen
    assert "Neither arm sets anything" in seen
    assert "Nothing was built for the timing" in seen
    assert "Noise not observed" in seen


def test_a_scenario_in_samples_a_second_shows_samples_a_second(full: Validation) -> None:
    rated = in_samples(full)
    told = quantity.of(rated)
    assert told.is_rate
    assert told.number(20.0) == pytest.approx(3200)
    heads, rows = tables.shown(tables.arms(rated))
    assert heads[2:] == [
        "median (samples/s)",
        "mean (samples/s)",
        "lower quartile of the times (samples/s)",
        "between quartiles (samples/s)",
    ]
    assert rows[0][3] == "3137.3"
    raw = tables.blocks(rated)
    assert raw.columns[-1].head == "samples/s by each of its steps, nothing deleted"
    first = float(str(raw.rows[0][-1]).split()[0])
    assert first == pytest.approx(64e3 / full.blocks[0].steps_ms[0], rel=1e-3)
    picture = charts.validation_svg(rated)
    assert "samples a second, by each step, outside the profiler (samples/s)" in picture
    assert not re.search(r"median [\d.]+ ms", picture)
    facts = dict(content.verdict_facts(rated))
    assert facts["Throughput"] == "3.704 of before's (above 1 is faster), 3.527 to 3.858"
    assert "Throughput" not in dict(content.verdict_facts(full))
    lines = list(plain.lines(content.of_validation(rated)))
    assert "arm.1.mean: 3137.3 samples/s" in lines


def test_samples_that_no_step_states_are_told(full: Validation) -> None:
    arms = [msgspec.structs.replace(arm, samples_per_s=None) for arm in full.arms]
    unstated = msgspec.structs.replace(full, unit="samples/s", arms=arms)
    assert not quantity.of(unstated).is_rate
    assert "the steps state no samples" in (tables.arms(unstated).note or "")


def test_a_request_is_called_one(full: Validation) -> None:
    asked = msgspec.structs.replace(full, unit="ms/request")
    assert "time of a request" in charts.validation_svg(asked)
    assert tables.arms(asked).columns[1].head == "requests timed"


def test_the_pictures_are_well_formed_and_stay_inside(full: Validation) -> None:
    assert full.calibration is not None
    pictures = (
        charts.validation_svg(full),
        charts.validation_svg(in_samples(full)),
        validation_charts.start_up_svg(full),
        validation_charts.start_up_svg(msgspec.structs.replace(full, warm_up=full.warm_up[:1], startup={})),
        validation_charts.calibration_svg(full.calibration, 0.01),
        validation_charts.calibration_svg(full.calibration, 0.0),
    )
    for picture in pictures:
        root = ET.fromstring(picture)
        _, _, width, height = (float(value) for value in root.attrib["viewBox"].split())
        for rect in (one for one in root.iter(f"{NS}rect") if "x" in one.attrib):
            assert 0 <= float(rect.attrib["x"]) <= float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width + 1.5
        for path in root.iter(f"{NS}path"):
            for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"]):
                assert -1 <= float(x) <= width + 1
                assert -1 <= float(y) <= height


def test_slow_blocks_and_false_alarms_are_marked(full: Validation) -> None:
    titles = [one.text for one in ET.fromstring(charts.validation_svg(full)).iter(f"{NS}title")]
    assert "block 5: marked as slow" in titles
    assert full.calibration is not None
    root = ET.fromstring(validation_charts.calibration_svg(full.calibration, 0.01))
    assert sum("mark" in (one.attrib.get("class") or "").split() for one in root.iter(f"{NS}path")) == 1


def test_the_start_up_is_drawn_from_the_first_step(full: Validation) -> None:
    picture = validation_charts.start_up_svg(full)
    assert "before: steady after 2 steps, the median" in picture
    assert "6 steps are longer than the axis (wedge), up to 180.000 ms." in picture
    rows = own.instances(full).rows
    assert len(rows) == 6
    assert str(rows[0][-1]).startswith("180.0000 30.0000 ")


def test_the_terminal_says_it_too(full: Validation) -> None:
    lines = list(plain.lines(content.of_validation(full)))
    assert "calibration.4: only 4 trials fit" in lines
    assert "machine.2.name: other.json" in lines
    assert "session.1.ended: interrupted" in lines
    assert "against.1: apart" in lines
    alone = msgspec.structs.replace(full, sessions=full.sessions[:1], calibration=None, against=None)
    assert not any(
        line.startswith(("calibration", "machine", "session")) for line in plain.lines(content.of_validation(alone))
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_in_a_browser(chrome: Any, tmp_path: Any, full: Validation, scheme: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(validation=full), encoding="utf-8")
    chrome.media(prefers_color_scheme=scheme)
    chrome.open(path)
    assert chrome.said() == []
    assert chrome.js("document.querySelectorAll('figure svg').length") == 3
    # Nothing is wider than the screen, and no text has the colour of its ground.
    assert chrome.js("document.documentElement.scrollWidth <= innerWidth")
    ground = chrome.js("getComputedStyle(document.querySelector('figure svg')).backgroundColor")
    ink = chrome.js("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert ground != ink
    assert chrome.pdf().startswith(b"%PDF")
