"""`stepscope purge`: erase the texts of old runs, keep the numbers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath, WhereText
from stepscope.errors import UsageError


def purge(
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Runs stored longer ago: 30d, 12h."),
    ] = None,
    where: WhereText = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Erase the texts of old runs, keep the numbers.

    Texts, raw replies, blobs and quarantine go; what remains is listed.

    Example: stepscope purge --older-than 90d --yes
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    if older_than is None and where is None:
        raise UsageError("purge needs --older-than or --where (every run: --where \"id != ''\")")
    with existing(store) as notebook:
        n = notebook.count(where=where, older_than=older_than)
        if not yes:
            _ask(n)
        purged = notebook.purge(where=where, older_than=older_than)
    if as_json:
        terminal.out_json(purged)
    else:
        terminal.out(str(purged))


def _ask(n: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"purge would erase the texts of {n:,} runs for good; confirm with --yes")
    typer.confirm(f"Erase the texts of {n:,} runs, and quarantine, for good?", abort=True, err=True)
