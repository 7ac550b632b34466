"""How fast traces are read: ours, other readers and the bare decoding of the same bytes, side by side in one run.

Run it by hand: ``python tests/benchmarks/read.py``; see the README beside it for what it measured. Other readers are
never needed. ``--peers-python`` names the Python of an environment that has them::

    python -m venv /tmp/peers && /tmp/peers/bin/pip install traceinsight gpu-idle
    python tests/benchmarks/read.py --peers-python /tmp/peers/bin/python

TraceLens comes from its repository (the package of that name on PyPI is another): install it into that environment,
or name a checkout with ``--tracelens``.

Every measurement is a process of its own, and the readers take turns. Timed is from the name of the file to the
numbers, without imports; the peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
"""Real traces beside the checkout; other ones with ``--traces``."""
LARGEST = "rocm_mi300_owlv2_61MB"
"""Half of its events are stacks; the replicas are made of it."""
DENSE = ("cuda_2080ti_resnet_train_labels", "cuda_v100_dlrm_diff_test", "cuda_a100_nccl_ns_basetime")
SMALL = "cuda_a100_nccl_ns_basetime"
"""10 MB."""
TIMEOUT_S = 600
RANKS = 4
"""Copies of the largest trace that are read as the ranks of a job."""
ENOUGH_S = 20.0
"""A reader that takes longer is run once."""


# ---- one measurement, in a process of its own ----


def _bare(path: Path) -> Callable[[], object]:
    """The bytes are in memory before the clock starts; the events stay alive, as where they are decoded at once."""
    import msgspec

    from stepprof_lab.trace.reader import _File

    data, decoder = path.read_bytes(), msgspec.json.Decoder(_File)
    return lambda: (decoder.decode(data), None)


def _by_kind(path: Path) -> Callable[[], object]:
    """Decoding as our reader does it, from memory: in pieces, and what is not used is no object. A lower limit."""
    import io

    from stepprof_lab.trace import events, pieces

    text = io.BytesIO(path.read_bytes())

    def decode() -> object:
        parts = pieces.cut(text.readinto)
        return sum(len(events.decode(part.events)) for part in parts if isinstance(part, pieces.Piece))

    return decode


def _loaded() -> Callable[[Path], Any]:
    """`interpret`, with all that it imports on its way."""
    from stepprof_lab.trace import device, difference, findings, interpret, operators, reader, timeline, waiting

    assert all((device, difference, findings, operators, reader, timeline, waiting))
    return interpret


def _ours(path: Path) -> Callable[[], object]:
    interpret = _loaded()

    return lambda: getattr(interpret(path).analysis.gpu, "busy_us", None)


def _ours_with_picture(path: Path) -> Callable[[], object]:
    interpret = _loaded()

    def read() -> object:
        read_ = interpret(path)
        return len(read_.timeline.lanes) and getattr(read_.analysis.gpu, "busy_us", None)

    return read


def _traceinsight(path: Path) -> Callable[[], object]:
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    def read() -> object:
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir="", include_last_profiler_step=True)
        return float(analysis.get_temporal_breakdown(visualize=False)["non_compute_time(us)"].iloc[0])

    return read


def _gpu_idle(path: Path) -> Callable[[], object]:
    import analyzer  # type: ignore[import-not-found]

    return lambda: bool(analyzer.analyze(str(path)))


def _tracelens(path: Path) -> Callable[[], object]:
    from TraceLens.TreePerf.tree_perf import TreePerfAnalyzer  # type: ignore[import-not-found]

    return lambda: len(TreePerfAnalyzer.from_file(str(path)).get_df_gpu_timeline())


READERS: dict[str, Callable[[Path], Callable[[], object]]] = {
    "bare decoding": _bare,
    "bare decoding, by kind": _by_kind,
    "stepprof_lab": _ours,
    "stepprof_lab, with the picture": _ours_with_picture,
    "traceinsight": _traceinsight,
    "gpu-idle": _gpu_idle,
    "TraceLens": _tracelens,
}
PEERS = ("traceinsight", "gpu-idle", "TraceLens")


class Cost(NamedTuple):
    """What one reading took."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def measure_here(reader: str, path: Path) -> Cost:
    """Read once in this process."""
    read = READERS[reader](path)
    wall, cpu = time.perf_counter(), time.process_time()
    kept = read()
    cost = (time.perf_counter() - wall, time.process_time() - cpu)
    del kept
    return Cost(*cost, peak_mb())


def peak_mb() -> float:
    """Largest memory of this process; ``ru_maxrss`` only where nothing else says it: it begins at the parent's."""
    try:
        told = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        told = None
    largest = int(told[1]) if told else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest * 1024 / 1e6


