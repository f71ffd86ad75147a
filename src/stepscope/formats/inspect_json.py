"""Split an Inspect `.json` log into its samples, whatever its size, in bounded memory.

The log is one object; the elements of its list `samples` come out one by one, all else is its
header. Where the header stands behind the samples, the file is read twice. A log that was cut off
gives the samples that are whole; what is left of the last one is quarantined.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_recorders/json.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope.errors import LimitError, TraceError
from stepscope.formats import inspect_log
from stepscope.formats.opening import mended
from stepscope.formats.pieces import WHITESPACE, Piece, RawRecord, chunks
from stepscope.model import Quarantined, Stream
from stepscope.safety.forgiving import BOM
from stepscope.safety.structure import Structure

_SAMPLES = re.compile(rb'"samples"[ \t\r\n]*:[ \t\r\n]*\Z')
# Enough to hold the key and the blanks behind it.
_KEY_BYTES = 128


def samples(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield every sample with the header of its log.

    Raises:
        TraceError: no JSON object.
        LimitError: the header is larger than `limits.line_bytes`.
    """
    splitter = _Splitter(stream)
    header: bytes | None = None
    told = False
    for found in splitter.elements():
        told = told or isinstance(found, Quarantined)
        if isinstance(found, RawRecord):
            if header is None:
                header = _header(stream, bytes(splitter.around))
            found = RawRecord(found.offset, inspect_log.framed(header, found.raw))
        yield found
    around = bytes(splitter.around)
    if header is None and b'"eval"' not in _whole_header(stream, around):
        raise TraceError(f"{stream.uri}: no log of Inspect: neither `eval` nor a sample in it")
    if not told and not _is_whole(stream, around):
        reason = "the log is broken outside its samples, or ends there"
        yield Quarantined(reason=reason, offset=0, raw=around, uri=stream.uri)


def _is_whole(stream: Stream, around: bytes) -> bool:
    try:
        inspect_log.header(around.removeprefix(BOM).strip(WHITESPACE), stream.limits)
    except TraceError:
        return False
    return True


def _header(stream: Stream, before: bytes) -> bytes:
    """Return the header as it stands before the samples, or around them."""
    told = _whole_header(stream, before)
    if b'"eval"' in told or not stream.file.seekable():
        return told
    here = stream.file.tell()
    stream.file.seek(0)
    splitter = _Splitter(stream)
    for _ in splitter.elements():
        pass
    stream.file.seek(here)
    return _whole_header(stream, bytes(splitter.around))


def _whole_header(stream: Stream, around: bytes) -> bytes:
    text = around.removeprefix(BOM).strip(WHITESPACE)
    try:
        return inspect_log.header(text, stream.limits)
    except LimitError:
        raise
    except TraceError:
        return inspect_log.header(mended(text), stream.limits)


class _Splitter:
    """Takes a file apart; `around` is all of it but the elements of `samples`."""

    def __init__(self, stream: Stream) -> None:
        self.around = bytearray()
        self._stream = stream
        self._structure = Structure()
        self._offset = 0
        self._listing = False
        self._element: Piece | None = None
        self._gap = Piece(stream, 0)

    def elements(self) -> Iterator[RawRecord | Quarantined]:
        """Yield the elements of `samples`, and what stands between them but commas."""
        for chunk in chunks(self._stream):
            yield from self._feed(chunk)
            self._offset += len(chunk)
        if self._element is not None:
            yield self._element.quarantined("the file ends inside this sample")
        yield from self._between()

    def _feed(self, chunk: bytes) -> Iterator[RawRecord | Quarantined]:
        at, opens, depth = self._structure.scan(chunk)
        # Openings of the values of the log and of samples, and the ends of samples and their list.
        edges = np.flatnonzero((opens & (depth <= 3)) | (~opens & (depth <= 2)))
        done = 0
        for here, opening, level in zip(
            at[edges].tolist(), opens[edges].tolist(), depth[edges].tolist(), strict=True
        ):
            if self._element is not None:
                if level == 2 and not opening:
                    self._element.add(chunk[done : here + 1])
                    yield self._element.record()
                    self._element, done = None, here + 1
                    self._gap = Piece(self._stream, self._offset + done)
            elif self._listing:
                self._gap.add(chunk[done:here])
                done = here
                yield from self._between()
                if opening:
                    self._element = Piece(self._stream, self._offset + here)
                else:
                    self._listing = False
            elif opening and level == 2 and chunk[here : here + 1] == b"[":
                self._keep(chunk[done : here + 1])
                done = here + 1
                self._listing = _SAMPLES.search(self.around[-_KEY_BYTES - 1 : -1]) is not None
                self._gap = Piece(self._stream, self._offset + done)
        rest = chunk[done:]
        if self._element is not None:
            self._element.add(rest)
        elif self._listing:
            self._gap.add(rest)
        else:
            self._keep(rest)

    def _between(self) -> Iterator[Quarantined]:
        """Yield what stands between two samples, unless it is a comma, and forget it."""
        gap, self._gap = self._gap, Piece(self._stream, self._offset)
        if gap.raw.strip(WHITESPACE) not in {b"", b","}:
            yield gap.quarantined("between samples; expected one comma")

    def _keep(self, part: bytes) -> None:
        self.around += part
        if len(self.around) > self._stream.limits.line_bytes:
            raise LimitError(
                f"{self._stream.uri}: the header of the log is larger than limits.line_bytes, "
                f"now {self._stream.limits.line_bytes}"
            )
