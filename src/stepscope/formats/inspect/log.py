"""Split Inspect logs into samples, in bounded memory, and read the header that all samples share.

An `.eval` log is a zip: the header is `header.json`; a log that was not finished has only the one
it was begun with. A sample is one member or, in newer logs, a folder of them, put together here; a
sample that was not logged comes out as its summary. A member that is damaged, no part of a log, or
too large is quarantined alone. A `.json` log is one object: the elements of its list `samples` come
out one by one, all else is its header; where that stands behind the samples, the file is read
twice. A log that was cut off gives the samples that are whole.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_log.py`, `EvalLog`; `log/_recorders`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np

from stepscope.errors import LimitError, TraceError
from stepscope.formats.fields import entries_at, object_at, text_at
from stepscope.formats.files import DAMAGE_ERRORS, Archive, RefusedFile, open_archive
from stepscope.formats.opening import close_brackets
from stepscope.formats.records import CHUNK_BYTES, WHITESPACE, RawRecord, RecordBuffer, read_chunks
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.json import BOM, BracketScanner, decode
from stepscope.safety.limits import Limits

# What grows with the number of samples, and where it stands.
_GROWING = (
    ("eval", "dataset", "sample_ids"),
    ("eval", "config", "sample_id"),
    ("eval", "shards", "ledger"),
    ("stats", "connection_limit_history"),
    ("results", "sample_reductions"),
    ("reductions",),
    ("samples",),
)
_SIZE_BYTES = 4


class LogHeader(msgspec.Struct, frozen=True):
    """The header of a log, as far as runs have fields for it; `told` is all of it that is kept."""

    workflow: str  # the task that was evaluated
    agent: str | None  # the solver, where it was named; else the model
    agent_version: str | None  # the commit of the code
    eval_id: str  # the evaluation's own id, "" where it has none
    version: str | None  # of the format
    tags: dict[str, str]  # what runs are told apart by
    scorers: tuple[str, ...]  # names of the scorers, in their order
    complete: bool  # whether the evaluation came to its end
    told: dict[str, Json]  # the header, without what grows


def strip_header(raw: bytes, limits: Limits) -> bytes:
    """Return the header of a log without what grows, to travel with each sample."""
    value = decode(raw, limits=limits).value
    if not isinstance(value, dict):
        raise TraceError(f"the header of an Inspect log is {str(value)[:60]!r}; expected an object")
    for way in _GROWING:
        *path, last = way
        holder: Json = value
        for key in path:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder.pop(last, None)
    return msgspec.json.encode(value)


def frame_sample(header: bytes, sample: bytes) -> bytes:
    """Return a sample with the header of its log, as one record."""
    return len(header).to_bytes(_SIZE_BYTES, "big") + header + sample


def unframe_sample(record: bytes) -> tuple[LogHeader, bytes]:
    """Return the log and the sample of a record that `frame_sample` made."""
    end = _SIZE_BYTES + int.from_bytes(record[:_SIZE_BYTES], "big")
    return _log(record[_SIZE_BYTES:end]), record[end:]


@lru_cache(maxsize=2)
def _log(header: bytes) -> LogHeader:
    told = msgspec.json.decode(header, type=dict[str, Json])
    about, plan = object_at(told, "eval"), object_at(told, "plan")
    revision, dataset = object_at(about, "revision"), object_at(about, "dataset")
    model, status = text_at(about, "model"), text_at(told, "status")
    solver = text_at(about, "solver")
    # Version 0 is what Inspect writes where nobody gave one.
    value = about.get("task_version")
    tags = {
        "model": model,
        "dataset": text_at(dataset, "name") or text_at(dataset, "location"),
        "task_version": str(value) if isinstance(value, str | int) and value else None,
        "revision": text_at(revision, "commit"),
        "log_status": status if status != "success" else None,
        "tags": ", ".join([tag for tag in entries_at(about, "tags") if isinstance(tag, str)]),
    }
    version = told.get("version")
    # The scorer of the headline is first.
    listed = [*entries_at(about, "scorers"), *entries_at(object_at(told, "results"), "scores")]
    names = [text_at(scorer, "name") for scorer in listed if isinstance(scorer, dict)]
    headline = object_at(object_at(told, "results"), "headline")
    first = text_at(headline or object_at(about, "headline_metric"), "scorer")
    return LogHeader(
        workflow=text_at(about, "task") or text_at(plan, "name") or "inspect_ai",
        agent=solver or model,
        agent_version=text_at(revision, "commit"),
        eval_id=next((text for key in ("eval_id", "run_id") if (text := text_at(about, key))), ""),
        version=str(version) if isinstance(version, int) else None,
        tags={name: tag for name, tag in tags.items() if tag},
        scorers=tuple(dict.fromkeys([name for name in (first, *names) if name])),
        complete=status in {None, "success"},
        told=told,
    )


HEADER, START, SUMMARIES = "header.json", "_journal/start.json", "summaries.json"
# A sample as one member; the shell of one in a folder; what else is in such a folder.
_WHOLE = re.compile(r"samples/[^/]*\.json\Z")
_SHELL = re.compile(r"(samples/.*/)sample\.json\Z", re.DOTALL)
_CHUNK = re.compile(r"(samples/.*/)(messages|events|calls|attachments)/(\d{1,12})\.json\Z", re.S)
_METADATA = "metadata.json"
# What repeats, in another order, what the samples say.
_DERIVED = re.compile(
    r"_journal/|(?:summaries|reductions|results|header)\.json\Z|"
    r"samples/.*/(?:skeleton|metadata|events/stats|events/uuids)\.json\Z",
    re.DOTALL,
)

_Chunks = dict[str, dict[str, list[tuple[int, zipfile.ZipInfo]]]]


def split_eval(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield every sample with the header of its log."""
    with open_archive(stream.file, stream.uri, stream.limits) as archive:
        log = _Log(stream, archive)
        header, raw = log.header()
        if fault := _header_fault(raw, stream.limits):
            reason = f"the header of the log: {fault}"
            yield Quarantined(reason=reason, offset=0, raw=raw, uri=stream.uri)
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

    def header(self) -> tuple[bytes, bytes]:
        """Return the header, or the one that the log was begun with, stripped and as it stands."""
        for name in (HEADER, START):
            if name in self.names:
                found = self.record(self.names[name])
                if isinstance(found, Quarantined):
                    raise TraceError(f"{self.stream.uri}: {found.reason}")
                return strip_header(found.raw, self.stream.limits), found.raw
        raise TraceError(f"{self.stream.uri}: no Inspect log; it has neither {HEADER} nor {START}")

    def record(self, entry: zipfile.ZipInfo) -> RawRecord | Quarantined:
        piece = RecordBuffer(self.stream, entry.header_offset)
        found = self.archive.open(entry)
        if isinstance(found, RefusedFile):
            return piece.quarantined(f"member {entry.filename!r}: {found.problem}")
        try:
            with found.file:
                while part := found.file.read(CHUNK_BYTES):
                    piece.add(part)
        except DAMAGE_ERRORS as e:
            return piece.quarantined(f"member {entry.filename!r} is damaged: {e}")
        return piece.record()

    def folder(self, folder: str, shell: zipfile.ZipInfo) -> RawRecord | Quarantined:
        """Return a sample that is spread over a folder as one record."""
        piece = RecordBuffer(self.stream, shell.header_offset)
        sequences, first = self.chunks.get(folder, {}), self.record(shell)
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
        self, piece: RecordBuffer, entry: zipfile.ZipInfo, *, bare: bool = False
    ) -> Quarantined | None:
        """Add a member to a record; `bare` leaves the brackets of a list away."""
        found = self.record(entry)
        if isinstance(found, Quarantined):
            return found
        piece.add(found.raw.strip()[1:-1] if bare else found.raw)
        return None

    def framed(self, header: bytes, found: RawRecord | Quarantined) -> RawRecord | Quarantined:
        if isinstance(found, Quarantined):
            return found
        return RawRecord(found.offset, frame_sample(header, found.raw))

    def unknown(self, entry: zipfile.ZipInfo) -> Quarantined:
        found = self.record(entry)
        if isinstance(found, Quarantined):
            return found
        reason = f"member {entry.filename!r} is no part of an Inspect log"
        return Quarantined(reason=reason, offset=found.offset, raw=found.raw, uri=self.stream.uri)

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
                if not isinstance(summary, dict):
                    continue
                member = f"samples/{summary.get('id')}_epoch_{summary.get('epoch')}"
                if self.names.keys().isdisjoint({f"{member}.json", f"{member}/sample.json"}):
                    yield self.framed(header, RawRecord(found.offset, msgspec.json.encode(summary)))


