"""`stepscope score`: give every run its verdicts; never spends, resumes."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, Since, StorePath, WhereText


def score(
    *,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="NAME", help="Only this measure; repeatable."),
    ] = None,
    where: WhereText = None,
    since: Since = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes. Default: one a core.")
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Give every run its verdicts; never spends.

    Deterministic. Runs that have their verdicts are left alone, so a stopped command resumes.

    Example: stepscope score --where "workflow = 'airline'"
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    with existing(store) as notebook, terminal.progress("scoring runs") as step:
        scored = notebook.score(
            where=where, since=since, measures=measure, workers=workers, progress=step
        )
    if as_json:
        terminal.out_json(scored)
    else:
        terminal.out(str(scored))
        terminal.hint("stepscope report", store)
