"""Open the files that the user names: paths, folders, globs, members of archives, Parquet.

Only regular files are opened, never a pipe, socket or device, and without waiting for a writer.
Folders are walked in sorted order; links to folders are not followed.

Archives are read in memory, member by member; nothing is ever extracted. Refused before a byte is
unpacked: more members than `limits.zip_members`, more bytes than `limits.zip_total_bytes`, a ratio
above `limits.zip_ratio`, two members of one name, members that share bytes. A member whose name
leads out of the archive, that is encrypted, packed by another method than deflate or zstd, or a zip
itself, is refused alone. No more bytes come out than a member declares, and its checksum is
compared. Python unpacks zstd from 3.14 on; before it, the package of the extra `zstd` does.

A gzip file is read as what it holds, under the limits of archives.

Parquet says at its end what it holds, so formats are asked about its footer. Sizes that a file
claims are checked before it is unpacked. It needs the extra `parquet`.
Source: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.4.5; Fifield (2019), A
better zip bomb, USENIX WOOT, for overlapping members; RFC 8878 for zstd frames that follow each
other; Apache Parquet, `README.md`.
"""

from __future__ import annotations

import glob
import gzip
import importlib
import io
import os
import stat
import struct
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, cast

from stepscope.errors import ConfigError, LimitError, TraceError, UsageError
from stepscope.model import Stream
from stepscope.safety.limits import Limits, is_in_use
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    from collections.abc import Callable

ZSTD_METHOD = 93
ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD_METHOD}
ZSTD_MISSING = "packed by zstd; reading it needs a package: pip install 'stepscope[zstd]'"

_LOCAL_HEADER_BYTES = 30
_LENGTHS_AT = 26


class _Zstd(Protocol):
    """What is used of `compression.zstd`, and of its backport."""

    ZstdError: type[Exception]
    ZstdFile: Callable[[BinaryIO], BinaryIO]


