"""Read the files that the user names, in this process or split into chunks for others.

A file given by name that is no trace is an error. The same file within a folder, a glob or an
archive is an account with its problem, because folders hold other things than traces. Inside a
trace, a record that cannot be read comes out as `Quarantined`: runs and quarantined records
together are what the file offered.

A chunk is one record, where the format reads its records each by itself, or a small file as a
whole. It can be read in any process and gives what the file, read in one go, would give: the same
runs with the same ids, the same account, the same offsets. Two things only the whole file knows,
and `ChunkJoiner` adds them: how often a content came before (`Ordinals`), and what stands between
the records. A file that neither splits nor is small, or has labels beside it, is read in place.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec

from stepscope import errors, registry
from stepscope.errors import TraceError, UsageError
from stepscope.formats import files, opening
from stepscope.formats.files import OpenedFile, RefusedFile
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import FileFormat, RecordFormat, RecordReader, RunLabels
from stepscope.formats.records import RawRecord
from stepscope.model import Format, Quarantined, Stream, TraceLabel, Trajectory
from stepscope.registry import PluginFault
from stepscope.safety.json import BOM, REPAIR_CODES
from stepscope.safety.limits import DEFAULT_LIMITS, MIB, Limits, open_file
from stepscope.safety.redact import scrub_message
from stepscope.safety.text import visible_line
from stepscope.values import format_count

# The format of files that hold labels of the runs in their folder, a key of theirs, and in how many
# bytes it is looked for; in a folder of more files than that, only in those that are called labels.
_LABELS, _LABELS_KEY, _LABELS_HEAD, _MOST_OPENED = "agentrx_labels", b'"failures"', 16 * 1024, 2000
# A folder that changed just now may change again without its time telling.
_SETTLED_NS = 2_000_000_000


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came out of one file."""

    uri: str  # the file, or archive and member
    format: str | None = None  # the format that read it; None where none did
    runs: int = 0  # trajectories read
    steps: int = 0  # steps in them
    calls: int = 0  # tool calls in them
    scores: int = 0  # step scores in them
    # code of a repair -> records or runs that it was made in
    repaired: dict[str, int] = msgspec.field(default_factory=dict)
    # code of any other warning -> how often it was given
    flagged: dict[str, int] = msgspec.field(default_factory=dict)
    quarantined: int = 0  # records that could not be read
    # why they were set aside -> how many
    set_aside: dict[str, int] = msgspec.field(default_factory=dict)
    # key that has no field of its own -> how often it was kept in `extra`; keys of steps, calls and
    # results are prefixed `step.`, `call.`, `result.`
    kept_in_extra: dict[str, int] = msgspec.field(default_factory=dict)
    # what the source itself kept back, by what it is -> how often
    withheld: dict[str, int] = msgspec.field(default_factory=dict)
    problem: str | None = None  # why nothing, or not all, was read

    @property
    def unread(self) -> int:
        """Records that could not be read; the rest of a file that was cut is one."""
        return self.quarantined + (self.format is not None and self.problem is not None)

    @property
    def skipped(self) -> str | None:
        """Why it is no trace, without what tells such files apart; None for what is one."""
        if self.format is not None or self.problem is None:
            return None
        why = self.problem.removeprefix(opening.NO_TRACE)
        known = why != self.problem or why.startswith(files.NOT_OPENED)
        return re.split(" beginning '| with keys ", why)[0] if known else None

    @property
    def failed(self) -> bool:
        """Whether nothing could be read of it, though it is a trace or may be one."""
        return not (self.runs or self.scores or self.skipped is not None) and bool(
            self.quarantined or self.problem is not None
        )

    def line(self) -> str:
        """Say it in one line."""
        said = [f"{self.uri}:"]
        if self.format is not None:
            said.append(
                f"{self.format}, {format_count(self.runs, 'run')}, "
                f"{format_count(self.steps, 'step')}, {format_count(self.calls, 'call')}"
                + (f", {format_count(self.scores, 'score')};" if self.scores else ";")
            )
        counted = {"repaired": self.repaired, "warnings": self.flagged}
        counted |= {"kept but not interpreted": self.kept_in_extra}
        for word, counts in (counted | {"withheld by the source": self.withheld}).items():
            if counts:
                told = ", ".join(f"{name} {n:,}" for name, n in counts.items())
                said.append(f"{word}: {told};")
        if self.format is not None and not (self.runs or self.scores or self.quarantined):
            labels = "labels of runs; import them with the runs, in one folder;"
            said.append(labels if self.format == _LABELS else "nothing in it is a run;")
        if self.quarantined:
            said.append(f"set aside {self.quarantined:,}{_list_reasons(self.set_aside)};")
        if self.problem is not None:
            said.append(f"{self.problem};")
        return " ".join(said).removesuffix(";").removesuffix(":")


