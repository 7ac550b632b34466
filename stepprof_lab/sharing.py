"""A trace and its record as they can be shared: reviewed first, then written under new names.

`review` makes the copies and says what they replace; nothing is written. `write` writes them, whole or not at all.
The copy is read like the original, and it is said whether both give the same numbers and findings.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepprof_lab import files, privacy
from stepprof_lab import record as records
from stepprof_lab.environment import KEPT_VARIABLES, VALUE_NOT_KEPT, Environment
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret
from stepprof_lab.trace.fields import KINDS, Fields
from stepprof_lab.trace.model import Context
from stepprof_lab.trace.names import Namer
from stepprof_lab.trace.redact import Choices, Copy, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepprof_lab.record import Record
    from stepprof_lab.trace.model import Analysis, Interpretation

KEEP = {
    "labels": ("label",),
    "operators": ("operator",),
    "kernels": ("kernel", "call", "event"),
    "threads": ("thread",),
    "inputs": (),
}
"""What can be kept although nobody can judge it, and the sorts of names that each means."""
DROP = ("shapes", "stacks")
"""What can be taken out although it stays otherwise."""

NOT_KEPT = "not kept in this copy"
WORKER_NAME = re.compile(r".+_[0-9]+\.[0-9]+(\.pt)?\.trace")
"""What torch's own handler calls a trace: host, process and time."""
_VERSION = re.compile(
    r"(?:[a-z]{2,6} )?[0-9]{1,9}(?:\.[0-9]{1,9}){0,2}"  # cuda 12.8, 2.13.0; four numbers may be an address
    r"(?:\.?(?:rc|a|b|dev|post)[0-9]{0,9})?(?:\+(?:cpu|cu|rocm|xpu)[0-9.]{0,8})?|cpu"
)
_VERSIONS = frozenset(("stepprof_lab", "python", "torch", "build", "driver", "dnn_library"))


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that the copy does not tell."""

    kind: str
    what: str
    count: int
    distinct: int
    """Different texts among them; 0 where none was kept to count."""
    examples: list[str]
    """Hints: a few characters of what was there, and what stands there now."""


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that the copy still tells."""

    what: str
    count: int


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a trace to share it: the JSON of ``stepprof share``."""

    trace: str
    copy: str | None
    """Path of the copy; None where it was only reviewed."""
    record: str | None
    """Path of the copy's record; None where there is none."""
    replaced: list[Replaced]
    stays: list[Stays]
    unjudged: dict[str, int]
    """For each sort of name, how many hold a word that is not known to be public: such words were replaced."""
    same_numbers: bool
    """Whether the copy, read again, gives the same numbers and findings."""
    differs: list[str]
    """Where it does not."""
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class Reviewed:
    """Copies that are ready to be written, and what can be said about them."""

    trace: Path
    copy: Copy
    record: Record | None
    interpretation: Interpretation
    """Of the copy."""
    shared: Shared

    @property
    def unjudged(self) -> dict[str, list[str]]:
        """For each sort of name those that nobody could judge, most frequent first."""
        return {noun: [name for name, _ in n.most_common()] for noun, n in self.copy.fields.unjudged.items()}


def review(trace: Path, choices: Choices = Choices(), keep: Iterable[str] = ()) -> Reviewed:  # noqa: B008 - frozen
    """Make a copy of a trace and of its record in memory, and say what it hides and what it still tells.

    Args:
        trace: the trace; its record is taken from beside it.
        choices: names that stay, kinds that are taken out.
        keep: of `KEEP`: what stays without being asked about.

    Raises:
        StepprofError: the trace cannot be read.
    """
    trace = Path(trace)
    keep = frozenset(keep)
    choices = dataclasses.replace(choices, keep=choices.keep | (keep & {"inputs"}))
    before, record = records.read(trace)
    copy = redact(trace, choices)
    wanted = {noun for kind in keep for noun in KEEP[kind]}
    kept = {name for noun in wanted for name in copy.fields.unjudged.get(noun, ())}
    if kept - choices.names:
        copy = redact(trace, dataclasses.replace(choices, names=choices.names | kept))
    fields = copy.fields
    shareable = None if record is None else redacted_record(record, fields)
    after = _read_copy(copy, shareable)
    differs = differences(before.analysis, after.analysis, choices.drop)
    notes = [*copy.notes, *_about_record(trace, record)]
    shared = Shared(
        trace=trace.name,
        copy=None,
        record=None,
        replaced=_replaced(fields),
        stays=_stays(fields, shareable),
        unjudged={noun: len(names) for noun, names in fields.unjudged.items()},
        same_numbers=not differs,
        differs=differs,
        notes=notes,
    )
    return Reviewed(trace, copy, shareable, after, shared)


