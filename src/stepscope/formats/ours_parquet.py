"""Our runs as Parquet: columns to query by, and the whole run as JSON, lossless.

The column `run` holds what a line of `stepscope.formats.ours` holds; the others repeat parts of it
for DuckDB, polars or pandas and are not read back. Needs the extra `parquet`. A file is one block
of binary data: cut short, it has no footer and is refused as a whole; a row that holds no run is
quarantined with its number as the offset. The sizes that a file claims are checked before it is
unpacked; beyond that, pyarrow is trusted with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from stepscope.errors import LimitError, TraceError
from stepscope.formats.ours import SCHEMA, check_schema, line_of, run_of
from stepscope.formats.parquet_file import (
    MAGIC,
    batches,
    check_sizes,
    footer,
    opened,
    pyarrow_module,
)
from stepscope.model import Quarantined, Stream, Trajectory

NAME = "ours_parquet"

_SCHEMA_KEY = b"stepscope.schema"
# Runs in a row group as we write it: some 10 MB, so that reading needs little memory.
_GROUP_RUNS = 256
# How sure somebody else's Parquet is: less than whoever knows its columns.
_FOREIGN = 0.8
# Runs decoded at a time.
_BATCH_RUNS = 64
_TEXT_COLUMNS = ("id", "name", "workflow", "task", "trial", "agent", "agent_version")


def write(trajectories: Iterable[Trajectory], file: BinaryIO) -> int:
    """Write runs as Parquet; return how many.

    Raises:
        ConfigError: pyarrow is not installed.
        TraceError: a run would not come back equal.
    """
    pa, parquet = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.parquet")
    schema = _schema(pa)
    runs, count = iter(trajectories), 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := [_row(trajectory) for trajectory in islice(runs, _GROUP_RUNS)]:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _schema(pa: Any) -> Any:
    columns = [(name, pa.string()) for name in _TEXT_COLUMNS]
    columns += [
        ("outcome", pa.string()),
        ("reward", pa.float64()),
        ("steps", pa.int64()),
        ("calls", pa.int64()),
        ("format", pa.string()),
        ("run", pa.large_binary()),
    ]
    return pa.schema(columns, metadata={_SCHEMA_KEY: str(SCHEMA)})


def _row(trajectory: Trajectory) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(trajectory, name) for name in _TEXT_COLUMNS}
    row["outcome"] = trajectory.outcome.status
    row["reward"] = trajectory.outcome.reward
    row["steps"] = len(trajectory.steps)
    row["calls"] = sum(len(step.calls) for step in trajectory.steps)
    row["format"] = trajectory.source.format
    row["run"] = line_of(trajectory)
    return row


@dataclass(frozen=True, slots=True)
class _OursParquet:
    name: str = NAME

    def sniff(self, head: bytes) -> float:
        """Parquet that nobody else knows is taken here, so that it is told what it lacks."""
        if not head.startswith(MAGIC):
            return 0.0
        told = footer(head)
        return _FOREIGN if told and _SCHEMA_KEY not in told else 1.0

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file.

        Raises:
            TraceError: no Parquet, cut short, or not of ours.
            LimitError: a row group is larger than the limits allow.
            ConfigError: pyarrow is not installed.
        """
        with opened(stream) as file:
            _refuse_foreign(file, stream)
            check_sizes(file, stream)
            number = 0
            for batch in batches(file, stream, _BATCH_RUNS, ["run"]):
                for raw in batch.column(0).to_pylist():
                    yield _run(raw, number, stream)
                    number += 1


def _refuse_foreign(file: Any, stream: Stream) -> None:
    metadata = file.schema_arrow.metadata or {}
    if _SCHEMA_KEY not in metadata or "run" not in file.schema_arrow.names:
        raise TraceError(f"{stream.uri}: Parquet, but not written by stepscope")
    text = metadata[_SCHEMA_KEY].decode("ascii", "replace")
    check_schema(int(text) if text.isdecimal() else text)


def _run(raw: object, number: int, stream: Stream) -> Trajectory | Quarantined:
    if not isinstance(raw, bytes):
        return Quarantined(reason="a row without a run", offset=number, raw=b"", uri=stream.uri)
    try:
        if len(raw) > stream.limits.line_bytes:
            raise LimitError(f"{len(raw)} bytes; raise limits.line_bytes")
        return run_of(raw, stream.limits)
    except TraceError as e:
        return Quarantined(reason=str(e), offset=number, raw=raw, uri=stream.uri)


FORMAT = _OursParquet()
