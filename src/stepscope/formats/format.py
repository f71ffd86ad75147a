"""What most formats share: a name, a likeness, and records that each hold whole runs.

A format module says how much the opening of a file is like its own, and how a decoded record
becomes runs; decoding, quarantine and offsets are here. One bad record is quarantined alone. Where
every record can be read without the others, a format is a `RecordFormat`, and several processes may
read one file. Where one record is one message, all of them together are one run; a message that
cannot be read leaves a gap, and the run says at which of its steps something is missing. Readers
refuse by raising `TraceError` or `msgspec.ValidationError`; a refusal becomes `Quarantined` here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.opening import Opening, read_opening
from stepscope.formats.records import RawRecord, split_records
from stepscope.model import Json, Quarantined, Source, Step, Stream, TraceLabel, Trajectory, Warn
from stepscope.safety.json import Repair, decode
from stepscope.safety.limits import Limits

T = TypeVar("T")
P = ParamSpec("P")


class DecodedRecord(NamedTuple):
    """One decoded record of a file, and where it stands."""

    value: Json
    offset: int
    uri: str
    repairs: tuple[Repair, ...]
    limits: Limits
    raw: bytes

    def source(self, format: str, run_id: str | None = None, version: str | None = None) -> Source:
        """Return where a run comes from that this record holds, or begins."""
        return Source(
            format=format, format_version=version, uri=self.uri, offset=self.offset, run_id=run_id
        )

    def finish(
        self, draft: Trajectory, ordinals: Ordinals, unexpected: UnexpectedKeys | None = None
    ) -> Trajectory:
        """Return the finished run of a draft that this record holds, or begins."""
        draft = draft if unexpected is None else unexpected.keep_in(draft)
        return finish_run(draft, ordinals, limits=self.limits, repairs=self.repairs)


class RunLabels:
    """The labels of one file by task, and which of them found their run."""

    def __init__(self, by_task: dict[str, tuple[TraceLabel, ...]]) -> None:
        self.by_task = by_task
        self._found: set[str] = set()

    def attach(self, run: Trajectory) -> Trajectory:
        """Return the first run of a task with the task's labels added; any other run as it is."""
        labels = self.by_task.get(run.task or "", ())
        if not labels or run.task in self._found:
            return run
        self._found.add(run.task or "")
        n = len(run.steps)
        beyond = [label for label in labels if label.step is not None and label.step >= n]
        fitting = [label for label in labels if label not in beyond]
        warnings = [
            Warn("label_beyond_run", f"a label names step {label.step}; the run has {n} steps")
            for label in beyond
        ]
        loose = [replace(x, step=None, extra={**(x.extra or {}), "step": x.step}) for x in beyond]
        told = (*run.labels, *fitting, *loose)
        return replace(run, labels=told, warnings=(*run.warnings, *warnings))

    @property
    def without_run(self) -> tuple[str, ...]:
        """Tasks whose run has not come, once any other has: the file is of these runs."""
        return tuple([x for x in self.by_task if x not in self._found]) if self._found else ()


class _Sniffing:
    """What tells how sure a format is of a file."""

    __slots__ = ()
    likeness: Callable[[Opening], float]
    head_likeness: Callable[[bytes], float] | None

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""
        opening = read_opening(head)
        if opening.shape == "none" and self.head_likeness is not None:
            return self.head_likeness(head)
        return self.likeness(opening)


@dataclass(frozen=True, slots=True)
class FileFormat(_Sniffing):
    """A format made of two functions; satisfies `stepscope.model.Format`."""

    name: str
    likeness: Callable[[Opening], float]
    reading: Callable[[Stream], Iterator[Trajectory | Quarantined]]
    # how sure a head that holds no JSON makes it
    head_likeness: Callable[[bytes], float] | None = None
    # of a format whose files hold no runs: loads the labels of the runs in their folder
    load_labels: Callable[[Path, Limits], RunLabels | None] | None = None

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        return self.reading(stream)


