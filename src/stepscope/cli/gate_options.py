"""The options of `gate` and `baseline update`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class FailOn(StrEnum):
    """From which severity on a failing gate is a failing command."""

    soft = "soft"
    hard = "hard"


class Open(StrEnum):
    """What gates count as that more runs would decide."""

    passes = "pass"
    fails = "fail"


Workflows = Annotated[
    list[str] | None,
    typer.Option("--workflow", metavar="NAME", help="Only this workflow; repeatable."),
]
Runs = Annotated[
    list[str] | None,
    typer.Option("--runs", metavar="PATHS", help="Gate these traces, without a store; repeatable."),
]
BaselineFile = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="FILE", help="Compare with this file, not with that of the policy."
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        "--trials", min=1, help="Each case must have been run so often. Default: as the baseline."
    ),
]
Cases = Annotated[
    list[str] | None,
    typer.Option(
        "--cases", metavar="CASE", help="This case must have been run; repeatable. Default: all."
    ),
]
Failing = Annotated[
    FailOn, typer.Option("--fail-on", help="The least severity that fails the command.")
]
Undecided = Annotated[
    Open | None,
    typer.Option(
        "--undecided", help="What gates count as that more runs would decide. Default: code 4."
    ),
]
MaxMinutes = Annotated[
    float | None,
    typer.Option("--max-minutes", min=0, help="Stop then; what was not decided is code 4."),
]
Commit = Annotated[
    str | None,
    typer.Option("--commit", metavar="SHA", help="What the runs are of; reruns are then seen."),
]
Attempt = Annotated[
    int,
    typer.Option("--attempt", min=1, help="How often this commit was gated, with this time."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="PATH", help="stepscope.toml, or its folder. Default: this folder."
    ),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
Junit = Annotated[bool, typer.Option("--junit", help="Print JUnit XML.")]
Write = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="DIR",
        help="Write gate.json, gate.xml and comments/, one for each workflow, there as well.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file.")
]
