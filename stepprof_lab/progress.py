"""How long work says how far it is; drawing it is the report's business."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called as ``progress(what, done, total)``: "approach", 3, 20. Drawn by `stepprof_lab.report.progress`."""


def silent(what: str, done: int, total: int) -> None:
    """Say nothing."""
