"""Split an Inspect `.eval` log, a zip, into its samples; members are read one by one in memory.

The header is `header.json`; a log that was not finished has only the one it was begun with. A
sample is one member, or, in newer logs, a folder of them, put together here. A sample of which
there is only the summary (samples were not to be logged) comes out as that. A member that is no
part of a log, that is damaged, or larger than `limits.line_bytes` is quarantined alone.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_recorders/eval.py`, `log/_recorders/chunked`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import inspect_log
from stepscope.formats.archive import DAMAGE, Archive, opened
from stepscope.formats.pieces import CHUNK_BYTES, Piece, RawRecord
from stepscope.formats.sources import Refused
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.door import decode

HEADER, START, SUMMARIES = "header.json", "_journal/start.json", "summaries.json"
# A sample as one member; the shell of one in a folder; what else is in such a folder.
_WHOLE = re.compile(r"samples/[^/]*\.json\Z")
_SHELL = re.compile(r"(samples/.*/)sample\.json\Z", re.DOTALL)
_CHUNK = re.compile(
    r"(samples/.*/)(messages|events|calls|attachments)/(\d{1,12})\.json\Z", re.DOTALL
)
_METADATA = "metadata.json"
# What repeats, in another order, what the samples say.
_DERIVED = re.compile(
    r"_journal/|(?:summaries|reductions|results|header)\.json\Z|"
    r"samples/.*/(?:skeleton|metadata|events/stats|events/uuids)\.json\Z",
    re.DOTALL,
)

_Chunks = dict[str, dict[str, list[tuple[int, zipfile.ZipInfo]]]]


def samples(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield every sample with the header of its log.

    Raises:
        TraceError: no readable zip, or a log without a header.
        LimitError: the zip is beyond a limit.
    """
    with opened(stream.file, stream.uri, stream.limits) as archive:
        log = _Log(stream, archive)
        header = log.header()
        for entry in archive.entries:
            name = entry.filename
            if _WHOLE.match(name):
                yield log.framed(header, log.record(entry))
            elif shell := _SHELL.match(name):
                yield log.framed(header, log.folder(shell[1], entry))
            elif not _CHUNK.match(name) and not _DERIVED.match(name):
                yield log.unknown(entry)
        yield from log.unlogged(header)


class _Log:
    """One archive being read: its members by name, its sequences by the folder of their sample."""

    def __init__(self, stream: Stream, archive: Archive) -> None:
        self.stream = stream
        self.archive = archive
        self.names = {entry.filename: entry for entry in archive.entries}
        self.chunks: _Chunks = {}
        for entry in archive.entries:
            if chunk := _CHUNK.match(entry.filename):
                folder, sequence, start = chunk.groups()
                of_sample = self.chunks.setdefault(folder, {})
                of_sample.setdefault(sequence, []).append((int(start), entry))

    def header(self) -> bytes:
        """Return the header, or the one that the log was begun with."""
        for name in (HEADER, START):
            if name in self.names:
                found = self.record(self.names[name])
                if isinstance(found, Quarantined):
                    raise TraceError(f"{self.stream.uri}: {found.reason}")
                return inspect_log.header(found.raw, self.stream.limits)
        raise TraceError(f"{self.stream.uri}: no Inspect log; it has neither {HEADER} nor {START}")

    def record(self, entry: zipfile.ZipInfo) -> RawRecord | Quarantined:
        """Return the content of a member."""
        piece = Piece(self.stream, entry.header_offset)
        found = self.archive.open(entry)
        if isinstance(found, Refused):
            return piece.quarantined(f"member {entry.filename!r}: {found.problem}")
        try:
            with found.file:
                while part := found.file.read(CHUNK_BYTES):
                    piece.add(part)
        except DAMAGE as e:
            return piece.quarantined(f"member {entry.filename!r} is damaged: {e}")
        return piece.record()

    def folder(self, folder: str, shell: zipfile.ZipInfo) -> RawRecord | Quarantined:
        """Return a sample that is spread over a folder as one record."""
        piece = Piece(self.stream, shell.header_offset)
        sequences = self.chunks.get(folder, {})
        first = self.record(shell)
        if isinstance(first, Quarantined):
            return first
        piece.add(first.raw.rstrip()[:-1])
        if folder + _METADATA in self.names:
            piece.add(b',"metadata":')
            if broken := self._add(piece, self.names[folder + _METADATA]):
                return broken
        for opening, sequence, closing in (
            (b',"events_data":{"messages":[', "messages", b"]"),
            (b',"calls":[', "calls", b"]}"),
            (b',"events":[', "events", b"]"),
            (b',"attachments":[', "attachments", b"]}"),
        ):
            piece.add(opening)
            told = b""
            for _, entry in sorted(sequences.get(sequence, ()), key=lambda chunk: chunk[0]):
                piece.add(told)
                if broken := self._add(piece, entry, bare=True):
                    return broken
                told = b","
            piece.add(closing)
        return piece.record()

    def _add(
        self, piece: Piece, entry: zipfile.ZipInfo, *, bare: bool = False
    ) -> Quarantined | None:
        """Add a member to a record; `bare` leaves the brackets of a list away."""
        found = self.record(entry)
        if isinstance(found, Quarantined):
            return found
        piece.add(found.raw.strip()[1:-1] if bare else found.raw)
        return None

    def framed(self, header: bytes, found: RawRecord | Quarantined) -> RawRecord | Quarantined:
        """Return a sample with the header of the log."""
        if isinstance(found, Quarantined):
            return found
        return RawRecord(found.offset, inspect_log.framed(header, found.raw))

    def unknown(self, entry: zipfile.ZipInfo) -> Quarantined:
        """Return a member that is no part of a log."""
        found = self.record(entry)
        if isinstance(found, Quarantined):
            return found
        return Quarantined(
            reason=f"member {entry.filename!r} is no part of an Inspect log",
            offset=found.offset,
            raw=found.raw,
            uri=self.stream.uri,
        )

    def unlogged(self, header: bytes) -> Iterator[RawRecord | Quarantined]:
        """Yield the summaries of samples that are not in the log."""
        names = [SUMMARIES] if SUMMARIES in self.names else []
        names = names or [name for name in self.names if name.startswith("_journal/summaries/")]
        for name in names:
            found = self.record(self.names[name])
            if isinstance(found, Quarantined):
                yield found
                continue
            try:
                listed = decode(found.raw, limits=self.stream.limits).value
            except TraceError:
                listed = None
            for summary in listed if isinstance(listed, list) else ():
                if not self._is_logged(summary):
                    raw = msgspec.json.encode(summary)
                    yield self.framed(header, RawRecord(found.offset, raw))

    def _is_logged(self, summary: Json) -> bool:
        if not isinstance(summary, dict):
            return True
        name = f"samples/{summary.get('id')}_epoch_{summary.get('epoch')}"
        return f"{name}.json" in self.names or f"{name}/sample.json" in self.names