# Different reasons that are told of a file, and how many of them on its line.
_REASONS, _SHOWN_REASONS, _REASON_CHARACTERS = 20, 3, 200
_OTHER_REASONS = "other reasons"


def _list_reasons(counted: Mapping[str, int]) -> str:
    """Return why records were set aside, the most frequent reason first."""
    ordered = sorted(counted.items(), key=lambda item: -item[1])
    told = [reason if len(ordered) == 1 else f"{reason} ({n:,})" for reason, n in ordered]
    if len(told) > _SHOWN_REASONS:
        told[_SHOWN_REASONS:] = [f"{len(told) - _SHOWN_REASONS} more reasons (--set-aside)"]
    return f": {'; '.join(told)}" if told else ""


class Counts(msgspec.Struct, array_like=True):
    """What came out of a file or of a part of it, as numbers that add up."""

    runs: int = 0
    steps: int = 0
    calls: int = 0
    quarantined: int = 0
    scores: int = 0
    warned: dict[str, int] = msgspec.field(default_factory=dict)
    extra: dict[str, int] = msgspec.field(default_factory=dict)
    reasons: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, found: Trajectory | Quarantined) -> None:
        """Count one thing that came out."""
        if isinstance(found, Quarantined):
            self.quarantined += 1
            self._count_reason(visible_line(scrub_message(found.reason))[:_REASON_CHARACTERS])
            return
        self.runs += 1
        self.steps += len(found.steps)
        self.scores += len(found.scores)
        for warning in found.warnings:
            _count(self.warned, warning.code)
        _count_each(self.extra, found.extra)
        for step in found.steps:
            _count_each(self.extra, step.extra, "step.")
            self.calls += len(step.calls)
            for call in step.calls:
                _count_each(self.extra, call.extra, "call.")
            for result in step.results:
                _count_each(self.extra, result.extra, "result.")

    def _count_reason(self, reason: str, n: int = 1) -> None:
        known = reason in self.reasons or len(self.reasons) < _REASONS
        _count(self.reasons, reason if known else _OTHER_REASONS, n)

    def merge(self, other: Counts) -> None:
        """Add what came out of another part."""
        for name in ("runs", "steps", "calls", "scores", "quarantined"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.warned, other.warned), (self.extra, other.extra)):
            for key, n in theirs.items():
                _count(mine, key, n)
        for reason, n in other.reasons.items():
            self._count_reason(reason, n)

    def account(self, uri: str, format_name: str | None, problem: str | None = None) -> Account:
        """Return the counts so far as the account of a file."""
        warned = sorted(self.warned.items())
        return Account(
            uri=uri,
            format=format_name,
            runs=self.runs,
            steps=self.steps,
            calls=self.calls,
            scores=self.scores,
            repaired={code: n for code, n in warned if code in REPAIR_CODES},
            flagged={code: n for code, n in warned if code not in REPAIR_CODES},
            quarantined=self.quarantined,
            set_aside=dict(self.reasons),
            kept_in_extra=dict(sorted(self.extra.items())),
            problem=None if problem is None else scrub_message(problem),
        )


def _count(counted: dict[str, int], key: str, n: int = 1) -> None:
    counted[key] = counted.get(key, 0) + n


