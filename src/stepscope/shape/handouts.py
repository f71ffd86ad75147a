"""Is any difference in shares chance? Runs handed to the two fleets anew, the largest shape judged.

Under "both fleets are alike" a cluster that is in one fleet could as well have been in the other,
and within a cluster that is in both the runs could have been handed out otherwise. Each hand-out is
refitted by one Newton step from the shares of all runs together (`mixture.influence`), which makes
it a mean of one vector a run. The most extreme shape of each hand-out is what a shape must exceed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepscope.shape.mixture import cluster_sums, fit, influence, interior, likelihood
from stepscope.stats.clusters import Floats, Ints

# Runs (or clusters, where they move whole) handed out in all draws together; beyond, the largest of
# correlated normal deviates stands in for the hand-outs.
WORK = 20_000_000
NORMAL_DRAWS = 20_000
# Numbers held at one time: 16 MB.
HELD = 2_000_000
# Statistics closer than this, or than this share, are the same.
TIE = 1e-6
# Added to a standard error, the largest pull being 1: two fleets without any spread differ
# then by very much, not by nothing.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Runs of both fleets, laid end to end.

    Attributes:
        pull: shape (shapes, m), what each run adds to the shares.
        cluster: shape (m,), dense numbers; a cluster may be in both fleets.
        second: shape (m,), whether the run is of the second fleet.
    """

    pull: Floats
    cluster: Ints
    second: np.typing.NDArray[np.bool_]

    def counts(self) -> tuple[Floats, Floats]:
        """Runs of each cluster in the first and in the second fleet."""
        k = int(self.cluster.max()) + 1
        second = np.bincount(self.cluster[self.second], minlength=k)
        return (np.bincount(self.cluster, minlength=k) - second).astype(float), second.astype(float)


def refitted(log_likelihood: Floats, cluster: Ints, *, first: int) -> Rows:
    """Return what each run adds to the shares, from a fit of both fleets together.

    Args:
        log_likelihood: shape (m, shapes), the `first` runs of the first fleet, then the second's.
        cluster: shape (m,), dense numbers.
        first: runs of the first fleet.
    """
    rows = likelihood(log_likelihood)
    m = len(log_likelihood)
    pull = influence(rows, interior(fit(rows), m))
    return Rows(pull, cluster, np.arange(m) >= first)


def largest_p(rows: Rows, *, rng: np.random.Generator, draws: int) -> tuple[Floats, str]:
    """P of each shape, adjusted for all shapes being looked at, and how it came.

    Where no cluster is in both fleets the difference is divided by its standard error anew in each
    hand-out, so that fleets of unequal noise and size do not raise alarms; else by its standard
    deviation over all hand-outs.

    Source:
        Westfall and Young (1993), Resampling-Based Multiple Testing, section 2.3 (single step);
        Janssen (1997), Statistics and Probability Letters 36:9-21, for the studentised permutation;
        Phipson and Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9, for (1 + hits)/(1 + draws).
    """
    rows = replace(rows, pull=rows.pull / (np.abs(rows.pull).max() or 1.0))
    first, second = rows.counts()
    crossed = bool(((first > 0) & (second > 0)).any())
    covariance = _covariance(rows) if crossed else None
    seen = _seen(rows, covariance)
    moved = len(first) if not crossed else len(rows.cluster)
    if moved * draws > WORK:
        spread = _residuals(rows) if covariance is None else covariance
        null, method = _normal(spread, rng), "normal"
    else:
        null = np.concatenate([part.max(0) for part in _drawn(rows, covariance, rng, draws)])
        method = "permutation drawn"
    hits = (null[None, :] >= seen[:, None] * (1 - TIE) - TIE).sum(1)
    return np.asarray((1 + hits) / (1 + len(null))), f"{method}, largest of {len(seen)}"


def _seen(rows: Rows, covariance: Floats | None) -> Floats:
    k = int(rows.cluster.max()) + 1
    first, second = rows.counts()
    total = cluster_sums(rows.pull, rows.cluster, k)
    part = cluster_sums(rows.pull[:, rows.second], rows.cluster[rows.second], k)
    parts = (total - part)[:, None], part[:, None]
    return _statistic(parts, (first[None], second[None]), covariance)[:, 0]


def _statistic(
    sums: tuple[Floats, Floats], sizes: tuple[Floats, Floats], covariance: Floats | None
) -> Floats:
    """Absolute difference of the means over its error, shape (shapes, draws).

    Args:
        sums: of the first and second fleet, each of shape (shapes, draws, clusters).
        sizes: likewise, of shape (draws, clusters).
        covariance: shape (shapes, shapes), of the difference over hand-outs; None studentises.
    """
    counts = [size.sum(-1) for size in sizes]
    means = [part.sum(-1) / count for part, count in zip(sums, counts, strict=True)]
    if covariance is None:
        residual = np.zeros(1)
        for part, size, mean, count in zip(sums, sizes, means, counts, strict=True):
            residual = (part - mean[..., None] * size) / count[..., None] - residual
        variance = (residual**2).sum(-1)
    else:
        variance = np.broadcast_to(np.diag(covariance)[:, None], means[0].shape)
    apart = np.abs(means[1] - means[0])
    return np.asarray(apart / (np.sqrt(variance) + ROUNDING))


