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
        *("IPython", "ipykernel", "jupyter_client", "pytest", "_pytest", "pluggy"),
        *("vllm", "sglang", "sgl_kernel", "flashinfer", "lmdeploy", "tensorrt_llm", "tensorrt", "ray", "aiter"),
        *("torchao", "torchtune", "torchtitan", "torchrec", "fbgemm_gpu", "torchmetrics", "torchdata", "torch_xla"),
        *("transformer_engine", "nemo", "fairscale", "fairseq", "colossalai", "peft", "trl", "unsloth", "diffusers"),
        *("sentence_transformers", "safetensors", "tokenizers", "huggingface_hub", "optimum", "axolotl"),
        *("detectron2", "mmcv", "mmengine", "mmdet", "ultralytics", "kornia", "albumentations", "monai", "open_clip"),
        *("onnx", "onnxruntime", "jax", "flax", "tensorflow", "keras", "cupy", "numba", "dgl", "webdataset", "lightly"),
        *("mamba_ssm", "causal_conv1d", "liger_kernel", "quack", "cutlass", "einops", "fsspec"),
        *("omegaconf", "wandb", "tensorboard", "mlflow", "absl", "click", "typer", "pydantic"),
        *("msgspec", "rich", "requests", "aiohttp", "zmq", "uvloop", "fastapi", "starlette", "uvicorn", "joblib"),
        *("cv2", "matplotlib", "pyarrow", "polars", "h5py", "cloudpickle", "dill", "psutil", "packaging", "filelock"),
        *("sympy", "networkx", "jinja2", "yaml", "decord", "soundfile", "librosa", "nvtx"),
    )
)
"""Packages whose frames are not the user's own line. The profiler cuts ``site-packages`` off the paths, so these
cannot be told from a user's folder by their place; a package that is missing here is taken for the user's."""
MODULES = frozenset(("typing_extensions", "six"))
"""Installed modules of one file."""
_SOURCES = frozenset(("python", "src"))
"""Folders in which the checkout of a package keeps it."""


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
                # The last to begin; of those that begin together, the first to end, or the one that the file has last.
                inner = np.lexsort((-end[open_], start[open_]))[-1]
                found.append(self.line[int(place[open_[inner]])])
        return found


def is_users(name: str) -> bool:
    """Whether a frame's name is a line of the user's own: not of Python, PyTorch or a package."""
    line = _LINE.match(name)
    if line is None:
        return False
    return is_users_file(line["file"])


def is_users_file(file: str) -> bool:
    """Whether a file's path, as a frame has it, is none of Python's, PyTorch's or a package's."""
    parts = re.split(r"[/\\]", file)
    top = parts[0].removesuffix(".py")
    known = top in sys.stdlib_module_names or top in (PACKAGES if len(parts) > 1 else MODULES)
    return not (known or _INSTALLED.search(file) or _is_in_a_checkout(parts[:-1]))


def _is_in_a_checkout(folders: list[str]) -> bool:
    """Whether a package lies in a folder of its own name: ``sglang/python/sglang``, ``vllm/vllm``."""
    for at, name in enumerate(folders[1:], 1):
        if name in PACKAGES:
            outer = at - 2 if folders[at - 1] in _SOURCES else at - 1
            if outer >= 0 and name in folders[outer].lower():
                return True
    return False


class Known(dict[str, bool]):
    """Whether a frame's name is a line of the user's own; looked up once a name."""

    def __missing__(self, name: str) -> bool:
        users = self[name] = is_users(name)
        return users


def short(name: str) -> str:
    """``train.py(12): step`` as ``train.py:12``."""
    line = _LINE.match(name)
    return f"{line['file']}:{line['line']}" if line is not None else name
