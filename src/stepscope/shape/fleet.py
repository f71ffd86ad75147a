"""Which shapes the runs of a fleet have, and whether two fleets differ.

Never by counting labels: a classifier that mistakes 5 % of healthy runs for recoveries finds 5 % of
recoveries where there are none. Each run carries the likelihood of its scores under every shape,
and the shares are those under which all runs together are most likely
(docs/explanation/fleet-shapes.md). Runs that could not be classified count as unmeasured. The p
value of a difference permutes clusters between the fleets, and runs within clusters that both have;
each permutation is refitted by one Newton step, and the most extreme shape is what a shape must
exceed. Likelihoods are laid out (..., shapes, runs), so that every product streams through memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.shape.classifier import classify_ragged
from stepscope.shape.inputs import check_lengths, notice_quantum
from stepscope.shape.types import SHAPES, ShapeBatch, ShapeName
from stepscope.stats import sample
from stepscope.stats.intervals import normal_quantile, student_quantile
from stepscope.stats.sample import Bools, EstimateFrame, Floats, Ints
from stepscope.values import Estimate, Unmeasured

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


# Runs (or clusters, where they move whole) handed out in all draws together; of large fleets fewer
# draws are made, but so many that p below .05 is told.
WORK, FEWEST_DRAWS = 20_000_000, 199
# Numbers held at one time: 16 MB.
HELD = 2_000_000
# Statistics closer than this, or than this share, are the same.
TIE = 1e-6
# Added to a standard error, the largest pull being 1: two fleets without any spread differ
# then by very much, not by nothing.
ROUNDING = 1e-9


def pull_on_shares(log_likelihood: Floats) -> Floats:
    """Return what each run adds to the shares, (shapes, m), from a fit of all (m, shapes) runs."""
    rows = scale_likelihood(log_likelihood)
    return influence(rows, move_inside(fit_shares(rows), len(log_likelihood)))


def largest_p(
    pull: Floats,  # shape (shapes, m), what each run adds to the shares, both fleets end to end
    cluster: Ints,  # shape (m,), dense numbers; a cluster may be in both fleets
    second: Bools,  # shape (m,), whether the run is of the second fleet
    *,
    rng: np.random.Generator,
    draws: int,
) -> tuple[Floats, str]:
    """P of each shape, adjusted for all shapes being looked at, and how it came.

    Where no cluster is in both fleets the difference is divided by its standard error anew in each
    hand-out, so that fleets of unequal noise and size do not raise alarms; else by its standard
    deviation over all hand-outs.

    Source: Westfall and Young (1993), Resampling-Based Multiple Testing, section 2.3 (single step);
    Janssen (1997), Statistics and Probability Letters 36:9-21, for the studentised permutation;
    Phipson and Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9, for (1 + hits)/(1 + draws).
    """
    pull = pull / (np.abs(pull).max() or 1.0)
    # Runs of each cluster in the first and in the second fleet.
    k = int(cluster.max()) + 1
    of_second = np.bincount(cluster[second], minlength=k)
    sizes = (np.bincount(cluster, minlength=k) - of_second).astype(float), of_second.astype(float)
    crossed = bool(((sizes[0] > 0) & (sizes[1] > 0)).any())
    covariance = _covariance(pull, cluster, sizes) if crossed else None
    total = sum_shapes_by_cluster(pull, cluster, k)
    part = sum_shapes_by_cluster(pull[:, second], cluster[second], k)
    parts = (total - part)[:, None], part[:, None]
    seen = _statistic(parts, (sizes[0][None], sizes[1][None]), covariance)[:, 0]
    draws = min(draws, max(FEWEST_DRAWS, WORK // (len(cluster) if crossed else k)))
    permuted = _permuted_statistics(pull, cluster, sizes, covariance, rng, draws)
    null = np.concatenate([found.max(0) for found in permuted])
    hits = (null[None, :] >= seen[:, None] * (1 - TIE) - TIE).sum(1)
    method = f"permutation drawn, largest of {len(seen)}"
    return np.asarray((1 + hits) / (1 + len(null))), method


def _statistic(
    sums: tuple[Floats, Floats], sizes: tuple[Floats, Floats], covariance: Floats | None
) -> Floats:
    """Absolute difference of the means over its error, shape (shapes, draws).

    Sums of each fleet have shape (shapes, draws, clusters), sizes (draws, clusters). The covariance
    (shapes, shapes) is of the difference over hand-outs; None studentises.
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
    return np.asarray(np.abs(means[1] - means[0]) / (np.sqrt(variance) + ROUNDING))


