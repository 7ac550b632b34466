"""The timeline as Chromium shows it: by mouse, by keyboard, to a screen reader, in print, and to hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab.report.html import page
from stepprof_lab.trace import interpret, reader, steps, timeline
from stepprof_lab.trace.model import Interpretation

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
REAL = sorted(path for path in TRACES.glob("*.json*") if path.name != "golden.json") if TRACES.is_dir() else []
LARGEST_PAGE = 5_000_000

VIEW = "document.getElementById('tl-view')"
PART = "document.querySelector('[data-part={}]')"
BODY = PART.format("body")


def write(path: Path, source: str) -> Path:
    path.write_text(source, encoding="utf-8")
    return path


def shown(chrome: Any, path: Path) -> Any:
    chrome.open(path)
    chrome.until(f"{VIEW}.dataset.ready")
    return chrome


def in_view(chrome: Any) -> tuple[int, int]:
    chrome.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    view = chrome.js(f"[{VIEW}.dataset.from, {VIEW}.dataset.to].map(Number)")
    return view[0], view[1]


def said(chrome: Any) -> str:
    return str(chrome.js(f"{PART.format('said')}.textContent"))


def facts(chrome: Any, part: str) -> dict[str, str]:
    """Title and facts of the tooltip (``tip``) or of what is chosen (``facts``)."""
    held = chrome.js(
        f"(box => box.hidden ? null : [['title', box.querySelector('.tl-chosen').textContent], "
        f"...[...box.querySelectorAll('dl > div')].map(d => [d.children[0].textContent, d.children[1].textContent])])"
        f"({PART.format(part)})"
    )
    return dict(held or [])


def place(chrome: Any, lane: str, share: float, row: int = 0) -> tuple[float, float]:
    """Where a share (0 to 1) of the picture's width is on the screen, in a row of a lane."""
    area = chrome.js(
        f"(() => {{ {BODY}.scrollIntoView({{block: 'center'}}); const area = {BODY}.getBoundingClientRect();"
        "const name = [...document.querySelectorAll('.tl-name')]"
        f".find(one => one.querySelector('.tl-title').textContent === {json.dumps(lane)}).getBoundingClientRect();"
        "return [name.left, name.right, name.top, area.right]; })()"
    )
    left, right = area[1], area[3] - 8
    return left + share * (right - left), area[2] + 6 + 14 * row


def pointed(chrome: Any, lane: str) -> dict[str, str]:
    """What is told where the mouse points in a lane; nothing while the browser still tells of a layout before."""
    x, y = place(chrome, lane, 0.1)
    chrome.mouse("mouseMoved", x - 1, y)
    chrome.mouse("mouseMoved", x, y)
    in_view(chrome)
    return facts(chrome, "tip")


def trace(path: Path, *, name: str = "aten::mm", label: str = "train", thread: str = "main") -> Path:
    """Two steps of 1 ms; an operator of 400 us with a launch in it, and its kernel on stream 7."""

    def event(category: str, name: str, start: float, duration: float, tid: int = 100, **args: Any) -> dict[str, Any]:
        where = {"pid": 0 if category == "kernel" else 1, "tid": tid, "ts": 1000 + start, "dur": duration}
        return {"ph": "X", "cat": category, "name": name, **where, "args": args}

    events = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 100, "args": {"name": thread}}]
    for n in range(2):
        at = 1000.0 * n
        events += [
            event("user_annotation", f"ProfilerStep#{n}", at, 1000),
            event("user_annotation", label, at + 50, 900),
            event("cpu_op", name, at + 100, 400),
            event("cpu_op", f"{name} inside", at + 150, 100),
            event("cuda_runtime", "cudaLaunchKernel", at + 300, 50, correlation=n + 1),
            event("kernel", f"kernel of {name}", at + 600, 300, tid=7, device=0, stream=7, correlation=n + 1),
        ]
    return write(path, json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))


