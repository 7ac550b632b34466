"""A file's bytes, unpacked: how a trace comes off the disk before anyone looks for JSON in it."""

from __future__ import annotations

import contextlib
import stat
import zlib
from typing import TYPE_CHECKING

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    import concurrent.futures
    import io
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_BYTES = 8_000_000_000
"""Unpacked bytes that are read at the most: a trace is held in memory, and larger ones were captured too long."""
MAX_RATIO = 200
"""Real traces pack 10 to 40 times; what packs far better was made to fill a memory."""
RATIO_FROM = 64_000_000
"""Unpacked bytes from which on the ratio is looked at: below, nothing can be hurt."""
CHUNK = 1 << 20
FINE = 256
"""Packed bytes at a time where a damaged file is unpacked as far as it goes."""
LEAST_BYTES = {b"{": 16, b"[": 6, b",": 5}
"""Bytes of a trace for each of these, at the least; in real ones 110, 40 and 19. Denser text holds no events, and would
take thirty times its size in memory."""
MEMBERS = 1000
"""Members of a gzip file, at the most, and one more for each thousand bytes in them."""
DENSE_FROM = 4_000_000
"""Bytes of text from which on this is looked at."""

NOTHING = b" \t\r\n\x00"
GZIP = b"\x1f\x8b"
OTHER_KINDS = (
    (GZIP, "packed with gzip twice"),
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

BYTE_ORDER_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
ENCODINGS_BY_ZEROS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
"""By which of the first four bytes are zero (RFC 4627, section 3)."""

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
    data = _read(path, notes)
    if data.startswith(GZIP):
        data = _unpack(path, data, notes)
    data = _as_utf8(path, data, notes)
    start = data[:64].lstrip()
    for magic, kind in OTHER_KINDS:
        if data.startswith(magic) or start.startswith(magic):
            raise refuse(path, f"is {kind}", "unpack or export it first, or name another file")
    if not data[:CHUNK].strip(NOTHING) and not data.strip(NOTHING):
        raise refuse(path, "is empty", _EMPTY)
    return _without_end(data, notes), notes


_EMPTY = "capture again: an export that failed leaves an empty file"


class NotPlain(Exception):
    """A file that has to be looked at as a whole."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Callable[[memoryview], int]]:
    """A sound file's bytes, unpacked, as they come off the disk; for any other one there is `load`.

    Yields:
        What puts the next bytes into a buffer and says how many these are; 0 at the end.

    Raises:
        NotPlain: there is no such file, it cannot be read, it is damaged or too large, or it changes meanwhile.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise NotPlain
        with path.open("rb", buffering=0) as raw:
            packed = raw.read(len(GZIP)) == GZIP
            raw.seek(0)
            file = _Counted(raw, found.st_size)
            if not packed:
                yield file.readinto
                return
            import concurrent.futures  # here, because it loads a good deal

            with concurrent.futures.ThreadPoolExecutor(1) as ahead:
                yield _Inflated(file, ahead).readinto
    except (OSError, ValueError, zlib.error) as error:
        raise NotPlain from error


class _Counted:
    """A file that has as many bytes as it was seen to have."""

    def __init__(self, raw: io.FileIO, size: int) -> None:
        self._raw, self._left = raw, size

    def readinto(self, view: memoryview) -> int:
        got = self._raw.readinto(view)
        self._left -= got
        if self._left < 0 or (self._left and not got):
            raise NotPlain
        return got


class _Inflated:
    """A gzip file of one member, unpacked in a thread while the bytes before are looked at: zlib holds no lock."""

    def __init__(self, file: _Counted, ahead: concurrent.futures.Executor) -> None:
        self._file, self._ahead = file, ahead
        self._engine = zlib.decompressobj(wbits=31)
        self._packed: bytes | memoryview = b""
        self._buffer = memoryview(bytearray(CHUNK // 4))
        self._taken = self._given = 0
        self._here = memoryview(b"")
        self._next = ahead.submit(self._inflate)

    def readinto(self, view: memoryview) -> int:
        if not self._here:
            self._here = memoryview(self._next.result())
            if self._here:
                self._next = self._ahead.submit(self._inflate)
        size = min(len(view), len(self._here))
        view[:size] = self._here[:size]
        self._here = self._here[size:]
        return size

    def _inflate(self) -> bytes:
        """The next bytes; none at the end."""
        out = b""
        while not out and not self._engine.eof:
            if not self._packed:
                got = self._file.readinto(self._buffer)
                if not got:
                    raise NotPlain  # cut short
                self._packed, self._taken = self._buffer[:got], self._taken + got
            out = self._engine.decompress(self._packed, CHUNK)
            self._packed = self._engine.unconsumed_tail
        self._given += len(out)
        if self._given > RATIO_FROM and self._given > MAX_RATIO * self._taken:
            raise NotPlain
        if not out and (self._engine.unused_data or self._file.readinto(self._buffer)):
            raise NotPlain  # another member
        return out


def refuse_dense(path: Path, data: bytes) -> None:
    """Refuse text of (nearly) nothing but tiny values before it is decoded as one.

    Raises:
        StepprofError: it is.
    """
    if len(data) < DENSE_FROM:
        return
    for what, least in LEAST_BYTES.items():
        found = data.count(what)
        if found * least > len(data):
            why = f"has {found} times {what.decode()!r} in {len(data)} bytes, which is too dense for a trace"
            raise refuse(path, why, "name the file that export_chrome_trace wrote")


def _without_end(data: bytes, notes: list[str]) -> bytes:
    """Leave out the zero bytes that stand where the end of a file was never written."""
    written = data.rstrip(b"\x00")
    if len(written) < len(data):
        notes.append(f"the file ends in {len(data) - len(written)} zero bytes, which were never written: left out")
    return written


def _read(path: Path, notes: list[str]) -> bytes:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise refuse(path, "is a directory", "name the file inside it")
        if not stat.S_ISREG(found.st_mode):
            raise refuse(path, "is not a regular file", "name a file")
        if found.st_size > MAX_BYTES:
            raise refuse(path, f"has {found.st_size} bytes", _SHORTER, f"at most {MAX_BYTES} bytes")
        return _read_up_to(path, found.st_size, notes)
    except FileNotFoundError as error:
        raise refuse(path, "does not exist", "check the name") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have (a null character)
        reason = getattr(error, "strerror", None) or error
        raise refuse(path, f"cannot be read ({reason})", "check the name and who may read it") from error


def _read_up_to(path: Path, size: int, notes: list[str]) -> bytes:
    """The bytes that a file had when it was looked at: one that grows meanwhile is not read for ever."""
    with path.open("rb") as stream:
        begin = stream.read(CHUNK)
        if len(begin) == CHUNK and not begin.strip(NOTHING):
            raise refuse(path, f"is empty: its first {CHUNK} bytes are blank", _EMPTY)
        stream.seek(0)
        data = stream.read(size)
        grew = bool(stream.read(1))
    if grew or len(data) < size:
        notes.append(
            f"the file {'grew' if grew else 'became shorter'} while it was read: it may still be being written"
        )
    return data


_SHORTER = "capture fewer steps (two active steps answer most questions), without stacks and memory"


def _unpack(path: Path, packed: bytes, notes: list[str]) -> bytes:
    """Unpack gzip (several members too), keep what a cut file still gives, and stop at a bomb."""
    view = memoryview(packed)
    out = bytearray()
    at = 0
    problem = ""
    members = 0
    while at < len(packed) and not problem:
        members += 1
        if members > MEMBERS + len(out) // 1000:
            why = f"is {members} compressed pieces with {len(out)} bytes in them"
            raise refuse(path, why, "copy or capture it again")
        engine = zlib.decompressobj(wbits=31)
        try:
            at = _unpack_member(path, view, at, engine, out)
        except zlib.error as error:
            problem = "damaged" if out else f"damaged from its beginning ({error})"
        else:
            if not engine.eof:
                problem = "cut short"
        if not problem and view[at : at + 2] != GZIP:
            after = packed[at:].strip(b"\x00")  # zeros are padding
            if after:
                notes.append(f"what follows the compressed data ({len(after)} bytes) is not gzip and was not read")
            break
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
            before = engine.copy()
            try:
                out += engine.decompress(data, CHUNK)
            except zlib.error:
                _unpack_finely(data, before, out)
                raise
            data = engine.unconsumed_tail
            if len(out) > MAX_BYTES or (len(out) > RATIO_FROM and len(out) > MAX_RATIO * at):
                why = f"unpacks to more than {len(out)} bytes from {at}"
                limit = f"at most {MAX_BYTES} bytes, and at most {MAX_RATIO} for each packed one"
                raise refuse(path, why, _SHORTER, limit)
    return at - len(engine.unused_data)


def _unpack_finely(data: bytes | memoryview, engine: zlib._Decompress, out: bytearray) -> None:
    """Add what can still be unpacked before the damage, which is less than `CHUNK` further on."""
    most = len(out) + CHUNK
    with contextlib.suppress(zlib.error):
        for at in range(0, len(data), FINE):
            out += engine.decompress(data[at : at + FINE], max(most - len(out), 1))


def _as_utf8(path: Path, data: bytes, notes: list[str]) -> bytes:
    """Drop a byte order mark; turn UTF-16 (a shell's redirection) and UTF-32 into UTF-8."""
    if data.startswith(b"\xef\xbb\xbf"):
        notes.append("the file begins with a byte order mark: it was skipped")
        return data[3:]
    encoding = _wide_encoding(data)
    if encoding is None:
        return data
    name = encoding[:6].upper()
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise refuse(path, f"is broken {name} (byte {error.start})", "export it again as UTF-8") from error
    notes.append(f"the file is {name}: it was read as such")
    return text.removeprefix("\ufeff").encode("utf-8", "replace")


def _wide_encoding(data: bytes) -> str | None:
    """UTF-16 or UTF-32, by the byte order mark, or by where zeros stand: JSON begins with two ASCII characters."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding
    return ENCODINGS_BY_ZEROS.get(tuple(byte == 0 for byte in data[:4]))
