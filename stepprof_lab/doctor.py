"""Can GPU work be collected here, and if not, what stands in the way?

`examine` looks and says what it saw; it raises nothing and prints nothing. `demand_gpu` turns a diagnosis into a
refusal where a GPU is required, `facts` into lines to show. A known obstacle is one function of `_BLOCKERS`, in the
order in which one would remove them.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stepprof_lab import devices
from stepprof_lab import environment as surroundings
from stepprof_lab.doctor_probe import Probe, probe_capture
from stepprof_lab.environment import Environment, OthersOnGpu, SystemGpu
from stepprof_lab.errors import NotAvailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepprof_lab.devices import Device, GpuVendor

OLDEST_TORCH = (2, 6)
"""The oldest release that the extra ``run`` admits."""
FULL_MEMORY = 0.9
"""Share of a GPU's memory that is called nearly full."""

Collectable = Literal["yes", "no", "not observed", "not tried"]


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that stands in the way of collecting GPU work, or makes its times untrue."""

    id: str
    what: str
    todo: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found here; the JSON of ``stepprof doctor``."""

    environment: Environment
    gpu_present: bool
    """Whether any GPU was observed, by torch or by the system; False says only that none was."""
    gpu_evidence: list[str]
    """Who showed it, in words."""
    gpu_collectable: Collectable
    probe: Probe | None
    others_on_gpu: OthersOnGpu | None
    """None where no GPU that torch can use was observed."""
    blockers: list[Blocker]
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class _Situation:
    """Everything that a blocker or a note is decided from."""

    torch: Any | None
    environment: Environment
    system: list[SystemGpu]
    device: Device | None
    trouble: str | None
    """What torch said when the device was chosen."""
    probe: Probe | None
    others: OthersOnGpu | None
    environ: Mapping[str, str]

    @property
    def torch_sees_gpu(self) -> bool:
        return bool(self.environment.devices)

    @property
    def apple_gpu(self) -> bool:
        return self.torch is not None and devices.has_apple_gpu(self.torch)

    @property
    def kernel_seen(self) -> bool:
        return self.probe is not None and self.probe.ran and self.probe.kernel is not None

    @property
    def kernel_missing(self) -> bool:
        """Whether a probe was made on a GPU and no kernel came of it."""
        return self.probe is not None and self.probe.on_gpu and not self.kernel_seen


def examine(require: Literal["gpu"] | None = None, *, probe: bool = True) -> Diagnosis:
    """Look at the machine, the build of torch, and what a capture here would collect.

    Args:
        require: "gpu" where the answer decides whether to go on: the probe is then always made. Nothing is raised
            here, so that the diagnosis can be shown first; see `demand_gpu`.
        probe: whether to make a probe capture in a child process (some seconds, at most 120).
    """
    torch = devices.import_torch()
    # The child goes first: a GPU in exclusive mode admits one process, and to choose it can already be to hold it.
    seen = probe_capture("auto") if torch is not None and (probe or require == "gpu") else None
    device, trouble = _chosen() if torch is not None else (None, None)
    seen = None if seen is None or device is None else seen.of(device)
    here = surroundings.describe(device)
    situation = _Situation(
        torch=torch,
        environment=here,
        system=surroundings.system_gpus(),
        device=device,
        trouble=trouble,
        probe=seen,
        others=surroundings.others_on_gpu(_vendor_in_use(torch)) if torch is not None and here.devices else None,
        environ=os.environ,
    )
    evidence = _evidence(situation)
    return Diagnosis(
        environment=here,
        gpu_present=bool(evidence),
        gpu_evidence=evidence,
        gpu_collectable=_collectable(situation, bool(evidence)),
        probe=seen,
        others_on_gpu=situation.others,
        blockers=_blockers(situation),
        notes=[note for look in _NOTES if (note := look(situation))],
    )


