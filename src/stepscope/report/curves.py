"""The score curve of one run: its points, shape, break, watch steps and gate.

Nothing is scored here, and shapes are classified by `stepscope.shape`. The scorer of most steps is
taken and the others are named; repeated scorings of a step are averaged. Where nobody gave scores,
step labels of the rules stand in for them (docs/design/score-curves.md). Too few scores for a shape
still make a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

from msgspec.structs import replace

from stepscope.errors import StoreError
from stepscope.model import Record, Step, Trajectory, Verdict
from stepscope.model.records import IMPORTED, STEP_SCORES
from stepscope.report.rows import LABEL_SCORES, LABEL_SIGMA, sort_findings
from stepscope.report.types import Curve
from stepscope.shape.breaks import fuse_signals, third_slopes
from stepscope.shape.classifier import classify
from stepscope.shape.weights import gate_failed, weighted_score
from stepscope.store import Store
from stepscope.store.records import COST, EVERY_TASK, LATENCY
from stepscope.values import Estimate, Unmeasured

NO_LABELS = Unmeasured(
    "insufficient_data", "no step scores, and the rules labelled no step of this run"
)


# Of a curve whose scores are known and whose shape is not asked for yet.
NO_SHAPE = Unmeasured("undefined", "")


def read_points(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | Unmeasured:
    """Return the curve of a run without its shape; `noise` is the sigma of each judge."""
    held = list(records)
    return _scored(held, noise) or _labelled(held)


def average_noise(judge: str, repeats: int, noise: Mapping[str, Estimate]) -> float | None:
    """Return the upper limit of a judge's sigma for the mean of some scorings; None when unknown.

    >>> found = Estimate(value=0.1, low=0.05, high=0.2, method="", n=9, n_tasks=3)
    >>> average_noise("j", 4, {"j": found}), average_noise("k", 4, {"j": found})
    (0.1, None)
    """
    found = noise.get(judge)
    if found is None or found.high is None:
        return None
    return min(found.high / sqrt(repeats), 1.0)


def _scored(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | None:
    by_scorer: dict[tuple[str, str], dict[int, list[float | None]]] = {}
    for record in records:
        answer = record.answer
        if answer.measure == STEP_SCORES and answer.step is not None:
            value = answer.value if isinstance(answer, Verdict) else None
            steps = by_scorer.setdefault((record.family, record.judge), {})
            steps.setdefault(answer.step, []).append(value)
    if not by_scorer:
        return None
    (family, judge), steps = max(
        sorted(by_scorer.items()), key=lambda item: sum(map(_is_scored, item[1].values()))
    )
    counts = [n for values in steps.values() if (n := sum(v is not None for v in values))]
    repeats = min(counts, default=1)
    sigma = average_noise(judge, repeats, noise)
    others = ", ".join([other or "unnamed" for _, other in sorted(by_scorer) if other != judge])
    return Curve(
        steps=tuple(sorted(steps)),
        scores=tuple([_mean(steps[step]) for step in sorted(steps)]),
        source="imported" if family == IMPORTED else "judge",
        judge=judge,
        repeats=repeats,
        sigma=sigma,
        sigma_source="marginalised" if sigma is None else "repeats",
        shape=NO_SHAPE,
        notes=(f"scores of {others} are left aside",) if others else (),
    )


def _is_scored(values: list[float | None]) -> bool:
    return any(value is not None for value in values)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _labelled(records: Iterable[Record]) -> Curve | Unmeasured:
    found = sort_findings(records)
    steps = found.cites("step_labels.steps")
    labels = found.labels("step_labels")
    if not steps or not labels:
        return NO_LABELS
    return Curve(
        steps=steps,
        scores=tuple([LABEL_SCORES[labels.get(step, "")] for step in steps]),
        source="step_labels",
        sigma=LABEL_SIGMA,
        sigma_source="assumed",
        shape=NO_SHAPE,
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
    drawn = replace(
        found,
        id="" if trajectory is None else trajectory.id,
        name="" if trajectory is None else trajectory.name,
        latency_s=latency,
        cost_usd=cost,
        slopes=None if isinstance(slopes, Unmeasured) else slopes,
    )
    drawn = _shaped(drawn, cost if cost is not None else _tokens(trajectory, found.steps))
    return drawn if trajectory is None else _weighed(drawn, choose_weights(trajectory, weights))


def choose_weights(trajectory: Trajectory, weights: Weights) -> tuple[float, ...] | None:
    """Return the weights that hold for a run: its task's, else those of every task."""
    task = trajectory.task or trajectory.name
    own = weights.get((trajectory.workflow, task))
    return own if own is not None else weights.get((trajectory.workflow, EVERY_TASK))


def _shaped(drawn: Curve, cost: Cells | None) -> Curve:
    """Return a curve with shape and break; `cost` in any unit says where it spiked."""
    shape = classify(drawn.scores, sigma=drawn.sigma)
    if isinstance(shape, Unmeasured):
        return replace(drawn, shape=shape)
    found = fuse_signals(
        shape.break_.probability,
        drawn.scores,
        latency=drawn.latency_s,
        cost=cost,
        unmodelled=shape.unmodelled,
    )
    sure = found.step is not None and not shape.unmodelled
    steps = drawn.steps
    return replace(
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


def _weighed(drawn: Curve, weights: tuple[float, ...] | None) -> Curve:
    if weights is None:
        return drawn
    if len(weights) != len(drawn.steps):
        note = f"not weighed: {len(weights)} weights are fixed for {len(drawn.steps)} scored steps"
        return replace(drawn, notes=(*drawn.notes, note))
    mean = weighted_score(drawn.scores, weights)
    failed = gate_failed(drawn.scores, weights, sigma=drawn.sigma)
    below = () if isinstance(failed, Unmeasured) else failed
    return replace(
        drawn,
        weights=weights,
        weighted=None if isinstance(mean, Unmeasured) else mean,
        gate_failed=tuple([drawn.steps[at] for at in below]),
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
