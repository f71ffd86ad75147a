"""A record on its way out of a file: gathered from chunks, at most `limits.line_bytes` of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.model import Quarantined, Stream

WHITESPACE = b" \t\r\n"
# A block of this size and what is computed about it stay in a core's own cache.
CHUNK_BYTES = 256 * 1024


class RawRecord(NamedTuple):
    """The bytes of one record and where they begin in the file."""

    offset: int
    raw: bytes


class Piece:
    """Consecutive bytes of a file: where they begin, how many they are, the first of them.

    What is beyond `limits.line_bytes` is counted, not kept.
    """

    __slots__ = ("_kept", "_parts", "offset", "size", "stream")

    def __init__(self, stream: Stream, offset: int) -> None:
        self.stream = stream
        self.offset = offset
        self.size = 0
        self._kept = 0
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        """Append the next bytes."""
        self.size += len(part)
        room = self.stream.limits.line_bytes - self._kept
        if len(part) > room:
            part = part[:room]
        if part:
            self._kept += len(part)
            self._parts.append(part)

    @property
    def raw(self) -> bytes:
        """The bytes that were kept."""
        parts = self._parts
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but whitespace."""
        return self.size == self._kept and not self.raw.strip(WHITESPACE)

    def record(self) -> RawRecord | Quarantined:
        """Return the bytes as a record; quarantined where they are more than the limit."""
        if self.size > self._kept:
            return self.quarantined("a record too large")
        return RawRecord(self.offset, self.raw)

    def quarantined(self, reason: str) -> Quarantined:
        """Return the bytes with the reason why they are no record."""
        left = self.size - self._kept
        if left:
            reason += (
                f": {self.size} bytes; raise limits.line_bytes, now {self._kept}; the last {left} "
                f"bytes are kept only in the file, from byte {self.offset + self._kept} on"
            )
        return Quarantined(reason=reason, offset=self.offset, raw=self.raw, uri=self.stream.uri)


def chunks(stream: Stream) -> Iterator[bytes]:
    """Yield the bytes of a file, a chunk at a time."""
    while chunk := stream.file.read(CHUNK_BYTES):
        yield chunk
