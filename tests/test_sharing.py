"""``stepprof share`` and ``read --brief``: nothing leaks, nothing is overwritten, the question goes along."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from stepprof_lab import record as records
from stepprof_lab import scenario, sharing
from stepprof_lab.environment import VALUE_NOT_KEPT
from stepprof_lab.record import Check, LabelSeen, Record
from stepprof_lab.report import schemas
from stepprof_lab.report.brief import JOINER, MOST_LINES, brief, inert
from stepprof_lab.trace.model import Analysis, Approach, Finding, GpuNotObserved, LabelTimes, OperatorTimes, StepTimes
from tests.conftest import Said

Run = Callable[..., Said]
TRACES = Path(__file__).resolve().parents[1] / ".." / "shared" / "traces"
RANKS = sorted(TRACES.glob("cuda_v100_dlrm_rank?of8.json")) if TRACES.is_dir() else []
DDP = TRACES / "rocm_mi300_resnet_train_3steps_ddp.json.gz"
SAMPLED = TRACES / "cuda_sampled_rank0_no_devprops.json.gz"
SECRETS = ("alice", "zorblatt", "node17", "falcon-heavy", "hf_abcABC123abcABC123abc")


def trace(label: str = "read_batch", **around: Any) -> dict[str, Any]:
    host = {"pid": 54321, "tid": 54321}
    start = 1700000000000000
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", **host, "ts": start, "dur": 100},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", **host, "ts": start + 100, "dur": 100},
        {"ph": "X", "cat": "user_annotation", "name": label, **host, "ts": start + 5, "dur": 60},
        {"ph": "X", "cat": "user_annotation", "name": label, **host, "ts": start + 105, "dur": 60},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", **host, "ts": start + 70, "dur": 20},
        {"ph": "X", "cat": "cpu_op", "name": "zorblatt::mm", **host, "ts": start + 170, "dur": 20},
    ]
    return {"schemaVersion": 1, "host_name": "node17", "username": "alice", **around, "traceEvents": events}


def record_of(label: str, **more: Any) -> Record:
    given: dict[str, Any] = {
        "stepprof_lab": "0.1.0",
        "captured_at": "2026-12-01T09:44:53+00:00",
        "scenario": scenario.inline(
            "Is compute waiting for data?", boundary="read transfer forward backward update", unit="ms/step"
        ),
        "observed": {"batch": 16, "mode": "train", "shapes": ["16x8"], "zorblatt": "alice", "device": "cpu"},
        "contradictions": ["the scenario says batch = 8, seen was 16"],
        "environment": {
            "python": "3.11.9",
            "torch": "2.13.0+cpu",
            "build": "cpu",
            "kernel": "6.1.0-zorblatt",
            "cpu": "AMD EPYC 9454 48-Core Processor",
            "cpus": 2,
            "load_average": [0.5, 0.25, 0.125],
            "host_name": "node17",
            "variables": {"OMP_NUM_THREADS": "2", "LD_PRELOAD": "/home/alice/x.so", "HOME": "/home/alice"},
            "not_observed": {"driver": "torch sees no GPU"},
        },
        "device": "CPU",
        "gpu_requested": False,
        "schedule": {"wait": 1, "warmup": 1, "active": 2},
        "options": {"record_shapes": False},
        "labels": [LabelSeen(name=label, role="read", role_from="stated")],
        "approach": Approach(
            steps_ms=[1.0] * 8, labels_ms={label: [0.7] * 8}, loader_workers=0, wanted_steps=8, cut_reason=None
        ),
        "window_steps_ms": [1.0, 1.0, 1.0, 1.0],
        "checks": [Check(name="steps", passed=True, detail=f"2 active steps; '{label}' in each of them")],
        "valid": True,
        "trace": "trace.json",
        "trace_sha256": "",
        "capture_id": "abcd",
    }
    return Record(**{**given, **more})


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A trace with secrets, and its record with secrets."""
    label = "zorblatt falcon-heavy"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace(label)), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = record_of(label, trace_sha256=digest)
    question = "Is alice@zorblatt.org or /home/alice/x waiting for hf_abcABC123abcABC123abc?"
    asked = msgspec.structs.replace(record.scenario, question=question)
    record = msgspec.structs.replace(record, scenario=asked)
    records.record_path(path).write_bytes(records.encode(record))
    return path


