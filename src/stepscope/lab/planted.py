"""Score curves whose shape and break step are known, and the noise of a judge put on them.

The break step is the first step at which half of the drop, or more, has happened. Steady
degradation and healthy runs have none (-1). Every kind of noise has standard deviation sigma at
each step before clipping to 0..1 and rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from stepscope.errors import UsageError
from stepscope.stats.sample import Floats, Ints

NO_BREAK = -1
FEWEST_STEPS = 4
# Two drops that differ by rounding alone are the same drop.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PlantedCurves:
    """Curves without noise and the truth about them."""

    curves: Floats  # shape (m, n), the scores a judge without error would give
    break_step: Ints  # shape (m,), index of the first step with half of the drop; -1 where none


def as_rows(values: npt.ArrayLike) -> Floats:
    """Return (m,) values as (m, 1), to be laid over steps."""
    return np.asarray(values, np.float64)[:, None]


def draw_uniform(
    rng: np.random.Generator, low: Floats | float, high: Floats | float, m: int
) -> Floats:
    """Draw (m, 1) uniform values; the limits are numbers or (m, 1)."""
    return np.asarray(rng.uniform(low, high, (m, 1)), np.float64)


def half_drop_steps(drop: Floats) -> Ints:
    """Return for each curve the first step with half of its greatest drop; drop >= 0, (m, n)."""
    steps: Ints = np.argmax(drop >= drop.max(1, keepdims=True) / 2 - ROUNDING, axis=1)
    return steps


def draw_early_steps(rng: np.random.Generator, n: int, m: int) -> Ints:
    """Draw steps at which a run collapses early: after a fifth of it, before its middle."""
    first, last = max(1, n // 5), (n + 1) // 2 - 1
    return rng.integers(first, last + 1, m)


Noise = Literal["gaussian", "ar1", "quantised", "heavy"]
NOISES: tuple[Noise, ...] = get_args(Noise)

# Correlation of one step's error with the next's: a judge that stays impressed for two steps.
AR1 = 0.5
# A judge that answers in tenths.
QUANTUM = 0.1
# Student's t with four degrees of freedom has variance 2: one error in 60 is beyond 3 sigma.
FREEDOM = 4
HEAVY_SPREAD = (FREEDOM / (FREEDOM - 2)) ** 0.5


def add_noise(
    clean: Floats,  # shape (m, n), scores without noise
    sigma: float,  # standard deviation of the error of one score, 0 or more
    rng: np.random.Generator,  # the source of the errors
    *,
    # gaussian; ar1 (neighbouring errors correlate by .5); quantised (Gaussian, then rounded to
    # tenths); heavy (Student's t with 4 degrees of freedom, scaled)
    kind: Noise = "gaussian",
    clip: bool = True,  # keep scores within 0..1
) -> Floats:
    """Return curves as a judge with noise of a known kind would score them."""
    if not (np.isfinite(sigma) and sigma >= 0):
        raise UsageError(f"sigma is {sigma!r}; expected 0 or more")
    scores = clean + sigma * _noise_errors(clean.shape, rng, kind)
    if clip:
        scores = np.clip(scores, 0.0, 1.0)
    return np.round(scores / QUANTUM) * QUANTUM if kind == "quantised" else scores


def _noise_errors(shape: tuple[int, ...], rng: np.random.Generator, kind: Noise) -> Floats:
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
