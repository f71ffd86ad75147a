"""The same rows as Parquet: a folder of runs.parquet and records.parquet, out and in.

Records are sorted by measure, and no row group holds two measures: a report over ten million rows
reads the groups of one measure at a time and keeps only the columns it needs. `run` in records is
the row of runs.parquet. Traces are not part of it; `formats.ours_parquet` writes those.

Needs pyarrow, an optional extra.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.store import reading, records
from stepscope.store.columns import ANSWERED
from stepscope.store.records import WHOLE, Row
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of one group: some tens of megabytes while it is written or read.
GROUP_ROWS = 1_000_000
_FETCH_ROWS = 50_000
RUNS, RECORDS = "runs.parquet", "records.parquet"
RUN_FIELDS = (
    "id", "name", "workflow", "task", "trial", "agent", "agent_version", "outcome", "steps",
    "calls", "tokens", "cost_usd", "seconds", "format", "start_ns", "imported_ns",
)  # fmt: skip
_TAGS = (
    "(SELECT json_group_object(key, value) FROM (SELECT key, value FROM tags"
    " WHERE tags.run = runs.seq ORDER BY key))"
)


def arrow_schemas() -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of runs and records.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as e:
        raise ConfigError("Parquet needs pyarrow: pip install 'stepscope[parquet]'") from e
    word = pa.dictionary(pa.int32(), pa.string())
    runs: dict[str, pa.DataType] = {
        **dict.fromkeys(RUN_FIELDS, pa.string()),
        **dict.fromkeys(("steps", "calls", "tokens", "start_ns", "imported_ns"), pa.int64()),
        **dict.fromkeys(("cost_usd", "seconds"), pa.float64()),
        "tags": pa.string(),  # a JSON object
    }
    records: dict[str, pa.DataType] = {
        "run": pa.int32(),
        "current": pa.bool_(),  # a report reads this row
        "trajectory": pa.string(),
        "measure": word,
        "step": pa.int32(),  # null: the whole run
        "state": pa.int8(),  # 1 answered, negative: unmeasured, see columns.kind_of
        "value": pa.float64(),
        "label": word,
        "unmeasured": word,  # the kind
        "cites": pa.list_(pa.int32()),
        "reason": pa.string(),
        "confidence": pa.float64(),
        **dict.fromkeys(("version", "family", "case", "facts", "judge", "rubric", "prompt"), word),
        "repeat": pa.int32(),
        "usage": pa.string(),  # a JSON object
        "cost_usd": pa.float64(),
        "seconds": pa.float64(),
    }
    return pa.schema(list(runs.items())), pa.schema(list(records.items()))


def records_table(db: sqlite3.Connection, where: Where | None) -> pa.Table:
    """Return the records as one table.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    _, schema = arrow_schemas()
    import pyarrow as pa

    batches = [batch for _, batch in _batches(db, where, schema)]
    return pa.Table.from_batches(batches, schema).unify_dictionaries()


def write(db: sqlite3.Connection, folder: Path, where: Where | None) -> None:
    """Write both files; each is whole when it has its name, mode 0600.

    Raises:
        ConfigError: pyarrow is not installed.
        EnvironmentFault: the folder cannot be written.
    """
    run_schema, record_schema = arrow_schemas()
    import pyarrow as pa
    import pyarrow.parquet as pq

    chosen = Where("1") if where is None else where
    # One snapshot for both files.
    db.execute("BEGIN")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        runs = db.execute(
            "SELECT " + ", ".join(RUN_FIELDS) + ", " + _TAGS + " FROM runs"
            " WHERE superseded_by IS NULL AND (" + chosen.sql + ") ORDER BY name, id",
            chosen.parameters,
        ).fetchall()
        columns = list(zip(*runs, strict=True)) or [()] * len(run_schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, run_schema, strict=True)]
        with _whole(folder / RUNS) as part:
            pq.write_table(pa.Table.from_arrays(arrays, schema=run_schema), part)
        with _whole(folder / RECORDS) as part, pq.ParquetWriter(part, record_schema) as writer:
            batches = _batches(db, where, record_schema)
            for _, group in groupby(batches, key=lambda item: item[0]):
                while rows := list(islice(group, GROUP_ROWS // _FETCH_ROWS)):
                    table = pa.Table.from_batches([batch for _, batch in rows], record_schema)
                    writer.write_table(table, row_group_size=GROUP_ROWS)
    except OSError as e:
        raise EnvironmentFault(f"{folder}: Parquet cannot be written here ({e})") from e
    finally:
        db.execute("ROLLBACK")


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a file that takes the name `path` when all went well."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _batches(
    db: sqlite3.Connection, where: Where | None, schema: pa.Schema
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records as batches of one measure each, with its name."""
    import pyarrow as pa

    runs = reading.runs(db, where)
    aligned = reading.Places(db, runs)
    places = {int(key): at for at, key in enumerate(runs.key)}
    for measure, group in groupby(records.rows(db, where, None, None), key=attrgetter("measure")):
        # The very rows that `Store.column` would read.
        current = reading.Cells.empty(len(runs))
        reading.fill(db, aligned, measure, current)
        while rows := list(islice(group, _FETCH_ROWS)):
            cells = [_cells(row, places[row.run], current) for row in rows]
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*cells, strict=True), schema, strict=True)
            ]
            yield measure, pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cells(row: Row, place: int, current: reading.Cells) -> tuple[object, ...]:
    is_current = (
        row.step == WHOLE
        and not row.repeat
        and row.question == current.question[place]
        and row.case_id == current.case[place]
    )
    return (
        place,
        bool(is_current),
        row.trajectory,
        row.measure,
        None if row.step == WHOLE else row.step,
        min(row.state, ANSWERED),
        row.value,
        row.label,
        UNMEASURED_KINDS[-1 - row.state] if row.state < 0 else None,
        msgspec.json.decode(row.cites) if row.cites else (),
        row.reason,
        row.confidence,
        row.version,
        row.family,
        row.case,
        row.facts,
        row.judge,
        row.rubric,
        row.prompt,
        row.repeat,
        row.usage,
        row.cost_usd,
        row.seconds,
    )
