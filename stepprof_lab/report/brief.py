"""One reading in a few lines of Markdown, for a pull request or a chat.

What comes in was made from a copy for sharing (`stepprof_lab.sharing.read_shareable`), so that names, paths and people
are gone already. What goes out is data between our own marks: no name in it becomes a link, a mention, a tag, or the
end of a table's cell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import UNSET

from stepprof_lab.report import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepprof_lab.record import Record
    from stepprof_lab.trace.model import Analysis, Finding

MOST_LINES = 60
STEPS = 6
LABELS = 8
OPERATORS = 5
FINDINGS = 4
NOTES = 4
NAME_LENGTH = 60
SENTENCE_LENGTH = 600

FOREIGN = "_Foreign: launched by another step or by none. Tail: device work after the step's host part. Never added._"

_MARKS = re.compile(r"[\\`*_\[\]|~$]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_JOINED = re.compile(
    r"@|#(?=[0-9])|\](?=\()|:(?=[a-z0-9_+-]+:)|(?<=[A-Za-z0-9])\.(?=[A-Za-z]{2,})|(?<=\w):(?=//)|(?<![a-z0-9])www(?=\.)",
    re.IGNORECASE,
)
"""Where a mention, a reference, an emoji, a domain or an address begins."""
JOINER = "\u2060"
"""Invisible, without width, and no part of any name."""


def inert(text: str) -> str:
    r"""A text in which Markdown finds nothing: no mark, tag, link, mention, reference, emoji or end of a cell.

    Marks are escaped by a backslash, < & > by their entities; mentions, references and addresses are broken by an
    invisible word joiner. What only counts at the beginning of a line is left: nothing from a trace stands there.
    """
    joined = _JOINED.sub(lambda found: found[0] + JOINER, words.prose(text))
    return _MARKS.sub(lambda found: "\\" + found[0], "".join(_ENTITIES.get(char, char) for char in joined))


def brief(analysis: Analysis, record: Record | None = None) -> str:
    """At most `MOST_LINES` lines of Markdown, with a line break at the end.

    Args:
        analysis: of a copy for sharing.
        record: that copy's record, where there is one.
    """
    question = analysis.question or "none was recorded with this trace"
    lines = [
        f"**Regime: {words.regime(analysis.regime, analysis.doubts)}**",
        "",
        *([f"- Because: {_sentence(analysis.regime_reason)}"] if analysis.regime_reason else []),
        f"- Question: {_sentence(question)}",
        f"- Origin: {words.ORIGIN_WORDS[analysis.origin]}",
        f"- GPU: {_gpu(analysis)}",
    ]
    if record is not None:
        lines.append(f"- Where: {_where(record)}")
    lines += _steps(analysis) + _labels(analysis) + _findings(analysis) + _operators(analysis) + _notes(analysis)
    if len(lines) > MOST_LINES - 2:
        lines = [*lines[: MOST_LINES - 3], "", "_More: stepprof read --html FILE_"]
    lines += ["", "_An observation is not a cause; nothing is proved inside the profiler. Made by stepprof\\_lab._"]
    return "\n".join(lines[:MOST_LINES]) + "\n"


def _sentence(text: str) -> str:
    return inert(words.shorten(words.prose(text), SENTENCE_LENGTH))


def _name(text: str) -> str:
    return _names([text])[text]


def _names(texts: Iterable[str]) -> dict[str, str]:
    """What stands for each name; different ones stay different."""
    prose = {text: words.prose(text) for text in texts}
    short = words.shortened(prose.values(), NAME_LENGTH)
    return {text: inert(short[line]) or "(no name)" for text, line in prose.items()}


def _gpu(analysis: Analysis) -> str:
    gpu = analysis.gpu
    if not gpu.observed:
        return f"{words.NOT_OBSERVED}: {_sentence(gpu.reason)}"
    busy = f"busy {words.duration(gpu.busy_us)} of the {words.duration(gpu.span_us)} that its events span"
    return f"observed ({gpu.vendor}): {_sentence(words.value(gpu.devices))}; {busy}"


def _where(record: Record) -> str:
    environment = record.environment
    parts = [record.device]
    parts += [f"{name} {environment[name]}" for name in ("torch", "build", "python") if environment.get(name)]
    return _sentence("; ".join(parts))


def _steps(analysis: Analysis) -> list[str]:
    if not analysis.steps:
        return ["", "Steps: none is marked in this trace."]
    on_gpu = analysis.gpu.observed
    heads = ["GPU busy by its launches", "GPU busy within it", "of it, foreign", "GPU tail"] if on_gpu else []
    lines = ["", _row("step", "elapsed, host", *heads), _rule(2 + len(heads))]
    for step in analysis.steps[:STEPS]:
        busy = (step.gpu_launched_us, step.gpu_busy_in_window_us, step.gpu_foreign_in_window_us, step.gpu_tail_us)
        lines.append(_row(_name(step.name), words.duration(step.cpu_us), *map(_time, busy if on_gpu else ())))
    if on_gpu:
        lines += ["", FOREIGN]
    return lines + _left_out(len(analysis.steps) - STEPS, "step")


def _labels(analysis: Analysis) -> list[str]:
    if not analysis.labels:
        return ["", "Labels: none in this trace."]
    longest = sorted(analysis.labels.items(), key=lambda item: -item[1].cpu_us)
    lines = ["", _row("label (they may nest)", "calls", "elapsed"), _rule(3)]
    shown = _names(name for name, _ in longest[:LABELS])
    lines += [_row(shown[name], str(times.calls), words.duration(times.cpu_us)) for name, times in longest[:LABELS]]
    return lines + _left_out(len(longest) - LABELS, "label")


def _findings(analysis: Analysis) -> list[str]:
    if not analysis.findings:
        return ["", words.NOTHING_FOUND]
    lines: list[str] = []
    for one in analysis.findings[:FINDINGS]:
        lines += _finding(one)
    return lines + _left_out(len(analysis.findings) - FINDINGS, "finding")


def _finding(one: Finding) -> list[str]:
    return [
        "",
        f"**{inert(one.id)}** ({words.explains(one.share_of_step, one.share_seen)})",
        f"- Observation: {_sentence(one.observation)}",
        f"- Hypothesis: {_sentence(one.hypothesis)}",
        f"- Next check: {_sentence(one.next_check)}",
    ]


def _operators(analysis: Analysis) -> list[str]:
    if not analysis.operators:
        return []
    lines = ["", _row("operator", "calls", "self, sum over calls"), _rule(3)]
    shown = analysis.operators[:OPERATORS]
    names = _names(one.name for one in shown)
    return lines + [_row(names[one.name], str(one.calls), words.duration(one.cpu_self_us)) for one in shown]


def _notes(analysis: Analysis) -> list[str]:
    shown = analysis.notes[:NOTES]
    return ["", *(f"- Note: {_sentence(note)}" for note in shown)] if shown else []


def _time(us: object) -> str:
    return words.NOT_OBSERVED if us is UNSET or not isinstance(us, (int, float)) else words.duration(us)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return f"|---|{'---:|' * (columns - 1)}"


def _left_out(number: int, thing: str) -> list[str]:
    return ["", f"{words.counted(number, f'further {thing}')} not shown."] if number > 0 else []
