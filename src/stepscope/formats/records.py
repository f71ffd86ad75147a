"""Split a file into its records: one JSON object, a JSON array of records, or JSON lines.

Streaming, in bounded memory, with exact byte offsets. Lines end at a line feed and nowhere else
(text may hold U+2028). Array elements and objects that follow each other are delimited by their
brackets, so that a broken one comes out alone; from the place on where the brackets no longer say
where a record ends, the rest of the file is quarantined. As long as an array is plain, its elements
come from the JSON parser, which is faster and sees the same ones. A record over `limits.line_bytes`
is quarantined: its first bytes are kept, the number left is told. Not a byte is dropped but
whitespace and the commas and brackets that hold the records.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from stepscope.errors import TraceError
from stepscope.model import Quarantined, Stream
from stepscope.safety.json import BOM, BracketScanner

WHITESPACE = b" \t\r\n"
# A block of this size and what is computed about it stay in a core's own cache.
CHUNK_BYTES = 256 * 1024


class RawRecord(NamedTuple):
    """The bytes of one record and where they begin in the file."""

    offset: int
    raw: bytes


class RecordBuffer:
    """Consecutive bytes of a file; those beyond `limits.line_bytes` are counted, not kept."""

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
        part = part[: self.stream.limits.line_bytes - self._kept]
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


def read_chunks(stream: Stream) -> Iterator[bytes]:
    """Yield the bytes of a file, a chunk at a time."""
    while chunk := stream.file.read(CHUNK_BYTES):
        yield chunk


_SHOWN_BYTES = 40
# How the first element of an array begins: up to the colon behind its first key.
_FIRST_KEY = re.compile(rb'[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:)')
_GAP = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def split_plain_array(
    parts: Iterator[bytes], stream: Stream, offset: int
) -> Generator[RawRecord | Quarantined, None, tuple[bytes, int]]:
    """Yield the elements of an array while they are plain; return what is left, and where it is.

    Plain is what begins like the first element, and is JSON up to the last such beginning that a
    part holds: where a text that starts with an element is a whole array, it has no other elements.
    `parts` are the bytes behind the opening bracket, the first of which stands at `offset`.
    """
    held, beginning = b"", b""
    for part in parts:
        buffer = held + part
        first = None if beginning else _FIRST_KEY.match(buffer)
        beginning = first[1] if first else beginning
        end = max(buffer.rfind(beginning), 0) if beginning else 0
        comma = buffer.rfind(b",", 0, end)
        held_apart = comma >= 0 and not buffer[comma + 1 : end].strip(WHITESPACE)
        elements = _decode_plain(memoryview(buffer)[:comma]) if held_apart else None
        if elements is None:
            return buffer, offset
        at = 0
        for raw in elements:
            gap = _GAP.match(buffer, at)
            assert gap is not None  # it matches nothing, too
            piece = RecordBuffer(stream, offset + gap.end())
            piece.add(raw)
            yield piece.record()
            at = gap.end() + len(raw)
        held, offset = buffer[end:], offset + end
    return held, offset


def _decode_plain(body: memoryview) -> list[bytes] | None:
    """Return the elements of an array without its brackets; None where one is no container."""
    try:
        elements = [bytes(element) for element in _decode_array(b"".join((b"[", body, b"]")))]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return elements if all(element[:1] in {b"{", b"["} for element in elements) else None


class ElementSplitter:
    """Takes a file's chunks (an array's without its bracket) and gives elements as they end."""

    def __init__(self, stream: Stream, shape: Literal["array", "objects"], offset: int) -> None:
        self._stream = stream
        self._separator = b"," if shape == "array" else b""
        self._closer = ord("]") if shape == "array" else None
        self._structure = BracketScanner()
        self._offset = offset
        self._element: RecordBuffer | None = None
        self._gap = RecordBuffer(stream, offset)
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
                self._gap = RecordBuffer(self._stream, self._offset + done)
                self._expected = self._separator
                continue
            self._gap.add(chunk[done:here])
            done = here
            if opening:
                yield from self._between()
                self._element = RecordBuffer(self._stream, self._offset + here)
                continue
            yield from self._closing()
            if chunk[here] == self._closer:
                done += 1
            self._gap = RecordBuffer(self._stream, self._offset + done)
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


Shape = Literal["array", "objects", "lines"]

# What is looked at to tell the shape of a file: enough for a first line of usual length.
HEAD_BYTES = 1024 * 1024
# Lines looked at behind a first line that is broken.
_LOOK_AHEAD = 256


def split_records(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield the records of a file in order."""
    head = stream.file.read(HEAD_BYTES)
    text = head.removeprefix(BOM).lstrip(WHITESPACE)
    offset = len(head) - len(text)
    match _find_shape(text, complete=len(head) < HEAD_BYTES):
        case "lines":
            piece = RecordBuffer(stream, offset)
            for part in chain([text], read_chunks(stream)):
                *ended, rest = part.split(b"\n")
                for line in ended:
                    piece.add(line)
                    if not piece.is_blank:
                        yield piece.record()
                    piece = RecordBuffer(stream, piece.offset + piece.size + 1)
                piece.add(rest)
            if not piece.is_blank:
                yield piece.record()
        case "array":
            parts = _chunks_after(text[1:], stream)
            rest, offset = yield from split_plain_array(parts, stream, offset + 1)
            elements = ElementSplitter(stream, "array", offset)
            yield from _split(elements, chain([rest], parts))
        case "objects":
            elements = ElementSplitter(stream, "objects", offset)
            yield from _split(elements, _chunks_after(text, stream))


