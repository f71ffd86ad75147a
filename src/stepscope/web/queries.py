"""What pages are made of: parameters of an address, and answers of the store read once each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from msgspec import structs
from starlette.datastructures import QueryParams
from starlette.requests import Request

from stepscope.api.reader import StoreReader
from stepscope.errors import UsageError
from stepscope.gates.looks import GateHistory, read_gate_history
from stepscope.report.build import build_report, read_chosen_runs
from stepscope.report.compare import compare_groups
from stepscope.report.rows import combine_conditions, hide_texts
from stepscope.report.types import ComparisonReport, Report
from stepscope.report.views.run import RunData, read_run
from stepscope.report.views.runs import RunListRow, RunQuery, make_run_rows
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import Where, parse_where


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Which runs a page speaks of, and how they are grouped, as the command line says it."""

    where: str = ""  # a filter, "" for all
    since: str = ""  # a date or an age, "" for all
    by: str = ""  # the field that makes groups, "" for the agents of each workflow

    @property
    def condition(self) -> Where | None:
        """The filter as the store reads it.

        Raises:
            UsageError: it makes no sense.
        """
        return parse_where(self.where) if self.where else None


def parse_choice(query: QueryParams) -> RunSelection:
    """Return what an address chooses."""
    return RunSelection(
        where=query.get("where", ""), since=query.get("since", ""), by=query.get("by", "")
    )


def parse_run_query(query: QueryParams) -> RunQuery:
    """Return which runs the table of an address shows, and how ordered."""
    return RunQuery(
        text=query.get("q", ""),
        outcome=query.get("outcome", ""),
        agent=query.get("agent", ""),
        workflow=query.get("workflow", ""),
        cell=query.get("cell", ""),
        sort=query.get("sort", ""),
        descending=query.get("desc") == "1",
        page=parse_whole_number(query, "page") or 0,
    )


def parse_whole_number(query: QueryParams, name: str) -> int | None:
    """Return a whole number from 0 of an address; None where it says none.

    Raises:
        UsageError: what it says is no such number.
    """
    text = query.get(name)
    if text is None or text == "":
        return None
    # More digits than any step or page has; Python refuses thousands of them itself.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(f"{name}={text!r} in the address: expected a whole number from 0")
    return int(text)


# Trials of one task that a run's page names.
MOST_TRIALS = 50


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The runs that an address chooses: the report over them, and a row for each."""

    report: Report
    runs: tuple[RunListRow, ...]


def get_reader(request: Request) -> StoreReader:
    """Return the one reader of the store."""
    return cast(StoreReader, request.app.state.reader)


def get_settings(request: Request) -> Settings:
    """Return the settings that hold for the store."""
    return cast(Settings, request.app.state.settings)


async def load_chosen(request: Request) -> ChosenRuns:
    """Return the report and the runs that an address chooses.

    Raises:
        UsageError: it chooses none, or its filter makes no sense.
    """
    asked = parse_choice(request.query_params)
    seed = get_settings(request).seed

    def made(store: Store) -> ChosenRuns:
        where, since = asked.condition, asked.since or None
        by = asked.by or None
        table = read_chosen_runs(store, where=where, since=since, by=by)
        report = build_report(store, where=where, since=since, by=by, seed=seed, table=table)
        return ChosenRuns(report, make_run_rows(table, store.shown))

    return await get_reader(request).ask_once(("chosen", asked), made)


async def load_comparison(request: Request, by: str, first: str, second: str) -> ComparisonReport:
    """Return two groups compared, over the runs that an address chooses.

    Raises:
        UsageError: one of them has no run, or the filter makes no sense.
    """
    asked = parse_choice(request.query_params)
    seed = get_settings(request).seed
    where = combine_conditions(asked.condition, asked.since or None)
    return await get_reader(request).ask_once(
        ("compare", asked, by, first, second),
        lambda store: compare_groups(store, first, second, by=by, where=where, seed=seed),
    )


async def load_run_data(request: Request, run: str) -> RunData:
    """Return a run with everything that is said of it.

    Raises:
        StoreError: its texts were purged.
        UsageError: no such run, or several.
    """
    return await get_reader(request).ask_once(("run", run), lambda store: read_run(store, run))


async def load_trials(request: Request, data: RunData) -> tuple[RunListRow, ...]:
    """Return the trials of a run's task, itself among them, without their figures."""
    run = data.trajectory
    if run.task is None:
        return ()
    condition = Where("runs.workflow = ? AND runs.task = ?", (run.workflow, run.task))

    def read(store: Store) -> tuple[RunListRow, ...]:
        found = store.runs(condition)
        rows = [RunListRow.of(found, at) for at in range(min(len(found), MOST_TRIALS))]
        names = hide_texts(store.shown, [row.name for row in rows])
        return tuple(structs.replace(row, name=name) for row, name in zip(rows, names, strict=True))

    return await get_reader(request).ask(read)


async def load_gate_history(request: Request) -> tuple[GateHistory, ...]:
    """Return baselines and looks by workflow, and what the chosen runs differ in from them."""
    asked = parse_choice(request.query_params)
    policies = get_settings(request).policies
    if not policies:
        return ()
    where = combine_conditions(asked.condition, asked.since or None)
    return await get_reader(request).ask(
        lambda store: read_gate_history(store, policies, where=where)
    )
