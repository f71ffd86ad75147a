"""The options that several commands share, each in one place."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def _show_version(asked: bool) -> None:
    if asked:
        from stepscope import __version__

        sys.stdout.write(f"stepscope {__version__}\n")
        raise typer.Exit


def _go_offline(asked: bool) -> bool:
    if asked:
        from stepscope.safety.offline import refuse_network

        refuse_network()
    return asked


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline", callback=_go_offline, help="Refuse every connection that is not loopback."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StorePath = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="PATH", help="The store. Default: of stepscope.toml, or stepscope.db."
    ),
]
WhereText = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Only these runs: \"agent = 'gpt-4o' and outcome = 'fail'\".",
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Only runs since then: 7d, 12h, 2026-01-31."),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="FIELD", help="One group for each value of this field, or of tag.KEY."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Where random draws start. Default: of stepscope.toml, 0."),
]


class ExportFormat(StrEnum):
    """What `export` writes."""

    ours = "ours"
    atif = "atif"
    parquet = "parquet"
    otlp = "otlp"


class ExportVerdicts(StrEnum):
    """Whether `export` writes verdicts, and how."""

    none = "none"
    only = "only"
    gen_ai = "gen_ai"
    openinference = "openinference"