def unpacked(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def test_share_writes_a_copy_and_its_record_without_secrets(stepprof: Run, captured: Path, tmp_path: Path) -> None:
    said = stepprof("share", captured)
    assert said.code == 0, said.err
    copy, record = tmp_path / "trace.shared.json.gz", tmp_path / "trace.shared.record.json"
    for text in (unpacked(copy), unpacked(record)):
        assert not any(secret in text for secret in SECRETS)
        assert "54321" not in text
        assert "2026" not in text
    assert "node17" not in said.out
    assert "node..." not in said.out  # a quarter of six characters is one
    assert "user name" in said.out
    assert "same numbers and findings" in said.out


def test_the_copy_reads_like_the_original_with_its_question(stepprof: Run, captured: Path, tmp_path: Path) -> None:
    before = json.loads(stepprof("read", captured, "--json").out)
    stepprof("share", captured)
    after = json.loads(stepprof("read", tmp_path / "trace.shared.json.gz", "--json").out)
    assert after["question"].startswith("Is e-mail-address-1 or ")
    assert after["question"].endswith("waiting for access-token-1")
    assert after["origin"] == before["origin"] == "recorded"
    assert after["steps"] == before["steps"]
    assert list(after["labels"].values()) == list(before["labels"].values())
    assert [f["id"] for f in after["findings"]] == [f["id"] for f in before["findings"]] == ["input-wait"]
    assert after["findings"][0]["share_of_step"] == before["findings"][0]["share_of_step"]
    assert after["findings"][0]["evidence"]["labels_known_from"] == "role"
    assert not any("digest" in note for note in after["notes"])


def test_the_record_s_copy_keeps_what_was_measured_and_with_what(stepprof: Run, captured: Path, tmp_path: Path) -> None:
    stepprof("share", captured)
    kept = json.loads((tmp_path / "trace.shared.record.json").read_text(encoding="utf-8"))
    environment = kept["environment"]
    assert environment["torch"] == "2.13.0+cpu"
    assert environment["cpu"] == "AMD EPYC 9454 48-Core Processor"
    assert environment["variables"] == {"OMP_NUM_THREADS": "2", "LD_PRELOAD": VALUE_NOT_KEPT}
    assert environment["not_observed"] == {"driver": "torch sees no GPU"}
    assert not {"kernel", "host_name"} & set(environment)
    assert kept["observed"] == {"batch": 16, "mode": "train", "shapes": ["16x8"], "device": "cpu"}
    assert kept["contradictions"] == ["the scenario says batch = 8, seen was 16"]
    assert kept["approach"]["steps_ms"] == [1.0] * 8
    assert kept["checks"][0]["detail"].startswith("2 active steps; '")
    assert kept["captured_at"] == sharing.NOT_KEPT
    assert kept["trace"] == "trace.shared.json.gz"
    assert "capture_id" not in kept or kept["capture_id"] is None


def test_json_is_as_its_schema_says(stepprof: Run, captured: Path) -> None:
    said = stepprof("share", captured, "--json", "--out", "copies/mine.json")
    shared = json.loads(said.out)
    jsonschema.Draft202012Validator(schemas.schema("share")).validate(shared)
    assert shared["same_numbers"]
    assert Path(shared["copy"]).read_bytes().startswith(b"{")
    assert shared["record"] == "copies/mine.record.json"
    kinds = {one["kind"]: one for one in shared["replaced"]}
    assert kinds["host name"]["count"] == kinds["user name"]["count"] == 1
    assert shared["unjudged"] == {"label": 1, "operator": 1}
    assert not any(secret in said.out for secret in SECRETS)


def test_nothing_is_overwritten(stepprof: Run, captured: Path, tmp_path: Path) -> None:
    assert stepprof("share", captured).code == 0
    before = (tmp_path / "trace.shared.json.gz").read_bytes()
    again = stepprof("share", captured)
    assert again.code == 2
    assert "exists already" in again.error
    assert (tmp_path / "trace.shared.json.gz").read_bytes() == before
    assert stepprof("share", captured, "--out", captured).code == 2
    assert stepprof("share", captured, "--out", "copy.txt").code == 2


def test_a_copy_never_lies_beside_the_record_of_another_trace(stepprof: Run, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(trace()), encoding="utf-8")
    (tmp_path / "trace.shared.record.json").write_text("{}", encoding="utf-8")
    assert stepprof("share", "trace.json").code == 2
    assert not (tmp_path / "trace.shared.json.gz").exists()


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("resnet.json", "resnet.shared.json.gz"),
        ("node17_4711.1700000000000.pt.trace.json", "trace.shared.json.gz"),
        ("run-of-alice.json", "trace.shared.json.gz"),
        ("bob@example.org.json", "trace.shared.json.gz"),
    ],
)
def test_the_copy_s_name_gives_nothing_away(stepprof: Run, tmp_path: Path, name: str, copy: str) -> None:
    (tmp_path / name).write_text(json.dumps(trace()), encoding="utf-8")
    assert json.loads(stepprof("share", name, "--json").out)["copy"] == copy


