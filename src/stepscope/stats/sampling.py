"""Which runs people label first: shares of a draw by a judge's doubt, and the rate they estimate.

A queue of labels that asks where the judge is in doubt tells more per label than a uniform one, and
its rate stays unbiased if each label keeps the share of a draw that its run had. Shares are of one
draw, they sum to 1 over all runs of the queue: so they stay right wherever an annotator stops, and
labels of several queues of the same runs can be put together. A share of 0 is refused: a run that
could not be drawn is in no rate. The probabilities are a judge's that the run fails; one that is
over-confident is recalibrated on labels first, or half of the draw is uniform. A label of a uniform
queue has the share 1 / runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats import sample
from stepscope.stats.intervals import cluster_variance, student_quantile
from stepscope.values import Estimate, Unmeasured

# The uniform part of a draw: of a judge whose probabilities were recalibrated on labels, and else.
UNIFORM, UNIFORM_UNCALIBRATED = 0.2, 0.5
# A queue that saves less than this share of the interval's width is not worth its unequal weights.
WORTH_DRAWING = 0.1
# Log odds of a probability of 0 or 1 that a judge states.
SURE = 9.0
# How firmly, in labels, recalibration holds on to "the judge is right": its shift and its slope.
_HOLD = np.array([0.25, 1.0])


def draw_shares(p: ArrayLike, n: int, *, uniform: float = UNIFORM_UNCALIBRATED) -> sample.Floats:
    """Return the share of a draw of each run, shape (runs,), summing to 1; none is above 1/n.

    `p` is the judge's probability that the run fails, `n` how many labels are planned. `uniform` of
    the draw is uniform, the rest goes by sqrt(p(1-p)): that is where labels differ from the judge.
    Use `UNIFORM` for `p` from `recalibrate`.

    Source: Zrnic and Candes (2024), Active statistical inference, arXiv:2403.03208.

    >>> draw_shares([0.5, 0.5, 0.0, 1.0], 1, uniform=0.2).round(3).tolist()
    [0.45, 0.45, 0.05, 0.05]
    """
    chances = _probabilities(p)
    runs = len(chances)
    if not 0 < uniform <= 1:
        raise DataError(f"uniform is {uniform!r}; expected a share above 0: every run may be drawn")
    if not 1 <= n <= runs:
        raise DataError(f"{n} labels of {runs} runs; expected 1 to all of them")
    doubt = np.sqrt(chances * (1 - chances))
    total = float(doubt.sum())
    if total == 0:
        return np.full(runs, 1 / runs)
    shares = uniform / runs + (1 - uniform) * doubt / total
    certain = np.zeros(runs, np.bool_)
    while (above := ~certain & (shares * n > 1)).any():
        certain |= above
        shares[certain] = 1 / n
        rest = 1 - certain.sum() / n
        shares[~certain] *= rest / max(float(shares[~certain].sum()), 1e-300)
    return np.asarray(shares)


def draw(shares: ArrayLike, n: int, rng: np.random.Generator) -> sample.Ints:
    """Return `n` different places, drawn with probability n times their share, in random order.

    `shares` are those of `draw_shares` for the same n. An annotator may stop anywhere.

    Source: Madow (1949), Ann. Math. Statist. 20:333-354: one random start, the places shuffled.

    >>> sorted(draw([0.5, 0.5, 0.0], 2, np.random.default_rng(0)).tolist())
    [0, 1]
    """
    given = sample.as_column(shares, "shares")
    if not (given >= 0).all() or abs(given.sum() - 1) > 1e-6 or (given * n > 1 + 1e-6).any():
        raise DataError(f"shares sum to {given.sum():.6g}; expected 1, and none above 1/{n}")
    order = rng.permutation(np.flatnonzero(given > 0))
    ends = np.cumsum(n * given[order])
    marks = rng.random() + np.arange(n)
    chosen = np.searchsorted(ends, np.minimum(marks, ends[-1]), side="left")
    return np.asarray(rng.permutation(order[chosen]), np.int64)


def saved_width(p: ArrayLike, shares: ArrayLike) -> float:
    """Return the share of the interval's width that these draws save against uniform ones.

    As `p` has it. It is 0 for a judge that is equally sure of both of its verdicts; below
    `WORTH_DRAWING` a uniform queue is the better one.

    Source: the variance of Hansen and Hurwitz (1943), Ann. Math. Statist. 14:333-362, under p.

    >>> saved_width([0.9, 0.1, 0.1, 0.9], [0.25] * 4)
    0.0
    """
    chances, given = _probabilities(p), sample.as_column(shares, "shares")
    spread = chances * (1 - chances)
    if given.shape != chances.shape or not (given > 0).all():
        raise DataError("saved_width takes one share above 0 for each probability")
    uniform = float(spread.mean())
    if uniform == 0:
        return 0.0
    drawn = float((spread / given).mean()) / len(given)
    return float(max(0.0, 1 - np.sqrt(drawn / uniform)))


def recalibrate(
    p: ArrayLike, labelled: ArrayLike, labels: ArrayLike, shares: ArrayLike
) -> sample.Floats:
    """Return `p` with its log odds shifted and stretched to what people said, shape (runs,).

    `labelled` are places in `p`, `labels` what people said there (1 fails), `shares` those of the
    draw. A few labels move it little: shift and slope are held to 0 and 1 by a weak prior.

    Source: Platt (1999), Probabilistic outputs for support vector machines; the prior is ours.

    >>> p = [0.999] * 40 + [0.001] * 40
    >>> labels = [1] * 36 + [0] * 4 + [0] * 36 + [1] * 4
    >>> recalibrate(p, range(80), labels, [1 / 80] * 80).round(2)[[0, 40]].tolist()
    [0.9, 0.1]
    """
    chances = _probabilities(p)
    with np.errstate(divide="ignore"):
        odds = np.clip(np.log(chances) - np.log1p(-chances), -SURE, SURE)
    places, said = np.asarray(labelled, np.int64), sample.as_column(labels, "labels")
    weights = 1 / sample.as_column(shares, "shares")
    if not len(said):
        return _chances(odds)
    if places.shape != said.shape or weights.shape != said.shape or not np.isfinite(weights).all():
        raise DataError("recalibrate takes one place, one label and one share above 0 a label")
    weights = weights / weights.mean()
    columns = np.stack([np.ones(len(said)), odds[places]], axis=1)
    held = np.array([0.0, 1.0])
    found = held.copy()
    for _ in range(50):
        right = _chances(columns @ found)
        slope = columns.T @ (weights * (said - right)) - _HOLD * (found - held)
        curve = (columns * (weights * right * (1 - right))[:, None]).T @ columns + np.diag(_HOLD)
        step = np.linalg.solve(curve, slope)
        # A long step of Newton's method may overshoot where nearly every label is explained.
        found = found + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return _chances(found[0] + found[1] * odds)


def drawn_rate(
    p: ArrayLike,
    labelled: ArrayLike,
    labels: ArrayLike,
    shares: ArrayLike,
    clusters: sample.Clusters = None,
    **options: Unpack[sample.FrameOptions],
) -> Estimate | Unmeasured:
    """Rate of failures of the process that all runs come from, from labels drawn with `shares`.

    The mean of `p` over all runs, corrected by the mean of (label - p) / (runs * share) over the
    labels: unbiased whatever the judge, narrow where it is good. `labelled` are places in `p`,
    `labels` in [0, 1], `clusters` the task of each run, shape (runs,). t limits, clipped to [0, 1].

    Source: Hansen and Hurwitz (1943); the difference estimator, Saerndal, Swensson and Wretman
    (1992), Model Assisted Survey Sampling, section 6.3; Bonett and Price (2012), J. Educational and
    Behavioral Statistics 37:479-488, for an error that was not seen. By hand: the mean of p is .5,
    the corrections are 0 and .4.

    >>> found = drawn_rate([0.6, 0.4, 0.6, 0.4], [0, 1], [0.6, 0.6], [0.25, 0.125])
    >>> round(found.value, 3)
    0.7
    """
    chances, said = _probabilities(p), sample.as_column(labels, "labels")
    frame = sample.make_frame(sample.FrameOptions, options, unit_of_n="labels")
    if (absent := sample.find_absence(np.concatenate([said, chances]), frame)) is not None:
        return absent
    if not len(said):
        return Unmeasured("insufficient_data", f"no {frame.unit_of_n}")
    places, given = np.asarray(labelled, np.int64), sample.as_column(shares, "shares")
    if not (places.shape == said.shape == given.shape and (given > 0).all()):
        raise DataError("drawn_rate takes one place, one label and one share above 0 a label")
    if not ((said >= 0) & (said <= 1)).all():
        raise DataError("drawn_rate takes labels in [0, 1], 1 for a run that fails")
    n, runs = len(said), len(chances)
    corrections = (said - chances[places]) / (runs * given)
    tasks = sample.cluster_index(clusters, runs)
    by_task = sample.sum_by_cluster(corrections, tasks[places])
    value, groups = float(chances.mean() + corrections.mean()), len(by_task.sums)
    bounds = (0.0, 1.0) if sample.count_losses(frame.unmeasured) else None
    frame = replace(frame, n_tasks=groups, bounds=bounds)
    value = min(max(value, 0.0), 1.0)
    if groups < 2:
        return sample.make_value(value, "one label" if n < 2 else "one task", n=n, frame=frame)
    judged = sample.sum_by_cluster(chances, tasks)
    (_, of_labels, even), (_, of_runs, _) = (
        cluster_variance(x.sums, x.sizes) for x in (by_task, judged)
    )
    # A judge whom no label contradicts is not taken for one without errors: as Bonett and Price's
    # pseudo-case, one error is added, that fades with those which were seen.
    errors = int((np.abs(said - chances[places]) > 0.5).sum())
    variance = float(of_labels + of_runs) + 1 / (1 + errors) / n**2
    half = float(student_quantile(even - 1, frame.level)) * variance**0.5
    limits = (value, max(value - half, 0.0), min(value + half, 1.0))
    return sample.make_estimate(limits, method="drawn, t", n=n, frame=frame)


def _probabilities(p: ArrayLike) -> sample.Floats:
    chances = sample.as_column(p, "probabilities")
    if not ((chances >= 0) & (chances <= 1)).all():
        raise DataError("a judge's probabilities lie in [0, 1]; leave out runs without one")
    return chances


def _chances(odds: sample.Floats) -> sample.Floats:
    return np.asarray(1 / (1 + np.exp(-odds)))
