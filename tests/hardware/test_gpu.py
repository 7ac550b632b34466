"""The way of working on a real GPU: doctor, capture with device events present, read, validate, and the refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepprof_lab.demo
from stepprof_lab.devices import Device

pytestmark = pytest.mark.hardware

Run = Callable[..., "subprocess.CompletedProcess[str]"]

DEMO = Path(stepprof_lab.demo.__file__).parent
SCENARIO = str(DEMO / "digits.toml")
BEFORE = str(DEMO / "digits.py")
AFTER = f"{BEFORE}:build_ready"


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def captured(gpu: Device, evidence: Path) -> dict[str, Any]:
    """One capture of the demo's loop on the GPU, which several tests look at."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "stepprof_lab",
            "profile",
            SCENARIO,
            BEFORE,
            "--device",
            "gpu",
            "--out",
            "demo",
            "--json",
        ],
        capture_output=True,
        text=True,
        cwd=evidence,
        timeout=240,
    )
    (evidence / "capture.txt").write_text(f"rc {done.returncode}\n{done.stdout}\n--- stderr\n{done.stderr}\n")
    return result_of(done)


def test_doctor_sees_a_kernel_in_its_probe(gpu: Device, stepprof: Run) -> None:
    found = result_of(stepprof("doctor", "--require", "gpu", "--json"))
    assert found["gpu_collectable"] == "yes"
    assert found["environment"]["devices"][0]["name"] in gpu.sentence


@pytest.mark.parametrize("tool", ["nvidia-smi", "amd-smi"])
def test_doctor_agrees_with_the_vendors_tool(
    gpu: Device, stepprof: Run, tool: str, lists: Callable[[str, str], bool]
) -> None:
    if {"nvidia-smi": "cuda", "amd-smi": "rocm"}[tool] != gpu.vendor:
        pytest.skip(f"{tool} is not the tool of {gpu.vendor}")
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed here")
    command = [tool, "-L"] if tool == "nvidia-smi" else [tool, "static", "--asic"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = result_of(stepprof("doctor", "--json"))
    assert lists(theirs, found["environment"]["devices"][0]["name"])


def test_the_capture_holds_device_events(captured: dict[str, Any]) -> None:
    record = captured["record"]
    assert record["valid"]
    assert record["gpu_requested"]
    assert all(check["passed"] for check in record["checks"])


def test_read_finds_device_work_launched_by_both_steps(
    captured: dict[str, Any], gpu: Device, stepprof: Run, evidence: Path
) -> None:
    found = result_of(stepprof("read", captured["trace"], "--html", "read.html", "--svg", "read.svg", "--json"))
    assert found["gpu"]["observed"]
    assert found["gpu"]["vendor"] == gpu.vendor
    assert len(found["steps"]) == 2
    for step in found["steps"]:
        assert step["gpu_events_launched"] > 0
        assert 0 < step["gpu_busy_in_window_us"] <= step["cpu_us"]
    assert found["labels"]["train"]["gpu_launched_us"] > 0
    assert (evidence / "read.html").exists()


def test_validate_compares_the_demos_arms(gpu: Device, stepprof: Run) -> None:
    found = result_of(
        stepprof("validate", SCENARIO, BEFORE, AFTER, "--device", "gpu", "--budget", "60s", "--out", "v.json", "--json")
    )
    assert found["verdict"] in {"faster", "slower", "equivalent", "no difference shown"}
    assert found["interval"][0] <= found["ratio"] <= found["interval"][1]
    assert {block["arm"] for block in found["blocks"]} == {"before", "after"}


def test_a_hidden_gpu_is_refused_and_nothing_is_written(gpu: Device, stepprof: Run, evidence: Path) -> None:
    hidden = {"cuda": "CUDA_VISIBLE_DEVICES", "rocm": "HIP_VISIBLE_DEVICES"}.get(gpu.vendor)
    if hidden is None:
        pytest.skip(f"it is not known how to hide a device of {gpu.vendor}")
    done = stepprof("profile", SCENARIO, BEFORE, "--device", "gpu", "--out", "hidden", **{hidden: ""})
    assert done.returncode == 3
    assert done.stderr.startswith("stepprof: error:")
    assert not (evidence / "hidden").exists()


def test_a_capture_on_the_cpu_says_nothing_about_the_gpu(gpu: Device, stepprof: Run) -> None:
    taken = result_of(stepprof("profile", SCENARIO, BEFORE, "--device", "cpu", "--out", "cpu", "--json"))
    found = result_of(stepprof("read", taken["trace"], "--json"))
    assert found["gpu"]["observed"] is False
    assert not [key for step in found["steps"] for key in step if key.startswith("gpu_")]
