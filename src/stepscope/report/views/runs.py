"""The runs of a report, as a map and as a list, and as `stepscope list` prints them.

In the map one cell is one run: tasks across and trials down, those that always pass first; runs
without a task stand in the order of time. Of more runs than a page can hold, a cell has several.
The order of the list is that of `weigh_runs`: a reading order, so no rate may be computed on its
beginning. What is not measured is absent, never 0, and comes last. No trace is opened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain, compress
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.model import Json
from stepscope.report import document as doc
from stepscope.report import words
from stepscope.report.rows import RunTable, choose_fields, hide_texts, read_table
from stepscope.report.suspects import weigh_runs
from stepscope.safety.redact import Redactor
from stepscope.store import Store
from stepscope.store.columns import Runs
from stepscope.store.where import Where
from stepscope.values import format_count, format_number

T = TypeVar("T")
TONES: dict[str, doc.Tone] = {"pass": "good", "fail": "bad", "unknown": "quiet"}
# Cells that one page holds; of more runs a cell is several.
MOST_CELLS = 2_000
# Runs up to which each is a line of its own instead of a cell.
FEW_RUNS = 10
# Cells above each other, where a cell is several runs or the runs have no tasks.
MOST_DOWN = 8
# Agents or versions of a map in which a cell is several runs; the list has all.
MOST_BLOCKS = 12
# Columns of tasks, where one is several.
MOST_ACROSS = 100
# How tasks are called by how their trials ended, and tasks of one trial.
TASK_WORDS = ("Always pass", "Sometimes pass", "Never pass", "No outcome")
RUN_WORDS = ("Pass", "Sometimes pass", "Fail", "No outcome")
# Characters of a task's name that stand below its column.
SHORT_NAME = 3
# How wide a cell may be with so many columns, in pixels; below 14 it has no letter.
WIDTHS = ((12, 34), (30, 25), (50, 22), (75, 14), (120, 9))
NARROWEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBlock:
    """Columns of the map that stand together; a column has a name, and the runs of each cell."""

    agent: str  # whose runs they are; "" where all are one's
    tasks: bool  # whether a column is a task
    said: str  # what holds for its tasks: "Always pass"
    count: int  # its tasks, or its runs
    columns: list[tuple[str, list[list[RunListRow]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCell:
    """A cell as it is drawn: its colour, its letter, what is read when it is pointed at."""

    tone: str  # "pass", "fail", "mixed" (of several runs) or "unknown"
    letter: str = ""  # of its failure mode
    said: str
    href: str | None


def arrange_runs(rows: Sequence[RunListRow]) -> list[MapBlock]:
    """Return the blocks of the map of these runs, in an order that the same runs always have."""
    fields = ("workflow", "agent", "agent_version")
    versions = set(map(attrgetter(*fields), rows))
    parts = 2 + (len(versions) > len({key[:2] for key in versions}))
    groups: dict[tuple[str, ...], list[RunListRow]] = {}
    for key, row in zip(map(attrgetter(*fields[:parts]), rows), rows, strict=True):
        groups.setdefault(key, []).append(row)
    room, kept = 0, sorted(groups)
    if len(rows) > MOST_CELLS:
        kept = sorted(sorted(groups, key=lambda key: -len(groups[key]))[:MOST_BLOCKS])
        room = MOST_CELLS // len(kept)
    blocks: list[MapBlock] = []
    for key in kept:
        title = " · ".join(filter(None, key)) if len(groups) > 1 else ""
        of_task: dict[str, list[RunListRow]] = {}
        for row in groups[key]:
            of_task.setdefault(row.task, []).append(row)
        alone = of_task.pop("", [])
        blocks += _arrange(title, of_task, room)
        if alone:
            alone.sort(key=lambda row: (row.start_ns is None, row.start_ns or 0, row.name, row.id))
            cells = _chunk(alone, -(-len(alone) // (room or len(alone))))
            down = max(min(MOST_DOWN, -(-len(cells) // 50)), 1)
            columns = [("", column) for column in _chunk(cells, down)]
            said, n = "By name" if alone[0].start_ns is None else "In the order of time", len(alone)
            blocks.append(MapBlock(agent=title, tasks=False, said=said, count=n, columns=columns))
    return blocks


def _arrange(title: str, of_task: Mapping[str, list[RunListRow]], room: int) -> Iterator[MapBlock]:
    """Yield the tasks of one agent, those that always pass first; in `room` cells where not 0."""
    found: dict[int, list[tuple[float, tuple[bool, int, str], str]]] = {}
    for task, held in of_task.items():
        graded = [row.outcome == "pass" for row in held if row.outcome != "unknown"]
        passed = sum(graded)
        kind = 3 if not graded else 0 if passed == len(graded) else 1 if passed else 2
        found.setdefault(kind, []).append((-passed / max(len(held), 1), _natural(task), task))
        held.sort(key=lambda row: (_natural(row.trial), row.name, row.id))
    words = TASK_WORDS if any(len(held) > 1 for held in of_task.values()) else RUN_WORDS
    each = -(-len(of_task) // MOST_ACROSS) if room else 1
    across = sum(-(-len(tasks) // each) for tasks in found.values())
    down = max(min(room // max(across, 1), MOST_DOWN), 1)
    for kind, tasks in sorted(found.items()):
        columns = []
        for names in _chunk([task for _, _, task in sorted(tasks)], each):
            runs = [row for name in names for row in of_task[name]]
            cells = _chunk(runs, -(-len(runs) // down) if room else 1)
            columns.append((names[0] if len(names) == 1 else "", cells))
        yield MapBlock(agent=title, tasks=True, said=words[kind], count=len(tasks), columns=columns)


def _chunk(items: list[T], each: int) -> list[list[T]]:
    return [items[at : at + each] for at in range(0, len(items), each)]


@lru_cache(65_536)
def _natural(name: str) -> tuple[bool, int, str]:
    """Return what orders numbers by their value, before words."""
    number = name.isdecimal() and len(name) < 16
    return (not number, int(name) if number else 0, name)


def draw_cell(
    held: Sequence[RunListRow], at: int, links: doc.Links, letters: Mapping[str, str]
) -> MapCell:
    """Return the cell `at` its place among all; `letters` are failure modes by run."""
    if len(held) == 1:
        (row,) = held
        letter = letters.get(row.id, "")
        mode = f", mode {letter}" if letter else ""
        said = f"{row.name}: {row.outcome}{mode}, {format_count(row.steps, 'step')}"
        href = links.run(row.id) or f"#{doc.row_anchor(row.id)}"
        return MapCell(tone=row.outcome, letter=letter, said=said, href=href)
    graded = [row.outcome == "pass" for row in held if row.outcome != "unknown"]
    passed, n = sum(graded), len(graded)
    tone = "unknown" if not n else ("fail", "mixed", "pass")[min(3 * passed // n, 2)]
    said = f"{passed:,} of {n:,} pass" if n else "no outcome"
    said += f": {held[0].name} to {held[-1].name}"
    return MapCell(tone=tone, said=said, href=links.runs(cell=str(at)))


def size_cells(blocks: Sequence[MapBlock]) -> int:
    """Return how wide a cell of the map is at most, in pixels: each agent has a line."""
    lines = Counter[str]()
    for block in blocks:
        lines[block.agent] += len(block.columns)
    columns = max(lines.values(), default=0)
    return next((width for most, width in WIDTHS if columns <= most), NARROWEST)


def select_cell(rows: Sequence[RunListRow], at: str) -> Sequence[RunListRow]:
    """Return the runs of the cell `at` its place in the map; none where there is no such."""
    columns = (held for block in arrange_runs(rows) for _, held in block.columns)
    cells = list(chain.from_iterable(columns))
    return cells[int(at)] if at.isdecimal() and len(at) < 6 and int(at) < len(cells) else ()


# Rows of one page of runs on the server.
PAGE_SIZE = 100


# The texts of a row besides its id, as the columns of runs have them.
TEXTS = ("name", "workflow", "agent", "task", "trial", "outcome", "agent_version")


class RunListRow(msgspec.Struct, frozen=True, gc=False):
    """One run in few figures, in the order of `make_run_rows`; None where one is not measured."""

    id: str
    name: str
    workflow: str
    agent: str
    task: str
    trial: str
    outcome: str
    steps: int
    calls: int
    reached: float | None = None  # share of the sub-goals that were reached
    failed_calls: float | None = None  # tool calls that failed
    repeats: float | None = None  # calls that ask again what is known
    violations: float | None = None  # rules of conduct broken
    cost_usd: float | None = None
    seconds: float | None = None
    faults: tuple[str, ...] | None = None  # axes at fault; None where no axis was scored
    agent_version: str = ""
    start_ns: int | None = None  # None where the trace has no times

    @classmethod
    def of(cls, runs: Runs, at: int) -> RunListRow:
        """Return the row of one run in columns, nothing measured."""
        texts: dict[str, Any] = {x: getattr(runs, x)[at] or "" for x in ("id", *TEXTS)}
        steps, calls = int(runs.steps[at]), int(runs.calls[at])
        return cls(**texts, steps=steps, calls=calls, start_ns=runs.start_ns[at])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs are shown, and how ordered: what the address says."""

    text: str = ""  # a part of a name, case not minded
    outcome: str = ""  # "pass", "fail", "unknown"; "" for all
    agent: str = ""  # an agent; "" for all
    workflow: str = ""  # a workflow; "" for all
    cell: str = ""  # a cell of the map; "" for all
    sort: str = ""  # a key of `COLUMNS`; anything else is the order of `look_first`
    descending: bool = False  # whether the order is turned round
    page: int = 0  # which hundred, from 0