def demand_gpu(diagnosis: Diagnosis) -> None:
    """Refuse to go on where no GPU work can be collected.

    Raises:
        NotAvailable: no kernel appeared in the probe capture; the first blocker is the reason.
    """
    if diagnosis.gpu_collectable == "yes":
        return
    expected = "a GPU whose kernels appear in a probe capture"
    if diagnosis.gpu_collectable == "not tried":
        raise NotAvailable("a GPU was required, and no probe capture was made", expected, "ask again with the probe")
    if diagnosis.blockers:
        first = diagnosis.blockers[0]
        raise NotAvailable(f"a GPU was required, and {first.what}", expected, first.todo)
    raise NotAvailable(
        "a GPU was required, and no GPU was observed",
        expected,
        "go to a machine with a GPU, or go on without --require gpu",
    )


def facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The diagnosis as name and value, in the order in which to show them."""
    here = diagnosis.environment
    return [
        ("Python", f"{here.implementation} {here.python}"),
        ("System", " ".join(part for part in (here.system, here.kernel, here.machine) if part)),
        ("Processor", here.cpu),
        ("CPUs", _cpus_in_words(here)),
        ("Load", _load_in_words(here)),
        ("torch", _torch_in_words(here)),
        *_gpu_facts(diagnosis),
        ("Probe capture", _probe_in_words(diagnosis.probe)),
        ("Practice device", "always there, to practise on: --device practice (simulated on the CPU, never a GPU)"),
        ("Blockers", ", ".join(blocker.id for blocker in diagnosis.blockers) or "none known"),
    ]


# --- conclusions ---------------------------------------------------------------------------------------------------


def _chosen() -> tuple[Device | None, str | None]:
    """The best device here, or what torch said about it."""
    try:
        return devices.choose("auto"), None
    except RuntimeError as error:
        return None, devices.first_sentence(str(error))


def _vendor_in_use(torch: Any) -> GpuVendor:
    return next(vendor for vendor in devices.GPU_VENDORS if devices.count(torch, vendor)[0])


def _evidence(situation: _Situation) -> list[str]:
    seen = [f"torch sees {gpu.name}" for gpu in situation.environment.devices or []]
    if situation.apple_gpu:
        seen.append("torch sees an Apple GPU")
    if situation.trouble:
        seen.append("torch sees a GPU that it cannot use")
    return seen + [gpu.words for gpu in situation.system]


def _collectable(situation: _Situation, present: bool) -> Collectable:
    if not present or situation.torch is None:
        return "not observed"
    if not situation.torch_sees_gpu or situation.device is None or not situation.device.is_gpu:
        return "no"
    if situation.probe is None:
        return "not tried"
    return "yes" if situation.kernel_seen else "no"


def _blockers(situation: _Situation) -> list[Blocker]:
    found = [blocker for look in _BLOCKERS if (blocker := look(situation))]
    if situation.kernel_missing and not any(blocker.id in _EXPLAIN_A_MISSING_KERNEL for blocker in found):
        found.insert(0, _unexplained(situation))
    return found


def _no_torch(situation: _Situation) -> Blocker | None:
    if situation.torch is not None:
        return None
    return Blocker(
        id="no-torch",
        what=f"torch {devices.why_no_torch()}",
        todo="install PyTorch 2.6 or newer (the extra run of this package, or your own build)",
    )


def _apple_gpu(situation: _Situation) -> Blocker | None:
    if not situation.apple_gpu:
        return None
    return Blocker(
        id="apple-gpu",
        what="the Apple GPU is present and not collectable by torch.profiler",
        todo="capture on the CPU here, and GPU work on a machine with an NVIDIA or AMD GPU",
    )


def _build_without_gpu(situation: _Situation) -> Blocker | None:
    """A CPU build, or a build for another vendor, beside a GPU that the system shows."""
    if situation.torch is None or situation.torch_sees_gpu or not situation.system:
        return None
    if any(devices.is_built_for(situation.torch, gpu.vendor) for gpu in situation.system):
        return None
    build = devices.build_name(situation.torch)
    built = "is a CPU build" if build == "cpu" else f"is built for {build}"
    return Blocker(
        id="build-without-gpu",
        what=f"torch {situation.torch.__version__} {built} ({situation.system[0].words})",
        todo=f"install a build of torch for {situation.system[0].vendor}",
    )


def _hidden(situation: _Situation) -> Blocker | None:
    if situation.torch is None or situation.torch_sees_gpu:
        return None
    for vendor in devices.GPU_VENDORS:
        setting = devices.hidden_by(vendor) if devices.is_built_for(situation.torch, vendor) else None
        if setting:
            return Blocker(id="hidden", what=f"{setting} hides every GPU", todo="unset that variable")
    return None


def _unusable(situation: _Situation) -> Blocker | None:
    """A GPU build that sees no GPU although there is one, or that says why (an old driver, no driver)."""
    if situation.torch is None or situation.torch_sees_gpu or _hidden(situation):
        return None
    for vendor in devices.GPU_VENDORS:
        if not devices.is_built_for(situation.torch, vendor):
            continue
        shown = next((gpu.words for gpu in situation.system if gpu.vendor == vendor), None)
        said = situation.trouble or devices.count(situation.torch, vendor)[1]
        if shown or situation.trouble:
            why = ": ".join(part for part in ("torch cannot use a GPU", said or shown) if part)
            return Blocker(
                id="unusable-gpu", what=why, todo="install or update the GPU's driver, or free the GPU, and ask again"
            )
    return None


def _activity(situation: _Situation) -> Blocker | None:
    """The GPU is usable, and `devices.choose` took the CPU because its activity is not supported."""
    if not situation.torch_sees_gpu or situation.device is None or situation.device.is_gpu:
        return None
    return Blocker(
        id="activity-unsupported",
        what=f"this build of torch cannot collect a GPU's work ({situation.environment.build})",
        todo="install a build of torch with CUPTI (NVIDIA) or roctracer or rocprofiler-sdk (AMD), as pytorch.org ships",
    )


_SIGNS = (
    (
        "privileges",
        r"INSUFFICIENT_PRIVILEGES|ERR_NVGPUCTRPERM",
        "the driver refuses to let this user collect GPU activity",
        "ask for NVreg_RestrictProfilingToAdminUsers=0 to be set, or for the container to have --cap-add=SYS_ADMIN",
    ),
    (
        "other-subscriber",
        r"MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        "another tool already collects this GPU's activity in the process (CUPTI admits one)",
        "end the other profiler, and ask again",
    ),
    (
        "hardware-busy",
        r"CUPTI_ERROR_HARDWARE_BUSY",
        "another tool holds the GPU's counters, often a monitoring service such as DCGM",
        "ask for the monitoring to be paused, and ask again",
    ),
    (
        "cupti",
        r"CUPTI initialization failed|CUPTI_ERROR_\w+",
        "NVIDIA's collecting library (CUPTI) did not start",
        "update the driver to one that fits this build of torch, and ask again",
    ),
)
"""What the profiler's library says when it cannot collect: id, what to look for, what it means, what to do."""


