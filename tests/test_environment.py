"""Where it ran: what is observed, what is said not to be, and what never gets into a record."""

from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stepprof_lab import devices, environment
from stepprof_lab.environment import Environment, OthersOnGpu, describe, others_on_gpu


def fake_torch(*, cuda: str | None = None, hip: str | None = None, properties: list[Any] | None = None) -> Any:
    """A torch with one kind of GPU; the settings are those of a new process."""
    seen = properties or []
    family = SimpleNamespace(
        is_available=lambda: bool(seen), device_count=lambda: len(seen), get_device_properties=lambda index: seen[index]
    )
    return SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda, hip=hip, xpu=None),
        cuda=family,
        backends=SimpleNamespace(
            mps=None,
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
            cudnn=SimpleNamespace(version=lambda: 91002, allow_tf32=True, benchmark=False, deterministic=False),
        ),
        get_num_threads=lambda: 8,
        get_num_interop_threads=lambda: 4,
        get_float32_matmul_precision=lambda: "high",
        are_deterministic_algorithms_enabled=lambda: False,
    )


def use(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    monkeypatch.setattr(devices, "import_torch", lambda: torch)


H200 = SimpleNamespace(name="NVIDIA H200", total_memory=150_000_000_000, major=9, minor=0)
MI300 = SimpleNamespace(name="", total_memory=206_000_000_000, gcnArchName="gfx942:sramecc+:xnack-")


def test_the_real_environment_is_whole_and_survives_json() -> None:
    here = describe(devices.choose("cpu"))
    assert here.python == platform.python_version()
    assert here.device == "CPU, as asked"
    assert here.torch is not None
    assert here.cpus == os.cpu_count()
    assert here.precision is not None
    assert here.precision["float32_matmul_precision"] in {"highest", "high", "medium"}
    assert msgspec.json.decode(msgspec.json.encode(here), type=Environment) == here
    json.dumps(msgspec.to_builtins(here))


def test_every_missing_value_has_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, None)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(environment, "cpu_limit", lambda: None)
    here = describe()
    fields = msgspec.to_builtins(here)
    missing = {name for name, value in fields.items() if value is None} - {"device"}
    assert missing == set(here.not_observed)
    assert {"torch", "load_average", "cpus_allowed", "cpu_limit"} <= missing


def test_nothing_private_gets_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", f"{Path.home()}/lib/libtcmalloc.so")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6")
    monkeypatch.setenv("MY_SECRET_TOKEN", "hf_abcdef")
    text = msgspec.json.encode(describe()).decode()
    private = {socket.gethostname(), getpass.getuser(), str(Path.home()), "8932f937", "MY_SECRET", "hf_abcdef"}
    # A user called "root" or a host called "linux" would be found inside ordinary words: look for whole values.
    values = {json.dumps(secret) for secret in private if secret} | {
        "8932f937",
        "MY_SECRET",
        "hf_abcdef",
        f"{Path.home()}/",
    }
    assert [value for value in values if value in text] == []
    assert sys.prefix not in text


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("0,1", "0,1"),
        ("", ""),
        ("expandable_segments:True,max_split_size_mb:128", "expandable_segments:True,max_split_size_mb:128"),
        ("/opt/tool/lib.so", "set (value not kept)"),
        ("C:\\tools\\x.dll", "set (value not kept)"),
        ("~bob", "set (value not kept)"),
        ("me@example.org", "set (value not kept)"),
        ("MIG-0", "set (value not kept)"),
        ("x" * 201, "set (value not kept)"),
    ],
)
def test_a_variable_is_kept_where_it_gives_nothing_away(value: str, kept: str) -> None:
    assert environment.kept_variables({"LD_PRELOAD": value, "HOME": "/x", "OTHER": "1"}) == {"LD_PRELOAD": kept}


def test_an_nvidia_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(cuda="12.8", properties=[H200, H200]))
    monkeypatch.setattr(environment, "ask_tool", lambda _: "570.86.15\n570.86.15\n")
    here = describe()
    assert (here.build, here.driver, here.dnn_library) == ("cuda 12.8", "570.86.15", "cuDNN 91002")
    assert here.devices is not None
    assert [(gpu.index, gpu.name, gpu.memory_bytes, gpu.architecture) for gpu in here.devices] == [
        (0, "NVIDIA H200", 150_000_000_000, "sm_90"),
        (1, "NVIDIA H200", 150_000_000_000, "sm_90"),
    ]
    assert here.precision is not None
    assert here.precision["backends.cuda.matmul.allow_tf32"] is True
    assert (here.threads_intra, here.threads_inter) == (8, 4)


def test_an_amd_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(hip="6.4.1", properties=[MI300]))
    here = describe()
    assert (here.build, here.dnn_library) == ("rocm 6.4", "MIOpen 91002")
    assert here.devices is not None
    assert (here.devices[0].name, here.devices[0].architecture) == ("unnamed", "gfx942")
    assert (here.driver is None) == ("driver" in here.not_observed)


def test_a_driver_that_does_not_answer_is_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_torch(cuda="12.8", properties=[H200]))
    monkeypatch.setattr(environment, "ask_tool", lambda _: None)
    here = describe()
    assert here.driver is None
    assert "driver" in here.not_observed


def test_a_gpu_that_cannot_be_used_is_said_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch(cuda="12.8", properties=[H200])

    def busy(_: int) -> Any:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable. Compile with X.")

    torch.cuda.get_device_properties = busy
    use(monkeypatch, torch)
    here = describe()
    assert here.devices is None
    assert "all CUDA-capable devices are busy or unavailable" in here.not_observed["devices"]


