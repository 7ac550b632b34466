"""Whether a device was observed, which one, and why not where none was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from stepprof_lab.trace import intervals
from stepprof_lab.trace.events import MAYBE_DEVICE, Kind
from stepprof_lab.trace.model import GpuNotObserved, GpuObserved
from stepprof_lab.trace.steps import us

if TYPE_CHECKING:
    from stepprof_lab.trace.model import Context, Vendor
    from stepprof_lab.trace.reader import Trace
    from stepprof_lab.trace.steps import DeviceWork

_LAUNCH = re.compile(r"(cu|hip|ur|ze)\w*(LaunchKernel|LaunchCooperative|GraphLaunch|KernelLaunch|Memcpy|Memset)")

MAX_DEVICES = 64
"""Devices that are listed; the last entry says how many more there are."""
LIKELY_REASONS = (
    "no permission to collect GPU activity, another profiler attached (nsys, DCGM), "
    "or a collection library that lost its records"
)


def launch_calls(trace: Trace) -> dict[str, int]:
    """Host calls that queue device work, by name, most frequent first."""
    rows = trace.of(Kind.RUNTIME)
    counts = np.bincount(trace.name_id[rows], minlength=len(trace.names))
    found = {name: int(n) for name, n in zip(trace.names, counts, strict=True) if n and _LAUNCH.match(name)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def vendor_of(trace: Trace) -> Vendor:
    """Whose device it is: by the categories, the calls on the host, then the versions in the metadata."""
    for prefix, vendor in (("xpu_", "xpu"), ("mtia_", "mtia"), ("privateuse1_", "privateuse1")):
        if any(category.startswith(prefix) for category in trace.categories):
            return vendor  # type: ignore[return-value]
    names = trace.names_of(trace.of(Kind.RUNTIME))
    about = trace.metadata
    if any(name.startswith("hip") for name in names):
        return "rocm"
    if any(re.match(r"cuda|cu[A-Z]", name) for name in names):
        return "cuda"
    if about.hip_runtime_version or about.roctracer_version or about.rocprofiler:
        return "rocm"
    if about.cuda_runtime_version or about.cupti_version:
        return "cuda"
    return "unknown"


def collector(trace: Trace) -> str:
    """What collected the device events, with the versions that the file states; empty where it states none."""
    about = trace.metadata
    stated = (
        ("rocprofiler-sdk", about.rocprofiler),
        ("roctracer", about.roctracer_version),
        ("HIP", _hip_version(about.hip_runtime_version)),
        ("CUPTI", about.cupti_version),
    )
    known = [(name, str(version)[:40]) for name, version in stated if isinstance(version, (int, float, str))]
    return ", ".join(f"{name} {version}" for name, version in known)


def _hip_version(number: Any) -> str | None:
    """HIP's number, 70253211, as it is spoken of: 7.2.53211."""
    if not isinstance(number, int) or not 10_000_000 <= number < 10**9:
        return None
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def known_fault(trace: Trace) -> str:
    """What collected the device's records, and a fault that is known of it; empty where the file does not say."""
    said = collector(trace)
    of_72 = "roctracer" in said and "HIP 7.2." in said
    fault = " (ROCm 7.2.1 is known to lose kernels, which 7.2.2 mends)" if of_72 else ""
    return f"collected with {said}{fault}" if said else ""


def devices_of(trace: Trace, work: DeviceWork, vendor: Vendor) -> list[str]:
    """Each device that did work, in words.

    On CUDA the number in the events is the number in ``deviceProperties``. On ROCm it counts the CPU sockets too,
    so a device gets a name there only where all listed devices have the same one.
    """
    listed = trace.metadata.device_names()
    common = next(iter(listed.values())) if len(set(listed.values())) == 1 else ""
    seen = dict.fromkeys(trace.lanes[i].owner for i in intervals.distinct(trace.lane_id[work.rows]))
    words = []
    for owner in sorted(seen, key=lambda text: (len(text), text))[:MAX_DEVICES]:
        number = int(owner) if owner.isdecimal() and len(owner) < 20 else -1
        name = listed.get(number, common) if vendor == "cuda" else common
        words.append(f"device {owner} ({name})" if name else f"device {owner}")
    return words if len(seen) <= MAX_DEVICES else [*words, f"and {len(seen) - MAX_DEVICES} more"]


def describe(trace: Trace, work: DeviceWork, context: Context) -> GpuObserved | GpuNotObserved:
    """What the device did over the whole trace, or the reason why nothing of it was observed."""
    if not len(work):
        return GpuNotObserved(reason=why_not_observed(trace, context))
    vendor = vendor_of(trace)
    return GpuObserved(
        vendor=vendor,
        devices=devices_of(trace, work, vendor),
        events=len(work),
        events_unlinked=int((~work.linked).sum()),
        busy_us=us(intervals.total(*work.merged)),
        sum_us=us(intervals.total(work.start, work.end)),
        span_us=us(int(work.end.max() - work.start.min())),
    )


def strange_kinds(trace: Trace) -> dict[str, int]:
    """Events of kinds that are not known here and may be device work, most frequent first."""
    return {kind: count for kind, count in trace.unknown.most_common() if MAYBE_DEVICE.match(kind)}


def why_not_observed(trace: Trace, context: Context) -> str:
    """The likely reasons, from what else is in the trace."""
    if trace.missing:
        return f"no device event is in what could be read of the file: {'; '.join(trace.missing)}"
    launches = sum(launch_calls(trace).values())
    if len(trace.of(Kind.PRACTICE)) and not launches and not context.gpu_requested:
        return "the practice device is simulated on the CPU: its work is drawn apart, and is in no number"
    if launches:
        said = (
            f"the host made {launches} call{'' if launches == 1 else 's'} that queue device work, but no kernel, copy "
            f"or memset is in the trace: the collection failed on the device side (likely: {LIKELY_REASONS})"
        )
        return "; ".join(filter(None, (said, known_fault(trace))))
    if context.gpu_requested:
        return (
            "collection of GPU activity was asked for, but no kernel, copy or memset is in the trace, and no call that "
            f"queues device work either (likely: the steps ran on the CPU, or {LIKELY_REASONS})"
        )
    if len(trace.of(Kind.DEVICE_ANNOTATION)):
        return "only labels projected onto a device are in the trace, which are not device work"
    if trace.metadata.device_names() and context.gpu_requested is None:
        return (
            "the trace lists a GPU, but holds no device event and no call that queues device work "
            "(likely: the steps ran on the CPU, or GPU activity was not among the profiler's activities)"
        )
    if context.gpu_requested is False:
        return "GPU collection was not asked for: this is a capture of the CPU alone"
    return "no device event is in the trace: likely a capture of the CPU alone, or a machine without a usable GPU"