def measure(reader: str, path: Path, options: argparse.Namespace) -> Cost | str:
    """Read once in a process of its own; a reason where that is not possible."""
    python = options.peers_python if reader in PEERS else sys.executable
    if python is None:
        return "no --peers-python"
    environment = dict(os.environ)
    if options.tracelens and reader in PEERS:
        environment["PYTHONPATH"] = str(options.tracelens)
    command = [python, __file__, "--one", reader, str(path)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:100]
    return Cost(*json.loads(lines[-1]))


def measure_command(path: Path) -> Cost:
    """``stepprof read``, the whole process with its start."""
    command = [sys.executable, "-c", "from stepprof_lab.cli import main; main()", "read", str(path)]
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - wall, cpu, float("nan"))


def measure_ranks(path: Path, processes: int) -> tuple[float, float]:
    """Read `RANKS` copies of a trace as the ranks of a job, in one process or two.

    Returns:
        Wall seconds, and the CPU seconds of the process that took the most: how long it would be on idle cores.
    """
    from stepprof_lab.trace import parallel
    from stepprof_lab.trace.model import Context

    _loaded()
    wall, cpu, before = time.perf_counter(), time.process_time(), _children_s()
    parallel.measure([(path, Context())] * RANKS, picture=False, processes=processes)
    return time.perf_counter() - wall, max(time.process_time() - cpu, _children_s() - before)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- the files ----


def unpacked(name: str, traces: Path, into: Path) -> Path:
    """The bytes of a trace as a plain file."""
    plain = into / f"{name}.json"
    if not plain.exists():
        plain.write_bytes(gzip.decompress((traces / f"{name}.json.gz").read_bytes()))
    return plain


NUMBER = re.compile(rb'("ts": |"correlation": |"External id": |ProfilerStep#)(\d+)')
APART_US = 10_000_000
"""Between two copies: the base trace lasts 6 s."""
APART_IDS = 10_000_000


