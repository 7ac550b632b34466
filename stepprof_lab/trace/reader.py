"""A trace file becomes columns: one row for each event that the interpreter uses, times as integer nanoseconds.

The format is Kineto's Chrome trace. Its times are microseconds with three decimals, which a double holds exactly
enough up to 2**43 (`EXACT_BELOW_US`); above it, times are decoded again as decimals. Broken files are repaired
where that loses nothing that is left unsaid, and refused in one line otherwise.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import repair, source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]
    Int32 = npt.NDArray[np.int32]
    Bool = npt.NDArray[np.bool_]


class Kind(enum.IntEnum):
    """What an event is, over all versions of the format."""

    OPERATOR = 0
    ANNOTATION = 1
    RUNTIME = 2
    KERNEL = 3
    COPY = 4
    MEMSET = 5
    DEVICE_ANNOTATION = 6
    """A label as the profiler projects it onto a stream: its span holds idle gaps, so it is never work."""


KIND_OF_CATEGORY: dict[str, Kind] = {
    "cpu_op": Kind.OPERATOR,
    "Operator": Kind.OPERATOR,  # 2021
    "user_annotation": Kind.ANNOTATION,
    "cuda_runtime": Kind.RUNTIME,  # HIP calls too
    "cuda_driver": Kind.RUNTIME,
    "Runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "Memcpy": Kind.COPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
}

HIDDEN_COPY = re.compile(r"MEMORY_COPY|__amd_rocclr_copyBuffer")
HIDDEN_FILL = re.compile(r"__amd_rocclr_fillBuffer")
"""ROCm up to 7.1 files copies and fills under ``kernel``."""

EXACT_BELOW_US = 2.0**43
"""Below it neighbouring doubles are less than a nanosecond apart, so three decimals survive."""
LARGEST_US = 2**53 - 1
"""Above it a time is no time stamp: 2**53 microseconds are 285 years, and nanoseconds no longer fit."""
LONGEST_TRACE_NS = 24 * 3600 * 1_000_000_000
"""What begins further from the middle of the trace than a day was not recorded in it: its time stamp is wrong."""

STEP_PREFIX = "ProfilerStep#"


class _Args(msgspec.Struct, gc=False):
    correlation: int | float | str | None = None
    device: int | float | str | None = None
    stream: int | float | str | None = None
    dims: Raw = msgspec.field(default_factory=Raw, name="Input Dims")
    name: Any = None


class _Event(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: _Args | None = None


class _Exact(msgspec.Struct, gc=False):
    ts: Raw = msgspec.field(default_factory=Raw)
    dur: Raw = msgspec.field(default_factory=Raw)


class _ExactFile(msgspec.Struct):
    traceEvents: list[_Exact]  # noqa: N815 - the format's own name


class Metadata(msgspec.Struct):
    """What stands around the events; what is None or empty is not in the file."""

    deviceProperties: Any = None  # noqa: N815
    hip_runtime_version: Any = None
    roctracer_version: Any = None
    cuda_runtime_version: Any = None
    cupti_version: Any = None
    rocprofiler: Any = msgspec.field(default=None, name="rocprofiler-sdk_version")

    def device_names(self) -> dict[int, str]:
        """Name of each device that is listed, by its number."""
        listed = self.deviceProperties if isinstance(self.deviceProperties, list) else []
        found = {}
        for number, device in enumerate(listed):
            if isinstance(device, dict):
                ident = device.get("id", number)
                found[ident if isinstance(ident, int) else number] = str(device.get("name") or "")
        return found


class _File(Metadata):
    traceEvents: list[_Event] = msgspec.field(default_factory=list)  # noqa: N815


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
    names: list[str]
    lanes: list[Lane]
    shapes: list[str]
    metadata: Metadata
    categories: frozenset[str]
    """The categories of its events, as the file names them."""
    notes: list[str]

    def __len__(self) -> int:
        """Number of events."""
        return len(self.start)

    def of(self, *kinds: Kind) -> Int64:
        """Indices of the events of these kinds, in the file's order."""
        return np.flatnonzero(np.isin(self.kind, kinds))

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
    data, notes = source.load(path)
    file, data = _decode(path, data, notes)
    if not file.traceEvents:
        early = "capture again with at least one active step; a profiler stopped early writes such a file"
        todo = "capture or export it again" if notes else early
        raise source.refuse(path, "holds no event that can be read" + _in_brackets(notes), todo)
    return _columns(path, file, data, notes)


