"""`stepscope compare`: two agents, paired by case."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, Seed, Since, StorePath, WhereText


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="What is compared: a value of --by.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    *,
    by: Annotated[
        str, typer.Option("--by", metavar="FIELD", help="The field whose values A and B are.")
    ] = "agent",
    where: WhereText = None,
    since: Since = None,
    seed: Seed = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Compare two agents, paired by task.

    Every difference has its interval; with many at once, the p values are adjusted.

    Example: stepscope compare gpt-4o gpt-4o-v2
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    with existing(store) as notebook:
        compared = notebook.compare(a, b, by=by, where=where, since=since, seed=seed)
    if as_json:
        terminal.out(compared.json())
    elif markdown:
        terminal.out(compared.markdown())
    else:
        terminal.out(compared.text(terminal.width()))
