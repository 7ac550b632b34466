"""Files that were made, or became, such that a reader without limits takes for ever, fills the memory, or lies.

What takes quadratic time is a text of some hundred thousand characters here, which would take minutes; the limit of
each test is far above what it takes.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from stepprof_lab import record as records
from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret, reader, repair, source, steps

pytestmark = pytest.mark.timeout(60)

OPERATOR = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.25, "dur": 2}
LABEL = OPERATOR | {"cat": "user_annotation", "name": "label"}
STEP = OPERATOR | {"cat": "user_annotation", "name": "ProfilerStep#1"}
GOOD = json.dumps(OPERATOR).encode()


def launch(number, at, **more):
    event = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 1, "args": {"correlation": number}}
    return OPERATOR | event | more


def kernel(number, at, **args):
    args = {"correlation": number, "device": 0, "stream": 7} | args
    return OPERATOR | {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "args": args}


def text(*events, **around):
    return json.dumps({**around, "traceEvents": events}).encode()


def put(folder, data, name="t.json"):
    path = folder / name
    path.write_bytes(data)
    return path


def insane(interpretation):
    spec = importlib.util.spec_from_file_location("hostile_reference", Path(__file__).with_name("reference.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.insane(interpretation)


def refused(folder, data, says, name="t.json"):
    with pytest.raises(StepprofError) as caught:
        interpret(put(folder, data, name))
    said = str(caught.value)
    assert re.search(says, said), said
    assert name in said
    assert "\n" not in said
    assert len(said) < 1000


# ---- text that a pattern would try again and again ----

ESCAPED = b'\\"' * 30_000
BLANK = b" " * 300_000


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents":[' + b",".join([b'{"ph":"X","name":"' + ESCAPED + b"x}"] * 30) + b"," + GOOD + b"]}",
        b'{"a":"' + ESCAPED * 10 + b'","b":N/A,"c":"' + ESCAPED * 10 + b',"traceEvents":[' + GOOD + b"]}",
        b'{"traceEvents":[' + GOOD + b'],"a":"' + ESCAPED * 10,
        b'{"traceEvents":[' + GOOD + b'],"a":' + b"[" * 1_500_000,
        b'{"traceEvents":[' + GOOD + b',{"ph":"X","name":?}' + BLANK + b"x",
        b'{"traceEvents":[' + GOOD + b',{"ph":"X","name":?}' + b" ," * 150_000 + b"x",
        b'{"traceEvents":[' + GOOD + b',{"ph":"X","name":?}]' + BLANK + b"}" + BLANK + b"x",
        b'{"traceEvents":[' + (GOOD + b"," + BLANK) * 10 + b'{"x"',
    ],
    ids=["escapes", "metadata", "open metadata", "brackets", "blank end", "commas", "blank twice", "blank between"],
)
def test_mending_takes_time_by_the_length_of_the_text(tmp_path, data):
    trace = reader.read(put(tmp_path, data))
    assert set(trace.names) == {"aten::mm"}
    assert trace.notes


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents":[{"' + ESCAPED * 20,
        b'{"traceEvents":[{"' + b"a" * 2_000_000,
        b'"traceEvents":' * 100_000,
        b"{" + b'"traceEvents"      ' * 100_000,
        b'{"traceEvents":[' * 50_000,
        b"{" * 300_000,
    ],
    ids=["escaped key", "endless key", "again and again", "without a value", "in each other", "braces"],
)
def test_text_that_begins_like_a_trace_and_never_becomes_one_is_refused(tmp_path, data):
    refused(tmp_path, data, "cannot be read as JSON|is not a trace that can be read|holds no event|too dense")


def test_many_events_with_the_same_fault_are_each_mended(tmp_path):
    events = [OPERATOR | {"ts": n, "x": "QQ"} for n in range(3000)]
    for fault in (b'"a"b"c"', b"NaN", b'"C:\\Users"'):
        trace = reader.read(put(tmp_path, text(*events).replace(b'"QQ"', fault)))
        assert len(trace) == 3000
        assert "(3000 events)" in trace.notes[0]


def test_where_much_resists_mending_it_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(repair, "MAX_LOST_BYTES", 5000)
    events = [b'{"ph":"X","name":?%s}' % (b"x" * 1000) for _ in range(50)] + [b'{"ph":"X","name":"a","dur":NaN}', GOOD]
    trace = reader.read(put(tmp_path, b'{"traceEvents":[' + b",".join(events) + b"]}"))
    assert trace.notes[0].startswith("set aside: 51 events")


# ---- text that becomes many times larger in memory ----


@pytest.mark.parametrize("tiny", [b"{},", b"[],", b"0,", b"{ },", b'"",'])
@pytest.mark.parametrize("packed", [False, True])
def test_text_of_tiny_values_is_refused_before_it_is_decoded(tmp_path, tiny, packed):
    data = b'{"traceEvents":[' + tiny * (5_000_000 // len(tiny)) + GOOD + b"]}"
    refused(tmp_path, gzip.compress(data, 1) if packed else data, "too dense for a trace")


@pytest.mark.parametrize("where", ["before", "after"])
def test_metadata_of_tiny_values_is_refused_too(tmp_path, where):
    tiny = b'"deviceProperties":[' + b"[]," * 3_000_000 + b"0]"
    events = b'"traceEvents":[' + GOOD + b"]"
    refused(tmp_path, b"{" + b",".join([tiny, events] if where == "before" else [events, tiny]) + b"}", "too dense")


def test_bombs(tmp_path):
    refused(tmp_path, gzip.compress(b"\0" * 100_000_000, 9), "for each packed one")
    refused(tmp_path, gzip.compress(gzip.compress(text(OPERATOR))), "packed with gzip twice")
    refused(
        tmp_path, gzip.compress(b"") * 5000 + gzip.compress(text(OPERATOR)), r"is \d+ compressed pieces with 0 bytes"
    )


def test_a_file_of_zeros_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "sparse.json"
    with path.open("wb") as stream:
        stream.truncate(4_000_000_000)
    with pytest.raises(StepprofError, match="its first 1048576 bytes are blank"):
        interpret(path)


# ---- what follows a trace, or is missing from it ----


@pytest.mark.parametrize("zeros", [1, 100, 3_000_000])
def test_zeros_where_the_end_was_never_written_are_left_out_and_counted(tmp_path, zeros):
    whole = text(OPERATOR, LABEL)
    trace = reader.read(put(tmp_path, whole + b"\0" * zeros))
    assert trace.notes == [f"the file ends in {zeros} zero bytes, which were never written: left out"]
    assert len(trace) == 2
    cut = reader.read(put(tmp_path, whole[:-30] + b"\0" * zeros))
    assert len(cut) == 1
    assert "cut short inside event 1" in cut.notes[1]


def test_zeros_in_the_middle_cost_the_events_there(tmp_path):
    data = bytearray(text(*(OPERATOR | {"ts": n} for n in range(100))))
    data[2000:4000] = bytes(2000)
    trace = reader.read(put(tmp_path, bytes(data)))
    assert 70 < len(trace) < 85
    assert re.search(r"set aside: 1 event .*: 2000 zero bytes are in it", trace.notes[0])


def test_what_follows_compressed_data_is_said(tmp_path):
    trace = reader.read(put(tmp_path, gzip.compress(text(OPERATOR)) + b"appended\0\0"))
    assert trace.notes == ["what follows the compressed data (8 bytes) is not gzip and was not read"]


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9, 0.999])
def test_a_flipped_bit_in_compressed_data_costs_what_comes_after_it(tmp_path, at):
    events = [OPERATOR | {"ts": n, "name": f"op{zlib.crc32(str(n).encode()):x}"} for n in range(5000)]
    packed = bytearray(gzip.compress(text(*events)))
    packed[int(len(packed) * at)] ^= 0x10
    interpretation = interpret(put(tmp_path, bytes(packed)))
    notes = interpretation.analysis.notes
    assert any("compressed file is damaged" in note or "compressed file is cut short" in note for note in notes)
    assert sum(operator.calls for operator in interpretation.analysis.operators) > 5000 * at - 500
    assert insane(interpretation) == []


def test_a_file_that_changes_while_it_is_read_is_read_as_far_as_it_was(tmp_path):
    path = put(tmp_path, text(OPERATOR))
    size = path.stat().st_size
    for looked_at, word in ((size - 9, "grew"), (size + 9, "became shorter")):
        notes = []
        data = source._read_up_to(path, looked_at, notes)
        assert len(data) == min(looked_at, size)
        assert notes == [f"the file {word} while it was read: it may still be being written"]


def test_a_file_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    def denied(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path, text(OPERATOR))
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(StepprofError, match=r"cannot be read \(Permission denied\)"):
        interpret(path)


@pytest.mark.parametrize("newline", [b"\r\n", b"\r", b"\n\n\t "])
def test_line_ends_of_any_system_are_the_same_trace(tmp_path, newline):
    data = json.dumps({"traceEvents": [OPERATOR, LABEL]}, indent=1).encode()
    trace = reader.read(put(tmp_path, data.replace(b"\n", newline)))
    assert (len(trace), trace.notes) == (2, [])


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["bare", "with a mark"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_any_encoding_of_unicode_is_read_and_named(tmp_path, encoding, mark):
    data = json.dumps({"traceEvents": [OPERATOR | {"name": "é\U0001f680"}]}, ensure_ascii=False)
    trace = reader.read(put(tmp_path, (mark + data).encode(encoding)))
    assert trace.names == ["é\U0001f680"]
    if encoding != "utf-8":
        assert trace.notes == [f"the file is {encoding[:6].upper()}: it was read as such"]
    else:
        assert trace.notes == (["the file begins with a byte order mark: it was skipped"] if mark else [])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_broken_encoding_is_named(tmp_path, encoding):
    name = encoding[:6].upper()
    refused(tmp_path, text(OPERATOR).decode().encode(encoding)[:-1], rf"is broken {name} \(byte \d+\)")


def test_an_encoding_that_nobody_uses_is_refused_in_one_line(tmp_path):
    refused(tmp_path, text(OPERATOR).decode().encode("cp037"), "is not text|is not JSON|is not a trace")


def test_latin_1_costs_the_letters_and_not_the_trace(tmp_path):
    data = json.dumps({"traceEvents": [OPERATOR | {"name": "é"}]}, ensure_ascii=False).encode("latin-1")
    trace = reader.read(put(tmp_path, data))
    assert trace.names == ["\ufffd"]
    assert trace.notes == ["repaired: text that is not UTF-8 (1 event)"]


# ---- numbers that cannot be ----


@pytest.mark.parametrize(
    "number",
    [
        "1e308",
        "-1e308",
        "1e400",
        "9" * 400,
        "9" * 5000,
        '"1e99999999"',
        '"1e-99999999"',
        '"' + "9" * 500_000 + '"',
        "1e16",
    ],
)
@pytest.mark.parametrize("field", ["ts", "dur"])
def test_times_of_any_size_give_no_absurd_number(tmp_path, number, field):
    bad = json.dumps(OPERATOR | {field: "QQ", "name": "bad"}).replace('"QQ"', number)
    interpretation = interpret(put(tmp_path, b'{"traceEvents":[' + GOOD + b"," + bad.encode() + b"]}"))
    assert insane(interpretation) == []
    assert len(interpretation.analysis.operators) in {1, 2}
    assert sum(operator.cpu_sum_us for operator in interpretation.analysis.operators) <= 4


@pytest.mark.parametrize(
    "number",
    [2**63, -(2**63), 2**64, 10**30, 1e308, "9" * 5000, "0x10", "٣", True, [1], {"a": 1}, [[[[1]]]], "\u0000"],
    ids=repr,
)
@pytest.mark.parametrize("field", ["correlation", "device", "stream", "bytes", "pid", "tid", "Collective name", "id"])
def test_other_numbers_of_any_size_and_kind_are_read_or_cost_the_event(tmp_path, number, field):
    events = [STEP | {"ts": 0, "dur": 100}, launch(4, 5), kernel(4, 10), LABEL]
    for event in events[1:3]:
        target = event if field in {"pid", "tid"} else event["args"]
        target[field] = number
    interpretation = interpret(put(tmp_path, text(*events, deviceProperties=[{"id": number, "name": number}])))
    assert insane(interpretation) == []
    assert interpretation.timeline.lanes


def test_long_events_that_add_up_to_more_than_the_clock_holds_are_refused(tmp_path, monkeypatch):
    days = [kernel(n, 0) | {"dur": 86_400_000_000 - 1} for n in range(100)]
    monkeypatch.setattr(reader, "LARGEST_SUM_NS", 60 * 86_400e9)
    assert insane(interpret(put(tmp_path, text(*days[:50])))) == []
    refused(tmp_path, text(*days), "more than 100 years together")


def test_a_sum_over_nested_calls_is_exact_however_large(tmp_path, monkeypatch):
    from stepprof_lab.trace import operators

    nested = [OPERATOR | {"ts": 0, "dur": 1000 - n} for n in range(50)]
    path = put(tmp_path, text(*nested, launch(1, 900, dur=0.5), kernel(1, 950)))
    plain = interpret(path).analysis.operators
    monkeypatch.setattr(operators, "LARGEST_SUM", 10.0)
    assert interpret(path).analysis.operators == plain
    assert plain[0].gpu_sum_us == 2 * 50


# ---- a great many of everything ----

MANY = 8000


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda n: [OPERATOR | {"name": f"op{n}", "ts": n}],
        lambda n: [LABEL | {"name": f"l{n}", "ts": n * 3}, launch(n + 1, n * 3), kernel(n + 1, n * 3)],
        lambda n: [STEP | {"name": f"ProfilerStep#{n}", "ts": n * 3}, launch(n + 1, n * 3), kernel(n + 1, n * 3)],
        lambda n: [
            STEP | {"name": f"ProfilerStep#{n}", "ts": n * 3 + n % 7 * 1000},
            LABEL | {"name": f"l{n}", "ts": n * 3},
        ],
        lambda n: [STEP | {"name": f"ProfilerStep#{n}", "ts": n * 3}, launch(n + 1, n * 3)],
        lambda n: [OPERATOR | {"tid": n, "ts": n}, launch(n + 1, n, tid=n), kernel(n + 1, n + 2, stream=n)],
        lambda n: [OPERATOR | {"pid": n}, kernel(0, n * 3, device=n), {"ph": "M", "name": "thread_name", "pid": n}],
        lambda n: [OPERATOR | {"ts": n, "dur": 2 * MANY - 2 * n}],
        lambda n: [OPERATOR | {"cat": f"kind{n}"}, OPERATOR | {"args": {"Input Dims": [[n]]}}],
    ],
    ids=[
        "names",
        "labels",
        "steps",
        "steps and labels",
        "lost work",
        "threads",
        "processes",
        "depth",
        "kinds and shapes",
    ],
)
def test_a_great_many_of_anything_take_time_by_their_number(tmp_path, make):
    from stepprof_lab.report.html import page

    interpretation = interpret(put(tmp_path, text(*(event for n in range(MANY) for event in make(n)))))
    assert insane(interpretation) == []
    assert len(page(interpretation=interpretation, record=None)) < 5_000_000


def test_spans_inside_each_other_by_the_thousand_are_refused_where_every_one_holds_all(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "MOST_PAIRS", 1000)
    work = [event for n in range(50) for event in (launch(n + 1, 500 + n), kernel(n + 1, 500 + n))]
    for span, name in ((STEP, "ProfilerStep#{}"), (LABEL, "label {}")):
        nested = [span | {"name": name.format(n), "ts": n, "dur": 2000 - 2 * n} for n in range(50)]
        refused(
            tmp_path, text(*nested, *work), r"inside each other: .* its device events are \d+; expected at most 1000"
        )
        flat = [span | {"name": name.format(n), "ts": 500 + n, "dur": 1} for n in range(50)]
        assert insane(interpret(put(tmp_path, text(*flat, *work)))) == []


# ---- a record beside the trace is a file of unknown origin too ----


def recorded(folder, **changes):
    from stepprof_lab.scenario import inline
    from stepprof_lab.trace.model import Approach

    t = Construct("cpu")
    with t.step(), t.label("read_batch"):
        t.cpu(5.0)
    trace = t.save(folder / "trace.json")
    approach = {"steps_ms": [5.0] * 9, "labels_ms": {"read_batch": [4.0] * 9}, "loader_workers": 0, "wanted_steps": 9}
    record = records.Record(
        stepprof_lab="0",
        captured_at="2026-01-01T00:00:00Z",
        scenario=inline("Why?", boundary="read", unit="ms/step"),
        observed={},
        environment={},
        device="cpu",
        gpu_requested=False,
        schedule={},
        options={},
        labels=[],
        approach=Approach(**approach | changes),
        window_steps_ms=[1.0] * 4,
        checks=[],
        valid=True,
        trace=trace.name,
        trace_sha256=records._digest(trace),
    )
    records.record_path(trace).write_bytes(msgspec.json.encode(record))
    return trace


def test_the_record_itself_is_used(tmp_path):
    interpretation, record = records.read(recorded(tmp_path))
    assert record is not None
    assert interpretation.analysis.question == "Why?"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps_ms": [-5.0] * 9}, "a step of -5 ms in approach.steps_ms"),
        ({"steps_ms": [1e308] * 9}, r"a step of 1e\+308 ms in approach.steps_ms"),
        ({"labels_ms": {"read_batch": [-1.0] * 9}}, "a step of -1 ms in approach.labels_ms of 'read_batch'"),
        ({"loader_workers": -3}, "-3 loader workers"),
        ({"loader_workers": 10**12}, "1000000000000 loader workers"),
    ],
)
def test_a_record_with_impossible_numbers_is_not_used(tmp_path, changes, says):
    interpretation, record = records.read(recorded(tmp_path, **changes))
    assert record is None
    assert re.search(f"{says}, which cannot be true: it was not used", interpretation.analysis.notes[0])
    assert insane(interpretation) == []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not one of this version"),
        (b"\xff\xfe\x00", "is not one of this version"),
        (b'{"observed":{"a":' + b"[" * 100_000, "is nested too deeply"),
        (b'{"observed":' * 50_000, "is nested too deeply|is not one of this version"),
        (b"null", "is not one of this version"),
    ],
)
def test_a_record_of_any_bytes_costs_a_note(tmp_path, data, says):
    trace = recorded(tmp_path)
    records.record_path(trace).write_bytes(data)
    interpretation, record = records.read(trace)
    assert record is None
    assert re.search(says, interpretation.analysis.notes[0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_record_or_a_trace_that_is_a_pipe_is_not_waited_for(tmp_path):
    trace = recorded(tmp_path)
    beside = records.record_path(trace)
    kept = beside.read_bytes()
    beside.unlink()
    os.mkfifo(beside)
    interpretation, record = records.read(trace)
    assert record is None
    assert "no file of at most" in interpretation.analysis.notes[0]
    beside.unlink()
    beside.write_bytes(kept)
    trace.unlink()
    os.mkfifo(trace)
    with pytest.raises(StepprofError, match="not a regular file"):
        records.read(trace)


def test_an_endless_record_is_not_read(tmp_path):
    trace = recorded(tmp_path)
    with records.record_path(trace).open("wb") as stream:
        stream.truncate(10_000_000_000)
    _, record = records.read(trace)
    assert record is None
