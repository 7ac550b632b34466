"""A trace file becomes columns: one row for each event that the interpreter uses, times as integer nanoseconds.

The format is Kineto's Chrome trace. Its times are microseconds with three decimals, which a double holds exactly
enough up to 2**43 (`EXACT_BELOW_US`); above it, times are decoded again as decimals. Broken files are repaired
where that loses nothing that is left unsaid, and refused in one line otherwise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import re
from collections import Counter
from decimal import Decimal
from functools import cached_property
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import events, intervals, pieces, repair, source, stacks
from stepprof_lab.trace.events import KIND_OF_CATEGORY, LEFT_OUT, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]
    Int32 = npt.NDArray[np.int32]
    Bool = npt.NDArray[np.bool_]


HIDDEN_COPY = re.compile(r"MEMORY_COPY|__amd_rocclr_copyBuffer")
HIDDEN_FILL = re.compile(r"__amd_rocclr_fillBuffer")
"""ROCm up to 7.1 files copies and fills under ``kernel``."""

EXACT_BELOW_US = 2.0**43
"""Below it neighbouring doubles are less than a nanosecond apart, so three decimals survive."""
LARGEST_US = 2**53 - 1
"""Above it a time is no time stamp: 2**53 microseconds are 285 years, and nanoseconds no longer fit."""
LONGEST_TRACE_NS = 24 * 3600 * 1_000_000_000
"""What begins further from the middle of the trace than a day was not recorded in it: its time stamp is wrong."""
BESIDE_RECORD_NS = 60 * 1_000_000_000
"""How far device work may lie before or after what the host recorded. The profiler waits for the device when it stops
(8 ms at the most in 25 real traces); what lies more than a minute away has a wrong time."""

LARGEST_SUM_NS = 2.0**62 / 1.4
"""A sum of durations that still fits: 104 years."""
LONGEST_NUMBER = 400
"""Characters of a time at the most; of a longer text the beginning decides."""
LONGEST_NAME = 10_000
"""Characters of a name at the most: those of C++ templates have some thousands. Of a longer one a part is kept."""
LONGEST_SHAPE = 2000
"""Characters of the shapes of a call, likewise."""
LONGEST_PLACE = 200
"""Characters of a thread's, a stream's and a device's number or name, and of a place in a source file, likewise."""
STEP_PREFIX = "ProfilerStep#"


class Metadata(msgspec.Struct):
    """What stands around the events; what is None or empty is not in the file."""

    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815
    """What the times count from; absent where they are absolute."""
    host_name: Any = None
    trace_id: Any = None
    hip_runtime_version: Any = None
    roctracer_version: Any = None
    cuda_runtime_version: Any = None
    cupti_version: Any = None
    rocprofiler: Any = msgspec.field(default=None, name="rocprofiler-sdk_version")
    stepprof_lab: Any = None
    """What this project wrote: the mark of a constructed or simulated trace, or the number of a capture."""

    def stated_origin(self) -> Literal["constructed", "simulated"] | None:
        """What the file says of itself. Only that it was not measured is believed: a file cannot vouch for more."""
        said = self.stepprof_lab.get("origin") if isinstance(self.stepprof_lab, dict) else None
        for origin in ("constructed", "simulated"):
            if said == origin:
                return origin
        return None

    def stated_notes(self) -> list[str]:
        """What a copy for sharing says about how it was made; see `stepprof_lab.trace.redact`."""
        said = self.stepprof_lab.get("notes") if isinstance(self.stepprof_lab, dict) else None
        notes = said if isinstance(said, list) else []
        return [note[:400] for note in notes[:20] if isinstance(note, str)]

    def stated_missing(self) -> tuple[list[str], int]:
        """What a copy for sharing says of its original: see `Trace.missing` and `Trace.unusable`."""
        said = self.stepprof_lab if isinstance(self.stepprof_lab, dict) else {}
        why, unusable = said.get("missing"), said.get("unusable")
        clauses = [one[:400] for one in why[:20] if isinstance(one, str)] if isinstance(why, list) else []
        return clauses, unusable if isinstance(unusable, int) and 0 <= unusable < 2**62 else 0

    def stated_unknown(self) -> Counter[str]:
        """What a copy for sharing left out that may be device work: events by the beginning of their kind."""
        said = self.stepprof_lab.get("unknown") if isinstance(self.stepprof_lab, dict) else None
        counts = said.items() if isinstance(said, dict) else ()
        return Counter(
            {
                kind: count
                for kind, count in counts
                if events.MAYBE_DEVICE.fullmatch(kind) and type(count) is int and 0 < count < 2**62
            }
        )

    def faults(self) -> list[str]:
        """What is said in it in a form that cannot be used, one sentence each."""
        found = []
        job = self.distributedInfo
        if job is not None and not (isinstance(job, dict) and _counts(job.get("rank"), job.get("world_size"))):
            found.append("distributedInfo (its rank or its world size is no number that can be one)")
        listed = self.deviceProperties
        if listed is not None and not (isinstance(listed, list) and all(isinstance(one, dict) for one in listed)):
            found.append("deviceProperties (no list of devices)")
        base = self.baseTimeNanoseconds
        if base is not None and not _counts(base):
            found.append("baseTimeNanoseconds (no number)")
        return [f"not used, because it cannot be read: {what}" for what in found]

    def device_names(self) -> dict[int, str]:
        """Name of each device that is listed, by its number."""
        listed = self.deviceProperties if isinstance(self.deviceProperties, list) else []
        found = {}
        for number, device in enumerate(listed):
            if isinstance(device, dict):
                ident = device.get("id", number)
                name = device.get("name")
                place = ident if isinstance(ident, int) else number
                found[place] = name[:LONGEST_PLACE] if isinstance(name, str) else ""
        return found


