"""How often a comparison of two training steps is wrong: ours and the rules that people use, trial by trial.

Run it by hand; the README beside it has what it measured::

    python tests/benchmarks/validate.py --out trials.jsonl --minutes 20 --load 0 --only compute
    python tests/benchmarks/validate.py --out trials.jsonl --minutes 20 --load 3 --only compute
    python tests/benchmarks/validate.py --report trials.jsonl

In a trial the rules judge the same two arms, one after the other in an order drawn anew. Equal arms show false
alarms; an arm with a planted slow-down shows power, and how often the direction is wrong. Each trial is a line of
``--out``; what is there already is skipped, so that a run may be ended and started again. The order of the trials is
drawn once from the seed, so that a part of them is a fair part.

The arms:

compute
    One step of training of an MLP (64-128-10, batch of 32, SGD, one thread). The slow-down is a loop of pure Python
    whose length is calibrated; what it comes to is measured (`realised`).
loader0, loader2, loader4, loader8
    A step that does nothing but wait for a batch of 0 to 8 workers. Making a batch takes an exact time, counted from
    the end of the one before, so that the true ratio is known by construction.
mixed
    A step that reads for an exact time, without workers, and trains for about as long; the slow-down is in the
    training.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import itertools
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step
from stepprof_lab.scenario import Boundary, Conditions, Scenario
from stepprof_lab.validate import compare, verdict_from
from stepprof_lab.validate.calibrate import wilson
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.statistics import ratio_of, t_interval, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Build = Callable[[str], Step]

EFFECTS = (0.01, 0.03, 0.05, 0.10)
SEED = 20
SHORT_MS = 0.27
"""Steps about as short as the one that a verdict of 2 s is promised for, 0.25 ms."""
MARGIN = 0.01
"""The default of `stepprof validate`."""
BUDGET_S = 120.0
"""Of one of our verdicts; a plan rarely needs it, and what it took is in the table."""
ALPHA = 0.05
BLOCK = 5
"""Steps of one sample of the sequential rules."""
WARM_UP = 50
"""Steps before the timed ones of the sequential rules; the machine's own study found a step steady after 50."""

OURS, OURS_MARGIN = "ours, margin 0", "ours, margin 1 %"
UNPAIRED = "ours, not paired"
RULES = {
    OURS: "the interval of `compare` excludes 1",
    OURS_MARGIN: "the interval of `compare` lies beyond 1 % (the default)",
    UNPAIRED: "the same blocks, and the lower quartile over all steps of an arm instead of pair by pair",
    "torch, medians differ": "torch.utils.benchmark: the medians differ in the digits that `Compare` prints",
    "torch, colours": "torch.utils.benchmark: `Compare` does not paint both green",
    "Welch": f"sequential blocks of {BLOCK} steps, Welch's t, p < 0.05",
    "Mann-Whitney": f"sequential blocks of {BLOCK} steps, Mann-Whitney U, p < 0.05",
    "means differ": "sequential blocks: the means differ",
    "means, 1 %": "sequential blocks: the means differ by more than 1 %",
}


# ---- the arms ----


@dataclasses.dataclass(frozen=True)
class Workload:
    """Two arms that differ by a planted slow-down.

    Args:
        make: from the slow-down (turns of a loop, or a share of the time of a batch) to a build.
        read: whether the step reads.
        workers: of the loader.
        step_ms: about how long a step takes, in ms.
        exact: whether the true ratio is one plus the effect by construction; else it is measured.
    """

    make: Callable[[float], Build]
    step_ms: float
    read: bool = False
    workers: int | None = None
    exact: bool = False


def training(turns: float, batches: Callable[[], Any] | None = None, times: int = 1) -> Build:
    """A step of training, after a loop of some turns that do nothing; with ``batches`` it reads first."""
    spin = range(round(turns))

    def build(_device: str) -> Step:
        import torch

        torch.set_num_threads(1)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loss_of = torch.nn.CrossEntropyLoss()
        features, classes = torch.randn(32, 64), torch.randint(0, 10, (32,))
        read = batches() if batches else None

        def step() -> Any:
            for _ in spin:
                pass
            if read is not None:
                read()
            for _ in range(times):
                optimizer.zero_grad()
                loss = loss_of(model(features), classes)
                loss.backward()
                optimizer.step()
            return loss.detach()

        return Step(step, state={"model": model, "optimizer": optimizer}, samples=32)

    return build


