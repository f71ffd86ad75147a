"""One block of runs with the same steps observed and the same noise: from scores to answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.shape.classify import DECLARED, RESOLVED
from stepscope.shape.credible import shortest_run
from stepscope.shape.door import FLOOR, Asked
from stepscope.shape.evidence import SIGMAS, lens_for
from stepscope.shape.fit import COMPOUND_LOG_FACTOR, MISFIT, fit_probability, suspicious
from stepscope.shape.level import LOW, mean_level
from stepscope.shape.names import SHAPES, UNRESOLVED
from stepscope.shape.products import product
from stepscope.shape.sweep import Sweep, sweep
from stepscope.shape.types import Bools, Floats
from stepscope.shape.whiten import LEVEL, Whitened

Codes = npt.NDArray[np.int8]
Steps = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """The columns of `Batch` for some of its rows; see there."""

    log_likelihood: Floats
    posterior: Floats
    label: Codes
    best: Codes
    unmodelled: Bools
    gof_p: Floats
    low_level: Bools
    mean: Floats
    sigma: Floats
    missing: Steps
    break_probability: Floats
    break_step: Steps
    break_low: Steps
    break_high: Steps


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A block under one noise."""

    lens: Whitened
    residual: Floats
    swept: Sweep


def answer(scores: Floats, observed: Bools, sigma: Floats | None, what: Asked) -> Answers:
    """Return the answers for a block.

    Args:
        scores: shape (m, n), NaN or anything where not observed.
        observed: shape (n,), the same for all rows.
        sigma: shape (n,), the same for all rows; None averages over `SIGMAS`.
        what: prior and structure of the noise.
    """
    values = np.where(observed, scores, 0.0)
    noises = [np.full(len(observed), s) for s in SIGMAS] if sigma is None else [sigma]
    seen = [_see(values, lens_for(observed, noise, what)) for noise in noises]
    # Rows of `share` sum to 1: how well each noise explains the run.
    top = np.stack([each.swept.top for each in seen])
    highest = top.max(0)
    scale = np.exp(top - highest) / len(seen)
    sums = np.add.reduce(
        [s[:, None] * each.swept.sums for s, each in zip(scale, seen, strict=True)]
    )
    share = np.stack([s * each.swept.sums.sum(1) for s, each in zip(scale, seen, strict=True)])
    share /= share.sum(0)

    groups = seen[0].swept
    starts = np.searchsorted(groups.shape, np.arange(len(SHAPES)))
    likelihood = _log(np.add.reduceat(sums, starts, axis=1)) + highest[:, None]
    posterior = _normal(likelihood + what.log_prior)
    best = posterior.argmax(1)
    gof_p = np.clip(np.add.reduce(share * np.stack([_fit(each) for each in seen])), 0.0, 1.0)
    asked = np.flatnonzero(suspicious(gof_p, seen[0].lens.pool.size) & (gof_p >= MISFIT))
    unmodelled = gof_p < MISFIT
    if len(asked):
        gain = _two_stages(values[asked], observed, noises, what) - likelihood[asked].max(1)
        unmodelled[asked] = gain > COMPOUND_LOG_FACTOR
    noise = product(share.T, np.stack(noises))
    mean, half = mean_level(values, np.broadcast_to(observed, values.shape), noise, what)
    resolved = (posterior.max(1) >= RESOLVED) & ~unmodelled
    where = _where(sums * np.exp(what.log_prior[groups.shape]), groups, seen[0].lens.pool.part)
    return Answers(
        log_likelihood=likelihood,
        posterior=posterior,
        label=np.where(resolved, best, UNRESOLVED).astype(np.int8),
        best=best.astype(np.int8),
        unmodelled=unmodelled,
        gof_p=gof_p,
        low_level=mean + half < LOW,
        mean=mean,
        sigma=noise[:, observed].mean(1),
        missing=np.full(len(values), (~observed).sum(), np.int16),
        break_probability=where[0],
        break_step=where[1],
        break_low=where[2],
        break_high=where[3],
    )


def log_density(scores: Floats, observed: Bools, sigma: Floats, what: Asked) -> Floats:
    """Return the log density of each run's scores, shape (m,), whatever their shape."""
    seen = _see(np.where(observed, scores, 0.0), lens_for(observed, sigma, what))
    weight = np.exp(what.log_prior[seen.swept.shape])
    return np.asarray(seen.swept.top + np.log((seen.swept.sums * weight).sum(1)))


def _see(values: Floats, lens: Whitened) -> _Seen:
    averages = product(values, lens.pool.weights.T)
    residual = product(averages - LEVEL, lens.whiten.T)
    return _Seen(lens, residual, sweep(lens, residual))


def _log(sums: Floats) -> Floats:
    """Return logarithms of densities relative to the best template, not below `FLOOR`."""
    return np.asarray(np.log(np.maximum(sums, np.exp(FLOOR))))


def _normal(log: Floats) -> Floats:
    """Return exp(log) with rows scaled to sum to 1."""
    found = np.exp(log - log.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))


def _fit(seen: _Seen) -> Floats:
    """Return how probable residuals as large as those of the best template are."""
    lens, k = seen.lens, seen.swept.best
    left = seen.residual - lens.offset[k]
    along = np.einsum("mp,mp->m", left, lens.f[k])
    depth = np.maximum((along + lens.pull[k]) / lens.precision[k], lens.least[k])
    left -= depth[:, None] * lens.f[k]
    return fit_probability(left, lens.level)


def _two_stages(values: Floats, observed: Bools, noises: list[Floats], what: Asked) -> Floats:
    """Return the log evidence for a collapse in two stages."""
    seen = [_see(values, lens_for(observed, noise, what, compound=True)) for noise in noises]
    top = np.stack([each.swept.top for each in seen])
    highest = top.max(0)
    sums = np.stack([each.swept.sums.sum(1) for each in seen])
    total = (sums * np.exp(top - highest)).sum(0) / len(seen)
    return np.asarray(highest + np.log(total))


def _where(
    weight: Floats, groups: Sweep, part: npt.NDArray[np.int64]
) -> tuple[Floats, Steps, Steps, Steps]:
    """Return probability of a break, its step, and the 90 % run, from group weights (m, J)."""
    size = np.bincount(part)
    broken = np.flatnonzero(groups.half_drop >= 0)
    # One row a group with a break: 1 / steps of the part at each of its steps.
    to_step = (groups.half_drop[broken, None] == part) / size[part]
    by_step = product(weight[:, broken], to_step)
    total = by_step.sum(1)
    probability = np.clip(total / weight.sum(1), 0.0, 1.0)
    declared = np.flatnonzero(probability > DECLARED)
    found = np.full((3, len(weight)), -1, np.int16)
    found[0, declared] = by_step[declared].argmax(1)
    found[1:, declared] = shortest_run(by_step[declared])
    return probability, found[0], found[1], found[2]