def replica(base: Path, megabytes: int, into: Path) -> Path:
    """The events of a trace several times over, later each time, with links of their own."""
    import msgspec

    data = base.read_bytes()
    listed = bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])["traceEvents"])
    begin = data.index(listed) + 1
    end = begin + len(listed) - 2
    larger = into / f"replica_{megabytes}MB.json"
    with larger.open("wb") as out:
        out.write(data[:begin])
        copies = -(-megabytes * 1_000_000 // (end - begin))
        for copy in range(copies):
            out.write(b"," if copy else b"")
            out.write(NUMBER.sub(lambda found, copy=copy: _moved(found, copy), data[begin:end]))  # type: ignore[misc]
        out.write(data[end:])
    return larger


def _moved(found: re.Match[bytes], copy: int) -> bytes:
    apart = {b'"ts": ': APART_US, b"ProfilerStep#": 1000}.get(found[1], APART_IDS)
    number = int(found[2])
    # 0 links nothing, in every copy.
    return found[1] + b"%d" % (number + copy * apart if number else 0)


# ---- all of it ----


def compare(path: Path, readers: list[str], options: argparse.Namespace) -> dict[str, Cost]:
    """Measure readers in turn and print a table; the medians of those that could be run."""
    seen: dict[str, list[Cost]] = {}
    failed: dict[str, str] = {}
    for _ in range(options.runs):
        for reader in readers:
            slow = seen.get(reader) and seen[reader][0].wall_s > ENOUGH_S
            if reader in failed or slow:
                continue
            got = measure(reader, path, options)
            if isinstance(got, str):
                failed[reader] = got
            else:
                seen.setdefault(reader, []).append(got)
    medians = {
        reader: Cost(*(statistics.median(of) for of in zip(*runs, strict=True))) for reader, runs in seen.items()
    }
    size = path.stat().st_size / 1e6
    print(f"\n{path.name}, {size:.0f} MB\n")
    print("| reader                         | runs | wall s | CPU s | CPU of bare | peak MB | peak of the file |")
    print("| ------------------------------ | ---: | -----: | ----: | ----------: | ------: | ---------------: |")
    bare = medians.get("bare decoding")
    for reader in readers:
        if reader in failed:
            print(f"| {reader:30} | skipped: {failed[reader]} |")
            continue
        cost = medians[reader]
        ratio = f"{cost.cpu_s / bare.cpu_s:.2f}" if bare else ""
        print(
            f"| {reader:30} | {len(seen[reader]):4} | {cost.wall_s:6.2f} | {cost.cpu_s:5.2f} | {ratio:>11} "
            f"| {cost.peak_mb:7.0f} | {cost.peak_mb / size:16.2f} |",
            flush=True,
        )
    _say_fastest(medians)
    return medians


def _say_fastest(medians: dict[str, Cost]) -> None:
    peers = {reader: medians[reader] for reader in PEERS if reader in medians}
    if not peers or "stepprof_lab" not in medians:
        return
    ours, fastest = medians["stepprof_lab"], min(peers, key=lambda reader: peers[reader].cpu_s)
    leanest = min(peer.peak_mb for peer in peers.values())
    print(
        f"\nThe fastest other reader is {fastest}: {peers[fastest].cpu_s / ours.cpu_s:.1f} times the CPU time; "
        f"the leanest one needs {leanest / ours.peak_mb:.1f} times the memory."
    )


def machine() -> str:
    """On what this ran, in words."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = re.search(r"model name\s*:\s*(.*)", about)
    except OSError:
        model = None
    named = model[1] if model else platform.machine()
    return f"{named}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the real traces")
    parser.add_argument("--runs", type=int, default=3, help="of each reader and file; the medians are printed")
    parser.add_argument("--large", action="store_true", help="replicas of 180 MB and 1 GB too (minutes)")
    parser.add_argument("--peers-python", help="Python of an environment with other readers")
    parser.add_argument("--tracelens", type=Path, help="a checkout of TraceLens, where it is not installed")
    parser.add_argument("--one", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    """Measure, and print tables."""
    options = parsed()
    if options.one:
        print(json.dumps(measure_here(options.one[0], Path(options.one[1]))))
        return
    if not (options.traces / f"{LARGEST}.json.gz").exists():
        sys.exit(f"no trace {LARGEST}.json.gz in {options.traces}: name their folder with --traces")
    print(machine())
    with tempfile.TemporaryDirectory(prefix="stepprof-read-") as folder:
        # As an installed package starts: with compiled modules. The first run of each command is not counted.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        _all(options, Path(folder))


def _all(options: argparse.Namespace, folder: Path) -> None:
    ours: list[Any] = [reader for reader in READERS if reader not in PEERS]
    base = unpacked(LARGEST, options.traces, folder)
    small = compare(base, list(READERS), options)["stepprof_lab"]
    for name in DENSE:
        compare(unpacked(name, options.traces, folder), ours, options)
    packed = options.traces / f"{LARGEST}.json.gz"
    _say_packed([measure("stepprof_lab", path, options) for _ in range(options.runs) for path in (base, packed)])
    _say_ranks(base, options)
    costs = [measure_command(unpacked(SMALL, options.traces, folder)) for _ in range(options.runs + 1)][1:]
    wall, cpu = (statistics.median(cost[n] for cost in costs) for n in (0, 1))
    print(f"\n`stepprof read` on {SMALL} (10 MB), whole process: {wall:.2f} s, {cpu:.2f} s of CPU time")
    if options.large:
        larger = replica(base, 180, folder)
        compare(larger, list(READERS), options)
        _say_ranks(larger, options)
        largest = replica(base, 1000, folder)
        cost = compare(largest, ours, options)["stepprof_lab"]
        slope = (cost.cpu_s / largest.stat().st_size) / (small.cpu_s / base.stat().st_size)
        print(f"\nCPU seconds a MB at 1 GB: {slope:.2f} times those at {base.stat().st_size / 1e6:.0f} MB")


def _say_packed(costs: list[Cost | str]) -> None:
    """Plain and packed take turns."""
    found = [cost for cost in costs if isinstance(cost, Cost)]
    for name, runs in (("plain", found[::2]), ("packed", found[1::2])):
        wall, cpu, peak = (statistics.median(of) for of in zip(*runs, strict=True))
        print(f"{LARGEST}, {name}: {wall:.2f} s, {cpu:.2f} s of CPU time, peak {peak:.0f} MB")


def _say_ranks(path: Path, options: argparse.Namespace) -> None:
    """One process and two take turns; the first turn compiles modules for the children."""
    turns = [(measure_ranks(path, 1), measure_ranks(path, 2)) for _ in range(options.runs + 1)][1:]
    one, two = ([statistics.median(of) for of in zip(*runs, strict=True)] for runs in zip(*turns, strict=True))
    print(f"\n{RANKS} ranks of {path.name}, wall s and CPU s of the longest process:")
    print(f"in one process {one[0]:.2f}, {one[1]:.2f}; in two {two[0]:.2f}, {two[1]:.2f}")


if __name__ == "__main__":
    main()
