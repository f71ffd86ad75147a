"""Build a `Report` from rows: vectors of groups, outcome against path, rank flips, next steps.

Runs of one task are a cluster. What has no answer is counted by its kind and never filled in; runs
without both grades stay out of outcome against path and are counted beside it. The vector is never
folded into one number, and versions of a measure are never mixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files

import msgspec
import numpy as np

from stepscope import measures, stats
from stepscope.errors import UsageError
from stepscope.findings.modes import find_modes
from stepscope.measures.agents import AgentAnswers, measure_agents
from stepscope.measures.outcome import ANOTHER_WAY, CONTRADICTED
from stepscope.model import records
from stepscope.model.records import Figure
from stepscope.report.earned import (
    GRADES,
    OTHER_WRITES,
    AxisFaults,
    Effects,
    count_outcome_tables,
    find_effects,
    find_faulty,
    grade_paths,
    judge_looseness,
    list_runs,
)
from stepscope.report.evidence import read_look_first as choose
from stepscope.report.evidence import weigh_judged, weigh_runs
from stepscope.report.flips import find_rank_flips
from stepscope.report.panels import build_panels
from stepscope.report.rows import (
    RunTable,
    choose_fields,
    combine_conditions,
    estimate_shapes,
    hide_texts,
    is_outdated,
    read_axis_faults,
    read_outcomes,
    read_table,
    say_no_match,
    split_groups,
)
from stepscope.report.types import (
    CheckAccuracy,
    InputCount,
    LookFirst,
    Profile,
    Provenance,
    Report,
    Shapes,
    TrialCounts,
)
from stepscope.report.words import (
    AXES,
    COMPARED,
    MEASURES,
    NOT_SCORED,
    SCORE_FIRST,
    UNITS,
    give_reason,
    mark_same_faults,
)
from stepscope.safety.redact import hide_in
from stepscope.store import Store
from stepscope.store.columns import (
    ANSWERED,
    NO_RECORD,
    AnswerColumn,
    Rows,
    cell_state,
    text_array,
)
from stepscope.store.judged import read_judge_answers
from stepscope.store.where import Where
from stepscope.values import Unmeasured, format_count


def measure_axes(table: RunTable, faults: AxisFaults) -> Iterator[tuple[str, Figure]]:
    """Yield the share of runs in which each axis proved a fault, by the key of the figure."""
    for key, (proved, ran) in faults.items():
        lost = table.lost(key)
        figure: Figure = stats.proportion(proved[ran], table.clusters[ran], unmeasured=lost)
        if is_outdated(table.columns[key]):
            version = ", ".join(table.columns[key].versions)
            figure = Unmeasured("missing_input", f"answers of version {version}; {SCORE_FIRST}")
        yield key, give_reason(key, figure)


@cache
def read_check_accuracy() -> tuple[CheckAccuracy, ...]:
    """Return what is known of the checks of each axis, as `python -m bars.planted` wrote it."""
    found = msgspec.json.decode(files(measures).joinpath("proofs.json").read_bytes())
    return tuple(
        CheckAccuracy(
            axis=key,
            version=axis["version"],
            good_runs=axis["passing"],
            false_faults=axis["false"],
            planted={
                kind: (one["proved"], one["planted"])
                for kind, one in found["kinds"].items()
                if f"axes.{one['axis']}" == key
            },
        )
        for key, axis in found["axes"].items()
    )


# What `--by` takes for it.
BY = "step_agent"

_OF_RUNS = ("outcome.pass^", "subgoals.", "axes.")
ALONE = Unmeasured("not_applicable", "one group; pairs of groups are compared")
NO_RIVALS = Unmeasured("not_applicable", "agents of one run share its outcome")
_OUTCOME = "of the runs that it took part in"


def split_step_agents(rows: Rows, table: RunTable) -> RunTable:
    """Return the table with a row for each run and each of its agents, which `BY` names.

    Raises:
        UsageError: the traces cannot be opened here, or no run names agents at its steps.
    """
    if not isinstance(rows, Store):
        raise UsageError(f"--by {BY} opens runs, and there are none here: name a store")
    facts = {workflow: rows.facts(workflow) for workflow in set(table.runs.workflow.tolist())}
    places: list[int] = []
    found: list[AgentAnswers] = []
    at_key = {key: at for at, key in enumerate(table.runs.key.tolist())}
    for stored in rows.stored(table.runs.key.tolist()):
        run = stored.trajectory
        answers = measure_agents(run, run.case, facts[run.workflow])
        if not isinstance(answers, Unmeasured):
            places += [at_key[stored.key]] * len(answers)
            found += answers
    if not found:
        raise UsageError(f"--by {BY}: no step of these runs names its agent")
    taken = table.take(np.array(places, np.int64))
    steps, calls = (_column(name, found).value for name in ("efficiency.steps", "efficiency.calls"))
    return replace(
        taken,
        runs=replace(taken.runs, steps=steps.astype(np.int64), calls=calls.astype(np.int64)),
        columns={
            name: column if name == "outcome" else _column(name, found, column.versions)
            for name, column in taken.columns.items()
        },
        tags={BY: text_array([one.agent for one in found])},
        shapes=None,
        custom=(),
    )


def keep_agent_figures(profile: Profile) -> Profile:
    """Return the vector of one agent without the figures that only a whole run has."""
    return msgspec.structs.replace(
        profile,
        figures={k: v for k, v in profile.figures.items() if not k.startswith(_OF_RUNS)},
        notes={**profile.notes, "outcome.pass": _OUTCOME},
        trials=None,
    )


def _column(
    measure: str, found: list[AgentAnswers], versions: tuple[str, ...] = ()
) -> AnswerColumn:
    value, state = np.full(len(found), np.nan), np.full(len(found), NO_RECORD, np.int8)
    for at, one in enumerate(found):
        answer = next((answer for answer in one.answers if answer.measure == measure), None)
        if isinstance(answer, Unmeasured):
            state[at] = cell_state(answer.kind)
        elif answer is not None:
            state[at] = ANSWERED
            value[at] = np.nan if answer.value is None else answer.value
    label = text_array([None] * len(found))
    return AnswerColumn(measure=measure, value=value, label=label, state=state, versions=versions)


# Labels of a measure of the user that have a figure each.
MOST_LABELS = 5
# pass^k beyond this many trials says nothing that these do not.
MOST_TRIALS = 8


def measure_vector(table: RunTable) -> tuple[dict[str, Figure], dict[str, str], TrialCounts | None]:
    """Return the figures of a group by key, remarks on them by key, and its repeated trials."""
    known, passed = read_outcomes(table)
    lost = table.lost("outcome")
    figures: dict[str, Figure] = {
        "outcome.pass": stats.proportion(passed[known], table.clusters[known], unmeasured=lost)
    }
    powers, trials = _powers(table)
    figures |= powers
    reached, asked = table.columns[MEASURES["subgoals.reached"]], table.columns["subgoals.total"]
    chosen = reached.valued & asked.valued
    figures["subgoals.reached"] = stats.ratio(
        reached.value[chosen],
        asked.value[chosen],
        table.clusters[chosen],
        unmeasured=table.lost(reached.measure),
        unit_of_n="goals",
    )
    another = int((table.columns["subgoals"].label == ANOTHER_WAY).sum())
    repeats = table.columns[MEASURES["redundant_calls.per_run"]]
    figures["redundant_calls.per_run"] = stats.rate(
        repeats.value[repeats.valued],
        table.clusters[repeats.valued],
        unmeasured=table.lost(repeats.measure),
    )
    figures["errors.recovered"], notes = _recovered(table)
    if another:
        said = f"in {format_count(another, 'run')} another way, as the passed check says"
        notes["subgoals.reached"] = said
    policy = table.columns[MEASURES["policy.violations"]]
    figures["policy.violations"] = stats.proportion(
        policy.value[policy.valued] > 0,
        table.clusters[policy.valued],
        unmeasured=table.lost(policy.measure),
    )
    for quantity in ("steps", "tokens", "cost_usd", "seconds"):
        figures |= _spread(table, quantity)
    if powers and trials is not None:
        counts = f"{trials.always} always pass, {trials.mixed} sometimes, {trials.never} never"
        notes[list(powers)[-1]] = counts
    for name in table.custom:
        figures |= dict(_measure_custom(table, name))
    return {key: give_reason(key, figure) for key, figure in figures.items()}, notes, trials


def _measure_custom(table: RunTable, name: str) -> Iterator[tuple[str, Figure]]:
    """Yield the mean of a measure of the user, or the share of runs with each of its labels."""
    column, lost = table.columns[name], table.lost(name)
    labels = Counter(column.label[column.answered & ~column.valued].tolist())
    if column.valued.any() or not labels:
        values, clusters = column.value[column.valued], table.clusters[column.valued]
        bare = {"no_number": labels.total()} if labels else {}
        yield name, stats.mean(values, clusters, unmeasured=lost | bare)
    for label, _ in labels.most_common(MOST_LABELS):
        has_it = column.label[column.answered] == label
        clusters = table.clusters[column.answered]
        yield f"{name}={label}", stats.proportion(has_it, clusters, unmeasured=lost)


def _powers(table: RunTable) -> tuple[dict[str, Figure], TrialCounts | None]:
    """Return pass^2 up to the most trials of a task, and the tasks by how often they passed."""
    known, passed = read_outcomes(table)
    if not known.any():
        return {}, None
    successes, tried = stats.trials_per_task(passed[known], table.clusters[known])
    most = int(tried.max())
    always, never = successes == tried, successes == 0
    trials = TrialCounts(
        low=int(tried.min()),
        high=most,
        always=int(always.sum()),
        mixed=int((~always & ~never).sum()),
        never=int(never.sum()),
    )
    powers = range(2, min(most, MOST_TRIALS) + 1)
    return {f"outcome.pass^{k}": stats.pass_hat_k(successes, tried, k) for k in powers}, trials


def _recovered(table: RunTable) -> tuple[Figure, dict[str, str]]:
    """Return recovered errors per error; runs without errors have nothing to say."""
    recovered, errors = table.columns[MEASURES["errors.recovered"]], table.columns["errors"]
    chosen = recovered.valued & errors.valued & (errors.value > 0)
    if errors.valued.any() and not chosen.any():
        return Unmeasured("not_applicable", "no tool error"), {}
    # A loss here is a run whose errors are unknown; a run without errors loses nothing.
    lost = {kind: n for kind, n in table.lost("errors").items() if kind != "not_applicable"}
    figure = stats.ratio(
        recovered.value[chosen], errors.value[chosen], table.clusters[chosen], unmeasured=lost
    )
    runs = int(chosen.sum())
    note = f"errors that no test injected, in {format_count(runs, 'run')}"
    return figure, {"errors.recovered": note} if runs else {}


def _spread(table: RunTable, quantity: str) -> dict[str, Figure]:
    column = table.columns[MEASURES[quantity]]
    chosen = column.valued
    values, clusters = column.value[chosen], table.clusters[chosen]
    lost = table.lost(column.measure)
    figures: dict[str, Figure] = {}
    for name, q in (("median", 0.5), ("p95", 0.95)):
        key = f"{quantity}.{name}"
        if key != "tokens.p95":
            figures[key] = stats.quantile(
                values, q, clusters, unit=UNITS[quantity], unmeasured=lost
            )
    return figures


LOOK_FIRST = 10


def build_report(
    rows: Rows,  # a store, or anything else with its columns (then no run is opened)
    *,
    where: Where | None = None,  # a condition on runs; all when left out
    since: str | None = None,  # only runs that started then or later
    # the field that makes the groups; the agents of each workflow when left out
    by: str | None = None,
    seed: int = 0,  # where random draws start
    # how many runs to open and name suspects for; None opens every run
    look_first: int | None = LOOK_FIRST,
    table: RunTable | None = None,  # what `read_chosen_runs` has read with the same choice
    # of rubrics; of each judge the one that most runs were judged by when left out
    rubric_version: str | None = None,
) -> Report:
    """Return the report over the runs that `where` and `started_since` choose.

    Raises:
        StoreError: versions of a measure are mixed.
        UsageError: nothing is chosen, or `by` is no field.
    """
    if table is None:
        table = read_chosen_runs(rows, where=where, since=since, by=by)
    chosen = combine_conditions(where, since)
    judged = read_judge_answers(rows, table.runs, chosen, version=rubric_version)
    weighed = replace(table, judged=weigh_judged(judged, len(table)))
    found = choose(rows, weighed, look_first, judged) if isinstance(rows, Store) else ()
    opened = tuple(mark_same_faults(found))
    redactor = rows.shown if isinstance(rows, Store) else None
    names = text_array(hide_texts(redactor, table.runs.name.tolist()))
    table = replace(table, runs=replace(table.runs, name=names))
    within = by == BY
    split = split_step_agents(rows, table) if within else table
    parts = list(split_groups(split, (BY,) if within else choose_fields(by)))
    effects = find_effects(rows, table)
    whole = build_profile(table, {}, effects, seed=seed)
    if within or parts[1:]:
        profiles = [build_profile(part, group, effects, seed=seed) for group, part in parts]
    else:
        group = {field: value for field, value in parts[0][0].items() if value}
        profiles = [msgspec.structs.replace(whole, group=group)]
    if within:
        profiles = [keep_agent_figures(one) for one in profiles]
    unranked = NO_RIVALS if within else None if parts[1:] else ALONE
    # Judges of runs know nothing of step agents.
    groups = [whole] if within else profiles
    panels = build_panels(
        rows, table, groups, judged, where=chosen, version=rubric_version, seed=seed
    )
    report = Report(
        whole=whole,
        profiles=tuple(profiles),
        rank_flips=unranked or find_rank_flips(rows, table, profiles, judged, seed),
        look_first=opened,
        not_claimed=tuple(_not_claimed(rows, table, whole)),
        next=tuple(_next(table, opened)),
        provenance=Provenance(
            where=None if where is None else where.text,
            since=since,
            by=by,
            seed=seed,
            judges=(records.RULES, *(() if panels is None else panels.judges)),
            measures=table.versions(),
        ),
        panels=msgspec.UNSET if panels is None else panels,
        checks=read_check_accuracy(),
        modes=find_modes(rows, table.runs, table.clusters),
    )
    # The lines of runs are thousands, and hold no text but names, which are hidden already.
    held, edit = (whole, *profiles), msgspec.structs.replace
    bare, *others = (edit(one, lucky=(), unlucky=(), faulty={}) for one in held)
    report = hide_in(redactor, edit(report, whole=bare, profiles=tuple(others)))
    whole, *profiles = (
        edit(one, lucky=of.lucky, unlucky=of.unlucky, faulty=of.faulty)
        for one, of in zip((report.whole, *report.profiles), held, strict=True)
    )
    return edit(report, whole=whole, profiles=tuple(profiles))


def read_chosen_runs(
    rows: Rows, *, where: Where | None, since: str | None, by: str | None
) -> RunTable:
    """Return the rows that a report over these runs is made of.

    Raises:
        StoreError: versions of a measure are mixed.
        UsageError: nothing is chosen, or `by` is no field.
    """
    # Who acted at a step is in no column: the table is split when its runs are opened.
    fields = () if by == BY else choose_fields(by)
    table = read_table(rows, combine_conditions(where, since), fields)
    if not len(table):
        raise UsageError(say_no_match(rows, combine_conditions(where, since)))
    return table


def build_profile(
    table: RunTable, group: dict[str, str | None], effects: Effects, *, seed: int = 0
) -> Profile:
    """Return the vector of one group of runs, with outcome against path, and their shapes.

    `effects` is what `find_effects` found in these runs, and in others.
    """
    faults = {key: read_axis_faults(table, key) for key in AXES}
    figures, notes, trials = measure_vector(table)
    figures |= measure_axes(table, faults)
    known, passed = read_outcomes(table)
    graded, good = grade_paths(table)
    both = known & graded
    lost = {"missing_input": int((~both).sum())}
    joint = stats.joint_table(passed[both], good[both], table.clusters[both], unmeasured=lost)
    grades = [key for key in GRADES if (table.columns[COMPARED[key]].valued & both).any()]
    measured = not isinstance(joint, Unmeasured)
    faulty, unlucky = find_faulty(table), measured & both & ~passed & good
    harmless = np.array([effects.get(key) is False for key in table.runs.key.tolist()], np.bool_)
    if n := int((faulty & harmless).sum()):
        notes["lucky"] = f"faults in {format_count(n, 'run')} had no effect"
    listed = partial(list_runs, table, faults=faults)
    # The most telling first; those that wrote nothing else first.
    worst = np.argsort(-weigh_runs(table), kind="stable")
    calm = np.argsort(np.nan_to_num(table.columns[OTHER_WRITES].value), kind="stable")
    return Profile(
        group=group,
        n_runs=len(table),
        n_tasks=table.n_tasks,
        n_steps=int(table.runs.steps.sum()),
        n_calls=int(table.runs.calls.sum()),
        trials=trials,
        figures=figures,
        notes=notes,
        earned=tuple(count_outcome_tables(table)),
        lucky=listed(calm[(faulty & ~harmless)[calm]], effects=effects),
        unlucky=listed(calm[unlucky[calm]]),
        faulty={
            key: listed(worst[(proved * ran > 0)[worst]])
            for key, (proved, ran) in faults.items()
            if (proved * ran > 0).any()
        },
        disagreement=joint if isinstance(joint, Unmeasured) else joint.disagreement,
        too_loose=judge_looseness(joint, grades),
        shapes=estimate_shapes(table.shapes, table.clusters, seed),
        inputs=tuple(_count_inputs(table)),
    )


def _count_inputs(table: RunTable) -> Iterator[InputCount]:
    for name in records.INPUTS:
        column = table.columns[f"{records.COMPLETENESS_NAME}.{name}"]
        labels = column.label[column.answered].tolist()
        lost = Counter(sorted(label for label in labels if label != records.RECORDED))
        if labels:
            yield InputCount(input=name, runs=len(labels), lost=dict(lost))


def _not_claimed(rows: Rows, table: RunTable, whole: Profile) -> list[str]:
    people = any(name.startswith(f"{records.HUMAN}.") for name in rows.measures())
    why = "people's labels are not compared here" if people else "no labels here"
    said = [f"suspect-step accuracy ({why})"]
    if "errors.recovered" in whole.notes:
        said.append("recovery from injected errors (none here)")
    if not (isinstance(whole.shapes, Shapes) and whole.shapes.shares):
        said.append(f"shapes ({_no_shapes(whole.shapes)})")
    unscored = table.lost("outcome").get(NOT_SCORED, 0)
    if unscored:
        said.append(f"anything about {unscored:,} runs never scored")
    contradicted = int((rows.column(CONTRADICTED, table.runs).state == 1).sum())
    if contradicted:
        runs = format_count(contradicted, "run")
        said.append(f"that the outcome of {runs} is settled (others say otherwise: stepscope show)")
    return said


def _no_shapes(found: Shapes | Unmeasured) -> str:
    if isinstance(found, Unmeasured):
        return "no step scores here"
    return found.no_shares.reason if found.no_shares is not None else "no shares"


def _next(table: RunTable, opened: tuple[LookFirst, ...]) -> list[str]:
    unranked = any(run.reliability and run.nobody is None for run in opened)
    unscored = unranked or table.lost("outcome").get(NOT_SCORED, 0)
    unscored = unscored or any(is_outdated(table.columns[key]) for key in AXES)
    commands = ["stepscope score"] if unscored else []
    if opened:
        first = opened[0]
        around = f" --step {first.suspects[0].first}" if first.suspects else ""
        commands.append(first.command + around)
    return [*commands, "stepscope report --json"]
