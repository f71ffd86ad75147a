"""Noise of a judge, put on curves without any: Gaussian, correlated, quantised, heavy-tailed.

Every kind has standard deviation sigma at each step before clipping and rounding. Scores are
clipped to 0..1 as a judge's are; the articles' tables are reproduced with and without.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from stepscope.errors import UsageError
from stepscope.lab.planted import Floats

Noise = Literal["gaussian", "ar1", "quantised", "heavy"]
NOISES: tuple[Noise, ...] = get_args(Noise)

# Correlation of one step's error with the next's: a judge that stays impressed for two steps.
AR1 = 0.5
# A judge that answers in tenths.
QUANTUM = 0.1
# Student's t with four degrees of freedom has variance 2: one error in 60 is beyond 3 sigma.
FREEDOM = 4
HEAVY_SPREAD = (FREEDOM / (FREEDOM - 2)) ** 0.5


def noisy(
    clean: Floats,
    sigma: float,
    rng: np.random.Generator,
    *,
    kind: Noise = "gaussian",
    clip: bool = True,
) -> Floats:
    """Return curves as a judge with noise would score them.

    Args:
        clean: shape (m, n), scores without noise.
        sigma: standard deviation of the error of one score, 0 or more.
        rng: the source of the errors.
        kind: gaussian; ar1 (neighbouring errors correlate by .5); quantised (Gaussian, then
            rounded to tenths); heavy (Student's t with 4 degrees of freedom, scaled).
        clip: keep scores within 0..1.

    Raises:
        UsageError: sigma is negative or not finite, or the kind is unknown.
    """
    if not (np.isfinite(sigma) and sigma >= 0):
        raise UsageError(f"sigma is {sigma!r}; expected 0 or more")
    scores = clean + sigma * _errors(clean.shape, rng, kind)
    if clip:
        scores = np.clip(scores, 0.0, 1.0)
    return np.round(scores / QUANTUM) * QUANTUM if kind == "quantised" else scores


def _errors(shape: tuple[int, ...], rng: np.random.Generator, kind: Noise) -> Floats:
    match kind:
        case "gaussian" | "quantised":
            return rng.standard_normal(shape)
        case "heavy":
            return np.asarray(rng.standard_t(FREEDOM, shape) / HEAVY_SPREAD, np.float64)
        case "ar1":
            errors = rng.standard_normal(shape)
            for step in range(1, shape[1]):
                errors[:, step] *= (1 - AR1**2) ** 0.5
                errors[:, step] += AR1 * errors[:, step - 1]
            return errors
    raise UsageError(f"no noise {kind!r}; one of {', '.join(NOISES)}")
