"""`stepscope lab envelope` and `lab redteam`: the instrument measured where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from typer import Option

from stepscope import api
from stepscope.cli import options, terminal
from stepscope.cli.judge import BUDGET, load_judge_settings
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.judges.run import JudgingStatistics
    from stepscope.report.document import Document


Number = TypeVar("Number", int, float)
NUMBER_KINDS: dict[type, str] = {int: "a whole number", float: "a number"}


def envelope(
    *,
    n: str = Option("5,7,10,20", metavar="N,N", help="Steps per run."),
    sigma: str = Option(
        "0.02,0.05,0.08,0.11,0.15", metavar="S,S", help="Standard deviation of one score."
    ),
    classifier: str = Option(
        "v1,v2,v3,default", metavar="C,C", help="Classifiers: v1, v2, v3, default, fleet."
    ),
    generator: str = Option(
        "smooth,walk,agent",
        metavar="G,G",
        help="Simulators of score curves: smooth, walk, agent, holdout, article, reconstruction.",
    ),
    noise: str = Option(
        "gaussian", metavar="K,K", help="Kinds of noise: gaussian, ar1, quantised, heavy."
    ),
    told: str = Option(
        "1",
        metavar="X",
        help='The sigma given to the classifiers, as a multiple of the true sigma, or "nothing".',
    ),
    trials: int = Option(2000, min=100, help="Simulated runs for each cell of the table."),
    seed: int = Option(0, min=0, help="Seed of the random draws."),
    plot: Path | None = Option(
        None, metavar="FILE", help="Draw the result as a chart: FILE.png or FILE.svg."
    ),
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Print the accuracy of shape labels for your steps and noise.

    The command simulates runs with a known shape and break, scores them with noise, and lets every
    classifier label the same runs. For each classifier it prints how often it is right, how often
    it gives a label, and where it places the break.

    Example: stepscope lab envelope --n 8 --sigma 0.06 --plot envelope.svg
    """
    from stepscope.lab import envelope as lab
    from stepscope.report.views import lab as lab_views

    if plot is not None:
        from stepscope.report.render import charts

        charts.check_picture_path(plot)
    with terminal.show_progress("simulating") as step:
        made = lab.measure_envelope(
            lab.choose_classifiers(_parse_list(classifier)),
            ns=[_number("--n", text, int) for text in _parse_list(n)],
            sigmas=[_number("--sigma", text, float) for text in _parse_list(sigma)],
            generators=_parse_list(generator),
            noises=_parse_list(noise),
            trials=trials,
            seed=seed,
            told=None if told == "nothing" else _number("--told", told, float),
            progress=step,
        )
    if plot is not None:
        charts.save_envelope_chart(made, plot)
        terminal.print_note(f"wrote {plot}")
    _print(made, lab_views.make_envelope_document(made), as_json=as_json)


def _print(value: object, document: Document, *, as_json: bool) -> None:
    from stepscope.report.render import text

    if as_json:
        terminal.print_json(value)
    else:
        terminal.print_text(text.render(document, terminal.terminal_width()))


def _parse_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(option: str, text: str, kind: type[Number]) -> Number:
    try:
        return kind(text)
    except ValueError as e:
        raise UsageError(f"{option} {text!r}: expected {NUMBER_KINDS[kind]}") from e


# Without a store of one's own: the bundled runs, and what was bought for them.
REDTEAM_STORE = Path(".stepscope") / "redteam.db"


def redteam(
    *,
    judge: list[str] | None = Option(
        None, metavar="PROVIDER/MODEL", help="The judge to attack; repeatable."
    ),
    rubric: str = Option("quality.final_answer", metavar="NAME", help="The rubric."),
    class_: str = Option("", "--class", metavar="C,C", help="Only attacks of these classes."),
    corpus: Path | None = Option(None, metavar="FILE", help="Add your own attack texts."),
    runs: int = Option(60, min=1, metavar="N", help="Attack at most N failing runs."),
    budget: float | None = Option(
        None,
        min=0,
        metavar="USD",
        help="Spend at most this many dollars. Default: from the settings.",
    ),
    store: options.StorePath = None,
    where: options.WhereText = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Test which texts make judges call a failing run a pass.

    Each failing run is first judged unchanged, and then once with each attack text of each class
    inserted. The command prints the share of changed verdicts for each class, with upper limits,
    and separately the effect of the agent's own claims. It costs money. Without --store, the
    bundled runs are attacked. The exit code is 5 if the budget ran out, and 4 if no judge gave a
    verdict.

    Example: stepscope lab redteam --judge openai/gpt-5-mini --runs 5 --class authority
    """
    from stepscope.api import judging
    from stepscope.cli.setup import find_bundled
    from stepscope.judges import rubrics
    from stepscope.judges.judgement import configured_judge
    from stepscope.lab import redteam as lab
    from stepscope.ledger.budget import Budget
    from stepscope.ledger.ledger import Ledger, ledger_path
    from stepscope.report.views import lab as lab_views
    from stepscope.store.where import combine_filters

    if not judge:
        raise UsageError("name whom to attack: --judge PROVIDER/MODEL")
    every = lab.built_in_attacks() + (() if corpus is None else lab.read_attacks(corpus))
    attacks = lab.choose_attacks(every, _parse_list(class_))
    settings = load_judge_settings(offline)
    if store is None and where is None:
        REDTEAM_STORE.parent.mkdir(exist_ok=True)
        opened = api.open(REDTEAM_STORE, settings=settings)
    else:
        opened = options.open_existing(store, settings)
    with opened as notebook:
        if store is None and where is None:
            notebook.add(find_bundled("airline", "runs.json"), agent="gpt-4o")
        failing = lab.failing_runs(notebook.store.trajectories(combine_filters(where)), runs)
        names = list(dict.fromkeys(judge))
        asked = rubrics.load_rubric(rubric)
        lab.favourable_answer(asked)
        judges = [configured_judge(name, notebook.settings.judges) for name in names]
        limit = notebook.settings.judges.budget_usd if budget is None else budget
        most = lab.count_most_calls(len(failing), len(attacks), len(judges))
        with Ledger(ledger_path(notebook.store.path)) as ledger:
            access = judging.open_access(
                notebook.settings,
                ledger,
                names,
                judges,
                budget=Budget(limit_usd=limit),
                models=None,
            )
            terminal.print_note(
                f"{len(attacks)} attacks on {', '.join(one.name for one in judges)} through "
                f"{len(failing)} failing runs: at most {most:,} calls and ${limit:g}"
            )
            with (
                terminal.show_progress("asking judges") as step,
                lab.open_judges(access, lambda done: step(done, most)) as (ask, rounds),
            ):
                found = lab.attack_judges(
                    failing,
                    attacks,
                    rubric=asked,
                    judges=judges,
                    ask=ask,
                    redactor=notebook.store.redactor,
                    key=ledger.fence_key(notebook.store.secret("fence")),
                )
    _print(found, lab_views.make_redteam_document(found), as_json=as_json)
    terminal.print_note(_sum_usage(rounds))
    if any(one.failed.get("budget") for one in rounds):
        return BUDGET
    return 0 if any(row.runs for one in found.judges for row in one.flips) else options.UNMEASURED


def _sum_usage(rounds: Sequence[JudgingStatistics]) -> str:
    bought, known = sum(one.bought for one in rounds), sum(one.from_ledger for one in rounds)
    lost = sum(n for one in rounds for n in one.failed.values())
    line = f"paid ${sum(one.usd for one in rounds):.4f}; replies: {bought:,} bought, {known:,} kept"
    if lost:
        line += f"; {lost:,} judgements without an answer, asked again by the same command"
    return line
