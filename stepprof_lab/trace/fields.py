"""What happens to each field of a trace in a copy that is to be shared: an allow-list of keys, each with one rule.

A rule takes the value's JSON and gives the JSON that stays, or None where it is taken out. A key that is not listed is
taken out: nobody can say what it holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from stepprof_lab.trace import stacks
from stepprof_lab.trace.names import Namer, hint

Rule = Callable[["Fields", bytes], bytes | None]

KINDS: dict[str, str] = {
    "host name": "the machine's name",
    "user name": "the account's name",
    "path": "where files lie, and often who owns them",
    "file name": "what the trace was called",
    "log text": "messages of the profiler, with process numbers and dates",
    "identifier": "numbers that link this trace to others",
    "wall clock": "when it was recorded; the times that stay count from the first event",
    "process and thread numbers": "small numbers stand in their place",
    "address": "memory, network and card addresses; the same small number for the same one",
    "serial number": "which device it was: serial numbers, UUIDs, bus numbers",
    "secret": "e-mail addresses, tokens, passwords, random text",
    "name": "words in names that are not known to be public",
    "thread name": "what a program calls itself",
    "stack": "paths and functions of the recorded stacks",
    "concrete inputs": "values that the program passed to operators",
    "shapes": "sizes of the tensors, and so of the model",
    "rank topology": "groups of ranks and what they are called",
    "metadata": "keys around the events that are not known",
    "unknown field": "keys of events that are not known",
    "unknown event": "events of kinds that are not known",
    "unusable value": "values that are not what their key stands for",
}
"""What a copy can hide, and what it would have told."""

EXAMPLE = 60
"""Characters of a stand-in that are shown."""

DROPPABLE = ("shapes", "stacks")
"""What stays unless it is said otherwise."""

TOLD = {"Input Dims": "shapes of inputs", "Group size": "sizes of groups of ranks", "Addr": "sizes of allocations"}
"""Keys that stay and tell something about the model or the job; it is said that they stay."""

PYTHON_FRAME = re.compile(r"(?P<path>.+?)\((?P<line>[0-9]{1,7})\): (?P<function>.*)", re.DOTALL)
_LIBRARY = re.compile(
    r"(?:^|.*[/\\])(?P<tail>(?:site|dist)-packages[/\\].+)|.*[/\\]lib[/\\]python[0-9.]+[/\\](?P<std>.+)"
)
_POINTER = re.compile(r"0x[0-9a-fA-F]{4,16}")
_NUMBERS = re.compile(rb"[\[\]0-9,\s.eE+-]*")
_NUMBER = re.compile(rb"-?[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?|true|false|null")
_DIGITS = re.compile(rb'"-?[0-9]{1,15}(?:\.[0-9]{1,9})?"')
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,2}")
"""Four numbers may be the address of a machine."""
_NOTHING = frozenset((b"null", b'""', b"[]", b"{}", b"false"))
_LIST_IN_TEXT = re.compile(rb'"[\[\](), 0-9]{0,4000}"|"grid\([0-9, ]{0,40}\)"')


def decoded(raw: bytes) -> Any:
    """The value of some JSON, or None where it cannot be decoded."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def text_of(value: Any) -> str:
    """A process or thread number as the reader compares it: 7, 7.0 and "7" are one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Tally:
    """How often each kind was replaced or taken out, and what was there."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.texts: dict[str, dict[str, str]] = {}
        """For each kind the distinct texts that were there, and what stands there now ("" where nothing does)."""

    def add(self, kind: str, was: str = "", now: str = "") -> None:
        """Count one."""
        self.counts[kind] += 1
        if was:
            self.texts.setdefault(kind, {}).setdefault(was, now)

    def examples(self, kind: str, most: int = 3) -> list[str]:
        """Some of the texts, as hints: no text is shown whole."""
        shown = list(self.texts.get(kind, {}).items())[:most]
        return [f"{hint(was)} -> {_short(now)}" if now else hint(was) for was, now in shown]


def _short(text: str) -> str:
    return text if len(text) <= EXAMPLE else f"{text[: EXAMPLE - 3]}..."