@cache
def load_zstd() -> _Zstd | None:
    """Return what unpacks zstd, None where nothing does."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd as found
        else:
            from backports import zstd as found
    except ImportError:
        return None
    return cast(_Zstd, found)


class _Reader(io.RawIOBase):
    """A file whose next bytes `following` gives: at most so many, none at its end."""

    def following(self, size: int) -> bytes:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer)).cast("B")
        part = self.following(len(room))
        room[: len(part)] = part
        return len(part)


class _PackedMember(_Reader):
    """The bytes of a member as they stand in the archive."""

    def __init__(self, file: BinaryIO, entry: zipfile.ZipInfo) -> None:
        super().__init__()
        file.seek(entry.header_offset)
        head = file.read(_LOCAL_HEADER_BYTES)
        if len(head) < _LOCAL_HEADER_BYTES:
            raise zipfile.BadZipFile("a member without its header")
        name, extra = struct.unpack_from("<HH", head, _LENGTHS_AT)
        self._file = file
        self._at = entry.header_offset + _LOCAL_HEADER_BYTES + name + extra
        self._left = entry.compress_size

    def following(self, size: int) -> bytes:
        self._file.seek(self._at)
        part = self._file.read(min(size, self._left))
        self._at += len(part)
        self._left -= len(part)
        return part


class _UnpackedMember(_Reader):
    """A member being unpacked: as many bytes as it declares, then its checksum is compared."""

    def __init__(self, packed: BinaryIO, entry: zipfile.ZipInfo, library: _Zstd) -> None:
        super().__init__()
        self._frames = library.ZstdFile(packed)
        self._error = library.ZstdError
        self._left = entry.file_size
        self._expected = entry.CRC
        self._crc = 0

    def following(self, size: int) -> bytes:
        if not self._left:
            return b""
        try:
            part = self._frames.read(min(size, self._left))
        except (self._error, EOFError) as e:
            raise zipfile.BadZipFile(f"its zstd data is damaged: {e}") from e
        self._left -= len(part)
        self._crc = zlib.crc32(part, self._crc)
        if not part or (not self._left and self._crc != self._expected):
            raise zipfile.BadZipFile("unpacks to something else than it declares")
        return part


# Present on POSIX only; elsewhere there are no FIFOs to wait for.
_FLAG_NAMES = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in _FLAG_NAMES)
_FILE_KINDS = (
    (stat.S_ISDIR, "a link to a folder, or a folder that cannot be entered"),
    (stat.S_ISFIFO, "a pipe; pass its content on standard input: `... | stepscope import -`"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class OpenedFile(NamedTuple):
    """A file that is open for reading; `named` when the user gave this very path."""

    uri: str
    file: BinaryIO
    named: bool


# How the problem of a path begins that is deliberately not opened.
NOT_OPENED = ("a link ", "not a file but", "a store in use")


class RefusedFile(NamedTuple):
    """A path that is not read, and why."""

    uri: str
    problem: str
    named: bool


# What runs in memory are called, as if it were their file.
MEMORY = "memory"


def open_paths(paths: Sequence[str | bytes]) -> Iterator[OpenedFile | RefusedFile]:
    """Yield every file that the paths stand for, in order; each is open until the next is asked.

    Bytes are the content of a file in memory. `UsageError` for a glob that matches nothing, a
    folder without files, a path with a NUL.
    """
    for path in paths:
        if isinstance(path, bytes):
            yield OpenedFile(MEMORY, io.BytesIO(path), named=True)
            continue
        if path == "-":
            yield OpenedFile("-", sys.stdin.buffer, named=True)
            continue
        if "\0" in path:
            raise UsageError(f"{visible_line(path)}: a path cannot hold a NUL character")
        if glob.has_magic(path) and not os.path.lexists(path):
            yield from _open_each(_match_glob(path), top=_glob_top(path))
        elif os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises on a name that is too long
            files = _walk_folder(path)
            if not files:
                raise UsageError(f"{visible_line(path)}: a folder without files")
            yield from _open_each(files, top=path)
        else:
            yield from _open_each([path])


def _glob_top(pattern: str) -> str:
    """Return the folder that all matches of a pattern lie below."""
    return str(Path(*list(takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts))))


def _match_glob(pattern: str) -> list[str]:
    # Path.glob refuses absolute patterns and reads `**` differently from one Python to the next.
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not found:
        raise UsageError(f"{visible_line(pattern)}: matches no file")
    files: list[str] = []
    top = Path(_glob_top(pattern))
    for path in found:
        # A linked folder stands for itself: what is behind it may be all of the disk, or a circle.
        on_the_way = [one for one in (Path(path), *Path(path).parents) if top in one.parents]
        link = next((one for one in reversed(on_the_way) if one.is_symlink()), None)
        if link is not None:
            files.append(str(link))
            continue
        # `**` gives folders and what is in them; only a plain match stands for its content.
        if not Path(path).is_dir():
            files.append(path)
        elif "**" not in pattern:
            files += _walk_folder(path)
    return list(dict.fromkeys(files))


def _walk_folder(top: str) -> list[str]:
    """Return every entry below a folder that is no folder itself, or cannot be entered."""
    entries: list[str] = []
    closed: list[str] = []
    for folder, folders, files in os.walk(top, onerror=lambda e: closed.append(str(e.filename))):
        folders.sort()
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        entries += [str(here / name) for name in sorted(files + links)]
    return entries + closed


def _open_each(paths: list[str], *, top: str | None = None) -> Iterator[OpenedFile | RefusedFile]:
    """Open files that were named, or found below the folder `top`."""
    named = top is None
    inside = None if top is None else Path(top).resolve()
    for path in paths:
        uri = visible_line(path)
        try:
            if inside is not None and not Path(path).resolve().is_relative_to(inside):
                yield RefusedFile(uri, "a link out of its folder; name what it leads to", named)
                continue
            mode = Path(path).stat().st_mode
            if not stat.S_ISREG(mode):
                kind = next((kind for test, kind in _FILE_KINDS if test(mode)), "something else")
                yield RefusedFile(uri, f"not a file but {kind}", named)
                continue
            if is_in_use(path):
                yield RefusedFile(uri, "a store in use, or a part of one", named)
                continue
            handle = os.open(path, _OPEN_FLAGS)
        except (OSError, RuntimeError) as e:  # a circle of links, before Python 3.13
            why = (e.strerror if isinstance(e, OSError) else None) or e
            link = os.path.islink(path)  # noqa: PTH114 - Path.is_symlink raises on a long name
            what = "a link that leads nowhere" if link else "cannot be read"
            yield RefusedFile(uri, f"{what}: {why}", named)
            continue
        with os.fdopen(handle, "rb", buffering=0) as file:
            # Between the look and the opening the path may have become something else.
            if stat.S_ISREG(os.fstat(handle).st_mode):
                yield OpenedFile(uri, file, named)
            else:
                yield RefusedFile(uri, "changed while it was opened", named)


ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# What reading a damaged member raises, in zlib, in zipfile and below them.
DAMAGE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError)

_CENTRAL_SIGNATURE = b"PK\x01\x02"
_END_SIGNATURE, _END64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06"
_END_BYTES, _LOCATOR64_BYTES, _END64_BYTES = 22, 20, 56
_COMMENT_BYTES = 65535
# A central directory is read whole; an entry is 46 bytes, its name, and fields of a few bytes.
_ENTRY_BYTES = 1024


def open_members(file: BinaryIO, uri: str, limits: Limits) -> Iterator[OpenedFile | RefusedFile]:
    """Yield the members of an archive in order, each open until the next; as `open_archive`."""
    with open_archive(file, uri, limits) as archive:
        for entry in archive.entries:
            found = archive.open(entry)
            if isinstance(found, RefusedFile):
                yield found
                continue
            with found.file:
                yield found


class Archive:
    """A zip whose directory was checked: its members, to be opened in any order."""

    def __init__(self, file: BinaryIO, uri: str, archive: zipfile.ZipFile) -> None:
        self.entries = [e for e in archive.infolist() if not e.filename.endswith("/")]
        self._file = file
        self._uri = uri
        self._archive = archive

    def open(self, entry: zipfile.ZipInfo) -> OpenedFile | RefusedFile:
        """Return a member open for reading, or why it is not read."""
        name = f"{self._uri}!{visible_line(entry.filename)}"
        problem = _member_problem(entry)
        if problem is not None:
            return RefusedFile(name, problem, named=False)
        library = load_zstd()
        try:
            if entry.compress_type == ZSTD_METHOD and library is not None:
                packed = cast(BinaryIO, io.BufferedReader(_PackedMember(self._file, entry)))
                opened = io.BufferedReader(_UnpackedMember(packed, entry, library))
                return OpenedFile(name, cast(BinaryIO, opened), named=False)
            return OpenedFile(name, cast(BinaryIO, self._archive.open(entry)), named=False)
        except (*DAMAGE_ERRORS, NotImplementedError, RuntimeError, ValueError) as e:
            return RefusedFile(name, f"cannot be read: {e}", named=False)


@contextmanager
def open_archive(file: BinaryIO, uri: str, limits: Limits) -> Iterator[Archive]:
    """Open an archive, its directory checked.

    `TraceError` where it is no readable zip or has two members of one name, `LimitError` where it
    is beyond a limit as a whole, or members overlap.
    """
    _refuse_many(file, uri, limits)
    try:
        archive = zipfile.ZipFile(file)
    except (*DAMAGE_ERRORS, NotImplementedError, UnicodeDecodeError) as e:
        raise TraceError(f"{uri}: a zip that cannot be read: {e}") from e
    with archive:
        found = Archive(file, uri, archive)
        total = sum(entry.file_size for entry in found.entries)
        packed = sum(entry.compress_size for entry in found.entries)
        if total > limits.zip_total_bytes:
            most = f"limits.zip_total_bytes is {limits.zip_total_bytes}"
            raise LimitError(f"{uri}: {total} bytes when unpacked; {most}")
        if total > limits.zip_ratio_floor_bytes and total > packed * limits.zip_ratio:
            times, most = total / max(1, packed), f"limits.zip_ratio is {limits.zip_ratio:g}"
            raise LimitError(f"{uri}: unpacks to {times:.0f} times its size; {most}")
        twice = [name for name, n in Counter(e.filename for e in found.entries).items() if n > 1]
        if twice:
            raise TraceError(f"{uri}: {len(twice)} names twice, first {visible_line(twice[0])!r}")
        ordered = sorted(found.entries, key=lambda entry: entry.header_offset)
        ends = [*(entry.header_offset for entry in ordered[1:]), archive.start_dir]
        for entry, end in zip(ordered, ends, strict=False):
            # At least: the local header may carry more extra bytes than the directory says.
            least = _LOCAL_HEADER_BYTES + len(entry.orig_filename.encode()) + entry.compress_size
            if entry.header_offset + least > end:
                name = visible_line(entry.filename)
                raise LimitError(f"{uri}: member {name!r} overlaps the next")
        yield found


def _refuse_many(file: BinaryIO, uri: str, limits: Limits) -> None:
    """Count the entries before the standard library builds an object for each."""
    size = file.seek(0, 2)
    tail_at = max(0, size - _END_BYTES - _COMMENT_BYTES - _LOCATOR64_BYTES - _END64_BYTES)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    end = tail.rfind(_END_SIGNATURE)
    if end < 0 or len(tail) - end < _END_BYTES:
        raise TraceError(f"{uri}: a zip without its end; it was cut short")
    directory = struct.unpack_from("<I", tail, end + 12)[0]
    end64 = end - _LOCATOR64_BYTES - _END64_BYTES
    if end64 >= 0 and tail[end64 : end64 + 4] == _END64_SIGNATURE:
        (large,) = struct.unpack_from("<Q", tail, end64 + 40)
        directory = max(directory * (directory != 2**32 - 1), large)
        end = end64
    found, most = directory // _ENTRY_BYTES, limits.zip_members
    if found <= most:
        file.seek(max(0, tail_at + end - directory))
        found = file.read(directory).count(_CENTRAL_SIGNATURE)
    if found > most:
        raise LimitError(f"{uri}: {found} members or more; limits.zip_members is {most}")
    file.seek(0)


def _member_problem(entry: zipfile.ZipInfo) -> str | None:
    name = entry.orig_filename
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or ":" in parts[0] or "\0" in name:
        return "a name that leads out of the archive; not read"
    if entry.header_offset < 0:
        return "begins before its archive does; not read"
    if entry.flag_bits & 1:
        return "encrypted; not read"
    if entry.compress_type not in ZIP_METHODS:
        return f"packed by zip method {entry.compress_type}; store, deflate and zstd are read"
    if entry.compress_type == ZSTD_METHOD and load_zstd() is None:
        return ZSTD_MISSING
    return None


PARQUET_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
# Of a footer: schemas stand first in it, and none of a known format is longer.
_FOOTER_BYTES = 64 * 1024


def pyarrow_module(name: str) -> Any:
    """Return a module of pyarrow; ConfigError without it. `Any`: it is loaded by name."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ConfigError("Parquet needs pyarrow: pip install 'stepscope[parquet]'") from e


