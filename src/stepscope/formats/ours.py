"""Our own runs as JSON lines or as Parquet, lossless.

JSON lines: a header, then one run a line. Reading back what was written gives equal runs, ids
included. `write` proves it for every run before it is written, and refuses a run that holds what
JSON cannot carry (NaN, numbers beyond 64 bits, keys that are no text). Reading is strict: a line
that is not JSON by the letter, of a wrong type, or with a field that this version does not know is
quarantined. Files may be concatenated.

Parquet: the column `run` holds what such a line holds; the others repeat parts of it for DuckDB,
polars or pandas and are not read back. Needs the extra `parquet`. A file cut short has no footer
and is refused as a whole; a row that holds no run is quarantined with its number as the offset. The
sizes that a file claims are checked before it is unpacked; beyond that, pyarrow is trusted with it.
Format: the schema of `stepscope.model.Trajectory`, version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

import msgspec

from stepscope import model
from stepscope.errors import LimitError, TraceError
from stepscope.formats import files
from stepscope.formats.format import FileFormat, RecordFormat
from stepscope.formats.opening import Opening
from stepscope.formats.records import RawRecord, split_records
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.json import decode_strict, drops_keys
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line

NAME = "ours"
SCHEMA = 1

_HEADER_KEY = "stepscope"
_HEADER = {_HEADER_KEY: "trajectories", "schema": SCHEMA}
_HEADER_START = b'{"stepscope":'
_encode = msgspec.json.Encoder().encode
_UNLIMITED = Limits(depth=10_000, line_bytes=2**62, steps=2**62)

# Every field of every noun within a run: a key of this name that is not written back was a default.
_FIELDS = frozenset(
    field
    for noun in vars(model).values()
    if isinstance(noun, type) and issubclass(noun, msgspec.Struct)
    for field in noun.__struct_fields__
)


def write(trajectories: Iterable[Trajectory], file: BinaryIO) -> int:
    """Write runs as JSON lines, return how many; TraceError where one would not come back."""
    file.write(_encode(_HEADER) + b"\n")
    count = 0
    for trajectory in trajectories:
        file.write(encode_run(trajectory) + b"\n")
        count += 1
    return count


def encode_run(trajectory: Trajectory) -> bytes:
    """Return a run as one line of JSON; TraceError where it would not come back equal."""
    try:
        line = _encode(trajectory)
        same = decode_run(line, _UNLIMITED) == trajectory
    except (TraceError, TypeError, ValueError, OverflowError, RecursionError) as e:
        raise TraceError(f"run {trajectory.id!r} cannot be written as JSON: {e}") from e
    if not same:
        raise TraceError(
            f"run {trajectory.id!r} holds values that JSON cannot carry (NaN, keys that are no "
            "text, tuples where JSON has lists); turn them into text first"
        )
    return line


def decode_run(raw: bytes, limits: Limits) -> Trajectory:
    """Return the run that a line holds."""
    value, repairs = decode_strict(raw, limits=limits)
    if repairs:  # which of the two counts would be the choice of whoever added it
        raise TraceError("a duplicate key in one object, which stepscope never writes")
    try:
        trajectory = msgspec.convert(value, Trajectory)
    except (msgspec.ValidationError, RecursionError) as e:
        raise TraceError(f"no run of ours: {e}") from e
    if len(trajectory.steps) > limits.steps:
        raise LimitError(f"a run of {len(trajectory.steps)} steps; limits.steps is {limits.steps}")
    if drops_keys(raw, trajectory):
        unknown = list(_unknown_keys(value, msgspec.to_builtins(trajectory), ""))
        if unknown:
            raise TraceError(
                f"field {visible_line(unknown[0])!r} is unknown to this version, "
                f"{len(unknown)} in all; update stepscope"
            )
    return trajectory


def _unknown_keys(read: Json, kept: Json, path: str) -> Iterator[str]:
    """Yield the paths of keys that were read and are not kept, other than defaults spelt out."""
    if isinstance(read, dict) and isinstance(kept, dict):
        for key, value in read.items():
            if key in kept:
                yield from _unknown_keys(value, kept[key], f"{path}.{key}")
            elif key not in _FIELDS:
                yield f"{path}.{key}".removeprefix(".")
    elif isinstance(read, list) and isinstance(kept, (list, tuple)):
        for index, (value, twin) in enumerate(zip(read, kept, strict=True)):
            yield from _unknown_keys(value, twin, f"{path}.{index}")


def check_schema(found: Any) -> None:
    """Refuse a schema that this version cannot read."""
    if found != SCHEMA:
        raise TraceError(f"our format of schema {found!r}; this version reads {SCHEMA}")


def _likeness(opening: Opening) -> float:
    return 1.0 if opening.first(_HEADER_KEY, "schema") is not None else 0.0


def _split_runs(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield the lines that hold runs; what stands under a header of another schema is set aside."""
    schema: Any = SCHEMA
    for record in split_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        try:
            if record.raw.startswith(_HEADER_START):
                header = decode_strict(record.raw, limits=stream.limits).value
                schema = header.get("schema")
                if beside := sorted(header.keys() - _HEADER.keys()):
                    raise TraceError(f"a header with {visible_line(beside[0])!r}; update stepscope")
            check_schema(schema)
            if not record.raw.startswith(_HEADER_START):
                yield record
        except TraceError as e:
            yield Quarantined(reason=str(e), offset=record.offset, raw=record.raw, uri=stream.uri)


