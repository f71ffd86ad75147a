"""Shares of shapes from the likelihoods of runs: the arithmetic behind `fleet`.

A run is never counted as one shape. Each carries the likelihood of its scores under every shape,
and the shares are those under which all runs together are most likely. Arrays here are laid out
(..., shapes, runs): one row a shape, so that every product streams through memory. Refuses nothing:
`fleet` checks what comes in.
"""

from __future__ import annotations

import numpy as np

from stepscope.stats.sample import Floats, Ints

# EM stops when the log likelihood of all runs together is within this of its maximum.
SLACK = 0.01
MOST_STEPS = 5_000
# Runs that a shape is believed to have before any is seen, and, shape by shape, its opposite.
PRIOR = 0.5


def scale_likelihood(log_likelihood: Floats) -> Floats:
    """Turn log likelihoods of shape (m, shapes) into likelihoods (shapes, m), the largest 1."""
    return np.ascontiguousarray(np.exp(log_likelihood - log_likelihood.max(1, keepdims=True)).T)


def fit_shares(rows: Floats) -> Floats:
    """Return the most likely shares, shape (shapes,), under likelihoods of shape (shapes, m).

    The likelihood is concave in the shares; with g the mean of L / mixture, the maximum is at most
    m * (max(g) - 1) above what has been reached, which is when to stop.

    Source: Dempster, Laird and Rubin (1977), JRSS B 39:1-38, section 4.3.

    >>> fit_shares(np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])).tolist()
    [0.75, 0.25]
    """
    shapes, m = rows.shape
    shares = np.full(shapes, 1 / shapes)
    for _ in range(MOST_STEPS):
        gain = rows @ (1 / (shares @ rows)) / m
        if m * (gain.max() - 1) < SLACK:
            break
        shares = shares * gain
    return np.asarray(shares / shares.sum())


def sample_counts(
    rows: Floats,  # shape (..., shapes, m); leading axes are chains or samples, and broadcast
    start: Floats,  # shape (..., shapes), shares to begin with
    *,
    keep: int,  # draws kept of each chain
    burn: int,  # draws thrown away first
    rng: np.random.Generator,  # the source of the draws
    prior: float = PRIOR,  # runs that each shape is believed to have before any is seen
) -> Ints:
    """Draw how many runs have each shape, from their posterior: shape (keep, ..., shapes).

    Source: Diebolt and Robert (1994), JRSS B 56:363-375.
    """
    # Single precision: a run is dealt to the wrong shape once in ten million, in half the time.
    light, shares, m = rows.astype(np.float32), start, rows.shape[-1]
    kept = np.empty((keep, *start.shape), dtype=np.int64)
    for sweep in range(burn + keep):
        mass = light * shares.astype(np.float32)[..., None]
        for shape in range(1, mass.shape[-2]):
            mass[..., shape, :] += mass[..., shape - 1, :]
        thrown = rng.random((*mass.shape[:-2], 1, m), dtype=np.float32) * mass[..., -1:, :]
        above = np.count_nonzero(thrown > mass[..., :-1, :], axis=-1)
        edges = np.concatenate(
            [np.full((*above.shape[:-1], 1), m), above, np.zeros((*above.shape[:-1], 1), int)], -1
        )
        counts = -np.diff(edges, axis=-1)
        drawn = rng.standard_gamma(prior + counts)
        shares = drawn / drawn.sum(-1, keepdims=True)
        if sweep >= burn:
            kept[sweep - burn] = counts
    return kept


def share_draws(counts: Ints, rng: np.random.Generator) -> Floats:
    """Draw each shape's share given how many runs have it: Jeffreys against all the others.

    A Dirichlet would hand the largest of five shares four times the doubt of the smallest: where
    nearly all runs are healthy, the interval of "healthy" would then miss half of the time.

    Source: Brown, Cai and DasGupta (2001), Statistical Science 16:101-133, section 4.1.2.
    """
    return np.asarray(rng.beta(counts + PRIOR, counts.sum(-1, keepdims=True) - counts + PRIOR))


def influence(rows: Floats, shares: Floats) -> Floats:
    """How far each run pulls the shares: one Newton step from `shares`, shape (shapes, m).

    The means of two groups of runs differ by what refits to the groups would differ by, up to terms
    of second order. One run a shape is added to the information, so that a shape that nobody has
    keeps a finite pull. All shares are positive.

    Source: van der Vaart (1998), Asymptotic Statistics, section 5.7 (one-step estimators).
    """
    m = rows.shape[1]
    scores = rows / (shares @ rows)
    information = scores @ scores.T / m + np.diag(1 / (m * shares**2))
    return np.asarray(np.linalg.solve(information, scores))


def move_inside(shares: Floats, m: int) -> Floats:
    """Shares moved off the edge by one run a shape."""
    return np.asarray((m * shares + 1) / (m + len(shares)))


def sum_shapes_by_cluster(values: Floats, cluster: Ints, clusters: int) -> Floats:
    """Sum values of shape (shapes, m) by cluster: shape (shapes, clusters)."""
    return np.array([np.bincount(cluster, weights=row, minlength=clusters) for row in values])


def design_effect(pull: Floats, cluster: Ints) -> float:
    """How much larger the variance of the shares is for runs coming in clusters; at least 1.

    `pull`, shape (shapes, m), is that of `influence`; `cluster`, shape (m,), has dense numbers.

    Source: Kish (1965), Survey Sampling, section 8.2; variances by cluster as in `stats.intervals`.
    """
    clusters = int(cluster.max()) + 1
    centred = pull - pull.mean(1, keepdims=True)
    single = float((centred**2).sum())
    if single <= 0:
        return 1.0
    together = float((sum_shapes_by_cluster(centred, cluster, clusters) ** 2).sum())
    return max(1.0, together / single * clusters / (clusters - 1))