def _count_each(counted: dict[str, int], keys: Iterable[str] | None, prefix: str = "") -> None:
    for key in keys or ():
        _count(counted, prefix + key)


class FileReading:
    """One file being read: iterate once, then ask for the `account`."""

    def __init__(
        self,
        found: OpenedFile | RefusedFile,
        stream: Stream | None = None,
        format: Format | None = None,
    ) -> None:
        self.uri = found.uri  # the file, or archive and member, fit to be printed
        self.stream = stream
        self.format = format
        self.named = found.named
        self.problem = found.problem if isinstance(found, RefusedFile) else None
        self.counts = Counts()

    @property
    def account(self) -> Account:
        """What came out so far; complete when the reading is at its end."""
        name = None if self.format is None else self.format.name
        return self.counts.account(self.uri, name, self.problem)

    def repaired(self, code: str) -> None:
        """Count a repair that was made to the file as a whole."""
        _count(self.counts.warned, code)

    def __iter__(self) -> Iterator[Trajectory | Quarantined]:
        """Yield the runs and the quarantined records of the file.

        Raises:
            TraceError: a file given by name turns out to be unreadable half way.
            UsageError: the next reading was asked for before this one was read.
        """
        stream, reader = self.stream, self.format
        self.stream = None
        if stream is None or reader is None:
            return
        if stream.file.closed:
            raise UsageError(f"{self.uri}: closed; read each file before asking for the next")
        labels = load_labels_beside(stream.uri, stream.limits)
        foreign = registry.is_foreign("formats", reader)
        items = _read_foreign(reader, stream) if foreign else reader.read(stream)
        with self.telling():
            for found in items:
                if labels is not None and isinstance(found, Trajectory):
                    found = labels.attach(found)
                self.counts.add(found)
                yield found
            for _ in labels.without_run if labels is not None else ():
                self.repaired("label_without_run")

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Note in the account why a file is read no further; of a named file, raise it."""
        try:
            yield
        except TraceError as e:
            self.problem = str(e)
            if self.named:
                raise
        except files.DAMAGE_ERRORS as e:
            self.problem = f"damaged, read no further: {e}"
            if self.named:
                raise TraceError(f"{self.uri}: {self.problem}") from e


@contextmanager
def _failing_as_a_trace(reader: Format) -> Iterator[Callable[[object], None]]:
    """Run code of a format of others; gives what looks at each thing that it yields."""

    def check(found: object) -> None:
        if not isinstance(found, Trajectory | Quarantined):
            raise TypeError(f"a {type(found).__name__} is no Trajectory and not Quarantined")

    try:
        with registry.guarded(TraceError, *files.DAMAGE_ERRORS):
            yield check
    except PluginFault as e:
        raise TraceError(f"format {reader.name!r} fails on it: {e}") from e


def _read_foreign(reader: Format, stream: Stream) -> Iterator[Trajectory | Quarantined]:
    if isinstance(reader, RecordFormat):
        reader = replace(reader, one=_guarded(reader))
    with _failing_as_a_trace(reader) as check:
        for found in reader.read(stream):
            check(found)
            yield found


def _guarded(reader: RecordFormat) -> RecordReader:
    """Return what reads one record by a format of others; one on which it fails is set aside."""

    def one(
        record: RawRecord, uri: str, limits: Limits, ordinals: Ordinals
    ) -> tuple[Trajectory | Quarantined, ...]:
        try:
            with _failing_as_a_trace(reader) as check:
                found = tuple(reader.one(record, uri, limits, ordinals))
                for item in found:
                    check(item)
                return found
        except TraceError as e:
            return (Quarantined(reason=str(e), offset=record.offset, raw=record.raw, uri=uri),)

    return one


def read_files(
    paths: Sequence[str | bytes], *, format_name: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[FileReading]:
    """Yield a reading for every file that `paths` stand for; read each before asking for the next.

    Raises:
        TraceError: a file given by name cannot be read, or is no trace of one known format.
        UsageError: a glob that matches nothing, a folder without files.
        ConfigError: no format is called `format_name`.
    """
    chosen = None if format_name is None else registry.format(format_name)
    for found in files.open_paths(paths):
        yield from _read_source(found, chosen, limits, nested=False)


def _read_source(
    found: OpenedFile | RefusedFile, chosen: Format | None, limits: Limits, *, nested: bool
) -> Iterator[FileReading]:
    try:
        if isinstance(found, RefusedFile):
            raise TraceError(f"{found.uri}: {found.problem}")
        head = found.file.read(opening.HEAD_BYTES)
        if head.startswith(files.GZIP_MAGIC):
            unpacked = files.open_gzip(found.file, head, found.uri, limits)
            found, head = found._replace(file=unpacked), unpacked.read(opening.HEAD_BYTES)
        if head.startswith(files.ZIP_MAGIC) and (nested or not found.file.seekable()):
            raise TraceError(f"{found.uri}: a zip within another file; unpack it first")
        if head.startswith(files.ZIP_MAGIC) and not _is_one_trace(head, chosen):
            for member in files.open_members(found.file, found.uri, limits):
                yield from _read_source(member, chosen, limits, nested=True)
            return
        if chosen is None and opening.is_first_cut(head):
            head += found.file.read(limits.line_bytes)  # a larger record is set aside anyway
        format = chosen or _detect(found, head, limits)
        stream = Stream(files.rewind(found.file, head), found.uri, limits)
        reading = FileReading(found, stream, format)
        if head.startswith(BOM):
            reading.repaired("bom")
    except (TraceError, *files.DAMAGE_ERRORS) as e:
        problem = str(e).removeprefix(f"{found.uri}: ")
        if not found.named:
            yield FileReading(RefusedFile(found.uri, problem, named=False))
            return
        if isinstance(e, TraceError):
            raise
        raise TraceError(f"{found.uri}: cannot be read: {problem}") from e
    yield reading


def _detect(found: OpenedFile, head: bytes, limits: Limits) -> Format:
    """Return the format of a file, of what is behind its first line where that is too large."""
    cut = opening.is_first_cut(head[: opening.HEAD_BYTES])
    if cut and (outline := opening.outline_first(head)) is not None:
        with suppress(TraceError):
            return opening.detect(outline, found.uri)
    head = head[: opening.HEAD_BYTES]
    try:
        return opening.detect(files.sniffable_bytes(found.file, head), found.uri)
    except TraceError:
        if len(head) < opening.HEAD_BYTES or b"\n" in head or not found.file.seekable():
            raise
        found.file.seek(opening.HEAD_BYTES)
        # A line of more than twice what is read is none that a person would wait for.
        for _ in range(2 * limits.line_bytes // opening.HEAD_BYTES + 1):
            _, newline, rest = found.file.read(opening.HEAD_BYTES).partition(b"\n")
            if newline:
                behind = rest + found.file.read(opening.HEAD_BYTES)
                return opening.detect(behind[: opening.HEAD_BYTES], found.uri)
        raise


def _is_one_trace(head: bytes, chosen: Format | None) -> bool:
    """Say whether a zip is a trace as a whole, rather than an archive of traces."""
    asked = opening.likely_formats(opening.read_opening(head)) if chosen is None else [chosen]
    return any(format.sniff(head) >= opening.SURE for format in asked)


def _find_label_files(uri: str) -> tuple[Path, ...]:
    """Return where labels lie beside a file of runs, under whatever names."""
    folder = Path(uri).parent
    try:
        changed = folder.stat().st_mtime_ns
        settled = time.time_ns() - changed > _SETTLED_NS
        look = _label_files if settled else _label_files.__wrapped__
        found = () if uri in ("-", files.MEMORY) else look(folder, changed)
    except OSError:  # not there, or not to be listed
        return ()
    return tuple(path for path in found if path != Path(uri))


@lru_cache(maxsize=64)
def _label_files(folder: Path, _changed_ns: int) -> tuple[Path, ...]:
    paths = [path for path in sorted(folder.iterdir()) if not path.is_symlink() and path.is_file()]
    crowded = len(paths) > _MOST_OPENED
    return tuple(p for p in paths if "label" in p.name.lower() or not crowded if _has_labels(p))


def _has_labels(path: Path) -> bool:
    try:
        with open_file(path) as file:
            head = file.read(_LABELS_HEAD)
    except OSError:
        return False
    return _LABELS_KEY in head and registry.format(_LABELS).sniff(head) >= opening.SURE


def load_labels_beside(uri: str, limits: Limits) -> RunLabels | None:
    """Return the labels that lie in the folder of a file of runs, None where none do."""
    by_task: dict[str, tuple[TraceLabel, ...]] = {}
    for path in _find_label_files(uri):
        form = registry.format(_LABELS)
        load = form.load_labels if isinstance(form, FileFormat) else None
        held = None if load is None else load(path, limits)
        for task, labels in () if held is None else held.by_task.items():
            by_task[task] = (*by_task.get(task, ()), *labels)
    return RunLabels(by_task) if by_task else None


# A file of at most this size travels as a whole.
SMALL_FILE_BYTES = 8 * MIB


class FileChunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bytes to be read: of the record at `offset`, or of a whole file where that is None."""

    format: str
    uri: str
    offset: int | None
    raw: bytes


