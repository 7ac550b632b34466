"""Two arms in, a verdict out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.progress import Progress, silent
from stepprof_lab.scenario import Scenario
from stepprof_lab.validate import identity, noise, requests, resume
from stepprof_lab.validate import region as region_run
from stepprof_lab.validate.agreement import OUTPUT_STEPS, Answers, compare_answers, workers_of
from stepprof_lab.validate.arms import Build, Clock, loaders_watched, old_objects_set_aside
from stepprof_lab.validate.beginning import NotComparable
from stepprof_lab.validate.bench import ARMS, Bench
from stepprof_lab.validate.calibrate import below_spread, calibrate
from stepprof_lab.validate.designs import carry_out, make_plan
from stepprof_lab.validate.lost import WatchedDevice, first_failure_told
from stepprof_lab.validate.model import ArmName, Requests, Validation
from stepprof_lab.validate.noise import Meter
from stepprof_lab.validate.plan import PairsPlan, WholePlan
from stepprof_lab.validate.rehearsal import rehearse
from stepprof_lab.validate.resume import Asked, Keeper, Options
from stepprof_lab.validate.settings import Settings
from stepprof_lab.validate.start import random_states_kept
from stepprof_lab.validate.statistics import DECIDES, PAIRS, WHOLE_ARMS, arm_of, blocks_that_count, verdict_from
from stepprof_lab.validate.surroundings import Surroundings, told_of_loading
from stepprof_lab.validate.timing import TimedDevice
from stepprof_lab.validate.watchers import profilers_watched, refuse_watchers

LATE = 1.02
"""Beyond this share of the budget a run is told to have taken longer."""

TOO_GOOD = 0.1
"""Below this ratio the reader is asked to look once more."""


def compare(
    before: Build | str,
    after: Build | str,
    scenario: Scenario,
    *,
    device: str | TimedDevice = "auto",
    replicates: int = 8,
    budget_s: float = 60.0,
    margin: float = 0.01,
    output_steps: int = OUTPUT_STEPS,
    region: str | None = None,
    calibrate_s: float | None = None,
    partial: Path | None = None,
    resumed: Path | None = None,
    progress: Progress = silent,
    clock: Clock = time.perf_counter,
    meter: Meter | None = None,
) -> Validation:
    """Compare two arms outside the profiler.

    Both are built fresh under the same seeds, must give the same answer, and are then timed in turns; the verdict is
    on the ratio after/before and its interval over replicates. With ``scenario.boundary.read`` whole arms alternate,
    otherwise short blocks.

    Both arms run in this process. Each has its own random numbers and switches (threads, precision, gradients, ...) in
    its turns, and the caller's come back at the end. A plain value or function in the arms' own modules that one arm
    sets and the other sees makes them not comparable. Not seen is what lies deeper: attributes of larger objects,
    functions of libraries that are replaced, the configuration of ``torch.compile``. Results that are stored and handed
    out again are found where the same memory comes back, and told as a doubt where they do not follow a change of the
    state; copies of them from a step without a state are not found.

    Args:
        before: ``build(device) -> Step``, or where it is ("FILE" or "FILE:NAME").
        after: the same with the one change.
        scenario: the question; its boundary decides the design, its seed the order, its outputs the tolerance.
        device: "auto", "cpu", "gpu", "cuda", "rocm", "xpu", or a device that was chosen already.
        replicates: fresh pairs of arms, at least 2; the interval is over them.
        budget_s: how long all of it may take, in seconds; fixes the plan before the timing.
        margin: differences smaller than this share are not called differences.
        output_steps: steps of each arm whose outputs are compared, at least 2.
        region: the name of a label that is timed by itself as well, in a run of its own with the same plan; each of the
            two runs gets half of the time.
        calibrate_s: for how many seconds more arm before is run against itself; None: not at all.
        partial: where what was measured so far is kept while it runs; None keeps nothing. It stays there at the end.
        resumed: such a file, to go on with where it stopped; it is kept up to date in place of ``partial``.
        progress: told how far it is.
        clock: the host's clock in seconds.
        meter: reads what disturbs the run.

    Returns:
        The verdict with all raw values. "not comparable" is a verdict too, with its reason.

    Raises:
        StepprofError: arguments that cannot be used, an arm that raises or ends early, a plan that does not fit, an
            active profiler.
        NotAvailable: the device is not there.
    """
    _check_arguments(replicates, budget_s, margin, output_steps, calibrate_s)
    _refuse_many_processes()
    refuse_watchers("before the comparison")
    chosen = WatchedDevice(_device(device))
    asked = Asked(
        scenario=scenario,
        arms={"before": identity.arm_from(before), "after": identity.arm_from(after)},
        environment=identity.where(chosen),
        options=Options(
            replicates=replicates,
            budget_s=budget_s,
            margin=margin,
            output_steps=output_steps,
            region=region,
            calibrate_s=calibrate_s,
        ),
    )
    keeper = Keeper(asked, resumed or partial, resume.load(resumed) if resumed else None)
    builds, loaded = _builds(before, after)
    around = Surroundings(*builds.values(), notes=loaded)
    with (
        first_failure_told(),
        old_objects_set_aside(),
        random_states_kept(chosen.torch_device),
        around.kept(),
        loaders_watched() as loaders,
        profilers_watched() as profilers,
    ):
        bench = Bench(
            scenario=scenario,
            builds=builds,
            device=chosen,
            clock=clock,
            meter=meter or Meter(),
            progress=progress,
            loaders=loaders,
            around=around,
            profilers=profilers,
            replicates=replicates,
            budget_s=budget_s,
            region=region,
        )
        with keeper.kept_on_failure(bench):
            return _compare(bench, keeper, margin, output_steps, calibrate_s)


def _compare(bench: Bench, keeper: Keeper, margin: float, output_steps: int, calibrate_s: float | None) -> Validation:
    load, plan, answers = bench.meter.load(), None, None
    keeper.take_up(bench)
    rehearsed = rehearse(bench)
    try:
        answers = compare_answers(bench, output_steps)
        region_run.demand_label(bench)
        plan = keeper.plan(answers) or make_plan(bench, answers)
        bench.planned_s = bench.clock() - bench.began_s
        keeper.begin(bench, plan, answers)
        carry_out(bench, plan, answers)
    except NotComparable as error:
        planned = _plan_report(bench, plan, answers) if plan and answers else {}
        told = bench.around.reasons()
        return _not_comparable(error, answers, told, _recorded(bench, keeper, margin, rehearsed, planned))
    bench.profilers.refuse("after the comparison")
    design = plan.design
    conclusion = verdict_from(bench.blocks, design, margin)
    counted, _ = blocks_that_count(bench.blocks, DECIDES[design])
    disturbed = noise.report(
        bench.blocks,
        design,
        bench.meter,
        on_gpu=bench.device.is_gpu,
        load_at_start=load,
    )
    recorded = _recorded(bench, keeper, margin, rehearsed, _plan_report(bench, plan, answers))
    regional = None if bench.region is None else region_run.measure(bench, plan, answers, margin, conclusion)
    calibrated = None
    if calibrate_s is not None:
        calibrated = calibrate(bench, plan, answers, keeper, margin=margin, budget_s=calibrate_s)
    unstable = disturbed.pop("sentences")
    return Validation(
        verdict=conclusion.verdict,
        ratio=conclusion.ratio,
        interval=conclusion.interval,
        smallest_effect_seen=conclusion.smallest_effect_seen,
        statistics=conclusion.statistics,
        replicate_ratios=conclusion.replicate_ratios,
        outputs=answers.outputs,
        arms=[arm_of(counted, name, answers.samples) for name in ARMS],
        reasons=[
            *conclusion.reasons,
            *(regional.reasons[:1] if regional else []),
            *(below_spread(conclusion.ratio, calibrated) if calibrated else []),
            *answers.remarks.values(),
            *bench.around.reasons(),
            *_remarks(bench, answers, recorded["startup"], design),
            *_too_good(conclusion.ratio),
            *_overrun(recorded["plan"]),
            *unstable,
        ],
        noise=disturbed,
        requests=_requests(bench, answers),
        region=regional,
        calibration=calibrated,
        **recorded,
    )


def _not_comparable(
    error: NotComparable, answers: Answers | None, told: list[str], recorded: dict[str, Any]
) -> Validation:
    """The verdict without a ratio; what was measured until then is kept."""
    return Validation(
        verdict="not comparable",
        outputs=(answers.outputs if answers else {}) | error.found,
        reasons=[error.reason, *told],
        noise={},
        **recorded,
    )


def _recorded(
    bench: Bench, keeper: Keeper, margin: float, rehearsed: dict[str, Any], plan: dict[str, Any]
) -> dict[str, Any]:
    """What every verdict carries."""
    return {
        "design": WHOLE_ARMS if bench.scenario.boundary.read else PAIRS,
        "question": bench.scenario.question,
        "change": bench.scenario.change,
        "unit": bench.scenario.unit,
        "device": bench.device.sentence,
        "seed": bench.scenario.seed,
        "margin": margin,
        "startup": bench.start_up_report() | {"first_in_process": rehearsed},
        "settings": bench.around.report(),
        "plan": plan,
        "warm_up": bench.warm_ups,
        "blocks": bench.blocks,
        "scenario": bench.scenario,
        "made_from": keeper.asked.arms,
        "environment": keeper.asked.environment,
        "sessions": keeper.sessions,
    }


def _remarks(bench: Bench, answers: Answers, start_up: dict[str, Any], design: str) -> list[str]:
    """What a reader of the verdict has to know beside it."""
    told = [answers.outputs["note"]] if "note" in answers.outputs else []
    if design == PAIRS:
        told += [
            f"arm {name} was not steady after its warm-up in {start_up[name]['not_steady']} of "
            f"{bench.replicates} replicates: its times may still fall"
            for name in ARMS
            if start_up[name]["not_steady"]
        ]
        told += [
            f"arm {name} made a loader with {workers_of(bench, answers.loaders[name])[0]} workers, and the scenario's "
            "boundary leaves reading out: if the step reads from it, say read = true, or the queues refill meanwhile"
            for name in ARMS
            if answers.loaders[name] and workers_of(bench, answers.loaders[name])[0]
        ]
    elif not any(answers.loaders.values()) and bench.scenario.conditions.loader_workers is None:
        told.append(
            "no torch DataLoader was observed, and the scenario states no loader_workers: steps were counted as if "
            "batches came one by one"
        )
    return told


def _requests(bench: Bench, answers: Answers) -> list[Requests]:
    """Latency and throughput, where a step is a request."""
    if bench.scenario.kind != "inference":
        return []
    return [requests.of_arm(bench.blocks, name, answers.samples) for name in ARMS]


def _too_good(ratio: float) -> list[str]:
    """That a gain this large is rarely one."""
    if ratio >= TOO_GOOD:
        return []
    told = (
        f"after takes less than {TOO_GOOD:g} of before's time: look whether it still does the work of every step, for "
        "a result that was stored, or a part that is left out, is fast too"
    )
    return [told]


def _overrun(plan: dict[str, Any]) -> list[str]:
    """That it took longer than was allowed, if it did."""
    if plan["took_s"] <= LATE * plan["budget_s"]:
        return []
    timing_s = plan["took_s"] - plan["before_plan_s"]
    told = (
        f"it took {plan['took_s']:.3g} s, and {plan['budget_s']:.3g} s were allowed: {plan['before_plan_s']:.3g} s "
        f"until the plan was made, and {timing_s:.3g} s for what was estimated at {plan['estimated_s']:.3g} s; a plan "
        "is carried out to its end once it is made"
    )
    return [told]


def _plan_report(bench: Bench, plan: PairsPlan | WholePlan, answers: Answers) -> dict[str, Any]:
    lengths = [pair.steps for one in plan.pairs for pair in one] if isinstance(plan, PairsPlan) else [plan.steps]
    return {
        **{name: value for name, value in msgspec.to_builtins(plan).items() if name != "pairs"},
        "replicates": bench.replicates,
        "budget_s": bench.budget_s,
        "before_plan_s": round(bench.planned_s, 3),
        "took_s": round(bench.clock() - bench.began_s, 3),
        "steps_per_block": [min(lengths), max(lengths)],
        "loader_workers": {
            name: workers_of(bench, answers.loaders[name])[0] if answers.loaders[name] else None for name in ARMS
        },
    }


def _builds(before: Build | str, after: Build | str) -> tuple[dict[ArmName, Build], list[str]]:
    """The builders of both arms, and what loading their files switched in the process."""
    builds: dict[ArmName, Build] = {}
    notes: list[str] = []
    arms: Mapping[ArmName, Build | str] = {"before": before, "after": after}
    for name, arm in arms.items():
        settings = Settings.now()
        builds[name] = _build(arm)
        notes += told_of_loading(name, settings)
    return builds, notes


def _build(arm: Build | str) -> Build:
    if not isinstance(arm, str):
        return arm
    from stepprof_lab import workload

    return workload.load(arm)


def _device(asked: str | TimedDevice) -> TimedDevice:
    if not isinstance(asked, str):
        return asked
    from stepprof_lab import devices

    return devices.choose(asked)


def _check_arguments(
    replicates: int, budget_s: float, margin: float, output_steps: int, calibrate_s: float | None
) -> None:
    for name, value, right, expected in (
        ("replicates", replicates, replicates >= 2, "at least 2, because an interval needs a spread"),
        ("budget_s", budget_s, 0 < budget_s < math.inf, "a number of seconds above 0"),
        (
            "calibrate_s",
            calibrate_s,
            calibrate_s is None or 0 < calibrate_s < math.inf,
            "a number of seconds above 0, or None",
        ),
        ("margin", margin, 0 <= margin < 1, "a share from 0 to below 1 (0.01 is 1 %)"),
        ("output_steps", output_steps, output_steps >= 2, "at least 2, because an update shows in the second step"),
    ):
        if not right:
            raise StepprofError(f"{name} = {value!r}", expected, "choose another value")


def _refuse_many_processes() -> None:
    size = os.environ.get("WORLD_SIZE", "1")
    if size.isdecimal() and int(size) > 1:
        raise StepprofError(
            f"a comparison in one of {size} processes (WORLD_SIZE={size})",
            "one process that does the steps alone",
            "start it without torchrun",
        )
