"""`stepscope agree`: raters against raters, what is decided, and what to look at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import By, Json, Offline, Seed, Since, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api import Notebook

UNDECIDED = 4

Rubric = Annotated[
    str | None,
    typer.Option("--rubric", metavar="NAME", help="One rubric, or a set: axes. Default: all."),
]
Queue = Annotated[
    int | None,
    typer.Option(
        "--queue", min=1, metavar="N", help="List N runs and steps on which families disagree."
    ),
]


def agree(
    *,
    rubric: Rubric = None,
    where: WhereText = None,
    since: Since = None,
    by: By = None,
    seed: Seed = None,
    threshold: Annotated[
        float,
        typer.Option("--min", metavar="KAPPA", help="Sharpen a rubric whose kappa is below."),
    ] = 0.5,
    modes: Annotated[
        bool,
        typer.Option("--modes", help="Steps judged alone against the same steps in their run."),
    ] = False,
    queue: Queue = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --queue: print CSV.")] = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Compare raters: judges, the rules, people.

    For each rubric: raw agreement, kappa, AC1 and alpha of every two raters with intervals over
    runs, whether the rubric may be automated, and the steps most disputed. Exit code 4 when
    nothing could be decided.

    Example: stepscope agree --rubric axes --queue 10
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    _refuse(modes=modes, queue=queue, csv=csv, by=by, rubric=rubric, as_json=as_json)
    with existing(store) as notebook:
        if modes:
            return _modes(notebook, where=where, since=since, seed=seed, as_json=as_json)
        if queue is not None:
            found = notebook.disputes(rubric, where=where, since=since)
            if csv:
                terminal.out(found.csv(queue))
            else:
                terminal.out(found.json(queue) if as_json else found.text(queue, terminal.width()))
            return 0
        view = notebook.agreement(
            rubric, where=where, since=since, by=by, seed=seed, threshold=threshold
        )
        terminal.out(view.json() if as_json else view.text(terminal.width()))
        return 0 if view.measured else UNDECIDED


def _modes(
    notebook: Notebook, *, where: str | None, since: str | None, seed: int | None, as_json: bool
) -> int:
    from stepscope.cli import terminal

    view = notebook.modes(where=where, since=since, seed=seed)
    terminal.out(view.json() if as_json else view.text(terminal.width()))
    return 0 if view.value else UNDECIDED


def _refuse(
    *,
    modes: bool,
    queue: int | None,
    csv: bool,
    by: str | None,
    rubric: str | None,
    as_json: bool,
) -> None:
    """Refuse options that would change nothing.

    Raises:
        UsageError: there is one.
    """
    if modes and queue is not None:
        raise UsageError("--modes and --queue are two lists; ask for one")
    if modes and rubric is not None:
        raise UsageError("--modes compares whatever was judged in both modes; leave --rubric out")
    if by is not None and (modes or queue is not None):
        raise UsageError("--by groups the agreement; choose runs with --where here")
    if csv and (queue is None or as_json):
        raise UsageError("--csv is a form of --queue N, and not of --json")
