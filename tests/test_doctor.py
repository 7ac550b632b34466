"""What stands in the way of collecting GPU work: each known obstacle, the probe in a child, the refusal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stepprof_lab import devices, doctor, doctor_probe, environment
from stepprof_lab.doctor import Diagnosis, demand_gpu, examine, facts
from stepprof_lab.doctor_probe import Probe, probe_capture
from stepprof_lab.environment import OthersOnGpu, SystemGpu
from stepprof_lab.errors import NotAvailable

H200 = SimpleNamespace(name="NVIDIA H200", total_memory=150_000_000_000, major=9, minor=0)
ON_CPU = Probe(device="CPU, no GPU observed", on_gpu=False, ran=True, ended="return code 0", categories={"cpu_op": 10})
KERNEL = Probe(
    device="NVIDIA H200 (cuda:0)",
    on_gpu=True,
    ran=True,
    ended="return code 0",
    categories={"cpu_op": 10, "kernel": 2},
    device_events=2,
    kernel="gemm",
    collectors={"cupti_version": "26"},
)
NO_KERNEL = msgspec.structs.replace(KERNEL, categories={"cpu_op": 10}, device_events=None, kernel=None)


def saying(*lines: str) -> Probe:
    return msgspec.structs.replace(NO_KERNEL, stderr=list(lines))


def fake_torch(
    *, cuda: str | None = None, hip: str | None = None, gpus: int = 0, mps: bool = False, cupti: bool = True
) -> Any:
    family = SimpleNamespace(
        is_available=lambda: bool(gpus), device_count=lambda: gpus, get_device_properties=lambda _: H200
    )
    return SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda, hip=hip, xpu=None),
        cuda=family,
        autograd=SimpleNamespace(_profiler_enabled=lambda: False),
        backends=SimpleNamespace(
            mps=SimpleNamespace(is_available=lambda: mps),
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)),
            cudnn=SimpleNamespace(version=lambda: 91002, allow_tf32=True, benchmark=False, deterministic=False),
        ),
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CPU="CPU", CUDA="CUDA", XPU="XPU"),
            supported_activities=lambda: {"CPU", "CUDA"} if cupti else {"CPU"},
        ),
        get_num_threads=lambda: 1,
        get_num_interop_threads=lambda: 1,
        get_float32_matmul_precision=lambda: "highest",
        are_deterministic_algorithms_enabled=lambda: False,
    )


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with nothing special: no GPU, no settings, no load, a probe that would be a mistake."""
    for name in list(doctor.os.environ):
        if doctor._PROFILER_VARIABLES.fullmatch(name) or name in environment.KEPT_VARIABLES or name == "LOCAL_RANK":
            monkeypatch.delenv(name)
    monkeypatch.setattr(environment, "system_gpus", list)
    monkeypatch.setattr(environment, "ask_tool", lambda _: None)
    monkeypatch.setattr(environment, "load_average", lambda: [0.1, 0.1, 0.1])
    monkeypatch.setattr(environment.platform, "release", lambda: "6.1.0")
    monkeypatch.setattr(environment.platform, "system", lambda: "Linux")
    return monkeypatch


def look(
    patch: pytest.MonkeyPatch, torch: Any, probe: Probe | None = None, system: list[SystemGpu] | None = None
) -> Diagnosis:
    patch.setattr(devices, "import_torch", lambda: torch)
    patch.setattr(doctor, "probe_capture", lambda _: probe)
    if system is not None:
        patch.setattr(environment, "system_gpus", lambda: system)
    return examine(probe=probe is not None)


def ids(diagnosis: Diagnosis) -> list[str]:
    return [blocker.id for blocker in diagnosis.blockers]


SYSTEM_NVIDIA = [SystemGpu(vendor="cuda", words="nvidia-smi lists NVIDIA H200")]
NVIDIA = {"cuda": "12.8", "gpus": 1}


