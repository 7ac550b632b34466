"""Which device runs: what is chosen, what is refused and why, how it is waited for and timed."""

from __future__ import annotations

import builtins
import enum
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepprof_lab import devices
from stepprof_lab.devices import Device, HostTimer, choose
from stepprof_lab.errors import NotAvailable, StepprofError


class Activity(enum.Enum):
    CPU = 0
    XPU = 1
    CUDA = 2


class Event:
    """A device event on a clock that the test moves."""

    def __init__(self, family: Family, enable_timing: bool = False) -> None:
        assert enable_timing
        self.family = family
        self.at_ms: float | None = None
        self.waited = False

    def record(self, stream: str) -> None:
        self.family.calls.append(f"record on {stream}")
        self.at_ms = self.family.now_ms

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, end: Event) -> float:
        assert end.waited, "the time of an event that was not waited for is not known"
        assert self.at_ms is not None
        assert end.at_ms is not None
        return end.at_ms - self.at_ms


class Family:
    """What torch.cuda or torch.xpu is to this library."""

    def __init__(self, names: list[str], warning: str | None = None, error: str | None = None) -> None:
        self.names = names
        self.warning = warning
        self.error = error
        self.calls: list[str] = []
        self.now_ms = 0.0

    def is_available(self) -> bool:
        if self.warning:
            warnings.warn(self.warning, UserWarning, stacklevel=2)
        return bool(self.names)

    def device_count(self) -> int:
        if self.error:
            raise RuntimeError(self.error)
        return len(self.names)

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(name=self.names[index])

    def current_stream(self, device: str) -> str:
        return f"stream of {device}"

    def synchronize(self, device: str) -> None:
        self.calls.append(f"synchronize {device}")

    def Event(self, enable_timing: bool) -> Event:
        return Event(self, enable_timing)


def fake_torch(
    *,
    cuda: str | None = None,
    hip: str | None = None,
    xpu: str | None = None,
    names: list[str] | None = None,
    activities: set[Activity] | None = None,
    mps: bool = False,
    **family: Any,
) -> Any:
    names = names or []
    supported = {Activity.CPU, Activity.CUDA, Activity.XPU} if activities is None else activities
    return SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda, hip=hip, xpu=xpu),
        cuda=Family([] if xpu else names, **family),
        xpu=Family(names if xpu else [], **family),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        profiler=SimpleNamespace(ProfilerActivity=Activity, supported_activities=lambda: supported),
    )


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", *(name for names in devices.HIDING_VARIABLES.values() for name in names)):
        monkeypatch.delenv(name, raising=False)


def use(monkeypatch: pytest.MonkeyPatch, torch: Any) -> Any:
    monkeypatch.setattr(devices, "import_torch", lambda: torch)
    return torch


NVIDIA = {"cuda": "12.8", "names": ["NVIDIA H200", "NVIDIA L4"]}
AMD = {"hip": "6.4.43482-0f2d60242", "names": ["AMD Instinct MI300X"]}
INTEL = {"xpu": "20250100", "names": ["Intel Arc B580"]}


@pytest.mark.parametrize(
    ("build", "asked", "vendor", "torch_device", "sentence"),
    [
        (NVIDIA, "auto", "cuda", "cuda:0", "NVIDIA H200 (cuda:0)"),
        (NVIDIA, "gpu", "cuda", "cuda:0", "NVIDIA H200 (cuda:0)"),
        (NVIDIA, " CUDA:1 ", "cuda", "cuda:1", "NVIDIA L4 (cuda:1)"),
        (NVIDIA, "cpu", "cpu", "cpu", "CPU, as asked"),
        (AMD, "auto", "rocm", "cuda:0", "AMD Instinct MI300X (rocm, cuda:0)"),
        (AMD, "rocm", "rocm", "cuda:0", "AMD Instinct MI300X (rocm, cuda:0)"),
        (INTEL, "auto", "xpu", "xpu:0", "Intel Arc B580 (xpu:0)"),
        (INTEL, "xpu", "xpu", "xpu:0", "Intel Arc B580 (xpu:0)"),
        ({}, "auto", "cpu", "cpu", "CPU, no GPU observed"),
        ({"mps": True}, "auto", "cpu", "cpu", "CPU, an Apple GPU is present and torch.profiler cannot collect it"),
        (
            {**NVIDIA, "activities": {Activity.CPU}},
            "auto",
            "cpu",
            "cpu",
            "CPU, NVIDIA H200 (cuda:0) is present and this torch cannot collect it",
        ),
        ({"hip": "7.0.1", "names": [""]}, "gpu", "rocm", "cuda:0", "unnamed AMD GPU (rocm, cuda:0)"),
    ],
)
def test_the_device_that_is_chosen(
    monkeypatch: pytest.MonkeyPatch, build: dict[str, Any], asked: str, vendor: str, torch_device: str, sentence: str
) -> None:
    use(monkeypatch, fake_torch(**build))
    device = choose(asked)
    assert (device.vendor, device.torch_device, device.sentence) == (vendor, torch_device, sentence)
    assert device.is_gpu == (vendor != "cpu")


