"""The question, asked before a trace exists: what a step is, under which conditions, in which unit.

A scenario is a small TOML file. `load` reads it, `save` writes it, and reading what was written gives the same
scenario. Wherever a scenario comes from (a file, `inline`, Python), it passes the same checks, and what is wrong with
it is said all at once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import tomli_w

from stepprof_lab import files, privacy
from stepprof_lab.errors import StepprofError

Kind = Literal["training", "inference"]
Unit = Literal["ms/step", "ms/request", "samples/s"]

UNITS_OF: dict[Kind, tuple[Unit, ...]] = {
    "training": ("ms/step", "samples/s"),
    "inference": ("ms/request", "samples/s"),
}
"""The units that fit each kind, the usual one first."""

PARTS = {
    "read": "reading the batch",
    "transfer": "the transfer to the device",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "update": "the update",
    "model_load": "loading the model",
}
"""The parts of a boundary, in words."""


class Boundary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one step includes (true) and leaves out (false)."""

    read: bool
    transfer: bool
    forward: bool
    backward: bool
    update: bool
    model_load: bool


class Conditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Under which conditions the step runs; what is None or empty was not stated."""

    shapes: list[str] = []
    """Shapes of the step's inputs, as text: ["64x1x8x8", "64"]."""
    batch: int | None = None
    precision: str | None = None
    """float32, bfloat16, mixed bfloat16 ..."""
    mode: Literal["train", "eval"] | None = None
    compiled: bool | None = None
    data_source: str | None = None
    loader_workers: int | None = None
    differs_from_full_load: str | None = None
    """How this scene differs from the load it stands for."""
    observed: list[str] = []
    """Names of the conditions above that were observed on a running workload, not stated by a person."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far the outputs of two arms may differ; by default not at all."""

    relative_tolerance: float = 0.0
    absolute_tolerance: float = 0.0
    metrics: dict[str, float] = {}
    """How far each quality metric of the step may differ, absolutely; one that is not named may not."""
    reason: str | None = None
    """Why a tolerance is right; asked for wherever one is given."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One question about one step."""

    question: str
    kind: Kind
    boundary: Boundary
    unit: Unit
    seed: int = 0
    change: str | None = None
    """The one controlled change, where there is one already."""
    conditions: Conditions = Conditions()
    outputs: Outputs = Outputs()


_LARGEST = 2**63 - 1
"""The largest integer that TOML promises to carry."""

_MOST_BYTES = 1_000_000
"""No scenario is as large as this; a trace given by mistake is."""

_QUESTION_MARK = re.compile(r"[?？؟;⁇⁈⁉‽﹖][?？؟;⁇⁈⁉‽﹖!！\s]*")  # noqa: RUF001 - question marks of other scripts
"""One end of a question: "?", "?!", "? ?", in any script."""

_WHY_NEEDED = {
    "question": 'no question: a capture answers one, such as `question = "is compute waiting for data?"`',
    "kind": '`kind` is missing: say what a step is, `kind = "training"` or `kind = "inference"`',
    "boundary": (
        f"[boundary] is missing: say what one step includes and leaves out, with {', '.join(PARTS)}, each true or false"
    ),
    "unit": '`unit` is missing: without one answers cannot be compared; say "ms/step", "ms/request" or "samples/s"',
}
"""Why each key without a default has none."""


def loads(text: str, where: str = "scenario") -> Scenario:
    """A scenario from TOML.

    Args:
        text: the TOML.
        where: what the text is, for the error line (``scenario 'a.toml'``).

    Raises:
        StepprofError: the text is no TOML, or no scenario; all that is wrong is in the one line.
    """
    if sys.version_info >= (3, 11):  # here, because most commands read no TOML
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: TOMLDecodeError, and integers of too many digits
        raise StepprofError(
            f"{where} is not TOML ({error})", "a file such as `stepprof new` writes", "correct that line"
        ) from error
    return from_mapping(data, where)


