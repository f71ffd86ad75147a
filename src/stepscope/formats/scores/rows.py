"""Rows of step scores, out of CSV with a header or JSON lines of the same, checked and in columns.

A CSV file is separated by commas, semicolons or tabs, told from its header, which names at least
`run`, `step` and `score`; a row is numbered as a spreadsheet does: the header is row 1. A row of
JSON is an object with run, step and score; the first is row 1. Streaming, in bounded memory.
Columns are checked thousands of rows at a time; where one row of a chunk is wrong, the chunk is
read row by row, so that the wrong row can be named. An empty score is a step that nobody scored; a
column with an unknown name is a remark on the score.
Refused as a whole: a missing column, one that is named twice, bytes that are no UTF-8. Refused,
each row alone: text where a number belongs, NaN, a score outside 0 to 1, a step that is no index, a
weight other than 1, 2 and 3.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import TraceError
from stepscope.formats import records
from stepscope.formats.files import rewind
from stepscope.formats.format import decode_records
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.json import BOM
from stepscope.safety.text import visible_line
from stepscope.shape.weights import SCALE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEEDED_COLUMNS = ("run", "step", "score")
NUMBER_COLUMNS = ("latency", "cost", "weight")
TEXT_COLUMNS = ("judge", "workflow", "task", "trial", "agent", "reason")
_TYPED_COLUMNS = frozenset({*NEEDED_COLUMNS, "repeat", *NUMBER_COLUMNS})
KNOWN_COLUMNS = _TYPED_COLUMNS.union(TEXT_COLUMNS)
# Units in a header are welcome.
COLUMN_ALIASES = {"latency_s": "latency", "cost_usd": "cost"}

_DIGITS = frozenset("0123456789")
_NUMBER_LETTERS = frozenset("0123456789.eE+-")
_NUMBER_BYTES = b"0123456789.eE+-"
# A message quotes no more than this of a cell.
_QUOTE_LENGTH = 40
# Indexes that fit every array they are put into.
INDEX_LIMIT = 2**31

Cells = Mapping[str, str | float | int | None]


def quarantine_row(row: int, reason: str, raw: str, uri: str) -> Quarantined:
    """Return a wrong row as it is set aside; its place is the number of the row."""
    return Quarantined(reason=f"row {row}: {reason}", offset=row, raw=raw.encode(), uri=uri)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreRows:
    """Good rows in the order of the file."""

    row: Ints  # number of each row in the file; the header of a CSV file is row 1
    run: list[str]  # the run's name or id
    step: Ints  # index of the step
    score: Floats  # 0 to 1; NaN where nobody scored
    repeat: Ints | None  # which scoring of the step this is; None without such a column
    numbers: dict[str, Floats]  # latency in seconds, cost in USD, weight; NaN where a cell is empty
    # the other columns, unknown ones among them; "" where a cell is empty
    texts: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.run)

    def number_at(self, name: str, at: int) -> float | None:
        """Return a number of a row, None where the cell is empty."""
        value = math.nan if name not in self.numbers else float(self.numbers[name][at])
        return None if math.isnan(value) else value

    def text_at(self, name: str, at: int) -> str | None:
        """Return a text of a row, None where the cell is empty."""
        return self.texts[name][at] or None if name in self.texts else None


def column_name(name: str) -> str:
    """Return a column's name as we call it."""
    name = name.strip()
    lower = COLUMN_ALIASES.get(name.lower(), name.lower())
    return lower if lower in KNOWN_COLUMNS else name


def rows_from_columns(columns: Mapping[str, Sequence[str]], rows: Ints) -> ScoreRows | None:
    """Return columns of text as a chunk; None where any cell is wrong, to be looked at by row."""
    try:
        run = list(columns["run"])
        chunk = ScoreRows(
            row=rows,
            run=run,
            step=_parse_indexes(columns["step"]),
            score=_parse_numbers(columns["score"]),
            repeat=None if "repeat" not in columns else _parse_indexes(columns["repeat"]),
            numbers={n: _parse_numbers(columns[n]) for n in NUMBER_COLUMNS if n in columns},
            texts={n: list(cells) for n, cells in columns.items() if n not in _TYPED_COLUMNS},
        )
    except (ValueError, OverflowError):
        return None
    outside = (chunk.score < 0) | (chunk.score > 1)
    negative = any((cells < 0).any() for cells in chunk.numbers.values())
    weights = chunk.numbers.get("weight", np.empty(0))
    unknown = not np.isin(weights[~np.isnan(weights)], SCALE).all()
    return None if outside.any() or negative or unknown or "" in run else chunk


def _parse_indexes(cells: Sequence[str]) -> Ints:
    joined = "".join(cells)
    if not (joined.isascii() and joined.isdecimal()):
        raise ValueError("not digits only")
    found = np.array(list(map(int, cells)), np.int64)
    if len(found) and found.max() >= INDEX_LIMIT:
        raise ValueError("no index")
    return found


def _parse_numbers(cells: Sequence[str]) -> Floats:
    # What `float` takes and no file of numbers means: "nan", "1_0", digits of other scripts.
    if "".join(cells).encode("ascii").translate(None, _NUMBER_BYTES):
        raise ValueError("not numbers only")
    if "" in cells:
        cells = [cell or "nan" for cell in cells]
    found = np.array(list(map(float, cells)), np.float64)
    if np.isinf(found).any():
        raise ValueError("too large for a number")
    return found


