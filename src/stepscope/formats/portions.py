"""Split files into portions that are read apart from each other, in any process, and join them.

A portion is one record, where the format reads its records each by itself, or a small file as a
whole. What comes of it is what the file, read in one go, would give: the same runs with the same
ids, the same account, the same offsets. Two things only the whole file knows, and `Joint` adds
them: how often a content came before (`Ordinals`), and what stands between the records. A file that
is neither splits nor is small, or has labels of its own beside it, is left to be read in place.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

import msgspec

from stepscope import errors, registry
from stepscope.errors import TraceError
from stepscope.formats.account import Counts
from stepscope.formats.agentrx_labels import place_beside
from stepscope.formats.archive import DAMAGE
from stepscope.formats.building import Ordinals
from stepscope.formats.importing import Reading
from stepscope.formats.pieces import RawRecord
from stepscope.formats.plain import Place, RecordFormat
from stepscope.formats.sources import Opened
from stepscope.model import Quarantined, Stream, Trajectory
from stepscope.safety.limits import MIB, Limits

# A file of at most this size travels as a whole.
WHOLE_BYTES = 8 * MIB


class Portion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bytes to be read: of the record at `offset`, or of a whole file where that is None."""

    format: str
    uri: str
    offset: int | None
    raw: bytes


class Read(msgspec.Struct, frozen=True):
    """What came of a portion.

    Attributes:
        items: runs and quarantined records, in order.
        counts: the same, for the account.
        fault: class and message of what ended the reading of a whole file.
    """

    items: list[Trajectory | Quarantined]
    counts: Counts
    fault: tuple[str, str] | None = None


def portions(reading: Reading) -> Iterator[Portion | Quarantined] | None:
    """Return the portions of a file; None where it has to be read in place."""
    stream, reader = reading.stream, reading.format
    if stream is None or reader is None:
        return iter(())
    name = registry.key("formats", reader)
    if isinstance(reader, RecordFormat) and place_beside(stream.uri) is None:
        return _records(reading, stream, reader, name)
    raw = _whole(stream)
    return None if raw is None else iter((Portion(name, stream.uri, None, raw),))


def _records(
    reading: Reading, stream: Stream, reader: RecordFormat, name: str
) -> Iterator[Portion | Quarantined]:
    with reading.telling():
        for record in reader.split(stream):
            if isinstance(record, Quarantined):
                yield record
            else:
                yield Portion(name, stream.uri, record.offset, record.raw)


def _whole(stream: Stream) -> bytes | None:
    """Return a small file that can be wound back if need be."""
    if not stream.file.seekable():
        return None
    try:
        raw = stream.file.read(WHOLE_BYTES + 1)
    except DAMAGE:
        raw = None  # met again, and told, when the file is read in place
    if raw is not None and len(raw) <= WHOLE_BYTES:
        return raw
    stream.file.seek(0)
    return None


def read(portion: Portion, limits: Limits, ordinals: Ordinals) -> Read:
    """Read a portion; `ordinals` is the file's, or a fresh one where others may be read meanwhile.

    Raises:
        ConfigError: no such format, or it lacks a library.
    """
    reader = registry.format(portion.format)
    counts = Counts()
    items: list[Trajectory | Quarantined] = []
    fault = None
    if portion.offset is None:
        file = io.BytesIO(portion.raw)
        reading = Reading(
            Opened(portion.uri, file, named=True), Stream(file, portion.uri, limits), reader
        )
        try:
            items.extend(reading)
        except TraceError as e:
            fault = (type(e).__name__, str(e))
        return Read(items, reading.tally.counts, fault=fault)
    assert isinstance(reader, RecordFormat)
    record = RawRecord(portion.offset, portion.raw)
    items.extend(reader.one(record, Place(portion.uri, limits), ordinals))
    for item in items:
        counts.add(item)
    return Read(items, counts)


class Joint:
    """Puts together what came of the portions of one file, in their order."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.ordinals = Ordinals()

    def knows(self, seen: Mapping[bytes, int]) -> bool:
        """Whether any content came before, so that its portion must be read with `ordinals`."""
        return not self.ordinals.seen.keys().isdisjoint(seen)

    def take(self, counts: Counts, fault: tuple[str, str] | None) -> None:
        """Add what came of a portion to the file's account.

        Raises:
            TraceError: reading ended there, and the file was given by name.
        """
        tally = self.reading.tally
        tally.counts.merge(counts)
        if fault is not None:
            kind, tally.problem = fault
            if self.reading.named:
                raise getattr(errors, kind, TraceError)(tally.problem)
