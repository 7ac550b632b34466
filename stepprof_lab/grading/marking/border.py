"""The border: a learner's cells run in a sandbox, the cases are drawn and the verdicts made here.

This process never imports a learner's code. It sends cases, takes evidence as JSON of a known type, and has each item
judged when its check is reached, so that what happens later takes nothing away. The cases of practice come first, then
the hidden ones, drawn from the course's secret, which never leaves this process.
"""

from __future__ import annotations

import builtins
import contextlib
import datetime as dt
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import items, turns, variants
from stepprof_lab.grading.items import Item
from stepprof_lab.grading.marking import inside, matching, sandbox, submissions, wire
from stepprof_lab.grading.marking.job import Limits
from stepprof_lab.grading.marking.matching import Placed, Release
from stepprof_lab.grading.marking.result import Ending, How, Marked, Result
from stepprof_lab.grading.marking.sandbox import Sandbox
from stepprof_lab.grading.marking.submissions import Submission
from stepprof_lab.grading.model import Case, Evidence, Verdict

CELL_TIMES, CELL_S = 20.0, 60.0
"""A cell may take so many times the seconds that its lab states, and at least so many seconds."""

GRACE_S = 2.0
"""So long a process that closed its pipes may take to end."""

JUDGE_S = 30.0
"""A judge takes milliseconds; what a hostile process sends may be made to keep one busy."""

_WORST: Sequence[How] = ("out of memory", "timed out", "crashed", "cell failed")
"""What a whole submission's ending is called after, in this order."""


def mark(
    submission: Submission,
    release: Release,
    *,
    sandbox: Sandbox,
    secret: bytes,
    limits: Limits,
    gpu: bool = False,
    learner: str | None = None,
) -> Result:
    """Grade one submission.

    Args:
        submission: that was found.
        release: of its assignment.
        sandbox: where its cells run. The thread that calls this has to live until it returns.
        secret: the course's key.
        limits: for each of at most two runs: what a crash kept from running is tried once more.
        gpu: whether the cells may use the GPU.
        learner: under which name the exercise was drawn, where that is not the student's.

    Raises:
        StepprofError: the sandbox does not start here: an error of the run, never a grade.
    """
    began = time.monotonic()
    notes = list(submission.notes)
    try:
        data, ending = submissions.read(submission.file, release.name)
        matched = matching.match(submissions.cells_of(data, ending), release)
    except StepprofError as error:
        told = Ending(how="unreadable", why=f"{error.given}; expected {error.expected}")
        marked = [Marked(item=one.id, of=one.points, ending=told) for one in release.lab.items]
        return _result(submission, marked, told, notes, sandbox, began)
    marking = _Marking(release, sandbox, secret, limits, gpu=gpu, learner=learner or submission.student)
    marking.run_twice(matched.placed)
    notes += [*matched.notes, *marking.notes]
    if sandbox.name == "none":
        notes.append("it was graded without a sandbox")
    return _result(submission, marking.marked(), marking.ending(), notes, sandbox, began)


def _result(
    submission: Submission, marked: list[Marked], ending: Ending, notes: list[str], where: Sandbox, began: float
) -> Result:
    return Result(
        student=submission.student,
        assignment=submission.assignment,
        key=submission.key,
        submitted=submission.submitted,
        items=marked,
        ending=ending,
        notes=notes,
        sandbox=where.name,
        seconds=round(time.monotonic() - began, 3),
        made=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
    )


JudgeItem = Callable[[str, wire.Wire, float], None]
"""From an item, the line to the sandbox, and a time on the monotonic clock."""


class _TooMuch(Exception):
    """The sandbox was ended because it took more than it may."""

    def __init__(self, how: How, why: str) -> None:
        super().__init__(why)
        self.how = how


