"""The runs of a report as a table: one row a run, read from columns; no trace is opened.

The default order is that of `evidence.weigh_runs`. It is a reading order: no rate may be computed
on its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.report.document import (
    EmptyNotice,
    Links,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
)
from stepscope.report.evidence import weigh_runs
from stepscope.report.formatting import AXES, INCORRECT, describe_suspect, format_number
from stepscope.report.rows import RunTable, combine_conditions, read_table
from stepscope.report.types import LookFirst
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where

OUTCOME: dict[str, Tone] = {"pass": "good", "fail": "bad", "unknown": "quiet", "undecided": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFirstView:
    """A run to look at first: where in it, why, and the address of that step."""

    name: str
    outcome: str
    tone: Tone
    steps: str
    where: str
    evidence: str
    href: str | None
    command: str


def view_look_first(run: LookFirst, links: Links) -> LookFirstView:
    """Return where to look in a run, and why."""
    where, said = describe_suspect(run)
    step = run.suspects[0].first if run.suspects else None
    return LookFirstView(
        name=run.name,
        outcome=run.outcome,
        tone=OUTCOME[run.outcome],
        steps=f"{run.steps:,}",
        where=where,
        evidence=said,
        href=links.run(run.id, step),
        command=run.command,
    )


# Rows of one page of runs on the server.
PAGE_SIZE = 100


class RunListRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run in few figures; None where a figure is not measured."""

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

    @classmethod
    def of(cls, runs: Runs, at: int) -> RunListRow:
        """Return the row of one run in columns, nothing measured."""
        return cls(
            id=runs.id[at],
            name=runs.name[at],
            workflow=runs.workflow[at],
            agent=runs.agent[at] or "",
            task=runs.task[at] or "",
            trial=runs.trial[at] or "",
            outcome=runs.outcome[at],
            steps=int(runs.steps[at]),
            calls=int(runs.calls[at]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs are shown, and how ordered: what the address says."""

    text: str = ""  # a part of a name, case not minded
    outcome: str = ""  # "pass", "fail", "unknown"; "" for all
    agent: str = ""  # an agent; "" for all
    workflow: str = ""  # a workflow; "" for all
    sort: str = ""  # a key of `COLUMNS`; anything else is the order of `look_first`
    descending: bool = False  # whether the order is turned round
    page: int = 0  # which hundred, from 0


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
    "cost": ("cost", "cost_usd", "cost_usd"),
    "seconds": ("seconds", "seconds", "seconds"),
}


def read_runs(
    rows: Rows, *, where: Where | None = None, since: str | None = None
) -> tuple[RunListRow, ...]:
    """Return a row for each chosen run, most telling first.

    Raises:
        StoreError: versions of a measure are mixed.
    """
    return make_run_rows(read_table(rows, combine_conditions(where, since)))


def make_run_rows(table: RunTable) -> tuple[RunListRow, ...]:
    """Return the same from rows that are already read."""
    return tuple(_rows(table))


def select_runs(runs: Sequence[RunListRow], query: RunQuery) -> list[RunListRow]:
    """Return the runs that a query chooses, in its order; what is not measured comes last."""
    text = query.text.casefold()
    chosen = [
        row
        for row in runs
        if text in row.name.casefold()
        and query.outcome in ("", row.outcome)
        and query.agent in ("", row.agent)
        and query.workflow in ("", row.workflow)
    ]
    if query.sort not in COLUMNS:
        return chosen
    field = COLUMNS[query.sort][1]
    values = [getattr(row, field) for row in chosen]
    if query.sort == "axes":
        values = [None if faults is None else len(faults) for faults in values]
    known = [(value, row) for value, row in zip(values, chosen, strict=True) if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=query.descending)
    absent = [row for value, row in zip(values, chosen, strict=True) if value is None]
    return [row for _, row in known] + absent


def _rows(table: RunTable) -> Iterator[RunListRow]:
    found = weigh_runs(table)
    order = sorted(range(len(table)), key=lambda at: -float(found[at]))
    numbers = {
        name: _numbers(table, measure)
        for name, measure in (
            ("reached", "subgoals"),
            ("failed_calls", "errors"),
            ("repeats", "redundant_calls.count"),
            ("violations", "policy"),
            ("cost_usd", "efficiency.cost_usd"),
            ("seconds", "efficiency.seconds"),
        )
    }
    axes = [(name, table.columns[key]) for key, name in AXES.items() if table.scored(key)]
    for at in order:
        faults = tuple(name for name, column in axes if column.label[at] == INCORRECT)
        yield msgspec.structs.replace(
            RunListRow.of(table.runs, at),
            faults=faults if axes else None,
            **{name: values[at] for name, values in numbers.items()},
        )


def _numbers(table: RunTable, measure: str) -> list[float | None]:
    column = table.columns[measure]
    pairs = zip(column.value.tolist(), column.valued.tolist(), strict=True)
    return [value if valued else None for value, valued in pairs]


TONES: dict[str, Tone] = {"pass": "good", "fail": "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """A table of runs, what one may choose by, and where its other pages are."""

    table: Table
    query: RunQuery
    outcomes: tuple[str, ...]
    agents: tuple[str, ...]
    workflows: tuple[str, ...]
    shown: str  # "1-100 of 20,000", or how many
    before: str | None
    after: str | None
    server: bool  # whether the server chooses and orders; else the browser does


def make_run_list(runs: Sequence[RunListRow], query: RunQuery, links: Links) -> RunList:
    """Return the runs that a query chooses; on a server one page of them."""
    server = links.runs() is not None
    chosen = select_runs(runs, query)
    first = min(query.page * PAGE_SIZE, max(len(chosen) - 1, 0)) // PAGE_SIZE * PAGE_SIZE
    shown = chosen[first : first + PAGE_SIZE] if server else chosen
    here = first // PAGE_SIZE
    more = server and first + PAGE_SIZE < len(chosen)
    counted = f"{len(chosen):,} of " if len(chosen) < len(runs) else ""
    counted += f"{len(runs):,} runs"
    return RunList(
        table=tabulate_runs(shown, runs, links, query),
        query=query,
        outcomes=_values(row.outcome for row in runs),
        agents=_values(row.agent for row in runs),
        workflows=_values(row.workflow for row in runs),
        shown=f"{first + 1:,}-{first + len(shown):,} of {counted}" if more or first else counted,
        before=_address(links, query, page=here - 1) if here else None,
        after=_address(links, query, page=here + 1) if more else None,
        server=server,
    )


def tabulate_runs(
    shown: Sequence[RunListRow],
    runs: Sequence[RunListRow],
    links: Links,
    query: RunQuery | None = None,
) -> Table:
    """Return a table of `shown`, with the columns that any of `runs` has something in."""
    asked = query or RunQuery()
    kept = [name for name in COLUMNS if any(_cell(name, row, links) is not None for row in runs)]
    return Table(
        id="runs",
        caption="Runs",
        columns=tuple(
            TableColumn(
                COLUMNS[name][0],
                number=bool(COLUMNS[name][2]),
                href=_address(
                    links,
                    asked,
                    sort=name,
                    descending=not asked.descending
                    if asked.sort == name
                    else bool(COLUMNS[name][2]),
                ),
                order=""
                if asked.sort != name
                else "descending"
                if asked.descending
                else "ascending",
            )
            for name in kept
        ),
        rows=tuple(
            TableRow(
                tuple(_cell(name, row, links) or TableCell("-", tone="quiet") for name in kept),
                match=row.name,
                facets={"outcome": row.outcome, "agent": row.agent, "workflow": row.workflow},
            )
            for row in shown
        ),
        empty=EmptyNotice(
            said="No run is so. Clear the filter, or read more runs.",
            commands=("stepscope import PATHS",),
        ),
    )


def _address(
    links: Links,
    query: RunQuery,
    *,
    page: int = 0,
    sort: str | None = None,
    descending: bool | None = None,
) -> str | None:
    turned = query.descending if descending is None else descending
    return links.runs(
        q=query.text,
        outcome=query.outcome,
        agent=query.agent,
        workflow=query.workflow,
        sort=query.sort if sort is None else sort,
        desc="1" if turned else "",
        page=str(page) if page else "",
    )


def _cell(name: str, row: RunListRow, links: Links) -> TableCell | None:
    """Return one cell; None where there is nothing to say."""
    _, field, unit = COLUMNS[name]
    value = getattr(row, field)
    if value is None or value == "":
        return None
    if name == "axes":
        return TableCell(", ".join(value), sort=len(value))
    if not unit:
        href = links.run(row.id) if name == "run" else None
        return TableCell(
            value, href=href, tone=TONES.get(value, "quiet") if name == "outcome" else ""
        )
    return TableCell(format_number(unit, value), sort=value, tone="" if value else "quiet")


def _values(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in found if value}))