def wait_until(moment: float) -> None:
    """Sleep, and watch the clock for the last 0.3 ms: a sleep alone ends late by a share that differs."""
    if (left := moment - time.perf_counter() - 3e-4) > 0:
        time.sleep(left)
    while time.perf_counter() < moment:
        pass


class Batches:
    """A data set whose every batch is ready an exact time after the one before, whatever happened in between."""

    def __init__(self, batch_s: float) -> None:
        self.batch_s = batch_s
        self.ended_s: float | None = None

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Any:
        import torch

        batch = torch.full((8,), float(index % 97))
        wait_until((time.perf_counter() if self.ended_s is None else self.ended_s) + self.batch_s)
        self.ended_s = time.perf_counter()
        return batch


def reading(workers: int, step_ms: float) -> Callable[[float], Build]:
    """Steps that wait for a loader: each of the workers needs ``step_ms`` times their number for a batch."""

    def make(slower: float) -> Build:
        def build(_device: str) -> Step:
            import torch

            torch.set_num_threads(1)
            weight = torch.zeros(8)
            batch_s = step_ms / 1e3 * max(1, workers) * (1 + slower)
            data: Any = Batches(batch_s)
            batches: Any = iter(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers))

            def step() -> Any:
                weight.mul_(0.9).add_(next(batches))
                return weight.sum()

            return Step(step, state={"weight": weight}, samples=8)

        return build

    return make


def mixed(turns: float) -> Build:
    """A step that reads for 2 ms and trains for about as long."""
    return training(turns, lambda: lambda: wait_until(time.perf_counter() + 2e-3), times=7)


WORKLOADS = {
    "compute": Workload(training, step_ms=0.25),
    "mixed": Workload(mixed, step_ms=4.0, read=True, workers=0),
    **{
        f"loader{workers}": Workload(reading(workers, 4.0), step_ms=4.0, read=True, workers=workers, exact=True)
        for workers in (0, 2, 4, 8)
    },
}


def built(build: Build, seed: int) -> Callable[[], Any]:
    """A fresh instance as somebody builds it who compares by hand."""
    import torch

    torch.manual_seed(seed)
    return build("cpu").run


# ---- the rules ----


@dataclasses.dataclass
class Judged:
    """What the rules said of two arms: 1 is slower, -1 faster, 0 no difference."""

    claims: dict[str, int] = dataclasses.field(default_factory=dict)
    ratios: dict[str, float] = dataclasses.field(default_factory=dict)
    took_s: dict[str, float] = dataclasses.field(default_factory=dict)
    cpu_s: dict[str, float] = dataclasses.field(default_factory=dict)
    """Processor time of this process; the workers of a loader are not in it."""
    ours: dict[str, Any] = dataclasses.field(default_factory=dict)

    def claim(self, rule: str, ratio: float, differs: bool) -> None:
        """Note what a rule said."""
        self.ratios[rule] = ratio
        self.claims[rule] = (1 if ratio > 1 else -1) if differs else 0


def judge_ours(judged: Judged, workload: Workload, builds: tuple[Build, Build], seed: int, _steps: int) -> None:
    """Our verdict, at both margins from the same blocks: the margin is not used before the timing is over."""
    scenario = Scenario(
        question="Is the step as fast as before?",
        kind="training",
        unit="ms/step",
        seed=seed,
        change="a planted slow-down",
        boundary=Boundary(
            read=workload.read, transfer=False, forward=True, backward=True, update=True, model_load=False
        ),
        conditions=Conditions(loader_workers=workload.workers),
    )
    found = compare(*builds, scenario, device="cpu", budget_s=BUDGET_S, margin=0.0)
    if found.ratio is None or found.interval is None:
        raise StepprofError(f"arms that are {found.verdict} ({found.reasons[0]})", "a ratio", "mend the benchmark")
    beyond = verdict_from(found.blocks, found.design, MARGIN)
    judged.claim(OURS, found.ratio, found.verdict in ("faster", "slower"))
    judged.claim(OURS_MARGIN, found.ratio, beyond.verdict in ("faster", "slower"))
    if not workload.read:
        ratio, low, high = _unpaired(found.blocks)
        judged.claim(UNPAIRED, ratio, not low <= 1 <= high)
    judged.ours = {
        "verdict": beyond.verdict,
        "interval": found.interval,
        "replicate_ratios": found.replicate_ratios,
        "statistics": {one.name: [one.ratio, *one.interval] for one in found.statistics},
        "steps": found.arms[0].steps,
        "mean_ms": found.arms[0].mean_ms,
        "wall_over_cpu": found.noise.get("wall_over_cpu"),
        "first_in_block": None if workload.read else _first_in_block(found.blocks),
    }