def test_the_real_machine_end_to_end() -> None:
    """One real child; on a machine with a GPU its kernel may be seen or not, and both are told."""
    diagnosis = examine()
    assert diagnosis.probe is not None
    assert diagnosis.probe.ran, diagnosis.probe
    assert diagnosis.probe.categories["cpu_op"] > 0
    assert msgspec.json.decode(msgspec.json.encode(diagnosis), type=Diagnosis) == diagnosis
    assert msgspec.json.schema(Diagnosis)["$ref"].endswith("Diagnosis")
    told = dict(facts(diagnosis))
    assert "host operators" in told["Probe capture"]
    if not diagnosis.gpu_present:
        assert diagnosis.gpu_collectable == "not observed"
        assert diagnosis.probe.device_events is None
        with pytest.raises(NotAvailable, match="no GPU was observed"):
            demand_gpu(diagnosis)


def test_where_no_gpu_is_observed_every_gpu_line_says_so(quiet: pytest.MonkeyPatch) -> None:
    diagnosis = look(quiet, fake_torch(), ON_CPU)
    assert (diagnosis.gpu_present, diagnosis.gpu_collectable, diagnosis.blockers) == (False, "not observed", [])
    lines = [(name, value) for name, value in facts(diagnosis) if "GPU" in name]
    assert len(lines) == 5
    assert {value for _, value in lines} == {"no GPU was observed"}
    assert "no GPU event was observed" in dict(facts(diagnosis))["Probe capture"]
    assert any("No GPU was observed" in note for note in diagnosis.notes)


def test_a_kernel_in_the_probe_makes_a_gpu_collectable(quiet: pytest.MonkeyPatch) -> None:
    quiet.setattr(environment, "others_on_gpu", lambda _: OthersOnGpu(count=3))
    diagnosis = look(quiet, fake_torch(**NVIDIA), KERNEL, SYSTEM_NVIDIA)
    assert (diagnosis.gpu_present, diagnosis.gpu_collectable, diagnosis.blockers) == (True, "yes", [])
    demand_gpu(diagnosis)
    told = dict(facts(diagnosis))
    assert told["GPU"] == "torch sees NVIDIA H200; nvidia-smi lists NVIDIA H200"
    assert "2 GPU events, the first kernel gemm" in told["Probe capture"]
    assert told["Others on the GPU"] == "3 process(es)"
    assert any("3 other process(es)" in note for note in diagnosis.notes)


def test_a_gpu_that_was_not_probed_is_not_called_collectable(quiet: pytest.MonkeyPatch) -> None:
    diagnosis = look(quiet, fake_torch(**NVIDIA))
    assert diagnosis.gpu_collectable == "not tried"
    with pytest.raises(NotAvailable, match="no probe capture was made"):
        demand_gpu(diagnosis)


def test_requiring_a_gpu_always_probes(quiet: pytest.MonkeyPatch) -> None:
    look(quiet, fake_torch(**NVIDIA), KERNEL)
    assert examine(probe=False).probe is None
    assert examine("gpu", probe=False).probe == KERNEL


def test_without_torch_the_rest_is_told(quiet: pytest.MonkeyPatch) -> None:
    quiet.setattr(devices.importlib.util, "find_spec", lambda _: None)
    diagnosis = look(quiet, None, ON_CPU, SYSTEM_NVIDIA)
    assert ids(diagnosis) == ["no-torch"]
    assert diagnosis.probe is None
    assert diagnosis.gpu_collectable == "not observed"
    told = dict(facts(diagnosis))
    assert told["torch"] == "not installed"
    assert told["GPU"] == "nvidia-smi lists NVIDIA H200"
    with pytest.raises(NotAvailable, match="torch is not installed") as caught:
        demand_gpu(diagnosis)
    assert caught.value.exit_code == 3
    assert "install PyTorch" in caught.value.todo


