"""How far an outcome moves with a score, with what confounders explain taken out of both.

Both are predicted from the confounders of other clusters (cross-fitting); what is left of the one
is set against what is left of the other. The learner is a ridge regression on splines. Errors of a
score pull its effect towards 0: what repeated scorings differ by is taken out of its variance. A
score that is 0 or 1 takes the doubly robust estimator instead. What nobody named stays in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from stepscope.stats import sample
from stepscope.stats.intervals import student_quantile
from stepscope.stats.sample import Bools, EstimateFrame, Floats, Ints
from stepscope.values import ROUNDING, Estimate, Unmeasured

# Parts of the clusters, and how often they are drawn anew: the median of the draws counts.
FOLDS, SPLITS, FEWEST_CLUSTERS = 5, 3, 20
PENALTIES, KNOTS = np.geomspace(0.1, 1e4, 11), (0.25, 0.5, 0.75)
# Products are made of no more confounders; a logistic fit takes so many steps.
MOST_CROSSED, NEWTON_STEPS, SLOPE_PENALTY = 8, 25, 0.1
# Chances of a 1 are kept so far from 0 and 1; runs outside of USUAL have hardly any like.
CLIP, USUAL = 0.01, 0.05
# Overlap that is weak, of a score's variance or of the runs; less reliable scores say nothing.
WEAK_VARIANCE, WEAK_RUNS, LEAST_RELIABILITY = 0.1, 0.9, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one more of a score does to an outcome."""

    estimate: Estimate | Unmeasured
    p: float | None = None  # two-sided, of no effect
    overlap: float | None = None  # what confounders leave: of the score's variance, or of the runs
    reliability: float | None = None  # of what they leave of the score; None: not corrected


def effect(
    outcome: ArrayLike,
    treatment: ArrayLike,
    confounders: ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: ArrayLike | None = None,
    repeats: tuple[ArrayLike, ArrayLike] | None = None,
    unmeasured: Mapping[str, int] | None = None,
) -> Effect:
    """Effect of one more of `treatment` on `outcome`, shape (n,), given `confounders`, (n, k >= 0).

    `repeats`: the variance of the scorings of each row, NaN where there is one, and how many its
    treatment is the mean of. `Unmeasured` also with fewer than 20 clusters, and where confounders
    or repeats leave nothing of the treatment.

    Source: Robinson (1988), Econometrica 56:931-954, cross-fitted as Chernozhukov et al. (2018),
    Econometrics Journal 21:C1-C68 (median of splits: section 3.4), folds by cluster as Chiang et
    al. (2022), J. Bus. Econ. Stat. 40:1046-1056; errors of the score: Fuller (1987), Measurement
    Error Models, section 1.2; 0 or 1: Robins, Rotnitzky and Zhao (1994), JASA 89:846-866.

    >>> x = np.arange(60.0)[:, None]
    >>> score = np.sin(x[:, 0] ** 2)
    >>> found = effect(x[:, 0] + 2 * score, score, x, rng=np.random.default_rng(0)).estimate
    >>> round(found.value, 1), round(found.low, 1), round(found.high, 1)
    (2.1, 1.9, 2.2)
    """
    y, d = sample.as_column(outcome, "outcomes"), sample.as_column(treatment, "treatments")
    x, frame = np.asarray(confounders, np.float64), EstimateFrame(unmeasured=unmeasured)
    cluster, g = sample.cluster_index(clusters, len(y)), 0
    absent = sample.find_absence(np.concatenate([y, d, x.ravel()]), frame)
    if absent is None and (g := int(cluster.max()) + 1) < FEWEST_CLUSTERS:
        why = f"{g} users or tasks; {FEWEST_CLUSTERS} are needed"
        absent = Unmeasured("insufficient_data", why)
    elif absent is None and min(np.ptp(y), np.ptp(d)) <= 0:
        absent = Unmeasured("undefined", "all outcomes, or all scores, are the same")
    if absent is not None:
        return Effect(estimate=absent)
    binary = bool(np.isin(d, (0.0, 1.0)).all())
    noise, corrected = np.zeros(len(y)), False
    if repeats is not None and not binary:
        variance, counts = (np.asarray(one, np.float64) for one in repeats)
        freedom = np.where(np.isfinite(variance), counts - 1, 0.0)
        if corrected := bool(freedom.any()):
            share, variance = freedom / freedom.sum(), np.where(freedom > 0, variance, 0.0)
            pooled = share @ variance
            noise = pooled / counts + share * (1 / counts).sum() * (variance - pooled)
    found, basis = np.empty((SPLITS, 4)), expand(x)
    for split in found:
        fold = rng.permutation(np.arange(g) % FOLDS)[cluster]
        if binary:
            split[:] = doubly_robust(y, d, basis, fold, cluster)
        else:
            split[:] = partially_linear(y, d, basis, fold, cluster, noise)
    value, _, overlap, reliability = (float(one) for one in np.median(found, axis=0))
    if not np.isfinite(found).all() or reliability < LEAST_RELIABILITY:
        why = "confounders and repeats leave nothing of the score"
        return Effect(estimate=Unmeasured("undefined", why))
    se = float(np.sqrt(np.median(found[:, 1] ** 2 + (found[:, 0] - value) ** 2)))
    from scipy.special import stdtr  # lazy: .25 s of import

    half = se * float(student_quantile(g - 1, frame.level))
    weak = overlap < (WEAK_RUNS if binary else WEAK_VARIANCE)
    frame = replace(frame, n_tasks=g, diagnostics=("weak overlap",) if weak else ())
    limits = value, value - half, value + half
    how = "doubly robust" if binary else "partially linear"
    made = sample.make_estimate(limits, n=len(y), frame=frame, method=how)
    p = 2 * float(stdtr(g - 1, -abs(value) / max(se, ROUNDING)))
    known = reliability if corrected else None
    return Effect(estimate=made, p=p, overlap=min(overlap, 1.0), reliability=known)