# What an address calls as a query does.
QUERY_FIELDS = ("outcome", "agent", "workflow", "cell", "sort")
# The columns of the table: label, field of a row, and unit of the numbers that it holds.
COLUMNS: dict[str, tuple[str, str, str]] = {
    "run": ("run", "name", ""),
    "outcome": ("outcome", "outcome", ""),
    "agent": ("agent", "agent", ""),
    "task": ("task", "task", ""),
    "steps": ("steps", "steps", "steps"),
    "calls": ("calls", "calls", "steps"),
    "reached": ("sub-goals", "reached", "share"),
    "failed": ("failed calls", "failed_calls", "steps"),
    "repeats": ("repeats", "repeats", "steps"),
    "violations": ("rules broken", "violations", "steps"),
    "axes": ("axes at fault", "faults", ""),
    "cost": ("cost", "cost_usd", "usd"),
    "seconds": ("seconds", "seconds", "seconds"),
}


# Field of a row -> the measure that it is of.
_MEASURED = {
    "reached": "subgoals",
    "failed_calls": "errors",
    "repeats": "redundant_calls.count",
    "violations": "policy",
    "cost_usd": "efficiency.cost_usd",
    "seconds": "efficiency.seconds",
}


def make_run_rows(table: RunTable, redactor: Redactor | None) -> tuple[RunListRow, ...]:
    """Return a row for each run, most telling first, without secrets."""
    order = np.argsort(-weigh_runs(table), kind="stable")
    runs, columns = table.runs, {"id": table.runs.id[order].tolist()}
    for name in TEXTS:
        texts = [text or "" for text in getattr(runs, name)[order].tolist()]
        columns[name] = hide_texts(redactor, texts)
    for name in ("steps", "calls", "start_ns"):
        columns[name] = getattr(runs, name)[order].tolist()
    for name, measure in _MEASURED.items():
        columns[name] = table.columns[measure].numbers[order].tolist()
    axes = {name: key for key, name in words.AXES.items() if table.scored(key)}
    columns["faults"] = [None] * len(order)
    if axes:
        held = [table.columns[key].take(order) for key in axes.values()]
        wrong = zip(*[(one.label == words.INCORRECT).tolist() for one in held], strict=True)
        known = np.any([one.answered for one in held], axis=0).tolist()
        name_faults = cache(lambda run: tuple(compress(axes, run)))
        pairs = zip(known, wrong, strict=True)
        columns["faults"] = [name_faults(run) if seen else None for seen, run in pairs]
    return tuple(map(RunListRow, *(columns[name] for name in RunListRow.__struct_fields__)))


