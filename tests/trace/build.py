"""Small traces written by hand: times in whole microseconds, one call an event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MAIN = 100


class Built:
    """A trace in the making; every method adds one event and returns the trace."""

    def __init__(self, origin_us: float = 1000.0, **around: Any) -> None:
        self.origin = origin_us
        self.around = around
        self.events: list[dict[str, Any]] = []

    def add(self, category: str, name: str, start: float, duration: float, **more: Any) -> Built:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": MAIN}
        self.events.append(event | {"ts": self.origin + start, "dur": duration} | more)
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

    def object(self) -> dict[str, Any]:
        return {"schemaVersion": 1, "deviceProperties": [], **self.around, "traceEvents": self.events}

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(self.object(), ensure_ascii=False), encoding="utf-8")
        return path
