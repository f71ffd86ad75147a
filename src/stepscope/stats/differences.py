"""The limits of differences, on arrays of any batch shape: paired by case, or of two fleets.

As in `intervals`: no input checks, no Estimate, the last axis is cases or clusters.
"""

from __future__ import annotations

import numpy as np

from stepscope.stats.clusters import Clusters, Floats
from stepscope.stats.intervals import cluster_variance, share_limits, student_quantile


def difference_limits(
    differences: Floats, level: float, *, bounded: bool
) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of the mean of per-case differences.

    With `bounded` (differences of shares, in [-1, 1]) pseudo-cases are added, half of them +1 and
    half -1: two of them when no case differs, 2/(1 + d) when d cases do. That is Bonett and Price's
    interval where little was seen, and Student's where much was.

    Args:
        differences: shape (..., cases), at least two cases.
        level: coverage, a share.
        bounded: whether the differences are of shares.

    Returns:
        The plain mean and the limits, which need not lie evenly around it.

    Source:
        Bonett and Price (2012), J. Educational and Behavioral Statistics 37:479-488; the fading of
        the pseudo-cases and the degrees of freedom are ours, chosen by simulation
        (docs/design/intervals.md).
    """
    cases = differences.shape[-1]
    value = differences.mean(-1)
    if not bounded:
        half = student_quantile(cases - 1, level) * differences.std(-1, ddof=1) / np.sqrt(cases)
        return value, value - half, value + half
    pseudo = 2 / (1 + np.count_nonzero(differences, axis=-1))
    size = cases + pseudo
    centre = differences.sum(-1) / size
    variance = ((differences**2).sum(-1) + pseudo) / size - centre**2
    half = student_quantile(2 * (cases - 1), level) * np.sqrt(variance / size)
    return value, np.maximum(centre - half, -1.0), np.minimum(centre + half, 1.0)


def newcombe_limits(
    first: Clusters, second: Clusters, level: float
) -> tuple[Floats, Floats, Floats]:
    """Second share minus first, from the clustered limits of each.

    Source:
        Newcombe (1998), Statistics in Medicine 17:873-890, method 10.
    """
    a, a_low, a_high = share_limits(first.sums, first.sizes, level, most=first.sizes.sum(-1))
    b, b_low, b_high = share_limits(second.sums, second.sizes, level, most=second.sizes.sum(-1))
    low = b - a - np.hypot(b - b_low, a_high - a)
    return b - a, low, b - a + np.hypot(b_high - b, a - a_low)


def welch_limits(first: Clusters, second: Clusters, level: float) -> tuple[Floats, Floats, Floats]:
    """Second mean minus first, with Welch's degrees of freedom over clusters.

    Source:
        Welch (1947), Biometrika 34:28-35, with the clustered variance of each mean.
    """
    a, a_variance, a_clusters = cluster_variance(first.sums, first.sizes)
    b, b_variance, b_clusters = cluster_variance(second.sums, second.sizes)
    variance = a_variance + b_variance
    some = np.where(variance > 0, variance, 1.0)
    doubt = (a_variance / some) ** 2 / np.maximum(a_clusters - 1, 1.0)
    doubt = doubt + (b_variance / some) ** 2 / np.maximum(b_clusters - 1, 1.0)
    df = 1 / np.where(doubt > 0, doubt, 1.0)
    half = student_quantile(df, level) * np.sqrt(variance)
    return b - a, b - a - half, b - a + half
