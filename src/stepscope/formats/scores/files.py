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
from stepscope.formats.files import rewind
from stepscope.formats.format import decode_records
from stepscope.formats.records import CHUNK_ROWS, read_line_blocks
from stepscope.formats.scores.rows import (
    INDEX_LIMIT,
    NEEDED_COLUMNS,
    BadRow,
    Cells,
    Ints,
    ScoreRows,
    column_name,
    rows_from_cells,
    rows_from_columns,
)
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.json import BOM
from stepscope.safety.text import visible_line

# Enough to see a first line of usual length.
_JSON_HEAD_BYTES = 4096


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


def read_json_rows(stream: Stream) -> Iterator[ScoreRows | BadRow]:
    """Yield the rows of a file in chunks, the wrong ones of each before it.

    Raises:
        TraceError: a line is over the limit.
    """
    head = stream.file.read(_JSON_HEAD_BYTES)
    whole = Stream(rewind(stream.file, head), stream.uri, stream.limits)
    first = head.removeprefix(BOM).lstrip().partition(b"\n")[0]
    if _parse_plain_lines(first + b"\n", np.ones(1, np.int64)) is None:
        yield from _read_json_records(whole, 1)
        return
    number = 1
    for block in read_line_blocks(whole):
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        chunk = _parse_plain_lines(block, np.arange(number, number + lines, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            yield from _read_json_records(
                Stream(io.BytesIO(block), stream.uri, stream.limits), number
            )
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


def _read_json_records(stream: Stream, number: int) -> Iterator[ScoreRows | BadRow]:
    """Yield records of JSON looked at one by one, numbered from `number`."""
    rows: list[tuple[int, Cells, str]] = []
    for at, record in enumerate(decode_records(stream), number):
        if isinstance(record, Quarantined):
            yield BadRow(at, record.reason, record.raw.decode(errors="backslashreplace"))
            continue
        raw = record.raw.decode(errors="backslashreplace")
        cells = _object_cells(record.value)
        if isinstance(cells, str):
            yield BadRow(at, cells, raw)
        else:
            rows.append((at, cells, raw))
        if len(rows) >= CHUNK_ROWS:
            yield from _check_dicts(rows)
            rows = []
    yield from _check_dicts(rows)


def _check_dicts(rows: list[tuple[int, Cells, str]]) -> Iterator[ScoreRows | BadRow]:
    names = list(dict.fromkeys(name for _, cells, _ in rows for name in cells))
    # A row without a repeat is the first scoring, whatever other rows say.
    filled: list[tuple[int, Cells, str]] = []
    for number, cells, raw in rows:
        whole = {name: cells.get(name) for name in names}
        if "repeat" in names and whole["repeat"] is None:
            whole["repeat"] = 0
        filled.append((number, whole, raw))
    yield from rows_from_cells(filled, names)


def _object_cells(value: Json) -> Cells | str:
    """Return an object of JSON as the cells of a row, or what is wrong with it."""
    if not isinstance(value, dict):
        return f"{str(value)[:60]!r}; expected an object with run, step and score"
    cells: dict[str, str | float | int | None] = {}
    for key, item in value.items():
        name = column_name(str(key))
        if name in cells:
            return f"two keys mean {name!r}"
        cells[name] = (
            item if item is None or type(item) in (str, int, float) else _encode_cell(item)
        )
    missing = [name for name in NEEDED_COLUMNS if name not in cells]
    if missing:
        return f"no {', '.join(missing)}; expected run, step and score"
    return cells


def _encode_cell(item: Json) -> str:
    return msgspec.json.encode(item).decode()


DELIMITERS = ",;\t"
_NEWLINE = 0x0A
_HEAD_BYTES = 4096


def read_score_rows(stream: Stream) -> Iterator[ScoreRows | BadRow]:
    """Yield the rows of a file in chunks, the wrong ones of each before it.

    Raises:
        TraceError: a column is missing or named twice, or the file is no text.
    """
    head = stream.file.read(_HEAD_BYTES)
    whole = Stream(rewind(stream.file, head), stream.uri, stream.limits)
    start = head.removeprefix(BOM).lstrip()[:1]
    return read_json_rows(whole) if start in (b"{", b"[") else _read_csv(whole)


def find_delimiter(line: str) -> str | None:
    """Return what separates the columns of a header that names ours; None for any other line.

    >>> find_delimiter("run;step;score"), find_delimiter("a,b,c")
    (';', None)
    """
    alike = {
        mark: len(set(_header_columns(line, mark)) & set(NEEDED_COLUMNS)) for mark in DELIMITERS
    }
    mark = max(alike, key=lambda each: alike[each])
    return mark if alike[mark] >= len(NEEDED_COLUMNS) - 1 else None


def _header_columns(line: str, mark: str) -> list[str]:
    try:
        return [column_name(name) for name in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return []


def _read_csv(stream: Stream) -> Iterator[ScoreRows | BadRow]:
    read = read_line_blocks(stream)
    first, newline, rest = next(read, b"").partition(b"\n")
    line = _decode_block(first, stream).rstrip("\r")
    mark = find_delimiter(line) or ","
    names = _header_columns(line, mark)
    _check_header(names, stream.uri)
    number = 2
    for block in chain([rest] if newline and rest else [], read):
        if b'"' in block:
            # A cell in quotes may hold anything, also the end of a line: no block is safe then.
            yield from _read_quoted(stream, chain([block], read), names, mark, number)
            return
        text = _decode_block(block, stream).replace("\r\n", "\n").removesuffix("\n")
        rows = text.count("\n") + 1
        chunk = _parse_block(text, names, mark, np.arange(number, number + rows, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            lines = [line.split(mark) if line else [] for line in text.split("\n")]
            yield from _check_lines(lines, names, number)
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
    stream: Stream, read: Iterator[bytes], names: Sequence[str], mark: str, number: int
) -> Iterator[ScoreRows | BadRow]:
    """Yield the rows of a file from its first quoted cell on."""
    # Unlike `splitlines`, StringIO ends a line at a line feed and nowhere else.
    lines = (
        line for block in read for line in io.StringIO(_decode_block(block, stream), newline="\n")
    )
    reader = csv.reader(lines, delimiter=mark, strict=True)
    try:
        while rows := list(islice(reader, CHUNK_ROWS)):
            chunk = None
            if all(len(row) == len(names) for row in rows):
                columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                chunk = rows_from_columns(
                    columns, np.arange(number, number + len(rows), dtype=np.int64)
                )
            yield from [chunk] if chunk is not None else _check_lines(rows, names, number)
            number += len(rows)
    except csv.Error as e:
        raise TraceError(f"{stream.uri}, row {number} or later: {e}") from e


def _check_header(names: Sequence[str], uri: str) -> None:
    missing = [name for name in NEEDED_COLUMNS if name not in names]
    shown = visible_line(", ".join(names))[:200]
    if missing:
        raise TraceError(
            f"{uri}, row 1: no column {', '.join(missing)}; the header has {shown!r}, expected "
            "run,step,score and what else is known"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceError(f"{uri}, row 1: column {twice[0]!r} is named twice; rename one")


def _check_lines(
    rows: Sequence[Sequence[str]], names: Sequence[str], first: int
) -> Iterator[ScoreRows | BadRow]:
    whole: list[tuple[int, Cells, str]] = []
    for number, row in enumerate(rows, first):
        if not row:
            continue
        raw = ",".join(row)
        if len(row) != len(names):
            yield BadRow(number, f"{len(row)} cells; the header has {len(names)} columns", raw)
        else:
            whole.append((number, dict(zip(names, row, strict=True)), raw))
    yield from rows_from_cells(whole, names)


def _decode_block(block: bytes, stream: Stream) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as e:
        raise TraceError(f"{stream.uri}: no text in UTF-8 ({e.reason})") from e