@pytest.mark.parametrize(
    ("build", "asked", "words"),
    [
        ({}, "cuda", ["'cuda'", "2.9.0 is a CPU build", "--device cpu"]),
        ({}, "gpu", ["'gpu'", "CPU build"]),
        (AMD, "cuda", ["built for rocm 6.4", "say --device rocm or --device gpu"]),
        (NVIDIA, "rocm", ["built for cuda 12.8", "say --device cuda or --device gpu"]),
        (NVIDIA, "xpu", ["built for cuda 12.8"]),
        ({"cuda": "12.8"}, "cuda", ["sees none", "its driver", "stepprof doctor"]),
        (
            {
                "cuda": "12.8",
                "warning": "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). "
                "Please update it. (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:109.)",
            },
            "gpu",
            ["torch says: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)"],
        ),
        ({**NVIDIA, "error": "CUDA unknown error"}, "cuda", ["torch says: CUDA unknown error"]),
        ({"mps": True}, "mps", ["'mps'", "cannot collect", "never shown"]),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, build: dict[str, Any], asked: str, words: list[str]
) -> None:
    use(monkeypatch, fake_torch(**build))
    with pytest.raises(NotAvailable) as caught:
        choose(asked)
    line = str(caught.value)
    assert caught.value.exit_code == 3
    assert [word for word in words if word not in line] == [], line
    assert "Triggered internally" not in line
    assert "\n" not in line


@pytest.mark.parametrize("value", ["", "-1", "-1,0"])
def test_a_variable_that_hides_the_gpus_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    use(monkeypatch, fake_torch(cuda="12.8"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with pytest.raises(NotAvailable, match=r"CUDA_VISIBLE_DEVICES=.* hides every GPU"):
        choose("cuda")


def test_a_variable_that_shows_some_gpus_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(cuda="12.8"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(NotAvailable, match="sees none"):
        choose("cuda")


@pytest.mark.parametrize("asked", ["tpu", "", "cpu:1", "auto:0", "cuda:", "cuda:-1", "cuda:x", "cuda 1"])
def test_an_unknown_word_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    use(monkeypatch, fake_torch(**NVIDIA))
    with pytest.raises(StepprofError, match="auto, cpu, gpu, cuda, rocm, xpu or practice") as caught:
        choose(asked)
    assert caught.value.exit_code == 2


def test_an_index_too_large_names_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(**NVIDIA))
    with pytest.raises(StepprofError, match="an index below 2"):
        choose("cuda:2")


@pytest.mark.parametrize(("rank", "torch_device"), [("1", "cuda:1"), ("2", "cuda:0"), ("x", "cuda:0")])
def test_each_rank_has_its_own_device(monkeypatch: pytest.MonkeyPatch, rank: str, torch_device: str) -> None:
    use(monkeypatch, fake_torch(**NVIDIA))
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert choose("auto").torch_device == torch_device
    assert choose("cuda:0").torch_device == "cuda:0"


@pytest.mark.parametrize("asked", ["auto", "cpu", "gpu", "cuda"])
def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    use(monkeypatch, None)
    with pytest.raises(NotAvailable, match=r"install PyTorch 2\.6 or newer"):
        choose(asked)


def test_a_torch_that_cannot_be_imported_is_told_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch":
            raise OSError("libc10.so: cannot open shared object file")
        return real(name, *rest, **named)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(builtins, "__import__", broken)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda _: object())
    assert devices.import_torch() is None
    with pytest.raises(NotAvailable, match="is installed and cannot be imported"):
        choose("cpu")
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotAvailable, match="is not installed"):
        choose("cpu")


def test_waiting_reaches_the_device_and_nothing_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = use(monkeypatch, fake_torch(**NVIDIA))
    choose("cuda:1").synchronize()
    choose("cpu").synchronize()
    assert torch.cuda.calls == ["synchronize cuda:1"]


def test_what_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(**AMD))
    assert choose("gpu").activities() == [Activity.CPU, Activity.CUDA]
    assert choose("cpu").activities() == [Activity.CPU]
    use(monkeypatch, fake_torch(**INTEL))
    assert choose("gpu").activities() == [Activity.CPU, Activity.XPU]