class _Marking:
    """The verdicts of one submission, over one or two runs of its cells."""

    def __init__(
        self, release: Release, where: Sandbox, secret: bytes, limits: Limits, *, gpu: bool, learner: str
    ) -> None:
        self._release = release
        self._where = where
        self._secret = secret
        self._limits = limits
        self._gpu = gpu
        self._learner = learner
        self._verdicts: dict[str, Verdict] = {}
        self._endings: dict[str, Ending] = {}
        """Of items without a verdict."""
        self._stopped: list[tuple[Placed, Ending]] = []
        """The cells that raised, and those in which a run ended."""
        self.notes: list[str] = []

    # ---- what came of it ----

    def marked(self) -> list[Marked]:
        """Every item of the lab, in its order."""
        return [
            Marked(
                item=item.id,
                of=item.points,
                verdict=self._verdicts.get(item.id),
                ending=Ending(how="graded") if item.id in self._verdicts else self._endings[item.id],
            )
            for item in self._release.lab.items
        ]

    def ending(self) -> Ending:
        """Of the whole submission: the worst that happened, and where first."""
        for how in _WORST:
            for _, ending in self._stopped:
                if ending.how == how:
                    return ending
        return Ending(how="graded")

    # ---- running ----

    def run_twice(self, placed: Sequence[Placed]) -> None:
        """Run the cells; where they ended early, once more without the cell in which they did."""
        ended_in = self._run(placed)
        if ended_in is not None and any(one.item and one.item not in self._verdicts for one in placed):
            again = [one for one in placed if one is not ended_in and one.item not in self._verdicts]
            self.notes.append(f"the rest was run once more without the cell {ended_in.name!r}")
            self._endings.clear()  # what the second run finds counts
            self._run(again)
        for item in self._release.lab.items:
            if item.id not in self._verdicts:
                self._endings[item.id] = self._why_not(item.id)

    def _why_not(self, ident: str) -> Ending:
        """Why there is no verdict on an item: what happened in its own cells, or before them."""
        own = [ending for one, ending in self._stopped if one.part == ident]
        own.sort(key=lambda ending: _WORST.index(ending.how))
        if own:
            return own[0]
        if ident in self._endings:
            return self._endings[ident]
        return Ending(how="no check", why="its check ran and was given no answer")

    def _run(self, placed: Sequence[Placed]) -> Placed | None:
        """Run cells in a sandbox of their own; the cell in which it ended early, or None."""
        with tempfile.TemporaryDirectory(prefix="stepprof-mark-") as scratch:
            command = [sys.executable, "-I", str(Path(inside.__file__).resolve())]
            child = self._where.start(command, Path(scratch), limits=self._limits, gpu=self._gpu)
            try:
                return self._attend(child, placed)
            finally:
                sandbox.stop(child)

    def _attend(self, child: subprocess.Popen[bytes], placed: Sequence[Placed]) -> Placed | None:
        watch = _Watch(child.pid, self._limits)
        with contextlib.closing(wire.Wire(child, self._limits.output_kb * 1000, watch.look)) as line:
            _demand_ready(line, child, self._where)
            run = _Run(placed, line, self._limits, self._release, self._judge_item)
            try:
                run.to_the_end(self._learner)
                return None
            except _TooMuch as much:
                ending = Ending(how=much.how, where=run.at.name, why=str(much))
            except wire.Overdue:
                ending = Ending(how="timed out", where=run.at.name, why=run.overdue())
            except wire.Forged as forged:
                ending = Ending(how="crashed", where=run.at.name, why=f"what came from the cells was {forged}")
            except wire.Ended:
                ending = Ending(how="crashed", where=run.at.name, why=_how_it_ended(child, line))
            finally:
                self._stopped += run.failed
            self._stopped.append((run.at, ending))
            for one in placed[run.number + 1 :]:
                if one.item:
                    why = f"the run ended in the cell {run.at.name!r}"
                    self._endings.setdefault(one.item, Ending(how="not reached", where=one.name, why=why))
            return run.at

    # ---- judging ----

    def _judge_item(self, ident: str, line: wire.Wire, until: float) -> None:
        """Send the cases of an item, take the evidence, and have it judged."""
        item = items.item(ident)
        cases = self._cases(item)
        with _alone(item, gpu=self._gpu):
            evidence = []
            for number, case in enumerate(cases):
                line.send(wire.Try(case=case), until)
                answer = line.receive(until)
                if not isinstance(answer, wire.Told):
                    raise wire.Forged("no evidence where it was due")
                evidence.append(_shown(answer.evidence) if number < item.visible else _hidden(answer.evidence))
        try:
            with _in_time(JUDGE_S):
                self._verdicts[ident] = _sound(item, item.judge(cases, evidence))
        except Exception as error:  # evidence is what a hostile process chose; the run goes on
            why = f"the evidence could not be judged ({type(error).__name__})"
            self._endings[ident] = Ending(how="crashed", where=ident, why=why)
        line.send(wire.GoOn(), until)

    def _cases(self, item: Item) -> list[Case]:
        """The cases of practice, as the learner saw them, and the hidden ones."""
        purpose = item.numbers_of or item.id
        seen = variants.chance(self._learner, purpose)
        unseen = variants.chance(self._learner, purpose, key=self._secret)
        return [item.draw(seen) for _ in range(item.visible)] + [item.draw(unseen) for _ in range(item.hidden)]


