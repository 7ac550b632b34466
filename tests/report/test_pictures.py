"""The pictures are well-formed, keep their size, and say in words what they do not draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest

from stepprof_lab.report import charts, drawing, svg
from stepprof_lab.trace.model import Arrow, Lane, Span, Timeline

NS = "{http://www.w3.org/2000/svg}"


def parsed(picture: str) -> ET.Element:
    root = ET.fromstring(picture)
    assert root.tag == f"{NS}svg"
    return root


def all_text(root: ET.Element) -> str:
    return "\n".join(root.itertext())


def titles(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NS}title")]


def drawn_texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NS}text")]


def inside_the_picture(root: ET.Element) -> None:
    """Every rectangle lies in the view box, with a positive size."""
    _, _, width, height = (float(v) for v in root.attrib["viewBox"].split())
    for rect in (r for r in root.iter(f"{NS}rect") if "x" in r.attrib):
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width + 1.5
        assert y + h <= height
        assert w > 0
        assert h >= 0


def test_a_picture_names_and_describes_itself(samples: Any) -> None:
    root = parsed(svg.timeline_svg(samples.timeline(), ident="tl"))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "tl-title tl-desc"
    ids = {element.attrib["id"]: element for element in root.iter() if "id" in element.attrib}
    assert ids["tl-title"].text == "Timeline of the window"
    assert "steps: 2 spans; labels: 6 spans" in (ids["tl-desc"].text or "")
    assert "GPU: not observed" in (ids["tl-desc"].text or "")


def test_all_lanes_share_one_axis_with_units(samples: Any) -> None:
    root = parsed(svg.timeline_svg(samples.timeline(gpu=True)))
    texts = drawn_texts(root)
    for tick in ("0 ms", "2 ms", "12 ms"):
        assert tick in texts
    for lane in ("steps", "labels", "CPU thread 4242", "GPU 0 stream 7", "GPU 0 stream 20"):
        assert lane in texts
    assert "not observed" not in all_text(root)
    inside_the_picture(root)


def test_a_span_tells_its_name_kind_and_time(samples: Any) -> None:
    told = titles(parsed(svg.timeline_svg(samples.timeline())))
    assert "read_batch (label): 1.200 ms, begins at 50.0 µs" in told
    assert "ProfilerStep#27 (step): 6.100 ms, begins at 6.200 ms" in told


def test_nested_spans_lie_below_what_holds_them() -> None:
    spans = [Span("outer", 0.0, 100.0, 0, "operator"), Span("inner", 10.0, 50.0, 1, "operator")]
    root = parsed(svg.timeline_svg(Timeline(100.0, [Lane("CPU thread 1", "cpu", spans)], [])))
    y = {}
    for group in root.iter(f"{NS}g"):
        name = (group.find(f"{NS}title").text or "").split(" ")[0]  # type: ignore[union-attr]
        rect = group.find(f"{NS}rect")
        if name in {"outer", "inner"} and rect is not None:
            y[name] = (float(rect.attrib["y"]), float(rect.attrib["x"]), float(rect.attrib["width"]))
    assert y["inner"][0] > y["outer"][0]
    assert y["inner"][1] == pytest.approx(svg.GUTTER + 0.1 * svg.PLOT, abs=0.1)
    assert y["inner"][2] == pytest.approx(0.5 * svg.PLOT, abs=0.1)


def test_each_launch_has_an_arrow_to_its_work(samples: Any) -> None:
    timeline = samples.timeline(gpu=True, operators=10)
    root = parsed(svg.timeline_svg(timeline))
    arrows = [path for path in root.iter(f"{NS}path") if path.attrib.get("class") == "launch"]
    assert len(arrows) == len(timeline.arrows) == 20
    starts = [float(re.match(r"M([\d.]+)", path.attrib["d"]).group(1)) for path in arrows]  # type: ignore[union-attr]
    scale = svg.PLOT / timeline.duration_us
    assert starts[0] == pytest.approx(svg.GUTTER + timeline.arrows[0].from_us * scale, abs=0.1)


def test_arrows_to_lanes_that_are_not_drawn_are_left_out() -> None:
    lanes = [Lane("steps", "steps", [Span("s", 0.0, 10.0, 0, "step")])]
    root = parsed(svg.timeline_svg(Timeline(10.0, lanes, [Arrow(0, 1.0, 7, 2.0), Arrow(-1, 1.0, 0, 2.0)])))
    assert not [path for path in root.iter(f"{NS}path") if path.attrib.get("class") == "launch"]


def test_thousands_of_spans_make_a_small_picture_and_the_merging_is_said(samples: Any) -> None:
    picture = svg.timeline_svg(samples.timeline(operators=20000))
    assert len(picture) < 400_000
    root = parsed(picture)
    inside_the_picture(root)
    assert any("short spans, from" in title for title in titles(root))
    assert any("drawn as one" in text for text in drawn_texts(root))


def test_merged_spans_never_pass_for_one_span_and_lose_none() -> None:
    spans = [Span(f"op{n}", n * 0.01, 0.005, 0, "operator") for n in range(100)] + [
        Span("long", 500.0, 400.0, 0, "operator")
    ]
    bars = svg.bars(spans, 1.0)
    assert [len(bar.spans) for bar in bars] == [1, 100] or [len(bar.spans) for bar in bars] == [100, 1]
    assert sum(len(bar.spans) for bar in bars) == len(spans)


def test_short_spans_far_apart_stay_apart() -> None:
    bars = svg.bars([Span("a", 0.0, 0.1, 0, "operator"), Span("b", 300.0, 0.1, 0, "operator")], 1.0)
    assert sorted(bar.x for bar in bars) == [0.0, 300.0]
    assert all(bar.width == svg.THINNEST for bar in bars)


@pytest.mark.parametrize(
    "timeline",
    [
        Timeline(0.0, [], []),
        Timeline(0.0, [Lane("steps", "steps", [])], []),
        Timeline(1e-3, [Lane("steps", "steps", [Span("s", 0.0, 1e-3, 0, "step")])], []),
        Timeline(5e9, [Lane("steps", "steps", [Span("s", 0.0, 5e9, 0, "step")])], []),
        Timeline(10.0, [Lane("steps", "steps", [Span("outside", -50.0, 500.0, 0, "step")])], []),
        Timeline(10.0, [Lane("cpu", "cpu", [Span(f"d{n}", 0.0, 10.0, n, "operator") for n in range(300)])], []),
        Timeline(10.0, [Lane(f"thread {n}", "cpu", [Span("s", 0.0, 1.0, 0, "strange")]) for n in range(100)], []),
    ],
)
def test_odd_timelines_still_make_a_picture(timeline: Timeline) -> None:
    root = parsed(svg.timeline_svg(timeline))
    inside_the_picture(root)
    assert float(root.attrib["height"]) < 4000


def test_what_is_not_drawn_is_counted_in_words() -> None:
    deep = Lane("CPU thread 1", "cpu", [Span(f"d{n}", 0.0, 10.0, n, "operator") for n in range(30)], omitted=7)
    others = [Lane(f"CPU thread {n}", "cpu", []) for n in range(2, 40)]
    arrows = [Arrow(0, 1.0, 0, 2.0)] * (svg.ARROWS_DRAWN + 5)
    texts = drawn_texts(parsed(svg.timeline_svg(Timeline(10.0, [deep, *others], arrows))))
    assert "18 spans nested deeper than 12 rows: not drawn." in texts
    assert "15 further lanes: not drawn." in texts
    assert f"Arrows from launch to work: 1 of {svg.ARROWS_DRAWN + 5} drawn." in texts
    assert "7 spans too short to draw: left out, see the table." in texts
    # The note of the one who left them out says more.
    noted = drawn_texts(parsed(svg.timeline_svg(Timeline(10.0, [deep], [], "7 spans under 1 µs are left out."))))
    assert "7 spans under 1 µs are left out." in noted
    assert not any("see the table" in text for text in noted)


def test_the_evidence_of_findings_is_outlined(samples: Any) -> None:
    plain = parsed(svg.timeline_svg(samples.timeline()))
    marked = parsed(svg.timeline_svg(samples.timeline(), [samples.input_wait()]))

    def outlines(root: ET.Element) -> int:
        return len([rect for rect in root.iter(f"{NS}rect") if rect.attrib.get("class") == "mark"])

    assert outlines(plain) == 0
    assert outlines(marked) == 2
    assert "Rows at the top, and outlined: evidence of input-wait." in drawn_texts(marked)


def test_colour_is_not_the_only_sign(samples: Any) -> None:
    picture = svg.timeline_svg(samples.timeline(gpu=True), ident="tl")
    root = parsed(picture)
    patterns = {element.attrib["id"] for element in root.iter(f"{NS}pattern")}
    used = set(re.findall(r"url\(#([^)]+)\)", picture))
    assert used
    assert used <= patterns
    # Looks that share a fill differ by pattern, and every kind is named in the legend.
    for looks in (drawing.LABEL_LOOKS, tuple(drawing.KIND_LOOKS.values())):
        assert len(set(looks)) == len(looks)
    for kind in ("step", "operator", "runtime", "kernel", "copy", "memset", "label train"):
        assert kind in drawn_texts(root)


def test_two_pictures_on_a_page_share_no_id(samples: Any) -> None:
    first = svg.timeline_svg(samples.timeline(gpu=True), ident="a")
    second = charts.approach_svg(samples.record(), ident="b")
    ids = [re.findall(r' id="([^"]+)"', picture) for picture in (first, second)]
    assert not set(ids[0]) & set(ids[1])
    assert all(len(found) == len(set(found)) for found in ids)


def test_pictures_follow_light_and_dark_and_load_nothing(samples: Any) -> None:
    for picture in (
        svg.timeline_svg(samples.timeline()),
        charts.approach_svg(samples.record()),
        charts.validation_svg(samples.validation()),
    ):
        assert "prefers-color-scheme:dark" in picture
        assert "@media print" in picture
        assert not re.search(r"href|<script|<image|@import|url\((?!#)", picture)


def test_hostile_names_stay_text_in_every_picture(samples: Any) -> None:
    for name in samples.HOSTILE:
        pictures = (
            svg.timeline_svg(samples.timeline(name), [samples.input_wait(name)]),
            charts.approach_svg(samples.record(label=name)),
        )
        for picture in pictures:
            root = parsed(picture)
            known = {"svg", "title", "desc", "style", "defs", "pattern", "rect", "path", "g", "text", "circle"}
            assert {element.tag.removeprefix(NS) for element in root.iter()} <= known
            assert not any(key.startswith("on") for element in root.iter() for key in element.attrib)
            picture.encode("utf-8")
    assert any("<script>" in title for title in titles(parsed(svg.timeline_svg(samples.timeline(samples.HOSTILE[0])))))


def test_a_name_is_shortened_in_the_bar_and_whole_in_its_title() -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    timeline = Timeline(1000.0, [Lane("labels", "labels", [Span(name, 0.0, 150.0, 0, "label")])], [])
    root = parsed(svg.timeline_svg(timeline))
    on_bars = [t.text or "" for t in root.iter(f"{NS}text") if t.attrib.get("class") == "on"]
    assert len(on_bars) == 1
    assert on_bars[0].endswith("...")
    assert name.startswith(on_bars[0][:-3])
    assert any(title.startswith(name) for title in titles(root))


def test_the_reading_is_drawn_inside_its_step_never_stacked(samples: Any) -> None:
    record = samples.record()
    root = parsed(charts.approach_svg(record))
    inside_the_picture(root)
    groups = [g for g in root.iter(f"{NS}g") if (g.find(f"{NS}title") is not None)]
    told = [g.find(f"{NS}title").text or "" for g in groups]  # type: ignore[union-attr]
    assert told[0] == "approach step 1: 92.100 ms, of which reading 87.000 ms"
    assert sum(t.startswith("approach step") for t in told) == 24
    for group in groups[:24]:
        step, read = group.findall(f"{NS}rect")
        bottom = [float(r.attrib["y"]) + float(r.attrib["height"]) for r in (step, read)]
        assert bottom[0] == pytest.approx(bottom[1], abs=0.02)
        assert float(read.attrib["height"]) <= float(step.attrib["height"])


def test_the_active_steps_of_the_window_are_framed(samples: Any) -> None:
    root = parsed(charts.approach_svg(samples.record()))
    assert len([r for r in root.iter(f"{NS}rect") if r.attrib.get("class") == "mark"]) == 2
    assert [t for t in titles(root) if t.startswith("window")] == [
        "window, wait: 55.300 ms",
        "window, warm-up: 16.200 ms",
        "window, active: 6.100 ms",
        "window, active: 6.200 ms",
    ]


def test_a_slow_first_step_does_not_flatten_the_others(samples: Any) -> None:
    steps = [5000.0] + [20.0] * 30
    axis = charts.axis_for(steps, 0.0, 100.0)
    assert axis.end < 30
    record = samples.record()
    approach = msgspec.structs.replace(record.approach, steps_ms=steps, labels_ms={})
    root = parsed(charts.approach_svg(msgspec.structs.replace(record, approach=approach, window_steps_ms=[])))
    inside_the_picture(root)
    assert any("1 step is longer than the axis (wedge), up to 5000.000 ms." in text for text in drawn_texts(root))


def test_many_far_values_keep_their_axis() -> None:
    # Bursts of a loader with workers: a quarter of the steps waits, and that is what is to be seen.
    assert charts.axis_for([5.0, 5.0, 5.0, 55.0] * 10, 0.0, 100.0).end > 55.0
    assert charts.axis_for([], 0.0, 100.0).end == 1.0
    assert charts.axis_for([0.0, 0.0], 0.0, 100.0).end == 1.0


def test_an_approach_without_a_reading_label_says_so(samples: Any) -> None:
    record = msgspec.structs.replace(samples.record(), labels=[])
    root = parsed(charts.approach_svg(record))
    assert any("not observed" in text for text in drawn_texts(root))
    assert "of which reading" not in all_text(root)


def test_a_loader_range_counts_as_reading_only_where_no_label_does(samples: Any) -> None:
    record = samples.record()
    loader = msgspec.structs.replace(record.labels[0], name="loader range", role_from="loader")
    both = {**record.approach.labels_ms, "loader range": [200.0] * 24}
    approach = msgspec.structs.replace(record.approach, labels_ms=both)
    with_both = msgspec.structs.replace(record, labels=[*record.labels, loader], approach=approach)
    assert charts.read_label(with_both) == "read_batch"
    assert charts.read_label(msgspec.structs.replace(with_both, labels=[loader])) == "loader range"


def test_an_empty_approach_is_a_picture_with_words(samples: Any) -> None:
    record = samples.record()
    empty = msgspec.structs.replace(record.approach, steps_ms=[], labels_ms={})
    root = parsed(charts.approach_svg(msgspec.structs.replace(record, approach=empty, window_steps_ms=[])))
    assert "No step ran before the window." in all_text(root)


def test_every_raw_value_is_drawn_and_far_ones_are_said(samples: Any) -> None:
    validation = samples.validation()
    picture = charts.validation_svg(validation)
    root = parsed(picture)
    points = "".join(p.attrib["d"] for p in root.iter(f"{NS}path") if "hollow" in p.attrib.get("class", ""))
    # 192 values: 96 circles, 96 triangles (one of them the wedge), and one of each in the legend.
    assert points.count("a2 2 0 1 0 4 0") == 97
    assert points.count("z") == 97
    assert "1 value is beyond the axis (wedge), up to 412.000 ms." in drawn_texts(root)
    blocks = [t for t in titles(root) if "replicate" in t and "median" in t]
    assert len(blocks) == len(validation.blocks)


def test_ratios_interval_and_margin_are_drawn(samples: Any) -> None:
    told = titles(parsed(charts.validation_svg(samples.validation())))
    assert "ratio 0.270, interval 0.259 to 0.284" in told
    assert "margin: 1.0 % around 1" in told
    assert sum(t.startswith("replicate ") for t in told) == 8


def test_a_validation_without_times_is_a_picture_with_words(samples: Any) -> None:
    assert "Nothing was timed" in all_text(parsed(charts.validation_svg(samples.not_comparable())))


def test_a_ratio_without_interval_or_spread_is_drawn(samples: Any) -> None:
    validation = msgspec.structs.replace(
        samples.validation(), interval=None, replicate_ratios=[], ratio=1.0, margin=0.0, outputs={}
    )
    assert "ratio 1.000" in titles(parsed(charts.validation_svg(validation)))


def test_thinned_points_are_said_and_far_ones_kept(samples: Any) -> None:
    validation = samples.validation()
    many = [msgspec.structs.replace(b, steps_ms=b.steps_ms * 60) for b in validation.blocks]
    root = parsed(charts.validation_svg(msgspec.structs.replace(validation, blocks=many)))
    assert "one step in 3 drawn; the table has all" in drawn_texts(root)
    points = "".join(p.attrib["d"] for p in root.iter(f"{NS}path") if "hollow" in p.attrib.get("class", ""))
    assert points.count("h8l-4 -7z") == 60


@pytest.mark.parametrize(
    ("top", "wanted"),
    [
        (12.3, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]),
        (0.3, [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (5e6, [0.0, 1e6, 2e6, 3e6, 4e6, 5e6]),
        (0.0, [0.0]),
        (float("nan"), [0.0]),
    ],
)
def test_ticks_are_round_numbers(top: float, wanted: list[float]) -> None:
    assert drawing.ticks(top, 6) == wanted


def test_a_wide_script_is_fitted_by_its_width() -> None:
    assert drawing.fitted("read_batch", 100) == "read_batch"
    assert drawing.fitted("读取批次读取批次读取批次", 60).endswith("...")
    assert drawing.text_width(drawing.fitted("读取批次读取批次读取批次", 60)) <= 60
    assert drawing.fitted("read_batch", 12) == ""
    assert len(drawing.fitted("x" * 10_000_000, 1e9)) == 400