def test_a_file_that_is_no_trace_is_refused_as_read_refuses_it(stepprof: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    said = stepprof("share", "x.json")
    assert said.code == 2
    assert said.error == stepprof("read", "x.json").error
    assert stepprof("share", "missing.json").code == 2


def test_a_terminal_is_asked_about_what_nobody_can_judge(
    stepprof: Run, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return "label" in text or "Write" in text

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said = stepprof("share", captured)
    assert said.code == 0, said.err
    assert asked[-1] == "Write the copy?"
    assert [text.split()[2] for text in asked[:-1]] == ["label", "operator"]
    made = unpacked(tmp_path / "trace.shared.json.gz")
    assert "zorblatt falcon-heavy" in made
    assert "zorblatt::mm" not in made
    assert "alice" not in made
    asked.clear()
    assert stepprof("share", captured, "--yes", "--out", "b.json").code == 0
    assert asked == []
    assert "zorblatt" not in unpacked(tmp_path / "b.json")


def test_a_no_at_a_terminal_writes_nothing(
    stepprof: Run, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: "n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert stepprof("share", captured).code == 130
    assert not list(tmp_path.glob("*.shared.*"))


def test_what_is_kept_and_dropped_by_flags(stepprof: Run, captured: Path, tmp_path: Path) -> None:
    said = stepprof("share", captured, "--keep", "operators", "--drop", "shapes", "--out", "a.json")
    assert said.code == 0
    assert "zorblatt::mm" in unpacked(tmp_path / "a.json")
    assert "zorblatt falcon" not in unpacked(tmp_path / "a.json")


def test_sharing_imports_no_torch(captured: Path) -> None:
    code = (
        "import sys; from stepprof_lab.cli import main; a = main(['share', 'trace.json', '--json']); "
        "b = main(['read', 'trace.json', '--brief']); print(a, b, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=captured.parent)
    assert done.stdout.splitlines()[-1] == "0 0 False"


# --- the brief form --------------------------------------------------------------------------------------------------


def test_brief_tells_the_essentials_and_no_secret(stepprof: Run, captured: Path) -> None:
    said = stepprof("read", captured, "--brief")
    assert said.code == 0, said.err
    assert not any(secret in said.out for secret in SECRETS)
    assert "trace.json" not in said.out
    lines = said.out.splitlines()
    assert len(lines) <= MOST_LINES
    for part in (
        "Question: Is ",
        "Regime: ",
        "GPU: not observed",
        "torch 2.13.0+cpu",
        "ProfilerStep",
        "**input-wait**",
    ):
        assert part in said.out
    assert "aten::mm" in said.out.replace(JOINER, "")


@pytest.mark.skipif(not DDP.exists(), reason="the recorded traces are not beside the checkout")
def test_brief_says_what_is_foreign_and_why_the_regime_is_what_it_is(stepprof: Run) -> None:
    """In the first step all of the 14.517 ms of device work within it were launched before it."""
    said = stepprof("read", DDP, "--brief").out.replace(JOINER, "")
    lines = said.splitlines()
    assert lines[0] == "**Regime: waits for communication**"
    assert lines[2].startswith("- Because: in the active steps ")
    assert any(line.startswith("- Origin: unknown: ") for line in lines)
    head = next(line for line in lines if line.startswith("| step |"))
    assert head.endswith("| GPU busy within it | of it, foreign | GPU tail |")
    first = next(line for line in lines if line.startswith("| ProfilerStep#15 |"))
    assert [cell.strip() for cell in first.split("|")[4:6]] == ["14.517 ms", "14.517 ms"]


@pytest.mark.skipif(not SAMPLED.exists(), reason="the recorded traces are not beside the checkout")
def test_long_names_that_begin_alike_are_not_cut_to_one_text(stepprof: Run) -> None:
    text = "".join(stepprof("read", SAMPLED).out.split())
    for end in ("LengthsRangeFill'>", "single_operators.Gather'>"):
        assert end in text
    lines = stepprof("read", SAMPLED, "--brief").out.splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("| label")) + 2 :]
    names = [line.split(" | ")[0] for line in itertools.takewhile(lambda line: line.startswith("| "), table)]
    assert len(names) == len(set(names)) == 8


def test_brief_goes_with_no_other_form(stepprof: Run, captured: Path) -> None:
    assert stepprof("read", captured, "--brief", "--json").code == 2


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example/x)",
    "![x](http://evil.example/x.png)",
    "@octocat",
    "ping @team/all #123",
    "a | b | c",
    "`code`",
    "**bold** _it_ ~~gone~~",
    "line\nbreak\r\n# heading",
    "https://evil.example www.evil.example evil.example",
    "&lt;b&gt;",
    "$x^2$ :smile: \\",
    "<!-- comment -->",
    "\u202egnp.x\u0000",
]


