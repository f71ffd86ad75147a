"""What pages and downloads are made of, read once for each address until the store changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from stepscope.gates.kept import Kept, kept
from stepscope.report.build import LOOK_FIRST, both, build_from, read_chosen
from stepscope.report.compare import compare
from stepscope.report.pages.run_data import RunData, read_run
from stepscope.report.pages.runs import RunRow, run_rows
from stepscope.report.types import ComparisonReport, Report
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.web.asked import Choice, choice
from stepscope.web.reader import Reader

# Trials of one task that a run's page names.
MOST_TRIALS = 50


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs that an address chooses: the report over them, and a row for each."""

    report: Report
    runs: tuple[RunRow, ...]


def reader(request: Request) -> Reader:
    """Return the one reader of the store."""
    return cast(Reader, request.app.state.reader)


def settings(request: Request) -> Settings:
    """Return the settings that hold for the store."""
    return cast(Settings, request.app.state.settings)


async def chosen(request: Request) -> Chosen:
    """Return the report and the runs that an address chooses.

    Raises:
        UsageError: it chooses none, or its filter makes no sense.
    """
    asked = choice(request.query_params)
    seed = settings(request).seed

    def made(store: Store) -> Chosen:
        return _chosen(store, asked, seed)

    return await reader(request).ask_once(("chosen", asked), made)


def _chosen(store: Store, asked: Choice, seed: int) -> Chosen:
    where, since = asked.condition, asked.since or None
    by = asked.by or None
    table = read_chosen(store, where=where, since=since, by=by)
    report = build_from(
        store, table, where=where, since=since, by=by, seed=seed, look_first=LOOK_FIRST
    )
    return Chosen(report, run_rows(table))


async def comparison(request: Request, by: str, first: str, second: str) -> ComparisonReport:
    """Return two groups compared, over the runs that an address chooses.

    Raises:
        UsageError: one of them has no run, or the filter makes no sense.
    """
    asked = choice(request.query_params)
    seed = settings(request).seed

    def made(store: Store) -> ComparisonReport:
        chosen_by = both(asked.condition, asked.since or None)
        return compare(store, first, second, by=by, where=chosen_by, seed=seed)

    return await reader(request).ask_once(("compare", asked, by, first, second), made)


async def run_data(request: Request, run: str) -> RunData:
    """Return a run with everything that is said of it.

    Raises:
        StoreError: its texts were purged.
        UsageError: no such run, or several.
    """
    return await reader(request).ask_once(("run", run), lambda store: read_run(store, run))


async def same_task(request: Request, data: RunData) -> tuple[RunRow, ...]:
    """Return the trials of a run's task, itself among them, without their figures."""
    run = data.trajectory
    if run.task is None:
        return ()
    condition = Where("runs.workflow = ? AND runs.task = ?", (run.workflow, run.task))
    found = await reader(request).ask(lambda store: store.runs(condition))
    return tuple(RunRow.of(found, at) for at in range(min(len(found), MOST_TRIALS)))


async def kept_of_gates(request: Request) -> tuple[Kept, ...]:
    """Return baselines and looks by workflow, and what the chosen runs differ in from them."""
    asked = choice(request.query_params)
    policies = settings(request).policies

    def made(store: Store) -> tuple[Kept, ...]:
        return kept(store, policies, where=both(asked.condition, asked.since or None))

    return await reader(request).ask(made) if policies else ()
