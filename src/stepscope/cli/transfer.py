"""Import and export beyond files: listening, and backends in both directions.

Loaded only when such an option is given: the backends and the receiver cost start-up time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stepscope import api, backends, safety
from stepscope.backends.send import Sent, What
from stepscope.cli import terminal
from stepscope.cli.options import open_existing
from stepscope.errors import UsageError
from stepscope.safety.text import visible_line
from stepscope.score.importing import Added, RunDefaults


def receive_runs(
    places: Sequence[str],
    *,
    quiet: float | None,
    idle: float | None,
    keep_all: bool,
    store: Path | None,
    filling: RunDefaults,
    as_json: bool,
) -> int:
    """Receive until Ctrl-C, a line for each run; with `as_json` an object a line."""
    import msgspec

    from stepscope.receive import server
    from stepscope.receive.closing import ReceiverEvent
    from stepscope.receive.listening import ReceiverOptions, run_receiver
    from stepscope.settings import load_settings

    if len(places) > 1:
        raise UsageError(f"--listen takes one HOST:PORT, got {len(places)}: {' '.join(places)}")
    settings = load_settings()
    token = os.environ.get(server.TOKEN_VARIABLE) or None
    host, port = server.parse_address(places[0] if places else None, token)

    def tell(event: ReceiverEvent) -> None:
        # Lines are read while they come, also through a pipe.
        said = msgspec.json.encode(event).decode() if as_json else visible_line(event.line())
        sys.stdout.write(safety.scrub_message(said) + "\n")
        sys.stdout.flush()

    plan = ReceiverOptions(
        host=host,
        port=port,
        token=token,
        quiet_seconds=settings.listen.quiet_seconds if quiet is None else quiet,
        idle_seconds=settings.listen.idle_seconds if idle is None else idle,
        filling=filling,
        keep_all=keep_all,
    )
    run_receiver(settings.store if store is None else str(store), settings, plan, tell)
    return 0


def pull_runs(
    paths: Sequence[str], *, since: str | None, store: Path | None, filling: RunDefaults
) -> Added:
    """Pull one project into the store; return what came."""
    if len(paths) > 1:
        raise UsageError(f"{len(paths)} places are named; one command pulls from one backend")
    with api.open(store) as notebook, terminal.show_progress("pulling runs") as step:
        return backends.pull(
            notebook,
            paths[0],
            since=since,
            agent=filling.agent,
            agent_version=filling.agent_version,
            tags=filling.tags,
            workflow=filling.workflow,
            progress=step,
        )


_WHAT: dict[str | None, What] = {None: "both", "none": "runs", "only": "verdicts"}


def send_to_backend(
    to: str,
    *,
    out: str | None,
    only: str | None,
    again: bool,
    where: str | None,
    since: str | None,
    store: Path | None,
) -> Sent:
    """Send the chosen runs, their verdicts, or both."""
    if out is not None:
        raise UsageError(f"{out!r} and --to {to!r}: write to a file, or send to a backend")
    if only not in _WHAT:
        raise UsageError(f"--verdicts {only} is for files; with --to choose only or none")
    with open_existing(store) as notebook, terminal.show_progress("sending runs") as step:
        return backends.send(
            notebook, to, what=_WHAT[only], where=where, since=since, again=again, progress=step
        )
