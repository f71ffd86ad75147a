"""The options of `judge` and `rejudge`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Narration(StrEnum):
    """Whether judges read what the agent says and thinks."""

    on = "on"
    off = "off"
    both = "both"


class Mode(StrEnum):
    """Whether a step is judged with its run in view."""

    contextual = "contextual"
    isolated = "isolated"


Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Only these runs, by name or start of id."),
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge", metavar="PROVIDER/MODEL", help="Who judges; repeat it for a panel of families."
    ),
]
Rubrics = Annotated[
    list[str] | None,
    typer.Option(
        "--rubric",
        metavar="NAME",
        help="What is asked: a set, a rubric, or a file of yours; repeatable. Default: axes.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", min=0, metavar="USD", help="Spend no more. Default: of the settings, 5."
    ),
]
Shared = Annotated[
    str,
    typer.Option(
        "--budget-name", metavar="NAME", help="Share the budget with commands that say this name."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say calls, tokens and prices; send nothing.")
]
Sample = Annotated[
    int | None,
    typer.Option("--sample", min=1, metavar="N", help="Draw N of the runs for each rubric."),
]
Repeat = Annotated[
    int, typer.Option("--repeat", min=1, metavar="N", help="Ask each question N times.")
]
Narrated = Annotated[
    Narration,
    typer.Option(
        "--narration", help="off: without the agent's own words; both: and flag what flips."
    ),
]
InMode = Annotated[
    Mode, typer.Option("--mode", help="isolated: label each step without the others.")
]
Goals = Annotated[
    Path | None,
    typer.Option("--goals", metavar="FILE", help="Sub-goals that you confirmed, for no_look."),
]
Propose = Annotated[
    Path | None,
    typer.Option(
        "--propose-goals", metavar="FILE", help="Write a draft of sub-goals there; judge nothing."
    ),
]
Canaries = Annotated[
    bool, typer.Option("--canaries", help="Watch judges with runs whose answers are known.")
]
SendMedia = Annotated[
    bool,
    typer.Option("--send-media", help="Send images of runs, too; secrets in them are not hidden."),
]
Tools = Annotated[
    bool, typer.Option("--tools", help="Let judges look things up before they answer.")
]
Workspace = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="A folder that they may look at, too."),
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Half the price, answered within a day; resumes.")
]
Strict = Annotated[
    bool, typer.Option("--strict-families", help="Refuse a judge of the agent's own family.")
]
