"""What most formats share: a name, a likeness, and records that each hold whole runs.

A format module says how much the opening of a file is like its own, and how a decoded record
becomes runs; decoding, quarantine and offsets are here. One bad record is quarantined alone. Where
every record can be read without the others, a format is a `RecordFormat`, and several processes may
read one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals
from stepscope.formats.opening import Opening, opening
from stepscope.formats.pieces import RawRecord
from stepscope.formats.records import records
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.door import Repair, decode
from stepscope.safety.limits import Limits


class Found(NamedTuple):
    """One decoded record of a file, and where it stands."""

    value: Json
    offset: int
    uri: str
    repairs: tuple[Repair, ...]
    limits: Limits
    raw: bytes


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """A format made of two functions; satisfies `stepscope.model.Format`."""

    name: str
    likeness: Callable[[Opening], float]
    reading: Callable[[Stream], Iterator[Trajectory | Quarantined]]

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""
        return self.likeness(opening(head))

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        return self.reading(stream)


class Place(NamedTuple):
    """What a record is read with: the file that it is from, fit to be printed, and the limits."""

    uri: str
    limits: Limits


# What comes of one record: its runs, or the record itself, set aside.
One = Callable[[RawRecord, Place, Ordinals], Iterable[Trajectory | Quarantined]]


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format whose records are read each by itself; satisfies `stepscope.model.Format`.

    Attributes:
        name: what `--format` takes.
        likeness: how sure the opening of a file makes it.
        one: reads one record; of others it knows only how often their content came, in `Ordinals`.
        split: gives the records of a file.
    """

    name: str
    likeness: Callable[[Opening], float]
    one: One
    split: Callable[[Stream], Iterator[RawRecord | Quarantined]] = records

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""
        return self.likeness(opening(head))

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        place, ordinals = Place(stream.uri, stream.limits), Ordinals()
        for record in self.split(stream):
            if isinstance(record, Quarantined):
                yield record
            else:
                yield from self.one(record, place, ordinals)


def found(stream: Stream) -> Iterator[Found | Quarantined]:
    """Yield every record decoded; one that is no JSON, or beyond a limit, is quarantined."""
    place = Place(stream.uri, stream.limits)
    for record in records(stream):
        yield record if isinstance(record, Quarantined) else _decoded(record, place)


def _decoded(record: RawRecord, place: Place) -> Found | Quarantined:
    try:
        value, repairs = decode(record.raw, limits=place.limits)
    except TraceError as e:
        return _quarantined(str(e), record.offset, record.raw, place.uri)
    return Found(value, record.offset, place.uri, repairs, place.limits, record.raw)


def each(runs_of: Callable[[Found, Ordinals], Iterable[Trajectory]]) -> One:
    """Return what reads one record by `runs_of`; a record that it refuses is quarantined."""

    def one(
        record: RawRecord, place: Place, ordinals: Ordinals
    ) -> Iterable[Trajectory | Quarantined]:
        decoded = _decoded(record, place)
        if isinstance(decoded, Quarantined):
            return (decoded,)
        return attempt(decoded, lambda found: runs_of(found, ordinals))

    return one


def attempt(
    record: Found, runs_of: Callable[[Found], Iterable[Trajectory | Quarantined]]
) -> tuple[Trajectory | Quarantined, ...]:
    """Return the runs of one record, or the record itself, quarantined with the reason."""
    try:
        return tuple(runs_of(record))
    except (TraceError, msgspec.ValidationError) as e:
        return (quarantine(record, e),)


def quarantine(record: Found, reason: Exception) -> Quarantined:
    """Return a record as quarantined, with the reason's text and its bytes."""
    return _quarantined(str(reason), record.offset, record.raw, record.uri)


def _quarantined(reason: str, offset: int, raw: bytes, uri: str) -> Quarantined:
    return Quarantined(reason=reason, offset=offset, raw=raw, uri=uri)
