"""The options of `import`: those of files, those of backends, of --listen, of --verdicts."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from stepscope.errors import UsageError

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATHS",
        help="Files, folders, globs, zips; - is stdin. Or one of langfuse:[PROJECT], "
        "langsmith:PROJECT, mlflow:EXPERIMENT, phoenix:PROJECT.",
    ),
]
FormatName = Annotated[
    str | None, typer.Option("--format", help="The format. Default: told from the content.")
]
Agent = Annotated[str | None, typer.Option("--agent", help="The agent, where a trace names none.")]
AgentVersion = Annotated[
    str | None, typer.Option("--agent-version", help="Its version, where a trace names none.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="K=V", help="A tag; repeatable.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Keep nothing unless everything could be read as it is.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes. Default: one a core for many runs."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="With a backend: traces that began since then (7d, 12h, 2026-01-31), or last: "
        "what came in since the previous pull. Default: all.",
    ),
]
Listen = Annotated[
    bool,
    typer.Option(
        "--listen", help="Receive OTLP/HTTP at PATHS, one HOST:PORT. Default: 127.0.0.1:4318."
    ),
]
Quiet = Annotated[
    float | None,
    typer.Option(
        "--quiet",
        min=0,
        metavar="SECONDS",
        help="With --listen: a run ends when its root has ended and no span came for so long. "
        "Default: of stepscope.toml, 6.",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        min=0,
        metavar="SECONDS",
        help="With --listen: any run ends when no span came for so long. Default: of "
        "stepscope.toml, 600.",
    ),
]
KeepAll = Annotated[
    bool, typer.Option("--keep-all", help="With --listen: traces without an agent are runs.")
]
Verdicts = Annotated[
    str | None,
    typer.Option(
        "--verdicts",
        metavar="FILE",
        help="Read other people's verdicts on runs of the store: CSV, JSON lines, Parquet.",
    ),
]
Mapped = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="With --verdicts: which column is run, step, label, value, judge, axis, confidence, "
        "cites, reason, repeat. step=n-1 where n counts from 1.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--labels", metavar="THEIRS=OURS", help="With --verdicts: translate labels, as yes=correct."
    ),
]
RubricName = Annotated[
    str | None,
    typer.Option(
        "--rubric",
        metavar="NAME",
        help="With --verdicts: what was rated, as axes; a file of your own ends in .md.",
    ),
]
Rater = Annotated[
    str | None, typer.Option("--rater", metavar="NAME", help="With --verdicts: who rated.")
]
Human = Annotated[bool, typer.Option("--human", help="With --verdicts: people rated.")]


class OfVerdicts(NamedTuple):
    """What is asked of verdicts alone; `map`, `labels` as they were given."""

    map: list[str] | None
    labels: list[str] | None
    rubric: str | None
    rater: str | None
    human: bool


class OfFiles(NamedTuple):
    """What is asked of files alone."""

    format: str | None
    strict: bool
    workers: int | None


class OfListening(NamedTuple):
    """What is asked of runs that come in as they happen; None where the settings decide."""

    quiet: float | None
    idle: float | None
    keep_all: bool


def refuse(given: OfFiles | OfListening | OfVerdicts, why: str) -> None:
    """Refuse the first option that was given, saying why.

    Raises:
        UsageError: one was.
    """
    for name, value in given._asdict().items():
        if value is not None and value is not False:
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def tags_of(pairs: list[str]) -> dict[str, str]:
    """Return the tags that KEY=VALUE pairs say.

    Raises:
        UsageError: one says none.
    """
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"--tag {pair!r}: expected KEY=VALUE, as --tag experiment=a")
        tags[key] = value
    return tags
