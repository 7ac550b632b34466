"""Constructed traces: how time passes in them, what they say of themselves, and that what was put in is read again."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from rich.console import Console

from stepprof_lab import construct, record
from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.report.html import page
from stepprof_lab.report.json import to_json
from stepprof_lab.report.svg import timeline_svg
from stepprof_lab.report.text import show_analysis
from stepprof_lab.trace import interpret

EXAMPLE = construct.__doc__.split("```python")[1].split("```")[0]


def spans(t: Construct, *categories: str) -> list[tuple[str, float, float]]:
    """Name, start and end in ms since the clock began."""
    begin = construct.BEGIN_MS
    wanted = [event for event in t.events if event.category in categories]
    return [(event.name, event.start / 1e6 - begin, event.end / 1e6 - begin) for event in wanted]


def work(t: Construct) -> list[tuple[str, float, float]]:
    return spans(t, "kernel", "gpu_memcpy", "gpu_memset")


def close(spans: list[tuple[str, float, float]]) -> list[Any]:
    return [(name, pytest.approx(start), pytest.approx(end)) for name, start, end in spans]


def parsed(t: Construct) -> dict[str, Any]:
    return json.loads(t.to_bytes())


def one_step(t: Construct) -> Construct:
    with t.step(), t.label("train"):
        t.cpu(1.0, "aten::relu")
    return t


# ---- how time passes ----


def test_the_example_of_the_docstring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLE, "construct.py", "exec"), {"Construct": Construct})
    analysis = interpret(tmp_path / "waits.json.gz").analysis
    # 12 ms of reading, a call of 0.01 ms, 0.005 ms until the work begins, 3 ms of it.
    assert [(step.name, step.cpu_us) for step in analysis.steps] == [
        ("ProfilerStep#2", 15015.0),
        ("ProfilerStep#3", 15015.0),
    ]
    assert [step.gpu_launched_us for step in analysis.steps] == [3000.0, 3000.0]
    assert analysis.origin == "constructed"
    assert [finding.id for finding in analysis.findings][:1] == ["input-wait"]


def test_a_stream_works_in_order_and_streams_do_not_wait_for_each_other() -> None:
    t = Construct()
    t.launch("a", device=5, host=1, delay=0.5)
    t.launch("b", device=2, host=1, delay=0.5)
    t.launch("c", device=1, host=1, delay=0.5, stream=20)
    assert work(t) == close([("a", 1.5, 6.5), ("b", 6.5, 8.5), ("c", 3.5, 4.5)])
    assert t.now == 3
    t.order(20, after=7, host=0)
    t.launch("d", device=1, host=1, delay=0.5, stream=20)
    assert work(t)[-1:] == close([("d", 8.5, 9.5)])
    assert t.now == 4


def test_waiting_ends_when_the_work_ends() -> None:
    t = Construct(gpus=2)
    t.launch("a", device=5, host=1, delay=0)
    t.launch("b", device=9, host=1, delay=0, stream=20)
    t.launch("other", device=99, host=1, delay=0, gpu=1)
    t.wait(stream=7)
    assert t.now == pytest.approx(6)
    t.wait()
    assert t.now == pytest.approx(11)
    t.wait(host=0.25)
    assert t.now == pytest.approx(11.25)
    t.wait(gpu=1)
    assert t.now == pytest.approx(102)
    called = [name for name, _, _ in spans(t, "cuda_runtime")]
    assert called[-4:] == ["cudaStreamSynchronize", *["cudaDeviceSynchronize"] * 3]


def test_a_pageable_copy_keeps_the_host_and_a_pinned_one_does_not() -> None:
    t = Construct()
    t.copy(device=4, host=1, delay=0.5)
    assert t.now == pytest.approx(5.5)
    t.copy(device=4, host=1, delay=0.5, pinned=True)
    assert t.now == pytest.approx(6.5)
    t.copy("DtoH", device=4, host=1, delay=0.5)
    assert t.now == pytest.approx(15)  # the pinned copy is ahead of it on the stream until 11
    t.copy("DtoD", device=1, host=1, delay=0.5)
    assert t.now == pytest.approx(16)
    assert [name for name, _, _ in work(t)] == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy DtoD (Device -> Device)",
    ]


def test_threads_have_their_own_time() -> None:
    t = Construct()
    t.cpu(2)
    with t.thread("autograd"):
        t.cpu(3, "backward")
    assert t.now == 5
    with t.thread("loader", wait=False):
        t.cpu(10, "decode")
    assert t.now == 5
    t.cpu(1)
    with t.thread("loader", wait=False):
        t.cpu(1, "decode")  # it was busy until 15
    assert spans(t, "cpu_op") == [("backward", 2, 5), ("decode", 5, 15), ("decode", 15, 16)]
    assert len({event.tid for event in t.events}) == 2


def test_a_graph_is_one_launch_and_several_kernels() -> None:
    t = Construct()
    t.graph([("a", 1), ("b", 2)], host=1, delay=0)
    assert work(t) == close([("a", 1, 2), ("b", 2, 4)])
    (call,) = [event for event in t.events if event.category == "cuda_runtime"]
    assert call.name == "cudaGraphLaunch"
    assert {event.correlation for event in t.events} == {call.correlation}


def test_work_from_before_the_record_has_no_launch(tmp_path: Path) -> None:
    t = Construct()
    t.queued_before("early", device=4)
    with t.step():
        t.launch("late", device=1)
    assert work(t) == close([("early", 0, 4), ("late", 4, 5)])
    gpu = interpret(t.save(tmp_path / "t.json")).analysis.gpu
    assert (gpu.events, gpu.events_unlinked) == (2, 1)


def test_the_clock_can_be_put_and_events_can_be_placed() -> None:
    t = Construct()
    t.at(5)
    t.cpu(1, "a")
    t.at(2)
    t.cpu(1, "b")
    t.event("cpu_op", "c", 7, 2, tid=5)
    assert spans(t, "cpu_op") == [("a", 5, 6), ("b", 2, 3), ("c", 7, 9)]
    assert t.now == 3
    assert t.events[-1].tid == 5


def test_frames_know_their_parents() -> None:
    t = Construct()
    with t.frame("train.py(3): main"):
        with t.frame("train.py(9): step"):
            t.cpu(1, "aten::add")
    outer, inner = (event.args for event in t.events if event.category == "python_function")
    assert (outer["Python parent id"], inner["Python parent id"]) == (None, outer["Python id"])
    assert parsed(t)["with_stack"] == 1
    assert "with_stack" not in parsed(one_step(Construct()))


# ---- what stands in the file ----


def noisy(seed: int = 3, **options: Any) -> Construct:
    t = Construct(seed=seed, jitter=0.2, **options)
    for _ in range(2):
        with t.step(), t.label("train"):
            for _ in range(5):
                with t.operator("aten::linear", shapes=[[64, 32], [32]]):
                    t.launch("gemm", device=1.0)
            t.wait()
    return t


def test_the_same_lines_give_the_same_bytes_without_any_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock(*_: Any) -> float:
        raise AssertionError("a clock was read")

    for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, name, no_clock)
    chance = random.getstate()
    first, second = noisy().save(tmp_path / "a.json.gz"), noisy().save(tmp_path / "b.json.gz")
    other = noisy(seed=4).to_bytes()
    monkeypatch.undo()
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) != other
    assert random.getstate() == chance  # the program's own chance is left alone


def test_jitter_stays_within_its_share() -> None:
    lengths = [end - start for name, start, end in work(noisy())]
    assert all(0.8 <= length <= 1.2 for length in lengths)
    assert len(set(lengths)) == len(lengths)
    assert parsed(noisy())["stepprof_lab"] == {
        "origin": "constructed",
        "by": "stepprof_lab.construct",
        "seed": 3,
        "jitter": 0.2,
    }


def test_what_the_profiler_adds_is_there_and_is_no_work(tmp_path: Path) -> None:
    t = noisy()
    events = parsed(t)["traceEvents"]
    kinds = {(event["ph"], event.get("cat")) for event in events}
    assert kinds >= {
        ("s", "ac2g"),
        ("f", "ac2g"),
        ("X", "gpu_user_annotation"),
        ("M", None),
        ("X", "Trace"),
        ("i", None),
    }
    last_step = max(e["ts"] + e["dur"] for e in events if e["name"].startswith("ProfilerStep"))
    assert [e["name"] for e in events if e.get("cat") == "cuda_runtime" and e["ts"] > last_step] == [
        "cudaDeviceSynchronize"
    ]
    bare = noisy(bare=True)
    assert {(event["ph"], event.get("cat")) for event in parsed(bare)["traceEvents"]} == {
        ("X", category) for category in ("user_annotation", "cpu_op", "cuda_runtime", "kernel")
    }
    whole = interpret(t.save(tmp_path / "a.json")).analysis
    alone = interpret(bare.save(tmp_path / "b.json")).analysis
    assert msgspec.structs.replace(whole, trace="", findings=[]) == msgspec.structs.replace(
        alone, trace="", findings=[]
    )


def test_a_projected_label_spans_its_own_threads_launches_only() -> None:
    t = Construct()
    with t.step(), t.label("train"):
        t.launch("a", device=1)
        t.cpu(5)
        t.launch("b", device=1)
        with t.thread("autograd"):
            t.launch("c", device=9)
    projected = [e for e in parsed(t)["traceEvents"] if e.get("cat") == "gpu_user_annotation" and e["name"] == "train"]
    a, b = (event for event in t.events if event.name in {"a", "b"})
    (span,) = projected
    assert span["ts"] == pytest.approx(a.start / 1000 - 0.001)
    assert span["ts"] + span["dur"] == pytest.approx(b.end / 1000 + 0.001)


def test_rocm_has_its_own_names_and_hides_what_it_hides(tmp_path: Path) -> None:
    t = Construct("rocm", first_gpu=2, gpu_name="constructed AMD GPU")
    with t.step():
        t.copy(device=1, bytes=64)
        t.memset(device=1)
        t.launch("k", device=1)
        t.graph([("g", 1)])
        t.wait(stream=0)
    called = [name for name, _, _ in spans(t, "cuda_runtime")]
    assert called == [
        "hipMemcpyWithStream",
        "hipMemsetAsync",
        "hipLaunchKernel",
        "hipGraphLaunch",
        "hipStreamSynchronize",
    ]
    copy = next(event for event in t.events if event.category == "gpu_memcpy")
    assert copy.name == "Memcpy HtoD (Host -> Device)"
    assert copy.args == {"device": 2, "stream": 0, "kind": "HtoD", "correlation": 1, "External id": 1}
    gpu = interpret(t.save(tmp_path / "t.json")).analysis.gpu
    assert (gpu.vendor, gpu.devices) == ("rocm", ["device 2 (constructed AMD GPU)"])


def test_ranks_say_who_they_are() -> None:
    jobs = [parsed(one_step(Construct("cuda", rank=rank, world_size=2))) for rank in (0, 1)]
    assert [job["distributedInfo"]["rank"] for job in jobs] == [0, 1]
    assert {job["distributedInfo"]["world_size"] for job in jobs} == {2}
    assert jobs[0]["traceEvents"][0]["pid"] != jobs[1]["traceEvents"][0]["pid"]
    assert "distributedInfo" not in parsed(one_step(Construct()))


def test_a_collective_is_a_kernel_with_its_arguments_or_the_hosts_time() -> None:
    t = Construct("cuda", rank=0, world_size=4)
    t.collective(ms=3, elements=1000, stream=20)
    kernel = t.events[-1]
    assert kernel.name.startswith("ncclDevKernel_AllReduce_")
    assert (kernel.args["Collective name"], kernel.args["Group size"]) == ("allreduce", 4)
    on_cpu = Construct("cpu", rank=0, world_size=4)
    on_cpu.collective(ms=3)
    assert spans(on_cpu, "user_annotation") == [("gloo:all_reduce", 0, 3)]


def test_a_call_without_work_and_a_driver_call() -> None:
    t = Construct()
    t.call("cudaMalloc", 2)
    t.launch("triton", device=1, call="cuLaunchKernel")
    assert spans(t, "cuda_runtime") == [("cudaMalloc", 0, 2)]
    assert [name for name, _, _ in spans(t, "cuda_driver")] == ["cuLaunchKernel"]


def test_names_of_any_script_and_what_json_must_escape(tmp_path: Path) -> None:
    names = ["entraînement", "読む", 'a"b\\c\n', "</script>", "\ud800"]
    t = Construct("cpu")
    with t.step():
        for name in names:
            with t.label(name):
                t.cpu(1)
    assert [e["name"] for e in parsed(t)["traceEvents"]][1 : 1 + len(names)] == names
    assert list(interpret(t.save(tmp_path / "t.json")).analysis.labels)[:4] == names[:4]


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_torchs_own_rules_find_nothing_wrong(tmp_path: Path, vendor: str) -> None:
    validator = pytest.importorskip("torch.profiler._trace_validator", exc_type=ImportError)
    t = Construct(vendor, rank=0, world_size=2, jitter=0.1)
    for _ in range(2):
        with t.step(), t.label("train"):
            with t.operator("aten::copy_"):
                t.copy(device=1.0)
            for _ in range(5):
                with t.operator("aten::mm"):
                    t.launch("gemm", device=0.5)
            with t.thread("autograd"):
                t.collective(ms=2, stream=20)
            t.order(7, after=20)
            t.wait(stream=20)
            t.wait()
    assert validator.validate_trace(str(t.save(tmp_path / "t.json"))) == (True, [])


# ---- what cannot be made ----


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Construct("xpu"), "xpu"),
        (lambda: Construct(jitter=1.5), "jitter"),
        (lambda: Construct(gpus=0), "devices"),
        (lambda: Construct(rank=2, world_size=2), "rank 2"),
        (lambda: Construct("cpu").launch("k", device=1), "'cpu'"),
        (lambda: Construct("cpu").wait(), "vendor 'cpu'"),
        (lambda: Construct().launch("k", device=1, gpu=1), "device 1"),
        (lambda: Construct().cpu(-1), "-1"),
        (lambda: Construct().cpu(float("nan")), "nan"),
        (lambda: Construct().cpu(float("inf")), "inf"),
        (lambda: Construct().to_bytes(), "without an event"),
        (lambda: one_step(Construct()).save("trace.txt"), "trace.txt"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(make: Any, named: str) -> None:
    with pytest.raises(StepprofError) as refused:
        make()
    assert named in str(refused.value)


def test_an_open_block_is_not_saved_and_a_name_that_is_taken_is_kept(tmp_path: Path) -> None:
    t = Construct()
    with t.step(), pytest.raises(StepprofError, match="ProfilerStep#2"):
        t.save(tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []
    t.save(tmp_path / "t.json")
    before = (tmp_path / "t.json").read_bytes()
    with pytest.raises(StepprofError, match="exists already"):
        one_step(t).save(tmp_path / "t.json")
    assert (tmp_path / "t.json").read_bytes() == before


# ---- what it says of itself ----


def beside(trace: Path, analysed: Any) -> None:
    """A record of a capture beside the trace, with the right digest."""
    held = msgspec.structs.replace(analysed, trace_sha256=hashlib.sha256(trace.read_bytes()).hexdigest())
    record.record_path(trace).write_bytes(record.encode(held))


def a_record() -> record.Record:
    from stepprof_lab import scenario
    from stepprof_lab.trace.model import Approach

    return record.Record(
        stepprof_lab="0",
        captured_at="",
        scenario=scenario.inline("Is compute waiting for data?", boundary="read forward", unit="ms/step"),
        observed={},
        environment={},
        device="CPU",
        gpu_requested=False,
        schedule={},
        options={},
        labels=[],
        approach=Approach(steps_ms=[], labels_ms={}, loader_workers=None, wanted_steps=20),
        window_steps_ms=[],
        checks=[],
        valid=True,
        trace="t.json",
        trace_sha256="",
    )


@pytest.mark.parametrize("origin", ["constructed", "simulated"])
def test_the_origin_stands_in_the_file_with_a_record_or_without(tmp_path: Path, origin: Any) -> None:
    trace = one_step(Construct("cpu", origin=origin, about="one operator")).save(tmp_path / "t.json.gz")
    assert record.read(trace)[0].analysis.origin == origin
    assert record.read(trace, origin="live")[0].analysis.origin == origin
    beside(trace, a_record())
    interpretation, found = record.read(trace)
    assert found is not None
    assert (interpretation.analysis.origin, interpretation.analysis.question) == (
        origin,
        "Is compute waiting for data?",
    )


@pytest.mark.parametrize(
    "mark", ["constructed", ["constructed"], {"origin": "live"}, {"origin": ["simulated"]}, {}, None]
)
def test_only_a_mark_that_says_less_than_measured_is_believed(tmp_path: Path, mark: Any) -> None:
    told = parsed(one_step(Construct("cpu"))) | {"stepprof_lab": mark}
    (tmp_path / "t.json").write_text(json.dumps(told))
    assert record.read(tmp_path / "t.json")[0].analysis.origin == "unknown"


def test_the_mark_cannot_be_taken_off_and_survives_a_cut(tmp_path: Path) -> None:
    t = noisy(stepprof_lab={"origin": "live"}, host_name="x")
    assert parsed(t)["stepprof_lab"]["origin"] == "constructed"
    assert parsed(t)["host_name"] == "x"
    data = t.to_bytes()
    for share in (0.3, 0.6, 0.9):
        path = tmp_path / f"{share}.json"
        path.write_bytes(data[: int(len(data) * share)])
        assert interpret(path).analysis.origin == "constructed"


@pytest.mark.parametrize("origin", ["constructed", "simulated"])
def test_every_report_shows_it(tmp_path: Path, origin: Any) -> None:
    t = noisy(origin=origin)
    interpretation, _ = record.read(t.save(tmp_path / "t.json"))
    with (console := Console(width=100)).capture() as drawn:
        show_analysis(interpretation.analysis, console)
        show_analysis(interpretation.analysis, console, plain=True)
    shown = drawn.get()
    assert f"{origin}: " in shown
    assert f"origin: {origin}" in shown
    assert json.loads(to_json(interpretation.analysis))["origin"] == origin
    assert f"origin {origin}" in page(interpretation=interpretation)
    assert f"{origin}: this trace was" in timeline_svg(interpretation.timeline).lower()


# ---- what was put in is read again ----
#
# A random program runs through the construction, and through the few rules of the clock as this test knows them. The
# numbers that a report gives are then counted microsecond by microsecond, and compared with what the interpreter says.

STREAMS = (7, 20)

us = st.integers(0, 12)
leaves = st.one_of(
    st.tuples(st.just("cpu"), us),
    st.tuples(st.just("op"), st.sampled_from("mn"), st.tuples(us).map(lambda t: [("cpu", t[0])])),
    st.tuples(st.just("launch"), st.integers(1, 4), us, st.integers(0, 30), st.sampled_from(STREAMS)),
    st.tuples(st.just("copy"), st.integers(1, 4), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("early"), us),
    st.tuples(st.just("wait"), st.integers(1, 3)),
)
blocks = st.recursive(
    st.lists(leaves, max_size=4),
    lambda inner: st.lists(
        st.one_of(
            leaves,
            st.tuples(st.just("op"), st.sampled_from("ab"), inner),
            st.tuples(st.just("label"), st.sampled_from("xy"), inner),
            st.tuples(st.just("thread"), st.booleans(), inner),
        ),
        max_size=4,
    ),
    max_leaves=25,
)
programs = st.lists(st.tuples(us, blocks), min_size=1, max_size=3)


def build(t: Construct, actions: list[Any]) -> None:
    """The program as calls of the construction."""
    for action in actions:
        match action:
            case ("cpu", length):
                t.cpu(length / 1000)
            case ("op", name, inner):
                with t.operator(name):
                    build(t, inner)
            case ("label", name, inner):
                with t.label(name):
                    build(t, inner)
            case ("thread", wait, inner):
                with t.thread("other", wait=wait):
                    build(t, inner)
            case ("launch", host, delay, device, stream):
                t.launch("k", host=host / 1000, delay=delay / 1000, device=device / 1000, stream=stream)
            case ("copy", host, device, pinned):
                t.copy(host=host / 1000, delay=0, device=device / 1000, pinned=pinned)
            case ("early", device):
                t.queued_before(device=device / 1000)
            case ("wait", host):
                t.wait(host=host / 1000)


class Reckoned:
    """The same program in whole microseconds, by the rules alone."""

    def __init__(self) -> None:
        self.now = {"main": 0, "other": 0}
        self.here = "main"
        self.free = dict.fromkeys(STREAMS, 0)
        self.steps: list[tuple[int, int]] = []
        self.labels: list[tuple[str, int, int]] = []
        self.operators: list[tuple[str, int, int, int, str]] = []
        """Name, start, end, self, thread."""
        self.work: list[tuple[int, int, int | None, str]] = []
        """Start, end, start of the launch, thread of the launch."""

    def run(self, actions: list[Any]) -> int:
        """Returns the time of this thread that is inside recorded spans: what a parent's self time lacks."""
        return sum(self.act(action) for action in actions)

    def act(self, action: Any) -> int:
        start = self.now[self.here]
        match action:
            case ("cpu", length):
                self.now[self.here] += length
                return 0
            case ("op" | "label" as kind, name, inner):
                children = self.run(inner)
                end = self.now[self.here]
                if kind == "label":
                    self.labels.append((name, start, end))
                else:
                    self.operators.append((name, start, end, end - start - children, self.here))
                return end - start
            case ("thread", wait, inner):
                caller, self.here = self.here, "other"
                if caller == "other":
                    return self.run(inner)
                self.now["other"] = max(self.now["other"], start)
                self.run(inner)
                self.here = caller
                if wait:
                    self.now[caller] = max(start, self.now["other"])
                return 0
            case ("launch", host, delay, device, stream):
                self.now[self.here] += host
                self.queue(start + host + delay, device, stream, start)
            case ("copy", host, device, pinned):
                end = self.queue(start + host, device, 7, start)
                self.now[self.here] = start + host if pinned else max(start + host, end)
            case ("early", device):
                self.queue(0, device, 7, None)
            case ("wait", host):
                self.now[self.here] = max(start + host, *self.free.values())
        return self.now[self.here] - start

    def queue(self, ready: int, device: int, stream: int, launched: int | None) -> int:
        begin = max(ready, self.free[stream])
        self.free[stream] = begin + device
        self.work.append((begin, begin + device, launched, self.here))
        return begin + device