def page_of(path: Path, tmp_path: Path, found: Any = None) -> Path:
    read = interpret(path)
    if found is not None:
        seen = reader.read(path)
        made = timeline.build(seen, steps.find_steps(seen), steps.find_device_work(seen), [found])
        read = Interpretation(msgspec.structs.replace(read.analysis, findings=[found]), made)
    return write(tmp_path / "page.html", page(interpretation=read))


@pytest.fixture
def small(chrome: Any, samples: Any, tmp_path: Path) -> Any:
    """The page of a small GPU trace with a finding, open in the browser."""
    found = samples.input_wait("train")
    return shown(chrome, page_of(trace(tmp_path / "small.json"), tmp_path, found))


def test_the_view_starts_without_a_word_and_asks_for_nothing(small: Any) -> None:
    assert small.said() == []
    assert [address.split("/")[-1] for address in small.requested()] == ["page.html"]
    assert small.js("getComputedStyle(document.querySelector('.tl-still')).display") == "none"
    assert in_view(small) == (0, 2_000_000)
    assert small.js("[...document.querySelectorAll('.tl-title')].map(one => one.textContent)") == [
        "input-wait", "steps", "labels", "main", "device 0 stream 7",
    ]  # fmt: skip


def test_the_policy_admits_the_program_and_nothing_else(small: Any) -> None:
    small.js(
        "(() => { const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
        "document.body.append(made);"
        "const image = document.createElement('img'); image.setAttribute('onerror', 'window.ran = 2');"
        "image.src = 'data:,'; document.body.append(image); })()"
    )
    assert len([text for text in small.said() if "Content Security Policy" in text]) >= 2
    assert small.js("window.ran") is None


def test_pointing_tells_self_and_total_and_the_launch(small: Any) -> None:
    x, y = place(small, "main", 0.06)
    small.mouse("mouseMoved", x, y)
    assert facts(small, "tip") == {
        "title": "aten::mm",
        "kind": "operator",
        "lane": "main",
        "begins at": "0.100 ms",
        "elapsed, with children": "400.0 µs",
        "self": "250.0 µs",
    }
    x, y = place(small, "device 0 stream 7", 0.35)
    small.mouse("mouseMoved", x, y)
    told = facts(small, "tip")
    assert told["title"] == "kernel of aten::mm"
    assert told["launched at"] == "0.300 ms by cudaLaunchKernel, main"
    assert told["from launch to begin"] == "300.0 µs"
    x, y = place(small, "main", 0.163, row=1)
    small.mouse("mouseMoved", x, y)
    assert facts(small, "tip")["launched"] == "kernel of aten::mm, begins at 0.600 ms, 300.0 µs"
    x, y = place(small, "labels", 0.3)
    small.mouse("mouseMoved", x, y)
    assert facts(small, "tip")["evidence of"] == "input-wait"
    small.mouse("mouseMoved", 5, 5)
    assert facts(small, "tip") == {}


def test_the_mouse_chooses_drags_and_zooms(small: Any) -> None:
    x, y = place(small, "main", 0.06)
    for kind in ("mousePressed", "mouseReleased"):
        small.mouse(kind, x, y, button="left", clickCount=1)
    assert facts(small, "facts")["title"] == "aten::mm"
    small.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    zoomed = in_view(small)
    assert zoomed[1] - zoomed[0] < 1_500_000
    assert zoomed[0] <= 120_000 <= zoomed[1]  # what is under the pointer stays there
    small.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    small.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    small.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    moved = in_view(small)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], abs=2)


def test_the_page_keeps_its_wheel_until_the_picture_is_meant(small: Any) -> None:
    x, y = place(small, "main", 0.5)
    small.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100)
    assert in_view(small) == (0, 2_000_000)
    small.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100, modifiers=2)
    assert in_view(small) != (0, 2_000_000)


