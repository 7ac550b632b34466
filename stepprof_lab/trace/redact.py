"""What a trace gives away, and a copy without it that gives the same numbers.

The copy is built from what is known to be harmless, event by event (`stepprof_lab.trace.fields` has the keys,
`stepprof_lab.trace.names` judges the names); nothing of the original's text is carried over unread. Its times count
from its first event, to the nanosecond. What the reader of traces would set aside is not in the copy, and the copy
says so.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from stepprof_lab.trace import reader, source
from stepprof_lab.trace.events import KIND_OF_CATEGORY, MAYBE_DEVICE, Kind
from stepprof_lab.trace.fields import HEAD, Fields, decoded, text_of
from stepprof_lab.trace.names import Namer
from stepprof_lab.trace.reader import LARGEST_US, LONGEST_TRACE_NS

if TYPE_CHECKING:
    from pathlib import Path

    from stepprof_lab.trace.reader import Trace

OTHER_CATEGORIES = frozenset(
    (
        *("python_function", "overhead", "cuda_sync", "cuda_event", "cpu_instant_event", "external_correlation"),
        *("collective_comm", "hpu_op", "Trace", "hardware_counters", "mtia_ccp_events", "mtia_insight"),
        *("mtia_counters", "mtia_workloadd", "xpu_sync", "ac2g", "fwdbwd", "async", "async_cpu_to_gpu", "async_gpu"),
    )
)
"""Categories of Kineto beside those that the interpreter uses."""
PHASES = frozenset("XMstfiIC")
FLOWS = frozenset("stf")
METADATA_EVENTS = frozenset(
    ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")
)
ON_DEVICE = frozenset(
    [category for category, kind in KIND_OF_CATEGORY.items() if kind >= Kind.KERNEL] + ["cuda_sync", "xpu_sync"]
)
IDENTITIES = frozenset(("host_name", "hostname", "host", "username", "user_name", "user"))
"""Keys around the events that name a machine or a person; these names are looked for everywhere else."""
NOUNS = {Kind.OPERATOR: "operator", Kind.ANNOTATION: "label", Kind.RUNTIME: "call", Kind.DEVICE_ANNOTATION: "label"}
FIRST_SORT_INDEX = 1 << 29
"""Kineto puts its own rows after all others by indices from here on."""

_USUAL_TIME = re.compile(rb"([0-9]{1,15})(?:\.([0-9]{1,3}))?")
_TITLE = re.compile(r"(?:(?P<before>thread [0-9]+ \()(?P<bare>.+)\)|(?P<alone>.+))", re.DOTALL)
_DIGITS = re.compile(r"[0-9]+")


@dataclasses.dataclass(frozen=True)
class Choices:
    """What its owner decided about a copy.

    Attributes:
        names: names that stay as they are, but for what looks like a secret.
        keep: kinds that stay although nobody can judge them: "inputs".
        drop: kinds that are taken out although they would stay: "shapes", "stacks".
    """

    names: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Copy:
    """A trace without what it gave away."""

    data: bytes
    """Whole, valid JSON."""
    fields: Fields
    """What was replaced, what stays, and the names that nobody could judge."""
    notes: list[str]
    """What was mended or left out on the way; they are in the copy too."""
    events: int


class _Event(msgspec.Struct, gc=False):
    """The keys of an event that may stay, with the types that the reader of traces takes."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: Raw = msgspec.field(default_factory=Raw)
    dur: Raw = msgspec.field(default_factory=Raw)
    id: Raw = msgspec.field(default_factory=Raw)
    bp: Raw = msgspec.field(default_factory=Raw)
    s: Raw = msgspec.field(default_factory=Raw)
    args: dict[str, Raw] | None = None


_events_decoder = msgspec.json.Decoder(list[_Event])


