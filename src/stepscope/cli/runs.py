"""`stepscope score`, `list`, `show`, `export`, `purge`: the runs of a store."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Literal

import typer
from typer import Argument, Option

from stepscope.cli import options, terminal
from stepscope.errors import UsageError


def export(
    out: str | None = Argument(
        None, metavar="OUT", help="A file, a folder (for the format atif), or - for stdout."
    ),
    *,
    to: str | None = Option(
        None,
        metavar="BACKEND",
        help="Send to a tracing backend instead: langfuse:, langsmith:PROJECT, "
        "mlflow:EXPERIMENT or phoenix:PROJECT.",
    ),
    format_: Literal["ours", "atif", "parquet", "otlp"] = Option(
        "ours",
        "--format",
        help="The format to write; ours means the JSON lines format of stepscope.",
    ),
    verdicts: Literal["none", "only", "labels", "gen_ai", "openinference"] | None = Option(
        None,
        help="only: write verdicts instead of runs (with the format parquet, to a folder). "
        "labels: write only the verdicts of people, as .csv or .jsonl. gen_ai: attach "
        "verdicts to OTLP spans as events (the default for otlp). openinference: attach"
        " them as attributes. With --to, `only` sends just the verdicts and `none` just"
        " the runs; by default, both are sent.",
    ),
    force: bool = Option(
        False, "--force", help="Overwrite existing files, or send again what was sent."
    ),
    salvage: bool = Option(
        False, "--salvage", help="Write the readable part of a damaged store to a new one."
    ),
    where: options.WhereText = None,
    since: options.Since = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Write runs or verdicts for other programs, or send them.

    A backend receives runs as OTLP, and verdicts as evaluations on the spans of these runs. The
    address and key of the backend come from the environment variables of its own SDK. Sending twice
    changes nothing.

    Example: stepscope export runs.otlp.jsonl --format otlp --where "outcome = 'fail'"

    Example: stepscope export --to phoenix:my-project --verdicts only
    """
    if to is not None:
        from stepscope.cli.transfer import send_to_backend

        told = send_to_backend(
            to, out=out, only=verdicts, again=force, where=where, since=since, store=store
        )
        return terminal.print_result(told, as_json=as_json)
    if out is None:
        raise UsageError("nowhere to write to: name a file, or a backend with --to")
    if salvage:
        from stepscope.settings import load_settings
        from stepscope.store import Store

        found = Store.salvage(options.find_store(store, load_settings()), out)
        terminal.print_result(found, as_json=as_json)
        return
    with options.open_existing(store) as notebook, terminal.show_progress("writing runs") as step:
        exported = notebook.export(
            out,
            format=format_,
            verdicts=verdicts,
            force=force,
            where=where,
            since=since,
            progress=step,
        )
    # On stdout the account would mix with the runs themselves.
    if out == "-":
        terminal.print_note(str(exported))
    elif as_json:
        terminal.print_json(exported)
    else:
        terminal.print_text(str(exported))


