"""`stepscope import`: read traces of any known format into the store."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError


def import_(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATHS", help="Files, folders, globs, zips; - is stdin."),
    ],
    *,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The format. Default: told from the content.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent, where a trace names none.")
    ] = None,
    agent_version: Annotated[
        str | None, typer.Option("--agent-version", help="Its version, where a trace names none.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="K=V", help="A tag; repeatable.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Keep nothing unless everything could be read as it is."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes. Default: one a core for many runs."),
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Read recorded runs into the store.

    One line for each file says what was read, mended and set aside. A file imported twice
    changes nothing. A record that cannot be read is set aside and counted.

    Example: stepscope import runs/ --agent gpt-4o --tag experiment=a
    """
    tags = _tags(tag or [])

    from stepscope import api
    from stepscope.cli import terminal

    with api.open(store) as notebook, terminal.progress("reading runs") as step:
        added = notebook.add(
            paths,
            agent=agent,
            agent_version=agent_version,
            tags=tags,
            format_name=format_name,
            strict=strict,
            workers=workers,
            progress=step,
        )
    if as_json:
        terminal.out_json(added)
    else:
        terminal.out(str(added))
        terminal.hint("stepscope score", store)


def _tags(pairs: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"--tag {pair!r}: expected KEY=VALUE, as --tag experiment=a")
        tags[key] = value
    return tags
