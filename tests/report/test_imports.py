"""The room is light: it imports no torch, and says so in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys


def test_drawing_imports_no_torch_and_no_numpy() -> None:
    code = (
        "import sys; from stepprof_lab.report import charts, content, drawing, html, json, markup, plain, progress; "
        "from stepprof_lab.report import svg, text; "
        "print(sorted({'torch', 'numpy', 'stepprof_lab.doctor'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
