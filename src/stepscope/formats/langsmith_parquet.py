"""Read LangSmith's bulk exports: Parquet, one run of a trace a row, with the fields of its API.

Fields that hold objects may be written as JSON text; they are decoded through the door, and stay
text where they are none. Spans of one trace that an export wrote to several files are one run a
file: give the export days that hold whole traces. Needs the extra `parquet`.
Source: LangSmith documentation, Bulk export and Run data format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.langsmith import out
from stepscope.formats.langsmith_run import Runs
from stepscope.formats.parquet_file import batches, check_sizes, footer, opened, pyarrow_module
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory
from stepscope.safety.door import Repair, decode
from stepscope.safety.limits import Limits

NAME = "langsmith_parquet"
# Columns that no other table is likely to have together.
_COLUMNS = (b"run_type", b"trace_id", b"dotted_order", b"inputs")
_NEEDED = frozenset({"id", "run_type"})
# Fields that are objects or lists, and may be written as JSON text.
_OBJECTS = frozenset(
    "inputs outputs extra metadata events feedback_stats tags serialized manifest attachments "
    "child_run_ids parent_run_ids prompt_token_details completion_token_details "
    "prompt_cost_details completion_cost_details".split()
)
# Rows decoded at a time; a row may hold whole conversations.
_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class _LangSmithParquet:
    name: str = NAME

    def sniff(self, head: bytes) -> float:
        """Sure of Parquet whose footer names the columns of a run."""
        told = footer(head)
        return 1.0 if all(name in told for name in _COLUMNS) else 0.0

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file.

        Raises:
            TraceError: no Parquet, cut short, or without the columns of a run.
            LimitError: a row group is larger than the limits allow.
            ConfigError: pyarrow is not installed.
        """
        runs, repairs = Runs(), list[Repair]()
        with opened(stream) as file:
            names = set(file.schema_arrow.names)
            if not names >= _NEEDED:
                raise TraceError(f"{stream.uri}: Parquet without the columns `id` and `run_type`")
            check_sizes(file, stream)
            number = 0
            for batch in batches(file, stream, _BATCH_ROWS):
                for row in _plain(batch):
                    yield from _add(runs, row, number, stream, repairs)
                    number += 1
        source = Source(format=NAME, uri=stream.uri, offset=0)
        yield from out(runs, source=source, limits=stream.limits, repairs=tuple(repairs))


def _plain(batch: Any) -> list[dict[str, Any]]:
    """Return rows without what JSON cannot say; `batch`: a `pyarrow.RecordBatch`.

    Times become text in pyarrow, which keeps nanoseconds.
    """
    pa = pyarrow_module("pyarrow")
    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return [dict(row) for row in rows]


def _add(
    runs: Runs, row: dict[str, Any], number: int, stream: Stream, repairs: list[Repair]
) -> Iterator[Quarantined]:
    record: dict[str, Json] = {}
    try:
        record = {key: _json(held) for key, held in row.items() if held is not None}
        for key in _OBJECTS & record.keys():
            record[key] = _decoded(record[key], stream.limits, repairs)
        runs.add(record)
    except TraceError as e:
        raw = msgspec.json.encode(record)
        yield Quarantined(reason=str(e), offset=number, raw=raw, uri=stream.uri)


def _json(held: object) -> Json:
    return held if isinstance(held, str) else msgspec.to_builtins(held, enc_hook=str)


def _decoded(held: Json, limits: Limits, repairs: list[Repair]) -> Json:
    if not isinstance(held, str) or held[:1] not in {"{", "["}:
        return held
    try:
        value, repaired = decode(held.encode(), limits=limits)
    except (TraceError, UnicodeEncodeError):
        return held
    repairs.extend(repaired)
    return value


FORMAT = _LangSmithParquet()
