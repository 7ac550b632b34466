"""A validation on disk: one JSON file with every raw value, from which the verdict can be computed again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stepprof_lab.errors import StepprofError
from stepprof_lab.files import run_directory, write_new
from stepprof_lab.validate.model import Validation


def keep(validation: Validation, path: Path | None = None, *, name: str = "validation") -> Path:
    """Write a validation to a new file and return its path.

    Args:
        validation: what `compare` returned.
        path: the file; by default ``validation.json`` in a new directory below ``runs/``.
        name: begins the default directory's name.

    Raises:
        StepprofError: the name is taken, or the file cannot be written.
    """
    path = path or run_directory(name) / "validation.json"
    write_new(path, msgspec.json.format(msgspec.json.encode(validation), indent=1), "validation")
    return path


def load(path: Path) -> Validation:
    """Read a kept validation.

    Raises:
        StepprofError: there is no such file, or it is no validation.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Validation)
    except OSError as error:
        raise StepprofError(
            f"validation {str(path)!r} cannot be read ({error.strerror or error})", "a file", "check the path"
        ) from error
    except msgspec.MsgspecError as error:
        raise StepprofError(
            f"{str(path)!r} is no validation ({error})", "a file that `stepprof validate` wrote", "check the path"
        ) from error
