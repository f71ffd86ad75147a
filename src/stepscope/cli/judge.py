"""`stepscope judge`: panels of models, asked once, within a budget, and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli import judge_options as options
from stepscope.cli.options import Json, Offline, Since, StorePath, WhereText
from stepscope.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from stepscope.api import Notebook
    from stepscope.api.judging import How
    from stepscope.score.judging import Judged
    from stepscope.settings import Settings

STOPPED = 130
UNMEASURED = 4
BUDGET = 5


def judge(
    runs: options.Runs = None,
    *,
    judge: options.Judges = None,
    rubric: options.Rubrics = None,
    where: WhereText = None,
    since: Since = None,
    budget: options.Budget = None,
    budget_name: options.Shared = "",
    dry_run: options.DryRun = False,
    sample: options.Sample = None,
    repeat: options.Repeat = 1,
    narration: options.Narrated = options.Narration.on,
    mode: options.InMode = options.Mode.contextual,
    goals: options.Goals = None,
    propose_goals: options.Propose = None,
    canaries: options.Canaries = False,
    send_media: options.SendMedia = False,
    tools: options.Tools = False,
    workspace: options.Workspace = None,
    batch: options.Batch = False,
    strict_families: options.Strict = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Ask models about runs; costs money, resumes.

    Every judge answers by itself and must cite steps. Nothing that was answered is asked again: a
    stopped command goes on where it was. Then see stepscope report, agree and show. Exit code 5
    when the budget ended it, 4 when no judge gave an answer.

    Example: stepscope judge --judge anthropic/claude-sonnet-4-5 --judge openai/gpt-5 --dry-run
    """
    import secrets

    from stepscope.api.judging import How
    from stepscope.cli.stores import existing

    with existing(store, settings(offline)) as notebook:
        chosen = where_of(notebook, runs, where)
        if propose_goals is not None:
            return _proposed(notebook, propose_goals, chosen, since)
        if not judge:
            raise UsageError(
                "name a judge: --judge PROVIDER/MODEL, as --judge openai/gpt-5; "
                "stepscope score asks the rules, which cost nothing"
            )
        how = How(
            repeats=repeat,
            mode=mode.value,
            goals=goals,
            sample=sample,
            canaries=canaries,
            send_media=send_media,
            tools=tools,
            workspace=workspace,
            batch=batch,
            strict_families=strict_families,
        )
        asked: dict[str, Any] = {"where": chosen, "since": since, "budget_usd": budget}
        names = (judge, rubric or ["axes"])
        if dry_run:
            return _told(notebook, names, asked, how_of(how, narration), as_json=as_json)
        # Asking with narration and without is one command, and has one budget.
        asked["budget"] = budget_name or secrets.token_hex(16)
        return judged(notebook, names, asked, how_of(how, narration), as_json=as_json)


def how_of(how: How, narration: options.Narration) -> tuple[How, ...]:
    """Return how runs are judged: once, or with the agent's words and without them."""
    import msgspec

    if narration is not options.Narration.both:
        return (msgspec.structs.replace(how, narration=narration.value),)
    return tuple(msgspec.structs.replace(how, narration=one) for one in ("on", "off"))


def judged(
    notebook: Notebook,
    names: tuple[Sequence[str], Sequence[str]],
    asked: dict[str, Any],
    hows: Sequence[How],
    *,
    as_json: bool,
) -> int:
    """Judge, after saying what it may cost; print what was done, return the exit code."""
    from stepscope.cli import terminal

    done: list[Judged] = []
    for how in hows:
        try:
            done.append(ask(notebook, names, asked, how))
        except ConfigError as e:
            _what_rules_found(notebook, asked["where"], as_json=as_json)
            raise ConfigError(f"nothing was sent: {e}") from e
        if done[-1].ran.stopped:
            break
    if as_json:
        terminal.out_json(done)
    else:
        for one in done:
            terminal.out(str(one))
        terminal.hint("stepscope report", Path(notebook.store.path))
    return code_of(done)


def ask(
    notebook: Notebook,
    names: tuple[Sequence[str], Sequence[str]],
    asked: dict[str, Any],
    how: How | None = None,
) -> Judged:
    """Judge once, after saying what it may cost; return what was done."""
    from stepscope.cli import terminal

    cost = {name: asked[name] for name in ("where", "since", "budget_usd")}
    expected = notebook.judge_cost(names[1], judges=names[0], how=how, **cost)
    terminal.note(f"asking {', '.join(names[0])}: {expected.line()}")
    with terminal.progress("judging") as step:

        def progress(at: int, usd: float) -> None:
            step(at, 0)

        return notebook.judge(
            names[1], judges=names[0], how=how, progress=progress, stopping=stopping, **asked
        )


def code_of(done: Sequence[Judged]) -> int:
    """Return the exit code of what was done."""
    if done[-1].ran.stopped:
        return STOPPED
    if any(one.ran.failed.get("budget") for one in done):
        return BUDGET
    return 0 if any(one.ran.records for one in done) else UNMEASURED


def stopping() -> None:
    """Say that calls in flight are waited for."""
    from stepscope.cli import terminal

    terminal.note("stopping: waiting for what was sent; Ctrl-C again leaves at once")


def _what_rules_found(notebook: Notebook, where: str | None, *, as_json: bool) -> None:
    """Print what the evidence judge says: it needs no key, and is one family of the panel."""
    from stepscope.cli import terminal
    from stepscope.report import axes_text

    if as_json:
        return
    with terminal.progress("scoring runs") as step:
        notebook.score(where=where, progress=step)
    report = notebook.report(where=where).value
    lines = axes_text.block(report.profiles, terminal.width())
    terminal.out("\n".join(["What the rules found, without a model:", "", *lines]))


def _told(
    notebook: Notebook,
    names: tuple[Sequence[str], Sequence[str]],
    asked: dict[str, Any],
    hows: Sequence[How],
    *,
    as_json: bool,
) -> int:
    from stepscope.cli import terminal

    with terminal.progress("planning"):
        expected = [
            notebook.judge_cost(names[1], judges=names[0], how=how, **asked) for how in hows
        ]
    if as_json:
        terminal.out_json(expected)
    else:
        terminal.out("\n".join(str(one) for one in expected))
    return 0


def _proposed(notebook: Notebook, path: Path, where: str | None, since: str | None) -> int:
    from stepscope.cli import terminal

    if path.exists():
        raise UsageError(f"{path} is there already; name another file, or move it away")
    draft = notebook.propose_goals(where=where, since=since)
    path.write_text(draft.text, encoding="utf-8")
    terminal.out(
        f"{draft}\nRead {path}, mend it, say confirmed = true, then:\n"
        f"  stepscope judge --rubric no_look --goals {path} --judge PROVIDER/MODEL"
    )
    return 0 if draft.runs else UNMEASURED


def settings(offline: bool) -> Settings:
    """Return the settings that hold, with what the command line says of the network."""
    import msgspec

    from stepscope.settings import load

    held = load()
    return msgspec.structs.replace(held, offline=True) if offline else held


def where_of(notebook: Notebook, runs: Sequence[str] | None, where: str | None) -> str | None:
    """Return the filter of the runs that were named, and of `--where`."""
    if not runs:
        return where
    ids = ", ".join(f"'{notebook.store.find(run)}'" for run in runs)
    return f"id in ({ids})" + (f" and ({where})" if where else "")
