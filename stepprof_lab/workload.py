"""A workload file: from ``FILE`` or ``FILE:NAME`` to a `Step`, and every way in which that fails in one line.

A user's own error is shown as the user's own: one line that says where, then the traceback from their file on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, ModuleType

ENDLESS = "def endless(loader): while True: yield from loader"
"""How an iterator is made that never ends, as short as it fits in a line."""


class StepEnded(StepprofError):
    """The step ran out of data before it had run as often as was wanted."""


class Spec(NamedTuple):
    """``FILE`` or ``FILE:NAME``, taken apart."""

    path: Path
    name: str


class _Loaded(NamedTuple):
    stamp: tuple[int, int]
    """Modification time in ns and size: a file that was edited since is loaded again."""
    module: ModuleType


_loaded: dict[Path, _Loaded] = {}


def parse(spec: str) -> Spec:
    """Take ``FILE`` or ``FILE:NAME`` apart; the colon of a drive letter or of an existing path is no separator."""
    path = Path(spec)
    # Not Path.exists: a function's name may be longer than a file's name may be, and that is no error here.
    if os.path.exists(spec):
        return Spec(path, "build")
    file, colon, name = spec.rpartition(":")
    if colon and not name:
        return Spec(Path(file), "build")
    if colon and (file.endswith(".py") or (name.isidentifier() and len(file) > 1)):
        return Spec(Path(file), name)
    return Spec(path, "build")


def load(spec: str) -> Callable[[str], Step]:
    """The function that a workload is named by: ``FILE`` means its ``build``, ``FILE:NAME`` another function of it.

    The file's directory stays on ``sys.path`` and its module in ``sys.modules`` (under the file's own name where that
    is free), so that neighbours can be imported later too and a loader's workers can unpickle what the file defines.
    A file that was loaded before and has not changed since is not run again.

    Returns:
        ``build(device) -> Step``. What it raises is turned into one line with the user's own traceback as detail.

    Raises:
        StepprofError: no such file, no Python file, it raises on import, it has no such function.
    """
    path, name = parse(spec)
    module = _module_of(path)
    function = getattr(module, name, None)
    if function is None:
        raise StepprofError(
            f"workload {str(path)!r} has no function {name!r} (it has: {_functions(module)})",
            f"{name}(device), which returns a Step",
            "write it, or name another function of the file as FILE:NAME",
        )
    if not callable(function):
        raise StepprofError(
            f"{name!r} of workload {str(path)!r} is {_kind(function)}",
            f"a function {name}(device) that returns a Step",
            "name a function of the file as FILE:NAME",
        )
    _takes_a_device(function, path, name)

    @functools.wraps(function)
    def checked(device: str) -> Step:
        with users_errors(f"{name} of workload {str(path)!r}", path):
            step = function(device)
        return _is_step(step, path, name)

    return checked


def build(spec: str, device: str) -> Step:
    """Load a workload and build its step on a device ("cpu", "cuda:0")."""
    return load(spec)(device)


def run_step(step: Step, number: int, wanted: int | None = None) -> Any:
    """Run one step; what it raises becomes one line with the step's number.

    Args:
        step: what ``build`` returned.
        number: how many steps ran before this one.
        wanted: how many steps were to run, for the error of a loader that ends early.

    Raises:
        StepEnded: the step's iterator has ended.
        StepprofError: the step raised.
    """
    try:
        return step.run()
    except StopIteration as error:
        raise _ended(number, wanted) from error
    except RuntimeError as error:
        # What a generator makes of a StopIteration that escapes inside it (PEP 479).
        if isinstance(error.__cause__, StopIteration):
            raise _ended(number, wanted) from error
        raise _raised(f"step {number + 1} of the workload", error, _file_of(step)) from error
    except (StepprofError, KeyboardInterrupt, GeneratorExit):
        raise
    except (Exception, SystemExit) as error:
        raise _raised(f"step {number + 1} of the workload", error, _file_of(step)) from error


@contextlib.contextmanager
def users_errors(what: str, file: Path | None) -> Iterator[None]:
    """Turn what a user's code raises into one line that names the place; their traceback is the detail.

    ``SystemExit`` counts as raising: a file that parses arguments when it is imported must not end the program.
    """
    try:
        yield
    except StepprofError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(what, error, file) from error


def _module_of(path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise StepprofError(
            f"workload {str(path)!r}",
            "a Python file, FILE.py or FILE.py:NAME",
            "name the file that holds build(device)",
        )
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise StepprofError(
            f"workload {str(path)!r} {what}", "a Python file, FILE.py or FILE.py:NAME", "check the path"
        )
    path = path.resolve()
    about = path.stat()
    stamp = (about.st_mtime_ns, about.st_size)
    known = _loaded.get(path)
    if known is None or known.stamp != stamp:
        known = _loaded[path] = _Loaded(stamp, _run_file(path))
    return known.module


def _run_file(path: Path) -> ModuleType:
    directory = str(path.parent)
    _refuse_mixed_neighbours(path.parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    name = _module_name(path)
    description = importlib.util.spec_from_file_location(name, path)
    if description is None or description.loader is None:
        raise StepprofError(f"workload {str(path)!r} cannot be imported", "a Python file", "check the file")
    module = importlib.util.module_from_spec(description)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with users_errors(f"workload {path.name!r}, when imported,", path):
            description.loader.exec_module(module)
    except BaseException:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
        raise
    return module


def _module_name(path: Path) -> str:
    """The file's own name where nobody else has it: a worker that starts afresh finds it under no other."""
    stem = path.stem
    own = sys.modules.get(stem)
    if own is not None:
        free = getattr(own, "__file__", None) == str(path)
    else:
        # The directory is first on the path, so only what is found before any file can be in the way.
        free = stem.isidentifier() and stem not in sys.builtin_module_names and stem not in sys.stdlib_module_names
    if free:
        return stem
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"stepprof_workload_{digest}_{re.sub(r'[^0-9A-Za-z_]', '_', stem)}"


