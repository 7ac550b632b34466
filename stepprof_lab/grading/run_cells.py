"""The child process of `running`: one namespace, one cell after the other, as in the sandbox of `marking.inside`."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(work: Path, cell_timeout_s: float) -> None:
    """Run the cells of ``work/cells.json``; which failed goes to ``work/failed.jsonl``."""
    run = runner()
    for cell in json.loads((work / "cells.json").read_text(encoding="utf-8")):
        with _Limited(cell_timeout_s):
            error = run(cell["source"])
        if error is not None:
            with (work / "failed.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"cell": cell["id"], "error": error}) + "\n")
    (work / "finished").touch()


def runner() -> Any:
    """What runs one cell and returns its error in a line, or None; one namespace for all of them."""
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        return _plain_runner()
    shell = InteractiveShell.instance()

    def run(source: str) -> str | None:
        result = shell.run_cell(source, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        return None if error is None else _in_words(error)

    return run


def _plain_runner() -> Any:
    import types

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module

    def run(source: str) -> str | None:
        try:
            exec(compile(source, "<cell>", "exec"), module.__dict__)  # noqa: S102 - running cells is what this is for
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a cell may raise SystemExit too: told, and the next cell runs
            traceback.print_exc()
            return _in_words(error)
        return None

    return run


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".rstrip(": ")


class _Limited:
    """Interrupt a cell after some seconds, where the system has alarms."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import signal

        if self._seconds and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._over)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        import signal

        if self._seconds and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _over(self, *_: object) -> None:
        raise TimeoutError(f"the cell took more than {self._seconds:g} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
