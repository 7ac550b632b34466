"""The user's own lines in a trace that has stacks, and what the profiler says that it cost itself.

With ``with_stack`` the profiler writes one ``python_function`` event a call of a Python function, named
``file(line): function``. Most of them are Python's, PyTorch's or a package's own; only the others are kept.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stepprof_lab.trace.intervals import Int64

_LINE = re.compile(r"(?P<file>[^<>]+\.py)\((?P<line>\d+)\): ")
_INSTALLED = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|torchinductor_")
PACKAGES = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "torch_geometric", "triton", "numpy", "PIL", "scipy", "sklearn"),
        *("pandas", "transformers", "datasets", "accelerate", "lightning", "pytorch_lightning", "ignite", "timm"),
        *("apex", "deepspeed", "megatron", "flash_attn", "xformers", "bitsandbytes", "tqdm", "hydra", "stepprof_lab"),
        *("IPython", "ipykernel", "pytest", "_pytest"),
    )
)
"""Packages whose frames are not the user's own line. The profiler cuts ``site-packages`` off the paths, so these
cannot be told from a user's folder by their place; a package that is missing here is taken for the user's."""


@dataclasses.dataclass(frozen=True)
class Frames:
    """Calls of the user's own functions, in the file's order; ns on the trace's clock."""

    start: Int64
    end: Int64
    thread: list[tuple[str, str]]
    """Process and thread."""
    line: list[str]
    """``file:line``."""
    recorded: bool
    """Whether the trace has stacks at all."""

    def at(self, thread: tuple[str, str], instants: Int64) -> list[str]:
        """The innermost of the user's lines on a thread at each of some instants; those without one are left out."""
        here = np.array([t == thread for t in self.thread], dtype=np.bool_)
        start, end, place = self.start[here], self.end[here], np.flatnonzero(here)
        found = []
        for instant in instants.tolist():
            open_ = np.flatnonzero((start <= instant) & (instant < end))
            if len(open_):
                found.append(self.line[int(place[open_[np.argmax(start[open_])]])])
        return found


def is_users(name: str) -> bool:
    """Whether a frame's name is a line of the user's own: not of Python, PyTorch or a package."""
    line = _LINE.match(name)
    if line is None:
        return False
    file = line["file"]
    top = re.split(r"[/\\]", file, maxsplit=1)[0].removesuffix(".py")
    return not (_INSTALLED.search(file) or top in PACKAGES or top in sys.stdlib_module_names)


class Known(dict[str, bool]):
    """Whether a frame's name is a line of the user's own; looked up once a name."""

    def __missing__(self, name: str) -> bool:
        users = self[name] = is_users(name)
        return users


def short(name: str) -> str:
    """``train.py(12): step`` as ``train.py:12``."""
    line = _LINE.match(name)
    return f"{line['file']}:{line['line']}" if line is not None else name