def _refuse_mixed_neighbours(directory: Path) -> None:
    """Two workloads whose directories hold different files of one name would silently share the first one's."""
    for other in {path.parent for path in _loaded} - {directory}:
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not file or "." in name or Path(file).parent != other or Path(file) in _loaded:
                continue
            rival = directory / Path(file).name
            if rival.is_file() and rival.read_bytes() != Path(file).read_bytes():
                raise StepprofError(
                    f"two workloads that import two different files named {rival.name!r} (in {str(other)!r} and "
                    f"{str(directory)!r})",
                    "one module of a name, because Python imports a name once",
                    "rename one of them, or put both workloads into one file as FILE:NAME",
                )


def _takes_a_device(function: Callable[..., Any], path: Path, name: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a callable that does not tell its signature is called and judged by that
    try:
        signature.bind("cpu")
    except TypeError as error:
        raise StepprofError(
            f"{name}{signature} of workload {str(path)!r} cannot be called with one device ({error})",
            f"{name}(device), called with a text such as 'cpu' or 'cuda:0'",
            f"let {name} take the device as its one argument",
        ) from None


def _is_step(step: Any, path: Path, name: str) -> Step:
    if not isinstance(step, Step):
        raise StepprofError(
            f"{name} of workload {str(path)!r} returned {_kind(step)}",
            "a Step",
            "return Step(step, state={'model': model, 'optimizer': optimizer}, samples=batch_size)",
        )
    if not callable(step.run):
        raise StepprofError(
            f"the Step that {name} of workload {str(path)!r} returned runs {_kind(step.run)}",
            "a function without arguments",
            "return Step(step, ...) with the function itself, not with its result",
        )
    return step


def _ended(number: int, wanted: int | None) -> StepEnded:
    want = "at least one more" if wanted is None else str(wanted)
    return StepEnded(
        f"the workload's data ended after {number} {'step' if number == 1 else 'steps'}",
        f"data for {want} steps",
        f"use a larger epoch, or iterate without end: {ENDLESS}",
    )


def _raised(what: str, error: BaseException, file: Path | None) -> StepprofError:
    place = _place(error, file)
    said = " ".join("".join(traceback.format_exception_only(type(error), error)[-1:]).split())
    return StepprofError(
        f"{what} raised {said}{f' at {place}' if place else ''}",
        "a workload that runs",
        "the traceback of the workload follows",
        detail=_users_traceback(error),
    )


def _place(error: BaseException, file: Path | None) -> str | None:
    """File and line of the deepest line of the user's file; for a syntax error the line that it names."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_machinery(frame)]
    own = [(frame, line) for frame, line in frames if file is not None and _same(frame.f_code.co_filename, file)]
    for frame, line in reversed(own or frames[:1]):
        return f"{Path(frame.f_code.co_filename).name}:{line}"
    return None


def _users_traceback(error: BaseException) -> str:
    start = error.__traceback__
    while start is not None and _is_machinery(start.tb_frame):
        start = start.tb_next
    return "".join(traceback.format_exception(type(error), error, start)).rstrip("\n")


def _is_machinery(frame: FrameType) -> bool:
    """Whether a frame is this module's or the import system's: what a user did not write and need not read."""
    file = frame.f_code.co_filename
    return file == __file__ or file.startswith("<frozen importlib") or file.endswith("contextlib.py")


def _file_of(step: Step) -> Path | None:
    code = getattr(inspect.unwrap(step.run), "__code__", None)
    return Path(code.co_filename) if code is not None else None


def _same(name: str, file: Path) -> bool:
    return Path(name) == file or Path(name).resolve() == file.resolve()


def _functions(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return ", ".join(names) or "no function"


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
