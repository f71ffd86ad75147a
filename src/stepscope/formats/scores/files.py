"""Files of step scores as chunks of rows: CSV with a header, or JSON lines of the same.

A CSV file is separated by commas, semicolons or tabs, told from its header, which names at least
`run`, `step` and `score`; a row is numbered as a spreadsheet does: the header is row 1. A row of
JSON is an object with run, step and score; the first is row 1. Streaming, in bounded memory.
Refused as a whole: a missing column, one that is named twice, bytes that are no UTF-8.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec
import numpy as np

from stepscope.errors import TraceError
from stepscope.formats import records
from stepscope.formats.files import rewind
from stepscope.formats.format import decode_records
from stepscope.formats.scores.rows import (
    INDEX_LIMIT,
    NEEDED_COLUMNS,
    Cells,
    Ints,
    ScoreRows,
    column_name,
    quarantine_row,
    rows_from_cells,
    rows_from_columns,
)
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.json import BOM
from stepscope.safety.text import visible_line

# Enough to see a first line of usual length.
_HEAD_BYTES = 4096


class _JsonRow(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of JSON with nothing out of the ordinary."""

    run: str
    step: int
    score: float | None
    repeat: int | None = None
    judge: str | None = None
    latency: float | None = None
    cost: float | None = None


_json_rows = msgspec.json.Decoder(_JsonRow)


