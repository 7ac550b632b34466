"""Throw damaged and hostile traces at the reader, by hand, for as long as you like.

    python tests/fuzz/fuzz_read.py --seconds 300   # random; what reaches new lines is changed further
    python tests/fuzz/fuzz_read.py --atheris -- -max_total_time=300   # guided by libFuzzer; pip install atheris
    python tests/fuzz/fuzz_read.py --share --seconds 300   # at the copies that are shared
    python tests/fuzz/fuzz_read.py FILE ...   # what was found once, again

An input passes where it is read and says nothing impossible (`tests/trace/reference.py: insane`), or where it is
refused in one line; reading takes at most `SLOWEST` seconds. With ``--share`` the input is copied for sharing as well:
the copy is JSON, gives the same numbers and findings, and holds none of the words of `PLANTED`. What fails is written
to ``--keep`` (a new folder in the system's temporary one, where none is given), and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import importlib.util
import io
import json
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from stepprof_lab.errors import StepprofError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SLOWEST = 10
"""Seconds that one small input may take."""
LARGEST = 200_000
"""Bytes of an input; larger ones only make the search slow."""


def reference() -> Any:
    """`tests/trace/reference.py`, which is no package's module."""
    spec = importlib.util.spec_from_file_location("fuzz_reference", ROOT / "tests" / "trace" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# ---- what has to hold ----


class Wrong(Exception):
    """An input that was neither read rightly nor refused rightly."""


class Target:
    """Reads inputs as files, and draws what was read, or copies it for sharing."""

    def __init__(self, folder: Path, *, draw: bool = True, share: bool = False) -> None:
        self.path = folder / "t.json"
        self.draw = draw
        self.share = share
        self.insane: Callable[[Any], list[str]] = reference().insane

    def __call__(self, data: bytes) -> str:
        """What became of an input: "read" or "refused".

        Raises:
            Wrong: what may not be.
        """
        self.path.write_bytes(data)
        try:
            with at_most(SLOWEST), warnings.catch_warnings():
                warnings.simplefilter("error")
                return self._read()
        except (Wrong, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise Wrong("".join(traceback.format_exception(error)[-6:])) from error

    def _read(self) -> str:
        from stepprof_lab import record

        try:
            interpretation, _ = record.read(self.path)
        except StepprofError as error:
            if "\n" in str(error) or str(self.path) not in str(error) or len(str(error)) > 2000:
                raise Wrong(f"refused, but not in one line that names the file: {str(error)[:500]!r}") from error
            return "refused"
        impossible = self.insane(interpretation)
        if impossible:
            raise Wrong(f"says what cannot be: {impossible[:3]}")
        if self.draw:
            _draw(interpretation)
        if self.share:
            _share(self.path)
        return "read"


def _share(path: Path) -> None:
    """Review a copy.

    Raises:
        Wrong: the copy is no JSON, gives something away, or says something else than the original.
    """
    from stepprof_lab import sharing

    reviewed = sharing.review(path)
    copied = reviewed.copy.data
    shared = json.dumps([json.loads(copied), msgspec.to_builtins(reviewed.shared)], ensure_ascii=False).lower()
    told = [word for word in PLANTED if word in shared or word in copied.decode().lower()]
    if told:
        raise Wrong(f"the copy tells {told}")
    if reviewed.shared.differs:
        raise Wrong(f"the copy does not say the same: {reviewed.shared.differs}")


def _draw(interpretation: Any) -> None:
    from rich.console import Console

    from stepprof_lab.report.html import page
    from stepprof_lab.report.svg import timeline_svg
    from stepprof_lab.report.text import show_analysis

    show_analysis(interpretation.analysis, Console(file=io.StringIO(), width=100))
    show_analysis(interpretation.analysis, Console(file=io.StringIO(), width=100), plain=True)
    timeline_svg(interpretation.timeline, findings=interpretation.analysis.findings).encode()
    page(interpretation=interpretation, record=None).encode()


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Interrupt what takes longer, where the system can."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- where inputs come from ----


def _event(category: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    device = category in {"kernel", "gpu_memcpy", "gpu_user_annotation"}
    args |= {"device": 0, "stream": tid} if device else {}
    where = {"pid": 0 if device else 1, "tid": tid}
    return {"ph": "X", "cat": category, "name": name, **where, "ts": ts, "dur": dur, "args": args}


_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
EVENTS: list[dict[str, Any]] = [
    _event("user_annotation", "ProfilerStep#3", 1.5, 50.25),
    _event("user_annotation", "ProfilerStep#4", 52, 48),
    _event("user_annotation", "read_batch", 3, 20),
    _event("user_annotation", _LOADER, 53, 12),
    _event("cpu_op", "aten::mm", 25, 20, **{"Input Dims": [[2, 3], []]}),
    _event("cuda_runtime", "cudaLaunchKernel", 30, 2, correlation=4),
    _event("cuda_runtime", "cudaStreamSynchronize", 80, 10, correlation=6),
    _event("kernel", "gemm", 35, 30.125, 7, correlation=4),
    _event("kernel", "ncclDevKernel", 20, 90, 20, correlation=0, **{"Collective name": "allreduce"}),
    _event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 70, 3, 7, correlation=5, bytes=4096),
    _event("gpu_user_annotation", "read_batch", 1, 9, 7),
    _event("python_function", "train.py(12): step", 2, 49),
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "thread 1 (python)"}},
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 200},
]
AROUND: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA X"}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
    "cupti_version": 18,
    "stepprof_lab": {"origin": "constructed"},
    "baseTimeNanoseconds": 1751410836000000000,
    "traceName": "/tmp/x.json",
}
DEEP: list[Any] = []
for _ in range(900):
    DEEP = [DEEP]
