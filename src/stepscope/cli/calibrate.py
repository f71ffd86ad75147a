"""`stepscope calibrate` and `agree`: noise of judges, ranking of steps, raters, held-out gap."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from stepscope import api
from stepscope.cli import options, terminal
from stepscope.errors import UsageError
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.calibrate.bias import JudgeBias
    from stepscope.calibrate.drift import JudgeDrift
    from stepscope.calibrate.noise import JudgeNoise


Rubric = Annotated[
    str | None, Option(metavar="NAME", help="One rubric, or a set such as axes. Default: all.")
]
Raters = Annotated[
    str | None,
    Option(metavar="NAME,...", help="Only these raters: names or families, or prefixes of them."),
]


def agree(
    *,
    rubric: Rubric = None,
    raters: Raters = None,
    where: options.WhereText = None,
    since: options.Since = None,
    by: options.By = None,
    rubric_version: options.RubricVersion = None,
    seed: options.Seed = None,
    threshold: float = Option(
        0.5, "--min", metavar="KAPPA", help="Advise a sharper rubric if kappa is below this value."
    ),
    modes: bool = Option(
        False,
        "--modes",
        help="Compare two verdicts on each step: one by a judge that saw only this step, one by "
        "a judge that saw the whole run.",
    ),
    queue: int | None = Option(
        None, min=1, metavar="N", help="List N runs and steps on which judge families disagree."
    ),
    csv: bool = Option(False, "--csv", help="With --queue: print CSV."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Compare raters: judges, the rules, people.

    For each rubric, the command prints raw agreement, kappa, AC1 and alpha for every pair of
    raters, with intervals over runs; whether the rubric may be applied automatically; and the most
    disputed steps. The exit code is 4 if nothing could be decided.

    Example: stepscope agree --rubric axes --queue 10
    """
    if modes and queue is not None:
        raise UsageError("--modes and --queue are two lists; ask for one")
    if modes and rubric is not None:
        raise UsageError("--modes compares whatever was judged in both modes; leave --rubric out")
    if modes and (raters, rubric_version) != (None, None):
        what = "--raters" if raters is not None else "--rubric-version"
        raise UsageError(f"--modes compares each judge with itself; leave {what} out")
    if by is not None and (modes or queue is not None):
        raise UsageError("--by groups the agreement; choose runs with --where here")
    if csv and (queue is None or as_json):
        raise UsageError("--csv is a form of --queue N, and not of --json")
    names = None if raters is None else [name.strip() for name in raters.split(",")]
    with options.open_existing(store) as notebook:
        if modes:
            compared = notebook.modes(where=where, since=since, seed=seed)
            terminal.print_view(compared, as_json=as_json)
            return 0 if compared.value else options.UNMEASURED
        if queue is not None:
            found = notebook.disputes(
                rubric, where=where, since=since, raters=names, rubric_version=rubric_version
            )
            width = terminal.terminal_width()
            said = found.json(queue) if as_json else found.text(queue, width)
            terminal.print_text(found.csv(queue) if csv else said)
            return 0
        view = notebook.agreement(
            rubric,
            where=where,
            since=since,
            by=by,
            raters=names,
            rubric_version=rubric_version,
            seed=seed,
            threshold=threshold,
        )
        terminal.print_view(view, as_json=as_json)
        return 0 if view.measured else options.UNMEASURED


