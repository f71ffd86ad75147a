"""The level of a run, whatever its shape: a constant .1 is healthy in shape and low in level."""

from __future__ import annotations

import numpy as np

from stepscope.shape.door import Asked
from stepscope.shape.types import Bools, Floats

# Below this a run is low, in the articles' rubric: sub-goal not achieved, or achieved in part.
LOW = 0.6
# Two-sided 90 %, in standard errors.
NORMAL_90 = 1.6448536269514722
# Correlations below this are nothing.
NEGLIGIBLE = 1e-4


def mean_level(
    scores: Floats, observed: Bools, sigma: Floats, what: Asked
) -> tuple[Floats, Floats]:
    """Return means of the observed scores and their 90 % half widths from the noise, (m,) each.

    Args:
        scores: shape (m, n), read where observed.
        observed: shape (m, n).
        sigma: shape (m, n).
        what: quantum and correlation of the noise.
    """
    count = observed.sum(1)
    noise = np.where(observed, np.sqrt(sigma**2 + what.quantum**2 / 12), 0.0)
    variance = (noise**2).sum(1)
    lag, shared = 1, what.correlation
    while abs(shared) > NEGLIGIBLE and lag < scores.shape[1]:
        variance += 2 * shared * (noise[:, :-lag] * noise[:, lag:]).sum(1)
        lag, shared = lag + 1, shared * what.correlation
    mean = np.where(observed, scores, 0.0).sum(1) / count
    return mean, NORMAL_90 * np.sqrt(np.maximum(variance, 0.0)) / count