def split_file(reading: FileReading) -> Iterator[FileChunk | Quarantined] | None:
    """Return the portions of a file; None where it has to be read in place."""
    stream, reader = reading.stream, reading.format
    if stream is None or reader is None:
        return iter(())
    name = registry.loaded_name("formats", reader)
    if isinstance(reader, RecordFormat) and not _find_label_files(stream.uri):
        return _record_chunks(reading, stream, reader, name)
    if not stream.file.seekable():
        return None
    try:
        raw = stream.file.read(SMALL_FILE_BYTES + 1)
    except files.DAMAGE_ERRORS:
        raw = None  # met again, and told, when the file is read in place
    if raw is not None and len(raw) <= SMALL_FILE_BYTES:
        return iter((FileChunk(name, stream.uri, None, raw),))
    stream.file.seek(0)
    return None


def _record_chunks(
    reading: FileReading, stream: Stream, reader: RecordFormat, name: str
) -> Iterator[FileChunk | Quarantined]:
    with reading.telling():
        for record in reader.split(stream):
            if isinstance(record, Quarantined):
                yield record
            else:
                yield FileChunk(name, stream.uri, record.offset, record.raw)


def read_chunk(
    portion: FileChunk, limits: Limits, ordinals: Ordinals, counts: Counts
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs and quarantined records of a portion, and add them to `counts`.

    `ordinals` is the file's, or a fresh one where others may be read meanwhile. `TraceError` where
    a whole file turns out to be unreadable half way, `ConfigError` without the format or a library.
    """
    reader = registry.format(portion.format)
    if portion.offset is None:
        stream = Stream(io.BytesIO(portion.raw), portion.uri, limits)
        reading = FileReading(OpenedFile(portion.uri, stream.file, named=True), stream, reader)
        reading.counts = counts
        yield from reading
        return
    assert isinstance(reader, RecordFormat)
    one = _guarded(reader) if registry.is_foreign("formats", reader) else reader.one
    for item in one(RawRecord(portion.offset, portion.raw), portion.uri, limits, ordinals):
        counts.add(item)
        yield item


class ChunkJoiner:
    """Puts together what came of the portions of one file, in their order."""

    def __init__(self, reading: FileReading) -> None:
        self.reading = reading
        self.ordinals = Ordinals()

    def knows(self, seen: Mapping[bytes, int]) -> bool:
        """Whether any content came before, so that its portion must be read with `ordinals`."""
        return not self.ordinals.seen.keys().isdisjoint(seen)

    def take(self, counts: Counts, fault: tuple[str, str] | None) -> None:
        """Add what came of a portion to the file's account."""
        reading = self.reading
        reading.counts.merge(counts)
        if fault is not None:
            kind, reading.problem = fault
            if reading.named:
                raise getattr(errors, kind, TraceError)(reading.problem)
