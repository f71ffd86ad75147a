"""`stepscope report`: the vector, never one number, and the runs to look at first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stepscope.cli.options import By, Json, Offline, Seed, Since, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api import ReportView

UNMEASURED = 4
# Runs whose steps are in the page unless it is said otherwise.
EMBED = 25

# What people call the one number that does not exist.
ONE_NUMBER = {"score", "total", "overall", "quality", "grade", "rating", "vector"}

Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write every page to one file; needs no server."),
]
Embed = Annotated[
    str | None,
    typer.Option("--embed", metavar="N", help="Of how many runs the steps are in it: 25, or all."),
]
Gates = Annotated[
    list[Path] | None,
    typer.Option("--gates", metavar="FILE", help="What gate --json wrote; the latest last."),
]
Plots = Annotated[
    Path | None, typer.Option("--plots", metavar="DIR", help="Write the charts as PNG and SVG.")
]


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
    html: Html = None,
    embed: Embed = None,
    gates: Gates = None,
    plots: Plots = None,
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
    --by step_agent makes a group of each agent that the steps of runs name.

    Example: stepscope report --where "agent = 'gpt-4o'" --html report.html
    """
    from stepscope.cli import terminal

    if html is None and (embed is not None or gates):
        raise UsageError("--embed and --gates are about the page: say --html FILE as well")
    if as_json + markdown + junit > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    located = "" if store is None or as_json else f"--store {shlex.quote(str(store))}"
    most = None if junit else look_first
    with _view(store, where=where, since=since, by=by, seed=seed, look_first=most) as found:
        view = found.located(located) if located else found
        if html is not None or plots is not None:
            return _files(view, html, plots, embed=_embed(embed), gates=gates or ())
    if get is not None:
        return _figure(view, get, as_json=as_json)
    forms = {view.json: as_json, view.markdown: markdown, view.junit: junit}
    form = next((form for form, asked in forms.items() if asked), None)
    terminal.deliver(view.text(terminal.width()) if form is None else form(), out)
    return 0


@contextmanager
def _view(
    store: Path | None,
    *,
    where: str | None,
    since: str | None,
    by: str | None,
    seed: int | None,
    look_first: int | None,
) -> Iterator[ReportView]:
    """Give the report over a store, or over a folder of exported verdicts, while it is open."""
    from stepscope.cli.stores import existing
    from stepscope.settings import load

    settings = load()
    if store is not None and store.is_dir():
        from stepscope.api.folders import report_folder

        drawn = settings.seed if seed is None else seed
        yield report_folder(store, where=where, since=since, by=by, seed=drawn)
        return
    with existing(store, settings) as notebook:
        yield notebook.report(where=where, since=since, by=by, seed=seed, look_first=look_first)


def _embed(text: str | None) -> int | Literal["all"]:
    """Return of how many runs the steps are embedded.

    Raises:
        UsageError: it is neither a number from 0 nor "all".
    """
    if text is None:
        return EMBED
    if text == "all":
        return "all"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"--embed {text!r}: expected a number from 0, or all")
    return int(text)


def _files(
    view: ReportView,
    html: Path | None,
    plots: Path | None,
    *,
    embed: int | Literal["all"],
    gates: Sequence[Path],
) -> int:
    from stepscope.cli import terminal

    if html is not None:
        terminal.note(f"wrote {view.html(html, embed=embed, gates=gates)}")
    for path in () if plots is None else view.plots(plots):
        terminal.note(f"wrote {path}")
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