def _unpaired(blocks: Sequence[Any]) -> tuple[float, float, float]:
    """After over before by the quartile over all steps of an arm in a replicate, and Student's interval over these."""
    times: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for block in blocks:
        times[block.replicate][block.arm] += block.steps_ms
    logs = [math.log(np.quantile(own["after"], 0.25) / np.quantile(own["before"], 0.25)) for own in times.values()]
    mean, low, high, _ = t_interval(logs)
    return math.exp(mean), math.exp(low), math.exp(high)


def _first_in_block(blocks: Sequence[Any]) -> float:
    """Median first step of a block over the median of the others: what a change of turns costs the step after it."""
    first = [block.steps_ms[0] for block in blocks]
    others = [value for block in blocks for value in block.steps_ms[1:]]
    return round(float(np.median(first) / np.median(others)), 4)


def judge_sequential(judged: Judged, _workload: Workload, builds: tuple[Build, Build], seed: int, steps: int) -> None:
    """Time all of one arm, then all of the other, and ask the usual tests."""
    from scipy import stats  # type: ignore[import-untyped]

    before, after = (_samples(build, seed, steps) for build in builds)
    means = float(np.mean(after) / np.mean(before))
    judged.claim("means differ", means, means != 1)
    judged.claim("means, 1 %", means, abs(means - 1) > MARGIN)
    judged.claim("Welch", means, stats.ttest_ind(before, after, equal_var=False).pvalue < ALPHA)
    medians = float(np.median(after) / np.median(before))
    judged.claim("Mann-Whitney", medians, stats.mannwhitneyu(before, after).pvalue < ALPHA)


