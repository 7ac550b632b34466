"""A file's bytes, unpacked: how a trace comes off the disk before anyone looks for JSON in it."""

from __future__ import annotations

import stat
import zlib
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 8_000_000_000
"""Unpacked bytes that are read at the most: a trace is held in memory, and larger ones were captured too long."""
MAX_RATIO = 200
"""Real traces pack 10 to 40 times; what packs far better was made to fill a memory."""
RATIO_FROM = 64_000_000
"""Unpacked bytes from which on the ratio is looked at: below, nothing can be hurt."""
CHUNK = 1 << 20

GZIP = b"\x1f\x8b"
OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"BZh", "a bzip2 file"),
    (b"SQLite format 3\x00", "an SQLite database (an Nsight Systems export?)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"<", "HTML or XML"),
)
"""First bytes of files that people hand over in place of a trace."""

A_TRACE = "a trace as torch.profiler exports it (.json or .json.gz)"


def refuse(path: Path, why: str, todo: str, expected: str = A_TRACE) -> StepprofError:
    """The error for a file that cannot be read as a trace."""
    return StepprofError(f"trace {str(path)!r} {why}", expected, todo)


def load(path: Path) -> tuple[bytes, list[str]]:
    """Read a file and unpack it where it is packed; the first bytes decide, not the name.

    Returns:
        The bytes as UTF-8 without a byte order mark, and notes on what was repaired.

    Raises:
        StepprofError: there is no such file, it cannot be read, it is of another kind, it is empty or too large.
    """
    notes: list[str] = []
    data = _read(path)
    if data.startswith(GZIP):
        data = _unpack(path, data, notes)
    data = _as_utf8(path, data, notes)
    start = data[:64].lstrip()
    for magic, kind in OTHER_KINDS:
        if data.startswith(magic) or start.startswith(magic):
            raise refuse(path, f"is {kind}", "unpack or export it first, or name another file")
    if not data.strip(b" \t\r\n\x00"):
        raise refuse(path, "is empty", "capture again: an export that failed leaves an empty file")
    return data, notes


def _read(path: Path) -> bytes:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise refuse(path, "is a directory", "name the file inside it")
        if not stat.S_ISREG(found.st_mode):
            raise refuse(path, "is not a regular file", "name a file")
        if found.st_size > MAX_BYTES:
            raise refuse(path, f"has {found.st_size} bytes", _SHORTER, f"at most {MAX_BYTES} bytes")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise refuse(path, "does not exist", "check the name") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have (a null character)
        reason = getattr(error, "strerror", None) or error
        raise refuse(path, f"cannot be read ({reason})", "check the name and who may read it") from error


_SHORTER = "capture fewer steps (two active steps answer most questions), without stacks and memory"


def _unpack(path: Path, packed: bytes, notes: list[str]) -> bytes:
    """Unpack gzip (several members too), keep what a cut file still gives, and stop at a bomb."""
    view = memoryview(packed)
    out = bytearray()
    at = 0
    problem = ""
    while at < len(packed) and not problem:
        engine = zlib.decompressobj(wbits=31)
        try:
            at = _unpack_member(path, view, at, engine, out)
        except zlib.error as error:
            problem = "damaged" if out else f"damaged from its beginning ({error})"
        else:
            if not engine.eof:
                problem = "cut short"
        if view[at : at + 2] != GZIP:
            break  # padding after the last member
    if problem and not out:
        raise refuse(path, f"is gzip and {problem}", "copy or capture it again")
    if problem:
        notes.append(f"the compressed file is {problem}: {len(out)} bytes could be unpacked and were read")
    return bytes(out)


def _unpack_member(path: Path, view: memoryview, at: int, engine: zlib._Decompress, out: bytearray) -> int:
    """Unpack one gzip member into ``out``; returns where the bytes after it begin."""
    while at < len(view) and not engine.eof:
        data: bytes | memoryview = view[at : at + CHUNK]
        at += len(data)
        while len(data) and not engine.eof:
            out += engine.decompress(data, CHUNK)
            data = engine.unconsumed_tail
            if len(out) > MAX_BYTES or (len(out) > RATIO_FROM and len(out) > MAX_RATIO * at):
                why = f"unpacks to more than {len(out)} bytes from {at}"
                limit = f"at most {MAX_BYTES} bytes, and at most {MAX_RATIO} for each packed one"
                raise refuse(path, why, _SHORTER, limit)
    return at - len(engine.unused_data)


def _as_utf8(path: Path, data: bytes, notes: list[str]) -> bytes:
    """Drop a byte order mark; turn UTF-16 (a shell's redirection) into UTF-8."""
    if data.startswith(b"\xef\xbb\xbf"):
        notes.append("the file begins with a byte order mark: it was skipped")
        return data[3:]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError as error:
            raise refuse(path, f"is broken UTF-16 (byte {error.start})", "export it again as UTF-8") from error
        notes.append("the file is UTF-16: it was read as such")
        return text.encode("utf-8", "replace")
    return data
