"""A constructed trace with secrets planted in it, and what a copy of it still gives away: the last part of lab 09.

Each secret is a text of its own, made of the learner's numbers; nobody's name is in it. What is found again in a copy
is told by where it stands there, because that shows what was not looked at.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepprof_lab import sharing
from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret
from stepprof_lab.trace.model import Analysis, Context

Trace = dict[str, Any]
Words = dict[str, Any]

STEPS = 4
QUESTION = "Does compute wait for the next batch?"
_ACCOUNTS = ("mira", "tomke", "jonas", "salka", "ruben", "ilvy")
_PROJECTS = ("zephyrion", "quillback", "marmotte", "vantablau", "ostrakon", "pelikana")
_HOSTS = ("kelpie", "brontide", "sundew", "harrier")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def draw(chance: random.Random) -> Words:
    """The secrets, and the numbers of the trace."""
    number = chance.randint(1000, 9999)
    return {
        "account": f"{chance.choice(_ACCOUNTS)}{chance.randint(10, 99)}",
        "project": chance.choice(_PROJECTS),
        "host": f"{chance.choice(_HOSTS)}-{chance.randint(10, 99)}",
        "email": f"{chance.choice(_ACCOUNTS)}.{chance.choice(_HOSTS)}@clinic{number}.example",
        "token": "hf_" + "".join(chance.choice(_LETTERS) for _ in range(30)),
        "digest": hashlib.sha256(str(number).encode()).hexdigest()[:32],
        "note": f"ward {number}",
        "input": f"case_{chance.randint(100_000, 999_999)}",
        "uuid": f"GPU-{chance.getrandbits(128):032x}",
        "trace_id": f"{chance.getrandbits(128):032X}",
        "moment": 1_700_000_000_000_000_000 + chance.randrange(10**16),
        "read_ms": round(chance.uniform(3.0, 6.0), 2),
        "kernel_us": 10 * chance.randint(50, 90),
        "kernels": chance.randint(4, 7),
    }


def private(words: Words) -> list[str]:
    """The words of a trace that its owner knows to be private; the other secrets have to be found."""
    return [words[name] for name in ("account", "project", "host")]


def trace(words: Words) -> Trace:
    """The trace as its text gives it: a dict with ``traceEvents``."""
    found: Trace = json.loads(_construct(words).to_bytes())
    return found


def _construct(words: Words) -> Construct:
    home = f"/home/{words['account']}/{words['project']}"
    t = Construct(
        "cuda",
        host_name=words["host"],
        traceName=f"{home}/runs/steps.json",
        trace_id=words["trace_id"],
        baseTimeNanoseconds=words["moment"],
        started_by=words["note"],
        deviceProperties=[{"id": 0, "name": "constructed GPU", "uuid": words["uuid"]}],
    )
    extra = {1: f"evaluate for {words['email']}", 2: f"upload {words['token']}", 3: f"user {words['digest']}"}
    for number in range(STEPS):
        with t.step(), t.frame(f"{home}/train.py(41): train_step"):
            with t.label("read_batch"), t.frame(f"{home}/data.py(12): next_batch"):
                t.cpu(words["read_ms"])
            with t.label("transfer"), t.operator("aten::to"), t.operator("aten::copy_"):
                t.copy("HtoD", device=0.3, bytes=400_000, pinned=True)
            with t.label("train"):
                for _ in range(words["kernels"]):
                    with t.operator("aten::mm", [[64, 256], [256, 256]]):
                        t.launch("gemm", device=words["kernel_us"] / 1000)
                t.launch(f"{words['project']}_attention", device=0.4)
            if number in extra:
                with t.label(extra[number]):
                    t.cpu(0.2, "aten::item")
                    t.launch("reduce", device=0.05 * number)
            with t.label("update"):
                t.wait()
    for event in t.events:
        if event.name == "aten::mm":
            event.args |= {"Concrete Inputs": ["", words["input"]], "run note": words["note"]}
    return t


def analysis(one: Trace) -> Analysis:
    """What the interpreter says of a trace.

    Raises:
        StepprofError: it is no trace.
    """
    with tempfile.TemporaryDirectory(prefix="stepprof-lab09-") as folder:
        path = Path(folder) / "steps.json"
        path.write_text(json.dumps(one), encoding="utf-8")
        return interpret(path, Context(question=QUESTION)).analysis


def read(one: Trace) -> dict[str, Any]:
    """The JSON of ``stepprof read`` as a dict."""
    found: dict[str, Any] = msgspec.to_builtins(analysis(one))
    return found


# ---- what a copy still gives away ----

NAMELESS = ("digest", "uuid", "trace_id", "moment")
"""Secrets that are nobody's name and point to one person, machine or minute all the same."""
SECRETS = ("account", "project", "host", "email", "token", "note", "input", *NAMELESS)


def left(words: Words, copy: Any) -> list[list[str]]:
    """Which secrets are still in a copy, and where: pairs of secret and place, each once."""
    wanted = {name: str(words[name]).lower() for name in SECRETS}
    # A serial number without its first letters, or the date in other digits, is the same secret.
    wanted |= {"uuid": wanted["uuid"].removeprefix("gpu-"), "moment": wanted["moment"][:13]}
    found = {
        (name, place) for place, text in _texts(copy) for name, secret in wanted.items() if secret in _plain(text, name)
    }
    return sorted([name, place] for name, place in found)


def _plain(text: str, name: str) -> str:
    return text.lower().replace("-", "") if name == "uuid" else text.lower()


def _texts(copy: Any) -> Iterator[tuple[str, str]]:
    """Every text and number of a copy with its place: head, label, stack, name (of anything else), args."""
    if not isinstance(copy, dict):
        return
    for key, value in copy.items():
        if key != "traceEvents":
            yield from (("head", text) for text in _within({key: value}))
    events = copy.get("traceEvents")
    for event in events if isinstance(events, list) else []:
        category = str(event.get("cat")) if isinstance(event, dict) else ""
        place = {"python_function": "stack", "user_annotation": "label", "gpu_user_annotation": "label on the GPU"}
        for key, value in event.items() if isinstance(event, dict) else []:
            where = place.get(category, "name") if key == "name" else "args"
            yield from ((where, text) for text in _within({key: value}))


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield str(key)
            yield from _within(part)
    elif isinstance(value, list):
        for part in value:
            yield from _within(part)
    elif value is not None:
        yield str(value)


# ---- whether it says the same ----

MAY_GO = frozenset(("shapes", "stacks"))
"""What a copy may leave out: the lab says so, and so does ``stepprof share``."""


def compared(original: Trace, copy: Any) -> dict[str, Any]:
    """What a copy says in comparison: plain data.

    ``refused``: why it cannot be read, or None; ``differs``: the parts of the reading that differ; ``events`` and
    ``labels``: how many of the original's are there.
    """
    before = analysis(original)
    try:
        after = analysis(copy) if isinstance(copy, dict) else None
        refused = None if after is not None else "not a dict"
    except (StepprofError, TypeError, ValueError) as error:
        after, refused = None, " ".join(str(error).split())[:300]
    if after is None:
        return {"refused": refused, "differs": [], "missing_events": 0, "labels": [len(before.labels), 0]}
    return {
        "refused": None,
        "differs": sharing.differences(before, after, MAY_GO),
        "missing_events": _spans(original) - _spans(copy),
        "labels": [len(before.labels), len(after.labels)],
    }


def _spans(one: Mapping[str, Any]) -> int:
    """How many spans a trace has, those of stacks left out."""
    events = one.get("traceEvents")
    kept = [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    return sum(event.get("ph") == "X" and event.get("cat") != "python_function" for event in kept)