ASKED_ONE_BY_ONE = 20
"""Names of one sort that are asked about one by one; of more, one question is asked about all."""


def asked(reviewed: Reviewed, choices: Choices, confirm: Callable[..., bool]) -> Choices:
    """Ask the trace's owner about the names that nobody else can judge.

    Args:
        reviewed: a copy with these names replaced.
        choices: what was decided before.
        confirm: asks a question and gives the answer, as `click.confirm`; the names are shown whole.
    """
    kept = set(choices.names)
    for noun, names in reviewed.unjudged.items():
        if len(names) <= ASKED_ONE_BY_ONE:
            kept |= {name for name in names if confirm(f"Keep the {noun} name {name!r}?", default=False, err=True)}
        else:
            some = ", ".join(repr(name[:60]) for name in names[:5])
            question = f"Keep all {len(names)} {noun} names with unknown words ({some}, ...)?"
            kept |= set(names) if confirm(question, default=False, err=True) else set()
    return dataclasses.replace(choices, names=frozenset(kept))


def write(reviewed: Reviewed, out: Path | None = None) -> Shared:
    """Write the copy, and its record beside it where there is one: both whole, or neither.

    Args:
        reviewed: what `review` made.
        out: the copy's name (.json or .json.gz); by default one beside the original.

    Raises:
        StepprofError: a name is taken, or the directory cannot be written.
    """
    out = default_name(reviewed) if out is None else Path(out)
    if not out.name.endswith((".json", ".json.gz")):
        raise StepprofError(f"--out {str(out)!r}", "a name that ends with .json or .json.gz", "choose such a name")
    data = reviewed.copy.data
    if out.name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)  # no name and no date in its head
    beside = None
    if reviewed.record is None:
        if records.record_path(out).exists():
            raise files.name_is_taken(records.record_path(out), "record of another trace")
        files.write_new(out, data, "copy")
    else:
        digest = hashlib.sha256(data).hexdigest()
        record = msgspec.structs.replace(reviewed.record, trace=out.name, trace_sha256=digest)
        beside = str(records.keep(record, out, data))
    return msgspec.structs.replace(reviewed.shared, copy=str(out), record=beside)


def default_name(reviewed: Reviewed) -> Path:
    """``<stem>.shared.json.gz`` beside the original; ``trace.shared.json.gz`` where the stem gives something away."""
    stem = records.stem_of(reviewed.trace)
    texts = reviewed.copy.fields.tally.texts
    told = [text for kind in ("host name", "user name") for text in texts.get(kind, ())]
    gives_away = (
        bool(privacy.secrets_in(stem))
        or WORKER_NAME.fullmatch(stem) is not None
        or any(len(text) > 2 and text.lower() in stem.lower() for text in told)
    )
    return reviewed.trace.with_name(f"{'trace' if gives_away else stem}.shared.json.gz")


def read_shareable(trace: Path) -> tuple[Analysis, Record | None]:
    """Interpret a trace as its copy for sharing would be interpreted: nothing in the result gives anything away."""
    reviewed = review(trace)
    return reviewed.interpretation.analysis, reviewed.record


def _read_copy(copy: Copy, record: Record | None) -> Interpretation:
    context = Context() if record is None else records.context_of(record)
    with tempfile.TemporaryDirectory(prefix="stepprof-") as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(copy.data)
        return interpret(path, context)


def _about_record(trace: Path, record: Record | None) -> list[str]:
    if record is not None or not records.record_path(trace).exists():
        return []
    return ["a record lies beside the trace but does not belong to it or cannot be read: it was not copied"]


# ---- whether the copy says the same ----

SAME_TEXTS = frozenset(("id", "regime", "origin", "vendor"))
"""Keys whose texts are this project's own words; the others hold names."""


def differences(one: Analysis, other: Analysis, dropped: frozenset[str] = frozenset()) -> list[str]:
    """The parts of two analyses that differ in more than names and notes, and in what was to be taken out."""
    if "stacks" in dropped:
        dropped |= {"evidence"}  # which names the lines of code
    parts = msgspec.to_builtins(one), msgspec.to_builtins(other)
    compared = [key for key in parts[0] if key not in {"trace", "notes"}]
    return [key for key in compared if len({repr(_shape(part[key], key, dropped)) for part in parts}) > 1]


