"""What the page carries for the view: read back it is the timeline, it stays small, and it cannot leave its block."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

from stepprof_lab.report import timeline_data
from stepprof_lab.trace.detail import Detail
from stepprof_lab.trace.model import Arrow, Lane, Span, Timeline

COLUMNS = ("begins", "length", "name", "kind", "count", "own", "launch", "evidence")


def opened(made: timeline_data.Embedded) -> dict[str, Any]:
    """The embedded object with its columns as lists, read as `timeline_view.js` reads them."""
    data = json.loads(made.text)
    data["bars"] = number = data["count"]
    raw = zlib.decompress(base64.b64decode(data["data"]))
    at = 0
    for name, planes in zip(COLUMNS, data["planes"], strict=True):
        column = [0] * number
        for plane in range(planes):
            for i, byte in enumerate(raw[at : at + number]):
                column[i] += byte << 8 * plane
            at += number
        data[name] = column
    data["of_names"] = json.loads(raw[at:])
    assert len(raw) - at == data["names"]
    return data


def bars(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Lane, depth, name, kind, start and length (ns) of each bar."""
    found, i = [], 0
    for lane in data["lanes"]:
        for depth, length in enumerate(lane["rows"]):
            now = 0
            for _ in range(length):
                now += data["begins"][i]
                name, kind = data["of_names"][data["name"][i]][0], data["looks"][data["kind"][i]]["name"]
                found.append((lane["title"], depth, name, kind, now, data["length"][i]))
                i += 1
    assert i == data["bars"]
    return found


def launches(data: dict[str, Any]) -> list[int]:
    found, launch = [], 0
    for step in data["launch"]:
        launch += -(step + 1) // 2 if step % 2 else step // 2
        found.append(launch - 1)
    return found


def spans_of(timeline: Timeline) -> list[tuple[Any, ...]]:
    return sorted(
        (lane.title, span.depth, span.name, span.kind, round(1000 * span.start_us), round(1000 * span.duration_us))
        for lane in timeline.lanes
        for span in lane.spans
    )


def test_spans_come_back_as_they_were(samples: Any) -> None:
    timeline = samples.timeline(gpu=True)
    data = opened(timeline_data.embedded(timeline, [samples.input_wait()]))
    for mine, theirs in zip(sorted(bars(data)), spans_of(timeline), strict=True):
        assert mine[:4] == theirs[:4]
        assert mine[4:] == pytest.approx(theirs[4:], abs=1)  # start and end are rounded to a nanosecond
    assert data["duration"] == 12_300_000
    assert data["findings"] == ["input-wait"]
    marked = [bar[2] for bar, bits in zip(bars(data), data["evidence"], strict=True) if bits]
    assert marked == ["read_batch", "read_batch"]
    assert set(data["own"]) == {0}  # the picture alone does not know a self time


def test_every_arrow_of_a_picture_is_a_link(samples: Any) -> None:
    timeline = samples.timeline(gpu=True)
    data = opened(timeline_data.embedded(timeline, []))
    linked = [(n, launch) for n, launch in enumerate(launches(data)) if launch >= 0]
    assert len(linked) == len(timeline.arrows)
    told = bars(data)
    for work, launch in linked:
        assert told[work][3] == "kernel"
        assert told[launch][2] == "cudaLaunchKernel"


def test_an_arrow_to_what_is_not_drawn_is_no_link() -> None:
    lanes = [
        Lane("t", "cpu", [Span("a", 1.0, 1.0, 0, "runtime")]),
        Lane("d", "device", [Span("k", 5.0, 1.0, 0, "kernel")]),
    ]
    arrows = [Arrow(0, 9.0, 1, 5.0), Arrow(0, 1.0, 1, 7.0), Arrow(7, 1.0, 1, 5.0)]
    assert launches(opened(timeline_data.embedded(Timeline(10.0, lanes, arrows), []))) == [-1, -1]


def detail(spans: int, **change: Any) -> Detail:
    """So many operators with two names, each 5 ns self and 5 ns nested; the last one was launched by the first."""
    numbers = np.arange(spans, dtype=np.int64)
    zeros = np.zeros(spans, dtype=np.int64)
    columns: dict[str, Any] = {
        "lane": zeros,
        "depth": zeros,
        "start": numbers * 1000,
        "end": numbers * 1000 + 10 + numbers % 200,
        "name_id": numbers % 2 * 4,
        "names": ["one", "unused", "unused too", "never", "two"],
        "kind_id": zeros,
        "kinds": ["operator"],
        "count": zeros + 1,
        "own": zeros + 5,
        "launch": np.where(numbers == spans - 1, 0, -1),
        "evidence": (numbers % 2).astype(np.uint16),
        "found": ["dominant-operator"],
    }
    return Detail(**{**columns, **change})