class _Run:
    """One run of cells, from the grader's side: what the sandbox may say next, and until when.

    Args:
        placed: the cells.
        line: to the sandbox.
        limits: of the submission.
        release: of the lab.
        judge: called at each check.
    """

    def __init__(
        self,
        placed: Sequence[Placed],
        line: wire.Wire,
        limits: Limits,
        release: Release,
        judge: JudgeItem,
    ) -> None:
        self._placed = placed
        self._line = line
        self._judge = judge
        self._end = time.monotonic() + limits.seconds
        self._seconds = limits.seconds
        self._cell_s = min(limits.seconds, max(CELL_S, CELL_TIMES * release.lab.seconds))
        self._until = self._end
        self._begun = -1
        self.failed: list[tuple[Placed, Ending]] = []

    @property
    def number(self) -> int:
        """Of the cell that began last."""
        return max(0, self._begun)

    @property
    def at(self) -> Placed:
        """The cell that began last."""
        return self._placed[self.number]

    def overdue(self) -> str:
        """What took too long, in words."""
        if self._until >= self._end:
            return f"the submission took more than {self._seconds:g} s"
        return f"the cell took more than {self._cell_s:g} s"

    def to_the_end(self, learner: str) -> None:
        """Send the cells, and answer until the last one ended.

        Raises:
            wire.Ended, wire.Overdue, wire.Forged, _TooMuch: it ended before.
        """
        lines = [wire.Line(id=one.name, source=one.source, item=one.item) for one in self._placed]
        self._line.send(wire.Script(learner=learner, lines=lines), self._end)
        asked: set[str | None] = {None}
        while not isinstance(message := self._line.receive(self._until), wire.Finished):
            if isinstance(message, wire.Begun):
                self._begin(message.cell)
            elif isinstance(message, wire.Failed) and self._begun >= 0 and not self._has_failed():
                self.failed.append((self.at, _failure(self.at, message.error)))
            elif isinstance(message, wire.Asked) and message.item == self.at.item and message.item not in asked:
                asked.add(message.item)
                self._judge(message.item, self._line, self._until)
            else:
                raise wire.Forged("a message that was not due")
        if self._begun != len(self._placed) - 1:
            raise wire.Forged("an end before the last cell")

    def _begin(self, number: int) -> None:
        if number != self._begun + 1 or number >= len(self._placed):
            raise wire.Forged("a cell out of turn")
        self._begun = number
        self._until = min(self._end, time.monotonic() + self._cell_s)

    def _has_failed(self) -> bool:
        return any(one is self.at for one, _ in self.failed)


class _Watch:
    """What all processes of a sandbox take together."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self._pid = pid
        self._limits = limits

    def look(self) -> None:
        """Raise where it is more than they may.

        Raises:
            _TooMuch: it is.
        """
        pids = sandbox.tasks_below(self._pid)
        if len(pids) > self._limits.processes:
            raise _TooMuch("crashed", f"it started more than {self._limits.processes} processes")
        if sandbox.memory_beyond(pids, self._limits.memory_mb * 1_000_000):
            raise _TooMuch("out of memory", f"it took more than {self._limits.memory_mb:,} MB")


def _demand_ready(line: wire.Wire, child: subprocess.Popen[bytes], where: Sandbox) -> None:
    """Wait until the sandbox has started, before any line of a learner's runs in it.

    Raises:
        StepprofError: it does not start.
    """
    why = None
    try:
        if not isinstance(line.receive(time.monotonic() + sandbox.START_S), wire.Ready):
            why = "it began with something else"
    except wire.Overdue:
        why = f"it did not start within {sandbox.START_S:g} s"
    except (wire.Ended, wire.Forged, _TooMuch) as error:
        line.drain(GRACE_S)
        why = sandbox.last_line(line.output) or str(error) or f"it ended with {child.poll()}"
    if why is not None:
        raise StepprofError(
            f"sandbox {where.name!r}: {why}",
            "one that starts here",
            "mend it: nothing was graded, and nobody lost points",
        )


def _how_it_ended(child: subprocess.Popen[bytes], line: wire.Wire) -> str:
    """Why nothing more came, in words."""
    line.drain(GRACE_S)
    try:
        code = child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return "it closed its pipes and went on"
    if name := sandbox.signal_in(code):
        maybe = "; where memory runs out, the system does that" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{maybe}"
    return f"its process ended by itself, with exit code {code}"


def _failure(cell: Placed, error: str) -> Ending:
    said = " ".join(error.split())[:300]
    how: How = "out of memory" if said.startswith("MemoryError") else "cell failed"
    return Ending(how=how, where=cell.name, why=said)


@contextlib.contextmanager
def _alone(item: Item, *, gpu: bool) -> Iterator[None]:
    """Have the GPU alone for a timed item: the lock is out of the sandbox's sight."""
    if not (item.timed and gpu):
        yield
        return
    from stepprof_lab import devices

    with turns.turn(devices.gpu_or_practice(), lambda _: None):
        yield


@contextlib.contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer, where that can be done: in the main thread of a system with alarms.

    Raises:
        TimeoutError: it took longer.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _shown(evidence: Evidence) -> Evidence:
    """Evidence on a case that the learner may see."""
    return msgspec.structs.replace(
        evidence,
        device=_line_of(evidence.device, 200),
        error=None if evidence.error is None else _line_of(evidence.error, 500),
    )


def _hidden(evidence: Evidence) -> Evidence:
    """Evidence on a hidden case: an error's text could carry the case out, so that only its kind is kept."""
    found = _shown(evidence)
    if found.error is None:
        return found
    kind = (re.match(r"\w+", found.error) or [""])[0]
    known = isinstance(getattr(builtins, kind, None), type)
    return msgspec.structs.replace(found, error=f"{kind if known else 'an error'}, on a case that is not shown")


def _line_of(text: str, longest: int) -> str:
    return "".join(one if one.isprintable() else " " for one in text[:longest])


def _sound(item: Item, verdict: Verdict) -> Verdict:
    """A verdict as it can be written and read again, with points that the item has.

    Raises:
        ValueError: it is none.
    """
    found = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)
    if found.item != item.id or not 0 <= found.points <= item.points:
        raise ValueError("points beyond the item's")
    return msgspec.structs.replace(found, hidden=0)
