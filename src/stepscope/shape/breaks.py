"""At which step a run broke, from scores, latency and cost together; "no break" is an answer.

Scores give a probability of a break at each step and of none; a spike of latency or cost moves it
towards its step, and cannot make a break out of a good run by itself. A value counts against the
run's own median; fewer than four values, zeros and missing values say nothing. Slopes of thirds are
for display only (thirds as in ARC, Tribbia: n // 3, n // 3 and the rest). Refuses what `classify`
refuses. The articles' break point: `articles.find_break_point`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.errors import DataError
from stepscope.shape.classifier import DECLARED, classify, shortest_run
from stepscope.shape.types import Break, Slopes
from stepscope.stats.sample import Bools, Floats
from stepscope.values import Unmeasured

# Values needed for a median and a spread of a run.
FEWEST = 4
# Normal deviation that a median absolute deviation of 1 stands for.
MAD_TO_SD = 1.4826
# Spread of log values within a run is taken to lie here: few steps show too little or too much.
SPREADS = (0.10, 0.60)
# One source cannot say more than this for or against a step.
LEAST, MOST = -1.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeModel:
    """How a source behaves at a break and elsewhere; all on the natural log of value / median."""

    at_break: float  # share of breaks at which the source spikes
    elsewhere: float  # share of other steps at which it spikes
    height: float  # mean height of a spike
    spread: float  # standard deviation of that height


# Near to the simulator they were tried on, so that gains shown with them are optimistic: up to 18
# points on the exact step there, and up to 3 lost where spikes are lower, rarer at breaks and three
# times as common elsewhere (bars/shape/breaks).
LATENCY = SpikeModel(at_break=0.70, elsewhere=0.05, height=0.85, spread=0.35)
COST = SpikeModel(at_break=0.60, elsewhere=0.05, height=0.55, spread=0.25)


def positive_values(values: Sequence[float | None] | ArrayLike, name: str, n: int) -> Floats | None:
    """Return values as floats, NaN where missing or not above 0; None when too few are left.

    `DataError` where there is other than one number a step.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"{name} is not numbers ({e}); expected floats, None where missing") from e
    if array.shape != (n,):
        raise DataError(f"{name} has shape {array.shape}; expected ({n},), one value a step")
    usable = np.isfinite(array) & (array > 0)
    return np.where(usable, array, np.nan) if usable.sum() >= FEWEST else None


def log_ratio(values: Floats, kind: SpikeModel) -> Floats:
    """Log likelihood ratio of a break at each step against none; 0 where a value is missing."""
    high, low = _densities(values, kind)
    with np.errstate(divide="ignore"):
        ratio = np.log(kind.at_break * high + (1 - kind.at_break) * low) - np.log(
            kind.elsewhere * high + (1 - kind.elsewhere) * low
        )
    return np.where(np.isnan(values), 0.0, np.clip(np.nan_to_num(ratio), LEAST, MOST))


def spiking_steps(values: Floats, kind: SpikeModel) -> Bools:
    """Tell at which steps a spike is more probable than an ordinary value, break or none."""
    high, low = _densities(values, kind)
    return ~np.isnan(values) & (kind.elsewhere * high > (1 - kind.elsewhere) * low)


def _densities(values: Floats, kind: SpikeModel) -> tuple[Floats, Floats]:
    """Densities of each value were it a spike and were it none, over the larger of the two."""
    logs = np.log(values)
    z = logs - np.nanmedian(logs)
    spread = float(np.clip(MAD_TO_SD * np.nanmedian(np.abs(z)), *SPREADS))
    # The wider normal of spikes is the higher one far below the median too: quick is ordinary.
    z = np.maximum(z, 0.0)
    wide = np.hypot(spread, kind.spread)
    high = -(((z - kind.height) / wide) ** 2) / 2 - np.log(wide)
    low = -((z / spread) ** 2) / 2 - np.log(spread)
    top = np.fmax(high, low)
    return np.exp(high - top), np.exp(low - top)


