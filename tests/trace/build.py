"""Small traces for tests, by hand: times in whole microseconds, one call an event.

A thin layer over `stepprof_lab.construct`: every event is placed by its start, its duration and its correlation, no
clock moves, and the file holds nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepprof_lab import construct

if TYPE_CHECKING:
    from pathlib import Path

MAIN = 100


class Built:
    """A trace in the making; every method adds one event and returns the trace."""

    def __init__(self, origin_us: float = 1000.0, **around: Any) -> None:
        self.origin = origin_us - 1000 * construct.BEGIN_MS
        self.trace = construct.Construct(bare=True, **{"deviceProperties": [], **around})

    def add(self, category: str, name: str, start: float, duration: float, **more: Any) -> Built:
        fields = {"pid": 1, "tid": MAIN, **more}
        self.trace.event(category, name, (self.origin + start) / 1000, duration / 1000, **fields)
        return self

    def step(self, number: int, start: float, duration: float) -> Built:
        return self.add("user_annotation", f"ProfilerStep#{number}", start, duration)

    def label(self, name: str, start: float, duration: float, tid: int = MAIN) -> Built:
        return self.add("user_annotation", name, start, duration, tid=tid)

    def operator(self, name: str, start: float, duration: float, tid: int = MAIN, dims: Any = None) -> Built:
        args = {} if dims is None else {"Input Dims": dims}
        return self.add("cpu_op", name, start, duration, tid=tid, args=args)

    def launch(self, correlation: int, start: float, duration: float = 1, tid: int = MAIN, name: str = "") -> Built:
        args = {"correlation": correlation}
        return self.add("cuda_runtime", name or "cudaLaunchKernel", start, duration, tid=tid, args=args)

    def kernel(self, correlation: int, start: float, duration: float, stream: int = 7, name: str = "gemm") -> Built:
        args = {"device": 0, "stream": stream, "correlation": correlation}
        return self.add("kernel", name, start, duration, pid=0, tid=stream, args=args)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.trace.to_bytes())
        return path
