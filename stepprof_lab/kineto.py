"""A trace's text as ``torch.profiler`` writes it, from plain events: what `stepprof_lab.trace.reader` reads.

`stepprof_lab.construct` places the events; here they get the format's words, and what the profiler adds by itself:
arrows from launches to their work, labels projected onto streams, its own last synchronisation, names of threads.
"""

from __future__ import annotations

import bisect
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ANNOTATION = "user_annotation"
OPERATOR = "cpu_op"
FRAME = "python_function"
KERNEL = "kernel"
COPY = "gpu_memcpy"
MEMSET = "gpu_memset"
ON_DEVICE = (KERNEL, COPY, MEMSET)

PROJECTED = "gpu_user_annotation"

AFTER_LAST_STEP = 60_000
"""How long after the last event of the host the profiler waits for the device, in ns: 36 to 190 us in real traces."""
LEAST_WAIT = 2_000
"""How long that wait takes where the device has nothing left to do, in ns."""


class Vendor(NamedTuple):
    """The names that one vendor's trace uses."""

    launch: str
    graph: str
    copy: str
    blocking_copy: str
    memset: str
    device_sync: str
    stream_sync: str
    stream_order: str
    default_stream: int


CUDA = Vendor(
    launch="cudaLaunchKernel",
    graph="cudaGraphLaunch",
    copy="cudaMemcpyAsync",
    blocking_copy="cudaMemcpyAsync",
    memset="cudaMemsetAsync",
    device_sync="cudaDeviceSynchronize",
    stream_sync="cudaStreamSynchronize",
    stream_order="cudaStreamWaitEvent",
    default_stream=7,
)
ROCM = Vendor(
    launch="hipLaunchKernel",
    graph="hipGraphLaunch",
    copy="hipMemcpyAsync",
    blocking_copy="hipMemcpyWithStream",
    memset="hipMemsetAsync",
    device_sync="hipDeviceSynchronize",
    stream_sync="hipStreamSynchronize",
    stream_order="hipStreamWaitEvent",
    default_stream=0,
)


class Event(msgspec.Struct, kw_only=True):
    """One event; times are nanoseconds on the construction's own clock."""

    category: str
    name: str
    start: int
    end: int
    pid: Any
    """Process of a thread; number of a device."""
    tid: Any
    """Number of the thread or the stream."""
    args: dict[str, Any] = {}
    more: dict[str, Any] = {}
    """Keys of the event that stand as they are, over those above."""

    @property
    def correlation(self) -> int:
        """What a launch and its device work have in common; 0: no link."""
        number = self.args.get("correlation", 0)
        return number if isinstance(number, int) else 0

    @property
    def on_device(self) -> bool:
        """Whether it is work of a device."""
        return self.category in ON_DEVICE


def runtime_category(call: str) -> str:
    """The category of a host call by its name; HIP's calls stand under CUDA's word."""
    return "cuda_driver" if re.match(r"cu[A-Z]", call) else "cuda_runtime"


def encode(
    metadata: Mapping[str, Any], events: Sequence[Event], threads: Mapping[tuple[int, int], str], vendor: Vendor | None
) -> bytes:
    """The whole file, one event a line, with what the profiler adds by itself.

    Args:
        metadata: the keys around the events.
        events: what happened, in the order in which it stands in the file.
        threads: the name of each (process, thread).
        vendor: whose device it is; None where there is none.
    """
    after = [*_stop_sync(events, vendor), *_projected(events)]
    lines = [*map(_line, [*events, *after]), *_flows(events), *_names(events, threads), *_session(events)]
    return _file(metadata, lines)


def encode_bare(metadata: Mapping[str, Any], events: Sequence[Event]) -> bytes:
    """The whole file with the given events and nothing else."""
    return _file(metadata, map(_line, events))


def added_lines(calls: Sequence[Event], works: Sequence[Event], device: str) -> list[str]:
    """Lines for a file that is there already: calls of the host, work of a device of its own, what links them, names.

    Args:
        calls: what the host did.
        works: what the device did; a number in common with a call makes it the call's.
        device: what the device is called.
    """
    known = {call.correlation: call for call in calls if call.correlation}
    arrows = []
    for work in works:
        if (call := known.get(work.correlation)) is not None:
            arrows += [_flow("s", call, work.correlation), _flow("f", work, work.correlation)]
    streams = dict.fromkeys((work.pid, work.tid) for work in works)
    names = [_meta("process_name", pid, 0, name=device) for pid in dict.fromkeys(pid for pid, _ in streams)]
    names += [_meta("thread_name", pid, tid, name=f"stream {tid}") for pid, tid in streams]
    return [*map(_line, [*calls, *works]), *arrows, *names]


_json = json.JSONEncoder(ensure_ascii=False).encode


def _file(metadata: Mapping[str, Any], lines: Iterable[str]) -> bytes:
    head = _json({**metadata, "traceEvents": []}).removesuffix("]}")
    text = head + "\n" + ",\n".join(lines) + "\n]}\n"
    # A lone surrogate in a name becomes its own escape, which is JSON too.
    return text.encode("utf-8", "backslashreplace")


def _line(event: Event) -> str:
    args = {"args": event.args} if event.args else {}
    lane = {"pid": event.pid, "tid": event.tid}
    fields = {"ph": "X", "cat": event.category, "name": event.name, **lane, **event.more, **args}
    times = {"ts": event.start, "dur": event.end - event.start}
    return _with_times(fields, {key: ns for key, ns in times.items() if key not in fields})


