"""`stepscope import`: runs of any known format into the store: of files, backends, senders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.import_options import (
    Agent,
    AgentVersion,
    FormatName,
    Human,
    Idle,
    KeepAll,
    Labels,
    Listen,
    Mapped,
    OfFiles,
    OfListening,
    OfVerdicts,
    Paths,
    Quiet,
    Rater,
    RubricName,
    Since,
    Strict,
    Tags,
    Verdicts,
    Workers,
    refuse,
    tags_of,
)
from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.adding import Added
    from stepscope.api.reading import Filling

# What names a backend; `stepscope.backends` is loaded only where one is named.
_BACKEND = re.compile(r"(langfuse|langsmith|mlflow|phoenix):").match


def import_(
    paths: Paths = None,
    *,
    format_name: FormatName = None,
    agent: Agent = None,
    agent_version: AgentVersion = None,
    tag: Tags = None,
    strict: Strict = False,
    workers: Workers = None,
    since: Since = None,
    listen: Listen = False,
    quiet: Quiet = None,
    idle: Idle = None,
    keep_all: KeepAll = False,
    verdicts: Verdicts = None,
    mapped: Mapped = None,
    labels: Labels = None,
    rubric: RubricName = None,
    rater: Rater = None,
    human: Human = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Read recorded runs into the store.

    One line for each file says what was read, mended and set aside. A file imported twice
    changes nothing. A record that cannot be read is set aside and counted. With --listen runs come
    in as they happen, over OTLP/HTTP, until Ctrl-C: each is kept and scored when it ends. From a
    tracing backend runs are pulled; the variables of its own SDK say where it is and hold the key.
    With --verdicts what other people or judges said of runs of the store becomes a rater of agree.

    Example: stepscope import runs/ --agent gpt-4o --tag experiment=a

    Example: stepscope import phoenix:my-project --since last

    Example: stepscope import --listen 127.0.0.1:4318

    Example: stepscope import --verdicts labels.csv --map run=id,label=verdict --rubric axes
    """
    tags = tags_of(tag or [])
    files, listening = OfFiles(format_name, strict, workers), OfListening(quiet, idle, keep_all)
    of_verdicts = OfVerdicts(mapped, labels, rubric, rater, human)
    if verdicts is not None:
        refuse(files, "is for runs; --verdicts reads what was said of runs of the store")
        refuse(listening, "is for runs that come in with --listen")
        if paths or listen or since is not None or tags or agent or agent_version:
            raise UsageError(
                "--verdicts FILE reads verdicts alone; import runs by a command before"
            )
        from stepscope.cli.import_verdicts import import_verdicts

        return import_verdicts(verdicts, of_verdicts, store=store, as_json=as_json)
    refuse(of_verdicts, "is for --verdicts FILE")
    if listen:
        refuse(files, "is for files; --listen reads nothing but OTLP, as it comes")
        if since is not None:
            raise UsageError("--since is for backends; --listen reads OTLP as it comes")
    else:
        refuse(listening, "is for runs that come in with --listen")
        if not paths:
            raise UsageError(
                "nothing to import: name files, folders or globs, or receive with --listen"
            )
    from stepscope.api.reading import Filling

    filling = Filling(agent, agent_version, tags)
    if listen:
        from stepscope.cli.listening import receive

        return receive(paths or [], listening, store=store, filling=filling, as_json=as_json)
    from stepscope.cli import terminal

    if any(_BACKEND(path) for path in paths or ()):
        refuse(files, "is for files; a backend says itself what its traces are")
        from stepscope.cli.pulling import pulled

        added = pulled(paths or [], since=since, store=store, filling=filling)
    elif since is not None:
        raise UsageError("--since is for backends, as in: stepscope import phoenix:default")
    else:
        added = _from_files(paths or [], files, store=store, filling=filling)
    if as_json:
        terminal.out_json(added)
    else:
        terminal.out(str(added))
        terminal.hint("stepscope score", store)
    return 0


def _from_files(paths: list[str], asked: OfFiles, *, store: Path | None, filling: Filling) -> Added:
    from stepscope import api
    from stepscope.cli import terminal

    with api.open(store) as notebook, terminal.progress("reading runs") as step:
        return notebook.add(
            paths,
            agent=filling.agent,
            agent_version=filling.agent_version,
            tags=filling.tags,
            format_name=asked.format,
            strict=asked.strict,
            workers=asked.workers,
            progress=step,
        )
