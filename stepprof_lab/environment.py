"""Where it ran: system, processor, torch build, devices, settings that change times, who else is on the device.

What is written here goes into the record of every capture, and records are shared. So there is no host name, no user
name and no path in it, and environment variables are kept by an allow-list. What could not be observed is None, and
`Environment.not_observed` says why.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stepprof_lab import __version__, devices
from stepprof_lab.devices import GpuVendor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepprof_lab.devices import Device

KEPT_VARIABLES = (
    "AMD_SERIALIZE_COPY",
    "AMD_SERIALIZE_KERNEL",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "HIP_LAUNCH_BLOCKING",
    "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "KINETO_LOG_LEVEL",
    "KINETO_USE_DAEMON",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "ONEAPI_DEVICE_SELECTOR",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "ROCP_TOOL_LIB",
    "ROCR_VISIBLE_DEVICES",
    "TORCHDYNAMO_DISABLE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_COMPILE_DISABLE",
    "ZE_AFFINITY_MASK",
)
"""The environment variables that change what is measured or whether it can be collected."""

VALUE_NOT_KEPT = "set (value not kept)"

_TOOL_TIMEOUT_S = 5.0
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the host's own process namespace this fixed number (PROC_PID_INIT_INO); a container has another."""


class DeviceSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU that torch sees."""

    index: int
    name: str
    memory_bytes: int | None
    architecture: str | None
    """ "sm_90", "gfx942"; None where torch does not tell."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where something ran; what is None was not observed, and `not_observed` says why."""

    stepprof_lab: str
    python: str
    implementation: str
    system: str
    kernel: str | None
    """Release of the operating system's kernel."""
    machine: str | None
    """Architecture of the processor: "x86_64"."""
    cpu: str
    cpus: int | None
    """Logical processors of the machine."""
    cpus_allowed: int | None
    """Processors that this process may run on."""
    cpu_limit: float | Literal["none"] | None
    """Processors' worth of time that the control group allows."""
    load_average: list[float] | None
    """Over 1, 5 and 15 minutes, in runnable tasks, of the whole machine."""
    torch: str | None
    build: str | None
    """ "cpu", "cuda 12.8", "rocm 6.4", "xpu 2025.1"."""
    driver: str | None
    dnn_library: str | None
    device: str | None
    """The device that was chosen, in words."""
    devices: list[DeviceSeen] | None
    threads_intra: int | None
    threads_inter: int | None
    precision: dict[str, bool | str] | None
    """Settings of torch that change which kernels run."""
    variables: dict[str, str]
    not_observed: dict[str, str]


class OthersOnGpu(msgspec.Struct, frozen=True, kw_only=True):
    """Other processes on the machine's GPUs: a count, never who they are."""

    count: int | None
    """None: not observed, see `note`."""
    note: str | None = None


class SystemGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that the system shows, whatever torch sees."""

    vendor: GpuVendor
    words: str
    memory_used: float | None = None
    """Share of its memory that is in use."""
    mig: bool = False


def describe(device: Device | None = None) -> Environment:
    """Where this process runs.

    Args:
        device: the device that was chosen, where one was.
    """
    missing: dict[str, str] = {}
    torch = devices.import_torch()
    limit = cpu_limit()
    load = load_average()
    if limit is None:
        missing["cpu_limit"] = "no file of a control group could be read"
    if load is None:
        missing["load_average"] = "this system does not tell it"
    return Environment(
        stepprof_lab=__version__,
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        system=platform.system() or sys.platform,
        kernel=platform.release() or None,
        machine=platform.machine() or None,
        cpu=devices.processor(),
        cpus=os.cpu_count(),
        cpus_allowed=_cpus_allowed(missing),
        cpu_limit=limit,
        load_average=load,
        device=device.sentence if device else None,
        variables=kept_variables(os.environ),
        **_torch_part(torch, missing),
        not_observed=missing,
    )


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the allow-list that are set; a value that could be a path or name a device is not kept."""
    kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
    return {name: value if _is_plain(value) else VALUE_NOT_KEPT for name, value in kept.items()}


def _is_plain(value: str) -> bool:
    """Whether a value gives nothing away: no path, no address, no serial number such as a GPU's UUID."""
    # The backslash, slash, tilde and @ stand in paths and addresses; GPU- and MIG- begin a device's UUID.
    return len(value) <= 200 and not re.search(r"[/\\~@\n]|GPU-|MIG-|[0-9a-fA-F]{8}", value)