def sniffable_bytes(file: BinaryIO, head: bytes) -> bytes:
    """Return what formats are asked about: of Parquet its footer, else the first bytes."""
    if not head.startswith(PARQUET_MAGIC) or not file.seekable():
        return head
    size = file.seek(0, 2)
    if size < 2 * len(PARQUET_MAGIC) + _LENGTH_BYTES:
        return head
    file.seek(size - len(PARQUET_MAGIC) - _LENGTH_BYTES)
    end = file.read(len(PARQUET_MAGIC) + _LENGTH_BYTES)
    length = int.from_bytes(end[:_LENGTH_BYTES], "little")
    start = size - len(end) - length
    if end[_LENGTH_BYTES:] != PARQUET_MAGIC or start < len(PARQUET_MAGIC):
        return head
    file.seek(start)
    kept = file.read(min(length, _FOOTER_BYTES))
    return PARQUET_MAGIC + kept + len(kept).to_bytes(_LENGTH_BYTES, "little") + PARQUET_MAGIC


def parquet_footer(head: bytes) -> bytes:
    """Return the footer of a file that is seen whole, nothing of any other."""
    end = head[-len(PARQUET_MAGIC) - _LENGTH_BYTES :]
    whole = len(head) > len(PARQUET_MAGIC) + len(end) and end.endswith(PARQUET_MAGIC)
    if not whole or not head.startswith(PARQUET_MAGIC):
        return b""
    start = len(head) - len(end) - int.from_bytes(end[:_LENGTH_BYTES], "little")
    return head[start : -len(end)] if start >= len(PARQUET_MAGIC) else b""


