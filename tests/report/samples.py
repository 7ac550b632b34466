"""Values as the other rooms give them: a CPU story, a GPU story, two arms, and hostile names."""

from __future__ import annotations

import random
from typing import Any

from stepprof_lab.record import Check, LabelSeen, Record
from stepprof_lab.scenario import Boundary, Conditions, Scenario
from stepprof_lab.trace.model import (
    Analysis,
    Approach,
    Arrow,
    Finding,
    GpuNotObserved,
    GpuObserved,
    Interpretation,
    LabelTimes,
    Lane,
    OperatorTimes,
    Span,
    StepTimes,
    Timeline,
)
from stepprof_lab.validate.model import Arm, Block, Statistic, Validation

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]> --> &amp; '",
    "\x1b[31mred\x1b]0;title\x07 \x00\x9b",
    "\ud800 lone \udfff \uffff",
    "abc\u202egnp.exe\u2066",
    "[bold red]markup[/] :boom: [link=file:///x]",
    "line\nbreak\ttab\u2028end",
    "名前が長い" * 40,
)


def scenario(question: str = "Is compute waiting for data?") -> Scenario:
    return Scenario(
        question=question,
        kind="training",
        boundary=Boundary(read=True, transfer=True, forward=True, backward=True, update=True, model_load=False),
        unit="ms/step",
        seed=7,
        change="the same batches, ready in memory",
        conditions=Conditions(
            batch=64, precision="float32", mode="train", data_source="PNG files", observed=["batch", "mode"]
        ),
    )


def approach() -> Approach:
    """Four workers that deliver in bursts, as the measured ones did."""
    waits = [87.0, 10.0, 0.2, 0.2] + [50.1, 10.4, 0.21, 0.19] * 5
    steps = [wait + 5.1 + 0.05 * (n % 3) for n, wait in enumerate(waits)]
    return Approach(
        steps_ms=steps,
        labels_ms={"read_batch": waits, "transfer": [0.02] * 24, "train": [5.0 + 0.05 * (n % 3) for n in range(24)]},
        loader_workers=4,
        wanted_steps=24,
    )


ENVIRONMENT: dict[str, Any] = {
    "python": "3.12.4",
    "torch": "2.13.0",
    "build": "cpu",
    "cpus": {"logical": 2, "allowed": 2},
    "devices": [],
    "load": None,
    "not_observed": {"driver": "no NVIDIA or AMD driver was found"},
}


def record(question: str = "Is compute waiting for data?", label: str = "read_batch") -> Record:
    seen = approach()
    seen = Approach(
        steps_ms=seen.steps_ms,
        labels_ms={label: seen.labels_ms["read_batch"], "train": seen.labels_ms["train"]},
        loader_workers=4,
        wanted_steps=24,
    )
    return Record(
        stepprof_lab="0.1.0",
        captured_at="2026-08-01T10:00:00Z",
        scenario=scenario(question),
        observed={"batch": 64, "shapes": ["64x1x8x8", "64"], "mode": "train", "loader_workers": 4},
        contradictions=["the scenario says precision = float32, the step ran under autocast"],
        environment=ENVIRONMENT,
        device="CPU, no GPU observed",
        gpu_requested=False,
        schedule={"wait": 1, "warmup": 1, "active": 2, "repeat": 1},
        options={"record_shapes": False, "with_stack": True},
        labels=[
            LabelSeen(name=label, role="read", role_from="usual name"),
            LabelSeen(name="train", role="compute", role_from="usual name"),
        ],
        approach=seen,
        window_steps_ms=[55.3, 16.2, 6.1, 6.2],
        checks=[
            Check(name="two step spans", passed=True, detail="ProfilerStep#26, ProfilerStep#27"),
            Check(name="every label equally often", passed=True, detail="2 labels, once a step"),
        ],
        valid=True,
        trace="digits.json.gz",
        trace_sha256="0" * 64,
    )


