"""Turns of timed checks on a GPU that several people share: one at a time, and one who waits is told so.

Two checks that time the same GPU at once would each measure the other's work. The lock is a file that all processes
of a machine can reach; it is let go of when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from stepprof_lab.devices import Device
from stepprof_lab.errors import StepprofError

FOLDER_VARIABLE = "STEPPROF_TURNS"
"""The folder of the locks, where the system's own for temporary files is not the same for everybody on the machine."""

PATIENCE_S = 1.0
"""So long a check waits before it says that it waits."""

OPEN_TO_ALL = 0o666
"""A lock that one person made must be there for the next one."""


@contextlib.contextmanager
def turn(device: Device, waiting: Callable[[str], None]) -> Iterator[None]:
    """Have the device alone; at once where it is no GPU.

    Args:
        device: that is timed.
        waiting: told the device, in words, where somebody else has it.

    Raises:
        StepprofError: the folder of the locks cannot be written to.
    """
    if not device.is_gpu:
        yield
        return
    import filelock  # torch needs it too

    lock = filelock.FileLock(lock_file(device), mode=OPEN_TO_ALL)
    try:
        lock.acquire(timeout=PATIENCE_S)
    except filelock.Timeout:
        waiting(device.sentence)
        lock.acquire()
    except OSError as error:
        raise StepprofError(
            f"the lock {lock.lock_file}: {error.strerror or error}",
            "a file that everybody who shares this GPU can write",
            f"set {FOLDER_VARIABLE} to a folder that all of them can write to",
        ) from error
    try:
        yield
    finally:
        lock.release()


def lock_file(device: Device) -> Path:
    """The lock of a device: the same for every process of this machine, whatever number it gives the device."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir())
    return folder / f"stepprof-turn-{hashlib.sha256(_identity(device).encode()).hexdigest()[:12]}.lock"


def _identity(device: Device) -> str:
    """What tells one GPU of this machine from another: its UUID, and its name where this torch tells none."""
    import torch

    properties = torch.get_device_module(device.torch_device).get_device_properties(device.torch_device)
    return str(getattr(properties, "uuid", None) or properties.name)