def test_the_keyboard_does_everything(small: Any) -> None:
    small.js(f"{PART.format('find')}.focus()")
    while small.js("document.activeElement.dataset.part") != "body":
        small.press("Tab")
    small.press("+")
    near = in_view(small)
    assert near[1] - near[0] == pytest.approx(2_000_000 / 1.6, abs=2)
    small.press("ArrowRight")
    later = in_view(small)
    assert later[0] > near[0]
    small.press("ArrowLeft")
    assert in_view(small)[0] == pytest.approx(near[0], abs=2)
    small.press("-")
    small.press("Home")
    assert in_view(small) == (0, 2_000_000)
    small.press("+")
    small.press("0")
    assert in_view(small) == (0, 2_000_000)
    small.press("ArrowDown")
    assert said(small).startswith("ProfilerStep#0: kind step")
    small.press("ArrowDown")
    small.press("ArrowDown")
    assert said(small).startswith("aten::mm: kind operator, lane main, begins at 0.100 ms")
    assert "self 250.0 µs" in said(small)
    small.press("ArrowRight", shift=True)
    assert "begins at 1.100 ms" in said(small)
    small.press("ArrowLeft", shift=True)
    small.press("Enter")
    close = in_view(small)
    assert close[0] <= 100_000 <= 500_000 <= close[1] < 700_000
    small.press("Escape")
    assert facts(small, "facts") == {}
    small.press("Home")
    small.press("Tab")
    assert small.js("document.activeElement.getAttribute('aria-label')").startswith("Lane steps, 2 spans")
    for _ in range(3):
        small.press("Tab")
    small.press("Enter")
    assert said(small).startswith("kernel of aten::mm")
    assert small.js("document.activeElement.dataset.part") == "body"


def test_tab_leaves_the_picture_again(small: Any) -> None:
    small.js(f"{BODY}.focus()")
    seen = []
    for _ in range(12):
        small.press("Tab")
        seen.append(small.js(f"{VIEW}.contains(document.activeElement)"))
    assert seen[-1] is False


def test_names_are_looked_for(small: Any) -> None:
    small.js(f"{PART.format('find')}.focus()")
    for letter in "inside":
        small.press(letter)
    small.until(f"{PART.format('found')}.textContent.startsWith('1 of 2')")
    assert facts(small, "facts")["title"] == "aten::mm inside"
    small.press("Enter")
    assert small.js(f"{PART.format('found')}.textContent") == "2 of 2: “inside”"
    assert facts(small, "facts")["begins at"] == "1.150 ms"
    small.press("x")
    small.until(f"{PART.format('found')}.textContent.startsWith('nothing')")
    small.press("Escape")
    assert small.js(f"{PART.format('found')}.textContent") == ""


def test_a_step_and_a_finding_are_gone_to(small: Any) -> None:
    small.js(f"(one => {{ one.selectedIndex = 2; one.dispatchEvent(new Event('change')); }})({PART.format('step')})")
    view = in_view(small)
    assert view[0] == pytest.approx(960_000, abs=2)
    small.js("document.querySelector('.tl-finding').click()")
    assert small.js(f"{PART.format('found')}.textContent") == "1 of 2: evidence of input-wait"
    assert facts(small, "facts")["title"] == "train"
    view = in_view(small)
    assert view[0] < 500_000 < view[1]  # it was brought into view


