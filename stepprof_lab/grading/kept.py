"""What a learner has reached so far, kept on their own machine and nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from stepprof_lab.grading.model import Verdict


def directory() -> Path:
    """Where it is kept: ``STEPPROF_HOME``, or ``.stepprof_lab`` in the home directory."""
    return Path(os.environ.get("STEPPROF_HOME") or Path.home() / ".stepprof_lab")


def best() -> dict[str, tuple[float, float]]:
    """The best points of each item and what it is worth; empty where nothing can be read."""
    try:
        found = json.loads((directory() / "progress.json").read_text(encoding="utf-8"))
        return {str(ident): (float(points), float(of)) for ident, (points, of) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def note(verdict: Verdict) -> None:
    """Keep a verdict's points if they are the best so far; that a home cannot be written is no reason to stop."""
    if verdict.undecided:
        return
    found = best()
    if verdict.points < found.get(verdict.item, (0.0, 0.0))[0]:
        return
    found[verdict.item] = (verdict.points, verdict.of)
    with contextlib.suppress(OSError):
        directory().mkdir(parents=True, exist_ok=True)
        temporary = directory() / f".{secrets.token_hex(8)}.part"
        temporary.write_text(json.dumps(dict(sorted(found.items())), indent=1), encoding="utf-8")
        temporary.replace(directory() / "progress.json")