def test_a_setting_that_torch_refuses_to_tell_is_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mixed:
        @property
        def allow_tf32(self) -> bool:
            raise RuntimeError("PyTorch is checking whether allow_tf32 is enabled, and a mix of APIs was used")

    torch = fake_torch()
    torch.backends.cuda.matmul = Mixed()
    use(monkeypatch, torch)
    here = describe()
    assert here.precision is not None
    assert "backends.cuda.matmul.allow_tf32" not in here.precision
    assert "RuntimeError" in here.not_observed["precision.backends.cuda.matmul.allow_tf32"]


def group(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_the_smallest_limit_of_a_control_group_counts(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/slice/job\n")
    group(root / "slice" / "job", {"cpu.max": "max 100000\n"})
    assert environment.cpu_limit(root, own) == "none"
    group(root / "slice", {"cpu.max": "150000 100000\n"})
    assert environment.cpu_limit(root, own) == 1.5
    group(root / "slice" / "job", {"cpu.max": "400000 100000\n"})
    assert environment.cpu_limit(root, own) == 1.5


def test_the_limit_of_a_container_stands_at_the_root(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/a/path/of/the/host\n")
    group(root, {"cpu.max": "200000 100000\n"})
    assert environment.cpu_limit(root, own) == 2.0


def test_the_limit_of_the_first_version(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("5:memory:/m\n4:cpu,cpuacct:/docker/x\n")
    group(root / "cpu,cpuacct" / "docker" / "x", {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"})
    group(root / "cpu,cpuacct", {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"})
    assert environment.cpu_limit(root, own) == 0.5


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::/\n"])
def test_no_readable_control_group_is_not_observed(tmp_path: Path, text: str) -> None:
    (tmp_path / "own").write_text(text)
    group(tmp_path / "cgroup", {"cpu.max": "broken"})
    assert environment.cpu_limit(tmp_path / "cgroup", tmp_path / "own") is None
    assert environment.cpu_limit(tmp_path, tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("answer", "container", "count", "note"),
    [
        ("{own}\n", False, 0, None),
        ("{own}\n 41 \n42\n", False, 2, None),
        ("41\n41\n", False, 1, None),
        ("[Not Supported]\n", False, None, "does not tell"),
        ("", True, None, "in a container"),
        ("41\n", True, 1, "may be among them"),
        (None, False, None, "missing or did not answer"),
    ],
)
def test_others_on_an_nvidia_gpu(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, container: bool, count: int | None, note: str | None
) -> None:
    text = None if answer is None else answer.format(own=os.getpid())
    monkeypatch.setattr(environment, "ask_tool", lambda _: text)
    monkeypatch.setattr(environment, "in_container", lambda: container)
    seen = others_on_gpu("cuda")
    assert seen.count == count
    assert (seen.note is None) if note is None else (note in str(seen.note))


def test_others_on_an_amd_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "in_container", lambda: False)
    monkeypatch.setattr(environment.os, "listdir", lambda _: [str(os.getpid()), "77"])
    assert others_on_gpu("rocm") == OthersOnGpu(count=1)

    def missing(_: str) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(environment.os, "listdir", missing)
    assert others_on_gpu("rocm").count is None
    assert others_on_gpu("xpu").count is None


def test_a_tool_that_is_missing_fails_or_hangs_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_TOOL_TIMEOUT_S", 0.2)
    assert environment.ask_tool(["no-such-tool-anywhere"]) is None
    assert environment.ask_tool([sys.executable, "-c", "raise SystemExit(9)"]) is None
    assert environment.ask_tool([sys.executable, "-c", "import time; time.sleep(30)"]) is None
    monkeypatch.setattr(environment, "_TOOL_TIMEOUT_S", 30)
    assert environment.ask_tool([sys.executable, "-c", "print('570.1')"]) == "570.1\n"


def test_what_nvidia_smi_says_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "NVIDIA H200, 140000, 143771, Enabled\nGeForce, Max-Q, [N/A], [N/A], [N/A]\n"
    monkeypatch.setattr(environment, "ask_tool", lambda _: answer)
    monkeypatch.setattr(environment, "_amd_gpus", list)
    first, second = environment.system_gpus()
    assert (first.vendor, first.words, first.mig) == ("cuda", "nvidia-smi lists NVIDIA H200", True)
    assert first.memory_used == pytest.approx(140000 / 143771)
    assert (second.words, second.memory_used, second.mig) == ("nvidia-smi lists GeForce, Max-Q", None, False)


def test_gpus_are_seen_without_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {
        "/proc/driver/nvidia/gpus": ["0000:01:00.0"],
        "/sys/class/kfd/kfd/topology/nodes": ["0", "1"],
        "/sys/bus/pci/devices": ["a", "b"],
    }
    texts = {"0/gpu_id": "0", "1/gpu_id": "51140", "a/vendor": "0x10de", "a/class": "0x040300", "b/vendor": "0x8086"}
    monkeypatch.setattr(environment, "ask_tool", lambda _: None)
    monkeypatch.setattr(environment, "_entries", lambda folder: tree.get(folder.as_posix(), []))
    monkeypatch.setattr(environment, "_text", lambda path: texts.get("/".join(path.parts[-2:]), ""))
    assert [gpu.words for gpu in environment.system_gpus()] == [
        "the NVIDIA driver lists 1 GPU(s)",
        "the AMD driver lists 1 GPU(s)",
    ]
    del tree["/proc/driver/nvidia/gpus"], tree["/sys/class/kfd/kfd/topology/nodes"]
    assert environment.system_gpus() == [], "the sound part of an NVIDIA card is no GPU"
    texts["a/class"] = "0x030000"
    assert [gpu.words for gpu in environment.system_gpus()] == [
        "an NVIDIA card is in the machine and no NVIDIA driver answers"
    ]
