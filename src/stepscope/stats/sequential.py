"""Tests that may be looked at after every label: evidence that grows by bets on differences.

Each unit (a task) has a difference in [-1, 1]: whether one judge was right, less whether the other
was. The evidence against "its mean is at most t" is what a gambler would hold who stakes a share of
his money on each difference; where the claim is true he gains, in the mean, nothing, so that it
ever exceeds 1/alpha with a chance of at most alpha, however often one looks and whenever one stops.
Source: Waudby-Smith and Ramdas (2024), J. Royal Statistical Society B 86:1-27; Ville (1939).
"""

from __future__ import annotations

from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats.sample import Floats, as_column

# Shares of the largest stake that cannot ruin; the evidence is the mean over them. Chosen for
# margins of five points and judges that differ on 5 to 30 % of labels.
STAKES = (0.15, 0.3, 0.6)
ALPHA = 0.05
# The standard normal's 95 % and 80 %: (1.645 + 0.842)^2 = 6.183.
_FACTOR = 6.183
# What the power is simulated with.
_REPLICATIONS, _MOST = 1_000, 4_000


def betting_evidence(differences: ArrayLike, threshold: float) -> Floats:
    """Evidence after each unit that the mean of the differences is above the threshold, as a log.

    Shape (..., n), each in [-1, 1]; the threshold in (-1, 1). For "below" negate both.

    >>> found = betting_evidence([1.0, 1.0, -1.0], 0.0)
    >>> np.exp(found).round(2).tolist()
    [1.35, 1.86, 1.11]
    """
    values = np.asarray(differences, dtype=np.float64)
    if not -1 < threshold < 1 or (np.abs(values) > 1).any() or not np.isfinite(values).all():
        raise DataError(f"betting takes differences in [-1, 1] and a threshold; got {threshold!r}")
    gains = (values - threshold) / (1 + threshold)
    wealth = np.stack([np.cumsum(np.log1p(stake * gains), axis=-1) for stake in STAKES])
    return np.asarray(np.logaddexp.reduce(wealth, axis=0) - log(len(STAKES)))


def betting_limits(differences: ArrayLike, alpha: float = ALPHA) -> tuple[float, float]:
    """Lower and upper limit of a mean difference, each true at every look with chance 1 - alpha.

    >>> low, high = betting_limits([0.0] * 90 + [1.0, -1.0] * 5)
    >>> round(low, 3), round(high, 3)
    (-0.096, 0.096)
    """
    values = as_column(differences, "differences")

    def lower(side: Floats) -> float:
        below, above = -1.0, 1.0
        while above - below > 1e-6:
            middle = (below + above) / 2
            shown = len(side) > 0 and betting_evidence(side, middle)[-1] >= -log(alpha)
            below, above = (middle, above) if shown else (below, middle)
        return below

    return lower(values), -lower(-values)


def labels_to_adopt(
    discordance: float, margin: float, *, rng: np.random.Generator, alpha: float = ALPHA
) -> tuple[int, int | None]:
    """Labels that show, in 80 % of cases, that a judge as good is not worse by the margin.

    First if they are counted once, at a number that was fixed before; then if they are looked at as
    they come, None where that takes more than thousands.

    Source: 6.183 * discordance / margin^2, the one-sided 95 % test of a paired difference; e.g.
    Connor (1987), Biometrics 43:207-211.

    >>> labels_to_adopt(0.15, 0.05, rng=np.random.default_rng(0))[0]
    371
    """
    if not (0 < discordance <= 1 and 0 < margin < 1):
        raise DataError(f"discordance {discordance!r} and margin {margin!r} are no shares above 0")
    once = ceil(_FACTOR * discordance / margin**2)
    # Where judges hardly ever differ the bets still need labels to grow.
    n = min(_MOST, max(5 * once, ceil(10 / margin)))
    drawn = rng.random((_REPLICATIONS, n))
    differences = (drawn < discordance / 2) - 1.0 * (drawn > 1 - discordance / 2)
    shown = (betting_evidence(differences, -margin) >= -log(alpha)).mean(axis=0) >= 0.8
    return once, int(shown.argmax()) + 1 if shown.any() else None
