"""Read step scores: `run,step,score` and what else is known, put together by run.

Every run of the file comes out as a run of which nothing but its scores is known: its steps have no
content. The store gives the scores to the run of that name or id where it has one. In a file of up
to `SMALL_ROWS` rows their order does not matter. In a larger one the rows of one run must
stand together: a run that comes again later is quarantined row by row, with the advice to sort the
file. So is a second row for the same run, judge, step and repeat. A wrong row is quarantined alone,
with its number; a missing column refuses the file. The format is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.errors import TraceError
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import FileFormat
from stepscope.formats.opening import Opening
from stepscope.formats.records import is_json
from stepscope.formats.scores import rows as table
from stepscope.model import SCORES, Case, Quarantined, Source, Step, StepScore, Stream, Trajectory
from stepscope.safety.json import BOM

# Rows that are held to be put in order, whatever order they came in.
SMALL_ROWS = 65_536
# Rows of one run that are kept waiting for more; no run of a hundred thousand steps needs more.
MAX_RUN_ROWS = 1_000_000

# A message quotes no more than this of a name.
_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredRuns:
    """Whole runs: rows ordered by run, judge, step, repeat."""

    names: list[str]  # the runs, m of them, in the order of their first rows
    # shape (m + 1,), where the rows of each run begin; the last entry is their number
    starts: table.Ints
    rows: table.ScoreRows  # the rows


def group_runs(
    found: Iterable[table.ScoreRows | Quarantined], uri: str
) -> Iterator[ScoredRuns | Quarantined]:
    """Yield whole runs, and the rows that are set aside."""
    done: set[int] = set()
    held: table.ScoreRows | None = None
    for item in _join_first_rows(found):
        if isinstance(item, Quarantined):
            yield item
            continue
        rows = item if held is None else join_rows([held, item])
        codes = _number_texts(rows.run)
        last = codes == codes[-1]
        held = take_rows(rows, np.flatnonzero(last))
        if len(held) > MAX_RUN_ROWS:
            name = table.quote_text(rows.run[-1], _NAME_LENGTH)
            raise TraceError(f"{uri}: run {name} has over {MAX_RUN_ROWS:,} rows; split it")
        yield from _complete_runs(take_rows(rows, np.flatnonzero(~last)), codes[~last], done, uri)
    if held is not None:
        yield from _complete_runs(held, _number_texts(held.run), done, uri)


def _join_first_rows(
    found: Iterable[table.ScoreRows | Quarantined],
) -> Iterator[table.ScoreRows | Quarantined]:
    """Yield the first rows of a file, all of those of a small one, as one chunk."""
    first: list[table.ScoreRows] = []
    rest = iter(found)
    for item in rest:
        if isinstance(item, Quarantined):
            yield item
            continue
        first.append(item)
        if sum(map(len, first)) >= SMALL_ROWS:
            break
    if first:
        yield join_rows(first)
    yield from rest


def _complete_runs(
    rows: table.ScoreRows, codes: table.Ints, done: set[int], uri: str
) -> Iterator[ScoredRuns | Quarantined]:
    """Yield the runs of some rows, all of whose rows these are, unless one was there before."""
    if not len(rows):
        return
    names = [rows.run[at] for at in _find_starts(codes).tolist()]
    seen = set(map(hash, names))
    again = {name for name in names if hash(name) in done} if seen & done else set()
    done |= seen
    if again:
        late = np.array([name in again for name in rows.run], np.bool_)
        for at in np.flatnonzero(late).tolist():
            name = table.quote_text(rows.run[at], _NAME_LENGTH)
            yield _quarantine_at(rows, at, f"run {name} comes again; sort the file by run", uri)
        rows = take_rows(rows, np.flatnonzero(~late))
    yield from _order_rows(rows, uri)


def _order_rows(rows: table.ScoreRows, uri: str) -> Iterator[ScoredRuns | Quarantined]:
    if not len(rows):
        return
    codes, judges = _number_texts(rows.run), _number_texts(rows.texts.get("judge"), len(rows))
    repeats = np.zeros(len(rows), np.int64) if rows.repeat is None else rows.repeat
    keys: tuple[table.Ints, ...] = (codes, judges, rows.step, repeats)
    order = np.lexsort((rows.row, *reversed(keys)))
    rows = take_rows(rows, order)
    keys = tuple([key[order] for key in keys])
    twice = np.append(False, np.logical_and.reduce([key[1:] == key[:-1] for key in keys]))
    if twice.any():
        for at in np.flatnonzero(twice).tolist():
            name, before = table.quote_text(rows.run[at], _NAME_LENGTH), int(rows.row[at - 1])
            advice = "a second scoring needs a column repeat"
            if rows.repeat is not None:
                advice = "each scoring of a step has its own repeat"
            fault = f"run {name}, step {int(rows.step[at])} is scored in row {before} too; {advice}"
            yield _quarantine_at(rows, at, fault, uri)
        rows = take_rows(rows, np.flatnonzero(~twice))
    starts = _find_starts(keys[0][~twice])
    names = [rows.run[at] for at in starts.tolist()]
    yield ScoredRuns(names=names, starts=np.append(starts, len(rows)), rows=rows)


def _find_starts(codes: table.Ints) -> table.Ints:
    return np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))


def _quarantine_at(rows: table.ScoreRows, at: int, reason: str, uri: str) -> Quarantined:
    score = float(rows.score[at])
    raw = f"{rows.run[at]},{int(rows.step[at])},{'' if np.isnan(score) else repr(score)}"
    return table.quarantine_row(int(rows.row[at]), reason, raw, uri)


def _number_texts(names: list[str] | None, size: int = 0) -> table.Ints:
    if names is None:
        return np.zeros(size, np.int64)
    places: dict[str, int] = {}
    return np.array([places.setdefault(name, len(places)) for name in names], np.int64)


def take_rows(rows: table.ScoreRows, at: table.Ints) -> table.ScoreRows:
    """Return the rows at some places, in that order."""
    first, places = int(at[0]) if len(at) else 0, at.tolist()
    # Neighbouring rows need no copy of their cells.
    beside = np.array_equal(at, np.arange(first, first + len(at)))
    cut = slice(first, first + len(at)) if beside else at

    def pick(cells: list[str]) -> list[str]:
        return cells[cut] if isinstance(cut, slice) else [cells[i] for i in places]

    return table.ScoreRows(
        row=rows.row[cut],
        run=pick(rows.run),
        step=rows.step[cut],
        score=rows.score[cut],
        repeat=None if rows.repeat is None else rows.repeat[cut],
        numbers={name: cells[cut] for name, cells in rows.numbers.items()},
        texts={name: pick(cells) for name, cells in rows.texts.items()},
    )


def join_rows(parts: Sequence[table.ScoreRows]) -> table.ScoreRows:
    """Return the rows of several chunks; a column that one of them lacks is empty there."""
    if len(parts) == 1:
        return parts[0]
    numbers = dict.fromkeys(name for part in parts for name in part.numbers)
    texts = dict.fromkeys(name for part in parts for name in part.texts)
    repeats = [np.zeros(len(p), np.int64) if p.repeat is None else p.repeat for p in parts]
    return table.ScoreRows(
        row=np.concatenate([part.row for part in parts]),
        run=[name for part in parts for name in part.run],
        step=np.concatenate([part.step for part in parts]),
        score=np.concatenate([part.score for part in parts]),
        repeat=np.concatenate(repeats) if any(part.repeat is not None for part in parts) else None,
        numbers={
            name: np.concatenate([p.numbers.get(name, np.full(len(p), np.nan)) for p in parts])
            for name in numbers
        },
        texts={
            name: [cell for p in parts for cell in p.texts.get(name, [""] * len(p))]
            for name in texts
        },
    )


NAME = SCORES
# The columns are there: sure. All but one: sure enough to say which is missing.
_SURE, _NEARLY = 0.95, 0.6


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if not isinstance(first, dict):
        return 0.0
    cells = {table.column_name(str(key)): first[key] for key in reversed(first)}
    if cells.keys() >= set(table.NEEDED_COLUMNS):
        return _SURE if not isinstance(cells["score"], dict | list) else 0.0
    return _NEARLY if "score" in cells and cells.keys() & {"run", "step"} else 0.0


def _header_likeness(head: bytes) -> float:
    line = head.removeprefix(BOM).lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    mark = table.find_delimiter(line)
    if mark is None or is_json(head):
        return 0.0
    names = {table.column_name(name) for name in line.split(mark)}
    return _SURE if names.issuperset(table.NEEDED_COLUMNS) else _NEARLY


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for found in group_runs(table.read_score_rows(stream), stream.uri):
        if isinstance(found, Quarantined):
            yield found
        else:
            yield from _runs(found, stream, ordinals)


def _runs(
    group: ScoredRuns, stream: Stream, ordinals: Ordinals
) -> Iterator[Trajectory | Quarantined]:
    rows = group.rows
    for at, name in enumerate(group.names):
        places = range(int(group.starts[at]), int(group.starts[at + 1]))
        first = places[0]
        steps, limit = max(int(rows.step[i]) for i in places) + 1, stream.limits.steps
        if steps > limit:
            reason = f"step {steps - 1}; a run has at most {limit:,} steps, raise limits.steps"
            yield table.quarantine_row(int(rows.row[first]), reason, name, stream.uri)
            continue
        workflow, task = rows.text_at("workflow", first) or "", rows.text_at("task", first)
        weights = [(int(rows.step[i]), rows.number_at("weight", i)) for i in reversed(places)]
        # Of a step that is weighed twice, the first row counts.
        weighed = {step: weight for step, weight in weights if weight is not None}
        ordered = tuple([weighed[step] for step in sorted(weighed)])
        # Columns without a place of their own, with the cells that they fill.
        unknown = {
            f"column {column}": len([i for i in places if cells[i]])
            for column, cells in rows.texts.items()
            if column not in table.KNOWN_COLUMNS
        }
        draft = Trajectory(
            id="",
            name=name,
            steps=tuple([Step(index=i, actor="agent", kind="other") for i in range(steps)]),
            source=Source(format=NAME, uri=stream.uri, offset=int(rows.row[first]), run_id=name),
            workflow=workflow,
            task=task,
            trial=rows.text_at("trial", first),
            agent=rows.text_at("agent", first),
            scores=tuple([_step_score(rows, i) for i in places]),
            case=Case(workflow=workflow, task=task or name, weights=ordered) if ordered else None,
            extra={column: n for column, n in unknown.items() if n} or None,
        )
        yield finish_run(draft, ordinals, limits=stream.limits)


def _step_score(rows: table.ScoreRows, i: int) -> StepScore:
    value = float(rows.score[i])
    # The reason, and what stands in columns that have no place of their own.
    others = {n: cells[i] for n, cells in rows.texts.items() if n not in table.KNOWN_COLUMNS}
    said = [rows.text_at("reason", i), *[f"{name}={cell}" for name, cell in others.items() if cell]]
    return StepScore(
        step=int(rows.step[i]),
        value=None if math.isnan(value) else value,
        judge=rows.text_at("judge", i) or "",
        repeat=0 if rows.repeat is None else int(rows.repeat[i]),
        latency_s=rows.number_at("latency", i),
        cost_usd=rows.number_at("cost", i),
        reason="; ".join(filter(None, said)),
    )


FORMAT = FileFormat(NAME, _likeness, _read, _header_likeness)
