"""Resample sufficient statistics, not rows: the cluster bootstrap of a ratio of sums.

Clusters with the same sum and size are one kind, so that 10,000 yes-or-no runs are two kinds and a
resample is one binomial draw. Only from 20 clusters up: below, and where a sample shows no spread
at all, it covers far too little (docs/design/intervals.md), and the closed forms are used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats

# The percentile bootstrap is refused below this many clusters (calibration, section 1).
FEWEST_CLUSTERS = 20
# Clusters drawn at one time: about what a processor's cache holds, 1.2 MB.
CACHED = 160_000


def resampled(
    sums: npt.ArrayLike, sizes: npt.ArrayLike, *, rng: np.random.Generator, draws: int = 2_000
) -> Floats:
    """Ratio of sums in each of `draws` resamples of whole clusters.

    Args:
        sums: shape (clusters,), numerator of each cluster.
        sizes: shape (clusters,), denominator of each cluster, positive.
        rng: draws the resamples.
        draws: number of resamples.

    Returns:
        shape (draws,), sum of sums over sum of sizes.

    Raises:
        DataError: fewer than 20 clusters, shapes that differ, or sizes that are not positive.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13; clusters as the
        unit after Field and Welsh (2007), J. R. Statist. Soc. B 69:369-390.

    >>> means = resampled([1.0] * 50 + [0.0] * 50, [1.0] * 100, rng=np.random.default_rng(0))
    >>> bool(abs(means.mean() - 0.5) < 0.01)
    True
    """
    top, bottom = np.asarray(sums, np.float64), np.asarray(sizes, np.float64)
    if top.shape != bottom.shape or top.ndim != 1:
        raise DataError(f"sums have shape {top.shape}, sizes {bottom.shape}")
    if len(top) < FEWEST_CLUSTERS:
        raise DataError(f"the cluster bootstrap needs {FEWEST_CLUSTERS} clusters, got {len(top)}")
    if not (np.isfinite(top).all() and np.isfinite(bottom).all() and (bottom > 0).all()):
        raise DataError("the cluster bootstrap takes finite sums and positive sizes")
    pairs = np.empty(len(top), dtype=np.complex128)
    pairs.real, pairs.imag = top, bottom
    kinds, counts = np.unique(pairs, return_counts=True)
    if len(kinds) * 2 > len(top):
        return _by_cluster(pairs, rng, draws)
    weights = rng.multinomial(len(top), counts / len(top), size=draws)
    return np.asarray((weights @ kinds.real) / (weights @ kinds.imag))


def _by_cluster(pairs: npt.NDArray[np.complex128], rng: np.random.Generator, draws: int) -> Floats:
    """Resample clusters that are nearly all of their own kind, in bounded memory.

    A sum and its size travel as one complex number: one gather in place of two.
    """
    clusters = len(pairs)
    chunk = max(1, CACHED // clusters)
    means = np.empty(draws)
    for start in range(0, draws, chunk):
        chosen = rng.integers(0, clusters, (min(chunk, draws - start), clusters))
        totals = pairs.take(chosen).sum(axis=1)
        means[start : start + len(chosen)] = totals.real / totals.imag
    return means
