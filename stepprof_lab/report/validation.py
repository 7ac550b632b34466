"""What a validation says beside its verdict, as tables: start-up, settings, noise, calibration, sessions, machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepprof_lab.report import quantity, tables, words
from stepprof_lab.report.tables import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepprof_lab.validate.model import Calibration, Validation

ARMS = ("before", "after")


def start_up(validation: Validation) -> Table:
    """How each arm came into its stride; none of it is in the times that are compared."""
    columns = (
        Column("name", "arm"),
        Column("build", "building, with loading the model" if _loads(validation) else "building", "time"),
        Column("first", "first step", "time"),
        Column("steady", "steps until steady"),
        Column("not_steady", "instances that were not steady"),
    )
    rows: list[list[Cell]] = []
    for arm in ARMS:
        if seen := validation.startup.get(arm):
            times = [None if seen.get(key) is None else 1e3 * seen[key] for key in ("build_ms", "first_step_ms")]
            of = f"{words.value(seen.get('not_steady'))} of {words.value(seen.get('instances'))}"
            rows.append([arm, *times, words.value(seen.get("steady_after_steps")), of])
    note = "Medians over the instances. None of this is in the times that are compared."
    return Table("startup", "Start-up of each arm", columns, rows, note)


def _loads(validation: Validation) -> bool:
    """Whether building is where a service loads its model."""
    return any("load_ms" in (validation.startup.get(arm) or {}) for arm in ARMS)


def instances(validation: Validation) -> Table:
    """Every instance's steps before the timed ones."""
    columns = (
        Column("replicate", "replicate"),
        Column("arm", "arm"),
        Column("steady", "steady after"),
        Column("steps_ms", "its steps before the timing (ms)"),
    )
    rows: list[list[Cell]] = [
        [
            str(one.replicate),
            one.arm,
            "not steady" if one.steady_after_steps is None else str(one.steady_after_steps),
            " ".join(words.fixed(ms, 4) for ms in one.steps_ms),
        ]
        for one in validation.warm_up
    ]
    return Table("instance", "Start-up, step by step", columns, rows)


def settings(validation: Validation) -> Table:
    """What each arm switches in the process."""
    columns = (Column("arm", "arm"), Column("setting", "setting"), Column("value", "value in its own turns"))
    rows: list[list[Cell]] = [
        [arm, name, words.value(value)] for arm in ARMS for name, value in validation.settings.get(arm, {}).items()
    ]
    return Table("setting", "What each arm sets in torch and in the process", columns, rows)


def noise(validation: Validation) -> Table:
    """What was seen of the machine while it measured; the JSON has each of it in full."""
    seen = validation.noise
    rows = [
        ("some task waited for a processor", _share(seen.get("cpu_pressure_share"))),
        ("elapsed over processor time", words.value(seen.get("wall_over_cpu"))),
        ("involuntary switches", words.value(seen.get("involuntary_switches"))),
        ("load at the start and at the end", _two(seen.get("load_at_start"), seen.get("load_at_end"))),
        ("processors, threads of torch", _two(seen.get("processors"), seen.get("torch_threads"))),
        ("drift over the run", _drift(seen.get("drift") or {})),
        ("slow blocks, marked in the picture", words.value(len(marked(validation)))),
    ]
    return tables.pairs("noise", "Noise while measuring: marked, nothing deleted", rows)


def marked(validation: Validation) -> list[int]:
    """The blocks that took at least twice the usual time, by their order."""
    found = validation.noise.get("slow_blocks")
    return [order for order in found if isinstance(order, int)] if isinstance(found, list) else []


def _share(share: Any) -> str:
    return words.NOT_OBSERVED if share is None else f"{words.percent(share)} of the time"


def _two(one: Any, other: Any) -> str:
    return f"{words.value(one)}; {words.value(other)}"


