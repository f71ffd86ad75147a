"""`stepscope export`: runs and verdicts out."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscope.cli.options import (
    ExportFormat,
    ExportVerdicts,
    Json,
    Offline,
    Since,
    StorePath,
    WhereText,
)
from stepscope.errors import UsageError


def export(
    out: Annotated[
        str | None,
        typer.Argument(metavar="OUT", help="A file, a folder for ATIF, or - for stdout."),
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="BACKEND",
            help="Send to a tracing backend instead: langfuse:, langsmith:PROJECT, "
            "mlflow:EXPERIMENT or phoenix:PROJECT.",
        ),
    ] = None,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="The format to write.")
    ] = ExportFormat.ours,
    verdicts: Annotated[
        ExportVerdicts | None,
        typer.Option(
            "--verdicts",
            help="only: verdicts instead of runs (ours a file, parquet a folder). gen_ai, "
            "openinference: on the spans of OTLP, as events or attributes. Default: gen_ai for "
            "otlp, else none. With --to: only or none; both runs and verdicts when left out.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what is there; send again.")
    ] = False,
    where: WhereText = None,
    since: Since = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Write runs or verdicts for other programs, or send them.

    A backend gets runs as OTLP and verdicts as evaluations on the spans that they are about; the
    variables of its own SDK say where it is and hold the key. Sending twice changes nothing.

    Example: stepscope export runs.otlp.jsonl --format otlp --where "outcome = 'fail'"

    Example: stepscope export --to phoenix:my-project --verdicts only
    """
    if to is not None:
        from stepscope.cli.sending import sent

        only = None if verdicts is None else verdicts.value
        return sent(
            to, out=out, only=only, again=force, chosen=(where, since), store=store, as_json=as_json
        )
    if out is None:
        raise UsageError("nowhere to write to: name a file, or a backend with --to")
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    with existing(store) as notebook, terminal.progress("writing runs") as step:
        exported = notebook.export(
            out,
            format=format_.value,
            verdicts=None if verdicts is None else verdicts.value,
            force=force,
            where=where,
            since=since,
            progress=step,
        )
    # On stdout the account would mix with the runs themselves.
    if out == "-":
        terminal.note(str(exported))
    elif as_json:
        terminal.out_json(exported)
    else:
        terminal.out(str(exported))
