"""A file whose beginning has been read already, from the beginning again."""

from __future__ import annotations

import io
from typing import BinaryIO, cast


def from_start(file: BinaryIO, head: bytes) -> BinaryIO:
    """Return the file as if `head` had not been read of it; wound back where that is possible."""
    if file.seekable():
        file.seek(0)
        return file
    return cast(BinaryIO, io.BufferedReader(_Rejoined(head, file)))


class _Rejoined(io.RawIOBase):
    """A file that cannot be wound back, with what was already read of it in front."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer)).cast("B")
        part = self._head[: len(room)] or self._rest.read(len(room))
        self._head = self._head[len(part) :]
        room[: len(part)] = part
        return len(part)