# A score that falls by less since the last one holds: no shape has a break shallower than this.
HOLDS = 0.15
# Nor does a step that may well be the break.
SUSPECT = 0.10

Column = Sequence[float | None] | NDArray[np.float64]


def break_point(
    scores: Column,
    *,
    latency: Column | None = None,
    cost: Column | None = None,
    sigma: float | Sequence[float] | None = None,
    quantum: float | None = None,
) -> Break | Unmeasured:
    """Return at which step a run broke, with the probability that it did not.

    Scores and sigma are as those of `classify`, which also says what is `Unmeasured`. Latency and
    cost are durations and costs, or token counts, of the n steps in any unit, None where missing; 0
    or less says nothing.

    Source: Bayes' rule over steps and "none", signals independent given the break; posterior of the
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
    return fuse_signals(
        shape.break_.probability, scores, latency=latency, cost=cost, unmodelled=shape.unmodelled
    )


def fuse_signals(
    # shape (n,), as `Shape.break_` has it; what is missing to 1 is "no break"
    probability: Sequence[float],
    scores: Column,  # the n scores, for the steps to watch
    *,
    latency: Column | None = None,  # see `break_point`
    cost: Column | None = None,  # see `break_point`
    unmodelled: bool = False,  # handed on
) -> Break:
    """Return what latency and cost add to a posterior of the break step from scores."""
    prior = np.array(probability, dtype=np.float64)
    none = max(0.0, 1.0 - float(prior.sum()))
    gain, spikes = np.zeros(len(prior)), np.zeros(len(prior), dtype=bool)
    sources = ["scores"]
    for name, given, kind in (("latency", latency, LATENCY), ("cost", cost, COST)):
        values = None if given is None else positive_values(given, name, len(prior))
        if values is not None:
            sources.append(name)
            gain += log_ratio(values, kind)
            spikes |= spiking_steps(values, kind)
    fused = prior * np.exp(gain)
    total = none + float(fused.sum())
    fused, none = fused / total, none / total
    step = first = last = None
    if none < DECLARED:
        step = int(fused.argmax())
        run = shortest_run(fused[None])
        first, last = int(run[0][0]), int(run[1][0])
    watch = spikes & _steps_that_hold(np.array(scores, dtype=np.float64)) & (fused < SUSPECT)
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


def _steps_that_hold(scores: Floats) -> Bools:
    """Tell which steps have a score at most `HOLDS` below the last one before; the first has."""
    held = ~np.isnan(scores)
    measured = scores[held]
    held[held] = np.concatenate([[True], np.diff(measured) > -HOLDS])[: len(measured)]
    return held


def third_slopes(scores: Sequence[float | None]) -> Slopes | Unmeasured:
    """Return the slope of each third: last measured score minus first, over the steps between.

    The articles' first version divided by the number of scores of a third and not by the steps
    between them. `Unmeasured` when a third has fewer than two scores, so always below six steps.

    >>> third_slopes([0.9, 0.91, 0.88, 0.6, 0.55, 0.58, 0.61, 0.62, 0.6, 0.58]).early
    -0.010000000000000009
    """
    third = len(scores) // 3
    ends = ((0, third), (third, 2 * third), (2 * third, len(scores)))
    found = [_third_slope(scores, first, end) for first, end in ends]
    for name, slope in zip(("early", "middle", "late"), found, strict=True):
        if slope is None:
            why = f"the {name} third of {len(scores)} steps has fewer than two scores: no slope"
            return Unmeasured("insufficient_data", why)
    early, mid, late = (slope for slope in found if slope is not None)
    return Slopes(early=early, mid=mid, late=late)


def _third_slope(scores: Sequence[float | None], first: int, end: int) -> float | None:
    points = [
        (step, float(score))
        for step, score in enumerate(scores[first:end], first)
        if score is not None and isfinite(score)
    ]
    if len(points) < 2:
        return None
    (a, low), (b, high) = points[0], points[-1]
    slope = (high - low) / (b - a)
    return slope if isfinite(slope) else None