def _shape(value: Any, key: str, dropped: frozenset[str]) -> Any:
    """A value with names left out; the order of what has a name stays."""
    if isinstance(value, dict):
        named = key in {"labels", "evidence"}
        return [
            ("" if named else k, _shape(v, "evidence" if key == "evidence" else k, dropped))
            for k, v in value.items()
            if k not in dropped
        ]
    if isinstance(value, list):
        return [_shape(item, key, dropped) for item in value]
    return value if not isinstance(value, str) or key in SAME_TEXTS else ""


# ---- the record ----


def redacted_record(record: Record, fields: Fields) -> Record:
    """A record without what identifies a person, a machine or a moment; its digest is that of no file yet.

    The question stays, but for secrets, paths and addresses in it: it is what the trace is shared for.
    """
    namer = fields.namer
    scenario = msgspec.convert(
        _texts(msgspec.to_builtins(record.scenario), namer.prose), type=type(record.scenario), strict=True
    )
    fields.tally.add("wall clock", record.captured_at)
    approach = record.approach
    return msgspec.structs.replace(
        record,
        stepprof_lab=_version(record.stepprof_lab),
        captured_at=NOT_KEPT,
        scenario=scenario,
        observed=_free(record.observed, namer),
        contradictions=[namer.sentence(text) for text in record.contradictions],
        environment=redacted_environment(record.environment, namer),
        device=namer.sentence(record.device),
        schedule={key: n for key, n in record.schedule.items() if namer.is_public(key)},
        options={key: on for key, on in record.options.items() if namer.is_public(key)},
        labels=[msgspec.structs.replace(one, name=namer.name(one.name, "label")) for one in record.labels],
        approach=msgspec.structs.replace(
            approach,
            labels_ms={namer.name(name, "label"): series for name, series in approach.labels_ms.items()},
            cut_reason=None if approach.cut_reason is None else namer.sentence(approach.cut_reason),
        ),
        checks=[
            msgspec.structs.replace(check, name=namer.sentence(check.name), detail=namer.sentence(check.detail))
            for check in record.checks
        ],
        trace="",
        trace_sha256="",
        capture_id=None,
    )


def redacted_environment(environment: Mapping[str, Any], namer: Namer) -> dict[str, Any]:
    """What of an environment says what was measured, and nothing else."""
    kept: dict[str, Any] = {}
    for key, value in environment.items():
        if key not in Environment.__struct_fields__ or key == "kernel":
            continue
        if key in _VERSIONS:
            kept[key] = None if value is None else _version(str(value))
        elif key == "variables":
            kept[key] = _variables(value, namer)
        else:
            kept[key] = _free(value, namer)
    return kept


def _variables(value: Any, namer: Namer) -> dict[str, str]:
    given = value if isinstance(value, dict) else {}
    return {
        name: str(text) if namer.is_public(str(text)) else VALUE_NOT_KEPT
        for name, text in given.items()
        if name in KEPT_VARIABLES
    }


def _version(text: str) -> str:
    return text if _VERSION.fullmatch(text) else NOT_KEPT


def _free(value: Any, namer: Namer) -> Any:
    """A free-form part: keys of known words stay, texts without what cannot be judged."""
    if isinstance(value, dict):
        return {key: _free(part, namer) for key, part in value.items() if namer.is_public(str(key))}
    if isinstance(value, (list, tuple)):
        return [_free(part, namer) for part in value]
    return namer.sentence(value) if isinstance(value, str) else value


def _texts(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_texts(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


# ---- what is said ----


def _replaced(fields: Fields) -> list[Replaced]:
    counts = fields.tally.counts
    return [
        Replaced(
            kind=kind,
            what=what,
            count=counts[kind],
            distinct=len(fields.tally.texts.get(kind, ())),
            examples=fields.tally.examples(kind),
        )
        for kind, what in KINDS.items()
        if counts[kind]
    ]


def _stays(fields: Fields, record: Record | None) -> list[Stays]:
    stays = [Stays(what=what, count=count) for what, count in fields.stays.items() if count]
    if record is not None:
        stays.append(Stays(what="record: question, boundary, conditions, versions, device, times", count=1))
    return stays