def _chunks_after(head: bytes, stream: Stream) -> Iterator[bytes]:
    for start in range(0, len(head), CHUNK_BYTES):
        yield head[start : start + CHUNK_BYTES]
    yield from read_chunks(stream)


def _split(elements: ElementSplitter, parts: Iterable[bytes]) -> Iterator[RawRecord | Quarantined]:
    for part in parts:
        yield from elements.feed(part)
    yield from elements.end()


def _find_shape(text: bytes, *, complete: bool) -> Shape:
    """Tell how a file holds its records from how it begins; `complete` when this is all of it."""
    if text[:1] not in {b"[", b"{"}:
        return "lines"
    line, newline, rest = text.partition(b"\n")
    if text[:1] == b"[":
        more = bool(rest.strip(WHITESPACE)) or (bool(newline) and not complete)
        if more and _is_balanced(line):
            return "lines"
        # Of elements that stand on lines of their own, only the last one has no comma behind it.
        following = [one for one in _lines_after(rest) if one.strip(WHITESPACE)]
        objects = sum(map(_is_object, following))
        return "lines" if objects > 1 or 0 < objects == len(following) else "array"
    if not newline or _is_balanced(line):
        return "lines"
    # A line of its own further down: the first one is broken, not spread over lines.
    lines = [line, *(one for one in _lines_after(rest) if one.strip(WHITESPACE)), b""]
    own = (_is_object(lines[at]) and not _is_within(lines, at) for at in range(1, len(lines) - 1))
    return "lines" if any(own) else "objects"


def _is_within(lines: list[bytes], at: int) -> bool:
    """Whether a line is a value of an object or list that lines around it open and close."""
    before, behind = lines[at - 1].rstrip(WHITESPACE)[-1:], lines[at + 1].lstrip(WHITESPACE)[:1]
    return before in {b",", b"[", b":"} and behind in {b",", b"]", b"}"}


def _lines_after(rest: bytes) -> list[bytes]:
    return rest.split(b"\n", _LOOK_AHEAD)[:_LOOK_AHEAD]


def _is_balanced(line: bytes) -> bool:
    structure = BracketScanner()
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


# Bytes read at a time: some thousand rows, few enough to stay in a processor's cache.
LINE_BLOCK_BYTES = 1 << 16
# Rows that are looked at together where they are looked at one by one.
CHUNK_ROWS = 4096


def read_line_blocks(stream: Stream) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines, the byte order mark left out."""
    held = stream.file.read(LINE_BLOCK_BYTES).removeprefix(BOM)
    while held:
        more = stream.file.read(LINE_BLOCK_BYTES)
        whole, newline, rest = held.rpartition(b"\n")
        if newline:
            yield whole + newline
        held = rest if newline else held
        if len(held) > stream.limits.line_bytes:
            most = f"{stream.limits.line_bytes:,} bytes; raise limits.line_bytes"
            raise TraceError(f"{stream.uri}: a row of over {most}")
        if not more:
            break
        held += more
    if held:
        yield held


def read_text_blocks(stream: Stream) -> Iterator[str]:
    """Yield a file of text in blocks of whole lines; TraceError for a long one, or no UTF-8."""
    for block in read_line_blocks(stream):
        try:
            yield block.decode()
        except UnicodeDecodeError as e:
            raise TraceError(f"{stream.uri}: no text in UTF-8 ({e.reason})") from e


def read_csv(blocks: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of blocks of CSV, which are split no further."""
    # Unlike `splitlines`, StringIO ends a line at a line feed and nowhere else.
    lines = (line for block in blocks for line in io.StringIO(block, newline="\n"))
    return csv.reader(lines, delimiter=delimiter, strict=True)


def is_json(head: bytes) -> bool:
    """Say whether a file that begins with `head` begins as an object or an array does."""
    return head.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
