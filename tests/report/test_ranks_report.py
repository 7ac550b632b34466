"""Several ranks as they are drawn, and the command that reads them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from stepprof_lab import job
from stepprof_lab.construct import Construct
from stepprof_lab.report import ranks, schemas
from stepprof_lab.report.json import to_json
from stepprof_lab.report.plain import lines
from stepprof_lab.report.ranks_page import page
from stepprof_lab.report.svg import timeline_svg
from stepprof_lab.report.text import show_ranks
from stepprof_lab.trace.ranks_model import RanksInterpretation
from tests.conftest import Said

HOSTILE = '<script>alert("x")</script>\x1b[31m'


def write(folder: Path, vendor: str = "cuda", label: str = "train", size: int = 2) -> list[Path]:
    paths = []
    for r in range(2):
        t = Construct(vendor, rank=r, world_size=size)
        for _ in range(3):
            with t.step(), t.label(label):
                t.cpu(2.0 + 2 * r, "aten::mm")
                if vendor != "cpu":
                    t.launch("gemm", device=1.0)
                t.collective("all_reduce", ms=3.0 - 2 * r)
                if vendor != "cpu":
                    t.wait()
        paths.append(t.save(folder / f"trace.rank{r}.json"))
    return paths


@pytest.fixture
def found(tmp_path: Path) -> RanksInterpretation:
    return job.read(write(tmp_path), processes=1)


def drawn(read: Any, width: int) -> str:
    with (console := Console(width=width)).capture() as text:
        show_ranks(read, console)
    return text.get()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_terminal_shows_who_and_why_in_its_width(found: RanksInterpretation, width: int) -> None:
    text = drawn(found.ranks, width)
    assert max(map(len, text.splitlines())) <= width
    said = " ".join(text.split())
    assert "Rank 1 has the most own host time" in said
    assert "written by hand, not measured" in said
    assert "Next check" in said


def test_every_fact_is_one_line_where_it_is_to_be_plain(found: RanksInterpretation) -> None:
    said = list(lines(ranks.of_ranks(found.ranks)))
    assert "ranks: 2 of 2: 0, 1" in said
    assert "rank.1.own_gpu: 1.000 ms" in said
    assert "slowest.1.rank: 1" in said
    assert len(said) == len(set(said)), "stable names: no line twice"


def test_the_json_has_the_schema(found: RanksInterpretation) -> None:
    plain = json.loads(to_json(found.ranks))
    jsonschema.validate(plain, schemas.schema("read-ranks"))
    assert plain["slowest"][0]["label"]["name"] == "train"


def test_without_a_device_there_is_no_column_of_one(tmp_path: Path) -> None:
    read = job.read(write(tmp_path, "cpu"), picture=False, processes=1).ranks
    said = list(lines(ranks.of_ranks(read)))
    assert not [line for line in said if "own_gpu" in line]
    assert any(line.startswith("gpu: not observed: ") for line in said)


def test_the_page_says_the_same_and_names_are_data(tmp_path: Path) -> None:
    found = job.read(write(tmp_path, label=HOSTILE, size=4), processes=1)
    text = page(found)
    assert html.escape(found.ranks.conclusion.hypothesis, quote=True) in text
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert text.count("<script") == 2, "the data and the view's own program"
    assert "ranks of the job" in text
    assert "2, 3" in text
    assert re.search(r"rank 0: steps.*rank 1: steps", text, re.DOTALL)


def test_doubts_stand_first(tmp_path: Path) -> None:
    paths = write(tmp_path)
    data = json.loads(paths[1].read_text())
    data["distributedInfo"]["world_size"] = 16
    paths[1].write_text(json.dumps(data))
    found = job.read(paths, processes=1)
    assert ranks.of_ranks(found.ranks)[0].key == "doubt"
    text = page(found)
    assert text.index("may not be of one run") < text.index("Observation")


def test_collectives_have_a_look_of_their_own(found: RanksInterpretation) -> None:
    assert found.timeline is not None
    assert ">collective<" in timeline_svg(found.timeline)


# ---- the command ----

Run = Callable[..., Said]


def test_the_command_reads_several_and_writes_what_is_asked_for(stepprof: Run, tmp_path: Path) -> None:
    first, second = write(tmp_path)
    said = stepprof("read", second, first, "--html", "a.html", "--svg", "a.svg", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["slowest"][0]["rank"] == 1
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "Rank 1 has the most own host time" in " ".join(stepprof("read", first, second).out.split())
    assert "slowest.1.rank: 1" in stepprof("read", first, second, "--plain").out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--brief"], "2 traces with --compare or --brief"),
        (["--compare", "x.json"], "2 traces with --compare or --brief"),
        (["trace.rank0.json"], "are both of rank 0"),
        (["missing.json"], "missing.json' does not exist"),
    ],
)
def test_what_cannot_be_read_together_is_one_line(stepprof: Run, tmp_path: Path, more: list[str], line: str) -> None:
    write(tmp_path)
    said = stepprof("read", "trace.rank0.json", "trace.rank1.json", *more)
    assert said.code == 2
    assert line in said.error
    assert said.out == ""