def select_runs(runs: Sequence[RunListRow], query: RunQuery) -> list[RunListRow]:
    """Return the runs that a query chooses, in its order; what is not measured comes last."""
    chosen = list(select_cell(runs, query.cell) if query.cell else runs)
    if text := query.text.casefold():
        chosen = [row for row in chosen if text in row.name.casefold()]
    for name in ("outcome", "agent", "workflow"):
        if wanted := getattr(query, name):
            chosen = [row for row in chosen if getattr(row, name) == wanted]
    if query.sort not in COLUMNS:
        return chosen
    field = COLUMNS[query.sort][1]
    known = [row for row in chosen if getattr(row, field) is not None]
    order = attrgetter(field)
    known.sort(
        key=(lambda row: len(row.faults or ())) if query.sort == "axes" else order,
        reverse=query.descending,
    )
    return known + [row for row in chosen if getattr(row, field) is None]


def tabulate_runs(
    shown: Sequence[RunListRow],
    runs: Sequence[RunListRow],
    links: doc.Links,
    query: RunQuery | None = None,
) -> doc.Table:
    """Return a table of `shown`, with the columns that any of `runs` has something in."""
    asked = query or RunQuery()
    kept = [
        name
        for name, (_, field, _) in COLUMNS.items()
        if any(value not in (None, "") for value in map(attrgetter(field), runs))
    ]
    columns = []
    for name in kept:
        label, _, unit = COLUMNS[name]
        turned = bool(unit) if asked.sort != name else not asked.descending
        order: doc.SortOrder = ""
        if asked.sort == name:
            order = "descending" if asked.descending else "ascending"
        href = address_runs(links, replace(asked, sort=name, descending=turned, page=0))
        columns.append(doc.TableColumn(label, number=bool(unit), href=href, order=order))
    rows, absent = [], doc.TableCell("-", tone="quiet")
    for row in shown:
        cells = tuple(make_cell(name, row, links) or absent for name in kept)
        anchor = "" if links.is_served or links.run(row.id) else doc.row_anchor(row.id)
        facets = {"outcome": row.outcome, "agent": row.agent, "workflow": row.workflow}
        rows.append(doc.TableRow(cells, anchor=anchor, match=row.name, facets=facets))
    said = "No runs match. Clear the filter, or read more runs."
    empty = doc.EmptyNotice(said, ("stepscope import PATHS",))
    return doc.Table("runs", columns, rows, caption="Runs", empty=empty)


