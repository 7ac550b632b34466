"""Write a trace by hand: what the host and a device do, on a clock that never reads the real one.

```python
t = Construct("cuda")
for _ in range(2):
    with t.step():
        with t.label("read_batch"):
            t.cpu(12.0)  # the host is at work for 12 ms
        with t.label("train"):
            t.launch("gemm", device=3.0)  # a short call; the work is queued on a stream
            t.wait()  # the host waits until the device is done
t.save("waits.json.gz")
```

**All times are milliseconds**, kept as whole nanoseconds. The same lines give the same bytes, on any machine.

How time passes:

- Each thread has its own clock, and what happens on the thread moves it on. A with-block lasts as long as what is
  inside it.
- A launch takes the host ``host`` ms. Its work begins ``delay`` ms after the call has ended, but not before the work
  that was queued on the same stream has ended: a stream works in order. Different streams do not wait for each other.
- What waits (`Construct.wait`, a pageable copy) moves the thread's clock to where the work ends.

The file says itself that it was constructed, and so does every report that is made from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stepprof_lab import files, kineto
from stepprof_lab.errors import StepprofError
from stepprof_lab.kineto import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Construct", "Event"]

VENDORS: dict[str, kineto.Vendor | None] = {"cuda": kineto.CUDA, "rocm": kineto.ROCM, "cpu": None}

Direction = Literal["HtoD", "DtoH", "DtoD"]

CALL_MS = 0.01
"""Host time of a call that queues work, where none is given."""
DELAY_MS = 0.005
"""From the end of such a call to the start of its work on a free stream: 2 to 45 us from its start in real traces."""
BEGIN_MS = 1.0
"""Where the clock begins; the profiler never writes a negative time."""

_COPY_KINDS = {"HtoD": "1", "DtoH": "2", "DtoD": "3"}
"""HIP's numbers of the directions, as its calls record them."""


@dataclasses.dataclass
class _Thread:
    """One thread of the host: its time, and the spans that are open on it, innermost last."""

    tid: int
    now: int
    open: list[Event] = dataclasses.field(default_factory=list)


