"""At which step a run broke, from scores, latency and cost together; "no break" is an answer.

The scores give a probability of a break at each step and of none; a spike of latency or cost moves
it towards its step, and cannot make a break out of a good run by itself. Steps that spike while the
score holds are listed to be watched. Refuses what `classify` refuses. What the articles' break
point does instead: `references.find_break_point`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.shape.classify import DECLARED, classify
from stepscope.shape.credible import shortest_run
from stepscope.shape.spikes import COST, LATENCY, Spikes, log_ratio, positive, spiking
from stepscope.shape.types import Bools, Floats
from stepscope.values import Unmeasured

# A score that falls by less since the last one holds: no shape has a break shallower than this.
HOLDS = 0.15
# Nor does a step that may well be the break.
SUSPECT = 0.10

Column = Sequence[float | None] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a run broke, steps counted from 0 over all its steps.

    Attributes:
        probability: one entry a step; with `none` they sum to 1.
        none: probability of no break. Healthy runs and steady declines have none.
        step: the most probable step; None where no break is more probable than a break.
        first: first step of the shortest run of steps that holds 90 % of the probability, given
            that there is a break; None with `step`.
        last: last step of that run.
        watch: steps where latency or cost spike and the score holds.
        sources: what was used: "scores", and "latency" and "cost" where they had values.
        unmodelled: no shape fits the scores: none of this is to be relied on.
    """

    probability: tuple[float, ...]
    none: float
    step: int | None
    first: int | None
    last: int | None
    watch: tuple[int, ...]
    sources: tuple[str, ...]
    unmodelled: bool


def break_point(
    scores: Column,
    *,
    latency: Column | None = None,
    cost: Column | None = None,
    sigma: float | Sequence[float] | None = None,
    quantum: float | None = None,
    latency_spikes: Spikes = LATENCY,
    cost_spikes: Spikes = COST,
) -> Break | Unmeasured:
    """Return at which step a run broke, with the probability that it did not.

    Args:
        scores: n scores within 0..1, None or NaN where a step was not scored.
        latency: n durations in any unit, None where missing; 0 or less says nothing.
        cost: n costs or token counts, likewise.
        sigma: noise of a score, see `classify`.
        quantum: step between the values that the judge can give.
        latency_spikes: how latency behaves at breaks and elsewhere.
        cost_spikes: how cost does. The defaults of both were chosen near the simulator on which
            their gain is shown, so that the gain is optimistic.

    Returns:
        The break; `Unmeasured` where `classify` is.

    Raises:
        DataError: latency or cost has another length, or arguments make no sense.

    Source:
        Bayes' rule over steps and "none", signals independent given the break; posterior of the
        scores from `classify`.

    >>> scores = [0.82, 0.85, 0.82, 0.58, 0.6, 0.55]
    >>> found = break_point(scores, sigma=0.05)
    >>> found.step, found.first, found.last, round(found.none, 2)
    (3, 2, 3, 0.39)
    >>> found = break_point(scores, sigma=0.05, latency=[1.1, 1.3, 1.2, 3.8, 1.4, 1.2])
    >>> found.step, found.first, found.last, round(found.none, 2)
    (3, 3, 3, 0.05)
    """
    shape = classify(scores, sigma=sigma, quantum=quantum)
    if isinstance(shape, Unmeasured):
        return shape
    return fuse(
        shape.break_.probability,
        scores,
        latency=latency,
        cost=cost,
        latency_spikes=latency_spikes,
        cost_spikes=cost_spikes,
        unmodelled=shape.unmodelled,
    )


def fuse(
    probability: Sequence[float],
    scores: Column,
    *,
    latency: Column | None = None,
    cost: Column | None = None,
    latency_spikes: Spikes = LATENCY,
    cost_spikes: Spikes = COST,
    unmodelled: bool = False,
) -> Break:
    """Return what latency and cost add to a posterior of the break step from scores.

    Args:
        probability: shape (n,), as `Shape.break_` has it; what is missing to 1 is "no break".
        scores: the n scores, for the steps to watch.
        latency: see `break_point`.
        cost: see `break_point`.
        latency_spikes: see `break_point`.
        cost_spikes: see `break_point`.
        unmodelled: handed on.

    Raises:
        DataError: see `break_point`.
    """
    prior = np.array(probability, dtype=np.float64)
    none = max(0.0, 1.0 - float(prior.sum()))
    gain, spikes = np.zeros(len(prior)), np.zeros(len(prior), dtype=bool)
    sources = ["scores"]
    for name, given, kind in (("latency", latency, latency_spikes), ("cost", cost, cost_spikes)):
        values = None if given is None else positive(given, name, len(prior))
        if values is not None:
            sources.append(name)
            gain += log_ratio(values, kind)
            spikes |= spiking(values, kind)
    fused = prior * np.exp(gain)
    total = none + float(fused.sum())
    fused, none = fused / total, none / total
    step = first = last = None
    if none < DECLARED:
        step = int(fused.argmax())
        run = shortest_run(fused[None])
        first, last = int(run[0][0]), int(run[1][0])
    watch = spikes & _holding(np.array(scores, dtype=np.float64)) & (fused < SUSPECT)
    return Break(
        probability=tuple(fused.tolist()),
        none=none,
        step=step,
        first=first,
        last=last,
        watch=tuple(np.flatnonzero(watch).tolist()),
        sources=tuple(sources),
        unmodelled=unmodelled,
    )


def _holding(scores: Floats) -> Bools:
    """Tell which steps have a score no more than `HOLDS` below the last one before; the first has.

    >>> _holding(np.array([0.3, 0.9, np.nan, 0.8, 0.6])).tolist()
    [True, True, False, True, False]
    """
    held = ~np.isnan(scores)
    measured = scores[held]
    held[held] = np.concatenate([[True], np.diff(measured) > -HOLDS])[: len(measured)]
    return held
