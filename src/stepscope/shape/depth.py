"""How far a run fell: a mixture of normals cut off at the least depth, one for each template."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.shape.evidence import Evidence
from stepscope.shape.names import HEALTHY
from stepscope.shape.types import Floats, Span

# Templates with less of the probability than this are left out.
NEGLIGIBLE = 1e-6
# Halvings of the range of depths: limits are exact to 1e-9.
HALVINGS = 32
# No run falls deeper than this, in the unit of the scores.
DEEPEST = 2.0


def depth_span(found: Sequence[Evidence], weights: Sequence[Floats]) -> Span:
    """Return the mean depth with 90 % limits, given that the run fell.

    Args:
        found: the evidence, one entry for each noise that was considered.
        weights: shape (K,) each, posterior probability of the templates.
    """
    broken = found[0].lens.bank.shape != HEALTHY
    weight = np.concatenate([w[broken] for w in weights])
    centre = np.concatenate([each.depth[broken] for each in found])
    root = np.sqrt(np.concatenate([each.lens.precision[broken] for each in found]))
    least = np.concatenate([each.lens.least[broken] for each in found])
    kept = weight > NEGLIGIBLE * weight.max()
    return _span(weight[kept] / weight[kept].sum(), centre[kept], root[kept], least[kept])


def _span(weight: Floats, centre: Floats, root: Floats, least: Floats) -> Span:
    from scipy.special import log_ndtr

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
    return Span(min(max(mean, low), high), low, high)
