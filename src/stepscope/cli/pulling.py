"""`stepscope import BACKEND:PLACE`: runs pulled from a tracing backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepscope import api, backends
from stepscope.api.adding import Added
from stepscope.api.reading import Filling
from stepscope.cli import terminal
from stepscope.errors import UsageError


def pulled(
    paths: Sequence[str],
    *,
    since: str | None,
    store: Path | None,
    filling: Filling,
) -> Added:
    """Pull one project into the store; return what came.

    Raises:
        UsageError: more than one place.
    """
    if len(paths) > 1:
        raise UsageError(f"{len(paths)} places are named; one command pulls from one backend")
    with api.open(store) as notebook, terminal.progress("pulling runs") as step:
        return backends.pull(
            notebook,
            paths[0],
            since=since,
            agent=filling.agent,
            agent_version=filling.agent_version,
            tags=filling.tags,
            progress=step,
        )