def test_an_activity_that_the_build_does_not_collect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(**NVIDIA, activities={Activity.CPU}))
    with pytest.raises(NotAvailable, match=r"NVIDIA H200 \(cuda:0\).*2\.9\.0 does not"):
        choose("cuda").activities()


def test_a_gpu_is_timed_by_events_on_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = use(monkeypatch, fake_torch(**NVIDIA))
    timer = choose("cuda:1").timer()
    timer.start()
    torch.cuda.now_ms = 2.5
    timer.stop()
    assert timer.elapsed_ms() == 2.5
    assert torch.cuda.calls == ["record on stream of cuda:1"] * 2


def test_the_host_timer_reads_the_clock_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([5_000_000, 8_250_000])
    monkeypatch.setattr(devices.time, "perf_counter_ns", lambda: next(readings))
    timer = Device("cpu", "cpu", "a processor").timer()
    assert isinstance(timer, HostTimer)
    timer.start()
    timer.stop()
    assert timer.elapsed_ms() == 3.25


@pytest.mark.parametrize("asked", ["cpu", "cuda"])
def test_a_timer_that_was_not_stopped_gives_no_number(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    use(monkeypatch, fake_torch(**NVIDIA))
    timer = choose(asked).timer()
    with pytest.raises(RuntimeError):
        timer.elapsed_ms()
    timer.start()
    timer.stop()
    timer.elapsed_ms()
    timer.start()
    with pytest.raises(RuntimeError):
        timer.elapsed_ms()


@pytest.mark.parametrize(
    ("build", "name"),
    [
        ({}, "cpu"),
        ({"cuda": "12.8"}, "cuda 12.8"),
        ({"hip": "6.4.43482-0f2d60242"}, "rocm 6.4"),
        ({"xpu": "20250100"}, "xpu 20250100"),
    ],
)
def test_the_name_of_a_build(build: dict[str, Any], name: str) -> None:
    assert devices.build_name(fake_torch(**build)) == name


def test_a_torch_for_intel_gpus_that_has_no_version_of_it_yet() -> None:
    torch = fake_torch()
    torch.__version__ = "2.6.0+xpu"
    del torch.version.xpu
    assert devices.build_name(torch) == "xpu"
    assert not devices.is_built_for(torch, "cuda")


def test_the_processor_has_a_name_on_every_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t: x\n")
    (tmp_path / "arm").write_text("processor\t: 0\nmodel name\t: \nBogoMIPS\t: 48\n")
    assert devices._model_in_cpuinfo(tmp_path / "cpuinfo") == "Some CPU @ 2.0GHz"
    assert devices._model_in_cpuinfo(tmp_path / "arm") is None
    assert devices._model_in_cpuinfo(tmp_path / "none") is None
    monkeypatch.setattr(devices, "_model_in_cpuinfo", lambda: None)
    monkeypatch.setattr(devices.platform, "processor", lambda: "")
    monkeypatch.setattr(devices.platform, "machine", lambda: "aarch64")
    assert devices.processor() == "aarch64"


def test_the_real_torch_gives_a_device_that_works() -> None:
    device = choose("cpu")
    device.synchronize()
    assert [activity.name for activity in device.activities()] == ["CPU"]
    assert device.name


def test_importing_this_module_does_not_import_torch() -> None:
    code = (
        "import sys, stepprof_lab.devices, stepprof_lab.environment, stepprof_lab.doctor; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
