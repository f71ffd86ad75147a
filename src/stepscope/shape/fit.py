"""Whether any shape fits at all: without this question the posterior is confidently wrong.

Two dips are called a recovery with probability 1. Two tests: the residuals of the best template
against their noise, and the best shape against collapses in two stages, which leave small residuals
under a steady decline.
Source: the sum of squares of independent standard residuals is chi-square, less a degree of freedom
for each of level and depth, which are fitted.
"""

from __future__ import annotations

import math

import numpy as np

from stepscope.shape.compound import SHORTEST_COMPOUND
from stepscope.shape.types import Bools, Floats

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

    The level is fitted: a run of zeros is low, and not without a shape.

    Args:
        left: shape (m, p), what a template leaves of the scores, whitened.
        level: shape (p,), a change of level, whitened, of length 1.
    """
    from scipy.special import chdtrc

    along = np.einsum("mp,p->m", left, level)
    square = np.einsum("mp,mp->m", left, left) - along**2
    return np.asarray(chdtrc(left.shape[1] - 2, np.maximum(square, 0.0)), dtype=np.float64)


def suspicious(gof_p: Floats, size: int) -> Bools:
    """Return which runs of `size` template steps are worth asking about two stages."""
    return np.asarray((gof_p < ASKED_BELOW) & (size >= SHORTEST_COMPOUND))