def expand(x: Floats) -> Floats:
    """Return columns with linear splines of them, knots at the quartiles, and their products."""
    k = x.shape[1] if x.shape[1] <= MOST_CROSSED else 0
    columns = [x, *(np.maximum(x - knot, 0) for knot in np.quantile(x, KNOTS, axis=0) if x.size)]
    columns += [x[:, [i]] * x[:, [j]] for i in range(k) for j in range(i)]
    basis: Floats = np.column_stack(columns)
    return basis[:, basis.std(axis=0) > 0]


def _standardise(x: Floats, new: Floats) -> tuple[Floats, Floats]:
    centre, spread = x.mean(axis=0), x.std(axis=0)
    return tuple((one - centre) / np.where(spread > 0, spread, 1.0) for one in (x, new))


def predict_ridge(x: Floats, y: Floats, new: Floats) -> Floats:
    """Return predictions at `new` by a ridge regression whose penalty leave-one-out chooses."""
    old, new = _standardise(x, new)
    u, s, turn = np.linalg.svd(old, full_matrices=False)
    centred = y - y.mean()
    shrink = s**2 / (s**2 + PENALTIES[:, None])  # shape (penalties, columns)
    left = centred - (shrink * (u.T @ centred)) @ u.T
    losses = ((left / (1 - shrink @ (u**2).T - 1 / len(y))) ** 2).mean(axis=1)
    best = PENALTIES[int(np.argmin(losses))]
    return np.asarray(new @ (turn.T @ (s / (s**2 + best) * (u.T @ centred))) + y.mean())


def predict_chance(x: Floats, d: Floats, new: Floats) -> Floats:
    """Return chances of a 1 at `new` by a logistic regression, its slopes held a little to 0."""
    from scipy.special import expit  # lazy: .25 s of import

    old, new = (np.column_stack([np.ones(len(one)), one]) for one in _standardise(x, new))
    penalty, slopes = np.diag([1e-9, *np.full(x.shape[1], SLOPE_PENALTY)]), np.zeros(old.shape[1])
    for _ in range(NEWTON_STEPS):
        chance = expit(old @ slopes)
        curvature = (old.T * (chance * (1 - chance))) @ old + penalty
        slopes = slopes + np.linalg.solve(curvature, old.T @ (d - chance) - penalty @ slopes)
    return np.asarray(expit(new @ slopes))


def _cross_fit(
    basis: Floats, y: Floats, fold: Ints, of: Bools | None = None, *, chance: bool = False
) -> Floats:
    """Return each row's prediction from the other folds, learned from the rows `of` alone."""
    found, predict = np.empty(len(y)), predict_chance if chance else predict_ridge
    for at in range(FOLDS):
        held, learn = fold == at, (fold != at) & (True if of is None else of)
        found[held] = predict(basis[learn], y[learn], basis[held])
    return found


def _solve(up: Floats, down: Floats, cluster: Ints) -> tuple[float, float]:
    """Return the ratio of two sums, and its standard error over clusters."""
    value, g = up.sum() / down.sum(), int(cluster.max()) + 1
    sums = np.bincount(cluster, up - value * down)
    return float(value), float(np.sqrt(g / (g - 1) * (sums**2).sum()) / abs(down.sum()))


def partially_linear(
    y: Floats, d: Floats, basis: Floats, fold: Ints, cluster: Ints, noise: Floats
) -> tuple[float, float, float, float]:
    """Return effect, standard error, overlap and reliability; `noise` sums to errors of scores."""
    u, v = (one - _cross_fit(basis, one, fold) for one in (y, d))
    return (*_solve(u * v, v * v - noise, cluster), v.var() / d.var(), 1 - noise.sum() / (v @ v))


def doubly_robust(
    y: Floats, d: Floats, basis: Floats, fold: Ints, cluster: Ints
) -> tuple[float, float, float, float]:
    """Return effect of a 1, standard error, share of runs that have their like, and 1."""
    if min(np.bincount(fold[d == of], minlength=FOLDS).min() for of in (0, 1)) < 2:
        return np.nan, np.nan, 0.0, 1.0
    without, with_it = (_cross_fit(basis, y, fold, d == of) for of in (0, 1))
    chance = _cross_fit(basis, d, fold, chance=True)
    usual = float(((chance > USUAL) & (chance < 1 - USUAL)).mean())
    chance = np.clip(chance, CLIP, 1 - CLIP)
    score = with_it - without + d * (y - with_it) / chance - (1 - d) * (y - without) / (1 - chance)
    return (*_solve(score, np.ones(len(y)), cluster), usual, 1.0)
