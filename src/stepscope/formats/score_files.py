"""Files of step scores as chunks of rows: CSV with a header, or JSON lines of the same.

A CSV file is separated by commas, semicolons or tabs, told from its header, which names at least
`run`, `step` and `score`. Streaming, in bounded memory. A row is numbered as a spreadsheet does:
the header is row 1. Refused as a whole: a missing column, one that is named twice, bytes that are
no UTF-8.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from stepscope.errors import TraceError
from stepscope.formats.plain import found
from stepscope.formats.rejoined import from_start
from stepscope.formats.score_rows import (
    NEEDED,
    BadRow,
    Cells,
    Chunk,
    Ints,
    column,
    of_columns,
    of_rows,
)
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.forgiving import BOM
from stepscope.safety.text import visible_line

DELIMITERS = ",;\t"
# Rows checked at a time: columns long enough to pay, short enough to stay in a processor's cache.
CHUNK_ROWS = 4096
_BYTES = 1 << 20
_HEAD = 4096


def chunks(stream: Stream) -> Iterator[Chunk | BadRow]:
    """Yield the rows of a file in chunks, the wrong ones of each before it.

    Raises:
        TraceError: a column is missing or named twice, or the file is no text.
    """
    head = stream.file.read(_HEAD)
    whole = Stream(from_start(stream.file, head), stream.uri, stream.limits)
    start = head.removeprefix(BOM).lstrip()[:1]
    return _of_json(whole) if start in (b"{", b"[") else _of_csv(whole)


def delimiter(line: str) -> str | None:
    """Return what separates the columns of a header that names ours; None for any other line.

    >>> delimiter("run;step;score"), delimiter("a,b,c")
    (';', None)
    """
    alike = {mark: len(set(_header(line, mark)) & set(NEEDED)) for mark in DELIMITERS}
    mark = max(alike, key=lambda each: alike[each])
    return mark if alike[mark] >= len(NEEDED) - 1 else None


def _header(line: str, mark: str) -> list[str]:
    try:
        return [column(name) for name in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return []


def _of_csv(stream: Stream) -> Iterator[Chunk | BadRow]:
    lines = _lines(stream)
    first = next(lines, "").rstrip("\r\n")
    mark = delimiter(first) or ","
    names = _header(first, mark)
    _refuse(names, stream.uri)
    reader = csv.reader(lines, delimiter=mark, strict=True)
    number = 2
    try:
        while rows := list(islice(reader, CHUNK_ROWS)):
            numbers = np.arange(number, number + len(rows), dtype=np.int64)
            number += len(rows)
            chunk = _at_once(rows, names, numbers)
            if chunk is not None:
                yield chunk
            else:
                yield from _one_by_one(rows, names, int(numbers[0]))
    except csv.Error as e:
        raise TraceError(f"{stream.uri}, row {number} or later: {e}") from e


def _at_once(rows: list[list[str]], names: Sequence[str], numbers: Ints) -> Chunk | None:
    try:
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    except ValueError:  # a row has more or fewer cells than the header
        return None
    return of_columns(columns, numbers)


def _refuse(names: Sequence[str], uri: str) -> None:
    missing = [name for name in NEEDED if name not in names]
    shown = visible_line(", ".join(names))[:200]
    if missing:
        raise TraceError(
            f"{uri}, row 1: no column {', '.join(missing)}; the header has {shown!r}, expected "
            "run,step,score and what else is known"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceError(f"{uri}, row 1: column {twice[0]!r} is named twice; rename one")


def _one_by_one(
    rows: Sequence[Sequence[str]], names: Sequence[str], first: int
) -> Iterator[Chunk | BadRow]:
    whole: list[tuple[int, Cells, str]] = []
    for number, row in enumerate(rows, first):
        if not row:
            continue
        raw = ",".join(row)
        if len(row) != len(names):
            yield BadRow(number, f"{len(row)} cells; the header has {len(names)} columns", raw)
        else:
            whole.append((number, dict(zip(names, row, strict=True)), raw))
    yield from of_rows(whole, names)


def _lines(stream: Stream) -> Iterator[str]:
    """Yield the lines of a file, told apart by line feeds only.

    Raises:
        TraceError: a line is over the limit, or no UTF-8.
    """
    held = stream.file.read(_BYTES).removeprefix(BOM)
    try:
        while True:
            whole, newline, held = held.rpartition(b"\n")
            # Unlike `splitlines`, this ends a line at a line feed and nowhere else.
            yield from io.StringIO((whole + newline).decode(), newline="\n")
            if len(held) > stream.limits.line_bytes:
                raise TraceError(
                    f"{stream.uri}: a row of over {stream.limits.line_bytes:,} bytes; raise "
                    "limits.line_bytes"
                )
            more = stream.file.read(_BYTES)
            if not more:
                break
            held += more
        if held:
            yield held.decode()
    except UnicodeDecodeError as e:
        raise TraceError(f"{stream.uri}: no text in UTF-8 ({e.reason})") from e


def _of_json(stream: Stream) -> Iterator[Chunk | BadRow]:
    rows: list[tuple[int, Cells, str]] = []
    for number, record in enumerate(found(stream), 1):
        if isinstance(record, Quarantined):
            yield BadRow(number, record.reason, record.raw.decode(errors="backslashreplace"))
            continue
        raw = record.raw.decode(errors="backslashreplace")
        cells = _cells(record.value)
        if isinstance(cells, str):
            yield BadRow(number, cells, raw)
        else:
            rows.append((number, cells, raw))
        if len(rows) >= CHUNK_ROWS:
            yield from _of_dicts(rows)
            rows = []
    yield from _of_dicts(rows)


def _of_dicts(rows: list[tuple[int, Cells, str]]) -> Iterator[Chunk | BadRow]:
    names = list(dict.fromkeys(name for _, cells, _ in rows for name in cells))
    # A row without a repeat is the first scoring, whatever other rows say.
    filled: list[tuple[int, Cells, str]] = []
    for number, cells, raw in rows:
        whole = {name: cells.get(name) for name in names}
        if "repeat" in names and whole["repeat"] is None:
            whole["repeat"] = 0
        filled.append((number, whole, raw))
    yield from of_rows(filled, names)


def _cells(value: Json) -> Cells | str:
    """Return an object of JSON as the cells of a row, or what is wrong with it."""
    if not isinstance(value, dict):
        return f"{str(value)[:60]!r}; expected an object with run, step and score"
    cells: dict[str, str | float | int | None] = {}
    for key, item in value.items():
        name = column(str(key))
        if name in cells:
            return f"two keys mean {name!r}"
        cells[name] = item if item is None or type(item) in (str, int, float) else _text(item)
    missing = [name for name in NEEDED if name not in cells]
    if missing:
        return f"no {', '.join(missing)}; expected run, step and score"
    return cells


def _text(item: Json) -> str:
    return msgspec.json.encode(item).decode()
