"""The timeline in a page: a view to zoom into where scripts run, the still picture everywhere else and in print.

The script is part of this package, the same for every page; the page's policy admits it by its hash and nothing else.
What a trace says is data in a block that no browser runs.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from stepprof_lab.report import markup, tables, words
from stepprof_lab.report.drawing import safe
from stepprof_lab.report.svg import timeline_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepprof_lab.trace.model import Finding, Timeline

AROUND = 200_000
"""Bytes beside the columns of data: controls, lanes with the lengths of their rows, the program."""
REGIONS_IN_VIEW = 16
"""Steps and labels that are listed at once; the rest is folded."""

KEYS = (
    ("+ and \u2212", "nearer, further"),
    ("← and →", "earlier, later"),
    ("Home or 0", "the whole window"),
    ("↑ and ↓", "choose the bar above or below, nearest in time"),
    ("Shift ← and Shift →", "choose the bar before or after in the same row"),
    ("Enter", "zoom to the chosen bar"),
    ("n and p", "next and previous one of what was looked for"),
    ("Escape", "choose nothing"),
    ("Tab", "to the lanes; Enter goes to the longest span of a lane"),
)


@functools.cache
def script() -> str:
    """The program of the view."""
    return files("stepprof_lab.report").joinpath("timeline_view.js").read_text(encoding="utf-8")


@functools.cache
def style() -> str:
    """The sheet of the view."""
    return files("stepprof_lab.report").joinpath("timeline_view.css").read_text(encoding="utf-8")


@functools.cache
def script_source() -> str:
    """What a policy says to admit the program and no other: its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script().encode()).digest()).decode('ascii')}'"


def parts(timeline: Timeline, findings: Sequence[Finding], room: int) -> list[str]:
    """The view with its data and its program, the still picture, and the same facts as tables.

    Args:
        timeline: of one trace, or of several put together.
        findings: whose evidence is marked.
        room: bytes for all of it. The data take what the picture and the tables, which have bounds of their own, leave.
    """
    still = markup.figure(timeline_svg(timeline, findings), "The active steps on one axis of time")
    shown = [f'<div class="tl-still">{still}</div>', *_tables(timeline, findings)]
    if not any(lane.spans for lane in timeline.lanes):
        return shown
    # Loads numpy, which reading the trace has loaded already.
    from stepprof_lab.report.timeline_data import embedded

    made = embedded(timeline, findings, room - sum(len(part.encode()) for part in shown) - AROUND)
    data = f'<script type="application/json" id="tl-data">{made.text}</script>'
    return [_view(timeline, made.left_out), *shown, data, f"<script>{script()}</script>"]


def _view(timeline: Timeline, left_out: Sequence[str]) -> str:
    """What the program fills; hidden until it does."""
    name = f"Timeline of the window, {words.duration(timeline.duration_us)}"
    return (
        '<div class="tl" id="tl-view" hidden>'
        f"{_controls()}"
        '<div class="tl-frame" data-part="frame">'
        '<div class="tl-top" data-part="top"><canvas data-part="head" aria-hidden="true"></canvas></div>'
        '<canvas data-part="body" tabindex="0" role="application" aria-roledescription="timeline" '
        f'aria-label="{safe(name)}" aria-describedby="tl-keys"></canvas>'
        '<div data-part="lanes" role="group" aria-label="Lanes"></div>'
        '<div class="tl-tip" data-part="tip" aria-hidden="true" hidden></div></div>'
        '<div class="tl-facts" data-part="facts" hidden></div>'
        '<p class="tl-said" data-part="said" role="status" aria-live="polite">Point at a bar, or click one. '
        "Click the picture and turn the wheel to zoom; drag to move.</p>"
        f'<ul class="tl-legend" data-part="legend" aria-label="Legend"></ul>{_remarks(timeline, left_out)}</div>'
    )


FIND = 'placeholder="part of a name" autocomplete="off" spellcheck="false"'


def _controls() -> str:
    move = (
        _button("out", "\u2212", "Zoom out"),
        _button("in", "+", "Zoom in"),
        _button("left", "←", "Earlier"),
        _button("right", "→", "Later"),
        _button("whole", "Whole window"),
    )
    find = (
        f'<label>Find <input type="search" data-part="find" {FIND}></label>',
        _button("prev", "Previous"),
        _button("next", "Next"),
        _button("clear", "Clear", "End the search", hidden=True),
        '<output data-part="found" aria-live="polite"></output>',
    )
    steps = '<label>Step <select data-part="step"><option value="">all</option></select></label>'
    return (
        '<div class="tl-bar" role="group" aria-label="Controls of the timeline">'
        f"<span>{''.join(move)}</span>{steps}<span>{''.join(find)}</span></div>"
    )


def _button(part: str, text: str, label: str = "", *, hidden: bool = False) -> str:
    named = f' aria-label="{safe(label)}" title="{safe(label)}"' if label else ""
    return f'<button type="button" data-part="{part}"{named}{" hidden" if hidden else ""}>{safe(text)}</button>'


def _remarks(timeline: Timeline, left_out: Sequence[str]) -> str:
    """The keys, and what the view does not show."""
    keys = "".join(f"<div><dt><kbd>{safe(key)}</kbd></dt><dd>{safe(what)}</dd></div>" for key, what in KEYS)
    brief = (
        '<summary id="tl-keys">Keys: + \u2212 zoom, ← → move, ↑ ↓ choose, Enter zooms to it, Home shows all</summary>'
    )
    folded = f'<details>{brief}<div class="folded"><dl>{keys}</dl></div></details>'
    noted = [words.prose(timeline.note)] if timeline.note else []
    note = "".join(markup.paragraph(text, "note") for text in (*noted, *left_out))
    paler = "Paler: several short spans drawn as one; zoom in to see them apart."
    bundled = "Some short spans come in bundles even from near: a search finds only the longest name of each."
    said = (
        f'<p class="note">{safe(paler)}'
        '<span data-part="red" hidden> Red: evidence of a finding.</span>'
        f'<span data-part="bundles" hidden> {safe(bundled)}</span></p>'
    )
    return f"{said}{note}{folded}"


def _tables(timeline: Timeline, findings: Sequence[Finding]) -> list[str]:
    """What the pictures show, for people who do not see them: lanes and evidence at once, the long lists folded."""
    shown = [markup.table(tables.timeline_lanes(timeline))]
    evidence = tables.timeline_evidence(timeline, findings)
    if evidence.rows:
        shown.append(markup.table(evidence))
    regions = tables.timeline_regions(timeline)
    longest = tables.timeline_longest(timeline)
    if len(regions.rows) <= REGIONS_IN_VIEW:
        shown.append(markup.table(regions))
    else:
        shown.append(markup.folded(f"{regions.title}: {len(regions.rows)} rows", [markup.table(regions)]))
    return [*shown, markup.folded(longest.title, [markup.table(longest)])]
