"""Rows of step scores put together by run, in bounded memory.

In a file of up to `SMALL_ROWS` rows their order does not matter. In a larger one the rows of one
run must stand together: a run that comes again later is set aside row by row, with the advice to
sort the file. So is a second row for the same run, judge, step and repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.errors import TraceError
from stepscope.formats.score_rows import BadRow, Chunk, Ints
from stepscope.safety.text import visible_line

# Rows that are held to be put in order, whatever order they came in.
SMALL_ROWS = 65_536
# Rows of one run that are kept waiting for more; no run of a hundred thousand steps needs more.
MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Whole runs: rows ordered by run, judge, step, repeat.

    Attributes:
        names: the runs, m of them, in the order of their first rows.
        starts: shape (m + 1,), where the rows of each run begin; the last entry is their number.
        rows: the rows.
    """

    names: list[str]
    starts: Ints
    rows: Chunk


def groups(found: Iterable[Chunk | BadRow], uri: str) -> Iterator[Group | BadRow]:
    """Yield whole runs, and the rows that are set aside.

    Raises:
        TraceError: a run has more rows than memory should hold.
    """
    done: set[int] = set()
    held: Chunk | None = None
    for item in _begun(found):
        if isinstance(item, BadRow):
            yield item
            continue
        rows = item if held is None else joined([held, item])
        codes = _codes(rows.run)
        last = codes == codes[-1]
        held = taken(rows, np.flatnonzero(last))
        if len(held) > MOST_ROWS:
            name = _short(rows.run[-1])
            raise TraceError(f"{uri}: run {name} has over {MOST_ROWS:,} rows; split it")
        yield from _whole(taken(rows, np.flatnonzero(~last)), codes[~last], done)
    if held is not None:
        yield from _whole(held, _codes(held.run), done)


def _begun(found: Iterable[Chunk | BadRow]) -> Iterator[Chunk | BadRow]:
    """Yield the first rows of a file, all of those of a small one, as one chunk."""
    first: list[Chunk] = []
    rest = iter(found)
    for item in rest:
        if isinstance(item, BadRow):
            yield item
            continue
        first.append(item)
        if sum(map(len, first)) >= SMALL_ROWS:
            break
    if first:
        yield joined(first)
    yield from rest


def _whole(rows: Chunk, codes: Ints, done: set[int]) -> Iterator[Group | BadRow]:
    """Yield the runs of some rows, all of whose rows these are, unless one was there before."""
    if not len(rows):
        return
    starts = _starts(codes)
    names = [rows.run[at] for at in starts.tolist()]
    seen = set(map(hash, names))
    again = {name for name in names if hash(name) in done} if seen & done else set()
    done |= seen
    if again:
        late = np.array([name in again for name in rows.run], np.bool_)
        for at in np.flatnonzero(late).tolist():
            yield _bad(rows, at, f"run {_short(rows.run[at])} comes again; sort the file by run")
        yield from _ordered(taken(rows, np.flatnonzero(~late)))
    else:
        yield from _ordered(rows)


def _ordered(rows: Chunk) -> Iterator[Group | BadRow]:
    if not len(rows):
        return
    codes, judges = _codes(rows.run), _codes(rows.texts.get("judge"), len(rows))
    repeats = np.zeros(len(rows), np.int64) if rows.repeat is None else rows.repeat
    keys: tuple[Ints, ...] = (codes, judges, rows.step, repeats)
    order = np.lexsort((rows.row, *reversed(keys)))
    rows = taken(rows, order)
    keys = tuple([key[order] for key in keys])
    twice = np.append(False, np.logical_and.reduce([key[1:] == key[:-1] for key in keys]))
    if twice.any():
        for at in np.flatnonzero(twice).tolist():
            yield _bad(rows, at, _said_twice(rows, at))
        rows = taken(rows, np.flatnonzero(~twice))
    starts = _starts(keys[0][~twice])
    names = [rows.run[at] for at in starts.tolist()]
    yield Group(names=names, starts=np.append(starts, len(rows)), rows=rows)


def _starts(codes: Ints) -> Ints:
    """Return where another number begins."""
    return np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))


def _said_twice(rows: Chunk, at: int) -> str:
    before = int(rows.row[at - 1])
    said = f"run {_short(rows.run[at])}, step {int(rows.step[at])} is scored in row {before} too; "
    if rows.repeat is None:
        return said + "a second scoring needs a column repeat"
    return said + "each scoring of a step has its own repeat"


def _bad(rows: Chunk, at: int, reason: str) -> BadRow:
    score = float(rows.score[at])
    raw = f"{rows.run[at]},{int(rows.step[at])},{'' if np.isnan(score) else repr(score)}"
    return BadRow(int(rows.row[at]), reason, raw)


def _short(name: str) -> str:
    text = visible_line(name)
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _codes(names: list[str] | None, size: int = 0) -> Ints:
    """Return a number for each text, in the order of their first appearance."""
    if names is None:
        return np.zeros(size, np.int64)
    places: dict[str, int] = {}
    return np.array([places.setdefault(name, len(places)) for name in names], np.int64)


def taken(rows: Chunk, at: Ints) -> Chunk:
    """Return the rows at some places, in that order."""
    first = int(at[0]) if len(at) else 0
    if np.array_equal(at, np.arange(first, first + len(at))):
        return _cut(rows, slice(first, first + len(at)))
    places = at.tolist()
    return Chunk(
        row=rows.row[at],
        run=[rows.run[i] for i in places],
        step=rows.step[at],
        score=rows.score[at],
        repeat=None if rows.repeat is None else rows.repeat[at],
        numbers={name: cells[at] for name, cells in rows.numbers.items()},
        texts={name: [cells[i] for i in places] for name, cells in rows.texts.items()},
    )


def _cut(rows: Chunk, at: slice) -> Chunk:
    """Return neighbouring rows, which needs no copy of their cells."""
    return Chunk(
        row=rows.row[at],
        run=rows.run[at],
        step=rows.step[at],
        score=rows.score[at],
        repeat=None if rows.repeat is None else rows.repeat[at],
        numbers={name: cells[at] for name, cells in rows.numbers.items()},
        texts={name: cells[at] for name, cells in rows.texts.items()},
    )


def joined(parts: Sequence[Chunk]) -> Chunk:
    """Return the rows of several chunks; a column that one of them lacks is empty there."""
    if len(parts) == 1:
        return parts[0]
    numbers = {name: None for part in parts for name in part.numbers}
    texts = {name: None for part in parts for name in part.texts}
    repeated = any(part.repeat is not None for part in parts)
    repeats = [np.zeros(len(p), np.int64) if p.repeat is None else p.repeat for p in parts]
    return Chunk(
        row=np.concatenate([part.row for part in parts]),
        run=[name for part in parts for name in part.run],
        step=np.concatenate([part.step for part in parts]),
        score=np.concatenate([part.score for part in parts]),
        repeat=np.concatenate(repeats) if repeated else None,
        numbers={
            name: np.concatenate([p.numbers.get(name, np.full(len(p), np.nan)) for p in parts])
            for name in numbers
        },
        texts={
            name: [cell for p in parts for cell in p.texts.get(name, [""] * len(p))]
            for name in texts
        },
    )