def redact(path: Path, choices: Choices = Choices()) -> Copy:
    """Make a copy of a trace that can be shared.

    Args:
        path: a trace that `stepprof_lab.trace.interpret` reads.
        choices: what its owner decided; without any, what nobody can judge is taken out.

    Raises:
        StepprofError: the file cannot be read, or holds no event with a usable time.
    """
    head, events, notes = _load(path)
    fields = Fields(Namer(choices.names), choices.keep, choices.drop)
    return _Copying(path, events, fields, notes, _lacks(reader.read(path), fields.namer)).made(head)


def _lacks(original: Trace, namer: Namer) -> dict[str, Any]:
    """Why device work is missing from the original, which the copy as a sound file would no longer show."""
    if not original.missing:
        return {}
    kinds: Counter[str] = Counter()
    for kind, count in original.unknown.items():
        if kind not in OTHER_CATEGORIES and (found := MAYBE_DEVICE.match(kind)):  # what stays is counted in the copy
            kinds[found[1].lower()] += count
    missing = [namer.sentence(clause) for clause in original.missing]
    return {"missing": missing, "unusable": original.unusable, "unknown": dict(kinds)}


# ---- text to events ----


def _load(path: Path) -> tuple[dict[str, Raw], list[_Event], list[str]]:
    """What stands around the events, and the events; damaged files are mended as the reader mends them."""
    text, notes = reader.sound(path)
    try:
        head, events = _parts(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # The reader looks at no key that it does not know: such keys may still hold what is not UTF-8.
        head, events = _parts(text.decode("utf-8", "replace").encode())
    return head, events, [f"of the original: {note}" for note in notes]


def _parts(text: bytes) -> tuple[dict[str, Raw], list[_Event]]:
    head = msgspec.json.decode(text, type=dict[str, Raw])
    return head, _events_decoder.decode(head.pop("traceEvents", b"[]"))


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


# ---- events to a copy ----


class _Copying:
    """One copy in the making."""

    def __init__(
        self, path: Path, events: list[_Event], fields: Fields, notes: list[str], lacks: dict[str, Any]
    ) -> None:
        self.fields = fields
        self.notes = notes
        self.lacks = lacks
        self.events = [event for event in events if self._is_known(event)]
        self.times = [(_ns(event.ts), _ns(event.dur)) for event in self.events]
        used = sorted(
            start
            for event, (start, duration) in zip(self.events, self.times, strict=True)
            if event.ph == "X"
            and event.cat in KIND_OF_CATEGORY
            and start is not None
            and duration is not None
            and duration >= 0
        )
        if not used:
            raise source.refuse(path, "holds no event with a usable time", "name the trace of a torch.profiler session")
        self.middle = used[len(used) // 2]
        timed = zip(self.events, self.times, strict=True)
        starts = [start for event, (start, _) in timed if event.ph != "M" and start is not None]
        self.zero = min(start for start in starts if self._is_near(start))
        self.categories: Counter[str] = Counter()
        self.host_lanes: set[tuple[str, str]] = set()
        self.device_lanes: set[tuple[str, str]] = set()
        for event in self.events:
            if event.ph == "X" and event.cat in ON_DEVICE:
                self.device_lanes.add((text_of(event.pid), text_of(event.tid)))
            elif event.ph == "X":
                self.host_lanes.add((text_of(event.pid), text_of(event.tid)))
                fields.host_number(event.pid)
                fields.host_number(event.tid)
        self.host_processes = {pid for pid, _ in self.host_lanes}

    def _is_known(self, event: _Event) -> bool:
        if event.ph == "M":
            known = event.name in METADATA_EVENTS
        else:
            known = event.ph in PHASES and (
                event.cat in KIND_OF_CATEGORY
                or event.cat in OTHER_CATEGORIES
                or (event.cat is None and event.ph in {"i", "I"})
            )
        if not known:
            self.fields.tally.add("unknown event", " ".join(str(part) for part in (event.ph, event.cat, event.name)))
        return known

    def _is_near(self, start: int) -> bool:
        return abs(start - self.middle) <= LONGEST_TRACE_NS

    def made(self, head: dict[str, Raw]) -> Copy:
        """The copy as bytes, with what is known about it."""
        for key in IDENTITIES & set(head):
            if isinstance(said := decoded(bytes(head[key])), str):
                self.fields.namer.identify(said)
        kept: list[dict[str, Any]] = []
        left_out = 0
        if "stacks" in self.fields.drop:
            frames = [event.cat == "python_function" for event in self.events]
            self.fields.tally.counts["stack"] += sum(frames)
            self.times = [time for time, frame in zip(self.times, frames, strict=True) if not frame]
            self.events = [event for event, frame in zip(self.events, frames, strict=True) if not frame]
        texts = sum(bytes(event.ts)[:1] == b'"' or bytes(event.dur)[:1] == b'"' for event in self.events)
        if texts:
            self.notes.append(f"repaired before it was copied: times written as texts ({_events(texts)})")
        for event, times in zip(self.events, self.times, strict=True):
            copied = self._copied(event, *times)
            if copied is None:
                left_out += 1
            else:
                kept.append(copied)
        if left_out:
            self.notes.append(f"left out of the copy: {_events(left_out)} without a time that can be true")
        self.fields.tally.add("wall clock")
        if self.fields.hosts:
            self.fields.tally.counts["process and thread numbers"] = len(self.fields.hosts)
        around = self._around(head)
        data = msgspec.json.encode({**around, "traceEvents": kept})
        self._count_what_stays()
        return Copy(data, self.fields, self.notes, len(kept))

    def _around(self, head: dict[str, Raw]) -> dict[str, Any]:
        around: dict[str, Any] = {}
        for key, raw in head.items():
            stays = self.fields.value(HEAD, key, bytes(raw), "metadata")
            if stays is not None:
                around[key] = Raw(stays)
        own = decoded(bytes(around.get("stepprof_lab", Raw(b"{}")))) or {}
        around["stepprof_lab"] = {**own, "shared_copy": True, "notes": self.notes, **self.lacks}
        return around

    def _copied(self, event: _Event, start: int | None, duration: int | None) -> dict[str, Any] | None:
        """The event with what may stay; None where it has no time that can be true."""
        if event.ph == "M":
            return self._metadata(event)
        length = duration or 0
        if start is None or not self._is_near(start) or not 0 <= length <= LONGEST_TRACE_NS:
            return None
        if event.ph == "X" and duration is None:
            return None
        copied: dict[str, Any] = {"ph": event.ph}
        if event.cat is not None:
            copied["cat"] = event.cat
        if event.name is not None:
            copied["name"] = self.fields.event_name(str(event.name), self._noun(event.cat))
        copied["pid"], copied["tid"] = self._lane(event)
        copied["ts"] = (start - self.zero) / 1000
        if duration is not None:
            copied["dur"] = duration / 1000
        self._flow(event, copied)
        if event.args:
            copied["args"] = self.fields.args(event.args)
        self.categories[event.cat or "instant"] += 1
        return copied

    def _noun(self, category: str | None) -> str:
        if category == "python_function":
            return "function"
        kind = KIND_OF_CATEGORY.get(category or "")
        return "event" if kind is None else NOUNS.get(kind, "kernel")

    def _flow(self, event: _Event, copied: dict[str, Any]) -> None:
        """The link and the scope of flow and instant events, where they are what they should be."""
        if event.ph in FLOWS and event.id:
            number = decoded(bytes(event.id))
            if isinstance(number, int) and not isinstance(number, bool):
                copied["id"] = number
            else:
                copied["id"] = self.fields.numbered("flow", bytes(event.id).decode("utf-8", "replace"))
        if bytes(event.bp) == b'"e"':
            copied["bp"] = "e"
        if bytes(event.s) in {b'"t"', b'"p"', b'"g"'}:
            copied["s"] = bytes(event.s).decode()[1]

    def _lane(self, event: _Event) -> tuple[int | str | None, int | str | None]:
        """Process and thread, or device and stream, as small numbers."""
        if event.ph == "X":
            on_device = event.cat in ON_DEVICE
        else:
            lane = (text_of(event.pid), text_of(event.tid))
            on_device = lane not in self.host_lanes and lane in self.device_lanes
        if on_device:
            return self.fields.device_number(event.pid, "device"), self.fields.device_number(event.tid, "stream")
        return self.fields.host_number(event.pid), self.fields.host_number(event.tid)

    def _metadata(self, event: _Event) -> dict[str, Any] | None:
        """The name or the place of a process or a thread."""
        process, thread = text_of(event.pid), text_of(event.tid)
        of_host = process in self.host_processes or not re.fullmatch(r"[0-9]{1,2}", process)
        small = self.fields.device_number
        pid = self.fields.host_number(event.pid) if of_host else small(event.pid, "device")
        tid = self.fields.host_number(event.tid) if of_host else small(event.tid, "stream")
        args: dict[str, Any] = {}
        for key, raw in (event.args or {}).items():
            value = decoded(bytes(raw))
            if key in {"name", "labels"} and isinstance(value, str):
                args[key] = self._title(value)
            elif key == "sort_index" and isinstance(value, int):
                args[key] = self._sort_index(value, process, thread)
            else:
                self.fields.tally.add("unknown field", key)
        return {"ph": "M", "name": event.name, "pid": pid, "tid": tid, "ts": 0, "args": args}

    def _title(self, text: str) -> str:
        """The name of a thread, a stream or a process; the number in it follows the thread's own."""
        found = _TITLE.fullmatch(text.strip(" "))
        if found is None:
            return ""
        before, bare, after = found["before"] or "", found["bare"] or found["alone"], ")" if found["before"] else ""
        numbered = re.sub(r"[0-9]{2,}", lambda m: str(self.fields.hosts.get(m[0], m[0])), bare)
        made = self.fields.namer.name(numbered, "thread")
        if made != numbered:
            self.fields.tally.add("thread name", bare, made)
            self.fields.unjudged.setdefault("thread", Counter())[numbered] += 1
        if before:
            number = _DIGITS.search(before)
            before = f"thread {self.fields.host_number(number[0]) if number else ''} ("
        return before + made + after

    def _sort_index(self, value: int, process: str, thread: str) -> int:
        if str(value) in {process, thread} and str(value) in self.fields.hosts:
            return self.fields.hosts[str(value)]
        return value if abs(value) < 100 or FIRST_SORT_INDEX <= value < FIRST_SORT_INDEX + 1_000_000 else 0

    def _count_what_stays(self) -> None:
        """Events by what they are; what else stays was counted on the way."""
        stays = Counter({"events with their times": sum(self.categories.values())})
        for category, kind in KIND_OF_CATEGORY.items():
            if self.categories[category]:
                stays[f"{NOUNS.get(kind, 'kernel')}s"] += self.categories[category]
        if self.categories["python_function"]:
            stays["frames of Python stacks"] = self.categories["python_function"]
        self.fields.stays = stays + self.fields.stays


def _ns(raw: Raw) -> int | None:
    """Microseconds as they stand in the file, as ns; None where they can be no time."""
    text = bytes(raw)
    usual = _USUAL_TIME.fullmatch(text)
    if usual is not None:
        return int(usual[1]) * 1000 + int((usual[2] or b"0").ljust(3, b"0"))
    try:
        value = Decimal(text.decode("utf-8", "replace").strip('"'))
    except ArithmeticError:
        return None
    # By its magnitude first: arithmetic with an exponent of nine digits overflows.
    if not value.is_finite() or value.adjusted() > 18 or abs(value) > LARGEST_US:
        return None
    return int((value * 1000).to_integral_value()) if value.adjusted() > -18 else 0
