"""Split what brackets delimit: the elements of an array, or objects that follow each other.

A broken element whose brackets balance comes out alone and fails to decode alone. What stands
between elements, other than one comma, is quarantined; so is the rest of a file from the place on
where the brackets no longer say where a record ends. As long as an array is plain, `leading` has
its elements from the JSON parser, which is faster and sees the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Literal

import msgspec
import numpy as np

from stepscope.formats.pieces import WHITESPACE, Piece, RawRecord
from stepscope.model import Quarantined, Stream
from stepscope.safety.structure import Structure

_SHOWN_BYTES = 40
# How the first element of an array begins: up to the colon behind its first key.
_FIRST = re.compile(rb'[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:)')
_GAP = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def leading(
    parts: Iterator[bytes], stream: Stream, offset: int
) -> Generator[RawRecord | Quarantined, None, tuple[bytes, int]]:
    """Yield the elements of an array while they are plain; return what is left, and where it is.

    Plain is what begins like the first element, and is JSON up to the last such beginning that a
    part holds: where a text that starts with an element is a whole array, it has no other elements.

    Args:
        parts: the bytes behind the opening bracket.
        stream: the file, for its name and limits.
        offset: where the first part begins.
    """
    held, beginning = b"", b""
    for part in parts:
        buffer = held + part
        first = None if beginning else _FIRST.match(buffer)
        beginning = first[1] if first else beginning
        end = max(buffer.rfind(beginning), 0) if beginning else 0
        comma = buffer.rfind(b",", 0, end)
        held_apart = comma >= 0 and not buffer[comma + 1 : end].strip(WHITESPACE)
        elements = _plain(memoryview(buffer)[:comma]) if held_apart else None
        if elements is None:
            return buffer, offset
        at = 0
        for raw in elements:
            gap = _GAP.match(buffer, at)
            assert gap is not None  # it matches nothing, too
            piece = Piece(stream, offset + gap.end())
            piece.add(raw)
            yield piece.record()
            at = gap.end() + len(raw)
        held, offset = buffer[end:], offset + end
    return held, offset


def _plain(body: memoryview) -> list[bytes] | None:
    """Return the elements of an array without its brackets; None where one is no container."""
    try:
        elements = [bytes(element) for element in _array(b"".join((b"[", body, b"]")))]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return elements if all(element[:1] in {b"{", b"["} for element in elements) else None


class Elements:
    """Takes the chunks of a file in order and gives the elements that they complete.

    Of an array, the first chunk begins behind the opening bracket.
    """

    def __init__(self, stream: Stream, shape: Literal["array", "objects"], offset: int) -> None:
        self._stream = stream
        self._separator = b"," if shape == "array" else b""
        self._closer = ord("]") if shape == "array" else None
        self._structure = Structure()
        self._offset = offset
        self._element: Piece | None = None
        self._gap = Piece(stream, offset)
        self._expected = b""
        self._ended = False

    def feed(self, chunk: bytes) -> Iterator[RawRecord | Quarantined]:
        """Yield the elements that end in this chunk."""
        if self._ended:
            self._gap.add(chunk)
            return
        at, opens, depth = self._structure.scan(chunk)
        edges = np.flatnonzero((depth < 1) | (opens & (depth == 1)))
        done = 0
        for here, opening in zip(at[edges].tolist(), opens[edges].tolist(), strict=True):
            if self._element is not None:
                self._element.add(chunk[done : here + 1])
                yield self._element.record()
                self._element = None
                done = here + 1
                self._gap = Piece(self._stream, self._offset + done)
                self._expected = self._separator
                continue
            self._gap.add(chunk[done:here])
            done = here
            if opening:
                yield from self._between()
                self._element = Piece(self._stream, self._offset + here)
                continue
            yield from self._closing()
            if chunk[here] == self._closer:
                done += 1
            self._gap = Piece(self._stream, self._offset + done)
            self._ended = True
            break
        (self._gap if self._element is None else self._element).add(chunk[done:])
        self._offset += len(chunk)

    def end(self) -> Iterator[Quarantined]:
        """Yield what is left when the file is at its end."""
        if self._element is not None:
            yield self._element.quarantined("the file ends inside this record")
        elif self._ended:
            if not self._gap.is_blank:
                yield self._gap.quarantined("bytes behind the end of the records")
        elif self._closer is not None:
            yield self._gap.quarantined("the file ends before its array does")
        else:
            yield from self._closing()

    def _between(self) -> Iterator[Quarantined]:
        raw = self._gap.raw
        if raw != self._expected and raw.strip(WHITESPACE) != self._expected:
            wanted = "one comma" if self._expected else "nothing"
            shown = raw.strip(WHITESPACE)[:_SHOWN_BYTES]
            yield self._gap.quarantined(f"between records: {shown!r}; expected {wanted}")

    def _closing(self) -> Iterator[Quarantined]:
        self._expected = b""
        yield from self._between()
