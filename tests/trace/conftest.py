"""The builder of small traces and the real ones, as fixtures: test files are not importable from each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Context

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"


@pytest.fixture(scope="session")
def build() -> Any:
    """The class `Built`."""
    spec = importlib.util.spec_from_file_location("trace_build", Path(__file__).with_name("build.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Built


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Any]:
    """Interpret a built trace with a context given by keywords; returns the interpretation."""

    def interpreted(built: Any, **context: Any) -> Any:
        path = tmp_path / "trace.json"
        built.write(path)
        return interpret(path, Context(**context))

    return interpreted


@pytest.fixture
def analyse(tmp_path: Path) -> Callable[..., Any]:
    """Interpret a `stepprof_lab.construct.Construct` with a context given by keywords; returns the analysis."""

    def analysed(made: Any, **context: Any) -> Any:
        path = tmp_path / "made.json"
        path.write_bytes(made.to_bytes())
        return interpret(path, Context(**context)).analysis

    return analysed


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces."""
    if not TRACES.is_dir():
        pytest.skip("the real traces are not here")
    return TRACES