def cpu_limit(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> float | Literal["none"] | None:
    """How many processors' worth of time the control group allows: the smallest limit on the way up to the root.

    Reads ``cpu.max`` (version 2) and ``cpu.cfs_quota_us`` over ``cpu.cfs_period_us`` (version 1).
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    seen: list[float | Literal["none"]] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        tops = [groups / controllers, groups / "cpu"] if controllers else [groups, groups / "unified"]
        seen += [limit for top in tops for limit in _limits(top, path)]
    numbers = [limit for limit in seen if limit != "none"]
    return min(numbers) if numbers else "none" if seen else None


def _limits(top: Path, path: str) -> list[float | Literal["none"]]:
    """The limits of a control group and of its parents. In a container the path may not exist: then the root's."""
    here = top / path.strip("/")
    folders = [here, *[folder for folder in here.parents if folder == top or top in folder.parents]]
    return [limit for folder in folders if (limit := _limit_in(folder)) is not None]


def _limit_in(folder: Path) -> float | Literal["none"] | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        return "none" if quota in {"max", "-1"} else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def load_average() -> list[float] | None:
    """Load over 1, 5 and 15 minutes, or None where the system does not tell it."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def others_on_gpu(vendor: GpuVendor) -> OthersOnGpu:
    """How many other processes are on the machine's GPUs, this process left out.

    NVIDIA: ``nvidia-smi --query-compute-apps``. AMD: the kernel driver's list under ``/sys/class/kfd/kfd/proc``.
    All GPUs of the machine are counted, also those that this process does not use.
    """
    if vendor == "cuda":
        answer = ask_tool(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"])
        if answer is None:
            return OthersOnGpu(count=None, note="nvidia-smi is missing or did not answer")
        listed = [line.strip() for line in answer.splitlines() if line.strip()]
        if not all(entry.isdecimal() for entry in listed):  # "[Not Supported]", "[N/A]"
            return OthersOnGpu(count=None, note="nvidia-smi does not tell the processes of this GPU")
        return _without_own(listed)
    if vendor == "rocm":
        try:
            return _without_own(os.listdir("/sys/class/kfd/kfd/proc"))
        except OSError:
            return OthersOnGpu(count=None, note="the driver's list of processes could not be read")
    return OthersOnGpu(count=None, note="nothing is known that counts them on an Intel GPU")


def _without_own(listed: Sequence[str]) -> OthersOnGpu:
    """Count the process numbers in a list; in a container they are other numbers than the process knows."""
    processes = {int(entry) for entry in listed if entry.isdecimal()}
    others = processes - {os.getpid()}
    if not in_container():
        return OthersOnGpu(count=len(others))
    if not others:
        return OthersOnGpu(count=None, note="in a container the processes outside it are not seen")
    return OthersOnGpu(count=len(others), note="seen from a container: this process may be among them")


def in_container() -> bool:
    """Whether this process sees other process numbers than the host does (Linux)."""
    try:
        return os.readlink("/proc/self/ns/pid") != _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def ask_tool(command: Sequence[str]) -> str | None:
    """What a vendor's tool prints, or None where it is missing, fails, or does not answer in five seconds."""
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TOOL_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def system_gpus() -> list[SystemGpu]:
    """The GPUs that the system shows without torch: NVIDIA's tool, driver or card, AMD's driver."""
    return [*_nvidia_gpus(), *_amd_gpus()]


def _nvidia_gpus() -> list[SystemGpu]:
    fields = "name,memory.used,memory.total,mig.mode.current"
    answer = ask_tool(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    if answer and answer.strip():
        return [_from_nvidia_smi(line) for line in answer.splitlines() if line.strip()]
    if listed := _entries(Path("/proc/driver/nvidia/gpus")):
        return [SystemGpu(vendor="cuda", words=f"the NVIDIA driver lists {len(listed)} GPU(s)")]
    if _nvidia_card():
        return [SystemGpu(vendor="cuda", words="an NVIDIA card is in the machine and no NVIDIA driver answers")]
    return []


def _from_nvidia_smi(line: str) -> SystemGpu:
    """One line of ``name, used MiB, total MiB, MIG mode``; what a GPU does not support is shown in brackets."""
    name, *rest = [part.strip() for part in line.rsplit(",", 3)]
    used, total, mig = [*rest, "", "", ""][:3]
    share = int(used) / int(total) if used.isdecimal() and total.isdecimal() and int(total) else None
    return SystemGpu(vendor="cuda", words=f"nvidia-smi lists {name}", memory_used=share, mig=mig == "Enabled")


def _amd_gpus() -> list[SystemGpu]:
    """Nodes of AMD's kernel driver that are GPUs; processors are nodes too and have the GPU id 0."""
    nodes = Path("/sys/class/kfd/kfd/topology/nodes")
    ids = [_text(nodes / name / "gpu_id") for name in _entries(nodes)]
    found = sum(1 for gpu_id in ids if gpu_id not in {"", "0"})
    return [SystemGpu(vendor="rocm", words=f"the AMD driver lists {found} GPU(s)")] if found else []


def _nvidia_card() -> bool:
    """Whether a display or compute card (class 0x03) of NVIDIA (vendor 0x10de) is on the PCI bus."""
    bus = Path("/sys/bus/pci/devices")
    return any(
        _text(bus / name / "vendor") == "0x10de" and _text(bus / name / "class").startswith("0x03")
        for name in _entries(bus)
    )


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _cpus_allowed(missing: dict[str, str]) -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    missing["cpus_allowed"] = "this system does not tell it"
    return None


def _torch_part(torch: Any | None, missing: dict[str, str]) -> dict[str, Any]:
    """The fields that need torch; without it each of them is None, for that reason."""
    if torch is None:
        names = ("torch", "build", "driver", "dnn_library", "devices", "threads_intra", "threads_inter", "precision")
        missing.update(dict.fromkeys(names, f"torch {devices.why_no_torch()}"))
        return dict.fromkeys(names)
    found, vendor = _devices_seen(torch, missing)
    if not found:
        reason = missing.setdefault("devices", "torch sees no GPU")
        missing["driver"] = missing["dnn_library"] = reason
    driver = _driver(torch, vendor) if vendor else None
    library = _dnn_library(torch, vendor) if vendor else None
    if vendor and driver is None:
        missing["driver"] = "neither a tool nor the system tells its version"
    if vendor and library is None:
        missing["dnn_library"] = "torch does not tell its version"
    return {
        "torch": str(torch.__version__),
        "build": devices.build_name(torch),
        "driver": driver,
        "dnn_library": library,
        "devices": found or None,
        "threads_intra": _read(torch.get_num_threads, missing, "threads_intra"),
        "threads_inter": _read(torch.get_num_interop_threads, missing, "threads_inter"),
        "precision": _precision(torch, missing),
    }


def _devices_seen(torch: Any, missing: dict[str, str]) -> tuple[list[DeviceSeen], GpuVendor | None]:
    for vendor in devices.GPU_VENDORS:
        if found := devices.count(torch, vendor)[0]:
            try:
                return [_device_seen(torch, vendor, index) for index in range(found)], vendor
            except RuntimeError as error:  # a device that another process holds alone, or that has failed
                missing["devices"] = f"torch sees a GPU and cannot use it ({devices.first_sentence(str(error))})"
    return [], None


def _device_seen(torch: Any, vendor: GpuVendor, index: int) -> DeviceSeen:
    seen = devices.properties(torch, vendor, index)
    memory = getattr(seen, "total_memory", None)
    architecture = None
    if vendor == "cuda":
        architecture = f"sm_{seen.major}{seen.minor}"
    elif vendor == "rocm":
        # "gfx942:sramecc+:xnack-": the features after the colon are no part of the name.
        architecture = str(getattr(seen, "gcnArchName", "")).split(":", maxsplit=1)[0] or None
    return DeviceSeen(
        index=index,
        name=str(seen.name).strip() or "unnamed",
        memory_bytes=None if memory is None else int(memory),
        architecture=architecture,
    )


def _driver(torch: Any, vendor: GpuVendor) -> str | None:
    """Version of the kernel driver, or None."""
    if vendor == "xpu":
        return str(getattr(devices.properties(torch, vendor, 0), "driver_version", "")) or None
    if vendor == "cuda":
        answer = ask_tool(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
        return answer.splitlines()[0].strip() if answer and answer.strip() else None
    try:
        return Path("/sys/module/amdgpu/version").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _dnn_library(torch: Any, vendor: GpuVendor) -> str | None:
    if vendor == "xpu":
        return None
    version = _read(torch.backends.cudnn.version, {}, "")
    return f"{'MIOpen' if vendor == 'rocm' else 'cuDNN'} {version}" if version else None


def _precision(torch: Any, missing: dict[str, str]) -> dict[str, bool | str]:
    """The settings that change which kernels run, by their names in torch."""
    readers: dict[str, Callable[[], Any]] = {
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "backends.cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "backends.cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "backends.cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
        "backends.cudnn.deterministic": lambda: torch.backends.cudnn.deterministic,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    }
    values = {name: _read(reader, missing, f"precision.{name}") for name, reader in readers.items()}
    return {name: value for name, value in values.items() if value is not None}


def _read(reader: Callable[[], Any], missing: dict[str, str], name: str) -> Any:
    """One setting, or None. torch raises where its old and its new TF32 switches were both used, and may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return reader()
        except (RuntimeError, AttributeError) as error:
            missing[name] = f"torch does not tell it ({type(error).__name__})"
            return None