PLANTED = ("zorblatt", "quimblyx", "\u00e9l\u00e8vex")
"""Words that no copy for sharing may hold."""
NASTY: list[Any] = [
    *("zorblatt", "x_Quimblyx_1", "at::\u00e9l\u00e8vex", "/home/zorblatt/x.py", "QUIMBLYX@zorblatt.org"),
    *({"zorblatt": ["quimblyx"]}, ["x", {"Zorblatt": 1}], [[["quimblyx"]]]),
    *(None, True, "", "x", 0, -1, 1, 0.5, -0.0, 1e-9, 1e308, -1e308, 2**31, 2**53, 2**63 - 1, 2**64, 10**40, -(2**63)),
    *([], {}, [[]], DEEP, {"a": {"b": []}}, "NaN", "1e999", "1e99999999", "\x00", "a\nb", "\ud83d\ude80", "\u202e"),
    *("<script>", "&", "']]>", "ProfilerStep#1", "ProfilerStep#", "a" * 5000, "9" * 400, "9" * 5000, "stream 7", "-5"),
    *(9007199254740991, 86_400e6, 8e12, 1e16, 10**400),
    *("kernel", "cpu_op", "user_annotation", "xpu_runtime", "mtia_ccp_events", "privateuse1_runtime", "overhead", "X"),
    *("cudaGraphLaunch", "hipMemcpyWithStream", "cudaDeviceSynchronize", "Memcpy DtoH (Device -> Pageable)", "item"),
]  # fmt: skip
PIECES = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"N/A", b"1e400", b"\x00"),
    *(b"\xff", b"\xed\xa0\x80", b"\xc0\xaf"),
    *(b'{"ph":', b'"traceEvents"', b'"traceEvents":[', b"]}", b"},{", b"\\u", b"\\ud800", b"\xef\xbb\xbf", b"\xff\xfe"),
    *(b" " * 500, b"\\" * 300, b'"' * 300, b'\\"' * 300, b"[" * 1500, b'{"a":' * 700, b",", b",,,", b"\r\n", b"}  ]"),
    *(b'"ts":', b'"dur":-5', b"e9", b"0" * 50, b"/*", b"PK\x03\x04", b"\x1f\x8b"),
]  # fmt: skip


def seeds() -> list[bytes]:
    """Small traces of several forms to begin with."""
    whole = json.dumps({**AROUND, "traceEvents": EVENTS}).encode()
    laid_out = json.dumps({**AROUND, "traceEvents": EVENTS}, indent=2).encode()
    bare = json.dumps(EVENTS).encode()
    return [whole, laid_out, bare, json.dumps({"traceEvents": EVENTS[:3], **AROUND}).encode(), gzip.compress(whole)]