PRIVILEGES = (
    "WARNING:2025-01-01 1:1 init.cpp:155] function cbapi->getCuptiStatus() failed with error "
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"
)
NOT_INITIALIZED = PRIVILEGES.replace("INSUFFICIENT_PRIVILEGES (35)", "NOT_INITIALIZED (15)")
HINT = "INFO:2025-01-01 1:1 init.cpp:158] If you see CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, refer to https://example.org"


@pytest.mark.parametrize(
    ("torch", "probe", "system", "expected"),
    [
        ({}, ON_CPU, SYSTEM_NVIDIA, ["build-without-gpu"]),
        ({"cuda": "12.8"}, ON_CPU, [SystemGpu(vendor="rocm", words="AMD")], ["build-without-gpu"]),
        ({"cuda": "12.8"}, ON_CPU, SYSTEM_NVIDIA, ["unusable-gpu"]),
        ({"cuda": "12.8"}, ON_CPU, [], []),
        ({**NVIDIA, "cupti": False}, ON_CPU, SYSTEM_NVIDIA, ["activity-unsupported"]),
        ({"mps": True}, ON_CPU, [], ["apple-gpu"]),
        (NVIDIA, saying(PRIVILEGES, HINT), SYSTEM_NVIDIA, ["privileges"]),
        (NVIDIA, saying(NOT_INITIALIZED, HINT), SYSTEM_NVIDIA, ["cupti"]),
        (NVIDIA, saying("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"), SYSTEM_NVIDIA, ["other-subscriber"]),
        (NVIDIA, saying("CUPTI_ERROR_HARDWARE_BUSY"), SYSTEM_NVIDIA, ["hardware-busy"]),
        (NVIDIA, NO_KERNEL, SYSTEM_NVIDIA, ["no-kernel-observed"]),
        (NVIDIA, msgspec.structs.replace(KERNEL, stderr=[PRIVILEGES]), SYSTEM_NVIDIA, []),
        (
            NVIDIA,
            msgspec.structs.replace(NO_KERNEL, ran=False, ended="signal SIGSEGV"),
            SYSTEM_NVIDIA,
            ["probe-failed"],
        ),
        (
            NVIDIA,
            msgspec.structs.replace(KERNEL, ran=False, ended="signal SIGSEGV"),
            SYSTEM_NVIDIA,
            ["probe-failed"],
        ),
    ],
)
def test_each_known_obstacle_is_named(
    quiet: pytest.MonkeyPatch, torch: dict[str, Any], probe: Probe, system: list[SystemGpu], expected: list[str]
) -> None:
    diagnosis = look(quiet, fake_torch(**torch), probe, system)
    assert ids(diagnosis) == expected
    if expected:
        assert diagnosis.gpu_collectable == "no"
        with pytest.raises(NotAvailable) as caught:
            demand_gpu(diagnosis)
        assert diagnosis.blockers[0].what in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("NSYS_PROFILING_SESSION_ID", "7", ["other-profiler"]),
        ("CUDA_INJECTION64_PATH", "/opt/x.so", ["other-profiler"]),
        ("ROCPROFILER_LOG_LEVEL", "1", ["other-profiler"]),
        ("ROCP_TOOL_LIB", "/opt/x.so", ["other-profiler"]),
        ("KINETO_USE_DAEMON", "1", ["other-profiler"]),
        ("KINETO_USE_DAEMON", "0", []),
        ("CUDA_LAUNCH_BLOCKING", "1", ["launch-blocking"]),
        ("CUDA_LAUNCH_BLOCKING", "0", []),
    ],
)
def test_a_setting_that_disturbs_is_named_without_its_value(
    quiet: pytest.MonkeyPatch, name: str, value: str, expected: list[str]
) -> None:
    quiet.setenv(name, value)
    diagnosis = look(quiet, fake_torch(**NVIDIA), KERNEL)
    assert ids(diagnosis) == expected
    if expected:
        assert name in diagnosis.blockers[0].what
        assert "/opt" not in diagnosis.blockers[0].what