def _permuted_statistics(
    pull: Floats,
    cluster: Ints,
    of_fleets: tuple[Floats, Floats],
    covariance: Floats | None,
    rng: np.random.Generator,
    draws: int,
) -> list[Floats]:
    """Statistics of random hand-outs, in parts of shape (shapes, some draws)."""
    first, second = of_fleets
    both = (first > 0) & (second > 0)
    inside = both[cluster]
    total = sum_shapes_by_cluster(pull, cluster, len(first))[:, ~both]
    size, given = (first + second)[~both], int((second[~both] > 0).sum())
    chunk = max(1, HELD // (len(pull) * (len(size) + int(inside.sum()))))
    found = []
    for start in range(0, draws, chunk):
        k = min(chunk, draws - start)
        clusters = len(size)
        mine = np.zeros((k, clusters), dtype=bool)
        if 0 < given < clusters:
            order = np.argpartition(rng.random((k, clusters)), given - 1, axis=1)[:, :given]
            np.put_along_axis(mine, order, True, axis=1)
        elif given:
            mine[:] = True
        parts = total[:, None] * mine
        sums, sizes = [total[:, None] - parts, parts], [size * ~mine, size * mine]
        if both.any():
            within = _draw_within_clusters(pull[:, inside], cluster[inside], first[both], k, rng)
            sums = [np.concatenate(pair, -1) for pair in zip(sums, within, strict=True)]
            fixed = (np.broadcast_to(n[both], (k, int(both.sum()))) for n in (first, second))
            sizes = [np.concatenate(pair, -1) for pair in zip(sizes, fixed, strict=True)]
        found.append(_statistic((sums[0], sums[1]), (sizes[0], sizes[1]), covariance))
    return found


def _draw_within_clusters(
    pull: Floats, cluster: Ints, first: Floats, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Hand out the runs of each shared cluster anew: sums of both fleets by cluster.

    `pull` (shapes, r) and `cluster` (r,) are of runs of shared clusters, and `first` says how many
    runs of each stay with the first fleet, in the order of `cluster`.
    """
    number = np.unique(cluster, return_inverse=True)[1]
    starts = np.concatenate([[0], np.cumsum(np.bincount(number))[:-1]])
    order = np.argsort(number + rng.random((draws, len(number))), axis=1)
    edges = np.stack([starts, starts + first.astype(int)], axis=1).ravel()
    both = np.add.reduceat(pull[:, order], edges, axis=-1)
    return both[..., 0::2], both[..., 1::2]


def _covariance(pull: Floats, cluster: Ints, sizes: tuple[Floats, Floats]) -> Floats:
    """Exact covariance of the difference over hand-outs within clusters, and of whole ones.

    For whole clusters of unequal size it is that of their sums about the common mean.
    """
    first, second = sizes
    k, size = len(first), first + second
    total = sum_shapes_by_cluster(pull, cluster, k)
    both = (first > 0) & (second > 0)
    inside = both[cluster]
    centred = pull[:, inside] - (total / size)[:, cluster[inside]]
    share = (first * second / (size * np.maximum(size - 1, 1)))[cluster[inside]]
    covariance = (centred * share) @ centred.T
    alone = ~both
    if alone.sum() > 1:
        given = float((second[alone] > 0).sum())
        apart = total[:, alone] - pull.mean(1, keepdims=True) * size[alone]
        apart = apart - apart.mean(1, keepdims=True)
        n = float(alone.sum())
        covariance = covariance + given * (n - given) / (n * (n - 1)) * (apart @ apart.T)
    return np.asarray(covariance * (1 / first.sum() + 1 / second.sum()) ** 2)


# Draws kept of the posterior in all chains together, and thrown away at the start of each. Of large
# fleets fewer are kept: there all quantiles lie close to the point.
KEPT, KEPT_OF_MANY = 2_000, 200
KEPT_RUNS = 20_000_000
BURN = 50
# Runs of all chains together in one sweep.
SWEEP = 60_000
# Hand-outs of runs to the two fleets.
HAND_OUTS = 1_999
ALPHA = 0.05

Shares = dict[ShapeName, Estimate]
Fit = tuple[Floats, Floats]  # the most likely shares, and draws about them


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetComparison:
    """The shapes of two fleets side by side."""

    first: Shares  # shares of the first fleet
    second: Shares  # shares of the second
    difference: Shares  # second minus first; each interval is about that shape alone
    # chance of a difference as large in any of the five shapes between fleets that are alike
    p: dict[ShapeName, float]
    method: str  # how p came

    def risen(self, alpha: float = ALPHA) -> tuple[ShapeName, ...]:
        """Shapes that the second fleet has more of: what to add to the first, were it a suite."""
        return tuple(s for s in SHAPES if self.p[s] <= alpha and self.difference[s].value > 0)

    def fallen(self, alpha: float = ALPHA) -> tuple[ShapeName, ...]:
        """Shapes that the second fleet has less of."""
        return tuple(s for s in SHAPES if self.p[s] <= alpha and self.difference[s].value < 0)


# What templates get wrong of curves that are not theirs, in standard deviations of one run's share:
# its least, and its growth with the noise over the root of the scores. Root mean squares over five
# generators, 5 to 20 steps, noise .05 to .11 (docs/design/fleets.md).
LEAST_ERROR, ERROR_BY_NOISE = 0.05, 2.5
# Shares below this are known no better than at it.
RARE = 0.03
# Noise that nobody knows: where shares are looked at beside its average.
UNKNOWN = (0.05, 0.12)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEvidence:
    """What the scores of a fleet say of its runs; rows are those of the batch."""

    batch: ShapeBatch  # the runs one by one, under the upper limit of sigma
    # shape (k, 3, 5), log evidence under sigma, and one standard error of it below and above
    log_likelihood: Floats
    error: Floats  # shape (k,), the model's, see `prevalence`


def weigh_fleet(
    values: ArrayLike,
    lengths: ArrayLike,
    *,
    sigma: Estimate | float | None = None,
    repeats: ArrayLike = 1,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> FleetEvidence:
    """Classify the runs of a fleet, and weigh them for its shares.

    `sigma` is the noise of one scoring, with its interval where it was measured or learned: labels
    take the upper limit; shares the value, and what its error does to them. `repeats` are the
    scorings averaged in each value, one number or one a run. All else is as for `classify_ragged`.

    >>> found = weigh_fleet([0.9] * 5 + [0.9, 0.9, 0.4, 0.4, 0.4], [5, 5], sigma=0.05)
    >>> found.batch.label.tolist(), found.log_likelihood.shape, found.error.round(3).tolist()
    ([0, 1], (2, 3, 5), [0.065, 0.065])
    """
    flat, counts = check_lengths(np.asarray(values, np.float64), np.asarray(lengths))
    root = np.sqrt(np.broadcast_to(np.asarray(repeats, np.float64), counts.shape))
    if quantum is None:
        quantum = notice_quantum(flat, round(root.min(initial=np.inf) ** 2) if len(root) else 1)
    seen: dict[float | None, ShapeBatch] = {}

    def under(noise: float | None) -> ShapeBatch:
        if noise not in seen:
            own = None if noise is None else np.repeat(np.minimum(noise / root, 1.0), counts)
            seen[noise] = classify_ragged(
                flat, counts, sigma=own, quantum=quantum, correlation=correlation
            )
        return seen[noise]

    value = most = sigma.value if isinstance(sigma, Estimate) else sigma
    around: tuple[float | None, ...] = UNKNOWN if value is None else (value, value)
    if isinstance(sigma, Estimate) and sigma.low and sigma.high:
        most = sigma.high
        error = (most / sigma.low) ** (0.5 / normal_quantile(sigma.level))
        around = (sigma.value / error, sigma.value * error)
    batch, point = under(most), under(value)
    run = np.repeat(np.arange(len(counts)), counts)
    scored = np.bincount(run[~np.isnan(flat)], minlength=len(counts))[batch.rows]
    noise = np.hypot(point.sigma, (quantum or 0.0) / 12**0.5)
    evidence = np.stack([under(x).log_likelihood for x in (value, *around)], axis=1)
    errors = np.maximum(LEAST_ERROR, ERROR_BY_NOISE * noise / np.sqrt(scored))
    return FleetEvidence(batch=batch, log_likelihood=evidence, error=errors)


def prevalence(
    log_likelihood: ArrayLike,
    *,
    rng: np.random.Generator,
    error: float = 0.0,
    clusters: ArrayLike | None = None,
    unmeasured: Mapping[str, int] | None = None,
    level: float = 0.95,
    draws: int = KEPT,
) -> Shares | Unmeasured:
    """Share of each shape among the runs of a fleet.

    The most likely ones, summing to 1, with intervals from their posterior under Jeffreys' prior.
    `log_likelihood` has shape (m, 5), up to a constant of the run, as `classify_many` gives it,
    -inf where a shape is impossible; or (m, 3, 5), as `weigh_fleet` does: limits then hold the
    error of sigma. `error` is the model's, in standard deviations of one run's share, the mean of
    `weigh_fleet`'s; `clusters`, (m,), tasks or users, by whose design effect intervals widen. Of
    more than 10,000 runs fewer `draws` are taken. `Unmeasured` without runs, with one run or
    cluster, and when a run has no likelihood.

    Source: Dempster, Laird and Rubin (1977), JRSS B 39:1-38; Diebolt and Robert (1994), JRSS B
    56:363-375, with Jeffreys' limits given the counts; design effect: Kish (1965), with t at
    clusters - 1. The errors of sigma and of the model are added in quadrature.

    >>> runs = np.log([[0.8, 0.05, 0.05, 0.05, 0.05]] * 15 + [[0.1, 0.6, 0.1, 0.1, 0.1]] * 5)
    >>> found = prevalence(runs, rng=np.random.default_rng(0))
    >>> round(found["healthy"].value, 2), round(found["healthy"].low, 1)
    (0.88, 0.6)
    """
    runs, around = _runs(log_likelihood)
    frame = EstimateFrame(level=level, unmeasured=unmeasured, scale=(0.0, 1.0))
    cluster = _numbers(clusters, len(runs))
    if (absent := _find_fleet_absence(runs, cluster, frame)) is not None:
        return absent
    shares, drawn = _fit_draws(runs, cluster, level, rng=rng, draws=draws)
    held = np.clip(shares, RARE, 1 - RARE)
    margin = np.hypot(_shift(around), error * np.sqrt(held * (1 - held)))
    return _estimates(shares, drawn, margin, cluster=cluster, frame=frame)


def compare_fleets(
    first: ArrayLike,
    second: ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: tuple[ArrayLike, ArrayLike] | None = None,
    unmeasured: tuple[Mapping[str, int], Mapping[str, int]] | None = None,
    level: float = 0.95,
    draws: int = HAND_OUTS,
) -> FleetComparison | Unmeasured:
    """Compare two fleets: the shares of their shapes, and which of them differ.

    Evidence of the runs is as that of `prevalence`, `draws` are hand-outs of runs to the fleets. A
    label in the `clusters` of both is the same task or user, whose runs are then handed out anew
    within it, while clusters of one fleet move whole. p is adjusted for looking at five shapes: at
    most `alpha` of comparisons between fleets that are alike have any p at or below `alpha`.
    `Unmeasured` when one of the fleets is.

    Source: permutation of whole clusters, or within them, with the most extreme shape of each
    hand-out: see `largest_p`.

    >>> good, bad = [[0.0, -9, -9, -9, -9]] * 12, [[-9.0, 0, -9, -9, -9]] * 12
    >>> compare_fleets(good, good[:6] + bad[:6], rng=np.random.default_rng(0)).risen()
    ('early_collapse',)
    """
    (a, a_around), (b, b_around) = _runs(first), _runs(second)
    both, shifts = (a, b), (_shift(a_around), _shift(b_around))
    given: tuple[ArrayLike | None, ArrayLike | None] = clusters or (None, None)
    numbers = [_numbers(side, len(runs)) for side, runs in zip(given, both, strict=True)]
    frames = [
        EstimateFrame(level=level, unmeasured=lost, scale=(0.0, 1.0))
        for lost in unmeasured or ({}, {})
    ]
    for side in zip(both, numbers, frames, strict=True):
        if (absent := _find_fleet_absence(*side)) is not None:
            return absent
    fits = [_fit_draws(*one, level, rng=rng, draws=KEPT) for one in zip(both, numbers, strict=True)]
    shares = [
        _estimates(*fit, np.abs(shift), cluster=cluster, frame=frame)
        for fit, shift, cluster, frame in zip(fits, shifts, numbers, frames, strict=True)
    ]
    joined = np.concatenate(both)
    # The clusters of both fleets, numbered alike.
    sides = None if clusters is None else [np.asarray(c, dtype=object).tolist() for c in clusters]
    shared = np.arange(len(joined)) if sides is None else sample.codes(sides[0] + sides[1])
    of_second = np.arange(len(joined)) >= len(both[0])
    p, method = largest_p(pull_on_shares(joined), shared, of_second, rng=rng, draws=draws)
    return FleetComparison(
        first=shares[0],
        second=shares[1],
        difference=_difference(fits, shifts[1] - shifts[0], frames, numbers),
        p=dict(zip(SHAPES, p.tolist(), strict=True)),
        method=method,
    )


def _runs(log_likelihood: ArrayLike) -> tuple[Floats, Floats | None]:
    """Return the evidence, (m, 5), and that under a lower and a higher sigma, (m, 2, 5)."""
    runs = np.asarray(log_likelihood, dtype=np.float64)
    if runs.size == 0:
        return np.empty((0, len(SHAPES))), None
    if runs.shape[1:] == (3, len(SHAPES)):
        return np.ascontiguousarray(runs[:, 0]), runs[:, 1:]
    if runs.ndim != 2 or runs.shape[1] != len(SHAPES):
        raise DataError(
            f"log likelihoods have shape {runs.shape}; expected (runs, {len(SHAPES)}), in the "
            f"order of SHAPES, or (runs, 3, {len(SHAPES)})"
        )
    return runs, None


def _shift(around: Floats | None) -> Floats:
    """Return what one standard error of sigma does to the shares, shape (shapes,)."""
    if around is None or not np.isfinite(around).all():
        return np.zeros(len(SHAPES))
    low, high = (fit_shares(scale_likelihood(around[:, side])) for side in (0, 1))
    return np.asarray((high - low) / 2)


def _widen(
    value: Floats, limits: tuple[Floats, Floats], margin: Floats, level: float
) -> tuple[Floats, Floats]:
    """Return limits with a standard error added to each in quadrature."""
    far = normal_quantile(level) * margin
    low, high = np.maximum(value - limits[0], 0.0), np.maximum(limits[1] - value, 0.0)
    return value - np.hypot(low, far), value + np.hypot(high, far)


def _numbers(clusters: ArrayLike | None, n: int) -> Ints:
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    labels = np.asarray(clusters, dtype=object)
    if labels.shape != (n,):
        raise DataError(f"clusters have shape {labels.shape}; expected ({n},), one a run")
    return sample.codes(labels.tolist())


def _find_fleet_absence(runs: Floats, cluster: Ints, frame: EstimateFrame) -> Unmeasured | None:
    """Return the absence that the runs call for; a run needs one likelihood above 0."""
    absent = sample.find_absence(runs.max(1, initial=-np.inf), frame)
    if absent is None and np.isnan(runs).any():
        absent = sample.find_absence(runs.sum(1), frame)
    why = sample.explain_no_spread(int(cluster.max(initial=-1)) + 1, len(runs), frame)
    return absent or (Unmeasured("insufficient_data", why) if why else None)


def _fit_draws(
    runs: Floats, cluster: Ints, level: float, *, rng: np.random.Generator, draws: int
) -> Fit:
    """Return the most likely shares, and draws of shape (draws, shapes) about them."""
    rows = scale_likelihood(runs)
    shares, m = fit_shares(rows), len(runs)
    chains = max(1, min(draws // BURN, SWEEP // m))
    keep = -(-min(draws, max(KEPT_OF_MANY, KEPT_RUNS // m)) // chains)
    start = np.tile(move_inside(shares, m), (chains, 1))
    counts = sample_counts(rows[None], start, keep=keep, burn=BURN, rng=rng)
    drawn = share_draws(counts.reshape(-1, len(SHAPES)), rng)
    clusters = int(cluster.max()) + 1
    if clusters == m:
        return shares, drawn
    wider = design_effect(influence(rows, move_inside(shares, m)), cluster) ** 0.5
    wider *= float(student_quantile(clusters - 1, level)) / normal_quantile(level)
    # Draws moved away from their middle by a factor, on the scale of log odds.
    tiny = np.finfo(np.float64).tiny
    odds = np.log(np.maximum(drawn, tiny)) - np.log(np.maximum(1 - drawn, tiny))
    middle = np.median(odds, axis=0)
    moved = np.clip(-middle - (odds - middle) * wider, -700, 700)
    return shares, np.asarray(1 / (1 + np.exp(moved)))


def _estimates(
    shares: Floats, drawn: Floats, margin: Floats, *, cluster: Ints, frame: EstimateFrame
) -> Shares:
    """Turn shares and draws into estimates; limits within one run of none or all are 0 or 1."""
    m, clusters = len(cluster), int(cluster.max()) + 1
    tail = (1 - frame.level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    low, high = np.where(low * m < 1, 0.0, low), np.where((1 - high) * m < 1, 1.0, high)
    low, high = np.clip(_widen(shares, (low, high), margin, frame.level), 0.0, 1.0)
    method = "em, gibbs" if clusters == m else "em, gibbs clustered"
    frame = replace(frame, n_tasks=clusters)
    return _by_shape([shares, low, high], method, m, frame)


def _difference(
    fits: list[Fit], margin: Floats, frames: list[EstimateFrame], numbers: list[Ints]
) -> Shares:
    """Second minus first; draws of the two are independent, so that any pairing will do."""
    (a, before), (b, after) = fits
    size = min(len(before), len(after))
    tail = (1 - frames[0].level) / 2
    limits = np.quantile(after[-size:] - before[-size:], [tail, 1 - tail], axis=0)
    low, high = _widen(b - a, (limits[0], limits[1]), margin, frames[0].level)
    lost = Counter(frames[0].unmeasured) + Counter(frames[1].unmeasured)
    tasks = sum(int(cluster.max()) + 1 for cluster in numbers)
    frame = EstimateFrame(level=frames[0].level, unmeasured=lost, n_tasks=tasks)
    return _by_shape([b - a, low, high], "em, gibbs", sum(map(len, numbers)), frame)


def _by_shape(limits: list[Floats], method: str, n: int, frame: EstimateFrame) -> Shares:
    """Return estimates from values and their limits, each with one entry a shape."""
    found: Shares = {}
    for name, row in zip(SHAPES, np.array(limits).T.tolist(), strict=True):
        estimate = sample.make_estimate(tuple(row), method=method, n=n, frame=frame)
        assert isinstance(estimate, Estimate)  # shares have nothing to refuse
        found[name] = estimate
    return found
