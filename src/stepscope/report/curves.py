"""The score curve of a run: its points with shape, break and watch steps, and its gate.

Nothing is scored here, and nothing about shapes is decided here: `shape` does that, and this module
brings it a run's scores, what its steps took in time and money, the measured noise of whoever
scored, and the weights that were fixed beforehand. Too few scores for a shape still make a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stepscope.errors import StoreError
from stepscope.model import Record, Step, Trajectory, Verdict
from stepscope.report.curve_types import Curve, GateFailure, Slopes, Span
from stepscope.report.step_points import Points, points
from stepscope.shape.breaks import fuse
from stepscope.shape.classify import classify
from stepscope.shape.slopes import slopes
from stepscope.shape.types import Shape
from stepscope.shape.types import Span as Range
from stepscope.shape.weights import FLOOR, gate_failed, weighted
from stepscope.store import Store
from stepscope.store.scores import COST, LATENCY
from stepscope.store.weights import EVERY
from stepscope.values import Estimate, Unmeasured

Weights = Mapping[tuple[str, str], tuple[float, ...]]
Cells = tuple[float | None, ...]


def curve(store: Store, trajectory_id: str) -> Curve | Unmeasured:
    """Return the score curve of one run with its shape and break, or why there is none.

    Raises:
        StoreError: no such run.
    """
    try:
        trajectory = store.trajectory(trajectory_id)
    except StoreError:
        trajectory = None  # its texts were purged; its numbers still make a curve
    records = store.records(trajectory=trajectory_id)
    return curve_of(trajectory, records, noise=store.noise(), weights=store.weights())


def curve_of(
    trajectory: Trajectory | None,
    records: Iterable[Record],
    *,
    noise: Mapping[str, Estimate],
    weights: Weights,
) -> Curve | Unmeasured:
    """Return the score curve of a run from its records.

    Args:
        trajectory: the run; None where its texts were purged.
        records: all records of the run.
        noise: the sigma of each judge, from repeated scorings.
        weights: weights by workflow and task.
    """
    held = list(records)
    found = points(held, noise)
    if isinstance(found, Unmeasured):
        return found
    latency, cost = _spent(trajectory, held, found.steps)
    drawn = Curve(
        id="" if trajectory is None else trajectory.id,
        name="" if trajectory is None else trajectory.name,
        steps=found.steps,
        scores=found.scores,
        source=found.source,
        judge=found.judge,
        repeats=found.repeats,
        sigma=found.sigma,
        sigma_source=found.sigma_source,
        latency_s=latency,
        cost_usd=cost,
        shape=Unmeasured("undefined", ""),
        slopes=_slopes(found.scores),
        notes=_notes(found),
    )
    drawn = _shaped(drawn, cost if cost is not None else _tokens(trajectory, found.steps))
    return drawn if trajectory is None else _weighed(drawn, fixed(trajectory, weights))


def fixed(trajectory: Trajectory, weights: Weights) -> tuple[float, ...] | None:
    """Return the weights that hold for a run: its task's, else those of every task."""
    task = trajectory.task or trajectory.name
    own = weights.get((trajectory.workflow, task))
    return own if own is not None else weights.get((trajectory.workflow, EVERY))


def _shaped(drawn: Curve, cost: Cells | None) -> Curve:
    """Return a curve with shape and break; `cost` in any unit says where it spiked."""
    shape = classify(drawn.scores, sigma=drawn.sigma)
    if isinstance(shape, Unmeasured):
        return msgspec.structs.replace(drawn, shape=shape)
    found = fuse(
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
        mean=_span(shape.mean),
        depth=None if shape.depth is None else _span(shape.depth),
        trough_length=_trough(shape),
        break_probability=found.probability,
        break_step=steps[found.step] if sure and found.step is not None else None,
        break_first=steps[found.first] if sure and found.first is not None else None,
        break_last=steps[found.last] if sure and found.last is not None else None,
        watch=tuple([steps[at] for at in found.watch]),
    )


def _trough(shape: Shape) -> int | None:
    return shape.trough_length if shape.label == "recovery" else None


def _weighed(drawn: Curve, weights: tuple[float, ...] | None) -> Curve:
    if weights is None:
        return drawn
    if len(weights) != len(drawn.steps):
        note = f"not weighed: {len(weights)} weights are fixed for {len(drawn.steps)} scored steps"
        return msgspec.structs.replace(drawn, notes=(*drawn.notes, note))
    mean = weighted(drawn.scores, weights)
    rule = gate_failed(drawn.scores, weights, sigma=drawn.sigma)
    below = () if isinstance(rule, Unmeasured) else rule.below
    return msgspec.structs.replace(
        drawn,
        weights=weights,
        weighted=None if isinstance(mean, Unmeasured) else mean,
        gate_failed=tuple([
            GateFailure(
                step=drawn.steps[one.step], score=one.score, limit=FLOOR, sure=one.upper is not None
            )
            for one in below
            if one.failed and one.score is not None
        ]),
    )  # fmt: skip


def _notes(found: Points) -> tuple[str, ...]:
    if not found.others:
        return ()
    return (f"scores of {', '.join(found.others)} are left aside",)


def _slopes(scores: Sequence[float | None]) -> Slopes | None:
    found = slopes(scores)
    if isinstance(found, Unmeasured):
        return None
    return Slopes(early=found.early, mid=found.mid, late=found.late)


def _span(found: Range) -> Span:
    return Span(value=found.value, low=found.low, high=found.high)


def _spent(
    trajectory: Trajectory | None, records: Sequence[Record], steps: Sequence[int]
) -> tuple[Cells | None, Cells | None]:
    """Return seconds and USD of each scored step, as a file says it or else as the trace does."""
    told: dict[str, dict[int, float]] = {LATENCY: {}, COST: {}}
    for record in records:
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
    return _cells(told[LATENCY], steps), _cells(told[COST], steps)


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