def _collector_says(situation: _Situation) -> Blocker | None:
    if not situation.kernel_missing or situation.probe is None:
        return None
    # "If you see CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, refer to" is printed whatever the error was: no evidence.
    lines = [line for line in situation.probe.stderr if "If you see" not in line]
    for name, pattern, what, todo in _SIGNS:
        if any(re.search(pattern, line) for line in lines):
            return Blocker(id=name, what=what, todo=todo)
    return None


def _probe_ended_badly(situation: _Situation) -> Blocker | None:
    if situation.probe is None or situation.probe.ran:
        return None
    last = f": {situation.probe.stderr[-1]}" if situation.probe.stderr else ""
    return Blocker(
        id="probe-failed",
        what=f"the probe capture's process did not end well ({situation.probe.ended}){last}",
        todo="capture nothing here before this is solved; `stepprof doctor --json` shows all that it said",
    )


_PROFILER_VARIABLES = re.compile(r"NSYS_.*|CUDA_INJECTION64_PATH|ROCPROFILER.*|ROCP_TOOL_LIB|HSA_TOOLS_LIB")


def _other_profiler(situation: _Situation) -> Blocker | None:
    """Another profiler around this process, or torch's own in it."""
    names = sorted(name for name, value in situation.environ.items() if _PROFILER_VARIABLES.fullmatch(name) and value)
    if situation.environ.get("KINETO_USE_DAEMON", "0") not in {"", "0"}:
        names.append("KINETO_USE_DAEMON")
    if names:
        return Blocker(
            id="other-profiler",
            what=f"another profiler is set up in this environment ({', '.join(names)})",
            todo="start again without it: two profilers disturb each other",
        )
    enabled = getattr(getattr(situation.torch, "autograd", None), "_profiler_enabled", None)
    if enabled is not None and enabled():
        return Blocker(
            id="other-profiler",
            what="torch's profiler is already running in this process",
            todo="end that session first: nested sessions lose events and can crash",
        )
    return None