# Reads one record of a file, whose name is fit to be printed: its runs, or the record itself, set
# aside. Of the others it knows only how often their content came.
RecordReader = Callable[[RawRecord, str, Limits, Ordinals], Iterable[Trajectory | Quarantined]]


@dataclass(frozen=True, slots=True)
class RecordFormat(_Sniffing):
    """A format whose records are read each by itself; satisfies `stepscope.model.Format`."""

    name: str  # what `--format` takes
    likeness: Callable[[Opening], float]  # how sure the opening of a file makes it
    one: RecordReader
    # gives the records of a file
    split: Callable[[Stream], Iterator[RawRecord | Quarantined]] = split_records
    # how sure a head that holds no JSON makes it
    head_likeness: Callable[[bytes], float] | None = None

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""
        ordinals = Ordinals()
        for record in self.split(stream):
            if isinstance(record, Quarantined):
                yield record
            else:
                yield from self.one(record, stream.uri, stream.limits, ordinals)


def decode_records(stream: Stream) -> Iterator[DecodedRecord | Quarantined]:
    """Yield every record decoded; one that is no JSON, or beyond a limit, is quarantined."""
    for record in split_records(stream):
        if isinstance(record, Quarantined):
            yield record
        else:
            yield _decode_record(record, stream.uri, stream.limits)


def parse_records(
    stream: Stream, parse: Callable[[Json], T]
) -> Iterator[tuple[DecodedRecord, T] | Quarantined]:
    """Yield every record with what `parse` makes of its value; one refused is quarantined."""
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        try:
            parsed = parse(record.value)
        except (TraceError, msgspec.ValidationError) as e:
            yield quarantine_record(record, e)
        else:
            yield record, parsed


def _decode_record(record: RawRecord, uri: str, limits: Limits) -> DecodedRecord | Quarantined:
    try:
        value, repairs = decode(record.raw, limits=limits)
    except TraceError as e:
        return Quarantined(reason=str(e), offset=record.offset, raw=record.raw, uri=uri)
    return DecodedRecord(value, record.offset, uri, repairs, limits, record.raw)


def read_each(runs_of: Callable[[DecodedRecord, Ordinals], Iterable[Trajectory]]) -> RecordReader:
    """Return what reads one record by `runs_of`; a record that it refuses is quarantined."""

    def one(
        record: RawRecord, uri: str, limits: Limits, ordinals: Ordinals
    ) -> Iterable[Trajectory | Quarantined]:
        decoded = _decode_record(record, uri, limits)
        if isinstance(decoded, Quarantined):
            return (decoded,)
        return attempt(decoded, runs_of, ordinals)

    return one


def attempt(
    record: DecodedRecord,
    runs_of: Callable[Concatenate[DecodedRecord, P], Iterable[Trajectory | Quarantined]],
    *given: P.args,
    **named: P.kwargs,
) -> tuple[Trajectory | Quarantined, ...]:
    """Return the runs of one record, or the record itself, quarantined with the reason."""
    try:
        return tuple(runs_of(record, *given, **named))
    except (TraceError, msgspec.ValidationError) as e:
        return (quarantine_record(record, e),)


