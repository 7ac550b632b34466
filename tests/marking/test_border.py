"""Grading across the border: honest work scores in full, and nothing that a submission does changes a verdict."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab.errors import StepprofError
from stepprof_lab.grading import items
from stepprof_lab.grading.marking import border, result, sandbox, wire
from stepprof_lab.grading.marking.result import Result
from stepprof_lab.grading.model import Evidence, Verdict
from tests.marking.handed import FULL, LIMITS, SECRET, handed_in, item, mark, notebook, points, release, with_cells

WHY_NOT = sandbox.Bubblewrap().works(LIMITS)

needs_bubblewrap = pytest.mark.skipif(WHY_NOT is not None, reason=f"no bubblewrap here: {WHY_NOT}")

WRONG = "def busy_ms(spans):\n    return 1.0\n"
LOST_BUSY = {**FULL, "busy_ms": 0.0}


@pytest.fixture
def graded(tmp_path: Path) -> Callable[..., Result]:
    """Grade lab 03's solved notebook with some cells replaced."""

    def grade(**cells: str) -> Result:
        return mark(handed_in(tmp_path, with_cells(notebook(), **cells)))

    return grade


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The honest twin of every cheat below, graded in the same run."""
    found = mark(handed_in(tmp_path_factory.mktemp("twin"), notebook()))
    assert points(found) == FULL
    return found


# ---- honest work ----


@needs_bubblewrap
def test_a_solved_notebook_scores_in_full(twin: Result) -> None:
    assert twin.ending.how == "graded"
    assert {one.ending.how for one in twin.items} == {"graded"}
    assert (twin.sandbox, twin.notes, twin.student) == ("bubblewrap", [], "ann")
    assert all(one.verdict is not None and one.verdict.hidden == 0 for one in twin.items)


@needs_bubblewrap
def test_an_unsolved_one_has_verdicts_that_say_so(tmp_path: Path) -> None:
    found = mark(handed_in(tmp_path, notebook(solved=False)))
    assert set(points(found).values()) == {0.0}
    assert {said.key for one in found.items if one.verdict for said in one.verdict.said} == {"common.unanswered"}


@needs_bubblewrap
@pytest.mark.slow
def test_lab_01_scores_in_full(tmp_path: Path) -> None:
    found = mark(handed_in(tmp_path, notebook("01-ask-first"), name="01-ask-first"))
    assert [one.points for one in found.items] == [one.of for one in found.items]


@needs_bubblewrap
@pytest.mark.slow
def test_magics_await_noise_and_warnings_cost_nothing(graded: Callable[..., Result]) -> None:
    pytest.importorskip("IPython", reason="magics are IPython's")
    noisy = "+%time 1\nimport asyncio, warnings, sys\nawait asyncio.sleep(0)\nwarnings.warn('x')\nprint('x' * 10**6)\n"
    found = graded(elapsed=noisy + "sys.stderr.write('y' * 10**6)", total="+input_of = 1\n!echo hello")
    assert points(found) == FULL


@pytest.mark.slow
def test_without_a_sandbox_it_is_said(tmp_path: Path) -> None:
    found = mark(handed_in(tmp_path, notebook()), where=sandbox.NoSandbox())
    assert (points(found), found.sandbox, found.notes) == (FULL, "none", ["it was graded without a sandbox"])


@needs_bubblewrap
@pytest.mark.slow
def test_a_learner_s_own_check_is_as_in_practice(graded: Callable[..., Result]) -> None:
    own = "seen = check('03/elapsed_ms', elapsed_ms)\nassert seen.passed and seen.hidden == 5"
    found = graded(total=f"+{own}")
    assert (points(found), found.ending.how) == (FULL, "graded")


# ---- endings ----


@needs_bubblewrap
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "how", "why"),
    [
        ("import os; os.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
        ("import os; os._exit(0)", "crashed", "exit code 0"),
        ("import os; os.closerange(3, 100)", "crashed", "exit code"),
        ("import os\nwhile True: os.fork()", "crashed", "more than 40 processes"),
        ("x = b'x' * 1_500_000_000\nwhile True: pass", "out of memory", "more than 1,000 MB"),
        ("while True: pass", "timed out", "the cell took more than 6 s"),
    ],
)
def test_the_part_in_which_it_ends_loses_and_the_others_keep_theirs(
    code: str, how: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(border, "CELL_S", 6.0)
    monkeypatch.setattr(border, "CELL_TIMES", 0.0)
    made = with_cells(notebook(), busy=code)
    limits = type(LIMITS)(seconds=60, memory_mb=1000, processes=40, file_mb=20, output_kb=20)
    found = mark(handed_in(tmp_path, made), limits=limits)
    assert points(found) == LOST_BUSY
    for ending in (found.ending, item(found, "busy_ms").ending):
        assert (ending.how, ending.where) == (how, "busy")
        assert why in ending.why
    assert found.notes == ["the rest was run once more without the cell 'busy'"]


@needs_bubblewrap
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "how", "why"),
    [
        ("import sys; sys.exit(0)", "cell failed", "SystemExit: 0"),
        ("def busy_ms(spans:", "cell failed", "SyntaxError"),
        ("x = b'x' * 10**11", "out of memory", "MemoryError"),
        ("busy_ms = check = lambda *_: type('Told', (), {'points': 4})", "no check", "given no answer"),
    ],
)
def test_a_cell_that_fails_is_told_with_its_part(code: str, how: str, why: str, graded: Callable[..., Result]) -> None:
    found = graded(busy=code, table="from stepprof_lab.grading import check\n" + solution_of("table"))
    assert points(found) == LOST_BUSY
    ending = item(found, "busy_ms").ending
    assert ending.how == how
    assert why in ending.why
    assert "run once more" not in str(found.notes)


def solution_of(name: str) -> str:
    return next(
        "".join(one["source"]) for one in notebook()["cells"] if one["metadata"]["nbgrader"]["grade_id"] == name
    )


@needs_bubblewrap
@pytest.mark.slow
def test_what_crashes_twice_is_not_reached(graded: Callable[..., Result]) -> None:
    crash = "import os; os._exit(3)"
    found = graded(elapsed=crash, self=crash)
    assert points(found) == {**dict.fromkeys(FULL, 0.0), "prediction": 1.0, "total_ms": 2.0}
    hows = {one.item.partition("/")[2]: one.ending.how for one in found.items}
    assert hows["elapsed_ms"] == hows["self_ms"] == "crashed"
    assert hows["busy_ms"] == hows["table"] == "not reached"


@needs_bubblewrap
def test_what_is_no_notebook_is_unreadable(tmp_path: Path) -> None:
    found = mark(handed_in(tmp_path, "no JSON"))
    assert {one.ending.how for one in found.items} == {found.ending.how} == {"unreadable"}
    assert "no notebook" in found.ending.why


@needs_bubblewrap
@pytest.mark.slow
def test_undecided_stays_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_item, real = items.item, items.item("03/busy_ms")
    held = dataclasses.replace(real, judge=lambda *_: Verdict(item=real.id, points=0, of=4, undecided=True))
    monkeypatch.setattr(border.items, "item", lambda ident: held if ident == real.id else real_item(ident))
    assert points(mark(handed_in(tmp_path, notebook()))) == {**FULL, "busy_ms": None}


@needs_bubblewrap
@pytest.mark.slow
def test_evidence_that_keeps_a_judge_busy_costs_its_own_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: Any) -> Verdict:
        while True:
            pass

    real_item, real = items.item, items.item("03/busy_ms")
    held = dataclasses.replace(real, judge=judge)
    monkeypatch.setattr(border, "JUDGE_S", 0.5)
    monkeypatch.setattr(border.items, "item", lambda ident: held if ident == real.id else real_item(ident))
    found = mark(handed_in(tmp_path, notebook()))
    assert points(found) == LOST_BUSY
    assert item(found, "busy_ms").ending.why == "the evidence could not be judged (TimeoutError)"


class Broken:
    """A sandbox that does not start."""

    name = "broken"

    def start(self, *_: Any, **__: Any) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-c", "echo no namespaces >&2; exit 1"], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def works(self, *_: Any) -> None: ...


def test_a_sandbox_that_does_not_start_is_no_grade(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match="no namespaces"):
        mark(handed_in(tmp_path, notebook()), where=Broken())


# ---- cheats ----

PIPES = """
import glob, os
def pipes():
    # the border's own: every pipe but those of the usual numbers
    links = {int(p.rsplit('/', 1)[1]): os.readlink(p) for p in glob.glob('/proc/self/fd/*') if os.path.islink(p)}
    return [n for n, to in links.items() if n > 2 and to.startswith('pipe:')]
