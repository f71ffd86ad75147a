"""`stepscope import`: read traces of any known format into the store."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError

# What names a backend; `stepscope.backends` is loaded only where one is named.
_BACKEND = re.compile(r"(langfuse|langsmith|mlflow|phoenix):").match


def import_(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATHS",
            help="Files, folders, globs, zips; - is stdin. Or one of langfuse:[PROJECT], "
            "langsmith:PROJECT, mlflow:EXPERIMENT, phoenix:PROJECT.",
        ),
    ] = None,
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
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="With a backend: traces that began since then (7d, 12h, 2026-01-31), or last: "
            "what came in since the previous pull. Default: all.",
        ),
    ] = None,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen", help="Receive OTLP/HTTP at PATHS, one HOST:PORT. Default: 127.0.0.1:4318."
        ),
    ] = False,
    quiet: Annotated[
        float | None,
        typer.Option(
            "--quiet",
            min=0,
            metavar="SECONDS",
            help="With --listen: a run ends when its root has ended and no span came for so long. "
            "Default: of stepscope.toml, 6.",
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            "--idle",
            min=0,
            metavar="SECONDS",
            help="With --listen: any run ends when no span came for so long. Default: of "
            "stepscope.toml, 600.",
        ),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="With --listen: traces without an agent are runs.")
    ] = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Read recorded runs into the store.

    One line for each file says what was read, mended and set aside. A file imported twice
    changes nothing. A record that cannot be read is set aside and counted. With --listen runs come
    in as they happen, over OTLP/HTTP, until Ctrl-C: each is kept and scored when it ends. From a
    tracing backend runs are pulled; the variables of its own SDK say where it is and hold the key.

    Example: stepscope import runs/ --agent gpt-4o --tag experiment=a

    Example: stepscope import phoenix:my-project --since last

    Example: stepscope import --listen 127.0.0.1:4318
    """
    tags = _tags(tag or [])
    if listen:
        _refuse_beside_listen(format_name=format_name, strict=strict, workers=workers, since=since)
        from stepscope.api.reading import Filling
        from stepscope.cli.listening import receive

        return receive(
            paths or [],
            store=store,
            filling=Filling(agent, agent_version, tags),
            quiet=quiet,
            idle=idle,
            keep_all=keep_all,
            as_json=as_json,
        )
    _refuse_without_listen(quiet=quiet, idle=idle, keep_all=keep_all)
    if not paths:
        raise UsageError(
            "nothing to import: name files, folders or globs, or receive with --listen"
        )
    from stepscope import api
    from stepscope.cli import terminal

    if any(_BACKEND(path) for path in paths):
        from stepscope.cli.pulling import pulled

        files_only = {"format_name": format_name, "strict": strict, "workers": workers}
        return pulled(
            paths,
            since=since,
            store=store,
            filling=(agent, agent_version, tags),
            files_only=files_only,
            as_json=as_json,
        )
    if since is not None:
        raise UsageError("--since is for backends, as in: stepscope import phoenix:default")
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
    return 0


def _refuse_beside_listen(**asked: object) -> None:
    for name, value in asked.items():
        if value:
            option = name.removesuffix("_name")
            raise UsageError(
                f"--{option} is for files; --listen reads nothing but OTLP, as it comes"
            )


def _refuse_without_listen(**asked: object) -> None:
    for name, value in asked.items():
        if value is not None and value is not False:
            raise UsageError(f"--{name.replace('_', '-')} is for runs that come in with --listen")


def _tags(pairs: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"--tag {pair!r}: expected KEY=VALUE, as --tag experiment=a")
        tags[key] = value
    return tags
