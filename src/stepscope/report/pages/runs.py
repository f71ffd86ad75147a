"""The runs of a report as rows of a table: read from columns, no trace is opened.

The order that nobody asked for is that of `look_first`: what the rules found weighs most. It is a
reading order, and no rate may be computed on its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.report.axes import INCORRECT
from stepscope.report.build import both
from stepscope.report.keys import AXES
from stepscope.report.look_first import weights
from stepscope.report.rows import Table, read
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where

# Rows of one page of runs on the server.
PAGE_SIZE = 100


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    def of(cls, runs: Runs, at: int) -> RunRow:
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
WORDS: dict[str, Callable[[RunRow], str]] = {
    "run": lambda row: row.name,
    "agent": lambda row: row.agent,
    "task": lambda row: row.task,
    "outcome": lambda row: row.outcome,
}
NUMBERS: dict[str, Callable[[RunRow], float | None]] = {
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
) -> tuple[RunRow, ...]:
    """Return a row for each chosen run, most telling first.

    Raises:
        StoreError: versions of a measure are mixed.
    """
    return run_rows(read(rows, both(where, since)))


def run_rows(table: Table) -> tuple[RunRow, ...]:
    """Return the same from rows that are already read."""
    return tuple(_rows(table))


def select(runs: Sequence[RunRow], query: RunQuery) -> list[RunRow]:
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


def _rows(table: Table) -> Iterator[RunRow]:
    found = weights(table)
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
            RunRow.of(table.runs, at),
            faults=faults if axes else None,
            **{name: values[at] for name, values in numbers.items()},
        )


def _numbers(table: Table, measure: str) -> list[float | None]:
    column = table.columns[measure]
    pairs = zip(column.value.tolist(), column.valued.tolist(), strict=True)
    return [value if valued else None for value, valued in pairs]
