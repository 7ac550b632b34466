"""The page of several ranks: the conclusion, one timeline, and the numbers rank by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from stepprof_lab import __version__
from stepprof_lab.report import markup, ranks, timeline_view, words
from stepprof_lab.report.drawing import safe
from stepprof_lab.report.html import FOOTER, _contents, _head, _section, room_beside

if TYPE_CHECKING:
    from stepprof_lab.report.html import _Section
    from stepprof_lab.trace.ranks_model import Ranks, RanksInterpretation


def page(found: RanksInterpretation, title: str | None = None) -> str:
    """Draw several ranks as one page.

    Args:
        found: the ranks, and their common timeline where there is one.
        title: of the page; by default how many ranks it is of.
    """
    read = found.ranks
    title = title or f"stepprof: {words.counted(len(read.ranks), 'rank')}"
    first, after = _conclusion(read), [_numbers(read), *_notes(read), _missing(read)]
    sections = [first, *_timeline(found, room_beside([first, *after])), *after]
    heading = words.prose(read.question) if read.question else "No question was recorded with these traces"
    body = [
        '<a class="skip" href="#content">Skip to the content</a>',
        f"<header>{markup.paragraph(title, 'kicker')}<h1>{safe(heading)}</h1></header>",
        '<main id="content">',
        _cards(read),
        _contents(sections),
        *(section.markup for section in sections),
        "</main>",
        f"<footer>{markup.paragraph(f'stepprof_lab {__version__}. {FOOTER}')}</footer>",
    ]
    return f"{_head(title, scripted=found.timeline is not None)}<body>{''.join(body)}</body></html>\n"


def _cards(read: Ranks) -> str:
    cards = []
    for one in read.slowest:
        clock = ranks.CLOCK_WORDS[one.by]
        small = (
            f"{words.duration(one.own_us)} a step, {words.duration(one.more_us)} more than the others' median "
            f"({words.percent(one.share_of_step)} of its step)"
        )
        big = f"rank {one.rank}" if one.stands_out else "no rank stands out"
        cards.append(markup.card(f"most own time, {clock}", big, small, "is-answer" if one.stands_out else ""))
    cards.append(_arrival_card(read))
    return f'<div class="cards">{"".join(cards)}</div>'


def _arrival_card(read: Ranks) -> str:
    arrived = read.arrivals
    if not arrived.told:
        return markup.card("last to begin a collective", "cannot be told", words.prose(arrived.why))
    if arrived.last_rank is None:
        return markup.card("last to begin a collective", "no rank clearly", f"of {arrived.collectives} matched ones")
    last = next(one for one in read.ranks if one.rank == arrived.last_rank)
    by = "" if last.arrives_last_sum_us is UNSET else f", {words.duration(last.arrives_last_sum_us)} together"
    small = f"in {last.arrives_last} of {arrived.collectives} matched collectives{by}"
    return markup.card("last to begin a collective", f"rank {last.rank}", small, "is-answer")


def _conclusion(read: Ranks) -> _Section:
    parts = []
    if read.doubts:
        listed = markup.listed(words.prose(text) for text in read.doubts)
        parts.append(f'<div class="warn" role="note"><strong>{safe(ranks.doubts(read).title)}</strong>{listed}</div>')
    said = f'<div class="finding">{markup.definitions(ranks.conclusion(read))}</div>'
    return _section("conclusion", "What the ranks say together", [*parts, said, markup.definitions(ranks.facts(read))])


def _timeline(found: RanksInterpretation, room: int) -> list[_Section]:
    if found.timeline is None:
        return []
    return [_section("timeline", "The timeline of all ranks", timeline_view.parts(found.timeline, (), room))]


def _numbers(read: Ranks) -> _Section:
    return _section("ranks", "Rank by rank", [markup.table(table) for table in ranks.numbers(read)])


def _notes(read: Ranks) -> list[_Section]:
    if not read.notes:
        return []
    return [_section("notes", "Notes", [markup.listed(words.prose(note) for note in read.notes)])]


def _missing(read: Ranks) -> _Section:
    rows = ranks.not_observed(read)
    if read.missing:
        listed = ", ".join(str(rank) for rank in read.missing[:20])
        more = "" if len(read.missing) <= 20 else f" and {len(read.missing) - 20} more"
        rows.append(("ranks of the job", f"no trace was given of {listed}{more}"))
    if not read.arrivals.told:
        rows.append(("waiting for peers", words.prose(read.arrivals.why)))
    rows += [
        (f"collectives of rank {one.rank}", "none is in its trace") for one in read.ranks if not one.collectives.count
    ]
    if not rows:
        said = "Everything that this report looks for was observed. That says nothing of what it does not look for."
        return _section("missing", "What was not observed", [markup.paragraph(said)])
    return _section("missing", "What was not observed", [markup.definitions(rows)])