class Fields:
    """The rules with what they remember: the same thing gets the same stand-in everywhere in one copy.

    Args:
        namer: judges names.
        keep: kinds that stay although they would be taken out ("inputs").
        drop: kinds that are taken out although they would stay; of `DROPPABLE`.
    """

    def __init__(self, namer: Namer, keep: frozenset[str], drop: frozenset[str]) -> None:
        self.namer = namer
        self.keep = keep
        self.drop = drop
        self.tally = Tally()
        self.stays: Counter[str] = Counter()
        self.unjudged: dict[str, Counter[str]] = {}
        """For each sort of name (label, kernel ...) the names that hold a word that is not known."""
        self.hosts: dict[str, int] = {}
        self.small: dict[str, dict[str, int]] = {}
        self._made: dict[tuple[str, bytes], tuple[bytes | None, tuple[tuple[str, str, str], ...]]] = {}
        self._said: list[tuple[str, str, str]] = []

    # ---- what the rules share ----

    def said(self, kind: str, was: str = "", now: str = "") -> None:
        """Note that something was replaced or taken out."""
        self._said.append((kind, was, now))

    def args(self, args: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        """The arguments of an event, with what may stay."""
        kept = {}
        for key, raw in args.items():
            stays = self.value(ARGS, key, bytes(raw), "unknown field")
            if stays is not None:
                kept[key] = msgspec.Raw(stays)
                if key in TOLD:
                    self.stays[TOLD[key]] += 1
        return kept

    def value(self, rules: dict[str, Rule], key: str, raw: bytes, otherwise: str) -> bytes | None:
        """One value by the rule of its key; the same value is looked at once."""
        rule = rules.get(key)
        if rule is None:
            self.tally.add(otherwise, key)
            return None
        if rule is number and _NUMBER.fullmatch(raw):
            return raw
        known = self._made.get((key, raw))
        if known is None:
            self._said = []
            known = (rule(self, raw), tuple(self._said))
            self._made[key, raw] = known
        for kind, was, now in known[1]:
            self.tally.add(kind, was, now)
        return known[0]

    def name(self, text: str, noun: str) -> str:
        """A name of an operator, a kernel, a label ... as it stays."""
        made = self.namer.name(text, noun)
        if made != text:
            self.said("name", text, made)
            self.unjudged.setdefault(noun, Counter())[text] += 1
        return made

    def event_name(self, text: str, noun: str) -> str:
        """The name of an event; counted each time, judged once."""
        self._said = []
        made = self.function(text) if noun == "function" else self.name(text, noun)
        for kind, was, now in self._said:
            self.tally.add(kind, was, now)
        return made

    def function(self, text: str) -> str:
        """The name of a recorded frame: ``path(line): function``, a built-in, or a module."""
        made = self._frame(text)
        if made != text:
            self.said("stack", text, made)
        return made

    def _frame(self, text: str) -> str:
        found = PYTHON_FRAME.fullmatch(text)
        if found is None:
            bare = _POINTER.sub(lambda m: f"address {self.numbered('address', m[0])}", text)
            return self.namer.name(bare, "function")
        function = self.namer.name(found["function"], "function")
        return f"{self.path(found['path'])}({found['line']}): {function}"

    def path(self, text: str) -> str:
        """A path of a library as it lies below ``site-packages``; any other with an unknown word by a number.

        Whether it is a library's, and its ending, can still be told.
        """
        found = _LIBRARY.fullmatch(text)
        tail = (found["tail"] or found["std"]) if found else text
        parts = re.split(r"[/\\]", tail)
        if parts[0] and self.namer.is_public(" ".join(parts)):
            return "/".join(parts)
        ending = ".py" if text.endswith(".py") else ""
        numbered = self.namer.number("path", text) + ending
        if found or "torchinductor_" in text:
            return f"{'lib/python3' if found and found['std'] else 'site-packages'}/{numbered}"
        top = parts[0] if len(parts) > 1 else ""
        made = f"{top}/{numbered}" if top and self.namer.is_public(top) else numbered
        return made if stacks.is_users_file(made) == stacks.is_users_file(text) else f"site-packages/{numbered}"

    def numbered(self, sort: str, text: str) -> int:
        """A small number for a text, from 1, in order of appearance."""
        numbers = self.small.setdefault(sort, {})
        return numbers.setdefault(text, len(numbers) + 1)

    def host_number(self, value: Any) -> int | str | None:
        """A process's or thread's number: from 1001 on, so that it is none of a device; 0 and -1 stay."""
        if value is None:
            return None
        text = text_of(value)
        if text in {"", "Spans", "Traces"}:
            return text
        if text in {"0", "-1"}:
            return int(text)
        if text not in self.hosts:
            self.hosts[text] = 1001 + len(self.hosts)
        return self.hosts[text]

    def device_number(self, value: Any, sort: str) -> int | str | None:
        """A device's or stream's number: small ones stay, pointers and texts become small numbers."""
        if value is None:
            return None
        text = text_of(value)
        bare = text.removeprefix("stream ")
        if bare.removeprefix("-").isdecimal() and len(bare) <= 5 and bare.isascii():
            return text if bare != text or isinstance(value, str) else int(bare)
        return 100_000 + self.numbered(sort, bare)


# ---- the rules ----


def number(fields: Fields, raw: bytes) -> bytes | None:
    """A number, or one written as a text."""
    if _NUMBER.fullmatch(raw) or _DIGITS.fullmatch(raw):
        return raw
    fields.said("unusable value", raw.decode("utf-8", "replace"))
    return None


def numbers(fields: Fields, raw: bytes) -> bytes | None:
    """Lists of numbers, or a text that holds such lists."""
    if _NUMBERS.fullmatch(raw) or _LIST_IN_TEXT.fullmatch(raw):
        return raw
    fields.said("unusable value", raw.decode("utf-8", "replace"))
    return None


def sizes(fields: Fields, raw: bytes) -> bytes | None:
    """Shapes and strides; what can be none becomes a numbered text, so that as many shapes are told apart."""
    if "shapes" in fields.drop:
        fields.said("shapes")
        return None
    kept = numbers(fields, raw)
    return kept or msgspec.json.encode(f"shape-{fields.numbered('shape', raw.decode('utf-8', 'replace'))}")


def inputs(fields: Fields, raw: bytes) -> bytes | None:
    """Values that were passed to an operator; where they are kept, each is still judged as a name is."""
    if "inputs" not in fields.keep:
        fields.said("concrete inputs")
        return None
    return words(fields, raw, "value")


def words(fields: Fields, raw: bytes, noun: str = "name") -> bytes | None:
    """A name, or lists of names."""
    value = decoded(raw)
    made = _worded(fields, value, noun)
    if made is None:
        fields.said("unusable value", raw.decode("utf-8", "replace"))
        return None
    return raw if made == value else msgspec.json.encode(made)


def _worded(fields: Fields, value: Any, noun: str, depth: int = 0) -> Any:
    if isinstance(value, str):
        made = fields.namer.name(value, noun) if value else ""
        if made != value:
            fields.said("name", value, made)
        return made
    if isinstance(value, list) and depth < 20:
        parts = [_worded(fields, part, noun, depth + 1) for part in value]
        return None if any(part is None for part in parts) else parts
    if isinstance(value, (bool, int, float)) and _NUMBER.fullmatch(msgspec.json.encode(value)):
        return value
    return None


def collective(fields: Fields, raw: bytes) -> bytes | None:
    """What a collective operation is called; by the name alone, whatever it is, its work is known to be one."""
    kept = words(fields, raw, "collective")
    if kept is not None or raw == b"null":
        return kept
    return msgspec.json.encode(fields.namer.number("collective", raw.decode("utf-8", "replace")))


def kernel(fields: Fields, raw: bytes) -> bytes | None:
    """The name of a kernel in another event's arguments."""
    return words(fields, raw, "kernel")


def host(fields: Fields, raw: bytes) -> bytes | None:
    """The number of a process or a thread."""
    value = decoded(raw)
    if not isinstance(value, (int, str, float)) or isinstance(value, bool):
        return None
    return msgspec.json.encode(fields.host_number(value))


def device(fields: Fields, raw: bytes) -> bytes | None:
    """The number of a device."""
    return msgspec.json.encode(fields.device_number(decoded(raw), "device"))


def stream(fields: Fields, raw: bytes) -> bytes | None:
    """The number of a stream, a pointer on some systems."""
    return msgspec.json.encode(fields.device_number(decoded(raw), "stream"))


def address(fields: Fields, raw: bytes) -> bytes | None:
    """A memory address; 0 and -1 stay."""
    text = raw.decode("ascii", "replace")
    if text in {"0", "-1", '"0x0"', "null"}:
        return raw
    small = fields.numbered("address", text)
    fields.said("address", text.strip('"'), str(small))
    return msgspec.json.encode(small if raw[:1] != b'"' else hex(small))


def ident(fields: Fields, raw: bytes) -> bytes | None:
    """A number that only links events with each other."""
    if raw in {b"null", b"0", b"-1"}:
        return raw
    if not _NUMBER.fullmatch(raw):
        fields.said("unusable value", raw.decode("utf-8", "replace"))
        return None
    return msgspec.json.encode(fields.numbered("ident", raw.decode()))


def group(fields: Fields, raw: bytes) -> bytes | None:
    """A name of a group of ranks; torch's own are small numbers."""
    value = decoded(raw)
    if isinstance(value, (str, int)) and re.fullmatch(r"[0-9]{1,3}", str(value)):
        return raw
    if not isinstance(value, str):
        return None
    made = fields.namer.number("group", value) if value else ""
    fields.said("rank topology", value, made)
    return msgspec.json.encode(made)


def stack(fields: Fields, raw: bytes) -> bytes | None:
    """A recorded stack: frames with ; between them."""
    value = decoded(raw)
    if "stacks" in fields.drop or not isinstance(value, str):
        fields.said("stack")
        return None
    made = ";".join(fields.function(frame) if frame else "" for frame in value.split(";"))
    return raw if made == value else msgspec.json.encode(made)


def taken_out(kind: str) -> Rule:
    """A rule that takes the value out, whatever it is."""

    def rule(fields: Fields, raw: bytes) -> None:
        value = decoded(raw)
        fields.said(kind, value if isinstance(value, str) else raw.decode("utf-8", "replace"))

    return rule


def version(fields: Fields, raw: bytes) -> bytes | None:
    """Numbers with dots between them; of anything else only that it is there, which tells whose device it was."""
    value = decoded(raw)
    if raw in _NOTHING or _VERSION.fullmatch(str(value)):
        return raw
    fields.said("unusable value", raw.decode("utf-8", "replace"))
    return b'"not kept"'


def unit(_fields: Fields, raw: bytes) -> bytes | None:
    """In which unit a viewer shows times."""
    return raw if raw in {b'"ms"', b'"ns"'} else None


def flag(_fields: Fields, raw: bytes) -> bytes | None:
    """On or off."""
    return raw if raw in {b"0", b"1", b"true", b"false"} else None


def devices(fields: Fields, raw: bytes) -> bytes | None:
    """The devices of the machine: numbers and the model's name; serial numbers go."""
    value = decoded(raw)
    if not isinstance(value, list):
        return None
    return msgspec.json.encode([_table(fields, item, DEVICE, "serial number") for item in value])


def distributed(fields: Fields, raw: bytes) -> bytes | None:
    """Ranks and their groups."""
    kept = _table(fields, decoded(raw), DISTRIBUTED, "rank topology")
    fields.stays["rank and number of ranks"] += "rank" in kept
    return msgspec.json.encode(kept)


def groups(fields: Fields, raw: bytes) -> bytes | None:
    """The groups of ranks one by one."""
    value = decoded(raw)
    if not isinstance(value, list):
        return None
    return msgspec.json.encode([_table(fields, item, GROUP, "rank topology") for item in value])


def own(fields: Fields, raw: bytes) -> bytes | None:
    """What this project wrote into the trace: where it comes from stays, the capture's number does not."""
    value = decoded(raw)
    said = value.get("origin") if isinstance(value, dict) else None
    fields.said("identifier")
    return msgspec.json.encode({"origin": said} if said in ("constructed", "simulated") else {})


def _table(fields: Fields, value: Any, rules: dict[str, Rule], otherwise: str) -> dict[str, msgspec.Raw]:
    """An object with the keys that are known."""
    kept = {}
    for key, part in (value if isinstance(value, dict) else {}).items():
        rule = rules.get(key)
        if rule is None:
            fields.said(otherwise, str(key))
            continue
        stays = rule(fields, msgspec.json.encode(part))
        if stays is not None:
            kept[key] = msgspec.Raw(stays)
    return kept


def _each(rule: Rule, keys: str) -> dict[str, Rule]:
    return {key.strip(): rule for key in keys.split(",")}


ARGS: dict[str, Rule] = {
    **_each(
        number,
        "correlation, External id, external id, Record function id, Ev Idx, Profiler Event Index, Sequence number,"
        "Fwd thread id, Trace iteration, Op count, queued, context, registers per thread, shared memory,"
        "blocks per SM, warps per SM, est. achieved occupancy %, bytes, size, memory bandwidth (GB/s), cbid, cid,"
        "graph id, graph node id, wait_on_cuda_event_record_corr_id, wait_on_cuda_event_id, Group size, Rank,"
        "In msg nelems, Out msg nelems, Global rank start, Global rank stride, Seq, Src Rank, Dst Rank,"
        "num_warps, num_stages, Bytes, Total Allocated, Total Reserved, Device Type, Device Id, finished, flops,"
        "Python module id, Python thread, priority, queue depth",
    ),
    **_each(numbers, "grid, block, cluster, Process Group Ranks, In split size, Out split size"),
    **_each(sizes, "Input Dims, Input Strides, Output Dims"),
    **_each(
        words,
        "Input type, Module Hierarchy, kind, cuda_sync_kind, dtype, kernel_backend, kernel_kwargs,"
        "Process Group Description, scope, Trace name",
    ),
    **_each(collective, "Collective name"),
    **_each(kernel, "kernel, kernel_name"),
    **_each(address, "Addr, ptr, src, dst"),
    **_each(ident, "Python id, Python parent id"),
    **_each(stream, "stream, wait_on_stream"),
    **_each(group, "Process Group Name"),
    **_each(stack, "Call stack"),
    **_each(inputs, "Concrete Inputs"),
    **_each(host, "Device"),  # 2021: the number of the process
    **_each(taken_out("wall clock"), "external ts"),
    **_each(taken_out("path"), "kernel_file, trace_file"),
    **_each(taken_out("identifier"), "kernel_hash"),
    "device": device,
}

HEAD: dict[str, Rule] = {
    **_each(number, "schemaVersion"),
    **_each(flag, "record_shapes, with_stack, profile_memory, with_flops, with_modules"),
    **_each(
        version,
        "cuda_runtime_version, cuda_driver_version, cupti_version, hip_runtime_version, hip_driver_version,"
        "roctracer_version, rocprofiler-sdk_version, torch_version, xpupti_version",
    ),
    **_each(taken_out("wall clock"), "baseTimeNanoseconds"),
    **_each(taken_out("host name"), "host_name, hostname, host"),
    **_each(taken_out("user name"), "username, user_name, user"),
    **_each(taken_out("file name"), "traceName"),
    **_each(taken_out("identifier"), "trace_id"),
    **_each(taken_out("log text"), "INFO, WARNING, ERROR, VERBOSE, STAGE"),
    "displayTimeUnit": unit,
    "deviceProperties": devices,
    "distributedInfo": distributed,
    "stepprof_lab": own,
}

DEVICE: dict[str, Rule] = {
    **_each(
        number,
        "id, totalGlobalMem, computeMajor, computeMinor, maxThreadsPerBlock, maxThreadsPerMultiprocessor,"
        "regsPerBlock, regsPerMultiprocessor, warpSize, sharedMemPerBlock, sharedMemPerMultiprocessor, numSms,"
        "sharedMemPerBlockOptin, maxSharedMemoryPerMultiProcessor",
    ),
    "name": lambda fields, raw: words(fields, raw, "device"),
}

DISTRIBUTED: dict[str, Rule] = {
    **_each(number, "rank, world_size, pg_count"),
    **_each(words, "backend"),
    **_each(version, "nccl_version"),
    "pg_config": groups,
}

GROUP: dict[str, Rule] = {
    **_each(number, "pg_size, group_count"),
    **_each(numbers, "ranks"),
    **_each(words, "pg_desc, backend_config"),
    **_each(group, "pg_name"),
}
