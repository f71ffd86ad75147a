"""The model of a score curve, made ready for one pattern of observed steps and one noise.

    y = level + offset + depth * f + noise

The level is normal, the depth a normal cut off below; the noise of the scores is the judge's, may
correlate from step to step, and is joined by a small roughness of the curve itself and a small
slope. For each template the level and the depth are integrated out in closed form.

Source: Bayesian linear regression with a truncated normal coefficient; the integral is the one of
Bishop (2006), Pattern Recognition and Machine Learning, 3.5.1, times a ratio of normal integrals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepscope.shape.bank import Bank, bank
from stepscope.shape.compound import two_stages
from stepscope.shape.names import HEALTHY
from stepscope.shape.pools import Pool, pool
from stepscope.shape.products import inverse_of_lower, product
from stepscope.shape.types import Floats

# Level of a run at its best: centre and standard deviation.
LEVEL, LEVEL_SPREAD = 0.80, 0.18
# How deep runs fall: centre, standard deviation, least. Half way between the least fall of a broken
# run and the steepest of a healthy one lies .15, where the articles draw their line.
DEPTH, DEPTH_SPREAD, DEPTH_LEAST = 0.40, 0.15, 0.20
# How much healthy runs climb from first to last step, beside the rise of their template.
CLIMB, CLIMB_SPREAD, CLIMB_LEAST = 0.0, 0.07, -0.10
# Roughness of a curve around its template, and of its slope over the run: standard deviations.
ROUGHNESS, SLOPE = 0.025, 0.03
# Correlations below this are nothing.
NEGLIGIBLE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Whitened:
    """Templates seen through one noise, so that evidence is a dot product away.

    Attributes:
        bank: the templates.
        pool: which averages of the scores are compared.
        whiten: shape (p, p), turns residuals into independent ones of variance 1.
        level: shape (p,), a change of level, whitened, of length 1.
        f: shape (K, p), the templates' forms, whitened.
        offset: shape (K, p), whitened.
        cross: shape (K,), f times offset.
        square: shape (K,), offset times offset.
        precision: shape (K,), posterior precision of the depth.
        pull: shape (K,), prior mean of the depth times its prior precision.
        least: shape (K,), least depth.
        constant: shape (K,), what of the log evidence does not depend on the scores.
        log_scale: log of the density's scale, the same for all templates.
    """

    bank: Bank
    pool: Pool
    whiten: Floats
    level: Floats
    f: Floats
    offset: Floats
    cross: Floats
    square: Floats
    precision: Floats
    pull: Floats
    least: Floats
    constant: Floats
    log_scale: float


def whitened(
    observed: bytes, sigma: bytes, *, quantum: float, correlation: float, compound: bool = False
) -> Whitened:
    """Return the templates seen through this noise; the last 32 answers are kept.

    Args:
        observed: n bytes, 1 where a step has a score.
        sigma: n doubles, the noise of each score; of missing ones, anything.
        quantum: step between the values that a judge can give, 0 when it can give all.
        correlation: of the errors of neighbouring steps.
        compound: the collapses in two stages instead of the five shapes.
    """
    return _whitened(observed, sigma, quantum, correlation, compound)


@lru_cache(maxsize=32)
def _whitened(
    observed: bytes, sigma: bytes, quantum: float, correlation: float, compound: bool
) -> Whitened:
    from scipy.special import log_ndtr

    seen = np.frombuffer(observed, dtype=np.bool_)
    noise = np.where(seen, np.frombuffer(sigma, dtype=np.float64), 1.0)
    noise = np.sqrt(noise**2 + quantum**2 / 12)
    made = pool(seen, noise)
    templates = (two_stages if compound else bank)(made.size)
    root = np.asarray(np.linalg.cholesky(covariance(made, noise, correlation)), np.float64)
    unit = inverse_of_lower(root)
    f = product(templates.f[:, made.places], unit.T)
    offset = product(templates.offset[:, made.places], unit.T)
    healthy = templates.shape == HEALTHY
    centre = np.where(healthy, CLIMB, DEPTH)
    spread = np.where(healthy, CLIMB_SPREAD, DEPTH_SPREAD)
    least = np.where(healthy, CLIMB_LEAST, DEPTH_LEAST)
    level = unit.sum(1)
    precision = (f**2).sum(1) + spread**-2.0
    square = (offset**2).sum(1)
    constant = (
        templates.log_weight
        - (centre / spread) ** 2 / 2
        - np.log(spread**2 * precision) / 2
        - log_ndtr((centre - least) / spread)
        - square / 2
    )
    return Whitened(
        bank=templates,
        pool=made,
        whiten=unit,
        level=level / np.sqrt(level @ level),
        f=f,
        offset=offset,
        cross=(f * offset).sum(1),
        square=square,
        precision=precision,
        pull=centre / spread**2,
        least=least,
        constant=constant,
        log_scale=float(-np.log(np.diag(root)).sum() - len(root) * np.log(2 * np.pi) / 2),
    )


def covariance(made: Pool, noise: Floats, correlation: float) -> Floats:
    """Return the covariance of the averages around `LEVEL` plus a template.

    Args:
        made: p averages of n scores.
        noise: shape (n,), standard deviation of each score.
        correlation: of the errors of neighbouring steps; falls off geometrically with distance.

    Returns:
        Shape (p, p).
    """
    spread = made.weights * noise
    found = spread @ spread.T
    lag, shared = 1, correlation
    while abs(shared) > NEGLIGIBLE and lag < len(noise):
        beside = shared * (spread[:, :-lag] @ spread[:, lag:].T)
        found += beside + beside.T
        lag, shared = lag + 1, shared * correlation
    middle = made.places / (made.size - 1) - 0.5
    own = ROUGHNESS**2 * np.eye(len(found))
    return np.asarray(found + own + LEVEL_SPREAD**2 + SLOPE**2 * np.outer(middle, middle))
