"""The page that a learner gets back: what it says, and what it must not give away."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import catalogue, items
from stepprof_lab.grading.marking import feedback
from stepprof_lab.grading.marking.result import Ending, How
from stepprof_lab.grading.model import Bar, Part, Picture, Said
from tests.marking.some_results import LAB, make, marked, wrong

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&`{0}`"


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text; a page that does not close what it opens is an error."""

    EMPTY = frozenset({"meta", "rect"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def text_of(*changed: object, **fields: object) -> str:
    return " ".join(Tags(feedback.page(make("ada", *changed, **fields))).text.split())  # type: ignore[arg-type]


def test_a_wrong_answer_has_its_misconception_its_hint_and_both_numbers() -> None:
    page = feedback.page(make("ada", wrong("03/busy_ms")))
    text = " ".join(Tags(page).text.split())
    idea = catalogue.text("03.idea.totals-summed.seen", yours="41.5 ms")
    assert idea in text
    assert catalogue.text("03.idea.totals-summed.hint").replace("`", "") in text
    assert "03/busy_ms: not yet, 0 of 4 points" in text
    assert "yours 41.5 ms; reference 12.25 ms" in text
    assert page.count("<svg") == 1
    assert "11 of 15" in text


def test_a_right_answer_says_so() -> None:
    text = text_of()
    assert text.count("passed") == len(items.lab(LAB).items)
    assert "15 of 15" in text
    assert "Nested sums" in text
    assert "a person looks" not in text


@pytest.mark.parametrize("how", [how for how in How.__args__ if how != "graded"])  # type: ignore[attr-defined]
def test_every_ending_is_told_in_plain_words(how: str) -> None:
    text = text_of(marked("03/table", how, where="table", why="more than 600 s"))
    said = feedback.ending_in_words(Ending(how=how, where="table"))  # type: ignore[arg-type]
    assert "03/table: no points" in text
    assert said[:30] in text
    assert said[-1] in ".?"
    assert "{" not in text


def test_no_verdict_is_no_lost_point() -> None:
    text = text_of(marked("03/table", points=0.0, undecided=True))
    assert "03/table: no verdict" in text
    assert "could not hold what the check needs" in text
    assert "1 without a verdict" in text


def test_a_submission_that_nobody_could_read_says_so() -> None:
    ending = Ending(how="unreadable", why="two notebooks")
    assert "could not be read: two notebooks" in text_of(items=[], ending=ending)


def test_a_page_says_that_there_was_no_sandbox() -> None:
    assert "without a sandbox" in text_of(sandbox="none")
    assert "sandbox" not in text_of()


def test_hidden_cases_are_not_announced_after_they_ran() -> None:
    assert "more run" not in text_of(marked("03/busy_ms", hidden=3))


# ---- what must not be given away ----

SECRET = "[{'name': 'hidden', 'begin_ms': 1.25}]"


@pytest.mark.parametrize("error", [f"ValueError: {SECRET}", f"{SECRET}: x", "hidden: 1.25", "Hidden125", "print: 1.25"])
def test_an_error_tells_its_kind_and_nothing_that_the_learners_code_put_in_it(error: str) -> None:
    """Their code saw the hidden cases: a message of its choice would carry them out."""
    said = [Said(key="common.error", values={"error": f"{error}, at `raise it`"})]
    one = marked("03/busy_ms", points=0.0, said=said)
    for text in (text_of(one), "\n".join(feedback.lines(one))):
        assert "idden" not in text
        assert "1.25" not in text
        assert ("ValueError" in text) == error.startswith("ValueError")
    assert "idden" not in text_of(marked("03/busy_ms", "cell failed", why=error))


def test_what_a_learners_code_wrote_is_cut_out_of_an_ending() -> None:
    forged = f"what came from the cells was a line that is no message (Invalid value {SECRET})"
    text = text_of(
        marked("03/busy_ms", "crashed", why=forged), marked("03/table", "out of memory", why=f"MemoryError: {SECRET}")
    )
    assert "what came from the cells was a line that is no message" in text
    assert "MemoryError" in text
    assert "1.25" not in text
    assert "ended by SIGKILL" in text_of(marked("03/busy_ms", "crashed", why="its process was ended by SIGKILL"))


PATHS = ["/home/grader/course/solutions/03/lab.py", "C:\\Users\\grader\\x.py", "~grader/x.py", "../../grader/x.py"]


@pytest.mark.parametrize("path", PATHS)
def test_folders_are_not_told(path: str) -> None:
    for text in (
        text_of(marked("03/busy_ms", "timed out", where=path, why=f"cannot open '{path}'")),
        text_of(marked("03/busy_ms", points=0.0, said=[Said(key="common.not_a_number", values={"kind": path})])),
        text_of(items=[], ending=Ending(how="unreadable", why=f"{path} is a link")),
    ):
        assert "grader" not in text
        assert path.replace("\\", "/").rsplit("/", 1)[1] in text


def test_notes_for_the_grader_stay_with_the_grader() -> None:
    assert "put back" not in text_of(notes=["the cell 'busy-check' was put back"])


@pytest.mark.parametrize("long", ["x" * 5000, "/x" * 5000, "a/" * 5000, "\\" * 5000])
def test_a_long_text_is_cut(long: str) -> None:
    said = [Said(key="common.not_a_number", values={"kind": long})]
    assert len(text_of(marked("03/busy_ms", points=0.0, said=said))) < len(text_of()) + 500


def test_the_same_page_whatever_the_machine() -> None:
    assert feedback.page(make()) == feedback.page(msgspec.json.decode(msgspec.json.encode(make()), type=type(make())))


# ---- hostile texts ----


def test_every_text_of_a_learner_is_escaped() -> None:
    bars = [Bar(name=HOSTILE, value=-1.0, kind="yours"), Bar(name="reference", value=0.0)]
    one = marked(
        "03/busy_ms",
        points=0.0,
        parts=[Part(id=HOSTILE, points=0.0, of=1.0)],
        said=[Said(key="common.not_a_number", values={"kind": HOSTILE})],
        picture=Picture(unit=HOSTILE, bars=bars),
    )
    endings = [marked("03/table", "timed out", where=HOSTILE, why=HOSTILE)]
    page = feedback.page(make(HOSTILE, one, *endings, submitted=HOSTILE))
    tags = Tags(page)
    assert not {"script", "img", "a", "iframe", "link", "object"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in {"href", "src"}]
    assert HOSTILE in tags.text  # as text
    assert not re.search(r"https?://|url\(|@import", page)


def test_sentences_that_the_catalogue_does_not_have_are_replaced() -> None:
    strange = [Said(key="03.no.such"), Said(key="common.error.deep"), Said(key="nothing"), Said(key="common.letters")]
    text = text_of(marked("03/busy_ms", points=0.0, said=strange))
    assert catalogue.text("common.unknown.seen") in text


# ---- the tree ----


@pytest.mark.parametrize("name", ["ada", "Zoë Ω", "a b", "x;rm -rf", "<b>"])
def test_the_page_lies_where_nbgrader_hands_it_out(tmp_path: Path, name: str) -> None:
    path = feedback.write(make(name), tmp_path)
    assert path == tmp_path / name / LAB / f"{LAB}.html"
    assert "15 of 15" in path.read_text(encoding="utf-8")
    feedback.write(make(name, wrong("03/busy_ms")), tmp_path)
    assert "11 of 15" in path.read_text(encoding="utf-8")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "a\\b", "a\nb"])
def test_no_name_leads_out_of_the_tree(tmp_path: Path, name: str) -> None:
    with pytest.raises(StepprofError, match="names of folders"):
        feedback.write(make(name), tmp_path / "feedback")
    with pytest.raises(StepprofError, match="names of folders"):
        feedback.write(make("ada", assignment=name), tmp_path / "feedback")
    assert not (tmp_path / "feedback").exists()


def test_a_link_in_the_pages_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "grades.csv"
    target.write_text("all good")
    place = tmp_path / "feedback" / "ada" / LAB / f"{LAB}.html"
    place.parent.mkdir(parents=True)
    place.symlink_to(target)
    feedback.write(make(), tmp_path / "feedback")
    assert target.read_text() == "all good"
    assert not place.is_symlink()


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ada" / LAB / f"{LAB}.html").mkdir(parents=True)
    with pytest.raises(StepprofError, match="free some room"):
        feedback.write(make(), tmp_path)
    assert [one.name for one in (tmp_path / "ada" / LAB).iterdir()] == [f"{LAB}.html"]
