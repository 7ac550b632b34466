"""The text of some events becomes objects: a small type for each kind, with exactly the fields that are used.

Most events are as the profiler writes them: their category says which fields they have, and of which type these are.
Decoded so, nothing has to be looked at twice, and what is not used is never an object. Other events (written by hand,
by other programs, damaged) are decoded as whatever they are and then put into the same form, one by one.
"""

from __future__ import annotations

import enum
import functools
import math
import operator
import re
from typing import Any, Literal

import msgspec
from msgspec import Raw

FRAME = "python_function"


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
    OVERHEAD = 7
    """What the profiler or the driver says that it did itself: loading a kernel, flushing a buffer."""
    PRACTICE = 8
    """Work of the practice device, simulated: it is drawn, and in no number."""


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
    "overhead": Kind.OVERHEAD,
    "practice_kernel": Kind.PRACTICE,
    "practice_runtime": Kind.RUNTIME,
}

LEFT_OUT = frozenset(
    (
        *("ac2g", "async", "async_cpu_to_gpu", "async_gpu", "fwdbwd", "external_correlation", "cpu_instant_event"),
        *("cuda_sync", "cuda_event", "collective_comm", "hardware_counters", "cuda_profiler_range", "Trace", None),
    )
)
"""Categories that hold nothing that is counted: arrows, marks, spans around the recording, waits told otherwise."""

MAYBE_DEVICE = re.compile(
    r"\W*(mtia|hpu|xpu|privateuse1|npu|mlu|musa|glow|gpu|cuda|hip|kernel|memcpy|memset)", re.IGNORECASE
)
"""Categories that are not known here and may be device work: of a device that is new here, or written otherwise."""

NO_DIMS = Raw()


class Exact(msgspec.Struct, gc=False):
    """The times of an event as they stand in the text."""

    ts: Raw = msgspec.field(default_factory=Raw)
    dur: Raw = msgspec.field(default_factory=Raw)


# ---- as the profiler writes them ----


class HostArgs(msgspec.Struct, gc=False, frozen=True):
    """Arguments of an operator or an annotation."""

    dims: Raw = msgspec.field(default=NO_DIMS, name="Input Dims")
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dtype: Any = None
    elements: Any = msgspec.field(default=None, name="In msg nelems")


class CallArgs(msgspec.Struct, gc=False, frozen=True):
    """Arguments of a runtime call."""

    correlation: int = 0
    bytes: Any = None


class DeviceArgs(msgspec.Struct, gc=False, frozen=True):
    """Arguments of device work, and of what is written beside it."""

    correlation: int = 0
    device: int | str | None = None
    stream: int | str | None = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dtype: Any = None
    elements: Any = msgspec.field(default=None, name="In msg nelems")


class Span(msgspec.Struct, gc=False):
    """An event with a beginning and a length. There is a type of it for each category."""

    ph: Literal["X"]
    name: str
    pid: int | str
    tid: int | str
    ts: int | float
    dur: int | float


class Host(Span, gc=False):
    """An operator or an annotation."""

    args: HostArgs = HostArgs()


class Call(Span, gc=False):
    """A runtime call."""

    args: CallArgs = CallArgs()


class Device(Span, gc=False):
    """Device work, and what is written beside it."""

    args: DeviceArgs = DeviceArgs()


class LeftOut(msgspec.Struct, gc=False):
    """An event that is not looked at."""


def _form(kind: Kind) -> type[Span]:
    if kind in (Kind.OPERATOR, Kind.ANNOTATION):
        return Host
    return Call if kind is Kind.RUNTIME else Device


def _type(category: str, form: type[msgspec.Struct]) -> type[msgspec.Struct]:
    return msgspec.defstruct(category, [], bases=(form,), tag_field="cat", tag=category, gc=False)


_SPANS: dict[str, Any] = {category: _type(category, _form(kind)) for category, kind in KIND_OF_CATEGORY.items()}
_SPANS[FRAME] = _type(FRAME, Span)
LEFT_OUT_TYPES = [_type(category, LeftOut) for category in LEFT_OUT if category is not None]

CATEGORY: dict[type, str] = {type_: category for category, type_ in _SPANS.items()}
"""The category that each type of `Span` stands for."""


# ---- whatever they are ----


class Args(msgspec.Struct, gc=False):
    """Arguments of any event."""

    correlation: int | float | str | None = None
    device: int | float | str | None = None
    stream: int | float | str | None = None
    dims: Raw = msgspec.field(default=NO_DIMS, name="Input Dims")
    name: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dtype: Any = None
    elements: Any = msgspec.field(default=None, name="In msg nelems")


class Event(msgspec.Struct, gc=False):
    """Any event that can be read."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: Args | None = None


def typed(event: Event) -> Any:
    """The same event as a `Span` of its category; itself, where it is none."""
    form = _SPANS.get(event.cat or "") if event.ph == "X" else None
    if form is None:
        return event
    name = "" if event.name is None else str(event.name)
    span = (event.ph, name, _number(event.pid), _number(event.tid), _time(event.ts), _time(event.dur))
    args = event.args
    if args is None or form is _SPANS[FRAME]:
        return form(*span)
    about = (args.collective, args.group, args.group_ranks, args.dtype, args.elements)
    if issubclass(form, Host):
        return form(*span, HostArgs(args.dims, *about))
    link = _correlation(args.correlation)
    if issubclass(form, Call):
        return form(*span, CallArgs(link, args.bytes))
    return form(*span, DeviceArgs(link, _number(args.device), _number(args.stream), args.bytes, *about))


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _time(value: Any) -> int | float:
    """A time; NaN where it is no number: then what stands in the text decides."""
    return value if isinstance(value, (int, float)) else math.nan


def _correlation(value: Any) -> int:
    try:
        return 0 if value is None else int(value)
    except (ValueError, OverflowError):
        return 0


# ---- text to events ----

_AS_WRITTEN: Any = functools.reduce(operator.or_, (*_SPANS.values(), *LEFT_OUT_TYPES))
_spans_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[_AS_WRITTEN])
_event_decoder = msgspec.json.Decoder(Event)
_events_decoder = msgspec.json.Decoder(list[Event])
_exact_decoder = msgspec.json.Decoder(list[Exact])


def decode(text: memoryview | bytes) -> list[Any]:
    """The events of a list: a `Span` of its category, a `LeftOut`, or an `Event` where it is neither.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError: the text is no list of events.
    """
    try:
        return _spans_decoder.decode(text)
    except msgspec.ValidationError:
        return list(map(typed, _events_decoder.decode(text)))


def check(text: bytes) -> None:
    """Decode one event.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError: it is none.
    """
    _event_decoder.decode(text)


def exact(text: memoryview | bytes) -> list[Exact]:
    """Their times as they stand in the text; of the same length as what `decode` gives."""
    return _exact_decoder.decode(text)
