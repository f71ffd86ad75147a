"""What most formats share: a name, a likeness, and records that each hold whole runs.

A format module says how much the opening of a file is like its own, and how a decoded record
becomes runs; decoding, quarantine and offsets are here. One bad record is quarantined alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.opening import Opening, opening
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


def found(stream: Stream) -> Iterator[Found | Quarantined]:
    """Yield every record decoded; one that is no JSON, or beyond a limit, is quarantined."""
    for record in records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        try:
            value, repairs = decode(record.raw, limits=stream.limits)
        except TraceError as e:
            yield _quarantined(str(e), record.offset, record.raw, stream.uri)
            continue
        yield Found(value, record.offset, stream.uri, repairs, stream.limits, record.raw)


def each_record(
    stream: Stream, runs_of: Callable[[Found], Iterable[Trajectory]]
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of every record; a record that breaks its format's promise is quarantined."""
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
        else:
            yield from attempt(record, runs_of)


def attempt(
    record: Found, runs_of: Callable[[Found], Iterable[Trajectory]]
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
