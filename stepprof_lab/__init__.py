"""Find out why a PyTorch step takes as long as it takes, without fooling yourself.

In a workload file: `Step` and `label`. Around a loop that exists: `capture`. Then `read` its trace, and `compare` two
arms outside the profiler. A `Scenario` holds the question. The command ``stepprof`` does the same from a terminal.
"""

from __future__ import annotations

__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING, Any

from stepprof_lab.labels import Step, label

if TYPE_CHECKING:
    from stepprof_lab.capturing import capture
    from stepprof_lab.record import read
    from stepprof_lab.scenario import Boundary, Scenario
    from stepprof_lab.validate.compare import compare

__all__ = ["Boundary", "Scenario", "Step", "__version__", "capture", "compare", "label", "read"]

# Imported when they are first asked for: a workload file that only wants `label` starts at once.
_FOUND_IN = {
    "Boundary": "stepprof_lab.scenario",
    "Scenario": "stepprof_lab.scenario",
    "capture": "stepprof_lab.capturing",
    "compare": "stepprof_lab.validate.compare",
    "read": "stepprof_lab.record",
}


def __getattr__(name: str) -> Any:
    if name in _FOUND_IN:
        return getattr(importlib.import_module(_FOUND_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