def purge(
    *,
    older_than: str | None = Option(
        None, metavar="AGE", help="Only runs that have been stored for longer than this: 30d, 12h."
    ),
    where: options.WhereText = None,
    yes: bool = Option(False, "--yes", help="Do not ask."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Erase the texts of old runs; keep the numbers.

    The command erases texts, raw replies, blobs and records that were set aside, and lists what
    remains.

    Example: stepscope purge --older-than 90d --yes
    """
    if older_than is None and where is None:
        raise UsageError("purge needs --older-than or --where (every run: --where \"id != ''\")")
    with options.open_existing(store) as notebook:
        n = notebook.count(where=where, older_than=older_than)
        if not yes:
            if not sys.stdin.isatty():
                why = f"purge would erase the texts of {n:,} runs for good; confirm with --yes"
                raise UsageError(why)
            asked = f"Erase the texts of {n:,} runs, and quarantine, for good?"
            typer.confirm(asked, abort=True, err=True)
        purged = notebook.purge(where=where, older_than=older_than)
    terminal.print_result(purged, as_json=as_json)


def score(
    *,
    measure: list[str] | None = Option(
        None, metavar="NAME", help="Compute only this measure; repeatable."
    ),
    where: options.WhereText = None,
    since: options.Since = None,
    workers: int | None = Option(None, min=1, help="Number of processes. Default: one per core."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Score every run with the rules; this costs nothing.

    The result is always the same. Runs that are already scored are skipped, so you can run a
    stopped command again to continue.

    Example: stepscope score --where "workflow = 'airline'"
    """
    from stepscope.store.where import combine_filters

    with options.open_existing(store) as notebook, terminal.show_progress("scoring runs") as step:
        scored = notebook.score(
            where=where, since=since, measures=measure, workers=workers, progress=step
        )
        if not scored.runs + scored.skipped:
            raise UsageError(notebook.store.explain_no_match(combine_filters(where, since)))
    terminal.print_result(scored, as_json=as_json, hint="stepscope report", store=store)


def promote(
    run: options.Run,
    *,
    step: int | None = Option(None, min=0, help="The step that broke. Default: the first suspect."),
    out: Path = Option(Path("cases"), "--out", "-o", metavar="FOLDER", help="Output folder."),
    force: bool = Option(False, "--force", help="Overwrite existing files."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Make a case from a failing run, cut at its broken step.

    The command writes three things: a file of cases, the messages up to the broken step, and a
    pytest file. In the pytest file, add the code that runs your agent. Its test fails as long as
    the agent still makes the same calls.

    Example: stepscope case promote airline/9/2 --out cases
    """
    with options.open_existing(store) as notebook:
        files = notebook.promote_case(run, step=step)
    from stepscope.safety.limits import open_output

    there = [name for name in files if os.path.lexists(out / name)]
    if there and not force:
        raise UsageError(f"{out / there[0]} already exists; --force overwrites it")
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with open_output(out / name, follow=False) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    written = [str(out / name) for name in files]
    if as_json:
        terminal.print_json(written)
    else:
        terminal.print_text("\n".join(f"wrote {one}" for one in written))
        terminal.print_hint(f"pytest {shlex.quote(written[-1])}", None)


def list_(
    *,
    where: options.WhereText = None,
    since: options.Since = None,
    by: options.By = None,
    columns: str | None = Option(
        None,
        metavar="C,C",
        help="The columns: run, outcome, steps, calls, axes, started, tag.KEY, or a measure "
        "such as redundant_calls. If a name does not exist, all names are printed.",
    ),
    sort: str = Option("run", metavar="C", help="Order by this column; -C for descending order."),
    limit: int = Option(
        50, min=0, metavar="N", help="List at most N runs of each group; 0 lists all runs."
    ),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """List runs, and count the matches.

    Each printed name can be pasted after stepscope show.

    Example: stepscope list --where "outcome = 'fail'" --sort -steps
    """
    chosen = [name.strip() for name in columns.split(",")] if columns is not None else []
    with options.open_existing(store) as notebook:
        found = notebook.list_runs(
            where=where, since=since, by=by, columns=chosen, sort=sort, limit=limit
        )
    terminal.print_view(found, as_json=as_json)


def show(
    run: options.Run,
    *,
    step: int | None = Option(
        None, min=0, help="Print this step in full, with the steps around it."
    ),
    steps: str | None = Option(
        None, metavar="A:B", help="Print the steps from A to B unfolded; B is not among them."
    ),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Print one run, with each verdict at its step.

    Normal steps are folded into one line.

    Example: stepscope show airline/11/2 --step 14
    """
    chosen = _span(steps)
    if step is not None and chosen is not None:
        raise UsageError("--step and --steps say different things; leave one out")
    with options.open_existing(store) as notebook:
        if as_json:
            terminal.print_text(notebook.show_json(run))
        else:
            width = terminal.terminal_width()
            terminal.print_text(notebook.show(run, around=step, steps=chosen, width=width))


def diff(
    first: options.Run,
    second: options.Run,
    *,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Compare two runs, call by call.

    The command prints the first step at which the calls differ. It also prints how far apart two
    trials of the same version are on this task: without that, a difference between two runs means
    nothing.

    Example: stepscope diff airline/11/2 airline/11/0
    """
    with options.open_existing(store) as notebook:
        terminal.print_view(notebook.diff(first, second), as_json=as_json)


def _span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise UsageError(f"--steps {text!r}: expected A:B, as --steps 0:12")
    first, last = match.groups()
    return int(first or 0), int(last) if last else 1 << 62