def _wsl(situation: _Situation) -> Blocker | None:
    """Collecting under WSL is known to yield host events only; where a kernel was seen it is no obstacle."""
    if not _is_wsl(situation.environment) or not situation.kernel_missing:
        return None
    return Blocker(
        id="wsl",
        what="this is Linux under Windows (WSL), where NVIDIA's collecting library is known to deliver no GPU events",
        todo="capture on Windows itself, or on a Linux machine",
    )


def _launch_blocking(situation: _Situation) -> Blocker | None:
    if not situation.torch_sees_gpu:
        return None
    for name in ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"):
        if situation.environ.get(name, "0") not in {"", "0"}:
            return Blocker(
                id="launch-blocking",
                what=f"{name} is set: every launch waits for the GPU, so no time here is that of the real program",
                todo=f"unset {name}",
            )
    return None


def _unexplained(situation: _Situation) -> Blocker:
    device = situation.device.sentence if situation.device else "the GPU"
    return Blocker(
        id="no-kernel-observed",
        what=f"no kernel was observed in a probe capture on {device}, and nothing said why",
        todo="update the driver or torch, and ask again; `stepprof doctor --json` shows what was collected",
    )


_BLOCKERS: tuple[Callable[[_Situation], Blocker | None], ...] = (
    _no_torch,
    _apple_gpu,
    _build_without_gpu,
    _hidden,
    _unusable,
    _activity,
    _wsl,
    _collector_says,
    _probe_ended_badly,
    _other_profiler,
    _launch_blocking,
)

_EXPLAIN_A_MISSING_KERNEL = {sign[0] for sign in _SIGNS} | {"probe-failed", "wsl", "other-profiler"}


# --- notes ---------------------------------------------------------------------------------------------------------


def _note_nothing_observed(situation: _Situation) -> str | None:
    if _evidence(situation):
        return None
    return "No GPU was observed: everything is done on the CPU, and nothing is said about GPU time."


def _note_load(situation: _Situation) -> str | None:
    load, usable = situation.environment.load_average, _usable_cpus(situation.environment)
    if not load or not usable or load[0] <= usable:
        return None
    return f"The load of the last minute ({load[0]:g}) is above the {usable:g} CPUs usable here: times will scatter."


def _note_threads(situation: _Situation) -> str | None:
    threads, usable = situation.environment.threads_intra, _usable_cpus(situation.environment)
    if threads is None or not usable or threads <= usable:
        return None
    return f"torch runs an operator with {threads} threads on {usable:g} usable CPUs: set OMP_NUM_THREADS."


def _note_old_torch(situation: _Situation) -> str | None:
    found = re.match(r"(\d+)\.(\d+)", situation.environment.torch or "")
    if not found or (int(found.group(1)), int(found.group(2))) >= OLDEST_TORCH:
        return None
    return f"torch {situation.environment.torch} is older than {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]}, the oldest tested."


def _note_roctracer(situation: _Situation) -> str | None:
    version = situation.probe.collectors.get("roctracer_version") if situation.probe else None
    if version is None:
        return None
    return (
        f"This build of torch collects by roctracer ({version}), which AMD has replaced by rocprofiler-sdk. It can "
        "lose kernels (ROCm 7.2.1 is known to), and a profiler session before the first use of the GPU can leave it "
        "dead for the whole process."
    )


def _note_wsl(situation: _Situation) -> str | None:
    if not _is_wsl(situation.environment) or situation.kernel_missing:
        return None
    return "This is Linux under Windows (WSL): times include what Windows does beside it."


def _note_others(situation: _Situation) -> str | None:
    if situation.others is None or not situation.others.count:
        return None
    return f"{situation.others.count} other process(es) on this machine's GPUs: times will scatter."