def load(path: str | Path) -> Scenario:
    """The scenario in a file.

    Raises:
        StepprofError: the file cannot be read, or holds no scenario.
    """
    where = f"scenario {str(path)!r}"
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        missing = isinstance(error, FileNotFoundError)
        reason = "is a directory" if Path(path).is_dir() else getattr(error, "strerror", None) or str(error)
        raise StepprofError(
            f"{where} cannot be read ({reason})",
            "a scenario file (TOML)",
            "write one with `stepprof new`" if missing else "give the name of the file",
        ) from error
    if len(data) > _MOST_BYTES:
        raise StepprofError(f"{where} is larger than 1 MB", "a scenario file (TOML)", "check that it is no trace")
    try:
        text = data.decode("utf-8-sig")  # Some editors on Windows put a byte order mark first.
    except UnicodeDecodeError as error:
        raise StepprofError(
            f"{where} is not UTF-8 text (byte {error.start + 1})", "a scenario file (TOML)", "save it as UTF-8"
        ) from error
    return loads(text, where)


def dumps(scenario: Scenario) -> str:
    """A scenario as TOML with a comment for each part; `loads` gives the same scenario again."""
    data = msgspec.to_builtins(scenario)
    tables = {name: data.pop(name) for name in ("boundary", "conditions", "outputs") if name in data}
    boundary = [f"{tomli_w.dumps({part: tables['boundary'][part]}).strip()}  # {PARTS[part]}" for part in PARTS]
    lines = [
        "# One question about one step. Read and checked by stepprof.",
        tomli_w.dumps(data).strip(),
        "",
        "# What one step includes (true) and leaves out (false).",
        "[boundary]",
        *boundary,
    ]
    for name, comment in (
        ("conditions", "# Under which conditions the step runs; what is absent was not stated."),
        ("outputs", "# How far the outputs before and after a change may differ, and why that is right."),
    ):
        if tables.get(name):
            lines += ["", comment, tomli_w.dumps({name: tables[name]}).strip()]
    return "\n".join(lines) + "\n"


