"""The interpreter: a trace file in, plain values out; nothing is printed and torch is never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepprof_lab.trace.model import Analysis, Context, Interpretation

if TYPE_CHECKING:
    from pathlib import Path

    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork, Steps

__all__ = ["interpret"]


def interpret(path: Path, context: Context = Context()) -> Interpretation:  # noqa: B008 - frozen
    """Read a trace and say what is in it.

    Args:
        path: a ``.json`` or ``.json.gz`` file as ``torch.profiler`` exports it.
        context: what the capture's record says about it; the defaults where there is no record.

    Returns:
        The analysis (the contract of ``stepprof read``) and what a picture of the window needs.

    Raises:
        StepprofError: the file cannot be read as a trace.
    """
    # numpy loads here, so that a command line that only prints its help does not wait for it.
    from stepprof_lab.trace import device as devices
    from stepprof_lab.trace import findings, operators, reader, timeline, waiting
    from stepprof_lab.trace import steps as stepping

    trace = reader.read(path)
    steps = stepping.find_steps(trace)
    work = stepping.find_device_work(trace)
    wait = waiting.measure(trace, context, steps, work)
    case = findings.Case(trace, context, steps, work, wait)
    analysis = Analysis(
        trace=trace.name,
        origin=context.origin,
        question=context.question,
        notes=[*context.notes, *trace.notes, *_notes(trace, steps, work), *wait.notes],
        regime=findings.regime(case),
        gpu=devices.describe(trace, work, context),
        steps=stepping.step_times(steps, work),
        labels=stepping.label_times(trace, stepping.label_rows(trace), work),
        operators=operators.operator_times(trace, work),
        findings=findings.find(case),
    )
    return Interpretation(analysis, timeline.build(trace, steps, work))


def _notes(trace: Trace, steps: Steps, work: DeviceWork) -> list[str]:
    """What a reader of the numbers has to know about the whole trace."""
    notes = []
    if not len(steps):
        notes.append(
            "no step is marked in this trace (no ProfilerStep span), so nothing is said a step: "
            "profile with a schedule and call step() at the end of each turn"
        )
    if len(set(steps.names)) < len(steps):
        notes.append("some steps have the same name: the trace may hold several sessions")
    unlinked = int((~work.linked).sum())
    if unlinked:
        notes.append(
            f"{unlinked} of {len(work)} device events have no launch in the trace (usual for work that was queued "
            "before the record began): they count as busy and belong to no step"
        )
    early = int((work.linked & (work.start < work.launched_at)).sum())
    if early:
        notes.append(f"{early} device events start before their launch: their time stamps cannot be trusted")
    if any("GraphLaunch" in name for name in trace.names):
        notes.append("work was launched as a graph: one launch stands for many device events, all counted to its step")
    return notes
