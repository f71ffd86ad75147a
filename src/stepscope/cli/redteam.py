"""`stepscope lab redteam`: attack judges through failing runs and count what turns into a pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath, WhereText
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api import Notebook
    from stepscope.judges.running_tally import Ran
    from stepscope.lab.redteam import Redteam
    from stepscope.lab.redteam_attacks import Attack
    from stepscope.model import Trajectory

# Without a store of one's own: the bundled runs, and what was bought for them.
PLACE = Path(".stepscope") / "redteam.db"
UNMEASURED = 4


def redteam(
    *,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="PROVIDER/MODEL", help="Whom to attack; may be repeated."),
    ] = None,
    rubric: Annotated[
        str, typer.Option("--rubric", metavar="NAME", help="What the judges are asked.")
    ] = "quality.final_answer",
    class_: Annotated[
        str, typer.Option("--class", metavar="C,C", help="Only attacks of these classes.")
    ] = "",
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="FILE", help="Attack texts of your own, too."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=1, metavar="N", help="At most so many failing runs.")
    ] = 60,
    budget: Annotated[
        float | None,
        typer.Option("--budget", min=0, metavar="USD", help="Spend no more. Default: settings."),
    ] = None,
    store: StorePath = None,
    where: WhereText = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Attack judges through failing runs: what turns a failure into a pass?

    Each failing run is judged as it is, then with each text of each attack class standing in it.
    Says flips by class with upper limits, and what claims of the agent alone buy. Costs money.
    Without --store the bundled runs are attacked. Exit code 4 when no judge gave a verdict.

    Example: stepscope lab redteam --judge openai/gpt-5-mini --runs 5 --class authority
    """
    import msgspec

    from stepscope import api
    from stepscope.cli import terminal
    from stepscope.cli.bundled import bundled
    from stepscope.cli.stores import existing, parsed
    from stepscope.lab import redteam as lab
    from stepscope.lab import redteam_attacks
    from stepscope.report import redteam_text
    from stepscope.settings import load

    if not judge:
        raise UsageError("name whom to attack: --judge PROVIDER/MODEL")
    every = redteam_attacks.attacks() + (() if corpus is None else redteam_attacks.corpus(corpus))
    attacks = redteam_attacks.chosen(every, [w.strip() for w in class_.split(",") if w.strip()])
    settings = load()
    if offline:
        settings = msgspec.structs.replace(settings, offline=True)
    if store is None and where is None:
        PLACE.parent.mkdir(exist_ok=True)
        opened = api.open(PLACE, settings=settings)
    else:
        opened = existing(store, settings)
    with opened as notebook:
        if store is None and where is None:
            notebook.add(bundled("airline", "runs.json"), agent="gpt-4o")
        failing = lab.failing(notebook.store.trajectories(parsed(where)), runs)
        found, rounds = _attacked(notebook, failing, attacks, list(dict.fromkeys(judge)),
                                  rubric=rubric, budget=budget)  # fmt: skip
    if as_json:
        terminal.out_json(found)
    else:
        terminal.out(redteam_text.render(found, terminal.width()))
    terminal.note(_paid(rounds))
    measured = any(row.runs for one in found.judges for row in one.flips)
    return 0 if measured else UNMEASURED


def _attacked(
    notebook: Notebook,
    failing: Sequence[Trajectory],
    attacks: Sequence[Attack],
    names: Sequence[str],
    *,
    rubric: str,
    budget: float | None,
) -> tuple[Redteam, list[Ran]]:
    from stepscope.api import judging
    from stepscope.cli import terminal
    from stepscope.judges import rubrics
    from stepscope.judges.budget import Budget
    from stepscope.judges.ledger import Ledger, beside
    from stepscope.judges.models.opening import judge_of
    from stepscope.lab import redteam as lab
    from stepscope.lab.redteam_asking import asking

    settings, store = notebook.settings, notebook.store
    asked = rubrics.rubric(rubric)
    lab.favourable(asked)
    judges = [judge_of(name, settings.judges) for name in names]
    limit = settings.judges.budget_usd if budget is None else budget
    most = lab.most_calls(len(failing), len(attacks), len(judges))
    with Ledger(beside(store.path)) as ledger:
        access = judging.access(
            settings, ledger, names, judges, budget=Budget(limit_usd=limit), models=None
        )
        terminal.note(
            f"{len(attacks)} attacks on {', '.join(one.name for one in judges)} through "
            f"{len(failing)} failing runs: at most {most:,} calls and ${limit:g}"
        )
        with (
            terminal.progress("asking judges") as step,
            asking(access, lambda done: step(done, most)) as (ask, rounds),
        ):
            setting = lab.Setting(
                rubric=asked,
                judges=judges,
                key=store.secret("fence"),
                redactor=store.redactor,
                asked=ask,
            )
            return lab.redteam(failing, attacks, setting), rounds


def _paid(rounds: Sequence[Ran]) -> str:
    bought, known = sum(one.bought for one in rounds), sum(one.from_ledger for one in rounds)
    lost = sum(n for one in rounds for n in one.failed.values())
    line = f"paid ${sum(one.usd for one in rounds):.4f}; replies: {bought:,} bought, {known:,} kept"
    if lost:
        line += f"; {lost:,} judgements without an answer, asked again by the same command"
    return line