# ---- text to events ----


def _accepts(event: bytes) -> None:
    if event.lstrip()[:1] != b"{":
        msg = "Expected `object`"
        raise msgspec.ValidationError(msg)
    _event_decoder.decode(event)


_event_decoder = msgspec.json.Decoder(_Event)
_file_decoder = msgspec.json.Decoder(_File)
_exact_file_decoder = msgspec.json.Decoder(_ExactFile)


def _decode(path: Path, data: bytes, notes: list[str]) -> tuple[_File, bytes]:
    """Decode the file, at once where it is sound; returns the bytes too that were decoded in the end."""
    if data.lstrip()[:1] == b"[":
        # A bare list of events is legal in the Chrome format.
        sound = b'{"traceEvents":' + data + b"}"
    else:
        sound = data
    try:
        file = _file_decoder.decode(sound)
        if file.traceEvents or b'"traceEvents"' in sound:
            return file, sound
        problem = "its object has no `traceEvents`"
    except RecursionError:
        problem = "it is nested too deeply"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = str(error)
    salvage = _salvage(data, sound)
    if salvage is None:
        raise _no_trace(path, data, problem)
    _note_repairs(salvage, problem, notes)
    try:
        return _file_decoder.decode(salvage.data), salvage.data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise source.refuse(path, f"cannot be read as JSON ({problem})", "capture or export it again") from error


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
    except msgspec.MsgspecError:
        frame = b'{"traceEvents":[]}'
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


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


