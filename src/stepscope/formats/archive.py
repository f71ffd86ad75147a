"""Read the members of a zip in memory, by name, one after the other; nothing is ever extracted.

Refused before a byte is unpacked: more members than `limits.zip_members`, more bytes than
`limits.zip_total_bytes`, a ratio above `limits.zip_ratio`, two members of one name, members that
share bytes. Sizes are those that the archive declares: the standard library unpacks no more than
it declares and compares the checksum, so a lie shows as damage. A member whose name leads out of
the archive, that is encrypted, packed by another method than deflate or zstd, or a zip itself, is
refused alone.
Source: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16; Fifield (2019), A better zip
bomb, USENIX WOOT, for overlapping members.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from stepscope.errors import LimitError, TraceError
from stepscope.formats.packing import METHODS, MISSING, ZSTD, member, zstd
from stepscope.formats.sources import Opened, Refused
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# What reading a damaged member raises, in zlib, in zipfile and below them.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError)

_LOCAL_HEADER_BYTES = 30
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_END_SIGNATURE, _END64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06"
_END_BYTES, _LOCATOR64_BYTES, _END64_BYTES = 22, 20, 56
_COMMENT_BYTES = 65535
# A central directory is read whole; an entry is 46 bytes, its name, and fields of a few bytes.
_ENTRY_BYTES = 1024


def members(file: BinaryIO, uri: str, limits: Limits) -> Iterator[Opened | Refused]:
    """Yield the members of an archive in its order, each open until the next is asked for.

    Raises:
        TraceError: no readable zip, or two members of one name.
        LimitError: the archive as a whole is beyond a limit, or members overlap.
    """
    with opened(file, uri, limits) as archive:
        for entry in archive.entries:
            found = archive.open(entry)
            if isinstance(found, Refused):
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

    def open(self, entry: zipfile.ZipInfo) -> Opened | Refused:
        """Return a member open for reading, or why it is not read."""
        name = f"{self._uri}!{visible_line(entry.filename)}"
        problem = _problem(entry)
        if problem is not None:
            return Refused(name, problem, named=False)
        try:
            return Opened(name, member(self._archive, self._file, entry), named=False)
        except (*DAMAGE, NotImplementedError, RuntimeError, ValueError) as e:
            return Refused(name, f"cannot be read: {e}", named=False)


@contextmanager
def opened(file: BinaryIO, uri: str, limits: Limits) -> Iterator[Archive]:
    """Open an archive, its directory checked.

    Raises:
        TraceError: no readable zip, or two members of one name.
        LimitError: the archive as a whole is beyond a limit, or members overlap.
    """
    _refuse_many(file, uri, limits)
    try:
        archive = zipfile.ZipFile(file)
    except (*DAMAGE, NotImplementedError, UnicodeDecodeError) as e:
        raise TraceError(f"{uri}: a zip that cannot be read: {e}") from e
    with archive:
        found = Archive(file, uri, archive)
        _refuse_bomb(found.entries, uri, limits)
        _refuse_ambiguous(found.entries, uri, archive.start_dir)
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
        directory = max(
            directory * (directory != 2**32 - 1), *struct.unpack_from("<Q", tail, end64 + 40)
        )
        end = end64
    found = directory // _ENTRY_BYTES
    if found <= limits.zip_members:
        file.seek(max(0, tail_at + end - directory))
        found = file.read(directory).count(_CENTRAL_SIGNATURE)
    if found > limits.zip_members:
        raise LimitError(
            f"{uri}: {found} members or more; limits.zip_members is {limits.zip_members}"
        )
    file.seek(0)


def _refuse_bomb(entries: list[zipfile.ZipInfo], uri: str, limits: Limits) -> None:
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if total > limits.zip_total_bytes:
        raise LimitError(
            f"{uri}: {total} bytes when unpacked; limits.zip_total_bytes is "
            f"{limits.zip_total_bytes}"
        )
    if total > limits.zip_ratio_floor_bytes and total > packed * limits.zip_ratio:
        raise LimitError(
            f"{uri}: unpacks to {total / max(1, packed):.0f} times its size; limits.zip_ratio is "
            f"{limits.zip_ratio:g}"
        )


def _refuse_ambiguous(entries: list[zipfile.ZipInfo], uri: str, directory_at: int) -> None:
    """Refuse two members of one name, and members whose bytes overlap."""
    twice = [name for name, n in Counter(e.filename for e in entries).items() if n > 1]
    if twice:
        raise TraceError(f"{uri}: {len(twice)} names twice, first {visible_line(twice[0])!r}")
    ordered = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in ordered[1:]), directory_at]
    for entry, end in zip(ordered, ends, strict=False):
        # At least: the local header may carry more extra bytes than the directory says.
        least = _LOCAL_HEADER_BYTES + len(entry.orig_filename.encode()) + entry.compress_size
        if entry.header_offset + least > end:
            raise LimitError(f"{uri}: member {visible_line(entry.filename)!r} overlaps the next")


def _problem(entry: zipfile.ZipInfo) -> str | None:
    name = entry.orig_filename
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or ":" in parts[0] or "\0" in name:
        return "a name that leads out of the archive; not read"
    if entry.header_offset < 0:
        return "begins before its archive does; not read"
    if entry.flag_bits & 1:
        return "encrypted; not read"
    if entry.compress_type not in METHODS:
        return f"packed by zip method {entry.compress_type}; store, deflate and zstd are read"
    if entry.compress_type == ZSTD and zstd() is None:
        return MISSING
    return None
