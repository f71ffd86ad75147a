"""The runs of a report as one table: columns that anything was measured for, filters, pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stepscope.report import lines
from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Cell, Column, Empty, Row, Table, Tone
from stepscope.report.pages.runs import PAGE_SIZE, RunQuery, RunRow, select

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


def run_list(runs: Sequence[RunRow], query: RunQuery, links: Links) -> RunList:
    """Return the runs that a query chooses; on a server one page of them."""
    server = links.runs() is not None
    chosen = select(runs, query)
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
        table=table(shown, runs, links, query),
        query=query,
        outcomes=_values(row.outcome for row in runs),
        agents=_values(row.agent for row in runs),
        workflows=_values(row.workflow for row in runs),
        shown=f"{first + 1:,}-{first + len(shown):,} of {counted}" if more or first else counted,
        before=_address(links, query, page=here - 1) if here else None,
        after=_address(links, query, page=here + 1) if more else None,
        server=server,
    )


def table(
    shown: Sequence[RunRow], runs: Sequence[RunRow], links: Links, query: RunQuery | None = None
) -> Table:
    """Return a table of `shown`, with the columns that any of `runs` has something in."""
    asked = query or RunQuery()
    kept = [name for name in COLUMNS if any(_cell(name, row, links) is not None for row in runs)]
    return Table(
        id="runs",
        caption="Runs",
        columns=tuple(_column(name, links, asked) for name in kept),
        rows=tuple(
            Row(
                cells=tuple(
                    _cell(name, row, links) or Cell(text="-", tone="quiet") for name in kept
                ),
                match=row.name,
                facets={"outcome": row.outcome, "agent": row.agent, "workflow": row.workflow},
            )
            for row in shown
        ),
        empty=Empty(
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


def _column(name: str, links: Links, query: RunQuery) -> Column:
    label, number = COLUMNS[name]
    here = query.sort == name
    return Column(
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


def _cell(name: str, row: RunRow, links: Links) -> Cell | None:
    """Return one cell; None where there is nothing to say."""
    match name:
        case "run":
            return Cell(text=row.name, href=links.run(row.id))
        case "outcome":
            return Cell(text=row.outcome, tone=TONES.get(row.outcome, "quiet"))
        case "agent" | "task":
            text: str = getattr(row, name)
            return Cell(text=text) if text else None
        case "axes":
            return (
                None
                if row.faults is None
                else Cell(text=", ".join(row.faults), sort=len(row.faults))
            )
        case "steps" | "calls":
            count: int = getattr(row, name)
            return Cell(text=f"{count:,}", sort=count)
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


def _number(name: str, row: RunRow) -> Cell | None:
    field, unit = _NUMBERS[name]
    value: float | None = getattr(row, field)
    if value is None:
        return None
    quiet: Tone = "quiet" if value == 0 else ""
    return Cell(text=lines.number(unit, value), sort=value, tone=quiet)


def _values(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in found if value}))