def save(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario into a new file.

    Raises:
        StepprofError: the scenario does not pass `check`, the name is taken, or the file cannot be written.
    """
    check(scenario, "scenario to be written")
    files.write_new(Path(path), dumps(scenario).encode(), "scenario")


def check(scenario: Scenario, where: str = "scenario") -> None:
    """Refuse a scenario that was made in Python and could not have been read from a file.

    Raises:
        StepprofError: all that is wrong, in one line.
    """
    try:
        data = msgspec.to_builtins(scenario)
    except TypeError as error:
        raise StepprofError(f"{where} cannot be written ({error})", "plain values", "convert them first") from error
    from_mapping(data, where)


def inline(
    question: str,
    *,
    kind: str = "training",
    boundary: Boundary | str | None = None,
    unit: str | None = None,
    seed: int = 0,
) -> Scenario:
    """A scenario for a loop that has no scenario file.

    Args:
        question: the one question that the trace is to answer.
        kind: "training" or "inference".
        boundary: what a step includes, as a `Boundary` or as the names of its parts
            ("read transfer forward backward update"); parts that are not named are left out.
        unit: "ms/step", "ms/request" or "samples/s".
        seed: where random numbers start.

    Raises:
        StepprofError: as `loads`.
    """
    data: dict[str, Any] = {"question": question, "kind": kind, "seed": seed}
    if isinstance(boundary, Boundary):
        data["boundary"] = msgspec.to_builtins(boundary)
    elif boundary is not None:
        data["boundary"] = _boundary_of_words(boundary)
    if unit is not None:
        data["unit"] = unit
    return from_mapping(data, "inline scenario")


def _boundary_of_words(words: str) -> dict[str, bool]:
    named = [word.replace("-", "_") for word in re.split(r"[\s,]+", words) if word]
    unknown = [word for word in named if word not in PARTS]
    if unknown:
        raise StepprofError(
            f"boundary names {_shown(unknown[0])}, which is no part of a step{_meant(unknown[0], PARTS)}",
            f"words out of: {' '.join(PARTS)}",
            "name the parts that the step includes",
        )
    return {part: part in named for part in PARTS}


def from_mapping(data: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """A checked scenario from plain values, as TOML has them.

    Raises:
        StepprofError: all that is wrong, in one line.
    """
    problems = problems_of(data)
    if problems:
        more = [f"and {len(problems) - 8} more"] if len(problems) > 8 else []
        raise StepprofError(
            f"{where}: {'; '.join(problems[:8] + more)}", "one question about one step, whole", "correct this"
        )
    return msgspec.convert(data, Scenario)


def problems_of(data: Mapping[str, Any]) -> list[str]:
    """All that keeps plain values from being a scenario, each in words; empty where nothing does."""
    problems = [*_text_problems(data, ""), *_structure_problems(data, Scenario, "", data)]
    if not problems:
        scenario = msgspec.convert(data, Scenario)
        for rule in (_question_problems, _boundary_problems, _unit_problems, _number_problems, _observed_problems):
            problems += rule(scenario)
    return problems


def _shown(value: object) -> str:
    """A value for an error line: short, and without secrets."""
    if isinstance(value, str):
        if privacy.secrets_in(value):
            return "a text that should not be shown"
        return repr(value if len(value) <= 40 else f"{value[:37]}...")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and abs(value) < 1e18:
        return f"{value}"
    return {dict: "a table", list: "a list", int: "a huge number"}.get(type(value), f"a {type(value).__name__}")


def _meant(word: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """``: did you mean 'boundary'?``, or nothing where no known word is near."""
    import difflib

    near = difflib.get_close_matches(word[:40].replace("-", "_"), list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ""


def _text_problems(value: object, path: str) -> Iterator[str]:
    """Texts that cannot be written or should not be shared, wherever they stand."""
    if isinstance(value, str):
        secrets = privacy.secrets_in(value)
        if secrets:
            advice = " and ".join(dict.fromkeys(privacy.INSTEAD[secret.kind] for secret in secrets))
            yield f"`{path}` holds {' and '.join(s.sentence for s in secrets[:3])}, and is shared with traces: {advice}"
        if any("\ud800" <= character <= "\udfff" for character in value):
            yield f"`{path}` holds half a character (a lone surrogate), which no file can hold: type it again"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _text_problems(item, f"{path}.{key}".lstrip(".") if key in _KNOWN_KEYS else path)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _text_problems(item, f"{path}[{number}]")


def _structure_problems(
    data: Mapping[str, Any], struct: type[msgspec.Struct], table: str, whole: Mapping[str, Any]
) -> Iterator[str]:
    """Keys that are unknown or missing, and values of the wrong type."""
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for key in data:
        if key not in fields:
            yield f"unknown key {_shown(key)}{f' in [{table}]' if table else ''}{_place_of(key, fields)}"
    for name, field in fields.items():
        path = f"{table}.{name}" if table else name
        if name not in data:
            if field.required:
                yield _why_needed(name, whole)
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            if isinstance(data[name], Mapping):
                yield from _structure_problems(data[name], field.type, name, whole)
            else:
                yield f"`{path}` is {_shown(data[name])}; it is a table, [{name}]"
        else:
            yield from _type_problems(data[name], field.type, path)


def _place_of(key: str, fields: Mapping[str, object]) -> str:
    """Where an unknown key belongs, or which key it is nearly."""
    for table, struct in _TABLES.items():
        if key in struct.__struct_fields__ and key not in fields:
            return f": it belongs in [{table}]" if table else ": it belongs at the top, before the first [table]"
    return _meant(key, fields)


def _why_needed(name: str, whole: Mapping[str, Any]) -> str:
    if name in _WHY_NEEDED:
        return _WHY_NEEDED[name]
    if whole.get("kind") == "inference":
        if name in ("backward", "update"):
            return f"a request that says nothing about {PARTS[name]}: it has none, say so with `{name} = false`"
        return f"a request whose boundary leaves out {PARTS[name]}: say so with `{name} = false`"
    return f"a training step whose boundary leaves out {PARTS[name]}: say so with `{name} = false`"


def _type_problems(value: object, wanted: Any, path: str) -> Iterator[str]:
    try:
        msgspec.convert(value, wanted)
    except (msgspec.ValidationError, OverflowError):
        choices = [choice for choice in get_args(wanted) if isinstance(choice, str)] or [
            choice for option in get_args(wanted) for choice in get_args(option)
        ]
        if choices and isinstance(value, str):
            expected = f"expected {' or '.join(map(repr, choices))}{_meant(value, tuple(choices))}"
        else:
            expected = f"expected {_WANTED.get(wanted, 'one of ' + ', '.join(map(repr, choices)))}"
        yield f"`{path}` is {_shown(value)}; {expected}"


def _question_problems(scenario: Scenario) -> Iterator[str]:
    if not any(character.isalnum() for character in scenario.question):
        yield _WHY_NEEDED["question"]
    asked = len(_QUESTION_MARK.findall(scenario.question))
    if asked > 1:
        yield f"`question` asks {asked} questions: one question a scenario, so write one scenario for each"


def _boundary_problems(scenario: Scenario) -> Iterator[str]:
    included = [part for part in PARTS if getattr(scenario.boundary, part)]
    if not included:
        yield "[boundary] includes nothing: at least one part of the step is true"
    if scenario.kind == "inference":
        for part in ("backward", "update"):
            if part in included:
                yield f'`boundary.{part}` is true, and inference has no such part: say false, or `kind = "training"`'
    if scenario.boundary.model_load and scenario.unit == "ms/request":
        yield "`boundary.model_load` is true: loading the model is not part of a request, so say false"


def _unit_problems(scenario: Scenario) -> Iterator[str]:
    fitting = UNITS_OF[scenario.kind]
    if scenario.unit not in fitting:
        owner = "inference" if scenario.unit == "ms/request" else "training"
        yield f"`unit` {scenario.unit!r} is for {owner}; {scenario.kind} takes {' or '.join(map(repr, fitting))}"


def _number_problems(scenario: Scenario) -> Iterator[str]:
    conditions, outputs = scenario.conditions, scenario.outputs
    for path, value, least in (
        ("seed", scenario.seed, 0),
        ("conditions.batch", conditions.batch, 1),
        ("conditions.loader_workers", conditions.loader_workers, 0),
    ):
        if value is not None and not least <= value <= _LARGEST:
            yield f"`{path}` is {_shown(value)}; expected a whole number from {least} to 2**63 - 1"
    given = False
    for name in ("relative_tolerance", "absolute_tolerance"):
        tolerance = getattr(outputs, name)
        if not (math.isfinite(tolerance) and tolerance >= 0):
            yield f"`outputs.{name}` is {tolerance}; expected a number that is not negative, such as 1e-5"
        given = given or tolerance != 0
    for name, tolerance in outputs.metrics.items():
        if not (math.isfinite(tolerance) and tolerance >= 0):
            yield f"`outputs.metrics` allows {tolerance} for {_shown(name)}; expected a number that is not negative"
        given = given or tolerance != 0
    if given and not (outputs.reason or "").strip():
        yield "outputs may differ by a tolerance that has no reason: say in `outputs.reason` why it is right"


def _observed_problems(scenario: Scenario) -> Iterator[str]:
    known = tuple(name for name in Conditions.__struct_fields__ if name != "observed")
    for name in scenario.conditions.observed:
        if name not in known:
            yield f"`conditions.observed` names {_shown(name)}, which is no condition{_meant(name, known)}"
        elif getattr(scenario.conditions, name) in (None, []):
            yield f"`conditions.observed` names {name!r}, which has no value"


_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "boundary": Boundary,
    "conditions": Conditions,
    "outputs": Outputs,
}
_KNOWN_KEYS = {name for struct in _TABLES.values() for name in struct.__struct_fields__}
_WANTED: dict[Any, str] = {
    bool: "true or false",
    bool | None: "true or false",
    int: "a whole number",
    int | None: "a whole number",
    float: "a number",
    str: "a text in quotes",
    str | None: "a text in quotes",
    list[str]: "a list of texts in quotes",
    dict[str, float]: "a table of numbers, one for each metric",
}
"""Types as their readers call them."""
