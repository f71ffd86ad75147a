"""Many questions at once, and looks over time: what survives.

Holm for axes, gates and agents asked together; alpha spending for one question asked every night.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats


def holm(p: npt.ArrayLike) -> Floats:
    """Adjust p values so that rejecting those at most alpha keeps family-wise error at alpha.

    Args:
        p: shape (m,), in [0, 1]; m may be 0.

    Returns:
        shape (m,), in the order given.

    Raises:
        DataError: a p value is not finite or lies outside [0, 1].

    Source:
        Holm (1979), Scandinavian J. Statistics 6:65-70.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise DataError("holm takes p values in [0, 1], in one dimension")
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(values) else steps
    return adjusted


def look_alpha(look: int, alpha: float = 0.05) -> float:
    """Return what look number `look` (from 1) may spend: alpha / (j (j + 1)), summing to alpha.

    Args:
        look: which look, from 1.
        alpha: chance of a false alarm over all looks for ever.

    Raises:
        DataError: the look is below 1, or alpha outside (0, 1).

    Source:
        calibration, section 1; the sum of 1/(j(j+1)) telescopes to 1.

    >>> [round(look_alpha(j), 4) for j in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    if look < 1 or not 0 < alpha < 1:
        raise DataError(f"look_alpha takes look >= 1 and 0 < alpha < 1; got {look} and {alpha!r}")
    return alpha / (look * (look + 1))
