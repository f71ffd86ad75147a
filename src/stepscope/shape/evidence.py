"""How well each template explains scores, exactly; the reference that the fast path is held to.

Where sigma is not known, everything is computed for each of `SIGMAS` and averaged by how well that
sigma explains the scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.shape.door import Asked
from stepscope.shape.types import Bools, Floats
from stepscope.shape.whiten import LEVEL, Whitened, whitened

# What a judge's sigma may be when nobody has measured it: equally likely each.
SIGMAS = (0.03, 0.055, 0.1, 0.18)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One run against all templates under one noise.

    Attributes:
        lens: the templates as this noise shows them.
        sigma: shape (n,), the noise.
        residual: shape (p,), scores minus `LEVEL`, whitened.
        log: shape (K,), log evidence of each template, its weight included.
        depth: shape (K,), posterior mean of the depth before it is cut off at the least.
    """

    lens: Whitened
    sigma: Floats
    residual: Floats
    log: Floats
    depth: Floats


def evidences(scores: Floats, observed: Bools, sigma: Floats | None, what: Asked) -> list[Evidence]:
    """Return the evidence under the given noise, or under each of `SIGMAS`."""
    if sigma is not None:
        return [evidence(scores, observed, sigma, what)]
    n = len(scores)
    return [evidence(scores, observed, np.full(n, one), what) for one in SIGMAS]


def evidence(
    scores: Floats, observed: Bools, sigma: Floats, what: Asked, *, compound: bool = False
) -> Evidence:
    """Return the evidence for each template; all arrays have shape (n,)."""
    lens = lens_for(observed, sigma, what, compound=compound)
    return against(lens, np.where(observed, scores, 0.0), sigma)


def lens_for(observed: Bools, sigma: Floats, what: Asked, *, compound: bool = False) -> Whitened:
    """Return the templates as this noise shows them."""
    return whitened(
        observed.tobytes(),
        np.ascontiguousarray(sigma).tobytes(),
        quantum=what.quantum,
        correlation=what.correlation,
        compound=compound,
    )


def against(lens: Whitened, scores: Floats, sigma: Floats) -> Evidence:
    """Return the evidence for each template, from scores without NaN."""
    from scipy.special import log_ndtr

    residual = _dot(lens.whiten, _dot(lens.pool.weights, scores) - LEVEL)
    depth = (_dot(lens.f, residual) - lens.cross + lens.pull) / lens.precision
    root = np.sqrt(lens.precision)
    log = (
        lens.constant
        + (depth * root) ** 2 / 2
        + log_ndtr((depth - lens.least) * root)
        + _dot(lens.offset, residual)
        + lens.log_scale
        - residual @ residual / 2
    )
    return Evidence(lens, sigma, residual, log, depth)


def _dot(rows: Floats, vector: Floats) -> Floats:
    """Return rows @ vector without a library's threads; see `products`."""
    return np.asarray(np.einsum("kp,p->k", rows, vector))