def tell(line, times=1):
    for n in pipes():
        try: os.write(n, line * times)
        except OSError: pass
"""

TOLD = b'{"type":"told","evidence":{"data":{"value":1.0,"kind":"float"}}}\n'

CHEATS = {
    "1 asserts stripped": "import ast\nclass T(ast.NodeTransformer):\n"
    "    def visit_Expr(self, node): return ast.Pass()\nget_ipython().ast_transformers.append(T())",
    "2 cells replaced": "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])",
    "3 errors vanish": "import types\nip = get_ipython()\n"
    "async def run_code(self, *a, **k): return False\nip.run_code = types.MethodType(run_code, ip)",
    "4 lying numbers": "class L(float):\n    __eq__ = __le__ = __lt__ = __ge__ = lambda *a: True\n    __hash__ = None\n"
    "    __sub__ = __rsub__ = __abs__ = lambda *a: L(0)\ndef busy_ms(spans): return L(1)",
    "11 verdict files": "import os, atexit\nos.environ['STEPPROF_VERDICTS'] = '/tmp/lab/verdicts.jsonl'\n"
    'line = \'{"item":"03/busy_ms","points":4,"of":4}\\n\'\nopen("verdicts.jsonl", "w").write(line)\n'
    "atexit.register(print, line)\nprint(line)",
    "13 judges patched": "import stepprof_lab.grading.ideas as i, stepprof_lab.grading.labs.lab03 as m\n"
    "i.is_near = lambda *a: True\nm._all_near = lambda *a, **k: True\nimport math; math.isclose = lambda *a, **k: True",
    "21 references looked for": "import gc\ndef busy_ms(spans):\n"
    "    found = [o for o in gc.get_objects() if type(o) is dict and 'reference' in o]\n"
    "    return found[0]['reference'] if found else 1.0",
    "22 inputs changed": "def busy_ms(spans):\n    spans[:] = spans[:1]\n    return 0.0",
    "23 not a number": "def busy_ms(spans): return float('nan')",
    "23 infinite": "import numpy\ndef busy_ms(spans): return numpy.float64('inf')",
    "lines forged": PIPES + f"tell({TOLD!r}, 20)",
    "lines forged, at the check": PIPES + f"def busy_ms(spans):\n    tell({TOLD!r}, 20)\n    return 1.0",
    "a check forged": PIPES + 'tell(b\'{"type":"asked","item":"03/busy_ms"}\\n\' + ' + f"{TOLD!r} * 9)",
    "an end forged": PIPES + 'tell(b\'{"type":"finished"}\\n\')',
    "a line without end": PIPES + "tell(b'x' * 60000, 200)",
    "nan forged": PIPES + 'def busy_ms(spans): tell(b\'{"type":"told","evidence":{"data":{"value":NaN}}}\\n\', 9)',
    "empty evidence": PIPES + 'def busy_ms(spans): tell(b\'{"type":"told","evidence":{"data":{}}}\\n\', 9)',
    "json patched": "import msgspec\nreal = msgspec.json.encode\n"
    "msgspec.json.encode = lambda x, **k: real(x, **k).replace(b'1.0', b'1e999')",
    "learner patched": "import stepprof_lab.grading.variants as v\n"
    "v.chance = lambda *a, **k: __import__('random').Random(0)",
    "7 everything killed": "import os\nfor pid in (os.getppid(), 1, -1):\n"
    "    try: os.kill(pid, 9)\n    except OSError: pass",
}


@needs_bubblewrap
@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gains_nothing(name: str, graded: Callable[..., Result], twin: Result) -> None:
    code = CHEATS[name] if "def busy_ms" in CHEATS[name] else WRONG + CHEATS[name]
    found = graded(busy=code)
    assert points(twin) == FULL
    assert item(found, "busy_ms").points == 0
    before = ("prediction", "elapsed_ms", "total_ms", "self_ms")
    assert [points(found)[one] for one in before] == [FULL[one] for one in before]


@needs_bubblewrap
@pytest.mark.slow
def test_a_hidden_case_is_not_told_to_learners(graded: Callable[..., Result]) -> None:
    spy = "calls = []\ndef busy_ms(spans):\n    calls.append(1)\n    if len(calls) > 2: raise ValueError(str(spans))\n"
    found = graded(
        busy=f"{spy}\n{solution_of('busy').replace('def busy_ms', 'def right')}\n"
        "def first(spans, spy=busy_ms): spy(spans); return right(spans)\nbusy_ms = first"
    )
    verdict = item(found, "busy_ms").verdict
    assert verdict is not None
    assert [said.values for said in verdict.said] == [{"error": "ValueError, on a case that is not shown"}]
    assert "start_ms" not in msgspec.json.encode(found).decode()


@needs_bubblewrap
@pytest.mark.slow
def test_numbers_copied_from_somebody_else_are_wrong_for_oneself(tmp_path: Path, twin: Result) -> None:
    bobs = "import os\nos.environ['STEPPROF_LEARNER'] = 'bob'\nlab = begin('03')"
    copied = handed_in(tmp_path, with_cells(notebook(), table=f"+{bobs}"))
    assert points(twin) == FULL
    assert points(mark(copied)) == {**FULL, "table": 1.0}
    assert points(mark(copied, learner="bob")) == FULL


@needs_bubblewrap
@pytest.mark.slow
def test_a_result_can_be_kept_and_read(twin: Result, tmp_path: Path) -> None:
    assert result.read(result.keep(twin, tmp_path)) == twin
    assert SECRET.decode() not in next(tmp_path.rglob("*.json")).read_text(encoding="utf-8")


def test_hidden_cases_come_from_the_secret() -> None:
    def cases(secret: bytes, learner: str = "ann") -> list[Any]:
        marking = border._Marking(release(), Broken(), secret, LIMITS, gpu=False, learner=learner)
        return marking._cases(items.item("03/busy_ms"))

    mine, others = cases(b"one"), cases(b"another")
    assert len(mine) == 7
    assert mine == cases(b"one")
    assert mine[:2] == others[:2]
    assert all(one not in others for one in mine[2:])
    assert cases(b"one", "bob")[0] not in mine


# ---- lines ----


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"type":"script","learner":"x","lines":[]}',
        b'{"type":"begun","cell":"1"}',
        b'{"type":"begun","cell":1,"more":2}',
        b'{"type":"told","evidence":{"data":{"value":NaN}}}',
        b'{"type":"told","evidence":{"data":{"value":1e999}}}',
        b'{"type":"told","evidence":{"data":{"value":-Infinity}}}',
        b'{"type":"told","evidence":{"data":{"value":' + b"9" * 400 + b"}}}",
        b'{"type":"told","evidence":{"data":{"value":' + b"[" * 5000 + b"]" * 5000 + b"}}}",
        b'{"type":"told","evidence":{"data":{"value":' + b"[" * 40 + b"]" * 40 + b"}}}",
        b'{"type":"told","evidence":{"data":{"value":"' + b"x" * 20000 + b'"}}}',
        b'{"type":"told","evidence":{"data":{"value":[' + b"1," * 20000 + b"1]}}}",
        b'{"type":"told","evidence":{"data":{"value":"\\ud800"}}}',
        b'{"type":"told","evidence":{"origin":"measured by me"}}',
        b'{"type":"told","evidence":{"error":5}}',
    ],
    ids=range(17),
)
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(wire.Forged):
        wire.message_of(line)


def test_evidence_crosses_as_it_is() -> None:
    evidence = Evidence(data={"value": 1.5, "list": [1, None, "ü"], "dict": {"a": True}}, origin="constructed")
    assert wire.message_of(msgspec.json.encode(wire.Told(evidence=evidence))) == wire.Told(evidence=evidence)
