"""Files: what is read, what is repaired and said so, what is refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import interpret, reader, repair, source

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.25, "dur": 2}


def text(*events, **around):
    return json.dumps({"traceEvents": list(events), **around}).encode()


def put(folder, data, name="t.json"):
    path = folder / name
    path.write_bytes(data)
    return path


def read(folder, data, name="t.json"):
    return reader.read(put(folder, data, name))


# ---- times ----


@given(st.integers(0, 2**43 * 1000 - 1), st.integers(0, 10**12), st.integers(0, 10**15))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_three_decimals_are_exact_whatever_the_base(tmp_path, relative, duration, more):
    absolute = relative + 1_600_000_000_000_000_000 + more
    for start in (relative, absolute):
        ts, dur = (Decimal(ns) / 1000 for ns in (start, duration))
        data = text(EVENT).replace(b"5.25", f"{ts:.3f}".encode()).replace(b'"dur": 2', f'"dur": {dur:.3f}'.encode())
        trace = read(tmp_path, data)
        assert (trace.start[0], trace.end[0] - trace.start[0]) == (start, duration)


def test_a_double_would_have_lost_this_time_stamp(tmp_path):
    assert float("1682725899305073.123") * 1000 != 1682725899305073123
    assert read(tmp_path, text(EVENT).replace(b"5.25", b"1682725899305073.123")).start[0] == 1682725899305073123


def test_integers_of_the_old_format_are_microseconds(tmp_path):
    trace = read(tmp_path, text(EVENT | {"ts": 1623142623460147, "dur": 7}))
    assert (trace.start[0], trace.end[0]) == (1623142623460147000, 1623142623460154000)


# ---- columns ----


def test_only_events_with_a_use_become_rows(tmp_path):
    others = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (python)"}, "ts": 0},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 5, "id": 3},
        {"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 1, "ts": 5, "dur": 1},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 1, "dur": 9},
    ]
    trace = read(tmp_path, text(*others, EVENT))
    assert len(trace) == 1
    assert [trace.lanes[i].title for i in trace.lane_id] == ["thread 1 (python)"]


def test_device_and_stream_come_from_the_arguments_and_else_from_the_lane(tmp_path):
    kernel = EVENT | {"cat": "Kernel", "pid": 0, "tid": "stream 7"}
    trace = read(tmp_path, text(kernel, kernel | {"args": {"device": 2, "stream": 20, "correlation": 9}}))
    assert [(trace.lanes[i].owner, trace.lanes[i].row) for i in trace.lane_id] == [("0", "7"), ("2", "20")]
    assert trace.correlation.tolist() == [0, 9]


def test_copies_that_rocm_files_as_kernels_are_copies(tmp_path):
    names = ["__amd_rocclr_copyBuffer.kd", "__amd_rocclr_fillBufferAligned", "MEMORY_COPY_HOST_TO_DEVICE", "gemm"]
    trace = read(tmp_path, text(*(EVENT | {"cat": "kernel", "name": name} for name in names)))
    assert trace.kind.tolist() == [reader.Kind.COPY, reader.Kind.MEMSET, reader.Kind.COPY, reader.Kind.KERNEL]


@pytest.mark.parametrize("correlation", [None, "x", "inf", 1e300, 10**30, ""])
def test_a_correlation_that_is_no_number_is_no_link(tmp_path, correlation):
    kernel = EVENT | {"cat": "kernel", "args": {"correlation": correlation}}
    assert read(tmp_path, text(kernel)).correlation.tolist() == [0]


@pytest.mark.parametrize("name", ["lecture_du_lot_é", "读取一批数据🚀", "قراءة", "a" * 10_000, "a\nb\u202e", ""])
def test_names_are_data(tmp_path, name):
    trace = read(tmp_path, text(EVENT | {"name": name}))
    assert trace.names == [name]


def test_endless_names_are_cut_and_stay_apart(tmp_path):
    same = "a" * 200_000
    trace = read(tmp_path, text(EVENT | {"name": same + "b"}, EVENT | {"name": same + "c"}, EVENT))
    assert len(set(trace.names)) == 3
    assert max(map(len, trace.names)) < 10_100
    assert trace.names[0].startswith("aaa")
    assert "(200001 characters, " in trace.names[0]
    assert trace.notes == ["2 names of more than 10000 characters: only the beginning is kept"]


def test_endless_numbers_of_threads_streams_and_devices_are_cut(tmp_path):
    kernel = EVENT | {"cat": "kernel", "args": {"device": "9" * 5000, "stream": "7" * 5000}}
    title = {"ph": "M", "name": "thread_name", "pid": "p" * 5000, "tid": 1, "args": {"name": "t" * 5000}}
    path = put(tmp_path, text(EVENT | {"pid": "p" * 5000}, kernel, title, deviceProperties=[{"name": "n" * 5000}]))
    interpretation = interpret(path)
    assert max(map(len, interpretation.analysis.gpu.devices)) < 600
    titles = [lane.title for lane in interpretation.timeline.lanes]
    assert len(titles) == 2
    assert max(map(len, titles)) < 600
    assert any("ttt" in title for title in titles)


# ---- packing ----


def test_gzip_is_known_by_its_bytes_not_by_the_name(tmp_path):
    assert len(read(tmp_path, gzip.compress(text(EVENT)), "packed.json")) == 1
    assert len(read(tmp_path, text(EVENT), "plain.json.gz")) == 1


def test_several_gzip_members_and_padding_are_one_text(tmp_path):
    data = text(EVENT)
    trace = read(tmp_path, gzip.compress(data[:30]) + gzip.compress(data[30:]) + b"\0" * 64)
    assert len(trace) == 1
    assert trace.notes == []


def test_a_cut_gzip_gives_what_it_holds_and_says_so(tmp_path):
    events = [EVENT | {"ts": i, "name": f"op{os.urandom(6).hex()}"} for i in range(500)]
    packed = gzip.compress(text(*events))
    trace = read(tmp_path, packed[: len(packed) // 2])
    assert 100 < len(trace) < 400
    assert re.search(r"compressed file is cut short: \d+ bytes", trace.notes[0])
    assert re.search(r"cut short inside event \d+ \(which begins at byte \d+\)", trace.notes[1])


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    path = put(tmp_path, gzip.compress(b" " * 100_000_000, 9))
    with pytest.raises(StepprofError, match="for each packed one"):
        reader.read(path)
    monkeypatch.setattr(source, "MAX_BYTES", 1000)
    with pytest.raises(StepprofError, match="at most 1000 bytes"):
        read(tmp_path, gzip.compress(os.urandom(3000)))
    with pytest.raises(StepprofError, match="has 3000 bytes"):
        read(tmp_path, os.urandom(3000))


# ---- repairs ----

MI250 = "rocm_mi250_minitoy_train_rocm62.json.gz"


def as_read(path):
    """What a trace says, its name and notes left out."""
    analysis = interpret(path).analysis
    return analysis.gpu, analysis.steps, analysis.labels, [(o.calls, o.cpu_self_us) for o in analysis.operators]


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("backslash_windows_path.json", r"^repaired: backslashes that escape nothing \(1 event\)$"),
        ("bare_NA_value.json", r"^repaired: words that are no JSON values .* \(1 event\)$"),
        ("bare_list.json", None),
        ("control_char_in_name.json", r"^repaired: control characters in a text \(1 event\)$"),
        ("nan_infinity_args.json", r"^repaired: words that are no JSON values .* \(2 events\)$"),
        ("string_numbers.json", r"^repaired: times written as texts, read as numbers \(112 events\)$"),
        ("trailing_comma.json", r"^repaired: a comma after the last event$"),
        ("unescaped_quotes_in_name.json", r"^repaired: unescaped quotes in a text \(1 event\)$"),
        ("utf8_bom.json", r"^the file begins with a byte order mark: it was skipped$"),
    ],
)
def test_a_repaired_file_says_the_same_as_the_sound_one(traces, name, note):
    path = traces / "malformed" / name
    notes = reader.read(path).notes
    assert len(notes) == (note is not None)
    assert note is None or re.search(note, notes[0])
    gpu, *rest = as_read(path)
    right_gpu, *right = as_read(traces / MI250)
    assert rest == right
    # Two of the files have no metadata, so the device has no name there.
    named = "deviceProperties" in path.read_text(encoding="utf-8-sig", errors="replace")
    assert gpu.devices == (right_gpu.devices if named else ["device 2"])
    assert (gpu.events, gpu.busy_us, gpu.span_us) == (right_gpu.events, right_gpu.busy_us, right_gpu.span_us)


@pytest.mark.parametrize(
    ("name", "note", "device_events"),
    [
        ("negative_kernel_dur.json", r"^set aside: 3 events with a negative duration", 13),
        ("ts_zero_kernels.json", r"^set aside: 2 events more than a day away from the others", 14),
        ("truncated_mid_event.json", r"^the file is cut short inside event 125 \(which begins at byte 46003\)", 1),
        ("truncated_gzip.json.gz", r"^the compressed file is cut short: 29546 bytes", 0),
    ],
)
def test_what_cannot_be_used_is_set_aside_and_counted(traces, name, note, device_events):
    analysis = interpret(traces / "malformed" / name).analysis
    assert any(re.search(note, said) for said in analysis.notes)
    assert (analysis.gpu.events if analysis.gpu.observed else 0) == device_events


def test_a_correlation_of_zero_links_nothing(traces):
    gpu = interpret(traces / "malformed" / "zero_correlation_comm.json").analysis.gpu
    assert (gpu.events, gpu.events_unlinked) == (16, 14)


def test_launches_without_device_events_are_a_failed_collection(traces):
    analysis = interpret(traces / "malformed" / "no_gpu_events_but_launches.json").analysis
    assert not analysis.gpu.observed
    assert "the collection failed on the device side" in analysis.gpu.reason
    assert "gpu-not-observed" in {finding.id for finding in analysis.findings}


def test_a_trace_without_steps_says_so(traces):
    analysis = interpret(traces / "malformed" / "no_profiler_steps.json").analysis
    assert analysis.steps == []
    assert analysis.gpu.observed
    assert any("no step is marked" in note for note in analysis.notes)


def test_every_malformed_file_has_a_test_here(traces):
    own = Path(__file__).read_text(encoding="utf-8")
    missing = [path.name for path in (traces / "malformed").iterdir() if f'"{path.name}"' not in own]
    assert missing == []


BAD = b'{"ph": "X", "cat": "cpu_op", "name": "bad", "pid": 1, "tid": 1, "ts": 6, "dur": 1, "args": {"a": %s}}'


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (b'"C:\\Users\\x"', "backslashes that escape nothing"),
        (b'"a\x01b"', "control characters in a text"),
        (b'"a\nb"', "control characters in a text"),
        (b"NaN", "words that are no JSON values"),
        (b"[1, -Infinity]", "words that are no JSON values"),
        (b"N/A", "words that are no JSON values"),
        (b"[1,]", "trailing commas"),
        (b'"say "hello" to "x", y"', "unescaped quotes in a text"),
        (b'["a "quoted" item", "b"]', "unescaped quotes in a text"),
        (b'"\\udcff"', "halves of surrogate pairs in a text"),
        (b'"C:\\Users "x"\x02 ", "c": NaN', "backslashes that escape nothing"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_one_broken_event_is_mended_wherever_it_stands(tmp_path, value, note, last):
    bad, good = BAD % value, json.dumps(EVENT).encode()
    events = [good, bad] if last else [bad, good]
    trace = read(tmp_path, b'{"traceEvents": [' + b",".join(events) + b'], "cupti_version": 18}')
    assert sorted(trace.names) == ["aten::mm", "bad"]
    assert any(said.startswith(f"repaired: {note}") and said.endswith("(1 event)") for said in trace.notes)
    assert trace.metadata.cupti_version == 18


def test_a_mended_name_keeps_what_it_says(tmp_path):
    data = text(EVENT | {"name": "QQ"})
    assert read(tmp_path, data.replace(b'"QQ"', b'"f(\\"a\\", "b")"')).names == ['f("a", "b")']
    assert read(tmp_path, data.replace(b"QQ", b"torch\\cuda\\init.py NaN,")).names == ["torch\\cuda\\init.py NaN,"]
    assert read(tmp_path, data.replace(b"QQ", b"caf\xe9")).names == ["caf\ufffd"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (EVENT | {"ts": True}, "got `bool` - at `$.ts`"),
        (EVENT | {"args": [1]}, "got `array` - at `$.args`"),
        (EVENT | {"cat": 5}, "got `int` - at `$.cat`"),
        (None, "Expected `object`"),
        (7, "Expected `object`"),
    ],
)
def test_an_event_of_wrong_types_costs_one_event(tmp_path, bad, why):
    trace = read(tmp_path, text(EVENT, bad, EVENT | {"name": "b"}))
    assert trace.names == ["aten::mm", "b"]
    assert trace.notes[0].startswith("set aside: 1 event that cannot be read; the first is event 1: ")
    assert why in trace.notes[0]


@pytest.mark.parametrize("time", ["abc", "NaN", "1e999", "", 10**40, -(10**17), 1e17, None])
def test_a_time_that_can_be_none_is_set_aside(tmp_path, time):
    for field in ("ts", "dur"):
        trace = read(tmp_path, text(EVENT, EVENT | {"name": "bad", field: time}))
        assert np.array(trace.names)[trace.name_id].tolist() == ["aten::mm"]
        assert trace.notes == ["set aside: 1 event without a start and a duration that can be a time"]


def test_metadata_that_cannot_be_read_is_said_to_be_missing(tmp_path):
    trace = read(tmp_path, text(EVENT, cupti_version=18, other="?").replace(b'"?"', b"?"))
    assert trace.metadata.cupti_version is None
    assert trace.notes[0].startswith("the metadata around the events could not be read and is missing")


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("after", [b" garbage", b"\x00\x00x", b"]}", b"<html>"])
def test_what_follows_a_whole_trace_is_left_out_and_said(tmp_path, after, bare):
    data = json.dumps([EVENT]).encode() if bare else text(EVENT, cupti_version=18)
    trace = read(tmp_path, data + after)
    assert len(trace) == 1
    assert trace.metadata.cupti_version == (None if bare else 18)
    (note,) = trace.notes
    assert re.fullmatch(r"what follows the end of the trace \(\d+ bytes from byte \d+ on\) was not read", note)


def test_of_several_traces_in_one_file_the_first_is_read(tmp_path):
    one, other = text(EVENT), text(EVENT | {"name": "other"}, EVENT | {"name": "more"})
    after, several = "what follows the end of the trace", "the file holds several lists of events: the first was read"
    for data, name, note in [
        (one + other, "aten::mm", after),
        (one + b"\n" + other[:-20], "aten::mm", after),
        (one[:-2] + b"," + other, "aten::mm", several),
        (one[:-1] + b"," + other[1:], "aten::mm", several),
        (other[:-4] + one, "other", several),
    ]:
        trace = read(tmp_path, data)
        assert trace.names == [name]
        assert trace.notes[0].startswith(note)
    assert read(tmp_path, gzip.compress(one) + gzip.compress(other)).names == ["aten::mm"]


def test_utf16_from_a_shell_is_read(tmp_path):
    trace = read(tmp_path, text(EVENT).decode().encode("utf-16"))
    assert trace.notes == ["the file is UTF-16: it was read as such"]


def test_mending_stops_where_nothing_helps(tmp_path, monkeypatch):
    monkeypatch.setattr(repair, "MAX_LOST", 2)
    hopeless = BAD % b"?"
    mendable = BAD % b"NaN"
    data = b'{"traceEvents": [' + b",".join([json.dumps(EVENT).encode(), hopeless, hopeless, mendable]) + b"]}"
    assert (
        read(tmp_path, data).notes[0].startswith("set aside: 3 events that cannot be read; the first is event 1, byte")
    )


# ---- refusals ----


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"hello", "is not JSON .*byte 0"),
        (bytes(range(256)), "is not text"),
        (b"null", "Expected `object`, got `null`"),
        (b"5", "Expected `object`, got `int`"),
        (b'{"hello": [1]}', "has no `traceEvents`"),
        (b'{"traceEvents": {"a": 1}}', "Expected `array`, got `object`"),
        (b'{"traceEvents": []}', "holds no event"),
        (b"[]", "holds no event"),
        (b"[1, 2]", "holds no event that can be read .*event 0: Expected `object`"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "has 1 event, none of them an operator"),
        (b"[" * 200_000, "is not a trace that can be read"),
        (b'{"a": ' * 200_000, "is not a trace that can be read"),
        (b'{"schemaVersion": 1, "deviceProperties": [{"id"', "truncated"),
        (b"<!DOCTYPE html><html>", "is HTML or XML"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (gzip.compress(b"PK\x03\x04rest"), "is a zip archive"),
        (b"SQLite format 3\x00", "is an SQLite database"),
        (b"\x1f\x8b\x08garbage", "is gzip and damaged from its beginning"),
        (b"\x1f\x8b", "is gzip and cut short"),
        (gzip.compress(b""), "is empty"),
        ("{}".encode("utf-16")[:-1], "is broken UTF-16"),
        (text(EVENT | {"dur": -1}), "has 1 event, none with a usable time .*negative duration"),
    ],
)
def test_refused_in_one_line(tmp_path, data, says):
    path = put(tmp_path, data)
    with pytest.raises(StepprofError) as caught:
        interpret(path)
    assert re.search(says, str(caught.value))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["not_a_trace.json", "empty_events.json"])
def test_refused_files(traces, name):
    with pytest.raises(StepprofError):
        interpret(traces / "malformed" / name)


def test_paths_that_are_no_file(tmp_path):
    for path, says in [
        (tmp_path, "is a directory"),
        (tmp_path / "missing.json", "does not exist"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(StepprofError, match=says):
            interpret(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StepprofError, match="not a regular file"):
        interpret(tmp_path / "pipe")


def test_an_event_that_is_nested_too_deeply_costs_one_event(tmp_path):
    deep = text(EVENT, EVENT | {"name": "deep"}).replace(b'"deep"', b'"deep", "z": ' + b"[" * 100_000 + b"]" * 100_000)
    trace = read(tmp_path, deep)
    assert trace.names == ["aten::mm"]
    assert "nested too deeply" in trace.notes[0]


# ---- whatever the bytes ----

PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"NaN",
    b"-1",
    b"1e400",
    b"\x00",
    b"\xff",
    b'{"ph":',
]
SMALL = text(
    EVENT,
    EVENT | {"cat": "user_annotation", "name": "ProfilerStep#3", "ts": 1, "dur": 50},
    EVENT | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 4}},
    EVENT | {"cat": "kernel", "pid": 0, "tid": 7, "args": {"correlation": 4, "device": 0, "stream": 7}},
    deviceProperties=[{"id": 0, "name": "X"}],
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(SMALL)), st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=8)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
    st.integers(0, 500),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=400)
def test_any_damage_is_read_or_refused_never_a_traceback(tmp_path, edits, packed, cut):
    data = SMALL
    for at, length, piece in edits:
        data = data[:at] + piece + data[at + length :]
    if packed:
        data = gzip.compress(data, mtime=0)[: -cut or None]
    said = ""
    try:
        said = interpret(put(tmp_path, data)).analysis.trace
    except StepprofError as error:
        said = str(error)
    assert "t.json" in said
    assert "\n" not in said


@pytest.mark.parametrize("at", range(1, len(SMALL), 7))
def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_event_or_refused(tmp_path, at):
    whole = SMALL[:at].count(b"}, {") + SMALL[:at].count(b"}]")
    path = put(tmp_path, SMALL[:at])
    try:
        trace = reader.read(path)
    except StepprofError:
        assert whole == 0
    else:
        assert len(trace) >= whole
        assert any("cut short" in note or "metadata" in note for note in trace.notes)
