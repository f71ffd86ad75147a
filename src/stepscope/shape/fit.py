"""Whether any shape fits at all: without this question the posterior is confidently wrong.

Two dips are called a recovery with probability 1. Two tests: the residuals of the best template
against their noise, and the best shape against collapses in two stages, which leave small residuals
under a steady decline.
Source: the sum of squares of independent standard residuals is chi-square; one degree of freedom is
taken off for the depth.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from stepscope.shape.bank import Bank
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


def fit_probability(square: npt.ArrayLike, p: int) -> Floats:
    """Return the probability of residuals this large, were the template true.

    Args:
        square: sum of squares of p whitened residuals, any shape.
        p: residuals.
    """
    from scipy.special import chdtrc

    return np.asarray(chdtrc(p - 1, np.maximum(square, 0.0)), dtype=np.float64)


def suspicious(gof_p: Floats, size: int) -> Bools:
    """Return which runs of `size` template steps are worth asking about two stages."""
    return np.asarray((gof_p < ASKED_BELOW) & (size >= SHORTEST_COMPOUND))


def per_shape(weights: Floats, templates: Bank) -> Floats:
    """Return sums over the templates of each shape, shape (m, 5), of weights, shape (m, K)."""
    starts = np.searchsorted(templates.shape, np.arange(5))
    return np.asarray(np.add.reduceat(weights, starts, axis=1))