_KEY = re.compile(rb'("(?:[ !#-\[\]-~]|\\u00[0-7][0-9a-fA-F]){7}")[ \t\r\n]*:[ \t\r\n]*\Z')
# Enough to hold the key, every sign of it escaped, and the blanks behind it.
_KEY_BYTES = 128


def split_json(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield every sample with the header of its log."""
    splitter = _Splitter(stream)
    header: bytes | None = None
    told = False
    for found in splitter.elements():
        told = told or isinstance(found, Quarantined)
        if isinstance(found, RawRecord):
            if header is None:
                header = _header(stream, bytes(splitter.around))
            found = RawRecord(found.offset, frame_sample(header, found.raw))
        yield found
    around = bytes(splitter.around)
    if header is None and b'"eval"' not in _whole_header(stream, around):
        raise TraceError(f"{stream.uri}: no log of Inspect: neither `eval` nor a sample in it")
    fault = _header_fault(around.removeprefix(BOM).strip(WHITESPACE), stream.limits)
    if fault and not told:
        reason = f"outside its samples, {fault}"
        yield Quarantined(reason=reason, offset=0, raw=around, uri=stream.uri)


def _header_fault(raw: bytes, limits: Limits) -> str:
    """Return what is wrong with a whole header; its runs, which may come before, do not say it."""
    try:
        repairs = decode(raw, limits=limits).repairs
    except TraceError:
        return "the log is broken, or ends there"
    return next((one.reason for one in repairs if one.code == "duplicate_key"), "")


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
        return strip_header(text, stream.limits)
    except LimitError:
        raise
    except TraceError:
        return strip_header(close_brackets(text), stream.limits)


class _Splitter:
    """Takes a file apart; `around` is all of it but the elements of `split_json`."""

    def __init__(self, stream: Stream) -> None:
        self.around = bytearray()
        self._stream = stream
        self._structure = BracketScanner()
        self._offset = 0
        self._listing = False
        self._element: RecordBuffer | None = None
        self._gap = RecordBuffer(stream, 0)

    def elements(self) -> Iterator[RawRecord | Quarantined]:
        """Yield the elements of `split_json`, and what stands between them but commas."""
        for chunk in read_chunks(self._stream):
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
                    self._gap = RecordBuffer(self._stream, self._offset + done)
            elif self._listing:
                self._gap.add(chunk[done:here])
                done = here
                yield from self._between()
                if opening:
                    self._element = RecordBuffer(self._stream, self._offset + here)
                else:
                    self._listing = False
            elif opening and level == 2 and chunk[here : here + 1] == b"[":
                self._keep(chunk[done : here + 1])
                done = here + 1
                key = _KEY.search(self.around[-_KEY_BYTES - 1 : -1])
                self._listing = key is not None and msgspec.json.decode(key[1]) == "samples"
                self._gap = RecordBuffer(self._stream, self._offset + done)
        rest = chunk[done:]
        if self._element is not None:
            self._element.add(rest)
        elif self._listing:
            self._gap.add(rest)
        else:
            self._keep(rest)

    def _between(self) -> Iterator[Quarantined]:
        """Yield what stands between two samples, unless it is a comma, and forget it."""
        gap, self._gap = self._gap, RecordBuffer(self._stream, self._offset)
        if gap.raw.strip(WHITESPACE) not in {b"", b","}:
            yield gap.quarantined("between samples; expected one comma")

    def _keep(self, part: bytes) -> None:
        self.around += part
        if len(self.around) > self._stream.limits.line_bytes:
            raise LimitError(
                f"{self._stream.uri}: the header of the log is larger than limits.line_bytes, "
                f"now {self._stream.limits.line_bytes}"
            )
