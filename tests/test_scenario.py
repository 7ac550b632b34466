# ruff: noqa: RUF001 - questions in several scripts
"""A scenario comes back as it was written, and what is wrong with one is said with its reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepprof_lab.errors import StepprofError
from stepprof_lab.scenario import (
    PARTS,
    UNITS_OF,
    Boundary,
    Conditions,
    Outputs,
    Scenario,
    check,
    dumps,
    inline,
    load,
    loads,
    save,
)

TRAINING = """
question = "Is compute waiting for data?"
kind = "training"
unit = "ms/step"

[boundary]
read = true
transfer = true
forward = true
backward = true
update = true
model_load = false
"""
REQUEST = (
    TRAINING.replace('"training"', '"inference"')
    .replace("ms/step", "ms/request")
    .replace("backward = true", "backward = false")
    .replace("update = true", "update = false")
)


def refusal(text: str) -> str:
    with pytest.raises(StepprofError) as caught:
        loads(text)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Any text at all, for what no rule forbids; nothing in it is long enough to be a secret by chance.
texts = st.text(max_size=20).filter(lambda text: not set(text) & set("@/\\~"))
questions = st.builds("{}Why {}?".format, *[texts.filter(lambda text: not set(text) & set("?？؟;‽⁇⁈⁉﹖"))] * 2)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kind = draw(st.sampled_from(["training", "inference"]))
    parts = {part: draw(st.booleans()) for part in PARTS}
    parts["read"] = True
    if kind == "inference":
        parts.update(backward=False, update=False)
    unit = draw(st.sampled_from(UNITS_OF[kind]))
    if unit == "ms/request":
        parts["model_load"] = False
    stated: dict[str, Any] = {
        "shapes": draw(st.lists(texts, max_size=3)),
        "batch": draw(st.none() | st.integers(1, 2**63 - 1)),
        "precision": draw(st.none() | texts),
        "mode": draw(st.none() | st.sampled_from(["train", "eval"])),
        "compiled": draw(st.none() | st.booleans()),
        "data_source": draw(st.none() | texts),
        "loader_workers": draw(st.none() | st.integers(0, 2**63 - 1)),
        "differs_from_full_load": draw(st.none() | texts),
    }
    there = [name for name, value in stated.items() if value not in (None, [])]
    observed = draw(st.lists(st.sampled_from(there), unique=True)) if there else []
    tolerances = st.floats(0, allow_infinity=False, allow_nan=False)
    return Scenario(
        question=draw(questions),
        kind=kind,
        boundary=Boundary(**parts),
        unit=unit,
        seed=draw(st.integers(0, 2**63 - 1)),
        change=draw(st.none() | texts),
        conditions=Conditions(**stated, observed=observed),
        outputs=Outputs(
            relative_tolerance=draw(tolerances),
            absolute_tolerance=draw(tolerances),
            reason="because " + draw(texts),
        ),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_any_scenario_comes_back_as_it_was_written(scenario: Scenario) -> None:
    check(scenario)
    assert loads(dumps(scenario)) == scenario


@pytest.mark.parametrize(
    "question",
    [
        'Why "this"?',
        'Why \'this\' and """that"""?',
        "Why\nin two lines?",
        "Why\r\n\ttabs?",
        "# no comment?",
        "¿Por qué? ",
        "データを待っていますか？",
        "Why so slow?!",
        "Why \x00\x1b\x7f\u2028?",
        "where does the time go",
    ],
)
def test_a_question_may_be_any_text(question: str, tmp_path: Path) -> None:
    scenario = msgspec.structs.replace(loads(TRAINING), question=question)
    save(scenario, tmp_path / "a.toml")
    assert load(tmp_path / "a.toml") == scenario


def test_the_written_file_explains_itself_and_states_only_what_was_stated() -> None:
    text = dumps(loads(TRAINING))
    assert "update = true  # the update" in text
    assert "# What one step includes (true) and leaves out (false)." in text
    assert "conditions" not in text
    assert "seed" not in text


@pytest.mark.parametrize("part", PARTS)
def test_a_boundary_says_of_every_part_whether_it_is_in(part: str) -> None:
    line = next(line for line in TRAINING.splitlines() if line.startswith(f"{part} ="))
    said = refusal(TRAINING.replace(line, ""))
    assert f"a training step whose boundary leaves out {PARTS[part]}: say so with `{part} = false`" in said
    assert f"say so with `{part} = false`" in refusal(
        REQUEST.replace(f"{part} = true", "").replace(f"{part} = false", "")
    )


def test_a_training_step_may_leave_out_the_update_if_it_says_so() -> None:
    assert loads(TRAINING.replace("update = true", "update = false")).boundary.update is False


@pytest.mark.parametrize("question", ["", "?", "  ", "...", "？", "!?"])
def test_no_question_no_scenario(question: str) -> None:
    assert "no question" in refusal(TRAINING.replace("Is compute waiting for data?", question))


def test_a_missing_question_is_no_question() -> None:
    assert "no question" in refusal(TRAINING.replace('question = "Is', '# question = "Is'))


@pytest.mark.parametrize("question", ["Why A? Why B?", "Is A? Or B? Or C?", "A?B?", "慢吗？为什么？", "لماذا؟ متى؟"])
def test_one_question_a_scenario(question: str) -> None:
    assert "one question a scenario" in refusal(TRAINING.replace("Is compute waiting for data?", question))


def test_a_sentence_after_the_question_is_no_second_question() -> None:
    question = "Is A slower than B? The trace of last week says so!"
    assert loads(TRAINING.replace("Is compute waiting for data?", question)).question == question


WRONG = {
    "bondary = 1": "unknown key 'bondary': did you mean 'boundary'?",
    "read = true": "unknown key 'read': it belongs in [boundary]",
    "batch = 3": "unknown key 'batch': it belongs in [conditions]",
    "qwzx = 1": "unknown key 'qwzx'",
    "seed = -1": "`seed` is -1; expected a whole number from 0 to 2**63 - 1",
    f"seed = {2**63}": "`seed` is a huge number",
    "seed = true": "`seed` is true; expected a whole number",
    "change = 3": "`change` is 3; expected a text in quotes",
    "change = 1979-05-27": "`change` is a date; expected a text in quotes",
    'change = "ask alice@example.com"': "`change` holds an e-mail address",
    "outputs = 3": "`outputs` is 3; it is a table, [outputs]",
    "outputs.relative_tolerance = 1e-5": "a tolerance that has no reason",
    'outputs = {absolute_tolerance = 1, reason = " "}': "a tolerance that has no reason",
    'outputs = {absolute_tolerance = -1, reason = "r"}': "`outputs.absolute_tolerance` is -1.0; expected a number",
    'outputs = {relative_tolerance = nan, reason = "r"}': "`outputs.relative_tolerance` is nan",
    'outputs = {relative_tolerance = inf, reason = "r"}': "`outputs.relative_tolerance` is inf",
    'outputs.relative_tolerance = "1e-5"': "`outputs.relative_tolerance` is '1e-5'; expected a number",
    "conditions.batch = 0": "`conditions.batch` is 0; expected a whole number from 1",
    'conditions.batch = "64"': "`conditions.batch` is '64'; expected a whole number",
    "conditions.batch = 6.5": "`conditions.batch` is 6.5; expected a whole number",
    "conditions.loader_workers = -1": "`conditions.loader_workers` is -1; expected a whole number from 0",
    "conditions.shapes = [64]": "`conditions.shapes` is a list; expected a list of texts in quotes",
    'conditions.shapes = ["64", "/home/alice/x"]': "`conditions.shapes[1]` holds a home directory",
    'conditions.mode = "evl"': "`conditions.mode` is 'evl'; expected 'train' or 'eval': did you mean 'eval'?",
    "conditions.unit = 3": "unknown key 'unit' in [conditions]: it belongs at the top, before the first [table]",
    'conditions.observed = ["batc"]': "names 'batc', which is no condition: did you mean 'batch'?",
    'conditions.observed = ["batch"]': "names 'batch', which has no value",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_named_with_its_place(line: str) -> None:
    assert WRONG[line] in refusal(f"{line}\n{TRAINING}")


def test_a_key_that_holds_a_secret_is_not_repeated() -> None:
    token = "hf_" + "aB3" * 11
    said = refusal(f'"{token}" = 1\n{TRAINING}')
    assert "unknown key" in said
    assert token not in said


def test_a_missing_table_or_key_has_its_reason() -> None:
    said = refusal(TRAINING.split("[boundary]", maxsplit=1)[0])
    assert "[boundary] is missing: say what one step includes and leaves out, with read, transfer" in said
    assert "`kind` is missing" in refusal(TRAINING.replace('kind = "training"', ""))
    assert "`unit` is missing" in refusal(TRAINING.replace('unit = "ms/step"', ""))
    assert "did you mean 'training'?" in refusal(TRAINING.replace('"training"', '"trainng"'))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TRAINING.replace("ms/step", "ms/request"), "'ms/request' is for inference; training takes 'ms/step' or"),
        (REQUEST.replace("ms/request", "ms/step"), "'ms/step' is for training; inference takes 'ms/request' or"),
        (REQUEST.replace("backward = false", "backward = true"), "`boundary.backward` is true, and inference has no"),
        (REQUEST.replace("update = false", "update = true"), "`boundary.update` is true, and inference has no"),
        (REQUEST.replace("load = false", "load = true"), "loading the model is not part of a request"),
        (TRAINING.replace("true", "false"), "[boundary] includes nothing"),
        (TRAINING.replace("read = true", "read = 1"), "`boundary.read` is 1; expected true or false"),
    ],
)
def test_boundary_and_unit_fit_the_kind(text: str, reason: str) -> None:
    assert reason in refusal(text)


@pytest.mark.parametrize("text", [TRAINING, REQUEST])
def test_samples_a_second_fit_both_kinds(text: str) -> None:
    assert loads(text.replace("ms/step", "samples/s").replace("ms/request", "samples/s")).unit == "samples/s"


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = refusal('question = "?"\nsed = 1\nkind = "training"\nunit = "ms/step"\n[boundary]\nread = 1\n')
    for reason in ("unknown key 'sed': did you mean 'seed'?", "`boundary.read` is 1", "`update = false`"):
        assert reason in said
    many = refusal("\n".join(f"qwzx{number} = 1" for number in range(1000)) + TRAINING)
    assert "and 992 more" in many
    assert len(many) < 1000


@pytest.mark.parametrize("text", ["question = ", "= 3", "a = 1\na = 2", "[" * 5000, "a = " + "[" * 5000])
def test_what_is_no_toml_is_said(text: str) -> None:
    assert "scenario is not TOML (" in refusal(text)


def test_a_number_of_too_many_digits_is_refused() -> None:
    refusal("seed = " + "1" * 5000 + TRAINING)


def test_a_toml_error_names_line_and_column() -> None:
    assert "line 3, column" in refusal('\n\nkind "training"\n')


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("question = 'été'".encode("latin-1"))
    (tmp_path / "trace").write_bytes(b"#" * 2_000_000)
    for name, reason in {
        "absent.toml": "stepprof new",
        ".": "is a directory",
        "latin": "is not UTF-8 text (byte 13)",
        "trace": "larger than 1 MB",
        "nul\0": "cannot be read",
    }.items():
        with pytest.raises(StepprofError) as caught:
            load(tmp_path / name)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_of_another_editor_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + TRAINING.replace("\n", "\r\n").encode())
    assert load(str(tmp_path / "a.toml")) == loads(TRAINING)


def test_saving_never_replaces_and_never_writes_what_could_not_be_read(tmp_path: Path) -> None:
    scenario = loads(TRAINING)
    save(scenario, tmp_path / "a.toml")
    before = (tmp_path / "a.toml").read_bytes()
    with pytest.raises(StepprofError, match="exists already"):
        save(msgspec.structs.replace(scenario, seed=1), tmp_path / "a.toml")
    assert (tmp_path / "a.toml").read_bytes() == before
    for wrong in ({"seed": -1}, {"question": "half \ud800?"}, {"kind": "trainin"}, {"seed": object()}):
        with pytest.raises(StepprofError):
            save(msgspec.structs.replace(scenario, **wrong), tmp_path / "b.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_inline_takes_words_or_a_boundary() -> None:
    words = inline("Why?", boundary="read, transfer forward backward update", unit="ms/step", seed=3)
    assert words == loads(TRAINING.replace("Is compute waiting for data?", "Why?").replace("kind", "seed = 3\nkind", 1))
    assert inline("Why?", boundary=words.boundary, unit="ms/step", seed=3) == words
    assert inline("Why?", kind="inference", boundary="forward", unit="ms/request").boundary.update is False
    assert inline("Why?", boundary="read model-load", unit="ms/step").boundary.model_load is True


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "[boundary] is missing"),
        ({"boundary": "read"}, "`unit` is missing"),
        ({"boundary": "raed", "unit": "ms/step"}, "did you mean 'read'?"),
        ({"boundary": "", "unit": "ms/step"}, "[boundary] includes nothing"),
        ({"boundary": "read", "unit": "ms/stp"}, "did you mean 'ms/step'?"),
        ({"boundary": "read", "unit": "ms/step", "kind": "train"}, "did you mean 'training'?"),
        ({"boundary": "read", "unit": "ms/step", "seed": 1.5}, "`seed` is 1.5"),
    ],
)
def test_inline_is_checked_as_a_file_is(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(StepprofError) as caught:
        inline("Why?", **arguments)
    assert reason in str(caught.value)


def test_a_scenario_is_read_without_torch_and_numpy() -> None:
    code = "import sys, stepprof_lab.scenario, stepprof_lab.questions; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