def input_wait(label: str = "read_batch") -> Finding:
    return Finding(
        id="input-wait",
        observation="Reading took 15.3 ms of 20.4 ms a step, on average over 20 steps of the approach.",
        hypothesis="The input pipeline may not keep up with the compute.",
        next_check="Run the same compute with the batches ready in memory, and validate outside the profiler.",
        share_of_step=0.752,
        evidence={"label": label, "approach": {"mean_wait_ms": 15.3, "steps": 20}, "steps": ["ProfilerStep#26"]},
    )


def cpu_analysis(name: str = "read_batch", *, found: bool = True) -> Analysis:
    """No device event anywhere."""
    return Analysis(
        trace="digits.json.gz",
        origin="live",
        question="Is compute waiting for data?",
        notes=["Two active steps alone cannot say whether compute waits: the loader has 4 workers."],
        regime="input" if found else "undecided",
        gpu=GpuNotObserved(reason="the capture collected CPU activity only"),
        steps=[StepTimes(name="ProfilerStep#26", cpu_us=6103.25), StepTimes(name="ProfilerStep#27", cpu_us=6204.5)],
        labels={name: LabelTimes(calls=2, cpu_us=402.125), "train": LabelTimes(calls=2, cpu_us=11703.5)},
        operators=[
            OperatorTimes(
                name=f"aten::op_{n}", calls=2 * n + 2, cpu_sum_us=5000.0 / (n + 1), cpu_self_us=900.0 / (n + 1)
            )
            for n in range(12)
        ]
        + [OperatorTimes(name=name, calls=1, cpu_sum_us=0.001, cpu_self_us=0.001)],
        findings=[input_wait(name)] if found else [],
    )


def gpu_analysis() -> Analysis:
    return Analysis(
        trace="resnet.json.gz",
        origin="recorded",
        question=None,
        notes=[],
        regime="host",
        gpu=GpuObserved(
            vendor="cuda",
            devices=["device 0 (NVIDIA H200)"],
            events=240,
            events_unlinked=3,
            busy_us=9120.5,
            sum_us=9840.125,
            span_us=40210.0,
        ),
        steps=[
            StepTimes(
                name=f"ProfilerStep#{n}",
                cpu_us=20103.25 + n,
                gpu_events_launched=120,
                gpu_launched_us=4560.25,
                gpu_busy_in_window_us=4400.0,
                gpu_foreign_in_window_us=0.0,
                gpu_tail_us=160.25,
            )
            for n in (2, 3)
        ],
        labels={"train": LabelTimes(calls=2, cpu_us=39000.0, gpu_launched_us=9000.5)},
        operators=[
            OperatorTimes(
                name="aten::mm",
                calls=80,
                cpu_sum_us=1800.0,
                cpu_self_us=900.0,
                gpu_sum_us=5000.5,
                shapes=["64x64, 64x10"],
            )
        ],
        findings=[
            Finding(
                id="host-bound",
                observation="The GPU was busy for 22 % of the window while the host executed operators.",
                hypothesis="The host may not launch work fast enough.",
                next_check="Run the same step with a larger batch, and validate outside the profiler.",
                share_of_step=None,
                evidence={"busy_us": 9120.5},
            )
        ],
    )