def small_traces(folder: Path) -> list[bytes]:
    """The traces of a folder that are not too large, unpacked."""
    found = [path.read_bytes() for path in sorted(folder.glob("*.json*")) if path.stat().st_size <= LARGEST]
    plain = [gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in found]
    return [data for data in plain if len(data) <= LARGEST]


def any_trace(chance: random.Random) -> bytes:
    """Events that belong together by accident, with nasty values here and there."""
    events = []
    for _ in range(chance.choice([1, 3, 10, 40])):
        event = json.loads(json.dumps(chance.choice(EVENTS)))
        event["ts"] = chance.choice([chance.randrange(100), chance.random() * 100, event["ts"]])
        if "dur" in event:
            event["dur"] = chance.choice([0, chance.randrange(60), chance.random(), event["dur"]])
        if chance.random() < 0.5:
            event["args"] = {**event.get("args", {}), "correlation": chance.randrange(6)}
        if chance.random() < 0.3:
            event["tid"] = chance.choice([1, 2, 7, 20])
        events.append(event)
    for _ in range(chance.choice([0, 0, 1, 3, 10])):
        spoil(chance.choice(events), chance)
    around = dict(AROUND) if chance.random() < 0.5 else {}
    if around and chance.random() < 0.3:
        spoil(around, chance)
    return _as_json({**around, "traceEvents": events}, escaped=chance.random() < 0.5)


def _as_json(value: Any, *, escaped: bool = True) -> bytes:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # for what is nested deeply
    try:
        return json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    finally:
        sys.setrecursionlimit(before)


def spoil(value: dict[str, Any], chance: random.Random) -> None:
    """Put something nasty somewhere in an object."""
    key = chance.choice([*value, "args", "dur", "ts", "extra"])
    inner = value.get(key)
    if isinstance(inner, dict) and inner and chance.random() < 0.7:
        spoil(inner, chance)
    else:
        nasty = chance.choice(NASTY)
        value[key] = nasty if nasty is DEEP else copy.deepcopy(nasty)


def damaged(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """An input with a few places changed, as a disk, an editor or an attacker would."""
    packed = data.startswith(b"\x1f\x8b") and chance.random() < 0.7
    if packed:
        with contextlib.suppress(OSError, EOFError, zlib.error):
            data = gzip.decompress(data)
    for _ in range(chance.choice([1, 1, 2, 4, 12])):
        at = chance.randrange(len(data) + 1)
        what = chance.randrange(7)
        if what == 0:
            data = data[:at] + chance.choice(PIECES) + data[at:]
        elif what == 1:
            data = data[:at] + chance.choice(PIECES) + data[at + chance.randrange(40) :]
        elif what == 2:
            data = data[:at]
        elif what == 3:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif what == 4:
            other = chance.choice(others)
            data = data[:at] + other[chance.randrange(len(other) + 1) :]
        elif what == 5:
            end = at + chance.randrange(200)
            data = data[:end] + data[at:end] + data[end:]
        else:
            data = _with_nasty_value(data, chance)
    if packed or chance.random() < 0.05:
        data = gzip.compress(data, mtime=0)
        if chance.random() < 0.5:
            at = chance.randrange(len(data) + 1)
            data = chance.choice([data[:at], data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :], data + data])
    return data[:LARGEST]


def _with_nasty_value(data: bytes, chance: random.Random) -> bytes:
    """Replace what stands after some colon."""
    colons = [place for place, byte in enumerate(data[:20_000]) if byte == ord(":")]
    if not colons:
        return data
    at = chance.choice(colons) + 1
    ends = [place for place in (data.find(b",", at), data.find(b"}", at)) if place >= 0]
    value = _as_json(chance.choice(NASTY))
    return data[:at] + value + data[min(ends, default=len(data)) :]


# ---- the two ways to search ----


