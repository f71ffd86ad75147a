"""`stepscope report`: the vector, never one number, and the runs to look at first."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import By, Json, Offline, Seed, Since, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api import ReportView

UNMEASURED = 4

# What people call the one number that does not exist.
ONE_NUMBER = {"score", "total", "overall", "quality", "grade", "rating", "vector"}


def report(
    *,
    where: WhereText = None,
    since: Since = None,
    by: By = None,
    seed: Seed = None,
    look_first: Annotated[
        int,
        typer.Option("--look-first", min=0, metavar="N", help="How many runs to look at first."),
    ] = 10,
    get: Annotated[
        str | None,
        typer.Option(
            "--get",
            metavar="FIGURE",
            help="Print one figure with its interval, as outcome.pass; exit 4 if unmeasured.",
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    junit: Annotated[bool, typer.Option("--junit", help="Print JUnit XML.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Print outcome and path of the runs, each with error bar.

    Every figure has its interval, its n, and how many runs could not be measured. --store may
    also be a folder that export --verdicts --to parquet wrote; then no run can be opened.

    Example: stepscope report --where "agent = 'gpt-4o'" --json
    """
    from stepscope.cli import terminal

    if as_json + markdown + junit > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    view = _view(
        store, where=where, since=since, by=by, seed=seed, look_first=None if junit else look_first
    )
    if store is not None and not as_json:
        view = view.located(f"--store {shlex.quote(str(store))}")
    if get is not None:
        return _figure(view, get, as_json=as_json)
    if as_json:
        text = view.json()
    elif markdown:
        text = view.markdown()
    elif junit:
        text = view.junit()
    else:
        text = view.text(terminal.width())
    terminal.deliver(text, out)
    return 0


def _view(
    store: Path | None,
    *,
    where: str | None,
    since: str | None,
    by: str | None,
    seed: int | None,
    look_first: int | None,
) -> ReportView:
    """Return the report over a store, or over a folder of exported verdicts."""
    from stepscope.cli.stores import existing
    from stepscope.settings import load

    settings = load()
    if store is not None and store.is_dir():
        from stepscope.api.folders import report_folder

        drawn = settings.seed if seed is None else seed
        return report_folder(store, where=where, since=since, by=by, seed=drawn)
    with existing(store, settings) as notebook:
        return notebook.report(where=where, since=since, by=by, seed=seed, look_first=look_first)


def _figure(view: ReportView, key: str, *, as_json: bool) -> int:
    from stepscope.cli import terminal
    from stepscope.values import Unmeasured

    if key.lower() in ONE_NUMBER:
        terminal.out(view.text(terminal.width()))
        raise UsageError(
            f"--get {key!r}: there is no single number; one would hide the path behind the outcome "
            "or the outcome behind the path, so above is the vector; --get one of its figures"
        )
    figure = view[key]
    if as_json:
        terminal.out_json(figure)
    else:
        terminal.out(view.line(key))
    return UNMEASURED if isinstance(figure, Unmeasured) else 0
