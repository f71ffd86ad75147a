"""What pages and downloads are made of, read once for each address until the store changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from stepscope.report.build import build
from stepscope.report.pages.run_data import RunData, read_run
from stepscope.report.pages.runs import RunRow, read_runs
from stepscope.report.types import Report
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.web.asked import Choice, choice
from stepscope.web.reader import Reader


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
    report = build(store, where=where, since=since, by=asked.by or None, seed=seed)
    return Chosen(report, read_runs(store, where=where, since=since))


async def run_data(request: Request, run: str) -> RunData:
    """Return a run with everything that is said of it.

    Raises:
        StoreError: its texts were purged.
        UsageError: no such run, or several.
    """
    return await reader(request).ask_once(("run", run), lambda store: read_run(store, run))
