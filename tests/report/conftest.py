"""The samples, as a fixture: test files of one folder are not importable from each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def beside(file: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"report_{Path(file).stem}", Path(__file__).with_name(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def samples() -> Any:
    return beside("samples.py")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    chrome = beside("chrome.py")
    if chrome.binary() is None:
        pytest.skip("no Chromium is installed (.ci/run installs it)")
    with chrome.Chrome() as running:
        yield running


@pytest.fixture
def chrome(browser: Any) -> Any:
    """The browser as it begins: a wide, light screen, and nothing that moves by itself."""
    browser.size(1280, 900)
    browser.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
    return browser