def _read_run(raw: object, offset: int, uri: str, limits: Limits) -> Trajectory | Quarantined:
    if not isinstance(raw, bytes):
        return Quarantined(reason="a row without a run", offset=offset, raw=b"", uri=uri)
    try:
        if len(raw) > limits.line_bytes:
            raise LimitError(f"{len(raw)} bytes; raise limits.line_bytes")
        return decode_run(raw, limits)
    except TraceError as e:
        return Quarantined(reason=str(e), offset=offset, raw=raw, uri=uri)


FORMAT = RecordFormat(
    NAME,
    _likeness,
    lambda record, uri, limits, _: (_read_run(record.raw, record.offset, uri, limits),),
    _split_runs,
)

PARQUET_NAME = "ours_parquet"

_SCHEMA_KEY = b"stepscope.schema"
# Runs in a row group as we write it: some 10 MB, so that reading needs little memory.
_GROUP_RUNS = 256
# How sure somebody else's Parquet is: less than whoever knows its columns.
_FOREIGN_SURE = 0.8
# Runs decoded at a time.
_BATCH_RUNS = 64
_TEXT_COLUMNS = ("id", "name", "workflow", "task", "trial", "agent", "agent_version")


def write_runs_parquet(trajectories: Iterable[Trajectory], file: BinaryIO) -> int:
    """Write runs as Parquet, as `write` does; ConfigError where pyarrow is not installed."""
    pa, parquet = files.pyarrow_module("pyarrow"), files.pyarrow_module("pyarrow.parquet")
    columns = {name: pa.string() for name in _TEXT_COLUMNS}
    columns |= {"outcome": pa.string(), "reward": pa.float64(), "steps": pa.int64()}
    columns |= {"calls": pa.int64(), "format": pa.string(), "run": pa.large_binary()}
    schema = pa.schema(list(columns.items()), metadata={_SCHEMA_KEY: str(SCHEMA)})
    runs, count = iter(trajectories), 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(runs, _GROUP_RUNS)):
            rows = [
                {
                    **{name: getattr(run, name) for name in _TEXT_COLUMNS},
                    "outcome": run.outcome.status,
                    "reward": run.outcome.reward,
                    "steps": len(run.steps),
                    "calls": sum(len(step.calls) for step in run.steps),
                    "format": run.source.format,
                    "run": encode_run(run),
                }
                for run in group
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _parquet_likeness(head: bytes) -> float:
    """Return how sure it is; Parquet that nobody else knows is taken, and told what it lacks."""
    if not head.startswith(files.PARQUET_MAGIC):
        return 0.0
    footer = files.parquet_footer(head)
    return _FOREIGN_SURE if footer and _SCHEMA_KEY not in footer else 1.0


def _read_parquet(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    with files.open_parquet(stream) as file:
        metadata = file.schema_arrow.metadata or {}
        if _SCHEMA_KEY not in metadata or "run" not in file.schema_arrow.names:
            raise TraceError(f"{stream.uri}: Parquet, but not written by stepscope")
        text = metadata[_SCHEMA_KEY].decode("ascii", "replace")
        check_schema(int(text) if text.isdecimal() else text)
        files.check_parquet_sizes(file, stream)
        batches = files.read_batches(file, stream, _BATCH_RUNS, ["run"])
        rows = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        for number, raw in enumerate(rows):
            yield _read_run(raw, number, stream.uri, stream.limits)


PARQUET_FORMAT = FileFormat(PARQUET_NAME, lambda _: 0.0, _read_parquet, _parquet_likeness)