def sigma(
    scores: str | None = Argument(
        None,
        metavar="[FILE]",
        help="A file of scores with a column named repeat. Default: the scores in the store.",
    ),
    *,
    quantum: options.Quantum = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Measure how noisy judges are, from steps scored repeatedly.

    A good choice is about 15 steps whose scores cover the whole range, each step scored three
    times. The result is kept in the store; report, show and shape use its upper limit for the
    labels of runs.

    Example: stepscope calibrate sigma repeated.csv
    """
    from stepscope.values import Unmeasured

    if quantum is not None and not 0 < quantum <= 1:
        raise UsageError(f"--quantum {quantum}: expected more than 0 and at most 1, as 0.1")
    with options.open_existing(store) if scores is None else api.open(store) as notebook:
        found = notebook.calibrate_sigma(scores, quantum=quantum)
    if as_json:
        terminal.print_json(found)
    else:
        terminal.print_guarded("\n".join(_lines(found, terminal.terminal_width())))
    measured = [noise for noise in found if not isinstance(noise.sigma, Unmeasured)]
    return 0 if measured else options.UNMEASURED


def judge_(
    *,
    rubric: Rubric = None,
    raters: Raters = None,
    where: options.WhereText = None,
    since: options.Since = None,
    rubric_version: options.RubricVersion = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Compare judges with the people who labelled the same runs.

    For each judge and rubric, the command prints: a table that compares the judge's labels with
    people's labels; accuracy, kappa, AC1, bias, recall of each label, correlation and concordance,
    with intervals over tasks; how often the judge is right at each confidence; and whether the
    judge can be accepted, or how many more labels are needed to decide this. The exit code is 4 if
    every judge is undecided.

    Example: stepscope calibrate judge --rubric axes
    """
    names = None if raters is None else [name.strip() for name in raters.split(",")]
    with options.open_existing(store) as notebook:
        view = notebook.calibrate_judge(
            rubric, where=where, since=since, raters=names, rubric_version=rubric_version, seed=seed
        )
        terminal.print_view(view, as_json=as_json)
    decided = any(one.decision.outcome != "undecided" for one in view.value)
    return 0 if decided else options.UNMEASURED


def labels_(
    file: str | None = Argument(
        None,
        metavar="[FILE]",
        help="A file of labels, which is read but not imported. Default: the labels in the store.",
    ),
    *,
    rubric: str | None = Option(
        None, metavar="NAME", help="With FILE: the rubric, such as axes.termination."
    ),
    rater: str | None = Option(None, metavar="NAME", help="With FILE: who labelled."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Say what people's labels can decide, and what they cannot.

    For each rubric, the command prints the precision of a rate that is computed from these labels,
    the labels that may not be used for a rate, the number of labels still needed to accept a judge,
    and whether people agree with each other. The exit code is 4 if there is no label. The columns
    of FILE are named as in `import --verdicts`.

    Example: stepscope calibrate labels people.csv --rubric axes.termination
    """
    from stepscope.calibrate.judges import describe_labels
    from stepscope.values import format_count

    if file is None and (rubric, rater) != (None, None):
        raise UsageError("--rubric and --rater are for a FILE")
    with options.open_existing(store) as notebook:
        if file is None:
            found, refused = list(notebook.store.labels()), 0
        else:
            from stepscope.api.score_files import open_score_file
            from stepscope.api.verdict_import import read_label_file

            stream = open_score_file(file, notebook.settings)
            with stream.file:
                found, refused = read_label_file(notebook.store, stream, rubric=rubric, rater=rater)
    said = list(describe_labels(found)) or ["No labels of people."]
    if refused:
        said.append(f"{format_count(refused, 'row')} left out: import --verdicts says why.")
    if as_json:
        terminal.print_json({"labels": len(found), "refused": refused, "said": said})
    else:
        width = terminal.terminal_width()
        lines = (textwrap.wrap(one, width, subsequent_indent="    ") for one in said)
        terminal.print_guarded("\n".join(line for block in lines for line in block))
    return 0 if found else options.UNMEASURED


def localise(
    *,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Fit the ranking of suspects to steps that people named.

    Two things count as labels: steps of failed runs that people marked in the trace, and people's
    verdicts under the rubric named attribution (import --verdicts FILE --rubric attribution
    --human; columns run, step, label). With 30 or more such runs, the ranking is fitted. It is then
    compared with the default ranking, on runs of tasks that were not used in the fit. If the
    fitted ranking is better by more than one standard error, and puts at least as many named steps
    first as the default one does, it is saved in STORE.localise.json and orders every list. If not,
    nothing is saved, and the exit code is 4.

    Example: stepscope calibrate localise
    """
    with options.open_existing(store) as notebook:
        found = notebook.calibrate_localise()
    terminal.print_result(found, as_json=as_json)
    return 0 if found.used else options.UNMEASURED


def gap(
    corpus: Path | None = Argument(
        None, metavar="[CORPUS]", help="Frozen cases. Default: the cases that the settings name."
    ),
    *,
    by: options.By = "agent_version",
    measure: str = Option(
        "outcome", metavar="NAME", help="outcome, scores, or a measure between 0 and 1."
    ),
    where: options.WhereText = None,
    since: options.Since = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Compare scores on held-out tasks with scores on the others.

    For each version, the command prints: the gap with its interval; whether the gap shows inflated
    scores; the chance that these tasks detect a gap of .10; the trend on the same tasks; and
    whether you should stop using the benchmark. First freeze the cases with stepscope case split
    --freeze. The exit code is 3 if scores are inflated, and 4 if nothing could be decided.

    Example: stepscope calibrate gap cases --by agent_version
    """
    from msgspec.structs import replace

    from stepscope.calibrate.gap import measure_gap
    from stepscope.cases.files import load_cases
    from stepscope.cases.split import find_split
    from stepscope.store.where import combine_filters

    with options.open_existing(store) as notebook:
        named = {} if corpus is not None else notebook.settings.workflow
        places = [(Path(one.cases), name) for name, one in named.items() if one.cases is not None]
        places = places if corpus is None else [(corpus, "")]
        frozen = [(at, name, split) for at, name in places if (split := find_split(at)) is not None]
        if not frozen:
            what = ", ".join(str(at) for at, _ in places) or "the settings name no cases"
            raise UsageError(f"no frozen corpus ({what}); stepscope case split CORPUS --freeze")
        chosen, seed = (
            combine_filters(where, since),
            notebook.settings.seed if seed is None else seed,
        )
        compare = partial(measure_gap, notebook.store, by=by or "agent_version", measure=measure)
        found = []
        for at, name, split in frozen:
            # Refuses edited ones.
            keys = {(x.workflow, x.task) for x in load_cases(at, name or split.cases[0].workflow)}
            if not at.is_dir():
                inside = (one for one in split.cases if (one.workflow, one.task) in keys)
                split = replace(split, cases=tuple(inside))
            found.append(compare(str(at), split, where=chosen, seed=seed))
    terminal.print_result(found if as_json else "\n\n".join(map(str, found)), as_json=as_json)
    return _exit_code({one.decision.outcome for of in found for one in of.groups})


def drift(
    *,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Check whether judges still give the same answers as before.

    stepscope judge --drift N asks about N fixed runs again; this command compares the latest
    answers with all earlier answers. If the answers of a judge have shifted, its gates are
    undecided. The exit code is 3 if a judge has shifted, and 4 if no judge was asked again.

    Example: stepscope calibrate drift
    """
    from stepscope.calibrate.drift import measure_drift

    with options.open_existing(store) as notebook:
        seed = notebook.settings.seed if seed is None else seed
        found = measure_drift(notebook.store, seed)
    none = "no judge was asked about fixed runs again; stepscope judge --drift 20 asks"
    return _print_decisions(found, none, as_json=as_json)


def bias(
    *,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Check how far a judge's answers depend on length and order.

    stepscope judge --bias N asks about N runs again, each time with one thing changed: the length,
    or the order of answers or examples. This command compares the new answers with the usual
    answers. The exit code is 3 if a judge leans to one side, and 4 if nothing is decided.

    Example: stepscope calibrate bias
    """
    from stepscope.calibrate.bias import find_bias

    with options.open_existing(store) as notebook:
        found = find_bias(notebook.store)
    none = "no judge was asked with anything changed; stepscope judge --bias 100 asks"
    return _print_decisions(found, none, as_json=as_json)


def _print_decisions(found: Sequence[JudgeDrift | JudgeBias], none: str, *, as_json: bool) -> int:
    told = "\n".join(map(str, found)) or none
    terminal.print_result(found if as_json else told, as_json=as_json)
    return _exit_code({one.decision.outcome for one in found})


def _exit_code(outcomes: set[str]) -> int:
    if "fail" in outcomes:
        return options.GATE_FAILED
    return 0 if "pass" in outcomes else options.UNMEASURED


User = Annotated[
    str,
    Option(
        metavar="TAG",
        help="The tag that names the user; if there is none, the task counts as the user.",
    ),
]


def production(
    *,
    evaluation: str = Option(..., metavar="EXPR", help="The runs of the evaluation."),
    production: str = Option(..., metavar="EXPR", help="The production runs."),
    user: User = "user",
    since: options.Since = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Compare the shapes of evaluation runs and production runs.

    Both groups of runs need step scores from the same judge. Every share has an interval. To
    tell a change from chance, users are divided into two groups at random, many times. A change is
    proved if two random groups hardly ever differ as much as the two real groups do. The exit code
    is 3 if a change is proved.

    Example: stepscope calibrate production --evaluation "tag.of = 'eval'" --production "tag.of =
    'live'"
    """
    sides = {"evaluation": evaluation, "production": production}
    return _compare_sides(sides, user, since, seed, store, as_json)


def followup(
    *,
    before: str = Option(..., metavar="EXPR", help="Production runs before the change."),
    after: str = Option(..., metavar="EXPR", help="Production runs after the change."),
    user: User = "user",
    since: options.Since = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Compare shapes of production runs before and after a change.

    The command works like stepscope calibrate production. It shows, for example,
    whether early collapses have become rarer since the change.

    Example: stepscope calibrate followup --before "agent_version = '1'" --after "agent_version =
    '2'"
    """
    return _compare_sides({"before": before, "after": after}, user, since, seed, store, as_json)


def _compare_sides(
    sides: dict[str, str],
    user: str,
    since: str | None,
    seed: int | None,
    store: Path | None,
    as_json: bool,
) -> int:
    from stepscope.report.production import compare_production
    from stepscope.store.where import combine_filters, parse_where
    from stepscope.values import Unmeasured

    (first, one), (second, other) = sides.items()
    with options.open_existing(store) as notebook:
        chosen = [combine_filters(text, since) or parse_where(text) for text in (one, other)]
        found = compare_production(
            notebook.store,
            (chosen[0], chosen[1]),
            names=(first, second),
            user=user,
            seed=notebook.settings.seed if seed is None else seed,
        )
    terminal.print_result(found, as_json=as_json)
    if isinstance(found.shapes, Unmeasured):
        return options.UNMEASURED
    return options.GATE_FAILED if found.diverged else 0


def grounding(
    *,
    proxies: str = Option(
        ..., metavar="FILE", help="CSV or JSON of signals: run, signal, value, time."
    ),
    confounders: str | None = Option(
        None, metavar="FIELD,...", help="Confounders, as tag.KEY or agent_version."
    ),
    placebo: str | None = Option(
        None, metavar="SIGNAL", help="A signal that quality cannot change."
    ),
    user: User = "user",
    where: options.WhereText = None,
    since: options.Since = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Estimate how strongly step scores affect what users do, such as abandoning a run.

    The effects of the confounders that you name are removed from scores and signals. Steps scored
    twice show the error of the judge, and the estimate is corrected for it. The exit code is 4 if
    there is no estimate.

    Example: stepscope calibrate grounding --proxies signals.csv --confounders tag.difficulty
    """
    from stepscope.api.score_files import open_score_file
    from stepscope.api.verdict_import import read_proxies
    from stepscope.calibrate.grounding import measure_grounding
    from stepscope.store.where import combine_filters

    with options.open_existing(store) as notebook:
        stream = open_score_file(proxies, notebook.settings)
        with stream.file:
            given = read_proxies(notebook.store, stream, placebo)
        found = measure_grounding(
            notebook.store,
            given.signals,
            where=combine_filters(where, since),
            user=user,
            confounders=[one.strip() for one in (confounders or "").split(",") if one.strip()],
            placebo=placebo,
            seed=notebook.settings.seed if seed is None else seed,
        )
    told = {"proxies": given, "effects": found} if as_json else "\n".join(map(str, [given, *found]))
    terminal.print_result(told, as_json=as_json)
    return 0 if any(one.effect.overlap is not None for one in found) else options.UNMEASURED


def _lines(found: Sequence[JudgeNoise], width: int) -> Iterator[str]:
    from stepscope.values import Unmeasured, format_interval, format_number

    names = [visible_line(noise.judge) or "(no judge named)" for noise in found]
    wide = max([5, *map(len, names)])
    yield f"{'judge':<{wide}}  sigma  95 % interval  scorings  steps"
    for name, noise in zip(names, found, strict=True):
        sigma = noise.sigma
        if isinstance(sigma, Unmeasured):
            said = f"{name:<{wide}}      -  {sigma.kind}: {sigma.reason}"
            yield from textwrap.wrap(visible_line(said), width, subsequent_indent=" " * (wide + 9))
            continue
        interval = format_interval(sigma)
        yield (
            f"{name:<{wide}}  {format_number(sigma.value):>5}  {interval:<13}  {sigma.n:>8,}  "
            f"{sigma.n_tasks:>5,}"
        )
        notes = [noise.decision.reason if noise.decision else "", *sigma.diagnostics]
        for note in filter(None, notes):
            yield from textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ")
    yield ""
    yield "Labels of runs are computed with the upper limit of sigma. Repeated scores show how well"
    yield "a judge agrees with itself, not whether it is right."


# Below `stepscope calibrate`, in the order of its help.
COMMANDS = (sigma, judge_, labels_, localise, gap, drift, bias, production, followup, grounding)
