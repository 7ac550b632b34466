"""What is drawn on a terminal, and what a screen reader hears."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from stepprof_lab.report import text, words


class Output:
    """A console over a stream of a chosen encoding."""

    def __init__(self, *, width: int = 100, encoding: str = "utf-8", terminal: bool = False) -> None:
        self.raw = io.BytesIO()
        self.stream = io.TextIOWrapper(self.raw, encoding=encoding, errors="strict", newline="")
        self.console = Console(
            file=self.stream, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None
        )
        self.encoding = encoding

    def read(self) -> str:
        self.stream.flush()
        return self.raw.getvalue().decode(self.encoding)


def of_analysis(analysis: Any, *, record: Any = None, as_plain: bool = False, **how: Any) -> str:
    output = Output(**how)
    text.show_analysis(analysis, output.console, record=record, plain=as_plain)
    return output.read()


def flowing(drawn: str) -> str:
    return " ".join(drawn.split())


def test_the_regime_comes_first_in_words_then_the_question(samples: Any) -> None:
    first, second, *_ = of_analysis(samples.cpu_analysis()).splitlines()
    assert flowing(first) == "Regime waits for input"
    assert flowing(second) == "Question Is compute waiting for data?"
    assert "none was recorded" in of_analysis(samples.gpu_analysis()).splitlines()[1]


def test_the_question_of_the_record_heads_a_trace_that_has_none(samples: Any) -> None:
    drawn = of_analysis(samples.gpu_analysis(), record=samples.record("Is a copy repeated?"))
    assert "Is a copy repeated?" in drawn.splitlines()[1]


def test_without_gpu_there_is_no_gpu_column_and_one_line_says_why(samples: Any) -> None:
    drawn = of_analysis(samples.cpu_analysis())
    lines = [line for line in drawn.splitlines() if "GPU" in line]
    assert len(lines) == 1
    assert "not observed: the capture collected CPU activity only" in lines[0]
    assert "elapsed, host clock (ms)" in drawn
    assert "6.103" in drawn


def test_with_gpu_elapsed_and_gpu_stand_in_different_columns(samples: Any) -> None:
    drawn = of_analysis(samples.gpu_analysis(), width=200)
    for head in ("elapsed, host clock (ms)", "GPU busy by its launches (ms)", "of it, foreign (ms)", "GPU tail (ms)"):
        assert head in drawn
    assert "sum with children: not elapsed (ms)" in drawn
    assert "recorded: a real trace" in drawn


@pytest.mark.parametrize("width", [20, 34, 40, 60, 80, 100, 200])
def test_nothing_is_cut_off_at_the_right_whatever_the_width(samples: Any, width: int) -> None:
    drawn = of_analysis(samples.gpu_analysis(), record=samples.record(), width=width)
    assert max(len(line) for line in drawn.splitlines()) <= width
    # The last column of the widest table, and the sum beside it.
    for value in ("0.160", "5.000", "64x64,", "64x10"):
        assert value in flowing(drawn)


def test_findings_say_observation_hypothesis_check_and_at_most(samples: Any) -> None:
    drawn = flowing(of_analysis(samples.cpu_analysis(), width=200))
    finding = samples.input_wait()
    for sentence in (finding.id, finding.observation, finding.hypothesis, finding.next_check):
        assert sentence in drawn
    assert "could explain at most 75.2 % of the step" in drawn
    assert "ProfilerStep#26" in drawn


def test_no_finding_is_said_in_words(samples: Any) -> None:
    drawn = flowing(of_analysis(samples.cpu_analysis(found=False), width=200))
    assert words.NOTHING_FOUND in drawn
    assert "cannot be decided from this trace" in drawn


def test_eight_operators_are_shown_and_the_rest_is_counted(samples: Any) -> None:
    drawn = of_analysis(samples.cpu_analysis())
    assert "aten::op_7" in drawn
    assert "aten::op_8" not in drawn
    assert "5 further operators not shown" in flowing(drawn)


def test_the_approach_is_drawn_with_its_scale(samples: Any) -> None:
    drawn = of_analysis(samples.cpu_analysis(), record=samples.record())
    assert "24 unprofiled steps; 4 loader workers" in drawn
    assert "from 0 to 92.100 ms" in drawn
    line = next(line for line in drawn.splitlines() if "█" in line)
    assert line.strip() == "█▁▁▁▅▁▁▁▅▁▁▁▅▁▁▁▅▁▁▁▅▁▁▁"


def test_a_sparkline_never_draws_something_as_nothing() -> None:
    assert text.sparkline([0.0, 1e-9, 8.0, 8.0]) == " ▁██"
    assert text.sparkline([0.0, 1e-9, 8.0, 8.0], bars_can_be_written=False) == " .@@"
    assert text.sparkline([]) == ""
    assert text.sparkline([5000.0, 4.0, 4.0, 2.0]) == "^██▄"
    assert text.sparkline([0.0]) == " "


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("as_plain", [False, True])
def test_an_encoding_that_lacks_the_characters_does_not_stop_a_report(
    samples: Any, encoding: str, as_plain: bool
) -> None:
    drawn = of_analysis(
        samples.cpu_analysis("读取"), record=samples.record(), as_plain=as_plain, encoding=encoding, width=120
    )
    assert "\\u8bfb\\u53d6" in drawn
    assert "█" not in drawn
    output = Output(encoding=encoding)
    text.show_validation(samples.validation(), output.console, plain=as_plain)
    assert "faster" in output.read()


def test_no_line_ends_in_padding_when_piped(samples: Any) -> None:
    for line in of_analysis(samples.gpu_analysis(), record=samples.record()).splitlines():
        assert line == line.rstrip()


@pytest.mark.parametrize("as_plain", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_names_steer_nothing(samples: Any, as_plain: bool, terminal: bool) -> None:
    for name in samples.HOSTILE:
        drawn = of_analysis(
            samples.cpu_analysis(name),
            record=samples.record(name, name),
            as_plain=as_plain,
            terminal=terminal,
            width=400,
        )
        assert "\x1b[31m" not in drawn
        assert "\x1b]" not in drawn
        assert not {"\x00", "\x07", "\x9b", "\u202e", "\u2066", "\u2028", "\ud800"} & set(drawn)
        if name.startswith("[bold red]"):
            assert "[bold red]markup[/] :boom: [link=file:///x]" in drawn


def test_no_colour_when_piped_and_bold_heads_on_a_terminal(samples: Any) -> None:
    assert "\x1b" not in of_analysis(samples.cpu_analysis(), record=samples.record())
    assert "\x1b[1m" in of_analysis(samples.cpu_analysis(), terminal=True)
    assert "\x1b" not in of_analysis(samples.cpu_analysis(), terminal=True, as_plain=True)


def test_plain_is_one_fact_a_line_with_stable_names(samples: Any) -> None:
    drawn = of_analysis(samples.cpu_analysis(), record=samples.record(), as_plain=True, width=20)
    lines = drawn.splitlines()
    facts = dict(line.split(": ", 1) for line in lines)
    assert len(facts) == len(lines)
    assert facts["question"] == "Is compute waiting for data?"
    assert facts["regime"] == "waits for input"
    assert facts["gpu"] == "not observed: the capture collected CPU activity only"
    assert facts["step.1.name"] == "ProfilerStep#26"
    assert facts["step.1.elapsed"] == "6.103 ms"
    assert facts["label.1.elapsed"] == "402.1 µs"
    assert facts["finding.1.id"] == "input-wait"
    assert facts["approach.2.first"] == "87.000 ms"
    assert facts["approach.2.mean"] == "15.225 ms"
    assert not any(key.startswith("step.1.gpu") for key in facts)
    assert not set("█▁─│") & set(drawn)


def test_plain_gives_unequal_results_equal_names(samples: Any) -> None:
    def names(analysis: Any) -> set[str]:
        return {line.split(": ", 1)[0] for line in of_analysis(analysis, as_plain=True).splitlines()}

    cpu, gpu = names(samples.cpu_analysis()), names(samples.gpu_analysis())
    assert {"question", "regime", "trace", "origin", "gpu", "step.1.elapsed", "operator.1.self"} <= cpu & gpu
    assert "step.2.gpu_tail" in gpu - cpu


def test_a_verdict_with_its_numbers(samples: Any) -> None:
    output = Output(width=160)
    text.show_validation(samples.validation(), output.console)
    drawn = flowing(output.read())
    assert "faster: after takes less time than before" in drawn
    assert "0.270 after / before (below 1 is faster)" in drawn
    assert "0.259 to 0.284 (95 %, over replicates)" in drawn
    assert "The median disagrees: it does not see the stalls." in drawn
    assert "16 blocks, 192 step times, nothing deleted" in drawn
    assert "equal bit by bit over 5 steps" in drawn
    assert "182.000 ms before" in drawn


def test_arms_that_cannot_be_compared_have_no_ratio(samples: Any) -> None:
    output = Output(width=160)
    text.show_validation(samples.not_comparable(), output.console, scenario=samples.scenario(), plain=True)
    facts = dict(line.split(": ", 1) for line in output.read().splitlines())
    assert facts["verdict"].startswith("not comparable: ")
    assert facts["ratio"] == "not observed: nothing was timed"
    assert facts["question"] == "Is compute waiting for data?"
    assert "interval" not in facts
    assert facts["beside.outputs"].startswith("different over 5 steps")
    assert facts["beside.outputs"].endswith("largest absolute difference 0.25")
    assert facts["beside.load"] == "not observed"


def test_a_capture_says_what_it_holds_and_how_to_go_on(samples: Any) -> None:
    output = Output(width=160)
    text.show_captured(samples.record(), output.console)
    drawn = flowing(output.read())
    assert "a valid trace" in drawn
    assert "stepprof read digits.json.gz" in drawn
    assert "with_stack" in drawn
    assert "the step ran under autocast" in drawn
    assert "two step spans passed" in drawn


def test_a_capture_that_is_not_valid_is_not_offered_for_reading(samples: Any) -> None:
    import msgspec

    output = Output(width=160)
    text.show_captured(msgspec.structs.replace(samples.record(), valid=False), output.console)
    drawn = output.read()
    assert "NOT VALID" in drawn
    assert "stepprof read" not in drawn


@pytest.mark.parametrize("as_plain", [False, True])
def test_a_diagnosis_names_what_stands_in_the_way(monkeypatch: pytest.MonkeyPatch, as_plain: bool) -> None:
    import stepprof_lab.doctor

    diagnosis = SimpleNamespace(
        blockers=[SimpleNamespace(id="no-torch", what="torch is not installed", todo="install the extra 'run'")],
        notes=["the load is high"],
    )
    monkeypatch.setattr(
        stepprof_lab.doctor, "facts", lambda _: [("torch", "not installed"), ("GPU", "none was observed")]
    )
    output = Output()
    text.show_diagnosis(diagnosis, output.console, plain=as_plain)
    drawn = flowing(output.read())
    for words_of in ("none was observed", "torch is not installed", "install the extra 'run'", "the load is high"):
        assert words_of in drawn