def timeline(name: str = "read_batch", *, operators: int = 60, gpu: bool = False) -> Timeline:
    """Two steps with labels, nested operators and, if asked, two streams with launches."""
    steps, labels, cpu, stream, copies, arrows = [], [], [], [], [], []
    for n in range(2):
        start = 6200.0 * n
        steps.append(Span(f"ProfilerStep#{26 + n}", start, 6100.0, 0, "step"))
        labels.append(Span(name, start + 50, 1200.0, 0, "label"))
        labels.append(Span("train", start + 1300, 4700.0, 0, "label"))
        labels.append(Span("backward", start + 3300, 2500.0, 1, "label"))
        for k in range(operators):
            width = 4600.0 / operators
            at = start + 1350 + k * width
            cpu.append(Span("aten::convolution" if k % 2 else "aten::linear", at, width * 0.9, 0, "operator"))
            cpu.append(Span("aten::addmm", at + width * 0.1, width * 0.6, 1, "operator"))
            if gpu:
                launched = at + width * 0.3
                cpu.append(Span("cudaLaunchKernel", launched, width * 0.2, 2, "runtime"))
                stream.append(Span("ampere_sgemm_128x64_nn", launched + 200, width * 0.5, 0, "kernel"))
                arrows.append(Arrow(2, launched, 3, launched + 200))
        copies.append(Span("Memcpy HtoD (Pageable -> Device)", start + 1250, 90.0, 0, "copy"))
        copies.append(Span("Memset (Device)", start + 1360, 40.0, 0, "memset"))
    lanes = [
        Lane("steps", "steps", steps),
        Lane("labels", "labels", labels),
        Lane("CPU thread 4242", "cpu", cpu, omitted=12),
    ]
    if gpu:
        lanes += [Lane("GPU 0 stream 7", "device", stream), Lane("GPU 0 stream 20", "device", copies)]
    return Timeline(12300.0, lanes, arrows, "Operators shorter than 1 µs are left out.")


def interpretation(*, gpu: bool = False) -> Interpretation:
    return Interpretation(gpu_analysis() if gpu else cpu_analysis(), timeline(gpu=gpu))


def validation(ratio: float = 0.27, *, outlier: bool = True) -> Validation:
    """Eight replicates of whole arms, with one step that was held up."""
    chance = random.Random(3)
    blocks = []
    order = 0
    for replicate in range(8):
        arms = ["before", "after"]
        chance.shuffle(arms)
        for arm in arms:
            level = 20.4 if arm == "before" else 20.4 * ratio
            times = [chance.gauss(level, 0.05 * level) for _ in range(12)]
            blocks.append(Block(replicate=replicate, pair=0, arm=arm, order=order, steps_ms=times))
            order += 1
    if outlier:
        blocks[5].steps_ms[3] = 412.0
    ratios = [ratio * (1 + chance.gauss(0, 0.02)) for _ in range(8)]
    return Validation(
        verdict="faster",
        design="whole arms in random order",
        question="Is compute waiting for data?",
        change="the same batches, ready in memory",
        seed=7,
        ratio=ratio,
        interval=(ratio * 0.96, ratio * 1.05),
        margin=0.01,
        smallest_effect_seen=0.043,
        outputs={"compared": ["returned values", "state"], "steps": 5, "agreement": "bitwise"},
        startup={
            "before": {"first_step_ms": 182.0, "steps_until_steady": 9},
            "after": {"first_step_ms": 62.0, "steps_until_steady": 4},
        },
        statistics=[
            Statistic(name="median", ratio=0.98, interval=(0.91, 1.06)),
            Statistic(name="mean", ratio=ratio, interval=(ratio * 0.96, ratio * 1.05)),
        ],
        replicate_ratios=ratios,
        blocks=blocks,
        arms=[
            Arm(name="before", steps=96, median_ms=20.3, mean_ms=20.4, iqr_ms=1.3, q25_ms=19.8, samples_per_s=3137.2),
            Arm(name="after", steps=96, median_ms=5.5, mean_ms=5.51, iqr_ms=0.3, q25_ms=5.3),
        ],
        reasons=[
            "The whole interval lies below 0.99, so the change counts as faster.",
            "The median disagrees: it does not see the stalls.",
        ],
        noise={"pressure_cpu_share": 0.04, "drift": {"before": -0.1, "after": 0.08}, "contended": False},
    )


def not_comparable() -> Validation:
    return Validation(
        verdict="not comparable",
        design="whole arms in random order",
        margin=0.01,
        outputs={
            "compared": ["returned values"],
            "steps": 5,
            "agreement": "different",
            "largest_absolute_difference": 0.25,
        },
        startup={},
        reasons=["The outputs differ at step 1 by 0.25, and the scenario gives no tolerance."],
        noise={},
    )
