"""Fleets of runs whose shapes are known, with the evidence about each run.

Evidence is drawn from pools that were classified once: a fleet costs no classifying.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from stepscope.lab.curves import add_noise, draw_curves
from stepscope.shape.articles import v3_many
from stepscope.shape.classifier import classify_many
from stepscope.shape.types import SHAPES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIXES = {
    "even": (0.2, 0.2, 0.2, 0.2, 0.2),
    "usual": (0.45, 0.10, 0.12, 0.25, 0.08),
    "rare": (0.60, 0.02, 0.03, 0.30, 0.05),
    "absent": (0.70, 0.0, 0.10, 0.15, 0.05),
    "healthy": (0.96, 0.01, 0.01, 0.01, 0.01),
}
# Runs of each shape in a pool.
POOL = 4_000


@dataclass(frozen=True, slots=True)
class Pool:
    """Evidence about runs of known shape, and what counting would make of them.

    Attributes:
        log_likelihood: shape (5, pool, 5), by true shape.
        posterior: likewise.
        counted: shape (5, pool), the article's third version.
    """

    log_likelihood: Floats
    posterior: Floats
    counted: npt.NDArray[np.int8]


@cache
def curves(generator: str, n: int, sigma: float, size: int = POOL) -> Pool:
    """Classify runs of a generator, `size` of each shape."""
    rng = np.random.default_rng(n)
    parts: list[tuple[Floats, Floats, npt.NDArray[np.int8]]] = []
    for shape in SHAPES:
        scores = add_noise(draw_curves(generator, shape, n, size, rng).curves, sigma, rng)
        found = classify_many(scores, sigma=sigma)
        parts.append((found.log_likelihood, found.posterior, v3_many(scores)))
    return Pool(*(np.stack(part) for part in zip(*parts, strict=True)))


@cache
def corners(distance: float, size: int = POOL) -> Pool:
    """Evidence that is exactly what it says: unit noise about corners so far from the centre."""
    rng = np.random.default_rng(1)
    at = distance * np.eye(len(SHAPES))
    seen = at[:, None] + rng.normal(size=(len(SHAPES), size, len(SHAPES)))
    log = -((seen[:, :, None] - at) ** 2).sum(-1) / 2
    posterior = np.exp(log - log.max(-1, keepdims=True))
    posterior /= posterior.sum(-1, keepdims=True)
    return Pool(log, posterior, log.argmax(-1).astype(np.int8))


def shapes_of(
    rng: np.random.Generator, mix: tuple[float, ...], tasks: int, trials: int, correlation: float
) -> Ints:
    """Draw the shapes of a fleet; trials of a task share them by `correlation`."""
    if correlation == 0:
        return rng.choice(len(mix), size=tasks * trials, p=mix)
    own = rng.dirichlet(np.maximum(mix, 1e-9) * (1 - correlation) / correlation, size=tasks)
    edges = np.cumsum(own, axis=1)[:, None, :-1]
    return np.asarray((rng.random((tasks, trials, 1)) > edges).sum(-1).ravel())


def evidence(rng: np.random.Generator, pool: Pool, shapes: Ints) -> Floats:
    """Draw the log likelihoods of runs of these shapes, shape (m, 5)."""
    return pool.log_likelihood[shapes, rng.integers(pool.counted.shape[1], size=len(shapes))]