def _counts(*values: Any) -> bool:
    """Whether all that is given is a whole number from 0 on."""
    given = [value for value in values if value is not None]
    return all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in given)


class _File(Metadata):
    traceEvents: list[events.Event] = msgspec.field(default_factory=list)  # noqa: N815


class _ExactFile(msgspec.Struct):
    traceEvents: list[events.Exact]  # noqa: N815 - the format's own name


class _Pieces(msgspec.Struct):
    traceEvents: list[Raw] | None = None  # noqa: N815


@dataclasses.dataclass(frozen=True)
class Lane:
    """Where an event ran: a thread of the host, or a stream of a device."""

    device: bool
    owner: str
    """Process of a thread; number of a device."""
    row: str
    """Number of the thread or the stream."""
    title: str = ""
    """The thread's name, where the trace gives one."""


class Collective(NamedTuple):
    """The arguments of a collective operation, as texts; empty where they are not recorded."""

    name: str
    group: str
    group_ranks: str
    dtype: str
    elements: str


@dataclasses.dataclass(frozen=True)
class Trace:
    """The events of one trace as columns of the same length, in the file's order.

    Times are nanoseconds on the trace's own clock.
    """

    name: str
    start: Int64
    end: Int64
    kind: npt.NDArray[np.int8]
    name_id: Int32
    lane_id: Int32
    correlation: Int64
    """0: no link."""
    shape_id: Int32
    """-1: no shapes recorded."""
    bytes: Int64
    """Size of a copy; -1: not recorded. On ROCm it stands at the call, not at the copy."""
    collective: Bool
    """Whether the event has the arguments of a collective operation."""
    collective_id: Int32
    """Its arguments, by place in `collectives`; -1: it has none."""
    collectives: list[Collective]
    names: list[str]
    lanes: list[Lane]
    shapes: list[str]
    frames: stacks.Frames
    """The user's own lines, where the trace has stacks."""
    metadata: Metadata
    categories: frozenset[str]
    """The categories of its events, as the file names them."""
    notes: list[str]
    missing: list[str] = dataclasses.field(default_factory=list)
    """Why device work (or the calls that launch it) may be missing, where the file was cut or device events could not
    be used: then what looks idle need not be idle. One clause each; empty for a sound file."""
    unusable: int = 0
    """Device events of the file that were set aside."""
    unknown: Counter[str] = dataclasses.field(default_factory=Counter)
    """Events of kinds that are not known here, which are in no number."""

    def __len__(self) -> int:
        """Number of events."""
        return len(self.start)

    def of(self, *kinds: Kind) -> Int64:
        """Indices of the events of these kinds, in the file's order."""
        wanted = np.zeros(len(Kind), dtype=np.bool_)
        wanted[list(kinds)] = True
        return np.flatnonzero(wanted[self.kind])

    def names_of(self, rows: Int64) -> list[str]:
        """The distinct names of some events, in order of appearance in the file."""
        present = np.flatnonzero(np.bincount(self.name_id[rows], minlength=len(self.names)))
        return [self.names[i] for i in present.tolist()]

    def by_lane(self, rows: Int64) -> list[Int64]:
        """Rows apart by thread or stream, in the order in which these appear; the file's order within each."""
        ordered = rows[np.argsort(self.lane_id[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.lane_id[ordered])) + 1
        return [part for part in np.split(ordered, cuts) if len(part)]

    @cached_property
    def nesting(self) -> tuple[Int64, Int64]:
        """How operators, annotations and runtime calls lie in each other, thread by thread.

        Returns:
            For each event the row of the innermost of them around it (-1: none, and for all other events), and how
            many are around it.
        """
        parent = np.full(len(self), -1, dtype=np.int64)
        depth = np.zeros(len(self), dtype=np.int64)
        for rows in self.by_lane(self.of(Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME)):
            inside, depth[rows] = intervals.nesting(self.start[rows], self.end[rows])
            parent[rows] = np.where(inside >= 0, rows[np.maximum(inside, 0)], -1)
        return parent, depth

    def named(self, names: Iterable[str], *kinds: Kind) -> Int64:
        """Indices of the events of these kinds that have one of these names."""
        wanted = set(names)
        has = np.array([name in wanted for name in self.names], dtype=np.bool_)
        rows = self.of(*kinds)
        return rows[has[self.name_id[rows]]]


def read(path: Path) -> Trace:
    """Read a trace; see `Trace` for its columns.

    Args:
        path: a ``.json`` or ``.json.gz`` file as ``export_chrome_trace`` writes it, or a bare list of its events.

    Raises:
        StepprofError: the file cannot be read, is no trace, or holds no event of a PyTorch profile.
    """
    notes: list[str] = []
    missing: list[str] = []
    gathered = _Gathered()
    metadata: Metadata | None = _decode_pieces(path, gathered)
    if metadata is None:
        gathered = _Gathered()
        data, notes = source.load(path)
        file, data = _decode(path, data, notes, missing)
        _add_all(file, data, gathered)
        metadata = file
    if not gathered.seen:
        early = "capture again with at least one active step; a profiler stopped early writes such a file"
        todo = "capture or export it again" if notes else early
        raise source.refuse(path, "holds no event that can be read" + _in_brackets(notes), todo)
    return _trace(path, gathered, metadata, notes, missing)


def sound(path: Path) -> tuple[bytes, list[str]]:
    """The text of a trace as a JSON object whose events `read` takes all: mended, and without what it sets aside.

    Returns:
        The text, and notes on what was mended or left out.

    Raises:
        StepprofError: the file cannot be read, or is no trace.
    """
    data, notes = source.load(path)
    _, text = _decode(path, data, notes, [])
    return text, notes


# ---- text to events ----


def _accepts(event: bytes) -> None:
    if event.lstrip()[:1] != b"{":
        msg = "Expected `object`"
        raise msgspec.ValidationError(msg)
    events.check(event)


_file_decoder = msgspec.json.Decoder(_File)
_exact_file_decoder = msgspec.json.Decoder(_ExactFile)


def _decode_pieces(path: Path, gathered: _Gathered) -> _File | None:
    """Decode a sound file piece by piece, so that only the events of one are objects at a time.

    Returns:
        What stands around the events; None where the file cannot be cut or is not sound: then what was gathered
        is worth nothing.
    """
    head = b""
    try:
        with source.opened(path) as fill:
            for part in pieces.cut(fill):
                if isinstance(part, pieces.Rest):
                    return _add_rest(part.text, gathered) if part.text.count(b'"traceEvents"') == 1 else None
                if not head:
                    head = part.head
                    _file_decoder.decode(head + b"]}")  # only where the events are a list of the outermost object
                text = part.events
                gathered.add(events.decode(text), lambda text=text: events.exact(text))  # type: ignore[misc]
    except (source.NotPlain, pieces.Uncut, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return None


def _add_rest(text: bytes, gathered: _Gathered) -> _File:
    file = _file_decoder.decode(text)
    _add_all(file, text, gathered)
    return file


AT_ONCE = 20_000
"""Events of a file as a whole that are looked at together."""


def _add_all(file: _File, text: bytes, gathered: _Gathered) -> None:
    """Add the events of a file as a whole; they are taken out of it."""
    written: list[events.Exact] = []

    def exact(begin: int) -> list[events.Exact]:
        written[:] = written or _exact_file_decoder.decode(text).traceEvents
        return written[begin : begin + AT_ONCE]

    found, file.traceEvents = file.traceEvents, []
    for begin in range(0, len(found), AT_ONCE):
        some = list(map(events.typed, found[begin : begin + AT_ONCE]))
        gathered.add(some, lambda begin=begin: exact(begin))  # type: ignore[misc]


def _decode(path: Path, data: bytes, notes: list[str], missing: list[str]) -> tuple[_File, bytes]:
    """Decode the file, at once where it is sound; returns the bytes too that were decoded in the end.

    What was repaired is added to ``notes``, and to ``missing`` why device work may not be there (see `Trace`).
    """
    if data.lstrip()[:1] == b"[":
        # A bare list of events is legal in the Chrome format.
        sound = b'{"traceEvents":' + data + b"}"
    else:
        sound = data
    source.refuse_dense(path, data)
    try:
        file = _file_decoder.decode(sound)
        lists = sum(1 for _ in zip(_LISTS.finditer(sound), range(2), strict=False))
        if lists < 2 and (file.traceEvents or b'"traceEvents"' in sound):
            return file, sound
        problem = "its object has no `traceEvents`" if not lists else "it holds several lists of events"
    except RecursionError:
        problem = "it is nested too deeply"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = str(error)
    first = _first_document(data, notes)
    if first is not data:
        return _decode(path, first, notes, missing)
    salvage = _salvage(data, sound)
    if salvage is None:
        raise _no_trace(path, data, problem)
    _note_repairs(salvage, problem, notes)
    missing += _missing(salvage)
    try:
        return _file_decoder.decode(salvage.data), salvage.data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise source.refuse(path, f"cannot be read as JSON ({problem})", "capture or export it again") from error


_LISTS = re.compile(rb'"traceEvents"\s*:\s*\[')


def _first_document(data: bytes, notes: list[str]) -> bytes:
    """The first of several traces in one file, or the trace before what does not belong to it; all, where it is one."""
    try:
        msgspec.json.decode(data, type=Raw)
        end = len(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        trailing = re.search(r"trailing characters \(byte (\d+)\)", str(error))
        end = int(trailing[1]) - 1 if trailing else len(data)  # it counts from 1
    if end < len(data):
        notes.append(f"what follows the end of the trace ({len(data) - end} bytes from byte {end} on) was not read")
        return data[:end]
    starts = [found.start() for found, _ in zip(_LISTS.finditer(data), range(2), strict=False)]
    if len(starts) < 2:
        return data
    notes.append(f"the file holds several lists of events: the first was read, not what comes from byte {starts[1]} on")
    return data[: starts[1]]


def _salvage(data: bytes, sound: bytes) -> repair.Salvage | None:
    """What can be kept of a file that was not decoded at once."""
    try:
        events = msgspec.json.decode(sound, type=_Pieces).traceEvents
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return repair.from_text(data, _accepts)
    if events is None:
        return None
    try:
        around = msgspec.json.decode(sound, type=dict[str, Raw])
        around["traceEvents"] = Raw(b"[]")
        frame = msgspec.json.encode(around)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return repair.from_text(data, _accepts)
    at = frame.index(b'"traceEvents":[') + len(b'"traceEvents":[')
    return repair.from_parts(frame[:at], events, frame[at:], _accepts)


def _no_trace(path: Path, data: bytes, problem: str) -> StepprofError:
    if not problem.startswith("Expected") and data.lstrip()[:1] not in b"{[":
        found = re.search(rb"[\x00-\x08\x0e-\x1f]", data[:4096])
        kind = "is not text" if found else "is not JSON"
        return source.refuse(path, f"{kind} ({problem})", "name the file that export_chrome_trace wrote")
    return source.refuse(
        path,
        f"is not a trace that can be read ({problem})",
        "name the file that export_chrome_trace wrote",
        "an object with `traceEvents`, a list of events",
    )


def _note_repairs(salvage: repair.Salvage, problem: str, notes: list[str]) -> None:
    for what, count in salvage.mended.items():
        notes.append(f"repaired: {what} ({_events(count)})" if count else f"repaired: {what}")
    if salvage.mended_around and not salvage.envelope_lost:
        notes.append(f"repaired in the metadata: {', '.join(salvage.mended_around)}")
    if salvage.aside:
        index, byte = salvage.first_aside
        where = f"event {index}" + (f", byte {byte}" if byte >= 0 else "")
        notes.append(
            f"set aside: {_events(salvage.aside)} that cannot be read; the first is {where}: {salvage.why_aside}"
        )
    if not salvage.whole:
        where = (
            "inside event {} (which begins at byte {})".format(*salvage.cut_in) if salvage.cut_in else "after an event"
        )
        notes.append(
            f"the file is cut short {where}: it was read up to its last whole event; what came after is not observed"
        )
    if salvage.envelope_lost:
        notes.append(f"the metadata around the events could not be read and is missing ({problem})")


def _missing(salvage: repair.Salvage) -> list[str]:
    """Why device work may be missing from what could be read."""
    lost = sum(n for category, n in salvage.aside_of.items() if KIND_OF_CATEGORY.get(category) not in _ON_HOST)
    said = [] if salvage.whole else ["the file is cut short"]
    return said + ([f"{_events(lost)} that may be device work cannot be read"] if lost else [])


_ON_HOST = (Kind.OPERATOR, Kind.ANNOTATION, Kind.OVERHEAD)
"""What may be lost without device work or its launch being lost. A category that cannot be read is none of them."""


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


def _in_brackets(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


# ---- events to columns ----

_NAME, _PID, _TID, _TS, _DUR, _ARGS = (
    operator.attrgetter(field) for field in ("name", "pid", "tid", "ts", "dur", "args")
)
_CORRELATION, _DEVICE, _STREAM, _BYTES, _DIMS, _COLLECTIVE = (
    operator.attrgetter(field) for field in ("correlation", "device", "stream", "bytes", "dims", "collective")
)
_OTHER, _LEFT, _FRAME = -1, -2, 100
_KIND_OF_TYPE: dict[type, int] = {
    events.Event: _OTHER,
    **dict.fromkeys(events.LEFT_OUT_TYPES, _LEFT),
    **{type_: KIND_OF_CATEGORY.get(category, _FRAME) for type_, category in events.CATEGORY.items()},
}


class _Numbers(dict[Any, int]):
    """Distinct values in order of appearance, each with its number."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number

    def of(self, values: Iterable[Any], count: int) -> Int32:
        """The number of each of so many values."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


class _Part(NamedTuple):
    """The columns of the usable events of one piece of a file."""

    start: Int64
    duration: Int64
    known: Bool
    """Whether start and duration are numbers that can be a time."""
    kind: npt.NDArray[np.int8]
    name_id: Int32
    lane_id: Int32
    correlation: Int64
    shape_id: Int32
    bytes: Int64
    collective_id: Int32


@dataclasses.dataclass
class _Gathered:
    """What is known of a file while its events arrive, one piece after the other.

    It goes field by field over all events of a piece: a loop in C for each, in place of one in Python for all.
    """

    seen: int = 0
    """Events of any kind."""
    texts: int = 0
    """Events whose times were written as texts."""
    parts: list[_Part] = dataclasses.field(default_factory=list)
    names: _Numbers = dataclasses.field(default_factory=_Numbers)
    places: _Numbers = dataclasses.field(default_factory=_Numbers)
    """Processes, threads, devices and streams, as they stand in the file."""
    lanes: _Numbers = dataclasses.field(default_factory=_Numbers)
    """Process and thread as they stand in the file; device and stream behind a True."""
    shapes: _Numbers = dataclasses.field(default_factory=_Numbers)
    collectives: _Numbers = dataclasses.field(default_factory=_Numbers)
    titles: dict[tuple[bool, str, str], str] = dataclasses.field(default_factory=dict)
    categories: set[str] = dataclasses.field(default_factory=set)
    unknown: Counter[Any] = dataclasses.field(default_factory=Counter)
    """Events of categories that are not known, by category."""
    apart: int = 0
    """Events of known categories whose begin and end are written apart."""
    frames: list[stacks.Frames] = dataclasses.field(default_factory=list)
    frames_known: stacks.Known = dataclasses.field(default_factory=stacks.Known)
    has_frames: bool = False

    def add(self, found: list[Any], exact: Callable[[], list[events.Exact]]) -> None:
        """Add the events of a piece.

        Args:
            found: all of them, as `events.decode` gives them.
            exact: gives their times as they stand in the text.
        """
        self.seen += len(found)
        kind = np.fromiter(map(_KIND_OF_TYPE.__getitem__, map(type, found)), dtype=np.int8, count=len(found))
        self._add_others(_where(kind == _OTHER, found))
        self._add_frames(_where(kind == _FRAME, found))
        rows = np.flatnonzero((kind >= 0) & (kind < _FRAME))
        if len(rows):
            chosen = _where((kind >= 0) & (kind < _FRAME), found)
            self.categories.update(map(events.CATEGORY.__getitem__, set(map(type, chosen))))
            self._add_columns(chosen, kind[rows], rows, exact)

    def _add_others(self, others: list[events.Event]) -> None:
        """Count what is not known, and take the names that the trace gives to threads."""
        for event in others:
            if event.cat not in KIND_OF_CATEGORY and event.cat != events.FRAME:
                self.unknown[event.cat] += 1
            self.apart += event.ph in ("B", "E") and event.cat in KIND_OF_CATEGORY
            if event.ph == "M" and event.name == "thread_name" and event.args and isinstance(event.args.name, str):
                self.titles[_lane((event.pid, event.tid))] = _shortened(event.args.name, LONGEST_PLACE)

    def _add_frames(self, found: list[events.Span]) -> None:
        """Keep the user's own frames."""
        self.has_frames |= bool(found)
        users = list(compress(found, map(self.frames_known.__getitem__, map(_NAME, found))))
        start, duration = _ns(_numbers(map(_TS, users), len(users))), _ns(_numbers(map(_DUR, users), len(users)))
        known = (start != MISSING) & (duration != MISSING)
        users, start, duration = _where(known, users), start[known], duration[known]
        threads = [(_text(frame.pid), _text(frame.tid)) for frame in users]
        lines = [stacks.short(frame.name) for frame in users]
        self.frames.append(stacks.Frames(start, start + np.maximum(duration, 0), threads, lines, recorded=True))

    def _add_columns(
        self,
        found: list[Any],
        kind: npt.NDArray[np.int8],
        rows: Int64,
        exact: Callable[[], list[events.Exact]],
    ) -> None:
        start, duration, texts = _times(found, rows, exact)
        known = (start != MISSING) & (duration != MISSING)
        self.texts += int((texts & known).sum())
        part = _Part(
            start=start,
            duration=duration,
            known=known,
            kind=kind,
            name_id=self.names.of(map(_NAME, found), len(found)),
            lane_id=self.places.of(map(_PID, found), len(found)),
            correlation=np.zeros(len(found), dtype=np.int64),
            shape_id=np.full(len(found), -1, dtype=np.int32),
            bytes=np.full(len(found), -1, dtype=np.int64),
            collective_id=np.full(len(found), -1, dtype=np.int32),
        )
        threads = self.places.of(map(_TID, found), len(found))
        args = list(map(_ARGS, found))
        on_host, calls, on_device = kind < Kind.RUNTIME, kind == Kind.RUNTIME, kind > Kind.RUNTIME
        self._fill_host(part, np.flatnonzero(on_host), _where(on_host, args))
        self._fill_calls(part, np.flatnonzero(calls), _where(calls, args))
        self._fill_lanes(part, threads, np.flatnonzero(~on_device))
        self._fill_device(part, threads, np.flatnonzero(on_device), _where(on_device, args))
        self.parts.append(part)

    def _fill_host(self, part: _Part, rows: Int64, args: list[events.HostArgs]) -> None:
        part.shape_id[rows] = self.shapes.of(map(bytes, map(_DIMS, args)), len(args))
        self._fill_collectives(part, rows, args)

    def _fill_calls(self, part: _Part, rows: Int64, args: list[events.CallArgs]) -> None:
        part.correlation[rows] = _correlations(args)
        part.bytes[rows] = _sizes(list(map(_BYTES, args)))

    def _fill_device(self, part: _Part, threads: Int32, rows: Int64, args: list[events.DeviceArgs]) -> None:
        part.correlation[rows] = _correlations(args)
        part.bytes[rows] = _sizes(list(map(_BYTES, args)))
        self._fill_collectives(part, rows, args)
        stated = (self.places.of(map(get, args), len(args)) for get in (_DEVICE, _STREAM))
        self._fill_lanes(part, threads, rows, *stated)

    def _fill_collectives(self, part: _Part, rows: Int64, args: list[Any]) -> None:
        for place in _given(list(map(_COLLECTIVE, args))):
            part.collective_id[rows[place]] = self.collectives[_collective(args[place])]

    def _fill_lanes(self, part: _Part, threads: Int32, rows: Int64, *stated: Int32) -> None:
        """Number the lanes of some events, whose processes stand in the lane's column so far.

        Neighbours are often of one lane, so only the first of each run is looked at.

        Args:
            part: the columns.
            threads: of all events, as numbers of places.
            rows: the events.
            stated: their devices and streams, where they are device work.
        """
        if not len(rows):
            return
        columns = (part.lane_id[rows], threads[rows], *stated)
        first = np.concatenate(([True], np.any([column[1:] != column[:-1] for column in columns], axis=0)))
        values = list(self.places)
        lanes = [
            _lane_key(*(values[place] for place in places))
            for places in zip(*(column[first].tolist() for column in columns), strict=True)
        ]
        part.lane_id[rows] = self.lanes.of(lanes, len(lanes))[np.cumsum(first) - 1]

    def all_frames(self) -> stacks.Frames:
        """The user's own frames of all pieces."""
        return stacks.Frames(
            np.concatenate([part.start for part in self.frames]),
            np.concatenate([part.end for part in self.frames]),
            [thread for part in self.frames for thread in part.thread],
            [_shortened(line, LONGEST_PLACE) for part in self.frames for line in part.line],
            self.has_frames,
        )

    def all_lanes(self) -> tuple[list[Lane], Int32]:
        """The lanes, and for each number in `lanes` which one it is: a thread may be written in several ways."""
        distinct = _Numbers()
        of_given = distinct.of(map(_lane, self.lanes), len(self.lanes))
        lanes = [Lane(device, owner, row, self.titles.get((device, owner, row), "")) for device, owner, row in distinct]
        return lanes, of_given


def _trace(path: Path, gathered: _Gathered, metadata: Metadata, notes: list[str], missing: list[str]) -> Trace:
    """Put the pieces together, and set aside what cannot be true."""
    if gathered.apart:
        notes.append(
            f"set aside: {_events(gathered.apart)} whose begin and end are written apart (ph B and E): only whole "
            "events (ph X) are read, as PyTorch's profiler writes them"
        )
    unknown = _unknown(gathered.unknown) + metadata.stated_unknown()
    if not gathered.parts:
        _note_unknown(unknown, notes)
        none = "" if gathered.apart else ", none of them an operator, a label or device work of PyTorch"
        raise source.refuse(
            path,
            f"has {_events(gathered.seen)}{none}{_in_brackets(notes)}",
            "name the trace of a torch.profiler session",
        )
    all_ = _Part._make(np.concatenate(columns) for columns in zip(*gathered.parts, strict=True))
    gathered.parts.clear()
    if gathered.texts:
        notes.append(f"repaired: times written as texts, read as numbers ({_events(gathered.texts)})")
    known = _usable(path, all_, notes)
    unusable = int((~known & _works(all_.kind)).sum())
    if unusable:
        missing.append(f"{unusable} device event{'' if unusable == 1 else 's'} could not be used")
    strange = sum(count for kind, count in unknown.items() if events.MAYBE_DEVICE.match(kind))
    if strange:
        missing.append(f"{_events(strange)} of kinds that are not known here may be device work")
    known = _once(all_, known, list(gathered.names), notes)
    _note_unknown(unknown, notes)
    notes += metadata.faults()
    names = [_shortened(name, LONGEST_NAME) for name in gathered.names]
    long = sum(len(name) > LONGEST_NAME for name in gathered.names)
    if long:
        what = "name" if long == 1 else "names"
        notes.append(f"{long} {what} of more than {LONGEST_NAME} characters: only the beginning is kept")
    shapes = list(gathered.shapes)
    lanes, lane_of_given = gathered.all_lanes()
    kept = all_ if known.all() else _Part._make(column[known] for column in all_)
    if kept.duration.sum(dtype=np.float64) > LARGEST_SUM_NS:
        raise source.refuse(path, "has events that last more than 100 years together", "capture it again")
    missing += _without_durations(kept, names, notes)
    stated, aside = metadata.stated_missing()
    return Trace(
        name=path.name,
        start=kept.start,
        end=kept.start + kept.duration,
        kind=_unhidden(kept.kind, names, kept.name_id),
        name_id=kept.name_id,
        lane_id=lane_of_given[kept.lane_id],
        correlation=kept.correlation,
        shape_id=_without_empty(shapes, kept.shape_id),
        bytes=kept.bytes,
        collective=kept.collective_id >= 0,
        collective_id=kept.collective_id,
        collectives=list(gathered.collectives),
        names=names,
        lanes=lanes,
        shapes=shapes,
        frames=gathered.all_frames(),
        metadata=metadata,
        categories=frozenset(gathered.categories),
        notes=notes,
        missing=list(dict.fromkeys([*missing, *stated])),
        unusable=unusable + aside,
        unknown=unknown,
    )


def _works(kind: npt.NDArray[np.int8]) -> Bool:
    """Which events are device work."""
    return np.isin(kind, (Kind.KERNEL, Kind.COPY, Kind.MEMSET))


def _usable(path: Path, all_: _Part, notes: list[str]) -> Bool:
    """Which events have a time that can be true; refuses the file where none has."""
    if not all_.known.all():
        untimed = int((~all_.known).sum())
        notes.append(f"set aside: {_events(untimed)} without a start and a duration that can be a time")
    known = all_.known & _plausible(all_.start, all_.duration, all_.known, notes)
    if not known.any():
        why = f"has {_events(len(known))}, none with a usable time{_in_brackets(notes)}"
        raise source.refuse(path, why, "capture it again")
    return _near_record(all_, known, notes)


def _near_record(all_: _Part, known: Bool, notes: list[str]) -> Bool:
    """Leave out device events that lie far before or after all that the host recorded."""
    host = known & (all_.kind <= Kind.RUNTIME)
    device = known & (_works(all_.kind) | (all_.kind == Kind.DEVICE_ANNOTATION))
    if not host.any() or not device.any():
        return known
    end = all_.start + np.where(known, all_.duration, 0)
    low, high = int(all_.start[host].min()) - BESIDE_RECORD_NS, int(end[host].max()) + BESIDE_RECORD_NS
    far = device & ((all_.start < low) | (end > high))
    if far.any():
        notes.append(
            f"set aside: {_events(int(far.sum()))} of the device, more than a minute before or after all that the host "
            "recorded (their times cannot be true)"
        )
    near: Bool = known & ~far
    return near


def _once(all_: _Part, known: Bool, names: list[str], notes: list[str]) -> Bool:
    """Leave out device events and steps that are written again, and host events where at least half of them are.

    No stream does the same work twice at the same time. Host events of old traces, with whole microseconds, may have
    a child that looks the same.
    """
    step = np.array([name.startswith(STEP_PREFIX) for name in names], dtype=np.bool_)[all_.name_id]
    single = known & (_works(all_.kind) | (step & (all_.kind <= Kind.ANNOTATION)))
    again = _repeated(all_, np.flatnonzero(single))
    if not len(again):
        return known
    host = np.flatnonzero(known & ~single)
    others = _repeated(all_, host)
    again = np.concatenate((again, others)) if 2 * len(others) >= len(host) else again
    notes.append(
        f"repaired: {_events(len(again))} written more than once (same name, times, thread or stream): each is "
        "counted once"
    )
    once: Bool = known.copy()
    once[again] = False
    return once


def _repeated(all_: _Part, rows: Int64) -> Int64:
    """Those of some rows that say in all columns what an earlier one says."""
    if not len(rows):
        return rows
    rows = rows[np.argsort(all_.start[rows], kind="stable")]
    same = np.diff(all_.start[rows]) == 0
    rows = rows[np.concatenate((same, [False])) | np.concatenate(([False], same))]
    columns = (all_.correlation, all_.name_id, all_.lane_id, all_.kind, all_.duration, all_.start)
    rows = rows[np.lexsort([column[rows] for column in columns])]  # stable: the first one stays first
    alike = np.all([np.diff(column[rows]) == 0 for column in columns], axis=0)
    again: Int64 = rows[1:][alike]
    return again


def _without_durations(kept: _Part, names: list[str], notes: list[str]) -> list[str]:
    """Say where durations were lost; returns what follows from it for `Trace.missing`."""
    if not kept.duration.any():
        notes.append(f"no event has a duration ({_events(len(kept.duration))}, all of 0 us): no time can be read here")
        return ["the durations of all events are 0"]
    step = np.array([name.startswith(STEP_PREFIX) for name in names], dtype=np.bool_)[kept.name_id]
    step &= kept.kind <= Kind.ANNOTATION
    empty = int((step & (kept.duration == 0)).sum())
    if not empty:
        return []
    notes.append(f"{empty} of {int(step.sum())} steps have a duration of 0 us, which no step has: nothing lies in them")
    return ["steps have a duration of 0"]


def _unknown(unknown: Counter[Any]) -> Counter[str]:
    """The kinds that may be of a device that is new here, or of another program."""
    return Counter({_shortened(kind, 40): count for kind, count in unknown.most_common() if kind not in LEFT_OUT})


def _note_unknown(unknown: Counter[str], notes: list[str]) -> None:
    """Say what was not looked at."""
    found = unknown.most_common()
    if found:
        said = ", ".join(f"{count} of '{kind}'" for kind, count in found[:KINDS_NAMED])
        more = f" and {len(found) - KINDS_NAMED} more kinds" if len(found) > KINDS_NAMED else ""
        notes.append(f"events of kinds that are not known here are in no number: {said}{more}")


KINDS_NAMED = 5


def _times(found: list[Any], rows: Int64, exact: Callable[[], list[events.Exact]]) -> tuple[Int64, Int64, Bool]:
    """Start and duration in ns (`MISSING` where none can be a time), and which of them are no numbers in the text."""
    start, duration = _numbers(map(_TS, found), len(found)), _numbers(map(_DUR, found), len(found))
    texts = np.isnan(start) | np.isnan(duration)
    if texts.any() or (np.abs(start).max() >= EXACT_BELOW_US and float in set(map(type, map(_TS, found)))):
        written = exact()
        return (
            _ns_of_texts(written[i].ts for i in rows.tolist()),
            _ns_of_texts(written[i].dur for i in rows.tolist()),
            texts,
        )
    return _ns(start), _ns(duration), texts


def _where(which: Bool, values: list[Any]) -> list[Any]:
    """Some of a list's values."""
    return list(compress(values, which.tolist()))


def _lane_key(owner: Any, thread: Any, *stated: Any) -> tuple[Any, ...]:
    """Process and thread of an event; for device work a True, device and stream."""
    if not stated:
        return owner, thread
    device, stream = stated
    return True, owner if device is None else device, thread if stream is None else stream


def _lane(given: tuple[Any, ...]) -> tuple[bool, str, str]:
    if len(given) == 2:
        return False, _place(given[0]), _place(given[1])
    return True, _place(given[1]), _place(given[2]).removeprefix("stream ")


def _place(number: Any) -> str:
    return _shortened(_text(number), LONGEST_PLACE)


def _correlations(args: list[Any]) -> Int64:
    """Numbers that link a launch to its work; 0 where there is none."""
    try:
        found = np.fromiter(map(_CORRELATION, args), dtype=np.int64, count=len(args))
    except OverflowError:
        given = map(_CORRELATION, args)
        found = np.array([n if -(2**63) < n < 2**63 else 0 for n in given], dtype=np.int64)
    return np.where(found == MISSING, 0, found)


def _sizes(given: list[Any]) -> Int64:
    """Bytes of copies; -1 where not recorded."""
    sizes = np.full(len(given), -1, dtype=np.int64)
    for row in _given(given):
        sizes[row] = _bytes(given[row])
    return sizes


def _given(values: list[Any]) -> Iterable[int]:
    """Where the few values stand that are not None."""
    return compress(range(len(values)), map(operator.is_not, values, repeat(None)))


MISSING = int(np.iinfo(np.int64).min)


def _numbers(values: Iterable[Any], count: int) -> npt.NDArray[np.float64]:
    """Numbers as doubles; NaN for an integer of some hundred digits."""
    given = list(values)
    try:
        return np.fromiter(given, dtype=np.float64, count=count)
    except OverflowError:
        return np.array([value if abs(value) <= LARGEST_US else np.nan for value in given], dtype=np.float64)


def _ns(us: npt.NDArray[np.float64]) -> Int64:
    """Microseconds as ns; exact for integers, and for three decimals below `EXACT_BELOW_US`."""
    usable = np.abs(us) <= LARGEST_US  # false for NaN
    us = np.where(usable, us, 0.0)
    whole = np.floor(us)
    ns = whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)
    return np.where(usable, ns, MISSING)


def _ns_of_texts(values: Iterable[Raw]) -> Int64:
    """Microseconds as they stand in the file, as ns; exact however large."""
    return np.array([_ns_of_text(bytes(value)) for value in values], dtype=np.int64)


def _ns_of_text(text: bytes) -> int:
    try:
        value = Decimal(text[:LONGEST_NUMBER].decode("utf-8", "replace").strip('"'))
    except ArithmeticError:  # absent, null, or a text that is no number
        return MISSING
    # By its magnitude first: arithmetic with an exponent of nine digits overflows.
    if not value.is_finite() or value.adjusted() > 18 or abs(value) > LARGEST_US:
        return MISSING
    return int((value * 1000).to_integral_value()) if value.adjusted() > -18 else 0


def _plausible(start: Int64, duration: Int64, known: Bool, notes: list[str]) -> Bool:
    """Which events have a time that can be true: none that ends before it starts or lies a day away."""
    backwards = known & (duration < 0)
    if backwards.any():
        notes.append(f"set aside: {_events(int(backwards.sum()))} with a negative duration (an end before the start)")
    rest = known & ~backwards
    if not rest.any():
        return rest
    middle = int(np.sort(start[rest])[int(rest.sum()) // 2])
    far = rest & ((np.abs(start - middle) > LONGEST_TRACE_NS) | (duration > LONGEST_TRACE_NS))
    if far.any():
        notes.append(
            f"set aside: {_events(int(far.sum()))} more than a day away from the others "
            "(their time stamps cannot be true)"
        )
    return rest & ~far


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _shortened(text: str, most: int) -> str:
    """A text as it is; a longer one cut, and told from others that begin alike by a digest."""
    if len(text) <= most:
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{text[:most]}… ({len(text)} characters, {digest})"


def _without_empty(shapes: list[Any], shape_id: Int32) -> Int32:
    """Turn the texts of shapes into str in place; the number of "none recorded" becomes -1."""
    empty = shapes.index(b"") if b"" in shapes else -1
    shapes[:] = [_shortened(" ".join(text.decode("utf-8", "replace").split()), LONGEST_SHAPE) for text in shapes]
    return np.where(shape_id == empty, -1, shape_id).astype(np.int32)


def _bytes(value: Any) -> int:
    if isinstance(value, str):  # as HIP's calls have it
        value = int(value) if value.isdecimal() and len(value) < 19 else -1
    return int(value) if isinstance(value, (int, float)) and 0 <= value < 2**62 else -1


def _collective(args: Any) -> Collective:
    given = (args.collective, args.group, args.group_ranks, args.dtype, args.elements)
    try:
        return Collective(*("" if value is None else _shortened(_text(value), LONGEST_SHAPE) for value in given))
    except RecursionError:  # a list in a list in a list
        return Collective("unreadable", "", "", "", "")


def _unhidden(kind: npt.NDArray[np.int8], names: list[str], name_id: Int32) -> npt.NDArray[np.int8]:
    """Copies and fills that were filed as kernels get their own kind."""
    of_name = np.array(
        [Kind.COPY if HIDDEN_COPY.match(n) else Kind.MEMSET if HIDDEN_FILL.match(n) else -1 for n in names],
        dtype=np.int8,
    )[name_id]
    return np.where((kind == Kind.KERNEL) & (of_name >= 0), of_name, kind).astype(np.int8)
