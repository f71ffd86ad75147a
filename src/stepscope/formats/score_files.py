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
from itertools import chain, islice

import numpy as np

from stepscope.errors import TraceError
from stepscope.formats.rejoined import from_start
from stepscope.formats.score_blocks import CHUNK_ROWS, blocks
from stepscope.formats.score_json import of_json
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
from stepscope.model import Stream
from stepscope.safety.forgiving import BOM
from stepscope.safety.text import visible_line

DELIMITERS = ",;\t"
_NEWLINE = 0x0A
_HEAD = 4096


def chunks(stream: Stream) -> Iterator[Chunk | BadRow]:
    """Yield the rows of a file in chunks, the wrong ones of each before it.

    Raises:
        TraceError: a column is missing or named twice, or the file is no text.
    """
    head = stream.file.read(_HEAD)
    whole = Stream(from_start(stream.file, head), stream.uri, stream.limits)
    start = head.removeprefix(BOM).lstrip()[:1]
    return of_json(whole) if start in (b"{", b"[") else _of_csv(whole)


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
    read = blocks(stream)
    first, newline, rest = next(read, b"").partition(b"\n")
    line = _text(first, stream).rstrip("\r")
    mark = delimiter(line) or ","
    names = _header(line, mark)
    _refuse(names, stream.uri)
    number = 2
    for block in chain([rest] if newline and rest else [], read):
        if b'"' in block:
            # A cell in quotes may hold anything, also the end of a line: no block is safe then.
            yield from _quoted(stream, chain([block], read), names, mark, number)
            return
        text = _text(block, stream).replace("\r\n", "\n").removesuffix("\n")
        rows = text.count("\n") + 1
        chunk = _at_once(text, names, mark, np.arange(number, number + rows, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            lines = [line.split(mark) if line else [] for line in text.split("\n")]
            yield from _one_by_one(lines, names, number)
        number += rows


def _at_once(text: str, names: Sequence[str], mark: str, numbers: Ints) -> Chunk | None:
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
    return of_columns({name: cells[at::width] for at, name in enumerate(names)}, numbers)


def _quoted(
    stream: Stream, read: Iterator[bytes], names: Sequence[str], mark: str, number: int
) -> Iterator[Chunk | BadRow]:
    """Yield the rows of a file from its first quoted cell on."""
    # Unlike `splitlines`, StringIO ends a line at a line feed and nowhere else.
    lines = (line for block in read for line in io.StringIO(_text(block, stream), newline="\n"))
    reader = csv.reader(lines, delimiter=mark, strict=True)
    try:
        while rows := list(islice(reader, CHUNK_ROWS)):
            chunk = None
            if all(len(row) == len(names) for row in rows):
                columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                chunk = of_columns(columns, np.arange(number, number + len(rows), dtype=np.int64))
            yield from [chunk] if chunk is not None else _one_by_one(rows, names, number)
            number += len(rows)
    except csv.Error as e:
        raise TraceError(f"{stream.uri}, row {number} or later: {e}") from e


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


def _text(block: bytes, stream: Stream) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as e:
        raise TraceError(f"{stream.uri}: no text in UTF-8 ({e.reason})") from e
