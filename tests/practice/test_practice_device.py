"""The practice device by `devices.choose`, and the same methods on a stand-in for torch's GPU module."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from stepprof_lab import devices
from stepprof_lab.devices import Device, EventTimer, choose, gpu_or_practice
from stepprof_lab.errors import NotAvailable
from stepprof_lab.queues import SPIN_CYCLES, GpuQueues

# ---- what is chosen ----


def test_it_is_chosen_where_it_is_asked_for_and_is_no_gpu():
    device = choose(" Practice ")
    assert device.sentence == "practice device (simulated on the CPU)"
    assert (device.vendor, device.torch_device, device.is_gpu, device.has_queues) == ("practice", "cpu", False, True)
    assert (device.origin, Device("cuda", "cuda:0", "a GPU").origin) == ("simulated", "live")


def test_auto_and_gpu_never_choose_it(monkeypatch):
    monkeypatch.setattr(devices, "import_torch", cpu_build)
    assert choose("auto").vendor == "cpu"
    with pytest.raises(NotAvailable, match="CPU build"):
        choose("gpu")


def test_a_lab_gets_it_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "import_torch", cpu_build)
    assert gpu_or_practice().vendor == "practice"
    gpu = Device("cuda", "cuda:0", "NVIDIA H200")
    monkeypatch.setattr(devices, "choose", lambda asked: gpu)
    assert gpu_or_practice() is gpu


def test_it_needs_no_torch(monkeypatch, device):
    monkeypatch.setattr(devices, "import_torch", lambda: None)
    assert gpu_or_practice().vendor == "practice"
    assert device.launch(sum, [1, 2], ms=1).value() == 3


def test_a_capture_on_it_collects_the_cpu_alone():
    torch = pytest.importorskip("torch")
    assert choose("practice").activities() == [torch.profiler.ProfilerActivity.CPU]


def test_its_timer_reads_the_devices_timeline(device, clock):
    clock.late_ms = lambda: 4.0
    timer = device.timer()
    timer.start()
    device.occupy(12)
    timer.stop()
    assert isinstance(timer, EventTimer)
    assert timer.elapsed_ms() == 12


@pytest.mark.parametrize("use", [Device.new_stream, Device.event, Device.pending, lambda device: device.occupy(1)])
def test_the_cpu_has_no_queues_and_says_what_has(use):
    with pytest.raises(NotAvailable, match="practice device; say --device practice"):
        use(Device("cpu", "cpu", "a processor"))


def cpu_build():
    return SimpleNamespace(
        __version__="2.9.0+cpu",
        version=SimpleNamespace(cuda=None, hip=None, xpu=None),
        cuda=None,
        xpu=None,
        backends=SimpleNamespace(),
        profiler=SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA=2, XPU=1), supported_activities=set),
    )


# ---- the same on a GPU ----


class GpuStream:
    def __init__(self, name: str) -> None:
        self.name = name
        self.idle = True
        self.waited = 0

    def query(self) -> bool:
        return self.idle

    def synchronize(self) -> None:
        self.waited += 1


class GpuEvent:
    def __init__(self, module: Gpu) -> None:
        self.module = module

    def record(self, stream: GpuStream) -> None:
        self.at = self.module.now_ms

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: GpuEvent) -> float:
        return end.at - self.at


class Gpu:
    """What torch.cuda is to this library; its kernels spin at a million cycles a millisecond, the first one longer."""

    def __init__(self) -> None:
        self.current = GpuStream("current")
        self.now_ms = 0.0
        self.spun: list[int] = []

    def Event(self, *, enable_timing: bool) -> GpuEvent:
        assert enable_timing
        return GpuEvent(self)

    def Stream(self, *, device: str) -> GpuStream:
        return GpuStream(f"side of {device}")

    def current_stream(self, device: str) -> GpuStream:
        assert device == "cuda:1"
        return self.current

    @contextlib.contextmanager
    def stream(self, stream: GpuStream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def _sleep(self, cycles: int) -> None:
        self.now_ms += cycles / 1e6 + (30 if not self.spun else 0)
        self.spun.append(cycles)


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def queues(gpu) -> GpuQueues:
    return GpuQueues(gpu, "cuda:1")


def test_streams_of_a_gpu_are_torchs_own(gpu, queues):
    side = queues.new_stream()
    assert side.name == "side of cuda:1"
    with queues.stream(side):
        assert queues.current_stream() is side
    assert queues.current_stream() is gpu.current


def test_a_launch_on_a_gpu_calls_the_function_and_its_result_waits_for_its_stream(gpu, queues):
    first = queues.launch(lambda a: a + 1, 1, ms=5, name="ignored")
    second = queues.launch(lambda a, b: a + b, first, 10, ms=5)
    assert gpu.current.waited == 0
    assert second.value() == 12
    assert gpu.current.waited == 1


def test_pending_work_of_a_gpu_is_not_counted(gpu, queues):
    assert queues.pending() == 0
    gpu.current.idle = False
    assert queues.pending() is None


def test_a_spinning_kernel_is_calibrated_once_and_not_by_its_first_call(gpu, queues):
    queues.occupy(10, name="a", first_ms=5)
    queues.occupy(10, name="a", first_ms=5)
    assert gpu.spun == [SPIN_CYCLES] * 4 + [15_000_000, 10_000_000]


def test_a_device_without_a_spinning_kernel_refuses_to_be_occupied():
    with pytest.raises(NotAvailable, match=r"xpu:0.*practice"):
        GpuQueues(SimpleNamespace(), "xpu:0").occupy(1)
