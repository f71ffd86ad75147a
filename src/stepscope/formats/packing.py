"""Open one member of a zip, whatever of store, deflate and zstd it is packed by.

The standard library unpacks zstd (zip method 93) from Python 3.14 on; before it, the package of the
extra `zstd` does. Either way no more bytes come out than the member declares, and a checksum that
does not fit shows as damage: what a member raises is a `BadZipFile`.
Source: APPNOTE.TXT 6.3.10, sections 4.3.7 and 4.4.5; RFC 8878 for frames that follow each other.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

ZSTD = 93
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD}
MISSING = "packed by zstd; reading it needs a package: pip install 'stepscope[zstd]'"

_LOCAL_HEADER_BYTES = 30
_LENGTHS_AT = 26


class _Zstd(Protocol):
    """What is used of `compression.zstd`, and of its backport."""

    ZstdError: type[Exception]
    ZstdFile: Callable[[BinaryIO], BinaryIO]


@cache
def zstd() -> _Zstd | None:
    """Return what unpacks zstd, None where nothing does."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd as found
        else:
            from backports import zstd as found
    except ImportError:
        return None
    return cast(_Zstd, found)


def member(archive: zipfile.ZipFile, file: BinaryIO, entry: zipfile.ZipInfo) -> BinaryIO:
    """Return a member open for reading; `file` is what `archive` reads from.

    Raises:
        zipfile.BadZipFile, NotImplementedError, RuntimeError: it is damaged, locked, or packed in
            a way that is not known.
    """
    library = zstd()
    if entry.compress_type != ZSTD or library is None:
        return cast(BinaryIO, archive.open(entry))
    packed = cast(BinaryIO, io.BufferedReader(_Packed(file, entry)))
    return cast(BinaryIO, io.BufferedReader(_Unpacked(packed, entry, library)))


class _Packed(io.RawIOBase):
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

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer)).cast("B")
        self._file.seek(self._at)
        part = self._file.read(min(len(room), self._left))
        self._at += len(part)
        self._left -= len(part)
        room[: len(part)] = part
        return len(part)


class _Unpacked(io.RawIOBase):
    """A member being unpacked: as many bytes as it declares, then its checksum is compared."""

    def __init__(self, packed: BinaryIO, entry: zipfile.ZipInfo, library: _Zstd) -> None:
        super().__init__()
        self._frames = library.ZstdFile(packed)
        self._error = library.ZstdError
        self._left = entry.file_size
        self._expected = entry.CRC
        self._crc = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer)).cast("B")
        if not self._left:
            return 0
        try:
            part = self._frames.read(min(len(room), self._left))
        except (self._error, EOFError) as e:
            raise zipfile.BadZipFile(f"its zstd data is damaged: {e}") from e
        self._left -= len(part)
        self._crc = zlib.crc32(part, self._crc)
        if not part or (not self._left and self._crc != self._expected):
            raise zipfile.BadZipFile("unpacks to something else than it declares")
        room[: len(part)] = part
        return len(part)
