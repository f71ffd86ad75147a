"""Sums by cluster: what every clustered statistic needs of 600,000 runs, and nothing more.

A cluster is a task: trials of one task repeat each other more than runs of different tasks do. Rows
are read once (a dictionary pass and two bincounts); intervals and resampling see the sums only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Codes beyond this many times the rows are renumbered first, so that bincount stays small.
SPARSE_CODES = 4


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sums and sizes, one entry a cluster that has rows, both of shape (clusters,)."""

    sums: Floats
    sizes: Floats


def codes(labels: Iterable[object]) -> Ints:
    """Number labels 0, 1, 2, ... in the order of their first appearance.

    Args:
        labels: any hashable values, one a row; None is a label like any other.

    Returns:
        shape (n,), the number of each label.

    >>> codes(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    rows = list(labels)
    number = {label: i for i, label in enumerate(dict.fromkeys(rows))}
    return np.fromiter(map(number.__getitem__, rows), dtype=np.int64, count=len(rows))


def index(clusters: npt.ArrayLike | None, n: int) -> Ints:
    """Return a dense cluster number for each of `n` rows; None makes every row its own cluster.

    Raises:
        DataError: as many clusters as rows are expected, another number was found.
    """
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    given = np.asarray(clusters)
    if given.shape != (n,):
        raise DataError(f"clusters have shape {given.shape}; expected ({n},), one a value")
    if given.dtype.kind not in "iu":
        return codes(given.tolist())
    if n and (given.min() < 0 or given.max() >= SPARSE_CODES * n + 1):
        return np.unique(given, return_inverse=True)[1].astype(np.int64, copy=False)
    return given.astype(np.int64, copy=False)


def by_cluster(values: Floats, clusters: npt.ArrayLike | None) -> Clusters:
    """Sum values by cluster; clusters without rows are left out.

    Args:
        values: shape (n,), any unit.
        clusters: shape (n,), the task each value belongs to, or None for one value a task.

    >>> by_cluster(np.array([1.0, 0.0, 1.0]), [7, 7, 9]).sums.tolist()
    [1.0, 1.0]
    """
    if clusters is None:
        return Clusters(values, np.ones(len(values)))
    dense = index(clusters, len(values))
    sizes = np.bincount(dense).astype(np.float64)
    sums = np.bincount(dense, weights=values, minlength=len(sizes)).astype(np.float64, copy=False)
    return Clusters(sums[sizes > 0], sizes[sizes > 0])


def trials_per_task(successes: npt.ArrayLike, tasks: npt.ArrayLike) -> tuple[Ints, Ints]:
    """Count successes and trials of each task: what `pass_hat_k` takes.

    Args:
        successes: shape (n,), whether each run passed.
        tasks: shape (n,), the task of each run.

    Returns:
        successes and trials, both of shape (tasks,).

    >>> [x.tolist() for x in trials_per_task([True, False, True], ["a", "a", "b"])]
    [[1, 1], [2, 1]]
    """
    found = by_cluster(np.asarray(successes, dtype=np.float64), tasks)
    return found.sums.astype(np.int64), found.sizes.astype(np.int64)
