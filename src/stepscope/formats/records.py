"""Split a file into its records: one JSON object, a JSON array of records, or JSON lines.

Streaming, in bounded memory, with exact byte offsets. Lines end at a line feed and nowhere else
(text may hold U+2028). Array elements and objects that follow each other are delimited by their
brackets, so that a broken one is quarantined alone; where brackets do not balance, the rest is.
A record over `limits.line_bytes` is quarantined: its first bytes are kept, the number left is told.
Not a byte is dropped but whitespace and the commas and brackets that hold the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

import msgspec

from stepscope.formats.elements import Elements, leading
from stepscope.formats.pieces import CHUNK_BYTES, WHITESPACE, Piece, RawRecord, chunks
from stepscope.model import Quarantined, Stream
from stepscope.safety.forgiving import BOM
from stepscope.safety.structure import Structure

__all__ = ["RawRecord", "records", "whole"]

Shape = Literal["array", "objects", "lines"]

# What is looked at to tell the shape of a file: enough for a first line of usual length.
HEAD_BYTES = 1024 * 1024
# Lines looked at behind a first line that is broken.
_LOOK_AHEAD = 64


def records(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield the records of a file in order."""
    head = stream.file.read(HEAD_BYTES)
    body = head.removeprefix(BOM)
    text = body.lstrip(WHITESPACE)
    offset = len(head) - len(text)
    match _shape(text, complete=len(head) < HEAD_BYTES):
        case "lines":
            yield from _lines(stream, chain([text], chunks(stream)), offset)
        case "array":
            parts = _parts(text[1:], stream)
            rest, offset = yield from leading(parts, stream, offset + 1)
            yield from _split(Elements(stream, "array", offset), chain([rest], parts))
        case "objects":
            yield from _split(Elements(stream, "objects", offset), _parts(text, stream))


def whole(stream: Stream) -> RawRecord | Quarantined:
    """Return a file as one record, for formats whose file is one run whatever its brackets."""
    piece = Piece(stream, 0)
    for chunk in chunks(stream):
        piece.add(chunk)
    return piece.record()


def _parts(head: bytes, stream: Stream) -> Iterator[bytes]:
    for start in range(0, len(head), CHUNK_BYTES):
        yield head[start : start + CHUNK_BYTES]
    yield from chunks(stream)


def _split(elements: Elements, parts: Iterable[bytes]) -> Iterator[RawRecord | Quarantined]:
    for part in parts:
        yield from elements.feed(part)
    yield from elements.end()


def _lines(
    stream: Stream, parts: Iterable[bytes], offset: int
) -> Iterator[RawRecord | Quarantined]:
    piece = Piece(stream, offset)
    for part in parts:
        *ended, rest = part.split(b"\n")
        for line in ended:
            piece.add(line)
            if not piece.is_blank:
                yield piece.record()
            piece = Piece(stream, piece.offset + piece.size + 1)
        piece.add(rest)
    if not piece.is_blank:
        yield piece.record()


def _shape(text: bytes, *, complete: bool) -> Shape:
    """Tell how a file holds its records from how it begins; `complete` when this is all of it."""
    if text[:1] not in {b"[", b"{"}:
        return "lines"
    line, newline, rest = text.partition(b"\n")
    if text[:1] == b"[":
        more = bool(rest.strip(WHITESPACE)) or (bool(newline) and not complete)
        return "lines" if more and _is_balanced(line) else "array"
    if not newline or _is_balanced(line):
        return "lines"
    # A line of its own further down: the first one is broken, not spread over lines.
    following = rest.split(b"\n", _LOOK_AHEAD)[:_LOOK_AHEAD]
    return "lines" if any(_is_object(line) for line in following) else "objects"


def _is_balanced(line: bytes) -> bool:
    structure = Structure()
    structure.scan(line)
    return structure.depth == 0 and not structure.in_string


def _is_object(line: bytes) -> bool:
    """Whether a line, not indented, is a whole JSON object with something in it."""
    if line[:1] != b"{" or line.rstrip(WHITESPACE)[-1:] != b"}":
        return False
    try:
        return bool(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
