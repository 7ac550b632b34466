"""What the tests on a GPU rely on, tested without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WHOLE = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"
DIVIDED = WHOLE + "  MIG 1g.18gb     Device  0: (UUID: MIG-2)\n"


@pytest.mark.parametrize(
    ("said", "name", "listed"),
    [
        (WHOLE, "NVIDIA H200", True),
        (DIVIDED, "NVIDIA H200 MIG 1g.18gb", True),
        (DIVIDED, "NVIDIA H200 MIG 2g.35gb", False),
        (WHOLE, "NVIDIA H200 MIG 1g.18gb", False),
        (DIVIDED, "NVIDIA B200 MIG 1g.18gb", False),
        (WHOLE, "NVIDIA B200", False),
    ],
)
def test_a_slice_of_a_divided_gpu_is_found_in_what_nvidia_smi_lists(
    said: str, name: str, listed: bool, lists: Callable[[str, str], bool]
) -> None:
    assert lists(said, name) is listed


def test_a_second_run_does_not_meet_what_the_first_one_left(new_folder: Callable[[Path], Path], tmp_path: Path) -> None:
    folders = [new_folder(tmp_path / "kept") for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.is_dir() and folder.parent == tmp_path / "kept" for folder in folders)
