"""`stepscope export --to BACKEND`: runs and verdicts to a tracing backend."""

from __future__ import annotations

from pathlib import Path

from stepscope import backends
from stepscope.backends.sending import What
from stepscope.cli import terminal
from stepscope.cli.stores import existing
from stepscope.errors import UsageError

_WHAT: dict[str | None, What] = {None: "both", "none": "runs", "only": "verdicts"}


def sent(
    to: str,
    *,
    out: str | None,
    only: str | None,
    again: bool,
    chosen: tuple[str | None, str | None],
    store: Path | None,
    as_json: bool,
) -> None:
    """Send the chosen runs, their verdicts, or both.

    Raises:
        UsageError: a file is named, too, or verdicts are wanted in words that are for files.
    """
    if out is not None:
        raise UsageError(f"{out!r} and --to {to!r}: write to a file, or send to a backend")
    if only not in _WHAT:
        raise UsageError(f"--verdicts {only} is for files; with --to choose only or none")
    where, since = chosen
    with existing(store) as notebook, terminal.progress("sending runs") as step:
        told = backends.send(
            notebook,
            to,
            what=_WHAT[only],
            where=where,
            since=since,
            again=again,
            progress=step,
        )
    if as_json:
        terminal.out_json(told)
    else:
        terminal.out(str(told))
