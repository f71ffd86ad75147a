"""Runs as `stepscope list` prints them: chosen by a filter, ordered by a column, cut at a number.

A column is a figure of the list on the pages, a field of the run, a tag, or the whole-run answer of
any measure of the store. What is not measured is absent, never 0, and comes last in every order.
Each name is one that `stepscope show` takes as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from stepscope.values import format_count

# Label, field of a row, and unit of the numbers that it holds.
FIELDS = COLUMNS | {
    "id": ("id", "id", ""),
    "workflow": ("workflow", "workflow", ""),
    "trial": ("trial", "trial", ""),
    "version": ("version", "version", ""),
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


class RunList(msgspec.Struct, frozen=True):
    """The runs that a filter chose, as many as were asked for, by the values of one field."""

    matching: int
    columns: tuple[str, ...]
    by: str | None
    groups: tuple[tuple[str | None, int, tuple[ListedRun, ...]], ...]  # value, its runs, the shown


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
    key, turned = sort.removeprefix("-"), sort.startswith("-")
    fields = () if by is None else choose_fields(by)
    named = [*(columns or USUAL), key]
    extra = {name: _find_column(store, name) for name in named if name not in FIELDS}
    table = read_table(store, where, [*fields, *(name for name in extra if name.startswith(TAG))])
    if where is None and not len(table):
        raise UsageError("no run is in the store; read some with stepscope import PATHS")
    rows = make_run_rows(table, store.shown)
    more: dict[str, dict[str, str | float | None]] = {row.id: {} for row in rows}
    for name, read in extra.items():
        if name.startswith(TAG):
            found = [text or "" for text in table.tags[name].tolist()]
            values = [text or None for text in hide_texts(store.shown, found)]
        else:
            answers = store.column(read, table.runs)
            values = np.where(answers.valued, answers.numbers, answers.label).tolist()
        for id_, value in zip(table.runs.id.tolist(), values, strict=True):
            more[id_][name] = value

    def value_of(row: RunListRow) -> Value:
        return more[row.id][key] if key in extra else getattr(row, FIELDS[key][1])

    order = _order_rows(rows, value_of, turned)
    groups: dict[str | None, list[RunListRow]] = {}
    grouped = dict.fromkeys(more)
    if fields:
        texts = [text or "" for text in table.values(fields[0]).tolist()]
        grouped |= zip(table.runs.id.tolist(), hide_texts(store.shown, texts), strict=True)
    names = dict(zip(table.runs.id.tolist(), table.runs.name.tolist(), strict=True))
    for row in order:
        groups.setdefault(grouped[row.id], []).append(row)
    return RunList(
        matching=len(rows),
        columns=tuple(columns) or tuple(name for name in USUAL if any(map(_has(name), rows))),
        by=by,
        groups=tuple(
            (value, len(held), tuple(
                ListedRun(store.handle(row.id, names[row.id]), row, more[row.id])
                for row in held[: limit or None]
            ))
            for value, held in sorted(groups.items(), key=lambda item: item[0] or "")
        ),
    )  # fmt: skip


def _find_column(store: Store, name: str) -> str:
    """Return the measure of a column; of a tag the tag.

    Raises:
        UsageError: there is no such column.
    """
    if name.startswith(TAG) and name != TAG:
        return name
    measures = store.measures()
    if name not in measures:
        near = ", ".join(one for one in measures if name and name in one)[:200]
        raise UsageError(
            f"no column {name!r}; expected one of {', '.join(FIELDS)}, tag.KEY, or a measure"
            + (f", as {near}" if near else "")
        )
    return name


def _has(name: str) -> Callable[[RunListRow], bool]:
    return lambda row: getattr(row, FIELDS[name][1]) not in (None, "", ())


def _order_rows(
    rows: Sequence[RunListRow], value_of: Callable[[RunListRow], Value], turned: bool
) -> list[RunListRow]:
    """Return the rows by value, then by name, numbers in names by value; absent values last."""
    ordered = sorted(rows, key=lambda row: (_natural(row.name), row.id))
    known = [row for row in ordered if value_of(row) not in (None, "")]
    known.sort(key=lambda row: _sortable(value_of(row)), reverse=turned)
    absent = [row for row in ordered if value_of(row) in (None, "")]
    return known + absent


def _sortable(value: Value) -> tuple[float, list[tuple[int, str]]]:
    if isinstance(value, tuple):
        return (float(len(value)), [])
    return (0.0, _natural(value)) if isinstance(value, str) else (value or 0.0, [])


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
    for value, n, runs in found.groups:
        name = f"{found.by}: {value or 'none'}   {format_count(n, 'run')}"
        if len(runs) < n:
            name += f", {len(runs):,} shown"
        section: list[Paragraph | Table | str] = (
            [Paragraph(text=name)] if found.by is not None else []
        )
        sections.append([*section, _tabulate(found.columns, runs)])
    shown = sum(len(runs) for _, _, runs in found.groups)
    said = f"{format_count(found.matching, 'run')} match" + ("es." if found.matching == 1 else ".")
    if shown < found.matching:
        said = f"{said[:-1]}, {shown:,} shown; --limit 0 shows all."
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
    if name == "run":
        return TableCell(run.handle)
    if name in COLUMNS:
        return make_cell(name, run.figures, Links()) or TableCell("-")
    if name == "started":
        at = run.figures.start_ns
        return TableCell("-" if at is None else format_moment(at))
    value = getattr(run.figures, FIELDS[name][1]) if name in FIELDS else run.more[name]
    if value is None or value == "":
        return TableCell("-")
    if isinstance(value, str):
        return TableCell(value)
    return TableCell(words.format_number("steps" if value == int(value) else name, value))


def flatten_list(found: RunList) -> dict[str, Json]:
    """Return a list of runs as JSON has it: one flat record a run, with what to type for it."""
    runs: list[Json] = []
    for value, _, held in found.groups:
        group: dict[str, Json] = {} if found.by is None else {found.by: value or None}
        runs += [
            {
                **{key: None if said == "" else said for key, said in figures.items()},
                **run.more,
                **group,
                "handle": run.handle,
            }
            for run in held
            for figures in [msgspec.to_builtins(run.figures)]
        ]
    return {"matching": found.matching, "shown": len(runs), "runs": runs}


def format_moment(ns: int) -> str:
    """Return a moment in nanoseconds since 1970 to the second, in UTC.

    >>> format_moment(86_400_000_000_000)
    '1970-01-02 00:00:00'
    """
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // 10**9)
    return whole.strftime("%Y-%m-%d %H:%M:%S")