def _in_brackets(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


# ---- events to columns ----


def _columns(path: Path, file: _File, data: bytes, notes: list[str]) -> Trace:
    kinds = KIND_OF_CATEGORY
    rows = [i for i, event in enumerate(file.traceEvents) if event.ph == "X" and event.cat in kinds]
    if not rows:
        raise source.refuse(
            path,
            f"has {_events(len(file.traceEvents))}, none of them an operator, a label or device work of PyTorch",
            "name the trace of a torch.profiler session",
        )
    events = [file.traceEvents[i] for i in rows]
    start, duration, known = _times(events, rows, data, notes)
    kind = np.fromiter((kinds[event.cat] for event in events), dtype=np.int8, count=len(events))  # type: ignore[index]
    known &= _plausible(start, duration, known, notes)
    if not known.any():
        why = f"has {_events(len(events))}, none with a usable time{_in_brackets(notes)}"
        raise source.refuse(path, why, "capture it again")
    names, name_id = _interned("" if event.name is None else str(event.name) for event in events)
    lanes, lane_id = _interned(_lane(event, code) for event, code in zip(events, kind.tolist(), strict=True))
    shapes, shape_id = _interned(_shape(event) for event in events)
    return Trace(
        name=path.name,
        start=start[known],
        end=(start + duration)[known],
        kind=_unhidden(kind, names, name_id)[known],
        name_id=name_id[known],
        lane_id=lane_id[known],
        correlation=np.fromiter(map(_correlation, events), dtype=np.int64, count=len(events))[known],
        shape_id=_without_empty(shapes, shape_id)[known],
        names=names,
        lanes=_titled(lanes, file.traceEvents),
        shapes=shapes,
        metadata=file,
        categories=frozenset(event.cat for event in events if event.cat is not None),
        notes=notes,
    )


def _times(events: list[_Event], rows: list[int], data: bytes, notes: list[str]) -> tuple[Int64, Int64, Bool]:
    """Start and duration in ns, and which of them are numbers that can be a time."""
    given = [(event.ts, event.dur) for event in events]
    texts = np.array([isinstance(ts, str) or isinstance(dur, str) for ts, dur in given], dtype=np.bool_)
    if texts.any() or any(isinstance(ts, float) and abs(ts) >= EXACT_BELOW_US for ts, _ in given):
        exact = _exact_file_decoder.decode(data).traceEvents
        start = _ns_of_texts(exact[i].ts for i in rows)
        duration = _ns_of_texts(exact[i].dur for i in rows)
    else:
        start = _ns_of_numbers([ts for ts, _ in given])
        duration = _ns_of_numbers([dur for _, dur in given])
    known = (start != MISSING) & (duration != MISSING)
    if (texts & known).any():
        notes.append(f"repaired: times written as texts, read as numbers ({_events(int((texts & known).sum()))})")
    if not known.all():
        notes.append(f"set aside: {_events(int((~known).sum()))} without a start and a duration that can be a time")
    return start, duration, known


MISSING = int(np.iinfo(np.int64).min)


def _ns_of_numbers(values: Sequence[Any]) -> Int64:
    """Microseconds as ns; exact for integers, and for three decimals below `EXACT_BELOW_US`."""
    us = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
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
        value = Decimal(text.decode("utf-8", "replace").strip('"'))
    except ArithmeticError:  # absent, null, or a text that is no number
        return MISSING
    if not value.is_finite() or abs(value) > LARGEST_US:
        return MISSING
    return int((value * 1000).to_integral_value())


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


def _interned(values: Iterable[Any]) -> tuple[list[Any], Int32]:
    """The distinct values in order of appearance, and the number of each."""
    numbers: dict[Any, int] = {}
    ids = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), dtype=np.int32)
    return list(numbers), ids


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _lane(event: _Event, kind: int) -> tuple[bool, str, str]:
    if kind < Kind.KERNEL:
        return False, _text(event.pid), _text(event.tid)
    args = event.args
    device = event.pid if args is None or args.device is None else args.device
    stream = event.tid if args is None or args.stream is None else args.stream
    return True, _text(device), _text(stream).removeprefix("stream ")


def _titled(lanes: list[tuple[bool, str, str]], events: list[_Event]) -> list[Lane]:
    """Lanes with the names that the trace gives to threads."""
    titles = {
        (False, _text(event.pid), _text(event.tid)): event.args.name
        for event in events
        if event.ph == "M" and event.name == "thread_name" and event.args and isinstance(event.args.name, str)
    }
    return [Lane(*lane, title=titles.get(lane, "")) for lane in lanes]


def _shape(event: _Event) -> bytes:
    return bytes(event.args.dims) if event.args is not None else b""


def _without_empty(shapes: list[Any], shape_id: Int32) -> Int32:
    """Turn the texts of shapes into str in place; the number of "none recorded" becomes -1."""
    empty = shapes.index(b"") if b"" in shapes else -1
    shapes[:] = [" ".join(text.decode("utf-8", "replace").split()) for text in shapes]
    return np.where(shape_id == empty, -1, shape_id).astype(np.int32)


def _correlation(event: _Event) -> int:
    value = event.args.correlation if event.args is not None else None
    try:
        number = 0 if value is None else int(value)
    except (ValueError, OverflowError):
        return 0
    return number if -(2**63) < number < 2**63 else 0


def _unhidden(kind: npt.NDArray[np.int8], names: list[str], name_id: Int32) -> npt.NDArray[np.int8]:
    """Copies and fills that were filed as kernels get their own kind."""
    of_name = np.array(
        [Kind.COPY if HIDDEN_COPY.match(n) else Kind.MEMSET if HIDDEN_FILL.match(n) else -1 for n in names],
        dtype=np.int8,
    )[name_id]
    return np.where((kind == Kind.KERNEL) & (of_name >= 0), of_name, kind).astype(np.int8)