@contextmanager
def open_parquet(stream: Stream) -> Iterator[Any]:
    """Give the file to read; `Any`: a `pyarrow.parquet.ParquetFile`.

    `TraceError`, here and while it is read, where it is no stream of a file, no Parquet, or cut
    short; `ConfigError` without pyarrow.
    """
    pa, parquet = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.parquet")
    if not stream.file.seekable():
        raise TraceError(f"{stream.uri}: Parquet is read from a file, not from a stream")
    try:
        yield parquet.ParquetFile(stream.file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise TraceError(f"{stream.uri}: Parquet that cannot be read: {reason}") from e


def check_parquet_sizes(file: Any, stream: Stream) -> None:
    """Raise LimitError where a row group of a `ParquetFile` unpacks to more than is allowed."""
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).total_byte_size
        if not 0 <= size <= stream.limits.zip_total_bytes:
            most = f"limits.zip_total_bytes is {stream.limits.zip_total_bytes}"
            raise LimitError(f"{stream.uri}: row group {group} unpacks to {size} bytes; {most}")


def read_batches(
    file: Any, stream: Stream, rows: int, columns: list[str] | None = None
) -> Iterator[Any]:
    """Yield the `RecordBatch`es of a `ParquetFile`; TraceError where fewer or more rows came."""
    came = 0
    for batch in file.iter_batches(rows, columns=columns):
        came += batch.num_rows
        yield batch
    claimed = file.metadata.num_rows
    if came != claimed:
        raise TraceError(f"{stream.uri}: damaged Parquet: {came} rows came of {claimed}")


