"""`stepscope gate`: decide the gates of the settings on recorded runs; the exit code says it."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import Json, Offline, Seed, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.gating import GateView
    from stepscope.settings import Settings


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
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="PATH", help="stepscope.toml, or its folder. Default: this folder."
    ),
]
Commit = Annotated[
    str | None,
    typer.Option("--commit", metavar="SHA", help="What the runs are of; reruns are then seen."),
]


def gate(
    *,
    workflow: Workflows = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--runs", metavar="PATHS", help="Gate these traces, without a store; repeatable."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="Compare with this file, not with that of the policy.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that fails the command.")
    ] = FailOn.hard,
    undecided: Annotated[
        Open | None,
        typer.Option(
            "--undecided", help="What gates count as that more runs would decide. Default: code 4."
        ),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option("--max-minutes", min=0, help="Stop then; what was not decided is code 4."),
    ] = None,
    commit: Commit = None,
    attempt: Annotated[
        int,
        typer.Option("--attempt", min=1, help="How often this commit was gated, with this time."),
    ] = 1,
    where: WhereText = None,
    seed: Seed = None,
    config: Config = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    junit: Annotated[bool, typer.Option("--junit", help="Print JUnit XML.")] = False,
    comments: Annotated[
        Path | None,
        typer.Option(
            "--comments", metavar="DIR", help="Write a Markdown comment for each workflow there."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Decide the gates of stepscope.toml on recorded runs.

    Exit code 0: passed; 3: a gate failed; 4: undecided, or it could not be measured. Writes the
    job summary where $GITHUB_STEP_SUMMARY names one.

    Example: stepscope gate --runs traces/ --baseline baselines/refunds.json --workflow refunds
    """
    if as_json + markdown + junit > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    if runs and store is not None:
        raise UsageError("--runs needs no store: leave --store or --runs out")
    start = time.monotonic()

    from stepscope.api import gating
    from stepscope.cli import ci, terminal
    from stepscope.cli.stores import existing, parsed

    settings = settings_at(config)
    policies = gating.chosen(settings, workflow or (), baseline=baseline)
    log = None if commit is None else gating.log_of(settings)

    def enough() -> bool:
        return max_minutes is not None and time.monotonic() - start >= 60 * max_minutes

    remarks: list[str] = []
    if runs:
        report, added = gating.gate_files(
            runs,
            settings,
            policies,
            where=parsed(where),
            commit=commit,
            attempt=attempt,
            log=log,
            seed=seed,
            enough=enough,
        )
        remarks += gating.remarks(added)
    else:
        with existing(store, settings) as notebook:
            report = gating.gate(
                notebook,
                policies,
                where=parsed(where),
                commit=commit,
                attempt=attempt,
                log=log,
                seed=seed,
                enough=enough,
            )
    view = gating.GateView(
        report,
        remarks=remarks,
        fail_on=fail_on.value,
        undecided=None if undecided is None else undecided.value,
    )
    ci.summarise(view.markdown())
    if comments is not None:
        _write_comments(view, comments)
    text = _text(view, as_json=as_json, markdown=markdown, junit=junit)
    if out is None and not (as_json or markdown or junit):
        terminal.out(ci.guarded(text))
    else:
        terminal.deliver(text, out)
    return view.exit_code


def settings_at(config: Path | None) -> Settings:
    """Return the settings of a file or folder; those of the working directory when left out.

    Raises:
        UsageError: there is no such file, or it is not called as settings are.
    """
    from stepscope.settings import FILE, load

    if config is None:
        return load()
    if config.is_dir():
        return load(config)
    if config.name not in (FILE, "pyproject.toml"):
        raise UsageError(f"--config {str(config)!r}: expected a folder, {FILE} or pyproject.toml")
    if not config.is_file():
        raise UsageError(f"--config {str(config)!r}: there is no such file")
    return load(config.parent)


def _text(view: GateView, *, as_json: bool, markdown: bool, junit: bool) -> str:
    from stepscope.cli import terminal

    if as_json:
        return view.json()
    if markdown:
        return view.markdown()
    return view.junit() if junit else view.text(terminal.width())


def _write_comments(view: GateView, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(view.comments().values(), 1):
        (folder / f"{number:03}.md").write_text(text, encoding="utf-8", errors="backslashreplace")
