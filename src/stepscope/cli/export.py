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


def export(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="A file, a folder for ATIF, or - for stdout.")
    ],
    *,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="The format to write.")
    ] = ExportFormat.ours,
    verdicts: Annotated[
        ExportVerdicts | None,
        typer.Option(
            "--verdicts",
            help="only: verdicts instead of runs (ours a file, parquet a folder). gen_ai, "
            "openinference: on the spans of OTLP, as events or attributes. Default: gen_ai for "
            "otlp, else none.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    where: WhereText = None,
    since: Since = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Write runs or verdicts for other programs.

    Example: stepscope export runs.otlp.jsonl --format otlp --where "outcome = 'fail'"
    """
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