def rows_from_cells(
    rows: Iterable[tuple[int, Cells, str]], names: Sequence[str], uri: str
) -> list[ScoreRows | Quarantined]:
    """Return the wrong ones of rows (number, cells, text), then a chunk of the good ones."""
    bad: list[ScoreRows | Quarantined] = []
    good: list[tuple[int, Cells]] = []
    for number, cells, raw in rows:
        try:
            found = dict(cells)
            run = cells.get("run")
            if run is None or isinstance(run, float) or str(run) == "":
                raise TraceError(f"run is {_quote_cell(run)}; expected its name or id")
            found["run"] = str(run)
            for name in ("step", "repeat"):
                if name in cells:
                    found[name] = _check_index(name, cells[name])
            for name in ("score", *NUMBER_COLUMNS):
                if name in cells:
                    found[name] = _check_number(name, cells[name])
            if found.get("weight") not in (None, *SCALE):
                raise TraceError(f"weight is {_quote_cell(cells['weight'])}; expected 1, 2 or 3")
            good.append((number, found))
        except TraceError as e:
            bad.append(quarantine_row(number, str(e), raw, uri))
    if good:
        columns = {name: [cells[name] for _, cells in good] for name in names}
        bad.append(_columns_to_rows(columns, np.array([number for number, _ in good], np.int64)))
    return bad


def _columns_to_rows(columns: dict[str, list[str | float | int | None]], rows: Ints) -> ScoreRows:
    def numbers(name: str) -> Floats:
        return np.array([math.nan if c is None else c for c in columns[name]], np.float64)

    return ScoreRows(
        row=rows,
        run=[str(cell) for cell in columns["run"]],
        step=np.array(columns["step"], np.int64),
        score=numbers("score"),
        repeat=np.array(columns["repeat"], np.int64) if "repeat" in columns else None,
        numbers={name: numbers(name) for name in NUMBER_COLUMNS if name in columns},
        texts={
            name: ["" if cell is None else str(cell) for cell in cells]
            for name, cells in columns.items()
            if name not in _TYPED_COLUMNS
        },
    )


def _check_index(name: str, cell: str | float | int | None) -> int:
    text, said = str(cell), f"{name} is {_quote_cell(cell)}"
    if not (text and _DIGITS.issuperset(text)) or len(text) > len(str(INDEX_LIMIT)):
        raise TraceError(f"{said}; expected an index, counted from 0")
    if int(text) >= INDEX_LIMIT:
        raise TraceError(f"{said}; expected an index below {INDEX_LIMIT:,}")
    return int(text)


def _check_number(name: str, cell: str | float | int | None) -> float | None:
    if cell is None or cell == "":
        return None
    high, words = math.inf, "a number, 0 or more"
    if name == "score":
        high, words = 1.0, "a number from 0 to 1"
    text = str(cell)
    try:
        plain = _NUMBER_LETTERS.issuperset(text) and type(cell) is not bool
        value = float(text) if plain else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= high or value == math.inf:
        empty = ", or an empty cell for no score" if name == "score" else ""
        raise TraceError(f"{name} is {_quote_cell(cell)}; expected {words}{empty}")
    return value


def _quote_cell(cell: str | float | int | None) -> str:
    return "missing" if cell is None or cell == "" else quote_text(str(cell), _QUOTE_LENGTH)


def quote_text(text: str, length: int) -> str:
    """Return a text fit to be printed, in quotes and cut to a length in characters."""
    shown = visible_line(text)
    return repr(shown if len(shown) <= length else shown[:length] + "…")


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
    judges, numbered = [row.judge or "" for row in rows], any(r is not None for r in repeats)
    return ScoreRows(
        row=numbers,
        run=[row.run for row in rows],
        step=np.array([row.step for row in rows], np.int64),
        score=score,
        repeat=np.array([r or 0 for r in repeats], np.int64) if numbered else None,
        numbers=told,
        texts={"judge": judges} if any(judges) else {},
    )


def _read_json_records(stream: Stream, number: int) -> Iterator[ScoreRows | Quarantined]:
    """Yield records of JSON looked at one by one, numbered from `number`."""
    rows: list[tuple[int, Cells, str]] = []
    for at, record in enumerate(decode_records(stream), number):
        raw = record.raw.decode(errors="backslashreplace")
        cells = record.reason if isinstance(record, Quarantined) else _object_cells(record.value)
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
    """Return what separates the columns of a header that names ours; None for any other line."""
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
            reader = records.read_csv(chain([block], read), mark)
            yield from _read_quoted(stream, reader, names, number)
            return
        text = block.replace("\r\n", "\n").removesuffix("\n")
        rows = text.count("\n") + 1
        raw, width = np.frombuffer(text.encode(), np.uint8), len(names)
        ends = raw[(raw == ord(mark)) | (raw == _NEWLINE)] == _NEWLINE
        chunk = None
        # Every so-and-so-many cells, and nowhere else, a line must end; the last has no end here.
        if len(ends) + 1 == width * rows and ends[width - 1 :: width].sum() == ends.sum():
            cells = text.replace("\n", mark).split(mark)
            columns = {name: cells[at::width] for at, name in enumerate(names)}
            chunk = rows_from_columns(columns, np.arange(number, number + rows, dtype=np.int64))
        if chunk is not None:
            yield chunk
        else:
            lines = [line.split(mark) if line else [] for line in text.split("\n")]
            yield from _check_lines(lines, names, number, stream.uri)
        number += rows


def _read_quoted(
    stream: Stream, reader: Iterator[list[str]], names: Sequence[str], number: int
) -> Iterator[ScoreRows | Quarantined]:
    """Yield the rows of a file from its first quoted cell on."""
    try:
        while rows := list(islice(reader, records.CHUNK_ROWS)):
            lot = None
            if all(len(row) == len(names) for row in rows):
                columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                numbers = np.arange(number, number + len(rows), dtype=np.int64)
                lot = rows_from_columns(columns, numbers)
            yield from ([lot] if lot is not None else _check_lines(rows, names, number, stream.uri))
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