def of_detail(held: Detail, **more: Any) -> Timeline:
    return Timeline(1e6, [Lane("thread 1", "cpu", [])], [], detail=held, **more)


def test_a_detail_comes_back_with_self_times_and_bundles() -> None:
    held = detail(4, count=np.array([1, 3, 1, 1]), own=np.array([5, 7, 2, -1]))
    data = opened(timeline_data.embedded(of_detail(held), []))
    assert [bar[2] for bar in bars(data)] == ["one", "two", "one", "two"]
    assert data["of_names"] == [["one", -1], ["two", -1]]
    assert data["count"] == [0, 2, 0, 0]
    # An operator: its children plus 1. A bundle: what it covers plus 1. Unknown: 0.
    assert data["own"] == [10 - 5 + 1, 7 + 1, 12 - 2 + 1, 0]
    assert launches(data) == [-1, -1, -1, 0]
    assert data["evidence"] == [0, 1, 0, 1]
    assert data["findings"] == ["dominant-operator"]


def test_times_of_hours_keep_their_nanoseconds() -> None:
    far = 20 * 3600 * 10**9 + 123
    held = detail(2, start=np.array([7, far]), end=np.array([8, far + 2**41 + 1]))
    assert [bar[4:] for bar in bars(opened(timeline_data.embedded(of_detail(held), [])))] == [(7, 1), (far, 2**41 + 1)]


def test_what_is_too_large_goes_into_bundles_until_it_fits() -> None:
    chance = np.random.default_rng(5)
    count = 20_000
    start = np.cumsum(chance.integers(500, 5000, count))
    held = detail(count, start=start, end=start + chance.integers(1, 499, count))
    made = timeline_data.embedded(of_detail(held), [], largest=40_000)
    data = opened(made)
    assert len(data["data"]) <= 40_000
    assert f"20000 spans come in {data['bars']} bars" in made.left_out[0]
    assert 2000 < data["bars"] < count
    assert sum(more + 1 for more in data["count"]) == count


def test_names_cannot_end_their_block_and_are_shown_safely(samples: Any) -> None:
    for name in (*samples.HOSTILE, "</script><script>alert(1)</script>", "<!--<script>", "a\u2028b"):
        timeline = Timeline(10.0, [Lane(name, "cpu", [Span(name, 0.0, 5.0, 0, name)], note=name)], [], note=name)
        finding = msgspec.structs.replace(samples.input_wait(name), id=name)
        made = timeline_data.embedded(timeline, [finding])
        assert not set("<>&\u2028\x00\x1b\x9b\u202e") & set(made.text)
        made.text.encode("ascii")
        data = opened(made)
        assert not set("\x00\x1b\x9b\u202e\u2066") & set(data["of_names"][0][0])


def test_very_many_and_very_long_names_stay_small() -> None:
    names = [f"{n} {'x' * 5000}" for n in range(3000)]
    held = detail(3000, name_id=np.arange(3000, dtype=np.int64), names=names)
    made = timeline_data.embedded(of_detail(held), [])
    data = opened(made)
    assert made.left_out == ["3000 names of more than 300 characters cut here; the trace has them whole."]
    assert data["names"] < 1_200_000
    assert data["of_names"][7][0].startswith("7 x")
    assert max(len(name) for name, _ in data["of_names"]) <= timeline_data.LONGEST_NAME


def test_labels_look_as_in_the_still_picture(samples: Any) -> None:
    from stepprof_lab.report.drawing import LABEL_LOOKS
    from stepprof_lab.report.svg import label_looks

    timeline = samples.timeline()
    data = opened(timeline_data.embedded(timeline, []))
    still = label_looks(timeline)
    looks = {name: LABEL_LOOKS[place] for name, place in data["of_names"] if place >= 0}
    assert looks == still
    assert [look["fill"] for look in data["labelLooks"]] == [look.fill for look in LABEL_LOOKS]


def test_an_empty_timeline_is_an_empty_object() -> None:
    data = opened(timeline_data.embedded(Timeline(0.0, [], []), []))
    assert data["lanes"] == []
    assert bars(data) == []
