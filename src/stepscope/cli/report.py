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

    Every figure has its interval, its n, and how many runs could not be measured.

    Example: stepscope report --where "agent = 'gpt-4o'" --json
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    if as_json + markdown + junit > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    with existing(store) as notebook:
        view = notebook.report(
            where=where, since=since, by=by, seed=seed, look_first=None if junit else look_first
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
