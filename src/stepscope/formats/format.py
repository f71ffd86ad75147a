"""What most formats share: a name, a likeness, and records that each hold whole runs.

A format module says how much the opening of a file is like its own, and how a decoded record
becomes runs; decoding, quarantine and offsets are here. One bad record is quarantined alone. Where
every record can be read without the others, a format is a `RecordFormat`, and several processes may
read one file. Where one record is one message, all of them together are one run; a message that
cannot be read leaves a gap, and the run says at which of its steps something is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.finish import Ordinals
from stepscope.formats.opening import Opening, read_opening
from stepscope.formats.records import RawRecord, split_records
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory, Warn
from stepscope.safety.json import Repair, decode
from stepscope.safety.limits import Limits


class DecodedRecord(NamedTuple):
    """One decoded record of a file, and where it stands."""

    value: Json
    offset: int
    uri: str
    repairs: tuple[Repair, ...]
    limits: Limits
    raw: bytes


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format made of two functions; satisfies `stepscope.model.Format`."""

    name: str
    likeness: Callable[[Opening], float]
    reading: Callable[[Stream], Iterator[Trajectory | Quarantined]]

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""
        return self.likeness(read_opening(head))

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        return self.reading(stream)


class ReadContext(NamedTuple):
    """What a record is read with: the file that it is from, fit to be printed, and the limits."""

    uri: str
    limits: Limits


# What comes of one record: its runs, or the record itself, set aside.
RecordReader = Callable[[RawRecord, ReadContext, Ordinals], Iterable[Trajectory | Quarantined]]


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
    one: RecordReader
    split: Callable[[Stream], Iterator[RawRecord | Quarantined]] = split_records

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""
        return self.likeness(read_opening(head))

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        place, ordinals = ReadContext(stream.uri, stream.limits), Ordinals()
        for record in self.split(stream):
            if isinstance(record, Quarantined):
                yield record
            else:
                yield from self.one(record, place, ordinals)


def decode_records(stream: Stream) -> Iterator[DecodedRecord | Quarantined]:
    """Yield every record decoded; one that is no JSON, or beyond a limit, is quarantined."""
    place = ReadContext(stream.uri, stream.limits)
    for record in split_records(stream):
        yield record if isinstance(record, Quarantined) else _decode_record(record, place)


def _decode_record(record: RawRecord, place: ReadContext) -> DecodedRecord | Quarantined:
    try:
        value, repairs = decode(record.raw, limits=place.limits)
    except TraceError as e:
        return _quarantine_bytes(str(e), record.offset, record.raw, place.uri)
    return DecodedRecord(value, record.offset, place.uri, repairs, place.limits, record.raw)


def read_each(runs_of: Callable[[DecodedRecord, Ordinals], Iterable[Trajectory]]) -> RecordReader:
    """Return what reads one record by `runs_of`; a record that it refuses is quarantined."""

    def one(
        record: RawRecord, place: ReadContext, ordinals: Ordinals
    ) -> Iterable[Trajectory | Quarantined]:
        decoded = _decode_record(record, place)
        if isinstance(decoded, Quarantined):
            return (decoded,)
        return attempt(decoded, lambda found: runs_of(found, ordinals))

    return one


def attempt(
    record: DecodedRecord, runs_of: Callable[[DecodedRecord], Iterable[Trajectory | Quarantined]]
) -> tuple[Trajectory | Quarantined, ...]:
    """Return the runs of one record, or the record itself, quarantined with the reason."""
    try:
        return tuple(runs_of(record))
    except (TraceError, msgspec.ValidationError) as e:
        return (quarantine_record(record, e),)


def quarantine_record(record: DecodedRecord, reason: Exception) -> Quarantined:
    """Return a record as quarantined, with the reason's text and its bytes."""
    return _quarantine_bytes(str(reason), record.offset, record.raw, record.uri)


def quarantine_value(source: Source, value: Json, reason: Exception | str) -> Quarantined:
    """Return what was decoded of a source as quarantined, written as JSON again."""
    return _quarantine_bytes(
        str(reason), source.offset or 0, msgspec.json.encode(value), source.uri
    )


def _quarantine_bytes(reason: str, offset: int, raw: bytes, uri: str) -> Quarantined:
    return Quarantined(reason=reason, offset=offset, raw=raw, uri=uri)


def join_messages(
    stream: Stream,
    *,
    is_part: Callable[[Json], bool],
    step: Callable[[DecodedRecord, int], Step],
    whole: Callable[[DecodedRecord], Iterable[Trajectory | Quarantined]],
    run: Callable[[tuple[Step, ...], DecodedRecord], Trajectory],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of whole records as they come, then the run that the parts make together."""
    steps: list[Step] = []
    missing: list[int] = []
    repairs: list[Repair] = []
    first: DecodedRecord | None = None
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            missing.append(len(steps))
            yield record
        elif is_part(record.value):
            try:
                steps.append(step(record, len(steps)))
            except (TraceError, msgspec.ValidationError) as e:
                missing.append(len(steps))
                yield quarantine_record(record, e)
                continue
            repairs += record.repairs
            first = first or record
        else:
            yield from attempt(record, whole)
    if first is not None:
        first = first._replace(repairs=tuple(repairs))
        yield from attempt(first, lambda start: (_warn_of_gaps(run(tuple(steps), start), missing),))


def _warn_of_gaps(trajectory: Trajectory, missing: list[int]) -> Trajectory:
    if not missing:
        return trajectory
    lost = [
        Warn("record_quarantined", "a record that stood here could not be read", at)
        for at in missing
    ]
    return msgspec.structs.replace(trajectory, warnings=(*trajectory.warnings, *lost))


class StepCollector:
    """Collects the steps of a run; `first` is the record of its first step, None before any."""

    def __init__(self) -> None:
        self.first: DecodedRecord | None = None
        self.repairs: list[Repair] = []
        self.count = 0
        self._spoken: list[list[Step]] = [[]]

    def add(self, step: Step, record: DecodedRecord) -> None:
        """Take the next step."""
        self._spoken[-1].append(step)
        self.first = self.first or record
        self.repairs += record.repairs
        self.count += 1

    def lost(self) -> None:
        """Note that a record stood here that could not be read."""
        self._spoken.append([])

    def joined(self, join: Callable[[list[Step]], list[Step]]) -> tuple[list[Step], list[Warn]]:
        """Return the steps, those between two gaps joined by `join`, and a warning for each gap."""
        steps: list[Step] = []
        gaps: list[Warn] = []
        for spoken in self._spoken:
            steps += join(spoken)
            reason = "a record that stood here could not be read"
            gaps.append(Warn("record_quarantined", reason, len(steps)))
        return steps, gaps[:-1]