GZIP_MAGIC = b"\x1f\x8b"
_TAR_AT, _TAR_MAGIC = 257, b"ustar"


def open_gzip(file: BinaryIO, head: bytes, uri: str, limits: Limits) -> BinaryIO:
    """Return what a gzip file holds, of which `head` was read; unpacked as it is read.

    `TraceError` where it holds an archive, or is packed twice, is damaged, or unpacks to too much.
    """
    opened = cast(BinaryIO, io.BufferedReader(_UnpackedGzip(rewind(file, head), uri, limits)))
    first = cast(io.BufferedReader, opened).peek(_TAR_AT + len(_TAR_MAGIC))
    if first.startswith((*ZIP_MAGIC, GZIP_MAGIC)) or first.find(_TAR_MAGIC, _TAR_AT) == _TAR_AT:
        raise TraceError(f"{uri}: an archive within gzip; unpack it first")
    return opened


class _UnpackedGzip(_Reader):
    """A gzip file being unpacked, within the limits that archives have."""

    def __init__(self, packed: BinaryIO, uri: str, limits: Limits) -> None:
        super().__init__()
        self._packed, self._uri, self._limits, self._bytes = packed, uri, limits, 0
        self._file = gzip.GzipFile(fileobj=packed)

    def following(self, size: int) -> bytes:
        part, limits = self._file.read(size), self._limits
        self._bytes += len(part)
        if self._bytes > limits.zip_total_bytes:
            most = f"{limits.zip_total_bytes} bytes, limits.zip_total_bytes"
            raise LimitError(f"{self._uri}: unpacks to more than {most}")
        read = self._packed.tell() if self._packed.seekable() else self._bytes
        if self._bytes > max(limits.zip_ratio_floor_bytes, read * limits.zip_ratio):
            raise LimitError(f"{self._uri}: unpacks to over {limits.zip_ratio:g} times its size")
        return part


def rewind(file: BinaryIO, head: bytes) -> BinaryIO:
    """Return the file as if `head` had not been read of it; wound back where that is possible."""
    if file.seekable():
        file.seek(0)
        return file
    return cast(BinaryIO, io.BufferedReader(_RejoinedFile(head, file)))


class _RejoinedFile(_Reader):
    """A file that cannot be wound back, with what was already read of it in front."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = head
        self._rest = rest

    def following(self, size: int) -> bytes:
        part, self._head = self._head[:size], self._head[size:]
        return part or self._rest.read(size)
