"""`stepscope import BACKEND:PLACE`: runs pulled from a tracing backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stepscope import api, backends
from stepscope.cli import terminal
from stepscope.errors import UsageError


def pulled(
    paths: Sequence[str],
    *,
    since: str | None,
    store: Path | None,
    filling: tuple[str | None, str | None, Mapping[str, str]],
    files_only: Mapping[str, object],
    as_json: bool,
) -> int:
    """Pull one project into the store; return the exit code.

    Raises:
        UsageError: more than one place, or an option that is for files.
    """
    if len(paths) > 1:
        raise UsageError(f"{len(paths)} places are named; one command pulls from one backend")
    for name, value in files_only.items():
        if value:
            option = name.removesuffix("_name")
            raise UsageError(f"--{option} is for files; a backend says itself what its traces are")
    agent, agent_version, tags = filling
    with api.open(store) as notebook, terminal.progress("pulling runs") as step:
        added = backends.pull(
            notebook,
            paths[0],
            since=since,
            agent=agent,
            agent_version=agent_version,
            tags=tags,
            progress=step,
        )
    if as_json:
        terminal.out_json(added)
    else:
        terminal.out(str(added))
        terminal.hint("stepscope score", store)
    return 0