def _drawn(
    rows: Rows, covariance: Floats | None, rng: np.random.Generator, draws: int
) -> list[Floats]:
    """Statistics of random hand-outs, in parts of shape (shapes, some draws)."""
    first, second = rows.counts()
    both = (first > 0) & (second > 0)
    inside = both[rows.cluster]
    total = cluster_sums(rows.pull, rows.cluster, len(first))[:, ~both]
    size, given = (first + second)[~both], int((second[~both] > 0).sum())
    chunk = max(1, HELD // (len(rows.pull) * (len(size) + int(inside.sum()))))
    found = []
    for start in range(0, draws, chunk):
        k = min(chunk, draws - start)
        mine = _whole(rng, k, len(size), given)
        parts = total[:, None] * mine
        sums, sizes = [total[:, None] - parts, parts], [size * ~mine, size * mine]
        if both.any():
            within = _within(rows.pull[:, inside], rows.cluster[inside], first[both], k, rng)
            sums = [np.concatenate(pair, -1) for pair in zip(sums, within, strict=True)]
            fixed = (np.broadcast_to(n[both], (k, int(both.sum()))) for n in (first, second))
            sizes = [np.concatenate(pair, -1) for pair in zip(sizes, fixed, strict=True)]
        found.append(_statistic((sums[0], sums[1]), (sizes[0], sizes[1]), covariance))
    return found


def _whole(
    rng: np.random.Generator, draws: int, clusters: int, given: int
) -> np.typing.NDArray[np.bool_]:
    """Choose which clusters go to the second fleet: shape (draws, clusters), `given` a draw."""
    chosen = np.zeros((draws, clusters), dtype=bool)
    if 0 < given < clusters:
        order = np.argpartition(rng.random((draws, clusters)), given - 1, axis=1)[:, :given]
        np.put_along_axis(chosen, order, True, axis=1)
    elif given:
        chosen[:] = True
    return chosen


def _within(
    pull: Floats, cluster: Ints, first: Floats, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Hand out the runs of each shared cluster anew: sums of both fleets by cluster.

    Args:
        pull: shape (shapes, r), runs of shared clusters.
        cluster: shape (r,), their clusters.
        first: shape (shared,), runs of each that stay with the first fleet, in order of `cluster`.
        draws: hand-outs.
        rng: the source of the draws.
    """
    number = np.unique(cluster, return_inverse=True)[1]
    ends = np.cumsum(np.bincount(number))
    starts = np.concatenate([[0], ends[:-1]])
    order = np.argsort(number + rng.random((draws, len(number))), axis=1)
    edges = np.stack([starts, starts + first.astype(int)], axis=1).ravel()
    both = np.add.reduceat(pull[:, order], edges, axis=-1)
    return both[..., 0::2], both[..., 1::2]


def _residuals(rows: Rows) -> Floats:
    """Covariance of the difference by cluster, for fleets without a cluster in common."""
    k = int(rows.cluster.max()) + 1
    first, second = rows.counts()
    total = cluster_sums(rows.pull, rows.cluster, k)
    of_second = second > 0
    residual = np.empty_like(total)
    for mine, size in ((~of_second, first), (of_second, second)):
        mean = total[:, mine].sum(1, keepdims=True) / size.sum()
        residual[:, mine] = (total[:, mine] - mean * size[mine]) / size.sum()
    return np.asarray(residual @ residual.T)


def _covariance(rows: Rows) -> Floats:
    """Exact covariance of the difference over hand-outs within clusters, and of whole ones.

    For whole clusters of unequal size it is that of their sums about the common mean.
    """
    first, second = rows.counts()
    k, size = len(first), first + second
    total = cluster_sums(rows.pull, rows.cluster, k)
    both = (first > 0) & (second > 0)
    inside = both[rows.cluster]
    centred = rows.pull[:, inside] - (total / size)[:, rows.cluster[inside]]
    share = (first * second / (size * np.maximum(size - 1, 1)))[rows.cluster[inside]]
    covariance = (centred * share) @ centred.T
    alone = ~both
    if alone.sum() > 1:
        given = float((second[alone] > 0).sum())
        mean = rows.pull.mean(1, keepdims=True)
        apart = total[:, alone] - mean * size[alone]
        apart = apart - apart.mean(1, keepdims=True)
        n = float(alone.sum())
        covariance = covariance + given * (n - given) / (n * (n - 1)) * (apart @ apart.T)
    return np.asarray(covariance * (1 / first.sum() + 1 / second.sum()) ** 2)


def _normal(covariance: Floats, rng: np.random.Generator) -> Floats:
    """Draw the largest of normal deviates correlated as the differences are."""
    values, vectors = np.linalg.eigh(covariance)
    deviates = (
        vectors * np.sqrt(np.maximum(values, 0.0)) @ rng.normal(size=(len(values), NORMAL_DRAWS))
    )
    spread = np.sqrt(np.diag(covariance))[:, None]
    scaled = np.divide(deviates, spread, out=np.zeros_like(deviates), where=spread > 0)
    return np.asarray(np.abs(scaled).max(0), np.float64)