def test_a_screen_reader_gets_the_same_facts_as_a_table(small: Any) -> None:
    nodes = small.accessible()

    def named(role: str) -> list[str]:
        return [node.get("name", {}).get("value", "") for node in nodes if node.get("role", {}).get("value") == role]

    assert {
        "The picture's lanes",
        "Where the evidence of the findings lies",
        "Steps and labels in order of time",
    } <= set(named("table"))
    assert {"lane", "what it is", "spans", "longest span (ms)", "begins at (ms)"} <= set(named("columnheader"))
    rows = cells(nodes)
    assert "main runs the steps 6 0.100 1.500 0.400 aten::mm" in rows
    assert "device 0 stream 7 from thread 100 2 0.600 1.900 0.300 kernel of aten::mm" in rows
    assert "label train 1.050 0.900" in rows
    assert "input-wait labels 2 0.050 1.950" in rows
    assert {"Zoom in", "Zoom out", "Earlier", "Later", "Whole window"} <= set(named("button"))
    assert "Timeline of the window, 2.000 ms" in named("application")
    assert any(name.startswith("Lane main, runs the steps, 6 spans") for name in named("button"))
    assert "Step" in named("combobox")[0]
    assert "Find" in named("searchbox")[0]
    assert "status" in {node.get("role", {}).get("value") for node in nodes}
    # The still picture is not told a second time.
    assert not any("Timeline of the window" in name for name in named("image") + named("img"))


def cells(nodes: list[dict[str, Any]]) -> list[str]:
    """The cells of each row of all tables, as a screen reader goes through them."""
    by_id = {node["nodeId"]: node for node in nodes}
    rows = [node for node in nodes if node.get("role", {}).get("value") == "row"]
    below = [[by_id[child] for child in row.get("childIds", ()) if child in by_id] for row in rows]
    return [" ".join(cell.get("name", {}).get("value", "") for cell in row) for row in below]


def test_print_and_no_script_show_the_still_picture(small: Any) -> None:
    small.media("print")
    assert small.js("getComputedStyle(document.querySelector('.tl-still')).display") == "block"
    assert small.js(f"getComputedStyle({VIEW}).display") == "none"
    assert small.pdf().startswith(b"%PDF")
    small.media("")
    address = small.js("location.href")
    small.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        small.events.clear()
        small.call("Page.navigate", url=address)
        small.wait_for("Page.loadEventFired")
        assert small.js(f"getComputedStyle({VIEW}).display") == "none"
        assert small.js("document.querySelector('.tl-still svg').getBoundingClientRect().width") > 800
    finally:
        small.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_phone_has_room_for_it(small: Any) -> None:
    small.size(360, 780, 2.0, mobile=True)
    small.until(f"{VIEW}.classList.contains('tl-narrow')")
    assert small.js("document.documentElement.scrollWidth") <= 360
    overlap = small.js(
        "(() => { const boxes = [...document.querySelectorAll('.tl-name')].map(one => one.getBoundingClientRect());"
        "return boxes.slice(1).some((box, n) => box.top < boxes[n].bottom - 1); })()"
    )
    assert not overlap