def address_runs(links: doc.Links, query: RunQuery) -> str | None:
    """Return the address of the runs that a query chooses."""
    fields = {name: getattr(query, name) for name in QUERY_FIELDS}
    down, page = "1" if query.descending else "", str(query.page or "")
    return links.runs(q=query.text, **fields, desc=down, page=page)


def make_cell(name: str, row: RunListRow, links: doc.Links) -> doc.TableCell | None:
    """Return one cell; None where there is nothing to say."""
    _, field, unit = COLUMNS[name]
    value = getattr(row, field)
    if value is None or value == "":
        return None
    if name == "axes":
        return doc.TableCell(", ".join(value), sort=len(value))
    if name == "run":
        href = links.run(row.id)
        return doc.TableCell(value, href=href, note="" if href else "steps are not in this file")
    if not unit:
        return doc.TableCell(value, tone=TONES.get(value, "quiet") if name == "outcome" else "")
    return doc.TableCell(format_number(value, unit), sort=value, tone="" if value else "quiet")


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
    """Return the runs that `where` chooses, by name where nothing else is asked for."""
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
    counts = {value: len(held) for value, held in sorted(groups.items())}
    listed = []
    for row in shown:
        handle = store.handle(row.figures.id, names[row.figures.id])
        listed.append(ListedRun(handle, row.figures, row.more))
    return RunList(len(rows), tuple(columns or usual), by, counts, tuple(listed))