def _with_times(fields: Mapping[str, Any], times: Mapping[str, int]) -> str:
    """One event; its times with three decimals, as the profiler writes them: exact however large."""
    return _json(fields)[:-1] + "".join(f', "{key}": {_us(ns)}' for key, ns in times.items()) + "}"


def _us(ns: int) -> str:
    whole, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


# ---- what the profiler adds ----


def _calls(events: Sequence[Event]) -> dict[int, Event]:
    """The host call of each correlation."""
    calls: dict[int, Event] = {}
    for event in events:
        if event.correlation and not event.on_device:
            calls.setdefault(event.correlation, event)
    return calls


def _stop_sync(events: Sequence[Event], vendor: Vendor | None) -> list[Event]:
    """The profiler waits for the device before it stops: the wait lies after the last step and is nobody's."""
    work = [event for event in events if event.on_device]
    steps = [event for event in events if event.name.startswith("ProfilerStep#")]
    if vendor is None or not work or not steps:
        return []
    last = max(steps, key=lambda event: event.end)
    start = max(event.end for event in events if not event.on_device) + AFTER_LAST_STEP
    end = max([start + LEAST_WAIT, *(event.end for event in work)])
    number = 1 + max(event.correlation for event in events)
    category = runtime_category(vendor.device_sync)
    args = {"correlation": number}
    return [
        Event(category=category, name=vendor.device_sync, start=start, end=end, pid=last.pid, tid=last.tid, args=args)
    ]


def _projected(events: Sequence[Event]) -> Iterator[Event]:
    """For each label and stream the span from the first to the last work that the label's own thread launched in it.

    It holds idle gaps and misses what other threads launched, so it is no work.
    """
    launched = _launched_by_thread(events)
    for label in events:
        if label.category != ANNOTATION:
            continue
        starts, work = launched.get((label.pid, label.tid), ([], []))
        inside = work[bisect.bisect_left(starts, label.start) : bisect.bisect_left(starts, label.end)]
        streams: dict[tuple[Any, Any], list[Event]] = {}
        for event in inside:
            streams.setdefault((event.pid, event.tid), []).append(event)
        for (device, stream), found in streams.items():
            start, end = min(event.start for event in found) - 1, max(event.end for event in found) + 1
            args = {key: label.args[key] for key in ("External id",) if key in label.args}
            yield Event(category=PROJECTED, name=label.name, start=start, end=end, pid=device, tid=stream, args=args)


def _launched_by_thread(events: Sequence[Event]) -> dict[tuple[Any, Any], tuple[list[int], list[Event]]]:
    """For each thread the starts of its launches in order, and the work of each."""
    calls = _calls(events)
    pairs: dict[tuple[Any, Any], list[tuple[int, int, Event]]] = {}
    for number, event in enumerate(events):
        call = calls.get(event.correlation) if event.on_device else None
        if call is not None:
            pairs.setdefault((call.pid, call.tid), []).append((call.start, number, event))
    return {
        thread: ([start for start, _, _ in sorted(found)], [event for _, _, event in sorted(found)])
        for thread, found in pairs.items()
    }


def _flows(events: Sequence[Event]) -> Iterator[str]:
    """The arrows that viewers draw from a launch to its work."""
    calls = _calls(events)
    begun = set()
    for event in events:
        call = calls.get(event.correlation) if event.on_device else None
        if call is None:
            continue
        if event.correlation not in begun:
            begun.add(event.correlation)
            yield _flow("s", call, event.correlation)
        yield _flow("f", event, event.correlation)


def _flow(ph: str, event: Event, number: int) -> str:
    ends = {"bp": "e"} if ph == "f" else {}
    fields = {"ph": ph, "id": number, "pid": event.pid, "tid": event.tid, "cat": "ac2g", "name": "ac2g", **ends}
    return _with_times(fields, {"ts": event.start})


def _names(events: Sequence[Event], threads: Mapping[tuple[int, int], str]) -> Iterator[str]:
    """Names of processes, devices, threads and streams."""
    lanes = dict.fromkeys((event.on_device, event.pid, event.tid) for event in events)
    for process in dict.fromkeys((device, pid) for device, pid, _ in lanes):
        device, pid = process
        yield _meta("process_name", pid, 0, name="python")
        yield _meta("process_labels", pid, 0, labels=f"GPU {pid}" if device else "CPU")
    for device, pid, tid in lanes:
        name = f"stream {tid}" if device else f"thread {tid} ({threads.get((pid, tid), 'python')})"
        yield _meta("thread_name", pid, tid, name=name)


def _meta(what: str, pid: Any, tid: Any, **args: str) -> str:
    return _with_times({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}, {"ts": 0})


def _session(events: Sequence[Event]) -> Iterator[str]:
    """The session itself, and where it began and ended."""
    if not events:
        return
    start, end = min(event.start for event in events), max(event.end for event in events)
    session = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
    yield _with_times(session, {"ts": start, "dur": end - start})
    began = {"ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler"}
    yield _with_times({"name": "Iteration Start: PyTorch Profiler", **began}, {"ts": start})
    yield _with_times({"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": ""}, {"ts": end})