def test_dark_is_dark_and_both_can_be_read(small: Any) -> None:
    at = f"(c => [...c.getContext('2d').getImageData(2, c.height - 3, 1, 1).data].slice(0, 3))({BODY})"
    assert sum(small.js(at)) > 700
    small.media(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    in_view(small)
    assert sum(small.js(at)) < 120
    style = f"getComputedStyle({VIEW})"
    for name in ("text", "soft", "strong", "mark"):
        colours = small.js(f"['--tl-{name}', '--tl-ground'].map(key => {style}.getPropertyValue(key).trim())")
        assert contrast(*colours) >= 4.5, name
    small.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
    for name in ("text", "soft", "strong", "mark"):
        colours = small.js(f"['--tl-{name}', '--tl-ground'].map(key => {style}.getPropertyValue(key).trim())")
        assert contrast(*colours) >= 4.5, name


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two colours, ``#rrggbb``."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


HOSTILE = (
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 2</script>",
    '"><img src=x onerror="window.ran = 3">',
    "<!--<script>",
    "javascript:window.ran=4",
    "\u202eabc\u2066\x1b[31m\x00",
    "${window.ran = 5} `window.ran = 6`",
    "]]></style><svg onload=window.ran=7>",
)


@pytest.mark.parametrize("name", HOSTILE, ids=[str(n) for n in range(len(HOSTILE))])
def test_names_from_a_trace_do_nothing(chrome: Any, samples: Any, tmp_path: Path, name: str) -> None:
    path = trace(tmp_path / "hostile.json", name=name, label=name, thread=f"{name} thread")
    view = shown(chrome, page_of(path, tmp_path, msgspec.structs.replace(samples.input_wait(name), id=name)))
    view.js("document.querySelectorAll('details').forEach(one => one.open = true)")
    titles = view.js("[...document.querySelectorAll('.tl-title')].length")
    for button in range(titles):
        view.js(f"document.querySelectorAll('.tl-name')[{button}].click()")
    view.js(
        f"(one => {{ one.value = {json.dumps(name)}; one.dispatchEvent(new Event('input')); }})({PART.format('find')})"
    )
    view.until(f"{PART.format('found')}.textContent")  # its text moves the picture
    in_view(view)
    assert any(pointed(view, view.js("[...document.querySelectorAll('.tl-title')][3].textContent")) for _ in range(20))
    assert view.js("window.ran") is None
    assert view.said() == []
    assert len(view.requested()) == 1
    assert not any(event["method"] == "Page.javascriptDialogOpening" for event in view.events)
    assert view.js("document.querySelectorAll('img, iframe, object, embed, link, svg [onload], [onerror]').length") == 0
    assert view.js("document.scripts.length") == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", REAL, ids=[path.name.split(".")[0] for path in REAL])
def test_every_real_trace_is_a_small_page_that_starts(chrome: Any, tmp_path: Path, path: Path) -> None:
    made = page_of(path, tmp_path)
    assert made.stat().st_size <= LARGEST_PAGE
    view = shown(chrome, made)
    assert view.said() == []
    drawn = view.js(
        f"(c => {{ const seen = new Set(); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        f"for (let i = 0; i < d.length; i += 44) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
        f"return seen.size; }})({BODY})"
    )
    assert drawn > 4  # bars, not an empty ground


@pytest.mark.slow
def test_seven_hundred_thousand_events_are_a_page_that_answers(chrome: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    large(path, turns=140_000)
    read = interpret(path)
    assert sum(span.count for lane in read.timeline.lanes for span in lane.spans) == 700_004
    made = write(tmp_path / "page.html", page(interpretation=read))
    assert made.stat().st_size <= LARGEST_PAGE
    view = shown(chrome, made)
    assert view.said() == []
    view.js(f"{BODY}.focus()")
    for _ in range(20):
        view.press("+")
    near = in_view(view)
    assert near[1] - near[0] < 300_000
    view.press("ArrowDown")
    assert "begins at" in said(view)


def large(path: Path, turns: int) -> None:
    """Two steps of so many turns: three operators, a launch, and its kernel on one of four streams."""
    span = '{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{}}}'
    pieces = []
    for n in range(turns):
        at, wide, thread, stream = 20.0 * n, 8 + n * 7919 % 97 / 10, 100 + n // 500 % 2, 7 + n % 4
        linked = f'{{"correlation":{n + 1},"device":0,"stream":{stream}}}'
        pieces += [
            span.format("cpu_op", f"aten::op{n % 61}", 1, thread, at, wide + 2, "{}"),
            span.format("cpu_op", f"aten::in{n % 41}", 1, thread, at + 1, wide, "{}"),
            span.format("cpu_op", "aten::empty", 1, thread, at + 1.5, 0.5, "{}"),
            span.format("cuda_runtime", "cudaLaunchKernel", 1, thread, at + 3, 4, linked),
            span.format("kernel", f"gemm{n % 31}", 0, stream, at + 30, 3 * wide, linked),
        ]
    for step in range(2):
        for name in (f"ProfilerStep#{step}", "train"):
            pieces.append(span.format("user_annotation", name, 1, 100, 10.0 * turns * step, 10.0 * turns, "{}"))
    path.write_text(f'{{"schemaVersion":1,"deviceProperties":[],"traceEvents":[{",".join(pieces)}]}}', encoding="utf-8")