# How msgspec tells of a value of another type, or of a key that is not there.
_MISMATCH = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `([^`]+)`)?")
_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `([^`]+)`)?")
_AT_KEY = re.compile(r" - at `\$\.(\w+)")
_JSON_TYPES = {
    "object": "an object",
    "array": "an array",
    "str": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
}


def describe_refusal(error: Exception | str) -> str:
    """Return why a record is refused: where, what was found, what was expected."""
    text = _MISSING.sub(lambda found: f"`{found[2] or '$'}.{found[1]}` is missing", str(error))
    return _MISMATCH.sub(_describe_mismatch, text)


def _describe_mismatch(found: re.Match[str]) -> str:
    named = {one for one in found[1].split(" | ") if one != "null"}
    named -= {"int"} if "float" in named else set()
    wanted = [said for kind, said in _JSON_TYPES.items() if kind in named]
    wanted += sorted(named - _JSON_TYPES.keys())
    told = " or ".join([", ".join(wanted[:-1]), wanted[-1]] if len(wanted) > 1 else wanted)
    got = _JSON_TYPES.get(found[2], found[2])
    return f"`{found[3] or '$'}` is {got}, expected {told or 'null'}"


class UnexpectedKeys(NamedTuple):
    """Optional keys of a record that hold another shape than its format's."""

    values: dict[str, Json]
    warnings: tuple[Warn, ...]

    def keep_in(self, draft: Trajectory) -> Trajectory:
        """Return a run with the keys in its `extra`, and a warning for each."""
        if not self.values:
            return draft
        extra = {**self.values, **(draft.extra or {})}
        return replace(draft, extra=extra, warnings=(*draft.warnings, *self.warnings))


def convert_record(record: dict[str, Json], kind: type[T]) -> tuple[T, UnexpectedKeys]:
    """Return a record as `kind`, and its optional keys of another shape, which are left out."""
    odd: dict[str, Json] = {}
    warnings: list[Warn] = []
    while True:
        known = {key: value for key, value in record.items() if key not in odd} if odd else record
        try:
            return msgspec.convert(known, kind), UnexpectedKeys(odd, tuple(warnings))
        except msgspec.ValidationError as e:
            at = _AT_KEY.search(str(e))
            fields = msgspec.structs.fields(kind)  # type: ignore[arg-type]  # T is a struct
            optional = {one.encode_name for one in fields if not one.required}
            if at is None or at[1] not in optional or at[1] in odd:
                raise
            odd[at[1]] = record[at[1]]
            warnings.append(Warn("unexpected_shape", describe_refusal(e)))


def quarantine_record(record: DecodedRecord, reason: Exception | str) -> Quarantined:
    """Return a record as quarantined, with the reason's text and its bytes."""
    why = describe_refusal(reason)
    return Quarantined(reason=why, offset=record.offset, raw=record.raw, uri=record.uri)


def quarantine_value(source: Source, value: Json, reason: Exception | str) -> Quarantined:
    """Return what was decoded of a source as quarantined, written as JSON again."""
    raw, why = msgspec.json.encode(value), describe_refusal(reason)
    return Quarantined(reason=why, offset=source.offset or 0, raw=raw, uri=source.uri)


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


def message_format(
    name: str,  # what `--format` takes
    likeness: Callable[[Opening], float],  # how sure the opening of a file makes it
    *,
    is_part: Callable[[Json], bool],
    step: Callable[[Json, int, Limits], Step],
    whole: Callable[[DecodedRecord, Ordinals], Iterable[Trajectory | Quarantined]],
    run: Callable[[tuple[Step, ...], DecodedRecord, Ordinals], Trajectory],
) -> FileFormat:
    """Return a format of which a record holds runs, or is one message of the file's only run.

    `is_part` says which it is. `step` reads a message as the step at an index, `whole` a record
    that holds runs; `run` makes the run of all messages of a file, behind the others.
    """

    def reading(stream: Stream) -> Iterator[Trajectory | Quarantined]:
        ordinals, parts = Ordinals(), StepCollector()
        for record in decode_records(stream):
            if isinstance(record, Quarantined):
                parts.lost()
                yield record
            elif is_part(record.value):
                try:
                    parts.add(step(record.value, parts.count, record.limits), record)
                except (TraceError, msgspec.ValidationError) as e:
                    parts.lost()
                    yield quarantine_record(record, e)
            else:
                yield from attempt(record, lambda found: whole(found, ordinals))
        if parts.first is None:
            return
        steps, gaps = parts.joined(list)

        def finished(start: DecodedRecord) -> tuple[Trajectory]:
            made = run(tuple(steps), start, ordinals)
            return (replace(made, warnings=(*made.warnings, *gaps)),)

        yield from attempt(parts.first._replace(repairs=tuple(parts.repairs)), finished)

    return FileFormat(name, likeness, reading)
