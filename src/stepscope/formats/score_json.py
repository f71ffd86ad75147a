"""Step scores as JSON lines (or a JSON array): an object with run, step and score a row.

Lines with nothing out of the ordinary are decoded together; a block with any other line is looked
at record by record. A row is numbered as a line, the first is row 1.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import msgspec
import numpy as np

from stepscope.formats.plain import found
from stepscope.formats.rejoined import from_start
from stepscope.formats.score_blocks import CHUNK_ROWS, blocks
from stepscope.formats.score_rows import (
    HIGHEST,
    NEEDED,
    BadRow,
    Cells,
    Chunk,
    Ints,
    column,
    of_rows,
)
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.forgiving import BOM

# Enough to see a first line of usual length.
_HEAD = 4096


class _JsonRow(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of JSON with nothing out of the ordinary."""

    run: str
    step: int
    score: float | None
    repeat: int | None = None
    judge: str | None = None
    latency: float | None = None
    cost: float | None = None


_PLAIN = msgspec.json.Decoder(_JsonRow)


def of_json(stream: Stream) -> Iterator[Chunk | BadRow]:
    """Yield the rows of a file in chunks, the wrong ones of each before it.

    Raises:
        TraceError: a line is over the limit.
    """
    head = stream.file.read(_HEAD)
    whole = Stream(from_start(stream.file, head), stream.uri, stream.limits)
    first = head.removeprefix(BOM).lstrip().partition(b"\n")[0]
    if _plain(first + b"\n", np.ones(1, np.int64)) is None:
        yield from _of_records(whole, 1)
        return
    number = 1
    for block in blocks(whole):
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        chunk = _plain(block, np.arange(number, number + lines, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            yield from _of_records(Stream(io.BytesIO(block), stream.uri, stream.limits), number)
        number += lines


def _plain(block: bytes, numbers: Ints) -> Chunk | None:
    """Return JSON lines with nothing out of the ordinary as columns; None for any other."""
    try:
        rows = _PLAIN.decode_lines(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(rows) != len(numbers):
        return None
    repeats = [row.repeat for row in rows]
    latency, cost = [row.latency for row in rows], [row.cost for row in rows]
    score = np.array([math.nan if row.score is None else row.score for row in rows], np.float64)
    if not all(row.run and 0 <= row.step < HIGHEST for row in rows):
        return None
    if any(repeat is not None and not 0 <= repeat < HIGHEST for repeat in repeats):
        return None
    told = {
        name: np.array([math.nan if cell is None else cell for cell in cells], np.float64)
        for name, cells in (("latency", latency), ("cost", cost))
        if any(cell is not None for cell in cells)
    }
    if ((score < 0) | (score > 1)).any() or any((cells < 0).any() for cells in told.values()):
        return None
    judges = [row.judge or "" for row in rows]
    return Chunk(
        row=numbers,
        run=[row.run for row in rows],
        step=np.array([row.step for row in rows], np.int64),
        score=score,
        repeat=np.array([r or 0 for r in repeats], np.int64) if any(
            r is not None for r in repeats) else None,
        numbers=told,
        texts={"judge": judges} if any(judges) else {},
    )  # fmt: skip


def _of_records(stream: Stream, number: int) -> Iterator[Chunk | BadRow]:
    """Yield records of JSON looked at one by one, numbered from `number`."""
    rows: list[tuple[int, Cells, str]] = []
    for at, record in enumerate(found(stream), number):
        if isinstance(record, Quarantined):
            yield BadRow(at, record.reason, record.raw.decode(errors="backslashreplace"))
            continue
        raw = record.raw.decode(errors="backslashreplace")
        cells = _cells(record.value)
        if isinstance(cells, str):
            yield BadRow(at, cells, raw)
        else:
            rows.append((at, cells, raw))
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
        cells[name] = item if item is None or type(item) in (str, int, float) else _written(item)
    missing = [name for name in NEEDED if name not in cells]
    if missing:
        return f"no {', '.join(missing)}; expected run, step and score"
    return cells


def _written(item: Json) -> str:
    return msgspec.json.encode(item).decode()
