"""`stepscope rejudge`: runs that were judged before, under a new model, prompt or rubric."""

from __future__ import annotations

from pathlib import Path

from stepscope.cli import judge_options as options
from stepscope.cli.judge import STOPPED, UNMEASURED, settings, stopping, where_of
from stepscope.cli.options import Json, Offline, Since, StorePath, WhereText


def rejudge(
    runs: options.Runs = None,
    *,
    judge: options.Judges = None,
    rubric: options.Rubrics = None,
    where: WhereText = None,
    since: Since = None,
    budget: options.Budget = None,
    budget_name: options.Shared = "",
    repeat: options.Repeat = 1,
    canaries: options.Canaries = False,
    batch: options.Batch = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Judge again what was judged; old records stay.

    Asks about the runs that a judge answered about before, by the rubric as it is now: the same
    judges, or the ones that are named. Says which labels turned, and what share with its interval.

    Example: stepscope rejudge --rubric axes --judge openai/gpt-5.1
    """
    from stepscope.api.judging import How
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    with existing(store, settings(offline)) as notebook, terminal.progress("judging") as step:
        found = notebook.rejudge(
            rubric or ["axes"],
            judges=judge or (),
            where=where_of(notebook, runs, where),
            since=since,
            how=How(repeats=repeat, canaries=canaries, batch=batch),
            budget_usd=budget,
            budget=budget_name,
            progress=lambda at, usd: step(at, 0),
            stopping=stopping,
        )
        place = Path(notebook.store.path)
    if as_json:
        terminal.out_json(found)
    else:
        terminal.out(str(found))
        terminal.hint("stepscope agree", place)
    if found.judged.ran.stopped:
        return STOPPED
    return 0 if found.judged.ran.records else UNMEASURED