def _drift(drift: Mapping[str, Any]) -> str:
    told = []
    for arm, seen in drift.items():
        if isinstance(seen, dict):
            word = "drifts" if seen.get("drifts") else "no drift shown"
            told.append(f"{words.visible(arm)} {word} (rank correlation {words.value(seen.get('spearman'))})")
    return "; ".join(told) or words.NOT_OBSERVED


def false_alarms(calibration: Calibration) -> Table:
    """How often an arm was called another than itself."""
    columns = (
        Column("margin", "at a margin of"),
        Column("count", "called faster or slower", "count"),
        Column("trials", "of trials", "count"),
        Column("rate", "false alarms"),
        Column("interval", "95 % interval (Wilson)"),
    )
    rows: list[list[Cell]] = [
        [
            words.percent(one.margin),
            one.count,
            len(calibration.trials),
            words.percent(one.rate),
            f"{words.percent(one.interval[0])} to {words.percent(one.interval[1])}",
        ]
        for one in calibration.false_alarms
    ]
    return Table("false_alarm", f"Calibration: arm {calibration.arm} against itself", columns, rows)


def trials(calibration: Calibration) -> Table:
    """The ratio of each run of an arm against itself."""
    columns = (
        Column("trial", "trial"),
        Column("ratio", "ratio", "ratio"),
        Column("low", "95 % from", "ratio"),
        Column("high", "95 % to", "ratio"),
    )
    rows: list[list[Cell]] = [
        [str(n), one.ratio, one.interval[0], one.interval[1]] for n, one in enumerate(calibration.trials, 1)
    ]
    return Table("trial", "Every trial of the calibration", columns, rows)


def sessions(validation: Validation) -> Table:
    """When it was measured; several rows where it was interrupted and resumed."""
    columns = (
        Column("began", "began at"),
        Column("replicate", "from replicate", "count"),
        Column("load", "load (1, 5, 15 minutes)"),
        Column("ended", "ended"),
    )
    rows: list[list[Cell]] = [
        [one.began_at, one.from_replicate, words.value(one.load_average), words.prose(one.ended or "at its end")]
        for one in validation.sessions
    ]
    cut = sum(len(one.cut_blocks) for one in validation.sessions)
    note = f"{words.counted(cut, 'block')} of a replicate that was cut: measured anew, in no number." if cut else None
    return Table("session", "When it was measured", columns, rows, note)


def resumed(validation: Validation) -> list[Table]:
    """The sessions, where there are several."""
    return [sessions(validation)] if len(validation.sessions) > 1 else []


def machines(validation: Validation) -> list[Table]:
    """Another machine's result beside this one, each with its own numbers."""
    if validation.against is None:
        return []
    told = quantity.of(validation)
    columns = (
        Column("name", "result"),
        Column("verdict", "verdict"),
        Column("ratio", "after / before", "ratio"),
        Column("low", "95 % from", "ratio"),
        Column("high", "95 % to", "ratio"),
        Column("before", "before, mean", told.kind),
        Column("after", "after, mean", told.kind),
        Column("machine", "machine"),
    )
    rows: list[list[Cell]] = []
    for one in validation.against.machines:
        means = [told.cell(arm.mean_ms) for arm in one.arms]
        where = one.environment
        place = f"{where.device or where.cpu}; torch {words.value(where.torch)}"
        rows.append([one.name, one.verdict, one.ratio, *one.interval, *means, words.prose(place)])
    note = "Each machine's own numbers; nothing is added or averaged."
    found = [Table("machine", "Beside another machine", columns, rows, note)]
    found.append(tables.numbered("against", "What the two machines say", validation.against.reasons))
    differences = validation.against.differences or ["nothing that was observed"]
    return [*found, tables.numbered("differs", "In what the two machines differ", differences)]


def calibration(validation: Validation) -> list[Table]:
    """What the calibration says, in sentences."""
    if validation.calibration is None:
        return []
    return [tables.numbered("calibration", "Calibration: arm before against itself", validation.calibration.reasons)]
