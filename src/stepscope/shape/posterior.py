"""What a posterior over templates says of a run: break interval, fit, level and depth.

Whether any shape fits is asked in two ways: the residuals of the best template against their noise,
and the best shape against collapses in two stages. The depth is a mixture of normals cut off at the
least depth.

Source: the sum of squares of independent standard residuals is chi-square, less a degree of freedom
for each of level and depth, which are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stepscope.shape.inputs import Assumptions
from stepscope.shape.likelihood import TemplateEvidence
from stepscope.shape.templates import SHORTEST_COMPOUND
from stepscope.shape.types import HEALTHY, CredibleInterval
from stepscope.stats.sample import Bools, Floats, Ints

# Sums of probabilities are equal within this.
ROUNDING = 1e-6


def shortest_run(probability: Floats) -> tuple[Ints, Ints]:
    """Return first and last step of the shortest run that holds 90 % of each row's positive sum.

    Of runs of one length the one with most probability wins, then the earliest.

    >>> first, last = shortest_run(np.array([[0.0, 0.2, 0.5, 0.28, 0.02]]))
    >>> int(first[0]), int(last[0])
    (1, 3)
    """
    m, n = probability.shape
    upto = np.zeros((m, n + 1))
    np.cumsum(probability, axis=1, out=upto[:, 1:])
    needed = 0.9 * upto[:, -1] - ROUNDING * upto[:, -1]
    first, last = np.zeros(m, np.int64), np.full(m, n - 1, np.int64)
    open_rows = np.arange(m)
    for length in range(1, n):
        held = upto[open_rows, length:] - upto[open_rows, :-length]
        start = held.argmax(1)
        enough = held[np.arange(len(start)), start] >= needed[open_rows]
        done = open_rows[enough]
        first[done], last[done] = start[enough], start[enough] + length - 1
        open_rows = open_rows[~enough]
        if not len(open_rows):
            break
    return first, last


# Templates with less of the probability than this are left out.
NEGLIGIBLE_WEIGHT = 1e-6
# Halvings of the range of depths: limits are exact to 1e-9.
HALVINGS = 32
# No run falls deeper than this, in the unit of the scores.
DEEPEST = 2.0


def depth_span(found: Sequence[TemplateEvidence], weights: Sequence[Floats]) -> CredibleInterval:
    """Return the mean depth with 90 % limits, given that the run fell.

    Evidence and weights, (K,) each, the posterior of the templates, are those of each noise.
    """
    from scipy.special import log_ndtr

    broken = found[0].lens.bank.shape != HEALTHY
    weight = np.concatenate([w[broken] for w in weights])
    centre = np.concatenate([each.depth[broken] for each in found])
    root = np.sqrt(np.concatenate([each.lens.precision[broken] for each in found]))
    least = np.concatenate([each.lens.least[broken] for each in found])
    kept = weight > NEGLIGIBLE_WEIGHT * weight.max()
    weight, centre = weight[kept] / weight[kept].sum(), centre[kept]
    root, least = root[kept], least[kept]
    inside = log_ndtr((centre - least) * root)
    edge = -(((centre - least) * root) ** 2) / 2 - np.log(2 * np.pi) / 2
    mean = float(weight @ (centre + np.exp(edge - inside) / root))

    def above(depth: float) -> float:
        tail = log_ndtr((centre - np.maximum(depth, least)) * root)
        return float(weight @ np.exp(tail - inside))

    def limit(share: float) -> float:
        low, high = 0.0, DEEPEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) > share else (low, middle)
        return (low + high) / 2

    low, high = limit(0.95), limit(0.05)
    return CredibleInterval(min(max(mean, low), high), low, high)


# Misfits less probable than this are no accident.
MISFIT = 0.01
# A collapse in two stages must explain the scores this much better than the best shape; ten is
# Jeffreys' "strong".
COMPOUND_LOG_FACTOR = math.log(10)
# Only runs that fit less well than this are asked about two stages: of runs with a shape one in
# nine, and nearly all of those that fall twice.
ASKED_BELOW = 0.3


def fit_probability(left: Floats, level: Floats) -> Floats:
    """Return the probability of residuals this large, were the template true, shape (m,).

    The level is fitted: a run of zeros is low, and not without a shape. Whitened are both what a
    template leaves of the scores, (m, p), and a change of level, (p,), of length 1.
    """
    from scipy.special import chdtrc

    square = np.einsum("mp,mp->m", left, left) - np.einsum("mp,p->m", left, level) ** 2
    return np.asarray(chdtrc(left.shape[1] - 2, np.maximum(square, 0.0)), dtype=np.float64)


def suspicious(gof_p: Floats, size: int) -> Bools:
    """Return which runs of `size` template steps are worth asking about two stages."""
    return np.asarray((gof_p < ASKED_BELOW) & (size >= SHORTEST_COMPOUND))


# Below this a run is low, in the articles' rubric: sub-goal not achieved, or achieved in part.
LOW = 0.6
# Two-sided 90 %, in standard errors.
NORMAL_90 = 1.6448536269514722
# Correlations below this are nothing.
NEGLIGIBLE_CORRELATION = 1e-4


def mean_level(
    scores: Floats, observed: Bools, sigma: Floats, what: Assumptions
) -> tuple[Floats, Floats]:
    """Return means of the observed scores and their 90 % half widths from the noise, (m,) each.

    All arrays are (m, n); scores are read where observed.
    """
    count = observed.sum(1)
    noise = np.where(observed, np.sqrt(sigma**2 + what.quantum**2 / 12), 0.0)
    variance = (noise**2).sum(1)
    lag, shared = 1, what.correlation
    while abs(shared) > NEGLIGIBLE_CORRELATION and lag < scores.shape[1]:
        variance += 2 * shared * (noise[:, :-lag] * noise[:, lag:]).sum(1)
        lag, shared = lag + 1, shared * what.correlation
    mean = np.where(observed, scores, 0.0).sum(1) / count
    return mean, NORMAL_90 * np.sqrt(np.maximum(variance, 0.0)) / count
