"""The runs of a report as a table: one row a run, read from columns; no trace is opened.

The default order is that of `evidence.weigh_runs`. It is a reading order: no rate may be computed
on its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.report import words
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
from stepscope.report.rows import RunTable, combine_conditions, read_table
from stepscope.report.types import LookFirst
from stepscope.report.words import AXES, INCORRECT, describe_suspect
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
    """One run in few figures; None where a figure is not measured.

    Attributes:
        reached: share of the sub-goals that were reached.
        failed_calls: tool calls that failed.
        repeats: calls that ask again what is known.
        violations: rules of conduct broken.
        faults: axes at fault; None where no axis was scored.
    """

    id: str
    name: str
    workflow: str
    agent: str
    task: str
    trial: str
    outcome: str
    steps: int
    calls: int
    reached: float | None = None
    failed_calls: float | None = None
    repeats: float | None = None
    violations: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    faults: tuple[str, ...] | None = None

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
    """Which runs are shown, and how ordered: what the address says.

    Attributes:
        text: a part of a name, case not minded.
        outcome: "pass", "fail", "unknown"; "" for all.
        agent: an agent; "" for all.
        workflow: a workflow; "" for all.
        sort: a key of `WORDS` or `NUMBERS`; anything else is the order of `look_first`.
        descending: whether the order is turned round.
        page: which hundred, from 0.
    """

    text: str = ""
    outcome: str = ""
    agent: str = ""
    workflow: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 0


# The columns that runs can be ordered by, as words and as numbers.
WORDS: dict[str, Callable[[RunListRow], str]] = {
    "run": lambda row: row.name,
    "agent": lambda row: row.agent,
    "task": lambda row: row.task,
    "outcome": lambda row: row.outcome,
}
NUMBERS: dict[str, Callable[[RunListRow], float | None]] = {
    "steps": lambda row: row.steps,
    "calls": lambda row: row.calls,
    "reached": lambda row: row.reached,
    "failed": lambda row: row.failed_calls,
    "repeats": lambda row: row.repeats,
    "violations": lambda row: row.violations,
    "axes": lambda row: None if row.faults is None else len(row.faults),
    "cost": lambda row: row.cost_usd,
    "seconds": lambda row: row.seconds,
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
    if query.sort in WORDS:
        return sorted(chosen, key=WORDS[query.sort], reverse=query.descending)
    number = NUMBERS.get(query.sort)
    if number is None:
        return chosen
    known = [(value, row) for row in chosen if (value := number(row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=query.descending)
    return [row for _, row in known] + [row for row in chosen if number(row) is None]


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
    """A table of runs, what one may choose by, and where its other pages are.

    Attributes:
        shown: "1-100 of 20,000", or how many.
        server: whether the server chooses and orders; else the browser does.
    """

    table: Table
    query: RunQuery
    outcomes: tuple[str, ...]
    agents: tuple[str, ...]
    workflows: tuple[str, ...]
    shown: str
    before: str | None
    after: str | None
    server: bool


def make_run_list(runs: Sequence[RunListRow], query: RunQuery, links: Links) -> RunList:
    """Return the runs that a query chooses; on a server one page of them."""
    server = links.runs() is not None
    chosen = select_runs(runs, query)
    first = min(query.page * PAGE_SIZE, max(len(chosen) - 1, 0)) // PAGE_SIZE * PAGE_SIZE
    shown = chosen[first : first + PAGE_SIZE] if server else chosen
    here = first // PAGE_SIZE
    more = server and first + PAGE_SIZE < len(chosen)
    counted = (
        f"{len(chosen):,} of {len(runs):,} runs"
        if len(chosen) < len(runs)
        else f"{len(runs):,} runs"
    )
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
        columns=tuple(_column(name, links, asked) for name in kept),
        rows=tuple(
            TableRow(
                cells=tuple(
                    _cell(name, row, links) or TableCell(text="-", tone="quiet") for name in kept
                ),
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


# Key, label, whether it holds numbers.
COLUMNS: dict[str, tuple[str, bool]] = {
    "run": ("run", False),
    "outcome": ("outcome", False),
    "agent": ("agent", False),
    "task": ("task", False),
    "steps": ("steps", True),
    "calls": ("calls", True),
    "reached": ("sub-goals", True),
    "failed": ("failed calls", True),
    "repeats": ("repeats", True),
    "violations": ("rules broken", True),
    "axes": ("axes at fault", False),
    "cost": ("cost", True),
    "seconds": ("seconds", True),
}


def _column(name: str, links: Links, query: RunQuery) -> TableColumn:
    label, number = COLUMNS[name]
    here = query.sort == name
    return TableColumn(
        key=name,
        label=label,
        number=number,
        href=_address(links, query, sort=name, descending=not query.descending if here else number),
        order="" if not here else "descending" if query.descending else "ascending",
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
    match name:
        case "run":
            return TableCell(text=row.name, href=links.run(row.id))
        case "outcome":
            return TableCell(text=row.outcome, tone=TONES.get(row.outcome, "quiet"))
        case "agent" | "task":
            text: str = getattr(row, name)
            return TableCell(text=text) if text else None
        case "axes":
            return (
                None
                if row.faults is None
                else TableCell(text=", ".join(row.faults), sort=len(row.faults))
            )
        case "steps" | "calls":
            count: int = getattr(row, name)
            return TableCell(text=f"{count:,}", sort=count)
        case _:
            return _number(name, row)


_NUMBERS = {
    "reached": ("reached", "share"),
    "failed": ("failed_calls", "steps"),
    "repeats": ("repeats", "steps"),
    "violations": ("violations", "steps"),
    "cost": ("cost_usd", "cost_usd"),
    "seconds": ("seconds", "seconds"),
}


def _number(name: str, row: RunListRow) -> TableCell | None:
    field, unit = _NUMBERS[name]
    value: float | None = getattr(row, field)
    if value is None:
        return None
    quiet: Tone = "quiet" if value == 0 else ""
    return TableCell(text=words.format_number(unit, value), sort=value, tone=quiet)


def _values(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in found if value}))
