"""Rows of other people's verdicts: CSV with a header, JSON lines or a JSON array, Parquet.

A row is a table of cells by column; what they mean is said by whoever imports them. A row that
cannot be read is quarantined alone, with its number (CSV, Parquet; the header is row 1) or the byte
that it begins at (JSON). Refused as a whole: bytes that are no UTF-8, a column named twice.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import files
from stepscope.formats.format import decode_records, quarantine_record
from stepscope.formats.records import CHUNK_ROWS, is_json, read_csv, read_text_blocks
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.text import visible_line

DELIMITERS = ",;\t"
_HEAD = 4096


class VerdictFileRow(NamedTuple):
    """A row: where it stands, its cells by column, its text, and whether all rows have these."""

    place: int
    cells: Mapping[str, Json]
    raw: bytes
    tabular: bool


def read_verdict_rows(stream: Stream) -> Iterator[VerdictFileRow | Quarantined]:
    """Yield the rows of a file.

    Raises:
        TraceError: the file is no text, or a column is named twice.
        ConfigError: it is Parquet and pyarrow is not installed.
    """
    head = stream.file.read(_HEAD)
    if head.startswith(files.PARQUET_MAGIC) and stream.file.seekable():
        stream.file.seek(0)
        number = 1
        with files.open_parquet(stream) as file:
            files.check_parquet_sizes(file, stream)
            for batch in files.read_batches(file, stream, CHUNK_ROWS):
                for cells in batch.to_pylist():
                    number += 1
                    raw = msgspec.json.encode(cells, enc_hook=str)
                    yield VerdictFileRow(number, cells, raw, tabular=True)
        return
    whole = Stream(files.rewind(stream.file, head), stream.uri, stream.limits)
    yield from _read_json_rows(whole) if is_json(head) else _read_csv_rows(whole)


def _read_json_rows(stream: Stream) -> Iterator[VerdictFileRow | Quarantined]:
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
        elif isinstance(record.value, dict):
            yield VerdictFileRow(record.offset, record.value, record.raw, tabular=False)
        else:
            yield quarantine_record(record, "a row is no JSON object of columns")


def _read_csv_rows(stream: Stream) -> Iterator[VerdictFileRow | Quarantined]:
    blocks = read_text_blocks(stream)
    first, _, rest = next(blocks, "").partition("\n")
    mark = max(DELIMITERS, key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceError(f"{stream.uri}, row 1: column {twice[0]!r} is named twice; rename one")
    reader = read_csv(chain([rest], blocks), mark)
    number = 1
    try:
        for row in reader:
            number += 1
            if not row:
                continue
            raw = mark.join(row).encode()
            if len(row) == len(names):
                yield VerdictFileRow(number, dict(zip(names, row, strict=True)), raw, tabular=True)
            else:
                reason = f"row {number}: {len(row)} cells; the header has {len(names)} columns"
                yield Quarantined(reason=reason, offset=number, raw=raw, uri=stream.uri)
    except csv.Error as e:
        where = visible_line(stream.uri)
        raise TraceError(f"{where}, row {number + 1} or later: {e}") from e