def test_waiting_launches_do_not_matter_without_a_gpu(quiet: pytest.MonkeyPatch) -> None:
    quiet.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert look(quiet, fake_torch(), ON_CPU).blockers == []


def test_a_hidden_gpu_is_named_before_anything_else(quiet: pytest.MonkeyPatch) -> None:
    quiet.setenv("CUDA_VISIBLE_DEVICES", "")
    diagnosis = look(quiet, fake_torch(cuda="12.8"), ON_CPU, SYSTEM_NVIDIA)
    assert ids(diagnosis) == ["hidden"]
    assert look(quiet, fake_torch(), ON_CPU, []).blockers == [], "a CPU build has nothing to hide"


def test_a_profiler_that_runs_in_this_process_is_an_obstacle(quiet: pytest.MonkeyPatch) -> None:
    torch = fake_torch(**NVIDIA)
    torch.autograd._profiler_enabled = lambda: True
    assert ids(look(quiet, torch, KERNEL)) == ["other-profiler"]


def test_wsl_is_an_obstacle_only_where_no_kernel_came(quiet: pytest.MonkeyPatch) -> None:
    quiet.setattr(environment.platform, "release", lambda: "5.15.90.1-microsoft-standard-WSL2")
    assert ids(look(quiet, fake_torch(**NVIDIA), saying(NOT_INITIALIZED)))[0] == "wsl"
    diagnosis = look(quiet, fake_torch(**NVIDIA), KERNEL)
    assert diagnosis.blockers == []
    assert any("WSL" in note for note in diagnosis.notes)


def test_a_gpu_that_torch_cannot_use_is_a_finding(quiet: pytest.MonkeyPatch) -> None:
    torch = fake_torch(**NVIDIA)

    def busy(_: int) -> Any:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable. Compile with X.")

    torch.cuda.get_device_properties = busy
    diagnosis = look(quiet, torch, ON_CPU, [])
    assert (diagnosis.gpu_present, diagnosis.gpu_collectable, ids(diagnosis)) == (True, "no", ["unusable-gpu"])
    assert "devices are busy or unavailable" in diagnosis.blockers[0].what


def test_notes(quiet: pytest.MonkeyPatch) -> None:
    quiet.setattr(environment, "load_average", lambda: [64.0, 1.0, 1.0])
    quiet.setattr(environment, "_cpus_allowed", lambda _: 2)
    quiet.setattr(environment, "cpu_limit", lambda: 1.5)
    torch = fake_torch(hip="6.2", gpus=1)
    torch.__version__ = "2.4.1+rocm6.2"
    torch.get_num_threads = lambda: 64
    system = [SystemGpu(vendor="rocm", words="the card", memory_used=0.97, mig=True)]
    probe = msgspec.structs.replace(KERNEL, collectors={"roctracer_version": "4.1"})
    notes = "\n".join(look(quiet, torch, probe, system).notes)
    for words in (
        "(64) is above the 1.5 CPUs",
        "64 threads on 1.5 usable CPUs",
        "2.4.1+rocm6.2 is older than 2.6",
        "roctracer (4.1)",
        "More than 90% of a GPU's memory is in use (the card)",
        "(MIG)",
    ):
        assert words in notes


def test_a_quiet_machine_has_no_notes(quiet: pytest.MonkeyPatch) -> None:
    assert look(quiet, fake_torch(**NVIDIA), KERNEL).notes == []


def child(patch: pytest.MonkeyPatch, code: str) -> None:
    """Let the probe run other code; its directory is the child's working directory."""
    patch.setattr(doctor_probe, "_command", lambda *_: [sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("raise SystemExit(3)", "return code 3"),
        ("import os; os._exit(0)", "return code 0"),
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "signal SIGSEGV",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without signals"),
        ),
    ],
)
def test_a_child_that_ends_badly_is_a_finding(monkeypatch: pytest.MonkeyPatch, code: str, ended: str) -> None:
    child(monkeypatch, code)
    probe = probe_capture("cpu")
    assert (probe.ran, probe.ended, probe.device_events) == (False, ended, None)