def _find_column(store: Store, name: str) -> str:
    """Return a column beyond `FIELDS` by its name, a tag or a measure."""
    measures = store.measures()
    if name in measures or (name.startswith(TAG) and name != TAG):
        return name
    near = ", ".join(one for one in measures if name and name in one)[:200]
    known = f"{', '.join(FIELDS)}, tag.KEY, or a measure" + (f", as {near}" if near else "")
    raise UsageError(f"no column {name!r}; expected one of {known}")


def _order_rows(rows: Sequence[ListedRun], key: str, *, turned: bool) -> list[ListedRun]:
    """Return the rows by value, then by name; absent values last."""
    ordered = sorted(rows, key=lambda row: (_split_numbers(row.figures.name), row.figures.id))
    known = [row for row in ordered if row[key] is not None]
    known.sort(key=lambda row: _sortable(row[key]), reverse=turned)
    return known + [row for row in ordered if row[key] is None]


def _sortable(value: Value) -> tuple[float, list[tuple[int, str]]]:
    if isinstance(value, str):
        return (0.0, _split_numbers(value))
    return (float(len(value)) if isinstance(value, tuple) else value or 0.0, [])


def _split_numbers(text: str) -> list[tuple[int, str]]:
    """Return what orders a text so that 2 comes before 11."""
    parts = re.split(r"([0-9]{1,15})", text)
    return [(int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)]


def make_list_document(found: RunList) -> doc.Document:
    """Return a list of runs as text has it: a table for each group, and how many match."""
    sections: list[list[doc.Paragraph | doc.Table | str]] = []
    for value, n in found.groups.items():
        runs = [run for run in found.runs if found.by is None or (run[found.by] or "") == value]
        name = f"{found.by}: {value or 'none'}   {format_count(n, 'run')}"
        if len(runs) < n:
            name += f", {len(runs):,} shown"
        heading = [] if found.by is None else [doc.Paragraph(name)]
        sections.append([*heading, _tabulate(found.columns, runs)])
    said = f"{format_count(found.matching, 'run')} match" + ("es." if found.matching == 1 else ".")
    if len(found.runs) < found.matching:
        said = f"{said[:-1]}, {len(found.runs):,} shown; --limit 0 shows all."
    return [*sections, [doc.Paragraph(said)]]


def _tabulate(columns: Sequence[str], runs: Sequence[ListedRun]) -> doc.Table:
    heads = []
    for name in columns:
        label, _, unit = FIELDS.get(name, (name, "", ""))
        number = unit != "" or any(isinstance(run.more.get(name), float) for run in runs)
        heads.append(doc.TableColumn(label, number=number))
    rows = tuple(doc.make_row(*(_cell(name, run) for name in columns)) for run in runs)
    return doc.Table("runs", heads, rows, corner=heads[0].label)


def _cell(name: str, run: ListedRun) -> doc.TableCell:
    value = run[name]
    if name in COLUMNS and name != "run":
        return make_cell(name, run.figures, doc.Links()) or doc.TableCell("-")
    if value is None or isinstance(value, tuple):
        return doc.TableCell("-")
    if name == "started":
        return doc.TableCell(format_moment(int(value)))
    if isinstance(value, str):
        return doc.TableCell(run.handle if name == "run" else value)
    unit = "steps" if value == int(value) else words.UNITS.get(name, "")
    return doc.TableCell(format_number(value, unit))


def flatten_list(found: RunList) -> dict[str, Json]:
    """Return a list of runs as JSON has it: one flat record a run, with what to type for it."""
    runs: list[Json] = []
    for run in found.runs:
        figures = msgspec.to_builtins(run.figures)
        known = {key: None if said == "" else said for key, said in figures.items()}
        runs.append({**known, **run.more, "handle": run.handle})
    return {"matching": found.matching, "shown": len(runs), "runs": runs}


def format_moment(ns: int) -> str:
    """Return a moment in nanoseconds since 1970 to the second, in UTC."""
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // 10**9)
    return whole.strftime("%Y-%m-%d %H:%M:%S")