def points(spans: Any) -> set[int]:
    """Every microsecond that the spans cover."""
    return {n for start, end in spans for n in range(start, end)}


def reckoned(program: list[Any]) -> Reckoned:
    model = Reckoned()
    for pause, actions in program:
        model.now["main"] += pause
        start = model.now["main"]
        model.run(actions)
        model.steps.append((start, model.now["main"]))
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


def analysed(program: list[Any], folder: Path, vendor: str) -> Any:
    t = Construct(vendor)
    for pause, actions in program:
        t.cpu(pause / 1000)
        with t.step():
            build(t, actions)
    path = folder / "t.json"
    path.unlink(missing_ok=True)
    return interpret(t.save(path)).analysis


@settings(max_examples=120, deadline=None)
@given(program=programs, vendor=st.sampled_from(["cuda", "rocm"]))
def test_what_was_put_in_comes_back(program: list[Any], vendor: str, folder: Path) -> None:
    # On ROCm the copies' stream is 0: the program's streams are given by number, and 7 is CUDA's default.
    if vendor == "rocm":
        program = without(program, {"copy", "early"})
    model, analysis = reckoned(program), analysed(program, folder, vendor)
    assert [step.cpu_us for step in analysis.steps] == [end - start for start, end in model.steps]
    assert analysis.gpu.observed is bool(model.work)
    everything = points((start, end) for start, end, _, _ in model.work)
    if model.work:
        assert (analysis.gpu.busy_us, analysis.gpu.events) == (len(everything), len(model.work))
        assert analysis.gpu.events_unlinked == sum(launched is None for _, _, launched, _ in model.work)
        assert analysis.gpu.sum_us == sum(end - start for start, end, _, _ in model.work)
    for (start, end), step in zip(model.steps, analysis.steps, strict=True):
        check_step(model, step, start, end, everything)
    check_labels(model, analysis)
    check_operators(model, analysis)