def active(text: str) -> list[str]:
    """What Markdown would make something of: marks without a backslash, mentions, tags, addresses."""
    bare = re.sub(r"\\[\\`*_\[\]|~$]", "", text)
    return re.findall(r"[`*_\[\]|~$<>\n]|@\w|#\d|https?://|\bwww\.\w|\w\.example|:smile:|&(?!amp;|lt;|gt;)", bare)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_becomes_markdown(text: str) -> None:
    assert active(inert(text)) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_trace_in_brief_keeps_its_shape(text: str) -> None:
    finding = Finding(
        id="x", observation=text, hypothesis=text, next_check=text, share_of_step=None, evidence={"a": text}
    )
    analysis = Analysis(
        trace=text,
        origin="unknown",
        question=text,
        notes=[text] * 30,
        regime="undecided",
        gpu=GpuNotObserved(reason=text),
        steps=[StepTimes(name=text, cpu_us=1.0)] * 40,
        labels={f"{text}{n}": LabelTimes(calls=1, cpu_us=1.0) for n in range(40)},
        operators=[OperatorTimes(name=text, calls=1, cpu_sum_us=1.0, cpu_self_us=1.0)] * 40,
        findings=[finding] * 20,
    )
    said = brief(analysis)
    lines = said.splitlines()
    assert len(lines) <= MOST_LINES
    assert {line.count("|") - line.count("\\|") for line in lines if line.startswith("|")} <= {3, 4}
    assert not re.search(r"<\w|\]\(h|(?<!\\)`|@\w", said)
    assert "x onerror=alert(1)>" not in said


def test_brief_of_a_real_capture_fits(stepprof: Run, scenario_file: Path, workload: Path) -> None:
    assert stepprof("profile", scenario_file, workload, "--device", "cpu", "--out", "shot").code == 0
    said = stepprof("read", "shot/trace.json.gz", "--brief")
    assert said.code == 0
    assert "Is compute waiting for data?" in said.out
    assert len(said.out.splitlines()) <= MOST_LINES
    shared = json.loads(stepprof("share", "shot/trace.json.gz", "--json").out)
    assert shared["same_numbers"]
    assert shared["unjudged"] == {}
    again = json.loads(stepprof("read", shared["copy"], "--json").out)
    assert again["question"] == "Is compute waiting for data?"
    assert {"read_batch", "transfer", "train"} <= set(again["labels"])
    kept = Path(shared["record"]).read_text(encoding="utf-8")
    assert "word-" not in kept, kept


def test_several_traces_are_refused_in_one_line(stepprof: Run, captured: Path) -> None:
    said = stepprof("share", captured, captured)
    assert said.code == 2
    assert "2 traces to share; expected one at a time" in said.error
    assert said.error.endswith("run it once for each")


@pytest.mark.skipif(not RANKS, reason="the recorded traces of two ranks are not beside the checkout")
def test_the_copies_of_ranks_go_together_again(stepprof: Run, tmp_path: Path) -> None:
    copies = [tmp_path / path.name for path in RANKS]
    for path, copy in zip(RANKS, copies, strict=True):
        assert stepprof("share", path, "--out", copy).code == 0
    before, after = (json.loads(stepprof("read", "--json", *paths).out) for paths in (RANKS, copies))
    for key in ("arrivals", "slowest"):
        assert before[key] == after[key]
