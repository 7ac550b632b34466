"""A validation on disk: one JSON file with every raw value, from which the verdict can be computed again."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from stepprof_lab.errors import AnswerIsNo, StepprofError
from stepprof_lab.files import run_directory, write_new
from stepprof_lab.validate import resume
from stepprof_lab.validate.calibrate import summed_up
from stepprof_lab.validate.model import Validation
from stepprof_lab.validate.region import judge
from stepprof_lab.validate.statistics import Conclusion, verdict_from

SAME = 1e-9
"""Two ways to add the same numbers may differ by less than this."""


def keep(
    validation: Validation, path: Path | None = None, *, name: str = "validation", instead_of: Path | None = None
) -> Path:
    """Write a validation to a new file and return its path.

    Args:
        validation: what `compare` returned.
        path: the file; by default ``validation.json`` in a new directory below ``runs/``.
        name: begins the default directory's name.
        instead_of: the partial file of the run, which is removed when the result is on the disk.

    Raises:
        StepprofError: the name is taken, or the file cannot be written.
    """
    path = path or run_directory(name) / "validation.json"
    write_new(path, msgspec.json.format(msgspec.json.encode(validation), indent=1), "validation")
    if instead_of is not None:
        instead_of.unlink(missing_ok=True)
    return path


def load(path: Path) -> Validation:
    """Read a kept validation.

    Raises:
        StepprofError: there is no such file, or it is no validation.
    """
    try:
        data = path.read_bytes()
        return msgspec.json.decode(data, type=Validation)
    except OSError as error:
        raise StepprofError(
            f"validation {str(path)!r} cannot be read ({error.strerror or error})", "a file", "check the path"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if path.name.endswith(resume.ENDING):
            raise StepprofError(
                f"{str(path)!r} is a run that was not finished",
                "a finished one",
                f"go on with it: stepprof validate SCENARIO BEFORE AFTER --resume {path}",
            ) from error
        raise StepprofError(
            f"{str(path)!r} is no validation ({error})", "a file that `stepprof validate` wrote", "check the path"
        ) from error


def again(path: Path) -> Validation:
    """Read a kept validation and compute its verdict once more from the raw blocks.

    Raises:
        StepprofError: as `load`.
        AnswerIsNo: the verdict does not follow from the blocks: the file was changed, or another version wrote it.
    """
    kept = load(path)
    if told := _does_not_follow(kept):
        raise AnswerIsNo(
            f"{str(path)!r}, whose verdict does not follow from its raw values ({told})",
            "a file as it was written",
            "do not use it: it was changed, or written by a version that judges otherwise",
        )
    return kept


def _does_not_follow(kept: Validation) -> str | None:
    """In what a kept validation differs from what its blocks say, in words; None where it does not."""
    if kept.verdict == "not comparable":
        return None if kept.ratio is None else f"'not comparable' has no ratio, and the file says {kept.ratio:.6g}"
    try:
        found = verdict_from(kept.blocks, kept.design, kept.margin)
    except StepprofError as error:
        return str(error)
    if found.verdict != kept.verdict:
        return f"the file says {kept.verdict!r}, the raw values say {found.verdict!r} (ratio {found.ratio:.6g})"
    pairs = [
        ("ratio", kept.ratio, found.ratio),
        *zip(("lower end", "upper end"), kept.interval or (None, None), found.interval, strict=True),
        ("smallest effect seen", kept.smallest_effect_seen, found.smallest_effect_seen),
    ]
    for name, said, follows in pairs:
        if not _same(said, follows):
            return (
                f"{name}: the file says {said if said is None else format(said, '.9g')}, the raw values {follows:.9g}"
            )
    return _part_that_does_not_follow(kept, found)


def _part_that_does_not_follow(kept: Validation, whole: Conclusion) -> str | None:
    """The same for the label by itself and for the calibration, which have raw values of their own."""
    if kept.region is not None and kept.region.ratio is not None:
        region = judge(kept.region.blocks, kept.design, kept.margin, whole)
        if region.verdict != kept.region.verdict or not _same(region.ratio, kept.region.ratio):
            return f"the label: the file says {kept.region.verdict!r}, the raw values say {region.verdict!r}"
    if kept.calibration is not None:
        of = kept.calibration
        counted = summed_up(of.trials, kept.margin, planned=of.planned, budget_s=of.budget_s, took_s=of.took_s)
        if [one.count for one in counted.false_alarms] != [one.count for one in of.false_alarms]:
            return "the calibration: its trials have another number of false alarms"
        if not _same(counted.spread, of.spread):
            return "the calibration: its trials have another spread"
    return None


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=SAME, abs_tol=SAME)