def _note_memory(situation: _Situation) -> str | None:
    full = [gpu for gpu in situation.system if gpu.memory_used is not None and gpu.memory_used > FULL_MEMORY]
    if not full:
        return None
    return f"More than {FULL_MEMORY:.0%} of a GPU's memory is in use ({full[0].words})."


def _note_mig(situation: _Situation) -> str | None:
    if not any(gpu.mig for gpu in situation.system):
        return None
    return "A GPU here is divided (MIG): a slice has a part of its processors, and times are those of the slice."


_NOTES: tuple[Callable[[_Situation], str | None], ...] = (
    _note_nothing_observed,
    _note_load,
    _note_threads,
    _note_old_torch,
    _note_roctracer,
    _note_wsl,
    _note_others,
    _note_memory,
    _note_mig,
)


def _is_wsl(here: Environment) -> bool:
    return here.system == "Linux" and "microsoft" in (here.kernel or "").lower()


def _usable_cpus(here: Environment) -> float | None:
    limits = [here.cpus_allowed or here.cpus, here.cpu_limit if isinstance(here.cpu_limit, float) else None]
    known = [float(limit) for limit in limits if limit]
    return min(known) if known else None


# --- in words ------------------------------------------------------------------------------------------------------


def _cpus_in_words(here: Environment) -> str:
    cpus = "not observed" if here.cpus is None else str(here.cpus)
    allowed = "" if here.cpus_allowed is None else f", {here.cpus_allowed} allowed to this process"
    limit = f", limited to {here.cpu_limit:g} CPUs of time" if isinstance(here.cpu_limit, float) else ""
    return f"{cpus} logical{allowed}{limit}"


def _load_in_words(here: Environment) -> str:
    if here.load_average is None:
        return f"not observed ({here.not_observed['load_average']})"
    return " ".join(f"{value:g}" for value in here.load_average) + " (1, 5, 15 minutes)"


def _torch_in_words(here: Environment) -> str:
    if here.torch is None:
        return here.not_observed["torch"].removeprefix("torch is ")
    return f"{here.torch} ({'CPU build' if here.build == 'cpu' else f'built for {here.build}'})"


def _gpu_facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The lines about a GPU; where none was observed, each of them says so."""
    names = ("GPU", "GPU driver", "GPU library", "GPU activity", "Others on the GPU")
    if not diagnosis.gpu_present:
        return [(name, "no GPU was observed") for name in names]
    here = diagnosis.environment
    values = (
        "; ".join(diagnosis.gpu_evidence),
        here.driver or f"not observed ({here.not_observed['driver']})",
        here.dnn_library or f"not observed ({here.not_observed['dnn_library']})",
        _COLLECTABLE_IN_WORDS[diagnosis.gpu_collectable],
        _others_in_words(diagnosis.others_on_gpu),
    )
    return list(zip(names, values, strict=True))


_COLLECTABLE_IN_WORDS: dict[Collectable, str] = {
    "yes": "collectable: a kernel appeared in a probe capture",
    "no": "not collectable here",
    "not observed": "not observed (torch is needed to see it)",
    "not tried": "not tried: no probe capture was made",
}


def _others_in_words(others: OthersOnGpu | None) -> str:
    if others is None:
        return "not observed (torch sees no GPU that it can use)"
    if others.count is None:
        return f"not observed ({others.note})"
    seen = f"{others.count} process(es)" if others.count else "none seen"
    return f"{seen} ({others.note})" if others.note else seen


def _probe_in_words(probe: Probe | None) -> str:
    if probe is None:
        return "not made"
    if not probe.ran:
        return f"failed on {probe.device} ({probe.ended})"
    operators = probe.categories.get("cpu_op")
    host = f"{operators} host operators" if operators else "no host operators observed"
    if not probe.on_gpu:
        return f"ran on the CPU: {host} collected; no GPU event was observed"
    if probe.kernel is None:
        return f"ran on {probe.device}: {host}; no kernel was observed"
    return f"ran on {probe.device}: {host} and {probe.device_events} GPU events, the first kernel {probe.kernel}"
