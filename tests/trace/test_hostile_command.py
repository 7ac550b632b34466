"""Damaged and hostile files through the whole command: it reads or refuses, draws or leaves nothing."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

MALFORMED = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces" / "malformed"
FILES = sorted(path.name for path in MALFORMED.iterdir()) if MALFORMED.is_dir() else []
REFUSED = {"empty_events.json", "not_a_trace.json"}


def run(stepprof, tmp_path, path, *options):
    """The command with a page and a picture; what it said, and whether they are there."""
    drawn = [tmp_path / "out.html", tmp_path / "out.svg"]
    said = stepprof("read", path, "--html", drawn[0], "--svg", drawn[1], *options)
    there = [picture.exists() for picture in drawn]
    if all(there):
        ET.fromstring(drawn[1].read_bytes())
        assert len(drawn[0].read_bytes()) < 5_000_000
    for picture in drawn:
        picture.unlink(missing_ok=True)
    return said, there


def check(said, there):
    """Done with everything there, or refused in one line with nothing there."""
    assert "Traceback" not in said.err
    if said.code == 0:
        assert there == [True, True]
        return
    assert said.code == 2
    assert there == [False, False]
    assert said.out == ""
    assert said.error.startswith("stepprof: error: trace ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("options", [["--json"], ["--plain"], []], ids=["json", "plain", "terminal"])
@pytest.mark.parametrize("name", FILES)
def test_every_malformed_file(stepprof, tmp_path, name, options):
    said, there = run(stepprof, tmp_path, MALFORMED / name, *options)
    check(said, there)
    assert said.code == (2 if name in REFUSED else 0)
    if said.code == 0 and "--json" in options:
        found = json.loads(said.out)
        sound = name in {"bare_list.json", "no_gpu_events_but_launches.json", "zero_correlation_comm.json"}
        assert (
            sound
            or name == "no_profiler_steps.json"
            or re.search("repaired|set aside|cut short|skipped", " ".join(found["notes"]))
        )


EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.25, "dur": 2}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 5000,
        b"hello",
        b"[" * 100_000,
        b"\x1f\x8b\x08",
        gzip.compress(b"\0" * 80_000_000),
        b'{"traceEvents":[' + b"{}," * 2_000_000 + b"{}]}",
        json.dumps({"traceEvents": [EVENT | {"ts": "never"}]}).encode(),
        json.dumps({"traceEvents": [EVENT | {"cat": "hpu_op"}]}).encode(),
        json.dumps({"a": "x" * 100_000 + "\n" * 1000}).encode(),
    ],
    ids=["empty", "zeros", "words", "brackets", "gzip", "bomb", "dense", "times", "kinds", "object"],
)
def test_a_file_that_is_no_trace_is_one_line_and_leaves_nothing(stepprof, tmp_path, data):
    path = tmp_path / "t.json"
    path.write_bytes(data)
    said, there = run(stepprof, tmp_path, path, "--json")
    check(said, there)
    assert said.code == 2
    assert len(said.err) < 1200


@pytest.mark.parametrize(
    "name",
    [
        "\0",
        "a\x1b[31mred\x07",
        "\u202eevil",
        "\uffff\ufffe",
        "\x85\u2028x",
        "<script>alert(1)</script>",
        "]]>",
        "--><!--",
        "</svg></style>",
        "'\"`&amp;",
        "a\nb\tc\rd",
        "\u0300" * 50,
        "\x7f\x9b31m",
        "a" * 50_000,
        "ProfilerStep#\x1b]0;title\x07",
    ],
    ids=ascii,
)
def test_a_name_is_data_everywhere(stepprof, tmp_path, name):
    """The same text in every place that holds one; nothing of it commands a terminal, a page or a picture."""
    kinds = ["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "hpu_op", "python_function"]
    args = {
        "correlation": 1,
        "device": name,
        "stream": name,
        "Input Dims": [[name]],
        "Collective name": name,
        "dtype": name,
    }
    events = [EVENT | {"cat": kind, "name": name, "pid": name, "tid": name, "args": args} for kind in kinds]
    events += [
        EVENT | {"cat": "user_annotation", "name": "ProfilerStep#1", "pid": name, "tid": name, "ts": 0, "dur": 100},
        EVENT | {"cat": "python_function", "name": f"{name}/train.py(1): {name}", "pid": name, "tid": name},
        {"ph": "M", "name": "thread_name", "pid": name, "tid": name, "args": {"name": name}},
    ]
    around = {"deviceProperties": [{"id": 0, "name": name}], "stepprof_lab": {"notes": [name]}, "cupti_version": name}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**around, "traceEvents": events}))
    for options in (["--json"], ["--plain"], []):
        said, there = run(stepprof, tmp_path, path, *options)
        check(said, there)
        assert said.code == 0, said.err
        if "--json" in options:
            json.loads(said.out)
        else:
            shown = set(said.out + said.err) - set("\n")
            assert not [character for character in shown if unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}]
            assert "\u202e" not in shown


def test_a_page_holds_no_markup_of_a_name(stepprof, tmp_path):
    path = tmp_path / "t.json"
    bad = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    path.write_text(
        json.dumps({"traceEvents": [EVENT | {"name": bad}, EVENT | {"cat": "user_annotation", "name": bad}]})
    )
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    assert stepprof("read", path, "--html", page, "--svg", picture).code == 0
    for drawn in (page, picture):
        assert "<script>alert" not in drawn.read_text()
        assert "<img" not in drawn.read_text()
