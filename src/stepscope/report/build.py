"""Build a `Report` from rows: vectors of groups, outcome against path, rank flips, next steps.

Runs of one task are a cluster. What has no answer is counted by its kind and never filled in; the
vector is never folded into one number, and versions of a measure are never mixed. A pass is right
for the wrong reason where a proved fault or breach had an effect: on the world, or on what the user
was left with. What was refused, only read, done anew as it should be, or put right later is no such
reason; where the trace cannot tell, the pass stays on the list as a doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from itertools import compress, repeat
from zlib import crc32

import msgspec
import numpy as np

from stepscope import measures, stats
from stepscope.errors import UsageError
from stepscope.findings.modes import find_modes
from stepscope.measures.agents import AgentAnswers, measure_agents
from stepscope.measures.calls import effect_of, has_succeeded
from stepscope.measures.conduct import leaf_texts, ways_to_ask
from stepscope.measures.language import sentences
from stepscope.measures.outcome import ANOTHER_WAY, CONTRADICTED
from stepscope.model import Exchange, Facts, Step, Trajectory, Verdict, records
from stepscope.model.records import RULES, Figure
from stepscope.report import rows as tables
from stepscope.report import types, words
from stepscope.report.panels import build_panels
from stepscope.report.suspects import read_look_first as choose
from stepscope.report.suspects import weigh_judged, weigh_runs
from stepscope.report.votes import INCOMPLETE, PanelAspect, find_complete, read_aspects
from stepscope.safety.redact import hide_in
from stepscope.stats import FigureRuns
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store import Store
from stepscope.store.columns import ANSWERED, NO_RECORD, AnswerColumn, Rows, cell_state, text_array
from stepscope.store.judged import JudgeAnswers, read_judge_answers
from stepscope.store.where import Where, combine_filters
from stepscope.values import Decision, RankFlips, Unmeasured, format_count


def measure_axes(table: tables.RunTable) -> Iterator[tuple[str, Figure]]:
    """Yield the share of runs in which each axis proved a fault, by the key of the figure."""
    for key, (proved, ran) in table.faults.items():
        lost = table.lost(key)
        figure: Figure = stats.proportion(proved[ran], table.clusters[ran], unmeasured=lost)
        if tables.is_outdated(table.columns[key]):
            version = ", ".join(table.columns[key].versions)
            reason = f"answers of version {version}; {words.SCORE_FIRST}"
            figure = Unmeasured("missing_input", reason)
        yield key, words.give_reason(key, figure)


@cache
def read_check_accuracy() -> tuple[types.CheckAccuracy, ...]:
    """Return what is known of the checks of each axis, as `python -m bars.planted` wrote it."""
    found = msgspec.json.decode(files(measures).joinpath("proofs.json").read_bytes())
    return tuple(
        types.CheckAccuracy(
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


def split_step_agents(rows: Rows, table: tables.RunTable) -> tables.RunTable:
    """Return the table with a row for each run and each of its agents; refuse runs without any."""
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
    columns = {
        name: column if name == "outcome" else _column(name, found, column.versions)
        for name, column in taken.columns.items()
    }
    counts = (_column(f"efficiency.{name}", found).value for name in ("steps", "calls"))
    steps, calls = (count.astype(np.int64) for count in counts)
    runs, faults = replace(taken.runs, steps=steps, calls=calls), tables.read_axis_faults(columns)
    tags = {BY: text_array([one.agent for one in found])}
    return replace(
        taken, runs=runs, columns=columns, faults=faults, tags=tags, shapes=None, custom=()
    )


def _column(name: str, found: list[AgentAnswers], versions: tuple[str, ...] = ()) -> AnswerColumn:
    value, state = np.full(len(found), np.nan), np.full(len(found), NO_RECORD, np.int8)
    for at, one in enumerate(found):
        answer = next((answer for answer in one.answers if answer.measure == name), None)
        if isinstance(answer, Unmeasured):
            state[at] = cell_state(answer.kind)
        elif answer is not None:
            state[at] = ANSWERED
            value[at] = np.nan if answer.value is None else answer.value
    label = text_array([None] * len(found))
    return AnswerColumn(measure=name, value=value, label=label, state=state, versions=versions)


# Labels of a measure of the user that have a figure each.
MOST_LABELS = 5
# pass^k beyond this many trials says nothing that these do not.
MOST_TRIALS = 8


def measure_vector(
    table: tables.RunTable,
) -> tuple[dict[str, Figure], dict[str, str], types.TrialCounts | None]:
    """Return the figures of a group by key, remarks on them by key, and its repeated trials."""
    known, passed = tables.read_outcomes(table)
    lost = table.lost("outcome")
    figures: dict[str, Figure] = {
        "outcome.pass": stats.proportion(passed[known], table.clusters[known], unmeasured=lost)
    }
    powers, trials = _powers(table)
    figures |= powers
    reached = table.columns[words.MEASURES["subgoals.reached"]]
    asked = table.columns["subgoals.total"]
    chosen = reached.valued & asked.valued
    lost = table.lost(reached.measure)
    over, under, clusters = reached.value[chosen], asked.value[chosen], table.clusters[chosen]
    goals = stats.ratio(over, under, clusters, unmeasured=lost, unit_of_n="goals")
    figures["subgoals.reached"] = goals
    another = int((table.columns["subgoals"].label == ANOTHER_WAY).sum())
    values, clusters, lost = _read_valued(table, words.MEASURES["redundant_calls.per_run"])
    figures["redundant_calls.per_run"] = stats.rate(values, clusters, unmeasured=lost)
    figures["errors.recovered"], notes = _recovered(table)
    if another:
        said = f"in {format_count(another, 'run')} another way, as the passed check says"
        notes["subgoals.reached"] = said
    values, clusters, lost = _read_valued(table, words.MEASURES["policy.violations"])
    figures["policy.violations"] = stats.proportion(values > 0, clusters, unmeasured=lost)
    for quantity, unit in words.UNITS.items():
        values, clusters, lost = _read_valued(table, words.MEASURES[quantity])
        asked_of = {"median": 0.5} if quantity == "tokens" else {"median": 0.5, "p95": 0.95}
        for name, q in asked_of.items():
            found = stats.quantile(values, q, clusters, unit=unit, unmeasured=lost)
            figures[f"{quantity}.{name}"] = found
    if powers and trials is not None:
        counts = f"always pass: {trials.always}, sometimes: {trials.mixed}, never: {trials.never}"
        notes[list(powers)[-1]] = f"tasks that {counts}"
    for name in table.custom:
        figures |= dict(_measure_custom(table, name))
    return {key: words.give_reason(key, figure) for key, figure in figures.items()}, notes, trials


def _measure_custom(table: tables.RunTable, name: str) -> Iterator[tuple[str, Figure]]:
    """Yield the mean of a measure of the user, or the share of runs with each of its labels."""
    column, lost = table.columns[name], table.lost(name)
    labels = Counter(column.label[column.answered & ~column.valued].tolist())
    if column.valued.any() or not labels:
        values, clusters, _ = _read_valued(table, name)
        bare = {"no_number": labels.total()} if labels else {}
        yield name, stats.mean(values, clusters, unmeasured=lost | bare)
    for label, _ in labels.most_common(MOST_LABELS):
        has_it = column.label[column.answered] == label
        clusters = table.clusters[column.answered]
        yield f"{name}={label}", stats.proportion(has_it, clusters, unmeasured=lost)


def _read_valued(table: tables.RunTable, measure: str) -> tuple[Floats, Ints, dict[str, int]]:
    """Return the numbers of a measure, the tasks of their runs, and the runs without, by kind."""
    column = table.columns[measure]
    return column.value[column.valued], table.clusters[column.valued], table.lost(measure)


def _powers(table: tables.RunTable) -> tuple[dict[str, Figure], types.TrialCounts | None]:
    known, passed = tables.read_outcomes(table)
    if not known.any():
        return {}, None
    successes, tried = stats.trials_per_task(passed[known], table.clusters[known])
    low, most = int(tried.min()), int(tried.max())
    always, never = int((successes == tried).sum()), int((successes == 0).sum())
    mixed = len(tried) - always - never
    trials = types.TrialCounts(low=low, high=most, always=always, mixed=mixed, never=never)
    powers = range(2, min(most, MOST_TRIALS) + 1)
    return {f"outcome.pass^{k}": stats.pass_hat_k(successes, tried, k) for k in powers}, trials


def _recovered(table: tables.RunTable) -> tuple[Figure, dict[str, str]]:
    """Return recovered errors per error; runs without errors have nothing to say."""
    recovered, errors = table.columns[words.MEASURES["errors.recovered"]], table.columns["errors"]
    chosen = recovered.valued & errors.valued & (errors.value > 0)
    if errors.valued.any() and not chosen.any():
        return Unmeasured("not_applicable", "no tool error"), {}
    # A loss here is a run whose errors are unknown; a run without errors loses nothing.
    lost = {kind: n for kind, n in table.lost("errors").items() if kind != "not_applicable"}
    over, under, clusters = recovered.value[chosen], errors.value[chosen], table.clusters[chosen]
    figure, runs = stats.ratio(over, under, clusters, unmeasured=lost), int(chosen.sum())
    note = f"{format_count(runs, 'run')} had errors; no error was injected on purpose"
    return figure, {"errors.recovered": note} if runs else {}


LOOK_FIRST = 10


def build_report(
    rows: Rows,  # a store, or anything else with its columns (then no run is opened)
    *,
    where: Where | None = None,  # a condition on runs; all when left out
    since: str | None = None,  # only runs that started then or later
    by: str | None = None,  # the field that makes groups; agents of each workflow when left out
    seed: int = 0,  # where random draws start
    look_first: int | None = LOOK_FIRST,  # runs to open and name suspects for; None opens every run
    table: tables.RunTable | None = None,  # what `read_chosen_runs` has read with the same choice
    rubric_version: str | None = None,  # of each judge the commonest when left out
) -> types.Report:
    """Return the report over the runs chosen; raises as `read_chosen_runs` does."""
    if table is None:
        table = read_chosen_runs(rows, where=where, since=since, by=by)
    only = combine_filters(where, since)
    judged = read_judge_answers(rows, table.runs, only, version=rubric_version)
    weighed = replace(table, judged=weigh_judged(judged, len(table)))
    found = choose(rows, weighed, look_first, judged) if isinstance(rows, Store) else ()
    opened = tuple(words.mark_same_faults(found))
    redactor = rows.shown if isinstance(rows, Store) else None
    names = text_array(tables.hide_texts(redactor, table.runs.name.tolist()))
    table = replace(table, runs=replace(table.runs, name=names))
    within = by == BY
    split = split_step_agents(rows, table) if within else table
    parts = list(tables.split_groups(split, (BY,) if within else tables.choose_fields(by)))
    effects = find_effects(rows, table)
    whole = build_profile(table, {}, effects, seed=seed)
    if within or parts[1:]:
        profiles = [build_profile(part, group, effects, seed=seed) for group, part in parts]
    else:
        group = {field: value for field, value in parts[0][0].items() if value}
        profiles = [msgspec.structs.replace(whole, group=group)]
    for at, one in enumerate(profiles) if within else ():
        kept = {k: v for k, v in one.figures.items() if not k.startswith(_OF_RUNS)}
        notes = {**one.notes, "outcome.pass": _OUTCOME}
        profiles[at] = msgspec.structs.replace(one, figures=kept, notes=notes, trials=None)
    unranked = NO_RIVALS if within else None if parts[1:] else ALONE
    # Judges of runs know nothing of step agents.
    sets = [whole] if within else profiles
    panels = build_panels(rows, table, sets, judged, where=only, version=rubric_version, seed=seed)
    text, judges = None if where is None else where.text, () if panels is None else panels.judges
    report = types.Report(
        whole=whole,
        profiles=tuple(profiles),
        rank_flips=unranked or find_rank_flips(rows, table, profiles, judged, seed),
        look_first=opened,
        not_claimed=tuple(_not_claimed(rows, table, whole)),
        next=tuple(_next(table, opened)),
        provenance=types.Provenance(
            where=text,
            since=since,
            by=by,
            seed=seed,
            judges=(records.RULES, *judges),
            measures=table.versions(),
        ),
        panels=msgspec.UNSET if panels is None else panels,
        checks=read_check_accuracy(),
        modes=find_modes(rows, table.runs, table.clusters, table.columns),
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
) -> tables.RunTable:
    """Return the rows that a report over these runs is made of; raises UsageError where none is."""
    # Who acted at a step is in no column: the table is split when its runs are opened.
    fields = () if by == BY else tables.choose_fields(by)
    chosen = combine_filters(where, since)
    table = tables.read_table(rows, chosen, fields)
    if not len(table):
        raise UsageError(tables.say_no_match(rows, chosen))
    return table


def build_profile(
    table: tables.RunTable, group: dict[str, str | None], effects: Effects, *, seed: int = 0
) -> types.Profile:
    """Return the vector of a group of runs; `effects` is what `find_effects` found in them."""
    figures, notes, trials = measure_vector(table)
    figures |= measure_axes(table)
    known, passed = tables.read_outcomes(table)
    graded, good = grade_paths(table)
    both = known & graded
    lost = {"missing_input": int((~both).sum())}
    joint = stats.joint_table(passed[both], good[both], table.clusters[both], unmeasured=lost)
    grades = [key for key in GRADES if (table.columns[words.COMPARED[key]].valued & both).any()]
    measured = not isinstance(joint, Unmeasured)
    unlucky = measured & both & ~passed & good
    faulty, proved = find_faulty(table)
    harmless = np.isin(table.runs.key, [key for key, had in effects.items() if not had])
    if n := int((faulty & harmless).sum()):
        notes["lucky"] = f"{n:,} of these runs had a fault that had no effect"
    listed = partial(list_runs, table)
    # The most telling first; those that wrote nothing else first.
    worst = np.argsort(-weigh_runs(table), kind="stable")
    calm = np.argsort(np.nan_to_num(table.columns[OTHER_WRITES].value), kind="stable")
    return types.Profile(
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
        faulty={key: listed(worst[proved[key][worst]]) for key in words.AXES if proved[key].any()},
        disagreement=joint if isinstance(joint, Unmeasured) else joint.disagreement,
        too_loose=judge_looseness(joint, grades),
        shapes=tables.estimate_shapes(table.shapes, table.clusters, seed),
        inputs=tuple(_count_inputs(table)),
    )


def _count_inputs(table: tables.RunTable) -> Iterator[types.InputCount]:
    for name in records.INPUTS:
        column = table.columns[f"{records.COMPLETENESS_NAME}.{name}"]
        labels = column.label[column.answered]
        lost = Counter(sorted(labels[labels != records.RECORDED].tolist()))
        if len(labels):
            yield types.InputCount(input=name, runs=len(labels), lost=dict(lost))


def _not_claimed(rows: Rows, table: tables.RunTable, whole: types.Profile) -> list[str]:
    people = any(name.startswith(f"{records.HUMAN}.") for name in rows.measures())
    why = "people's labels are not compared here" if people else "no labels here"
    said = [f"how often a suspect step is the one that went wrong ({why})"]
    if "errors.recovered" in whole.notes:
        said.append("recovery from injected errors (no such errors here)")
    if isinstance(whole.shapes, Unmeasured):
        said.append("shapes (no step scores here)")
    elif not whole.shapes.shares:
        absent = whole.shapes.no_shares
        said.append(f"shapes ({'no shares' if absent is None else absent.reason})")
    unscored = table.lost("outcome").get(words.NOT_SCORED, 0)
    if unscored:
        said.append(f"{format_count(unscored, 'run')} never scored")
    known = CONTRADICTED in rows.measures()
    if contradicted := known and int(rows.column(CONTRADICTED, table.runs).answered.sum()):
        runs = format_count(contradicted, "run")
        said.append(f"the true outcome of {runs} (sources contradict each other: stepscope show)")
    return said


def _next(table: tables.RunTable, opened: tuple[types.LookFirst, ...]) -> list[str]:
    unranked = any(run.reliability and run.nobody is None for run in opened)
    unscored = unranked or table.lost("outcome").get(words.NOT_SCORED, 0)
    unscored = unscored or any(tables.is_outdated(table.columns[key]) for key in words.AXES)
    commands = ["stepscope score"] if unscored else []
    for first in opened[:1]:
        around = f" --step {first.suspects[0].first}" if first.suspects else ""
        commands.append(first.command + around)
    return [*commands, "stepscope report --json"]


def find_faulty(table: tables.RunTable) -> tuple[Bools, dict[str, Bools]]:
    """Return which passing runs have a proved fault or a broken rule, and which runs have each."""
    known, passed = tables.read_outcomes(table)
    proved = {key: (fault > 0) & ran for key, (fault, ran) in table.faults.items()}
    proved["policy"] = table.columns["policy"].value > 0
    return known & passed & np.logical_or.reduce([*proved.values()]), proved


# Passing runs with a fault that are opened; of any more it is not known whether it had an effect.
MOST_OPENED = 500
# By row of a run: whether its proved faults had an effect; what nobody can tell is not in it.
Effects = Mapping[int, bool]


def find_effects(rows: Rows, table: tables.RunTable) -> Effects:
    """Return whether the faults of passing runs had an effect, as their steps show."""
    if not isinstance(rows, Store):
        return {}
    found: dict[int, bool] = {}
    facts = cache(rows.facts)
    faulty, faults = find_faulty(table)
    chosen = np.flatnonzero(faulty)[:MOST_OPENED]
    of_run: dict[str, list[list[Verdict]]] = {}
    for measure, runs in faults.items():
        held: dict[str, list[Verdict]] = {id: [] for id in table.runs.id[chosen[runs[chosen]]]}
        for record in rows.records(trajectory=list(held), measure=measure):
            answer = record.answer
            if record.family == RULES and isinstance(answer, Verdict) and answer.step is not None:
                held[record.trajectory].append(answer)
        for id, answers in held.items():
            of_run.setdefault(id, []).append(answers)
    for stored in rows.stored(table.runs.key[chosen].tolist()):
        run = stored.trajectory
        effects: set[bool | None] = set()
        for each in of_run[run.id]:
            effects |= {has_effect(run, fault, facts(run.workflow)) for fault in each} or {None}
        if True in effects or effects == {False}:
            found[stored.key] = True in effects
    return found


# What these axes cite is a message, unless they name the call; and how an agent takes one back.
_TOLD, _ENDING = "axes.result_interpretation", "axes.termination"
_CORRECTS = re.compile(
    r"(?i)\b(?:(?:apolog\w+|sorry) (?:for|about) (?:\w+ ){0,3}(?:confusion|error|mistake|mix-?up)|"
    r"correction|(?:my|a) mistake|mistaken(?:ly)?|misread|misspoke|incorrectly|i was wrong)\b"
)
# What a fault says is true: "the result at 8 says 47.00", "where the total is 1203".
_TRUE = re.compile(r" (?:says|total is) (?:[a-z_ ]*)(?:'([^']{2,})'|(\d[\d,.]*\d))")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
# Words of what a fault is about, besides those of faults.
_WORDS = re.compile(r"\b(?!(?:tells|result|which|before|nothing)\b)[a-z]{5,}")
_THING = re.compile(r"\b(?=[A-Z_-]*\d)[A-Z\d_-]{5,20}\b")


def has_effect(run: Trajectory, fault: Verdict, facts: Facts | None) -> bool | None:
    """Return whether a fault changed the world or what the user has; None where no trace tells."""
    at = -1 if fault.step is None else fault.step
    made = [x for x in run.agent_exchanges if at in (x.step, x.result_step)]
    calls = [x for x in made if x.call.name in fault.reason]
    if calls or (made and fault.measure not in (_TOLD, _ENDING)):
        effects = {_changed(run, x, fault, facts) for x in calls or made}
        return True if True in effects else None if None in effects else False
    if not 0 <= at < len(run.steps) or run.steps[at].actor != "agent" or not run.steps[at].text:
        return None
    if " of another customer, " in fault.reason:
        return True  # what was shown cannot be unseen
    later = run.steps[at + 1 :]
    told = any(step.actor == "user" for step in later) or not any(map(_said, later))
    if not told or (fault.measure == _ENDING and not fault.reason.startswith("announces ")):
        return None
    return not (_is_corrected(fault, later) or _is_done_later(run, fault, facts))


def _changed(run: Trajectory, call: Exchange, fault: Verdict, facts: Facts | None) -> bool | None:
    effect = effect_of(call.call.name, facts)
    if call.failed or (effect == "read" and fault.measure != "policy"):
        return False
    if call.result is None or effect != "write":
        return None
    for later in run.agent_exchanges:
        if later.position > call.position and later.call.name == call.call.name:
            # Done again, with another value in place of what the fault quotes, and nothing else.
            found = list(words.find_differences(call.call.arguments, later.call.arguments))
            quoted = [words.describe_value(was) for _, was, _ in found]
            if has_succeeded(later) and quoted and all(x and x in fault.reason for x in quoted):
                return False
    return True


def _said(step: Step) -> str:
    return step.text if step.actor == "agent" else ""


def _is_corrected(fault: Verdict, later: Sequence[Step]) -> bool:
    """True if a later message says what is true, or takes back what it is about."""
    about, true = set(_WORDS.findall(fault.reason.lower())), _TRUE.search(fault.reason)
    value = (true[1] or true[2].removesuffix(".00").replace(",", "")) if true else ""
    for text in map(_said, later):
        plain = _THOUSANDS.sub("", text) if value and "," in text else text
        if value and value in plain:
            if re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d*[1-9])", plain):
                return True
        if not _CORRECTS.search(text):
            continue
        corrects = (said for said in sentences(text) if _CORRECTS.search(said))
        if any(not about.isdisjoint(_WORDS.findall(said.lower())) for said in corrects):
            return True
    return False


def _is_done_later(run: Trajectory, fault: Verdict, facts: Facts | None) -> bool:
    """True if what was told as done was done after all, to the thing that was named."""
    things = set(_THING.findall(fault.reason))
    for made in run.agent_exchanges if not _TRUE.search(fault.reason) else ():
        verbs, _ = ways_to_ask(made.call.name)
        writes = effect_of(made.call.name, facts) == "write" and has_succeeded(made)
        if writes and made.step > (fault.step or 0) and verbs is not None:
            given = set(leaf_texts(made.call.arguments))
            if verbs.search(fault.reason.casefold()) and (not things or things & given):
                return True
    return False


# Shares are counted in whole sub-goals and errors: below 1 by less than this is rounding.
NEARLY = 1e-9
OTHER_WRITES = "subgoals.other_writes"


def count_outcome_tables(table: tables.RunTable) -> Iterator[types.OutcomeTable]:
    """Yield outcome against sub-goals, errors and policy, each where anything was measured."""
    goals, policy = table.columns["subgoals"], table.columns["policy"]
    errors, recovery = table.columns["errors"], table.columns["recovery"]
    all_, some = goals.valued & _full(goals.value), goals.valued & ~_full(goals.value)
    yield from _joint(table, "sub-goals", {"all sub-goals": all_, "some missed": some})
    if recovery.valued.any():
        none = errors.valued & (errors.value == 0)
        over = recovery.valued & _full(recovery.value)
        of_errors = {"no error": none, "all recovered": over, "some not": recovery.valued & ~over}
        yield from _joint(table, "errors", of_errors)
    kept, broken = policy.valued & (policy.value == 0), policy.valued & (policy.value != 0)
    yield from _joint(table, "policy", {"rules kept": kept, "a rule broken": broken})


# The figures that the grade of a path is made of.
GRADES = ("subgoals.reached", "policy.violations")


def grade_paths(table: tables.RunTable) -> tuple[Bools, Bools]:
    """Return which runs have a grade of the path, and which have all reached and no rule broken."""
    goals, policy = table.columns["subgoals"], table.columns["policy"]
    graded = goals.valued | policy.valued
    bad = goals.valued & ~_full(goals.value) | policy.valued & (policy.value > 0)
    return graded, graded & ~bad


def judge_looseness(joint: stats.JointTable | Unmeasured, grades: Iterable[str]) -> Decision:
    """Decide whether outcome and path disagree so rarely that these grades add nothing."""
    found = joint if isinstance(joint, Unmeasured) else joint.limit
    if isinstance(found, Unmeasured):
        return Decision("undecided", found.reason)
    by = " and ".join(repr(words.name_figure(one)) for one in grades)
    upper = f"outcome and path, graded by {by}, disagree in at most {found:.0%} of runs"
    if found < stats.MOST_DISAGREEMENT:
        return Decision("fail", f"{upper}: this grade of the path is too loose to add anything")
    return Decision("pass", f"nothing shows that this grade of the path is too loose: {upper}")


def list_runs(
    table: tables.RunTable, places: Ints, effects: Effects | None = None
) -> tuple[types.RunLine, ...]:
    """Return chosen runs in their order, with what their path shows."""
    shares, broken, writes = (
        table.columns[name].take(places).numbers.tolist()
        for name in ("subgoals", "policy", OTHER_WRITES)
    )
    axes = [((proved[places] > 0) & ran[places]).tolist() for proved, ran in table.faults.values()]
    reasons = map(cache(_say_path), shares, broken, writes, *axes)
    ids, names, keys = (getattr(table.runs, x)[places].tolist() for x in ("id", "name", "key"))
    sure = repeat(True) if effects is None else map(effects.__contains__, keys)
    return tuple(map(types.RunLine, ids, names, reasons, sure))


def _say_path(share: float | None, broken: float | None, writes: float | None, *axes: bool) -> str:
    """Return what the path of a run shows; what was not measured is not said."""
    said = []
    if share is not None:
        said.append("every sub-goal reached" if share >= 1 else f"{share:.0%} of sub-goals")
    said += [f"{broken:.0f} violations"] if broken else []
    said += [f"{writes:.0f} other writes"] if writes else []
    proved = " and ".join(compress(words.AXES.values(), axes))
    return ", ".join([*said, f"proved: {proved}"] if proved else said)


def _joint(
    table: tables.RunTable, grade: str, columns: Mapping[str, Bools]
) -> Iterator[types.OutcomeTable]:
    """Yield outcome against a grade, where any run has both; a column is the runs of one name."""
    known, passed = tables.read_outcomes(table)
    both = known & np.logical_or.reduce([*columns.values()])
    if not both.any():
        return
    notes = {}
    if grade == "sub-goals":
        # Of the failing runs with every sub-goal reached, those that also wrote something else.
        unearned = both & ~passed & columns["all sub-goals"]
        more = int((unearned & (table.columns[OTHER_WRITES].value > 0)).sum())
        said = f"{more} of these {int(unearned.sum())} runs also made writes that are not in the "
        said += "reference solution"
        notes = {"fail": said} if more else {}
    yield types.OutcomeTable(
        grade=grade,
        columns=tuple(columns),
        passed=tuple(int((both & passed & flags).sum()) for flags in columns.values()),
        failed=tuple(int((both & ~passed & flags).sum()) for flags in columns.values()),
        unmeasured=len(table) - int(both.sum()),
        notes=notes,
    )


def _full(value: Floats) -> Bools:
    return np.nan_to_num(value) >= 1 - NEARLY


MORE_IS_BETTER = ("subgoals.reached", "errors.recovered")
FEWER_IS_BETTER = (
    *("redundant_calls.per_run", "policy.violations", *words.AXES),
    *(words.JUDGED + key for key in words.AXES),
)
# Pairs grow with the square; more groups than this are no ranking that anyone reads.
MOST_GROUPS = 20


def find_rank_flips(
    rows: Rows,  # where the runs are
    table: tables.RunTable,  # the runs, as a report reads them
    groups: Sequence[types.Profile],  # the groups of these runs that are ordered
    judged: Sequence[JudgeAnswers],  # what judges answered about the runs
    seed: int,  # where random draws start
) -> RankFlips | Unmeasured:
    """Return the pairs of groups that outcome and a path figure order differently."""
    if len(groups) > MOST_GROUPS:
        said = f"{len(groups)} groups; pairs of 2 to {MOST_GROUPS} are compared"
        return Unmeasured("not_applicable", said)
    chosen = [table.matches(group.group) for group in groups]
    by_rules = [key for key in (*MORE_IS_BETTER, *FEWER_IS_BETTER) if key in words.COMPARED]
    figures = {
        key: list(_runs(table, words.COMPARED[key], chosen))
        for key in by_rules
        if key not in words.AXES or table.scored(key)
    }
    axes = [one for one in judged if one.asked.measure in words.AXES]
    for aspect in read_aspects(rows, table, axes, ()):
        if aspect.even:
            figures[words.JUDGED + aspect.rubric] = list(_read_judged(aspect, chosen))
    names, outcomes = list(map(words.name_group, groups)), list(_runs(table, "outcome", chosen))
    rng = np.random.default_rng([seed, crc32(b"rank_flips")])
    return stats.rank_flips(
        names, outcomes, figures, fewer_is_better=FEWER_IS_BETTER, units=words.RATES, rng=rng
    )


def _runs(table: tables.RunTable, measure: str, groups: Sequence[Bools]) -> Iterator[FigureRuns]:
    """Yield what a measure says of the runs of each group."""
    values, valued = tables.read_values(table, measure)
    for group in groups:
        kept, lost = valued & group, table.lost(measure, group)
        yield FigureRuns(values=values[kept], cases=table.clusters[kept], unmeasured=lost)


def _read_judged(aspect: PanelAspect, groups: Sequence[Bools]) -> Iterator[FigureRuns]:
    """Yield in which runs of each group any judge found the fault, of those that all answered."""
    answered, asked = find_complete(aspect.votes)
    models = [one.failing for one in aspect.votes if one.member.family != RULES]
    failing = np.logical_or.reduce(models).astype(np.float64)
    for group in groups:
        inside = group & aspect.inside
        kept = inside & answered
        lost = {INCOMPLETE: int((inside & asked & ~answered).sum())}
        yield FigureRuns(values=failing[kept], cases=aspect.table.clusters[kept], unmeasured=lost)
