"""Two traces side by side as they are drawn: doubts first, no verdict, nothing for what was not observed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from stepprof_lab import pairing
from stepprof_lab.construct import Construct
from stepprof_lab.report import comparison, schemas
from stepprof_lab.report.json import to_json
from stepprof_lab.report.plain import lines
from stepprof_lab.report.text import show_difference


def loop(vendor: str, read: float, operators: int = 12) -> Construct:
    t = Construct(vendor)
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(read)
            with t.label("train"):
                for n in range(operators):
                    t.cpu(read * n / 10, f"aten::op_{n}")
                if vendor != "cpu":
                    t.launch("gemm", device=3)
                    t.wait()
    return t


@pytest.fixture
def difference(tmp_path: Path) -> Callable[..., Any]:
    def compared(first: Construct, second: Construct) -> Any:
        return pairing.compare(first.save(tmp_path / "a.json"), second.save(tmp_path / "b.json"))

    return compared


def drawn(found: Any, width: int = 80) -> str:
    with (console := Console(width=width)).capture() as text:
        show_difference(found, console)
    return text.get()


def test_doubts_come_first_and_the_command_last(difference: Any) -> None:
    shown = drawn(difference(loop("cuda", 5), loop("cuda", 2)), width=200)
    assert shown.startswith("First of all: these two may not be the same thing")
    assert shown.index("no usable record") < shown.index("a.json\n") < shown.index("This is no verdict")
    assert shown.index("This is no verdict") < shown.index("Steps, matched by position")
    command = shown.splitlines()[-3]
    assert command.split() == ["for", "a", "verdict", "stepprof", "validate", "SCENARIO", "BEFORE", "AFTER"]
    assert "constructed: written by hand, not measured" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(difference: Any, width: int) -> None:
    shown = drawn(difference(loop("cuda", 5), loop("cuda", 2)), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "aten::op_11" in shown


def test_plain_lines_have_each_number_with_its_unit(difference: Any) -> None:
    said = list(lines(comparison.of_difference(difference(loop("cuda", 5), loop("cuda", 2)))))
    at = said.index("label.2.what: elapsed (ms)")
    assert said[at - 1 : at + 4] == [
        "label.2.name: read_batch",
        "label.2.what: elapsed (ms)",
        "label.2.first: 5.000",
        "label.2.second: 2.000",
        "label.2.change: -3.000",
    ]
    (note,) = [line for line in said if line.startswith("operator.note: ")]
    assert "3 further operators with smaller changes not shown. 1 operator without any change." in note
    assert [line.split(":")[0] for line in said if line.startswith("findings.")] == [
        *("findings.in_both", "findings.in_the_first_only", "findings.in_the_second_only"),
    ]


def test_a_device_on_one_side_only_is_said_and_has_no_number(difference: Any) -> None:
    found = difference(loop("cuda", 5), loop("cpu", 5))
    said = list(lines(comparison.of_difference(found)))
    assert any("device work was observed in the first trace only" in line for line in said)
    assert "second.gpu: not observed" in "\n".join(said)
    assert not [line for line in said if "GPU" in line and ".what:" in line]
    assert "GPU busy" not in drawn(found)


def test_what_one_side_lacks_reads_as_absent(difference: Any) -> None:
    said = list(lines(comparison.of_difference(difference(loop("cpu", 5), loop("cpu", 5, operators=13)))))
    at = said.index("operator.1.name: aten::op_12")
    assert said[at + 2 : at + 4] == ["operator.1.first: absent", "operator.1.second: 1"]
    assert any(line.startswith("operator.note: ") and "Absent: no operator of this name" in line for line in said)
    assert not any("not observed" in line for line in said if line.startswith(("operator.", "label.")))


def test_where_no_label_changed_that_is_said(difference: Any) -> None:
    said = list(lines(comparison.of_difference(difference(loop("cuda", 5), loop("cuda", 5)))))
    assert [line for line in said if line.startswith("label.") and ".name: " in line] == ["label.1.name: all of them"]


def test_labels_without_any_change_are_only_counted(difference: Any) -> None:
    made = []
    for read in (5.0, 2.0):
        t = Construct("cpu")
        with t.step():
            with t.label("read_batch"):
                t.cpu(read)
            with t.label("train"):
                t.cpu(1.0, "aten::mm")
        made.append(t)
    said = list(lines(comparison.of_difference(difference(*made))))
    named = {line.split(": ", 1)[1] for line in said if line.startswith("label.") and ".name: " in line}
    assert named == {"read_batch"}
    (note,) = [line for line in said if line.startswith("label.note: ")]
    assert "1 label without any change." in note


def test_without_steps_the_idle_time_is_none_of_a_step(difference: Any) -> None:
    t = Construct("cuda")
    for _ in range(3):
        t.launch("gemm", device=2.0)
        t.cpu(5.0)
    said = list(lines(comparison.of_difference(difference(t, t))))
    assert "idle in the step" not in " ".join(said)


def test_it_is_as_its_schema_says(difference: Any, tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(schemas.schema("read-compare"))
    for n, sides in enumerate([("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cpu")]):
        paths = [loop(vendor, 2 + k).save(tmp_path / f"{n}{k}.json") for k, vendor in enumerate(sides)]
        found = json.loads(to_json(pairing.compare(*paths)))
        validator.validate(found)
        del found["no_verdict"]
        assert not validator.is_valid(found)


def test_the_command_reads_two_traces(stepprof: Any, tmp_path: Path) -> None:
    for name, read in (("a.json", 5.0), ("b.json.gz", 2.0)):
        loop("cuda", read).save(tmp_path / name)
    said = stepprof("read", "a.json", "--compare", "b.json.gz", "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert (found["first"]["trace"], found["second"]["trace"]) == ("a.json", "b.json.gz")
    assert found["steps"][0]["cpu_us"]["change"] == found["steps"][1]["cpu_us"]["change"] < 0
    text = stepprof("read", "a.json", "--compare", "b.json.gz", "--html", "a.html", "--svg", "a.svg")
    assert text.code == 0
    assert "This is no verdict" in text.out
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert 'id="comparison"' in page
    assert "This is no verdict" in page
    assert (tmp_path / "a.svg").exists()


def test_the_page_of_one_trace_has_no_comparison(stepprof: Any, tmp_path: Path) -> None:
    loop("cuda", 5).save(tmp_path / "a.json")
    assert stepprof("read", "a.json", "--html", "a.html").code == 0
    assert 'id="comparison"' not in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("other", ["nowhere.json", "empty.json"])
def test_a_second_trace_that_cannot_be_read_is_one_line_and_leaves_no_page(
    stepprof: Any, tmp_path: Path, other: str
) -> None:
    loop("cuda", 5).save(tmp_path / "a.json")
    (tmp_path / "empty.json").write_bytes(b"")
    said = stepprof("read", "a.json", "--compare", other, "--html", "a.html")
    assert (said.code, said.out) == (2, "")
    assert other in said.error
    assert not (tmp_path / "a.html").exists()


def test_names_are_data(tmp_path: Path) -> None:
    sides = []
    for n in range(2):
        t = Construct("cpu")
        with t.step(), t.label("<script>\x1b[2J"):
            t.cpu(1 + n, "[bold]\u202e")
        sides.append(t.save(tmp_path / f"{n}.json"))
    shown = drawn(pairing.compare(*sides))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "<script>\\x1b[2J" in shown
    assert "[bold]\\u202e" in shown
