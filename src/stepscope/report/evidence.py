"""The score curve of a run, and the runs to read first, each with its suspects.

No rate may be computed on the runs to look at first: they are selected. Shapes of curves are
classified by `stepscope.shape`: the scorer of most steps is taken and the others are named;
repeated scorings of a step are averaged. Where nobody scored there is no curve: labels of rules are
no scores (docs/design/score-curves.md). Too few scores for a shape still make a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import sqrt

import msgspec
import numpy as np

from stepscope.errors import StoreError
from stepscope.findings.ranking import evidence_of_records, read_fit
from stepscope.model import Record, Step, Trajectory, Verdict
from stepscope.model.records import IMPORTED, STEP_SCORES
from stepscope.report import rows
from stepscope.report.rows import RunTable
from stepscope.report.suspects import compare_with_trials, list_passing_trials, list_suspects
from stepscope.report.types import Curve, LookFirst
from stepscope.report.words import AXES, INCORRECT
from stepscope.shape.breaks import fuse_signals, third_slopes
from stepscope.shape.classifier import classify
from stepscope.shape.types import HEALTHY
from stepscope.shape.weights import gate_failed, weighted_score
from stepscope.stats.sample import Floats, Ints
from stepscope.store import Store
from stepscope.store.judged import JudgeAnswers, keep_chosen
from stepscope.store.records import COST, EVERY_TASK, LATENCY
from stepscope.values import Estimate, Unmeasured

# What one finding weighs in choosing a run. Counts are capped, so that one long run with many
# small findings does not stand before a broken rule.
FINDING_WEIGHTS = {
    "policy": 5.0,
    "subgoals.other_writes": 1.5,
    "errors": 0.5,
    "redundant_calls.count": 0.25,
}
COUNT_CAP = 6.0
MISSED_WEIGHT = 1.0
LEFT_WEIGHT = 2.0
LOOP_WEIGHT = 0.25
GATE_WEIGHT, BREAK_WEIGHT, LOW_WEIGHT = 3.0, 2.0, 1.0
# What a judge faults weighs like a sub-goal missed. An error that nobody looked back at is read
# before all else: more than everything above can come to.
JUDGED_WEIGHT, CASCADE_WEIGHT = 1.0, 1_000.0
# A failing run comes before any passing one, but for passes that were badly unearned. Where nobody
# says how a run ended, a proved fault weighs as much, or the run is never read.
FAILED_WEIGHT = 4.0


def weigh_runs(table: RunTable) -> Floats:
    """Return what was found in each run, weighed; 0 for a passing run without findings."""
    total = np.zeros(len(table))
    for measure, weight in FINDING_WEIGHTS.items():
        total += weight * np.minimum(_values_or_zero(table, measure), COUNT_CAP)
    goals, recovery = table.columns["subgoals"], table.columns["recovery"]
    total += MISSED_WEIGHT * np.where(goals.valued, 1 - _values_or_zero(table, "subgoals"), 0.0)
    left = np.where(recovery.valued, 1 - _values_or_zero(table, "recovery"), 0.0)
    total += LEFT_WEIGHT * np.minimum(left * _values_or_zero(table, "errors"), COUNT_CAP)
    total += LOOP_WEIGHT * np.minimum(_values_or_zero(table, "loops"), COUNT_CAP)
    known, passed = rows.read_outcomes(table)
    excused = passed & (_values_or_zero(table, "policy") == 0)
    excused &= _values_or_zero(table, "subgoals.other_writes") == 0
    excused &= ~goals.valued | (_values_or_zero(table, "subgoals") >= 1)
    total[excused] *= 0.1
    faults = [table.columns[axis].label == INCORRECT for axis in AXES]
    failed = np.where(known, ~passed, np.logical_or.reduce(faults))
    total += np.where(failed, FAILED_WEIGHT, 0.0)
    shapes = table.shapes
    if shapes is not None:
        broken = (shapes.label > HEALTHY) | (shapes.break_step >= 0)
        total += np.where(shapes.gate_failed, GATE_WEIGHT, 0.0) + (
            np.where(broken, BREAK_WEIGHT, 0.0) + np.where(shapes.low_level, LOW_WEIGHT, 0.0)
        )
    return total if table.judged is None else total + table.judged


def weigh_judged(judged: Iterable[JudgeAnswers], n: int) -> Floats:
    """Return what judges found in each of n runs, weighed."""
    said: dict[int, list[Record]] = {}
    for one in judged:
        for at, of_run in one.runs.items() if one.main else ():
            found = [of_run.whole, *of_run.steps.values()]
            said.setdefault(at, []).extend(chain.from_iterable(each.values() for each in found))
    total = np.zeros(n)
    for at, records in said.items():
        kinds = [one.kind for one in evidence_of_records(records)]
        total[at] = min(JUDGED_WEIGHT * len(kinds), COUNT_CAP)
        total[at] += CASCADE_WEIGHT * ("judge_cascade" in kinds)
    return total


def choose_runs(table: RunTable, count: int | None) -> Ints:
    """Return the places of the chosen runs, most telling first; of all runs for None.

    Ties stay in the order of the rows: by name, then id.
    """
    found = weigh_runs(table)
    order = np.argsort(-found, kind="stable")
    if count is None:
        return order
    return order[found[order] > 0][:count]


def read_look_first(
    store: Store, table: RunTable, count: int | None, judged: Sequence[JudgeAnswers] | None = None
) -> Iterator[LookFirst]:
    """Yield the chosen runs, each read whole, with its suspects and the command that shows it.

    Of judges it hears what is in `judged`, where that is given.
    """
    given = None if table.shapes is None else (store.noise(), store.weights())
    fit = read_fit(store.path)
    chosen = choose_runs(table, count)
    trials = list_passing_trials(store, table.runs.task[chosen])
    for at in chosen.tolist():
        key, name = table.runs.id[at], table.runs.name[at]
        handle = store.handle(key, name)
        command = f"stepscope show {handle}"
        try:
            trajectory = store.trajectory(key)
        except StoreError as e:  # its texts were purged; its records still speak in the figures
            outcome, steps = table.runs.outcome[at], int(table.runs.steps[at])
            yield LookFirst(
                id=key, name=name, outcome=outcome, steps=steps, suspects=(), note=str(e),
                command=command, handle=handle,
            )  # fmt: skip
            continue
        evidence = compare_with_trials(store, trajectory, trials)
        records = keep_chosen(store.records(trajectory=key), judged)
        trajectory, records = rows.hide_secrets(store.shown, trajectory, records)
        curve = None
        if given is not None:
            curve = make_curve(trajectory, records, noise=given[0], weights=given[1])
        case = trajectory.case
        look = list_suspects(trajectory, case, records, curve=curve, evidence=evidence, fit=fit)
        yield msgspec.structs.replace(look, command=command, handle=handle)


def _values_or_zero(table: RunTable, measure: str) -> Floats:
    """Return a column's numbers, 0 where it has none: for weighing only, never for a figure."""
    column = table.columns[measure]
    return np.where(column.valued, np.nan_to_num(column.value), 0.0)