def _samples(build: Build, seed: int, steps: int) -> list[float]:
    """Means of blocks of steps of a fresh instance, in seconds."""
    run, clock = built(build, seed), time.perf_counter
    for _ in range(WARM_UP):
        run()
    found = []
    for _ in range(max(4, steps // BLOCK)):
        begin = clock()
        for _ in range(BLOCK):
            run()
        found.append((clock() - begin) / BLOCK)
    del run
    gc.collect()
    return found


def judge_torch(judged: Judged, workload: Workload, builds: tuple[Build, Build], seed: int, steps: int) -> None:
    """torch.utils.benchmark as its recipe has it: a Timer for each, ``blocked_autorange``, and the table."""
    from torch.utils.benchmark import Timer
    from torch.utils.benchmark.utils.common import trim_sigfig

    def measured(build: Build) -> Any:
        run = built(build, seed)
        for _ in range(WARM_UP):
            run()
        found = Timer("run()", globals={"run": run}).blocked_autorange(min_run_time=steps * workload.step_ms / 1e3)
        del run
        gc.collect()
        return found

    one, other = (measured(build) for build in builds)
    shown = [trim_sigfig(each.median * 1e6, each.significant_figures) for each in (one, other)]
    judged.claim("torch, medians differ", other.median / one.median, shown[0] != shown[1])
    best, worst = sorted([one.median, other.median])
    green = worst <= best * 1.01 or worst <= best + 100e-9  # as `Compare` has it
    judged.claim("torch, colours", other.median / one.median, not green)


JUDGES = {"ours": judge_ours, "sequential": judge_sequential, "torch": judge_torch}


# ---- what is planted ----


def calibrated(workload: Workload, log: Callable[[str], None]) -> tuple[dict[float, float], dict[float, float]]:
    """The slow-downs in the arm's own measure, and the ratio that each comes to."""
    if workload.exact:
        return {effect: effect for effect in EFFECTS}, {effect: 1 + effect for effect in EFFECTS}
    turns = 0.2 * workload.step_ms / 1e3 / 20e-9  # about a fifth of a step, to see what a turn really takes
    a_turn = (_realised(workload, turns) - 1) / turns
    planted = {effect: effect / a_turn for effect in EFFECTS}
    realised = {effect: _realised(workload, one) for effect, one in planted.items()}
    log(f"  slow-downs: {_listed(realised)}")
    return planted, realised


def _realised(workload: Workload, turns: float, pairs: int = 5) -> float:
    """After over before, by the lower quartiles of many short blocks in random order; several pairs of fresh arms."""
    chance, ratios = random.Random(SEED), []
    for number in range(pairs):
        arms = [built(workload.make(one), number) for one in (0, turns)]
        times: list[list[float]] = [[], []]
        for _ in range(max(20, round(30 / workload.step_ms))):
            for which in chance.sample((0, 1), 2):
                for _ in range(BLOCK):
                    begin = time.perf_counter()
                    arms[which]()
                    times[which].append(time.perf_counter() - begin)
        before, after = (np.quantile(one[WARM_UP:], 0.25) for one in times)
        ratios.append(after / before)
    return float(np.exp(np.mean(np.log(ratios))))


def primitives() -> dict[str, float]:
    """What the timing loop adds to a step, in ns, from the cost of what it does: once the clock, once the list."""
    from stepprof_lab.validate.arms import RunningArm

    def nothing() -> None:
        return None

    arm = RunningArm("before", lambda _device: Step(nothing), "cpu", seed=1, replicate=0, where="a replicate")

    def ns(run: Callable[[int], Any], steps: int = 20_000) -> float:
        found = []
        for _ in range(15):
            begin = time.perf_counter_ns()
            run(steps)
            found.append((time.perf_counter_ns() - begin) / steps)
        return min(found)

    timed, bare = ns(lambda steps: arm.stamps(steps, time.perf_counter)), ns(arm.bare)
    clock = ns(lambda steps: [time.perf_counter() for _ in range(steps)])
    return {"timed_step_ns": round(timed, 1), "bare_step_ns": round(bare, 1), "clock_and_list_ns": round(clock, 1)}


# ---- the other load ----

BURSTS = """
import os, random, time
parent, chance = os.getppid(), random.Random({seed})
while os.getppid() == parent:
    until = time.perf_counter() + chance.uniform(0.05, 0.5)
    while time.perf_counter() < until:
        pass
    time.sleep(chance.uniform(0.05, 0.5))
"""


@contextlib.contextmanager
def load(children: int) -> Iterator[None]:
    """Processes beside us that compute in bursts of 0.05 to 0.5 s, with pauses as long; they end with us."""
    running = [subprocess.Popen([sys.executable, "-c", BURSTS.format(seed=one)]) for one in range(children)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


# ---- the trials ----


@dataclasses.dataclass(frozen=True)
class Trial:
    """One comparison of two arms by every rule."""

    workload: str
    load: int
    effect: float
    number: int

    @property
    def seed(self) -> int:
        """Of its orders and its arms: another one for each trial."""
        return random.Random(f"{SEED} {self}").getrandbits(40)


def all_trials(workloads: Sequence[str], load_: int, equal: int, planted: int) -> list[Trial]:
    """Every trial, in random order; the same for the same arguments."""
    found = [
        Trial(name, load_, effect, number)
        for name in workloads
        for effect in (0.0, *EFFECTS)
        for number in range(planted if effect else equal)
    ]
    random.Random(SEED).shuffle(found)
    return found


class Kept:
    """The file of trials: one JSON object a line, only ever appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = read_lines(path) if path.exists() else []

    def add(self, line: dict[str, Any]) -> None:
        """Append one line; one that a killed run left unfinished is ended first."""
        torn = self.path.exists() and (data := self.path.read_bytes()) and not data.endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + json.dumps(line) + "\n")
        self.lines.append(line)

    @property
    def done(self) -> set[Trial]:
        """Trials that need not be done again; one that failed is kept, and done again."""
        return {trial_of(line) for line in self.lines if line["kind"] == "trial" and "error" not in line}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a file of trials; a line that a killed run left unfinished is skipped."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(text))
    return found


def trial_of(line: dict[str, Any]) -> Trial:
    """The trial that a line is of."""
    return Trial(**{field.name: line[field.name] for field in dataclasses.fields(Trial)})


@dataclasses.dataclass
class Runner:
    """Runs trials and keeps them.

    Args:
        kept: the file.
        planted: workload -> effect -> the slow-down in the arm's own measure.
        realised: workload -> effect -> the ratio that it comes to.
    """

    kept: Kept
    planted: dict[str, dict[float, float]]
    realised: dict[str, dict[float, float]]
    others_every: int = 1
    """The other rules judge one in so many trials: they take half of the time, and err so often that it shows soon."""
    steps: dict[str, int] = dataclasses.field(default_factory=dict)
    """Timed steps of an arm in our last verdict: the other rules get as many."""

    def run(self, trial: Trial) -> None:
        """Let the rules judge the arms of one trial, in random order, and keep what they said."""
        workload = WORKLOADS[trial.workload]
        slower = self.planted[trial.workload][trial.effect] if trial.effect else 0.0
        builds = (workload.make(0.0), workload.make(slower))
        order = random.Random(trial.seed).sample(list(JUDGES), len(JUDGES))
        if trial.number % self.others_every:
            order = ["ours"]
        if trial.workload not in self.steps:  # the others are given as many steps as ours takes
            order.sort(key="ours".__ne__)
        judged, meter = Judged(), Meter()
        line: dict[str, Any] = {"kind": "trial", **dataclasses.asdict(trial), "order": order}
        began, pressure = time.perf_counter(), meter.pressure_us()
        try:
            for name in order:
                begin, cpu = time.perf_counter(), time.process_time()
                JUDGES[name](judged, workload, builds, trial.seed, self.steps.get(trial.workload, 0))
                judged.took_s[name] = round(time.perf_counter() - begin, 3)
                judged.cpu_s[name] = round(time.process_time() - cpu, 3)
                if name == "ours":
                    self.steps[trial.workload] = judged.ours["steps"]
        except StepprofError as error:
            line["error"] = str(error)
        took = time.perf_counter() - began
        waited = meter.pressure_us()
        psi = None if pressure is None or waited is None else round((waited - pressure) / took / 1e6, 4)
        true = self.realised[trial.workload][trial.effect] if trial.effect else 1.0
        self.kept.add(line | {"psi": psi, "true_ratio": true, **dataclasses.asdict(judged)})


def machine() -> dict[str, Any]:
    """What must be the same for all trials of a file."""
    import torch

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def run(kept: Kept, options: argparse.Namespace) -> None:
    """Do the trials that are missing, until all are done or the time is up."""
    until = time.monotonic() + 60 * options.minutes
    here = machine()
    for line in kept.lines:
        if line["kind"] == "session" and line["machine"] != here:
            raise SystemExit(f"{kept.path} is from another machine or build: {line['machine']}; name another --out")
    done = kept.done
    wanted = all_trials(options.only, options.load, options.trials, options.planted)
    missing = [trial for trial in wanted if trial not in done]
    say(f"{len(wanted) - len(missing)} of {len(wanted)} trials are there, {len(missing)} are missing")
    names = sorted({trial.workload for trial in missing})
    for name in names:  # what a process pays once is paid here
        built(WORKLOADS[name].make(0.0), 0)()
    both = {name: calibrated(WORKLOADS[name], say) for name in names}
    planted, realised = ({name: two[which] for name, two in both.items()} for which in (0, 1))
    session = {"machine": here, "load": options.load, "primitives": primitives(), "realised": realised}
    kept.add({"kind": "session", **session})
    runner = Runner(kept, planted, realised, options.others_every)
    with load(options.load):
        for number, trial in enumerate(missing, start=1):
            if time.monotonic() > until:
                say(f"the time is up: {number - 1} trials were done, {len(missing) - number + 1} are still missing")
                break
            runner.run(trial)
            if number % 20 == 0:
                say(f"  {number} of {len(missing)}")


def say(text: str) -> None:
    """Tell how far it is, beside the table."""
    print(text, file=sys.stderr, flush=True)


# ---- the table ----


def report(lines: Sequence[dict[str, Any]]) -> str:
    """Everything that the trials of a file show, as Markdown."""
    trials = [_judged_anew(line) for line in lines if line["kind"] == "trial"]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in trials:
        groups[line["workload"], line["load"]].append(line)
    parts = [_machines(lines), _primitives(lines)]
    for name, busy in sorted(groups, key=lambda key: (list(WORKLOADS).index(key[0]), key[1])):
        parts.append(_group(name, busy, groups[name, busy]))
    for busy in sorted({busy for _, busy in groups}):
        loaders = [lines for (name, beside), lines in groups.items() if name.startswith("loader") and beside == busy]
        if len(loaders) > 1:
            parts.append(_group("all loaders", busy, [line for lines in loaders for line in lines]))
    return "\n\n".join(part for part in parts if part)


def _judged_anew(line: dict[str, Any]) -> dict[str, Any]:
    """A trial with what our rule of today says of the ratios that were measured then."""
    if not line["ours"]:
        return line
    _, interval, _ = ratio_of(line["ours"]["replicate_ratios"])
    claims = {
        rule: {"slower": 1, "faster": -1}.get(verdict_of(interval, margin), 0)
        for rule, margin in ((OURS, 0.0), (OURS_MARGIN, MARGIN))
    }
    ours = {**line["ours"], "interval": interval, "verdict": verdict_of(interval, MARGIN)}
    return {**line, "claims": {**line["claims"], **claims}, "ours": ours}


def _group(name: str, busy: int, all_lines: list[dict[str, Any]]) -> str:
    lines = [line for line in all_lines if "error" not in line]
    failed = [line for line in all_lines if "error" in line]
    beside = f"{busy} busy processes beside it" if busy else "nothing beside it"
    told = [f"### {name}, {beside}"]
    if failed:
        told.append(f"{len(failed)} trials without a verdict of ours, the last: {failed[-1]['error']}")
    if lines:
        told += [_conditions(lines), _rules(lines), _ours(lines)]
    return "\n\n".join(told)


def _conditions(lines: list[dict[str, Any]]) -> str:
    psi = [line["psi"] for line in lines if line["psi"] is not None]
    seen = f"median {100 * statistics.median(psi):.0f} %, at most {100 * max(psi):.0f} %" if psi else "not observed"
    realised = {
        effect: statistics.median(line["true_ratio"] for line in lines if line["effect"] == effect)
        for effect in sorted({line["effect"] for line in lines} - {0.0})
    }
    return f"Some task waited for a processor (pressure): {seen}. True ratios: {_listed(realised) or 'none planted'}."


def _listed(ratios: dict[float, float]) -> str:
    return ", ".join(f"{100 * effect:g} % planted {ratio:.4f}" for effect, ratio in ratios.items())


def _rules(lines: list[dict[str, Any]]) -> str:
    effects = sorted({line["effect"] for line in lines} - {0.0})
    head = ["rule", "false alarms", "95 % interval", *(f"{100 * one:g} % slower: right, wrong" for one in effects)]
    head += ["A/A ratio: centre", "and spread"]
    rows = []
    for rule in RULES:
        judged = [line for line in lines if rule in line["claims"]]
        if not judged:  # without pairs there is nothing to leave unpaired
            continue
        equal = [line for line in judged if line["effect"] == 0]
        alarms = sum(line["claims"][rule] != 0 for line in equal)
        row = [rule, f"{alarms}/{len(equal)}", _share_interval(alarms, len(equal))]
        for effect in effects:
            claims = [line["claims"][rule] for line in judged if line["effect"] == effect]
            row.append(f"{claims.count(1)}/{len(claims)}, {claims.count(-1)}")
        centre, spread = _centre([line["ratios"][rule] for line in equal])
        rows.append([*row, centre, spread])
    return _table(head, rows)


def _share_interval(hits: int, count: int) -> str:
    if count == 0:
        return "-"
    low, high = wilson(hits, count)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _centre(ratios: list[float]) -> tuple[str, str]:
    """Mean of the log ratios with two standard errors, and their standard deviation, in per cent."""
    if len(ratios) < 2:
        return "-", "-"
    logs = [100 * math.log(one) for one in ratios]
    deviation = statistics.stdev(logs)
    return f"{statistics.mean(logs):+.2f} ± {2 * deviation / math.sqrt(len(logs)):.2f} %", f"{deviation:.2f} %"


def _ours(lines: list[dict[str, Any]]) -> str:
    """What ours took, and how often its interval holds the true ratio."""
    took = sorted(line["took_s"]["ours"] for line in lines)
    within = sum(one <= 2.0 for one in took)
    most = took[math.ceil(0.95 * len(took)) - 1]
    computed = statistics.median(line["cpu_s"]["ours"] for line in lines)
    steps = statistics.median(line["ours"]["steps"] for line in lines)
    told = [
        f"One verdict of ours: {statistics.median(took):.2f} s (median); 95 % at most {most:.2f} s.",
        f"{within} of {len(took)} verdicts took at most 2 s; processor time of this process {computed:.2f} s (median).",
        f"Timed are {steps:.0f} steps of each arm.",
    ]
    if short := sorted(line["took_s"]["ours"] for line in lines if line["ours"]["mean_ms"] <= SHORT_MS):
        told.append(
            f"Of the {len(short)} whose step took at most {SHORT_MS} ms: {statistics.median(short):.2f} s (median), "
            f"at most {short[-1]:.2f} s."
        )
    if first := [line["ours"]["first_in_block"] for line in lines if line["ours"]["first_in_block"] is not None]:
        told.append(
            f"The first step of a block takes {statistics.median(first):.3f} of the others' time, in both arms."
        )
    for effect, group in itertools.groupby(sorted(lines, key=lambda one: one["effect"]), key=lambda one: one["effect"]):
        own = list(group)
        inside = sum(line["ours"]["interval"][0] <= line["true_ratio"] <= line["ours"]["interval"][1] for line in own)
        told.append(
            f"{'Equal arms' if not effect else f'{100 * effect:g} % slower'}: the true ratio is inside our interval in "
            f"{inside} of {len(own)} ({_share_interval(inside, len(own))}); verdicts at the default margin: "
            + ", ".join(f"{count} {what}" for what, count in _counted(line["ours"]["verdict"] for line in own))
            + "."
        )
    return "\n".join(f"- {one}" for one in told)


def _counted(values: Iterator[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = defaultdict(int)
    for value in values:
        counts[value] += 1
    return sorted(counts.items(), key=lambda item: -item[1])


def _machines(lines: Sequence[dict[str, Any]]) -> str:
    seen = {json.dumps(line["machine"]): line["machine"] for line in lines if line["kind"] == "session"}
    return "\n".join(", ".join(f"{name} {value}" for name, value in one.items()) for one in seen.values())


def _primitives(lines: Sequence[dict[str, Any]]) -> str:
    seen = [line["primitives"] for line in lines if line["kind"] == "session"]
    if not seen:
        return ""
    timed, bare, clock = (
        min(one[name] for one in seen) for name in ("timed_step_ns", "bare_step_ns", "clock_and_list_ns")
    )
    return (
        f"The timing loop adds {timed - bare:.0f} ns to a step ({timed:.0f} ns for an empty one that is timed, "
        f"{bare:.0f} ns for one that is not; reading the clock into a list alone {clock:.0f} ns): "
        f"{(timed - bare) / 2500:.3f} % of a step of 0.25 ms, the same in both arms."
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(head), line(["-" * width for width in widths]), *(line(row) for row in rows)])


def main() -> None:
    """Run trials, or show those of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="append the trials to this file, and skip those that it has")
    parser.add_argument("--report", type=Path, metavar="FILE", help="show the trials of this file and run none")
    parser.add_argument("--trials", type=int, default=400, help="with equal arms, for each workload")
    parser.add_argument("--planted", type=int, default=40, help="with each planted slow-down, for each workload")
    parser.add_argument(
        "--others-every", type=int, default=1, metavar="N", help="the other rules judge one in N trials (default: all)"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no trial after this long")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute in bursts beside it")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(WORKLOADS), help="workloads: a,b,...")
    options = parser.parse_args()
    if options.report:
        print(report(read_lines(options.report)))
        return
    if not options.out or (unknown := set(options.only) - set(WORKLOADS)):
        parser.error(f"--only: unknown {', '.join(unknown)}" if options.out else "--out or --report is needed")
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # that is what is asked here
    kept = Kept(options.out)
    with contextlib.suppress(KeyboardInterrupt):
        run(kept, options)
    print(report(kept.lines))


if __name__ == "__main__":
    main()
