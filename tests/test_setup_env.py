"""Which torch is installed on which machine, and that an environment is made, completed and kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepprof_lab import setup_env

ROOT = Path(setup_env.ROOT)
PINNED = "2.13.0"


def indexes(attempts: list[list[str]]) -> list[str]:
    return [attempt[attempt.index("--index-url") + 1] for attempt in attempts if "--index-url" in attempt]


def test_a_torch_that_is_there_is_kept() -> None:
    sentence, attempts = setup_env.torch_plan("2.9.1+rocm6.4", {"amd"}, PINNED)
    assert attempts == []
    assert "2.9.1+rocm6.4" in sentence


def test_a_torch_too_old_is_refused_by_its_version() -> None:
    with pytest.raises(setup_env.SetupError, match=r"2\.5\.1.*2\.6 or newer"):
        setup_env.torch_plan("2.5.1", set(), PINNED)


def test_without_a_gpu_every_attempt_is_a_cpu_build() -> None:
    _, attempts = setup_env.torch_plan(None, set(), PINNED, system="Linux")
    assert len(attempts) == 2
    assert all(attempt[-1] == "torch==2.13.0+cpu" for attempt in attempts)
    assert indexes(attempts) == [setup_env.CPU_INDEX]


def test_with_an_nvidia_gpu_the_package_index_has_the_right_build() -> None:
    _, attempts = setup_env.torch_plan(None, {"nvidia"}, PINNED, system="Linux")
    assert attempts == [["torch==2.13.0"]]


@pytest.mark.parametrize("vendors", [{"amd"}, {"amd", "nvidia"}])
def test_an_amd_machine_never_gets_a_cuda_build(vendors: set[str]) -> None:
    sentence, attempts = setup_env.torch_plan(None, vendors, PINNED, system="Linux")
    assert all(attempt[-1].endswith("+cpu") for attempt in attempts)
    assert "PYTHON=" in sentence
    assert "TORCH_INDEX=" in sentence


def test_an_index_that_was_named_is_the_only_one_asked() -> None:
    _, attempts = setup_env.torch_plan(None, {"amd"}, PINNED, index="https://example.org/rocm")
    assert attempts == [["--index-url", "https://example.org/rocm", "torch==2.13.0"]]


def test_macos_takes_the_plain_build() -> None:
    assert setup_env.torch_plan(None, set(), PINNED, system="Darwin")[1] == [["torch==2.13.0"]]


def test_the_constraints_pin_one_torch_and_everything_that_the_tests_import() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert setup_env.pinned_torch(constraints)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in constraints.splitlines() if "==" in line}
    installed = setup_env.packages_of(sys.executable)
    for needed in ("click", "msgspec", "numpy", "rich", "torch", "pytest", "hypothesis", "scikit-learn", "pillow"):
        assert needed in pinned
        assert needed in installed


def test_what_a_given_python_has_is_not_pinned() -> None:
    left = setup_env.without("# why\ntorch==2.13.0\ntyping-extensions==4.16.0\nrich==15.0.0\n", {"torch", "rich"})
    assert left == "# why\ntyping-extensions==4.16.0\n"


def test_a_directory_that_we_did_not_make_is_never_deleted(tmp_path: Path) -> None:
    venv = tmp_path / ".venv"
    venv.mkdir()
    (venv / "precious").write_text("")
    with pytest.raises(setup_env.SetupError, match="not of our making"):
        setup_env.make_venv(sys.executable, str(venv))
    assert (venv / "precious").exists()


def test_a_given_python_that_is_not_there_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = setup_env.main(["demo", "--python", str(tmp_path / "python"), "--venv", str(tmp_path / ".venv")])
    assert code == 2
    assert len(capfd.readouterr().err.strip().splitlines()) == 1


@pytest.mark.slow
def test_an_environment_sees_the_packages_of_the_python_it_was_built_on(tmp_path: Path) -> None:
    venv = str(tmp_path / ".venv")
    setup_env.make_venv(sys.executable, venv)
    assert setup_env.made_with(venv) == sys.executable
    assert setup_env.torch_of(setup_env.venv_python(venv)) is None
    setup_env.see_packages_of(sys.executable, venv)
    assert setup_env.torch_of(setup_env.venv_python(venv)) == setup_env.torch_of(sys.executable)


@pytest.mark.slow
def test_a_broken_environment_of_ours_is_made_again(tmp_path: Path) -> None:
    venv = tmp_path / ".venv"
    venv.mkdir()
    (venv / setup_env.ORIGIN).write_text(sys.executable)
    assert setup_env.made_with(str(venv)) is None
    setup_env.make_venv(sys.executable, str(venv))
    assert setup_env.made_with(str(venv)) == sys.executable


def test_the_script_runs_alone_and_is_not_misled_by_the_files_beside_it() -> None:
    # stepprof_lab/trace must not hide the standard library's trace.
    asked = subprocess.run(
        [sys.executable, "-I", "stepprof_lab/setup_env.py", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert asked.returncode == 0
    assert "--torch-index" in asked.stdout


@pytest.mark.skipif(os.name != "posix", reason="make is looked at where it is used")
def test_make_hands_on_python_and_index() -> None:
    said = subprocess.run(
        ["make", "--dry-run", "demo", "PYTHON=/a/python", "TORCH_INDEX=https://example.org/x"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    assert '/a/python -I stepprof_lab/setup_env.py --python "/a/python" --torch-index "https://example.org/x"' in said