NO_SCORES = Unmeasured("missing_input", "the steps of this run have no scores")
# Of a curve whose scores are known and whose shape is not asked for yet.
NO_SHAPE = Unmeasured("undefined", "")


def read_points(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | Unmeasured:
    """Return the curve of a run without its shape; `noise` is the sigma of each judge."""
    by_scorer: dict[tuple[str, str], dict[int, list[float | None]]] = {}
    for record in records:
        answer = record.answer
        if answer.measure == STEP_SCORES and answer.step is not None:
            value = answer.value if isinstance(answer, Verdict) else None
            steps = by_scorer.setdefault((record.family, record.judge), {})
            steps.setdefault(answer.step, []).append(value)
    if not by_scorer:
        return NO_SCORES
    (family, judge), steps = max(
        sorted(by_scorer.items()),
        key=lambda item: sum(any(v is not None for v in values) for values in item[1].values()),
    )
    known = {step: [v for v in steps[step] if v is not None] for step in sorted(steps)}
    repeats = min((len(values) for values in known.values() if values), default=1)
    most = noise[judge].high if judge in noise else None
    sigma = None if most is None else min(most / sqrt(repeats), 1.0)
    others = ", ".join([other or "unnamed" for _, other in sorted(by_scorer) if other != judge])
    return Curve(
        steps=tuple(known),
        scores=tuple([sum(values) / len(values) if values else None for values in known.values()]),
        source="imported" if family == IMPORTED else "judge",
        judge=judge,
        repeats=repeats,
        sigma=sigma,
        sigma_source="marginalised" if sigma is None else "repeats",
        shape=NO_SHAPE,
        notes=(f"scores of {others} are left aside",) if others else (),
    )


Weights = Mapping[tuple[str, str], tuple[float, ...]]
Cells = tuple[float | None, ...]


def read_curve(store: Store, trajectory_id: str) -> Curve | Unmeasured:
    """Return the score curve of one run with its shape and break, or why there is none.

    Raises:
        StoreError: no such run.
    """
    try:
        trajectory = store.trajectory(trajectory_id)
    except StoreError:
        trajectory = None  # its texts were purged; its numbers still make a curve
    records = store.records(trajectory=trajectory_id)
    return make_curve(trajectory, records, noise=store.noise(), weights=store.weights())


def make_curve(
    trajectory: Trajectory | None,  # the run; None where its texts were purged
    records: Iterable[Record],  # all records of the run
    *,
    noise: Mapping[str, Estimate],  # the sigma of each judge, from repeated scorings
    weights: Weights,  # weights by workflow and task
) -> Curve | Unmeasured:
    """Return the score curve of a run from its records."""
    held = list(records)
    found = read_points(held, noise)
    if isinstance(found, Unmeasured):
        return found
    scored = found.steps
    made = rows.sort_findings(held).cites("step_labels.steps")
    size = max(scored) + 1 if trajectory is None else len(trajectory.steps)
    points = dict(zip(scored, found.scores, strict=True))
    steps = tuple(rows.axis_of(scored, made, size))
    found = msgspec.structs.replace(
        found, steps=steps, scores=tuple([points.get(step) for step in steps])
    )
    told: dict[str, dict[int, float]] = {LATENCY: {}, COST: {}}
    for record in held:
        answer = record.answer
        if answer.measure in told and isinstance(answer, Verdict):
            if answer.step is not None and answer.value is not None:
                told[answer.measure][answer.step] = answer.value
    if trajectory is not None:
        for step, before in zip(trajectory.steps, (None, *trajectory.steps), strict=False):
            seconds = _seconds(step, before)
            if seconds is not None:
                told[LATENCY].setdefault(step.index, seconds)
            if step.cost_usd is not None:
                told[COST].setdefault(step.index, step.cost_usd)
    latency, cost = _cells(told[LATENCY], found.steps), _cells(told[COST], found.steps)
    slopes = third_slopes(found.scores)
    drawn = msgspec.structs.replace(
        found,
        id="" if trajectory is None else trajectory.id,
        name="" if trajectory is None else trajectory.name,
        latency_s=latency,
        cost_usd=cost,
        slopes=None if isinstance(slopes, Unmeasured) else slopes,
    )
    drawn = _shaped(drawn, cost if cost is not None else _tokens(trajectory, found.steps))
    if trajectory is None:
        return drawn
    # The weights of its task, else those of every task.
    own = weights.get((trajectory.workflow, trajectory.task or trajectory.name))
    return _weighed(
        drawn, scored, weights.get((trajectory.workflow, EVERY_TASK)) if own is None else own
    )


def _shaped(drawn: Curve, cost: Cells | None) -> Curve:
    """Return a curve with shape and break; `cost` in any unit says where it spiked."""
    shape = classify(drawn.scores, sigma=drawn.sigma)
    if isinstance(shape, Unmeasured):
        return msgspec.structs.replace(drawn, shape=shape)
    found = fuse_signals(
        shape.break_.probability,
        drawn.scores,
        latency=drawn.latency_s,
        cost=cost,
        unmodelled=shape.unmodelled,
    )
    sure = found.step is not None and not shape.unmodelled
    steps = drawn.steps
    return msgspec.structs.replace(
        drawn,
        shape=shape.label,
        best=shape.best,
        runner_up=shape.runner_up,
        posterior={str(name): share for name, share in shape.posterior.items()},
        unmodelled=shape.unmodelled,
        low_level=shape.low_level,
        mean=shape.mean,
        depth=shape.depth,
        trough_length=shape.trough_length if shape.label == "recovery" else None,
        break_probability=found.probability,
        break_step=steps[found.step] if sure and found.step is not None else None,
        break_first=steps[found.first] if sure and found.first is not None else None,
        break_last=steps[found.last] if sure and found.last is not None else None,
        watch=tuple([steps[at] for at in found.watch]),
    )


def _weighed(drawn: Curve, scored: Sequence[int], weights: tuple[float, ...] | None) -> Curve:
    """Weigh all steps of a curve, or those that have rows, whichever the weights are of."""
    if weights is None:
        return drawn
    points = dict(zip(drawn.steps, drawn.scores, strict=True))
    steps = drawn.steps if len(weights) == len(points) else scored
    if len(weights) != len(steps):
        note = f"not weighed: {len(weights)} weights are fixed for {len(steps)} scored steps"
        return msgspec.structs.replace(drawn, notes=(*drawn.notes, note))
    scores = [points[step] for step in steps]
    mean = weighted_score(scores, weights)
    failed = gate_failed(scores, weights, sigma=drawn.sigma)
    below = () if isinstance(failed, Unmeasured) else failed
    return msgspec.structs.replace(
        drawn,
        weights=weights,
        weighted=None if isinstance(mean, Unmeasured) else mean,
        gate_failed=tuple([steps[at] for at in below]),
    )


def _seconds(step: Step, before: Step | None) -> float | None:
    """Return how long a step took: by its own times, else since the step before began."""
    if step.start is None:
        return None
    if step.end is not None:
        passed = step.end.ns - step.start.ns
    elif before is not None and before.start is not None:
        passed = step.start.ns - before.start.ns
    else:
        return None
    return passed / 1e9 if passed >= 0 else None


def _tokens(trajectory: Trajectory | None, steps: Sequence[int]) -> Cells | None:
    """Return the tokens of each scored step, which spike where its cost would."""
    if trajectory is None:
        return None
    used = {
        step.index: float(step.usage.output_total)
        for step in trajectory.steps
        if step.usage is not None and step.usage.output_total is not None
    }
    return _cells(used, steps)


def _cells(told: Mapping[int, float], steps: Sequence[int]) -> Cells | None:
    cells = tuple([told.get(step) for step in steps])
    return cells if any(cell is not None for cell in cells) else None
