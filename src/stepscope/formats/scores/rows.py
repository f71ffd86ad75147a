"""Rows of step scores, checked and in columns.

Columns are checked thousands of rows at a time; where one row of a chunk is wrong, the chunk is
read row by row, so that the wrong row can be named. An empty score is a step that nobody scored.
Refused, each row alone: text where a number belongs, NaN, a score outside 0 to 1, a step that is no
index, a weight other than 1, 2 and 3. A column with an unknown name is a remark on the score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import TraceError
from stepscope.model import Quarantined
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
    """Return a column's name as we call it.

    >>> column_name(" Run"), column_name("latency_s"), column_name("Note")
    ('run', 'latency', 'Note')
    """
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
    text = str(cell)
    if not (text and _DIGITS.issuperset(text)) or len(text) > len(str(INDEX_LIMIT)):
        raise TraceError(f"{name} is {_quote_cell(cell)}; expected an index, counted from 0")
    if int(text) >= INDEX_LIMIT:
        raise TraceError(f"{name} is {_quote_cell(cell)}; expected an index below {INDEX_LIMIT:,}")
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
