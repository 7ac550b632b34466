"""The demo: ask, capture, interpret, change one thing, validate; on real images, with nothing staged."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import msgspec

from stepprof_lab.errors import NotAvailable, StepprofError
from stepprof_lab.files import write_new
from stepprof_lab.progress import Progress, silent
from stepprof_lab.record import Record
from stepprof_lab.scenario import Scenario
from stepprof_lab.trace.model import Analysis, Regime
from stepprof_lab.validate.model import Validation, Verdict

HERE = Path(__file__).resolve().parent
SCENARIO = HERE / "digits.toml"
BEFORE = f"{HERE / 'digits.py'}:build"
AFTER = f"{HERE / 'digits.py'}:build_ready"

BUDGET_S = 25.0
"""Time for the validation; the whole demo is to end within a minute."""

PATIENCE = 2.0
"""On a machine that is too slow or too busy for that, the validation gets this many times what it says it takes."""

NEEDED = {"torch": "torch", "sklearn": "scikit-learn", "PIL": "Pillow"}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo found in short, and where the whole of it lies: the JSON of ``stepprof demo``."""

    device: str
    regime: Regime
    findings: list[str]
    """Ids, by the largest share of the step first."""
    verdict: Verdict
    ratio: float | None
    interval: tuple[float, float] | None
    trace: str
    record: str
    validation: str
    report: str


@dataclasses.dataclass(frozen=True)
class Demo:
    """Everything that the demo found."""

    summary: Summary
    record: Record
    analysis: Analysis
    validation: Validation


def demand_packages() -> None:
    """Name what is missing before anything is done."""
    missing = [name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise NotAvailable(
            f"the demo without {', '.join(missing)}",
            "the packages of the extra 'demo'",
            "run make demo in the project's directory, or: python -m pip install -e '.[demo]'",
        )


def run(*, device: str = "auto", out: Path | None = None, progress: Progress = silent) -> Demo:
    """Do the whole way of working once.

    Args:
        device: which device to use; "auto" takes the best one present.
        out: directory for the trace, its record, the validation and the page; a new one under ``runs/`` by default.
        progress: told how far each part is.

    Raises:
        NotAvailable: the device or a package is not there.
        StepprofError: the directory holds results already, or cannot be written.
    """
    demand_packages()
    import torch

    from stepprof_lab import devices, scenario
    from stepprof_lab import record as records
    from stepprof_lab.capturing import profile_workload
    from stepprof_lab.report.html import page
    from stepprof_lab.validate.keep import keep

    chosen = devices.choose(device)
    if not chosen.is_gpu:
        # The model is small: a second thread costs more than it brings, and waits whenever the machine has other work.
        torch.set_num_threads(1)
    asked = scenario.load(SCENARIO)
    captured = profile_workload(asked, BEFORE, device=device, out=out, name="demo", progress=progress)
    if captured is None:
        raise StepprofError("the demo on several ranks", "one process", "run it without torchrun")
    interpretation, record = records.read(captured.trace, origin="live")
    validation = _validate(asked, device, progress)
    folder = captured.trace.parent
    kept, report = keep(validation, folder / "validation.json"), folder / "report.html"
    drawn = page(
        title="stepprof demo",
        scenario=asked,
        record=record,
        interpretation=interpretation,
        validation=validation,
    )
    write_new(report, drawn.encode(), "report")
    analysis = interpretation.analysis
    summary = Summary(
        device=chosen.sentence,
        regime=analysis.regime,
        findings=[finding.id for finding in analysis.findings],
        verdict=validation.verdict,
        ratio=validation.ratio,
        interval=validation.interval,
        trace=_from_here(captured.trace),
        record=_from_here(captured.record_path),
        validation=_from_here(kept),
        report=_from_here(report),
    )
    return Demo(summary, captured.record, analysis, validation)


def _from_here(path: Path) -> str:
    """A path as a person would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _validate(asked: Scenario, device: str, progress: Progress) -> Validation:
    """Validate the demo's change; where the machine cannot do it in the usual time it takes longer, and says so."""
    from stepprof_lab.validate import compare
    from stepprof_lab.validate.plan import TooLong

    try:
        return compare(BEFORE, AFTER, asked, device=device, budget_s=BUDGET_S, progress=progress)
    except TooLong as error:
        return compare(BEFORE, AFTER, asked, device=device, budget_s=PATIENCE * error.whole_s, progress=progress)