class Construct:
    """A trace in the making.

    Args:
        vendor: ``cuda``, ``rocm``, or ``cpu`` for a trace without a device.
        gpus: how many devices there are; they are numbered from `first_gpu` on.
        gpu_name: the name of each.
        first_gpu: number of the first device in the events. On ROCm real traces count the CPU sockets first.
        rank: rank of this process in a job; None where there is no job.
        world_size: processes in the job.
        first_step: number of the first step; 2 as after one turn of waiting and one of warm-up.
        seed: of the jitter.
        jitter: every duration is multiplied by a random factor from 1 - jitter to 1 + jitter.
        about: one sentence on what the trace is to show; it stands in the file.
        origin: "constructed", or "simulated" where a model of a device decides the times.
        bare: leave out what the profiler adds by itself (arrows, projected labels, its last wait, names of threads).
        around: further keys around the events, as they stand.

    Raises:
        StepprofError: an argument cannot be used.
    """

    def __init__(
        self,
        vendor: str = "cuda",
        *,
        gpus: int = 1,
        gpu_name: str = "constructed GPU",
        first_gpu: int = 0,
        rank: int | None = None,
        world_size: int = 1,
        first_step: int = 2,
        seed: int = 0,
        jitter: float = 0.0,
        about: str | None = None,
        origin: Literal["constructed", "simulated"] = "constructed",
        bare: bool = False,
        **around: Any,
    ) -> None:
        _check(vendor in VENDORS, f"vendor {vendor!r}", "one of cuda, rocm, cpu", "name one of these")
        _check(0 <= jitter < 1, f"jitter {jitter}", "a share from 0 to below 1", "say 0.05 for 5 %")
        _check(gpus >= 1, f"{gpus} devices", "at least one", "say Construct('cpu') for a trace without a device")
        _check(
            rank is None or 0 <= rank < world_size, f"rank {rank} of {world_size}", "0 <= rank < world_size", "mend it"
        )
        self._vendor = VENDORS[vendor]
        self._gpus = range(first_gpu, first_gpu + gpus)
        self._gpu_name = gpu_name
        self._rank, self._world_size = rank, world_size
        self._next_step = first_step
        self._chance = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._seed, self._jitter = seed, jitter
        self._about, self._origin, self._bare, self._around = about, origin, bare, around
        self._pid = 1000 + (rank or 0)
        self._begin = _whole_ns(BEGIN_MS)
        self._here = _Thread(self._pid, self._begin)
        self._threads = {"main": self._here}
        self._free: dict[tuple[int, int], int] = {}
        """Of each (device, stream), when its queue is empty."""
        self._numbers = {"correlation": 0, "External id": 0, "Python id": 0}
        self._events: list[Event] = []

    # ---- looking at it ----

    @property
    def now(self) -> float:
        """Time of the present thread, in ms since the clock began."""
        return (self._here.now - self._begin) / 1e6

    @property
    def events(self) -> Sequence[Event]:
        """What was placed so far, in the order of the file; times in ns on the trace's clock."""
        return tuple(self._events)

    # ---- the host ----

    @contextlib.contextmanager
    def step(self, number: int | None = None) -> Iterator[None]:
        """One step of the window, a ``ProfilerStep#n``; numbers go on by themselves."""
        number = self._next_step if number is None else number
        self._next_step = number + 1
        with self._span(kineto.ANNOTATION, f"ProfilerStep#{number}"):
            yield

    @contextlib.contextmanager
    def label(self, name: str) -> Iterator[None]:
        """A named region, as ``label`` or ``record_function`` marks it."""
        with self._span(kineto.ANNOTATION, name):
            yield

    @contextlib.contextmanager
    def operator(self, name: str, shapes: Sequence[Sequence[int]] | None = None) -> Iterator[None]:
        """An operator around what it calls; one that calls nothing is shorter as `cpu` with a name."""
        with self._span(kineto.OPERATOR, name, _shapes(shapes)):
            yield

    @contextlib.contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """A Python function on the stack, such as ``train.py(12): train_step``."""
        outer = [event.args["Python id"] for event in self._here.open if event.category == kineto.FRAME]
        args = {"Python id": self._number("Python id"), "Python parent id": outer[-1] if outer else None}
        with self._span(kineto.FRAME, name, args):
            yield

    @contextlib.contextmanager
    def thread(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """What is inside happens on another thread, which begins where this one is now, or later if it is busy.

        Args:
            name: of the thread; the same name is the same thread.
            wait: whether this thread waits for the other one, as it does for the backward pass; a data loader's
                thread runs on its own.
        """
        caller = self._here
        other = self._threads.setdefault(name, _Thread(self._pid + len(self._threads), self._begin))
        other.now = max(other.now, caller.now)
        self._here = other
        try:
            yield
        finally:
            self._here = caller
            if wait:
                caller.now = max(caller.now, other.now)

    def cpu(self, ms: float, name: str | None = None, shapes: Sequence[Sequence[int]] | None = None) -> None:
        """The host is at work; as an operator where it has a name, otherwise in nothing that the trace records."""
        duration = self._ns(ms)
        if name is not None:
            with self.operator(name, shapes):
                self._here.now += duration
        else:
            self._here.now += duration

    def call(self, name: str, ms: float = CALL_MS) -> None:
        """A call of the device's runtime that queues no work, such as ``cudaMalloc``."""
        self._call(name, self._ns(ms))

    def at(self, ms: float) -> None:
        """Put the present thread's clock at this time since the clock began, forwards or back."""
        self._here.now = self._begin + _whole_ns(ms)

    # ---- the device ----

    def launch(
        self,
        name: str = "kernel",
        *,
        device: float,
        host: float = CALL_MS,
        delay: float = DELAY_MS,
        stream: int | None = None,
        gpu: int | None = None,
        call: str | None = None,
        args: dict[str, Any] | None = None,
    ) -> None:
        """Launch a kernel.

        Args:
            name: of the kernel.
            device: how long it works.
            host: how long the call takes the host.
            delay: from the end of the call to the start of the work on a free stream.
            stream: number of the stream; the vendor's default stream where none is given.
            gpu: number of the device; the first where none is given.
            call: name of the host's call, where it is not the usual one.
            args: further arguments of the kernel.
        """
        self.graph(
            [(name, device)], host=host, delay=delay, stream=stream, gpu=gpu, call=call or self._on().launch, args=args
        )

    def graph(
        self,
        kernels: Sequence[tuple[str, float]],
        *,
        host: float = CALL_MS,
        delay: float = DELAY_MS,
        stream: int | None = None,
        gpu: int | None = None,
        call: str | None = None,
        args: dict[str, Any] | None = None,
    ) -> None:
        """One launch that stands for several kernels, given as (name, ms), which run one after the other."""
        called = self._call(call or self._on().graph, self._ns(host))
        ready = called.end + self._ns(delay)
        for name, ms in kernels:
            self._work(kineto.KERNEL, name, ready, self._ns(ms), stream, gpu, called, args)

    def copy(
        self,
        direction: Direction = "HtoD",
        *,
        device: float,
        bytes: int = 1 << 20,  # noqa: A002 - the format's own word
        pinned: bool = False,
        blocking: bool | None = None,
        host: float = CALL_MS,
        delay: float = DELAY_MS,
        stream: int | None = None,
        gpu: int | None = None,
    ) -> None:
        """Copy between host and device, or on the device.

        Args:
            direction: HtoD, DtoH or DtoD.
            device: how long the copy takes.
            bytes: how much is copied.
            pinned: whether the host's memory is pinned. ROCm's traces do not record it.
            blocking: whether the call lasts until the copy has ended; by default it does for pageable memory.
            host: how long the call takes where it does not wait.
            delay: as for `launch`.
            stream: as for `launch`.
            gpu: as for `launch`.
        """
        with_host = direction != "DtoD"
        blocking = (with_host and not pinned) if blocking is None else blocking
        names = self._on()
        called = self._call(names.blocking_copy if blocking else names.copy, self._ns(host))
        on_rocm = names is kineto.ROCM
        args: dict[str, Any] = {"kind": direction} if on_rocm else {"bytes": bytes}
        ready, duration = called.end + self._ns(delay), self._ns(device)
        work = self._work(
            kineto.COPY, self._copy_name(direction, pinned=pinned), ready, duration, stream, gpu, called, args
        )
        if on_rocm:  # there the call holds what CUDA writes to the copy itself
            called.args |= {"bytes": str(bytes), "kind": _COPY_KINDS[direction]}
        if blocking:
            self._until(called, work.end)

    def memset(
        self,
        *,
        device: float,
        bytes: int = 1 << 20,  # noqa: A002 - the format's own word
        host: float = CALL_MS,
        delay: float = DELAY_MS,
        stream: int | None = None,
        gpu: int | None = None,
    ) -> None:
        """Fill memory of the device; arguments as for `launch` and `copy`."""
        called = self._call(self._on().memset, self._ns(host))
        args = {"kind": "Device"} if self._vendor is kineto.ROCM else {"bytes": bytes}
        ready, duration = called.end + self._ns(delay), self._ns(device)
        self._work(kineto.MEMSET, "Memset (Device)", ready, duration, stream, gpu, called, args)

    def queued_before(
        self, name: str = "kernel", *, device: float, stream: int | None = None, gpu: int | None = None
    ) -> None:
        """Work that was launched before the record began: it is in the trace, its launch is not."""
        self._on()
        self._work(kineto.KERNEL, name, self._begin, self._ns(device), stream, gpu, None, None)

    def wait(self, stream: int | None = None, *, gpu: int | None = None, host: float = CALL_MS) -> None:
        """The host waits for a stream, or for the whole device.

        Args:
            stream: what is waited for; every stream of the device where none is given.
            gpu: number of the device; the first where none is given.
            host: how long the call takes where nothing is left to wait for.
        """
        names, number = self._on(), self._gpu(gpu)
        called = self._call(names.device_sync if stream is None else names.stream_sync, self._ns(host))
        queues = [at for (g, s), at in self._free.items() if g == number and stream in (None, s)]
        self._until(called, max(queues, default=called.end))

    def order(self, stream: int, *, after: int, gpu: int | None = None, host: float = CALL_MS) -> None:
        """What is launched to a stream from now on begins after what another one holds now; the host does not wait."""
        number = self._gpu(gpu)
        self._call(self._on().stream_order, self._ns(host))
        queued = self._free.get((number, after), self._begin)
        self._free[number, stream] = max(self._free.get((number, stream), self._begin), queued)

    def collective(
        self,
        name: str = "all_reduce",
        *,
        ms: float,
        elements: int = 1 << 20,
        host: float = CALL_MS,
        stream: int | None = None,
        gpu: int | None = None,
    ) -> None:
        """One collective of all ranks: a kernel where there is a device, otherwise the host's own time.

        Args:
            name: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast`` ...
            ms: how long this rank is in it, waiting for the others included.
            elements: how many numbers go in.
            host: as for `launch`.
            stream: as for `launch`.
            gpu: as for `launch`.
        """
        if self._vendor is None:
            with self.label(f"gloo:{name}"):
                self._here.now += self._ns(ms)
            return
        args = {
            "Collective name": name.replace("_", ""),
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": self._world_size,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self._world_size))),
        }
        kernel = "ncclDevKernel_Generic" if self._vendor is kineto.ROCM else _nccl_kernel(name)
        with self.label(f"nccl:{name}"), self.operator("record_param_comms"):
            self._here.open[-1].args.update(args)
            self.launch(kernel, device=ms, host=host, stream=stream, gpu=gpu, args=args)

    # ---- anything else ----

    def event(
        self,
        category: str,
        name: str,
        start: float,
        duration: float,
        args: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Place any event by its start and duration, in ms; no clock moves, and there is no jitter.

        Args:
            category: as the format names it: ``cpu_op``, ``user_annotation``, ``cuda_runtime``, ``kernel`` ...
            name: of the event.
            start: since the clock began.
            duration: of the event.
            args: its arguments, such as ``{"correlation": 5}``.
            fields: keys of the event as they are to stand (``pid``, ``tid``, ``ph`` ...).
        """
        begin = self._begin + _whole_ns(start)
        pid, tid = fields.pop("pid", self._pid), fields.pop("tid", self._here.tid)
        end = begin + _whole_ns(duration)
        placed = Event(
            category=category, name=name, start=begin, end=end, pid=pid, tid=tid, args=args or {}, more=fields
        )
        self._events.append(placed)

    # ---- the file ----

    def to_bytes(self) -> bytes:
        """The trace's text, as the profiler writes it.

        Raises:
            StepprofError: nothing was placed, or a with-block is still open.
        """
        _check(bool(self._events), "a construction without an event", "at least one", "place a step with t.step()")
        still = [event.name for thread in self._threads.values() for event in thread.open]
        _check(not still, f"{still[-1:]} still open", "a trace whose blocks have ended", "save it after the block")
        if self._bare:
            return kineto.encode_bare(self._metadata(), self._events)
        titles = {(self._pid, thread.tid): name for name, thread in self._threads.items()}
        return kineto.encode(self._metadata(), self._events, titles, self._vendor)

    def save(self, path: str | Path) -> Path:
        """Write the trace; nothing is overwritten.

        Args:
            path: a name that ends in ``.json`` or ``.json.gz``.

        Returns:
            Where it lies.

        Raises:
            StepprofError: the name is taken or has another ending, or there is nothing to write.
        """
        path = Path(path)
        wanted = path.name.endswith((".json", ".json.gz"))
        _check(wanted, f"trace {str(path)!r}", "a name that ends in .json or .json.gz", "choose such a name")
        data = self.to_bytes()
        files.write_new(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data, "trace")
        return path

    def _metadata(self) -> dict[str, Any]:
        mark: dict[str, Any] = {"origin": self._origin, "by": "stepprof_lab.construct"}
        if self._jitter:
            mark |= {"seed": self._seed, "jitter": self._jitter}
        if self._about:
            mark["about"] = self._about
        shaped = any("Input Dims" in event.args for event in self._events)
        stacked = any(event.category == kineto.FRAME for event in self._events)
        on = ([("record_shapes", 1)] if shaped else []) + ([("with_stack", 1)] if stacked else [])
        devices = [{"id": gpu, "name": self._gpu_name} for gpu in self._gpus] if self._vendor is not None else []
        around = {
            "schemaVersion": 1,
            # Before the rest, so that a file that is cut short still says it.
            "stepprof_lab": mark,
            "deviceProperties": devices,
            **({} if self._rank is None else {"distributedInfo": self._distributed()}),
            **dict(on),
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 0,
            **self._around,
        }
        return {**around, "stepprof_lab": mark}

    def _distributed(self) -> dict[str, Any]:
        backend = "gloo" if self._vendor is None else "nccl"
        ranks = list(range(self._world_size))
        group = {
            "pg_name": "0",
            "pg_desc": "default_pg",
            "backend_config": backend,
            "pg_size": len(ranks),
            "ranks": ranks,
        }
        return {"backend": backend, "rank": self._rank, "world_size": len(ranks), "pg_count": 1, "pg_config": [group]}

    # ---- the parts that the verbs above are made of ----

    def _on(self) -> kineto.Vendor:
        """The vendor's names; refuses where there is no device."""
        if self._vendor is None:
            raise StepprofError(
                "device work in a trace of vendor 'cpu'", "a vendor with a device", "say Construct('cuda') or ('rocm')"
            )
        return self._vendor

    def _gpu(self, number: int | None) -> int:
        number = self._gpus[0] if number is None else number
        known = f"{self._gpus[0]} to {self._gpus[-1]}"
        _check(number in self._gpus, f"device {number}", f"one of {known}", "say gpus=n for more devices")
        return number

    def _ns(self, ms: float) -> int:
        """A duration as ns, with jitter."""
        _check(ms >= 0, f"a duration of {ms} ms", "zero or more", "mend it")
        factor = self._chance.uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else 1.0
        return _whole_ns(ms * factor)

    def _number(self, of: str) -> int:
        self._numbers[of] += 1
        return self._numbers[of]

    @contextlib.contextmanager
    def _span(self, category: str, name: str, args: dict[str, Any] | None = None) -> Iterator[None]:
        """A span of the present thread around what happens inside; it stands in the file before what it holds."""
        thread = self._here
        own = {"External id": self._number("External id")} if category != kineto.FRAME else {}
        event = self._place(category, name, thread.now, thread.now, thread.tid, {**own, **(args or {})})
        thread.open.append(event)
        try:
            yield
        finally:
            thread.open.remove(event)
            event.end = thread.now

    def _call(self, name: str, duration: int) -> Event:
        """A call of the runtime on the present thread; moves its clock."""
        thread = self._here
        args = {**self._external(), "correlation": self._number("correlation")}
        start, thread.now = thread.now, thread.now + duration
        return self._place(kineto.runtime_category(name), name, start, thread.now, thread.tid, args)

    def _external(self) -> dict[str, Any]:
        """The id of the innermost operator (or else label), which a call and its work carry."""
        spans = [event for event in self._here.open if event.category != kineto.FRAME]
        inner = [event for event in spans if event.category == kineto.OPERATOR] or spans
        return {"External id": inner[-1].args["External id"]} if inner else {}

    def _until(self, called: Event, end: int) -> None:
        """A call lasts until then, if it does not anyway."""
        called.end = self._here.now = max(called.end, end)

    def _work(
        self,
        category: str,
        name: str,
        ready: int,
        duration: int,
        stream: int | None,
        gpu: int | None,
        called: Event | None,
        args: dict[str, Any] | None,
    ) -> Event:
        """Work on a stream: not before it is ready, and not before the work that is queued ahead of it has ended."""
        number = self._gpu(gpu)
        row = self._on().default_stream if stream is None else stream
        start = max(ready, self._free.get((number, row), self._begin))
        self._free[number, row] = start + duration
        about: dict[str, Any] = {"device": number, "stream": row}
        about |= {"kind": "Dispatch Kernel"} if self._vendor is kineto.ROCM else {"context": 1}
        about |= {"correlation": self._number("correlation")} if called is None else dict(called.args)
        about |= {"device": number, "stream": row, **(args or {})}
        return self._place(category, name, start, start + duration, row, about, pid=number)

    def _place(
        self, category: str, name: str, start: int, end: int, tid: int, args: dict[str, Any], pid: int | None = None
    ) -> Event:
        placed = Event(
            category=category,
            name=name,
            start=start,
            end=end,
            pid=self._pid if pid is None else pid,
            tid=tid,
            args=args,
        )
        self._events.append(placed)
        return placed

    def _copy_name(self, direction: Direction, *, pinned: bool) -> str:
        memory = "Host" if self._vendor is kineto.ROCM else "Pinned" if pinned else "Pageable"
        source = memory if direction == "HtoD" else "Device"
        target = memory if direction == "DtoH" else "Device"
        return f"Memcpy {direction} ({source} -> {target})"


def _check(holds: bool, given: str, expected: str, todo: str) -> None:
    if not holds:
        raise StepprofError(given, expected, todo)


def _whole_ns(ms: float) -> int:
    _check(math.isfinite(ms), f"a time of {ms} ms", "a finite number", "mend it")
    return round(ms * 1_000_000)


def _shapes(shapes: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    return {} if shapes is None else {"Input Dims": [list(shape) for shape in shapes]}


def _nccl_kernel(name: str) -> str:
    return f"ncclDevKernel_{name.title().replace('_', '')}_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
