"""What MkDocs asks while it builds the site: exercises come in from beside ``course/``, and ``{{ ... }}`` is filled.

In a lesson:

    {{ value step_ms }}       a number of the lesson's trace, with its unit; ``step_ms of 05-input-wait`` is another's
    {{ timeline }}            the picture of the lesson's trace, and the same facts as tables; ``timeline findings``
                              marks in it what was found
    {{ question predict }}    a question of the lesson's TOML file
    {{ findings }}            what the interpreter finds in the lesson's trace
    {{ picture warm-up }}     a drawing of `pictures`

MkDocs loads this file by its path; whatever is not known here stops the build.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from stepprof_lab.errors import StepprofError
from stepprof_lab.report import markup, tables
from stepprof_lab.report.svg import timeline_svg
from stepprof_lab.site import pictures, questions, scenes

ROOT = Path(__file__).resolve().parents[2]
ASKED = re.compile(r"\{\{ *(\w+)(?: +([^}]*?))? *\}\}")
LESSON = re.compile(r"lessons/(\d\d-[\w-]+)\.md$")


@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what a learner gets of each lab: the notebook as a page, and the same as a script."""
    for path in sorted((ROOT / "exercises").glob("*/*")):
        if path.suffix in {".ipynb", ".py"}:
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill a page's ``{{ ... }}``; other pages than Markdown's are left alone."""
    if not page.file.src_uri.endswith(".md"):
        return markdown
    lesson = LESSON.search(page.file.src_uri)
    try:
        return filled(markdown, lesson[1] if lesson else None)
    except (StepprofError, KeyError, OSError) as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error


def filled(markdown: str, lesson: str | None) -> str:
    """A page's text with what was asked for in it.

    Raises:
        KeyError: it asks for what there is not.
    """

    def one(asked: re.Match[str]) -> str:
        name, rest = asked[1], (asked[2] or "").strip()
        if name not in PARTS:
            raise KeyError(f"{{{{ {name} }}}} is none of {', '.join(PARTS)}")
        return PARTS[name](lesson or "", rest)

    return ASKED.sub(one, markdown)


def _value(lesson: str, asked: str) -> str:
    name, _, other = asked.partition(" of ")
    return told(name, scenes.values(other or lesson)[name])


def told(name: str, value: float) -> str:
    """A number as it stands in a sentence; its name says its unit."""
    if name.endswith("_ms"):
        return f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms"
    if name.endswith("_share"):
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}"


def _timeline(lesson: str, marked: str) -> str:
    seen = scenes.interpreted(lesson)
    found = seen.analysis.findings if marked == "findings" else []
    svg = timeline_svg(seen.timeline, found, ident=f"timeline-{lesson[:2]}")
    shown = [tables.steps(seen.analysis), tables.labels(seen.analysis), tables.operators(seen.analysis, 8)]
    caption = (
        "Constructed, two active steps. The same facts follow as tables; the trace itself is "
        f'<a href="traces/{lesson}.json.gz" download>{lesson}.json.gz</a>.'
    )
    parts = [
        f'<figure class="sp-timeline" markdown="0"><div class="sp-scroll" tabindex="0">{_one_line(svg)}</div>',
        f"<figcaption>{caption}</figcaption></figure>",
        '<details class="sp-facts" markdown="0"><summary>The timeline as tables</summary>',
        _one_line("".join(markup.table(one) for one in shown)),
        "</details>",
    ]
    return "\n".join(parts)


def _one_line(text: str) -> str:
    """Markdown ends a block of markup at an empty line."""
    return re.sub(r"\n\s*", "\n", text)


def _question(lesson: str, ident: str) -> str:
    for one in questions.read(scenes.LESSONS / f"{lesson}.toml", scenes.values(lesson)):
        if one.id == ident:
            return filled(questions.as_html(one, f"{lesson[:2]}/{ident}"), lesson)
    raise KeyError(f"no question {ident!r} in {lesson}.toml")


def _findings(lesson: str, _: str) -> str:
    analysis = scenes.interpreted(lesson).analysis
    rows = [
        f"> **{one.id}.** {one.observation}\n>\n> *Hypothesis:* {one.hypothesis}\n>\n> *Next check:* {one.next_check}"
        for one in analysis.findings
    ]
    return "\n\n".join(rows) or "> The interpreter found nothing that stands out."


def _picture(_: str, name: str) -> str:
    return f'<figure class="sp-picture" markdown="0">{_one_line(pictures.draw(name))}</figure>'


PARTS: dict[str, Callable[[str, str], str]] = {
    "value": _value,
    "timeline": _timeline,
    "question": _question,
    "findings": _findings,
    "picture": _picture,
}
