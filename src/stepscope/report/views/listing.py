"""Runs as `stepscope list` prints them: chosen by a filter, ordered by a column, cut at a number.

A column is a figure of the list on the pages, a field of the run, a tag, or the whole-run answer of
any measure of the store. What is not measured is absent, never 0, and comes last in every order.
Each name is one that `stepscope show` takes as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.model import Json
from stepscope.report import words
from stepscope.report.document import (
    Document,
    Links,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    make_row,
)
from stepscope.report.rows import choose_fields, hide_texts, read_table
from stepscope.report.views.runs import COLUMNS, RunListRow, make_cell, make_run_rows
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import format_count, format_number

# Label, field of a row, and unit of the numbers that it holds.
FIELDS = COLUMNS | {
    "id": ("id", "id", ""),
    "workflow": ("workflow", "workflow", ""),
    "trial": ("trial", "trial", ""),
    "agent_version": ("version", "agent_version", ""),
    "started": ("started", "start_ns", ""),
}
# What is printed where no columns are asked for; the first is the run.
USUAL = ("run", "outcome", "steps", "calls", "failed", "axes", "agent")
TAG = "tag."
LIMIT = 50

Value = str | int | float | tuple[str, ...] | None


class ListedRun(msgspec.Struct, frozen=True):
    """One run of a list: what to type for it, its figures, and the columns beyond them."""

    handle: str
    figures: RunListRow
    more: dict[str, str | float | None]

    def __getitem__(self, column: str) -> Value:
        """Return what stands in a column; None where it is not measured."""
        if column in self.more:
            return self.more[column]
        value: Value = getattr(self.figures, FIELDS[column][1])
        return None if value == "" else value


class RunList(msgspec.Struct, frozen=True):
    """The runs that a filter chose, as many of each group as were asked for, group by group."""

    matching: int
    columns: tuple[str, ...]
    by: str | None
    groups: dict[str, int]  # value of `by` -> its runs; "" where it has none, or nobody asked
    runs: tuple[ListedRun, ...]


def list_runs(
    store: Store,
    *,
    where: Where | None = None,
    by: str | None = None,
    columns: Sequence[str] = (),
    sort: str = "run",  # a column; with a minus before it the other way round
    limit: int = LIMIT,  # of each group; 0 for all
) -> RunList:
    """Return the runs that `where` chooses, by name where nothing else is asked for.

    Raises:
        UsageError: no run is in the store, or there is no such column or field.
    """
    key = sort.removeprefix("-")
    fields = () if by is None else choose_fields(by)
    extra = [_find_column(store, name) for name in (*columns, key) if name not in FIELDS]
    table = read_table(store, where, [*fields, *(one for one in extra if one.startswith(TAG))])
    if where is None and not len(table):
        raise UsageError("the store has no runs; read some with stepscope import PATHS")
    ids, more = table.runs.id.tolist(), dict[str, list[str | float | None]]()
    for name in (*extra, *fields):
        if name in table.tags or name in fields:
            found = hide_texts(store.shown, [text or "" for text in table.values(name).tolist()])
            more[name] = [text or None for text in found]
        else:
            answers = store.column(name, table.runs)
            more[name] = np.where(answers.valued, answers.numbers, answers.label).tolist()
    of_run = {id_: {name: held[at] for name, held in more.items()} for at, id_ in enumerate(ids)}
    rows = [ListedRun("", row, of_run[row.id]) for row in make_run_rows(table, store.shown)]
    groups: dict[str, list[ListedRun]] = {}
    for row in _order_rows(rows, key, turned=sort != key):
        groups.setdefault("" if by is None else str(row[by] or ""), []).append(row)
    names = dict(zip(ids, table.runs.name.tolist(), strict=True))
    shown = (row for _, held in sorted(groups.items()) for row in held[: limit or None])
    usual = (name for name in USUAL if any(row[name] not in (None, ()) for row in rows))
    return RunList(
        matching=len(rows),
        columns=tuple(columns or usual),
        by=by,
        groups={value: len(held) for value, held in sorted(groups.items())},
        runs=tuple(
            msgspec.structs.replace(row, handle=store.handle(row.figures.id, names[row.figures.id]))
            for row in shown
        ),
    )


def _find_column(store: Store, name: str) -> str:
    """Return a column beyond `FIELDS` by its name, a tag or a measure.

    Raises:
        UsageError: there is no such column.
    """
    measures = store.measures()
    if name in measures or (name.startswith(TAG) and name != TAG):
        return name
    near = ", ".join(one for one in measures if name and name in one)[:200]
    known = f"{', '.join(FIELDS)}, tag.KEY, or a measure" + (f", as {near}" if near else "")
    raise UsageError(f"no column {name!r}; expected one of {known}")


def _order_rows(rows: Sequence[ListedRun], key: str, *, turned: bool) -> list[ListedRun]:
    """Return the rows by value, then by name, numbers in names by value; absent values last."""
    ordered = sorted(rows, key=lambda row: (_natural(row.figures.name), row.figures.id))
    known = [row for row in ordered if row[key] is not None]
    known.sort(key=lambda row: _sortable(row[key]), reverse=turned)
    return known + [row for row in ordered if row[key] is None]


def _sortable(value: Value) -> tuple[float, list[tuple[int, str]]]:
    if isinstance(value, str):
        return (0.0, _natural(value))
    return (float(len(value)) if isinstance(value, tuple) else value or 0.0, [])


def _natural(text: str) -> list[tuple[int, str]]:
    """Return what orders a text so that 2 comes before 11.

    >>> sorted(["a/11", "a/2", "a"], key=_natural)
    ['a', 'a/2', 'a/11']
    """
    parts = re.split(r"([0-9]{1,15})", text)
    return [(int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)]


def make_list_document(found: RunList) -> Document:
    """Return a list of runs as text has it: a table for each group, and how many match."""
    sections: list[list[Paragraph | Table | str]] = []
    for value, n in found.groups.items():
        runs = [run for run in found.runs if found.by is None or (run[found.by] or "") == value]
        name = f"{found.by}: {value or 'none'}   {format_count(n, 'run')}"
        if len(runs) < n:
            name += f", {len(runs):,} shown"
        heading = [] if found.by is None else [Paragraph(text=name)]
        sections.append([*heading, _tabulate(found.columns, runs)])
    said = f"{format_count(found.matching, 'run')} match" + ("es." if found.matching == 1 else ".")
    if len(found.runs) < found.matching:
        said = f"{said[:-1]}, {len(found.runs):,} shown; --limit 0 shows all."
    return [*sections, [Paragraph(text=said)]]


def _tabulate(columns: Sequence[str], runs: Sequence[ListedRun]) -> Table:
    heads = []
    for name in columns:
        label, _, unit = FIELDS.get(name, (name, "", ""))
        number = unit != "" or any(isinstance(run.more.get(name), float) for run in runs)
        heads.append(TableColumn(label, number=number))
    rows = tuple(make_row(*(_cell(name, run) for name in columns)) for run in runs)
    return Table(id="runs", corner=heads[0].label, columns=tuple(heads), rows=rows)


def _cell(name: str, run: ListedRun) -> TableCell:
    value = run[name]
    if name in COLUMNS and name != "run":
        return make_cell(name, run.figures, Links()) or TableCell("-")
    if value is None or isinstance(value, tuple):
        return TableCell("-")
    if name == "started":
        return TableCell(format_moment(int(value)))
    if isinstance(value, str):
        return TableCell(run.handle if name == "run" else value)
    unit = "steps" if value == int(value) else words.UNITS.get(name, "")
    return TableCell(format_number(value, unit))


def flatten_list(found: RunList) -> dict[str, Json]:
    """Return a list of runs as JSON has it: one flat record a run, with what to type for it."""
    runs: list[Json] = []
    for run in found.runs:
        figures = msgspec.to_builtins(run.figures)
        known = {key: None if said == "" else said for key, said in figures.items()}
        runs.append({**known, **run.more, "handle": run.handle})
    return {"matching": found.matching, "shown": len(runs), "runs": runs}


def format_moment(ns: int) -> str:
    """Return a moment in nanoseconds since 1970 to the second, in UTC.

    >>> format_moment(86_400_000_000_000)
    '1970-01-02 00:00:00'
    """
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // 10**9)
    return whole.strftime("%Y-%m-%d %H:%M:%S")
