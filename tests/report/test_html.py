"""The page is one file, loads nothing, escapes everything and says what it lacks."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from stepprof_lab.report import timeline_view
from stepprof_lab.report.html import page
from stepprof_lab.trace.model import Interpretation

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """What a browser would see: elements in order, whether they close properly, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def whole(samples: Any, **change: Any) -> str:
    given: dict[str, Any] = {
        "title": "stepprof demo",
        "record": samples.record(),
        "interpretation": samples.interpretation(),
        "validation": samples.validation(),
        "generated_at": "2026-08-01 10:02 UTC",
    }
    return page(**{**given, **change})


def test_the_page_is_well_nested_and_named(samples: Any) -> None:
    seen = Page(whole(samples))
    assert not seen.open
    assert [name for name, _ in seen.elements].count("h1") == 1
    assert seen.all("html")[0]["lang"] == "en"
    assert len(seen.all("main")) == 1
    ids = [attrs["id"] for _, attrs in seen.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_page_loads_nothing(samples: Any) -> None:
    source = whole(samples)
    seen = Page(source)
    assert not {"link", "img", "iframe", "object", "embed", "form", "base"} & {n for n, _ in seen.elements}
    assert seen.all("script") == [{"type": "application/json", "id": "tl-data"}, {}]
    assert not re.search(r"@import|url\((?!#)", source)
    links = [attrs.get("href") for attrs in seen.all("a")]
    assert links
    assert all(link is not None and link.startswith("#") for link in links)
    assert not any(
        key in {"src", "srcset", "style"} and "url" in (v or "") for _, a in seen.elements for key, v in a.items()
    )
    policy = next(m for m in seen.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy["content"] or "")
    assert re.findall(r"script-src [^;]*", policy["content"] or "") == [f"script-src {timeline_view.script_source()}"]
    assert re.findall(r"https?://[^\"' <]+", source.replace("http://www.w3.org/2000/svg", "")) == []


def test_sections_follow_the_way_of_working(samples: Any) -> None:
    seen = Page(whole(samples))
    sections = [attrs["id"] for attrs in seen.all("section")]
    assert sections == [
        "question", "where", "approach", "window", "timeline", "times", "findings", "operators", "validation", "missing"
    ]  # fmt: skip
    linked = [str(attrs["href"]).removeprefix("#") for attrs in seen.all("a")]
    assert linked == ["content", *sections]
    labelled = [attrs["aria-labelledby"] for attrs in seen.all("section")]
    assert labelled == [f"{name}-h" for name in sections]


def test_the_key_facts_stand_in_the_page(samples: Any) -> None:
    words = Page(whole(samples)).words
    for fact in (
        "Is compute waiting for data?",
        "waits for input",
        "▼ faster",
        "after / before 0.270, 95 % interval 0.259 to 0.284",
        "could explain at most 75.2 % of the step",
        "GPU not observed: the capture collected CPU activity only",
        "The capture is valid.",
        "captured 2026-08-01T10:00:00Z on CPU, no GPU observed",
        "report made 2026-08-01 10:02 UTC",
        "the step ran under autocast",
        "model load out",
        "mode train observed",
        "precision float32 stated",
        "driver no NVIDIA or AMD driver was found",
        "condition: compiled neither stated nor observed",
    ):
        assert fact in words, fact


def test_tables_have_captions_scopes_and_a_frame_for_the_keyboard(samples: Any) -> None:
    seen = Page(whole(samples))
    names = [name for name, _ in seen.elements]
    assert names.count("table") == names.count("caption") > 8
    assert {attrs.get("scope") for attrs in seen.all("th")} == {"col", "row"}
    scrolling = [attrs for attrs in seen.all("div") if attrs.get("class") == "scroll"]
    assert all(a.get("tabindex") == "0" and a.get("role") == "region" and a.get("aria-label") for a in scrolling)
    assert len([a for a in seen.all("svg") if a.get("role") == "img"]) == 3


def test_every_picture_is_followed_by_its_facts_as_a_table(samples: Any) -> None:
    words = Page(whole(samples)).words
    assert "Steps and labels in order of time" in words
    assert "The approach, step by step" in words
    assert "Raw values, in the order of measuring" in words
    assert "412.0000" in words


def test_a_gpu_story_shows_its_columns_and_no_missing_gpu(samples: Any) -> None:
    words = Page(page(interpretation=samples.interpretation(gpu=True))).words
    assert "GPU busy by its launches (ms)" in words
    assert "9.120 ms" in words
    assert "9.840 ms: a sum, not elapsed" in words
    assert "who launched some GPU work 3 GPU events without a launch" in words
    assert "No question was recorded with this trace" in words


def test_without_values_the_page_says_what_is_missing(samples: Any) -> None:
    seen = Page(page())
    assert [attrs["id"] for attrs in seen.all("section")] == ["missing"]
    assert "none was interpreted" in seen.words
    assert "nothing was validated outside the profiler" in seen.words
    only = Page(page(validation=samples.validation()))
    assert [attrs["id"] for attrs in only.all("section")] == ["validation", "missing"]
    assert "Is compute waiting for data?" in only.words


def test_a_trace_without_findings_says_what_that_does_not_mean(samples: Any) -> None:
    quiet = Interpretation(samples.cpu_analysis(found=False), samples.timeline())
    words = Page(page(interpretation=quiet)).words
    assert "Nothing was found." in words
    assert "does not mean that the step is fast" in words
    assert "the regime cannot be decided from this trace" in words


def test_arms_that_cannot_be_compared_have_no_picture_and_no_number(samples: Any) -> None:
    seen = Page(page(validation=samples.not_comparable()))
    assert "✕ not comparable" in seen.words
    assert "The outputs differ at step 1" in seen.words
    assert "the ratio of the two arms nothing was timed" in seen.words
    assert seen.all("svg") == []


def test_a_capture_that_is_not_valid_is_marked(samples: Any) -> None:
    record = msgspec.structs.replace(samples.record(), valid=False)
    assert "NOT VALID" in Page(page(record=record)).words


def test_hostile_texts_are_text_everywhere(samples: Any) -> None:
    tags = {name for name, _ in Page(whole(samples)).elements}
    for name in samples.HOSTILE:
        scenario = msgspec.structs.replace(samples.scenario(name), change=name)
        record = msgspec.structs.replace(
            samples.record(name, name), scenario=scenario, environment={name: {name: name}}, contradictions=[name]
        )
        finding = msgspec.structs.replace(samples.input_wait(name), id=name, observation=name, evidence={name: name})
        analysis = msgspec.structs.replace(
            samples.cpu_analysis(name), trace=name, notes=[name], question=name, findings=[finding]
        )
        validation = msgspec.structs.replace(
            samples.validation(), reasons=[name], outputs={name: name}, noise={name: [name]}
        )
        source = page(
            title=name,
            record=record,
            interpretation=Interpretation(analysis, samples.timeline(name)),
            validation=validation,
            generated_at=name,
        )
        source.encode("utf-8")
        seen = Page(source)
        assert not seen.open
        assert {found for found, _ in seen.elements} <= tags
        assert not any(key.startswith("on") for _, attrs in seen.elements for key in attrs)
        assert not set("\x00\x07\x1b\x9b\u202e\u2066\u2028") & set(source)


def test_what_the_noise_report_could_not_see_is_listed(samples: Any) -> None:
    noise = {"not_observed": {"involuntary_switches": "this system does not count them"}}
    validation = msgspec.structs.replace(samples.validation(), noise=noise)
    assert "involuntary_switches this system does not count them" in Page(page(validation=validation)).words


def test_an_environment_is_taken_as_struct_or_mapping(samples: Any) -> None:
    class Where(msgspec.Struct):
        build: str
        not_observed: dict[str, str]

    words = Page(page(environment=Where("cpu", {"driver": "no tool"}))).words
    assert "build cpu" in words
    assert "driver no tool" in words
    with pytest.raises(TypeError, match="no mapping"):
        page(environment=[1])


def test_a_trace_of_thousands_of_spans_stays_a_page(samples: Any) -> None:
    many = Interpretation(samples.cpu_analysis(), samples.timeline(operators=20000))
    assert len(page(interpretation=many)) < 600_000


def test_bars_are_none_of_steps_that_were_not_marked_and_few_of_very_many_labels(samples: Any) -> None:
    read = samples.interpretation()
    labels = {
        f"label {n}": msgspec.structs.replace(next(iter(read.analysis.labels.values())), cpu_us=n + 1.0)
        for n in range(50)
    }
    without = msgspec.structs.replace(read.analysis, steps=[], labels=labels)
    source = page(interpretation=Interpretation(without, read.timeline))
    bars = source[source.index('<div class="bars"') :].split("</section>")[0]
    assert "all active steps" not in bars
    assert bars.count('class="track"') == 40
    assert "10 shorter labels without a bar" in bars
    assert "label 49" in bars
