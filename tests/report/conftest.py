"""The samples, as a fixture: test files of one folder are not importable from each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def samples() -> Any:
    path = Path(__file__).with_name("samples.py")
    spec = importlib.util.spec_from_file_location("report_samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
