"""`stepscope import`: runs of any known format into the store: of files, backends, senders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from typer import Argument, Option

from stepscope import api, safety
from stepscope.cli import options, terminal
from stepscope.errors import UsageError
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    from stepscope.model import Quarantined

# Of a record that was set aside, what is listed of its bytes.
_SHOWN_BYTES = 80


def parse_tags(pairs: list[str]) -> dict[str, str]:
    """Return the tags that KEY=VALUE pairs say."""
    tags: dict[str, str] = {}
    for pair in pairs:
        # Half a character is what a terminal makes of bytes that are no text.
        key, equals, value = pair.encode(errors="replace").decode().partition("=")
        if not (key and equals):
            raise UsageError(f"--tag {pair!r}: expected KEY=VALUE, as --tag experiment=a")
        tags[key] = value
    return tags


# What names a backend; `stepscope.backends` is loaded only where one is named.
_BACKEND = re.compile(r"(langfuse|langsmith|mlflow|phoenix):").match


def import_(
    paths: list[str] | None = Argument(
        None,
        metavar="PATHS",
        help="Files, folders, globs, zips; - means stdin. Or a backend: langfuse:[PROJECT], "
        "langsmith:PROJECT, mlflow:EXPERIMENT or phoenix:PROJECT.",
    ),
    *,
    format_name: str | None = Option(
        None, "--format", help="The format of the traces. Default: detected from the content."
    ),
    agent: str | None = Option(None, help="The agent, if a trace names none."),
    agent_version: str | None = Option(None, help="The agent's version, if a trace names none."),
    workflow: str | None = Option(
        None, metavar="NAME", help="The workflow, if a trace names none."
    ),
    task: str | None = Option(None, metavar="NAME", help="The task, if a trace names none."),
    trial: str | None = Option(None, metavar="N", help="The trial, if a trace names none."),
    tag: list[str] | None = Option(None, metavar="K=V", help="A tag for these runs; repeatable."),
    strict: bool = Option(
        False, "--strict", help="Import the runs only if everything can be read without repair."
    ),
    set_aside: bool = Option(
        False,
        "--set-aside",
        help="List the records that were set aside: from PATHS if given, else from the whole "
        "store.",
    ),
    workers: int | None = Option(
        None, min=1, help="Number of processes. Default: one, or one per core for many runs."
    ),
    since: str | None = Option(
        None,
        metavar="WHEN",
        help="With a backend: fetch only traces that began after this time (such as 7d for 7 days "
        "ago, 12h, or 2026-01-31). With 'last': only what arrived since the previous fetch. "
        "Default: all.",
    ),
    listen: bool = Option(
        False,
        "--listen",
        help="Receive runs over OTLP/HTTP; PATHS is then HOST:PORT. Default: 127.0.0.1:4318.",
    ),
    quiet: float | None = Option(
        None,
        min=0,
        metavar="SECONDS",
        help="With --listen: a run counts as ended when its root span has ended and no span has "
        "arrived for this many seconds. Default: from stepscope.toml, or else 6.",
    ),
    idle: float | None = Option(
        None,
        min=0,
        metavar="SECONDS",
        help="With --listen: every run counts as ended when no span has arrived for this many "
        "seconds. Default: from stepscope.toml, or else 600.",
    ),
    keep_all: bool = Option(
        False, "--keep-all", help="With --listen: also keep traces in which no agent is named."
    ),
    verdicts: str | None = Option(
        None,
        metavar="FILE",
        help="Import verdicts of people or other judges on runs in the store, from CSV, JSON lines "
        "or Parquet.",
    ),
    outcomes: str | None = Option(
        None,
        metavar="FILE",
        help="Add outcomes to runs in the store, from CSV or JSON lines. The columns are the run "
        "(or the id that its recorder gave it), the outcome (pass, fail or a reward) and the "
        "source (check, reward or a person).",
    ),
    cases: str | None = Option(
        None,
        metavar="FILE",
        help="Reference solutions (cases), one for each task: cases.toml, goals.toml, JSON lines, "
        "or a folder of such files. Give it with PATHS or alone.",
    ),
    mapped: list[str] | None = Option(
        None,
        "--map",
        metavar="FIELD=COLUMN",
        help="With --verdicts: the column of your file for each of the fields run, step, label, "
        "value, judge, axis, confidence, cites, reason, repeat. If your column of steps is "
        "named n and counts from 1, write step=n-1.",
    ),
    labels: list[str] | None = Option(
        None,
        metavar="THEIRS=OURS",
        help="With --verdicts: translate the labels of your file, such as yes=correct.",
    ),
    rubric: str | None = Option(
        None,
        metavar="NAME",
        help="With --verdicts: the rubric, such as axes, or your own .md file.",
    ),
    rater: str | None = Option(
        None, metavar="NAME", help="With --verdicts: the name of the rater."
    ),
    human: bool = Option(False, "--human", help="With --verdicts: the raters are people."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Read recorded runs into the store.

    The command prints one line for each file: what was read, repaired and set aside. A record that
    cannot be read is set aside and counted. Importing a file twice changes nothing. With --listen,
    the command receives runs as they happen, over OTLP/HTTP, until Ctrl-C; it stores and scores
    each run when the run ends. Runs can also be fetched from a tracing backend; the address and key
    of the backend come from the environment variables that its SDK reads. --verdicts imports
    verdicts on runs in the store, given by people or other judges; stepscope agree can then compare
    them. --outcomes imports the outcome of each run, as given by a check, a reward or a person.

    Example: stepscope import runs/ --agent gpt-4o --tag experiment=a

    Example: stepscope import phoenix:my-project --since last

    Example: stepscope import --listen 127.0.0.1:4318

    Example: stepscope import --outcomes outcomes.csv

    Example: stepscope import runs/ --cases cases.toml --workflow support

    Example: stepscope import --verdicts labels.csv --map run=id,label=verdict --rubric axes
    """
    tags = parse_tags(tag or [])
    files = {
        "set-aside": set_aside,
        "cases": cases,
        "format": format_name,
        "strict": strict,
        "workers": workers,
        "task": task,
        "trial": trial,
    }
    of_runs = {"tag": tags or None, "agent": agent, "agent-version": agent_version}
    listening = {"quiet": quiet, "idle": idle, "keep-all": keep_all}
    of_verdicts = {"map": mapped, "labels": labels, "rubric": rubric, "rater": rater}
    if outcomes is not None:
        why = "is for verdicts; --outcomes says whether runs worked"
        options.refuse_given({"verdicts": verdicts, "rubric": rubric}, why)
        verdicts, rubric = outcomes, "outcome"
    if verdicts is not None:
        options.refuse_given(files, "is for runs; --verdicts reads verdicts on runs in the store")
        options.refuse_given(listening, "is for runs that come in with --listen")
        if paths or listen or since is not None or tags or agent or agent_version or workflow:
            why = "--verdicts FILE reads verdicts alone; import runs by a command before"
            raise UsageError(why)
        from stepscope.api.verdict_import import parse_pairs

        names, ours = parse_pairs(mapped or [], "--map"), parse_pairs(labels or [], "--labels")
        with options.open_existing(store) as notebook:
            read = notebook.add_verdicts(
                verdicts, columns=names, labels=ours, rubric=rubric, rater=rater, human=human
            )
        hint = "stepscope agree" if outcomes is None else "stepscope score"
        terminal.print_result(read, as_json=as_json, hint=hint, store=store)
        return 0
    options.refuse_given({**of_verdicts, "human": human}, "is for --verdicts FILE")
    from stepscope.score.importing import RunDefaults

    filling = RunDefaults(agent, agent_version, tags, workflow)
    if listen:
        options.refuse_given(files, "is for files; --listen reads nothing but OTLP, as it comes")
        options.refuse_given({"since": since}, "is for backends; --listen reads OTLP as it comes")
        from stepscope.cli.transfer import receive_runs

        return receive_runs(
            paths or [],
            quiet=quiet,
            idle=idle,
            keep_all=keep_all,
            store=store,
            filling=filling,
            as_json=as_json,
        )
    options.refuse_given(listening, "is for runs that come in with --listen")
    if set_aside and not paths:
        of_paths = {**files, **of_runs, "set-aside": None, "workflow": workflow, "since": since}
        options.refuse_given(of_paths, "is for PATHS; --set-aside alone lists every record")
        with options.open_existing(store) as notebook:
            _list_set_aside(notebook.store.quarantined(), as_json=as_json)
        return 0
    if cases is not None and not paths:
        of_paths = {**files, **of_runs, "cases": None, "since": since}
        options.refuse_given(of_paths, "is for PATHS; --cases alone is for runs of the store")
        with options.open_existing(store) as notebook:
            found_cases = notebook.add_cases(cases, workflow=workflow or "")
        terminal.print_result(found_cases, as_json=as_json, hint="stepscope score", store=store)
        return 0
    if not paths:
        why = "nothing to import: name files, folders or globs, or receive with --listen"
        raise UsageError(why)
    if any(map(_BACKEND, paths)):
        options.refuse_given(files, "is for files, not for the traces of a backend")
        from stepscope.cli.transfer import pull_runs

        added = pull_runs(paths, since=since, store=store, filling=filling)
    else:
        why = "is for backends, as in: stepscope import phoenix:default"
        options.refuse_given({"since": since}, why)
        why = "is not for --set-aside PATHS; import, then: stepscope import --set-aside --json"
        options.refuse_given({"json": as_json and set_aside}, why)

        with api.open(store) as notebook, terminal.show_progress("reading runs") as step:
            added = notebook.add(
                paths,
                agent=agent,
                agent_version=agent_version,
                tags=tags,
                workflow=workflow,
                task=task,
                trial=trial,
                format_name=format_name,
                strict=strict,
                workers=workers,
                progress=step,
            )
            given = None
            if cases is not None:
                given = notebook.add_cases(cases, workflow=workflow or "")
            told = {account.uri for account in added.files if account.quarantined}
            aside = [one for one in notebook.store.quarantined() if set_aside and one.uri in told]
        if given is not None and not as_json:
            terminal.print_text(str(given))
        terminal.print_result(added, as_json=as_json, hint="stepscope score", store=store)
        if aside:
            _list_set_aside(aside, as_json=False)
        return exit_code_of_import(added.failed)
    terminal.print_result(added, as_json=as_json, hint="stepscope score", store=store)
    return 0


def exit_code_of_import(failed: Sequence[str]) -> int:
    """Return 2 where a file gave nothing, having said so."""
    if not failed:
        return 0
    more = f" and {len(failed) - 1:,} more" if len(failed) > 1 else ""
    terminal.print_note(f"error: nothing was read of {visible_line(failed[0])}{more}")
    return UsageError.exit_code


def _list_set_aside(records: Iterable[Quarantined], *, as_json: bool) -> None:
    found = [
        {
            "uri": one.uri,
            "offset": one.offset,
            "reason": one.reason,
            "bytes": len(one.raw),
            "begins": one.raw[:_SHOWN_BYTES].decode("utf-8", "replace"),
        }
        for one in records
    ]
    if as_json:
        return terminal.print_json(found)
    for one in found:
        line = visible_line("{uri}, byte {offset}: {reason}: {begins}".format_map(one))
        terminal.print_text(safety.scrub_message(line))
    return None if found else terminal.print_text("no record was set aside")