class Reached:
    """The lines of the interpreter that were reached so far: what an input adds makes it worth keeping."""

    def __init__(self) -> None:
        self.known: set[tuple[str, int, int]] = set()
        self._new = False
        self._inside = str(ROOT / "stepprof_lab" / "trace")

    def run(self, target: Target, data: bytes) -> tuple[str, bool]:
        """Run an input; returns what became of it, and whether a step from line to line was new."""
        self._new = False
        sys.settrace(self._call)
        try:
            return target(data), self._new
        finally:
            sys.settrace(None)

    def _call(self, frame: Any, _event: str, _arg: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self._inside):
            return None
        last = 0

        def line(frame: Any, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "line":
                edge = (name, last, frame.f_lineno)
                last = frame.f_lineno
                if edge not in self.known:
                    self.known.add(edge)
                    self._new = True
            return line

        return line


def search(
    seconds: float, seed: int, target: Target, keep: Path, *, guided: bool = True, more: Sequence[bytes] = ()
) -> int:
    """Random inputs; those that reach something new are changed further. Returns the number of distinct failures."""
    chance = random.Random(seed)
    corpus = [*seeds(), *more]
    reached = Reached()
    counts = {"read": 0, "refused": 0, "wrong": 0}
    failures: dict[str, Path] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = any_trace(chance) if chance.random() < 0.3 else chance.choice(corpus)
        if chance.random() < 0.8:
            data = damaged(data, chance, corpus)
        try:
            # Following every line is slow: only some inputs are.
            follow = guided and chance.random() < 0.5
            became, new = reached.run(target, data) if follow else (target(data), False)
            counts[became] += 1
            if new and len(data) < LARGEST:
                corpus.append(data)
        except Wrong as error:
            counts["wrong"] += 1
            key = _place(error)
            if key not in failures:
                failures[key] = keep / f"wrong-{len(failures)}.json"
                failures[key].write_bytes(data)
                print(f"--- {failures[key]}\n{error}", flush=True)
    print(f"{counts}, corpus {len(corpus)}, edges {len(reached.known)}, distinct failures {len(failures)}, seed {seed}")
    return len(failures)


def _place(error: Wrong) -> str:
    """What tells one failure from another: the innermost line of the traceback, or the first words."""
    lines = [line.strip() for line in str(error).splitlines()]
    files = [line for line in lines if line.startswith("File ")]
    return files[-1] if files else str(error)[:40]


def with_atheris(arguments: list[str], folder: Path) -> None:
    """Let libFuzzer search; it never returns."""
    import atheris

    with atheris.instrument_imports(include=["stepprof_lab"]):
        import stepprof_lab.trace.findings
        import stepprof_lab.trace.operators
        import stepprof_lab.trace.reader
        import stepprof_lab.trace.timeline  # noqa: F401
    target = Target(folder, draw=False)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(seeds()):
        (corpus / str(number)).write_bytes(data)

    def one(data: bytes) -> None:
        target(data)

    atheris.Setup([sys.argv[0], *arguments, str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    """Run the search that was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--keep", type=Path, help="where inputs that fail go")
    parser.add_argument("--seeds", type=Path, metavar="DIR", help="small traces in it are changed as well")
    parser.add_argument("--no-draw", action="store_true", help="read only, draw nothing")
    parser.add_argument("--share", action="store_true", help="copy for sharing instead of drawing")
    parser.add_argument("--unguided", action="store_true", help="more inputs a second, none of them kept")
    parser.add_argument("--atheris", action="store_true", help="search with libFuzzer; what follows -- is its own")
    parser.add_argument("files", nargs="*", metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.atheris:
            with_atheris(given.files, Path(folder))
        target = Target(Path(folder), draw=not (given.no_draw or given.share), share=given.share)
        if given.files:
            for name in given.files:
                print(name, target(Path(name).read_bytes()))
            return 0
        keep = given.keep or Path(tempfile.mkdtemp(prefix="fuzz-read-"))
        keep.mkdir(parents=True, exist_ok=True)
        more = small_traces(given.seeds) if given.seeds else []
        return int(search(given.seconds, given.seed, target, keep, guided=not given.unguided, more=more) > 0)


if __name__ == "__main__":
    sys.exit(main())
