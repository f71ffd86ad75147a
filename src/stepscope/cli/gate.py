"""`stepscope gate`: decide the gates of the settings on recorded runs; the exit code says it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli import gate_options as options
from stepscope.cli.options import Json, Offline, Seed, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.gating import GateView
    from stepscope.settings import Settings


def gate(
    *,
    workflow: options.Workflows = None,
    runs: options.Runs = None,
    baseline: options.BaselineFile = None,
    trials: options.Trials = None,
    cases: options.Cases = None,
    fail_on: options.Failing = options.FailOn.hard,
    undecided: options.Undecided = None,
    max_minutes: options.MaxMinutes = None,
    commit: options.Commit = None,
    attempt: options.Attempt = 1,
    where: WhereText = None,
    seed: Seed = None,
    config: options.Config = None,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    write: options.Write = None,
    out: options.Out = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Decide the gates of stepscope.toml on recorded runs.

    Exit code 0: passed; 3: a gate failed; 4: undecided, or it could not be measured. Writes the
    job summary where $GITHUB_STEP_SUMMARY names one.

    Example: stepscope gate --runs traces/ --baseline baselines/refunds.json --workflow refunds
    """
    start = time.monotonic()
    form = _form(as_json=as_json, markdown=markdown, junit=junit)
    if runs and store is not None:
        raise UsageError("--runs needs no store: leave --store or --runs out")

    from stepscope.api import gating
    from stepscope.cli.stores import existing, parsed

    settings = settings_at(config)
    policies = gating.chosen(
        settings, workflow or (), baseline=baseline, trials=trials, cases=cases or ()
    )
    request = gating.Request(
        where=parsed(where),
        commit=commit,
        attempt=attempt,
        log=gating.log_of(settings),
        seed=seed,
        enough=lambda: max_minutes is not None and time.monotonic() - start >= 60 * max_minutes,
    )
    said: list[str] = []
    if runs:
        report, said = gating.gate_files(runs, settings, policies, request)
    else:
        with existing(store, settings) as notebook:
            report = gating.gate(notebook, policies, request)
    view = gating.GateView(
        report,
        remarks=said,
        fail_on=fail_on.value,
        undecided=None if undecided is None else undecided.value,
    )
    _deliver(view, form, out)
    if write is not None:
        _write_all(view, write)
    return view.exit_code


def _form(**asked: bool) -> str:
    """Return the name of the one output form asked for, without `as_`; "" for a terminal's."""
    chosen = [name.removeprefix("as_") for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    return chosen[0] if chosen else ""


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


def _deliver(view: GateView, form: str, out: Path | None) -> None:
    """Write the job summary, and print the report or write it to the file asked for."""
    from stepscope.cli import ci, terminal

    ci.summarise(view.markdown())
    if form:
        text = {"json": view.json, "markdown": view.markdown, "junit": view.junit}[form]()
        terminal.deliver(text, out)
    elif out is None:
        terminal.out(ci.guarded(view.text(terminal.width())))
    else:
        terminal.deliver(view.text(), out)


def _write_all(view: GateView, folder: Path) -> None:
    comments = folder / "comments"
    comments.mkdir(parents=True, exist_ok=True)
    texts = {folder / "gate.json": view.json(), folder / "gate.xml": view.junit()}
    for number, text in enumerate(view.comments().values(), 1):
        texts[comments / f"{number:03}.md"] = text
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