def test_a_child_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import time; time.sleep(60)")
    probe = probe_capture("cpu", timeout_s=0.3)
    assert (probe.ran, probe.ended) == (False, "no end after 0.3 s")


def test_a_crash_after_the_result_is_still_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        f"""open({doctor_probe.RESULT!r}, "w").write('{{"kernel": "gemm", "device_events": 1}}'); raise SystemExit(5)"""
    )
    child(monkeypatch, code)
    probe = probe_capture("cpu")
    assert (probe.ran, probe.kernel, probe.ended) == (False, "gemm", "return code 5")


def test_what_the_child_says_is_kept_without_routine_and_home(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["STAGE:2025 x] Completed Stage: Warm Up", f"WARNING:2025 x] in {Path.home()}/lib", "", "USDT:2025 x] stop"]
    code = f"import sys; sys.stderr.write({chr(10).join(said)!r})"
    child(monkeypatch, code)
    assert probe_capture("cpu").stderr == ["WARNING:2025 x] in ~/lib"]


def test_a_module_of_the_user_is_not_imported_by_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')")
    monkeypatch.chdir(tmp_path)
    ended, errors = doctor_probe.run_child("cpu", str(tmp_path / "away"), 60)
    assert ended.startswith("could not be started")
    (tmp_path / "away").mkdir()
    ended, errors = doctor_probe.run_child("cpu", str(tmp_path / "away"), 120)
    assert ended == "return code 0", errors
    assert (tmp_path / "away" / doctor_probe.RESULT).exists()


def test_what_a_trace_of_a_gpu_holds() -> None:
    def event(category: str, name: str) -> dict[str, Any]:
        return {"ph": "X", "cat": category, "name": name}

    trace = {
        "cupti_version": 26,
        "traceEvents": [
            event("cpu_op", "aten::mm"),
            event("cuda_runtime", "cudaLaunchKernel"),
            event("kernel", "gemm"),
            event("gpu_memset", "Memset"),
            event("gpu_user_annotation", "ProfilerStep#2"),
            {"ph": "f", "cat": "ac2g"},
        ],
    }
    seen = doctor_probe.read(trace)
    assert (seen["device_events"], seen["kernel"], seen["collectors"]) == (2, "gemm", {"cupti_version": "26"})
    assert seen["categories"]["gpu_user_annotation"] == 1


def test_the_child_has_used_the_gpu_before_this_process_touches_it(quiet: pytest.MonkeyPatch) -> None:
    """In exclusive mode a GPU admits one process; to read a device's properties can already be to hold it."""
    order: list[str] = []
    torch = fake_torch(**NVIDIA)

    def touched(name: str, value: Any) -> Callable[..., Any]:
        return lambda *_: (order.append(name), value)[1]

    torch.cuda.is_available = touched("this process", True)
    torch.cuda.device_count = touched("this process", 1)
    torch.cuda.get_device_properties = touched("this process", H200)
    quiet.setattr(devices, "import_torch", lambda: torch)
    quiet.setattr(doctor, "probe_capture", touched("the child", KERNEL))
    assert examine("gpu").gpu_collectable == "yes"
    assert (order[0], order.count("the child"), "this process" in order) == ("the child", 1, True)


def test_the_child_says_which_device_it_took() -> None:
    probe = probe_capture("cpu")
    assert (probe.device, probe.on_gpu) == ("CPU, as asked", False)


def test_of_a_child_that_ended_before_it_chose_the_device_is_told(quiet: pytest.MonkeyPatch) -> None:
    died = Probe(device="", on_gpu=False, ran=False, ended="signal SIGSEGV")
    diagnosis = look(quiet, fake_torch(**NVIDIA), died)
    assert diagnosis.probe is not None
    assert (diagnosis.probe.device, diagnosis.probe.on_gpu) == ("NVIDIA H200 (cuda:0)", True)
    assert ids(diagnosis) == ["probe-failed"]
