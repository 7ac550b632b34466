"""The interpreter: a trace file in, plain values out; nothing is printed and torch is never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepprof_lab.trace.model import Analysis, Context, Interpretation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepprof_lab.trace.difference import Difference, Seen
    from stepprof_lab.trace.model import Origin, Timeline
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

__all__ = ["compare", "interpret"]


def interpret(path: Path, context: Context = Context()) -> Interpretation:  # noqa: B008 - frozen
    """Read a trace and say what is in it.

    Args:
        path: a ``.json`` or ``.json.gz`` file as ``torch.profiler`` exports it.
        context: what the capture's record says about it; the defaults where there is no record.

    Returns:
        The analysis (the contract of ``stepprof read``), and what a picture of the window needs: it is made when it
        is asked for.

    Raises:
        StepprofError: the file cannot be read as a trace.
    """
    # numpy loads here, so that a command line that only prints its help does not wait for it.
    from stepprof_lab.trace import timeline

    seen = _look(path, context)

    def picture() -> Timeline:
        made = timeline.build(seen.trace, seen.steps, seen.device, seen.analysis.findings)
        return _marked(made, seen.analysis.origin)

    return Interpretation(seen.analysis, picture)


def compare(
    first: tuple[Path, Context], second: tuple[Path, Context], *, unlike: Iterable[str] = (), validate: str = ""
) -> Difference:
    """Read two traces of the same thing and say what changed; see `stepprof_lab.trace.difference`.

    Args:
        first: the trace that the changes count from, and what its record says.
        second: the other one.
        unlike: what is known from elsewhere (their records) that speaks against comparing them.
        validate: the command that would give a verdict.

    Raises:
        StepprofError: one of the files cannot be read as a trace.
    """
    from stepprof_lab.trace import difference

    return difference.between(_look(*first), _look(*second), unlike, validate)


def _look(path: Path, context: Context) -> Seen:
    """One trace with what is concluded from it."""
    from stepprof_lab.trace import device as devices
    from stepprof_lab.trace import findings, operators, reader, waiting
    from stepprof_lab.trace import steps as stepping
    from stepprof_lab.trace.difference import Seen

    trace = reader.read(path)
    steps = stepping.find_steps(trace)
    work = stepping.find_device_work(trace)
    wait = waiting.measure(trace, context, steps, work)
    case = findings.Case(trace, context, steps, work, wait)
    regime = findings.regime(case)
    found = findings.find(case)
    analysis = Analysis(
        trace=trace.name,
        origin=trace.metadata.stated_origin() or context.origin,
        question=context.question,
        notes=[
            *context.notes,
            *trace.notes,
            *trace.metadata.stated_notes(),
            *_notes(trace, steps, work),
            *(wait.notes if not case.doubts else ()),
            *findings.notes(case, found),
        ],
        regime=regime,
        gpu=devices.describe(trace, work, context),
        steps=stepping.step_times(steps, work),
        labels=stepping.label_times(trace, stepping.label_rows(trace), work),
        operators=operators.operator_times(trace, work),
        findings=found,
        regime_reason=findings.reason(case, regime),
        doubts=case.doubts,
        not_worth=findings.not_worth(case),
    )
    return Seen(trace, steps, work, analysis)


NOT_MEASURED: dict[str, str] = {
    "constructed": "Constructed: this trace was written by hand, not measured.",
    "simulated": "Simulated: this trace was made with a device whose times come from a model, not measured on one.",
}
"""What stands on a picture of its own, too."""


def _marked(picture: Timeline, origin: Origin) -> Timeline:
    if origin not in NOT_MEASURED:
        return picture
    return msgspec.structs.replace(picture, note=" ".join(filter(None, (NOT_MEASURED[origin], picture.note))))


def _notes(trace: Trace, steps: Steps, work: DeviceWork) -> list[str]:
    """What a reader of the numbers has to know about the whole trace."""
    notes: list[str] = []
    if not len(steps):
        notes.append(
            "no step is marked in this trace (no ProfilerStep span), so nothing is said a step: "
            "profile with a schedule and call step() at the end of each turn"
        )
    if len(set(steps.names)) < len(steps):
        notes.append("some steps have the same name: the trace may hold several sessions")
    notes += _notes_on_places(trace, steps, work)
    notes += _notes_on_links(trace, work)
    notes += _note_on_the_end(trace, work)
    early = int((work.linked & (work.start < work.launched_at)).sum())
    if early:
        notes.append(f"{early} device events start before their launch: their time stamps cannot be trusted")
    if any("GraphLaunch" in name for name in trace.names):
        notes.append(
            "work was launched as a graph: one launch stands for many device events, all counted to its step; graphs "
            "can be recorded late or in part, so the device times of single steps are less certain than those of all"
        )
    if "Operator" in trace.categories:
        notes.append(
            "the trace has the format of 2021, which writes labels as operators: they are listed among the operators, "
            "the loader's and the optimizer's too"
        )
    return notes


def _notes_on_places(trace: Trace, steps: Steps, work: DeviceWork) -> list[str]:
    """Steps that overlap, and steps in which nothing lies."""
    from stepprof_lab.trace import intervals
    from stepprof_lab.trace import steps as stepping
    from stepprof_lab.trace.events import Kind

    notes: list[str] = []
    if not len(steps):
        return notes
    crossing = stepping.overlapping(steps)
    if crossing:
        notes.append(
            f"{crossing} of {len(steps)} steps begin before the steps before them have ended: what lies in several is "
            "counted in each"
        )
    window = steps.window()
    if not len(window[0]):
        return notes
    if len(work) and not work.launched_in(window).any() and not intervals.overlap(work.merged, window):
        notes.append(
            f"all {len(work)} device events lie outside the marked steps: none was launched in a step, and none ran "
            "during one"
        )
    rows = trace.of(Kind.OPERATOR, Kind.RUNTIME)
    rows = rows[~stepping.is_step(trace)[trace.name_id[rows]]]
    spans = intervals.union(trace.start[rows], trace.end[rows])
    if len(rows) and not intervals.contains(window, trace.start[rows]).any() and not intervals.overlap(spans, window):
        notes.append(f"all {len(rows)} operators and calls of the host lie outside the marked steps")
    return notes


def _note_on_the_end(trace: Trace, work: DeviceWork) -> list[str]:
    """Device work that goes on for longer after the host's record than this record lasts."""
    from stepprof_lab.trace.events import Kind

    host = trace.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)
    if not len(host) or not len(work):
        return []
    begin, end = int(trace.start[host].min()), int(trace.end[host].max())
    after = int(work.end.max()) - end
    if after <= end - begin:
        return []
    said = f"device work ends {after / 1e6:.3f} ms after all that the host recorded in {(end - begin) / 1e6:.3f} ms"
    return [f"{said}: the host may not have waited for it, or its times are wrong"]


BEFORE_RECORD = "usual for work that was queued before the record began"


def _notes_on_links(trace: Trace, work: DeviceWork) -> list[str]:
    """Device events without a launch, apart by why."""
    from stepprof_lab.trace import steps as stepping

    count = stepping.unlinked(trace, work)
    usual = "which may be in what could not be read" if trace.missing else BEFORE_RECORD
    said = (
        (count.before, f"have no launch in the trace ({usual})"),
        (count.unnumbered, "carry no number that links them to their launch (it is missing, 0 or unreadable)"),
        (count.lost, "have no launch in the trace, although earlier launches are in it: a part of it may be lost"),
    )
    return [
        f"{n} of {len(work)} device events {what}: they count as busy and belong to no step" for n, what in said if n
    ]