def without(program: list[Any], verbs: set[str]) -> list[Any]:
    def kept(actions: list[Any]) -> list[Any]:
        return [
            (*action[:-1], kept(action[-1])) if isinstance(action[-1], list) else action
            for action in actions
            if action[0] not in verbs
        ]

    return [(pause, kept(actions)) for pause, actions in program]


def check_step(model: Reckoned, step: Any, start: int, end: int, everything: set[int]) -> None:
    if not model.work:
        assert step.gpu_launched_us is UNSET
        return
    mine = [w for w in model.work if w[2] is not None and start <= w[2] < end]
    others = [w for w in model.work if w not in mine]
    window = set(range(start, end))
    assert step.gpu_events_launched == len(mine)
    assert step.gpu_launched_us == len(points(w[:2] for w in mine))
    assert step.gpu_busy_in_window_us == len(everything & window)
    assert step.gpu_foreign_in_window_us == len(points(w[:2] for w in others) & window)
    assert step.gpu_tail_us == max([w[1] - end for w in mine] + [0])


def check_labels(model: Reckoned, analysis: Any) -> None:
    assert set(analysis.labels) == {name for name, _, _ in model.labels}
    for name, found in analysis.labels.items():
        calls = [(start, end) for n, start, end in model.labels if n == name]
        open_ = points(calls)
        assert (found.calls, found.cpu_us) == (len(calls), len(open_))
        if model.work:
            assert found.gpu_launched_us == len(points(w[:2] for w in model.work if w[2] in open_))


def check_operators(model: Reckoned, analysis: Any) -> None:
    assert {operator.name for operator in analysis.operators} == {name for name, *_ in model.operators}
    for found in analysis.operators:
        calls = [call for call in model.operators if call[0] == found.name]
        assert found.calls == len(calls)
        assert found.cpu_sum_us == sum(end - start for _, start, end, _, _ in calls)
        assert found.cpu_self_us == sum(own for *_, own, _ in calls)
        if model.work:
            assert found.gpu_sum_us == sum(
                w[1] - w[0]
                for _, start, end, _, thread in calls
                for w in model.work
                if w[3] == thread and w[2] is not None and start <= w[2] < end
            )


def test_the_reckoning_of_the_round_trip_is_right() -> None:
    """The test's own model on a program small enough to check by hand."""
    model = reckoned([(1, [("op", "a", [("launch", 2, 3, 10, 7), ("cpu", 4)]), ("wait", 1)])])
    assert model.operators == [("a", 1, 7, 4, "main")]
    assert model.work == [(6, 16, 1, "main")]
    assert model.steps == [(1, 16)]