def _read_json(stream: Stream, first: bytes) -> Iterator[ScoreRows | Quarantined]:
    """Yield the rows of a file of JSON that begins with the line `first`."""
    if _parse_plain_lines(first + b"\n", np.ones(1, np.int64)) is None:
        yield from _read_json_records(stream, 1)
        return
    number = 1
    for block in records.read_line_blocks(stream):
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        chunk = _parse_plain_lines(block, np.arange(number, number + lines, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            part = Stream(io.BytesIO(block), stream.uri, stream.limits)
            yield from _read_json_records(part, number)
        number += lines


def _parse_plain_lines(block: bytes, numbers: Ints) -> ScoreRows | None:
    """Return JSON lines with nothing out of the ordinary as columns; None for any other."""
    try:
        rows = _json_rows.decode_lines(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(rows) != len(numbers):
        return None
    repeats = [row.repeat for row in rows]
    latency, cost = [row.latency for row in rows], [row.cost for row in rows]
    score = np.array([math.nan if row.score is None else row.score for row in rows], np.float64)
    if not all(row.run and 0 <= row.step < INDEX_LIMIT for row in rows):
        return None
    if any(repeat is not None and not 0 <= repeat < INDEX_LIMIT for repeat in repeats):
        return None
    told = {
        name: np.array([math.nan if cell is None else cell for cell in cells], np.float64)
        for name, cells in (("latency", latency), ("cost", cost))
        if any(cell is not None for cell in cells)
    }
    if ((score < 0) | (score > 1)).any() or any((cells < 0).any() for cells in told.values()):
        return None
    judges = [row.judge or "" for row in rows]
    return ScoreRows(
        row=numbers,
        run=[row.run for row in rows],
        step=np.array([row.step for row in rows], np.int64),
        score=score,
        repeat=np.array([r or 0 for r in repeats], np.int64) if any(
            r is not None for r in repeats) else None,
        numbers=told,
        texts={"judge": judges} if any(judges) else {},
    )  # fmt: skip


def _read_json_records(stream: Stream, number: int) -> Iterator[ScoreRows | Quarantined]:
    """Yield records of JSON looked at one by one, numbered from `number`."""
    rows: list[tuple[int, Cells, str]] = []
    for at, record in enumerate(decode_records(stream), number):
        if isinstance(record, Quarantined):
            raw = record.raw.decode(errors="backslashreplace")
            yield quarantine_row(at, record.reason, raw, stream.uri)
            continue
        raw = record.raw.decode(errors="backslashreplace")
        cells = _object_cells(record.value)
        if isinstance(cells, str):
            yield quarantine_row(at, cells, raw, stream.uri)
        else:
            rows.append((at, cells, raw))
        if len(rows) >= records.CHUNK_ROWS:
            yield from _check_dicts(rows, stream.uri)
            rows = []
    yield from _check_dicts(rows, stream.uri)


def _check_dicts(rows: list[tuple[int, Cells, str]], uri: str) -> Iterator[ScoreRows | Quarantined]:
    names = list(dict.fromkeys(name for _, cells, _ in rows for name in cells))
    # A row without a repeat is the first scoring, whatever other rows say.
    filled: list[tuple[int, Cells, str]] = []
    for number, cells, raw in rows:
        whole = {name: cells.get(name) for name in names}
        if "repeat" in names and whole["repeat"] is None:
            whole["repeat"] = 0
        filled.append((number, whole, raw))
    yield from rows_from_cells(filled, names, uri)


def _object_cells(value: Json) -> Cells | str:
    """Return an object of JSON as the cells of a row, or what is wrong with it."""
    if not isinstance(value, dict):
        return f"{str(value)[:60]!r}; expected an object with run, step and score"
    cells: dict[str, str | float | int | None] = {}
    for key, item in value.items():
        name = column_name(str(key))
        if name in cells:
            return f"two keys mean {name!r}"
        plain = item is None or type(item) in (str, int, float)
        cells[name] = item if plain else msgspec.json.encode(item).decode()
    missing = [name for name in NEEDED_COLUMNS if name not in cells]
    if missing:
        return f"no {', '.join(missing)}; expected run, step and score"
    return cells


DELIMITERS = ",;\t"
_NEWLINE = 0x0A


def read_score_rows(stream: Stream) -> Iterator[ScoreRows | Quarantined]:
    """Yield the rows of a file in chunks, the wrong ones of each before it."""
    head = stream.file.read(_HEAD_BYTES)
    whole = Stream(rewind(stream.file, head), stream.uri, stream.limits)
    first = head.removeprefix(BOM).lstrip().partition(b"\n")[0]
    return _read_json(whole, first) if records.is_json(head) else _read_csv(whole)


def find_delimiter(line: str) -> str | None:
    """Return what separates the columns of a header that names ours; None for any other line.

    >>> find_delimiter("run;step;score"), find_delimiter("a,b,c")
    (';', None)
    """
    needed = set(NEEDED_COLUMNS)
    alike = {mark: len(needed & set(_header_columns(line, mark))) for mark in DELIMITERS}
    mark = max(alike, key=lambda each: alike[each])
    return mark if alike[mark] >= len(NEEDED_COLUMNS) - 1 else None


def _header_columns(line: str, mark: str) -> list[str]:
    try:
        return [column_name(name) for name in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return []


def _read_csv(stream: Stream) -> Iterator[ScoreRows | Quarantined]:
    read = records.read_text_blocks(stream)
    first, newline, rest = next(read, "").partition("\n")
    line = first.rstrip("\r")
    mark = find_delimiter(line) or ","
    names = _header_columns(line, mark)
    missing = [name for name in NEEDED_COLUMNS if name not in names]
    shown = visible_line(", ".join(names))[:200]
    if missing:
        raise TraceError(
            f"{stream.uri}, row 1: no column {', '.join(missing)}; the header has {shown!r}, "
            "expected run,step,score and what else is known"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceError(f"{stream.uri}, row 1: column {twice[0]!r} is named twice; rename one")
    number = 2
    for block in chain([rest] if newline and rest else [], read):
        if '"' in block:
            # A cell in quotes may hold anything, also the end of a line: no block is safe then.
            yield from _read_quoted(
                stream, records.read_csv(chain([block], read), mark), names, number
            )
            return
        text = block.replace("\r\n", "\n").removesuffix("\n")
        rows = text.count("\n") + 1
        chunk = _parse_block(text, names, mark, np.arange(number, number + rows, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            lines = [line.split(mark) if line else [] for line in text.split("\n")]
            yield from _check_lines(lines, names, number, stream.uri)
        number += rows


def _parse_block(text: str, names: Sequence[str], mark: str, numbers: Ints) -> ScoreRows | None:
    """Return lines without quotes as columns; None where one has too many cells, or a wrong one."""
    raw = np.frombuffer(text.encode(), np.uint8)
    ends = raw[(raw == ord(mark)) | (raw == _NEWLINE)] == _NEWLINE
    width = len(names)
    # Every so-and-so-many cells, and nowhere else, a line must end; the last has no end here.
    if (len(ends) + 1) % width or ends[width - 1 :: width].sum() != ends.sum():
        return None
    if len(ends) + 1 != width * len(numbers):
        return None
    cells = text.replace("\n", mark).split(mark)
    return rows_from_columns({name: cells[at::width] for at, name in enumerate(names)}, numbers)


def _read_quoted(
    stream: Stream, reader: Iterator[list[str]], names: Sequence[str], number: int
) -> Iterator[ScoreRows | Quarantined]:
    """Yield the rows of a file from its first quoted cell on."""
    try:
        while rows := list(islice(reader, records.CHUNK_ROWS)):
            chunk = None
            if all(len(row) == len(names) for row in rows):
                columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                numbers = np.arange(number, number + len(rows), dtype=np.int64)
                chunk = rows_from_columns(columns, numbers)
            yield from (
                [chunk] if chunk is not None else _check_lines(rows, names, number, stream.uri)
            )
            number += len(rows)
    except csv.Error as e:
        raise TraceError(f"{stream.uri}, row {number} or later: {e}") from e


def _check_lines(
    rows: Sequence[Sequence[str]], names: Sequence[str], first: int, uri: str
) -> Iterator[ScoreRows | Quarantined]:
    whole: list[tuple[int, Cells, str]] = []
    for number, row in enumerate(rows, first):
        if not row:
            continue
        raw = ",".join(row)
        if len(row) != len(names):
            reason = f"{len(row)} cells; the header has {len(names)} columns"
            yield quarantine_row(number, reason, raw, uri)
        else:
            whole.append((number, dict(zip(names, row, strict=True)), raw))
    yield from rows_from_cells(whole, names, uri)
